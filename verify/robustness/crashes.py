"""SIGKILL at random instants: the recorder, the DAQ, the simulator, the supervisor, or everything at once, again and
again.

Every round starts `tandem drive`, waits for a random while, kills, and then asks the record that is left: can it be
read, how does it say it ended, how much is missing of what had passed the rings when the kill came, and does an exact
replay of the rest give the same bits; and do readers of others open every file of it and find the same bits
(verify/others/foreign_readers.py). An observer with eyes of its own (a reader of the rings) knows what had passed.

    python -m verify crashes --kills 100

Exit code 1 if a record is unreadable, by us or by others, replays differently, or lacks more than 0.6 s.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sync.clock import now_ns
from sync.config.config import load
from sync.errors import RingError, TandemError
from sync.record import open_run
from sync.ring.ring import RingReader
from sync.ring.streams import DAQ, SIM, SIM_IN
from tandem.live.supervisor.supervise import sweep
from tandem.records.inspect.info import info
from tandem.records.replay import Options, replay_run
from verify import ROOT
from verify.measure import Row, equal, figure, holds, note
from verify.others.foreign_readers import compared

CONFIG = ROOT / "configs" / "drive.toml"
VICTIMS = {"recorder": "tandem-record", "daq": "tandem-daq", "sim": "tandem-sim"}  # names of processes
LIMIT_S = 0.6
RINGS = {stream.topic: stream.name for stream in (DAQ, SIM_IN, SIM)}


def children(pid: int) -> dict[str, int]:
    """Processes of a drive by their names."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                called = Path(f"/proc/{child}/comm").read_text().strip()
            except FileNotFoundError:
                continue
            for name, wanted in VICTIMS.items():
                if called == wanted:
                    found[name] = int(child)
    return found


def round_of(victim: str, name: str, runs: Path, chance: random.Random, transport: str) -> dict[str, Any]:
    # hands that move from the first instant: a wheel at rest would replay the same whatever was lost
    # and no restart of a crashed process: that is another drill (verify/robustness/soak.py)
    settings = [f"name={name}", f'transport.kind="{transport}"', 'source.manoeuvre="manoeuvres/weave.toml"']
    settings += ["supervision.restart=false", "view.enabled=false"]
    config = load(CONFIG, settings)
    options = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", "0", "--runs", str(runs), *options]
    drive = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        step_ring = _attach(config.ring("sim"), drive)
        while step_ring.head == 0:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.1, 2.0))
        rings = {topic: RingReader(config.ring(role)) for topic, role in RINGS.items() if _there(config.ring(role))}
        pids = children(drive.pid)
        doomed = {"all": [*pids.values(), drive.pid], "supervisor": [drive.pid]}.get(victim) or [pids[victim]]
        chance.shuffle(doomed)
        passed = {topic: ring.newest() for topic, ring in rings.items()}  # surely before the kill
        killed_ns = now_ns()
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        if victim == "recorder":
            time.sleep(0.3)
            drive.send_signal(signal.SIGINT)  # the drive goes on without it; end it as a user would
        output = drive.communicate(timeout=60)[1]  # to the end of every process that has its standard error
    finally:
        if drive.poll() is None:
            drive.kill()
            drive.wait()
    for ring in rings.values():
        ring.close()
    result: dict[str, Any] = {"victim": victim, "transport": transport, "exit": drive.returncode, "problem": None}
    try:
        run = open_run(runs)
        facts = info(run)
        result["ended"] = facts["ended"]
        losses = {}
        for topic, newest in passed.items():
            if newest is None:
                continue
            stamp = "received_ns" if topic == "/received" else "pushed_ns"
            blocks: Any = run.topics[topic].blocks if topic in run.topics else []
            last = int(blocks[stamp][-1]) if len(blocks) else int(run.start["monotonic_ns"])
            losses[topic] = max(int(newest[stamp]) - last, 0) * 1e-9
        result["lost_s"] = max(losses.values())
        if len(run.topics.get("/step", ())):
            figures = replay_run(runs, Options()).figures
            result["steps"], result["identical"] = figures["steps"], figures["identical"]
            if not figures["identical"]:  # of all recorded steps
                result["problem"] = f"replay differs: {figures['first_difference'] or figures['stopped']}"
            if figures["steps"] > 20 and not run.topics["/step"].blocks["steering_speed"].any():
                result["problem"] = "there was no steering: the replay proves nothing"
        for file in sorted(runs.rglob("*.mcap")):
            try:
                compared(file)
            except Exception as error:  # whatever those readers raise
                result["problem"] = f"{file.name} in other readers: {type(error).__name__}: {error}"
        if result["lost_s"] > LIMIT_S:
            result["problem"] = f"{result['lost_s']:.2f} s lost"
    except (TandemError, KeyError, IndexError) as error:
        result["problem"] = f"{type(error).__name__}: {error}; the drive printed: {output[-300:]}"
    result["killed_ns"] = killed_ns
    return result


def _there(ring: str) -> bool:
    return (Path("/dev/shm") / ring).exists()


def _attach(ring: str, drive: subprocess.Popen[str]) -> RingReader:
    """The ring of this drive's simulator, not one that an earlier round left behind."""
    while drive.poll() is None:
        try:
            reader = RingReader(ring)
            if reader.writer_alive:
                return reader
            reader.close()
        except RingError:
            pass
        time.sleep(0.02)
    raise SystemExit(f"the drive ended before its first step: {drive.communicate()[1][-500:]}")


def crashes(*, kills: int = 100, seed: int = 1) -> Iterator[Row]:
    chance = random.Random(seed)
    name = f"drill_{os.getpid()}"
    rounds = []
    folder = Path(tempfile.mkdtemp(prefix="tandem-drill-"))
    try:
        for k in range(kills):
            victim = ["recorder", "daq", "sim", "supervisor", "all"][k % 5]
            transport = ["ipc", "shm", "tcp"][k // 5 % 3]
            runs = folder / str(k)
            r = round_of(victim, name, runs, chance, transport)
            rounds.append(r)
            found = f"lost {r.get('lost_s', -1):.3f} s, {r.get('steps', 0)} steps, {r['problem'] or 'identical'}"
            note(f"{k + 1}/{kills} {victim} {transport}: {found} ({r.get('ended')})")
            if r["problem"]:
                yield holds(f"kill {k + 1}, of {victim}, {transport}: readable and identical", False, found)
            shutil.rmtree(runs, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for transport in ("ipc", "shm", "tcp"):
            sweep(load(CONFIG, [f"name={name}", f'transport.kind="{transport}"']))
    lost = sorted(r.get("lost_s", 9.0) for r in rounds)
    yield equal(f"of {kills} kills, records with a problem", sum(bool(r["problem"]) for r in rounds), 0)
    yield figure("lost, median", lost[len(lost) // 2], "s")
    yield figure("lost, at most", lost[-1], "s")
