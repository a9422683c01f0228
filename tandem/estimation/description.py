"""Sensors and the filter's uncertainties, as a TOML file has them (configs/observers/*.toml).

[sensors.<name>] is one sensor; it becomes rows, one for each number that it reads (rows.py). Standard deviations are
those of one reading. `bias` is the standard deviation of its offset when it is switched on, `bias_walk` of the offset's
random walk over one second; a sensor with either has a state of the filter for it. Truth and filter share this text:
in an experiment the true offset is drawn from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import cos, inf, radians, sin, sqrt
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sync.config.toml import Section
from sync.errors import ConfigError
from tandem.estimation.contract import Observed
from tandem.estimation.rows import COUNTS, WIDTH, Count, R
from tandem.estimation.satellites import Sky, nominal_almanac, read_yuma

Place = Annotated[list[Annotated[float, Field(ge=-1e3, le=1e3)]], Field(min_length=3, max_length=3)]
Span = Annotated[list[Annotated[float, Field(ge=0, le=1e6)]], Field(min_length=2, max_length=2)]
Positive = Annotated[float, Field(gt=0, le=1e9)]
NotNegative = Annotated[float, Field(ge=0, le=1e9)]
GATE = 25.0  # five standard deviations: once in 1.7 million readings by chance


class _Sensor(Section):
    rate_hz: Positive
    latency_ms: float = Field(0.0, ge=0, le=10_000)
    outages_s: list[Span] = []  # from, to
    gate: float = Field(GATE, gt=0, le=1e6)  # greatest innovation squared over its variance that is used


class Imu(_Sensor):
    """Three axes of specific force and three of rotation, at a place on the body."""

    kind: Literal["imu"]
    on: str = Field("", max_length=64)  # of a mechanism: the body, whose place and axes are as drawn
    place: Place
    force_noise: Positive  # m/s2
    rate_noise: Positive  # rad/s
    force_bias: NotNegative = 0.0
    rate_bias: NotNegative = 0.0
    force_bias_walk: NotNegative = 0.0
    rate_bias_walk: NotNegative = 0.0
    force_range: Positive = 1e6
    rate_range: Positive = 1e6
    misalignment_rad: NotNegative = 0.0  # standard deviation of the true axes about each of theirs
    model_force_noise: NotNegative = 0.0  # beside force_noise, what the filter allows for its model's accelerations
    rough_force_noise: NotNegative = 0.0  # and what more in rough steps (contract.py)


Box = Annotated[list[Annotated[float, Field(ge=-1e6, le=1e6)]], Field(min_length=5, max_length=5)]


class SkyOf(Section):
    """Satellites over a place, and what stands beside the way; the world's x is east, its y north."""

    almanac: str = "nominal"  # or a file in the YUMA format
    time_s: float = Field(43_200.0, ge=0, le=604_800)  # of the GPS week, which begins on Sunday at midnight
    latitude_deg: float = Field(ge=-90, le=90)
    longitude_deg: float = Field(ge=-180, le=180)
    mask_deg: float = Field(10.0, ge=0, lt=90)
    antenna_height: float = Field(1.5, ge=0, le=100)  # m
    buildings: list[Box] = []  # west, south, east, north, height, m


class Gnss(_Sensor):
    """Position and velocity of an antenna, in the world's axes; two dimensions, or three with `height`.

    With a sky, noise is that for a dilution of 1, and every reading has the noise that its satellites give it.
    """

    kind: Literal["gnss"]
    place: Place
    position_noise: Positive  # m, each axis
    velocity_noise: Positive  # m/s
    height: bool = False
    sky: SkyOf | None = None


class Pulses(_Sensor):
    """Encoders: angles that are counted in parts of a turn."""

    kind: Literal["pulses"]
    signals: Annotated[list[str], Field(min_length=1)]
    per_turn: int = Field(ge=1, le=1_000_000)


class Value(_Sensor):
    """One signal as it is: potentiometer, torque, travel, pressure, speed, inclination."""

    kind: Literal["value"]
    signal: str
    place: Place = [0.0, 0.0, 0.0]
    direction: Place = [0.0, 0.0, 0.0]  # of signals that have one: a single gyroscope, an inclinometer
    noise: Positive
    bias: NotNegative = 0.0
    bias_walk: NotNegative = 0.0
    quantum: NotNegative = 0.0
    low: float = -1e12
    high: float = 1e12


