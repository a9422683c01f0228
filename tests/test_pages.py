"""Pages read easily: sentences of 20 words on average, lines that a terminal shows, tables that are tables."""

import re
from pathlib import Path

import pytest

from verify.tree import prose

ROOT = Path(__file__).resolve().parents[1]
PAGES = prose.pages()


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
