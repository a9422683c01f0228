"""The tree of joints against natural coordinates: the same accelerations, the same motion."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sync.compile.array_types import read_only
from sync.config.toml import read
from tandem.machines.omni.build import build, checked_wheels
from tandem.machines.omni.description import OmniFile
from tandem.machines.omni.studies.measures import Measured, formulations
from tandem.machines.omni.studies.natural_contact import set_rates
from tandem.machines.omni.studies.natural_wheel import Poses, natural
from tandem.machines.omni.studies.runs import Rig
from tandem.multibody.contact.joint_tree import accelerations
from tandem.multibody.contact.kinds import DAMPING, LINK_WORK, LOCKED
from tandem.multibody.natural import problems
from tandem.multibody.natural.api import run
from tests.sim_service.conftest import CONFIGS


def tree_of(name: str, rollers: int | None = None):  # type: ignore[no-untyped-def]
    """Of a file, without damping; with so many rollers a wheel, whether or not they could be built."""
    path = Path(CONFIGS / "omni" / f"{name}.toml")
    file = read(path, OmniFile)
    wheels = checked_wheels(file, str(path))
    if rollers is not None:
        wheels = [replace(wheel, rollers=rollers) for wheel in wheels]
    tree = build(file, wheels)[0]
    for row in tree.numbers:
        row[DAMPING] = 0.0
    return tree


def solved(tree, q, v, forces, locked=True):  # type: ignore[no-untyped-def]
    n = len(tree.links)
    ints = np.array(tree.links, np.int32)
    if not locked:
        ints[:, 2] &= ~LOCKED
    out, work = np.zeros(n), np.zeros(LINK_WORK * n + 15 + 7 * n + n * n)
    gravity = read_only(np.array([0.0, 0.0, -9.81]))
    accelerations(
        read_only(ints.ravel()), read_only(np.ravel(tree.numbers)), gravity, q, v, forces, np.zeros(n * n), work, out
    )
    return out


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name, rollers", [("bench_inclined", None), ("three_wheels", 2)])
def test_accelerations_are_those_of_natural_coordinates(name: str, rollers: int | None, seed: int) -> None:
    """At states at random, tilted, with a force of the floor on a roller."""
    tree = tree_of(name, rollers)
    n = len(tree.links)
    r = np.random.default_rng(seed)
    q, v = r.uniform(-0.6, 0.6, n), r.normal(size=n)
    poses = Poses(tree, q, v)
    link = tree.contacts[0][0]
    at, force = poses.p[link] + r.normal(size=3) * 0.01, r.normal(size=3)
    found = solved(tree, q, v, poses.jacobian(link, at).T @ force, locked=False)

    m = natural(tree, poses, {link: (at, force)})
    state = m.compile(h=1e-3).state()
    set_rates(state, tree, poses)
    assert np.abs(state.phi()).max() < 1e-12 and np.abs(state.phid()).max() < 1e-12
    problems.accelerations(state)
    # accelerations of points and vectors, from those of the joints: by differences of the velocities
    e = 1e-6
    ahead, behind = (Poses(tree, q + s * e * v + 0.5 * e * e * found, v + s * e * found) for s in (1.0, -1.0))
    worst = 0.0
    for k in range(n):
        if not tree.numbers[k][6]:
            continue
        turning = (ahead.omega[k] - behind.omega[k]) / (2 * e)
        vector = state.q[state.system.column(f"{tree.names[k]} one") :][:3]
        expected = np.cross(turning, vector) + np.cross(poses.omega[k], np.cross(poses.omega[k], vector))
        own = state.qdd[state.system.column(f"{tree.names[k]} one") :][:3]
        worst = max(worst, float(np.abs(own - expected).max() / (1.0 + np.abs(expected).max())))
        if tree.names[k] in state.system.mechanism.nodes:
            moving = (ahead.speed[k] - behind.speed[k]) / (2 * e)
            own = state.qdd[state.system.column(tree.names[k]) :][:3]
            worst = max(worst, float(np.abs(own - moving).max() / (1.0 + np.abs(moving).max())))
    assert worst < 1e-6


def test_a_frictionless_wheel_moves_as_in_natural_coordinates() -> None:
    """There its height and its uprightness are equations; the multiplier of the latter is the servo torque.

    Natural coordinates have M qdd + Phi_q^T lam = Q, so what acts is -lam; `upright` is the height of the axle's tip,
    which grows with the tilt: the torque about the tilt is -lam.
    """
    seconds, h = 0.3, 2e-4
    bench = Rig("bench", {"friction": 0.0})
    ours = bench.run(seconds, 5e-4)
    tree = tree_of("bench")
    n = len(tree.links)
    q, v = bench.start[:n], bench.start[n : 2 * n]
    poses = Poses(tree, q, v)
    m = natural(tree, poses, {})
    centre, axle = m.named("angle"), m.named("angle axis")
    m.constrain("on the floor", centre[2] - 0.05)
    m.constrain("upright", axle[2])
    state = m.compile(h=h).state()
    set_rates(state, tree, poses)
    problems.velocities(state)
    problems.accelerations(state)
    record = run(state, seconds, h)
    assert record["angle"][-1] == pytest.approx([ours["x"][-1], ours["y"][-1], 0.05], abs=1e-7)
    angle = np.arctan2(-record["angle axis"][-1][0], record["angle axis"][-1][1])
    assert angle == pytest.approx(ours["yaw"][-1], abs=1e-5)
    height = record.values(m.named("roller1_angle"))[-1][2]
    assert height == pytest.approx(ours["roller1_height"][-1], abs=1e-6)
    multiplier = record.lam[-1][state.system.rows("upright")[0]]
    assert ours["servo_torque"][-1] == pytest.approx(-multiplier, rel=2e-2) and abs(multiplier) > 1e-5


def test_a_wheel_that_slides_then_sticks_moves_as_in_natural_coordinates() -> None:
    """With friction, rollers inclined, over a change of roller: the difference halves with the step."""
    measured = Measured()
    formulations(measured, ["bench_inclined"], 0.2, 2e-3)
    assert measured.rows and [row for row in measured.rows if row[3] is False] == []
