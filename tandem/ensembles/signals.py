"""An input over time, as a study has it: a number, points with straight lines between, sines on top, or a column."""

from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from sync.config.toml import Section
from sync.errors import ConfigError
from tandem.ensembles.columns import read_columns

Point = Annotated[list[float], Field(min_length=2, max_length=2)]


class SineSettings(Section):
    start: float = Field(0.0, ge=0)  # s
    cycles: float = Field(1e9, gt=0)
    amplitude: float
    frequency_hz: float = Field(gt=0)


class Signal(Section):
    value: float = 0.0
    points: list[Point] = []  # [s, value]
    sines: list[SineSettings] = []
    file: str | None = None  # relative to the study, with columns `t` (s) and `column`
    column: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        times = [t for t, _ in self.points]
        if times != sorted(set(times)):
            raise ValueError("times of points must rise")
        if (self.file is None) != (self.column is None):
            raise ValueError("file and column belong together")
        return self


def sampled(signal: Signal, t: np.ndarray, folder: Path, unit: str) -> np.ndarray:
    """The signal at these instants, s; `unit` is that of the input."""
    found = np.full(len(t), signal.value)
    if signal.points:
        at, values = np.array(signal.points).T
        found += np.interp(t, at, values)
    if signal.file is not None and signal.column is not None:
        columns = read_columns(folder / signal.file, ("t", signal.column), {"t": "s", signal.column: unit})
        if not (np.diff(columns["t"]) > 0).all():
            raise ConfigError(f"{folder / signal.file}: column t must rise, in seconds")
        found += np.interp(t, columns["t"], columns[signal.column])
    for sine in signal.sines:
        since = t - sine.start
        on = (since >= 0) & (since <= sine.cycles / sine.frequency_hz)
        found += np.where(on, sine.amplitude * np.sin(2.0 * np.pi * sine.frequency_hz * since), 0.0)
    return found
