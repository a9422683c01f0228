"""Pages that list or name things are complete and true."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
FOLDERS = "sync|daq_service|sim_service|tandem|configs|tests|verify|deploy|docker|docs"


def is_there(path: Path) -> bool:
    """A folder that only old compiled Python is left of is not."""
    if path.is_file():
        return True
    return any(file.is_file() for file in path.rglob("*") if "__pycache__" not in file.parts)


@pytest.mark.parametrize("file", DECISIONS, ids=lambda file: file.stem)
def test_every_decision_is_listed_with_its_number_and_title(file: Path) -> None:
    number, _, title = file.read_text().splitlines()[0].removeprefix("# ").partition(". ")
    assert int(number) == int(file.name[:4])
    rows = (ROOT / "docs" / "decisions" / "README.md").read_text().splitlines()
    assert f"| {number} | [{title}]({file.name}) |" in rows


def test_the_index_lists_nothing_else() -> None:
    listed = re.findall(r"\]\((.+?)\)", (ROOT / "docs" / "decisions" / "README.md").read_text())
    assert listed == [file.name for file in DECISIONS]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "docs/uses.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(rf"`((?:{FOLDERS})/[\w./]*)`", text)
    assert named
    assert [path for path in named if not is_there(ROOT / path)] == []


def test_the_tree_of_the_architecture_is_there() -> None:
    """Folders by name: at the root, or somewhere inside the packages."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    (tree,) = re.findall(r"## Where to look\n\n```text\n(.*?)```", page, re.DOTALL)
    there = {path.name for each in FOLDERS.split("|") for path in (ROOT / each).rglob("*") if path.is_dir()}
    folders = set(re.findall(r"([\w]+)/", tree))
    assert len(folders) > 40
    assert sorted(folders - there - set(FOLDERS.split("|"))) == []


def test_the_glossary_is_in_order_and_has_a_word_once() -> None:
    rows = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    words = [row.split("|")[1].strip() for row in rows if row.startswith("| ")][1:]
    assert len(words) > 40 and words == sorted(set(words))
