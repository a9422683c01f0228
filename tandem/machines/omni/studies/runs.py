"""Runs of omni machines from their files, as the studies need them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.registry import FILE, MachineFiles, make_machine
from sync.clock import now_ns
from sync.config.toml import read_toml
from tandem.console.shipped_configs import CONFIGS
from tandem.multibody.ground.files import ROAD

Values = dict[str, np.ndarray]


class Rig:
    """A machine of a file, on a road (its text) or on a flat floor, with parameters and keys of the file changed."""

    def __init__(
        self, file: str | Path, parameters: dict[str, float] | None = None, road: dict[str, bytes] | None = None,
        **changed: Any,
    ) -> None:  # fmt: skip
        path = file if isinstance(file, Path) else CONFIGS / "omni" / f"{file}.toml"
        self.machine, self.params = make_changed(path, parameters or {}, changed, road)
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.machine.initial(self.state, self.params, self.machine.tables, self.work)
        self.start = self.state.copy()
        self.inputs = np.zeros(len(self.machine.inputs))
        self.cost_us = 0.0

    def run(self, seconds: float, h: float, inputs: Callable[[float], Any] | None = None) -> Values:
        """Outputs after every step by name, and `t`."""
        steps = round(seconds / h)
        rows = np.empty((steps, len(self.machine.outputs)))
        m, spent = self.machine, np.empty(steps, np.int64)
        for k in range(steps):
            self.inputs[:] = 0.0 if inputs is None else inputs(k * h)
            begun = now_ns()
            m.step(self.state, self.inputs, self.params, m.tables, self.work, h)
            spent[k] = now_ns() - begun
            rows[k] = self.work[: len(m.outputs)]
        self.cost_us = 1e-3 * float(np.median(spent))  # other work on the machine makes some steps longer
        return {"t": h * np.arange(1, steps + 1)} | {q.name: rows[:, i] for i, q in enumerate(m.outputs)}


def make_changed(
    path: Path, parameters: dict[str, float], changed: dict[str, Any], road: dict[str, bytes] | None = None
) -> Any:
    """The machine of a file with keys changed: `tracking="implicit"`, `wheel={"psi_deg": 30.0}`; `road`: its files."""
    data = read_toml(path)
    for key, value in changed.items():
        data[key] = data.get(key, {}) | value if isinstance(value, dict) else value
    files = {f"{ROAD}:{name}": content for name, content in (road or {}).items()}
    return make_machine(MachineFiles({FILE: _toml(data).encode(), **files}, {FILE: str(path)}), parameters)


def _toml(data: dict[str, Any]) -> str:
    lines = [f"{key} = {_value(value)}" for key, value in data.items() if not isinstance(value, dict)]
    for key, value in data.items():
        if isinstance(value, dict):
            lines += [f"[{key}]", *(f"{k} = {_value(v)}" for k, v in value.items())]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return repr(value) if not isinstance(value, str) else f'"{value}"'
