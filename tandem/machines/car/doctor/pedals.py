"""How stiff haptic pedals may be on this machine: Colgate's bound with the loop's delay as measured, as of a wall.

A pedal is a spring to the foot: the force it gains on its way, `brake_pedal_rate` and friction of the car's brake, the
throttle's spring and friction. `brake_pedal_limit` and `throttle_pedal_limit` hold that down, whatever is set while it
runs. What a metre of the pedal is in bar, or of full throttle, is known of the virtual device by its encoder and its
row of [inputs]; of others it is not, and their limit is 0 unless it is set.
"""

import math
from pathlib import Path
from typing import Any

from daq_service.devices import moves_hand
from sync.config.config import Config
from sync.config.input_rows import Affine
from sync.errors import ConfigError
from tandem.doctor import haptics
from tandem.doctor.findings import Case, Finding, passed, warned
from tandem.doctor.haptics import device_delay, shown_share
from tandem.doctor.trial_run import trial_run

WHEEL_LIMIT = "feel_limit"  # that the machine of this car has, too
# the efforts of pedals: the limit of each, the machine's input that its pedal gives, and the largest limit there is
PEDALS = {
    "felt_brake": ("brake_pedal_limit", "brake_pressure_bar", 1e4),
    "felt_throttle": ("throttle_pedal_limit", "throttle", 1e5),
}


def pedals_of(config: Config, file: Path) -> dict[str, tuple[str, str]]:
    """By the effort that it feels: stream and channel of each pedal that a foot is on."""
    found: dict[str, tuple[str, str]] = {}
    for stream, (key, effort) in config.efforts.items() if moves_hand(config) else ():
        channel, first = effort.get("channel", ""), key == "source.effort"
        if first and channel not in PEDALS:
            continue
        if (first or channel not in PEDALS or channel in found) and haptics.is_haptic(config, file, WHEEL_LIMIT):
            raise ConfigError(
                f"{file}: {key}.channel = {channel!r}: a foot is in this loop, and limits are known of"
                f" {', '.join(PEDALS)} on one axis each (source.axes.NAME.effort)"
            )
        if not first and channel in PEDALS:
            found[channel] = stream, key.split(".")[2]
    return found


def unlimited(config: Config, file: Path) -> list[str]:
    """Limits that a run measures, for they are not set."""
    return [limit for name in pedals_of(config, file) if (limit := PEDALS[name][0]) not in config.sim.parameters]


def stiffest(config: Config, axis: dict[str, Any], channel: str, wanted: str, delay: float) -> float:
    """The limit of a pedal: N per unit of the machine's input `wanted`; 0 where it is not known."""
    from daq_service.devices.haptic_settings import Axis
    from tandem.doctor.passivity import passive

    row = next((r for r in config.inputs.values() if isinstance(r, Affine) and wanted in r.to), None)
    share = shown_share(config, axis)
    if row is None or list(row.channels) != [channel] or not share:
        return 0.0
    settings = Axis.model_validate(axis)
    per_metre = abs(row.full / row.full_counts) / settings.per_count
    spring = passive(settings.damping, 0.0, max(config.period_ns, config.step_ns) * 1e-9, delay)
    return min(spring * share / per_metre, math.inf)


def _limits(config: Config, file: Path, overrides: list[str]) -> dict[str, tuple[float, float]]:
    """(limit, delay in s) of each pedal, by its effort."""
    pedals = pedals_of(config, file)
    still = [f"sim.parameters.{limit}=0.0" for limit, _, _ in PEDALS.values()]
    result = trial_run(config, file, [*overrides, f"sim.parameters.{WHEEL_LIMIT}=0.0", *still], 3.0)
    found = {}
    for name, (stream, channel) in pedals.items():
        axis, (_, wanted, most) = config.source["axes"][channel], PEDALS[name]
        trip = result["axis_efforts"][stream]["round_trip_us"]["round_trip"]
        delay = 1e-6 * float(trip["p99"]) + device_delay(config, axis)
        found[name] = min(stiffest(config, axis, channel, wanted, delay), most), delay
    return found


def _in_words(found: dict[str, tuple[float, float]]) -> str:
    units = {"felt_brake": "N/bar", "felt_throttle": "N from released to full"}
    each = [f"{n} up to {most:.3g} {units[n]} (delay {1e3 * delay:.2f} ms)" for n, (most, delay) in found.items()]
    return f"pedals: {', '.join(each)}"


def pedals(case: Case) -> Finding:
    if not pedals_of(case.config, case.file):
        return passed("no foot is on a pedal with a force")
    found = _limits(case.config, case.file, list(case.overrides))
    figures = {PEDALS[name][0]: most for name, (most, _) in found.items()}
    if unknown := [PEDALS[name][0] for name, (most, _) in found.items() if not most]:
        return warned(
            _in_words(found),
            f"damping, or unit, of this device is not known: set sim.parameters.{unknown[0]} yourself",
            **figures,
        )
    return passed(_in_words(found), **figures)


def held_down(config: Config, file: Path, overrides: list[str]) -> tuple[list[str], str]:
    """(settings that hold the stiffness of haptic pedals down, what to say of it); nothing where no foot is on one, or
    the configuration sets the limits itself."""
    missing = unlimited(config, file)
    if not missing:
        return [], ""
    found = _limits(config, file, overrides)
    limits = {PEDALS[name][0]: most for name, (most, _) in found.items()}
    return [f"sim.parameters.{limit}={limits[limit]!r}" for limit in missing], _in_words(found)
