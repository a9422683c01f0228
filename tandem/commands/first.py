"""What `tandem` shows by itself: five things to do; `tandem demo`, which runs something at once, and `tandem copy`,
which gives somebody a configuration to change."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sync.errors import UnknownName
from tandem.brought import DEMOS
from tandem.console.present import give
from tandem.console.terminal import AsJson, errors

FIRST = {
    "tandem demo drive": "A virtual buggy through town, on a page; no hardware is needed.",
    "tandem view runs": "What was recorded, on a page: time can be moved.",
    "tandem copy drive mine": "A configuration to change, with every file that it names.",
    "tandem doctor": "What this computer can do, what is missing, and what to do about it.",
    "tandem --help": "All commands.",
}


def show_first() -> None:
    print("A real-time model beside the machine it models, on the same inputs at the same time.\n")
    wide = max(map(len, FIRST))
    for typed, text in FIRST.items():
        print(f"  {typed:<{wide}}   {text}")


def demo(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="DEMO", help=f"{', '.join(DEMOS)}. Default: they are listed.", show_default=False),
    ] = None,
) -> None:
    """Run something, with its page, until Ctrl-C or its end: nothing has to be there but this computer.

    Options behind the name are those of the command that it stands for, which is printed first.
    """
    if name is None:
        wide = max(map(len, DEMOS))
        for each, demonstration in DEMOS.items():
            print(f"  tandem demo {each:<{wide}}   {demonstration.text}")
        return
    with errors():
        if name not in DEMOS:
            raise UnknownName.among(DEMOS, name, "demo")
    words = [*DEMOS[name].words, *context.args]
    print(f"tandem: this is `tandem {' '.join(words)}`", file=sys.stderr)
    sys.argv[1:] = words  # messages quote what was typed
    code = context.find_root().command.main(args=words, prog_name="tandem", standalone_mode=False)
    raise typer.Exit(code if isinstance(code, int) else 0)


def copy(
    config: Annotated[
        Path, typer.Argument(metavar="FILE", help="A shipped file by its path or name in configs/, such as drive.")
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to, made where it is not there; nothing in it is replaced.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Copy a configuration that tandem ships, with every file that it names: to change, and to keep.

    Vehicles, roads, manoeuvres, mechanisms and studies are copied so, too.
    """
    from tandem.console.shipped_configs import copied
    from tandem.reports.report import Report, Section

    with errors():
        files = copied(config, folder)
    names = [str(file) for file in files]
    headline = f"{len(files)} {'files' if len(files) > 1 else 'file'} in {folder.absolute()}"
    give(Report("tandem copy", headline, {"files": names}, [Section("", names)]), as_json)
