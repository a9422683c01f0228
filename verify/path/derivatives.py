"""Speed and acceleration of the hand wheel from a quantised angle: which estimator errs least, and is least late?

The truth is known exactly: sines, a chirp, ramps, tremor, and the manoeuvres of configs/manoeuvres, moved by a hand of
finite bandwidth (a Gaussian of 10 ms) so that their derivatives exist; "raw" ones are as the virtual driver turns the
wheel, with jumps of speed (100 ms after a jump acceleration is not judged, for it is not defined there). An encoder of
0.18 degrees a count reads the truth (floor), a DAQ samples it, and every estimator answers at every 5 ms step about the
instant of the newest block. Settings were chosen on the tuning signals; the table is about the others (decision 10 says
how untouched they are).

Error: rms against the truth (of the angle: without its mean, for the zero of a count is arbitrary). Over signals of so
different size the table has the geometric mean of their rms, and the worst ratio to that of the source's N = 4. Delay:
the lag at which the truth fits best, over all signals that show it, each scaled to the same size. At rest: rms of an
answer that should be 0, while the count dithers. Cost: the blocks of one step and its answer, in nopython code.

    python -m verify derivatives    # the table; --json for one object, --verbose for every signal
    python -m verify derivatives --rate 10000 --loss 0.3    # blocks at 10 kHz, of which 30 % are lost
"""

import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sync.clock import now_ns
from sync.compile.jit import kernel
from sync.signals.estimators import MEMORY, estimate, observe, parameters
from tandem.machines.car.device.driver import Profile, evaluate, profile_tables, read_manoeuvre
from verify import CONFIGS
from verify.measure import NotHere, Printed, Result, figure

MANOEUVRES = CONFIGS / "manoeuvres"
DEG_PER_COUNT = 0.18
STEP_S = 0.005
FINE_S = 1e-4  # between two instants at which the truth is known
HAND_S = 0.01  # the Gaussian that stands for hand, arm and wheel: 13 Hz
SETTLED_S = 0.25  # judged from here on
UNJUDGED_S = 0.1  # acceleration after a jump of speed
LAGS_MS = np.arange(-20, 61)

BASE = "source N=4"
NAMES = ("speed", "acceleration")
DITHER = "rest, count dithers"
ESTIMATORS = {
    **{f"source N={n}": ("source", n) for n in range(2, 11)},
    **{f"full_rate N={n}": ("full_rate", n) for n in (2, 3, 4)},
    "edges": ("edges", 4),
    "kalman": ("kalman", 4),
}


@dataclass(frozen=True)
class Signal:
    """Angle (deg), speed, acceleration at every FINE_S."""

    name: str
    truth: np.ndarray
    tuning: bool = False
    quiet: bool = False  # nothing to measure but noise: shown, but not part of a mean
    noise_counts: float = 0.0  # white, added before the encoder reads: makes counts dither


# ---- signals ---------------------------------------------------------------------------------------------------------


def _time(seconds: float) -> np.ndarray:
    return np.arange(round(seconds / FINE_S) + 1) * FINE_S


def sines(parts: list[tuple[float, float]], seconds: float, seed: int) -> np.ndarray:
    """Sum of (frequency, amplitude) with random phases."""
    t, truth = _time(seconds), np.zeros((3, round(seconds / FINE_S) + 1))
    for (f, amplitude), phase in zip(parts, np.random.default_rng(seed).uniform(0, 2 * np.pi, len(parts)), strict=True):
        w = 2 * np.pi * f
        truth += amplitude * np.stack(
            [np.sin(w * t + phase), w * np.cos(w * t + phase), -w * w * np.sin(w * t + phase)]
        )
    return truth


def chirp(low: float, high: float, amplitude: float, seconds: float) -> np.ndarray:
    t, k = _time(seconds), math.log(high / low) / seconds
    w = 2 * np.pi * low * np.exp(k * t)
    phase = (w - w[0]) / k
    return amplitude * np.stack([np.sin(phase), w * np.cos(phase), w * k * np.cos(phase) - w * w * np.sin(phase)])


