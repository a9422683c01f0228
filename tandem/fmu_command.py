"""`tandem fmu`: a machine as an FMU."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sync.private_files import by_default
from tandem.terminal import AsJson, Parameters, errors, output, parameters, status


def fmu(
    machine: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE",
            help="A machine by its name or its file; a configuration by its file or name; a run; a mechanism's file.",
        ),
    ],
    settings: Parameters = None,
    step_ms: Annotated[
        float | None,
        typer.Option(min=0.01, max=1000, help="Of the model's own steps. Default: 5, of a mechanism its file's."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file. Default: NAME.fmu here.")] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="For which it has code: x86_64-linux, aarch64-linux, x86_64-windows, x86_64-darwin, aarch64-darwin;"
            " may be given several times. Default: this host's."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a machine as an FMU (FMI 3.0) of compiled code, without Python.

    It is for Co-Simulation, and for Model Exchange too if the machine has rates of change. Parameters
    that may change while it runs are tunable; those that shape the machine stand as they are now.
    """
    with errors():
        changed = parameters(settings)
        with status("compiling"):
            from importlib.metadata import PackageNotFoundError, version

            from sync.extras import DISTRIBUTION
            from tandem.fmu.build import write_fmu
            from tandem.fmu.platforms import HOST
            from tandem.fmu.sources import load_source

            try:
                tool = f"tandem {version(DISTRIBUTION)}"
            except PackageNotFoundError:
                tool = "tandem"
            name = Path(machine).stem
            loaded, exchange, step_s = load_source(machine, changed)
            file = out or by_default(Path(f"{name}.fmu"))
            step_s = step_s if step_ms is None else 1e-3 * step_ms
            made = write_fmu(loaded, name, step_s, file, tool, platform or [HOST], exchange)
    if as_json:
        print(json.dumps(made), flush=True)
        return
    kinds = ("inputs", "outputs", "parameters", "states")
    counts = ", ".join(f"{made[key]} {key if made[key] != 1 else key[:-1]}" for key in kinds)
    output().print(
        f"{made['fmu']}: {made['machine']}, {counts}; {'Model Exchange and ' * made['model_exchange']}Co-Simulation; "
        + ", ".join(f"{name} {size / 1e3:.0f} kB" for name, size in made["platforms"].items()),
        markup=False, soft_wrap=True,
    )  # fmt: skip
    if made["no_model_exchange"]:
        output().print(f"No Model Exchange: {made['no_model_exchange']}.", markup=False, soft_wrap=True)
