"""Limits of a virtual wall over sample time, delay, damping and finger: predicted, and found by simulation.

Predicted: passive under any hand (Colgate; needs the device's own damping, else 0), the first-order rule, and the onset
of chatter by the eigenvalues of device and hand with hold and delay. Found: the stiffness from which on a small
disturbance grows instead of decaying, in the real device, inputs, machine and effort path on the virtual clock
(tandem/live/closed_loop.py), with an encoder so fine that quantisation plays no part. Beside them the energy that a
push and release at constant speed gets back, by the passivity monitor and by the formula.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from daq_service.devices.haptic import HapticDevice
from daq_service.devices.haptic_settings import Settings
from sync.config.config import load
from sync.config.toml import check
from sync.errors import ConfigError
from sync.record import open_run
from tandem.doctor import passivity as theory
from tandem.doctor.passivity import Port
from tandem.live.closed_loop import run_closed_loop
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.markup import Markup
from tandem.reports.report import Report, Section, Table

_BIAS = 5.0  # N, with which the hand presses: the wall is not left
_KICK = 1e-3  # m/s
_FINE = ("source.encoder_counts=1e9", "source.start_count=0")
_SWINGS = 12.0  # until it is seen whether they grow
_AROUND, _HALVINGS = 1.25, 3  # the factor of stiffness that is looked through, either way, and how finely: to 3 %


@dataclass(frozen=True)
class Case:
    """SI. The hand is None where nobody holds the device."""

    period: float
    delay: float
    device: Port
    hand: Port | None
    damping: float = 0.0  # of the wall

    @property
    def port(self) -> Port:
        return theory.together(self.device, self.hand)


def cases(base: Case) -> list[Case]:
    """The configuration's own, and each quantity varied alone."""
    found = [base]
    found += [replace(base, period=t) for t in (2e-4, 5e-4, 1e-3, 2e-3) if t != base.period]
    found += [replace(base, delay=d) for d in (0.0, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3) if d != base.delay]
    found += [replace(base, device=replace(base.device, damping=b)) for b in (0.5, 1.0, 4.0)]
    if base.hand is not None:
        hand = base.hand
        grip = Port(2.0 * hand.mass, 2.0 * hand.damping, 2.0 * hand.stiffness)
        found += [replace(base, hand=grip), replace(base, hand=None)]
    found += [replace(base, damping=b) for b in (1.0, 2.0)]
    return found


def predict(case: Case, own_damping: float | None) -> dict[str, Any]:
    """`own_damping` of the device, stated or measured; None: not known."""
    port = case.port
    known = case.device.damping if own_damping is None else own_damping
    return {
        "period": case.period, "delay": case.delay, "device_damping": case.device.damping,
        "hand": "none" if case.hand is None else f"{case.hand.stiffness:g} N/m", "wall_damping": case.damping,
        "passive": theory.passive(known, case.damping, case.period, case.delay),
        "first_order": theory.first_order(port, case.damping, case.period, case.delay),
        "onset": theory.onset(port, case.damping, case.period, case.delay),
        "hz": theory.onset_frequency(port, case.damping, case.period, case.delay),
        "measured": None,
    }  # fmt: skip


# ---- found by simulation ---------------------------------------------------------------------------------------------


def rig(case: Case, stiffness: float) -> list[str]:
    """Settings: a fine encoder, an actuator without limits or lag, the standard law."""
    hand = "source.hand=false"
    if case.hand is not None:
        hand = (
            f"source.hand={{mass={case.hand.mass}, damping={case.hand.damping}, stiffness={case.hand.stiffness},"
            f" bias={-_BIAS}}}"
        )
    return [
        *_FINE, hand, f"daq.rate_hz={1.0 / case.period}", f"sim.step_ms={1e3 * case.period}",
        f"source.mass={case.device.mass}", f"source.damping={case.device.damping}",
        f"source.stiffness={case.device.stiffness}", "source.friction=0.0", "source.saturation=0.0",
        "source.dead_time_ms=0.0", "source.bandwidth_hz=0.0", "source.own_process=false",
        "source.effort.limit=1e9", "source.effort.slew=1e12", "source.effort.rise_ms=0.0", "source.effort.gain=1.0",
        "inputs.port.full=0.0872664626", "inputs.port.full_counts=4.374453e9", "sim.parameters.display=0.0",
        f"sim.parameters.stiffness={stiffness}", "sim.parameters.stiffness_limit=1e6", "sim.parameters.object=0.0",
        "sim.parameters.law=0.0", "sim.parameters.crossing=0.0", f"sim.parameters.damping={case.damping}",
    ]  # fmt: skip


