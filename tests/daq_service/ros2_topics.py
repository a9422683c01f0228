"""A router of Zenoh, and somebody who publishes what the ros2 source listens to, by the types of ROS 2."""

import json
import math
import struct
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.clock import REAL, Clock
from sync.record.ros2_types import type_hash
from sync.transport import ros2
from tests.daq_service.conftest import DRIVE, drive_config
from tests.ports import free_port

TWIST = "geometry_msgs/msg/Twist"
TOPIC = ros2.Topic("/cmd", TWIST, type_hash(TWIST))
ROWS = {"steering": "angular.z", "throttle": "linear.x", "brake": "linear.y"}
_PERIOD_S = 0.02


def open_router() -> tuple[Any, str]:
    """And where it listens."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    return ros2.open_session(ros2.settings([], None, "router", [endpoint])), endpoint


def twist(x: float, y: float, turn: float) -> bytes:
    """In CDR."""
    return b"\0\1\0\0" + struct.pack("<6d", x, y, 0.0, 0.0, 0.0, turn)


def source_of(endpoint: str, buffer_scans: int = 50_000, silent_ms: float = 60_000.0) -> str:
    """The setting that chooses the source."""
    rows = {row: {"topic": "/cmd", "type": TWIST, "field": field} for row, field in ROWS.items()}
    topics = ", ".join(f"{row}={{" + ", ".join(f"{k}={json.dumps(v)}" for k, v in each.items()) + "}"
                       for row, each in rows.items())  # fmt: skip
    return (
        f"source={{kind='ros2', connect='{endpoint}', silent_ms={silent_ms}, buffer_blocks={buffer_scans},"
        f" topics={{{topics}}}}}"
    )


def open_ros2(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    """A source that somebody moves for as long as it is open."""
    router, endpoint = open_router()
    config = drive_config(f"daq.rate_hz={rate_hz}", source_of(endpoint, buffer_scans))
    source = open_device(config, DRIVE, Host())
    there = weakref.ref(source)
    threading.Thread(target=_publish, args=(router, endpoint, there), daemon=True).start()
    return source, REAL


def _publish(router: Any, endpoint: str, there: Callable[[], Device | None]) -> None:
    session = ros2.open_session(ros2.settings([endpoint], None))
    publisher = session.declare_publisher(TOPIC.key(0))
    turn, end = 0, time.monotonic() + 300.0
    while there() is not None and time.monotonic() < end:
        publisher.put(twist(0.3, 0.0, math.sin(0.1 * turn)), attachment=ros2.attachment(turn, 1, bytes(16)))
        turn += 1
        time.sleep(_PERIOD_S)
    session.close()
    router.close()
