"""`tandem tune`: shows and changes the parameters of a simulation while it runs.

A change takes effect before the next step, and is reported and recorded: a replay makes it before the same step.
"""

from typing import Any

from sim_service.commands import CommandClient
from sync.config.config import Config
from sync.errors import ConfigError, near_names
from tandem.reports.report import Marked, Report, Section, Table


def wanted(changes: list[str]) -> dict[str, float]:
    """The values of changes, each written NAME=VALUE."""
    values = {}
    for change in changes:
        name, found, text = change.partition("=")
        try:
            values[name.strip()] = float(text)
        except ValueError:
            found = ""
        if not found:
            raise ConfigError(f"{change}: expected NAME=VALUE, such as front_anti_roll=15000")
    return values


def tune(config: Config, changes: list[str], reset: bool) -> dict[str, Any]:
    """Change parameters, all or none of them, or only ask. Returns all parameters as they are now."""
    values = wanted(changes)
    client = CommandClient(config)
    try:
        answer = client.ask()
        known = answer["parameters"]
        for name in values:
            if name not in known:
                near = near_names(name, known, 1)
                meant = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"{name}: no parameter of {answer['model']}{meant}")
        if reset:
            values = {n: p["first"] for n, p in known.items() if p["live"] and p["value"] != p["first"]} | values
        if values:
            answer = client.ask(values)
        if not answer["ok"]:
            raise ConfigError(answer["error"])
        return answer
    finally:
        client.close()


def report(answer: dict[str, Any], names: list[str]) -> Report:
    rows = []
    for name, p in answer["parameters"].items():
        if not names or name in names:
            now = Marked(f"{p['value']:g}", "" if p["value"] == p["first"] else "warn")
            note = p["text"] if p["live"] else f"{p['text']} (needs a new start)"
            rows.append((name, now, f"{p['first']:g}", f"{p['low']:g}", f"{p['high']:g}", p["unit"], note))
    headings = ("", "now", "at the start", "from", "to", "unit", "")
    headline = f"Parameters of {answer['model']}"
    return Report("tandem tune", headline, answer, [Section("", [Table(headings, rows)])])
