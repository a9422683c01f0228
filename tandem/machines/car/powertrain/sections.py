"""What `[powertrain]` of a vehicle file may say: an engine, or a motor, or both; gears, axles, brakes."""

import itertools
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sync.config.toml import Section
from tandem.machines.car.powertrain.layout import MOST_POINTS

Row = Annotated[list[float], Field(min_length=2, max_length=MOST_POINTS)]
Pair = Annotated[list[float], Field(min_length=2, max_length=2)]  # with the pedal released and pressed
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]


def _rises(name: str, values: list[float]) -> None:
    if any(a >= b for a, b in itertools.pairwise(values)):
        raise ValueError(f"{name} must rise")


class Engine(Section):
    """Torque at the crankshaft: of full pedal and of none, or of a map, a row for each of the pedal's places."""

    rpm: Row
    full: Row | None = None  # N m
    drag: Row | None = None  # N m, with the pedal released: below 0
    pedal: Row | None = None  # 0 to 1, of the rows of `torque`
    torque: Annotated[list[Row], Field(min_length=2, max_length=40)] | None = None
    inertia: Positive = 0.15  # kg m2, crankshaft, flywheel and what turns with them
    response_s: Annotated[float, Field(ge=0, le=3)] = 0.1  # lag of its torque behind the pedal
    idle_rpm: Annotated[float, Field(ge=300, le=3000)] = 800.0
    limit_rpm: Annotated[float, Field(gt=0)] | None = None  # where the pedal loses its effect; the last of `rpm`

    @model_validator(mode="after")
    def _whole(self) -> Self:
        _rises("rpm", self.rpm)
        if (self.torque is None) == (self.full is None):
            raise ValueError("give full and drag, or pedal and torque")
        rows = self.torque if self.torque is not None else [self.drag or [], self.full or []]
        pedal = [0.0, 1.0] if self.torque is None else self.pedal or []
        _rises("pedal", pedal)
        if len(pedal) != len(rows) or pedal[:1] != [0.0] or pedal[-1:] != [1.0]:
            raise ValueError("pedal must go from 0 to 1, a value for each row of torque")
        if any(len(row) != len(self.rpm) for row in rows):
            raise ValueError(f"each row of torque needs {len(self.rpm)} values, one for each of rpm")
        if not max(rows[0]) < max(rows[-1]):
            raise ValueError("the pressed pedal must give more torque than the released one")
        return self

    def rows(self) -> tuple[list[float], list[list[float]]]:
        """Places of the pedal, and torque over rpm at each."""
        if self.torque is not None and self.pedal is not None:
            return self.pedal, self.torque
        return [0.0, 1.0], [self.drag or [], self.full or []]


class Coupling(Section):
    """Between engine and gearbox: a converter, which may be locked, or a clutch, which somebody engages well."""

    kind: Literal["converter", "clutch"] = "converter"
    capacity: Positive = 2.4e-3  # N m s2, pump torque per squared speed at stall
    stall_ratio: Annotated[float, Field(ge=1, le=4)] = 2.0
    coupling: Annotated[float, Field(ge=0.5, le=0.99)] = 0.87
    locks_from_gear: Annotated[int, Field(ge=1)] = 99  # of a converter
    locks_at: Share = 0.9  # turbine speed over pump speed, from which it is locked
    most: Positive = 1000.0  # N m, of the clutch, or of the converter's own
    engages_rpm: Positive = 300.0  # above idle speed, at which a clutch is fully engaged


class Gearbox(Section):
    ratios: Annotated[list[Positive], Field(min_length=1, max_length=12)]
    final: Positive
    efficiency: Annotated[float, Field(ge=0.5, le=1)] = 0.95
    up_rpm: Pair | Annotated[list[Pair], Field(min_length=1, max_length=12)] = [2000.0, 5500.0]
    down_rpm: Pair | Annotated[list[Pair], Field(min_length=1, max_length=12)] = [1100.0, 2500.0]
    shift_s: Annotated[float, Field(gt=0, le=3)] = 0.3
    pause_s: Annotated[float, Field(ge=0, le=10)] = 0.5

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if any(a <= b for a, b in itertools.pairwise(self.ratios)):
            raise ValueError("ratios must fall from first gear to last")
        gears = len(self.ratios)
        for name in ("up_rpm", "down_rpm"):
            if len(self.pairs(name)) != max(gears - 1, 1):
                raise ValueError(f"{name} must be one pair, or {gears - 1}: of shifts between {gears} gears")
        for up, down in zip(self.pairs("up_rpm"), self.pairs("down_rpm"), strict=True):
            if up[0] <= down[0] or up[1] <= down[1]:
                raise ValueError(f"up_rpm {up} must be above down_rpm {down}, else it shifts to and fro")
        return self

    def pairs(self, name: str) -> list[list[float]]:
        """Of every shift, in rpm of the gearbox's input in the lower of its gears."""
        speeds: list[list[float]] = getattr(self, name)
        if isinstance(speeds[0], list):
            return speeds
        return [speeds] * max(len(self.ratios) - 1, 1)


class Differential(Section):
    """Between the wheels of an axle, of the car that has them; docs/driveline.md."""

    lock: Annotated[float, Field(ge=0, le=1e6)] = 0.0  # N m s/rad: 0 open, 1e5 locked
    preload: Annotated[float, Field(ge=0, le=1000)] = 0.0  # N m, with which its plates are pressed without torque
    bias: Share = 0.0  # most difference of both wheels' torques, per sum of them, under drive
    bias_coast: Share = 0.0  # the same where the wheels drive the engine


class Axles(Section):
    front: Share = 0.0  # of the torque: 0 rear-wheel drive, 1 front, between them all wheels
    lock: Annotated[float, Field(ge=0, le=5000)] = 0.0  # N m s/rad between the axles: 0 open, 3000 locked
    bias: Share = 0.0  # most difference of the axles' torques that plates make, per torque
    front_axle: Differential = Differential()  # of the multibody car, as is the next one
    rear_axle: Differential | None = None  # without it, that of the parameters `differential_*`


class Motor(Section):
    """An electric machine with one ratio, without a coupling."""

    torque: Positive  # N m, at most
    power_kw: Positive
    ratio: Positive = 1.0  # to the wheels
    front: Share = 0.0  # of its torque
    efficiency: Annotated[float, Field(ge=0.5, le=1)] = 0.92
    regeneration: Annotated[float, Field(ge=0)] = 0.0  # N m at the motor with both pedals released
    regeneration_pedal: Annotated[float, Field(ge=0)] = 0.0  # N m more at the full brake pedal


class Brakes(Section):
    pedal_bar: Positive = 100.0  # of the full pedal
    booster_knee: Share = 1.0  # of the pedal: beyond it the booster gives no more
    booster_rest: Share = 0.3  # of the slope, that is left there
    lag_s: Annotated[float, Field(ge=0, le=1)] = 0.05
    abs: bool = True


class Powertrain(Section):
    engine: Engine | None = None
    coupling: Coupling = Coupling()
    gearbox: Gearbox | None = None
    drive: Axles = Axles()
    motor: Motor | None = None
    brakes: Brakes = Brakes()

    @model_validator(mode="after")
    def _moved(self) -> Self:
        if self.engine is None and self.motor is None:
            raise ValueError("give an engine, a motor, or both")
        if (self.engine is None) != (self.gearbox is None):
            raise ValueError("an engine needs a gearbox, and a gearbox an engine; a motor has a ratio of its own")
        return self
