"""Sampled walls on paper, beside what simulation finds: cases W6 to W9 of the source's digest with their tolerances,
and the monitor's energy of a push on the virtual clock."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sync.config.config import load
from tandem.doctor import passivity as theory
from tandem.doctor.passivity import FINGER, Port, WorstCrossing
from tandem.live.closed_loop import run_closed_loop
from tandem.machines.wall.studies import limits

WALL = Path(__file__).resolve().parents[4] / "configs" / "wall.toml"
DEVICE = Port(0.3, 0.0)

MS = (0.5, 1, 2, 3, 4, 5, 8, 10, 15, 20, 30)
ALONE = (1.2496, 2.4965, 4.9724, 7.4074, 9.7827, 12.0808, 18.3733, 21.9749, 28.7972, 32.9955, 36.8465)
HELD = (-2.5004, -1.2534, 1.2228, 3.6587, 6.0356, 8.3363, 14.6414, 18.2531, 25.0784, 29.1999, 32.5837)


@pytest.mark.parametrize("finger, marginal", [(None, ALONE), (FINGER, HELD)], ids=["alone", "with a finger"])
def test_w6_marginal_damping(finger: Port | None, marginal: tuple[float, ...]) -> None:
    for ms, b in zip(MS, marginal, strict=True):
        port = theory.together(DEVICE, finger)
        at = theory.growth(replace(port, damping=port.damping + b), 5000.0, 0.0, 1e-3 * ms)
        assert at == pytest.approx(1.0, abs=1e-5)
        more = theory.growth(replace(port, damping=port.damping + b + 0.01), 5000.0, 0.0, 1e-3 * ms)
        less = theory.growth(replace(port, damping=port.damping + b - 0.01), 5000.0, 0.0, 1e-3 * ms)
        assert more < 1.0 < less
        assert theory.marginal_damping(port, 5000.0, 1e-3 * ms) == pytest.approx(b, abs=6e-5)
    if finger is not None:
        assert HELD[0] < 0.0 and HELD[1] < 0.0  # the finger's own damping is enough


def test_w7_the_device_alone_without_dimensions() -> None:
    for tau, alpha in ((0.1, 2.0338926), (1.0, 2.3922112), (3.0, 3.5595088)):
        assert theory.alpha_complex(tau) == pytest.approx(alpha, abs=5e-8)
        # the same by eigenvalues: m = 1, T = 1, b = tau, K = alpha b / T
        assert theory.onset(Port(1.0, tau), 0.0, 1.0) == pytest.approx(theory.alpha_complex(tau) * tau, rel=1e-9)
    assert theory.alpha_limits_meet() == pytest.approx(3.72075, abs=1e-5)
    beyond = 5.0
    assert theory.onset(Port(1.0, beyond), 0.0, 1.0) == pytest.approx(theory.alpha_real(beyond) * beyond, rel=1e-9)


@pytest.mark.parametrize(
    "mass, soft, stiff, period, gain, balance",
    [
        (1.0, 1.0, 100.0, 0.01, 1.004938, 0.0028506),
        (1.0, 1.0, 100.0, 0.05, 1.116823, 0.0638484),
        (1.0, 1.0, 100.0, 0.1, 1.409505, 0.1965708),
        (1.0, 1.0, 100.0, 0.2, 2.215283, 0.4391918),
        (1.0, 1.0, 100.0, 0.3, 3.105783, 0.5999706),
        (0.3, 257.0, 5000.0, 1e-3, 1.007872, 0.035728),
        (0.3, 257.0, 5000.0, 2e-3, 1.031100, 0.139513),
        (0.3, 257.0, 5000.0, 5e-3, 1.180015, 0.750676),
        (0.3, 257.0, 5000.0, 10e-3, 1.592597, 2.064885),
    ],
)
def test_w8_the_worst_crossing(
    mass: float, soft: float, stiff: float, period: float, gain: float, balance: float
) -> None:
    worst = WorstCrossing(mass, soft, stiff, period)
    assert worst.gain() == pytest.approx(gain, abs=1e-6)
    assert worst.balance() == pytest.approx(balance, abs=1e-6)
    # at the balance the strike repeats, by exact integration: half a swing on the soft spring and a sample more of it,
    # then the stiff one until it is left
    b = worst.balance()
    x = np.array([0.0, 1.0])
    soft_rate, stiff_rate = (np.array([[0.0, 1.0], [-k / mass, -b / mass]]) for k in (soft, stiff))
    w1, w2 = (math.sqrt(k / mass - (0.5 * b / mass) ** 2) for k in (soft, stiff))
    x = theory.exponential(soft_rate * (math.pi / w1 + period)) @ x
    assert x[0] < 0.0
    leaves = exit_time(stiff_rate, x, math.pi / w2)
    assert (theory.exponential(stiff_rate * leaves) @ x)[1] == pytest.approx(1.0, abs=1e-9)


def exit_time(rate: np.ndarray, x: np.ndarray, within: float) -> float:
    inside, outside = 0.0, within
    for _ in range(100):
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if (theory.exponential(rate * middle) @ x)[0] < 0.0 else (inside, middle)
    return inside


def sampled_switching(v: float, strikes: int, stiffness: float, gravity: float, period: float) -> list[float]:
    """A ball on a wall that is on and off only at samples, by short exact steps of either model: speeds at exits."""
    rates = {on: np.array([[0, 1, 0], [-stiffness * on, 0, -gravity], [0, 0, 0]], float) for on in (0, 1)}
    fine = 64
    steps = {on: theory.exponential(rates[on] * (period / fine)) for on in (0, 1)}
    x, on, found, k = np.array([0.0, v, 1.0]), 1, [], 0
    while len(found) < strikes:
        for _ in range(fine):
            before, x = x, steps[on] @ x
            if on and before[0] < 0.0 <= x[0]:
                at = exit_time(rates[1], before, period / fine)
                found.append(float((theory.exponential(rates[1] * at) @ before)[1]))
        k += 1
        on = int(x[0] < 0.0)
    return found


def test_w9_the_return_map_is_the_event_by_event_simulation() -> None:
    mapped = list(itertools.islice(theory.return_map(0.0, 1.0, 100.0, 1.0, 9.81, 0.05), 40))
    assert mapped[:5] == pytest.approx([0.94269, 0.90199, 1.02817, 1.03621, 1.19685], abs=1e-4)
    assert max(mapped) == pytest.approx(1.96987, abs=1e-2)
    assert sampled_switching(1.0, 5, 100.0, 9.81, 0.05) == pytest.approx(mapped[:5], abs=1e-9)


def test_a_delay_of_whole_samples_and_of_parts_of_them_is_one_curve() -> None:
    port = theory.together(Port(0.3, 2.0), FINGER)
    delays = np.arange(0.0, 1.01e-3, 5e-5)
    onsets = [theory.onset(port, 0.0, 2e-4, d) for d in delays]
    assert all(b < a for a, b in itertools.pairwise(onsets))
    assert (np.diff(np.diff(np.log(onsets), 2)) < 0.0).all()  # no corner where a whole sample is reached
    # where the loop is slow against its delay, the first-order rule
    slow = Port(5.0, 2.0, 0.0)
    assert theory.onset(slow, 0.0, 2e-4, 3e-4) == pytest.approx(theory.first_order(slow, 0.0, 2e-4, 3e-4), rel=0.01)


def test_passive_walls_need_the_devices_own_damping() -> None:
    assert theory.passive(0.0, 0.0, 2e-4) == 0.0
    assert theory.passive(2.0, 0.5, 1e-3) == pytest.approx(2.0 * 1.5 / 1e-3)


@pytest.mark.parametrize("delay", [0.0, 5e-4])
def test_the_onset_found_in_the_loop_is_the_predicted_one(delay: float) -> None:
    """Device, encoder, inputs, machine and effort on the virtual clock: calm 7 % below, growing 7 % above."""
    case = limits.Case(1e-3, delay, Port(0.3, 2.0), FINGER)
    onset = theory.onset(case.port, 0.0, case.period, delay)
    assert not limits.grows(WALL, [], case, 0.93 * onset)
    assert limits.grows(WALL, [], case, 1.07 * onset)


@pytest.mark.parametrize("delay", [0.0, 2e-4])
def test_the_monitors_energy_of_a_push_and_release(delay: float) -> None:
    """Without delay the hold's alone; with one, twice the delay more."""
    found = limits.leak(WALL, [], 1e-3, delay, 2000.0)
    assert found["monitor"] == pytest.approx(found["formula"], rel=0.01)
    of_hold = theory.hold_leak(2000.0, 0.05, 1e-3, found["depth"])
    assert found["hold"] + found["crossing"] == pytest.approx(of_hold, rel=0.01)


def test_the_same_loop_twice_is_the_same_bits() -> None:
    config = load(WALL)
    first, second = (run_closed_loop(config, WALL, 0.1, 100_000) for _ in range(2))
    assert (first.position == second.position).all() and (first.effort == second.effort).all()
    assert np.ptp(first.position) > 0.0


@pytest.mark.drill
def test_the_devices_own_damping_by_the_decay_of_its_speed() -> None:
    """A device that nobody holds, pushed once: what its encoder shows on the virtual clock."""
    settings = ["source.hand=false", "source.mass=0.3", "source.damping=2.0", "sim.parameters.wall=-0.05"]
    trace = run_closed_loop(load(WALL, settings), WALL, 0.5, 0, lambda device: device.lean(0.0, 0.1, 0.0))
    speed = np.convolve(trace.outputs["speed"], np.full(50, 0.02), "valid")
    assert 0.3 * limits.decay_rate(trace.seconds[49:], speed) == pytest.approx(2.0, rel=0.02)
    assert math.isnan(limits.decay_rate(trace.seconds[:5], speed[:5]))
