"""How stiff a wall may be by another law than the standard one: computed before a run from its delay, device and hand.

Colgate's bound holds under any passive hand, and for the standard law alone. The others expect a device and a hand
(`port_mass`, `port_damping`, `port_stiffness`), and are stable for hands near that: the limit is the least onset of
chatter (studies/stability.py) over hands whose mass, damping and stiffness are `hand_uncertainty` more or less, and
over the median and the 99th percentile of the delay. The predicting law predicts over the median.
"""

from pathlib import Path

from sync.config.config import Config
from sync.errors import ConfigError
from tandem.doctor import haptics
from tandem.doctor.haptics import Loop, lowered_by_age, shown_share
from tandem.doctor.passivity import Port, together
from tandem.machines.wall.laws import HALF_SAMPLE, NAMES, PENDING, STANDARD
from tandem.machines.wall.machine import PARAMETERS
from tandem.machines.wall.studies import stability


def _value(config: Config, name: str) -> float:
    default = next(each.value for each in PARAMETERS if each.name == name)
    return float(config.sim.parameters.get(name, default))


def device_and_hand(config: Config, file: Path) -> tuple[Port, Port]:
    """As the configuration states them: the device by itself, the hand as what the law expects beside it."""
    mass, damping = _value(config, "device_mass"), _value(config, "device_damping")
    whole = Port(*(_value(config, f"port_{each}") for each in ("mass", "damping", "stiffness")))
    for name, own, most in (("mass", mass, whole.mass), ("damping", damping, whole.damping)):
        if own > most:
            raise ConfigError(
                f"{file}: sim.parameters.device_{name} = {own:g}: must not be more than port_{name} = {most:g}, which"
                " is of device and hand"
            )
    return Port(mass, damping), Port(whole.mass - mass, whole.damping - damping, whole.stiffness)


def limit_of(config: Config, file: Path, loop: Loop) -> tuple[stability.Loop, stability.Limit]:
    """The wall as the law sees it, and how stiff it may be, for a loop as it was measured."""
    law = int(_value(config, "law"))
    device, hand = device_and_hand(config, file)
    period = max(config.period_ns, config.step_ns) * 1e-9
    wall = stability.Loop(
        together(device, hand), period, loop.typical, law if law in stability.LINEAR else HALF_SAMPLE,
        predicted=min(loop.typical, (PENDING - 2) * period), damping=_value(config, "damping"),
        trust=_value(config, "trust"), measured_speed=any("velocity" in row.to for row in config.inputs.values()),
    )  # fmt: skip
    share = _value(config, "hand_uncertainty")
    return wall, stability.limit(wall, device, hand, share, (loop.typical, loop.delay))


def computed(config: Config, file: Path, loop: Loop) -> tuple[list[str], str]:
    """(settings, what to say of them), for a loop as it was measured."""
    law, share = int(_value(config, "law")), _value(config, "hand_uncertainty")
    device, hand = device_and_hand(config, file)
    wall, held = limit_of(config, file, loop)
    stiffest = min(held.stiffness * shown_share(config), stability.MOST)
    power = stability.falls(wall, device, hand, share, held, loop.delay - loop.round_trip)
    settings = [f"stiffness_limit={stiffest!r}", f"damping_limit={abs(_value(config, 'damping'))!r}"]
    settings += [f"law_only={law + 1.0!r}", f"delay={wall.predicted!r}"]
    low, high = (
        _hand(factor * hand.mass, factor * hand.damping, factor * hand.stiffness)
        for factor in (1.0 - share, 1.0 + share)
    )
    requested = _value(config, "stiffness")
    sentence = (
        f"haptic loop at {config.daq.rate_hz:g} Hz, delay {1e6 * loop.delay:.0f} us (median {1e6 * loop.typical:.0f}):"
        f" by the {NAMES[law]} law a wall is stable up to {stiffest:.0f} N/m for hands from {low} to {high};"
        " passive is only claimed of the standard law"
    )
    if requested > stiffest:
        sentence += f"; the {requested:g} N/m asked for are held down to that"
    return [*(f"sim.parameters.{each}" for each in settings), *lowered_by_age(loop, power)], sentence


def _hand(mass: float, damping: float, stiffness: float) -> str:
    return f"{mass:.3g} kg, {damping:.3g} N s/m, {stiffness:.4g} N/m"


def held_down(config: Config, file: Path, overrides: list[str]) -> tuple[list[str], str]:
    """Where something else than a wall by the standard law is shown; what it holds for is measured before."""
    own = config.sim.parameters
    if aside := [
        f"sim.parameters.{name} = {own[name]:g}" for name in ("display", "object", "crossing") if own.get(name)
    ]:
        raise ConfigError(
            f"{file}: {', '.join(aside)}: how stiff is stable is known of impedance control of a wall, with crossings"
            f" at samples (all of them 0); set sim.parameters.{haptics.LIMIT} yourself to show something else to a hand"
        )
    if int(own.get("law", STANDARD)) not in range(len(NAMES)):
        raise ConfigError(f"{file}: sim.parameters.law = {own['law']:g}: must be 0 to {len(NAMES) - 1}")
    return computed(config, file, haptics.measured(config, file, overrides))
