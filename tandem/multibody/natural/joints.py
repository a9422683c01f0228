"""Joints, as the equations they stand for. Those that can share a node need none; these tie what cannot be shared.

A body given as `None` is the world. `at` and `axis` are as drawn. To add a joint, write its residuals as expressions
and `constrain` them; tables, Jacobians and their rates follow (linear.py). Residuals are in metres or radians.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural.body import Body
from tandem.multibody.natural.equations import Equations, Input, Joint, Load, Node
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.limits import POSITIVE_LENGTH, direction, number, numbers
from tandem.multibody.natural.linear import Linear, Quadratic, linear, square
from tandem.multibody.natural.motions import Motion, external
from tandem.multibody.portable import cos_sin_turns, dot, norm

LEAST_ANGLE = 1e-3  # rad, between the axes of a universal joint: its equation has a slope of that size
LEAST_RATIO = 1e-9  # of a gear
FLAT = 1e-6  # 1 - cosine of the angle at which a disc lies on its side


def spherical(m: Equations, name: str, a: Linear | ArrayLike, b: Linear | ArrayLike) -> None:
    """Two points are one. In the plane this is the revolute joint."""
    m.own(name, linear(a), linear(b), dimension=m.dimension)
    for axis, residual in enumerate(linear(b) - linear(a)):
        _push(m, f"{name}.{axis}", name, residual, np.eye(m.dimension)[axis])


def revolute(m: Equations, name: str, a: Body | None, b: Body, at: ArrayLike, axis: ArrayLike | None = None) -> None:
    """A common point and, in space, a common axis."""
    _between(m, name, a, b)
    spherical(m, name, at_of(m, a, at), b.at(at))
    if m.dimension == 3:
        n, n1, n2 = frame(_needed(m, name, axis))
        u = b.along(n)
        _turn(m, f"{name}.tilt1", name, u, along_of(m, a, n1))
        _turn(m, f"{name}.tilt2", name, u, along_of(m, a, n2))
    m.joints[name] = Joint(name, "revolute", a, b, np.asarray(at, float), _unit_or_none(axis))


def universal(
    m: Equations, name: str, a: Body | None, b: Body, at: ArrayLike, axis_a: ArrayLike, axis_b: ArrayLike
) -> None:
    """A common point; an axis of one body keeps its angle (90 degrees, mostly) to an axis of the other."""
    _in_space(m, name)
    _between(m, name, a, b)
    spherical(m, name, at_of(m, a, at), b.at(at))
    ua, ub = _unit(axis_a), _unit(axis_b)
    if norm(np.cross(ua, ub)) < LEAST_ANGLE:
        raise MechanismError(
            f"universal {name}: axes = [{ua.tolist()}, {ub.tolist()}]: are parallel, and there keep no angle between"
            " them; they must differ, mostly by 90 degrees"
        )
    _turn(m, f"{name}.cross", name, b.along(ub), along_of(m, a, ua), dot(ua, ub))
    m.joints[name] = Joint(name, "universal", a, b, np.asarray(at, float))


def cylindrical(m: Equations, name: str, a: Body | None, b: Body, at: ArrayLike, axis: ArrayLike) -> None:
    """b turns about and slides along an axis of a."""
    _in_space(m, name)
    _between(m, name, a, b)
    n, n1, n2 = frame(axis)
    u, arm = b.along(n), b.at(at) - at_of(m, a, at)
    for k, across in enumerate((n1, n2), 1):
        _turn(m, f"{name}.tilt{k}", name, u, along_of(m, a, across))
        _push(m, f"{name}.off{k}", name, arm @ along_of(m, a, across), along_of(m, a, across))
    m.joints[name] = Joint(name, "cylindrical", a, b, np.asarray(at, float), _unit_or_none(axis))


def prismatic(m: Equations, name: str, a: Body | None, b: Body, at: ArrayLike, axis: ArrayLike) -> None:
    """b slides along an axis of a without turning."""
    _between(m, name, a, b)
    if m.dimension == 2:
        n = _unit(axis)
        across = along_of(m, a, [-n[1], n[0]])
        _turn(m, f"{name}.turn", name, b.along(n), across)
        _push(m, f"{name}.off", name, (b.at(at) - at_of(m, a, at)) @ across, across)
    else:
        cylindrical(m, name, a, b, at, axis)
        _, n1, n2 = frame(axis)
        _turn(m, f"{name}.turn", name, b.along(n1), along_of(m, a, n2))
    m.joints[name] = Joint(name, "prismatic", a, b, np.asarray(at, float), _unit_or_none(axis))


def weld(m: Equations, name: str, a: Body | None, b: Body, at: ArrayLike) -> None:
    """b moves with a."""
    _between(m, name, a, b)
    spherical(m, name, at_of(m, a, at), b.at(at))
    if m.dimension == 2:
        _turn(m, f"{name}.turn", name, b.along([1.0, 0.0]), along_of(m, a, [0.0, 1.0]))
    else:
        for k, (i, j) in enumerate(((0, 1), (1, 2), (2, 0))):
            _turn(m, f"{name}.turn{k}", name, b.along(np.eye(3)[i]), along_of(m, a, np.eye(3)[j]))
    m.joints[name] = Joint(name, "weld", a, b, np.asarray(at, float))


def rod(
    m: Equations,
    name: str,
    a: Linear | ArrayLike,
    b: Linear | ArrayLike,
    length: "float | Linear | None" = None,
) -> None:
    """A constant distance (as drawn, if not given), or one that is a scalar coordinate."""
    m.own(f"rod {name}", linear(a), linear(b), dimension=m.dimension)
    d = linear(b) - linear(a)
    distance = norm(m.where(d))
    if isinstance(length, Linear):
        m.own(f"rod {name}: length", length, dimension=1)
        size = abs(float(m.where(length)[0])) or distance
        if size == 0.0:
            raise MechanismError(
                f"rod {name}: is of length 0 as drawn; draw its points apart, or give the scalar of its length a value"
            )
        m.ends.append((name, "rod", linear(a), linear(b)))
        m.constrain(name, (0.5 / size) * (square(d) - square(length)))
        m.loads[name] = Load(name, (1.0 / size) * d, axial=True)
        return
    size = distance if length is None else length
    if size == 0.0:
        raise MechanismError(f"rod {name}: length = 0: must be positive; a spherical joint is a rod of length 0")
    size = number(f"rod {name}: length", size, POSITIVE_LENGTH)
    m.apart(f"rod {name}", size)
    m.ends.append((name, "rod", linear(a), linear(b)))
    m.constrain(name, (0.5 / size) * (square(d) - size**2))
    m.loads[name] = Load(name, (1.0 / size) * d, axial=True)


def slider(
    m: Equations, name: str, point: Linear, through: ArrayLike, along: ArrayLike, on: Body | None = None
) -> None:
    """A point stays on a line of the world or of a body."""
    m.own(name, point, dimension=m.dimension)
    arm = point - at_of(m, on, through)
    if m.dimension == 2:
        n = _unit(along)
        across = along_of(m, on, [-n[1], n[0]])
        _push(m, name, name, arm @ across, across)
        return
    _, n1, n2 = frame(along)
    for k, direction_k in enumerate((n1, n2), 1):
        across = along_of(m, on, direction_k)
        _push(m, f"{name}.{k}", name, arm @ across, across)


def knife_edge(m: Equations, name: str, body: Body, at: ArrayLike, across: ArrayLike) -> None:
    """A point of a body moves in any direction of it but `across`, as a skate does."""
    side = direction(f"{name}: across", across, m.dimension)
    side_of_body = m.own_body(name, body).along(side / norm(side))
    point = body.at(numbers(f"{name}: at", at, m.dimension))
    m.hold_slip(f"{name}.slip", [(1.0, a, b) for a, b in zip(side_of_body, point, strict=True)])
    m.loads[f"{name}.slip"] = Load(name, side_of_body)


def rolling(
    m: Equations,
    name: str,
    body: Body,
    at: ArrayLike,
    radius: float,
    through: ArrayLike,
    normal: ArrayLike,
    axis: ArrayLike | None = None,
) -> None:
    """A disc about its axis (in the plane it needs none), or without one a sphere, rolls on a plane of the world.

    From the middle at the height s it is -R N to where a sphere touches, -(R^2 / s) (N - (N . w) w) of a disc with the
    axis w, s^2 = R^2 (1 - (N . w)^2). The speed there is 0; along two directions T of the plane, times s / R, it is

        (s / R) T . dr/dt - R T . (omega x N - (N . w) dw/dt),    omega x N = sum (N . e^k) de_k/dt
    """
    m.own_body(name, body)
    if len(body.basis) < m.dimension:
        raise MechanismError(f"{name}: body {body.name} has no third direction to turn about; give it more nodes")
    if m.dimension == 2 and axis is not None:
        raise MechanismError(f"{name}: axis = {axis}: is for space; in the plane a disc has one axis: leave it out")
    R = number(f"{name}: radius", radius, POSITIVE_LENGTH)
    up = direction(f"{name}: normal", normal, m.dimension)
    up = up / norm(up)
    middle = body.at(numbers(f"{name}: at", at, m.dimension))
    s = (middle - numbers(f"{name}: through", through, m.dimension)).map(up[None, :])
    share = Linear([1.0])  # s / R
    tilt: tuple[Linear, Linear] | None = None
    if axis is None:
        m.constrain(f"{name}.touch", s - R)
    else:
        w = body.along(_unit(axis))
        lean = w.map(up[None, :])
        if abs(float(m.where(lean)[0])) > 1.0 - FLAT:
            raise MechanismError(
                f"{name}: axis = {axis}: the disc lies flat as drawn, and touches nowhere; let it lean"
            )
        share, tilt = (1.0 / R) * s, (lean, w)
        m.constrain(f"{name}.touch", (0.5 / R) * (square(s) + R**2 * square(lean) - R**2))
    m.loads[f"{name}.touch"] = Load(name, share.map(up[:, None]))
    ways = np.array([[up[1], -up[0]]]) if m.dimension == 2 else np.array(frame(up)[1:])
    metric = body.metric
    for k, way in enumerate(ways, 1):
        products = [(1.0, share, middle.map(way[None, :]))]
        for i, e in enumerate(body.basis):
            along = [(float(metric[i, j]), other.map(up[None, :])) for j, other in enumerate(body.basis)]
            products += [(-R * g, other, e.map(way[None, :])) for g, other in along]
        if tilt is not None:
            products.append((R, tilt[0], tilt[1].map(way[None, :])))
        m.hold_slip(f"{name}.slip{k}", products)
        m.loads[f"{name}.slip{k}"] = Load(name, share.map(way[:, None]))


def rack(
    m: Equations, name: str, point: Linear, origin: ArrayLike, along: ArrayLike, x: Linear, on: Body | None = None
) -> None:
    """point = origin + x along, on a line of the world or of a body; x is a coordinate or an input."""
    slider(m, name, point, origin, along, on)
    ahead = along_of(m, on, _unit(along))
    _push(m, f"{name}.x", name, (point - at_of(m, on, origin)) @ ahead - x, ahead)


def gear(m: Equations, name: str, a: Linear, b: Linear, ratio: float) -> None:
    """a turns `ratio` times as far as b, from where both are as drawn."""
    m.own(f"gear {name}", a, b, dimension=1)
    ratio = number(f"gear {name}: ratio", ratio)
    if abs(ratio) < LEAST_RATIO:
        raise MechanismError(
            f"gear {name}: ratio = {ratio:g}: must not be 0: the first would stand and the second turn freely; to hold"
            " a scalar, drive it with polynomial = [value]"
        )
    if not (a - ratio * b).terms or set(a.terms) == set(b.terms):
        raise MechanismError(f"gear {name}: ties a scalar to itself; it needs two different ones")
    m.no_spin(f"gear {name}", a, b)
    offset = float((m.where(a) - ratio * m.where(b))[0])
    m.constrain(name, a - ratio * b - offset)


def angle(
    m: Equations,
    name: str,
    a: Body | None,
    b: Body,
    axis: ArrayLike | None = None,
    value: float = 0.0,
    theta: Linear | None = None,
) -> "Node | Linear":
    """The angle of b against a about an axis that both share, `value` as drawn: a new coordinate, or one given.

    It is not wrapped and needs no switch between sine and cosine.
    """
    if m.dimension == 2:
        v = np.array([1.0, 0.0])
        v_quarter = np.array([0.0, 1.0])
    else:
        _, v, v_quarter = frame(_needed(m, name, axis))
    _between(m, name, a, b)
    scalar = m.scalar(name, value) if theta is None else theta
    m.own(name, scalar, dimension=1)
    start = value if theta is None else float(m.where(theta)[0])
    c, s = cos_sin_turns(start / (2.0 * math.pi))
    n1, n2 = along_of(m, a, c * v - s * v_quarter), along_of(m, a, s * v + c * v_quarter)
    m.constrain_angle(f"{name}.angle", b.along(v) @ n1, b.along(v) @ n2, scalar)
    return scalar


def drive(m: Equations, name: str, coordinate: Linear, motion: Motion | Input | None = None) -> Input:
    """A prescribed coordinate: it follows an input, whose effort is then known from the multiplier."""
    m.own(f"drive {name}", coordinate, dimension=1)
    m.no_spin(f"drive {name}", coordinate)
    if isinstance(motion, Input):
        m.own_input(f"drive {name}", motion)
        signal = motion
    else:
        law = external(float(m.where(coordinate)[0])) if motion is None else motion
        signal = m.input(name, law.kind, law.law)
    m.constrain(name, coordinate - signal.form)
    m.drives[name] = getattr(coordinate, "name", name)
    return signal


def frame(axis: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The unit vector along an axis and two across it, right-handed."""
    n = direction("axis", axis, 3)
    n = n / norm(n)
    helper = np.eye(3)[int(np.argmin(np.abs(n)))]
    n1 = np.cross(n, helper)
    n1 /= norm(n1)
    return n, n1, np.cross(n, n1)


