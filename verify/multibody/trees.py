"""Forward dynamics of trees: microseconds an evaluation, of chains as they grow and beside Pinocchio.

The chain is the articulated-body recursion looped over equal links. Pinocchio, where it is installed, gets the very
tree that relative coordinates generate their equations from, joint by joint; its accelerations at random states are
compared with ours before anything is timed. Loops over evaluations are compiled on both sides: theirs is the batched
form of the articulated-body algorithm on one thread.
"""

import importlib.metadata
import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tandem.multibody.relative.system import P, System, make_system, rates, settle
from tandem.multibody.relative.tree import WORLD, Tree
from verify.multibody.chain import Chain, evaluate_often
from verify.multibody.problems import Problem

LINKS = (10, 25, 50, 100, 150, 200, 250)
BURST = 3000  # links evaluated in one burst


# ---- chains of growing length ----------------------------------------------------------------------------------------


def chain(links: int, spatial: bool) -> Chain:
    if not spatial:
        return Chain(
            links, 1.0, np.array([0.5, 0.0]), np.array(1.0 / 12.0), np.array([1.0, 0.0]), np.array([0.0, -9.81])
        )
    axes = np.eye(3)[np.arange(links) % 3]
    inertia = np.diag([0.01, 0.09, 0.09])
    gravity = np.array([0.0, 0.0, -9.81])
    return Chain(links, 1.0, np.array([0.5, 0.0, 0.0]), inertia, np.array([1.0, 0.0, 0.0]), gravity, axes)


def least_us(evaluate: Callable[[int], Any], count: int, rounds: int) -> float:
    """µs an evaluation. A call from Python costs more than one: of short and long bursts the difference counts."""
    least = [math.inf, math.inf]
    for _ in range(rounds):
        for k, times in enumerate((count, 3 * count)):
            begun = time.perf_counter_ns()
            evaluate(times)
            least[k] = min(least[k], time.perf_counter_ns() - begun)
    if least[1] <= least[0]:  # too few rounds on a busy machine: then with the call
        return least[1] / (3e3 * count)
    return (least[1] - least[0]) / (2e3 * count)


def cost_us(of: Chain, rounds: int) -> float:
    rng = np.random.default_rng(1)
    y, f = rng.normal(size=2 * of.links), np.zeros(2 * of.links)
    count = max(BURST // of.links, 4)
    return least_us(lambda n: evaluate_often(of.rates, of.ints, of.reals, of.work, y, f, n), count, rounds)


def growth(links: tuple[int, ...] = LINKS, rounds: int = 100) -> list[dict[str, Any]]:
    """µs an evaluation by the number of links, planar and spatial, and the exponent of its growth."""
    found = []
    for spatial in (False, True):
        costs = [cost_us(chain(n, spatial), rounds) for n in links]
        exponent = float(np.polyfit(np.log(links), np.log(costs), 1)[0])
        kind = "spatial" if spatial else "planar"
        found.append({"kind": kind, "links": list(links), "us": costs, "exponent": exponent})
    return found


# ---- beside Pinocchio ------------------------------------------------------------------------------------------------


def pinocchio_version() -> str | None:
    return importlib.metadata.version("pin") if importlib.util.find_spec("pinocchio") is not None else None


def pinocchio_model(tree: Tree) -> Any:
    """The same tree; a body with several motions hangs on massless ones."""
    import pinocchio as pin

    model = pin.Model()
    model.gravity.linear = np.asarray(tree.gravity, float)
    last: list[int] = []
    for body in tree.bodies:
        joint = 0 if body.parent == WORLD else last[body.parent]
        offset = np.array(body.at, float)
        if body.parent != WORLD:
            offset = offset - tree.bodies[body.parent].at
        for k, motion in enumerate(body.motions):
            if motion.kind == "ball":
                kind = pin.JointModelSpherical()
            elif motion.kind == "turn":
                kind = pin.JointModelRevoluteUnaligned(np.array(motion.axis, float))
            else:
                kind = pin.JointModelPrismaticUnaligned(np.array(motion.axis, float))
            place = pin.SE3(np.eye(3), offset if k == 0 else np.zeros(3))
            joint = model.addJoint(joint, kind, place, f"{body.name} {k}")
        inertia = pin.Inertia(body.mass, np.asarray(body.centre - body.at, float), np.asarray(body.inertia, float))
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
        last.append(joint)
    return model


def comparable(system: System) -> bool:
    """Joints of bodies alone, without loops, forces or drives: what both sides have."""
    tree = system.generated.tree
    welded = any(not body.motions for body in tree.bodies)
    return not (tree.loops or tree.scalars or tree.driven or tree.ports or welded)


def random_state(system: System, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A state with its accelerations, the work it left, and its positions and velocities as Pinocchio has them."""
    rng = np.random.default_rng(seed)
    tree, state = system.generated.tree, np.zeros(system.state_size)
    x, ref, w = (system.part(which, state) for which in (P.X, P.REF, P.W))
    w[:] = rng.normal(size=tree.n)
    q: list[float] = []
    at = balls = 0
    for kind in (motion.kind for body in tree.bodies for motion in body.motions):
        if kind == "ball":
            turn = rng.normal(size=4)
            ref[4 * balls : 4 * balls + 4] = turn = turn / np.linalg.norm(turn)
            q += [*turn[1:], turn[0]]
            balls, at = balls + 1, at + 3
        else:
            x[at] = rng.normal()
            q.append(float(x[at]))
            at += 1
    work = system.work()
    settle(system.ints, system.reals, state, work)
    return state, work, np.array(q), np.array(w)


def beside_pinocchio(problem: Problem, rounds: int = 60, states: int = 20) -> dict[str, Any] | None:
    """µs an evaluation of ours and theirs, and the largest difference of accelerations; None if it is no bare tree."""
    system = make_system(problem.build())
    if not comparable(system):
        return None
    n = system.generated.tree.n
    row: dict[str, Any] = {"problem": problem.key, "freedoms": n}
    _, work, _, _ = random_state(system, 0)
    y, f = np.zeros(2 * n), np.zeros(2 * n)
    y[:] = system.part(P.Y, work)
    count = max(BURST // n, 4)
    row["ours_us"] = least_us(
        lambda times: evaluate_often(rates, system.ints, system.reals, work, y, f, times), count, rounds
    )
    if pinocchio_version() is None:
        return row | {"pinocchio_us": None, "ratio": None, "difference": None}
    import pinocchio as pin

    model = pinocchio_model(system.generated.tree)
    data, worst = model.createData(), 0.0
    columns: list[tuple[np.ndarray, np.ndarray]] = []
    for seed in range(states):
        state, _, q, v = random_state(system, seed)
        ours = system.part(P.FULL, state)
        theirs = pin.aba(model, data, q, v, np.zeros(n))
        worst = max(worst, float(np.abs(ours - theirs).max() / (1.0 + np.abs(theirs).max())))
        columns.append((q, v))
    pool = pin.ModelPool(model, 1)

    def often(times: int) -> None:
        pin.abaInParallel(1, pool, *batches[times])

    batches = {}
    for times in (count, 3 * count):
        qs = np.asfortranarray(np.stack([columns[k % states][0] for k in range(times)], axis=1))
        vs = np.asfortranarray(np.stack([columns[k % states][1] for k in range(times)], axis=1))
        batches[times] = qs, vs, np.asfortranarray(np.zeros((n, times)))
    theirs_us = least_us(often, count, rounds)
    return row | {"pinocchio_us": theirs_us, "ratio": theirs_us / row["ours_us"], "difference": worst}
