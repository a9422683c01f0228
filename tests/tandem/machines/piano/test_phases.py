"""The piano key by its phase model: cases P1 to P12, S1 and S2 of the source's digest with their tolerances, energy,
small objects, an octave. Regression values are of the reconstructed geometry."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from sim_service.registry import load_machine
from tandem.machines.piano import action, geometry, keys, octave, phases
from tandem.machines.piano.phases import MACHINE, P, S, W
from tandem.machines.piano.studies.study import play

A, B, C, D = range(4)
REST, PRESSED = -0.0335, -0.0055
REFERENCE = ((0.1, REST), (0.18, PRESSED))
Path = tuple[tuple[float, float], ...]  # (s, rad), straight lines between


@dataclass
class Played:
    """Outputs of every step, states likewise, and what happened: (s, phase before, phase after) and (s, rad/s)."""

    t: np.ndarray
    out: np.ndarray
    states: np.ndarray
    changes: list[tuple[float, int, int]] = field(default_factory=list)
    strikes: list[tuple[float, float]] = field(default_factory=list)

    def of(self, name: str) -> np.ndarray:
        return self.out[:, W[name]]

    def during(self, phase: int, after: float = 0.05) -> np.ndarray:
        return (self.of("phase") == phase) & (self.t > after)

    def change(self, before: int, after: int, k: int = 0) -> float:
        return [t for t, a, b in self.changes if (a, b) == (before, after)][k]


def played(path: Path, seconds: float, h: float = 1e-4, **parameters: float) -> Played:
    """The measured key goes along a path, its position and velocity as they are at the start of every step."""
    params = np.array([p.value for p in MACHINE.parameters])
    for name, value in parameters.items():
        params[P[name]] = value
    state, work = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size)
    MACHINE.initial(state, params, MACHINE.tables, work)
    times, angles = zip(*path, strict=True)
    n = round(seconds / h)
    grid = np.interp(np.arange(n + 1) * h, times, angles)
    metres = (grid - params[P.key_rest]) * geometry.FRONT
    out, states, found = np.zeros((n, len(MACHINE.outputs))), np.zeros((n, state.size)), ([], [])
    inputs = np.zeros(2)
    for k in range(n):
        inputs[:] = metres[k], (metres[k + 1] - metres[k]) / h
        before, struck, changes = int(state[keys.S.phase_now]), state[S.strikes], state[S.changes]
        MACHINE.step(state, inputs, params, MACHINE.tables, work, h)
        out[k], states[k] = work[: len(MACHINE.outputs)], state
        if state[S.changes] > changes:
            found[0].append((float(state[S.change_at]), before, int(state[keys.S.phase_now])))
        if state[S.strikes] > struck:
            found[1].append((float(state[S.strike_at]), float(state[S.strike_rate])))
    assert np.isfinite(out).all() and np.isfinite(states).all() and not state[keys.S.exceeded]
    return Played((np.arange(n) + 1) * h, out, states, *found)


def ramp(seconds: float) -> Path:
    return ((0.1, REST), (0.1 + seconds, PRESSED))


@pytest.fixture(scope="module")
def reference() -> Played:
    return played(REFERENCE, 0.8)


def test_the_reconstructed_loops_close_where_the_digest_has_them() -> None:
    """Ground points, mass matrix's ratio of whippen and key, derivatives at rest."""
    assert (pytest.approx(0.189022, abs=1e-6), pytest.approx(0.019517, abs=1e-6)) == (geometry.P2X, geometry.P2Y)
    assert (pytest.approx(0.098207, abs=1e-6), pytest.approx(0.086866, abs=1e-6)) == (geometry.P3X, geometry.P3Y)
    q5, _, _, rho, drho, q6, dq6, jx, jy, djx, djy = action.jack_at(A, geometry.Q1, geometry.BUTTON)
    assert q5 == pytest.approx(geometry.Q5, abs=1e-12) and rho == pytest.approx(-2.0239, abs=1e-4)
    q4, q9, d41, d42, d91, d92 = action.knuckle(geometry.Q2, q6, dq6, jx, jy, djx, djy)
    assert (q4, q9) == (pytest.approx(0.0, abs=1e-12), pytest.approx(geometry.Q9, abs=1e-12))
    assert (d41, d42) == (pytest.approx(0.18652, abs=1e-5), pytest.approx(-0.016499, abs=1e-6))
    assert (d91, d92) == (pytest.approx(0.033756, abs=1e-5), pytest.approx(-0.011150, abs=1e-5))
    ahead = action.jack_at(A, geometry.Q1 + 1e-6, geometry.BUTTON)[3]
    assert drho == pytest.approx((ahead - rho) / 1e-6, rel=1e-4)
    assert action.toe_gap(geometry.Q1, geometry.BUTTON) == pytest.approx(4.2e-3, abs=5e-5)


