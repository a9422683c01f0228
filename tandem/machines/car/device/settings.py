"""The settings of the virtual source, apart from its kernels: a mistyped one is refused before any is loaded."""

from pydantic import Field

from daq_service.devices.contract import DeviceSettings
from daq_service.effort_settings import EffortSettings


class Settings(DeviceSettings):
    moves_hand = False
    takes_any_effort = True

    kind: str
    manoeuvre: str  # file of what the driver does
    seed: int = Field(1, ge=1)  # of the noise
    clock_ppm: float = Field(0.0, ge=-10_000, le=10_000)  # by how much the device's crystal is off
    start_offset_ms: float = Field(0.0, ge=0, le=10_000)  # so much later its first sample
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted
    encoder_deg_per_count: float = Field(0.18, gt=0)  # of the hand wheel
    encoder_bits: int = Field(16, ge=8, le=32)  # of its register
    steering_start_count: int = 65_530  # so that every drive crosses the wrap of the register
    throttle_start_count: int = 65_500  # likewise, of the throttle
    throttle_full_counts: float = Field(420.0, gt=0)  # from released to pressed
    brake_full_bar: float = Field(40.0, gt=0)  # at brake_full_counts
    brake_full_counts: float = Field(32_767.0, gt=0)  # of the converter
    brake_noise_counts: float = Field(4.0, ge=0)  # standard deviation
    brake_offset_counts: float = -3.0  # without pressure
    effort: EffortSettings | None = None  # to an actuator that moves nothing
