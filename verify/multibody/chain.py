"""Chains of equal links on turn joints by the articulated-body recursion, looped over the links: cost is O(N).

Link i turns about axis i by q_i against link i - 1, the first against the ground. At q = 0 all axes of frames are those
of the world; the origin of a link's frame is its joint, `offset` leads from there to the joint of the next link. A link
has mass, centre and inertia about the centre, the same for all. Torques act at the joints, constant in time.

Three loops: velocities outwards, articulated inertias inwards (the joint is eliminated from what is beyond it before it
weighs on the link before), accelerations outwards. `spatial_rates` is Featherstone's form in axes of the links, motions
and forces taken at the joints; `planar_rates` is for a chain whose axes are all along z, in axes of the world.

Both have the signature of ode.RATES with y = (q, qd), so all that integrates a system integrates a chain:

    ints   number of links
    reals  spatial: mass, centre (3), inertia by rows (9), offset (3), gravity (3), axes (3 N), torques (N)
           planar:  mass, centre (2), inertia, offset (2), gravity (2), torques (N)
"""

from dataclasses import dataclass, field
from math import cos, sin
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, types

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner, kernel, merged
from tandem.multibody.natural.views import row, view
from tandem.multibody.relative import ode
from tandem.multibody.relative.integrators import rk4_step

_MASS, _CENTRE, _INERTIA, _OFFSET, _GRAVITY, _AXES = 0, 1, 4, 13, 16, 19
# per link: rotation, velocity, velocity terms of the acceleration, force, column of the joint, its pivot and effort
_R, _V, _C, _P, _U, _D, _EFFORT, _LINK = 0, 9, 15, 21, 27, 33, 34, 35
_PLANAR_LINK = 11
# articulated inertia A, B, M (n = A alpha + B a, f = B^T alpha + M a) and force; then scratch of the same
_ARTICULATED = 96


@inner
def cross(a, b, out, sign):
    """out += sign a x b; `out` is neither of them."""
    out[0] += sign * (a[1] * b[2] - a[2] * b[1])
    out[1] += sign * (a[2] * b[0] - a[0] * b[2])
    out[2] += sign * (a[0] * b[1] - a[1] * b[0])


@inner
def times(M, v, out):
    """out += M v."""
    for i in range(3):
        out[i] += M[3 * i] * v[0] + M[3 * i + 1] * v[1] + M[3 * i + 2] * v[2]


@inner
def times_transposed(M, v, out):
    """out += M^T v."""
    for i in range(3):
        out[i] += M[i] * v[0] + M[3 + i] * v[1] + M[6 + i] * v[2]


@inner
def rotate(R, M, out, scratch):
    """out = R M R^T."""
    for i in range(3):
        for j in range(3):
            scratch[3 * i + j] = R[3 * i] * M[j] + R[3 * i + 1] * M[3 + j] + R[3 * i + 2] * M[6 + j]
    for i in range(3):
        for j in range(3):
            out[3 * i + j] = (
                scratch[3 * i] * R[3 * j] + scratch[3 * i + 1] * R[3 * j + 1] + scratch[3 * i + 2] * R[3 * j + 2]
            )


@inner
def shift_columns(r, M, out):
    """out += [r]x M, column by column."""
    for j in range(3):
        out[j] += r[1] * M[6 + j] - r[2] * M[3 + j]
        out[3 + j] += r[2] * M[j] - r[0] * M[6 + j]
        out[6 + j] += r[0] * M[3 + j] - r[1] * M[j]


@inner
def set_rotation(axis, angle, R):
    c, s = cos(angle), sin(angle)
    x, y, z = axis[0], axis[1], axis[2]
    d = 1.0 - c
    R[0], R[1], R[2] = c + d * x * x, d * x * y - s * z, d * x * z + s * y
    R[3], R[4], R[5] = d * x * y + s * z, c + d * y * y, d * y * z - s * x
    R[6], R[7], R[8] = d * x * z - s * y, d * y * z + s * x, c + d * z * z


@inner
def zero(v):
    for i in range(len(v)):
        v[i] = 0.0


class Body(NamedTuple):
    """What all links are."""

    mass: float
    centre: np.ndarray
    inertia: np.ndarray
    offset: np.ndarray


class Articulated(NamedTuple):
    """A link with all beyond it: n = A alpha + B a + p, f = B^T alpha + M a + p; and scratch of the same."""

    A: np.ndarray
    B: np.ndarray
    M: np.ndarray
    p: np.ndarray
    a: np.ndarray
    b: np.ndarray
    m: np.ndarray
    g: np.ndarray


