"""Models by name, made from a vehicle file and what it refers to.

A model is a package that is listed in `MODELS` and has

    make(data, sources, changed) -> (Model, params)    from the contents of a vehicle file

Files that a vehicle file names under the keys of `REFERENCES` are read with it; nothing is imported for that.

Everything a model is made from passes through `Sources`, bytes under the names they have in a record; so a recorded
run is replayed from its record alone, by the same code that made it from files.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.models.description import Model
from sync.config import Config
from sync.errors import ConfigError
from sync.toml import parse_toml, read_toml

MODELS = {"buggy": "sim_service.models.buggy", "single_track": "sim_service.models.single_track"}
REFERENCES = ("tyre_front", "tyre_rear")
MOST_BYTES = 1 << 20  # of a tyre file
VEHICLE, ROAD = "vehicle.toml", "road.toml"  # their names in a record


@dataclass(frozen=True)
class Sources:
    files: dict[str, bytes]  # by their names in a record
    names: dict[str, str]  # what messages call them

    def name(self, key: str) -> str:
        return self.names.get(key, key)

    def toml(self, key: str) -> dict[str, Any]:
        if key not in self.files:
            raise ConfigError(f"{self.name(key)}: is missing")
        return parse_toml(self.files[key], self.name(key))

    @property
    def road(self) -> dict[str, bytes]:
        """The road's files by their own names; none for flat ground."""
        return {key.removeprefix("road:"): data for key, data in self.files.items() if key.startswith("road:")}


def gather(vehicle: Path, road: Path | None = None) -> Sources:
    """Read a vehicle file, whatever it refers to, and the road."""
    data = read_toml(vehicle)
    files, names = {VEHICLE: vehicle.read_bytes()}, {VEHICLE: str(vehicle)}
    for key, reference in ((key, data[key]) for key in REFERENCES if isinstance(data.get(key), str)):
        path = vehicle.parent / reference
        try:
            if path.exists() and not (path.is_file() and path.stat().st_size <= MOST_BYTES):
                raise ConfigError(f"{vehicle}: {key} = {reference!r}: must be a file of at most {MOST_BYTES} bytes")
            files[key], names[key] = path.read_bytes(), str(path)
        except ValueError:
            raise ConfigError(f"{vehicle}: {key} = {reference!r}: is no path") from None
        except OSError as error:
            near = sorted(p.name for p in path.parent.glob(f"*{path.suffix}")) if path.suffix else []
            beside = f"; there are {', '.join(near)}" if near else f"; {path.parent} must have such a file"
            raise ConfigError(f"{vehicle}: {key} = {reference!r}: cannot be read: {error.strerror}{beside}") from None
    if road is not None:
        from sim_service import roads

        for name, content in roads.sources(road).items():
            files[f"road:{name}"], names[f"road:{name}"] = content, str(road.parent / name)
    return Sources(files, names)


def recorded(attachments: dict[str, bytes], where: str) -> Sources:
    """The same from a record."""
    return Sources(attachments, {key: f"{where} ({key})" for key in attachments} | {VEHICLE: f"{where} ({VEHICLE})"})


def load_model(
    vehicle: Path, changed: dict[str, float] | None = None, road: Path | None = None
) -> tuple[Model, np.ndarray]:
    """The model a vehicle file names, and its parameters: the file must give every one of them, within its limits.

    `changed` are parameters that differ from the file, as `sim.parameters` has them.
    """
    return make_model(gather(vehicle, road), changed)


def configured(config: Config, folder: Path) -> Sources:
    """What the model of a configuration is made from; paths in it are relative to `folder`."""
    return gather(folder / config.sim.vehicle, folder / config.sim.road if config.sim.road else None)


def configured_model(config: Config, folder: Path) -> tuple[Model, np.ndarray]:
    return make_model(configured(config, folder), config.sim.parameters)


def make_model(sources: Sources, changed: dict[str, float] | None = None) -> tuple[Model, np.ndarray]:
    data = sources.toml(VEHICLE)
    made: tuple[Model, np.ndarray] = _module(data, sources.name(VEHICLE)).make(data, sources, changed or {})
    return made


def _module(data: dict[str, Any], path: str) -> Any:
    model = data.get("model")
    if not isinstance(model, str) or model not in MODELS:
        said = "is missing" if model is None else "must be one of " + ", ".join(MODELS)
        raise ConfigError(f"{path}: model{'' if model is None else f' = {model!r}'}: {said}")
    return importlib.import_module(MODELS[model])
