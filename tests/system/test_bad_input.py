"""All that can be wrong from outside: a clear error and an exit code, or a count; never a crash, never a hang."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from sync.config.config import load
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, RingWriter
from tests.ports import free_port
from tests.system.conftest import DRIVE, PATIENCE_S, Program, tandem, until

Start = Callable[..., Program]


@pytest.mark.parametrize(
    "setting, expected",
    [
        ("daq.rat_hz=1000", ["daq.rat_hz = 1000", "unknown key", "rate_hz"]),
        ('daq.rate_hz="fast"', ["daq.rate_hz = 'fast'", "valid number"]),
        ("daq.rate_hz=0", ["daq.rate_hz = 0", "greater than or equal to 0.1"]),
        ("inputs.steering.differentiator=11", ["inputs.steering.differentiator = 11", "less than or equal to 10"]),
        ("sim.step_ms=50", ["sim.step_ms = 50", "less than or equal to 20"]),
        ('sim.machine="vehicles/none.toml"', ["none.toml", "no such file", "buggy_single_track.toml"]),
        ('source.manoeuvre="manoeuvres/none.toml"', ["none.toml", "no such file", "town.toml"]),
        ('source.kind="crystal_ball"', ["source.kind = 'crystal_ball'", "virtual"]),
        ("source.sede=3", ["source.sede = 3", "unknown key", "seed"]),
        ('transport.daq_host="192.0.2.1"', ["192.0.2.1", "`tandem keys`"]),
    ],
)
def test_a_wrong_setting_is_named_before_anything_starts(setting: str, expected: list[str], tmp_path: Path) -> None:
    run = tandem("drive", str(DRIVE), "--seconds", "1", "--set", setting, "--runs", str(tmp_path / "runs"))
    assert run.code == 2
    for part in expected:
        assert part in run.said
    assert list(tmp_path.glob("runs/*")) == []


def test_a_wrong_setting_is_an_exit_code_and_a_line_for_the_shell(drive: Start) -> None:
    run = drive("--seconds", "1", "--set", "daq.rat_hz=1000")
    assert run.end() == 2
    assert run.said == f"tandem: {DRIVE}: daq.rat_hz = 1000: unknown key; did you mean rate_hz?"
    assert run.printed == ""


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    run = tandem("drive", str(tmp_path / "nowhere.toml"))
    assert run.code == 2
    assert "nowhere.toml" in run.said and "no such file" in run.said


@pytest.mark.parametrize("name", ["bugy", "x" * 400, "../../etc/passwd", "os.path", "é", "-"])
@pytest.mark.parametrize("key", ["sim.machine", "source.kind"])
def test_a_machine_or_a_device_that_is_none_is_refused_with_all_there_are(key: str, name: str) -> None:
    run = tandem("run", str(DRIVE), "--set", f"{key}={name!r}", "--seconds", "1")
    there = "buggy, single_track, swerve" if key == "sim.machine" else "virtual, waves, replay"
    assert run.code == 2 and f"{key} = {name!r}: must be one of {there}" in run.said.replace("\n", " ")


def test_only_what_a_machine_declares_as_an_effort_goes_back(start: Start, name: str, tmp_path: Path) -> None:
    machine = str(DRIVE.with_name("mass_spring.toml"))
    run = start(
        "tandem", "run", machine, "--set", f"name={name}", "--set", "source.effort.channel=position",
        "--runs", str(tmp_path / "runs"),
    )  # fmt: skip
    assert run.end() == 2, run.said
    assert "source.effort.channel = 'position': efforts of mass_spring: hand_force (N)" in run.said


def test_an_unknown_transport_is_refused() -> None:
    run = tandem("latency", "--transport", "pigeon")
    assert run.code == 2
    assert "pigeon" in run.said and "shm" in run.said


def test_a_busy_port_is_named_and_no_run_is_left(drive: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = ("--set", f"transport.daq_port={port}", "--set", f"transport.sim_port={free_port()}")
        run = drive("--transport", "tcp", "--seconds", "1", *ports)
        assert run.end() == 1
        assert f"127.0.0.1:{port}" in run.said and "in use" in run.said
    assert run.said.splitlines()[-1].startswith("tandem: the drive did not start: ")
    assert run.printed.strip() == ""  # no tables of nothing
    assert not list((tmp_path / "runs").iterdir())


def test_a_ring_of_another_layout_is_refused(start: Start, name: str) -> None:
    config = load(DRIVE, [f"name={name}", 'transport.kind="shm"'])
    other = RingWriter(config.ring("daq"), Layout((Channel("brake", "i4"),)), 16)
    sim = start("sim_service", str(DRIVE), "--set", f"name={name}", "--set", 'transport.kind="shm"')
    assert sim.end() == 1
    assert "same channels" in sim.said and "Traceback" not in sim.said
    other.close()


def test_foreign_messages_are_counted_and_ignored(start: Start, name: str) -> None:
    setting = f"name={name}"
    config = load(DRIVE, [setting])
    layout = config.daq.layout
    good = {"version": 1, "layout": layout.id, "epoch": 7, "t_ns": 0, "pushed_ns": 0, "sent_ns": 0}
    good |= {"brake": 0, "throttle": 0, "steering": 0}
    foreign = [
        msgpack.packb({**good, "version": 99, "seq": 0}),
        msgpack.packb({**good, "layout": "0" * 16, "seq": 0}),
    ]
    malformed = [
        b"",
        b"\xc1",
        b"not msgpack at all",
        msgpack.packb([1, 2, 3]),
        msgpack.packb({**good}),
        msgpack.packb({**good, "seq": "one"}),
        msgpack.packb({**good, "seq": 0, "brake": 1 << 40}),
        msgpack.packb({**good, "seq": 2**64 - 1}),
        bytes(60_000),  # beyond 64 KiB the connection is cut instead: tests/sync/transport/test_socket_guard.py
        np.random.default_rng(1).bytes(300),
    ]
    with zmq.Context() as context, context.socket(zmq.XPUB) as socket_:
        socket_.set(zmq.LINGER, 0)
        socket_.bind(config.endpoint("daq"))
        sim = start("sim_service", str(DRIVE), "--set", setting, "--supervised", stdin=subprocess.PIPE)
        assert sim.popen.stdin is not None
        sim.popen.stdin.write("{}\n")
        sim.popen.stdin.flush()
        assert socket_.poll(1e3 * PATIENCE_S), sim.said  # its subscription
        received = RingReader(config.ring("sim_in"), timeout_s=PATIENCE_S)

        def told(kind: str) -> dict[str, Any]:
            """The last of its lines of that kind."""
            lines = [found for line in list(sim.out) if (found := json.loads(line))["kind"] == kind]
            return lines[-1] if lines else {}

        def send_until(message: bytes, come: Callable[[], bool]) -> None:
            """Again and again: the receiver keeps only the newest, and libzmq may hold that back until the next."""
            until(lambda: socket_.send(message) or come(), lambda: f"{sim.printed}\n{sim.said}")

        until(lambda: told("status"), lambda: sim.said)
        for what, messages in (("foreign", foreign), ("malformed", malformed)):
            for message in messages:
                before = told("status")["received"]
                send_until(message, lambda: told("status")["received"][what] > before[what])  # noqa: B023
                after = told("status")["received"]
                others = {each for each in after if after[each] != before[each]} - {what}
                assert others <= {"foreign"}, (
                    message,
                    after,
                )  # the last of those before it may still have been on its way
        for seq in range(20):
            now = time.monotonic_ns()
            block = {**good, "seq": seq, "t_ns": now, "pushed_ns": now, "sent_ns": now, "remark": "from elsewhere"}
            send_until(msgpack.packb(block), lambda: received.head > seq)  # noqa: B023
        received.close()
        until(lambda: "ignored" in sim.printed, lambda: sim.printed)
        sim.signal(signal.SIGINT)
        assert sim.end() == 0, sim.said
    config.socket("daq").unlink()  # of the foreign publisher above
    report = told("report")
    assert report["received"]["blocks"] == 20
    assert report["used"] > 0