def test_p1_the_reference_run(reference: Played) -> None:
    assert [(a, b) for _, a, b in reference.changes] == [(A, B), (B, C)]
    assert reference.change(A, B) == pytest.approx(0.1445, abs=6e-3)
    assert reference.change(B, C) == pytest.approx(0.181, abs=3e-3)
    ((struck, rate),) = reference.strikes
    assert struck == pytest.approx(0.20, abs=10e-3)
    # by the edge of the knuckle, not by a jack that pulls
    ramped = (reference.t > 0.1) & (reference.t < reference.change(B, C))
    assert (reference.of("jack_overlap")[ramped] > 0.0).all()
    # of this geometry
    assert (reference.change(A, B), reference.change(B, C), struck) == pytest.approx((0.1439, 0.1818, 0.1978), abs=2e-4)
    rates, angles = reference.states[:, S.hammer_rate], reference.states[:, S.key_angle]
    k_b, k_c = np.searchsorted(reference.t, [reference.change(A, B), reference.change(B, C)])
    assert (rates[k_b], rates[k_c], rate) == pytest.approx((6.34, 3.67, 1.64), abs=0.02)
    assert (angles[k_b], angles[k_c]) == pytest.approx((-0.0203, -0.0089), abs=1e-4)


def test_p2_jack_and_lever_fall_and_the_jack_turns_at_the_button(reference: Played) -> None:
    jack, lever, k_b = reference.of("jack"), reference.of("lever"), np.searchsorted(reference.t, 0.1439)
    k_0, k_c = np.searchsorted(reference.t, [0.105, 0.1817])
    assert (np.diff(jack[k_0:k_b]) < 0.0).all() and lever[k_b] < lever[k_0]
    assert (np.diff(jack[k_b + 1 : k_c]) > 0.0).all() and lever[k_c] < lever[k_b]
    assert (jack[0], jack[k_b], jack.max()) == pytest.approx((-0.390, -0.418, -0.358), abs=2e-3)
    # key, whippen and jack jump when the knuckle is let go
    rate = reference.states[:, S.key_rate]
    assert abs(rate[k_c + 30] - rate[k_c - 1]) > 0.2
    # hammer and lever oscillate slowly, and less and less
    late = reference.t > 0.4
    hammer = reference.of("hammer")[late] - reference.of("hammer")[-1]
    turns = np.flatnonzero(np.diff(np.sign(np.diff(hammer)))) * 1e-4
    assert len(turns) >= 3 and 4.0 < 0.5 / np.mean(np.diff(turns)) < 8.0
    assert abs(hammer[-1000:]).max() < abs(hammer[:1000]).max()


def test_p3_the_let_off_is_felt(reference: Played) -> None:
    felt = reference.of("tip_force")
    pressing = reference.t > 0.1
    mean_a, in_b = felt[reference.during(A) & pressing].mean(), felt[reference.during(B)]
    assert in_b.mean() > mean_a
    assert felt[np.searchsorted(reference.t, 0.099)] == pytest.approx(1.0, abs=0.05)
    assert (mean_a, in_b.mean(), in_b.max()) == pytest.approx((2.18, 2.84, 3.6), abs=0.1)
    released = (reference.t > reference.change(B, C)) & (reference.t < reference.change(B, C) + 0.02)
    assert felt[released].min() < 0.0