KINDS: dict[str, type[_Sensor]] = {"imu": Imu, "gnss": Gnss, "pulses": Pulses, "value": Value}


class Walk(Section):
    """Of one state of the filter, in its unit: at the start, and of its random walk over one second.

    `rough`: of the walk beside that one in rough steps (contract.py), whose transition is not quite the step's.
    """

    start: NotNegative
    walk: NotNegative = 0.0
    rough: NotNegative = 0.0


class Earned(Walk):
    """Of an estimated quantity: its bounds, if they are narrower than the machine's; and how much the motion must
    excite it (`excited_at`, contract.py) before anything is learnt of it, or it walks."""

    low: float = -inf
    high: float = inf
    earned: float = Field(0.0, ge=0, le=1)


@dataclass(frozen=True)
class Bias:
    name: str
    start: float
    walk: float


@dataclass(frozen=True)
class Sensors:
    names: tuple[str, ...]  # of the rows
    sensor: tuple[str, ...]  # of each row, the sensor it belongs to
    rows: np.ndarray
    counts: np.ndarray  # the integers of each row
    biases: tuple[Bias, ...]
    outages: tuple[tuple[tuple[int, int], ...], ...]  # of each row, in steps
    misalignment: np.ndarray  # of each row, rad
    noise: np.ndarray  # of each row: what a true reading has, without quantum and model
    skies: dict[str, tuple[Sky, float]]  # of sensors that have one: it and the antenna's height


def read_sensors(tables: dict[str, Any], observed: Observed, h: float, where: str) -> Sensors:
    """Rows of all sensors; `tables` are those below [sensors], checked against their kind."""
    from sync.config.toml import check

    rows = _Rows(observed, h, where)
    for name, table in tables.items():
        kind = table.get("kind") if isinstance(table, dict) else None
        if kind not in KINDS:
            raise ConfigError(f"{where}: sensors.{name}.kind = {kind!r}: must be one of {', '.join(KINDS)}")
        rows.add(name, check(KINDS[kind], table, f"{where}: sensors.{name}"))
    if not rows.rows:
        raise ConfigError(f"{where}: sensors: none; at least one [sensors.<name>] is needed")
    return Sensors(
        tuple(rows.names), tuple(rows.sensor), np.array(rows.rows), np.array(rows.counts, np.int32),
        tuple(rows.biases), tuple(rows.outages),
        np.array(rows.misalignment), np.array(rows.noise), rows.skies,
    )  # fmt: skip


