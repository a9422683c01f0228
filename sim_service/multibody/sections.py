"""The tables of a mechanism file: what may stand in each, with units and limits.

A mechanism is drawn once, roughly assembled, in world axes and SI units; everything is given where it is in that
drawing. Names are those of TOML keys. `KINDS` says which table a joint or a force of a `kind` must be.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sim_service.multibody.natural import limits
from sim_service.multibody.natural.limits import Range
from sync.toml import Section


def _within(allowed: Range) -> dict[str, Any]:
    """A range of the builder as the limits of a field."""
    return {"gt" if allowed.above else "ge": allowed.low, "le": allowed.high}


NAME = r"^[A-Za-z][A-Za-z0-9_]{0,31}$"
Name = Annotated[str, Field(pattern=NAME)]
Number = Annotated[float, Field(**_within(limits.NUMBER))]
Place = Annotated[list[Number], Field(min_length=2, max_length=3)]
Mass = Annotated[float, Field(**_within(limits.MASS))]
PositiveMass = Annotated[float, Field(**_within(limits.POSITIVE_MASS))]
Stiffness = Annotated[float, Field(**_within(limits.STIFFNESS))]  # and damping
PositiveStiffness = Annotated[float, Field(**_within(limits.POSITIVE_STIFFNESS))]
Length = Annotated[float, Field(**_within(limits.LENGTH))]
Tables = dict[Name, dict[str, Any]]  # checked one by one, so that a message names the table's own keys
GROUND = "ground"

SCHEMES = ("i3al", "i3al_halved", "baumgarte", "projection", "linear_euler")


class Run(Section):
    seconds: float = Field(10.0, gt=0, le=3600)
    step_ms: float = Field(1.0, ge=0.001, le=100)
    scheme: Literal["i3al", "i3al_halved", "baumgarte", "projection", "linear_euler"] = "i3al"
    # of the highest frequencies, by generalised-alpha, which keeps the second order: rho = (1 - d) / (1 + d)
    dissipation: float = Field(0.0, **_within(limits.DISSIPATION))

    @model_validator(mode="after")
    def _bounded(self) -> "Run":
        if self.steps > 5_000_000:
            raise ValueError(f"{self.steps} steps are too many for one run; at most 5 million")
        return self

    @property
    def steps(self) -> int:
        """Steps of the run; the last is shorter where the duration is not a multiple of the step."""
        return max(1, math.ceil(1e3 * self.seconds / self.step_ms - 1e-6))


class Start(Section):
    """Velocities of points and vectors (m/s, 1/s) and of scalars; as many as there are freedoms, the rest follows."""

    velocity: dict[str, Number | list[Number]] = {}


class Show(Section):
    """Whose paths the report draws, and (in space) in which two coordinates. Empty: all free points, as far as 8."""

    points: list[str] = []
    plane: Literal["xy", "xz", "yz"] = "xy"


class MechanismFile(Section):
    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")
    title: str = ""
    dimension: Literal[2, 3] = 2
    gravity: Place | None = None
    run: Run = Run()
    points: Tables
    vectors: Tables = {}
    scalars: Tables = {}
    chains: Tables = {}
    bodies: Tables = {}
    particles: Tables = {}
    joints: Tables = {}
    forces: Tables = {}
    start: Start = Start()
    show: Show = Show()

    @field_validator("points")
    @classmethod
    def _some(cls, points: Tables) -> Tables:
        if not points:
            raise ValueError("a mechanism needs points")
        return points


# ---- nodes and bodies ------------------------------------------------------------------------------------------------


class Point(Section):
    at: Place
    fixed: bool = False


class Vector(Section):
    along: Place
    fixed: bool = False

    @field_validator("along")
    @classmethod
    def _direction(cls, along: list[float]) -> list[float]:
        if not sum(x * x for x in along) > 1e-24:
            raise ValueError("has no direction")
        return along


class Scalar(Section):
    value: Number = 0.0
    inertia: Mass = 0.0


class Chain(Section):
    """`count` equal uniform bars, one hung on the end of the other: points NAME1, NAME2 …, bodies of the same names."""

    begin: str
    count: int = Field(ge=1, le=1000)
    step: Place  # from the beginning of a bar to its end, as drawn
    mass: PositiveMass  # of each


class Body(Section):
    """On points and vectors, the first a point. Without a centre: a slender uniform bar between its two points."""

    nodes: Annotated[list[str], Field(min_length=1, max_length=16)]
    mass: Mass
    centre: Place | None = None
    inertia: Mass | list[Mass] | list[list[Number]] | None = None  # about the centre, world axes, as drawn
    width: float | None = Field(None, gt=0, le=1e6)  # of a uniform bar of square section instead of a slender one

    @model_validator(mode="after")
    def _one_way(self) -> "Body":
        if self.centre is None and self.inertia is not None:
            raise ValueError("inertia is about the centre; give centre too")
        if isinstance(self.inertia, list):
            rows = [len(row) if isinstance(row, list) else 0 for row in self.inertia]
            if rows not in ([0, 0, 0], [3, 3, 3]):
                raise ValueError(f"inertia = {self.inertia}: must be a number, three of them, or three rows of three")
        if self.centre is not None and self.width is not None:
            raise ValueError("width is of a uniform bar, whose centre is known; give centre and inertia, or width")
        return self


class Particle(Section):
    point: str
    mass: PositiveMass


# ---- joints ----------------------------------------------------------------------------------------------------------


class Spherical(Section):
    kind: Literal["spherical"]
    points: Annotated[list[str], Field(min_length=2, max_length=2)]


class Between(Section):
    """Two bodies, `ground` for the world."""

    kind: Literal["revolute", "cylindrical", "prismatic", "weld"]
    bodies: Annotated[list[str], Field(min_length=2, max_length=2)]
    at: Place
    axis: Place | None = None


class Universal(Section):
    kind: Literal["universal"]
    bodies: Annotated[list[str], Field(min_length=2, max_length=2)]
    at: Place
    axes: Annotated[list[Place], Field(min_length=2, max_length=2)]


class Rod(Section):
    kind: Literal["rod"]
    points: Annotated[list[str], Field(min_length=2, max_length=2)]
    length: Number | str | None = None  # m, or the name of a scalar; as drawn if not given

    @field_validator("length")
    @classmethod
    def _positive(cls, length: float | str | None) -> float | str | None:
        if isinstance(length, float | int) and not length > 0:
            raise ValueError("must be positive")
        return length


class Slider(Section):
    kind: Literal["slider"]
    point: str
    through: Place
    along: Place
    on: str = GROUND


class Rack(Section):
    kind: Literal["rack"]
    point: str
    through: Place
    along: Place
    scalar: str
    on: str = GROUND


class Gear(Section):
    kind: Literal["gear"]
    scalars: Annotated[list[str], Field(min_length=2, max_length=2)]
    ratio: Number


class Angle(Section):
    """A new scalar of the joint's name: how far the second body has turned against the first."""

    kind: Literal["angle"]
    bodies: Annotated[list[str], Field(min_length=2, max_length=2)]
    axis: Place | None = None
    value: Number = 0.0