def test_p4_the_hammer_goes_five_times_as_far_as_the_key() -> None:
    _, _, _, _, _, q6, dq6, jx, jy, djx, djy = action.jack_at(A, geometry.Q1, geometry.BUTTON)
    _, _, d41, d42, _, _ = action.knuckle(geometry.Q2, q6, dq6, jx, jy, djx, djy)
    ratio = -d41 / d42
    assert ratio == pytest.approx(11.30, abs=0.01)
    assert ratio * geometry.SHANK / geometry.FRONT == pytest.approx(4.6, abs=0.05)


def test_p5_a_slow_press_sounds_nothing_but_lets_off() -> None:
    slow = played(ramp(1.0), 1.3, h=5e-4)
    assert not slow.strikes and [(a, b) for _, a, b in slow.changes] == [(A, B), (B, C)]
    torque = slow.of("torque")
    assert torque[slow.during(A)].max() == pytest.approx(0.262, abs=0.005)
    assert torque[slow.during(B)].max() == pytest.approx(0.465, abs=0.005)


@pytest.mark.parametrize("seconds, after, rate", [(0.02, 43, 11.8), (0.04, 55, 9.0), (0.06, 71, 5.3), (0.08, 98, 1.64)])
def test_p6_faster_is_earlier_and_harder(seconds: float, after: float, rate: float) -> None:
    ((struck, found),) = played(ramp(seconds), 0.25).strikes
    assert 1e3 * (struck - 0.1) == pytest.approx(after, abs=0.6) and found == pytest.approx(rate, abs=0.06)


def test_p6_slower_sounds_nothing() -> None:
    assert not played(ramp(0.09), 0.4, h=5e-4).strikes


@pytest.mark.parametrize("repair", [0.0, 1.0])
def test_p7_a_note_repeats_from_half_way(repair: float) -> None:
    again = played((*REFERENCE, (0.4, PRESSED), (0.5, -0.023), (0.6, -0.023), (0.64, PRESSED)), 0.8, repair=repair)
    assert [(a, b) for _, a, b in again.changes] == [(A, B), (B, C), (C, A), (A, B), (B, C)]  # reset passed in a step
    assert again.change(C, A) == pytest.approx(0.480, abs=2e-3)
    assert again.change(A, B, 1) == pytest.approx(0.610, abs=4e-3)
    assert len(again.strikes) == 2
    assert again.states[again.t > 0.2, S.key_angle].min() > -0.026  # never back at rest


def test_p8_back_at_rest(reference: Played) -> None:
    back = played((*REFERENCE, (0.4, PRESSED), (0.48, REST)), 1.4, h=5e-4)
    assert back.changes[-1][1:] == (D, A)
    end = back.states[-1]
    assert end[S.key_angle] == pytest.approx(-0.03466, abs=2e-4) and end[S.hammer_angle] == pytest.approx(
        -0.3583, abs=0.01
    )
    assert end[S.lever_angle] == pytest.approx(-0.3904, abs=0.01)
    assert back.of("torque")[-1] == pytest.approx(0.231, abs=0.005)
    assert back.of("sounding")[np.searchsorted(back.t, 0.3)] == 1.0 and back.of("sounding")[-1] == 0.0


def test_p9_the_string_reflects_and_every_crossing_is_one_event(reference: Played) -> None:
    ((struck, rate),) = reference.strikes
    k = np.searchsorted(reference.t, struck)
    before, after = reference.states[k - 1, S.hammer_rate], reference.states[k, S.hammer_rate]
    assert before == pytest.approx(rate, abs=0.05) and after == pytest.approx(-rate, abs=0.05)
    assert reference.of("hammer").max() < 1e-6
    assert reference.of("strike_speed")[-1] == rate * geometry.SHANK
    assert reference.t[-1] - reference.of("strike_age")[-1] == pytest.approx(struck, abs=1e-9)
    deaf = played(REFERENCE, 0.3, restitution=0.0)
    assert abs(deaf.states[np.searchsorted(deaf.t, struck), S.hammer_rate]) < 0.05


