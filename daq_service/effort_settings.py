"""`[source.effort]`: how an output of the simulator goes back to the device. Compiles nothing, because sources check it
before anything is compiled."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sync.config.config import Config
from sync.config.input_rows import Encoder
from sync.config.toml import Section
from sync.errors import ConfigError
from sync.ring.block import AGE

_LEAST_SPARE_MS = 2.0  # between the planned zero and the promised one: a thread may wake late


_Three = Annotated[list[str], Field(min_length=3, max_length=3)]


class PortSettings(Section):
    """What a step says of its effort until the next one (daq_service/effort_port.py): channels of a step."""

    input: str  # the row of [inputs] that measures the port's motion, an encoder
    motion: _Three  # what that row gives the machine: angle, speed, acceleration
    ahead: str  # the effort a step later, if the motion goes on at its acceleration
    middle: str = ""  # the effort half a step later; "": it is interpolated linearly between the two
    slopes: _Three  # derivatives of that effort by angle, speed and acceleration


class EffortSettings(Section):
    """The unit of gain, limit and slew is the device's: V, or shares of its full force."""

    channel: str  # an effort of the machine; with the virtual source any channel of a step
    gain: float  # of the device's unit per unit of the channel; its sign too
    limit: float = Field(gt=0)  # the device never gets more than this, either way
    slew: float = Field(gt=0)  # per s: the effort never changes faster
    rate_hz: float = Field(500.0, ge=50, le=10_000)  # between steps, and of a device that Python hands over to
    quantile: float = Field(0.5, ge=0, le=0.999)  # share of steps there at the first poll; 0: polls at set times
    rise_ms: float = Field(0.0, ge=0, le=60_000)  # at the start, and after a silence, until the whole limit is allowed
    stale_after_ms: float = Field(30.0, gt=0, le=1000)  # after so long without a new step the effort begins to fall
    zero_within_ms: float = Field(100.0, gt=0, le=5000)  # after so long without a new step the effort is zero
    displacement: str = ""  # of the port, a channel of a step; "": its energy is not watched
    displacement_gain: float = (
        1.0  # rad or m per unit; positive where a positive effort opposes a positive displacement
    )
    energy_at: Literal["step", "sample"] = "step"  # whether displacements count for steps, or at their sample instants
    delay_ms: float = Field(0.0, ge=0, le=1000)  # that the limits hold for: efforts of older motion are lowered; 0: not
    late_power: int = Field(1, ge=1, le=8)  # lowered by ((half a step + delay) / (half a step + age)) to this power
    damp: bool = False  # whether a passivity controller holds back energy that was not put in
    port: PortSettings | None = None  # what the effort does between steps, at `rate_hz`; None: it holds

    @model_validator(mode="after")
    def _consistent(self) -> "EffortSettings":
        least = self.stale_after_ms + max(10_000.0 / self.rate_hz, 2.0 * _LEAST_SPARE_MS)
        if self.zero_within_ms < least:
            raise ValueError(
                f"zero_within_ms = {self.zero_within_ms:g} leaves no time to ramp down: with stale_after_ms ="
                f" {self.stale_after_ms:g} and rate_hz = {self.rate_hz:g} it must be at least {least:g}"
            )
        if self.damp and not self.displacement:
            raise ValueError("damp = true needs displacement: the channel of a step that says where the port is")
        if self.port and self.displacement and (self.displacement != self.port.motion[0] or self.energy_at != "sample"):
            raise ValueError(
                "with a port model its energy is watched at samples: energy_at must be 'sample', and displacement"
                f" = {self.displacement!r} must be {self.port.motion[0]!r}, or not be set"
            )
        return self

    @property
    def zero_at_ms(self) -> float:
        """From the last step to zero, if it was at the limit: two periods, at least 2 ms, less than is promised."""
        return self.zero_within_ms - max(2000.0 / self.rate_hz, _LEAST_SPARE_MS)

    @property
    def fall(self) -> float:
        """How fast it goes to zero: fast enough to be there in time from the limit."""
        return self.limit / (1e-3 * (self.zero_at_ms - self.stale_after_ms))

    @property
    def wants(self) -> tuple[str, ...]:
        """Outputs of the simulator that it needs."""
        port = (self.port.ahead, *self.port.slopes, *self.port.motion, self.port.middle) if self.port else ()
        return tuple(dict.fromkeys(name for name in (self.channel, self.displacement, *port) if name))


def check_port(config: Config, file: Path, effort: EffortSettings | None) -> None:
    """Raises ConfigError for a port model whose motion nothing in this configuration can track."""
    if effort is None or effort.port is None:
        return
    where, port = f"{file}: source.effort.port", effort.port
    row = config.inputs.get(port.input)
    if not isinstance(row, Encoder):
        there = ", ".join(name for name, each in config.inputs.items() if isinstance(each, Encoder))
        raise ConfigError(
            f"{where}.input = {port.input!r}: must be a row of [inputs] of kind encoder: {there or 'there is none'}"
        )
    if row.estimator not in ("kalman", "edges"):
        raise ConfigError(
            f"{where}.input = {port.input!r}: inputs.{port.input}.estimator = {row.estimator!r} works at steps; between"
            " them it must be 'kalman' or 'edges'"
        )
    if port.motion != list(row.to):
        raise ConfigError(f"{where}.motion = {port.motion}: must be as inputs.{port.input}.to: {list(row.to)}")
    if row.channel + AGE in config.daq.layout.names:
        raise ConfigError(
            f"{where}.input = {port.input!r}: {row.channel} has an age: it must be sampled with its block"
        )
    if effort.rate_hz > config.daq.rate_hz:
        raise ConfigError(
            f"{file}: source.effort.rate_hz = {effort.rate_hz:g}: with a port model it must not be above daq.rate_hz ="
            f" {config.daq.rate_hz:g}, for nothing new is known in between"
        )
