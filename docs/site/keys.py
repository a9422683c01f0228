"""What every key of a configuration means: the comment beside it in configs/drive.toml, or in the class that checks it.
Nothing is written here, so that a key without a sentence is a key without one in its own table (tests/test_site.py)."""

import ast
import importlib
import inspect
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_KEY = re.compile(r"^(\w+) = (?:.*?)(?:  # (.*))?$")
_AS_THEY_ARE = ("tcp", "shm", "ppm", "m", "s", "rad")  # names and units: M is another unit than m
_TABLE = re.compile(r"^\[+([\w.]+)\]+")


@cache
def of_drive() -> dict[tuple[str, str], str]:
    """(table, key) -> what its comment says in drive.toml; not of rows and of its source, which are examples there."""
    found: dict[tuple[str, str], str] = {}
    table, last = "", None
    for line in (ROOT / "configs" / "drive.toml").read_text().splitlines():
        if named := _TABLE.match(line):
            table, last = named[1], None
        elif (key := _KEY.match(line)) is not None:
            last = (table, key[1]) if key[2] else None
            if key[2]:
                found[table, key[1]] = key[2]
        elif line.startswith("# ") and last is not None:
            found[last] += f" {line[2:]}"
        else:
            last = None
    return {
        (table, key): text
        for (table, key), text in found.items()
        if not table.startswith(("inputs", "source", "daq.channels"))
    }


@cache
def of_class(section: type[Any]) -> dict[str, str]:
    """Field -> the comments beside and above it, of a class and those it derives from."""
    found: dict[str, str] = {}
    for each in reversed(section.__mro__):
        if "model_fields" in dir(each) and each.__module__.split(".")[0] in ("sync", "daq_service", "tandem"):
            found.update(_own(each))
    return found


def _own(section: type[Any]) -> dict[str, str]:
    source = inspect.getsource(section)
    comments = {
        token.start[0]: (token.string.lstrip("# "), token.line.lstrip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            above, line = [], each.lineno - 1
            while line in comments and comments[line][1]:
                above.insert(0, comments[line][0])
                line -= 1
            beside = [comments[k][0] for k in range(each.lineno, (each.end_lineno or each.lineno) + 1) if k in comments]
            if text := " ".join(part for part in (" ".join(above), " ".join(beside)) if part):
                found[ast.unparse(each.target)] = text
    return found


def meaning(section: type[Any], table: str, key: str) -> str:
    """A sentence, or nothing. `table` as drive.toml has it."""
    text = of_drive().get((table, key)) or of_class(section).get(key, "")
    if text.lower().startswith(("noqa", "type: ignore")):
        return ""
    return text if text.split(" ")[0].strip(":,") in _AS_THEY_ARE else text[:1].upper() + text[1:]


def source_settings() -> dict[str, type[Any]]:
    """`Settings` of every kind of source that we have."""
    from daq_service.devices import _SETTINGS, DEVICES

    return {kind: importlib.import_module(_SETTINGS.get(kind, module)).Settings for kind, module in DEVICES.items()}
