"""The commands `tandem mechanism` and `tandem bench multibody`: options, progress, tables, files.

Heavy imports wait until a command runs, so that `tandem --help` stays quick.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tandem.console.config_argument import MechanismFile
from tandem.console.terminal import AsJson, Runs, errors, output, progress, report, run_folder, status

DIVERGED = 3
UNCONVERGED = 0.1  # share of the steps of a run


def mechanism(
    file: MechanismFile,
    seconds: Annotated[float | None, typer.Option(min=0.001, help="Duration. Default: the file's.")] = None,
    step_ms: Annotated[float | None, typer.Option(min=0.001, max=100, help="Default: the file's.")] = None,
    modes: Annotated[
        int | None, typer.Option(min=0, max=50, help="Natural modes to find. Default: the file's.")
    ] = None,
    formulation: Annotated[
        Literal["natural", "relative"] | None, typer.Option(help="Coordinates. Default: the file's.")
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help="Integrator of the formulation, see docs/mechanisms.md. Default: the file's.")
    ] = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Simulate a mechanism described in a file, and write how it moved."""
    from sync.compile import build
    from sync.compile.jit import compiling
    from sync.config.toml import read_toml

    with errors():
        read_toml(file)  # what is no file is reported before anything is compiled
        build.ensure_for("tandem.mechanism.run")
        with status("reading"), compiling("mechanism"):
            from tandem.mechanism import run as work
            from tandem.reports.html.page import json_ready

            chosen = {
                "seconds": seconds,
                "step_ms": step_ms,
                "modes": modes,
                "formulation": formulation,
                "scheme": scheme,
            }
            described, state = work.load(file, **chosen)
        with progress(described.file.name) as update:
            simulated = work.simulate(described, state, lambda share, figures: update(figures, share))
    if as_json:
        print(json.dumps(json_ready(simulated.figures), allow_nan=False), flush=True)
    else:
        work.print_figures(output(), simulated.figures)
    report(run_folder(runs, described.file.name), lambda folder: work.write_run(folder, simulated))
    if simulated.figures["locked"]:
        print(f"tandem: {file}: no freedom is left and no motion is prescribed: nothing can move", file=sys.stderr)
    if simulated.figures["energy_warning"]:
        print(f"tandem: {file}: {simulated.figures['energy_warning']}", file=sys.stderr)
    if simulated.figures["ended"] != "finished":
        print(f"tandem: {file}: {simulated.figures['ended']}; try a smaller step", file=sys.stderr)
        # a few steps in singular positions do no harm; a tenth of all is a run that solved something else
        if not simulated.record.finite or simulated.record.capped > UNCONVERGED * simulated.record.steps:
            raise typer.Exit(DIVERGED)


def bench_multibody(
    quick: Annotated[bool, typer.Option("--quick", help="A few mechanisms, no orders, no compile times.")] = False,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Try every multibody formulation on every mechanism with a known answer, beside Exudyn and MuJoCo."""
    from sync.compile import build
    from sync.compile.jit import compiling

    build.ensure_for("tandem.mechanism.bench.multibody")
    with compiling("mechanism"):
        from tandem.mechanism.bench import multibody
    from tandem.reports.html.page import json_ready
    from tandem.reports.html.plain import write_plain

    with errors(), progress("bench multibody") as update:
        result = multibody.measure(quick, update)
    if as_json:
        print(json.dumps(json_ready(result)), flush=True)
    else:
        multibody.print_bench(output(), result)
    headline, pieces = multibody.headline(result), multibody.page_sections(result)
    report(
        run_folder(runs, "bench_multibody"),
        lambda folder: write_plain(folder, "tandem bench multibody", headline, pieces, result)[0],
    )