def test_p10_the_state_passes_from_phase_to_phase_as_it_is() -> None:
    """Nothing jumps between steps of a tenth of a millisecond but by what moves; the loops stay closed."""
    again = played((*REFERENCE, (0.4, PRESSED), (0.48, REST)), 0.7)
    assert {b for _, _, b in again.changes} == {A, B, C, D}
    for name in ("key", "hammer", "lever", "whippen", "jack", "jack_overlap", "jack_place"):
        values = again.of(name)
        jumps = abs(np.diff(values))
        assert jumps.max() < 30.0 * 1e-4 * max(1.0, abs(values).max()), name
    for k in range(0, len(again.t), 50):
        x, mode = again.states[k], int(again.states[k, keys.S.phase_now])
        _, _, _, _, _, q6, dq6, jx, jy, djx, djy = action.jack_at(mode, x[S.key_angle], geometry.BUTTON)
        q4, q9, *_ = action.knuckle(x[S.hammer_angle], q6, dq6, jx, jy, djx, djy)
        e2, e6 = np.exp(1j * x[S.hammer_angle]), np.exp(1j * q6)
        head = complex(jx, jy) + 1j * geometry.JACK * e6
        met = complex(geometry.P3X, geometry.P3Y) - 1j * geometry.KNUCKLE * e2 + q9 * e2 + q4 * 1j * e6
        assert abs(head - met) < 1e-9
        if mode in (B, C):
            assert abs(jy - geometry.TOE * math.sin(q6) - geometry.BUTTON) < 1e-9


def test_p11_the_torque_at_rest() -> None:
    assert 0.23 <= played(((0.0, REST),), 1.0, h=1e-3).of("torque")[-1] <= 0.25


def test_p12_a_shallow_press_makes_the_hammer_hop() -> None:
    hop = played(((0.1, REST), (0.12, -0.0245)), 0.6)
    assert not hop.changes and not hop.strikes
    off = hop.of("jack_overlap") < 0.0
    k_up, k_down = np.flatnonzero(off & (hop.t > 0.11))[0], np.flatnonzero(~off & (hop.t > 0.2))[0]
    assert (hop.t[k_up], hop.t[k_down]) == (pytest.approx(0.135, abs=4e-3), pytest.approx(0.228, abs=4e-3))
    torque = hop.of("torque")
    assert hop.of("hammer").max() == pytest.approx(-0.154, abs=1e-3)
    assert torque[(hop.t > 0.16) & (hop.t < 0.22)].min() == pytest.approx(0.10, abs=0.01)
    assert torque[hop.t > 0.22].max() == pytest.approx(0.41, abs=0.03)
    assert np.ptp(torque[hop.t > 0.5]) < 0.06


@pytest.mark.parametrize("h", [2.5e-4, 1e-3, 2e-3])
def test_s1_s2_the_same_events_at_any_rate_of_the_loop(reference: Played, h: float) -> None:
    """Pieces of a tenth of a millisecond inside the step; the same, in pieces of half a one, within 0.4 ms."""
    again = played(REFERENCE, 0.3, h=h)
    assert [each[1:] for each in again.changes] == [(A, B), (B, C)]
    times = [t for t, _, _ in reference.changes] + [reference.strikes[0][0]]
    assert [t for t, _, _ in again.changes] + [again.strikes[0][0]] == pytest.approx(times, abs=1e-6)
    coarse = played(REFERENCE, 0.3, h=h, longest_step=5e-4)
    assert [t for t, _, _ in coarse.changes] + [coarse.strikes[0][0]] == pytest.approx(times, abs=4e-4)


