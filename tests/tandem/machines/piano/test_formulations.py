"""The grand action beside the generated relative formulation: the same bodies and joints, written out by the generator.

Mass matrix and bias of the tree, and a whole short step with its felt: contacts measured from the drawing, their rows
by the complex step, the equations of felt.py assembled with the generated mass matrix and bias and solved by numpy.
"""

import functools

import numpy as np
import pytest

from sync.compile.array_types import read_only
from tandem.machines.piano.multibody import MACHINE
from tandem.machines.piano.multibody.action import (
    BODIES,
    DAMPER_PIVOT,
    KEY,
    LEVER_PIVOT,
    LINKS,
    P2,
    P3,
    PARENTS,
    REST,
    TIP,
    A,
    contacts,
    tree,
)
from tandem.machines.piano.multibody.dynamics import N_FELT, N_JOINTS, N_LINKS, N_OUT, SHORT, M, N, S, W
from tandem.multibody.contact.felt import FELT_INTS, FELT_REALS, JOINT_REALS, STOP, THETA
from tandem.multibody.contact.joint_tree import accelerations
from tandem.multibody.contact.kinds import LINK_WORK
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.relative.generate import generate

AGREE = 1e-9
PLACES = ((0.0, 0.0), P2, (-A, 0.0), LEVER_PIVOT, P3, DAMPER_PIVOT)
GRAVITY = 9.81


@functools.cache
def generated():
    """The six bodies in their plane, drawn along x; every joint is driven, so that efforts are M a + bias."""
    m = Mechanism(dimension=2, gravity=(0.0, -GRAVITY))
    bodies, pivots = [], []
    for name, parent, place, (mass, centre, inertia) in zip(LINKS, PARENTS, PLACES, BODIES, strict=True):
        at = np.add(place, pivots[parent] if parent >= 0 else 0.0)
        nodes = [m.point(f"{name}.o", at), m.vector(f"{name}.x", (1.0, 0.0))]
        body = m.body(name, nodes, mass, at + np.array(centre), inertia)
        m.revolute(f"{name}.pivot", bodies[parent] if parent >= 0 else None, body, at)
        m.drive(name, m.angle(f"{name}.angle", bodies[parent] if parent >= 0 else None, body))
        bodies.append(body)
        pivots.append(at)
    made = generate(m)
    functions = {f.name: f for f in made.functions}
    return made, functions, called(functions["prepare"], p=made.parameters)["d"]


def called(function, **given):
    flat = function.graph.evaluate(
        [e for array in function.outputs.values() for e in array],
        {key: np.asarray(values).tolist() for key, values in given.items()},
    )
    ends = np.cumsum([len(array) for array in function.outputs.values()])[:-1]
    return dict(zip(function.outputs, np.split(np.asarray(flat), ends), strict=True))


def efforts(q, v, a):
    made, functions, d = generated()
    x, w, u = made.tree.assembled.copy(), np.zeros(made.tree.n), np.column_stack([q, v, a]).ravel()
    for k in made.driven:
        x[k] = q[LINKS.index(made.tree.drives[k])]
    ref = np.tile([1.0, 0.0, 0.0, 0.0], len(made.balls))
    found = called(functions["motion"], x=x, ref=ref, w=w, u=u, f=np.zeros(len(made.ports)), d=d)["effort"]
    out = np.zeros(N)
    for k, effort in zip(made.driven, found, strict=True):
        out[LINKS.index(made.tree.drives[k])] = effort
    return out


def mass_and_bias(q, v):
    bias = efforts(q, v, np.zeros(N))
    return np.column_stack([efforts(q, v, e) - bias for e in np.eye(N)]), bias


def test_accelerations_of_the_tree_are_those_of_the_generated_code() -> None:
    ints, reals = (read_only(np.array(x, kind)) for x, kind in zip(tree(), (np.int32, float), strict=True))
    gravity = read_only(np.array([0.0, 0.0, -GRAVITY]))
    r = np.random.default_rng(1)
    for _ in range(5):
        q, v, a = r.uniform(-1.5, 1.5, N), r.uniform(-20.0, 20.0, N), r.uniform(-1e3, 1e3, N)
        found, work = np.zeros(N), np.zeros(N * LINK_WORK + 15 + 7 * N + N * N)
        accelerations(ints, reals, gravity, q, v, efforts(q, v, a), np.zeros(N * N), work, found)
        assert np.abs(found - a).max() < AGREE * np.abs(a).max()


# ---- a short step ----------------------------------------------------------------------------------------------------


def placed(q, link, point):
    """A point of a link, for complex angles too."""
    while link >= 0:
        c, s = np.cos(q[link]), np.sin(q[link])
        (x, z), (px, pz) = point, PLACES[link]
        point = px + c * x - s * z, pz + s * x + c * z
        link = PARENTS[link]
    return np.array(point)


def in_axes_of(q, link, point):
    """The inverse."""
    turn = 0.0 if link < 0 else q[link] + (q[PARENTS[link]] if PARENTS[link] >= 0 else 0.0)
    c, s = np.cos(turn), np.sin(turn)
    x, z = point - placed(q, link, (0.0, 0.0))
    return c * x + s * z, c * z - s * x


def slopes(function, q):
    return np.array([np.imag(function(q + 1e-30j * e)) / 1e-30 for e in np.eye(N)])


