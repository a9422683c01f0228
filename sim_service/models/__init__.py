"""Models by name, and their parameters from a vehicle file."""

import difflib
import importlib
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.models.description import Model
from sync.config import Section, check, read_toml
from sync.errors import ConfigError

MODELS = {"single_track": "sim_service.models.single_track"}


class VehicleFile(Section):
    model: str
    parameters: dict[str, float]


def load_model(path: Path, changed: dict[str, float] | None = None) -> tuple[Model, np.ndarray]:
    """The model a vehicle file names, and its parameters: the file must give every one of them, within its limits.

    `changed` are parameters that differ from the file, as `sim.parameters` has them.
    """
    return make_model(read_toml(path), str(path), changed)


def make_model(data: dict[str, Any], path: str, changed: dict[str, float] | None = None) -> tuple[Model, np.ndarray]:
    """The same from a vehicle file's contents; `path` is for the messages."""
    file = check(VehicleFile, data, path)
    if file.model not in MODELS:
        raise ConfigError(f"{path}: model = {file.model!r}: must be one of {', '.join(MODELS)}")
    module: Any = importlib.import_module(MODELS[file.model])
    model: Model = module.MODEL
    known = {p.name: p for p in model.parameters}
    changed = changed or {}
    wrong = [f"{path}: parameters.{n}: unknown to {model.name}" for n in file.parameters if n not in known]
    for name in changed:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            wrong.append(
                f"sim.parameters.{name}: unknown to {model.name}" + (f"; did you mean {near[0]}?" if near else "")
            )
    wrong += [
        f"{path}: parameters.{n}: is missing ({p.unit}; {p.text})" for n, p in known.items() if n not in file.parameters
    ]
    for where, given in ((f"{path}: ", file.parameters), ("sim.", changed)):
        for name, value in given.items():
            if name in known and not known[name].low <= value <= known[name].high:
                p = known[name]
                wrong.append(f"{where}parameters.{name} = {value:g}: must be from {p.low:g} to {p.high:g} {p.unit}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    values = file.parameters | changed
    return model, np.array([values[p.name] for p in model.parameters], np.float64)
