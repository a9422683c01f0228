"""The configuration of a record, as this version understands it: settings that no longer exist are left out.

A setting belongs here only if it never had an influence on what a step computes; those that had one are translated
(sync/record/format_1.py).
"""

from typing import Any

from sync.record.format_1 import TILES, machine_files, translated, with_machine
from sync.record.run import Run

_RETIRED = {"supervision": {"spares"}, "view": {"token"}}


def recorded_settings(run: Run) -> dict[str, Any]:
    settings: dict[str, Any] = run.json("config.json")
    if "inputs" not in settings and isinstance(settings.get("sim"), dict):
        settings = translated(settings, recorded_machine_name(run))
    settings = with_machine(settings)
    return {
        table: {key: value for key, value in content.items() if key not in _RETIRED.get(table, ())}
        if isinstance(content, dict)
        else content
        for table, content in settings.items()
    }


def recorded_machine_name(run: Run) -> str:
    """Nothing where the record has none, or something that is no name."""
    name = run.json("parameters.json").get("model")
    return name if isinstance(name, str) else ""


def recorded_parameters(run: Run) -> dict[str, Any]:
    """As they are described, by name; none where the record has something else there."""
    named = run.json("parameters.json").get("parameters")
    return named if isinstance(named, dict) else {}


def recorded_number(value: Any) -> float | None:
    """A number out of JSON, where whole numbers may be larger than any other; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return None
    return float(value)


def recorded_rows(run: Run) -> list[str]:
    """The rows of inputs by name, in the order of a step's word of stages."""
    rows = recorded_settings(run).get("inputs")
    return list(rows) if isinstance(rows, dict) else []


def recorded_files(run: Run) -> dict[str, bytes]:
    """What the machine was made from, by the names that `sim_service.registry.recorded` knows."""
    return machine_files(run.attachments)


def recorded_tiles(run: Run) -> list[tuple[str, str, str, float]]:
    """(channel, title, unit, factor) of what the machine has shown of itself; what is malformed is left out."""
    parameters = run.json("parameters.json")
    shown = parameters.get("shown", TILES)
    found = []
    for tile in shown if isinstance(shown, list) else ():
        if isinstance(tile, dict) and all(isinstance(tile.get(key), str) for key in ("channel", "title", "unit")):
            factor = recorded_number(tile.get("factor", 1.0))
            if factor is not None:
                found.append((tile["channel"], tile["title"], tile["unit"], factor))
    return found
