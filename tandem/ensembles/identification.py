"""An identification study as its file has it, and its measurements: what was put in, and what was measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim_service.contract.machine import Floats, Machine
from sim_service.contract.start import check_start
from sync.config.toml import Section, check, read_toml
from sync.errors import ConfigError
from tandem.ensembles.manoeuvres import Gathered, study_machine
from tandem.ensembles.study import Figure
from tandem.ensembles.windows import Measured, Source, Sources, Window, Windows, cut, open_recording
from tandem.ensembles.work import Job


class Identified(Section):
    """A parameter to be found, in the unit of the machine."""

    low: float
    high: float
    start: float | None = None  # None: as the machine has it
    prior: float | None = None  # known beforehand, with its standard deviation
    prior_sigma: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.low < self.high:
            raise ValueError("low must be below high")
        if self.start is not None and not self.low <= self.start <= self.high:
            raise ValueError("start must be from low to high")
        if (self.prior is None) != (self.prior_sigma is None):
            raise ValueError("prior and prior_sigma belong together")
        return self


class Region(Section):
    """Errors are listed by ranges of a measured quantity, such as speed or the size of the lateral acceleration."""

    channel: str  # one of `measured`
    edges: list[float] = Field(min_length=2, max_length=100)
    size: bool = False  # of the quantity, whatever its sign

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if sorted(set(self.edges)) != self.edges:
            raise ValueError("edges must rise")
        return self


class Curve(Region):
    """A measured quantity over another, averaged between edges, with its scatter; the machine beside it."""

    of: str  # one of `measured`


class Validation(Section):
    """What `tandem validate` judges by."""

    inside: float = Field(0.9, gt=0, le=1)  # share of the steps that must lie within the tolerance, of every channel
    explained: float = Field(0.5, le=1)  # share of what was measured that must be explained, of every channel
    regions: dict[str, Region] = {}
    curves: dict[str, Curve] = {}


class Solver(Section):
    iterations: int = Field(30, ge=1, le=1000)
    tolerance: float = Field(1e-8, gt=0)
    sensitivities: Literal["auto", "exact", "differences"] = "auto"  # auto: exact where the machine has them
    step: float = Field(1e-3, gt=0, lt=0.1)  # of differences, as a share of a parameter's range
    loss: Literal["squares", "huber"] = "squares"


class Identification(Section):
    name: str = Field(pattern=r"^[\w.-]{1,64}$")
    machine: str
    step_ms: float = Field(5.0, gt=0, le=1000)
    set: dict[str, float] = {}
    records: list[str] = Field(min_length=1)  # recorded runs, or tables with `t`, inputs and what was measured
    most_steps: int | None = Field(None, ge=2)  # of a window
    inputs: dict[str, Source] = {}  # of the machine: a channel of the records of another name, or a number
    # where every window begins: a channel, or a number; what is left out the machine finds by its own laws
    start: dict[str, Source] = {}
    windows: Windows = Windows()
    measured: dict[str, Measured] = Field(min_length=1)
    parameters: dict[str, Identified] = {}
    solver: Solver = Solver()
    validation: Validation = Validation()


@dataclass(frozen=True)
class Problem:
    study: Identification
    machine: Machine
    job: Job
    windows: list[Window]  # those that are fitted, then those that are not
    gaps: int  # windows that are left out, or end early: a gap of the data lies in them
    lost_s: float  # of data that these windows lost
    start: Floats
    low: Floats
    high: Floats

    @property
    def fitted(self) -> int:
        """How many of the windows, the first ones."""
        return sum(window.fitted for window in self.windows)

    @property
    def measured(self) -> list[dict[str, Floats]]:
        """Of every window, a value a step."""
        return [window.measured for window in self.windows]

    @property
    def left_out(self) -> list[str]:
        """A sentence, if anything is."""
        words = f"{self.gaps} windows are left out or end early, {self.lost_s:.4g} s: they lie in gaps of the data"
        return [words] if self.gaps else []

    @property
    def names(self) -> tuple[str, ...]:
        return self.job.names

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(self.study.measured)


@dataclass(frozen=True)
class Narrowed:
    """What the command line changes: spans of the records, and parameters that were found."""

    begin: float | None = None
    end: float | None = None
    set: dict[str, float] = field(default_factory=dict)


def load_problem(
    source: str | Path | Mapping[str, object], narrowed: Narrowed | None = None, fit: bool = True
) -> Problem:
    """Raises ConfigError that names what is wrong, before anything runs. Not to `fit`: without parameters."""
    narrowed = narrowed or Narrowed()
    if isinstance(source, Mapping):
        study, folder, where = check(Identification, dict(source), "study"), Path(), "study"
    else:
        path = Path(source)
        study, folder, where = check(Identification, read_toml(path), str(path)), path.parent, str(path)
    if fit and not study.parameters:
        raise ConfigError(f"{where}: parameters: is missing: which are to be found, and from where to where?")
    searched = study.parameters
    if not fit:
        begun = {name: each.start for name, each in study.parameters.items() if each.start is not None}
        study = study.model_copy(update={"parameters": {}, "set": {**study.set, **begun, **narrowed.set}})
    setup = study_machine(study.machine, study.set, folder, where)
    sources, machine, params, common = setup.sources, setup.machine, setup.params, setup.changed
    _check_names(study, searched, machine, where)
    step_s = 1e-3 * study.step_ms
    of = Sources(study.inputs, study.measured, study.start)
    recordings = {}
    for name in study.records:
        if study.records.count(name) > 1:
            raise ConfigError(f"{where}: records: {name} is there twice; what it says would count double")
        if not (folder / name).exists():
            raise ConfigError(f"{where}: records: {folder / name}: no such file or run")
        recordings[name] = open_recording(folder / name, machine, of, step_s, where)
    windows = cut(recordings, study.windows, of, step_s, where, narrowed.begin, narrowed.end, study.most_steps)
    if fit and not windows.fitted:
        raise ConfigError(f"{where}: windows.fitted: no window is left to find parameters from")
    values = dict(zip((p.name for p in machine.parameters), params, strict=False))
    names = tuple(study.parameters)
    bounds = np.array([(each.low, each.high) for each in study.parameters.values()]).reshape(-1, 2)
    starts = [values[n] if study.parameters[n].start is None else study.parameters[n].start for n in names]
    start = np.array(starts, np.float64)
    for name, value, (low, high) in zip(names, start, bounds, strict=True):
        if not low <= value <= high:
            raise ConfigError(f"{where}: parameters.{name}: begins at {value:g}, not from {low:g} to {high:g}")
    swept: dict[str, Any] = {
        "name": study.name, "machine": study.machine, "step_ms": study.step_ms, "set": common,
        "manoeuvre": {"kind": "record", "records": study.records},
        "figures": {name: Figure(kind="rms", channel=name).model_dump() for name in study.measured},
    }  # fmt: skip
    data = {"rows": [w.rows for w in windows.windows], "starts": [w.start for w in windows.windows]}
    cases = tuple(str(window) for window in windows.windows)
    gathered, runs = Gathered(swept["manoeuvre"], data, cases), study.solver.iterations * len(cases)
    job = Job(swept, where, sources, gathered, names, {}, runs=runs)
    low, high = bounds[:, 0].copy(), bounds[:, 1].copy()
    return Problem(study, machine, job, windows.windows, windows.gaps, windows.lost_s, start, low, high)


def _check_names(study: Identification, searched: dict[str, Identified], machine: Machine, where: str) -> None:
    known = {p.name: p for p in machine.parameters}
    for name, each in searched.items():
        if name not in known:
            raise ConfigError(f"{where}: parameters.{name}: unknown to {machine.name}; it has {', '.join(known)}")
        p = known[name]
        if each.low < p.low or each.high > p.high:
            raise ConfigError(
                f"{where}: parameters.{name}: {each.low:g} to {each.high:g}; {machine.name} takes"
                f" {p.low:g} to {p.high:g} {p.unit}"
            )
    outputs = [q.name for q in machine.outputs]
    for name in study.measured:
        if name not in outputs:
            raise ConfigError(f"{where}: measured.{name}: no output of {machine.name}; it has {', '.join(outputs)}")
    inputs = [q.name for q in machine.inputs]
    for name in study.inputs:
        if name not in inputs:
            raise ConfigError(f"{where}: inputs.{name}: no input of {machine.name}; it has {', '.join(inputs)}")
    check_start(machine, study.start, f"{where}: start")
    pairs = [(f"regions.{name}", each.channel) for name, each in study.validation.regions.items()]
    pairs += [
        (f"curves.{name}", channel) for name, c in study.validation.curves.items() for channel in (c.channel, c.of)
    ]
    for key, channel in pairs:
        if channel not in study.measured:
            raise ConfigError(
                f"{where}: validation.{key}: {channel} is not measured; there are {', '.join(study.measured)}"
            )
