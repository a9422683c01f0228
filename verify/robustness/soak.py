"""Long drives in which everything that can be killed is killed, and much is stopped, filled, shifted and started again.

What is asserted is read from the record and from outside (rings, processes, files), not from what the drive reports of
itself. CPU load and floods have programs of their own: verify/speed/cpu_load.py, verify/robustness/flood.py. Exit code
1 if a promise is broken.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from sync.config.config import Config, load, runtime_directory
from sync.errors import RingError
from sync.record import open_run
from sync.ring.ring import SHM, RingReader
from tandem.records.replay import Options, replay_run
from verify import ROOT
from verify.measure import NotHere, Row, equal, figure, holds, note

CONFIG = ROOT / "configs" / "drive.toml"
ROLES = ("daq", "sim", "record", "view")
BACK_S = 0.3  # the promise
APART_S = 2.0  # at least this long between kills
HARD_S = 3.0  # where the template was killed too, its spare takes over


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processes_of(name: str) -> dict[int, list[str]]:
    """Every process of a run, wherever it hangs: by the name in its command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if f"name={name}" in words:
                found[int(entry.name)] = words
    return found


class Drive:
    """`tandem drive` under a name of its own, with eyes of our own on its rings."""

    def __init__(self, name: str, runs: Path, settings: list[str], transport: str = "ipc"):
        self.name, self.runs = name, runs
        self.port = free_port()
        # hands that move from the first instant: a wheel at rest would replay the same whatever was lost
        chosen = [f"name={name}", f"view.port={self.port}", 'source.manoeuvre="manoeuvres/weave.toml"', *settings]
        self.config: Config = load(CONFIG, [*chosen, f'transport.kind="{transport}"'])
        options = [word for setting in chosen for word in ("--set", setting)]
        command = [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", "0", "--json", *options]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (as long as the drive)
        self.popen = subprocess.Popen(
            [*command, "--transport", transport, "--runs", str(runs)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self._out: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        self._out.append(self.popen.stdout.read())

    @property
    def output(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def wait_for(self, what: Callable[[], bool], seconds: float, why: str) -> float:
        """Until it is so; how long it took."""
        begun = time.monotonic()
        while not what():
            if self.popen.poll() is not None:
                raise SystemExit(f"the drive ended (exit {self.popen.returncode}) while {why}:\n{self.output[-2000:]}")
            if time.monotonic() - begun > seconds:
                raise SystemExit(f"{why}: not within {seconds:g} s:\n{self.output[-2000:]}")
            time.sleep(0.005)
        return time.monotonic() - begun

    def ring(self, role: str) -> RingReader | None:
        try:
            return RingReader(self.config.ring(role))
        except RingError:
            return None

    def steps(self) -> int:
        ring = self.ring("sim")
        if ring is None:
            return 0
        # of a killed process the memory goes before the locks: for a moment none seems to run
        head = ring.head if ring.writer_alive and ring.writer_pid in processes_of(self.name) else 0
        ring.close()
        return head

    def pids(self) -> dict[str, tuple[int, ...]]:
        """The processes of every role and the template, by the names they give themselves; the oldest first."""
        found: dict[str, list[int]] = {role: [] for role in (*ROLES, "template")}
        for pid in processes_of(self.name):
            try:
                role = Path(f"/proc/{pid}/comm").read_text().strip().removeprefix("tandem-")
            except OSError:
                continue
            if role in found:
                found[role].append(pid)
        return {role: tuple(sorted(pids, key=_started)) for role, pids in found.items()}

    def at_work(self, role: str) -> int:
        """The one that does the work of a role."""
        if role in ("daq", "sim"):
            ring = self.ring(role)
            assert ring is not None
            pid = ring.writer_pid
            ring.close()
            return pid
        for pid in self.pids()[role]:
            if self._works(role, pid):
                return pid
        raise SystemExit(f"no process works as {role}:\n{self.output[-1500:]}")

    def _works(self, role: str, pid: int) -> bool:
        """The recorder has the file open, the view its port."""
        try:
            links = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            return False
        if role == "record":
            return any(link.endswith(".mcap") for link in links)
        return f"socket:[{_listening(self.port)}]" in links

    def back(self, role: str, dead: int, head: int) -> bool:
        """Another process does that work."""
        if role in ("daq", "sim"):
            ring = self.ring(role)
            if ring is None:
                return False
            found = ring.writer_pid != dead and ring.head > head
            ring.close()
            return found
        return any(pid != dead and self._works(role, pid) for pid in self.pids()[role])

    def end(self, number: int = signal.SIGINT) -> dict[str, Any]:
        self.popen.send_signal(number)
        self.popen.wait(120)
        self._reader.join(10)
        return json.loads(self._out[0]) if self._out and self._out[0].strip() else {}

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        self._errors.close()

    def left(self) -> list[str]:
        """Everything of it that is still there."""
        files = [*SHM.glob(f"tandem.{self.name}.*"), *runtime_directory().glob(f"{self.name}.*")]
        return [str(f) for f in files] + [f"process {pid}: {' '.join(w)}" for pid, w in processes_of(self.name).items()]


def _started(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except OSError:
        return 0


def _listening(port: int) -> str:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and int(words[1].split(":")[1], 16) == port:
            return words[9]
    return "none"


def _memory_mb(name: str) -> float:
    total = 0
    for pid in processes_of(name):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total * 1024 / 1e6


def _burden(pid: int) -> tuple[int, int, int]:
    """Open files, threads and zombies of a process."""
    dead = 0
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            dead += Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            continue
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), len(list(Path(f"/proc/{pid}/task").iterdir())), dead


def _ready(drive: Drive) -> bool:
    """One process of every kind is there, and the template waits for requests."""
    pids = drive.pids()
    if any(len(mine) != 1 for mine in pids.values()):
        return False

    def used() -> int:
        return int(Path(f"/proc/{pids['template'][0]}/stat").read_text().rsplit(")", 1)[1].split()[11])

    try:
        before = used()
        time.sleep(0.3)
        return used() - before <= 1
    except OSError:
        return False


def hard(
    drive: Drive, chance: random.Random, rounds: int, deaths: dict[str, int], problems: list[str]
) -> dict[str, list[float]]:
    """A process is killed together with the template, or all at work at once."""
    took: dict[str, list[float]] = {"with the template": [], "all at once": []}
    for _ in range(rounds):
        drive.wait_for(lambda: _ready(drive), 60, "waiting for the template")
        alone = chance.random() < 0.5
        roles = [chance.choice(ROLES)] if alone else list(ROLES)
        doomed = {role: drive.at_work(role) for role in roles}
        heads = {}
        for role in roles:
            ring = drive.ring(role) if role in ("daq", "sim") else None
            heads[role] = ring.head if ring else 0
            if ring:
                ring.close()
        begun = time.monotonic()
        for pid in (*(drive.pids()["template"] if alone else ()), *doomed.values()):
            os.kill(pid, signal.SIGKILL)
        for role in roles:
            was = (role, doomed[role], heads[role])
            drive.wait_for(lambda was=was: drive.back(*was), 60, f"{roles} were killed")  # type: ignore[misc]
            deaths[role] += 1
        taken = time.monotonic() - begun
        took["with the template" if alone else "all at once"].append(round(taken, 2))
        if taken > HARD_S:
            problems.append(f"{roles} were back after {taken:.1f} s only")
        time.sleep(2.0)
    return took


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else 0.0


def record_of(drive: Drive, problems: list[str], deaths: dict[str, int]) -> dict[str, Any]:
    """What the record must hold of so many kills, and that it replays to the bit."""
    run = open_run(drive.runs)
    blocks, steps = run.topics["/daq"].blocks, run.topics["/step"].blocks
    found = {
        "epochs": len(np.unique(blocks["epoch"])),
        "simulators": int((steps["step"] == 0).sum()),
        "missing": {name: topic.missing for name, topic in run.topics.items() if len(topic)},
        "whole": run.whole,
        "ended": run.ended,
        "steps": len(steps),
        "blocks": len(blocks),
    }
    for what, there, wanted in (
        ("epochs", found["epochs"], deaths.get("daq", 0) + 1),
        ("simulators", found["simulators"], deaths.get("sim", 0) + 1),
    ):
        if there != wanted:
            problems.append(f"{what}: {there} in the record, {wanted} wanted")
    if run.lacking or not run.whole:  # the flush bound would allow some; the rings remember, so there is no need for it
        problems.append(f"the record is not whole: {run.lacking} blocks are missing, {found['missing']}, {run.cut}")
    notices = [text for _, text in run.notices]
    titles = {"daq": "the DAQ was", "sim": "the simulator was", "record": "the recorder was", "view": "the view was"}
    for role, title in titles.items():
        count = sum(title in text and "SIGKILL" in text for text in notices)
        if count != deaths[role]:
            problems.append(f"the record has {count} crashes of {role}, there were {deaths[role]}")
    figures = replay_run(drive.runs, Options()).figures
    found["replayed"], found["identical"] = figures["steps"], figures["identical"]
    if not figures["identical"]:
        problems.append(f"the replay differs: {figures['first_difference'] or figures['stopped']}")
    return found


def ended_badly(drive: Drive) -> list[str]:
    """What is wrong with how it ended and what it left."""
    code = drive.popen.returncode
    wrong = [f"exit code {code}: {drive.output[-2000:]}"] if code != 0 else []
    time.sleep(0.5)
    return wrong + [f"left behind: {left}" for left in drive.left()]


def _all_of_one_template(drive: Drive, deaths: dict[str, int]) -> None:
    """Memory that processes have from a template that was killed goes with the last of them: replace them all."""
    for role in ROLES:
        pid, head = drive.at_work(role), drive.steps() if role == "sim" else 0
        os.kill(pid, signal.SIGKILL)
        drive.wait_for(lambda r=role, p=pid, h=head: drive.back(r, p, h), 30, f"{role} was killed")  # type: ignore[misc]
        deaths[role] += 1
        time.sleep(4.0)  # one that ends sooner would be taken for one that cannot live
    drive.wait_for(lambda: _ready(drive), 60, "waiting for the template")


def kills(
    name: str, runs: Path, chance: random.Random, minutes: float, count: int, settings: list[str], transport: str
) -> dict[str, Any]:
    """One drive, and a process that is killed at a random instant, again and again."""
    problems: list[str] = []
    drive = Drive(name, runs, settings, transport)
    deaths = dict.fromkeys(ROLES, 0)
    outages: dict[str, list[float]] = {role: [] for role in ROLES}
    templates = 0  # that were killed
    try:
        drive.wait_for(lambda: drive.steps() > 0, 300, "waiting for the first step")
        drive.wait_for(lambda: _ready(drive), 120, "waiting for the template")
        memory, burden = [_memory_mb(name)], _burden(drive.popen.pid)
        begun, pause_s = time.monotonic(), 60.0 * minutes / count
        for k in range(count):
            # as often in all, at no foreseeable instant, and never before the promise of the last one is due
            until = begun + k * pause_s + chance.uniform(0.0, max(pause_s - APART_S, 0.1))
            time.sleep(max(until - time.monotonic(), 0.0))
            if chance.random() < 0.05:  # sometimes the template: another one is there before it is needed
                os.kill(drive.pids()["template"][0], signal.SIGKILL)
                templates += 1
                drive.wait_for(lambda: _ready(drive), 60, "waiting for the next template")
            role = chance.choice(ROLES)
            pid = drive.at_work(role)
            ring = drive.ring(role) if role in ("daq", "sim") else None
            head = ring.head if ring else 0
            if ring:
                ring.close()
            os.kill(pid, signal.SIGKILL)
            taken = drive.wait_for(lambda r=role, p=pid, h=head: drive.back(r, p, h), 30, f"{role} was killed")  # type: ignore[misc]
            deaths[role] += 1
            outages[role].append(taken)
            if taken > BACK_S:
                problems.append(f"{role} was back after {taken:.2f} s only (kill {k + 1})")
            if k % 10 == 9:
                memory.append(_memory_mb(name))
                note(
                    f"{k + 1:4d}/{count}  {time.monotonic() - begun:6.0f} s  "
                    + "  ".join(f"{r} {len(o)} x, max {max(o, default=0):.2f} s" for r, o in outages.items())
                    + f"  {memory[-1]:.0f} MB"
                )
        time.sleep(max(begun + 60.0 * minutes - time.monotonic(), 3.0))
        took_hard = hard(drive, chance, max(count // 40, 2), deaths, problems)
        drive.wait_for(lambda: _ready(drive), 60, "waiting for the template")
        _all_of_one_template(drive, deaths)
        memory.append(_memory_mb(name))
        burden_now = _burden(drive.popen.pid)
        if any(now > before + 2 for now, before in zip(burden_now, burden, strict=True)):
            problems.append(f"open files, threads, zombies of the supervisor: {burden}, now {burden_now}")
        head = drive.steps()
        time.sleep(0.5)
        if drive.steps() <= head:
            problems.append("no steps at the end")
        result = drive.end()
        problems += ended_badly(drive)
    finally:
        drive.close()
    everything = [o for mine in outages.values() for o in mine]
    memory_growth = memory[-1] / memory[0]
    if memory_growth > 1.25:
        problems.append(f"memory grew from {memory[0]:.0f} to {memory[-1]:.0f} MB")
    return {
        "minutes": minutes,
        "kills": len(everything),
        "templates_killed": templates,
        "deaths": deaths,
        "back_s": {
            role: {"p50": round(quantile(o, 0.5), 3), "max": round(max(o, default=0.0), 3)}
            for role, o in {**outages, "all": everything}.items()
        },
        "hard_s": took_hard,
        "files_threads_zombies": [burden, burden_now],
        "missed": result.get("deadline_misses"),
        "balance": result.get("balance"),
        "memory_mb": [round(memory[0]), round(memory[-1])],
        "record": record_of(drive, problems, deaths),
        "problems": problems,
    }


def stops(name: str, runs: Path, chance: random.Random, minutes: float) -> dict[str, Any]:
    """Processes that hang for a while: short of their limit they go on, beyond it they are replaced."""
    problems: list[str] = []
    drive = Drive(name, runs, [])
    replaced = dict.fromkeys(ROLES, 0)
    stopped = 0
    try:
        drive.wait_for(lambda: drive.steps() > 0, 300, "waiting for the first step")
        time.sleep(15.0)
        end = time.monotonic() + 60.0 * minutes
        while time.monotonic() < end:
            role = chance.choice(["daq", "sim", "record", "view", "drive"])
            long = role in ("daq", "sim") and chance.random() < 0.3
            pid = drive.popen.pid if role == "drive" else drive.at_work(role)
            ring = drive.ring(role) if long else None
            head = ring.head if ring else 0
            os.kill(pid, signal.SIGSTOP)
            stopped += 1
            if long:
                taken = drive.wait_for(lambda r=role, p=pid, h=head: drive.back(r, p, h), 30, f"{role} hangs")  # type: ignore[misc]
                replaced[role] += 1
                note(f"{role} hung: replaced after {taken:.2f} s")
                time.sleep(6.0)
            else:
                time.sleep(chance.uniform(0.05, 0.6))
                os.kill(pid, signal.SIGCONT)
                time.sleep(chance.uniform(0.5, 2.0))
        result = drive.end()
        problems += ended_badly(drive)
    finally:
        drive.close()
    run = open_run(runs)
    seen = {role: sum(d["process"] == role for d in result.get("deaths", [])) for role in ROLES}
    if seen != replaced:
        problems.append(f"replaced {seen}, stopped for too long {replaced}")
    figures = replay_run(runs, Options()).figures
    if not figures["identical"]:
        problems.append(f"the replay differs: {figures['first_difference'] or figures['stopped']}")
    if run.lacking:
        problems.append(f"{run.lacking} blocks are not in the record")
    return {
        "minutes": minutes, "stopped": stopped, "replaced": replaced, "missed": result.get("deadline_misses"),
        "stale_steps": result.get("stale_steps"), "steps": figures["steps"], "identical": figures["identical"],
        "problems": problems,
    }  # fmt: skip


def restarts(name: str, runs: Path, chance: random.Random, times: int) -> dict[str, Any]:
    """Whole drives under one name, ended by a word or killed, supervisor or all; the next finds a clean house."""
    problems: list[str] = []
    first_step_s: list[float] = []
    ways = {"SIGINT": 0, "SIGTERM": 0, "kill supervisor": 0, "kill all": 0}
    for k in range(times):
        way = chance.choice(list(ways))
        ways[way] += 1
        place = runs / str(k)
        drive = Drive(name, place, ["view.enabled=false"])
        try:
            first_step_s.append(drive.wait_for(lambda d=drive: d.steps() > 0, 120, f"start {k + 1}"))  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, 1.5))
            if way == "kill supervisor":
                drive.popen.kill()
            elif way == "kill all":
                doomed = list(processes_of(name))
                chance.shuffle(doomed)
                for pid in doomed:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
            else:
                drive.end(signal.Signals[way])
                if drive.popen.returncode != 0 or drive.left():
                    problems.append(
                        f"{way}, start {k + 1}: exit {drive.popen.returncode}, left {drive.left()}:"
                        f" {drive.output[-800:]}"
                    )
                    note(problems[-1])
            drive.popen.wait(30)
            end = time.monotonic() + 10
            while processes_of(name) and time.monotonic() < end:
                time.sleep(0.02)
            if processes_of(name):
                problems.append(f"{way}, start {k + 1}: {processes_of(name)} still there")
            open_run(place)
        finally:
            drive.close()
            shutil.rmtree(place, ignore_errors=True)
        if k % 10 == 9:
            note(f"{k + 1:4d}/{times}  {ways}  first step at most {max(first_step_s):.1f} s")
    last = Drive(name, runs / "last", ["view.enabled=false"])
    try:
        last.wait_for(lambda: last.steps() > 0, 120, "the last start")
        last.end()
    finally:
        last.close()
    problems += [f"left behind: {left}" for left in last.left()]
    return {
        "times": times, "ways": ways, "problems": problems,
        "first_step_s": {"p50": round(quantile(first_step_s, 0.5), 2), "max": round(max(first_step_s), 2)},
    }  # fmt: skip


def disk(name: str, runs: Path) -> dict[str, Any]:
    """The disk is full for some seconds in the middle: what found no room is counted, the rest is there."""
    problems: list[str] = []
    runs.mkdir(parents=True)
    mounting = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(runs)]
    mounted = subprocess.run(mounting, capture_output=True, check=False)
    if mounted.returncode != 0:
        return {"skipped": "no disk can be mounted here: needs root", "problems": []}
    try:
        drive = Drive(name, runs, ["view.enabled=false", "record.most_pending_mb=1"])
        try:
            drive.wait_for(lambda: drive.steps() > 0, 300, "waiting for the first step")
            time.sleep(3.0)
            ballast = runs / "ballast"
            with open(ballast, "wb") as file:
                try:
                    while True:
                        file.write(bytes(1 << 16))
                        file.flush()
                except OSError:
                    pass
            time.sleep(10.0)
            ballast.unlink()
            time.sleep(5.0)
            result = drive.end()
        finally:
            drive.close()
        run = open_run(runs)
        dropped = sum(t["dropped"] for t in result["record"]["topics"].values())
        missing = sum(topic.missing for topic in run.topics.values())
        if not dropped:
            problems.append("the disk was never full: nothing was tried")
        if missing != dropped:
            problems.append(f"{dropped} blocks were dropped, but {missing} are missing")
        if result["deadline_misses"]:
            problems.append(f"{result['deadline_misses']} deadlines missed")
        last_s = (
            int(run.topics["/step"].blocks["pushed_ns"][-1]) - int(run.topics["/step"].blocks["pushed_ns"][0])
        ) / 1e9
        if last_s < 17.0:
            problems.append(f"the record ends after {last_s:.1f} s of 18")
        problems += [f"left behind: {left}" for left in drive.left()]
        return {
            "dropped": dropped, "missing": missing, "seconds": round(last_s, 1),
            "missed": result["deadline_misses"], "problems": problems,
        }  # fmt: skip
    finally:
        subprocess.run(["umount", str(runs)], check=False)


def soak(
    *,
    drill: Literal["kills", "stops", "restarts", "disk", "clock"],
    minutes: float = 20.0,
    kill: Annotated[int, "so many times, of kills"] = 200,
    times: Annotated[int, "of restarts"] = 100,
    transport: Literal["shm", "ipc", "tcp"] = "ipc",
    seed: int = 1,
) -> Iterator[Row]:
    chance = random.Random(seed)
    name = f"soak_{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="tandem-soak-"))
    try:
        runs = folder / "runs"
        if drill == "kills":
            result = kills(name, runs, chance, minutes, kill, [], transport)
        elif drill == "stops":
            result = stops(name, runs, chance, minutes)
        elif drill == "restarts":
            result = restarts(name, runs, chance, times)
        elif drill == "disk":
            result = disk(name, runs)
        else:
            ports = [f"transport.{port}={free_port()}" for port in ("daq_port", "sim_port", "clock_port")]
            wrong = ['transport.clock="estimate"', "transport.artificial_clock.offset_ms=7.2e6"]
            settings = [*ports, *wrong, "transport.artificial_clock.ppm=150.0"]
            count = max(round(minutes * 8), 1)
            result = kills(name, runs, chance, minutes, count, settings, "tcp")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if "skipped" in result:
        raise NotHere(result["skipped"])
    for key, value in result.items():
        if key != "problems":
            yield figure(key, value if isinstance(value, int | float) else json.dumps(value))
    for problem in result["problems"]:
        yield holds("as promised", False, problem)
    yield equal("problems", len(result["problems"]), 0)
