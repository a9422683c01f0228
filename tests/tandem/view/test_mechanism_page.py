"""A mechanism in the hand: what is held goes where the hand is, as far as the constraints let it."""

from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.scene import poses
from tandem.mechanism.run import prepare
from tandem.multibody.description.mechanism_file import read_mechanism
from tandem.multibody.natural.api import run
from tandem.multibody.natural.scene import upright
from tandem.view.mechanism_page import MechanismData
from tandem.view.rig import Rig, with_hands
from tests.examples import thorough

MECHANISMS = Path(__file__).resolve().parents[3] / "configs" / "mechanisms"


def bench(name: str) -> Rig:
    described = read_mechanism(MECHANISMS / f"{name}.toml")
    with_hands(described.mechanism)
    return Rig(prepare(described)[1])


@pytest.mark.parametrize("name", ["pendulum", "double_pendulum", "four_bar", "chain"])
def test_left_alone_it_moves_as_without_a_bench(name: str) -> None:
    """The hands are forces of zero: the same motion, to rounding."""
    made, (_, alone) = bench(name), prepare(read_mechanism(MECHANISMS / f"{name}.toml"))
    start, steps = made.state.q.copy(), 0
    while steps * made.system.h < 0.5:
        steps += made.advance(10 * made.system.h)
    run(alone, steps * made.system.h)
    assert made.state.time == pytest.approx(alone.time, abs=1e-12)
    assert np.abs(made.state.q - start).max() > 0.05  # it moved
    np.testing.assert_allclose(made.state.q, alone.q, atol=1e-10)
    np.testing.assert_allclose(made.state.qd, alone.qd, atol=1e-8)


@pytest.mark.parametrize("name", ["pendulum", "double_pendulum", *(["chain"] if thorough() else [])])
def test_a_held_point_comes_to_the_hand_and_the_constraints_hold(name: str) -> None:
    made = bench(name)
    point = made.points[-1]
    target = made.where(point) + 0.1 * np.eye(made.system.mechanism.dimension)[0]
    made.held = (point, target)
    for _ in range(600):
        made.advance(0.05)
        assert made.diagnosis()["phi_error"] < 1e-6
        if _at_rest(made, 8e-4):
            break
    # at rest: the spring of the hand against gravity, what the joints take aside
    assert np.abs(made.state.qd).max() < 1e-3 and np.abs(made.state.qdd).max() < 0.1
    pulled = made.stiffness * (target - made.where(point))
    masses, g = made.system.mechanism.masses, made.system.mechanism.g
    power = [m * float(g @ made.state.rate(form)) for form, m in masses]
    weight = 9.81 * sum(m for _, m in masses)
    assert np.linalg.norm(pulled) < 3.0 * weight and np.abs(power).max() < 1e-2 * weight


def test_the_hand_pulls_as_hard_as_a_static_force_would() -> None:
    """A pendulum held aside: moments about its pivot, from the hand and from gravity, are opposite and equal."""
    made = bench("pendulum")
    point = made.points[-1]
    made.held = (point, made.where(point) + 0.1 * np.eye(made.system.mechanism.dimension)[0])
    for _ in range(600):
        made.advance(0.05)
        if _at_rest(made):
            break
    mechanism, pulled = made.system.mechanism, made.stiffness * (made.held[1] - made.where(point))
    (pivot,) = (node.const for node in mechanism.nodes.values() if node.kind == "point" and not node.columns)
    moments = [_cross(made.where(point) - pivot, pulled)]
    moments += [_cross(made.state.value(form) - pivot, m * mechanism.g) for form, m in mechanism.masses]
    np.testing.assert_allclose(sum(moments), 0.0, atol=1e-3 * np.abs(moments[0]).max())
    assert np.abs(moments[0]).max() > 0.0


def _at_rest(made: Rig, slow: float = 1e-4) -> bool:
    return bool(np.abs(made.state.qd).max() < slow and np.abs(made.state.qdd).max() < 10.0 * slow)


def _cross(arm: np.ndarray, force: np.ndarray) -> np.ndarray:
    return np.cross(np.resize([*arm, 0.0], 3), np.resize([*force, 0.0], 3))


