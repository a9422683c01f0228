"""An identification study as its file has it, and its measurements: what was put in, and what was measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim_service.contract.machine import Machine
from sync.config.toml import Section, check, read_toml
from sync.errors import ConfigError
from sync.record import Run, open_run
from tandem.ensembles.columns import read_columns
from tandem.ensembles.manoeuvres import Gathered, study_machine
from tandem.ensembles.open_loop import unset_inputs
from tandem.ensembles.recorded_inputs import input_rows, run_of_steps, step_of
from tandem.ensembles.study import Figure
from tandem.ensembles.work import Job

_TIME = "t"


class Measured(Section):
    """An output of the machine that was measured."""

    channel: str | None = None  # its name in the data; that of the output if not given
    topic: str = "/step"  # of a recorded run
    scale: float = 1.0  # of the measurement, to the unit of the output
    offset: float = 0.0
    sigma: float | None = Field(None, gt=0)  # of its noise; None: found from what is left over


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
    most_steps: int | None = Field(None, ge=2)
    measured: dict[str, Measured] = Field(min_length=1)
    parameters: dict[str, Identified] = Field(min_length=1)
    solver: Solver = Solver()


@dataclass(frozen=True)
class Problem:
    study: Identification
    machine: Machine
    job: Job
    measured: list[dict[str, np.ndarray]]  # of every record, a value a step
    start: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return self.job.names

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(self.study.measured)


def load_problem(source: str | Path | dict[str, Any]) -> Problem:
    """Raises ConfigError that names what is wrong, before anything runs."""
    if isinstance(source, dict):
        study, folder, where = check(Identification, source, "study"), Path(), "study"
    else:
        path = Path(source)
        study, folder, where = check(Identification, read_toml(path), str(path)), path.parent, str(path)
    made = study_machine(study.machine, study.set, folder, where)
    sources, machine, params, common = made.sources, made.machine, made.params, made.changed
    _check_names(study, machine, where)
    step_s = 1e-3 * study.step_ms
    rows, measured = [], []
    for name in study.records:
        if not (folder / name).exists():
            raise ConfigError(f"{where}: records: {folder / name}: no such file or run")
        inputs, found = _read(folder / name, study, machine, step_s, where)
        rows.append(inputs)
        measured.append(found)
    values = dict(zip((p.name for p in machine.parameters), params, strict=False))
    names = tuple(study.parameters)
    bounds = np.array([(each.low, each.high) for each in study.parameters.values()])
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
    job = Job(swept, where, sources, Gathered(swept["manoeuvre"], {"rows": rows}, tuple(study.records)), names, {})
    return Problem(study, machine, job, measured, start, bounds[:, 0].copy(), bounds[:, 1].copy())


def _check_names(study: Identification, machine: Machine, where: str) -> None:
    known = {p.name: p for p in machine.parameters}
    for name, each in study.parameters.items():
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


def _read(
    path: Path, study: Identification, machine: Machine, step_s: float, where: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Inputs and measurements, a row a step."""
    if path.suffix == ".mcap" or (path.is_dir() and not any(path.glob("*.parquet"))):
        return _of_run(open_run(path), study, machine, step_s, where)
    return _of_table(path, study, machine, step_s)


def _of_run(
    run: Run, study: Identification, machine: Machine, step_s: float, where: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    recorded_s = step_of(run)
    if recorded_s and abs(recorded_s / step_s - 1.0) > 1e-9:
        raise ConfigError(f"{where}: step_ms = {1e3 * step_s:g}: {run.path} has steps of {1e3 * recorded_s:g} ms")
    rows, steps = input_rows(run, machine, study.most_steps), run_of_steps(run, study.most_steps)
    found = {}
    for name, each in study.measured.items():
        channel = each.channel or name
        blocks = run.need(each.topic).blocks
        if channel not in (blocks.dtype.names or ()):
            raise ConfigError(f"{where}: measured.{name}: {run.path} has no {channel} in {each.topic}")
        values = np.asarray(blocks[channel], np.float64)
        if each.topic == "/step":
            values = np.asarray(steps[channel], np.float64)
        else:
            # the outputs of a step are those at its end
            values = np.interp(steps["t_ns"] + step_s * 1e9, blocks["t_ns"], values)
        found[name] = each.scale * values + each.offset
    return rows, found


def _of_table(
    path: Path, study: Identification, machine: Machine, step_s: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A column `t` (s), inputs by their names, and what was measured; steps are made from the first instant on."""
    columns = read_columns(path)
    wanted = {name: each.channel or name for name, each in study.measured.items()}
    for column in (_TIME, *wanted.values()):
        if column not in columns:
            raise ConfigError(f"{path}: no column {column}; there are {', '.join(columns)}")
    t = columns[_TIME]
    if len(t) < 2 or not (np.diff(t) > 0).all():
        raise ConfigError(f"{path}: column {_TIME} must rise, in seconds")
    missing = [q.name for q in machine.inputs if q.name not in columns and not q.optional]
    if missing:
        raise ConfigError(f"{path}: no column {', '.join(missing)}, which {machine.name} needs; a column of 0 is one")
    used = (_TIME, *wanted.values(), *(q.name for q in machine.inputs if q.name in columns))
    for column in used:
        if not np.isfinite(columns[column]).all():
            bad = int(np.flatnonzero(~np.isfinite(columns[column]))[0])
            raise ConfigError(f"{path}: column {column}, row {bad + 1}: {columns[column][bad]}, not a finite number")
    count = min(int((t[-1] - t[0]) / step_s + 1e-9), study.most_steps or 1 << 62)
    if count < 1:
        raise ConfigError(f"{path}: {t[-1] - t[0]:g} s of data; a step is {step_s:g} s")
    begins = t[0] + step_s * np.arange(count)
    rows = unset_inputs(machine, count)
    for k, quantity in enumerate(machine.inputs):
        if quantity.name in columns:
            rows[:, k] = np.interp(begins, t, columns[quantity.name])
    found = {}
    for name, column in wanted.items():
        each = study.measured[name]
        found[name] = each.scale * np.interp(begins + step_s, t, columns[column]) + each.offset
    return rows, found
