"""What a record says about its machine and its configuration, as far as it is valid."""

from typing import Any

from sync.record.run import Run


def recorded_machine_name(run: Run) -> str:
    """ "" if the record has none, or something that is no name."""
    name = run.json("parameters.json").get("model")
    return name if isinstance(name, str) else ""


def recorded_parameters(run: Run) -> dict[str, Any]:
    """As they are described, by name; empty if the record has something else there."""
    named = run.json("parameters.json").get("parameters")
    return named if isinstance(named, dict) else {}


def recorded_number(value: Any) -> float | None:
    """A number from JSON, where integers may be beyond every float; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return None
    return float(value)


def recorded_rows(run: Run) -> list[str]:
    """The rows of inputs by name, in the order of a step's word of stages."""
    rows = run.json("config.json").get("inputs")
    return list(rows) if isinstance(rows, dict) else []


def recorded_tiles(run: Run) -> list[tuple[str, str, str, float]]:
    """(channel, title, unit, factor) of what the machine has shown of itself; what is malformed is left out."""
    shown = run.json("parameters.json").get("shown")
    found = []
    for tile in shown if isinstance(shown, list) else ():
        if isinstance(tile, dict) and all(isinstance(tile.get(key), str) for key in ("channel", "title", "unit")):
            factor = recorded_number(tile.get("factor", 1.0))
            if factor is not None:
                found.append((tile["channel"], tile["title"], tile["unit"], factor))
    return found
