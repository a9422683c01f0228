"""The studies of the piano key: each of them says what it promises, and all of it holds."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tandem.commands.cli import app
from tandem.machines.piano import studies as piano
from tandem.machines.piano.studies import study


@pytest.mark.parametrize("part", [*piano.PARTS])
def test_every_study_holds_and_is_shown(part: str) -> None:
    results = piano.examine([part], lambda *_: None)
    assert [each.name for each in results] == [f"{part}-{name}" for name in piano.PARTS[part]]
    assert all(each.holds for each in results), study.headline(results)
    console = Console(width=200, file=io.StringIO())
    study.print_results(console, results)
    assert "All " in study.headline(results) and all("<svg" in p or "<table" in p for p in study.page_sections(results))


def test_a_part_that_is_none_is_refused_by_name() -> None:
    done = CliRunner().invoke(app, ["study", "piano", "violin"])
    assert done.exit_code == 2 and "study piano violin: must be one of phases, multibody, models" in done.output
