"""No function is longer than 80 lines or takes more than 12 arguments without a reason in a comment above it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.import_rules import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
_MOST_LINES, _MOST_ARGUMENTS = 80, 12


def _may_be_long(text: str) -> bool:
    """Whether it is worth the time that its syntax takes: definitions far apart, or one with many commas."""
    at = [match.start() for match in re.finditer(r"^ *(?:async )?def ", text, re.MULTILINE)]
    pieces = [text[begin:end] for begin, end in zip(at, [*at[1:], len(text)], strict=False)]
    return len(text.splitlines()) > _MOST_LINES and any(
        piece.count("\n") >= _MOST_LINES // 4 or piece.partition(":\n")[0].count(",") >= _MOST_ARGUMENTS
        for piece in pieces
    )


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
        if _may_be_long(text := file.read_text()) and (names := list(unread(text)))
    }
    assert found == {}


def test_a_long_one_is_found_and_a_reason_is_heard() -> None:
    body = "    x = 1\n" * 80
    assert list(unread(f"def f():\n{body}")) == ["f, line 1"]
    assert list(unread(f"# long: it is a table\ndef f():\n{body}")) == []
    assert list(unread(f"def f({', '.join('abcdefghijklm')}):\n    pass\n")) == ["f, line 1"]
