"""What a check is given and what it gives back, and the few looks at the machine that several checks share.

A look does not fail where a kernel lacks what is asked for: a file is empty, a user has only a number, no tick stolen.
"""

import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sync.config.config import Config
from sync.process.group_scheduling import text

Verdict = Literal["pass", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    name: str
    verdict: Verdict
    reason: str
    remedy: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """What is examined, and for how long."""

    config: Config
    file: Path
    seconds: float
    overrides: tuple[str, ...] = ()  # of the file's settings, for a check that runs it


def passed(reason: str, **figures: Any) -> Finding:
    return Finding("", "pass", reason, "", figures)


def warned(reason: str, remedy: str, **figures: Any) -> Finding:
    return Finding("", "warn", reason, remedy, figures)


def failed(reason: str, remedy: str, **figures: Any) -> Finding:
    return Finding("", "fail", reason, remedy, figures)


def user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def stolen_ticks() -> tuple[int, int]:
    """(ticks the host took from us, all ticks) since boot."""
    ticks = [int(word) for word in text("/proc/stat").partition("\n")[0].split()[1:9]]
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else (0, 0)


@dataclass(frozen=True)
class Check:
    name: str
    run: Callable[[Case], Finding]


def _none(config: Config, file: Path) -> list[str]:
    return []


def _nothing(config: Config, file: Path, overrides: list[str]) -> tuple[list[str], str]:
    return [], ""


@dataclass(frozen=True)
class Rows:
    """What a machine adds to the examination: checks, and where a hand is in its loop the limits that a run measures.

    Both get a configuration and its file, and have nothing to say of another machine's.
    """

    checks: tuple[Check, ...] = ()
    unlimited: Callable[[Config, Path], list[str]] = _none  # parameters that are such limits, and are not set
    # (settings that hold down what a hand could feel as chatter, what to say of it)
    held_down: Callable[[Config, Path, list[str]], tuple[list[str], str]] = _nothing
