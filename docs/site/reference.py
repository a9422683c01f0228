"""Pages of the reference, made from the tables that the programs themselves use; nothing here is written by hand."""

import inspect
import re
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import keys
from pydantic import BaseModel

# what a machine is made from where its name alone does not say it
_FILES = {
    "omni": "omni/mecanum", "observer": "observers/tilting_live", "buggy": "vehicles/buggy",
    "single_track": "vehicles/buggy_single_track", "swerve": "vehicles/swerve", "kart": "vehicles/kart",
    "mechanism": "robot/arm",
    "tilting_vehicle": "vehicles/tilting", "kart_vehicle": "vehicles/kart_on_track",
}  # fmt: skip
_OF_OTHERS = {
    "fmu": "Inputs, outputs and parameters are those of the FMU ([FMU](../fmu.md)).",
    "sensed": "A machine with virtual sensors around it: what the machine inside has, and a `reading_…` and an `age_…`"
    " of each sensor ([observers](../observers.md)).",
}


def pages() -> dict[str, str]:
    return {
        "reference/commands.md": commands(),
        "reference/exit_codes.md": exit_codes(),
        "reference/extras.md": extras(),
        "reference/configuration.md": configuration(),
        "reference/sources.md": sources(),
        "reference/channels.md": channels(),
        "reference/machines.md": machines(),
        "reference/library.md": library(),
        "reference/contracts.md": contracts(),
    }


def _row(*cells: object) -> str:
    return (
        "| "
        + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for cell in cells)
        + " |"
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(head)
    return [_row(*head), _row(*["---"] * len(head)), *(_row(*row) for row in rows), ""]


# ---- the command line ------------------------------------------------------------------------------------------------


def commands() -> str:
    import typer

    from tandem.commands.cli import app
    from tandem.commands.described import described

    lines = ["# Commands", ""]
    for command in described(typer.main.get_command(app)):
        lines += [f"## tandem {command.name}", "", f"    {command.synopsis}", "", command.text, ""]
        rows = [(f"`{o.shown}`", o.text, f"`{o.default}`" if o.default else "") for o in command.options]
        lines += _table(("", "what", "default"), rows) if rows else []
    return "\n".join(lines)


def exit_codes() -> str:
    from tandem.reports.outcome import EXIT_CODES

    rows = [(code, text[:1].upper() + text[1:]) for code, text in EXIT_CODES.items()]
    return "\n".join(["# Exit codes", "", "`$?` behind every command.", "", *_table(("code", "meaning"), rows)])


def extras() -> str:
    from sync.config.extras import DISTRIBUTION, USES, packages

    rows = [(f"`{name}`", text, ", ".join(f"`{each}`" for each in packages(name))) for name, text in USES.items()]
    head = f"`pip install '{DISTRIBUTION}[page,can]'` installs two of them. A command that needs one says which."
    return "\n".join(["# Extras", "", head, "", *_table(("extra", "what needs it", "packages"), rows)])


# ---- configuration ---------------------------------------------------------------------------------------------------


def configuration() -> str:
    from sync.config.config import Config
    from sync.config.input_rows import KINDS

    lines = ["# Configuration keys", "", "Errors are reported before anything starts, with file, key and value.", ""]
    lines += _section("At the top", Config, "", inner=True, leave=("source", "inputs"))
    lines += ["## [source]", "", "By its `kind`: [sources](sources.md).", ""]
    lines += ["## [inputs.NAME], by kind", ""]
    for kind, section in KINDS.items():
        lines += [f"### kind = {kind}", "", *_about(section)]
        lines += _keys(section, f"inputs {kind}", skip=("stale",))
    from sync.config.input_rows import Stale

    lines += ["### [inputs.NAME.stale]", "", *_about(Stale), *_keys(Stale, "inputs stale")]
    return "\n".join(lines)


def sources() -> str:
    from daq_service.effort_settings import EffortSettings, PortSettings

    lines = ["# Sources", "", "Keys of `[source]`, by its `kind`. What each is for: [devices](../devices.md).", ""]
    for kind, settings in keys.source_settings().items():
        own = ("effort",) if "effort" in settings.model_fields and _tables(settings, "effort") else ()
        lines += _section(f'kind = "{kind}"', settings, "source", inner=True, leave=own)
    lines += ["## [source.effort]", "", *_about(EffortSettings), *_keys(EffortSettings, "source.effort")]
    lines += ["## [source.effort.port]", "", *_about(PortSettings), *_keys(PortSettings, "source.effort.port")]
    return "\n".join(lines)


