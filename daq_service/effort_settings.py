"""`[source.effort]`: how an output of the simulator goes back to the device. Compiles nothing, for sources check it
before anything is compiled."""

from typing import Literal

from pydantic import Field, model_validator

from sync.toml import Section

_LEAST_SPARE_MS = 2.0  # between the planned zero and the promised one: a thread may wake late


class EffortSettings(Section):
    """The unit of gain, limit and slew is the device's: V, or shares of its full force."""

    channel: str  # an effort of the machine; with the virtual source any channel of a step
    gain: float
    limit: float = Field(gt=0)
    slew: float = Field(gt=0)
    rate_hz: float = Field(500.0, ge=50, le=10_000)  # between steps, and of a device that Python hands over to
    rise_ms: float = Field(0.0, ge=0, le=60_000)  # at the start, and after a silence, until the whole limit is allowed
    stale_after_ms: float = Field(30.0, gt=0, le=1000)
    zero_within_ms: float = Field(100.0, gt=0, le=5000)
    displacement: str = ""  # of the port, a channel of a step; "": its energy is not watched
    displacement_gain: float = (
        1.0  # rad or m per unit; positive where a positive effort opposes a positive displacement
    )
    energy_at: Literal["step", "sample"] = "step"  # whether displacements count for steps, or at their sample instants
    damp: bool = False  # whether a passivity controller holds back energy that was not put in

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
        return self

    @property
    def zero_at_ms(self) -> float:
        """After the last step, from the limit: two periods of the device before what is promised, 2 ms at least."""
        return self.zero_within_ms - max(2000.0 / self.rate_hz, _LEAST_SPARE_MS)

    @property
    def fall(self) -> float:
        """How fast it goes to zero: in time from the limit."""
        return self.limit / (1e-3 * (self.zero_at_ms - self.stale_after_ms))

    @property
    def wants(self) -> tuple[str, ...]:
        """Outputs of the simulator."""
        return (self.channel, self.displacement) if self.displacement else (self.channel,)