def grows(file: Path, overrides: list[str], case: Case, stiffness: float) -> bool:
    """Whether a small disturbance of a hand that leans on the wall does."""
    config = load(file, [*overrides, *rig(case, stiffness)])
    rest = -_BIAS / (stiffness + case.port.stiffness)

    def kick(device: HapticDevice) -> None:
        device.lean(rest, _KICK, stiffness * rest)

    seconds = _SWINGS / theory.onset_frequency(case.port, case.damping, case.period, case.delay)
    trace = run_closed_loop(config, file, seconds, round(1e9 * case.delay), kick)
    away = np.abs(trace.position - rest)
    quarter = len(away) // 4
    return bool(away[-quarter:].max() > away[quarter : 2 * quarter].max())


def measure_onset(file: Path, overrides: list[str], case: Case, near: float) -> float:
    """By halving, around what is expected; NaN where it is not there."""
    low, high = near / _AROUND, near * _AROUND
    if grows(file, overrides, case, low) or not grows(file, overrides, case, high):
        return math.nan
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if grows(file, overrides, case, middle) else (middle, high)
    return math.sqrt(low * high)


def leak(file: Path, overrides: list[str], period: float, delay: float, stiffness: float) -> dict[str, float]:
    """Of a push and release at constant speed, samples aligned with the surface: by the monitor, and by the formula."""
    speed, steps = 0.05, round(4e-3 / (0.05 * period))
    depth = steps * speed * period
    way = f"points=[[0.0, {depth}], [{2 * steps * period}, {-depth}], [{4 * steps * period}, {depth}]]"
    # half a count below, so that rounding down does not move the surface
    settings = [
        *rig(Case(period, delay, Port(0.3, 2.0), None), stiffness),
        f"source.hand={{rigid=true, motion={{{way}}}}}",
    ]
    config = load(file, [*overrides, *settings])
    trace = run_closed_loop(config, file, 4.2 * steps * period, round(1e9 * delay))
    return {
        "period": period, "delay": delay, "stiffness": stiffness, "speed": speed, "depth": depth,
        "monitor": -float(trace.energy[-1]), "formula": theory.hold_leak(stiffness, speed, period, depth, delay),
        "hold": float(trace.outputs["hold_energy"][-1]), "crossing": float(trace.outputs["crossing_energy"][-1]),
    }  # fmt: skip


def decay_rate(t: np.ndarray, speed: np.ndarray) -> float:
    """1/s, from the largest speed down to a tenth of it; NaN where too few samples are on the way."""
    first = int(np.abs(speed).argmax())
    late = np.abs(speed[first:])
    slow = np.flatnonzero(late < 0.1 * late[0])
    end = first + (int(slow[0]) if len(slow) else len(late))
    if end - first < 20:
        return math.nan
    return -float(np.polyfit(t[first:end], np.log(np.abs(speed[first:end])), 1)[0])


def damping_of_decay(run: Path) -> float:
    """Of a device that coasts with nobody on it, over its mass: by the decay of its speed, from a record. 1/s."""
    steps = open_run(run).topics["/step"].blocks
    if "speed" not in (steps.dtype.names or ()):
        raise ConfigError(f"{run}: its steps have no `speed`; a run of the machine wall is expected")
    t, speed = 1e-9 * (steps["t_ns"] - steps["t_ns"][0]).astype(float), steps["speed"]
    # over 10 ms: a speed from sample to sample is one of encoder counts
    wide = max(round(0.01 / float(np.median(np.diff(t)))), 1)
    found = decay_rate(t[wide - 1 :], np.convolve(speed, np.full(wide, 1.0 / wide), "valid"))
    if not found > 0.0:
        raise ConfigError(f"{run}: the device does not coast to rest in it")
    return found


# ---- the whole -------------------------------------------------------------------------------------------------------


