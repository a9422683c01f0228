"""What the README and docs/uses.md show works as pasted."""

import ast
import contextlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sync.record import open_run
from tests.system.conftest import PATIENCE_S, ROOT, Program, ring_of, tandem, wait_for_steps

README = (ROOT / "README.md").read_text()
USES = (ROOT / "docs" / "uses.md").read_text()
Start = Callable[..., Program]
OWN = "--set name={}"  # of the test


def _fences(language: str) -> list[str]:
    return [fence for text in (README, USES) for fence in _fences_of(text, language)]


def _fences_of(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def _blocks_of(text: str) -> list[list[str]]:
    return [block.strip().splitlines() for block in _fences_of(text, "sh")]


def _blocks() -> list[list[str]]:
    """Lines of all blocks of commands; those that both pages show are run once."""
    first, second = _blocks_of(README), _blocks_of(USES)
    shown = {line for block in first for line in block}
    return first + [[line for line in block if line not in shown] for block in second]


BLOCKS = _blocks()
COMMANDS = [command for block in BLOCKS for command in block]
DIAGNOSES = (0, 4, 5)  # a machine that other programs use may well be told to be too late: that is the doctor's work
ENDLESS = (".venv/bin/tandem daq", ".venv/bin/tandem sim")
PAGES = tuple(c for c in COMMANDS if "tandem view" in c or "page.toml" in c)  # until Ctrl-C; see test_readme_pages.py
DEVICES = {c for c in COMMANDS if "tandem daq configs/" in c}
STARTS_PROCESSES = {"drive", "run", "doctor", "latency", "daq", "sim"}
MISSING = 7


def _groups() -> list[list[str]]:
    """Commands that need nothing of one another: a block each, but one for all that read what was driven before."""
    ends = [[c for c in block if c not in (*ENDLESS, *PAGES, "make drive", "make test")] for block in BLOCKS]
    uses_runs = [any(word in c for c in block for word in ("runs", "exported")) for block in ends]
    reads = [k for k, uses in enumerate(uses_runs) if uses]
    chain = [c for block in ends[reads[0] : reads[-1] + 1] for c in block]
    return [block for k, block in enumerate(ends) if block and not reads[0] <= k <= reads[-1]] + [chain]


def _as_cases() -> list[Any]:
    """Those of the README, and all that reads what was driven; a drive each that docs/uses.md shows takes long."""
    first = {command for block in _blocks_of(README) for command in block}
    return [
        pytest.param(group, marks=() if len(group) > 2 or group[0] in first else pytest.mark.drill)
        for group in _groups()
    ]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The repository as a user would see it, but with no runs in it, and none left behind.

    Without the packages, which are installed: found by another path they would be compiled anew.
    """
    for entry in ROOT.iterdir():
        if entry.name not in ("runs", "exported", "tandem", "sim_service", "daq_service", "sync"):
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def _shell(command: str, place: Path, timeout: float = 600.0) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("ARGS", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES")}
    return subprocess.run(
        command, shell=True, cwd=place, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )  # without what `make test ARGS=...` told make


@contextlib.contextmanager
def _running(words: list[str], place: Path) -> Iterator[Program]:
    run = Program("tandem", *words, place=place)
    try:
        yield run
    finally:
        run.close()


def test_the_first_screen_shows_a_picture_and_the_two_commands() -> None:
    first = README.splitlines()[:24]
    assert any("![" in line for line in first)
    assert COMMANDS[:2] == ["make drive", "make test"]
    picture = re.search(r"!\[.*?\]\((.*?)\)", README)
    assert picture and (ROOT / picture[1]).exists()


def test_it_is_read_in_a_few_minutes() -> None:
    assert len(README.split()) < 700
    headings = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert headings == ["Your own car", "Your own machine", "Your own data", "Figures"]


def test_make_drives_and_says_what_happened(checkout: Path, name: str) -> None:
    assert _shell("make -n test", checkout).returncode == 0  # running it here would run this
    # whatever is older than what: what is installed stays as it is
    run = _shell(f'make -o .venv/.drive drive ARGS="--seconds 5 {OWN.format(name)} --set view.port=0"', checkout)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    shown = next(block for block in _fences("text") if "balance closes" in block)
    for heading in ("in time: ", "Times in us", "Where the age comes from", "lateness"):
        assert heading in shown and heading in run.stdout
    assert "balance closes: " in run.stdout and "record whole: " in run.stdout


@pytest.mark.parametrize("group", _as_cases(), ids=lambda group: group[0].removeprefix(".venv/bin/tandem "))
def test_commands_that_end_do_so_cleanly(
    group: list[str], checkout: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pasted; but under a name of their own and without a page, for other tests drive at the same time."""
    monkeypatch.chdir(checkout)
    for command in group:
        program, *words = shlex.split(command)
        assert program == ".venv/bin/tandem" and (checkout / program).exists()
        own = [*words, *shlex.split(OWN.format(name)), "--set", "view.enabled=false"]
        if words[0] not in STARTS_PROCESSES:
            done = tandem(*words)
            assert done.code == 0, f"{command}\n{done.printed}\n{done.said}"
        elif command in DEVICES:
            with _running(own, checkout) as run:
                try:
                    code = run.popen.wait(60.0)
                except subprocess.TimeoutExpired:  # it has one, or waits for it and says so
                    assert run.said.strip(), command
                else:
                    assert code == MISSING and run.end() == MISSING and run.said.strip(), f"{command}\n{run.said}"
        else:
            with _running(own, checkout) as run:
                code = run.end()
            fine = DIAGNOSES if words[0] == "doctor" else (0,)
            assert code in fine, f"{command}\n{run.printed}\n{run.said}"
            if "--json" in words:
                assert run.json()["balance"]["closes"]
            elif words[0] in ("drive", "run"):
                assert "balance closes" in run.printed and "record whole" in run.printed
    if any("--out runs/heavy" in c for c in group):
        _the_chain_left_what_it_says(checkout)


def _the_chain_left_what_it_says(checkout: Path) -> None:
    """Another car on the same inputs; the same 50 ms later; and what other programs read."""
    heavy, late = open_run(checkout / "runs" / "heavy"), open_run(checkout / "runs" / "late")
    reports = [json.loads(file.read_text()) for file in (checkout / "runs").glob("*/report.json")]
    drives = [each["runs"][0] for each in reports if "runs" in each]
    (driven,) = {each["figures"]["steps"] for each in drives} & {len(heavy.topics["/step"])}
    assert len(heavy.topics["/step"]) == len(late.topics["/step"]) == driven > 0
    assert (heavy.topics["/step"].blocks["x"] != late.topics["/step"].blocks["x"]).any()
    assert (checkout / "runs" / "late" / "plot.html").exists() and list((checkout / "exported").glob("*.csv"))


def test_two_terminals_as_shown(start: Start, name: str) -> None:
    assert [c for c in COMMANDS if c in ENDLESS] == list(ENDLESS)
    own = shlex.split(OWN.format(name))
    running = [start(*shlex.split(c.replace(".venv/bin/", "")), *own) for c in ENDLESS]
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    first = steps.newest()
    wait_for_steps(steps, steps.head + 100)
    newest = steps.newest()
    steps.close()
    assert int(newest["input_seq"]) > int(first["input_seq"]) > 0  # each on a newer block of the other terminal
    for program in running:
        program.signal(signal.SIGINT)
    assert [p.end() for p in running] == [0, 0], [p.said for p in running]


def test_the_stream_can_be_read_by_the_script_shown(drive: Start, name: str) -> None:
    (script,) = _fences("python")
    assert len([line for line in script.splitlines() if line.strip() and not line.startswith("import")]) <= 10
    assert "/tandem.daq.ipc" in script
    running = drive("--seconds", "0", "--json")
    running.wait_for("the DAQ is there")
    own = script.replace("/tandem.daq.ipc", f"/{name}.daq.ipc")
    read = subprocess.run([sys.executable, "-c", own], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    running.signal(signal.SIGINT)
    assert running.end() == 0, running.said
    assert read.returncode == 0, read.stderr
    seen = [ast.literal_eval(line) for line in read.stdout.splitlines()]
    assert len(seen) == 5 and all({"seq", "t_ns", "brake", "throttle", "steering"} <= set(block) for block in seen)
    assert all(b["seq"] > a["seq"] and b["t_ns"] > a["t_ns"] for a, b in itertools.pairwise(seen))


def test_every_link_leads_somewhere() -> None:
    for file in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = file.read_text()
        for path in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            assert "://" in path or (file.parent / path).exists(), f"{file}: {path}"
