"""The command line as tables: each command with its options, as they are declared. The reference of the site and the
man page are made from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tandem.console.help_text import flowing


@dataclass(frozen=True)
class Option:
    shown: str  # as it is typed: --seconds, RUN
    text: str
    default: str  # "": there is none that could be shown
    argument: bool


@dataclass(frozen=True)
class Described:
    name: str  # as it is typed behind `tandem`
    group: str  # of the help
    text: str
    options: tuple[Option, ...]

    @property
    def synopsis(self) -> str:
        arguments = " ".join(option.shown for option in self.options if option.argument)
        return " ".join(["tandem", self.name, *(["[OPTIONS]"] if len(self.options) > 1 else []), arguments]).strip()


def described(group: Any) -> list[Described]:
    """All commands of a command line (`typer.main.get_command`), by name."""
    return sorted(_walk(group), key=lambda each: each.name)


def _walk(group: Any, path: tuple[str, ...] = (), panel: str = "") -> Iterator[Described]:
    for name, command in group.commands.items():
        shown = str(getattr(command, "rich_help_panel", "") or panel)
        if hasattr(command, "commands"):
            yield from _walk(command, (*path, name), shown)
        else:
            options = tuple(_option(each) for each in command.params if each.name != "help")
            yield Described(" ".join((*path, name)), shown, flowing(command.help or ""), options)


def _option(option: Any) -> Option:
    argument = option.param_type_name == "argument"
    shown = option.metavar or option.name.upper() if argument else ", ".join(option.opts)
    default = option.show_default if isinstance(option.show_default, str) else option.default
    plain = "" if default in (None, False, "") or callable(default) else str(default)
    return Option(str(shown), flowing(option.help or ""), plain, argument)
