"""Lines of a page broken where they are too long: paragraphs and items; code, tables and headings stay as they are."""

import re
import textwrap

MOST_LETTERS = 120  # of a line; a row of a table cannot be broken
_WIDE = MOST_LETTERS - 4
_FENCE = re.compile(r"^\s*(```|~~~)")
_ITEM = re.compile(r"^(\s*)([*+-]\s+|\d+\.\s+|>\s+)?")
_MISREAD = re.compile(r"^([*+-]\s|\d+\.\s|#|>|\||=+$)")  # at the beginning of a line
_GAP = "\0"  # a space that stays


def wrapped(text: str) -> str:
    done: list[str] = []
    block: list[str] = []
    fenced = False
    for line in text.split("\n"):
        code = line.startswith("    ") and not block
        if _FENCE.match(line) or fenced or code or not line.strip() or line.lstrip().startswith(("|", "#")):
            done += [*_broken(block), line]
            block = []
            fenced ^= bool(_FENCE.match(line))
            continue
        if re.match(r"^\s*([*+-]|\d+\.)\s", line):
            done += _broken(block)
            block = []
        block.append(line)
    return "\n".join(done + _broken(block))


def _broken(block: list[str]) -> list[str]:
    if all(len(line) <= MOST_LETTERS for line in block):
        return block
    found = _ITEM.match(block[0])
    assert found is not None
    indent, mark = found[1], found[2] or ""
    text = " ".join(line.strip() for line in block)[len(mark) :]
    text = re.sub(r"`[^`]*`|\[[^\]]{,60}\]\([^)]*\)", lambda each: each[0].replace(" ", _GAP), text)
    lines = textwrap.wrap(
        text, _WIDE, initial_indent=indent + mark, subsequent_indent=indent + " " * len(mark),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    whole: list[str] = []
    for line in lines:
        if whole and _MISREAD.match(line.strip()):  # a dash would become an item
            whole[-1] += f" {line.strip()}"
        else:
            whole.append(line)
    return [line.replace(_GAP, " ") for line in whole]
