"""docs/security.md as tests: each row of its tables names the test that would fail if the row were false."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("Who", "The doors", "Floods")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def tables(text: str) -> dict[str, list[list[str]]]:
    """The rows of the table under each heading, heads left out; a cell each."""
    found: dict[str, list[list[str]]] = {}
    for part in re.split(r"(?m)^## ", text)[1:]:
        title, _, body = part.partition("\n")
        rows = [line for line in body.splitlines() if line.startswith("|")]
        found[title.strip()] = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]
    return found


@cache
def functions_of(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def wrong_with(row: list[str]) -> list[str]:
    named = NAMED.findall(row[-1])
    missing = [f"{file}::{name} does not exist" for file, name in named if name not in functions_of(file)]
    return (
        missing
        if named
        else ["its last cell names no test, such as `tests/sync/transport/test_keys.py::test_curve_is_there`"]
    )


TABLES = tables((ROOT / "docs" / "security.md").read_text())
ROWS = [(section, row) for section in SECTIONS for row in TABLES.get(section, [])]


def test_every_table_of_threats_is_found() -> None:
    assert {section: len(TABLES.get(section, [])) for section in SECTIONS}.keys() == set(SECTIONS)
    assert all(len(TABLES[section]) >= 4 for section in SECTIONS)


@pytest.mark.parametrize("section, row", ROWS, ids=[f"{section}-{row[0][:40]}" for section, row in ROWS])
def test_a_row_names_the_test_that_would_fail_if_it_were_false(section: str, row: list[str]) -> None:
    assert wrong_with(row) == [], f"docs/security.md, {section}: {row[0]}"


@pytest.mark.parametrize("last, said", [("", "names no test"), ("`tests/test_threats.py::test_no`", "does not exist")])
def test_a_row_without_a_test_is_found(last: str, said: str) -> None:
    text = f"# x\n\n## Who\n| a | b |\n|---|---|\n| c | {last} |\n"
    assert said in wrong_with(tables(text)["Who"][0])[0]
