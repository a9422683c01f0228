"""Mechanism files: a mechanism as data (configs/mechanisms/*.toml), turned into one that can be simulated.

`read_mechanism` checks a file as a whole: every table against its sections, then every name against what the file
defines, then the drawing itself. Whatever is wrong is a `ConfigError` that names file, key, value and what would be
right; nothing else escapes. `residuals` returns constraint by constraint how far a drawing is from closing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sync.config.toml import Section, check, read_toml
from sync.errors import ConfigError, near_names
from tandem.multibody.description import sections as s
from tandem.multibody.description.sections import GROUND, MechanismFile
from tandem.multibody.natural import motions, shapes
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.portable import dot, norm

MOST_ELEMENTS = 2000  # of a file: points, bodies, joints, links of chains ...
MOST_COORDINATES = 3000  # matrices have the square of it
MOST_FINDINGS = 50


@dataclass(frozen=True)
class Described:
    """A mechanism file, and what it describes."""

    path: str
    file: MechanismFile
    mechanism: Mechanism
    velocities: dict[str, np.ndarray]  # of nodes, at the start
    positions: dict[str, np.ndarray]  # of nodes, where the start is not the drawing
    shown: tuple[str, ...]  # points whose paths are of interest


def read_mechanism(path: str | Path) -> Described:
    return describe(read_toml(Path(path)), str(path))


def describe(data: dict[str, Any], path: str) -> Described:
    """From parsed TOML; `path` is for the messages."""
    file = check(MechanismFile, data, path)
    return _Builder(file, path).build()


class _Builder:
    """One pass over the file; findings are gathered table by table and raised together."""

    def __init__(self, file: MechanismFile, path: str) -> None:
        self.file, self.path = file, path
        self.findings: list[str] = []
        try:
            self.m = Mechanism(file.dimension, file.gravity)
        except MechanismError as error:
            raise ConfigError(f"{path}: {error}") from None

    def build(self) -> Described:
        file = self.file
        self._count_elements()
        self._each("points", lambda _: s.Point, self._point)
        self._each("vectors", lambda _: s.Vector, self._vector)
        self._each("scalars", lambda _: s.Scalar, self._scalar)
        self._each("chains", lambda _: s.Chain, self._chain)
        self._raise()  # what follows would only repeat that their names are unknown
        self._each("bodies", lambda _: s.Body, self._body, self._in_order())
        self._raise()
        self._each("places", lambda _: s.BodyPlace, self._place)
        self._each("directions", lambda _: s.BodyDirection, self._direction)
        self._each("inputs", lambda _: s.InputLaw, self._input)
        self._raise()
        self._each("particles", lambda _: s.Particle, self._particle)
        # angles first: drives, gears and forces may name them
        order = sorted(file.joints, key=lambda name: file.joints[name].get("kind") != "angle")
        self._each("joints", self._kinds(s.JOINTS), self._joint, order)
        self._each("forces", self._kinds(s.FORCES), self._force)
        self._each("surfaces", self._kinds(s.SURFACES), self._surface)
        self._raise()
        self._each("impacts", lambda _: s.Impact, self._impact)
        velocities = self._of_nodes("velocity", file.start.velocity)
        positions = self._of_nodes("position", file.start.position)
        points = {name: node for name, node in self.m.nodes.items() if node.kind == "point"}
        for k, name in enumerate(file.show.points):
            with _Finding(self, f"show.points[{k}]"):
                self._node(name, "point")
        self._raise()
        if self.m.n == 0:
            raise ConfigError(f"{self.path}: nothing can move: every point is fixed and there is no scalar")
        if self.m.n > MOST_COORDINATES:
            raise ConfigError(f"{self.path}: {self.m.n} coordinates; at most {MOST_COORDINATES} are simulated")
        free = [name for name, node in points.items() if node.columns]
        return Described(self.path, file, self.m, velocities, positions, tuple(file.show.points or free[:8]))

    def _of_nodes(self, table: str, values: dict[str, Any]) -> dict[str, np.ndarray]:
        """Numbers for free nodes, as many as each has."""
        found = {}
        for name, value in values.items():
            with _Finding(self, f"start.{table}.{name}"):
                node = self._find(name, self.m.nodes, "point, vector or scalar")
                vector = np.atleast_1d(np.asarray(value, float))
                if not node.columns:
                    raise MechanismError("is fixed, and cannot move")
                if vector.shape != (node.dim,):
                    raise MechanismError(f"= {value!r}: must be {_numbers(node.dim)}")
                found[name] = vector
        return found

    def _in_order(self) -> list[str]:
        """Bodies, each after those on which places lie that it stands on."""
        bodies, ordered, begun = self.file.bodies, [], set[str]()
        todo = [(name, False) for name in reversed(bodies)]  # and whether those below it are done
        while todo:
            name, below = todo.pop()
            if below:
                ordered.append(name)
            elif name in bodies and name not in begun:
                begun.add(name)  # of a circle, the last is built before its place is there, and that is reported
                todo.append((name, True))
                todo += [(on, False) for on in reversed(self._stands_on(bodies[name].get("nodes")))]
        return ordered

    def _stands_on(self, nodes: Any) -> list[str]:
        """Bodies of the places and directions among the nodes of another."""
        named = [node for node in nodes if isinstance(node, str)] if isinstance(nodes, list) else []
        tables = self.file.places, self.file.directions
        found = [table.get(node, {}).get("on") for node in named for table in tables]
        return [on for on in found if isinstance(on, str)]

    def _count_elements(self) -> None:
        file = self.file
        tables = (
            file.points, file.vectors, file.scalars, file.bodies, file.places, file.directions, file.inputs,
            file.particles, file.joints, file.forces, file.surfaces, file.impacts,
        )  # fmt: skip
        links = [chain.get("count") for chain in file.chains.values()]
        count = sum(map(len, tables)) + sum(n for n in links if isinstance(n, int) and n > 0)
        if count > MOST_ELEMENTS:
            raise ConfigError(
                f"{self.path}: {count} points, bodies, joints, forces and links; at most {MOST_ELEMENTS} are simulated"
            )

    # ---- tables ------------------------------------------------------------------------------------------------------

    def _point(self, name: str, p: s.Point) -> None:
        self.m.point(name, p.at, p.fixed)

    def _vector(self, name: str, v: s.Vector) -> None:
        self.m.vector(name, v.along, v.fixed)

    def _scalar(self, name: str, x: s.Scalar) -> None:
        self.m.scalar(name, x.value, x.inertia)

    def _chain(self, name: str, c: s.Chain) -> None:
        last = self._node(c.begin, "point")
        place = self.m.where(last)
        self._size("step", c.step)
        for k in range(1, c.count + 1):
            place = place + np.asarray(c.step)
            link = self.m.point(f"{name}{k}", place)
            self.m.bar(f"{name}{k}", last, link, c.mass)
            last = link

    def _body(self, name: str, b: s.Body) -> None:
        for n in b.nodes:
            self._place_early(n)
        nodes = [self._find(n, {**self.m.nodes, **self.m.places}, "point or vector") for n in b.nodes]
        for node in nodes:
            if node.kind == "scalar":
                raise MechanismError(f"nodes: {node.name} is a scalar; a body stands on points and vectors")
        if len(set(b.nodes)) < len(b.nodes):
            raise MechanismError(f"nodes = {b.nodes}: one is named twice")
        if b.centre is not None:
            self._size("centre", b.centre)
            mass, moments = self._moments(b)
            self.m.body(name, nodes, mass, b.centre, moments)
            return
        assert b.mass is not None
        points = [node for node in nodes if node.kind == "point"]
        if len(points) < 2:
            raise MechanismError(
                f"nodes = {b.nodes}: a bar lies between two points; name another one, or give centre and inertia"
            )
        start, end = (self.m.where(p) for p in points[:2])
        along = end - start
        length = norm(along)
        if not length > 0:
            raise MechanismError(f"nodes = {b.nodes}: the first two points are at the same place")
        square, width = dot(along, along), b.width or 0.0
        inertia: np.ndarray | float = b.mass * (square + width**2) / 12.0
        if self.m.dimension == 3:
            unit = along / length
            slender = b.mass * (square + width**2) / 12.0
            inertia = slender * np.eye(3) + (b.mass * width**2 / 6.0 - slender) * np.outer(unit, unit)
        self.m.body(name, nodes, b.mass, 0.5 * (start + end), inertia)

    def _moments(self, b: s.Body) -> tuple[float, np.ndarray]:
        """Mass and inertia about the centre of a body that has one, in world axes."""
        plane = self.m.dimension == 2
        if plane and b.frame is not None:
            raise MechanismError("frame: is for space; in the plane an inertia is one number in any axes")
        if b.shape is None:
            assert b.mass is not None
            J = np.asarray(0.0 if b.inertia is None else b.inertia, float)
            if b.frame is None:
                return b.mass, J
            J = np.diag(np.broadcast_to(J, 3)) if J.ndim < 2 else J
            return b.mass, shapes.in_world_axes(J, shapes.axes(b.frame))
        if b.shape == "box":
            assert b.size is not None
            if len(b.size) != self.m.dimension:
                raise MechanismError(f"size = {b.size}: must be {_numbers(self.m.dimension)}")
            shape = shapes.box(b.size, b.depth)
        elif b.shape == "cylinder":
            shape = shapes.cylinder(b.radius or 0.0, b.length or 0.0, b.bore or 0.0)
        elif b.shape == "sphere":
            shape = shapes.sphere(b.radius or 0.0)
        else:
            shape = shapes.rod(b.length or 0.0, b.radius)
        if b.density is not None and shape.volume is None:
            raise MechanismError(f"density: a {b.shape} without {'depth' if plane else 'radius'} has no volume")
        mass = b.mass if b.mass is not None else shape.mass(b.density or 0.0)
        return mass, shape.inertia(mass, b.frame, self.m.dimension)

    def _place_early(self, name: str) -> None:
        """A place or direction that a body stands on, before the other places."""
        if name in self.m.nodes or name in self.m.places:
            return
        if name in self.file.places:
            self._place(name, check(s.BodyPlace, self.file.places[name], self.path, f"places.{name}"))
        elif name in self.file.directions:
            self._direction(name, check(s.BodyDirection, self.file.directions[name], self.path, f"directions.{name}"))

    def _place(self, name: str, p: s.BodyPlace) -> None:
        if name not in self.m.places:
            self._size("at", p.at)
            self.m.place(name, self._carrier(p.on), p.at)

    def _direction(self, name: str, d: s.BodyDirection) -> None:
        if name not in self.m.places:
            self.m.direction(name, self._carrier(d.on), self._axis(d.along, "along"))

    def _carrier(self, on: str) -> Any:
        return None if on == GROUND else self._find(on, self.m.bodies, "body")

    def _input(self, name: str, i: s.InputLaw) -> None:
        law = motions.external(i.value) if i.value is not None else _motion(i)
        self.m.input(name, law.kind, law.law)

    def _scale(self, name: str | None) -> Any:
        return None if name is None else self._find(name, self.m.inputs, "input")

    def _particle(self, name: str, p: s.Particle) -> None:
        self.m.particle(name, self._node(p.point, "point"), p.mass)

    def _joint(self, name: str, j: Any) -> None:
        m = self.m
        match j:
            case s.Spherical():
                m.spherical(name, *(self._node(p, "point") for p in j.points))
            case s.Between():
                self._size("at", j.at)
                first, second = self._pair(j.bodies)
                if j.kind == "cylindrical" and m.dimension == 2:
                    raise MechanismError('kind = "cylindrical": is for space; in the plane use prismatic or revolute')
                if j.kind == "weld":
                    m.weld(name, first, second, j.at)
                elif j.kind == "revolute" and m.dimension == 2:
                    m.revolute(name, first, second, j.at)
                elif j.kind == "revolute":
                    m.revolute(name, first, second, j.at, self._axis(j.axis))
                elif j.kind == "cylindrical":
                    m.cylindrical(name, first, second, j.at, self._axis(j.axis))
                else:
                    m.prismatic(name, first, second, j.at, self._axis(j.axis))
            case s.Universal():
                if m.dimension == 2:
                    raise MechanismError('kind = "universal": is for space')
                self._size("at", j.at)
                first, second = self._pair(j.bodies)
                m.universal(name, first, second, j.at, *(self._axis(a, "axes") for a in j.axes))
            case s.Rod():
                a, b = (self._node(p, "point") for p in j.points)
                length = self._quantity(j.length) if isinstance(j.length, str) else j.length
                m.rod(name, a, b, length)
            case s.Slider():
                self._size("through", j.through)
                on = None if j.on == GROUND else self._find(j.on, m.bodies, "body")
                m.slider(name, self._node(j.point, "point"), j.through, self._axis(j.along, "along"), on)
            case s.Rack():
                self._size("through", j.through)
                on = None if j.on == GROUND else self._find(j.on, m.bodies, "body")
                x = self._quantity(j.scalar)
                m.rack(name, self._node(j.point, "point"), j.through, self._axis(j.along, "along"), x, on)
            case s.Gear():
                a, b = (self._node(x, "scalar") for x in j.scalars)
                m.gear(name, a, b, j.ratio)
            case s.Angle():
                first, second = self._pair(j.bodies)
                theta = None if j.scalar is None else self._node(j.scalar, "scalar")
                m.angle(name, first, second, None if m.dimension == 2 else self._axis(j.axis), j.value, theta)
            case s.KnifeEdge():
                self._size("at", j.at)
                m.knife_edge(name, self._find(j.body, m.bodies, "body"), j.at, self._axis(j.across, "across"))
            case s.Rolling():
                self._size("at", j.at)
                self._size("through", j.through)
                body, up = self._find(j.body, m.bodies, "body"), self._axis(j.normal, "normal")
                axis = None if j.axis is None else j.axis if m.dimension == 2 else self._axis(j.axis)
                m.rolling(name, body, j.at, j.radius, j.through, up, axis)
            case s.Drive():
                m.drive(name, self._node(j.scalar, "scalar"), _motion(j) if j.input is None else self._scale(j.input))

    def _force(self, name: str, f: Any) -> None:
        m = self.m
        match f:
            case s.Spring():
                a, b = (self._node(p, "point") for p in f.points)
                m.spring(name, a, b, f.stiffness, f.damping, f.length, f.preload)
            case s.Torsion():
                m.torsion(name, self._node(f.scalar, "scalar"), f.stiffness, f.damping, f.rest, f.cubic)
            case s.Force():
                scalars = {n: x for n, x in m.nodes.items() if x.kind == "scalar"}
                at = self._find(f.point, self._points() | scalars, "point, place or scalar")
                vector = np.atleast_1d(np.asarray(f.vector, float))
                if len(vector) != at.dim:
                    raise MechanismError(f"vector = {f.vector}: must be {_numbers(at.dim)}")
                m.force(name, at, vector, self._scale(f.scale))
            case s.Torque():
                either = {n: x for n, x in m.nodes.items() if x.kind == "scalar"} | m.bodies
                on = self._find(f.on, either, "scalar or body")
                single = isinstance(on, Linear) or m.dimension == 2
                torques = {}
                for key, numbers in (("value", f.value), ("own", f.own)):
                    if numbers is None:
                        continue
                    value = np.atleast_1d(np.asarray(numbers, float))
                    if value.shape != ((1,) if single else (3,)):
                        raise MechanismError(f"{key} = {numbers!r}: must be {_numbers(1 if single else 3)}")
                    torques[key] = float(value[0]) if single else value
                m.torque(name, on, torques.get("value"), torques.get("own"), self._scale(f.scale))
            case s.Rotor():
                carrier = self._find(f.body, m.bodies, "body")
                m.rotor(name, carrier, self._axis(f.axis), self._node(f.scalar, "scalar"), f.inertia)
            case s.Friction():
                m.friction(name, self._node(f.scalar, "scalar"), f.level, f.speed, f.viscous)
            case s.Limit():
                m.limit(name, self._node(f.scalar, "scalar"), f.low, f.high, f.stiffness, f.damping)
            case s.Contact():
                self._size("through", f.through)
                point, normal = self._node(f.point, "point"), self._axis(f.normal, "normal")
                m.contact(name, point, f.through, normal, f.stiffness, f.damping, f.friction, f.speed)
            case s.Drag():
                on = self._find(f.on, self._points() | m.bodies, "point, place or body")
                m.drag(name, on, f.linear, f.coefficient, f.area, f.density)

    # ---- names -------------------------------------------------------------------------------------------------------

    def _find(self, name: str, among: dict[str, Any], what: str) -> Any:
        if name in among:
            return among[name]
        near = near_names(name, among, 1, 0.5)
        known = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(among)[:12]) or 'none'}"
        raise MechanismError(f"there is no {what} {name!r}{known}")

    def _points(self) -> dict[str, Any]:
        """Points, and places, which stand for them."""
        named = {**self.m.nodes, **self.m.places}
        return {n: form for n, form in named.items() if form.kind == "point"}

    def _quantity(self, name: str) -> Any:
        """A scalar, or an input in its place."""
        scalars = {n: x for n, x in self.m.nodes.items() if x.kind == "scalar"}
        return self._find(name, {n: i.form for n, i in self.m.inputs.items()} | scalars, "scalar or input")

    def _node(self, name: str, kind: str) -> Any:
        if kind == "point":
            return self._find(name, self._points(), "point or place" if self.m.places else "point")
        return self._find(name, {n: node for n, node in self.m.nodes.items() if node.kind == kind}, kind)

    def _pair(self, names: list[str]) -> tuple[Any, Any]:
        """The second must be a body; if the ground stands there, the two change places."""
        first, second = (None if n == GROUND else self._find(n, self.m.bodies, "body") for n in names)
        if second is None:
            first, second = second, first
        if second is None or first is second:
            raise MechanismError(f"bodies = {names}: a joint is between two different bodies, one of which moves")
        return first, second

    def _axis(self, axis: list[float] | None, key: str = "axis") -> list[float]:
        if axis is None:
            raise MechanismError(f"{key} is missing")
        self._size(key, axis)
        if not dot(axis, axis) > 1e-24:
            raise MechanismError(f"{key} = {axis}: has no direction")
        return axis

    def _size(self, key: str, place: list[float]) -> None:
        if len(place) != self.m.dimension:
            raise MechanismError(f"{key} = {place}: must be {_numbers(self.m.dimension)}")

    def _surface(self, name: str, x: Any) -> None:
        m = self.m
        match x:
            case s.Sphere() if x.on in m.nodes and x.on not in m.bodies:
                if x.at is not None:
                    raise MechanismError(f"at = {x.at}: a sphere on a point is where that is; leave it out")
                m.sphere(name, self._node(x.on, "point"), (), x.radius)
            case s.Sphere():
                if x.at is None:
                    raise MechanismError("at is missing: where its centre is on the body")
                self._size("at", x.at)
                m.sphere(name, self._carrier(x.on), x.at, x.radius)
            case s.Hole():
                self._size("at", x.at)
                m.hole(name, self._carrier(x.on), x.at, x.radius)
            case s.Capsule():
                for end in x.ends:
                    self._size("ends", end)
                m.capsule(name, self._carrier(x.on), (x.ends[0], x.ends[1]), x.radius)
            case s.Box():
                self._size("at", x.at)
                m.box(name, self._carrier(x.on), x.at, x.size)
            case s.Plane():
                self._size("through", x.through)
                m.plane(name, self._carrier(x.on), x.through, self._axis(x.normal, "normal"))

    def _impact(self, name: str, x: s.Impact) -> None:
        first, second = (self._find(one, self.m.surfaces, "surface") for one in x.between)
        self.m.impact(name, first, second, x.restitution, x.friction, x.slow)

    # ---- findings ----------------------------------------------------------------------------------------------------

    def _each(
        self,
        table: str,
        model: Callable[[dict[str, Any]], type[Section]],
        add: Callable[[str, Any], None],
        order: Iterable[str] | None = None,
    ) -> None:
        entries = getattr(self.file, table)
        for name in order if order is not None else entries:
            if len(self.findings) >= MOST_FINDINGS:
                break
            with _Finding(self, f"{table}.{name}"):
                add(name, check(model(entries[name]), entries[name], self.path, f"{table}.{name}"))

    def _kinds(self, kinds: dict[str, type[Section]]) -> Callable[[dict[str, Any]], type[Section]]:
        def choose(entry: dict[str, Any]) -> type[Section]:
            kind = entry.get("kind")
            if not isinstance(kind, str) or kind not in kinds:
                problem = "is missing" if kind is None else f"= {kind!r}: is not known"
                raise MechanismError(f"kind {problem}; must be one of {', '.join(sorted(kinds))}")
            return kinds[kind]

        return choose

    def _raise(self) -> None:
        if self.findings:
            raise ConfigError("\n".join(self.findings))


class _Finding:
    """What goes wrong inside becomes a line that names the file and the table; then the next table is looked at."""

    def __init__(self, builder: _Builder, key: str) -> None:
        self._builder, self._key = builder, key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if isinstance(error, ConfigError):
            self._builder.findings.append(str(error))
        elif isinstance(error, MechanismError):
            self._builder.findings.append(f"{self._builder.path}: {self._key}: {error}")
        return isinstance(error, ConfigError | MechanismError)


def _motion(law: s.Law) -> motions.Motion:
    if law.polynomial is not None:
        return motions.polynomial(*law.polynomial)
    if law.smooth_step is not None:
        return motions.smooth_step(*law.smooth_step)
    return motions.harmonic(law.amplitude or 0.0, law.rate, law.phase, law.mean)


def _numbers(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"


def residuals(mechanism: Mechanism, q: np.ndarray, u: np.ndarray | None = None) -> dict[str, float]:
    """How far each constraint is from holding (m or rad), largest first."""
    found = {name: c.value(q, u) for name, c in mechanism.constraints.items()}
    return dict(sorted(found.items(), key=lambda item: -abs(item[1])))