def measured(kinds, felt, q):
    """Depth of a contact, and how fast it opens and slips with every joint."""
    link, capsule, _, kind = kinds
    if kind == STOP:
        angle, side, arm = felt[:3]
        return arm * side * (angle - q[link]), arm * side * np.eye(N)[link], np.zeros(N)

    def nearest(q):
        p, a, b = placed(q, link, felt[:2]), placed(q, capsule, felt[2:4]), placed(q, capsule, felt[4:6])
        share = (p - a) @ (b - a) / ((b - a) @ (b - a))
        share = share if 0.0 < share.real < 1.0 else float(np.clip(share.real, 0.0, 1.0))
        return p - a - share * (b - a)

    apart = nearest(q)
    n = apart / np.sqrt(apart @ apart)
    there = in_axes_of(q, capsule, placed(q, link, felt[:2]))
    opens = slopes(lambda q: np.sqrt(nearest(q) @ nearest(q)), q)
    slips = slopes(lambda q: (placed(q, link, felt[:2]) - placed(q, capsule, there)) @ [-n[1], n[0]], q)
    return felt[6] - np.sqrt(apart @ apart), opens, slips


def short_step(q, v, q_next, v_next, acceleration, felt, pivots):
    """Coordinates and velocities after it, and the effort of the key (felt.py)."""
    h, kinds = SHORT, np.reshape(contacts()[0], (M, FELT_INTS))
    mass, bias = mass_and_bias(q, v)
    rest, old = np.arange(N) != KEY, v.copy()
    moved = old[KEY] = (q_next - q[KEY]) / h
    spring, at, preload, viscous, level, rounded = pivots.T
    rub = viscous + np.where(level > 0.0, level / np.sqrt(v * v + rounded**2), 0.0)
    touching = []
    for kind, own in zip(kinds, felt, strict=True):
        depth, opens, slips = measured(kind, own, q)
        if depth > 0.0:
            stiffness, damping, friction, slip, most = own[7:]
            elastic = stiffness * depth ** (0.5 * kind[2])
            damping /= np.hypot(1.0, damping * (opens @ v) / most)
            load = max(elastic * (1.0 - damping * (opens @ v)), 0.0)
            normal = elastic * damping + THETA * h * 0.5 * kind[2] * elastic / depth
            touching.append((opens, slips, elastic, normal, friction * load / np.hypot(slips @ v, slip)))
    for _ in range(2):
        matrix = mass + h * np.diag(rub + THETA**2 * h * spring)
        known = mass @ np.where(rest, v, v[KEY] - v_next)
        known -= h * (bias + spring * (q + THETA * (1.0 - THETA) * h * v - at) + preload)
        for opens, slips, elastic, normal, tangential in touching:
            matrix += h * (THETA * normal * np.outer(opens, opens) + tangential * np.outer(slips, slips))
            known += h * (elastic - normal * (opens @ np.where(rest, (1.0 - THETA) * v, moved))) * opens
            known -= h * tangential * slips[KEY] * moved * slips
        new = old.copy()
        new[rest] = np.linalg.solve(matrix[np.ix_(rest, rest)], known[rest])
        mean = np.where(rest, (1.0 - THETA) * v + THETA * new, moved)
        staying = [c for c in touching if c[2] - c[3] * (c[0] @ mean) >= 0.0]
        if len(staying) == len(touching):
            break
        touching = staying
    effort = bias[KEY] + mass[KEY, KEY] * acceleration + mass[KEY, rest] @ (new - v)[rest] / h
    effort += spring[KEY] * (q[KEY] - at[KEY]) + preload[KEY] + rub[KEY] * moved
    for opens, slips, elastic, normal, tangential in touching:
        effort -= (elastic - normal * (opens @ mean)) * opens[KEY] - tangential * (slips @ new) * slips[KEY]
    q, v = q + h * mean, new
    q[KEY], v[KEY] = q_next, v_next
    return q, v, effort


def test_a_short_step_of_the_action_is_that_of_the_generated_equations() -> None:
    """Along a blow of 30 ms: at rest, lifting, at let-off, in flight, held."""
    params = np.array([p.value for p in MACHINE.parameters])
    state, work, inputs = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size), np.zeros(len(MACHINE.inputs))
    MACHINE.initial(state, params, MACHINE.tables, work)
    r, touched = np.random.default_rng(2), set()
    for k in range(-400, 201):
        t = k / 4000.0
        inputs[:] = min(max(t, 0.0) / 0.03, 1.0) * 0.0095, 0.0095 / 0.03 if 0.0 < t < 0.03 else 0.0, 0.0
        MACHINE.step(state, inputs, params, MACHINE.tables, work, 2.5e-4)
        if k not in (-300, 40, 75, 95, 101, 110, 200):
            continue
        before = state.copy()
        before[N : 2 * N] += r.normal(0.0, 0.05, N)
        q, v = before[:N].copy(), before[N : 2 * N].copy()
        after, speed, acceleration = before.copy(), v[KEY] * TIP + r.normal(0.0, 0.01), r.normal(0.0, 5.0)
        inputs[:] = TIP * (q[KEY] - REST[KEY]) + SHORT * speed, speed, acceleration
        MACHINE.step(after, inputs, params, MACHINE.tables, work, SHORT)
        tables = np.split(work[N_OUT : N_OUT + N_LINKS + N_FELT + N_JOINTS], [N_LINKS, N_LINKS + N_FELT])
        q_next, v_next, effort = short_step(
            q, v, REST[KEY] + inputs[0] / TIP, speed / TIP, acceleration / TIP,
            tables[1].reshape(M, FELT_REALS), tables[2].reshape(N, JOINT_REALS),
        )  # fmt: skip
        touched |= {int(work[W.phase])}
        assert after[:N] == pytest.approx(q_next, rel=AGREE, abs=AGREE)
        assert after[N : 2 * N] == pytest.approx(v_next, rel=AGREE, abs=AGREE * np.abs(v_next).max())
        assert work[W.tip_force] == pytest.approx(effort / TIP, rel=AGREE)
    assert state[S.struck] >= 1.0 and len(touched) > 2