def test_a_hammer_thrown_off_at_the_button_is_caught_by_the_jack_again_where_that_is_repaired() -> None:
    gap, repaired = played(ramp(0.15), 0.4, repair=0.0), played(ramp(0.15), 0.4, repair=1.0)
    assert not gap.during(B).sum() > 5 and not gap.strikes
    assert (C, B) in [each[1:] for each in repaired.changes]
    assert repaired.of("torque")[repaired.during(B)].max() > 0.35


@pytest.mark.parametrize("repair", [0.0, 1.0])
def test_no_energy_is_made(repair: float) -> None:
    """Over strokes of any kind, at most a hundredth of the work done on the key."""
    rng = np.random.default_rng(7)
    for _ in range(4):
        points, t = [(0.05, REST)], 0.05
        for _ in range(8):
            t += rng.uniform(0.02, 0.2)
            points.append((t, rng.choice([REST, PRESSED, rng.uniform(REST, PRESSED)])))
        points.append((t + 0.1, REST))
        run = played(tuple(points), t + 0.7, h=5e-4, repair=repair)
        put_in = np.maximum.accumulate(run.of("work_done")).max()
        assert run.of("energy_error").max() < 0.01 * put_in
        if repair:
            assert run.of("phase")[-1] == A  # whatever was played


def test_a_higher_button_lets_off_earlier_and_a_heavier_hammer_weighs_more() -> None:
    usual, high = played(ramp(1.0), 1.2, h=1e-3), played(ramp(1.0), 1.2, h=1e-3, let_off=5e-4)
    assert high.change(A, B) > usual.change(A, B) + 0.03
    heavy = played(((0.0, REST),), 0.8, h=1e-3, hammer_mass=0.020)
    assert heavy.of("torque")[-1] > usual.of("torque")[50] + 0.03


def test_a_key_that_begins_pressed_is_approached() -> None:
    pressed = played(((0.0, PRESSED),), 0.6, h=1e-3)
    assert abs(pressed.of("tip_force")).max() < 8.0 and pressed.states[-1, S.key_angle] == pytest.approx(
        PRESSED, abs=2e-3
    )


@pytest.mark.parametrize("position", [math.nan, 1e300, -1e300, math.inf])
def test_hostile_positions_leave_it_finite(position: float) -> None:
    params, h = np.array([p.value for p in MACHINE.parameters]), 1e-3
    for thing in range(4):
        params[P.object] = thing
        state, work = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size)
        MACHINE.initial(state, params, MACHINE.tables, work)
        for k in range(60):
            inputs = np.array([position if k % 7 == 3 else 0.0, math.nan])
            MACHINE.step(state, inputs, params, MACHINE.tables, work, h)
        assert np.isfinite(state).all() and np.isfinite(work[: len(MACHINE.outputs)]).all()


