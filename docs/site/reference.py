"""Pages of the reference, made from the tables that the programs themselves use; nothing here is written by hand."""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

MACHINES = ("mass_spring", "wall", "vehicles/buggy_single_track", "vehicles/buggy")  # a page of all would fill days


def pages() -> dict[str, str]:
    return {
        "reference/commands.md": commands(),
        "reference/exit_codes.md": exit_codes(),
        "reference/configuration.md": configuration(),
        "reference/channels.md": channels(),
        "reference/machines.md": machines(),
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


def _walk(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _walk(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def commands() -> str:
    import typer

    from tandem.commands.cli import app

    lines = ["# Commands", ""]
    for name, command in sorted(_walk(typer.main.get_command(app))):
        lines += [f"## tandem {name}", "", inspect.cleandoc(command.help or ""), ""]
        rows = []
        for option in command.params:
            if option.name == "help":
                continue
            argument = option.param_type_name == "argument"
            shown = option.metavar or option.name.upper() if argument else ", ".join(option.opts)
            default = option.show_default if isinstance(option.show_default, str) else option.default
            plain = "" if default in (None, False, "") or callable(default) else default
            rows.append((f"`{shown}`", option.help or "", f"`{plain}`" if plain != "" else ""))
        lines += _table(("", "what", "default"), rows)
    return "\n".join(lines)


def exit_codes() -> str:
    from tandem.commands import cli

    text = re.split(r"Exit codes:\s*", inspect.cleandoc(cli.__doc__ or ""))[1]
    codes = [part.strip().rstrip(".").split(" ", 1) for part in text.replace("\n", " ").split(";")]
    return "\n".join(["# Exit codes", "", *_table(("code", "meaning"), codes)])


# ---- configuration ---------------------------------------------------------------------------------------------------


def configuration() -> str:
    from sync.config.config import Config

    schema = Config.model_json_schema()
    lines = ["# Configuration keys", "", "Errors are reported before anything starts.", ""]
    plain, tables = [], []
    for key, entry in schema["properties"].items():
        (tables if _reference(entry) in schema["$defs"] else plain).append((key, entry))
    lines += ["## At the top", "", *_keys(plain)]
    for key, entry in tables:
        lines += [f"## [{key}]", "", *_keys(schema["$defs"][_reference(entry)]["properties"].items())]
    lines += ["## [inputs.NAME], by kind", ""]
    from sync.config.input_rows import KINDS

    for kind, section in KINDS.items():
        lines += [f"### kind = {kind}", "", *_keys(section.model_json_schema()["properties"].items())]
    return "\n".join(lines)


def _reference(entry: dict[str, Any]) -> str:
    return str(entry.get("$ref", "")).rpartition("/")[2]


def _keys(entries: Iterable[tuple[str, dict[str, Any]]]) -> list[str]:
    names = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    rows = []
    for key, entry in entries:
        kind = entry.get("type") or " or ".join(each.get("type", "table") for each in entry.get("anyOf", ())) or "table"
        limits = ", ".join(f"{sign} {entry[name]}" for name, sign in names.items() if name in entry)
        choices = ", ".join(map(str, entry.get("enum", ())))
        default = entry["default"] if "default" in entry and not isinstance(entry["default"], dict) else ""
        rows.append((f"`{key}`", kind, f"`{default}`" if default not in ("", []) else "", limits or choices))
    return _table(("key", "type", "default", "limits"), rows)


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
    from tandem.offline.model import load_machine

    lines = ["# Machines", "", "What each declares; a run, its record, page and FMU are made from it.", ""]
    for name in MACHINES:
        model = load_machine(name)
        machine, values = model.description()
        lines += [f"## {name}", ""]
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