def reaches(seconds: float, seed: int) -> np.ndarray:
    """From angle to angle as hands go, with the least jerk, up to 1000 deg/s, and rests between; a tremor on top."""
    rng, t = np.random.default_rng(seed), _time(seconds)
    truth, begin = sines(_band(6, 11, 0.5, 0.01), seconds, seed), 0.5
    while begin < seconds:
        way = rng.uniform(2, 200) * (-1 if truth[0, round(begin / FINE_S)] > 0 else 1)
        length = abs(way) * 1.875 / rng.uniform(20, 1000) + 0.1
        f = np.clip((t - begin) / length, 0, 1)
        truth[0] += way * f**3 * (10 + f * (-15 + 6 * f))
        truth[1] += way / length * 30 * (f * (1 - f)) ** 2
        truth[2] += way / length**2 * 60 * f * (1 - f) * (1 - 2 * f)
        begin += length + rng.exponential(0.3)
    return truth


def by_hand(turn: Callable[[np.ndarray], np.ndarray], begin: float, end: float) -> np.ndarray:
    """`turn`, an angle over time, smoothed by the hand, and differentiated on the fine grid."""
    margin = round(6 * HAND_S / FINE_S)
    raw = turn(begin + np.arange(-margin - 1, round((end - begin) / FINE_S) + margin + 2) * FINE_S)
    hand = np.exp(-0.5 * (np.arange(-margin, margin + 1) * FINE_S / HAND_S) ** 2)
    angle = np.convolve(raw, hand / hand.sum(), "valid")
    return _differentiated(angle)


def raw(turn: Callable[[np.ndarray], np.ndarray], begin: float, end: float) -> np.ndarray:
    """`turn` as it is; acceleration is not a number where it is not judged."""
    truth = _differentiated(turn(begin + np.arange(-1, round((end - begin) / FINE_S) + 2) * FINE_S))
    for jump in np.flatnonzero(np.abs(np.diff(truth[1])) > 5.0):
        truth[2, max(jump - 2, 0) : jump + round(UNJUDGED_S / FINE_S)] = np.nan
    return truth


def _differentiated(angle: np.ndarray) -> np.ndarray:
    speed = (angle[2:] - angle[:-2]) / (2 * FINE_S)
    return np.stack([angle[1:-1], speed, (angle[2:] - 2 * angle[1:-1] + angle[:-2]) / FINE_S**2])


# not cached: this file is both run and imported, and numba would cache under one of the two names only
@kernel(cache=False, allocates=True)
def _evaluate(points, sines, t):
    angle = np.empty(t.size)
    for i in range(t.size):
        angle[i] = evaluate(points, sines, t[i])
    return angle


def profile(name: str) -> Callable[[np.ndarray], np.ndarray]:
    steering: Profile = read_manoeuvre(MANOEUVRES / f"{name}.toml").steering_deg
    tables = profile_tables(steering)
    return lambda t: _evaluate(*tables, t)