@merged
def set_velocity(link, before, axis, offset, rate, arm):
    """Velocity of a link, at its joint and in its axes, and the velocity terms of its acceleration."""
    R, w, v = view(link, _R, _V), view(link, _V, _V + 3), view(link, _V + 3, _C)
    zero(view(link, _V, _U))
    if len(before) > 0:
        W, V = view(before, _V, _V + 3), view(before, _V + 3, _C)
        for k in range(3):
            arm[k] = V[k]
        cross(W, offset, arm, 1.0)
        times_transposed(R, W, w)
        times_transposed(R, arm, v)
    for k in range(3):
        w[k] += axis[k] * rate
    cross(w, axis, view(link, _C, _C + 3), rate)
    cross(v, axis, view(link, _C + 3, _P), rate)


@merged
def set_bias(link, body, h, n):
    """The force at the joint that would keep a link's velocity, from its momentum h and n about the joint."""
    w, v, p = view(link, _V, _V + 3), view(link, _V + 3, _C), view(link, _P, _U)
    for k in range(3):
        h[k] = v[k]
        n[k] = 0.0
    cross(w, body.centre, h, 1.0)
    for k in range(3):
        h[k] *= body.mass
    times(body.inertia, w, n)
    cross(body.centre, h, n, 1.0)
    cross(w, n, view(p, 0, 3), 1.0)
    cross(v, h, view(p, 0, 3), 1.0)
    cross(w, h, view(p, 3, 6), 1.0)


@merged
def add_link(link, body, beyond):
    """A link's own inertia about its joint, and its force."""
    A, B, M, p, _, _, _, _ = beyond
    mass, centre = body.mass, body.centre
    x, z, w = mass * centre[0], mass * centre[1], mass * centre[2]
    square = x * centre[0] + z * centre[1] + w * centre[2]
    for j in range(3):
        for k in range(3):
            A[3 * j + k] += body.inertia[3 * j + k] - mass * centre[j] * centre[k]
        A[4 * j] += square
        M[4 * j] += mass
    B[1] -= w
    B[2] += z
    B[3] += w
    B[5] -= x
    B[6] -= z
    B[7] += x
    for k in range(6):
        p[k] += link[_P + k]


@merged
def project_on_joint(link, axis, torque, beyond):
    """What the joint moves with: U, its pivot and its effort."""
    U = view(link, _U, _D)
    zero(U)
    times(beyond.A, axis, view(U, 0, 3))
    times_transposed(beyond.B, axis, view(U, 3, 6))
    D = axis[0] * U[0] + axis[1] * U[1] + axis[2] * U[2]
    link[_D], link[_EFFORT] = 1.0 / D, torque - (axis[0] * beyond.p[0] + axis[1] * beyond.p[1] + axis[2] * beyond.p[2])
    return D


@merged
def free_joint(link, D, beyond):
    """The joint is free: take away what its acceleration does, and add what the velocity terms do."""
    A, B, M, p, _, _, _, _ = beyond
    U, c = view(link, _U, _D), view(link, _C, _P)
    for j in range(3):
        for k in range(3):
            A[3 * j + k] -= U[j] * U[k] / D
            B[3 * j + k] -= U[j] * U[3 + k] / D
            M[3 * j + k] -= U[3 + j] * U[3 + k] / D
    for k in range(6):
        p[k] += U[k] * (link[_EFFORT] / D)
    times(A, view(c, 0, 3), view(p, 0, 3))
    times(B, view(c, 3, 6), view(p, 0, 3))
    times_transposed(B, view(c, 0, 3), view(p, 3, 6))
    times(M, view(c, 3, 6), view(p, 3, 6))


@merged
def shift_to_joint_before(R, offset, beyond):
    """To the axes and the joint of the link before: B = b + [r] m, A = a + [r] b^T - B [r]."""
    A, B, M, p, a, b, m, g = beyond
    rotate(R, A, a, g)
    rotate(R, B, b, g)
    rotate(R, M, m, g)
    for k in range(6):
        g[k] = 0.0
    times(R, view(p, 0, 3), view(g, 0, 3))
    times(R, view(p, 3, 6), view(g, 3, 6))
    cross(offset, view(g, 3, 6), view(g, 0, 3), 1.0)
    for k in range(6):
        p[k] = g[k]
    for k in range(9):
        A[k], B[k], M[k] = a[k], b[k], m[k]
    shift_columns(offset, m, B)
    for j in range(3):
        for k in range(3):
            g[3 * j + k] = b[3 * k + j]
    shift_columns(offset, g, A)
    zero(a)  # B [r] is the transpose of -[r] B^T
    for j in range(3):
        for k in range(3):
            g[3 * j + k] = B[3 * k + j]
    shift_columns(offset, g, a)
    for j in range(3):
        for k in range(3):
            A[3 * j + k] += a[3 * k + j]


