"""200 records with 5 hostile ones, replayed by `tandem fleet`: `python -m verify fleet`.

Each good record is a run of its own: a golden one replayed with another mass and saved. The hostile ones are a golden
run with a command that pushes at body 1e12, one with a tyre's coefficient of 1e300, one whose mass is NaN, one that is
cut short and one of random bytes. One worker is killed on the way, with SIGKILL. Counted are 195 replays that are
identical to the bit and 5 rows that say what is wrong; exit code 1 of the command; nothing made again but what the kill
has cost. Prints one line; exit code 1 if it is not so.
"""

import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.command_record import PARAMETER
from sync.child_python import python_command, python_environment
from sync.record import CompleteRun, CompleteTopic, open_run, write_complete
from tandem.records.replay import Options, replay_run
from tandem.records.replay_save import save
from verify import ROOT
from verify.measure import Row, equal, holds

GOLDEN = ROOT / "tests" / "golden"
RECORDS, HOSTILE = 200, 5
Change = Callable[[dict[str, bytes], np.ndarray], None]


def good(folder: Path, number: int) -> Path:
    options = Options(overrides=[f"sim.parameters.mass={700 + number}"])
    return save(replay_run(GOLDEN / "single_track.mcap", options), folder / f"{number:03d}", {})


def changed(folder: Path, change: Change) -> None:
    """The golden lane change, with other files or commands in it."""
    run = open_run(GOLDEN / "lane_change.mcap")
    attached = dict(run.attachments)
    words = {name: topic.words.copy() for name, topic in run.topics.items()}
    change(attached, COMMANDS.view(words["/command"]))
    topics = {n: CompleteTopic(t.layout, words[n], np.arange(len(t), dtype=np.int64)) for n, t in run.topics.items()}
    start = {key: value for key, value in run.start.items() if key not in ("format", "monotonic_ns")}
    begun = int(run.start["monotonic_ns"])
    folder.mkdir()
    write_complete(folder, CompleteRun(start, attached, topics, begun, begun, "changed", {}))


def push(attached: dict[str, bytes], commands: np.ndarray) -> None:
    commands["kind"][0] = PARAMETER
    commands["index"][0] = list(json.loads(attached["parameters.json"])["parameters"]).index("push_body")
    commands["value"][0] = 1e12


def table(attached: dict[str, bytes], _commands: np.ndarray) -> None:
    attached["tyre_front"] = re.sub(rb"(PCX1\s*=\s*)\S+", rb"\g<1>1e300", attached["tyre_front"])


def not_a_number(attached: dict[str, bytes], _commands: np.ndarray) -> None:
    attached["machine.toml"] = re.sub(rb"(?m)^(sprung_mass\s*=\s*)\S+", rb"\1nan", attached["machine.toml"])


def make(folder: Path) -> None:
    folder.mkdir()
    for name, change in (("a_push", push), ("b_table", table), ("c_nan", not_a_number)):
        changed(folder / name, change)
    for number in range(RECORDS - 3):
        file = good(folder, number)
        if number == 0:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        elif number == 1:
            file.write_bytes(b"\x89MCAP0\r\n" + random.Random(1).randbytes(100_000))


def kill_a_worker(program: "subprocess.Popen[str]") -> bool:
    """One that has used some processor time: it is at work."""
    while program.poll() is None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _works_for(program.pid, entry):
                os.kill(int(entry.name), signal.SIGKILL)
                return True
        time.sleep(0.02)
    return False


def _works_for(program: int, process: Path) -> bool:
    """Workers are children of the fork server, which is a child of the program."""
    try:
        fields = _stat(process)
        parent = Path("/proc") / fields[1]
        forks = b"multiprocessing.forkserver" in (parent / "cmdline").read_bytes()
        return forks and _stat(parent)[1] == str(program) and int(fields[11]) > 20
    except (OSError, ValueError):
        return False


def _stat(process: Path) -> list[str]:
    """From the state on: 1 is the parent, 11 the ticks of the processor."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def tandem_fleet(runs: Path, out: Path, kill: bool) -> tuple[int, dict[str, Any], bool]:
    """Exit code, what it prints, and whether a worker was killed."""
    command = python_command("-m", "tandem", "fleet", str(runs), "--out", str(out), "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=python_environment()) as program:
        killed = kill_a_worker(program) if kill else False
        text, _ = program.communicate()
    return program.returncode, json.loads(text), killed


def fleet() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place:
        runs, out = Path(place) / "runs", Path(place) / "out"
        make(runs)
        code, first, killed = tandem_fleet(runs, out, kill=True)
        by_the_kill = sum("signal 9" in row["note"] for row in pq.read_table(out / "fleet.parquet").to_pylist())
        code_again, second, _ = tandem_fleet(runs, out, kill=False)
        rows = pq.read_table(out / "fleet.parquet").to_pylist()
    wrong = {row["record"]: f"{row['status']}: {row['note']}" for row in rows if row["status"] != "identical"}
    yield holds("a worker was killed on the way", killed, first["status"])
    yield equal("made again after it", second["made_now"], by_the_kill)
    yield equal(f"identical of {RECORDS} records", second["status"].get("identical", 0), RECORDS - HOSTILE)
    yield equal("others", len(wrong), HOSTILE)
    for name, text in wrong.items():
        yield holds(f"{name}: says why", text.startswith("differs") or not text.endswith(": "), text[:120])
    yield equal("exit code", code, 1)
    yield equal("exit code, the second time", code_again, 1)
