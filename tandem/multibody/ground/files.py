"""The road of a machine among its files: `sim.files.road` of a configuration, `road:NAME` in a record."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sync.errors import ConfigError
from tandem.multibody.ground.make import make_road, road_from_sources, sources

ROAD = "road"


def read_road_files(user_files: Mapping[str, Path], what: str) -> dict[str, tuple[bytes, str]]:
    """Contents and shown names of the road that is given, by their names in a record; `what` reads them."""
    found: dict[str, tuple[bytes, str]] = {}
    for key, road in user_files.items():
        if key != ROAD:
            raise ConfigError(f"sim.files.{key} = {str(road)!r}: {what} reads no such file; it has a road")
        found |= {f"{ROAD}:{name}": (text, str(road.parent / name)) for name, text in sources(road).items()}
    return found


def road_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The road's files by their own names; none for flat ground."""
    begin = f"{ROAD}:"
    return {key.removeprefix(begin): data for key, data in files.items() if key.startswith(begin)}


def road_of(files: Mapping[str, bytes]) -> np.ndarray:
    """The vector that kernels read; of flat ground where there is no file."""
    surface = road_files(files)
    return road_from_sources(surface) if surface else make_road({"surface": {"kind": "flat"}})
