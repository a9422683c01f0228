"""The port model of the car through the real path: the car at 5 ms with it beside the car at 1 ms.

Compared are torque per angle and rate, by those periods of the swing in which, and before which, no step was missed in
either run: the car gets faster, and at 8 Hz its torque changes by 1 % per km/h. See docs/steering_feel.md.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sim_service.step_record import MISSED, SKIPPED
from sync.config.config import load
from sync.record import open_run
from verify import ROOT
from verify.measure import Row, at_most, figure, holds
from verify.real_runs import options, tandem

WHEEL = ROOT / "configs" / "haptic_wheel.toml"
PORT_HZ, PORT_S = (4.0, 8.0, 12.0, 20.0), (4.0, 9.0)  # of the hand; from when to when, in the run
FEWEST_PERIODS = 5  # that no missed step disturbed


def port(*, hz: Annotated[tuple[float, ...], "of the hand"] = PORT_HZ) -> Iterator[Row]:
    """A rigid hand swings the wheel; what is asked for at each sample, over the angle there, the same seconds."""
    for each in hz:
        of_fast = _swing(each, ["sim.step_ms=1.0", "daq.rate_hz=5000.0"], replays=False)
        of_slow = _swing(each, ['include=["fragments/port_model.toml"]'], replays=True)
        periods = of_fast.calm & of_slow.calm
        fast, slow, result = of_fast.response(periods), of_slow.response(periods), of_slow.result
        off = 100.0 * abs(slow / fast - 1.0)  # NaN: too few periods, nothing is known
        yield figure(f"{each:g} Hz: torque per angle by the car at 1 ms", abs(fast), "N m/rad")
        title = f"{each:g} Hz: its port model differs, by {periods.sum()} of {len(periods)} periods"
        yield at_most(title, off, 2.0 if each < 10.0 else 5.0, "%")
        between = result["effort"]["between_steps_us"]
        yield figure(f"{each:g} Hz: efforts between steps", between["n"] / result["seconds"], "1/s")
        yield figure(f"{each:g} Hz: sample to motor, p99", between["p99"], "us")
        yield figure(f"{each:g} Hz: steps missed, of {result['steps']}", result["deadline_misses"])
        yield holds(f"{each:g} Hz: replayed to the bit", of_slow.same)


def calm(steps: np.ndarray, step_s: float, hz: float, begun: int) -> np.ndarray:
    """Which periods of the swing within PORT_S a disturbed simulator did not spoil: every step is there, in time, in
    that period and the one before it."""
    t = 1e-9 * (steps["t_ns"].astype(np.int64) - begun)
    late = (np.diff(t) > 1.5 * step_s) | (steps["status"][1:] & (MISSED | SKIPPED) != 0)
    first, last = (round(each * hz) for each in PORT_S)
    good = np.ones(last - first, bool)
    for a, b in zip(t[:-1][late], t[1:][late], strict=True):
        good[max(int(a * hz) - first, 0) : max(int(b * hz) + 2 - first, 0)] = False
    return good


@dataclass(frozen=True)
class Swing:
    """A run in which the wheel swings."""

    hz: float
    torque: tuple[np.ndarray, np.ndarray]  # s since the first sample, N m
    angle: tuple[np.ndarray, np.ndarray]
    calm: np.ndarray  # periods
    kmh: float
    result: dict[str, Any]
    same: bool  # its record was replayed to the bit

    def response(self, periods: np.ndarray) -> complex:
        """Torque per angle in these periods; NaN where they are too few."""
        from tandem.machines.car.studies.steering.sweep import amplitude

        if periods.sum() < FEWEST_PERIODS:
            return complex(np.nan)
        found = []
        for t, values in (self.torque, self.angle):
            period = np.floor(t * self.hz).astype(int) - round(PORT_S[0] * self.hz)
            here = (period >= 0) & (period < len(periods))
            here[here] = periods[period[here]]
            found.append(amplitude(self.hz, t[here], values[here]))
        return complex(found[0] / found[1])


def _swing(hz: float, settings: list[str], replays: bool) -> Swing:
    from tandem.machines.car.studies.steering.sweep import AMPLITUDE, PEAK_SPEED

    swing = min(AMPLITUDE, PEAK_SPEED / (2.0 * np.pi * hz))
    overrides = [
        *settings, f"name=haptics_port_{os.getpid()}", "view.enabled=false", "sim.parameters.feel_limit=20.0",
        f"source.hand={{rigid=true, motion={{amplitude={swing}, hz={hz}}}}}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        seconds = str(PORT_S[1] + 1.0)
        result = tandem("run", str(WHEEL), *options(overrides), "--seconds", seconds, "--runs", folder)
        topics = open_run(next(Path(folder).iterdir())).topics
        blocks, efforts, steps = (topics[name].blocks for name in ("/daq", "/effort", "/step"))
        again = tandem("replay", folder) if replays else {}
    begun = int(efforts["sampled_ns"][efforts["sampled_ns"] > 0][0])
    at = np.where(efforts["motion_ns"] > 0, efforts["motion_ns"], efforts["sampled_ns"])
    step_ns = load(WHEEL, overrides).step_ns
    # a model that is older than two steps is not asked: what was wanted then is not of that motion
    newer = np.flatnonzero((np.diff(at, prepend=0) > 0) & (at - efforts["sampled_ns"] <= 2 * step_ns))
    angle = 2.0 * np.pi / 40000.0 * blocks["steering"].astype(float)
    middle = begun + round(0.5e9 * sum(PORT_S))
    return Swing(
        hz,
        (1e-9 * (at[newer] - begun), efforts["wanted"][newer]),
        (1e-9 * (blocks["t_ns"].astype(np.int64) - begun), angle),
        calm(steps, 1e-9 * step_ns, hz, begun),
        3.6 * float(np.interp(middle, steps["t_ns"].astype(np.int64), steps["vx"])),
        result,
        replays and bool(again["identical"]) and not again["efforts"]["differing"],
    )
