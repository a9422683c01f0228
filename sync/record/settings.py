"""The configuration of a record, as this version understands it: settings that no longer exist are left out.

A setting belongs here only if it never had an influence on what a step computes.
"""

from typing import Any

from sync.record.run import Run

_RETIRED = {"supervision": {"spares"}, "view": {"token"}}


def recorded_settings(run: Run) -> dict[str, Any]:
    settings: dict[str, Any] = run.json("config.json")
    return {
        table: {key: value for key, value in content.items() if key not in _RETIRED.get(table, ())}
        if isinstance(content, dict)
        else content
        for table, content in settings.items()
    }
