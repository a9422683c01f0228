"""The command `tandem mechanism`: options and progress.

Heavy imports wait until a command runs, so that `tandem --help` stays quick.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tandem.console.config_argument import MechanismFile
from tandem.console.help_text import takes_only
from tandem.console.present import give
from tandem.console.terminal import AsJson, Runs, compiled, errors, progress, run_folder


def mechanism(
    context: typer.Context,
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
    equations: Annotated[
        Literal["c", "python", "matlab"] | None,
        typer.Option(help="Write the equations of motion in this language. Default: simulate."),
    ] = None,
    quantities: Annotated[
        str | None, typer.Option("--with", help="Functions of --equations. Default: mass,forces,jacobian,inverse.")
    ] = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Simulate a mechanism described in a file, and write how it moved; or write its equations of motion."""
    from sync.config.toml import read_toml
    from sync.errors import ConfigError

    with errors():
        read_toml(file)  # a missing file is reported before anything is compiled
        if equations is None and quantities is not None:
            raise ConfigError(f"--with {quantities}: is for --equations, and there is none")
        if equations is not None:
            takes_only(
                context, "nothing is simulated with --equations", "file", "equations", "quantities", "as_json", "runs"
            )
            _take_away(file, equations, quantities, as_json, runs)
            return
        with compiled("mechanism", "tandem.mechanism.run"):
            from tandem.mechanism import run as work

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
    folder = run_folder(runs, described.file.name)
    give(work.report(simulated), as_json, folder, also=lambda place: work.save_record(place, simulated))


def _take_away(
    file: Path, language: Literal["c", "python", "matlab"], words: str | None, as_json: bool, runs: Path
) -> None:
    from tandem.mechanism import equations as work
    from tandem.multibody.description.mechanism_file import read_mechanism

    which = work.quantities(words)
    taken = work.take_away(read_mechanism(file), language, which)
    folder = run_folder(runs, taken.described.file.name)
    give(work.report(taken), as_json, folder, also=lambda place: work.write(place, taken))
