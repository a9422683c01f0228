"""An option that would change nothing beside what else is asked for is refused in a sentence, not ignored."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tandem.commands.cli import app
from tests.tandem.runs import write_drive


@pytest.mark.parametrize(
    "words",
    [
        "view mechanisms/four_bar --set view.rate_hz=5",
        "view mechanisms/four_bar --against ideal",
        "view mechanisms/four_bar --mode ideal",
        "view mechanisms/four_bar --delay-ms 5",
        "view drive --mode ideal",
        "view --runs elsewhere",
        "view RUN --runs elsewhere",
        "mechanism four_bar --equations c --seconds 1",
        "mechanism four_bar --equations c --scheme i3al",
        "calibrate drive --show --force",
        "calibrate drive --show --row steering",
        "sweep buggy_springs --gpu --workers 2",
        "fmu --list buggy",
        "fmu their.fmu --step-ms 1",
        "fmu their.fmu --yes",
        "study wall hand --no-measure",
        "study wall laws --decay RUN",
        "study wall --run RUN",
        "study caster-trials somebody --summary RUN --seed 2",
        "tyre compare one.tir other.tir --map alpha=SA:deg",
        "midi piano --out notes.mid --virtual",
    ],
)
def test_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    run = str(write_drive(tmp_path / "a", 100)) if "RUN" in words else ""
    given = [run if word == "RUN" else word for word in shlex.split(words)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2, done.output
    option = next((word for word in reversed(given) if word.startswith("--")), "")
    argument = "MACHINE" if "--list" in given else ""
    assert done.stderr.startswith(f"tandem: {argument or option}: ") and done.stderr.endswith("; leave it out\n")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "a"] == []
