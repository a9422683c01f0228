"""Machines, devices, and what a machine brings beside itself, by name: our own, and those that other installed packages
declare as entry points.

A package declares one in its own pyproject.toml,

    [project.entry-points."tandem.machines"]
    mass_spring = "my_package.mass_spring"

and it is found by that name once the package is installed. Nothing of it is imported before it is asked for. Names of
our own come first: no package can take them over.
"""

import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sync.compile.faults import sentence
from sync.errors import ConfigError

MACHINES, DEVICES = "tandem.machines", "tandem.devices"  # tables of ours: sim_service/registry.py, daq_service/devices
OBSERVED = "tandem.observed"  # sim_service/registry.py
COMMANDS, DOCTOR, MANOEUVRES, REPORTS = "tandem.commands", "tandem.doctor", "tandem.manoeuvres", "tandem.reports"


def known(group: str, own: Mapping[str, str]) -> list[str]:
    """Every name there is, our own first."""
    return [*own, *sorted({point.name for point in entry_points(group=group)} - set(own))]


def load(group: str, own: Mapping[str, str], name: Any, where: str, has: tuple[str, ...] = ()) -> Any:
    """The module of a name, which must have the names in `has`. `where` is the setting, for the messages."""
    if isinstance(name, str) and name in own:
        return importlib.import_module(own[name])
    found = [point for point in entry_points(group=group) if point.name == name]
    if not found:
        raise ConfigError(f"{where} = {name!r}: must be one of {', '.join(known(group, own))}")
    if len({point.value for point in found}) > 1:
        raise ConfigError(f"{where} = {name!r}: declared by {' and by '.join(_package(p) for p in found)}; remove one")
    try:
        module = found[0].load()
    except ConfigError:
        raise
    except Exception as error:  # whatever a package of others does when it is imported
        raise ConfigError(
            f"{where} = {name!r}: {_package(found[0])} declares it as {found[0].value}, which cannot be imported:"
            f" {sentence(error)}"
        ) from error
    for each in has:
        if not hasattr(module, each):
            raise ConfigError(
                f"{where} = {name!r}: {_package(found[0])} declares it as {found[0].value}: has no {each}"
            )
    return module


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "a package"
