"""Models by name, and their parameters from a vehicle file."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.models.description import Model
from sync.config import Section, read
from sync.errors import ConfigError

MODELS = {"single_track": "sim_service.models.single_track"}


class VehicleFile(Section):
    model: str
    parameters: dict[str, float]


def load_model(path: Path) -> tuple[Model, np.ndarray]:
    """The model a vehicle file names, and its parameters: the file must give every one of them, within its limits."""
    file = read(path, VehicleFile)
    if file.model not in MODELS:
        raise ConfigError(f"{path}: model = {file.model!r}: must be one of {', '.join(MODELS)}")
    module: Any = importlib.import_module(MODELS[file.model])
    model: Model = module.MODEL
    known = {p.name: p for p in model.parameters}
    wrong = [f"{path}: parameters.{n}: unknown to {model.name}" for n in file.parameters if n not in known]
    wrong += [
        f"{path}: parameters.{n}: is missing ({p.unit}; {p.text})" for n, p in known.items() if n not in file.parameters
    ]
    for name, value in file.parameters.items():
        if name in known and not known[name].low <= value <= known[name].high:
            p = known[name]
            wrong.append(f"{path}: parameters.{name} = {value:g}: must be from {p.low:g} to {p.high:g} {p.unit}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return model, np.array([file.parameters[p.name] for p in model.parameters], np.float64)
