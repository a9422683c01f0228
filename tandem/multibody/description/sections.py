"""The tables of a mechanism file: what may stand in each, with units and limits.

A mechanism is drawn once, roughly assembled, in world axes and SI units; everything is given where it is in that
drawing. Names are those of TOML keys. `JOINTS` and `FORCES` say which table one of a `kind` must be.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sync.config.toml import Section
from tandem.multibody.natural import limits
from tandem.multibody.natural.limits import Range
from tandem.multibody.natural.settings import STABILISATIONS


def _within(allowed: Range) -> dict[str, Any]:
    """A range of the builder as the limits of a field."""
    return {"gt" if allowed.above else "ge": allowed.low, "le": allowed.high}


NAME = r"^[A-Za-z][A-Za-z0-9_]{0,31}$"
Name = Annotated[str, Field(pattern=NAME)]
Number = Annotated[float, Field(**_within(limits.NUMBER))]
Newtons = Annotated[float, Field(**_within(limits.FORCE))]  # N, N m
Place = Annotated[list[Number], Field(min_length=2, max_length=3)]
Mass = Annotated[float, Field(**_within(limits.MASS))]
PositiveMass = Annotated[float, Field(**_within(limits.POSITIVE_MASS))]
Stiffness = Annotated[float, Field(**_within(limits.STIFFNESS))]  # and damping
PositiveStiffness = Annotated[float, Field(**_within(limits.POSITIVE_STIFFNESS))]
Length = Annotated[float, Field(**_within(limits.LENGTH))]
PositiveLength = Annotated[float, Field(**_within(limits.POSITIVE_LENGTH))]
Tables = dict[Name, dict[str, Any]]  # checked one by one, so that a message names the table's own keys
GROUND = "ground"


# of each formulation, the one that is used if none is given first
SCHEMES = {
    "natural": ("i3al", "i3al_halved", *(name for name in STABILISATIONS if name != "i3al")),
    "relative": ("rodas4", "rodas3", "ros2", "trapezoidal", "rk4", "linear_euler"),
}


class Run(Section):
    seconds: float = Field(10.0, gt=0, le=3600)
    step_ms: float = Field(1.0, ge=0.001, le=100)
    formulation: Literal["natural", "relative"] = "natural"
    scheme: Literal[
        "i3al", "i3al_halved", "none", "baumgarte", "projection", "linear-implicit", "rodas4", "rodas3", "ros2",
        "trapezoidal", "rk4", "linear_euler",
    ] = "i3al"  # fmt: skip
    # how constraints are held, of natural coordinates: another word for the scheme of that name
    stabilisation: Literal["none", "baumgarte", "projection", "i3al", "linear-implicit"] | None = None
    # of the highest frequencies, by generalised-alpha, which keeps the second order: rho = (1 - d) / (1 + d)
    dissipation: float = Field(0.0, **_within(limits.DISSIPATION))
    modes: int = Field(0, ge=0, le=50)  # natural modes about the equilibrium next to the start, lowest first

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, data: Any) -> Any:
        """The scheme of the formulation, where none is given."""
        if isinstance(data, dict) and "scheme" not in data:
            usual = SCHEMES.get(str(data.get("formulation", "natural")), ("i3al",))[0]
            held = data.get("stabilisation")
            return {**data, "scheme": held if held in list(STABILISATIONS) and usual == "i3al" else usual}
        return data

    @model_validator(mode="after")
    def _bounded(self) -> "Run":
        allowed, held = SCHEMES[self.formulation], self.stabilisation
        if held is not None and self.formulation == "relative":
            raise ValueError(
                f'stabilisation = "{held}" is of formulation = "natural"; relative coordinates solve their loops at'
                " every evaluation, and nothing drifts: leave it out"
            )
        if held is not None and held != self.scheme.removesuffix("_halved"):
            raise ValueError(f'stabilisation = "{held}" and scheme = "{self.scheme}" are two schemes; give one of them')
        if self.scheme not in allowed:
            raise ValueError(
                f'scheme = "{self.scheme}" is not of formulation = "{self.formulation}"; that has {", ".join(allowed)}'
            )
        if self.steps > 5_000_000:
            raise ValueError(f"{self.steps} steps are too many for one run; at most 5 million")
        if self.dissipation > 0.0 and self.scheme != "i3al":
            raise ValueError(
                f'dissipation = {self.dissipation:g} is of scheme = "i3al"; leave it out with scheme = "{self.scheme}"'
            )
        return self

    @property
    def steps(self) -> int:
        """Steps of the run; the last is shorter where the duration is not a multiple of the step."""
        return max(1, math.ceil(1e3 * self.seconds / self.step_ms - 1e-6))


class Start(Section):
    """Velocities of points and vectors (m/s, 1/s) and of scalars; as many as there are freedoms, the rest follows.

    Positions alike, where the start is not the drawing; or the static equilibrium next to the drawing.
    """

    velocity: dict[str, Number | list[Number]] = {}
    position: dict[str, Number | list[Number]] = {}
    equilibrium: bool = False

    @model_validator(mode="after")
    def _one_place(self) -> "Start":
        if self.equilibrium and self.position:
            raise ValueError("an equilibrium has its own position; give position, or equilibrium = true")
        return self


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
    places: Tables = {}
    directions: Tables = {}
    inputs: Tables = {}
    particles: Tables = {}
    joints: Tables = {}
    forces: Tables = {}
    surfaces: Tables = {}
    impacts: Tables = {}
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


SHAPES = {
    "box": ("size",), "cylinder": ("radius", "length"), "sphere": ("radius",), "rod": ("length",),
}  # fmt: skip


class Body(Section):
    """On points and vectors, the first a point. Without a centre: a slender uniform bar between its two points.

    With a centre: an inertia about it, or a uniform shape with a mass or a density, in world axes as drawn or in those
    of `frame`, whose first two axes are given as drawn. Cylinders and rods lie along the first.
    """

    nodes: Annotated[list[str], Field(min_length=1, max_length=16)]
    mass: Mass | None = None
    centre: Place | None = None
    inertia: Mass | list[Mass] | list[list[Number]] | None = None
    width: float | None = Field(None, gt=0, le=1e6)  # of a uniform bar of square section instead of a slender one
    shape: Literal["box", "cylinder", "sphere", "rod"] | None = None
    density: PositiveMass | None = None  # kg/m3
    size: Annotated[list[PositiveLength], Field(min_length=2, max_length=3)] | None = None  # of a box
    depth: PositiveLength | None = None  # of a planar box with a density
    radius: PositiveLength | None = None
    bore: PositiveLength | None = None  # radius of the hole of a tube
    length: PositiveLength | None = None
    frame: Annotated[list[Place], Field(min_length=1, max_length=2)] | None = None

    @model_validator(mode="after")
    def _one_shape(self) -> "Body":
        keys = [key for key in ("size", "depth", "radius", "bore", "length") if getattr(self, key) is not None]
        if self.shape is None:
            if self.mass is None:
                raise ValueError("mass is missing" if self.density is None else "a density needs a shape")
            if keys or self.density is not None:
                raise ValueError(f"{', '.join(keys or ['density'])}: of a shape; give shape = {', '.join(SHAPES)}")
            if self.frame is not None and self.inertia is None:
                raise ValueError("frame: has the axes of an inertia or a shape; give one")
            return self
        missing = [key for key in SHAPES[self.shape] if key not in keys]
        if missing:
            raise ValueError(f'shape = "{self.shape}": needs {" and ".join(missing)}')
        optional = {"box": ("depth",), "cylinder": ("bore",), "rod": ("radius",)}.get(self.shape, ())
        strange = [key for key in keys if key not in (*SHAPES[self.shape], *optional)]
        if strange:
            raise ValueError(f"{', '.join(strange)}: a {self.shape} has none")
        if (self.mass is None) == (self.density is None):
            raise ValueError("give mass or density, one of the two")
        if self.centre is None or self.inertia is not None:
            raise ValueError("a shape has its own inertia; give its centre, and no inertia")
        return self

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


class BodyPlace(Section):
    """A point of a body (or of the ground) without coordinates of its own; stands wherever a point may."""

    on: str
    at: Place


class BodyDirection(Section):
    """A unit vector of a body; stands among the nodes of another one."""

    on: str
    along: Place


# ---- laws of time ----------------------------------------------------------------------------------------------------


_LAWS = {
    "value": "value",
    "polynomial": "polynomial = [a, b, c, d]",
    "smooth_step": "smooth_step = [before, after, start, end]",
    "amplitude": "amplitude, rate, phase and mean",
    "input": "input",
}


class Law(Section):
    """a + b t + c t² + d t³, mean + amplitude sin(rate t + phase), or a smooth step [before, after, start, end]."""

    polynomial: Annotated[list[Number], Field(min_length=1, max_length=4)] | None = None
    smooth_step: Annotated[list[Number], Field(min_length=4, max_length=4)] | None = None
    amplitude: Number | None = None
    rate: Number = 0.0
    phase: Number = 0.0
    mean: Number = 0.0

    @model_validator(mode="after")
    def _one_law(self) -> "Law":
        laws = {name: how for name, how in _LAWS.items() if name in type(self).model_fields}
        if sum(getattr(self, name) is not None for name in laws) != 1:
            raise ValueError(f"give one law: {', or '.join(laws.values())}")
        return self

    @model_validator(mode="after")
    def _of_a_sine(self) -> "Law":
        beside = sorted({"rate", "phase", "mean"} & self.model_fields_set)
        if beside and self.amplitude is None:
            raise ValueError(f"{', '.join(beside)}: of a law with an amplitude; give amplitude, or leave it out")
        return self


class InputLaw(Law):
    """What scales forces and moves drives: a law of time, or a value that stays until it is changed from outside."""

    value: Number | None = None


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
    scalar: str | None = None  # one that is there already, as drawn at its own value


class KnifeEdge(Section):
    """A point of a body that does not move across it, as that of a skate."""

    kind: Literal["knife_edge"]
    body: str
    at: Place
    across: Place


class Rolling(Section):
    """A disc about its axis, or a sphere without one, that rolls on a plane of the world."""

    kind: Literal["rolling"]
    body: str
    at: Place  # its middle
    radius: PositiveLength
    axis: Place | None = None
    through: Place
    normal: Place


class Drive(Law):
    """A scalar that follows a law of time, or an input."""

    kind: Literal["drive"]
    scalar: str
    input: str | None = None


# ---- forces ----------------------------------------------------------------------------------------------------------


class Spring(Section):
    kind: Literal["spring"]
    points: Annotated[list[str], Field(min_length=2, max_length=2)]
    stiffness: Stiffness
    damping: Stiffness = 0.0
    length: Length | None = None  # free length; as drawn if not given
    preload: Newtons = 0.0


class Torsion(Section):
    kind: Literal["torsion"]
    scalar: str
    stiffness: Newtons = 0.0  # an over-centre spring is negative
    damping: Stiffness = 0.0
    rest: Number = 0.0
    cubic: Newtons = 0.0  # N m / rad^3


class Force(Section):
    """On a point or place, or on a scalar (there one number); an input may scale it."""

    kind: Literal["force"]
    point: str
    vector: Newtons | Annotated[list[Newtons], Field(min_length=1, max_length=3)]
    scale: str | None = None


class Torque(Section):
    """On a scalar, or on a body: in space about an axis of the world (`value`), of its own (`own`), or both."""

    kind: Literal["torque"]
    on: str
    value: Newtons | list[Newtons] | None = None
    own: Newtons | list[Newtons] | None = None
    scale: str | None = None

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


class Contact(Section):
    """A plane of the world that a point does not pass: through a place, with the normal it pushes along."""

    kind: Literal["contact"]
    point: str
    through: Place
    normal: Place
    stiffness: PositiveStiffness
    damping: Stiffness = 0.0
    friction: float = Field(0.0, **_within(limits.COEFFICIENT))
    speed: float = Field(0.01, **_within(limits.SPEED))


class Drag(Section):
    """Resistance of a fluid at rest to a point, place, or the centre of a body: linear, with the square, or both."""

    kind: Literal["drag"]
    on: str
    linear: Stiffness = 0.0  # N s/m
    coefficient: Stiffness = 0.0
    area: Stiffness = 0.0  # m2
    density: Mass = 0.0  # kg/m3, of the fluid


# ---- impacts ---------------------------------------------------------------------------------------------------------


class Sphere(Section):
    """On a body, the ground, or a point; radius 0 is a point."""

    kind: Literal["sphere"]
    on: str = GROUND
    at: Place | None = None  # its centre; of a point that is known
    radius: Length


class Hole(Section):
    """That a sphere lies in, as a pin in a bore."""

    kind: Literal["hole"]
    on: str = GROUND
    at: Place
    radius: PositiveLength


class Capsule(Section):
    kind: Literal["capsule"]
    on: str = GROUND
    ends: Annotated[list[Place], Field(min_length=2, max_length=2)]
    radius: Length


class Box(Section):
    """Along the axes of the world as drawn."""

    kind: Literal["box"]
    on: str = GROUND
    at: Place  # its middle
    size: Annotated[list[PositiveLength], Field(min_length=2, max_length=3)]


class Plane(Section):
    kind: Literal["plane"]
    on: str = GROUND
    through: Place
    normal: Place


class Impact(Section):
    """Two surfaces that may strike each other."""

    between: Annotated[list[str], Field(min_length=2, max_length=2)]
    restitution: float = Field(0.0, **_within(limits.RESTITUTION))
    friction: float = Field(0.0, **_within(limits.COEFFICIENT))
    slow: float = Field(0.01, **_within(limits.SPEED))  # m/s: what approaches more slowly does not bounce


SURFACES: dict[str, type[Section]] = {"sphere": Sphere, "capsule": Capsule, "box": Box, "plane": Plane, "hole": Hole}
JOINTS: dict[str, type[Section]] = {
    "spherical": Spherical, "revolute": Between, "cylindrical": Between, "prismatic": Between, "weld": Between,
    "universal": Universal, "rod": Rod, "slider": Slider, "rack": Rack, "gear": Gear, "angle": Angle, "drive": Drive,
    "knife_edge": KnifeEdge, "rolling": Rolling,
}  # fmt: skip
FORCES: dict[str, type[Section]] = {
    "spring": Spring, "torsion": Torsion, "force": Force, "torque": Torque, "friction": Friction, "limit": Limit,
    "rotor": Rotor, "contact": Contact, "drag": Drag,
}  # fmt: skip
