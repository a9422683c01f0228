"""Parameters as a machine's file and `sim.parameters` give them, checked against a model's description as a whole."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine, Parameter, Reshape
from sim_service.contract.recorded_parameters import packed_words
from sync.config.toml import Section, check
from sync.errors import ConfigError, first_findings, near_names


class PlainFile(Section):
    """The file of a machine that has parameters and nothing else."""

    machine: str
    parameters: dict[str, float] | None = None  # None: all as the machine declares them


def make_plain(
    model: Machine, data: dict[str, Any], sources: Any, changed: dict[str, float]
) -> tuple[Machine, np.ndarray]:
    path = sources.name()
    file_values = check(PlainFile, data, path).parameters
    if file_values is None:
        file_values = {p.name: p.value for p in model.parameters}
    return model, checked(model.name, model.parameters, file_values, changed, path)


def checked(
    model: str, parameters: tuple[Parameter, ...], file_values: dict[str, float], changed: dict[str, float], path: str
) -> np.ndarray:
    """Values in the model's order: the file must give every one of them, within its limits."""
    file_values = {p.name: p.value for p in parameters if not p.of_the_file} | file_values
    if wrong := first_findings(_wrong(model, parameters, file_values, changed, path)):
        raise ConfigError(wrong)
    final = file_values | changed
    return np.array([final[p.name] for p in parameters], np.float64)


def _wrong(
    model: str, parameters: tuple[Parameter, ...], file_values: dict[str, float], changed: dict[str, float], path: str
) -> Iterator[str]:
    known = {p.name: p for p in parameters}
    for where, values in ((f"{path}: ", file_values), ("sim.", changed)):
        for name, value in ((n, v) for n, v in values.items() if n not in known):
            near = near_names(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield f"{where}parameters.{name} = {value:g}: unknown to {model}{meant}"
    for n, p in known.items():
        if n not in file_values:
            yield f"{path}: parameters.{n}: is missing ({p.unit}; {p.text})"
    for where, values in ((f"{path}: ", file_values), ("sim.", changed)):
        for name, value in values.items():
            if name in known and not known[name].low <= value <= known[name].high:
                p = known[name]
                yield f"{where}parameters.{name} = {value:g}: must be {p.range_text}"


def described(model: Machine, params: np.ndarray) -> dict[str, Any]:
    """A model by name, with its parameters and their units, what its channels of a step mean, and the numbers that it
    was made into."""
    pairs = zip(model.parameters, params[: len(model.parameters)].tolist(), strict=True)
    named = {p.name: {"value": v, "unit": p.unit} for p, v in pairs}
    quantities = {q.name: q.text for q in (*model.inputs, *model.outputs)}
    return {
        "model": model.name, "parameters": named, "quantities": quantities, "shown": _shown(model),
        "made": packed_words(model, params),
    }  # fmt: skip


def _shown(model: Machine) -> list[dict[str, Any]]:
    """What a plot of a record shows at first: the machine's inputs, and what its charts show."""
    plotted = {channel for pair in model.shown.display.plots for channel in pair}
    tiles = [*model.shown.display.hands, *(tile for tile in model.shown.display.figures if tile.channel in plotted)]
    return [{"channel": t.channel, "title": t.label, "unit": t.unit or "1", "factor": t.factor} for t in tiles]


def fault_of(
    model: Machine, places: Mapping[str, int], name: Any, value: Any, reshapes: bool, instead: str = ""
) -> str | None:
    """Why a parameter cannot be changed to that value while the machine runs; None if it can. Every change passes here:
    from the page, `tandem tune`, a record, the library.

    `places`: of the parameters by name. `reshapes`: parameters that shape the machine can change, too; otherwise what
    can be done `instead`.
    """
    if name not in places:
        return f"{name}: no parameter of {model.name}"
    p = model.parameters[places[name]]
    if not p.live and not (p.shapes and reshapes and model.of(Reshape) is not None):
        return f"{name}: shapes the model; {instead or f'set sim.parameters.{name} and start again'}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not p.low <= value <= p.high:  # NaN is not within
        return f"{name} = {value!r}: must be {p.range_text}"
    return None
