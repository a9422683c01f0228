"""modelDescription.xml of an FMU, as far as a machine needs it: one that is malformed is refused, never half read.

It is read in pieces, and of it only what is named below is kept: what a file of thirty kilobytes unpacks to, millions
of elements, attributes or names, costs no memory before it is refused.
"""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from sync.errors import ConfigError, near_names
from sync.ring.block import RESERVED_NAMES

MOST_XML = 32 << 20  # bytes
_DEPTH, _MOST_ELEMENTS, _MOST_RETAINED, _MOST_NAMES = 64, 500_000, 50_000, 10_000
_LONGEST_TAG = 1 << 20  # bytes, with its attributes
_PIECE = 1 << 16
# elements that are kept, by their depth, and the attributes of them that are
_KINDS = ("CoSimulation", "ModelExchange", "ScheduledExecution")
_RETAINED = {2: (*_KINDS, "TypeDefinitions", "ModelVariables"), 4: ("Real", "Dimension")}
_CAUSALITIES = ("input", "output", "parameter")  # variables of others are nothing to a machine
_ATTRIBUTES = frozenset((
    "fmiVersion", "modelName", "version", "generationTool", "description", "instantiationToken", "guid",
    "modelIdentifier", "canGetAndSetFMUState", "canGetAndSetFMUstate", "canSerializeFMUState", "canSerializeFMUstate",
    "name", "valueReference", "causality", "variability", "declaredType", "unit", "start", "min", "max",
))  # fmt: skip
_REAL = {3: "Float64", 2: "Real"}
_BIG = 1e12  # a limit where the FMU gives none


@dataclass(frozen=True)
class Variable:
    name: str  # of the FMU
    reference: int
    unit: str
    text: str
    causality: str
    variability: str
    start: float | None
    low: float
    high: float
    scalar: bool  # and a float: the others keep their start


@dataclass(frozen=True)
class Description:
    version: int  # 2, 3
    token: str
    model: str
    identifier: str
    keeps_state: bool  # get, set and serialise
    variables: tuple[Variable, ...]  # inputs, outputs and parameters
    about: dict[str, str]  # what its maker writes of it: names and texts, not checked


def read_description(xml: bytes, where: str) -> Description:
    """Raises ConfigError that names what is wrong."""
    root = _parsed(xml, where)
    if root.tag != "fmiModelDescription":
        raise ConfigError(f"{where}: begins with {root.tag!r}; fmiModelDescription is expected")
    version = {"3": 3, "2": 2}.get(root.get("fmiVersion", "").partition(".")[0])
    if version is None:
        raise ConfigError(f"{where}: fmiVersion = {root.get('fmiVersion')!r}: 3.0 and 2.0 are read")
    kind = root.find("CoSimulation")
    if kind is None:
        there = [name for name in _KINDS if root.find(name) is not None]
        raise ConfigError(f"{where}: is for {', '.join(there) or 'nothing'}; one for CoSimulation is needed")
    token = root.get("instantiationToken" if version == 3 else "guid")
    identifier = kind.get("modelIdentifier", "")
    if not token or not re.fullmatch(r"[A-Za-z_]\w*", identifier, re.ASCII):
        raise ConfigError(f"{where}: has no token, or modelIdentifier = {identifier!r} is no identifier")
    noun = "FMUState" if version == 3 else "FMUstate"
    keeps = all(kind.get(f"{verb}{noun}") in ("true", "1") for verb in ("canGetAndSet", "canSerialize"))
    about = {key: root.get(key, "") for key in ("fmiVersion", "version", "generationTool", "description")}
    return Description(
        version, token, root.get("modelName", identifier), identifier, keeps, _variables(root, version, where), about
    )


