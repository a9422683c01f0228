"""The virtual wall: its laws on a ball and on a finger, held forces on an exact port. Cases W1 to W5, W10, C1 and C2 of
the source's digest with their tolerances; the port here is closed forms of its own."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from sim_service.registry import load_machine
from tandem.machines.wall import laws
from tandem.machines.wall.machine import MACHINE, I, P, S, W

STANDARD, HALF, POLES, DEAD_BEAT = range(4)


class Shown:
    """The machine, stepped with positions and velocities as they are."""

    def __init__(self, **parameters: float):
        self.params = np.array([p.value for p in MACHINE.parameters])
        for name, value in parameters.items():
            self.params[P[name]] = value
        self.state, self.work = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size)
        self.inputs = np.zeros(len(MACHINE.inputs))

    def force(self, position: float, velocity: float, h: float, hand_force: float = math.nan) -> float:
        self.inputs[:] = math.nan
        self.inputs[I.position], self.inputs[I.velocity], self.inputs[I.hand_force] = position, velocity, hand_force
        MACHINE.step(self.state, self.inputs, self.params, MACHINE.tables, self.work, h)
        return float(self.work[W.force])


def ball(law: int, crossing: int, stiffness: float, gravity: float, h: float, bounces: int) -> list[float]:
    """Heights after each bounce, of a unit mass dropped from 1 m on a held wall."""
    shown = Shown(
        law=law, crossing=crossing, stiffness=stiffness, port_mass=1.0, port_damping=0.0, port_stiffness=0.0,
        port_bias=-gravity,
    )  # fmt: skip
    y, v, was_in, heights = 1.0, 0.0, False, []
    while len(heights) < bounces:
        force = shown.force(y, v, h)
        if was_in and y > 0.0 and force == 0.0:
            heights.append(y + 0.5 * v**2 / gravity)
            was_in = False
        was_in |= y < 0.0
        a = -gravity - force
        y, v = y + v * h + 0.5 * a * h * h, v + a * h
    return heights


def test_w1_a_push_and_release_at_constant_speed_gets_kvtd_back() -> None:
    stiffness, speed, h, depth = 5000.0, 0.1, 1e-3, 5e-3
    shown = Shown(stiffness=stiffness)
    down = [-speed * h * k for k in range(round(depth / (speed * h)) + 1)]
    path = [*down, *reversed(down[:-1])]
    work = 0.0
    for here, there in itertools.pairwise(path):
        work += shown.force(here, 0.0, h) * (there - here)
    assert -work == pytest.approx(2.5e-3, abs=1e-9)
    shown.force(path[-1], 0.0, h)
    assert shown.work[W.hold_energy] + shown.work[W.crossing_energy] == pytest.approx(2.5e-3, abs=1e-12)


@pytest.mark.parametrize("theta, growth", [(0.1, 1.0024969), (0.5, 1.0606602)])
def test_w2_the_standard_law_grows_at_every_sample(theta: float, growth: float) -> None:
    """Eigenvalues of the held loop, columns of which are what the machine answers to a unit of position and speed."""
    shown = Shown(stiffness=theta**2)
    columns = []
    for y, v in ((-1.0, 0.0), (-1.0, 1.0)):
        a = -shown.force(y, v, 1.0)
        columns.append((y + v + 0.5 * a, v + a))
    loop = np.array([[-columns[0][0], columns[1][0] - columns[0][0]], [-columns[0][1], columns[1][1] - columns[0][1]]])
    found = np.abs(np.linalg.eigvals(loop)).max()
    assert found == pytest.approx(math.sqrt(1.0 + 0.5 * theta**2), abs=1e-12)
    assert found == pytest.approx(growth, abs=5e-8)


def test_w3_a_ball_on_a_wall_that_is_not_sampled_bounces_for_ever_at_the_instants_of_the_closed_form() -> None:
    stiffness, gravity, h = 100.0, 9.81, 0.02
    room, x = np.zeros(laws.LAW_SCRATCH), np.array([1.0, 0.0, 0.0, 1.0])
    laws.describe(room, stiffness, 0.0, 1.0, 0.0, 0.0, -gravity)
    w, v0 = math.sqrt(stiffness), math.sqrt(2.0 * gravity)
    inside = (math.pi + 2.0 * math.asin(gravity / w**2 / math.hypot(gravity / w**2, v0 / w))) / w
    crossings = [v0 / gravity]
    for k in range(200):
        crossings.append(crossings[-1] + (inside if k % 2 == 0 else 2.0 * v0 / gravity))
    mode, met, k = 0, 0, 0
    while met < 200:
        mode, events, exceeded = laws.advance_target(mode, x, room, h)
        k += 1
        met += events
        assert exceeded == 0 and met == np.searchsorted(crossings, k * h)
        energy = 0.5 * x[1] ** 2 + gravity * x[0] + (0.5 * stiffness * x[0] ** 2 if x[0] < 0.0 else 0.0)
        assert energy / gravity == pytest.approx(1.0, abs=1e-9)


W4 = {
    (STANDARD, 0): [1.50015, 2.19624, 3.20292, 4.61236, 6.59327, 9.25363],
    (HALF, 0): [0.99480, 0.98937, 0.98297, 0.98127, 0.97738, 0.97113],
    (POLES, 0): [0.99550, 0.99065, 0.98466, 1.02254, 1.01683, 1.01573],
}


@pytest.mark.parametrize("law, crossing", W4)
def test_w4_heights_of_a_ball_by_each_law(law: int, crossing: int) -> None:
    assert ball(law, crossing, 100.0, 9.81, 0.02, 6) == pytest.approx(W4[law, crossing], abs=1e-5)


@pytest.mark.parametrize("law, crossing", [(DEAD_BEAT, 0), (HALF, 1), (POLES, 1)])
def test_w4_with_the_dead_beat_the_height_stays(law: int, crossing: int) -> None:
    assert ball(law, crossing, 100.0, 9.81, 0.02, 6) == pytest.approx([1.0] * 6, abs=1e-9)


@pytest.mark.parametrize(
    "law, heights",
    [
        (STANDARD, [1.44355, 1.99552, 2.66815, 3.48367, 4.47145, 5.67783]),
        (HALF, [1.00708, 1.01278, 1.00756, 1.00307, 0.99900, 0.99517]),
    ],
)
def test_w5_a_soft_wall_under_a_light_ball(law: int, heights: list[float]) -> None:
    assert ball(law, 0, 1.0, 1.0, 0.1, 6) == pytest.approx(heights, abs=1e-5)


def test_the_mean_force_of_a_located_crossing_loses_little_where_the_standard_law_gains_much() -> None:
    """The wall alone of a step: what is left is the motion under the mean instead of the force itself."""
    located = ball(STANDARD, 1, 100.0, 9.81, 0.02, 6)
    assert all(abs(height - 1.0) < 0.05 for height in located)


def test_c1_gains_of_the_pole_placement() -> None:
    room = np.zeros(laws.LAW_SCRATCH)
    laws.describe(room, 100.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    h = 0.02
    k1, k2 = laws.placed_gains(room, h)
    assert k1 == pytest.approx(2.0 * (1.0 - math.cos(0.2)) / h**2, abs=1e-9) and k2 == pytest.approx(k1 * h / 2.0)
    assert (k1, k2) == (pytest.approx(99.667, abs=1e-3), pytest.approx(0.99667, abs=1e-5))
    loop = np.array([[1.0 - 0.5 * h * h * k1, h - 0.5 * h * h * k2], [-h * k1, 1.0 - h * k2]])
    values = np.linalg.eigvals(loop)
    assert sorted(values.imag) == pytest.approx([-math.sin(0.2), math.sin(0.2)], abs=1e-9)
    assert values.real == pytest.approx([math.cos(0.2)] * 2, abs=1e-9)


@pytest.mark.parametrize("k", range(8))
def test_c2_the_dead_beat_reaches_any_state_in_two_samples(k: int) -> None:
    rng = np.random.default_rng(k)
    y, v, to_y, to_v = rng.normal(size=4)
    room, h = np.zeros(laws.LAW_SCRATCH), 0.02
    laws.describe(room, 100.0, 0.0, 1.0, 0.0, 0.0, -9.81)
    for force in laws.two_forces(room, y, v, to_y, to_v, h):
        a = -9.81 - force
        y, v = y + v * h + 0.5 * a * h * h, v + a * h
    assert (y, v) == (pytest.approx(to_y, abs=1e-12), pytest.approx(to_v, abs=1e-12))


# ---- W10: a finger ---------------------------------------------------------------------------------------------------


def held(mass: float, b: float, k: float, h: float) -> Callable[[float, float, float], tuple[float, float]]:
    """The exact port under a held force: a damped oscillator about where the force would hold it."""
    sigma = 0.5 * b / mass
    w = math.sqrt(k / mass - sigma**2)
    e, c, s = math.exp(-sigma * h), math.cos(w * h), math.sin(w * h)

    def pass_on(y: float, v: float, push: float) -> tuple[float, float]:
        rest = push / k
        d = y - rest
        return (
            rest + e * (d * (c + sigma / w * s) + v / w * s),
            e * (v * (c - sigma / w * s) - d * (w + sigma**2 / w) * s),
        )

    return pass_on


def finger(law: int, damping: float, seconds: float) -> np.ndarray:
    """Positions, of 0.3 kg and a finger that presses with 5 N, on 5000 N/m sampled every 2 ms."""
    h = 2e-3
    shown = Shown(
        law=law, stiffness=5000.0, port_mass=0.32, port_damping=damping + 3.75, port_stiffness=257.0, port_bias=-5.0
    )
    pass_on = held(0.32, damping + 3.75, 257.0, h)
    y, v, found = 0.5e-3, -0.2, []
    for _ in range(round(seconds / h)):
        found.append(y)
        y, v = pass_on(y, v, -5.0 - shown.force(y, v, h))
    return np.array(found)


REST = -5.0 / 5257.0


@pytest.mark.parametrize("damping, peak, hz, outside", [(0.0, 2.30e-3, 17.0, 0.43), (1.0, 1.17e-3, 20.0, None)])
def test_w10_the_standard_wall_chatters_under_a_finger(
    damping: float, peak: float, hz: float, outside: float | None
) -> None:
    late = finger(STANDARD, damping, 8.0)[3000:]
    assert np.abs(late - REST).max() == pytest.approx(peak, rel=0.01)
    rises = np.flatnonzero(np.diff(np.sign(late - REST)) > 0)
    found = (len(rises) - 1) / ((rises[-1] - rises[0]) * 2e-3)
    assert found == pytest.approx(hz, abs=0.6) and 10.0 <= found <= 30.0
    if outside is not None:
        assert (late > 0.0).mean() == pytest.approx(outside, abs=0.01)


def test_w10_beyond_the_marginal_damping_it_decays_and_the_half_sample_law_needs_none() -> None:
    calm = finger(STANDARD, 2.0, 4.0)
    assert np.abs(calm[-250:] - REST).max() == pytest.approx(0.023e-3, rel=0.05)  # of the last half second
    predicted = finger(HALF, 0.0, 4.0)
    assert np.abs(predicted[1000:] - REST).max() < 1e-6


# ---- displays --------------------------------------------------------------------------------------------------------

SPRUNG, BALL = 1, 2


def test_eq_4_1_of_the_impedance_display_is_the_sources_own_step() -> None:
    """Semi-implicit, with the sign corrected, and near the sprung mass itself."""
    shown = Shown(display=1, object=SPRUNG, stiffness=100.0, mass=0.5)
    h, y, v = 1e-3, 0.0, 0.0
    shown.force(0.0, 0.0, h)
    forces = []
    for _ in range(1000):
        expected = 100.0 * (0.01 - y)
        v += expected / 0.5 * h
        y += v * h
        forces.append(shown.force(0.01, 0.0, h))
        assert forces[-1] == pytest.approx(expected, abs=1e-12)
    w = math.sqrt(100.0 / 0.5)
    closed = [100.0 * 0.01 * math.cos(w * h * k) for k in range(1000)]
    assert np.abs(np.array(forces) - closed).max() < 0.02  # N, of 1 N


def test_the_sprung_mass_on_the_other_displays() -> None:
    h, w = 1e-3, math.sqrt(100.0 / 0.5)
    # inverse dynamics: the free end of the spring is moved, the mass follows exactly
    exact = Shown(display=2, object=SPRUNG, stiffness=100.0, mass=0.5)
    exact.force(0.0, 0.0, h)
    found = [exact.force(0.01, 0.0, h) for _ in range(1000)]
    assert found == pytest.approx([math.cos(w * h * k) for k in range(1000)], abs=1e-9)
    # impedance control: no mass, the spring alone
    assert Shown(display=0, object=SPRUNG, stiffness=100.0).force(0.01, 0.0, h) == pytest.approx(1.0)
    # admittance: a constant hand force moves the mass by f t2 / 2 m, and the port f / K further
    moved = Shown(display=3, object=SPRUNG, stiffness=100.0, mass=0.5, servo_stiffness=1.0, servo_damping=0.0)
    moved.params[P.wall] = 0.0
    found = [moved.force(0.0, 0.0, h, 2.0) for _ in range(100)]
    expected = [-(0.5 * 2.0 / 0.5 * (h * k) ** 2 + 2.0 / 100.0) for k in range(1, 101)]
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_wall_through_a_coupler_rests_where_the_springs_balance() -> None:
    shown = Shown(display=1, stiffness=5000.0, coupler_stiffness=3000.0, coupler_damping=20.0, mass=0.02)
    for _ in range(20_000):
        force = shown.force(-0.004, 0.0, 2e-4)
    assert force == pytest.approx(-0.004 / (1.0 / 5000.0 + 1.0 / 3000.0), rel=1e-9)
    assert shown.work[W.in_contact] == 1.0


def test_the_wall_by_inverse_dynamics_and_by_admittance() -> None:
    shown = Shown(display=2, stiffness=1000.0, mass=0.2)
    shown.force(-0.001, 0.0, 1e-3)
    assert shown.force(-0.001, 0.01, 1e-3) == pytest.approx(-1.0 + 0.2 * 0.01 / 1e-3)
    held_in = Shown(display=3, stiffness=1000.0, damping=30.0, mass=0.2)
    for _ in range(5000):
        held_in.force(-0.002, 0.0, 1e-3, -2.0)
    assert held_in.state[S.body] == pytest.approx(-0.002, abs=1e-9)  # pressed with 2 N into 1000 N/m


def test_a_ball_on_a_port_that_is_held_still_keeps_its_height() -> None:
    shown = Shown(display=1, object=BALL, stiffness=2000.0, mass=0.05, gravity=9.81)
    heights, forces = [], []
    for _ in range(4000):
        forces.append(shown.force(0.0, 0.0, 1e-3))
        energy = 0.5 * 0.05 * shown.state[S.body_velocity] ** 2 + 0.05 * 9.81 * shown.state[S.body]
        energy += 0.5 * 2000.0 * min(shown.state[S.body], 0.0) ** 2
        heights.append(energy / 0.05 / 9.81)
    assert np.ptp(heights) < 1e-9 and min(forces) >= 0.0 and max(forces) > 1.0
    assert shown.work[W.contacts] > 20


def test_a_limit_on_the_stiffness_holds_whatever_is_set() -> None:
    shown = Shown(stiffness=1e6, stiffness_limit=2000.0)
    assert shown.force(-0.001, 0.0, 2e-4) == -2.0 and shown.work[W.stiffness_used] == 2000.0


@pytest.mark.parametrize("damping", [-1e3, 1e3])
@pytest.mark.parametrize(("display", "law", "crossing"), [(0, 0, 0), (0, 3, 0), (0, 1, 1), (1, 0, 0), (3, 0, 0)])
def test_held_down_it_is_a_wall_of_the_limits_whatever_is_set(
    display: int, law: int, crossing: int, damping: float
) -> None:
    limits = {"stiffness_limit": 2000.0, "damping_limit": 3.0, "passive_only": 1.0}
    shown = Shown(stiffness=1e6, damping=damping, display=display, law=law, crossing=crossing, **limits)
    shown.force(-0.001, 0.0, 2e-4)
    assert shown.force(-0.001, -0.5, 2e-4) == pytest.approx(-2.0 + math.copysign(3.0, damping) * -0.5)


def test_another_display_takes_over_without_a_push() -> None:
    shown = Shown(stiffness=0.0, stiffness_limit=0.0)
    for k in range(10):
        shown.force(0.01 * k, 0.0, 2e-4)
    shown.params[P.display] = 1.0
    assert abs(shown.force(0.09, 0.0, 2e-4)) < 1e-9


def test_it_is_a_machine_by_its_name() -> None:
    machine, params = load_machine("wall", {"stiffness": 300.0})
    assert machine.efforts == ("force",) and params[P.stiffness] == 300.0


def test_the_exit_of_a_hand_that_leans_on_the_wall_is_given_up_after_so_many_samples_and_counted() -> None:
    shown = Shown(
        law=DEAD_BEAT, stiffness=3000.0, damping=20.0, port_mass=0.3, port_damping=8.0, port_stiffness=0.0,
        port_bias=-5.0,
    )  # fmt: skip
    h = 2e-4
    for position in (1e-5, -1e-5, -2e-5, 1e-5, -1e-5):
        force = shown.force(position, -0.1, h)
        assert math.isfinite(force)
    assert shown.state[S.exits_given_up] == 2.0 and shown.state[S.samples_left] == 0.0


@pytest.mark.parametrize("stiff", [{"law": HALF, "port_mass": 1e-4}, {"display": 1, "mass": 1e-3, "damping": -1e3}])
def test_what_is_too_stiff_to_be_integrated_pushes_nobody_and_is_counted(stiff: dict[str, float]) -> None:
    """Set while it runs; what follows begins anew."""
    shown = Shown(stiffness=1000.0)
    pressed = shown.force(-0.001, 0.0, 2e-4)
    for name, value in {**stiff, "stiffness": 1e6}.items():
        shown.params[P[name]] = value
    assert [shown.force(-0.001, 0.0, 2e-4) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert shown.work[W.too_stiff] == 3.0 and np.isfinite(shown.state).all()
    shown.params[:] = Shown(stiffness=1000.0).params
    assert shown.force(-0.001, 0.0, 2e-4) == pressed and shown.work[W.too_stiff] == 3.0
