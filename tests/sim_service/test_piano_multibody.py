"""The grand action of six bodies: the six results of seed 000 in their directions and sizes, phases that come out of
contacts, no energy from nothing, the geometry of let-off of the digest's G1."""

import functools

import numpy as np
import pytest

from sim_service.machines.piano_multibody import MACHINE
from sim_service.machines.piano_multibody.dynamics import PAR, W

H = 1.0 / 4000.0


@functools.cache
def pressed(points: tuple[tuple[float, float], ...], settle: float = 0.3, **parameters: float) -> dict[str, np.ndarray]:
    """Outputs while the key's tip goes along straight lines between points (s, m), after a rest at the first."""
    params = np.array([p.value for p in MACHINE.parameters])
    for name, value in parameters.items():
        params[PAR[name]] = value
    state, work = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size)
    MACHINE.initial(state, params, MACHINE.tables, work)
    at, to = np.array(points).T
    t = np.arange(-settle, at[-1], H)
    x = np.interp(t, at, to)
    v = np.gradient(x, H)
    out = np.zeros((len(t), len(MACHINE.outputs)))
    inputs = np.zeros(3)
    for k in range(len(t)):
        inputs[:] = x[k], v[k], 0.0
        MACHINE.step(state, inputs, params, MACHINE.tables, work, H)
        out[k] = work[: len(MACHINE.outputs)]
    found = {q.name: out[t >= 0.0, i] for i, q in enumerate(MACHINE.outputs)}
    found["strike_instant"] -= settle
    return found | {"t": t[t >= 0.0]}


SLOW = ((0.0, 0.0), (0.95, 0.0095), (1.2, 0.0095))  # 10 mm/s over 9.5 mm
TWO = ((0.0, 0.0), (0.3, 0.0), (0.42, 0.0095), (0.9, 0.0095), (1.0, 0.0), (1.5, 0.0), (1.62, 0.0095), (2.1, 0.0095))
TWO_FAST = (
    (0.0, 0.0),
    (0.1, 0.0),
    (0.14, 0.0095),
    (0.3, 0.0095),
    (0.36, 0.0),
    (0.5, 0.0),
    (0.54, 0.0095),
    (0.7, 0.0095),
)


def force(run: dict[str, np.ndarray], low: float, high: float) -> float:
    """Mean force at the tip on the way down, between two travels in mm."""
    down = run["t"] < 0.95
    return float(run["tip_force"][down & (run["travel"] > 1e-3 * low) & (run["travel"] < 1e-3 * high)].mean())


def test_a_slow_press_has_its_escapement_between_8_and_9_mm_and_no_note() -> None:
    run = pressed(SLOW)
    down = run["t"] < 0.95
    peak = run["travel"][down][np.argmax(run["tip_force"][down])]
    assert 8e-3 < peak < 9e-3
    assert run["tip_force"][down].max() > 1.5 * force(run, 5.5, 7.0)
    assert run["strikes"][-1] == 0
    # acceleration, let-off, and the hammer off the jack, by contacts alone
    assert [int(p) for p in run["phase"][down][[400, 3320]]] == [0, 1]


def test_a_higher_button_gives_more_force_there_and_a_lower_one_less() -> None:
    normal = MACHINE.parameters[PAR.let_off_button].value
    low, mid, high = (force(pressed(SLOW, let_off_button=normal + d), 8.0, 9.0) for d in (-5e-4, 0.0, 5e-4))
    assert low < mid < high


def test_a_heavier_hammer_gives_more_force() -> None:
    runs = [pressed(SLOW, hammer_mass_added=m) for m in (0.0, 3e-3, 6e-3)]
    for low, high in ((1.0, 4.0), (5.5, 7.0), (8.0, 9.0)):
        a, b, c = (force(run, low, high) for run in runs)
        assert a < b < c


def test_regulated_as_g1_it_lets_off_where_the_digest_says() -> None:
    """The toe meets the button at -0.0203 rad of the key (case P1)."""
    g1 = {
        "let_off_button": 0.0466488, "knuckle_edge": 0.011, "string_angle": 0.0, "drop_screw": 0.2, "back_check": 0.05,
        "damper": 0.0, "repetition_spring": 0.03,
    }  # fmt: skip
    run = pressed(((0.0, 0.00028), (0.06, 0.00668), (0.1, 0.00668)), **g1)
    assert run["travel"][np.argmax(run["toe_force"] > 0.0)] / 0.2286 - 0.03473 == pytest.approx(-0.0203, abs=1e-3)


def test_without_damper_the_second_half_is_lighter() -> None:
    with_it, without = pressed(SLOW), pressed(SLOW, damper=0.0)
    assert force(with_it, 1.0, 4.0) == pytest.approx(force(without, 1.0, 4.0), rel=1e-6)
    assert 0.2 < force(with_it, 5.5, 7.0) - force(without, 5.5, 7.0) < 0.8


def test_a_slow_double_blow_holds_3_newton_at_the_pilot() -> None:
    run = pressed(TWO)
    assert 0 < run["strikes"][np.searchsorted(run["t"], 0.9)] < run["strikes"][-1]
    for until in (0.89, 2.09):
        held = run["pilot_force"][np.searchsorted(run["t"], until)]
        assert held == pytest.approx(3.0, abs=0.4)


def test_a_fast_double_blow_strikes_twice_and_rests_between() -> None:
    run = pressed(TWO_FAST)
    assert run["strikes"][-1] == 2
    first = run["strike_speed"][np.searchsorted(run["t"], 0.3)]
    assert run["strike_speed"][-1] == pytest.approx(first, rel=0.3)
    assert run["hammer_angle"][np.searchsorted(run["t"], 0.49)] < -0.15


@pytest.mark.parametrize("points", [SLOW, TWO, TWO_FAST])
def test_no_stroke_creates_energy(points: tuple[tuple[float, float], ...]) -> None:
    run = pressed(points)
    error = run["energy_error"] - run["energy_error"][0]
    assert error.max() <= 0.01 * run["work_on_key"].max()


def test_the_same_strokes_twice_are_the_same_bits() -> None:
    once = pressed(TWO_FAST)
    again = pressed.__wrapped__(TWO_FAST)
    assert all(once[name].tobytes() == again[name].tobytes() for name in once)


def test_any_travel_and_any_parameter_keeps_it_finite() -> None:
    r = np.random.default_rng(3)
    params = np.array([p.value for p in MACHINE.parameters])
    state, work, inputs = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size), np.zeros(3)
    MACHINE.initial(state, params, MACHINE.tables, work)
    for k in range(2000):
        if k % 200 == 0:
            params = np.array([r.uniform(p.low, p.high) for p in MACHINE.parameters])
        inputs[:] = r.choice([0.0, 0.005, 0.0095, 1e6, -1e6]), np.nan, np.nan
        MACHINE.step(state, inputs, params, MACHINE.tables, work, H)
        assert np.isfinite(state).all() and np.isfinite(work[: len(MACHINE.outputs)]).all()
    assert np.abs(work[[W.tip_force, W.pilot_force]]).max() < 1e9
