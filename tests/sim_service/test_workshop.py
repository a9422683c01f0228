"""A mechanism in the hand: what is held goes where the hand is, as far as the constraints let it."""

from pathlib import Path

import numpy as np
import pytest

from sim_service.models.scene import upright
from sim_service.multibody.mechanism import read_mechanism
from sim_service.view.workshop import Bench, MechanismFeed, with_hands
from tandem.mechanism import prepare

MECHANISMS = Path(__file__).resolve().parents[2] / "configs" / "mechanisms"


def bench(name: str) -> Bench:
    described = read_mechanism(MECHANISMS / f"{name}.toml")
    with_hands(described.mechanism)
    return Bench(prepare(described)[1])


def test_left_alone_it_moves_as_without_a_bench() -> None:
    """The hands are forces of zero: the same motion, to rounding."""
    made = bench("double_pendulum")
    _, state = prepare(read_mechanism(MECHANISMS / "double_pendulum.toml"))
    from sim_service.multibody.natural import run

    run(state, 1.0)
    made.advance(1.0) if made.system.h * 200 >= 1.0 else [made.advance(0.1) for _ in range(10)]
    assert made.state.time == pytest.approx(1.0, abs=2 * made.system.h)
    steps = round(made.state.time / made.system.h)
    _, again = prepare(read_mechanism(MECHANISMS / "double_pendulum.toml"))
    run(again, steps * made.system.h)
    np.testing.assert_allclose(made.state.q, again.q, atol=1e-9)


@pytest.mark.parametrize("name", ["pendulum", "double_pendulum", "chain"])
def test_a_held_point_comes_to_the_hand_and_the_constraints_hold(name: str) -> None:
    made = bench(name)
    point = made.points[-1]
    target = made.where(point) + 0.1 * np.eye(made.system.mechanism.dimension)[0]
    # somewhere it can get to: as far from the pivot as it is
    made.held = (point, target)
    for _ in range(300):
        made.advance(0.05)
        assert made.diagnosis()["phi_error"] < 1e-6
    # at rest, the spring of the hand against gravity
    assert np.abs(made.state.qd).max() < 0.5
    pulled = made.stiffness * np.linalg.norm(made.held[1] - made.where(point))
    weight = 9.81 * sum(m for _, m in made.system.mechanism.masses)
    assert pulled < 3.0 * weight


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
    made = bench("slider_crank")
    assert made.joints
    for joint in made.joints:
        made.switch(joint, False)
        made.step()
        assert np.isfinite(made.state.vector).all()
        made.reset()
        made.switch(joint, True)


def test_forces_can_be_changed_by_name() -> None:
    for name in ("chain", "pendulum", "four_bar", "double_pendulum", "slider_crank", "spatial_slider_crank"):
        made = bench(name)
        for element, values in made.parameters.items():
            for key, value in values.items():
                made.set(element, key, 1.5 * value + 0.1)
                assert made.parameters[element][key] == pytest.approx(1.5 * value + 0.1)
        made.reset()


@pytest.mark.parametrize("name", [p.stem for p in sorted(MECHANISMS.glob("*.toml"))])
def test_every_mechanism_we_ship_can_be_shown(name: str) -> None:
    feed = MechanismFeed(name, bench(name))
    frame = feed.look()
    scene = feed.model.scene
    assert scene is not None and scene.bars + scene.solids  # type: ignore[operator]
    lengths = [np.linalg.norm(b.start.at(frame.state) - b.end.at(frame.state)) for b in scene.bars]
    feed.bench.advance(0.2)
    after = feed.look()
    again = [np.linalg.norm(b.start.at(after.state) - b.end.at(after.state)) for b in scene.bars]
    np.testing.assert_allclose(again, lengths, atol=1e-6)
    turned = upright(feed.bench.system.mechanism.g)
    np.testing.assert_allclose(turned.T @ turned, np.eye(turned.shape[1]), atol=1e-12)
