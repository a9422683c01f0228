"""From the parameters of a study to one row of values a run. The same study gives the same rows, and a longer sequence
of Sobol begins with the shorter one."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import ConfigError
from tandem.ensembles.extras import needs
from tandem.ensembles.study import Study, SweptParameter

_MOST = 10_000_000


def samples(study: Study, folder: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the parameters, and a row for each run; one row without values where nothing is varied."""
    method = study.sampling.method
    if method == "file":
        return _of_file(study, folder / str(study.sampling.file))
    if method == "list" and study.samples:
        return _of_list(study)
    names = tuple(study.parameters)
    if not names:
        return (), np.zeros((study.sampling.count or 1, 0))
    if method == "grid":
        return names, _grid(study)
    if method == "list":
        return names, np.array([study.parameters[name].values for name in names], np.float64).T.copy()
    shares = unit_samples(method, len(names), int(study.sampling.count or 1), study.sampling.seed)
    columns = [_distributed(study.parameters[name], shares[:, k]) for k, name in enumerate(names)]
    return names, np.column_stack(columns)


def _grid(study: Study) -> np.ndarray:
    axes = [_axis(each) for each in study.parameters.values()]
    count = math.prod(len(axis) for axis in axes)
    if count > _MOST:
        raise ConfigError(f"parameters: a grid of {count} runs; at most {_MOST}")
    return np.array(list(itertools.product(*axes)), np.float64)


def _axis(each: SweptParameter) -> list[float]:
    if each.values is not None:
        return each.values
    if each.low is None or each.high is None:
        raise ConfigError("parameters: a grid needs values, or low, high and points")
    space = np.geomspace if each.distribution == "log-uniform" else np.linspace
    found: list[float] = space(each.low, each.high, each.points or 2).tolist()
    return found


def unit_samples(method: str, dimensions: int, count: int, seed: int) -> np.ndarray:
    """Rows in (0, 1), by Latin hypercube or a scrambled sequence of Sobol."""
    qmc: Any = needs("scipy.stats", "sweep", f"sampling.method = {method!r}").qmc
    generator = np.random.default_rng(seed)
    if method == "latin-hypercube":
        found: np.ndarray = qmc.LatinHypercube(dimensions, rng=generator).random(count)
    else:
        power = max(count - 1, 1).bit_length()  # whole powers of two keep its balance
        found = qmc.Sobol(dimensions, rng=generator).random_base2(power)[:count]
    tiny = 2.0**-53
    return np.asarray(np.clip(found, tiny, 1.0 - tiny))


def _distributed(each: SweptParameter, shares: np.ndarray) -> np.ndarray:
    if each.distribution == "normal":
        ndtri = needs("scipy.special", "sweep", "distribution = 'normal'").ndtri
        found = np.asarray(float(each.mean or 0.0) + float(each.sigma or 0.0) * ndtri(shares))
        if each.low is not None or each.high is not None:  # cut off, not redrawn: the row stays where it is
            found = np.clip(found, each.low, each.high)
        return found
    low, high = float(each.low or 0.0), float(each.high or 0.0)
    if each.distribution == "log-uniform":
        return np.asarray(low * (high / low) ** shares)
    return low + (high - low) * shares


def _of_list(study: Study) -> tuple[tuple[str, ...], np.ndarray]:
    names = tuple(study.samples[0])
    return names, np.array([[row[name] for name in names] for row in study.samples], np.float64)


def _of_file(study: Study, path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Columns named after parameters; those of `parameters`, if any are given there, or all."""
    from tandem.ensembles.columns import read_columns

    columns = read_columns(path, tuple(study.parameters) or None)
    rows = np.column_stack(list(columns.values()))
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise ConfigError(f"{path}: row {bad + 1}: holds no finite number in every column")
    return tuple(columns), rows[: study.sampling.count]
