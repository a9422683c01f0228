"""Rows of the table `[inputs]`: how the channels of a block become inputs of a machine, as a configuration says it.

A row reads channels, or the results of other rows, converts them, limits the result, and says what becomes of it when
it is stale; `to` names the machine's inputs it is for: the value, its rate, its acceleration, as many as it makes.
Keys of counts say so (`zero_counts`); all other quantities are in the row's own `unit`. An angle may be in `deg`
here (a rate in `deg/s`) and is in rad in the machine; other units are the machine's own. sim_service/inputs computes
the rows.

A new kind of row is a class here (its settings, how many results it makes, its conversion, its inverse if it has one)
and its name in ROWS.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from sync.config.toml import CHOICE, Section

NAME = r"^[a-z][a-z0-9_]{0,31}$"
MOST_ROWS = 15  # four bits each, in the word that a step records of their stages; measurements have none
MOST_MEASUREMENTS = 45  # with the other rows, one bit each in the word that says what was clipped
_Name = Annotated[str, Field(pattern=NAME)]
_NameOrNone = Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]{0,31})?$")]


def _not_zero(value: float) -> float:
    if value == 0.0:
        raise ValueError("must not be 0: the counts between nothing and full scale, negative where they fall")
    return value


FullScale = Annotated[float, AfterValidator(_not_zero)]


class Stale(Section):
    """What becomes of a result once it is stale: held so long, extrapolated so long, then brought to its safe value
    within `ramp_ms` (0: it stays where it is)."""

    hold_ms: float = Field(100.0, ge=0, le=60_000)  # so long its last value holds
    extrapolate_ms: float = Field(0.0, ge=0, le=1000)  # after the hold the last rate goes on for so long
    ramp_ms: float = Field(0.0, ge=0, le=60_000)  # then it is brought to `safe` within so long; 0: it stays
    safe: float = 0.0  # value in the end, in the row's unit


class _Row(Section):
    """What every kind has. A further kind is a class like those below, with its name in ROWS: `numbers` are what its
    conversion needs, `convert` is the conversion, for compiled code."""

    if TYPE_CHECKING:
        kind: str
    # (numbers of all rows, the row, where its own numbers begin, value, rate and acceleration of what it reads, the
    # second channel's counts) -> value, rate, acceleration. Nopython, of these alone; a channel's rates come as 0.
    # None: what it does needs more than that, and is in sim_service/inputs
    convert: ClassVar[Callable[..., tuple[float, float, float]] | None] = None

    # "": that result goes nowhere, such as a rate that another row measures
    to: Annotated[list[_NameOrNone], Field(max_length=3)] = []
    unit: str = Field("1", max_length=32)  # of the result; in deg or deg/s the machine has it in rad
    least: float | None = None  # beyond these the result is clipped, flagged and counted
    most: float | None = None  # likewise above
    tolerance_below: float = Field(0.0, ge=0)  # noise of the sensor: so far beyond it is clipped and no more
    tolerance_above: float = Field(0.0, ge=0)  # likewise above `most`
    stale: Stale = Stale()  # what becomes of it once it is stale

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        """The numbers that its conversion reads, for steps and blocks of these lengths."""
        raise NotImplementedError

    @property
    def channels(self) -> list[str]:
        """The channels that it reads, in the order of its conversion."""
        return []

    @property
    def rows(self) -> list[str]:
        """The rows whose results it reads."""
        return []

    def results(self, rows: "dict[str, Row]") -> int:
        """How many results it makes: 1 a value, 2 with its rate, 3 with its acceleration."""
        return 1

    def in_si(self, value: float) -> float:
        """From the row's unit to the machine's."""
        return math.radians(value) if self.unit.startswith("deg") else value

    def from_si(self, value: float) -> float:
        return math.degrees(value) if self.unit.startswith("deg") else value

    @property
    def machine_unit(self) -> str:
        return "rad" + self.unit.removeprefix("deg") if self.unit.startswith("deg") else self.unit

    @model_validator(mode="after")
    def _sound(self) -> Any:
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least = {self.least:g} must not be above most = {self.most:g}")
        least, most = (math.inf * s if end is None else end for s, end in ((-1, self.least), (1, self.most)))
        if not least <= self.stale.safe <= most:
            raise ValueError(f"stale.safe = {self.stale.safe:g} must be from least = {least:g} to most = {most:g}")
        return self


class _OneDevice(_Row):
    """Reads one channel, or the result of one row."""

    channel: _NameOrNone = ""  # that it reads, of daq.channels; or
    row: _NameOrNone = ""  # whose result it reads

    @model_validator(mode="after")
    def _one(self) -> Any:
        if bool(self.channel) == bool(self.row):
            raise ValueError("must read one thing: give channel, or row")
        return self

    @property
    def channels(self) -> list[str]:
        return [self.channel] if self.channel else []

    @property
    def rows(self) -> list[str]:
        return [self.row] if self.row else []

    def results(self, rows: "dict[str, Row]") -> int:
        return rows[self.row].results(rows) if self.row else 1


class Affine(_OneDevice):
    """full (x - zero_counts) / full_counts; of a row, its result stands for the counts."""

    kind: Literal["affine"]
    zero_counts: float = 0.0  # where the result is 0
    full_counts: FullScale  # from there to `full`; negative where the counts fall
    full: float = Field(1.0, gt=0)  # result at zero_counts + full_counts
    zero_is: str = Field("at rest", max_length=80)  # what a person does to calibrate it
    full_is: str = Field("at its other end", max_length=80)  # and then, to calibrate it

    def counts(self, value: float) -> float:
        """The counts for this value, which is in the row's unit."""
        return self.zero_counts + value / self.full * self.full_counts

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        # a share of full scale is divided, anything else multiplied: earlier versions rounded so, and so do records
        scale = (self.full, self.full_counts) if self.unit == "1" else (self.in_si(self.full) / self.full_counts, 1.0)
        return [self.zero_counts, *scale]

    @staticmethod
    def convert(numbers, row, own, x, xd, xdd, y):
        gain, divisor = numbers[row, own + 1], numbers[row, own + 2]
        return (x - numbers[row, own]) * gain / divisor, xd * gain / divisor, xdd * gain / divisor