def press(
    thing: int, depth: float, seconds: float, total: float = 0.6, h: float = 1e-3
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and states of a small object pressed down and let go half-way through."""
    params = np.array([p.value for p in MACHINE.parameters])
    params[P.object] = thing
    state, work, inputs = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size), np.zeros(len(MACHINE.inputs))
    t = np.arange(round(total / h)) * h
    x = np.interp(t, [0.1, 0.1 + seconds, 0.5 * total, 0.5 * total + seconds], [0.0, depth, depth, 0.0])
    out, states = [], []
    for k in range(len(t) - 1):
        inputs[:] = x[k], (x[k + 1] - x[k]) / h
        MACHINE.step(state, inputs, params, MACHINE.tables, work, h)
        out.append(work[: len(MACHINE.outputs)].copy())
        states.append(state.copy())
    return np.array(out), np.array(states)


def test_the_two_mass_key_lets_go_of_its_hammer_when_it_is_stopped_hard() -> None:
    soft, states = press(1, 5e-3, 0.25, 1.0)
    assert (soft[120:380, W.phase] % 2 == 1).all()  # touching throughout
    assert soft[20:95, W.tip_force].mean() == pytest.approx(0.43 + 0.139 * 4.2, abs=0.06)
    hard, states = press(1, 5e-3, 0.02, 1.0)
    flight = hard[110:250, W.phase] % 2 == 0
    assert flight.any() and hard[110:250, W.tip_force][flight].min() < 0.6
    assert states[:, S.small_hammer].max() > 6e-3


def test_hammer_key_and_bed_pass_through_their_four_states() -> None:
    out, _ = press(2, 12e-3, 0.015, 1.0)
    assert set(out[:, W.phase]) == {0.0, 1.0, 2.0, 3.0}


def test_a_plectrum_plucks_on_the_way_up_alone() -> None:
    out, _ = press(3, 8e-3, 0.1)
    assert out[-1, W.strike_count] == 1.0 and out[:, W.tip_force].max() == pytest.approx(1.5, abs=0.07)
    k = int(np.argmax(out[:, W.strike_count]))
    assert out[k, W.strike_speed] == pytest.approx(0.08)
    assert (out[290:, W.tip_force] == 0.3).all()


def test_an_octave_is_thirteen_such_keys() -> None:
    """Each as the one alone, whatever the others do."""
    machine, params = load_machine("piano_octave", {"longest_step": 1e-4, "hammer_taper": 0.0})
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    h, played_alone = 1e-3, played(ramp(0.06), 0.3, h=1e-3)
    t = np.arange(301) * h
    x = (np.interp(t, [0.1, 0.16], [REST, PRESSED]) - REST) * geometry.FRONT
    inputs = np.zeros(len(machine.inputs))
    for k in range(300):
        inputs[:] = 0.0
        inputs[[3, 12]], inputs[[octave.KEYS + 3, octave.KEYS + 12]] = x[k], (x[k + 1] - x[k]) / h
        machine.step(state, inputs, params, machine.tables, work, h)
    out = work[: len(machine.outputs)].reshape(octave.KEYS, -1)
    assert list(out[:, octave.W.strike_count]) == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert out[3, octave.W.strike_speed] == played_alone.of("strike_speed")[-1] == out[12, octave.W.strike_speed]
    assert out[3, octave.W.tip_force] == played_alone.of("tip_force")[-1]


def test_the_drawn_action_is_joined() -> None:
    for machine in (phases.MACHINE, octave.MACHINE):
        assert machine.shown.scene is not None
        out = np.tile(np.vstack([np.zeros(3), np.eye(3)]), (machine.shown.scene.frames, 1, 1))
        state, params = np.zeros(len(machine.states)), np.array([p.value for p in machine.parameters])
        machine.initial(state, params, machine.tables, np.zeros(machine.work_size))
        machine.shown.frames(state, params, out)
        capstan, whippen = (
            next(b for b in machine.shown.scene.bars if b.name == name) for name in ("capstan", "whippen")
        )
        top, pivot, end = capstan.end.where(out), whippen.start.where(out), whippen.end.where(out)
        assert np.linalg.norm(np.cross(end - pivot, top - pivot)) < 1e-9  # the capstan is on the whippen's line


@pytest.mark.parametrize("depth", [6.4e-3, 8e-3, 9.5e-3])
def test_a_stroke_has_one_strike_at_any_dip(depth: float) -> None:
    """Deeper than the model's own travel the lever pushes the hammer against the string, again and again."""
    for seconds, least in ((0.03, 1), (0.95, 0)):
        path = [(0.0, 0.0), (0.1, 0.0), (0.1 + seconds, depth), (0.5 + seconds, depth), (0.6 + seconds, 0.0)]
        run = play("piano_phases", [*path, (0.8 + seconds, 0.0), (0.83 + seconds, depth)], 1.1 + seconds)
        first = [t for t, _ in run.strikes if t < 0.7 + seconds]
        assert least <= len(first) <= 1 and len(run.strikes) - len(first) == 1