def test_a_push_moves_it_and_reset_is_the_start_to_the_bit() -> None:
    made = bench("four_bar")
    first = made.state.vector.copy()
    point = made.points[0]
    free = bench("four_bar")
    made.pushed = {point: np.full(made.system.mechanism.dimension, 20.0)}
    for _ in range(10):
        made.advance(0.05)
        free.advance(0.05)
    assert np.abs(made.state.q - free.state.q).max() > 1e-3
    made.reset()
    assert (made.state.vector == first).all() and made.pushed == {}
    made.advance(0.5)
    free.reset()
    free.advance(0.5)
    assert (made.state.vector == free.state.vector).all()


def test_pause_single_steps_and_slow_motion() -> None:
    made = bench("pendulum")
    made.paused = True
    assert made.advance(1.0) == 0
    made.step()
    assert made.state.time == pytest.approx(made.system.h)
    made.paused, made.slow = False, 10.0
    assert made.advance(0.5) == round(0.05 / made.system.h)
    # a machine that slept does not make it up
    assert made.advance(1e6) <= 200 and made.advance(0.0) <= 1


def test_a_joint_can_be_taken_away_and_put_back() -> None:
    made, whole = bench("slider_crank"), bench("slider_crank")
    assert made.joints
    for joint in made.joints:
        rows = made.system.rows(joint)
        made.switch(joint, False)
        for _ in range(50):
            made.step()
        opened = _errors(made)
        assert np.abs(opened[rows]).max() > 1e-4, joint  # it came apart there
        assert np.abs(np.delete(opened, rows)).max() < 1e-6  # and nowhere else
        made.reset()
        made.switch(joint, True)
        for _ in range(50):
            made.step()
            whole.step()
        assert np.abs(_errors(made)).max() < 1e-6
        np.testing.assert_array_equal(made.state.vector, whole.state.vector)  # as if nothing had been
        made.reset()
        whole.reset()


def _errors(made: Rig) -> np.ndarray:
    """Of every constraint, in the order of the rows."""
    return np.array([c.value(made.state.q) for c in made.system.constraints])


@pytest.mark.parametrize(
    "name", ["chain", "pendulum", "four_bar", "double_pendulum", "slider_crank", "spatial_slider_crank"]
)
def test_a_force_that_is_changed_by_name_acts_as_one_that_was_built_so(name: str) -> None:
    made, before = bench(name), bench(name)
    changed = {(e, key): 1.5 * value + 0.1 for e, values in made.parameters.items() for key, value in values.items()}
    described = read_mechanism(MECHANISMS / f"{name}.toml")
    with_hands(described.mechanism)
    for (element, key), value in changed.items():
        made.set(element, key, value)
        assert made.parameters[element][key] == value
        described.mechanism.elements[element].params[key] = value
    built = Rig(prepare(described)[1])
    built.state.vector[:] = made.state.vector  # a start of its own would be at rest under other forces
    for _ in range(40):
        made.step()
        built.step()
        before.step()
    np.testing.assert_array_equal(made.state.vector, built.state.vector)
    assert bool(changed) == bool(np.abs(made.state.q - before.state.q).max() > 0.0)
    made.reset()
    assert made.parameters == bench(name).parameters


@pytest.mark.parametrize("name", [p.stem for p in sorted(MECHANISMS.glob("*.toml"))])
def test_every_mechanism_we_ship_can_be_shown(name: str) -> None:
    feed = MechanismData(name, bench(name))
    frame = feed.poll()
    scene = feed.model.shown.scene
    assert scene is not None and scene.bars + scene.solids  # type: ignore[operator]

    def lengths(state: np.ndarray) -> list[float]:
        out = poses(scene.frames)
        feed.model.shown.frames(state, feed.params, out)
        rigid = [b for b in scene.bars if b.name in feed.rig.system.mechanism.bodies]
        return [float(np.linalg.norm(b.start.where(out) - b.end.where(out))) for b in rigid]

    first = lengths(frame.state)
    feed.rig.advance(0.2)
    after = feed.poll()
    np.testing.assert_allclose(lengths(after.state), first, atol=1e-6)
    axes = upright(feed.rig.system.mechanism.g)
    np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-12)
