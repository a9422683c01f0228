"""A system of machines as an SSP 1.0: their FMUs, and the connections between them, by name.

An output is connected to every input of the same name of another component, as the terminals of the FMUs say it. An
input that several could give is refused, for nothing says which.
"""

import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from sim_service.contract.machine import Machine, Quantity
from sync.errors import ConfigError
from tandem.fmu.build import put, write_fmu
from tandem.fmu.description import identifier
from tandem.fmu.layered import unit_element, variable_names
from tandem.fmu.platforms import HOST
from tandem.fmu.sources import load_source
from tandem.records.exchange.atomic_files import written_atomically

_SPACES = "http://ssp-standard.org/SSP1/SystemStructure"


@dataclass(frozen=True)
class Component:
    name: str
    machine: Machine

    @property
    def inputs(self) -> list[tuple[str, Quantity]]:
        """Variables of its FMU."""
        return list(zip(variable_names(self.machine)[0], self.machine.inputs, strict=True))

    @property
    def outputs(self) -> list[tuple[str, Quantity]]:
        return list(zip(variable_names(self.machine)[1], self.machine.outputs, strict=True))


@dataclass(frozen=True)
class Connection:
    giver: str
    variable: str
    taker: str
    input: str


def connections(components: Sequence[Component]) -> list[Connection]:
    """Of every input that another component gives; raises ConfigError where two do."""
    found = []
    for taker in components:
        for variable, quantity in taker.inputs:
            givers = [
                (giver.name, out, q)
                for giver in components
                if giver is not taker
                for out, q in giver.outputs
                if q.name == quantity.name
            ]
            if len(givers) > 1:
                names = " and ".join(name for name, *_ in givers)
                raise ConfigError(f"{taker.name}.{quantity.name}: {names} have an output of that name; leave one out")
            for name, out, q in givers:
                if q.unit != quantity.unit:
                    raise ConfigError(
                        f"{taker.name}.{quantity.name}: is in {quantity.unit}, that of {name} in {q.unit}"
                    )
                found.append(Connection(name, out, taker.name, variable))
    return found


def description(name: str, components: Sequence[Component], joined: Sequence[Connection]) -> str:
    """SystemStructure.ssd."""
    used = {q.unit for c in components for _, q in (*c.inputs, *c.outputs) if q.unit not in ("", "1")}
    spaces = f'xmlns:ssd="{_SPACES}Description" xmlns:ssc="{_SPACES}Common"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<ssd:SystemStructureDescription {spaces} name={quoteattr(name)} version="1.0">',
        f"  <ssd:System name={quoteattr(name)}>", "    <ssd:Elements>",
    ]  # fmt: skip
    connected = {(each.taker, each.input) for each in joined}
    for component in components:
        # what nobody gives and the machine computes itself is nothing to connect
        inputs = [(v, q) for v, q in component.inputs if not q.optional or (component.name, v) in connected]
        source = quoteattr(f"resources/{component.name}.fmu")
        lines += [
            f'      <ssd:Component name={quoteattr(component.name)} type="application/x-fmu-sharedlibrary"'
            f' source={source} implementation="CoSimulation">',
            "        <ssd:Connectors>",
            *(_connector(variable, "input", q) for variable, q in inputs),
            *(_connector(variable, "output", q) for variable, q in component.outputs),
            "        </ssd:Connectors>", "      </ssd:Component>",
        ]  # fmt: skip
    lines += ["    </ssd:Elements>", "    <ssd:Connections>"]
    lines += [
        f"      <ssd:Connection startElement={quoteattr(each.giver)} startConnector={quoteattr(each.variable)}"
        f" endElement={quoteattr(each.taker)} endConnector={quoteattr(each.input)}/>"
        for each in joined
    ]
    lines += ["    </ssd:Connections>", "  </ssd:System>", "  <ssd:Units>"]
    lines += [f"    {unit_element(unit, 'ssc:')}" for unit in sorted(used)]
    lines += ["  </ssd:Units>", '  <ssd:DefaultExperiment startTime="0"/>', "</ssd:SystemStructureDescription>", ""]
    if not used:
        lines = [line for line in lines if "ssd:Units" not in line]
    return "\n".join(lines)


def _connector(variable: str, kind: str, quantity: Quantity) -> str:
    unit = f" unit={quoteattr(quantity.unit)}" if quantity.unit not in ("", "1") else ""
    return f'          <ssd:Connector name={quoteattr(variable)} kind="{kind}"><ssc:Real{unit}/></ssd:Connector>'


def write_ssp(
    name: str, machines: Mapping[str, str], step_s: float, out: Path, tool: str, platforms: Sequence[str] = (HOST,)
) -> dict[str, Any]:
    """`machines`: of each component, by its name: what `tandem fmu` takes. Raises ConfigError."""
    if len(machines) < 2:
        raise ConfigError("ssp: two components at least are expected, such as car=buggy driver=driver")
    loaded = {called: load_source(machine, {}) for called, machine in machines.items()}
    components = [Component(called, each.machine) for called, (each, *_) in loaded.items()]
    for component in components:
        if component.name != identifier(component.name):
            raise ConfigError(f"{component.name}: a component's name has letters, digits and _, such as car")
    joined = connections(components)
    if not joined:
        raise ConfigError(f"ssp: no output of {', '.join(machines)} has the name of an input of another")
    with (
        tempfile.TemporaryDirectory() as folder,
        written_atomically(out) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        put(archive, "SystemStructure.ssd", description(name, components, joined).encode())
        for called, (each, exchange, _) in loaded.items():
            file = Path(folder) / f"{called}.fmu"
            write_fmu(each, called, step_s, file, tool, platforms, exchange)
            put(archive, f"resources/{called}.fmu", file.read_bytes())
    return {
        "ssp": str(out), "components": {c.name: c.machine.name for c in components}, "step_s": step_s,
        "connections": [f"{each.giver}.{each.variable} -> {each.taker}.{each.input}" for each in joined],
    }  # fmt: skip
