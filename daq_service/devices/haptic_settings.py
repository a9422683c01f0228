"""The settings of the virtual haptic device, apart from its kernels, so that a wrong one is refused before these load.

All quantities are those of its port: m, kg, N, N s/m, N/m for something that is pushed; rad, kg m2, N m and so on for
something that is turned.
"""

import itertools
import math
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from daq_service.devices.contract import DeviceSettings
from daq_service.effort_settings import EffortSettings
from sync.config.toml import Section
from sync.ring.streams import AXIS_EFFORTS

Point = Annotated[list[float], Field(min_length=2, max_length=2)]


class Motion(Section):
    """Where the hand wants to be: straight lines between points [s, position], and a sine upon them."""

    # [s, position], straight lines between them
    points: Annotated[list[Point], Field(min_length=1, max_length=1000)] = [[0.0, 0.0]]
    period: float = Field(0.0, ge=0, le=1e5)  # s, after which the points begin again; 0: the last one holds
    amplitude: float = Field(0.0, ge=-1e3, le=1e3)  # of the sine
    hz: float = Field(1.0, gt=0, le=1000)  # of the sine

    @field_validator("points")
    @classmethod
    def _in_order(cls, points: list[list[float]]) -> list[list[float]]:
        if points[0][0] != 0.0:
            raise ValueError(f"the first point must be at 0 s, not at {points[0][0]:g}")
        for (a, _), (b, _) in itertools.pairwise(points):
            if not round(b * 1e9) > round(a * 1e9):  # instants are whole nanoseconds
                raise ValueError(f"times must rise by a nanosecond at least: {b:.9f} s comes after {a:.9f} s")
        if not all(abs(t) <= 1e5 and abs(r) <= 1e3 for t, r in points):
            raise ValueError("must be within 1e5 s and 1000 m or rad")
        return points

    @model_validator(mode="after")
    def _within_period(self) -> "Motion":
        if self.period and not round(self.period * 1e9) > round(self.points[-1][0] * 1e9):
            raise ValueError(f"period = {self.period:g} s must be longer than the last point's {self.points[-1][0]:g}")
        return self


class Hand(Section):
    """Fixed to the device, with a spring and a damper to where it wants to be. The defaults are a finger (A. Z. Hajian
    and R. D. Howe, 1994)."""

    mass: float = Field(0.02, ge=0, le=100)  # of the hand, that moves with the device
    damping: float = Field(3.75, ge=0, le=1e4)  # to where it wants to be
    stiffness: float = Field(257.0, ge=0, le=1e6)  # to where it wants to be
    bias: float = Field(0.0, ge=-1e5, le=1e5)  # N, a constant force
    motion: Motion = Motion()  # where it wants to be
    rigid: bool = False  # it follows its intended motion, whatever the force
    # [s, factor]: from then on mass, damping and stiffness are multiplied by the factor: a grip that changes
    grips: Annotated[list[Point], Field(max_length=1000)] = []
    pushes: Literal[-1, 0, 1] = 0  # 1, -1: a finger that only pushes that way and may leave the device; 0: fixed to it

    @model_validator(mode="after")
    def _leaves(self) -> "Hand":
        if self.pushes and (self.rigid or not self.mass):
            raise ValueError("pushes: a hand that may leave the device has mass and is not rigid")
        return self

    @model_validator(mode="after")
    def _grips(self) -> "Hand":
        if self.grips and self.rigid:
            raise ValueError("grips: a rigid hand has none")
        if any(not b > a for (a, _), (b, _) in itertools.pairwise(self.grips)):
            raise ValueError("grips: times must rise")
        if not all(0.0 <= t <= 1e5 and 0.0 <= factor <= 1e3 for t, factor in self.grips):
            raise ValueError("grips: must be within 1e5 s and a thousandfold")
        if self.pushes and any(factor == 0.0 for _, factor in self.grips):
            raise ValueError("grips: a hand that may leave the device has mass at any time")
        return self


