"""Pages read easily: sentences of 20 words on average, lines that a terminal shows, tables that are tables."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

from verify.tree import prose

ROOT = Path(__file__).resolve().parents[1]
PAGES = prose.pages()
GUIDES = ("Install", "Tutorial", "How to", "Machines")  # of the site's navigation
MOST_LINES = 150  # of a guide: three screens at 1280 px
FIRST_SCREEN = 40  # lines
# longer ones, and why
LONGER = {
    "uses.md": 290,  # a command for every use, each with what it does; every one is run by a test
    "your_device.md": 225,  # the whole text of a device, line by line
}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_sentences_of_a_page_are_short(path: Path) -> None:
    assert prose.read(path).words <= prose.MOST_WORDS


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_no_long_line_and_no_broken_table(path: Path) -> None:
    assert prose.read(path).faults == []


def test_faults_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    long = "word " * 30
    page.write_text(f"{long}\n\n| a | b |\n| --- | --- |\n| one | two | three |\n\n| lost | row |\n| again | row |\n")
    found = prose.read(page).faults
    assert [re.sub(r"\d+", "N", fault) for fault in found] == [
        "N: N letters", "N: row N: N cells, and N headings",
        "N: rows of no table: a heading and a line of dashes are missing above them",
    ]  # fmt: skip
    page.write_text(
        "| a |\n| --- |\n| This is a sentence of words. This is another of them. And here is a third one. |\n"
    )
    assert len(prose.read(page).faults) == 1


def test_words_are_counted_as_people_count_them() -> None:
    text = "A step uses `x = 1. y` and [a link. of two](page.md), e.g. this one. It ends here, in 3 words?"
    assert [prose.words(each) for each in prose.split(text)] == [12, 6]


def guides() -> list[str]:
    sections = {name: pages for entry in _navigation() for name, pages in entry.items()}
    return [page for name in GUIDES for page in _pages(sections[name])]


def _navigation() -> list[dict[str, object]]:
    found: list[dict[str, object]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    return found


def _pages(entry: object) -> list[str]:
    return [page for each in entry for page in each.values()] if isinstance(entry, list) else [str(entry)]


@pytest.mark.parametrize("page", guides())
def test_a_guide_begins_with_a_task_a_command_and_a_picture(page: str) -> None:
    """Before its first section: who reads it sees whether it is for him, what to type, and what comes of it."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    sections = [k for k, line in enumerate(lines) if line.startswith("## ")] + [len(lines)]
    head = "\n".join(lines[1 : min(sections[0], FIRST_SCREEN)])
    assert re.match(r"\n(You |tandem |`?configs/)", head), "the task, in a sentence"
    fence = re.search(r"^```\w+\n(.+?)^```", head, re.DOTALL | re.MULTILINE)
    assert fence and re.search(r"tandem", fence[1]), "the command"
    assert (pictures := re.findall(r"!\[[^\]]+\]\((images/[^)]+)\)", head)), "the picture"
    assert all((ROOT / "docs" / picture).is_file() for picture in pictures)


@pytest.mark.parametrize("page", guides())
def test_a_guide_fits_three_screens(page: str) -> None:
    lines = len((ROOT / "docs" / page).read_text().splitlines())
    assert lines <= LONGER.get(page, MOST_LINES)
    assert page not in LONGER or lines > MOST_LINES, "it need not be listed any more"


def test_drawings_are_those_of_their_table() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "diagrams.py"))
    for name, boxes in made["DRAWINGS"].items():
        assert (ROOT / "docs" / "images" / f"{name}.svg").read_text() == made["drawing"](boxes), name
