"""How the pages of docs/ read: words a sentence, page by page, and what is wrong with their sources.

    python -m verify prose                 words a sentence of every page
    python -m verify prose --of haptics    the longest sentences of a page, and the lines that are wrong
    python -m verify prose --wrap          break lines that are too long

A sentence ends with a full stop, a question or an exclamation mark, or with its paragraph, item or cell. Code and
headings are left out; a link counts by its text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from verify import ROOT
from verify.measure import Row, at_most, note
from verify.tree.wrap import MOST_LETTERS, wrapped

MOST_WORDS = 20.0  # of a sentence, on average, of a page
MOST_SENTENCES = 2  # of a cell
_FENCE = re.compile(r"^\s*(```|~~~)")
_ENDS = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z0-9\"'(`\[*])")
_SHORT = re.compile(r"\b(e\.g|i\.e|cf|vs|Fig|eq|approx|No|Vol|pp|et al|Dr|St|[A-Z])\.(?=\s)")
_WORD = re.compile(r"[A-Za-zÄÖÜäöüß0-9][\w'’./–-]*")


@dataclass(frozen=True)
class Page:
    path: Path
    sentences: list[str]
    faults: list[str]  # line and what is wrong with it

    @property
    def words(self) -> float:
        """A sentence, on average."""
        return sum(map(words, self.sentences)) / max(len(self.sentences), 1)


def words(sentence: str) -> int:
    return len(_WORD.findall(sentence))


def pages() -> list[Path]:
    """Those that people write; results are written by verify/, decisions are what was thought then."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def read(path: Path) -> Page:
    blocks, faults = [], []
    lines = path.read_text().splitlines()
    for number, kind, block in _blocks(lines):
        if kind == "table":
            faults += [f"{number}: {fault}" for fault in _table_faults(block)]
            blocks += [cell for row in block for cell in cells(row) if not re.fullmatch(r"[\s:|-]*", cell)]
        else:
            blocks.append(" ".join(block))
            faults += [f"{number + k}: {len(line)} letters" for k, line in enumerate(block) if len(line) > MOST_LETTERS]
    return Page(path, [each for block in blocks for each in split(block)], faults)


def split(text: str) -> list[str]:
    """Sentences of a paragraph, with links and code as plain words; one has more than three words."""
    plain = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"`[^`]*`", "code", plain)
    plain = re.sub(r"^[\s>*+-]*(\d+\.\s)?", "", plain)
    plain = _SHORT.sub(r"\1", plain)
    return [part for part in _ENDS.split(plain) if words(part) > 3]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _table_faults(rows: list[str]) -> Iterator[str]:
    if len(rows) < 2 or not re.fullmatch(r"\|?[\s:|-]+\|?", rows[1]):
        yield "rows of no table: a heading and a line of dashes are missing above them"
        return
    wide = len(cells(rows[0]))
    for k, row in enumerate(rows):
        if len(cells(row)) != wide:
            yield f"row {k}: {len(cells(row))} cells, and {wide} headings"
        for cell in cells(row):
            if len(split(cell)) > MOST_SENTENCES:
                yield f"row {k}: a cell of {len(split(cell))} sentences: {cell[:60]}"


def _blocks(lines: list[str]) -> Iterator[tuple[int, str, list[str]]]:
    """(line, text or table, lines) of what belongs together."""
    block: list[str] = []
    begin, kind, fenced = 0, "text", False
    for number, line in enumerate(lines, 1):
        if _FENCE.match(line):
            fenced = not fenced
            if block:
                yield begin, kind, block
            block = []
            continue
        if fenced:
            continue
        now = "table" if line.lstrip().startswith("|") else "text"
        alone = bool(re.match(r"\s*([*+-]|\d+\.)\s", line))  # an item of a list
        if block and (not line.strip() or line.startswith("#") or now != kind or alone):
            yield begin, kind, block
            block = []
        if line.strip() and not line.startswith(("#", "    ")):
            if not block:
                begin, kind = number, now
            block.append(line)
    if block:
        yield begin, kind, block


def prose(
    *,
    of: Annotated[str, "a page by its name: its longest sentences, and the lines that are wrong"] = "",
    wrap: Annotated[bool, "break lines that are too long, in every page or in that one"] = False,
) -> Iterator[Row]:
    for path in pages():
        if of and path.stem != of:
            continue
        if wrap and (broken := wrapped(path.read_text())) != path.read_text():
            path.write_text(broken)
        page = read(path)
        for sentence in sorted(page.sentences, key=words, reverse=True)[: 10 if of else 0]:
            note(f"{words(sentence)}: {sentence}")
        for fault in page.faults if of else ():
            note(f"{path.name}:{fault}")
        yield at_most(f"{path.name}: words a sentence", round(page.words, 1), MOST_WORDS)
        yield at_most(f"{path.name}: faults of its source", len(page.faults), 0)
