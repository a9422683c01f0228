"""A running drive as an XCP slave, with pyxcp as its master: what it measures is what the record has, and what it
writes is recorded and replayed; and what the slave costs the loop.

One drive, recorded all the while, in phases that follow each other: without the slave, with it and its master, and
without it again, as many rounds as asked for. A phase with it measures so many channels of every step. All that pyxcp
has decoded is compared with the steps of the record, bit by bit.
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
from typing import Annotated, Any, Literal

import numpy as np

from sync.clock import now_ns
from sync.record import open_run
from tandem.records.replay import Options, replay_run
from tests.ports import free_port
from verify import ROOT
from verify.measure import NotHere, Row, at_least, equal, holds, note
from verify.others.beside import CONFIG, END_S, Span, cost, driving, ended, settings, slept

_SETTLE_S = 3.0


def xcp(
    *,
    seconds: Annotated[float, "of a phase with the slave"] = 60.0,
    rounds: Annotated[int, "of phases without and with it"] = 1,
    channels: int = 50,
    protocol: Literal["TCP", "UDP"] = "TCP",
) -> Iterator[Row]:
    if importlib.util.find_spec("pyxcp") is None:
        raise NotHere("pyxcp is not installed")
    with tempfile.TemporaryDirectory() as folder:
        yield from _measure(seconds, rounds, channels, protocol, Path(folder))


def _measure(seconds: float, rounds: int, channels: int, protocol: str, folder: Path) -> Iterator[Row]:
    name = f"xcp_{os.getpid()}"
    spans: dict[str, list[Span]] = {"without": [], "with": []}
    masters: list[dict[str, Any]] = []
    slaves: list[dict[str, Any]] = []
    with driving(name, folder) as drive:
        for number in range(rounds):
            time.sleep(_SETTLE_S)
            spans["without"].append(slept(seconds / 2))
            note(f"round {number + 1}: {protocol}, {channels} channels")
            span, master, slave = _phase(name, seconds, channels, protocol, folder, number)
            spans["with"].append(span)
            masters.append(master)
            slaves.append(slave)
            time.sleep(_SETTLE_S)
            spans["without"].append(slept(seconds / 2))
        result = ended(drive)
    run = open_run(Path(result["record"]["file"]))
    steps = run.topics["/step"].blocks
    for number, (master, slave) in enumerate(zip(masters, slaves, strict=True)):
        yield from _compared(steps, np.load(folder / f"{number}.npz"), master, slave, seconds, channels)
    commands = run.topics["/command"].blocks
    yield equal("commands in the record, of as many written", len(commands), rounds)
    yield holds("what the first master wrote stands in it", commands["value"][0] == masters[0]["written"])
    replayed = replay_run(run.path, Options("exact"))
    yield holds("the record replays to the bit, written parameters and all", replayed.figures["identical"])
    yield from cost(steps, spans, "the slave")
    yield holds("the record is whole", result["record"]["whole"])


def _phase(
    name: str, seconds: float, channels: int, protocol: str, folder: Path, number: int
) -> tuple[Span, dict[str, Any], dict[str, Any]]:
    a2l, port = folder / f"{number}.a2l", str(free_port())
    slave_words = [sys.executable, "-m", "tandem", "xcp", str(CONFIG), *settings(name), "--port", port]
    subprocess.run([*slave_words, "--a2l", str(a2l)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    slave = subprocess.Popen(
        [*slave_words, "--json"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert slave.stderr is not None
        if "EPK" not in (line := slave.stderr.readline()):
            raise SystemExit(f"the slave did not begin: {line}")
        begun = now_ns()
        factor = str(1.01 + 0.01 * number)
        done = subprocess.run(
            [sys.executable, "-m", "verify.others.xcp_master", str(a2l), str(folder / f"{number}.npz"), "--seconds",
             str(seconds), "--channels", str(channels), "--protocol", protocol, "--write", "front_spring_rate", factor],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{name}: the master ended with exit code {done.returncode}")
        span = begun, now_ns()
        slave.send_signal(signal.SIGINT)
        report = json.loads(slave.communicate(timeout=END_S)[0])
    finally:
        if slave.poll() is None:
            slave.kill()
            slave.wait()
    return span, json.loads(done.stdout.splitlines()[-1]), report


def _compared(
    steps: np.ndarray, found: Any, master: dict[str, Any], slave: dict[str, Any], seconds: float, channels: int
) -> Iterator[Row]:
    yield equal("channels of every step", master["channels"], channels)
    yield equal("the parameter that was written, as it was read again", master["read"], master["written"])
    at = np.searchsorted(steps["t_ns"], found["t_ns"][0])
    rows = len(found["t_ns"])
    there = steps[at : at + rows]
    yield at_least("rows that pyxcp decoded", rows, 0.95 * seconds * 200)
    yield equal("steps between the first and the last that it lacks", _lacking(steps, found["t_ns"]), 0)
    same = all(np.array_equal(found[name], there[name], equal_nan=True) for name in found.files if name != "stamps")
    yield holds(f"all {rows * channels} values are those of the record, to the bit", same and len(there) == rows)
    ticks = np.diff(found["stamps"]) % (1000 << 32)
    drift = np.abs(ticks - np.diff(found["t_ns"]))
    yield holds("time stamps are the steps' instants, to the microsecond", (drift <= 1000).all(), f"{drift.max()} ns")
    for count in ("lost", "dropped", "overloads"):
        yield equal(f"{count}, as the slave counts them", slave[count], 0)


def _lacking(steps: np.ndarray, instants: np.ndarray) -> int:
    between = (steps["t_ns"] >= instants[0]) & (steps["t_ns"] <= instants[-1])
    return int(np.setdiff1d(steps["t_ns"][between], instants).size)
