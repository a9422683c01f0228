"""Golden runs: small records of real drives, stored in tests/golden, that every later version must replay to the bit.

    python -m verify golden                   replays each: identical or not, and by how much
    python -m verify golden --store update    stores what this version makes of the same blocks: after a wanted change
    python -m verify golden --store make      drives them again, with real processes (--names NAME ...)

A commit that changes a golden run says why, and by how much: that is what the replay prints before it. `make` is only
needed for another scenario or another form of the record; new drives cannot be compared with the old ones step by step.

A stored record holds the blocks that the simulator saw, its steps, its commands, and what its model was made from and
into; nothing that says on whose machine it was made, or where.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from sync.child_python import python_command, python_environment
from verify import ROOT
from verify.measure import NotHere, Row, figure, holds, note

GOLDEN = ROOT / "tests" / "golden"
MECHANISM = "spatial_slider_crank"
MOST_BYTES = 3_000_000  # of all of them
_FACTS = (
    "name", "utc", "software", "sources", "machine", "processor", "libc", "blas", "python", "numpy", "numba",
    "llvmlite", "mcap", "transport", "step_ns", "period_ns", "mechanism",
)  # fmt: skip
_PATIENCE_S = 240.0

_SET_OFF = "[brake_bar]\npoints = [[0, 10], [0.2, 10], [0.4, 0], [9, 0]]\n"
_TOWN = f"""title = "Set off, a corner to the left, brakes"
seconds = 20.0
{_SET_OFF.replace("[9, 0]", "[3.0, 0], [3.3, 12], [9, 12]")}
[throttle]
points = [[0, 0], [0.3, 0], [0.6, 0.7], [2.4, 0.7], [2.6, 0]]
[steering_deg]
points = [[0, 0], [1.4, 0], [2.0, 140], [2.8, 140], [3.3, 0]]
"""
_LANE_CHANGE = f"""title = "Set off, a lane change"
seconds = 20.0
{_SET_OFF}
[throttle]
points = [[0, 0], [0.3, 0], [0.6, 0.9], [9, 0.9]]
[steering_deg]
points = [[0, 0]]
sines = [{{ start = 1.8, cycles = 1, amplitude = 60, frequency_hz = 0.6 }}]
"""


_ROUND = f"""title = "Sets off with full throttle, turns to the left"
seconds = 20.0
{_SET_OFF}
[throttle]
points = [[0, 0], [0.3, 0], [0.5, 1], [9, 1]]
[steering_deg]
points = [[0, 0], [1.5, 0], [2.2, 200], [2.8, 200], [3.3, 0]]
"""


class Drive:
    """A drive of real processes, watched by the number of its steps."""

    def __init__(self, folder: Path, name: str, settings: list[str]):
        from sync.config.config import load
        from sync.ring.ring import RingReader

        self.folder = folder
        chosen = [
            f"name=golden_{name}", "seconds=0", "view.enabled=false", "daq.rate_hz=400", "daq.ring_blocks=4096",
            "source.manoeuvre=golden.toml", *settings,
        ]  # fmt: skip
        self.config = load(folder / "drive.toml", chosen)
        words = [word for setting in chosen for word in ("--set", setting)]
        command = python_command("-m", "tandem", "drive", "drive.toml", "--runs", "runs", "--json", *words)
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=python_environment())
        self._steps = RingReader(self.config.ring("sim"), timeout_s=_PATIENCE_S)

    def wait_for(self, steps: int) -> None:
        from sync.clock import now_ns, sleep_until

        end = now_ns() + round(_PATIENCE_S * 1e9)
        while self._steps.head < steps:
            if self._process.poll() is not None or now_ns() > end:
                raise SystemExit(f"the drive did not reach step {steps}; it is at {self._steps.head}")
            sleep_until(now_ns() + 2_000_000)

    def ask(self, values: dict[str, float] | None = None, **others: Any) -> None:
        from sim_service.commands import CommandClient

        client = CommandClient(self.config, timeout_s=20.0)
        answer = client.ask(values, **others)
        client.close()
        if not answer["ok"]:
            raise SystemExit(answer["error"])

    def pause(self, milliseconds: int) -> None:
        """The simulation pauses for so long."""
        self.ask(pause=True)
        self.rest(milliseconds)
        self.ask(pause=False)

    def rest(self, milliseconds: int) -> None:
        from sync.clock import now_ns, sleep_until

        sleep_until(now_ns() + milliseconds * 1_000_000)

    def kill_daq(self) -> int:
        """Kill it and wait for the next one; how many steps there are by then."""
        from sync.clock import now_ns
        from sync.ring.ring import RingReader

        self.signal_daq(signal.SIGKILL)
        killed, end = RingReader(self.config.ring("daq")).writer_pid, now_ns() + round(_PATIENCE_S * 1e9)
        while RingReader(self.config.ring("daq")).writer_pid == killed:
            if self._process.poll() is not None or now_ns() > end:
                raise SystemExit("no DAQ follows the killed one")
            self.rest(10)
        return int(self._steps.head)

    def signal_daq(self, number: int) -> None:
        from sync.ring.ring import RingReader

        ring = RingReader(self.config.ring("daq"))
        os.kill(ring.writer_pid, number)
        ring.close()

    def end(self, steps: int) -> Path:
        """When it has made so many; the folder of its run."""
        try:
            self.wait_for(steps)
        finally:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_PATIENCE_S)
        return next((self.folder / "runs").iterdir())


def _tuned(drive: Drive) -> Path:
    drive.wait_for(200)
    drive.ask({"grip": 0.9, "front_anti_roll": 12000.0})
    drive.wait_for(320)
    drive.ask({"push_y": 1500.0})
    drive.wait_for(380)
    drive.ask({"push_y": 0.0})
    drive.wait_for(430)
    drive.pause(300)
    return drive.end(640)


def _killed(drive: Drive) -> Path:
    drive.wait_for(640)  # a process killed sooner is not replaced at once
    return drive.end(drive.kill_daq() + 150)


def _stalled(drive: Drive) -> Path:
    drive.wait_for(300)
    drive.signal_daq(signal.SIGSTOP)
    drive.rest(450)
    drive.signal_daq(signal.SIGCONT)
    return drive.end(500)


@dataclass(frozen=True)
class Golden:
    text: str
    manoeuvre: str
    settings: list[str]
    course: Callable[[Drive], Path]


_PLANE = "sim.machine=vehicles/buggy_single_track.toml"
DRIVES = {
    "town": Golden("the buggy on flat ground: sets off, a corner, brakes", _TOWN, [], lambda d: d.end(660)),
    "lane_change": Golden(
        "the buggy on the demo track: a lane change, tuned, pushed and paused meanwhile",
        _LANE_CHANGE, ["sim.files.road=roads/demo_track.toml"], _tuned,
    ),
    "single_track": Golden("the single-track car: full throttle, a corner", _ROUND, [_PLANE], lambda d: d.end(680)),
    "daq_killed": Golden("the single-track car; its DAQ is killed, another follows", _LANE_CHANGE,
        [_PLANE, "sim.stale.stop_after_ms=500"], _killed),
    "stale": Golden(
        "the buggy; its DAQ is stopped for nearly half a second", _TOWN, ["sim.stale_after_ms=50"], _stalled
    ),
}  # fmt: skip


NAMES = (*DRIVES, "mechanism")


# ---- storing ---------------------------------------------------------------------------------------------------------


def store(path: Path, run: Any, topics: dict[str, Any] | None = None, attached: dict[str, bytes] | None = None) -> None:
    """A run as a golden one: one file, what is needed to replay it, nothing about where it was made."""
    from sync.record import RunWriter

    source = run.topics if topics is None else topics
    wanted = [name for name in (run.input_topic, "/step", "/command") if name in source and len(source[name].words)]
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter(Path(folder))
        begun = int(run.start["monotonic_ns"])
        left = ("summary.json", "config.toml")
        attachments = {name: data for name, data in (attached or run.attachments).items() if name not in left}
        writer.begin({key: run.start[key] for key in _FACTS if key in run.start}, attachments, begun)
        for name in wanted:
            topic = source[name]
            writer.topic(name, topic.layout)
            notes = [ring for ring in run.rings.get(name, ()) if ring.row <= len(topic.words)]
            starts = [*(ring.row for ring in notes), len(topic.words)]
            writer.add_at(name, topic.words[: starts[0]], topic.positions[: starts[0]])
            for k, ring in enumerate(notes):
                writer.ring(ring)
                part = slice(starts[k], starts[k + 1])
                writer.add_at(name, topic.words[part], topic.positions[part])
        if not writer.finish({"reason": "golden run"}, {}, begun):
            raise SystemExit(f"{path}: {writer.sink.error}")
        shutil.copyfile(writer.path, path)


def make(names: list[str]) -> None:
    from sync.record import open_run
    from tandem.mechanism.run import load, simulate, write_run

    for name in names:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if name == "mechanism":
                described, state = load(ROOT / "configs" / "mechanisms" / f"{MECHANISM}.toml", seconds=0.8)
                write_run(folder, simulate(described, state, lambda *_: None))
                run = open_run(folder)
            else:
                configs = folder / "configs"
                shutil.copytree(ROOT / "configs", configs)
                golden = DRIVES[name]
                (configs / "golden.toml").write_text(golden.manoeuvre)
                run = open_run(golden.course(Drive(configs, name, golden.settings)))
            if not run.whole:
                raise SystemExit(f"{name}: the record is not whole: {run.ended}, {run.cut}, {run.lacking} missing")
            store(GOLDEN / f"{name}.mcap", run)
        note(f"{name}: {(GOLDEN / f'{name}.mcap').stat().st_size} bytes")


# ---- replaying -------------------------------------------------------------------------------------------------------


def replay(name: str) -> dict[str, Any]:
    """What this version makes of a golden run."""
    from tandem.records.provenance import machine_facts

    found = _replay_mechanism(name) if name == "mechanism" else _replay_drive(name)
    return {**found, "blas": machine_facts()["blas"]}


def _replay_drive(name: str) -> dict[str, Any]:
    from tandem.records.replay import Options, replay_run

    figures = replay_run(GOLDEN / f"{name}.mcap", Options()).figures
    return {
        "steps": figures["steps"],
        "identical": figures["identical"],
        "parameters": figures["parameters"],
        "parameters_differ": figures["parameters_differ"],
        "differing": {row["channel"]: row["max"] for row in figures["differing_channels"]},
        "other_facts": figures["other_facts"],
    }


def _replay_mechanism(name: str) -> dict[str, Any]:
    import numpy as np

    from sync.record import open_run
    from tandem.mechanism.columns import columns
    from tandem.mechanism.record import differences, put_back
    from tandem.mechanism.run import recorded_file, simulate
    from tandem.records.provenance import other_facts

    run = open_run(GOLDEN / f"{name}.mcap")
    original = recorded_file(run)[1].system.reals.copy()
    described, state = recorded_file(run)
    used = put_back(run, state)
    differ = int(np.count_nonzero(original.view(np.int64) != state.system.reals.view(np.int64)))
    found = differences(run, columns(simulate(described, state, lambda *_: None).record))
    return {
        "steps": described.file.run.steps,
        "identical": not found,
        "parameters": "recorded" if used else "made here",
        "parameters_differ": differ,
        "differing": found,
        "other_facts": other_facts(run),
    }


def update(names: list[str]) -> None:
    """The same blocks, steps and commands, with the outputs and the parameters of this version."""
    from sync.record import open_run
    from tandem.records.replay import Options, replay_run
    from tandem.records.replay_save import saved_run

    for name in names:
        path = GOLDEN / f"{name}.mcap"
        if name == "mechanism":
            make([name])
            continue
        done = replay_run(path, Options(remake=True))
        attached, topics = saved_run(done)
        attached["config.json"] = done.run.attachments["config.json"]  # names no folder of this machine
        store(path, open_run(path), topics, attached)
        note(f"{name}: {path.stat().st_size} bytes")


def golden(
    *,
    names: Annotated[tuple[str, ...], "of the runs"] = NAMES,
    store: Annotated[Literal["update", "make"] | None, "store what this version makes, or drive again"] = None,
) -> Iterator[Row]:
    if unknown := set(names) - set(NAMES):
        raise NotHere(f"no golden run {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if store is not None:
        {"update": update, "make": make}[store](list(names))
    for name in names:
        found = replay(name)
        others = "; ".join(f"recorded with another {key}: {was}" for key, (was, _) in found["other_facts"].items())
        yield holds(f"{name}: replays to the bit", found["identical"], "" if found["identical"] else others)
        yield figure(f"{name}: steps", found["steps"])
        if found["parameters_differ"]:
            yield figure(f"{name}: words of parameters made here that differ", found["parameters_differ"])
        for channel, most in sorted(found["differing"].items(), key=lambda row: -row[1])[:12]:
            yield figure(f"{name}: {channel} differs by at most", most)