class _Rows:
    def __init__(self, observed: Observed, h: float, where: str):
        self.signals = [q.name for q in observed.signals]
        self.h, self.where = h, where
        self.names: list[str] = []
        self.sensor: list[str] = []
        self.rows: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self.biases: list[Bias] = []
        self.outages: list[tuple[tuple[int, int], ...]] = []
        self.misalignment: list[float] = []
        self.noise: list[float] = []
        self.skies: dict[str, tuple[Sky, float]] = {}

    def add(self, name: str, sensor: Any) -> None:
        getattr(self, f"_{sensor.kind}")(name, sensor)

    def _imu(self, name: str, s: Imu) -> None:
        carriers = [one.removesuffix("_specific_force") for one in self.signals if one.endswith("_specific_force")]
        if s.on not in carriers and (s.on or carriers):
            raise ConfigError(
                f"{self.where}: sensors.{name}.on = {s.on!r}: must be one of {', '.join(carriers)}"
                if carriers
                else f"{self.where}: sensors.{name}.on = {s.on!r}: this machine is one body; leave it out"
            )
        for signal, noise, bias, walk, most, beside in (
            ("specific_force", s.force_noise, s.force_bias, s.force_bias_walk, s.force_range, s.model_force_noise),
            ("rate", s.rate_noise, s.rate_bias, s.rate_bias_walk, s.rate_range, 0.0),
        ):
            for k, axis in enumerate("xyz"):
                direction = [float(k == i) for i in range(3)]
                seen = f"{s.on}_{signal}" if s.on else signal
                self._row(
                    name, s, seen, f"{name}.{signal}_{axis}", s.place, direction, noise, bias, walk, 0.0, -most, most,
                    beside, s.misalignment_rad, s.rough_force_noise if signal == "specific_force" else 0.0,
                )  # fmt: skip

    def _gnss(self, name: str, s: Gnss) -> None:
        if s.sky is not None:
            sky, file = s.sky, Path(self.where).parent / s.sky.almanac
            orbits = nominal_almanac() if sky.almanac == "nominal" else read_yuma(file)
            boxes = np.array(sky.buildings, float).reshape(-1, 5)
            place = radians(sky.latitude_deg), radians(sky.longitude_deg), radians(sky.mask_deg)
            self.skies[name] = Sky(orbits, sky.time_s, *place, boxes), sky.antenna_height
        for signal, noise in (("position", s.position_noise), ("velocity", s.velocity_noise)):
            for k, axis in enumerate("xyz" if s.height else "xy"):
                direction = [float(k == i) for i in range(3)]
                self._row(name, s, signal, f"{name}.{signal}_{axis}", s.place, direction, noise)

    def _pulses(self, name: str, s: Pulses) -> None:
        for signal in s.signals:
            self._row(name, s, signal, f"{name}.{signal}", quantum=2.0 * np.pi / s.per_turn)

    def _value(self, name: str, s: Value) -> None:
        self._row(
            name, s, s.signal, name, s.place, s.direction, noise=s.noise, bias=s.bias, walk=s.bias_walk,
            quantum=s.quantum, low=s.low, high=s.high,
        )  # fmt: skip

    # long: one row of the table of readings, number by number
    def _row(
        self, name: str, sensor: _Sensor, signal: str, called: str, place: Any = (0, 0, 0), direction: Any = (0, 0, 0),
        noise: float = 0.0, bias: float = 0.0, walk: float = 0.0, quantum: float = 0.0, low: float = -inf,
        high: float = inf, beside: float = 0.0, misalignment: float = 0.0, rough: float = 0.0,
    ) -> None:  # fmt: skip
        if signal not in self.signals:
            raise ConfigError(
                f"{self.where}: sensors.{name}: signal {signal!r}: must be one of {', '.join(self.signals)}"
            )
        period = 1.0 / (sensor.rate_hz * self.h)
        if abs(period - round(period)) > 1e-6 or round(period) < 1:
            raise ConfigError(
                f"{self.where}: sensors.{name}.rate_hz = {sensor.rate_hz:g}: must divide the rate of the steps,"
                f" {1.0 / self.h:g} Hz"
            )
        row, counts = np.zeros(WIDTH), np.zeros(COUNTS, np.int64)
        counts[Count.SIGNAL] = self.signals.index(signal)
        row[R.PLACE : R.PLACE + 3], row[R.DIRECTION : R.DIRECTION + 3] = place, direction
        row[R.NOISE] = sqrt(noise**2 + quantum**2 / 12.0 + beside**2)
        counts[Count.BIAS] = -1
        if bias > 0.0 or walk > 0.0:
            counts[Count.BIAS] = len(self.biases)
            self.biases.append(Bias(called, bias, walk))
        row[R.QUANTUM], row[R.LOW], row[R.HIGH] = quantum, low, high
        counts[Count.PERIOD], counts[Count.LATENCY] = round(period), round(sensor.latency_ms * 1e-3 / self.h)
        row[R.GATE], row[R.ROUGH] = sensor.gate, rough
        self.names.append(called)
        self.sensor.append(name)
        self.rows.append(row)
        self.counts.append(counts)
        self.outages.append(tuple((round(a / self.h), round(b / self.h)) for a, b in sensor.outages_s))
        self.misalignment.append(misalignment)
        self.noise.append(noise)


def rotated(direction: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """An axis after small turns about x, y and z."""
    out = np.asarray(direction, float)
    for k in range(3):
        a, b = (k + 1) % 3, (k + 2) % 3
        c, s = cos(angles[k]), sin(angles[k])
        moved = out.copy()
        moved[a], moved[b] = c * out[a] - s * out[b], s * out[a] + c * out[b]
        out = moved
    return out


def spread(walks: Mapping[str, Walk], names: list[str], where: str) -> np.ndarray:
    """Standard deviations of these states, three rows: at the start, of the walk, of that in rough steps."""
    out = np.zeros((3, len(names)))
    out[0] = np.nan
    for pattern, value in walks.items():
        fits = [i for i, name in enumerate(names) if fnmatchcase(name, pattern)]
        if not fits:
            raise ConfigError(f"{where}.{pattern}: fits none of {', '.join(names)}")
        out[0, fits], out[1, fits], out[2, fits] = value.start, value.walk, value.rough
    missing = [names[i] for i in np.flatnonzero(np.isnan(out[0]))]
    if missing:
        raise ConfigError(f"{where}: nothing is said of {', '.join(missing)}; each needs a start")
    return out