@merged
def accelerate(link, axis, W, V, alpha, acceleration):
    """The joint's acceleration; W and V, of the joint before, become those of the link."""
    R, U = view(link, _R, _V), view(link, _U, _D)
    for k in range(3):
        alpha[k], acceleration[k] = link[_C + k], link[_C + 3 + k]
    times_transposed(R, W, alpha)
    times_transposed(R, V, acceleration)
    effort = link[_EFFORT]
    for k in range(3):
        effort -= U[k] * alpha[k] + U[3 + k] * acceleration[k]
    second = effort * link[_D]
    for k in range(3):
        W[k] = alpha[k] + axis[k] * second
        V[k] = acceleration[k]
    return second


@kernel(ode.RATES, error_model="numpy")
def spatial_rates(ints, reals, work, t, y, f):
    N, axes = ints[0], view(reals, _AXES, len(reals))
    body = Body(
        reals[_MASS], view(reals, _CENTRE, _INERTIA), view(reals, _INERTIA, _OFFSET), view(reals, _OFFSET, _GRAVITY)
    )
    own = view(work, N * _LINK, N * _LINK + _ARTICULATED)
    beyond = Articulated(
        view(own, 0, 9), view(own, 9, 18), view(own, 18, 27), view(own, 27, 33),
        view(own, 33, 42), view(own, 42, 51), view(own, 51, 60), view(own, 60, 69),
    )  # fmt: skip
    arm, h, n = row(own, 0, 3), row(own, 1, 3), row(own, 2, 3)
    for i in range(N):  # outwards: rotations, velocities, and the forces that would keep them
        link, axis = row(work, i, _LINK), row(axes, i, 3)
        f[i] = y[N + i]
        set_rotation(axis, y[i], view(link, _R, _V))
        before = view(work, max(i - 1, 0) * _LINK, i * _LINK)
        set_velocity(link, before, axis, body.offset, y[N + i], arm)
        set_bias(link, body, h, n)
    zero(own)
    for i in range(N - 1, -1, -1):  # inwards: inertia of a link with all beyond it
        link, axis = row(work, i, _LINK), row(axes, i, 3)
        add_link(link, body, beyond)
        D = project_on_joint(link, axis, axes[3 * N + i], beyond)
        if i > 0:
            free_joint(link, D, beyond)
            shift_to_joint_before(view(link, _R, _V), body.offset, beyond)
    W, V, alpha, acceleration = row(own, 0, 3), row(own, 1, 3), row(own, 2, 3), row(own, 3, 3)
    for k in range(3):  # outwards: accelerations; the ground accelerates against gravity
        W[k], V[k] = 0.0, -reals[_GRAVITY + k]
    for i in range(N):
        if i > 0:
            cross(W, body.offset, V, 1.0)
        f[N + i] = accelerate(row(work, i, _LINK), row(axes, i, 3), W, V, alpha, acceleration)


@kernel(ode.RATES, error_model="numpy")
def planar_rates(ints, reals, work, t, y, f):
    N = ints[0]
    mass, cx, cy, inertia = reals[0], reals[1], reals[2], reals[3]
    ox, oy, gx, gy = reals[4], reals[5], reals[6], reals[7]
    angle = rate = 0.0
    for i in range(N):
        link = view(work, i * _PLANAR_LINK, (i + 1) * _PLANAR_LINK)
        f[i] = y[N + i]
        angle += y[i]
        rate += y[N + i]
        c, s = cos(angle), sin(angle)
        link[0], link[1] = c * cx - s * cy, s * cx + c * cy
        link[2], link[3] = c * ox - s * oy, s * ox + c * oy
        link[4] = rate * rate

    # inertia and force at the joint: moment, x, y
    moment = inertia + mass * (cx * cx + cy * cy)
    j = jx = jy = xx = xy = yy = p = px = py = 0.0
    for i in range(N - 1, -1, -1):
        link = view(work, i * _PLANAR_LINK, (i + 1) * _PLANAR_LINK)
        x, z, square = link[0], link[1], link[4]
        fx, fy = -mass * (square * x + gx), -mass * (square * z + gy)
        j += moment
        jx -= mass * z
        jy += mass * x
        xx += mass
        yy += mass
        p += x * fy - z * fx
        px += fx
        py += fy
        torque = reals[8 + i]
        inverse = 1.0 / j
        link[5], link[6], link[7] = (torque - p) * inverse, jx * inverse, jy * inverse
        if i == 0:
            break
        # force on the link before, of the acceleration of the joint; then at that link's own joint
        px += jx * link[5]
        py += jy * link[5]
        xx -= jx * link[6]
        xy -= jx * link[7]
        yy -= jy * link[7]
        before = view(work, (i - 1) * _PLANAR_LINK, i * _PLANAR_LINK)
        dx, dy, square = before[2], before[3], before[4]
        px -= square * (xx * dx + xy * dy)
        py -= square * (xy * dx + yy * dy)
        p = torque + dx * py - dy * px
        jx, jy = dx * xy - dy * xx, dx * yy - dy * xy
        j = dx * jy - dy * jx

    ax = ay = last = 0.0
    for i in range(N):
        link = view(work, i * _PLANAR_LINK, (i + 1) * _PLANAR_LINK)
        alpha = link[5] - link[6] * ax - link[7] * ay
        f[N + i] = alpha - last
        last = alpha
        ax -= alpha * link[3] + link[4] * link[2]
        ay += alpha * link[2] - link[4] * link[3]


