"""Numbers of a mechanism's file as parameters of the machine that is made of it.

    [named]
    mass = { at = "bodies.coupler.mass", unit = "kg", low = 0.5, high = 5.0 }
    across = { at = "bodies.coupler.inertia.1", low = 1e-3, high = 1.0 }          an entry of a list, from 0

They shape the machine: another value is another machine. A run, a sweep, an identification changes them as parameters
of any machine.
"""

import copy
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
from pydantic import Field

from sim_service.contract.machine import Parameter
from sync.config.toml import Section
from sync.errors import ConfigError

MOST = 1e12  # of any number; it is part of messages and of other tools' files, and so not infinite


class Named(Section):
    at: str = Field(pattern=r"^[^.]+(\.[^.]+)+$")  # keys of the mechanism's file, with dots between them
    unit: str = "1"
    low: float = Field(-MOST, ge=-MOST, le=MOST)
    high: float = Field(MOST, ge=-MOST, le=MOST)


def parameters_of(
    named: Mapping[str, Named], content: dict[str, Any], where: str, path: str, taken: Container[str] = ()
) -> tuple[Parameter, ...]:
    """With the values that the mechanism's file has."""
    found, places = [], dict[str, str]()
    for name, each in named.items():
        if not (name.isascii() and name.isidentifier()) or name in taken:
            why = "is a parameter of the control" if name in taken else "must be of letters (a to z), digits and _"
            raise ConfigError(f"{where}: named.{name}: {why}; choose another name")
        if (other := places.setdefault(each.at, name)) != name:
            raise ConfigError(f"{where}: named.{name}: {each.at} is named {other} already; leave one of them out")
        if each.low >= each.high:
            raise ConfigError(f"{where}: named.{name}: low = {each.low:g} must be less than high = {each.high:g}")
        value = at(content, each.at, f"{where}: named.{name}.at", path)
        if not each.low <= value <= each.high:
            raise ConfigError(
                f"{where}: named.{name}: {each.at} is {value:g} in {path}; must be from {each.low:g} to {each.high:g}"
            )
        found.append(Parameter(name, each.unit, value, each.low, each.high, f"{each.at} of the file", live=False))
    return tuple(found)


def at(content: dict[str, Any], keys: str, where: str, path: str) -> float:
    holder, last = _holder(content, keys, where, path)
    value = holder[last]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{where} = {keys!r}: is {value!r} in {path}; must be a number")
    return float(value)


def with_values(content: dict[str, Any], named: Mapping[str, Named], values: np.ndarray, path: str) -> dict[str, Any]:
    """A copy of the file's contents with other numbers."""
    changed = copy.deepcopy(content)
    for each, value in zip(named.values(), values.tolist(), strict=True):
        holder, last = _holder(changed, each.at, "named", path)
        holder[last] = value
    return changed


def _holder(content: Any, keys: str, where: str, path: str) -> tuple[Any, Any]:
    """The table or list that has the last of these keys, and that key."""
    *way, last = keys.split(".")
    here: Any = content
    for key in way:
        here = here[_key(here, key, keys, where, path)]
    return here, _key(here, last, keys, where, path)


def _key(here: Any, key: str, keys: str, where: str, path: str) -> Any:
    if isinstance(here, dict) and key in here:
        return key
    if isinstance(here, list) and key.isdecimal() and int(key) < len(here):
        return int(key)
    there = ", ".join(here) if isinstance(here, dict) else f"0 to {len(here) - 1}" if isinstance(here, list) else "none"
    raise ConfigError(f"{where} = {keys!r}: there is no {key!r} in {path}; there are {there}")