class Axis(Section):
    """What moves, what measures it, what pushes it, and a hand on it."""

    mass: float = Field(0.3, gt=0, le=1e3)  # of what moves
    damping: float = Field(2.0, ge=0, le=1e4)  # of what moves
    stiffness: float = Field(0.0, ge=0, le=1e6)  # of a return spring
    friction: float = Field(0.0, ge=0, le=1e4)  # N, dry
    encoder_counts: float = Field(5461.0, gt=0, le=2**31)  # in `encoder_deg` of the lever
    encoder_deg: float = Field(5.0, gt=0, le=360)  # see encoder_counts
    lever: float = Field(0.2286, gt=0, le=100)  # m from the pivot to the port; 1 where the port is an angle
    start_count: int = Field(0, ge=-(2**62), le=2**62)  # of the encoder at the beginning
    newton: float = Field(1.0, gt=0)  # N, or N m, of the actuator per unit of the effort
    saturation: float = Field(20.0, ge=0, le=1e5)  # N; 0: none
    bandwidth_hz: float = Field(0.0, ge=0, le=1e5)  # of the actuator, a lag of first order; 0: none
    dead_time_ms: float = Field(0.0, ge=0, le=100)  # until an effort acts
    hand: Hand | None = Hand()  # false: nobody holds it
    effort: EffortSettings | None = None  # [source.effort]: what comes back

    @field_validator("hand", mode="before")
    @classmethod
    def _no_hand(cls, hand: object) -> object:
        return None if hand is False else hand  # hand = false: nobody holds it

    @model_validator(mode="after")
    def _smooth(self) -> "Axis":
        if self.hand is not None and self.hand.pushes and self.friction:
            raise ValueError("hand.pushes: a hand that may leave the device needs friction = 0")
        return self

    @property
    def per_count(self) -> float:
        return math.radians(self.encoder_deg) / self.encoder_counts * self.lever


class _Analogue(Section):
    """A sensor with a converter of its own."""

    volts_per_count: float = Field(1.5e-4, gt=0, le=1e3)  # of its converter
    noise: float = Field(5e-4, ge=0, le=1e3)  # V, of one reading


class Hall(_Analogue):
    """A pair of Hall sensors, their magnets on both sides of the pivot: one comes nearer as the other goes away."""

    front: str  # the channel of the sensor whose magnet comes nearer as the port moves its positive way
    rear: str  # the channel of the other one
    volts: float = Field(4.0, gt=0, le=1e3)  # where magnet and sensor touch
    reach: float = Field(0.03, gt=0, le=10)  # m, in which the field falls to a quarter
    front_gap: float = Field(0.0175, ge=0, le=10)  # m, at position 0
    rear_gap: float = Field(0.008, ge=0, le=10)  # m, likewise


class Coil(_Analogue):
    """A coil in which a magnet on the port moves."""

    channel: str  # of its voltage
    kappa: float = Field(12.0, gt=0, le=1e6)  # V s/m


class Settings(Axis, DeviceSettings):
    kind: str
    position: str = ""  # the channel of the encoder; "": the first one
    force_sensor: str = ""  # the channel of a force sensor between hand and device; "": there is none
    hall: Hall | None = None  # a pair of Hall sensors; none by default
    coil: Coil | None = None  # a coil; none by default
    channels: dict[str, dict[str, float | str]] = {}  # of the others, as the source `waves` has them
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted
    force_per_count: float = Field(1e-3, gt=0)  # N, of the force sensor
    axes: dict[str, Axis] = Field({}, max_length=len(AXIS_EFFORTS))  # further ones, by the channels of their encoders
    own_process: bool = False  # it runs as a process of its own, `tandem device CONFIG`
    watchdog_ms: float = Field(20.0, ge=5, le=5000)  # of that process: zero so long after the effort loop's last beat

    def sensors(self) -> list[tuple[str, str, Hall | Coil]]:
        """Analogue ones: key of the setting, channel, and what it is."""
        found: list[tuple[str, str, Hall | Coil]] = []
        if self.hall is not None:
            found += [("hall.front", self.hall.front, self.hall), ("hall.rear", self.hall.rear, self.hall)]
        return [*found, ("coil.channel", self.coil.channel, self.coil)] if self.coil is not None else found

    @model_validator(mode="after")
    def _first_axis_first(self) -> "Settings":
        for name, axis in self.axes.items():
            if axis.effort and not self.effort:
                raise ValueError(f"axes.{name}.effort needs [source.effort], that of the device's first axis")
            if axis.effort and axis.effort.port:
                raise ValueError(f"axes.{name}.effort.port: only [source.effort] may have a port model")
        return self
