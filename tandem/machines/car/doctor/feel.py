"""How strongly a haptic wheel may render the car on this machine: the loop's delay, measured, and the gain it allows.

A run of the configuration itself, for a few seconds, with no torque on the wheel; from its ledger the delay. From that,
the wheel's own inertia and damping as the configuration states them (`sim.parameters.device_inertia`,
`device_damping`), and what its estimator makes of speed and acceleration, the largest gain at which up to 150 km/h the
wheel's damping covers what sampling, delay and estimator add, and a wheel that is let go comes to rest
(tandem/machines/car/studies/steering/hands_off.py). A wheel without stated damping gets none.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sync.config.config import Config
from sync.config.input_rows import Encoder
from sync.errors import ConfigError
from tandem.doctor import haptics
from tandem.doctor.findings import Case, Finding, passed, warned
from tandem.doctor.haptics import device_delay, shown_share
from tandem.doctor.trial_run import trial_run
from tandem.machines.car.doctor import pedals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tandem.machines.car.studies.iso.vehicle import Vehicle
    from tandem.machines.car.studies.steering.hands_off import Device, Response

CHANNEL, GAIN, LIMIT = "felt_torque", "feel", "feel_limit"
SPEEDS = (50.0, 100.0, 150.0)  # km/h; the gain falls with the speed
MOST = 20.0  # of both parameters


def is_haptic(config: Config, file: Path) -> bool:
    """Whether the torque of a car goes to a wheel that a hand is on."""
    return haptics.is_haptic(config, file, LIMIT)


def _refuse_unheld(config: Config, file: Path) -> None:
    """The limit holds one effort of the machine down; another one would get past it."""
    channel = config.source["effort"].get("channel")
    if channel != CHANNEL:
        raise ConfigError(
            f"{file}: source.effort.channel = {channel!r}: a hand is in this loop, and sim.parameters.{LIMIT} holds"
            f" {CHANNEL!r} alone down: name that, or set sim.parameters.{LIMIT} yourself"
        )


def delay_of(config: Config, file: Path, overrides: list[str], seconds: float = 3.0) -> float:
    """The 99th percentile of the round trip, and the device's own delay, s."""
    still = [f"sim.parameters.{name}=0.0" for name in (LIMIT, *(limit for limit, _, _ in pedals.PEDALS.values()))]
    trip = trial_run(config, file, [*overrides, *still], seconds)["effort"]["round_trip_us"]
    return 1e-6 * float(trip["round_trip"]["p99"]) + device_delay(config)


def largest_gain(responses: "Iterable[Response]", device: "Device", delay: float) -> float:
    """Of a car whose wheel answers so, at each of some speeds: what is passive, unless a car weaves with that."""
    from tandem.machines.car.studies.steering.hands_off import passive_gain, resting_gain

    known = list(responses)
    most = min(passive_gain(each, device, delay) for each in known)
    # what is held down must come to rest as it is then; each speed may hold it down into another's range
    while True:
        held = replace(device, gain=min(device.gain, most))
        resting = min(resting_gain(each, held, delay) for each in known)
        if resting >= most:
            return most
        most = resting


def as_the_loop_feels(responses: "list[Response]", config: Config) -> "list[Response]":
    """With speed and acceleration as the configuration estimates them; where no encoder gives them, as exact."""
    from tandem.machines.car.studies.steering.hands_off import shares

    for row in config.inputs.values():
        if isinstance(row, Encoder) and "steering_acceleration" in row.to:
            step, period = 1e-9 * config.step_ns, 1e-9 * config.period_ns
            step = period if config.source["effort"].get("port") else step  # between steps it follows every sample
            late = shares(row, step, period, responses[0].w)
            return [each.estimated(late) for each in responses]
    return responses


def vehicle_of(config: Config, file: Path) -> "Vehicle":
    """The car of a configuration, without what is its obstacle's and its wheel's."""
    from sim_service.registry import configured
    from tandem.machines.car.studies.iso.vehicle import load_vehicle
    from tandem.machines.car.swerve.description import PARAMETERS

    car = (file.parent / config.sim.machine).parent / configured(config, file.parent).toml()["car"]
    foreign = {p.name for p in PARAMETERS}
    return load_vehicle(car, {name: value for name, value in config.sim.parameters.items() if name not in foreign})


def weaving(responses: "Iterable[Response]", device: "Device", delay: float) -> tuple[float, float] | None:
    """Gains between which a fast car weaves with the wheel, over all speeds; None: it does not."""
    from tandem.machines.car.studies.steering.hands_off import restless_gains

    found = [each for one in responses for each in restless_gains(one, device, delay) if each[1] < MOST]
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