def _section(
    title: str, section: type[Any], table: str, inner: bool = False, leave: tuple[str, ...] = (), depth: int = 2
) -> list[str]:
    """Its keys, then the tables inside it."""
    tables = {key: found for key in section.model_fields if key not in leave and (found := _tables(section, key))}
    lines = [f"{'#' * depth} {title}", "", *(_about(section) if table else [])]
    lines += _keys(section, table, skip=(*leave, *tables))
    for key, found in tables.items() if inner else ():
        name = f"{table}.{key}".lstrip(".")
        for each, text in found:
            below = 2 if not table else 3
            lines += _section(f"[{name}]{text}", each, name, True, leave, below)
    return lines


def _tables(section: type[Any], key: str) -> list[tuple[type[Any], str]]:
    """Sections that a key holds, and how they are told apart where there are several."""
    found: list[type[Any]] = []
    for each in _parts(section.model_fields[key].annotation):
        if isinstance(each, type) and issubclass(each, BaseModel) and each not in found:
            found.append(each)
    many = len(found) > 1
    return [(each, f", {each.__name__.lower()}" if many else "") for each in found]


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in typing.get_args(annotation):
        yield from _parts(inner)


def _about(section: type[Any]) -> list[str]:
    own = section.__dict__.get("__doc__")
    return [" ".join(inspect.cleandoc(own).split()), ""] if own and not own.startswith("!!!") else []


_IN_TOML = {"array": "list", "object": "table", "null": "left out"}  # words of JSON's schema
_PYTHON = {int: "integer", float: "number", str: "string", bool: "boolean"}


def _kinds(entry: dict[str, Any]) -> list[str]:
    found = [entry] if "type" in entry else entry.get("anyOf", [])
    return [_IN_TOML.get(each.get("type", "table"), each.get("type", "table")) for each in found]


def _kinds_of(annotated: Any) -> list[str]:
    """Of what is checked by a function of its own: a schema says nothing of it."""
    if typing.get_origin(annotated) is Literal:
        return [f"`{value}`" for value in typing.get_args(annotated)]
    if annotated in _PYTHON:
        return [_PYTHON[annotated]]
    return [kind for part in typing.get_args(annotated) for kind in _kinds_of(part)]


def _number(value: float) -> str:
    return f"{value:.15g}" if abs(value) < 1e9 else f"{value:g}"


def _keys(section: type[Any], table: str, skip: tuple[str, ...] = ()) -> list[str]:
    entries = section.model_json_schema()["properties"]
    names = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    rows = []
    for key, entry in entries.items():
        if key in skip:
            continue
        annotated = section.model_fields[key].annotation
        kind = " or ".join(dict.fromkeys(_kinds(entry) or _kinds_of(annotated))) or "table"
        limits = [f"{sign} {_number(entry[name])}" for name, sign in names.items() if name in entry]
        limits += [f"`{each}`" for each in entry.get("enum", ())]
        default = entry["default"] if "default" in entry and not isinstance(entry["default"], dict) else ""
        shown = f"`{default}`" if default not in ("", [], None) else ""
        meaning = keys.meaning(section, table, key)
        if key == "kind" and not meaning:
            kind, limits, meaning = "string", [], "Which kind it is."
        rows.append((f"`{key}`", meaning, kind, shown, ", ".join(limits)))
    return _table(("key", "what", "type", "default", "limits"), rows) if rows else []


# ---- records and machines --------------------------------------------------------------------------------------------


def channels() -> str:
    from daq_service.effort_record import LAYOUT as EFFORT
    from sim_service.command_record import LAYOUT as COMMAND
    from sim_service.contract.step_channels import STEP_CHANNELS
    from sync.record.ros2msg import HEADER_NOTES
    from sync.ring.block import Layout
    from tandem.records.descriptions import describe

    lines = ["# Channels and status bits", "", "## The header of every block", ""]
    lines += _table(("field", "unit", "what"), [(f"`{name}`", *entry) for name, entry in HEADER_NOTES.items()])
    for topic, layout in (("/step", Layout(STEP_CHANNELS)), ("/effort", EFFORT), ("/command", COMMAND)):
        described = describe(None)(topic, layout)
        lines += [f"## {topic}", "", described.about, ""]
        rows = [(f"`{c.name}`", c.type, c.unit, described.channels.get(c.name, "")) for c in layout.channels]
        lines += _table(("channel", "type", "unit", "what"), rows)
        for channel, values in described.constants.items():
            lines += [f"Values of `{channel}`:", ""]
            lines += _table(("value", "name", "what"), [(v, f"`{n}`", text) for n, (v, text) in values.items()])
    return "\n".join(lines)


