"""What FMI says beside a variable's name: its unit in base units of the SI, and the terminals a tool connects by name.

Two terminals of the rule `bus` are connected member by member, by the members' names. A machine has two: `inputs`, and
`outputs`; their members are called as the machine calls its quantities, whatever the variables of the FMU are called.
"""

import math
import re
from xml.sax.saxutils import quoteattr

from sim_service.contract.machine import Machine, Quantity

TERMINALS = "terminalsAndIcons/terminalsAndIcons.xml"
_BASE = ("kg", "m", "s", "A", "K", "rad")
# a unit's exponents of these, and how many of theirs it is
_UNITS: dict[str, tuple[tuple[int, ...], float]] = {
    **{base: (tuple(int(base == each) for each in _BASE), 1.0) for base in _BASE},
    "1": ((0, 0, 0, 0, 0, 0), 1.0), "N": ((1, 1, -2, 0, 0, 0), 1.0), "J": ((1, 2, -2, 0, 0, 0), 1.0),
    "W": ((1, 2, -3, 0, 0, 0), 1.0), "Pa": ((1, -1, -2, 0, 0, 0), 1.0), "bar": ((1, -1, -2, 0, 0, 0), 1e5),
    "Hz": ((0, 0, -1, 0, 0, 0), 1.0), "V": ((1, 2, -3, -1, 0, 0), 1.0), "rpm": ((0, 0, -1, 0, 0, 1), math.pi / 30),
    "deg": ((0, 0, 0, 0, 0, 1), math.pi / 180), "mm": ((0, 1, 0, 0, 0, 0), 1e-3), "ms": ((0, 0, 1, 0, 0, 0), 1e-3),
    "ns": ((0, 0, 1, 0, 0, 0), 1e-9), "kN": ((1, 1, -2, 0, 0, 0), 1e3), "%": ((0, 0, 0, 0, 0, 0), 0.01),
}  # fmt: skip
_WORD = re.compile(r"([A-Za-z%]+|1)(\d?)")


def base_unit(unit: str) -> tuple[tuple[int, ...], float] | None:
    """Exponents of kg, m, s, A, K, rad, and the factor; None for a unit that is not known."""
    above, slash, below = unit.partition("/")
    exponents, factor = [0] * len(_BASE), 1.0
    for part, sign in ((above, 1), (below.strip("()"), -1)) if slash else ((above, 1),):
        for word in part.split():
            match = _WORD.fullmatch(word)
            if match is None or match[1] not in _UNITS:
                return None
            each, times = _UNITS[match[1]]
            power = sign * int(match[2] or 1)
            exponents = [a + power * b for a, b in zip(exponents, each, strict=True)]
            factor *= times**power
    return tuple(exponents), factor


def unit_element(unit: str, prefix: str = "") -> str:
    """As FMI and SSP have it; `prefix`: of the elements' names."""
    found = base_unit(unit)
    if found is None:
        return f"<{prefix}Unit name={quoteattr(unit)}/>"
    exponents, factor = found
    named = "".join(f' {base}="{power}"' for base, power in zip(_BASE, exponents, strict=True) if power)
    scaled = f' factor="{factor!r}"' if factor != 1.0 else ""
    return f"<{prefix}Unit name={quoteattr(unit)}><{prefix}BaseUnit{named}{scaled}/></{prefix}Unit>"


def variable_names(machine: Machine) -> tuple[list[str], list[str]]:
    """What inputs and outputs are called in an FMU: names are distinct there, a second one has `_out` behind it."""
    taken = {"time"}
    return [distinct(q.name, taken) for q in machine.inputs], [distinct(q.name, taken) for q in machine.outputs]


def distinct(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_out"
    taken.add(name)
    return name


def terminals(machine: Machine) -> str:
    """terminalsAndIcons.xml."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<fmiTerminalsAndIcons fmiVersion="3.0">', "  <Terminals>"]
    inputs, outputs = variable_names(machine)
    for name, quantities, variables in (
        ("inputs", machine.inputs, inputs), ("outputs", machine.outputs, outputs),
    ):  # fmt: skip
        if quantities:
            lines += [f'    <Terminal name="{name}" matchingRule="bus" terminalKind="tandem.signals">']
            lines += [_member(q, variable) for q, variable in zip(quantities, variables, strict=True)]
            lines += ["    </Terminal>"]
    return "\n".join([*lines, "  </Terminals>", "</fmiTerminalsAndIcons>", ""])


def _member(quantity: Quantity, variable: str) -> str:
    names = f"variableName={quoteattr(variable)} memberName={quoteattr(quantity.name)}"
    return f'      <TerminalMemberVariable {names} variableKind="signal"/>'
