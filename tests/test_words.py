"""Identifiers have the words of the field (CONTRIBUTING.md): none is called told, said, kept, ... in what we write.

Searched are names of functions, classes, arguments, variables, attributes, keywords and modules, word by word; comments
and strings are plain English and are not searched.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = {
    "told",
    "said",
    "kept",
    "anew",
    "turned",
    "outlook",
    "followed",
    "whoever",
    "likeness",
    "made",
    "asked",
    "given",
}
# of files, contracts and programs of others, which have them
PUBLIC = {"made_now", "steps_made", "steps_not_made", "connection_made", "given", "AT_GIVEN", "asked"}
FOLDERS = ("sync", "daq_service", "sim_service", "tandem", "verify", "docs")


def words(name: str) -> set[str]:
    """`begin_anew`, `_MOST_KEPT` and `OutlookOf` are of two or three."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.ImportFrom(module=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield name
                yield other or ""


def unwanted(text: str, path: str = "") -> set[str]:
    return {name for name in [*names(ast.parse(text)), path] if words(name) & WORDS and name not in PUBLIC}


def test_no_identifier_has_a_word_that_only_we_know() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    found = {}
    for file in files:
        path, text = str(file.relative_to(ROOT)), file.read_text()
        if any(word in text.lower() or word in path for word in WORDS) and (wrong := unwanted(text, path)):
            found[path] = sorted(wrong)
    assert len(files) > 500 and not found, found


def test_a_name_is_found_by_its_words_however_it_is_written() -> None:
    text = (
        "def begin_anew(_kept, *, most=TOLD):\n    class Outlook: ...\n    here.turnedBy(said=1)\nimport a.followed\n"
    )
    assert unwanted(text) == {"begin_anew", "_kept", "TOLD", "Outlook", "turnedBy", "said", "a.followed"}
    assert not unwanted("unfollowed = 'it said'  # and was told anew\n")
    assert unwanted("", "tandem/outlook.py") == {"tandem/outlook.py"}
