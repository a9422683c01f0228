"""Random inputs of a run: sums of sines and outputs that are held, by a seed."""

from typing import Any

import numpy as np

from sim_service.contract.machine import default_inputs, index
from sync.config.toml import check
from sync.errors import ConfigError
from tandem.estimation.noise import uniform_number
from tandem.machines.observer.studies.machines import Assembled
from tandem.machines.observer.studies.settings import KINDS, Hold, Study, Waves

_SINES, _TARGETS = 50_000, 60_000  # streams of random numbers


class Excitation:
    """Inputs of one run; `begin` brings the machine to its start, `run` gives a row for each step."""

    def __init__(self, study: Study, assembled: Assembled, seed: int, where: str):
        machine = assembled.observed.machine
        self.study, self.assembled, self.seed = study, assembled, seed
        self.h = study.step_ms * 1e-3
        self.held: list[tuple[int, int, Hold, int]] = []
        steps = round(study.seconds / self.h)
        self.values = np.tile(default_inputs(machine), (steps, 1))
        self.constant = default_inputs(machine)
        self._fill(study.missing, "missing", where, np.nan)
        for name, value in study.begin.items():
            self.constant[self._input(name, f"begin.{name}", where)] = value
        for number, (name, table) in enumerate(study.inputs.items()):
            kind = table.get("kind")
            if kind not in KINDS:
                raise ConfigError(f"{where}: inputs.{name}.kind = {kind!r}: must be one of {', '.join(KINDS)}")
            row: Any = check(KINDS[kind], table, f"{where}: inputs.{name}")
            at = self._input(name, f"inputs.{name}", where)
            if isinstance(row, Waves):
                rates = [self._input(rate, f"inputs.{name}.rates", where) for rate in row.rates]
                self._waves(row, number, [at, *rates])
            else:
                try:
                    of = index(machine.outputs, row.output)
                except KeyError as error:
                    raise ConfigError(f"{where}: inputs.{name}.output: {error.args[0]}") from None
                self.held.append((at, of, row, number))

    def _input(self, name: str, key: str, where: str) -> int:
        try:
            return index(self.assembled.observed.machine.inputs, name)
        except KeyError as error:
            raise ConfigError(f"{where}: {key}: {error.args[0]}") from None

    def _fill(self, names: list[str], key: str, where: str, value: float) -> None:
        for name in names:
            at = self._input(name, key, where)
            self.values[:, at] = self.constant[at] = value

    def _waves(self, row: Waves, number: int, places: list[int]) -> None:
        t = self.h * np.arange(len(self.values))

        def draw(k: int) -> float:
            return float(uniform_number(self.seed, _SINES + number, k))

        # a smooth start: weight of t and its derivatives, a third-order step
        s = np.clip(t / row.grow_s, 0.0, 1.0) if row.grow_s > 0.0 else np.ones(len(t))
        per = 1.0 / row.grow_s if row.grow_s > 0.0 else 0.0
        weight = [s**3 * (10.0 - 15.0 * s + 6.0 * s**2), per * 30.0 * s**2 * (1.0 - s) ** 2,
                  per**2 * 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s)]  # fmt: skip
        total = np.zeros((3, len(t)))
        for k in range(row.count):
            a = row.amplitude / row.count * (0.5 + draw(3 * k))
            w = 2.0 * np.pi * (row.hz[0] + (row.hz[1] - row.hz[0]) * draw(3 * k + 1))
            phase = 2.0 * np.pi * draw(3 * k + 2)
            for d in range(3):
                total[d] += a * w**d * np.sin(w * t + phase + 0.5 * np.pi * d)
        total[0] += row.mean if draw(3 * row.count) < 0.5 else -row.mean
        out = [
            weight[0] * total[0],
            weight[1] * total[0] + weight[0] * total[1],
            weight[2] * total[0] + 2.0 * weight[1] * total[1] + weight[0] * total[2],
        ]
        for d, at in enumerate(places[:3]):
            self.values[:, at] = out[d]

    def start(self) -> np.ndarray:
        """The state at the beginning of the run."""
        machine, params = self.assembled.observed.machine, self.assembled.params
        state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        machine.initial(state, params, machine.tables, work)
        for _ in range(round(self.study.begin_s / self.h)):
            inputs = self.constant.copy()
            for at, of, row, _ in self.held:
                inputs[at] = np.clip(row.gain * (row.target - work[of]), row.least, row.most)
            machine.step(state, inputs, params, machine.tables, work, self.h)
        return state

    def run(self, state: np.ndarray) -> np.ndarray:
        """Inputs of all steps; those that hold something are found by a run of the truth without noise."""
        machine, params = self.assembled.observed.machine, self.assembled.params
        if self.held:
            state, work = state.copy(), np.zeros(machine.work_size)
            machine.step(state.copy(), self.values[0].copy(), params, machine.tables, work, self.h)
            for k in range(len(self.values)):
                for at, of, row, number in self.held:
                    turn = int(k * self.h / row.every_s)
                    target = row.target + row.spread * (2.0 * uniform_number(self.seed, _TARGETS + number, turn) - 1.0)
                    self.values[k, at] = np.clip(row.gain * (target - work[of]), row.least, row.most)
                machine.step(state, self.values[k].copy(), params, machine.tables, work, self.h)
        return self.values