def points(*corners: tuple[float, float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: np.interp(t, *np.array(corners).T)


def _band(low: float, high: float, spacing: float, amplitude: float) -> list[tuple[float, float]]:
    return [(f, amplitude) for f in np.arange(low, high, spacing)]


def signals() -> list[Signal]:
    """Amplitudes and rates a person can reach: 1440 deg/s, where the DAQ calls a count implausible."""
    wander = [(f, 20 / (1 + (f / 0.3) ** 1.5)) for f in np.arange(0.05, 2.5, 0.083)]
    tuning = {
        "sine 0.15 Hz 8°": sines([(0.15, 8)], 20, 1),
        "sine 0.3 Hz 4°": sines([(0.3, 4)], 20, 2),
        "sine 0.3 Hz 20°": sines([(0.3, 20)], 20, 3),
        "sine 1 Hz 8°": sines([(1, 8)], 12, 4),
        "sine 1 Hz 60°": sines([(1, 60)], 12, 5),
        "sine 2.5 Hz 4°": sines([(2.5, 4)], 12, 6),
        "sine 3 Hz 20°": sines([(3, 20)], 12, 7),
        "wander": sines(wander, 20, 8),
        "tremor 5-9 Hz": sines([(0.13, 7), *_band(5, 9, 0.31, 0.05)], 20, 9),
        "tremor 7-12 Hz": sines([(0.08, 12), *_band(7.3, 12, 0.41, 0.05)], 20, 10),
        "holding": sines([(0.05, 2), *_band(1, 9, 0.31, 0.015)], 20, 11),
        "ramp 20°/s": by_hand(points((1, 0), (2.6, 32), (4.2, 32), (6, 0)), 0, 7),
        "ramp 200°/s": by_hand(points((1, 0), (1.6, 120), (2.2, 120), (3, 0)), 0, 4),
        "slalom": by_hand(profile("slalom"), 9, 27),
        "step steer": by_hand(profile("step_steer"), 12.5, 14),
    }
    held_out = {
        "sine 0.2 Hz 5°": sines([(0.2, 5)], 40, 21),
        "sine 0.2 Hz 180°": sines([(0.2, 180)], 60, 22),
        "sine 0.5 Hz 45°": sines([(0.5, 45)], 30, 23),
        "sine 1 Hz 180°": sines([(1, 180)], 12, 24),
        "sine 2 Hz 20°": sines([(2, 20)], 12, 25),
        "sine 2 Hz 90°": sines([(2, 90)], 12, 26),
        "sine 4 Hz 5°": sines([(4, 5)], 12, 27),
        "sine 4 Hz 45°": sines([(4, 45)], 12, 28),
        "chirp 0.2-4 Hz 30°": chirp(0.2, 4, 30, 20),
        "wander, other seed": sines([(f * 1.07, a * 1.5) for f, a in wander], 30, 29),
        "reaches": reaches(60, 31),
        "tremor 7-11 Hz": sines([(0.1, 10), *_band(7, 11, 0.37, 0.06)], 20, 30),
        "ramp 500°/s": by_hand(points((1, 0), (1.5, 250), (2.5, 250), (3, 0)), 0, 4),
        "double lane change": by_hand(profile("double_lane_change"), 11.5, 20),
        "sine with dwell": by_hand(profile("sine_with_dwell"), 13.5, 17),
        "town": by_hand(profile("town"), 0, 40),
        "double lane change, raw": raw(profile("double_lane_change"), 11.5, 20),
        "sine with dwell, raw": raw(profile("sine_with_dwell"), 13.5, 17),
        "town, raw": raw(profile("town"), 0, 40),
    }
    ones = np.ones_like(_time(40))
    creep = np.stack([0.05 * _time(40) + 0.03, 0.05 * ones, 0.0 * ones])
    rest = np.stack([5 * DEG_PER_COUNT * ones, 0.0 * ones, 0.0 * ones])  # an edge: with noise, the count dithers
    return [
        *(Signal(name, truth, tuning=True) for name, truth in tuning.items()),
        *(Signal(name, truth) for name, truth in held_out.items()),
        Signal("creep 0.05°/s", creep, quiet=True),
        Signal("rest", rest, quiet=True),
        Signal(DITHER, rest, quiet=True, noise_counts=0.1),
    ]


# ---- measurement -----------------------------------------------------------------------------------------------------


@kernel(cache=False)
def answers(t_ns, counts, steps, memory, par, h, out):
    """As the loop would: at each step every block up to the newest is observed, then the newest asked about."""
    block = 0
    for k in range(steps.size):
        while block <= steps[k]:
            observe(memory, par, t_ns[block], counts[block])
            block += 1
        angle, speed, acceleration = estimate(memory, par, t_ns[steps[k]], counts[steps[k]], h)
        out[k, 0], out[k, 1], out[k, 2] = angle, speed, acceleration


@dataclass(frozen=True)
class Reading:
    """What the encoder gave: instants (fine grid), counts, and the newest block at each step."""

    fine: np.ndarray
    counts: np.ndarray
    steps: np.ndarray


def read_encoder(signal: Signal, rate_hz: float = 1000.0, loss: float = 0.0) -> Reading:
    rng = np.random.default_rng(list(signal.name.encode()))
    every = round(1 / (rate_hz * FINE_S))
    fine = np.arange(0, signal.truth.shape[1], every)
    if loss > 0:
        fine = fine[(rng.random(fine.size) >= loss) | (fine == 0)]
    angle = signal.truth[0, fine] / DEG_PER_COUNT + signal.noise_counts * rng.standard_normal(fine.size)
    counts = np.floor(angle).astype(np.int64)
    ends = np.arange(0, signal.truth.shape[1] * FINE_S, STEP_S) / FINE_S
    return Reading(fine, counts, np.searchsorted(fine, ends + 1e-6, side="right") - 1)


def prepare(estimator: str, reading: Reading, rate_hz: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(instants in ns, parameters, room for the answers)"""
    kind, n = ESTIMATORS[estimator]
    par = parameters(kind, n, STEP_S, 1 / rate_hz, math.radians(DEG_PER_COUNT))
    return reading.fine * round(FINE_S * 1e9) + 1_000_000_000, par, np.empty((reading.steps.size, 3))


def run(estimator: str, reading: Reading, rate_hz: float = 1000.0) -> np.ndarray:
    """Rows (angle, speed, acceleration) in deg at every step."""
    t_ns, par, out = prepare(estimator, reading, rate_hz)
    answers(t_ns, reading.counts, reading.steps, np.zeros(MEMORY), par, STEP_S, out)
    degrees: np.ndarray = np.degrees(out)
    return degrees


def judge(answer: np.ndarray, truth: np.ndarray, at: np.ndarray) -> tuple[float, np.ndarray, float]:
    """(rms error, mean square error over LAGS_MS and scaled, standard error of the delay in ms) of one derivative."""
    begin = round(SETTLED_S / FINE_S)
    judged = (at >= begin) & np.isfinite(truth[at])
    error = answer[judged] - truth[at[judged]]
    rms = math.sqrt(np.mean(error**2))
    lags = np.round(LAGS_MS * 1e-3 / FINE_S).astype(np.int64)
    rate = math.sqrt(np.nanmean(np.diff(truth) ** 2)) / (FINE_S * 1e3)
    if rate < 1e-9 or np.isnan(truth).any():
        return rms, np.zeros(LAGS_MS.size), math.inf
    inside = (at >= begin) & (at - lags[0] < truth.size)
    square = np.mean((answer[inside] - truth[at[inside] - lags[:, None]]) ** 2, axis=1)
    # errors are alike for some 50 ms
    return rms, square / np.mean(truth**2), rms / rate / math.sqrt(judged.sum() / 10)


def best_lag(square: np.ndarray) -> float:
    """ms, between the lags by a parabola."""
    i = int(np.argmin(square))
    if i in (0, square.size - 1):
        return float(LAGS_MS[i])
    before, here, after = square[i - 1 : i + 2]
    return float(LAGS_MS[i] + 0.5 * (before - after) / (before - 2 * here + after))


def cost_ns(estimator: str, rate_hz: float) -> float:
    """Of one step: its blocks observed, one estimate; the best of some runs over a sine of 1 Hz and 60 degrees."""
    reading = read_encoder(Signal("", sines([(1, 60)], 10, 1)), rate_hz)
    t_ns, par, out = prepare(estimator, reading, rate_hz)
    times = []
    for _ in range(9):
        memory, begun = np.zeros(MEMORY), now_ns()
        answers(t_ns, reading.counts, reading.steps, memory, par, STEP_S, out)
        times.append(now_ns() - begun)
    return float(min(times)) / reading.steps.size


def measure(rate_hz: float = 1000.0, loss: float = 0.0, tuning: bool = False) -> dict[str, Any]:
    """For every estimator: every signal, and all of them together. Derivatives in deg/s and deg/s2."""
    chosen = [s for s in signals() if s.tuning == tuning]
    results: dict[str, Any] = {}
    for estimator in ESTIMATORS:
        per_signal: dict[str, dict[str, float | None]] = {}
        lags = np.zeros((2, LAGS_MS.size))
        for signal in chosen:
            reading = read_encoder(signal, rate_hz, loss)
            answer = run(estimator, reading, rate_hz)
            at = reading.fine[reading.steps]
            settled = at >= round(SETTLED_S / FINE_S)
            row: dict[str, float | None] = {"angle": float(np.std((answer[:, 0] - signal.truth[0, at])[settled]))}
            for i, name in enumerate(NAMES, 1):
                rms, square, uncertain = judge(answer[:, i], signal.truth[i], at)
                row[name] = rms
                row[f"{name}_delay_ms"] = best_lag(square) if uncertain < 3 else None
                if uncertain < 3:
                    lags[i - 1] += square
            per_signal[signal.name] = row
        results[estimator] = {
            **{
                name: _geometric([per_signal[s.name][name] for s in chosen if not s.quiet])
                for name in ("angle", *NAMES)
            },
            "speed_delay_ms": best_lag(lags[0]),
            "acceleration_delay_ms": best_lag(lags[1]),
            **{f"{name}_at_rest": per_signal[DITHER][name] for name in NAMES if DITHER in per_signal},
            "cost_ns": cost_ns(estimator, rate_hz),
            "signals": per_signal,
        }
    base = results[BASE]["signals"]
    for result in results.values():
        for name in NAMES:
            ratios = [result["signals"][s.name][name] / base[s.name][name] for s in chosen if not s.quiet]
            result[f"{name}_worst"] = max(ratios)
            result[f"{name}_better_on"] = sum(ratio < 1 for ratio in ratios)
            result["judged_on"] = len(ratios)
            delays = [
                (row[f"{name}_delay_ms"], base[key][f"{name}_delay_ms"])
                for key, row in result["signals"].items()
                if row[f"{name}_delay_ms"] is not None and base[key][f"{name}_delay_ms"] is not None
            ]
            result[f"{name}_earlier_on"] = sum(here < there for here, there in delays)
            result[f"{name}_delays_known"] = len(delays)
    return results


def _geometric(values: list[Any]) -> float:
    return math.exp(float(np.mean(np.log(values))))


# ---- output ----------------------------------------------------------------------------------------------------------


def shown(results: dict[str, Any], title: str, verbose: bool) -> str:
    console = Console(width=130, file=io.StringIO())
    base, count = results[BASE], results[BASE]["judged_on"]
    table = Table(title=title, caption=f"× = relative to {BASE}; worst = of the {count} signals")
    table.add_column("estimator", no_wrap=True)
    table.add_column("angle\n°", justify="right")
    for column in ("speed\n°/s", "×", "worst ×", "delay\nms", "at rest\n°/s"):
        table.add_column(column, justify="right")
    for column in ("accel.\n°/s²", "×", "worst ×", "delay\nms", "at rest\n°/s²", "cost\nns/step"):
        table.add_column(column, justify="right")
    for estimator, r in results.items():
        cells = [estimator, f"{r['angle']:.3f}"]
        for name in NAMES:
            cells += [f"{r[name]:.3g}", f"{r[name] / base[name]:.2f}", f"{r[name + '_worst']:.2f}"]
            cells += [f"{r[name + '_delay_ms']:.1f}", f"{r[name + '_at_rest']:.2g}" if name + "_at_rest" in r else ""]
        table.add_row(*cells, f"{r['cost_ns']:.0f}")
    console.print(table)
    if verbose:
        shown = [e for e in results if e in (BASE, "full_rate N=3", "edges", "kalman")]
        for name, unit in (("speed", "°/s"), ("acceleration", "°/s²")):
            table = Table(title=f"{name}: rms error in {unit}, delay in ms (–: less certain than 3 ms)")
            table.add_column("signal", no_wrap=True)
            for estimator in shown:
                table.add_column(estimator, justify="right")
                table.add_column("delay", justify="right")
            for signal in base["signals"]:
                cells = [signal]
                for estimator in shown:
                    row = results[estimator]["signals"][signal]
                    delay = row[f"{name}_delay_ms"]
                    cells += [f"{row[name]:.3g}", "–" if delay is None else f"{delay:.1f}"]
                table.add_row(*cells)
            console.print(table)
    for estimator in ("kalman", "edges", "full_rate N=3"):
        r = results[estimator]
        console.print(
            f"{estimator} against {BASE}: speed better on {r['speed_better_on']} of {count} signals, acceleration on"
            f" {r['acceleration_better_on']}; earlier on {r['speed_earlier_on']} of {r['speed_delays_known']} and"
            f" {r['acceleration_earlier_on']} of {r['acceleration_delays_known']} whose delay is known"
        )
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def derivatives(
    *,
    rate: Annotated[float, "blocks a second: 1000, 2000, 5000 or 10000"] = 1000.0,
    loss: Annotated[float, "share of blocks that never arrive"] = 0.0,
    tuning: Annotated[bool, "the signals the settings were chosen on"] = False,
    verbose: Annotated[bool, "every signal"] = False,
) -> Iterator[Result]:
    if rate not in (1000.0, 2000.0, 5000.0, 10_000.0):
        raise NotHere(f"--rate {rate:g}: one of 1000, 2000, 5000, 10000")
    results = measure(rate, loss, tuning)
    which = "tuning" if tuning else "held-out"
    yield Printed(shown(results, f"Errors on the {which} signals, blocks at {rate:g} Hz", verbose))
    for estimator, r in results.items():
        yield figure(f"{estimator}: speed, error", r["speed"], "°/s")
        yield figure(f"{estimator}: acceleration, error", r["acceleration"], "°/s²")
