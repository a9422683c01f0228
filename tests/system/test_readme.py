"""What the README shows works as pasted."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import ROOT, Program

README = (ROOT / "README.md").read_text()
Start = Callable[..., Program]


def _fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


COMMANDS = [line for block in _fences("sh") for line in block.strip().splitlines()]
DIAGNOSES = (0, 4, 5)  # a machine that other programs use may well be told to be too late: that is the doctor's work
ENDLESS = (".venv/bin/tandem daq", ".venv/bin/tandem sim")
PAGES = tuple(c for c in COMMANDS if "tandem view" in c or "page.toml" in c)  # until Ctrl-C; see test_view.py
DEVICES = {c for c in COMMANDS if "tandem daq configs/" in c}
MISSING = 7


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The repository as a user would see it, but with no runs in it, and none left behind.

    Without the packages, which are installed: found by another path they would be compiled anew.
    """
    for entry in ROOT.iterdir():
        if entry.name not in ("runs", "exported", "tandem", "sim_service", "daq_service", "sync"):
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def _shell(command: str, place: Path, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("ARGS", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES")}
    return subprocess.run(
        command, shell=True, cwd=place, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )  # without what `make test ARGS=...` told make


def test_the_first_screen_shows_a_picture_and_the_two_commands() -> None:
    first = README.splitlines()[:20]
    assert any(line.startswith("![") for line in first)
    assert COMMANDS[:2] == ["make drive", "make test"]
    picture = re.search(r"!\[.*?\]\((.*?)\)", README)
    assert picture and (ROOT / picture[1]).exists()


def test_commands_that_end_do_so_cleanly(checkout: Path) -> None:
    for command in COMMANDS:
        if command == "make test":
            assert _shell("make -n test", checkout).returncode == 0  # running it here would run this
        elif command == "make drive":  # as it stands it drives for 50 s
            run = _shell('make drive ARGS="--seconds 5"', checkout)
            assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
        elif command in DEVICES:
            with contextlib.suppress(subprocess.TimeoutExpired):  # with such a device it runs
                run = _shell(f"exec {command}", checkout, 60.0)
                assert run.returncode == MISSING and run.stderr.strip(), f"{command}\n{run.stderr}"
        elif command not in ENDLESS + PAGES:
            run = _shell(command, checkout)
            fine = DIAGNOSES if "tandem doctor" in command else (0,)
            assert run.returncode in fine, f"{command}\n{run.stdout}\n{run.stderr}"


def test_two_terminals_as_shown() -> None:
    assert [c for c in COMMANDS if c in ENDLESS] == list(ENDLESS)
    running = [
        subprocess.Popen(c.split(), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in ENDLESS
    ]
    try:
        time.sleep(6)
        assert [p.poll() for p in running] == [None, None]
        for process in running:
            process.send_signal(signal.SIGINT)
        assert [p.wait(20) for p in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_the_stream_can_be_read_by_the_script_shown(start: Start) -> None:
    (script,) = _fences("python")
    assert len([line for line in script.splitlines() if line.strip() and not line.startswith("import")]) <= 10
    drive = start("tandem", "drive", "--seconds", "0", "--json")
    drive.wait_for("the DAQ is there")
    read = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    drive.signal(signal.SIGINT)
    assert drive.end(30) == 0, drive.said
    assert read.returncode == 0, read.stderr
    assert read.stdout.count("'steering'") == 5


def test_every_path_named_exists() -> None:
    for path in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:configs|docs|sync|daq_service|sim_service|tests|benchmarks)/[\w./]*)`", README):
        assert (ROOT / path).exists(), path