ESTIMATORS = Literal["source", "full_rate", "kalman", "edges"]  # KINDS, sync/signals/estimators.py


class Encoder(_Row):
    """Counts of an encoder, whose rate and acceleration are estimated (sync/signals/estimators.py)."""

    kind: Literal["encoder"]
    channel: str = Field(pattern=NAME)  # that it reads, of daq.channels
    estimator: ESTIMATORS = "kalman"  # of rate and acceleration
    differentiator: int = Field(4, ge=2, le=10)  # window of source and full_rate
    per_count: float = Field(gt=0)  # the row's unit in one count
    sign: Literal[1, -1] = 1  # -1 if it counts the other way
    zero_counts: float = 0.0  # where the result is 0; `tandem calibrate` finds it
    # how large its motions are, against those of a hand on a handle in rad, on which kalman and edges were tuned
    motion: float = Field(1.0, gt=0)
    zero_is: str = Field("at its zero", max_length=80)  # what a person does to calibrate it
    full_is: str = Field("the way that counts as positive", max_length=80)  # and then, to calibrate it

    @property
    def channels(self) -> list[str]:
        return [self.channel]

    def results(self, rows: "dict[str, Row]") -> int:
        return 3

    def counts(self, value: float) -> float:
        return self.zero_counts + value / (self.per_count * self.sign)

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        from sync.signals import estimators  # compiled code, which a configuration alone does not need

        per_count = self.in_si(self.per_count) * self.sign
        par = estimators.parameters(self.estimator, self.differentiator, step_s, period_s, per_count, self.motion)
        return [self.zero_counts * per_count, *par.tolist()]

    @model_validator(mode="after")
    def _rate_to_extrapolate(self) -> "Encoder":
        if self.stale.extrapolate_ms > 0 and self.estimator in ("source", "full_rate"):
            raise ValueError(
                f"stale.extrapolate_ms = {self.stale.extrapolate_ms:g}: estimator must be 'kalman' or 'edges'; for"
                f" {self.estimator!r} the rate is zero without new blocks"
            )
        return self


class Polynomial(_OneDevice):
    """c0 + c1 x + c2 x² + …"""

    kind: Literal["polynomial"]
    coefficients: Annotated[list[float], Field(min_length=1, max_length=8)]  # of 1, x, x², … of what it reads

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [float(len(self.coefficients)), *(self.in_si(c) for c in self.coefficients)]

    @staticmethod
    def convert(numbers, row, own, x, xd, xdd, y):
        """Horner's rule for the value and both derivatives; then the chain rule."""
        p = dp = ddp = 0.0
        for k in range(int(numbers[row, own]), 0, -1):
            ddp = ddp * x + 2.0 * dp
            dp = dp * x + p
            p = p * x + numbers[row, own + k]
        return p, dp * xd, ddp * xd * xd + dp * xdd


