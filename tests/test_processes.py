"""Tests in forked processes: all are run once and reported, also those beside one that crashes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FIRST = """
import os, signal, pytest

def test_right(): pass
def test_wrong(): assert 1 == 2
def test_crash(): os.kill(os.getpid(), signal.SIGSEGV)
def test_after_a_crash(tmp_path): (tmp_path / "file").write_text("")
"""
SECOND = """
import pytest

@pytest.fixture(scope="module")
def once(): return []

@pytest.mark.parametrize("k", range(6))
def test_of_one_file_share(once, k): once.append(k); assert len(once) == k + 1

@pytest.mark.alone
def test_alone(): assert os.environ["ALONE"] == "yes"
"""


def _pytest(place: Path, *words: str) -> "subprocess.Popen[str]":
    (place / "pytest.ini").write_text("[pytest]\nmarkers = alone: by itself\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.processes", "--processes", "3", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True)


def test_every_test_is_run_once_and_a_crash_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(FIRST)
    (tmp_path / "test_second.py").write_text("import os\n" + SECOND)
    done = _pytest(tmp_path)
    printed, _ = done.communicate()
    assert done.returncode == 1
    assert "3 failed, 8 passed" in printed, printed
    for text in ("its process ended with SIGSEGV", "assert 1 == 2", "KeyError: 'ALONE'"):
        assert text in printed
    assert printed.count("test_first.py::test_crash") == 1


def test_what_cannot_be_collected_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text("import nothing_of_that_name\n")
    done = _pytest(tmp_path)
    printed, _ = done.communicate()
    assert done.returncode == 2 and "nothing_of_that_name" in printed


def test_an_interrupt_tears_down_what_tests_have_made(tmp_path: Path) -> None:
    text = """
    import pathlib, time, pytest

    @pytest.fixture
    def thing():
        yield
        pathlib.Path("torn_down").touch()

    def test_long(thing):
        pathlib.Path("begun").touch()
        time.sleep(600)
    """
    (tmp_path / "test_first.py").write_text(textwrap.dedent(text))
    done = _pytest(tmp_path)
    while not (tmp_path / "begun").exists():
        assert done.poll() is None
        time.sleep(0.02)
    done.send_signal(signal.SIGINT)
    done.communicate()
    assert done.returncode == pytest.ExitCode.INTERRUPTED and (tmp_path / "torn_down").exists()
