"""How stiff a wall may be on this machine: the delay and rate of a haptic loop, measured with a wall of no stiffness.

A run of the configuration itself, for a few seconds, in processes of its own: sample, step, effort, hand-over. From its
ledger the delay (99th percentile of the round trip, and the device's own dead time and lag), from its counters the
rate.
What stays passive under any hand is Colgate's bound with that delay: b > K (T/2 + delay) + |B|, b the device's own
damping as the configuration states it (`sim.parameters.device_damping`); not stated, no wall is passive.
"""

import importlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daq_service.devices import moves_hand
from sync.config.config import Config
from sync.errors import ConfigError
from tandem import brought
from tandem.doctor.findings import Case, Check, Finding, Rows, failed, passed, warned
from tandem.doctor.trial_run import trial_run

LIMIT = "stiffness_limit"  # the parameter by which a machine holds every stiffness down
ASIDE = ("display", "law", "crossing")  # other than 0 they are not what Colgate's bound is of


@dataclass(frozen=True)
class Loop:
    """As measured."""

    rate_hz: float
    delay: float  # s
    typical: float  # s, the median
    passive: float  # N/m
    round_trip: float = 0.0  # s: of the delay, without what the device adds


def is_haptic(config: Config, file: Path, limit: str = LIMIT) -> bool:
    """Whether a hand is in its loop, and its machine has that limit."""
    if not moves_hand(config):
        return False
    from sim_service.registry import configured_machine

    machine, _ = configured_machine(config, file.parent)
    return limit in {each.name for each in machine.parameters}


def measured(config: Config, file: Path, overrides: list[str], seconds: float = 3.0) -> Loop:
    """Raises ConfigError where the run itself does not come about."""
    still = ["sim.parameters.stiffness=0.0", "sim.parameters.damping=0.0", f"sim.parameters.{LIMIT}=0.0"]
    found = trial_run(config, file, [*overrides, *still], seconds)
    trip = found["effort"]["round_trip_us"]["round_trip"]
    dead = device_delay(config)
    delay = 1e-6 * trip["p99"] + dead
    from tandem.doctor.passivity import passive

    parameters = config.sim.parameters
    own, of_wall = parameters.get("device_damping", 0.0), parameters.get("damping", 0.0)
    stiffest = passive(own, of_wall, max(config.period_ns, config.step_ns) * 1e-9, delay) * shown_share(config)
    return Loop(found["steps"] / seconds, delay, 1e-6 * trip["p50"] + dead, min(stiffest, 1e6), 1e-6 * trip["p99"])


def device_delay(config: Config, axis: dict[str, Any] | None = None) -> float:
    """What the actuator adds to the loop's delay, s: its dead time, and its lag, which to a spring is as much delay."""
    of = config.source if axis is None else axis
    bandwidth = float(of.get("bandwidth_hz", 0.0))
    lag = 1.0 / (2.0 * math.pi * bandwidth) if bandwidth > 0.0 else 0.0
    return 1e-3 * float(of.get("dead_time_ms", 0.0)) + lag


def shown_share(config: Config, axis: dict[str, Any] | None = None) -> float:
    """The machine's force over the device's force; 0 where that ratio is unknown, or has the wrong sign."""
    if config.source.get("kind") != "haptic":
        return 0.0
    of = config.source if axis is None else axis
    ratio = of["effort"].get("gain", 0.0) * of.get("newton", 1.0)
    return 1.0 / ratio if ratio > 0.0 else 0.0


def in_words(config: Config, loop: Loop) -> str:
    return (
        f"loop at {config.daq.rate_hz:g} Hz, delay {1e6 * loop.delay:.0f} us (median {1e6 * loop.typical:.0f}): the"
        f" stiffest wall that stays passive is {loop.passive:.0f} N/m"
    )


def loop(case: Case) -> Finding:
    config = case.config
    if not moves_hand(config):
        return passed("no hand is in this loop")
    if not is_haptic(config, case.file):
        return passed("no stiffness of this machine has a limit")
    found = measured(config, case.file, list(case.overrides), min(max(case.seconds, 1.0), 5.0))
    figures = {"rate_hz": found.rate_hz, "delay_us": 1e6 * found.delay, "passive_stiffness": found.passive}
    text, stiffness = in_words(config, found), config.sim.parameters.get("stiffness", 1000.0)
    if not config.sim.parameters.get("device_damping"):
        return warned(
            text, "state the device's own damping in sim.parameters.device_damping; `tandem study wall --decay RUN`"
            " measures it", **figures,
        )  # fmt: skip
    if not shown_share(config):
        return warned(
            text, f"what one unit of this device is in N is not known: set sim.parameters.{LIMIT} yourself", **figures
        )
    if found.rate_hz < 0.98e9 / config.step_ns:
        return failed(f"only {found.rate_hz:.0f} steps a second; {text}", "choose a longer sim.step_ms", **figures)
    if stiffness > found.passive:
        return warned(
            f"{text}; sim.parameters.stiffness = {stiffness:g} is held down to that",
            f"lower the stiffness, or override with sim.parameters.{LIMIT}", **figures,
        )  # fmt: skip
    return passed(text, **figures)


def held_down(config: Config, file: Path, overrides: list[str]) -> tuple[list[str], str]:
    """(settings that hold the stiffness of a haptic run down to what stays passive, what to say of it); nothing where
    no hand is in the loop, or the configuration sets the limit itself."""
    own = config.sim.parameters
    if LIMIT in own or not is_haptic(config, file):
        return [], ""
    if len(config.efforts) > 1:
        raise ConfigError(
            f"{file}: source.axes: how stiff stays passive is known of one axis; set sim.parameters.{LIMIT} yourself"
        )
    aside = [f"sim.parameters.{name} = {own[name]:g}" for name in ASIDE if own.get(name)]
    if aside and (of_machine := _of_machine(config, file)):
        return of_machine.held_down(config, file, overrides)  # type: ignore[no-any-return]
    if aside:
        raise ConfigError(
            f"{file}: {', '.join(aside)}: how stiff stays passive is known of impedance control with the standard law"
            f" (all of them 0); set sim.parameters.{LIMIT} yourself to show something else to a hand"
        )
    found = measured(config, file, overrides)
    stiffness = own.get("stiffness", 1000.0)
    held = f"; the {stiffness:g} N/m asked for are held down to that" if stiffness > found.passive else ""
    settings = [f"{LIMIT}={found.passive!r}", f"damping_limit={abs(own.get('damping', 0.0))!r}", "passive_only=1.0"]
    return [
        *(f"sim.parameters.{each}" for each in settings), *lowered_by_age(found, 1)
    ], f"haptic {in_words(config, found)}{held}"  # fmt: skip


def lowered_by_age(loop: Loop, power: int) -> list[str]:
    """Settings by which an effort of older motion than the limit holds for is lowered at once."""
    return [f"source.effort.delay_ms={1e3 * loop.round_trip!r}", f"source.effort.late_power={power}"]


def _of_machine(config: Config, file: Path) -> Any:
    """What its machine knows of its own laws; None: nothing."""
    from sim_service.registry import configured_machine

    name = configured_machine(config, file.parent)[0].name
    return importlib.import_module(brought.HAPTIC[name]) if name in brought.HAPTIC else None


def unlimited(config: Config, file: Path) -> list[str]:
    """Limits that a run measures, for they are not set."""
    return [LIMIT] if LIMIT not in config.sim.parameters and is_haptic(config, file) else []


ROWS = Rows((Check("haptic loop", loop),), unlimited, held_down)
