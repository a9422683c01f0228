"""The command `tandem study omni`: figures beside what is promised, a page with curves."""

from pathlib import Path
from typing import Annotated

import typer

from tandem.console.help_text import Brought
from tandem.console.present import give
from tandem.console.terminal import AsJson, Runs, compiled, errors, progress, run_folder


def study_omni(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="tracking, identity, conservation, cost, real-time, square, ideal, formulations, passages, sweeps, "
            "repeat, or all",
        ),
    ] = "all",
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Omni wheels: contact tracking, energy, cost, squares driven open loop.

    Exit codes: 0 everything promised holds; 1 something does not; 2 a name is wrong.
    """
    from sync.errors import ConfigError

    with errors():
        with compiled("omni", "tandem.machines.omni.studies.measures", "tandem.machines.omni.machine"):
            from tandem.machines.omni.studies import shown
            from tandem.machines.omni.studies.measures import STUDIES
        if what != "all" and what not in STUDIES:
            raise ConfigError(f"study omni {what}: must be one of {', '.join(STUDIES)}, all")
        names = [*STUDIES] if what == "all" else [what]
        with progress("study omni") as update:
            results = shown.measure(names, update)
    give(shown.report(results), as_json, run_folder(runs, "study_omni"))


COMMANDS = (Brought("study omni", study_omni),)
