"""The studies of the piano key: each of them says what it promises, and all of it holds."""

import pytest
from typer.testing import CliRunner

from tandem.commands.cli import app
from tandem.machines.piano import studies as piano
from tandem.machines.piano.studies import strokes, study
from tandem.reports.html.report_page import report_page

DEAR = ("models", "sensitivity")


@pytest.mark.parametrize("part", [pytest.param(p, marks=pytest.mark.drill if p in DEAR else ()) for p in piano.PARTS])
def test_every_study_holds_and_is_shown(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, some in (("MS", (8, 20, 80, 300)), ("FINGER", (12, 50, 200)), ("HZ", (2.0, 6.0, 12.0))):
        monkeypatch.setattr(strokes, name, some)  # all of them: `tandem study piano strokes`
    results = piano.examine([part], lambda *_: None)
    assert [each.name for each in results] == [f"{part}-{name}" for name in piano.PARTS[part]]
    report = study.report(results)
    assert report.exit_code == 0 and report.headline.startswith("All "), report.headline
    page = report_page(report)
    assert page.count("<table") == len(results) and ("<svg" in page) == any(each.pictures for each in results)


def test_a_part_that_is_none_is_refused_by_name() -> None:
    done = CliRunner().invoke(app, ["study", "piano", "violin"])
    assert done.exit_code == 2 and "study piano violin: must be one of phases, multibody, strokes" in done.output
