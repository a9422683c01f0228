"""Commands of the command line, and how `--help` is laid out: paragraphs flow, a switch shows no type as if it took a
value."""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from sync.errors import ConfigError

RUN, PARTS, RECORDS, MACHINES, HERE = (
    "A run",
    "Its parts, each by itself",
    "Records",
    "Machines examined",
    "This computer",
)  # groups of the help


@dataclass(frozen=True)
class Brought:
    """A command that a machine brings, ours or another package's: its module has them in `COMMANDS`."""

    name: str  # as it is typed behind `tandem`: one word, or two of which the first is a group such as `study`
    function: Callable[..., None]
    group: str = ""  # of the help, for one word


def flowing(text: str) -> str:
    """Paragraphs of a docstring, each on one line."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text))


def _shown(options: list[Any]) -> list[Any]:
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def _is_typed(context: Any, option: Any) -> bool:
    return getattr(context.get_parameter_source(option.name), "name", "") == "COMMANDLINE"


def takes_only(context: typer.Context, why: str, *names: str) -> None:
    """Raises ConfigError for options and arguments on the command line that are none of these (parameters of its
    function): beside the others they would change nothing. `why` says beside which."""
    option: Any
    for option in context.command.params:
        if _is_typed(context, option) and option.name not in names:
            off = context.params[option.name] is False and option.secondary_opts
            word = option.metavar if option.param_type_name == "argument" else (off or option.opts)[0]
            raise ConfigError(f"{word}: {why}; leave it out")


class Command(TyperCommand):
    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:  # its own name for it
        super().__init__(*args, help=flowing(help or ""), **options)

    def get_params(self, ctx: Any) -> list[Any]:
        return _shown(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """No command has a use for `nan` or `inf`; options without a range would take them."""
        rest = super().parse_args(ctx, args)
        option: Any
        for option in self.params:
            value = ctx.params.get(option.name)
            if _is_typed(ctx, option) and isinstance(value, float) and not math.isfinite(value):
                raise typer.BadParameter("must be a finite number", ctx, option)
        return rest


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _shown(super().get_params(ctx))


class Commands(typer.Typer):
    """A group of commands whose help is laid out so."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=Group, **options)

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        return super().command(*args, cls=Command, **options)