class HallPair(_Row):
    """Two opposed Hall sensors: gain (U1² - U2²) + offset."""

    kind: Literal["hall_pair"]
    pair: Annotated[list[_Name], Field(min_length=2, max_length=2)]  # the channels of U1 and U2
    volts_per_count: float = Field(gt=0)  # of both sensors
    gain: float  # of the difference of squares, in the row's unit per V²
    offset: float = 0.0  # then added
    zero_is: str = Field("at rest", max_length=80)  # what a person does to calibrate it
    full_is: str = Field("at its other end", max_length=80)  # and then, to calibrate it

    @property
    def channels(self) -> list[str]:
        return list(self.pair)

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [self.volts_per_count, self.in_si(self.gain), self.in_si(self.offset)]

    @staticmethod
    def convert(numbers, row, own, x, xd, xdd, y):
        u1, u2 = x * numbers[row, own], y * numbers[row, own]
        return numbers[row, own + 1] * (u1 * u1 - u2 * u2) + numbers[row, own + 2], 0.0, 0.0


class Arctangent(_Row):
    """The angle of a lever whose end is at `row`: atan(slope x + offset), in rad."""

    kind: Literal["arctangent"]
    row: str = Field(pattern=NAME)  # whose result it reads
    slope: float  # of the tangent, by that result
    offset: float = 0.0  # then added to the tangent

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [self.slope, self.offset]

    @staticmethod
    def convert(numbers, row, own, x, xd, xdd, y):
        k = numbers[row, own]
        u, ud, udd = k * x + numbers[row, own + 1], k * xd, k * xdd
        slope = 1.0 / (1.0 + u * u)
        return math.atan(u), slope * ud, slope * udd - 2.0 * u * slope * slope * ud * ud

    @property
    def rows(self) -> list[str]:
        return [self.row]

    def results(self, rows: "dict[str, Row]") -> int:
        return rows[self.row].results(rows)


def _scaled(numbers, row, own, x, xd, xdd, y):
    """Counts relative to their zero, scaled; their rate is not known."""
    return (x - numbers[row, own]) * numbers[row, own + 1], 0.0, 0.0


class VoiceCoil(_Row):
    """The rate of a joint from a coil that moves in a field: U / kappa is its velocity, over the lever arm a rate."""

    kind: Literal["voice_coil"]
    channel: str = Field(pattern=NAME)  # that it reads, of daq.channels
    zero_counts: float = 0.0  # where the coil stands still
    volts_per_count: float = Field(gt=0)  # of its converter
    kappa_v_s_per_m: FullScale  # voltage by velocity of the coil
    lever_arm_m: FullScale  # of the coil about the joint
    zero_is: str = Field("at rest", max_length=80)  # what a person does to calibrate it
    full_is: str = Field("moved the way that counts as positive", max_length=80)  # and then, to calibrate it

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [self.zero_counts, self.volts_per_count / (self.kappa_v_s_per_m * self.lever_arm_m)]

    convert = staticmethod(_scaled)

    @property
    def channels(self) -> list[str]:
        return [self.channel]


class Fused(_Row):
    """A position without drift and a quick velocity: below the crossover the first counts, above it the second."""

    kind: Literal["fused"]
    position: str = Field(pattern=NAME)  # the row without drift
    velocity: str = Field(pattern=NAME)  # the row that is quick
    crossover_hz: float = Field(gt=0, le=1e4)  # below it the position counts, above it the velocity

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [1.0 - math.exp(-2.0 * math.pi * self.crossover_hz * step_s)]

    @property
    def rows(self) -> list[str]:
        return [self.position, self.velocity]

    def results(self, rows: "dict[str, Row]") -> int:
        return 2


class Measurement(_Row):
    """A reading of a sensor: sign per_count (counts - zero_counts), and its age in s, against the other inputs.

    It has no policy for stale values: the machine gets its age, and uses the reading at its instant.
    """

    kind: Literal["measurement"]
    channel: str = Field(pattern=NAME)  # that it reads, of daq.channels
    per_count: float = Field(gt=0)  # the row's unit in one count
    sign: Literal[1, -1] = 1  # -1 if it counts the other way
    zero_counts: float = 0.0  # where the reading is 0

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [self.zero_counts, self.in_si(self.per_count) * self.sign]

    convert = staticmethod(_scaled)  # the place of its rate holds its age

    @property
    def channels(self) -> list[str]:
        return [self.channel]

    def results(self, rows: "dict[str, Row]") -> int:
        return 2

    @model_validator(mode="after")
    def _has_an_age(self) -> "Measurement":
        if self.stale != Stale():
            raise ValueError("stale: is not for a measurement, which is used at its own age; take it out")
        return self