def _push(m: Equations, name: str, joint: str, residual: Quadratic | Linear, along: Linear | ArrayLike) -> None:
    """An equation whose multiplier is a force on the second side, against `along`."""
    m.constrain(name, residual)
    m.loads[name] = Load(joint, linear(along))


def _turn(m: Equations, name: str, joint: str, u: Linear, n: Linear, product: float = 0.0) -> None:
    """u . n of a vector u of the second body and n of the first; the multiplier is the moment against u x n."""
    m.constrain(name, u @ n - product if product else u @ n)
    m.loads[name] = Load(joint, u, n)


def _unit_or_none(axis: ArrayLike | None) -> np.ndarray | None:
    return None if axis is None else _unit(axis)


def _in_space(m: Equations, name: str) -> None:
    if m.dimension != 3:
        raise MechanismError(f"{name}: a joint of this kind is for 3 dimensions")


def _unit(axis: ArrayLike) -> np.ndarray:
    v = np.atleast_1d(np.asarray(axis, float))
    v = direction("axis", axis, len(v))
    return np.asarray(v / norm(v))


def _needed(m: Equations, name: str, axis: Any) -> Any:
    if axis is None:
        raise MechanismError(f"{name}: needs an axis in {m.dimension} dimensions")
    return axis


def _between(m: Equations, name: str, a: Body | None, b: Body) -> None:
    """Two bodies of this mechanism; the world can only be the first."""
    m.own_body(name, b)
    if a is not None:
        m.own_body(name, a)


def at_of(m: Equations, body: Body | None, point: ArrayLike) -> Linear:
    place = numbers("a place of a joint", point, m.dimension)
    return linear(place) if body is None else m.own_body("joint", body).at(place)


def along_of(m: Equations, body: Body | None, vector: ArrayLike) -> Linear:
    along = numbers("a direction of a joint", vector, m.dimension)
    return linear(along) if body is None else m.own_body("joint", body).along(along)
