"""An observer over an imported record, which has no steps: only what went in, and what sensors said.

Every step gets the newest block by its instant, and of each sensor's rows the newest reading by then: of a
`measurement` row of [inputs], else of the measured channel that has the reading's name (`imu_rate_z` of imu.rate_z,
`yaw_rate` of a sensor yaw_rate), at its own instant. The filter begins where readings say that the machine moves, and
anew behind every gap.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sim_service.contract.machine import Moving, index
from sim_service.contract.start import moving
from sim_service.many_steps import run_steps
from sim_service.registry import MachineFiles
from sync.errors import ConfigError
from sync.record import Run, measured
from tandem.machines.observer.build import filter_from
from tandem.records.replay import Inputs

READ = "measured_"


class Part(NamedTuple):
    """Steps between two gaps."""

    first: int
    behind: int
    state: np.ndarray | None  # of the machine inside, as they began; None: its own start


@dataclass(frozen=True)
class Imported:
    """Which part of a record is observed, in seconds from its beginning."""

    begin_s: float = 0.0
    end_s: float = np.inf

    def steps(self, recorded: Inputs, sources: MachineFiles) -> tuple[slice, np.ndarray, list[Part]]:
        """Inputs and outputs of every step, and the parts they are of. `sources`: the observer's file."""
        model, h = recorded.model, recorded.config.step_ns * 1e-9
        seconds = (recorded.instants - recorded.instants[0]) * 1e-9
        first, last = np.searchsorted(seconds, [self.begin_s, self.end_s])
        if last - first < 2:
            raise ConfigError(
                f"--from {self.begin_s:g} --to {self.end_s:g}: the record has {seconds[-1]:.3g} s, and none between"
            )
        rows = recorded.values[first:last].copy()
        filter, sensors = filter_from(sources.toml(), sources, dict(recorded.config.sim.parameters))
        readings(recorded.run, sensors, model, recorded.instants[first:last], rows)
        breaks = np.flatnonzero(np.diff(recorded.epochs[first:last])) + 1
        outputs = len(model.outputs)
        logged = np.arange(outputs + len(model.inputs))
        state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
        done = np.zeros((len(rows), len(logged)))
        inside, parts = len(filter.observed.machine.states), []
        for a, b in zip([0, *breaks], [*breaks, len(rows)], strict=True):
            begun = moving(model, {**self._start(model, rows[a]), **recorded.config.sim.start}, rows[a])
            begun.initial(state, recorded.params, model.tables, work)
            parts.append(Part(int(a), int(b), state[:inside].copy()))
            log = np.zeros((b - a, len(logged)))
            completed = run_steps(
                model.step, state, np.zeros(len(model.inputs)), recorded.params.copy(), model.tables, work, h,
                np.ascontiguousarray(rows[a:b]), logged, log, outputs, model.stepping.bound,
            )  # fmt: skip
            done[a:b, : len(model.inputs)], done[a:b, len(model.inputs) :] = log[:, outputs:], log[:, :outputs]
            if completed < b - a:
                done = done[: a + completed]
                break
        return slice(int(first), int(last)), done, parts

    def _start(self, model: Any, row: np.ndarray) -> dict[str, float]:
        """What is read at the first instant, of what the machine can begin with."""
        own = model.of(Moving)
        known = {q.name.removeprefix(READ): v for q, v in zip(model.inputs, row, strict=True) if READ in q.name}
        return {
            name: float(known[name]) for name in (own.given if own else ()) if not np.isnan(known.get(name, np.nan))
        }


def readings(run: Run, sensors: Any, model: Any, instants: np.ndarray, rows: np.ndarray) -> None:
    """Into the columns of `rows` that nothing is in, from what was measured."""
    found, any_at_all = measured(run), False
    for name, sensor in zip(sensors.names, sensors.sensor, strict=True):
        plain = name.replace(".", "_")
        column, age = (index(model.inputs, each) for each in (READ + plain, f"age_{sensor}"))
        if plain in found and np.isnan(rows[:, column]).all():
            quantity, unit = found[plain], model.inputs[column].unit
            if quantity.unit != unit:
                raise ConfigError(
                    f"{run.path}: what was measured as {plain} is in {quantity.unit}; the sensor {name} reads in {unit}"
                )
            newest = np.searchsorted(quantity.t_ns, instants, "right") - 1
            there = newest >= 0
            old = np.where(there, (instants - quantity.t_ns[newest]) * 1e-9, np.nan)
            known = ~np.isnan(rows[:, age]) & there
            if not np.array_equal(rows[known, age], old[known]):
                raise ConfigError(
                    f"{run.path}: readings of {sensor} are of other instants than those of {plain}; sensors that are"
                    " sampled by themselves are sensors of their own"
                )
            rows[there, column], rows[:, age] = quantity.values[newest[there]], old
        any_at_all = any_at_all or not np.isnan(rows[:, column]).all()
    if not any_at_all:
        names = ", ".join(name.replace(".", "_") for name in sensors.names)
        raise ConfigError(
            f"{run.path}: has no reading of any sensor; bring them along with --measured NAME=COLUMN:UNIT as {names}"
        )
