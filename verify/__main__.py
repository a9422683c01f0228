"""What tandem promises, measured.

    python -m verify                          lists every promise
    python -m verify NAME... [--OPTION VALUE] measures these, in this order; 'haptics-*' takes all that are called so
    python -m verify --all                    measures all; --quick the shortest; --bench and --drill those of make

    NAME --help          options of that promise
    --quick NAME...      these, in their shortest settings
    --json FILE          what came out, for programs
    --page FILE          a page for the site, with date, machine, commit and sources; text above the line
                         <!-- measured --> of a page that is there stays
    --title TEXT         of a new page
    --brief              a page with one row a promise, without all that was measured
    --parts FOLDER       each outcome is a file there, and what has a file is not measured again: a long selection
                         can be ended and goes on, another commit's or machine's rows say so
    --limit MINUTES      ends a measurement that takes longer; that counts as missed

An option applies to every chosen promise that has it. Exit code: 0 all held, 1 something was missed, 2 wrong usage.
A promise for which this machine lacks something is listed, and does not count as missed.
"""

import fnmatch
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from verify import show
from verify.measure import note
from verify.promises import PROMISES
from verify.registry import Promise
from verify.run import Outcome, measured, signal_as_interrupt

SELECTIONS = ("all", "quick", "bench", "drill")
OWN = ("json", "page", "title", "limit", "parts")
FLAGS = (*SELECTIONS, "brief")


class Usage(Exception):
    """An error in the words that were typed: says what is wrong and what would be right."""


@dataclass
class CommandLine:
    names: list[str] = field(default_factory=list)
    options: dict[str, list[str]] = field(default_factory=dict)  # by option, without its dashes

    @property
    def chosen(self) -> list[Promise]:
        """The promises chosen by name or by selection; none without either."""
        if self.names:
            found = [p for name in self.names for p in PROMISES.values() if fnmatch.fnmatch(p.name, name)]
            unknown = [name for name in self.names if not fnmatch.filter(PROMISES, name)]
            if unknown:
                raise Usage(f"no promise {', '.join(unknown)}; `python -m verify` lists them")
            return list(dict.fromkeys(found))
        if "all" in self.options:
            return list(PROMISES.values())
        kinds = [kind for kind in SELECTIONS if kind in self.options]
        return [p for p in PROMISES.values() if any(getattr(p, kind) is not None for kind in kinds)]

    def settings(self, promise: Promise) -> dict[str, Any]:
        """Settings of the selection, if there is one, overridden by what was typed."""
        kind = next((kind for kind in ("quick", "bench", "drill") if kind in self.options), None)
        found: dict[str, Any] = dict(getattr(promise, kind) or {}) if kind else {}
        typed = {name: words for name, words in self.options.items() if name not in (*FLAGS, *OWN)}
        if typed:
            options = promise.options
            try:
                found |= {
                    n: options[n].parse(w) for name, w in typed.items() if (n := name.replace("-", "_")) in options
                }
            except ValueError as wrong:
                raise Usage(f"{promise.name}: {wrong}") from None
        return found


def read(words: list[str]) -> CommandLine:
    """Names first, then options; what follows an option belongs to it."""
    line = CommandLine()
    last: list[str] | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            last = line.options.setdefault(name, [])
            last += [value] if equals else []
            if name in FLAGS:
                last = None
        elif last is None:
            line.names.append(word)
        else:
            last.append(word)
    for name in OWN:
        if name in line.options and len(line.options[name]) != 1:
            raise Usage(f"--{name} takes one value")
    return line


def unknown_options(line: CommandLine, chosen: list[Promise]) -> Iterator[str]:
    known = {option.flag for promise in chosen for option in promise.options.values()}
    for name in line.options:
        if name not in (*FLAGS, *OWN) and name not in known:
            of = ", ".join(p.name for p in chosen)
            yield f"--{name}: no option of {of}; there are {', '.join(sorted(known)) or 'none'}"


def main(words: list[str]) -> int:
    try:
        line = read([word for word in words if word not in ("--help", "-h")])
        chosen = line.chosen
        if len(words) == 0 or "--help" in words or "-h" in words:
            print(__doc__ if "--help" in words and not chosen else "", end="")
            print(show.listing(chosen or PROMISES.values(), bool(chosen)))
            return 0
        if not chosen:
            raise Usage("nothing is chosen: names, --all, --quick, --bench or --drill")
        typed = line.options.keys() - {*FLAGS, *OWN}
        for text in unknown_options(line, chosen) if typed else ():
            raise Usage(text)
        plan = [(promise, line.settings(promise)) for promise in chosen]
        limit_s = 60.0 * float(line.options["limit"][0]) if "limit" in line.options else None
    except (Usage, ValueError) as wrong:
        print(f"verify: {wrong}", file=sys.stderr)
        return 2
    return measure_all(plan, line, limit_s)


def measure_all(plan: list[tuple[Promise, dict[str, Any]]], line: CommandLine, limit_s: float | None) -> int:
    found: list[Outcome] = []
    try:
        for number, (promise, settings) in enumerate(plan, 1):
            note(f"{number} of {len(plan)}: {Outcome(promise, settings).command}: {promise.promised}")
            found.append(measured_once(promise, settings, limit_s, line))
            write(found, line)  # after each, so that it is not lost if the next one is interrupted
    except KeyboardInterrupt:
        note(f"interrupted; {len(plan) - len(found)} were not measured")
    show.table(found, Console())
    return int(any(one.missed for one in found) or len(found) < len(plan))


def measured_once(promise: Promise, settings: dict[str, Any], limit_s: float | None, line: CommandLine) -> Outcome:
    """Measured, or read from its part if it was measured with these settings before."""
    if "parts" not in line.options:
        return measured(promise, settings, limit_s)
    part = Path(line.options["parts"][0]) / f"{promise.name}.json"
    before = show.from_json(json.loads(part.read_text()), promise, settings) if part.is_file() else None
    if before is not None and not before.not_here:
        note(f"{before.verdict}, measured before: {part}")
        return before
    found = measured(promise, settings, limit_s)
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(show.as_json([found]), indent=1))
    return found


def write(found: list[Outcome], line: CommandLine) -> None:
    if "json" in line.options:
        Path(line.options["json"][0]).write_text(json.dumps(show.as_json(found), indent=1))
    if "page" in line.options:
        file = Path(line.options["page"][0])
        file.parent.mkdir(parents=True, exist_ok=True)
        title = line.options.get("title", [""])[0]
        file.write_text(show.page(title, found, file.read_text() if file.is_file() else "", "brief" in line.options))


if __name__ == "__main__":
    signal_as_interrupt()
    sys.exit(main(sys.argv[1:]))
