"""No function is longer than 80 lines or takes more than 12 arguments without a reason in a comment above it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.import_rules import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
_MOST_LINES, _MOST_ARGUMENTS = 80, 12


def unread(text: str) -> Iterator[str]:
    """Functions of a source that nobody can read at once, and no comment `# long: ...` says why."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            arguments = len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)
            long = (node.end_lineno or 0) - node.lineno + 1 > _MOST_LINES
            reason = lines[first - 2].strip() if first > 1 else ""
            if (long or arguments > _MOST_ARGUMENTS) and not reason.startswith("# long: "):
                yield f"{node.name}, line {node.lineno}"


def test_every_function_can_be_read_or_says_why_not() -> None:
    found = {
        str(file.relative_to(ROOT)): names
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if (names := list(unread(file.read_text())))
    }
    assert found == {}


def test_a_long_one_is_found_and_a_reason_is_heard() -> None:
    body = "    x = 1\n" * 80
    assert list(unread(f"def f():\n{body}")) == ["f, line 1"]
    assert list(unread(f"# long: it is a table\ndef f():\n{body}")) == []
    assert list(unread(f"def f({', '.join('abcdefghijklm')}):\n    pass\n")) == ["f, line 1"]
