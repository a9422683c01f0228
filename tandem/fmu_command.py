"""`tandem fmu`: a machine as an FMU."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tandem.terminal import AsJson, Parameters, errors, output, parameters, status


def fmu(
    machine: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE",
            help="A machine by its name or its file; a configuration by its file or name; a run.",
        ),
    ],
    settings: Parameters = None,
    step_ms: Annotated[float, typer.Option(min=0.01, max=1000, help="Of the model's own steps.")] = 5.0,
    out: Annotated[Path | None, typer.Option(help="The file. Default: NAME.fmu here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a machine as an FMU (FMI 3.0, Co-Simulation) of compiled code for this host, without Python.

    Parameters that may change while it runs are tunable; those that shape the machine stand as they are now.
    """
    with errors():
        changed = parameters(settings)
        with status("compiling"):
            from importlib.metadata import PackageNotFoundError, version

            from sync.extras import DISTRIBUTION
            from tandem.fmu.build import write_fmu
            from tandem.library.model import load_machine

            try:
                tool = f"tandem {version(DISTRIBUTION)}"
            except PackageNotFoundError:
                tool = "tandem"
            name = Path(machine).stem
            made = write_fmu(load_machine(machine, changed), name, 1e-3 * step_ms, out or Path(f"{name}.fmu"), tool)
    if as_json:
        print(json.dumps(made), flush=True)
        return
    counts = ", ".join(f"{made[key]} {key}" for key in ("inputs", "outputs", "parameters", "states"))
    output().print(
        f"{made['fmu']}: {made['machine']}, {counts}; {made['platform']}, {made['library_bytes'] / 1e3:.0f} kB",
        markup=False, soft_wrap=True,
    )  # fmt: skip
