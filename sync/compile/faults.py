"""What the compiler found wrong in somebody's function, in one sentence with file and line.

numba's own messages have dozens of lines about numba. Imports nothing of it: errors are known by their names.
"""

import re
import traceback
from pathlib import Path

_PLACE = re.compile(r"\bat ([^\n\"]+\.py) \((\d+)\)")
_NOT_THEIRS = ("site-packages", "importlib", "<frozen", "<string>")
_PACKAGES = ("sync", "sim_service", "daq_service", "tandem")
_OWN = Path(__file__).resolve().parents[2]
_MEANINGS = (
    (re.compile(r"NameError: (name '[^']+' is not defined)"), "{}"),
    (re.compile(r"(Cannot modify readonly)"), "it writes into params or tables, which are constant"),
    (
        re.compile(r"(NRT required|Only accept returning of array|_ol_array_allocate)"),
        "it allocates, and a step may not: no new array, list or text; a[:] = b is"
        " sync.compile.array_copy.copy(a, b)",
    ),
    (
        re.compile(r"Signature mismatch: (\d+ argument types given, but function takes \d+)"),
        "{} arguments; a step is step(state, inputs, params, tables, work, h)",
    ),
    (re.compile(r"(Unknown attribute '[^']+' of type [^\n]+)"), "{}"),
    (re.compile(r"(No implementation of function [^\n]+?) found for"), "{}"),
)  # fmt: skip


def sentence(error: BaseException) -> str:
    """What an import raised, and where: the compiler's finding, or else the error itself."""
    text = str(error)
    of_compiler = type(error).__module__.startswith("numba") or "Signature mismatch" in text
    reason = f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
    if of_compiler:
        reason = f"does not compile: {_meaning(text)}"
    place = _place(error, text)
    return f"{place}: {reason}" if place else reason


def _meaning(text: str) -> str:
    for pattern, words in _MEANINGS:
        if found := pattern.search(text):
            return words.format(found[1])
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Failed in nopython")]
    return lines[0][:200] if lines else "numba gives no reason"


def _place(error: BaseException, text: str) -> str:
    """The last line of user code on the way to the error; the compiler's own place goes before the stack's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    theirs = [(file, line) for file, line in _PLACE.findall(text) if not any(each in file for each in _NOT_THEIRS)]
    loc = getattr(error, "loc", None)
    if loc is not None and not any(each in str(loc.filename) for each in _NOT_THEIRS):
        theirs.append((loc.filename, loc.line))
    if not theirs:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [
            (each.filename, str(each.lineno))
            for each in frames
            if not any(part in each.filename for part in _NOT_THEIRS) and not _is_ours(each.filename)
        ]
    return f"{theirs[-1][0]}:{theirs[-1][1]}" if theirs else ""


def _is_ours(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(_OWN) and path.relative_to(_OWN).parts[0] in _PACKAGES
