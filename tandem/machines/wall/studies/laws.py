"""`tandem study wall laws`: what a law buys. From which stiffness on a wall chatters by each of them, over sample time,
delay, encoder and what the law takes the hand for; predicted by eigenvalues (stability.py), and found by simulation
through the real device, inputs, machine and effort path on the virtual clock. Then the source's figures.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from daq_service.devices.haptic import HapticDevice
from sync.config.config import load
from tandem.doctor.passivity import FINGER, Port, together
from tandem.live.closed_loop import run_closed_loop
from tandem.machines.wall import laws
from tandem.machines.wall.studies import figures, limits, stability
from tandem.machines.wall.studies.stability import Loop
from tandem.reports.html.chart import Series, curves
from tandem.reports.report import Report, Section, Table

DEVICE = Port(0.3, 2.0)  # of configs/wall.toml
SHOWN = (laws.STANDARD, laws.HALF_SAMPLE, laws.POLE_PLACEMENT, laws.PREDICTING)
PAIRS = ((2e-4, 0.0), (2e-4, 1e-4), (2e-4, 3e-4), (2e-4, 1e-3), (1e-3, 0.0), (1e-3, 3e-4), (1e-3, 1.5e-3), (2e-3, 1e-3))
OFF = 0.3  # by which the hand's mass, damping and stiffness may be other than the law takes them for
MEASURED = ((1e-3, 0.0), (1e-3, 3e-4))  # (s, s): where simulation looks for the onset, too
_TRUSTS = ((laws.STANDARD, 0.5), (laws.HALF_SAMPLE, 0.5), *((laws.PREDICTING, trust) for trust in (1.0, 0.5, 0.2)))
_CLOSE = 0.05  # how near a simulated onset must be to its eigenvalues
_SWINGS = 12.0
_LEAST_S = 0.15
_BIAS = 5.0  # N
_KICK = 1e-3  # m/s


@dataclass(frozen=True)
class Case:
    """Of the virtual device, and what the law is told of it."""

    loop: Loop
    hand: Port
    counts: float = 1e9  # of the encoder: so fine that it plays no part


def settings(case: Case, stiffness: float) -> list[str]:
    loop, model = case.loop, case.loop.model
    base = limits.Case(loop.period, loop.delay, DEVICE, case.hand, loop.damping)
    predicted = loop.delay if loop.predicted is None else loop.predicted
    return [
        *limits.rig(base, stiffness), f"source.encoder_counts={case.counts}",
        f"inputs.port.full_counts={case.counts * 4.374453}",
        f"sim.parameters.law={float(loop.law)}", f"sim.parameters.delay={predicted}",
        f"sim.parameters.trust={loop.trust}", f"sim.parameters.port_mass={model.mass}",
        f"sim.parameters.port_damping={model.damping}", f"sim.parameters.port_stiffness={model.stiffness}",
        f"sim.parameters.port_bias={-_BIAS}",
    ]  # fmt: skip


def swings(file: Path, overrides: list[str], case: Case, stiffness: float, seconds: float) -> tuple[float, float]:
    """How far a hand that leans on the wall is moved from where it rests, early and late, after a small push."""
    config = load(file, [*overrides, *settings(case, stiffness)])
    rest = -_BIAS / (stiffness + case.loop.port.stiffness)

    def kick(device: HapticDevice) -> None:
        device.lean(rest, _KICK, stiffness * rest)

    trace = run_closed_loop(config, file, seconds, round(1e9 * case.loop.delay), kick)
    quarter = len(trace.position) // 4
    away = np.abs(trace.position - np.median(trace.position[-quarter:]))
    return float(away[quarter : 2 * quarter].max()), float(away[-quarter:].max())


def grows(file: Path, overrides: list[str], case: Case, stiffness: float) -> bool:
    hz = max(stability.frequency(case.loop, stiffness), 1.0)
    early, late = swings(file, overrides, case, stiffness, max(_SWINGS / hz, _LEAST_S))
    return late > early


def measure(file: Path, overrides: list[str], case: Case, near: float) -> float:
    """By halving, around what is expected; NaN where it is not there."""
    low, high = near / 1.2, near * 1.2
    if grows(file, overrides, case, low) or not grows(file, overrides, case, high):
        return math.nan
    for _ in range(3):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if grows(file, overrides, case, middle) else (middle, high)
    return math.sqrt(low * high)


def rows(
    file: Path, overrides: list[str], measured: bool, update: Callable[[str, float], None]
) -> list[dict[str, Any]]:
    port = together(DEVICE, FINGER)
    found = []
    for k, (period, delay) in enumerate(PAIRS):
        update(f"onset of chatter, {k} of {len(PAIRS)}", k / len(PAIRS))
        for law in SHOWN:
            loop = Loop(port, period, delay, law)
            onset = stability.onset(loop)
            off = stability.limit(loop, DEVICE, FINGER, OFF, (delay,))
            simulated = None
            if measured and (period, delay) in MEASURED and 0.0 < onset < 0.8 * stability.MOST:
                simulated = measure(file, overrides, Case(loop, FINGER), onset)
            found.append({
                "period": period, "delay": delay, "law": laws.NAMES[law], "onset": onset,
                "exact_speed": stability.onset(replace(loop, measured_speed=True)),
                "hz": stability.frequency(loop, min(onset, stability.MOST)),
                "hand_off": off.stiffness, "simulated": simulated,
                "late_by_half": stability.onset(replace(loop, delay=1.5 * delay, predicted=delay)),
            })  # fmt: skip
    return found


def quantised(file: Path, overrides: list[str]) -> list[dict[str, Any]]:
    """What a hand that leans on the wall is shaken by, in counts, with an encoder as real ones are."""
    port = together(DEVICE, FINGER)
    found = []
    for counts in (1e3, 5461.0, 1e5):
        count = 0.01994911 / counts
        for law, trust in _TRUSTS:
            loop = Loop(port, 1e-3, 3e-4, law, trust=trust)
            stiffness = 0.5 * min(stability.onset(loop), 4e4)
            _, late = swings(file, overrides, Case(loop, FINGER, counts), stiffness, 1.0)
            found.append({
                "counts": counts, "law": laws.NAMES[law], "trust": trust, "stiffness": stiffness,
                "swing_counts": late / count, "swing_um": 1e6 * late,
            })  # fmt: skip
    return found


def examine(
    file: Path, overrides: list[str], measured: bool = True, update: Callable[[str, float], None] = lambda *_: None
) -> dict[str, Any]:
    found = rows(file, overrides, measured, update)
    return {"rows": found, "quantised": quantised(file, overrides) if measured else []}


def _stiff(value: float | None) -> str:
    if value is None:
        return ""
    return f"> {stability.MOST:.0f}" if value >= stability.MOST else f"{value:.0f}"


def report(result: dict[str, Any]) -> Report:
    agreed = [abs(r["simulated"] / r["onset"] - 1.0) for r in result["rows"] if r["simulated"] is not None]
    onsets = Table(
        (
            "sample time ms", "delay ms", "law", "onset N/m", "with exact speed", f"hand {100 * OFF:.0f} % off",
            "delay half longer", "at Hz", "simulated N/m",
        ),
        [
            [
                f"{1e3 * r['period']:g}", f"{1e3 * r['delay']:g}", r["law"], _stiff(r["onset"]),
                _stiff(r["exact_speed"]), _stiff(r["hand_off"]), _stiff(r["late_by_half"]), f"{r['hz']:.1f}",
                "" if r["simulated"] is None else f"{r['simulated']:.0f}",
            ]
            for r in result["rows"]
        ],
    )  # fmt: skip
    shaken = Table(
        ("counts in 20 mm", "law", "trust", "N/m", "swing, counts", "um"),
        [
            [
                f"{r['counts']:g}", r["law"], f"{r['trust']:g}" if r["law"] == laws.NAMES[laws.PREDICTING] else "",
                f"{r['stiffness']:.0f}", f"{r['swing_counts']:.1f}", f"{r['swing_um']:.1f}",
            ]
            for r in result["quantised"]
        ],
    )  # fmt: skip
    near = {r["law"]: r for r in result["rows"] if r["period"] == 1e-3 and r["delay"] == 3e-4}
    text = "; ".join(f"{name} {_stiff(near[name]['onset'])}" for name in near)
    headline = f"At 1 ms and 0.3 ms of delay a wall chatters from (N/m): {text}"
    headline += f"; simulation agrees within {100 * max(agreed):.1f} %." if agreed else "."
    complaints = [] if not agreed or max(agreed) < _CLOSE else ["a simulated onset is not where its eigenvalues are"]
    sections = [
        Section(
            "Onset by law", [onsets, *_charts(result)],
            "Speed by differences of positions, but for the predicting law, which estimates it; the hand is 0.02 kg,"
            " 3.75 N s/m, 257 N/m, the device 0.3 kg, 2 N s/m.", key="laws",
        ),
        Section("With an encoder that counts", [shaken], "A hand leans on a wall; 1 ms, 0.3 ms late.", key="counts"),
        *figures.sections(),
    ]  # fmt: skip
    return Report(
        "tandem study wall laws", headline, result, sections, complaints=complaints, code=1 if complaints else 0
    )


def _charts(result: dict[str, Any]) -> list[Any]:
    shown = []
    for period in (2e-4, 1e-3):
        series = []
        for law in SHOWN:
            found = [r for r in result["rows"] if r["period"] == period and r["law"] == laws.NAMES[law]]
            x = np.array([r["delay"] for r in found])
            series.append(Series(laws.NAMES[law], x, np.array([r["onset"] for r in found])))
            series.append(Series(f"{laws.NAMES[law]}, hand off", x, np.array([r["hand_off"] for r in found])))
        shown.append(curves(f"onset, N/m, {1e3 * period:g} ms", series, "s of delay", logarithmic=True))
    return shown