def _limit(config: Config, file: Path, overrides: list[str]) -> "tuple[float, float, tuple[float, float] | None]":
    """(largest gain, delay in s, gains that weave) of a configuration."""
    from sync.compile import build
    from sync.compile.jit import compiling

    own = config.sim.parameters
    inertia, damping = own.get("device_inertia", 0.03), own.get("device_damping", 0.0)
    delay = delay_of(config, file, overrides)
    if damping <= 0.0:
        return 0.0, delay, None
    build.ensure_for("tandem.machines.car.studies.steering.hands_off", "tandem.machines.car.buggy")
    with compiling("iso"):
        from tandem.machines.car.studies.steering.hands_off import Device, H, at_speed, response

        vehicle = vehicle_of(config, file)
    share = shown_share(config)
    requested = own.get(GAIN, 1.0) / share if share else 1.0
    # a port model renders as the car does at its fast step, whatever its own
    sample = 1e-9 * config.step_ns
    device = Device(inertia, damping, requested, min(sample, H) if config.source["effort"].get("port") else sample)
    column = vehicle.values["column_inertia"]
    responses = as_the_loop_feels([response(at_speed(vehicle, speed, column)) for speed in SPEEDS], config)
    weaves = weaving(responses, device, delay)
    return (
        largest_gain(responses, device, delay) * share, delay,
        (weaves[0] * share, weaves[1] * share) if weaves and share else None,
    )  # fmt: skip


def gain(case: Case) -> Finding:
    config = case.config
    if not is_haptic(config, case.file):
        return passed("no hand is on a car's wheel")
    if LIMIT not in config.sim.parameters:
        _refuse_unheld(config, case.file)
    largest, delay, weaves = _limit(config, case.file, list(case.overrides))
    requested = config.sim.parameters.get(GAIN, 1.0)
    until = f"up to {SPEEDS[-1]:.0f} km/h"
    text = f"delay {1e3 * delay:.2f} ms: the largest gain of the steering torque is {largest:.3g} {until}"
    figures = {"delay_us": 1e6 * delay, "largest_gain": largest}
    if not config.sim.parameters.get("device_damping"):
        return warned(text, "state the wheel's own damping in sim.parameters.device_damping", **figures)
    if not shown_share(config):
        return warned(
            text, f"what one unit of this device is in N m is not known: set sim.parameters.{LIMIT} yourself", **figures
        )
    if weaves:
        text += f"; from {weaves[0]:.2g} to {weaves[1]:.2g} a fast car weaves with a wheel that is let go"
    if weaves and weaves[0] < requested < weaves[1]:
        return warned(text, f"set sim.parameters.{GAIN} above {weaves[1]:.2g} or below {weaves[0]:.2g}", **figures)
    if requested > largest:
        return warned(
            f"{text}; sim.parameters.{GAIN} = {requested:g} is held down to that",
            f"lower the gain, or override with sim.parameters.{LIMIT}", **figures,
        )  # fmt: skip
    return passed(text, **figures)


def unlimited(config: Config, file: Path) -> list[str]:
    """Limits that a run measures, for they are not set."""
    own = [LIMIT] if LIMIT not in config.sim.parameters and is_haptic(config, file) else []
    return [*own, *pedals.unlimited(config, file)]


def held_down(config: Config, file: Path, overrides: list[str]) -> tuple[list[str], str]:
    """(settings that hold down what a hand and feet feel of a car, what to say of it); nothing where none is on it, or
    the configuration sets the limits itself."""
    found = [_wheel_held_down(config, file, overrides), pedals.held_down(config, file, overrides)]
    return [each for settings, _ in found for each in settings], "; ".join(text for _, text in found if text)


def _wheel_held_down(config: Config, file: Path, overrides: list[str]) -> tuple[list[str], str]:
    if LIMIT in config.sim.parameters or not is_haptic(config, file):
        return [], ""
    _refuse_unheld(config, file)
    largest, delay, weaves = _limit(config, file, overrides)
    largest = min(largest, MOST)
    warning = f"; with gains from {weaves[0]:.2g} to {weaves[1]:.2g} a fast car weaves when let go" if weaves else ""
    return (
        [f"sim.parameters.{LIMIT}={largest!r}"],
        f"wheel: delay {1e3 * delay:.2f} ms, gain up to {largest:.3g}{warning}",
    )
