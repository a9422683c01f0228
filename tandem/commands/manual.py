"""`tandem man`: the manual page, made from the commands as they are declared."""

from typing import TYPE_CHECKING

import typer

from tandem.commands.first import FIRST
from tandem.console.help_text import HERE, MACHINES, PARTS, RECORDS, RUN
from tandem.reports.outcome import EXIT_CODES

if TYPE_CHECKING:
    from tandem.commands.described import Described

_ENVIRONMENT = {
    "TANDEM_CACHE": "Folder of compiled code. Default: ~/.cache/tandem.",
    "TANDEM_TOKEN": "Token of the page, instead of a new one for every run.",
    "XDG_RUNTIME_DIR": "Folder of local sockets, in a folder tandem there.",
}


def man(context: typer.Context) -> None:
    """Print the manual page, in roff.

    `tandem man > ~/.local/share/man/man1/tandem.1`, and `man tandem` shows it.
    """
    from tandem.commands.described import described

    print(page(described(context.find_root().command)))


def page(commands: "list[Described]") -> str:
    lines = [
        '.TH TANDEM 1 "" "tandem" "User commands"',
        ".SH NAME", r"tandem \- a real\-time model beside the machine it models",
        ".SH SYNOPSIS", r".B tandem", r"COMMAND [OPTIONS]",
        ".SH DESCRIPTION", "Five things to begin with:",
    ]  # fmt: skip
    lines += [line for typed, text in FIRST.items() for line in (".TP", rf".B {_roff(typed)}", _roff(text))]
    usual = (RUN, RECORDS, MACHINES, PARTS, HERE)
    for group in dict.fromkeys((*usual, *(command.group for command in commands))):
        lines += [f".SH {_roff(group.upper())}"]
        for command in (each for each in commands if each.group == group):
            lines += [f".SS {_roff(command.synopsis)}", *_paragraphs(command.text)]
            for option in command.options:
                default = f" Default: {option.default}." if option.default and "efault" not in option.text else ""
                lines += [".TP", rf".B {_roff(option.shown)}", _roff(option.text + default)]
    lines += [".SH EXIT STATUS"]
    lines += [line for code, text in EXIT_CODES.items() for line in (".TP", rf".B {code}", _roff(f"{text}."))]
    lines += [".SH ENVIRONMENT"]
    lines += [line for name, text in _ENVIRONMENT.items() for line in (".TP", rf".B {name}", _roff(text))]
    return "\n".join(lines)


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n\n") for line in (_roff(part), ".PP")][:-1]


def _roff(text: str) -> str:
    """As text: nothing in it is a request."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