class Sum(_Row):
    """Two rows added, each times its weight: an angle that a bus has in a coarse and a fine signal."""

    kind: Literal["sum"]
    of: Annotated[list[_Name], Field(min_length=2, max_length=2)]  # the two rows
    weights: Annotated[list[float], Field(min_length=2, max_length=2)] = [1.0, 1.0]  # of each of them

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return list(self.weights)

    @property
    def rows(self) -> list[str]:
        return list(self.of)

    def results(self, rows: "dict[str, Row]") -> int:
        return min(rows[name].results(rows) for name in self.of)


class Constant(_Row):
    """The same at every step, whatever the channels say: an input that nothing measures."""

    kind: Literal["constant"]
    value: float  # that it always has, in the row's unit

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [self.in_si(self.value)]

    @model_validator(mode="after")
    def _never_stale(self) -> "Constant":
        if self.stale != Stale():
            raise ValueError("stale: is not for a constant, which is never old; take it out")
        return self


ROWS: tuple[type[_Row], ...] = (
    Affine, Encoder, Polynomial, HallPair, Arctangent, VoiceCoil, Fused, Measurement, Sum, Constant,
)  # fmt: skip
KINDS = {str(get_args(row.model_fields["kind"].annotation)[0]): row for row in ROWS}
if TYPE_CHECKING:
    Row = _Row
else:
    Row = Annotated[
        Union[tuple(Annotated[row, Tag(CHOICE + kind)] for kind, row in KINDS.items())],  # noqa: UP007  (made here)
        Discriminator(lambda row: CHOICE + str(row["kind"] if isinstance(row, dict) else row.kind)),
    ]


def _kinds_known(rows: Any) -> Any:
    for name, row in rows.items() if isinstance(rows, dict) else ():
        kind = row.get("kind") if isinstance(row, dict) else getattr(row, "kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            problem = "is missing" if kind is None else f"= {kind!r}"
            raise ValueError(f"{name}.kind {problem}: must be one of {', '.join(KINDS)}")
    return rows


def _connected(rows: dict[str, Any]) -> dict[str, Any]:
    """Check that sources exist, no row reads itself, no input is written twice, no `to` has more than the row makes."""
    taken: dict[str, str] = {}
    for name, row in rows.items():
        for other in row.rows:
            if other not in rows:
                raise ValueError(f"{name} reads the row {other}, which is not there; there are {', '.join(rows)}")
    order_of(rows)
    for name, row in rows.items():
        most = row.results(rows)
        if len(row.to) > most:
            raise ValueError(f"{name}.to = {row.to}: a row of kind {row.kind} makes {most} of these, not {len(row.to)}")
        if row.stale.extrapolate_ms > 0 and most < 2:
            raise ValueError(
                f"{name}.stale.extrapolate_ms = {row.stale.extrapolate_ms:g}: a row of kind {row.kind} makes no rate;"
                " use hold_ms and ramp_ms"
            )
        for to in filter(None, row.to):
            if to in taken:
                raise ValueError(f"{name}.to: {to} is written by {taken[to]} already")
            taken[to] = name
        if row.kind == "sum" and len({rows[other].machine_unit for other in row.rows} | {row.machine_unit}) > 1:
            units = " and ".join(f"{other} is in {rows[other].unit}" for other in row.rows)
            raise ValueError(f"{name}.unit = {row.unit!r}: what is added must be in one unit: {units}")
        for other in row.rows:
            if rows[other].kind == "measurement":
                raise ValueError(f"{name} reads the row {other}: a measurement is for the machine, not for other rows")
    # measurements last: they have no stage in a step's word
    others = {name: row for name, row in rows.items() if row.kind != "measurement"}
    for what, count, most in (
        ("rows", len(others), MOST_ROWS), ("measurements", len(rows) - len(others), MOST_MEASUREMENTS),
    ):  # fmt: skip
        if count > most:
            raise ValueError(f"{count} {what}; at most {most} are allowed")
    return others | rows


def order_of(rows: dict[str, Any]) -> list[str]:
    """The names of all rows, each after those that it reads."""
    done: list[str] = []
    while len(done) < len(rows):
        ready = [n for n, row in rows.items() if n not in done and all(other in done for other in row.rows)]
        if not ready:
            raise ValueError(
                f"{', '.join(n for n in rows if n not in done)}: rows must not read each other in a circle"
            )
        done += ready
    return done


Rows = Annotated[dict[_Name, Row], BeforeValidator(_kinds_known), AfterValidator(_connected)]


def of_channel(rows: dict[str, Row], channel: str) -> tuple[str, Affine | Encoder] | None:
    """The row, with its name, that calibrates this channel alone and can be inverted; None if there is none."""
    for name, row in rows.items():
        if isinstance(row, Affine | Encoder) and row.channels == [channel]:
            return name, row
    return None
