"""The studies of the piano key: each of them says what it promises, and all of it holds."""

import io

from rich.console import Console

from tandem.studies.piano import phases


def test_every_study_holds_and_is_shown() -> None:
    results = phases.examine(lambda *_: None)
    assert [study.name for study in results] == [*phases.STUDIES]
    assert all(study.holds for study in results), phases.headline(results)
    console = Console(width=200, file=io.StringIO())
    phases.print_results(console, results)
    assert "All " in phases.headline(results) and all(
        "<svg" in p or "<table" in p for p in phases.page_sections(results)
    )
