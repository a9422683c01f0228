"""A running drive in ROS 2, with a subscriber that is Zenoh and rosbags alone: every step it gets is the record's, to
the bit; types, hashes and numbers are as they should be; and what the bridge costs the loop.

One drive, recorded all the while: without the bridge, with it and its subscriber, and without it again.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sync.clock import now_ns
from sync.record import open_run, ros2msg
from sync.transport import ros2 as over_zenoh
from tests.ports import free_port
from verify import ROOT
from verify.measure import NotHere, Row, at_least, equal, holds
from verify.others.beside import CONFIG, END_S, Span, cost, driving, ended, settings, slept

_SETTLE_S = 3.0


def ros2(*, seconds: Annotated[float, "with the bridge, and as long without"] = 30.0) -> Iterator[Row]:
    for package in ("zenoh", "rosbags"):
        if importlib.util.find_spec(package) is None:
            raise NotHere(f"{package} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        yield from _measure(seconds, Path(folder))


def _measure(seconds: float, folder: Path) -> Iterator[Row]:
    name = f"ros2_{os.getpid()}"
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    router = over_zenoh.open_session(over_zenoh.settings([], None, "router", [endpoint]))
    spans: dict[str, list[Span]] = {"without": [], "with": []}
    try:
        with driving(name, folder) as drive:
            time.sleep(_SETTLE_S)
            spans["without"].append(slept(seconds / 2))
            span, heard = _phase(name, seconds, endpoint, folder)
            spans["with"].append(span)
            time.sleep(_SETTLE_S)
            spans["without"].append(slept(seconds / 2))
            result = ended(drive)
    finally:
        router.close()
    steps = open_run(Path(result["record"]["file"])).topics["/step"]
    size = ros2msg.message_bytes(steps.layout)
    got = np.frombuffer((folder / "steps").read_bytes(), np.uint8).reshape(-1, size)
    recorded = {data: place for place, data in enumerate(ros2msg.to_messages(steps.layout, steps.words))}
    places = [recorded.get(row.tobytes(), -1) for row in got]
    yield at_least("steps that came", len(got), 0.9 * 200 * seconds)
    yield equal("of them, not those of the record to the bit", sum(place < 0 for place in places), 0)
    yield equal("steps between the first and the last that did not come", int((np.diff(places) != 1).sum()), 0)
    yield equal("types with another hash, or other bytes, than rosbags makes", len(heard["wrong"]), 0)
    yield equal("gaps in the numbers of all topics", sum(heard["gaps"].values()), 0)
    for topic, least in (("tf", 15), ("joint_states", 15), ("diagnostics", 0.8)):
        yield at_least(f"messages of /{topic} a second", heard["counts"].get(topic, 0) / seconds, least)
    kinds = [token.split("/")[5] for token in heard["tokens"]]
    yield holds("one node is alive, and a publisher for each topic", kinds.count("NN") == 1 and kinds.count("MP") >= 4)
    yield from cost(steps.blocks, spans, "the bridge")
    yield holds("the record is whole", result["record"]["whole"])


def _phase(name: str, seconds: float, endpoint: str, folder: Path) -> tuple[Span, dict[str, Any]]:
    words = [sys.executable, "-m", "tandem", "ros2", str(CONFIG), *settings(name), "--connect", endpoint, "--json"]
    listening = [sys.executable, "-m", "verify.others.ros2_listener", endpoint, str(folder / "steps")]
    listener = subprocess.Popen(listening, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    bridge = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert bridge.stderr is not None and listener.stdout is not None
        while "node in domain" not in (line := bridge.stderr.readline()):
            if not line:
                raise SystemExit("the bridge did not begin")
        listener.stdout.readline()
        time.sleep(_SETTLE_S)
        begun = now_ns()
        time.sleep(seconds)
        span = begun, now_ns()
        listener.send_signal(signal.SIGINT)
        heard = json.loads(listener.communicate(timeout=END_S)[0].splitlines()[-1])
        bridge.send_signal(signal.SIGINT)
        bridge.communicate(timeout=END_S)
    finally:
        for process in (listener, bridge):
            if process.poll() is None:
                process.kill()
                process.wait()
    return span, heard
