"""The hand of a recorded run: its mass, damping and stiffness, with intervals, over the run.

What the machine found while it ran is computed again from recorded forces and positions (tandem/machines/wall/hand.py),
with the delay that the record itself has: from the samples that steps used to the efforts that were made of them.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import float64, types

from daq_service.effort_record import ENDED, WATCHDOG
from sync.compile.array_types import MATRIX, VECTOR
from sync.compile.jit import kernel
from sync.errors import ConfigError
from sync.record import Run, open_run
from sync.record.settings import recorded_number, recorded_parameters
from tandem.machines.wall.hand import FOUND, SETTLED_S, SIZE, find, observe
from tandem.reports.html.chart import Series, curves
from tandem.reports.report import Report, Section, Table

INTERVAL = 2.262157  # deviations: 95 % by Student, six sines less three unknowns (9 degrees of freedom)
_ROWS = 500  # of a picture
_NAMES = (("mass", "kg"), ("damping", "N s/m"), ("stiffness", "N/m"))
HEADINGS = ("of the hand", "unit", "found", "95 %, from", "to")


@kernel(types.void(VECTOR, VECTOR, float64, float64, VECTOR, MATRIX))
def over(forces, positions, h, late, memory, out):
    """What is found after every step."""
    for k in range(len(forces)):
        observe(memory, forces[k], positions[k], h)
        find(memory, late, out[k])


@dataclass(frozen=True)
class Found:
    t: np.ndarray  # s, of the steps
    values: np.ndarray  # a row a step: mass, damping, stiffness, and their deviations
    delay: float  # s, from sample to effort
    device: tuple[float, float]  # its mass and damping, taken off


def examine(path: Path) -> Found:
    run = open_run(path)
    steps = run.need("/step").blocks
    needed = ("force", "position", "probe_force")
    if missing := [name for name in needed if name not in (steps.dtype.names or ())]:
        raise ConfigError(f"{path}: its steps have no `{missing[0]}`; a run of the machine wall is expected")
    active = np.flatnonzero(steps["probe_force"] != 0.0)
    if not len(active):
        raise ConfigError(f"{path}: nothing looked for a hand in it: set sim.parameters.probe, such as 0.02 N")
    span = slice(int(active[0]), int(active[-1]) + 1)
    steps = steps[span]
    t = 1e-9 * (steps["t_ns"] - steps["t_ns"][0]).astype(float)
    h = float(np.median(np.diff(t)))
    if t[-1] < SETTLED_S:
        raise ConfigError(f"{path}: {t[-1]:.2g} s of a probe; {SETTLED_S:g} s are the least")
    values, delay = np.zeros((len(steps), FOUND)), _delay(run, path)
    forces, positions = (np.ascontiguousarray(steps[name], dtype=np.float64) for name in ("force", "position"))
    over(forces, positions, h, delay + 0.5 * h, np.zeros(SIZE), values)
    settled = t >= SETTLED_S
    device = _parameter(run, "device_mass"), _parameter(run, "device_damping")
    values[settled, :2] -= device
    return Found(t[settled], values[settled], delay, device)


def _parameter(run: Run, name: str) -> float:
    described = recorded_parameters(run).get(name)
    return recorded_number(described.get("value")) or 0.0 if isinstance(described, dict) else 0.0


def _delay(run: Run, path: Path) -> float:
    """From a sample to the effort that answers it, and on through the actuator."""
    efforts = run.need("/effort").blocks
    dated = efforts[(efforts["sampled_ns"] > 0) & (efforts["status"] & (WATCHDOG | ENDED) == 0)]
    if not len(dated):
        raise ConfigError(f"{path}: no effort of it knows its sample, and with that its delay")
    source = run.json("config.json").get("source")
    source = source if isinstance(source, dict) else {}
    dead = 1e-3 * (recorded_number(source.get("dead_time_ms")) or 0.0)
    bandwidth = recorded_number(source.get("bandwidth_hz")) or 0.0
    lag = 1.0 / (2.0 * math.pi * bandwidth) if bandwidth > 0.0 else 0.0
    return 1e-9 * float(np.median(dated["t_ns"] - dated["sampled_ns"])) + dead + lag


def report(found: Found) -> Report:
    last = found.values[-1]
    rows, named = [], {}
    for k, (name, unit) in enumerate(_NAMES):
        half = INTERVAL * float(last[3 + k])
        value = float(last[k])
        rows.append([name, unit, f"{value:.4g}", f"{value - half:.4g}", f"{value + half:.4g}"])
        named[name] = {"unit": unit, "found": value, "low": value - half, "high": value + half}
    result: dict[str, Any] = {
        "hand": named, "delay_s": found.delay, "device_mass": found.device[0], "device_damping": found.device[1],
        "seconds": float(found.t[-1]),
    }  # fmt: skip
    every = max(len(found.t) // _ROWS, 1)
    t, values = found.t[::every], found.values[::every]
    charts = [
        curves(
            f"{name}, {unit}",
            [
                Series("found", t, values[:, k]),
                Series("95 %, from", t, values[:, k] - INTERVAL * values[:, 3 + k]),
                Series("to", t, values[:, k] + INTERVAL * values[:, 3 + k]),
            ],
        )
        for k, (name, unit) in enumerate(_NAMES)
    ]
    words = ", ".join(f"{row[2]} {row[1]}" for row in rows)
    own = " less the device's own" if any(found.device) else "; of hand and device together, for the device's are not"
    headline = (
        f"At the end the hand is {words}{own}{'' if any(found.device) else ' stated (device_mass, device_damping)'};"
        f" {1e6 * found.delay:.0f} us from sample to effort."
    )
    sections = [
        Section("The hand at the end", [Table(HEADINGS, rows)], key="hand"),
        Section("Over the run", charts, "What is some seconds old counts little.", key="picture"),
    ]
    return Report("tandem study wall hand", headline, result, sections)