def machines() -> str:
    """All of the registry (sim_service/registry.py)."""
    from sim_service.registry import MACHINES
    from tandem.offline.model import load_machine

    lines = ["# Machines", "", "What each declares; a run, its record, its page and its FMU are made from it.", ""]
    for name in MACHINES:
        lines += [f"## {name}", ""]
        if name in _OF_OTHERS:
            lines += [_OF_OTHERS[name], ""]
            continue
        model = load_machine(_FILES.get(name, name))
        machine, values = model.description()
        if name in _FILES:
            lines += [f"As `configs/{_FILES[name]}.toml` makes it.", ""]
        for title, group in (("Inputs", model.inputs), ("Outputs", model.outputs)):
            lines += [f"### {title} of {name}", ""]
            lines += _table(("name", "unit", "what"), [(f"`{q.name}`", q.unit, q.text) for q in group])
        lines += [f"### Parameters of {name}", ""]
        rows = [
            (f"`{p.name}`", p.unit, f"{value:g}", f"{p.low:g} … {p.high:g}", "yes" if p.live else "", p.text)
            for p, value in zip(machine.parameters, values.tolist(), strict=False)
        ]
        lines += _table(("name", "unit", "value", "limits", "live", "what"), rows)
    return "\n".join(lines)


# ---- the library -----------------------------------------------------------------------------------------------------

_PROMISE = (
    "Names on this page keep their place, their arguments, their fields, and the defaults of these. A new argument has"
    " a default and comes behind the others. A release that breaks this says so first in its changelog. A test fails"
    " when one of these lines changes."
)


def library() -> str:
    from tandem.library.stable import library as stable_names

    head = "How to use it: [the library](../library.md). Examples run as tests."
    lines = ["# import tandem", "", head, "", _PROMISE, ""]
    for each in stable_names():
        lines += [f"## {each.name}", "", *_code("python", [each.text, *(f"    {member}" for member in each.members)])]
        lines += _docstring(each.about)
        lines += _methods(each.name)
    return "\n".join(lines)


def _methods(name: str) -> list[str]:
    """What the docstrings of its methods say."""
    import tandem

    found = getattr(tandem, name.removeprefix("tandem."))
    lines = []
    for method, value in sorted(vars(found).items()) if isinstance(found, type) else ():
        text = (
            inspect.getdoc(value) if not method.startswith("_") and callable(getattr(value, "__get__", None)) else None
        )
        if text and not isinstance(value, type) and "built-in" not in text:
            lines += [f"### {name.rpartition('.')[2]}.{method}", "", *_docstring(text)]
    return lines


def contracts() -> str:
    from tandem.library.stable import contracts as stable_names

    head = "What a machine, a device and an observer of yours is made of"
    lines = [
        "# Contracts",
        "",
        f"{head} ([machine](../your_machine.md), [device](../your_device.md)).",
        "",
        _PROMISE,
        "",
    ]
    for module, group in stable_names().items():
        lines += [f"## {module}", ""]
        for each in group:
            name = each.name.rpartition(".")[2]
            text = each.text.replace(f"{module}.", "", 1)
            lines += [f"### {module.rpartition('.')[2]}: {name}", ""]
            lines += _code("python", [text, *(f"    {member}" for member in each.members)]) + _docstring(each.about)
    return "\n".join(lines)


def _code(language: str, lines: list[str]) -> list[str]:
    return [f"```{language}", *lines, "```", ""]


def _docstring(text: str) -> list[str]:
    """Paragraphs as they are; examples and indented tables as code."""
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)) if text else ():
        if part.lstrip().startswith(">>>") or part.startswith("    "):
            lines += _code("python" if ">>>" in part else "text", inspect.cleandoc(part).splitlines())
        else:
            lines += [part.replace("<", "&lt;"), ""]
    return lines
