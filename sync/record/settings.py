"""The configuration of a record, as this version understands it: settings that no longer exist are left out.

A setting belongs here only if it never had an influence on what a step computes; those that had one are translated
(sync/record/format_1.py).
"""

from typing import Any

from sync.record.format_1 import machine_files, translated, with_machine
from sync.record.run import Run

_RETIRED = {"supervision": {"spares"}, "view": {"token"}}


def recorded_settings(run: Run) -> dict[str, Any]:
    settings: dict[str, Any] = run.json("config.json")
    if "inputs" not in settings and isinstance(settings.get("sim"), dict):
        settings = translated(settings, str(run.json("parameters.json").get("model", "")))
    settings = with_machine(settings)
    return {
        table: {key: value for key, value in content.items() if key not in _RETIRED.get(table, ())}
        if isinstance(content, dict)
        else content
        for table, content in settings.items()
    }


def recorded_rows(run: Run) -> list[str]:
    """The rows of inputs by name, in the order of a step's word of stages."""
    rows = recorded_settings(run).get("inputs")
    return list(rows) if isinstance(rows, dict) else []


def recorded_files(run: Run) -> dict[str, bytes]:
    """What the machine was made from, by the names that `sim_service.machines.recorded` knows."""
    return machine_files(run.attachments)
