"""The builder: points, unit vectors and scalars, rigid bodies on them, joints between them, forces on them.

A mechanism is described in one assembled position ("as drawn"), in world axes and SI units. Whatever is given by its
place (a point, an axis, a centre of mass, an inertia tensor) is given as it is in that position; it need only be
roughly assembled, `problems.assemble` closes it. A node may be fixed, free, or shared between bodies; sharing a node is
what makes a joint without an equation.

`compile` turns it into a `System`. Names are unique within their kind, and are how everything is found again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural import forces, impacts, joints
from tandem.multibody.natural.body import Body
from tandem.multibody.natural.compiler import compile_system
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.limits import MASS, POSITIVE_MASS, STEP, direction, number
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.rigid import make_body
from tandem.multibody.natural.settings import Settings
from tandem.multibody.natural.system import System
from tandem.multibody.portable import dot, norm


@dataclass
class Mechanism(Equations):
    """A mechanism under construction: its equations, and everything that adds to them."""

    # bodies

    def body(
        self,
        name: str,
        nodes: Sequence[Linear],
        mass: float,
        centre: ArrayLike,
        inertia: ArrayLike = 0.0,
    ) -> Body:
        """A rigid body on points and vectors (the first must be a point), from its mass, centre of mass and inertia.

        `inertia` is about the centre of mass in world axes as drawn: a 3 x 3 tensor, its diagonal, or in the plane
        one number. Points beyond those that the body needs follow by linear equations.
        """
        if name in self.bodies:
            raise MechanismError(f"body {name}: there is one already")
        body = make_body(self, name, nodes, mass, centre, inertia)
        self.bodies[name] = body
        return body

    def bar(self, name: str, a: Linear, b: Linear, mass: float) -> Body:
        """A slender uniform bar between two points."""
        self.own(f"bar {name}", a, b, dimension=self.dimension)
        mass = number(f"bar {name}: mass", mass, MASS)
        pa, pb = self.where(a), self.where(b)
        d = pb - pa
        if self.dimension == 2:
            inertia: Any = mass * dot(d, d) / 12.0
        else:
            inertia = mass / 12.0 * (dot(d, d) * np.eye(3) - np.outer(d, d))
        return self.body(name, [a, b], mass, 0.5 * (pa + pb), inertia)

    def particle(self, name: str, point: Linear, mass: float) -> None:
        """A point mass; it may sit on any point of a body too."""
        self.own(f"particle {name}", point, dimension=self.dimension)
        self.add_mass(point, number(f"particle {name}: mass", mass, POSITIVE_MASS))

    # named places and directions, without coordinates of their own

    def place(self, name: str, on: Body | None, at: ArrayLike) -> Linear:
        """The point of a body (None: the world) that is at `at` as drawn, under a name: stands wherever a point may."""
        form = joints.at_of(self, on, at)
        return self._name(name, form, "point")

    def direction(self, name: str, on: Body | None, along: ArrayLike) -> Linear:
        """The unit vector of a body (None: the world) along `along` as drawn, under a name."""
        vector = direction(f"direction {name}", along, self.dimension)
        return self._name(name, joints.along_of(self, on, vector / norm(vector)), "vector")

    def _name(self, name: str, form: Linear, kind: str) -> Linear:
        if name in self.nodes or name in self.places:
            raise MechanismError(f"place {name}: there is a node or place of that name already")
        form.kind = kind
        self.places[name] = form
        return form

    # joints and forces are plain functions of the equations, one file each

    spherical = joints.spherical
    revolute = joints.revolute
    cylindrical = joints.cylindrical
    prismatic = joints.prismatic
    universal = joints.universal
    rod = joints.rod
    slider = joints.slider
    rack = joints.rack
    gear = joints.gear
    angle = joints.angle
    weld = joints.weld
    knife_edge = joints.knife_edge
    rolling = joints.rolling
    drive = joints.drive

    spring = forces.spring
    torsion = forces.torsion
    force = forces.force
    torque = forces.torque
    friction = forces.friction
    limit = forces.limit
    contact = forces.contact
    drag = forces.drag
    rotor = forces.rotor
    model_force = forces.model_force

    sphere = impacts.sphere
    capsule = impacts.capsule
    box = impacts.box
    plane = impacts.plane
    hole = impacts.hole
    impact = impacts.impact

    def compile(
        self, h: float = 1e-3, settings: Settings | None = None, hook: Any = None, dense: bool | None = None
    ) -> System:
        """The tables. `h` is the step the penalties are chosen for; `hook` the nopython function of model forces."""
        return compile_system(self, number("h, s", h, STEP), settings or Settings(), hook, dense)
