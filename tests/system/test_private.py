"""A drive that records in short parts: another user of the machine reads nothing of it, and the parts are one run."""

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sync.record import open_run, parts
from tandem.records.replay import Options, replay_run
from tests.system.conftest import DRIVE, WEAVE, Program, leftovers, ring_of, tandem, until, wait_for_steps

ANOTHER = 65534
EVERYTHING = ("sh", "-c", 'umask 0; exec "$@"', "sh")  # a shell whose files are for everybody


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that everybody may read: what is in it must be closed by itself."""
    made = Path(tempfile.mkdtemp(prefix="tandem-open"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def another_user_reads(path: Path) -> bool:
    listing = ["ls", str(path)] if path.is_dir() else ["cat", str(path)]
    done = subprocess.run(listing, user=ANOTHER, group=ANOTHER, extra_groups=[], capture_output=True, check=False)
    return done.returncode == 0


def below(folder: Path) -> list[Path]:
    return [folder, *sorted(folder.rglob("*"))]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_another_user_reads_no_record_report_ring_or_socket(
    start: Callable[..., Program], name: str, open_folder: Path
) -> None:
    readable = open_folder / "readable"
    readable.write_text("by everybody")
    readable.chmod(0o644)
    assert another_user_reads(readable)
    runs = open_folder / "runs"
    settings = (f"name={name}", "view.enabled=false", "record.part_minutes=0.02")
    options = [word for setting in settings for word in ("--set", setting)]
    run = start(
        "tandem", "drive", str(DRIVE), "--seconds", "0", *options, *WEAVE, "--runs", str(runs), inside=EVERYTHING
    )
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 20)
    steps.close()
    local = [Path(path) for path in leftovers(name)]
    assert any(stat.S_ISSOCK(path.stat().st_mode) for path in local) and any("/dev/shm" in str(path) for path in local)
    assert [path for path in local if another_user_reads(path)] == []
    until(lambda: len(parts(next(runs.iterdir()))) > 2, lambda: run.said)
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    files = below(runs)
    folder = next(runs.iterdir())
    assert {folder / "report.html", folder / "report.json", *parts(folder).values()} <= set(files)
    assert tandem("export", str(folder), "--to", "csv").code == 0
    assert [path for path in below(runs) if another_user_reads(path)] == []
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o700, 0o600}
    # and it is one run
    found = open_run(folder)
    assert len(found.parts) > 2 and found.whole and not any("taken up" in text for _, text in found.notices)
    assert replay_run(folder, Options()).figures["identical"] is True
    until(lambda: leftovers(name) == [], "something is left")
