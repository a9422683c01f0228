"""The command `tandem study wall`: options, progress, tables, page."""

from pathlib import Path
from typing import Annotated

import typer

from sync.errors import ConfigError
from tandem.console.config_argument import WallConfig
from tandem.console.help_text import Brought, takes_only
from tandem.console.present import give
from tandem.console.shipped_configs import CONFIGS
from tandem.console.terminal import AsJson, Overrides, Runs, compiled, errors, progress, run_folder

WALL = CONFIGS / "wall.toml"


def study_wall(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="limits: how stiff by the standard law; laws: by each of them; hand: who held it."
        ),
    ] = "limits",
    config: WallConfig = WALL,
    overrides: Overrides = None,
    measure: Annotated[bool, typer.Option(help="Also look for the onset by simulation, on the virtual clock.")] = True,
    decay: Annotated[
        Path | None,
        typer.Option(help="A run in which nobody held the device: its own damping, by the decay of its speed."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Of `hand`: a run with `sim.parameters.probe`. Default: the newest of `runs`.")
    ] = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """How stiff a virtual wall may be: passive under any hand, without chatter under this one, and by which law.

    Over stiffness, damping, sample time, delay and finger: Colgate's bound, the first-order rule, the eigenvalues of
    device and finger with hold and delay, and the onset found by simulation; the energy that a held force gives out.
    `laws` has the onset by law over sample time, delay, encoder and a hand that is another, and the source's figures.
    `hand` has mass, damping and stiffness of the hand of a recorded run, with intervals.
    """

    with errors():
        if what not in ("limits", "laws", "hand"):
            raise ConfigError(f"study wall {what}: must be one of limits, laws, hand")
        used = {
            "limits": ("config", "overrides", "measure", "decay"), "laws": ("config", "overrides", "measure"),
            "hand": ("run",),
        }  # fmt: skip
        takes_only(context, f"`study wall {what}` has no use for it", "what", *used[what], "as_json", "runs")
        if what == "hand":
            with compiled("study", "tandem.machines.wall.studies.hand"):
                from tandem.machines.wall.studies import hand
            give(hand.report(hand.examine(run or runs)), as_json, run_folder(runs, "study_wall"))
            return
        with compiled("study", "tandem.machines.wall.studies.limits", "tandem.machines.wall.machine"):
            from tandem.machines.wall.studies import laws, limits
        own = limits.damping_of_decay(decay) if decay is not None else None
        with progress("study wall") as update:
            if what == "laws":
                found = laws.report(laws.examine(config, list(overrides or []), measure, update))
            else:
                found = limits.report(limits.examine(config, list(overrides or []), measure, own, update))
    give(found, as_json, run_folder(runs, "study_wall"))


COMMANDS = (Brought("study wall", study_wall),)
