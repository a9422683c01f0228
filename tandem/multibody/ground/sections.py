"""What a road file may say (configs/roads/*.toml): its tables, their keys and their limits.

Lengths in metres. A road is a surface, random unevenness on top of it, bumps, and friction patches painted in order.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sync.config.toml import Section

Place = Annotated[float, Field(ge=-1e6, le=1e6)]
Pair = Annotated[list[Place], Field(min_length=2, max_length=2)]
Step = Annotated[float, Field(ge=1e-3, le=1e3)]
FileName = Annotated[str, Field(min_length=1, max_length=200)]


class Flat(Section):
    kind: Literal["flat"]


class SlopeSection(Section):
    """Grade along x, positive uphill, and bank, positive when the left is higher."""

    kind: Literal["slope"]
    grade_percent: float = Field(0.0, ge=-60, le=60)
    bank_percent: float = Field(0.0, ge=-60, le=60)
    begin: Place | None = None
    end: Place | None = None
    transition: float = Field(10.0, gt=0, le=1000)

    @model_validator(mode="after")
    def _ordered(self) -> "SlopeSection":
        if self.begin is not None and self.end is not None and self.end < self.begin:
            raise ValueError(f"end = {self.end:g} must not be before begin = {self.begin:g}")
        return self


class GridSection(Section):
    kind: Literal["grid"]
    file: FileName
    origin: Pair  # x and y of the first value of the first row
    spacing: Annotated[list[Step], Field(min_length=2, max_length=2)]  # between rows, between values of a row
    scale: float = Field(1.0, ge=-1000, le=1000)  # metres for a 1 in the file
    lift: float = Field(0.0, ge=-1e5, le=1e5)


class CrgSection(Section):
    kind: Literal["crg"]
    file: FileName
    at: Pair | None = None  # where the reference line starts; as in the file by default
    heading_deg: float | None = Field(None, ge=-360, le=360)  # and where it heads
    lift: float = Field(0.0, ge=-1e5, le=1e5)
    missing: Literal["refuse", "extend"] = "refuse"
    ignore_options: bool = False
    ignore_modifiers: bool = False


SURFACES: dict[str, type[Section]] = {"flat": Flat, "slope": SlopeSection, "grid": GridSection, "crg": CrgSection}


class Roughness(Section):
    """ISO 8608; see `tandem.multibody.ground.roughness`."""

    iso_class: Literal["A", "B", "C", "D", "E", "F", "G", "H"] | None = None
    density: float | None = Field(None, gt=0, le=1)  # Gd(n0), m3, instead of a class
    seed: int = Field(1, ge=0, le=2**53)
    decay: float = Field(3.0, ge=0, le=1000)
    shortest: float = Field(0.35, ge=0.02, le=100)
    longest: float = Field(90.0, gt=0, le=1000)
    length: float = Field(400.0, gt=0, le=20_000)
    spacing: float = Field(0.08, ge=0.005, le=10)
    width: float = Field(8.0, gt=0, le=200)
    middle: Place = 0.0  # y of the middle of that width
    lateral_spacing: float = Field(0.25, ge=0.02, le=10)
    begin: Place | None = None
    transition: float = Field(10.0, gt=0, le=1000)

    @model_validator(mode="after")
    def _fits(self) -> "Roughness":
        if (self.iso_class is None) == (self.density is None):
            raise ValueError("give either iso_class, such as 'C', or density in m3, such as 256e-6")
        if self.shortest < 4 * self.spacing:
            raise ValueError(f"shortest = {self.shortest:g} must be at least 4 times spacing = {self.spacing:g}")
        if not self.shortest < self.longest <= self.length:
            raise ValueError(
                f"shortest = {self.shortest:g} < longest = {self.longest:g} <= length = {self.length:g} must hold"
            )
        if self.lateral_spacing > self.width:
            raise ValueError(f"lateral_spacing = {self.lateral_spacing:g} must not exceed width = {self.width:g}")
        return self


class BumpSection(Section):
    shape: Literal["cosine", "half_sine", "trapezoid"] = "cosine"
    x: Place  # where it begins
    length: float = Field(gt=0, le=1000)
    height: float = Field(ge=-5, le=5)  # negative for a hole
    ramp: float | None = Field(None, gt=0)  # of a trapezoid: length of each of its ramps
    rounding: float = Field(0.02, ge=0)  # of a trapezoid: length over which each of its corners is rounded
    right: Place | None = None  # across the whole road where not given
    left: Place | None = None
    side: float = Field(0.1, ge=1e-3, le=10)  # width of the transition at right and left, inside them

    @model_validator(mode="after")
    def _fits(self) -> "BumpSection":
        if (self.shape == "trapezoid") != (self.ramp is not None):
            raise ValueError(f"ramp = {self.ramp}: a trapezoid needs it and no other shape has it")
        if self.ramp is not None and self.ramp > 0.5 * self.length:
            raise ValueError(f"ramp = {self.ramp:g} must be at most half of length = {self.length:g}")
        if self.ramp is not None and self.rounding > 0.5 * self.ramp:
            raise ValueError(f"rounding = {self.rounding:g} must be at most half of ramp = {self.ramp:g}")
        if self.right is not None and self.left is not None and self.left - self.right < 2 * self.side:
            raise ValueError(
                f"left = {self.left:g} must be right = {self.right:g} and twice side = {self.side:g} or more"
            )
        return self


class PatchSection(Section):
    """A rectangle, open where a border is not given, or a strip along x by `outline` = [[x, right, left], ...]."""

    factor: float = Field(ge=0.01, le=3)
    begin: Place | None = None
    end: Place | None = None
    right: Place | None = None
    left: Place | None = None
    outline: Annotated[
        list[Annotated[list[Place], Field(min_length=3, max_length=3)]] | None, Field(min_length=2, max_length=1000)
    ] = None
    edge: float = Field(0.0, ge=0, le=100)  # width over which friction changes, half of it outside; 0 is sharp

    @model_validator(mode="after")
    def _fits(self) -> "PatchSection":
        borders = (self.begin, self.end, self.right, self.left)
        if self.outline is not None:
            if any(border is not None for border in borders):
                raise ValueError("give either outline or begin, end, right and left")
            for number, (a, b) in enumerate(zip(self.outline, self.outline[1:], strict=False), 1):
                if not b[0] - a[0] >= 1e-3:
                    raise ValueError(f"outline[{number}]: x = {b[0]:g} must be beyond {a[0]:g}, the x before")
            for number, (_, right, left) in enumerate(self.outline):
                if right > left:
                    raise ValueError(f"outline[{number}]: right = {right:g} must not be left of left = {left:g}")
        for low, high, names in ((self.begin, self.end, "begin, end"), (self.right, self.left, "right, left")):
            if low is not None and high is not None and high - low < 1e-3:
                raise ValueError(f"{names} = {low:g}, {high:g}: the second must be the greater")
        return self


class RoadFile(Section):
    title: str = ""
    friction: float = Field(1.0, ge=0.01, le=3)  # factor of the ground, before patches
    surface: dict[str, Any] = {"kind": "flat"}  # `kind`, and the keys of that kind
    roughness: Roughness | None = None
    bumps: Annotated[list[BumpSection], Field(max_length=200)] = []
    patches: Annotated[list[PatchSection], Field(max_length=200)] = []