@kernel(ode.RATES_AND_JACOBIAN, error_model="numpy")
def no_jacobian(ints, reals, work, t, y, f, J, by_time):
    """For integrators that ask for none; one that does gets no finite step."""
    for i in range(len(f)):
        f[i] = np.nan


@kernel(
    int64(
        types.FunctionType(ode.STEP), types.FunctionType(ode.RATES), types.FunctionType(ode.RATES_AND_JACOBIAN),
        INDICES, CONSTANTS, INDICES, CONSTANTS, VECTOR, float64, int64, VECTOR, VECTOR,
    )
)  # fmt: skip
def run_steps(step, rates, both, layout, settings, ints, reals, work, h, steps, y, scratch):
    """So many steps from t = 0, or until one is not finite; how many were made."""
    for s in range(steps):
        if step(rates, both, layout, settings, ints, reals, work, s * h, h, y, scratch) == ode.NOT_FINITE:
            return s
    return steps


@kernel(types.void(types.FunctionType(ode.RATES), INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, int64))
def evaluate_often(rates, ints, reals, work, y, f, count):
    """To measure what an evaluation costs."""
    for _ in range(count):
        rates(ints, reals, work, 0.0, y, f)


@dataclass(frozen=True)
class Chain:
    """N equal links; planar if no axes are given (all along z)."""

    links: int
    mass: float
    centre: np.ndarray  # from the joint, m
    inertia: np.ndarray  # about the centre, 3 x 3; of a planar chain about z
    offset: np.ndarray  # to the next joint, m
    gravity: np.ndarray
    axes: np.ndarray | None = None  # unit vectors, N x 3
    torques: np.ndarray | None = None
    ints: np.ndarray = field(init=False)
    reals: np.ndarray = field(init=False)
    work: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        size = 2 if self.axes is None else 3
        for name, shape in (("centre", (size,)), ("offset", (size,)), ("gravity", (size,))):
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(f"{name} of a chain in {size} dimensions needs {size} components")
        if self.links < 1 or not self.mass > 0.0:
            raise ValueError(f"{self.links} links of {self.mass} kg: at least one, of positive mass")
        axes: Any = np.zeros((0, 3)) if self.axes is None else np.asarray(self.axes, float)
        if size == 3 and (axes.shape != (self.links, 3) or np.abs((axes**2).sum(axis=1) - 1.0).max() > 1e-9):
            raise ValueError(f"axes must be {self.links} unit vectors")
        torques = np.zeros(self.links) if self.torques is None else np.asarray(self.torques, float)
        if torques.shape != (self.links,):
            raise ValueError(f"torques must be {self.links}, one for each joint")
        of_link = [[self.mass], self.centre, np.ravel(self.inertia), self.offset, self.gravity, axes.ravel(), torques]
        per_link = _PLANAR_LINK if self.axes is None else _LINK
        object.__setattr__(self, "ints", np.array([self.links], np.int32))
        object.__setattr__(self, "reals", np.concatenate(of_link).astype(float))
        object.__setattr__(self, "work", np.zeros(self.links * per_link + _ARTICULATED))

    @property
    def rates(self) -> Any:
        return planar_rates if self.axes is None else spatial_rates

    def accelerations(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Of the joints, rad/s^2."""
        f = np.zeros(2 * self.links)
        self.rates(self.ints, self.reals, self.work, 0.0, np.concatenate([q, qd]), f)
        return f[self.links :]

    def run(self, q: np.ndarray, qd: np.ndarray, h: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Angles and rates after so many steps of Runge and Kutta's method; raises where they diverge."""
        y, layout = np.concatenate([q, qd]).astype(float), ode.make_layout(self.links)
        arguments = layout, ode.make_settings(layout), self.ints, self.reals, self.work
        done = run_steps(rk4_step, self.rates, no_jacobian, *arguments, h, steps, y, ode.make_scratch(layout))
        if done < steps:
            raise FloatingPointError(f"the chain diverged after {done} of {steps} steps of {h:g} s; try a smaller one")
        return y[: self.links], y[self.links :]
