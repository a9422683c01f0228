"""The page that `make bench` makes: every command with what it printed and ended with, failed ones included."""

import sys
from pathlib import Path

import pytest

from verify.speed import validation
from verify.speed.validation import Measurement


def test_the_page_has_the_machine_and_every_output_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Measurement("Does it count?", (sys.executable, "-c", "import sys; print('forty', *sys.argv[1:])"), 60)
    bad = Measurement("Does it fail?", (sys.executable, "-c", "print('half'); raise SystemExit('no device')"))
    slow = Measurement(
        "Does it end?", (sys.executable, "-c", "import time; print('so far', flush=True); time.sleep(60)")
    )
    gone = Measurement("Is it there?", (str(tmp_path / "no_such_program"),))
    monkeypatch.setattr(validation, "MEASUREMENTS", (good, bad))
    out = tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", ["validation.py", "--out", str(out), "--share", "0.1"])
    assert validation.main() == 1
    page = out.read_text()
    assert "| utc | 20" in page and "| cores | " in page and "Of the usual durations only 0.1" in page
    assert "forty --seconds 6\n" in page and "Exit code 0" in page
    assert "**Failed** with exit code 1" in page and "half\nno device" in page
    assert "1 of 2 measured; failed: python -c" in capsys.readouterr().out
    monkeypatch.setattr(validation, "MEASUREMENTS", (gone, slow))
    monkeypatch.setattr(validation, "_LIMIT_S", 1e-3)  # it may print or not
    assert validation.main() == 1
    page = out.read_text()
    assert "no_such_program: No such file or directory" in page and "**Failed**: not finished after" in page
    assert "## Does it end?" in page


def test_what_is_measured_exists() -> None:
    for measurement in validation.MEASUREMENTS:
        words = measurement.words(1.0)
        assert words[1] == "-m" or (validation.ROOT / words[1]).is_file()
