"""A mechanism file as a machine, for an FMU: in relative coordinates, with the integrator of its file.

Refused by name is what the run of the file shows: other coordinates become independent on the way, which is done
between two steps by code that no FMU has.
"""

from pathlib import Path

import numpy as np

from sync.errors import ConfigError
from tandem.fmu.build import Exchange
from tandem.mechanism.run import load
from tandem.multibody.natural.errors import AssemblyError, MechanismError
from tandem.multibody.relative.machine import Equation
from tandem.multibody.relative.run import METHODS, Runner
from tandem.offline.model import Model


def mechanism_model(path: Path) -> tuple[Model, Exchange, float]:
    """And the step of its file in seconds. Raises ConfigError where it cannot be made."""
    described, state = load(path, formulation="relative")
    chosen = described.file.run
    try:
        runner = Runner(state, chosen.scheme)
        start = runner.state.copy()
        runner.run(chosen.seconds, 1e-3 * chosen.step_ms, every=chosen.steps, strict=False)
    except (MechanismError, AssemblyError, ValueError) as error:
        raise ConfigError(f"{path}: no FMU in relative coordinates: {error}") from None
    if runner.partitions:
        raise ConfigError(
            f"{path}: no FMU: other coordinates become independent {runner.partitions} times in its run of"
            f" {chosen.seconds:g} s, which is done between two steps; an FMU has one set of them"
        )
    one = Equation(runner.system, described.mechanism, start)
    exchange = Exchange(one.continuous, one.continuous, one.without_rates)
    machine = one.machine(described.file.name, METHODS[chosen.scheme])
    return Model(machine, np.zeros(0)), exchange, 1e-3 * chosen.step_ms
