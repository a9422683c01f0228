"""The manoeuvre "inputs": inputs over time, the same in every run, from the start of the machine."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sim_service.contract.machine import Machine, default_inputs
from sim_service.contract.start import moving
from sim_service.many_steps import run_steps
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.ensembles.manoeuvres import Context, Gathered, Log, RunFailed
from tandem.ensembles.signals import Signal, sampled

_MOST_STEPS = 20_000_000


class Settings(Section):
    kind: Literal["inputs"]
    seconds: float = Field(gt=0)
    inputs: dict[str, Signal] = {}


def gather(settings: dict[str, Any], machine: Machine, folder: Path, step_s: float, where: str) -> Gathered:
    checked = check(Settings, settings, where, "manoeuvre")
    steps = round(checked.seconds / step_s)
    if not 1 <= steps <= _MOST_STEPS:
        raise ConfigError(f"{where}: manoeuvre.seconds = {checked.seconds:g}: must give 1 to {_MOST_STEPS} steps")
    named = [q.name for q in machine.inputs]
    rows = unset_inputs(machine, steps)
    t = step_s * np.arange(steps)  # a step uses what its inputs are where it begins
    for name, signal in checked.inputs.items():
        if name not in named:
            raise ConfigError(f"{where}: manoeuvre.inputs.{name}: {machine.name} has {', '.join(named)}")
        place = named.index(name)
        quantity = machine.inputs[place]
        rows[:, place] = sampled(signal, t + step_s if quantity.at_end else t, folder, quantity.unit)
    return Gathered(settings, {"rows": [rows]})


def unset_inputs(machine: Machine, steps: int) -> np.ndarray:
    """Zeros, and NaN where the machine computes an input itself."""
    return np.tile(default_inputs(machine), (steps, 1))


class OpenLoop:
    """Runs from the start of the machine, with a table of inputs for every case."""

    def __init__(self, context: Context):
        self.rows: list[np.ndarray] = context.data["rows"]
        self.starts: list[dict[str, float]] = context.data.get("starts", [{}] * len(self.rows))
        self.step_s, self.channels = context.step_s, context.channels
        names = [q.name for q in (*context.machine.outputs, *context.machine.inputs)]
        self.places = np.array([names.index(name) for name in context.channels], np.int64)

    def run(self, machine: Machine, params: np.ndarray, changed: dict[str, float], case: int) -> Log:
        state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        self._begun(machine, case).initial(state, params, machine.tables, work)
        rows = self.rows[case]
        log = np.zeros((len(rows), len(self.places)))
        done = run_steps(
            machine.step, state, np.zeros(len(machine.inputs)), params, machine.tables, work, self.step_s, rows,
            self.places, log, len(machine.outputs), machine.stepping.bound,
        )  # fmt: skip
        self._complete(int(done), len(rows))
        columns = {name: log[:, k] for k, name in enumerate(self.channels)}
        return Log(columns, self.step_s, int(done))

    def derivatives(self, machine: Machine, params: np.ndarray, which: list[int], case: int) -> dict[str, np.ndarray]:
        """Derivatives of every channel by at most eight parameters, a row for each step. The machine has a tangent."""
        from tandem.ensembles.many_tangents import tangents

        rows = self.rows[case]
        _, found, done = tangents(self._begun(machine, case), params, which, rows, self.places, self.step_s)
        self._complete(done, len(rows))
        return {name: found[:, k] for k, name in enumerate(self.channels)}

    def _begun(self, machine: Machine, case: int) -> Machine:
        """The machine at the start of a case, which may have its own."""
        start = self.starts[case]
        return moving(machine, start, self.rows[case][0]) if start else machine

    def _complete(self, done: int, steps: int) -> None:
        if done < steps:
            at = (done + 1) * self.step_s
            raise RunFailed("diverged", f"diverged {at:.4g} s after the start, in step {done}", done)


def prepare(context: Context) -> OpenLoop:
    return OpenLoop(context)
