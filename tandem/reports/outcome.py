"""What a run amounts to, from its figures alone: what went wrong, in words, and the exit code.

A run is clean (0) if it ended as asked, every step that was due was made, the balance of blocks closes and the record
is complete. A process that crashed and was restarted is part of the report and leaves the exit code alone: that is what
restarts are for. So do parts of the record that were deleted because the configuration asks for it. A process that was
not back at the end does not: less was simulated than should have been.

Nothing here starts, reads or prints anything.
"""

from dataclasses import dataclass
from typing import Any

CLEAN = 0
FAILED = 1
RECORD_INCOMPLETE = 6
SHORT = 9  # less was simulated than was due
DAMAGED = 10  # a record was read, but a part of it is damaged
INTERRUPTED = 130  # by Ctrl-C before the first step, as a shell reports it

EXIT_CODES = {
    CLEAN: "a clean run: it ended as asked, and the balance closes",
    FAILED: "something failed",
    2: "a configuration or a file is wrong",
    3: "the model diverged",
    4: "only `tandem doctor`: it runs, but steps may come late",
    5: "only `tandem doctor`: a check failed",
    RECORD_INCOMPLETE: "a clean run, but its record is not whole: deleted, disk full, or a failed sync",
    7: "a device or its driver is missing or refuses",
    8: "input was lost for longer than allowed",
    SHORT: "less was simulated than was due: a process crashed and was not back at the end",
    DAMAGED: "a record was read, but a part of it is damaged",
    11: "the code of an FMU would run without consent",
    70: "a service failed unexpectedly",
    INTERRUPTED: "Ctrl-C before the first step, or during a command that was not finished",
}

TITLES = {
    "daq": "the DAQ", "sim": "the simulator", "view": "the view", "look_ahead": "the look ahead",
    "record": "the recorder",
}  # fmt: skip
_NEEDED = ("daq", "sim")  # without them nothing is simulated, or on no input


@dataclass(frozen=True)
class Verdict:
    code: int
    complaints: tuple[str, ...]  # the most serious first; none for a clean run


def verdict(figures: dict[str, Any], failure: str | None = None, code: int = CLEAN) -> Verdict:
    """The verdict on a run (live/figures.py); `failure` and `code` if the run already knows that it failed."""
    found: list[tuple[int, str]] = []
    if failure:
        found.append((code or FAILED, failure))
    absent = not_back(figures)
    if absent:
        found.append((SHORT, f"{' and '.join(absent)} crashed and was not back at the end"))
    if figures.get("steps_not_made") and (absent or failure):
        found.append((SHORT, f"{missed_steps(figures)}"))
    if not figures["balance"]["closes"]:
        found.append((FAILED, "the loss balance does not close"))
    record = figures.get("record")
    if record and not record["whole"]:
        found.append((RECORD_INCOMPLETE, f"the record is not whole: {record['state']}"))
    return Verdict(found[0][0] if found else CLEAN, tuple(text for _, text in found))


def not_back(figures: dict[str, Any]) -> list[str]:
    """The needed processes that crashed and had not taken up their work again when the run ended."""
    last = {crash["process"]: crash for crash in figures.get("deaths") or []}
    return [TITLES[name] for name in _NEEDED if name in last and last[name]["outage_s"] is None]


def missed_steps(figures: dict[str, Any]) -> str:
    missing = figures["steps_not_made"]
    return f"{missing} of {figures['steps'] + missing} steps that were due were not made"


def events(figures: dict[str, Any]) -> list[str]:
    """Crashes, steps that were due and not made, deleted parts of the record: a sentence each, for a headline."""
    crashes = figures.get("deaths") or []
    found = []
    for name in dict.fromkeys(crash["process"] for crash in crashes):
        mine = [crash for crash in crashes if crash["process"] == name]
        outages = [crash["outage_s"] for crash in mine if crash["outage_s"] is not None]
        if mine[-1]["outage_s"] is None:
            end = "and was not back at the end"
        else:
            end = f"and was restarted, at most {max(outages):.2f} s without it"
        title = TITLES.get(name, name)
        found.append(f"{title[0].upper()}{title[1:]} crashed {times(len(mine))} {end}.")
    if figures.get("steps_not_made"):
        found.append(f"{missed_steps(figures)}.")
    if deleted := (figures.get("record") or {}).get("deleted_parts"):
        first = "The first part" if deleted == 1 else f"The first {deleted} parts"
        found.append(f"{first} of the record {'was' if deleted == 1 else 'were'} deleted to make room.")
    return found


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