class Drive(Section):
    """A scalar that follows a law of time: a + b t + c t² + d t³, mean + amplitude sin(rate t + phase), or a smooth
    step [before, after, start, end] by a quintic."""

    kind: Literal["drive"]
    scalar: str
    polynomial: Annotated[list[Number], Field(min_length=1, max_length=4)] | None = None
    smooth_step: Annotated[list[Number], Field(min_length=4, max_length=4)] | None = None
    amplitude: Number | None = None
    rate: Number = 0.0
    phase: Number = 0.0
    mean: Number = 0.0

    @model_validator(mode="after")
    def _one_law(self) -> "Drive":
        if sum(law is not None for law in (self.polynomial, self.smooth_step, self.amplitude)) != 1:
            raise ValueError(
                "give one law: polynomial = [a, b, c, d], or smooth_step = [before, after, start, end],"
                " or amplitude, rate, phase and mean"
            )
        return self


# ---- forces ----------------------------------------------------------------------------------------------------------


class Spring(Section):
    kind: Literal["spring"]
    points: Annotated[list[str], Field(min_length=2, max_length=2)]
    stiffness: Stiffness
    damping: Stiffness = 0.0
    length: Length | None = None  # free length; as drawn if not given
    preload: Number = 0.0


class Torsion(Section):
    kind: Literal["torsion"]
    scalar: str
    stiffness: float = Field(0.0, **_within(limits.FORCE))  # an over-centre spring is negative
    damping: Stiffness = 0.0
    rest: Number = 0.0
    cubic: float = Field(0.0, **_within(limits.FORCE))  # N m / rad^3


class Force(Section):
    kind: Literal["force"]
    point: str
    vector: Place


class Torque(Section):
    """On a scalar, or on a body: in space about an axis of the world (`value`), of its own (`own`), or both."""

    kind: Literal["torque"]
    on: str
    value: Number | list[Number] | None = None
    own: Number | list[Number] | None = None

    @model_validator(mode="after")
    def _some(self) -> "Torque":
        if self.value is None and self.own is None:
            raise ValueError("give value (about axes of the world), own (about axes of the body), or both")
        return self


class Rotor(Section):
    """An axisymmetric rotor in a body: its spin about the axis is a scalar; `inertia` is about the axis."""

    kind: Literal["rotor"]
    body: str
    axis: Place
    scalar: str
    inertia: PositiveMass


class Friction(Section):
    kind: Literal["friction"]
    scalar: str
    level: Stiffness
    speed: float = Field(**_within(limits.SPEED))
    viscous: Stiffness = 0.0


class Limit(Section):
    kind: Literal["limit"]
    scalar: str
    low: Number
    high: Number
    stiffness: PositiveStiffness
    damping: Stiffness = 0.0


JOINTS: dict[str, type[Section]] = {
    "spherical": Spherical, "revolute": Between, "cylindrical": Between, "prismatic": Between, "weld": Between,
    "universal": Universal, "rod": Rod, "slider": Slider, "rack": Rack, "gear": Gear, "angle": Angle, "drive": Drive,
}  # fmt: skip
FORCES: dict[str, type[Section]] = {
    "spring": Spring, "torsion": Torsion, "force": Force, "torque": Torque, "friction": Friction, "limit": Limit,
    "rotor": Rotor,
}  # fmt: skip