def _parsed(xml: bytes, where: str) -> ET.Element:
    """The elements of `_RETAINED`, as they stand inside each other."""
    if len(xml) > MOST_XML:
        raise ConfigError(f"{where}: {len(xml)} bytes; at most {MOST_XML} are read")
    names: dict[str, str] = {}  # every name of an element or an attribute, kept by the parser
    parser = expat.ParserCreate("utf-8", None, names)
    root = ET.Element("")
    open_elements: list[ET.Element | None] = []  # None: not kept, and so is nothing in it
    elements = retained = 0

    def refuse(why: str) -> None:
        raise ConfigError(f"{where}: {why}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal elements, retained
        elements += 1
        depth = len(open_elements) + 1
        if depth > _DEPTH:
            refuse(f"more than {_DEPTH} elements inside each other; that is no FMU")
        if elements > _MOST_ELEMENTS:
            refuse(f"more than {_MOST_ELEMENTS} elements; that is no FMU")
        if len(names) > _MOST_NAMES:
            refuse(f"elements and attributes with more than {_MOST_NAMES} different names; that is no FMU")
        above = open_elements[-1] if open_elements else None
        if depth > 1 and (above is None or not _is_retained(depth, above.tag, tag, attributes)):
            open_elements.append(None)
            return
        retained += 1
        if retained > _MOST_RETAINED:
            refuse(f"more than {_MOST_RETAINED} inputs, outputs, parameters and types; that is more than is read")
        element = root if above is None else ET.SubElement(above, tag)
        element.tag = tag
        element.attrib.update((key, value) for key, value in attributes.items() if key in _ATTRIBUTES)
        open_elements.append(element)

    def end(tag: str) -> None:
        open_elements.pop()

    def doctype(*_: Any) -> None:
        refuse("has a document type, which no FMU needs; it is not read")

    parser.StartElementHandler, parser.EndElementHandler, parser.StartDoctypeDeclHandler = start, end, doctype
    try:
        for at in range(0, len(xml), _PIECE):
            parser.Parse(xml[at : at + _PIECE], False)
            if at - parser.CurrentByteIndex > _LONGEST_TAG:
                refuse(f"a tag, or a comment, of more than {_LONGEST_TAG >> 20} MiB; that is no FMU")
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise ConfigError(f"{where}: is no XML: {error}") from None
    return root


def _is_retained(depth: int, above: str, tag: str, attributes: Mapping[str, str]) -> bool:
    if depth == 3 and above == "ModelVariables":
        return attributes.get("causality") in _CAUSALITIES
    if depth == 3:
        return above == "TypeDefinitions" and tag in ("Float64Type", "SimpleType")
    return tag in _RETAINED.get(depth, ())


def _variables(root: ET.Element, version: int, where: str) -> tuple[Variable, ...]:
    types = {}
    for element in (*root.findall("TypeDefinitions/Float64Type"), *root.findall("TypeDefinitions/SimpleType")):
        real = element if version == 3 else element.find("Real")
        if real is not None:
            types[element.get("name", "")] = real.attrib
    found = []
    for element in root.findall("ModelVariables/*"):
        real = element if version == 3 else element.find("Real")
        scalar = real is not None and (version == 2 or (element.tag == _REAL[3] and element.find("Dimension") is None))
        own = dict(real.attrib) if real is not None else {}
        both = {**types.get(own.get("declaredType", ""), {}), **own}
        name = element.get("name", "")
        at = f"{where}: {name}"
        try:
            reference = int(element.attrib["valueReference"])
        except (KeyError, ValueError):
            raise ConfigError(f"{at}: valueReference = {element.get('valueReference')!r}: must be a number") from None
        if not 0 <= reference < 1 << 32:
            raise ConfigError(f"{at}: valueReference = {reference}: must be below 2**32")
        start = _number(both, "start", at, math.nan) if scalar else math.nan
        found.append(
            Variable(
                name, reference, both.get("unit", "1"), element.get("description", ""),
                element.get("causality", "local"), element.get("variability", "continuous"),
                None if math.isnan(start) else start,
                _number(both if scalar else {}, "min", at, -_BIG),
                _number(both if scalar else {}, "max", at, _BIG), scalar,
            )
        )  # fmt: skip
    return tuple(found)


def _number(attributes: Mapping[str, str], key: str, at: str, default: float) -> float:
    try:
        return float(attributes.get(key, default))
    except ValueError:
        raise ConfigError(f"{at}: {key} = {attributes[key]!r}: must be a number") from None


def chosen(
    variables: tuple[Variable, ...], causality: str, names: Mapping[str, str] | None, where: str
) -> dict[str, Variable]:
    """Variables of that causality by our names: those that a file maps, or all that are scalars of floats."""
    of_kind = {v.name: v for v in variables if v.causality == causality}
    key = f"{causality}s"
    if names is None:
        found: dict[str, Variable] = {}
        for variable in (v for v in of_kind.values() if v.scalar):
            name = channel_name(variable.name)
            if name in found:
                raise ConfigError(
                    f"{where}: {key}: {found[name].name!r} and {variable.name!r} would both be called {name}; give them"
                    f" names, [{key}] NAME = {variable.name!r}"
                )
            found[name] = variable
        return found
    for name, variable_name in names.items():
        at = f"{where}: {key}.{name} = {variable_name!r}"
        if channel_name(name) != name:
            raise ConfigError(f"{at}: {name!r} cannot be the name of a channel; {channel_name(name)} could")
        if variable_name not in of_kind:
            near = near_names(variable_name, of_kind, 3) or list(of_kind)[:8]
            raise ConfigError(f"{at}: no {causality} of this FMU; there are {', '.join(near) or 'none'}")
        if not of_kind[variable_name].scalar:
            raise ConfigError(f"{at}: is an array or no float; scalars of {_REAL[3]} ({_REAL[2]}) can be taken")
    return {name: of_kind[variable_name] for name, variable_name in names.items()}


def channel_name(name: str) -> str:
    """As channels and columns are called: letters, digits and underscores."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:60] or "unnamed"
    found = f"v_{found}" if found[0].isdigit() else found
    return f"{found}_" if found in RESERVED_NAMES else found
