"""A hand at the page source: sends from a thread, as the view does."""

import math
import threading
import weakref

import msgpack
import zmq

from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.clock import Clock
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import DRIVE, drive_config

_PERIOD_S = 0.02


def open_page(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    """A page source that somebody drives for as long as it is open."""
    config = drive_config(f"daq.rate_hz={rate_hz}", f"source={{kind='page', buffer_blocks={buffer_scans}}}")
    clock = virtual_clock(read_ns=0)
    source = open_device(config, DRIVE, Host(clock=clock))
    endpoint, there = f"ipc://{config.socket('hand')}", weakref.ref(source)
    threading.Thread(target=_drive, args=(endpoint, there), daemon=True).start()
    return source, clock


def _drive(endpoint: str, there: "weakref.ref[Device]") -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.IMMEDIATE, 1)
        socket.connect(endpoint)
        turn, rest = 0, threading.Event()
        while there() is not None and turn < 500:
            message = {"steering": 90.0 * math.sin(0.1 * turn), "throttle": 0.3, "brake": 0.0}
            if socket.poll(0, zmq.POLLOUT):
                socket.send(msgpack.packb(message))
            turn += 1
            rest.wait(_PERIOD_S)
