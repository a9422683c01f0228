"""What an entry of the registry is, which options it has, and whether this machine has what it needs.

The options are the keyword arguments of the function that measures: its annotations say what is allowed
(`Annotated[int, "drives of each"]`, `Literal["shm", "ipc"]`), its defaults are those of the command line. One without a
default has to be given: the promise cannot be measured without it.
"""

import ctypes.util
import importlib
import importlib.util
import inspect
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from verify.measure import Result

REAL_DATA = "TANDEM_REAL_DATA"
REQUIRED = object()
Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Promise:
    name: str
    promised: str  # one sentence
    where: str  # "module:function" below verify
    minutes: float  # with its defaults
    preset: Settings = field(default_factory=dict)  # settings that make it this promise, if its function has several
    environment: Mapping[str, str] = field(default_factory=dict)  # of the process that measures
    needs: tuple[str, ...] = ()  # of `MISSING`; "package NAME", "program NAME", or "quiet machine"
    quick: Settings | None = None  # its shortest settings, if there are some that take less than a minute
    bench: Settings | None = None  # its settings in `make bench`, if it belongs to that
    drill: Settings | None = None

    @property
    def function(self) -> Callable[..., Iterator[Result]]:
        module, _, function = self.where.partition(":")
        found: Callable[..., Iterator[Result]] = getattr(importlib.import_module(f"verify.{module}"), function)
        return found

    @property
    def options(self) -> dict[str, "Option"]:
        return {name: one for name, one in options_of(self.function).items() if name not in self.preset}

    def missing(self) -> list[str]:
        """What it needs and this machine does not have."""
        return [why for need in self.needs if (why := lacking(need))]


@dataclass(frozen=True)
class Option:
    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    many: bool = False

    def parse(self, words: list[str]) -> Any:
        """The value of what was typed after it; ValueError says what would be right."""
        if self.kind is bool:
            if words:
                raise ValueError(f"--{self.flag} takes no value")
            return True
        if not words or (len(words) > 1 and not self.many):
            raise ValueError(f"--{self.flag} takes {'values' if self.many else 'one value'}")
        found = [self._one(word) for word in words]
        return tuple(found) if self.many else found[0]

    def _one(self, word: str) -> Any:
        if self.choices and word not in self.choices:
            raise ValueError(f"--{self.flag} {word}: one of {', '.join(self.choices)}")
        try:
            return self.kind(word) if self.kind is not Path else Path(word).resolve()
        except ValueError:
            raise ValueError(f"--{self.flag} {word}: not {self.kind.__name__}") from None

    @property
    def flag(self) -> str:
        return self.name.replace("_", "-")

    @property
    def shown(self) -> str:
        value = "" if self.kind is bool else " " + ("|".join(self.choices) or self.kind.__name__.upper())
        default = "" if self.default in (REQUIRED, None, False, ()) else f" (default: {_plain(self.default)})"
        return f"--{self.flag}{value}{'...' * self.many}  {self.help}{default}"


def _plain(value: Any) -> str:
    return " ".join(str(each) for each in value) if isinstance(value, tuple) else str(value)


def options_of(function: Callable[..., Any]) -> dict[str, Option]:
    hints = get_type_hints(function, include_extras=True)
    return {
        name: _option(name, hints[name], REQUIRED if p.default is inspect.Parameter.empty else p.default)
        for name, p in inspect.signature(function).parameters.items()
    }


def _option(name: str, hint: Any, default: Any) -> Option:
    text = ""
    if get_origin(hint) is Annotated:
        hint, text = get_args(hint)[:2]
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    many = get_origin(hint) is tuple
    if many:
        hint = get_args(hint)[0]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    return Option(name, type(choices[0]) if choices else hint, default, text, choices, many)


# ---- what a promise needs --------------------------------------------------------------------------------------------


def _no_browser() -> str:
    return "" if shutil.which("chromium") or shutil.which("chromium-browser") else "no Chromium"


def _no_real_data() -> str:
    folder = os.environ.get(REAL_DATA, "")
    return "" if folder and Path(folder).is_dir() else f"no measured data: {REAL_DATA} names no folder"


MISSING: dict[str, Callable[[], str]] = {
    "quiet machine": lambda: "",  # cannot be found out; the load is shown beside every result
    "x86": lambda: "" if platform.machine() == "x86_64" else f"an x86-64 processor, this is {platform.machine()}",
    "gpu": lambda: "" if ctypes.util.find_library("cuda") else "no GPU",
    "browser": _no_browser,
    "real data": _no_real_data,
    "root": lambda: "not root" if os.geteuid() else "",
}


def lacking(need: str) -> str:
    """Why a need is not met; empty if it is."""
    kind, _, name = need.partition(" ")
    if kind == "package":
        return "" if importlib.util.find_spec(name) else f"package {name} is not installed"
    if kind == "program":
        return "" if shutil.which(name) else f"no program {name}"
    return MISSING[need]()
