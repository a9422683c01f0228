"""`tandem doctor`: measures this machine and reports, line by line, what is well, what is not, and what to do about it.

Every check is one function in the table `CHECKS`, or among those that a machine brings (tandem/brought.py). It tries
the thing itself rather than guess from settings (asks for the priority, makes the rings, binds the ports, writes and
syncs the disk, sleeps thousands of times), is bounded in time, and leaves nothing behind. A check never raises: what it
did not expect becomes a `fail` that names it. Whatever does not pass comes with a remedy, one sentence to act on.

Verdicts. *pass*: nothing to do; the reason may carry a remark. *warn*: a run works, but with more jitter, or something
is in its way. *fail*: a run will not start, or cannot be on time on this machine.

Exit codes (`exit_code`)

    0  nothing failed; warnings, if any, are not about being on time
    4  nothing failed, but steps may come late: real-time permission, locked memory or the timer has a warning
    5  at least one check failed

Without real-time permission a late timer or a slow transport is a consequence and no finding of its own: it warns and
does not fail, so a machine that lacks nothing but the permission gives 4, however busy it is.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sync.config import plugins
from sync.config.config import Config
from sync.errors import ConfigError, TandemError
from tandem import brought
from tandem.doctor import devices, haptics, machine, measure
from tandem.doctor.findings import Case, Check, Finding, Rows, failed
from tandem.reports.report import Report

__all__ = [
    "CHECKS", "ON_TIME", "Case", "Check", "Finding", "Rows", "all_rows", "examine",
    "exit_code", "print_findings", "report",
]  # fmt: skip

ON_TIME = ("real-time permission", "locked memory", "timer")
_MEANING = {0: "ready", 4: "runs, but steps may come late", 5: "not ready"}


# Quick ones first; the timer last, when the others have come to rest.
CHECKS = (
    Check("configuration", machine.configuration),
    Check("cores", machine.cores),
    Check("frequency governor", machine.governor),
    Check("clock source", machine.clock_source),
    Check("virtual machine", machine.virtual_machine),
    Check("real-time permission", machine.permission),
    Check("real-time throttling", machine.throttling),
    Check("locked memory", machine.locked_memory),
    Check("pages and swap", machine.pages),
    Check("other runs", machine.other_runs),
    Check("ports", machine.ports),
    Check("compiled code", machine.cache),
    *(Check(f"{kind} devices", devices.check(kind)) for kind in devices.KINDS),
    Check("ring", measure.ring),
    Check("disk", measure.disk),
    Check("transport", measure.transport),
    Check("timer", measure.timer),
)


def all_rows() -> list[Rows]:
    """What is felt of any machine, and what each machine brings of its own.

    Raises ConfigError where one of these cannot be had: a run with a hand in it does not begin without its limits.
    """
    return [haptics.ROWS, *(_rows_of(name) for name in plugins.known(plugins.DOCTOR, brought.DOCTOR))]


def _rows_of(machine: str) -> Rows:
    rows = plugins.load(plugins.DOCTOR, brought.DOCTOR, machine, "doctor", ("ROWS",)).ROWS
    if not isinstance(rows, Rows):
        raise ConfigError(f"doctor = {machine!r}: ROWS must be a tandem.doctor.Rows, and is {type(rows).__name__}")
    return rows


def _all_checks() -> Iterator[Check]:
    yield from (*CHECKS, *haptics.ROWS.checks)
    for name in plugins.known(plugins.DOCTOR, brought.DOCTOR):
        try:
            yield from _rows_of(name).checks
        except ConfigError as error:
            yield Check(f"rows of {name}", partial(_refused, str(error)))


def _refused(reason: str, case: Case) -> Finding:
    return failed(reason, "mend or remove that package; until then no run begins with a hand in its loop")


def examine(
    config: Config,
    file: Path,
    seconds: float = 10.0,
    progress: Callable[[str], None] = lambda _: None,
    overrides: Iterable[str] = (),
) -> Iterator[Finding]:
    """Every check in turn; `progress` hears the name of the one that begins."""
    case = Case(config, file, seconds, tuple(overrides))
    for check in _all_checks():
        progress(check.name)
        try:
            found = check.run(case)
        except TandemError as error:  # these contain what would be right
            found = failed(str(error), "do as this message says, then ask again")
        except Exception as error:
            found = failed(
                f"the check itself failed: {type(error).__name__}: {error}",
                "report this line as a bug of tandem, with the output of `tandem doctor --json`",
            )
        yield replace(found, name=check.name)


def exit_code(findings: Iterable[Finding]) -> int:
    """See the table on top."""
    findings = list(findings)
    if any(found.verdict == "fail" for found in findings):
        return 5
    return 4 if any(found.verdict == "warn" and found.name in ON_TIME for found in findings) else 0


_NAME = max(len(check.name) for check in CHECKS)  # the width of their column
_STYLE = {"pass": "green", "warn": "bold yellow", "fail": "bold red"}


def print_findings(console: Console, findings: Iterable[Finding]) -> list[Finding]:
    """A line each, as they come; returns them, so that an iterator can be given. `report` is their sum."""
    seen = []
    for found in findings:
        seen.append(found)
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(width=4)
        line.add_column(width=_NAME)
        line.add_column(overflow="fold")
        line.add_row(Text(found.verdict, _STYLE[found.verdict]), Text(found.name, "bold"), Text(found.reason))
        if found.remedy:
            line.add_row("", "", Text(f"→ {found.remedy}", "cyan"))
        console.print(line)
    return seen


def report(findings: Iterable[Finding]) -> Report:
    """Their sum: the lines have been printed as they came."""
    findings = list(findings)
    code = exit_code(findings)
    counts = ", ".join(f"{sum(f.verdict == v for f in findings)} {v}" for v in _STYLE)
    data = {"code": code, "meaning": _MEANING[code], "findings": [asdict(found) for found in findings]}
    return Report("tandem doctor", f"{counts}: {_MEANING[code]} (exit code {code})", data, code=code)