def examine(
    file: Path,
    overrides: list[str],
    measure: bool,
    decay: float | None = None,
    update: Callable[[str, float], None] = lambda *_: None,
) -> dict[str, Any]:
    config = load(file, overrides)
    if config.source.get("kind") != "haptic":
        raise ConfigError(f"{file}: source.kind = {config.source.get('kind')!r}: must be 'haptic'")
    source = check(Settings, config.source, str(file), "source")
    hand = Port(source.hand.mass, source.hand.damping, source.hand.stiffness) if source.hand else None
    base = Case(config.period_ns * 1e-9, 1e-4, Port(source.mass, source.damping, source.stiffness), hand)
    own = None if decay is None else decay * source.mass
    rows = []
    chosen = cases(base)
    for n, case in enumerate(chosen):
        update(f"onset of chatter, {n} of {len(chosen)}", n / (len(chosen) + 1))
        row = predict(case, own)
        varied = case.hand == base.hand and case.device == base.device and case.damping == 0.0
        if measure and varied and case.hand is not None and math.isfinite(row["onset"]):
            row["measured"] = measure_onset(file, overrides, case, row["onset"])
        rows.append(row)
    update("energy", len(chosen) / (len(chosen) + 1))
    leaks = []
    if measure:
        pairs = itertools.product((base.period, 1e-3), (0.0, 2e-4))
        leaks = [leak(file, overrides, period, delay, 2000.0) for period, delay in pairs]
    return {"rows": rows, "leaks": leaks, "base": {"period": base.period, "delay": base.delay}, "decay": decay}


HEADINGS = (
    "sample time ms", "delay ms", "b N s/m", "hand", "B N s/m", "passive N/m", "first order N/m", "onset N/m", "at Hz",
    "measured N/m",
)  # fmt: skip
LEAK_HEADINGS = ("sample time ms", "delay ms", "K N/m", "monitor mJ", "K v (T + 2 delay) d mJ")


def cells(row: dict[str, Any]) -> list[str]:
    measured = row["measured"]
    return [
        f"{1e3 * row['period']:g}", f"{1e3 * row['delay']:g}", f"{row['device_damping']:g}", row["hand"],
        f"{row['wall_damping']:g}", f"{row['passive']:.0f}", f"{row['first_order']:.0f}", f"{row['onset']:.0f}",
        f"{row['hz']:.1f}", "" if measured is None else f"{measured:.0f}",
    ]  # fmt: skip


def leak_cells(row: dict[str, float]) -> list[str]:
    return [
        f"{1e3 * row['period']:g}", f"{1e3 * row['delay']:g}", f"{row['stiffness']:g}", f"{1e3 * row['monitor']:.4f}",
        f"{1e3 * row['formula']:.4f}",
    ]  # fmt: skip


def _headline(result: dict[str, Any]) -> str:
    row = result["rows"][0]
    text = (
        f"At {1e3 * row['period']:g} ms and {1e3 * row['delay']:g} ms of delay a wall is passive up to"
        f" {row['passive']:.0f} N/m, and chatters under this hand from {row['onset']:.0f} N/m on"
    )
    off = [abs(r["measured"] / r["onset"] - 1.0) for r in result["rows"] if r["measured"] is not None]
    missing = sum(not each < float("inf") for each in off)
    if missing:
        return f"{text}; in simulation {missing} of {len(off)} onsets were not found."
    return text + (f"; simulation agrees within {100.0 * max(off):.1f} %." if off else ".")


def report(result: dict[str, Any]) -> Report:
    stiffest = Table(HEADINGS, [cells(row) for row in result["rows"]])
    leaks = Table(LEAK_HEADINGS, [leak_cells(row) for row in result["leaks"]])
    sections = [
        Section("Stiffest wall", [stiffest], key="limits"),
        Section("Over delay and sample time", _charts(result), key="picture"),
        Section(
            "What a held force gives out", [leaks], "A push and release at constant speed, samples aligned.",
            key="energy",
        ),
    ]  # fmt: skip
    return Report("tandem study wall", _headline(result), result, sections)


def _charts(result: dict[str, Any]) -> list[Markup]:
    base = result["base"]
    charts = []
    for key, other, label in (("delay", "period", "s of delay"), ("period", "delay", "s from sample to sample")):
        usual = result["rows"][0]
        rows = [
            row
            for row in result["rows"]
            if row[other] == base[other] and all(row[k] == usual[k] for k in ("device_damping", "hand", "wall_damping"))
        ]
        rows.sort(key=lambda row: float(row[key]))
        x = np.array([row[key] for row in rows])
        series = [
            Series(title, x, np.array([math.nan if row[name] is None else row[name] for row in rows]))
            for name, title in (
                ("passive", "passive under any hand"), ("first_order", "first order"), ("onset", "onset, eigenvalues"),
                ("measured", "onset, simulated"),
            )
        ]  # fmt: skip
        charts.append(curves("stiffest wall, N/m", series, label, logarithmic=True))
    return charts
