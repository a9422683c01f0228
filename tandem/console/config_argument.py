"""The configuration on the command line: always a positional argument, always by path or by short name."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem.console.shipped_configs import CONFIGS, find_config
from tandem.console.terminal import errors

DEFAULT = CONFIGS / "drive.toml"


def by_name(folder: str = "") -> Callable[[Path | None], Path | None]:
    """A callback of an argument: the file that a path or a short name means."""

    def find(path: Path | None) -> Path | None:
        if path is None:
            return None
        with errors():
            return find_config(path, folder)

    return find


def config_argument(metavar: str, text: str, folder: str = "", **more: Any) -> Any:
    where = f"configs/{folder}" if folder else "configs/"
    return typer.Argument(
        metavar=metavar, help=f"{text}: a TOML file, or the name of one in {where}.", callback=by_name(folder), **more
    )


ConfigFile = Annotated[Path, config_argument("CONFIG", "Configuration", show_default="drive")]
NeededConfig = Annotated[Path, config_argument("CONFIG", "Configuration")]
OtherConfig = Annotated[Path | None, config_argument("CONFIG", "Another configuration than the recorded one")]
ImportConfig = Annotated[Path | None, config_argument("CONFIG", "Channels and calibration (an export brings its own)")]
WallConfig = Annotated[
    Path, config_argument("CONFIG", "Configuration with a virtual haptic device", show_default="wall")
]
PadConfig = Annotated[Path, config_argument("CONFIG", "Configuration with the person's device", show_default="gamepad")]
MechanismFile = Annotated[Path, config_argument("MECHANISM", "Mechanism", "mechanisms")]
