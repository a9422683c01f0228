"""`tandem plot`: inputs, motion and age of one run, or of several over each other, as a page or a PNG.

What is drawn is decided here, as panels; tandem/reports/panels.py draws them.
"""

import numpy as np

from sync.errors import UnknownName
from sync.record import Run, measured
from sync.record.settings import recorded_tiles
from tandem.reports.panels import Panel

_AGE = ("input_age_ns", "age at use", "us", 1e-3)


def panels(runs: list[tuple[str, Run]], channels: list[str] | None) -> list[Panel]:
    """Asked-for channels, or the usual ones as far as they are there; a record without steps shows its raw blocks."""
    found: list[Panel] = []
    of_sensors = [measured(run) for _, run in runs]
    for name, title, unit, factor in _chosen(runs, channels):
        panel = Panel(title, unit)
        for (label, run), readings in zip(runs, of_sensors, strict=True):
            if (sensor := readings.get(name)) is not None:
                seconds = (sensor.t_ns - _zero(run)) * 1e-9
                panel.curves.append(
                    (
                        f"{label}, measured",
                        np.asarray(seconds, np.float64),
                        np.asarray(sensor.values * factor, np.float64),
                    )
                )
            for topic_name in ("/step", run.source_topic):
                topic = run.topics.get(topic_name)
                if topic is not None and len(topic) and name in topic.layout.names:
                    t = np.asarray((topic.blocks["t_ns"].astype(np.int64) - _zero(run)) * 1e-9, np.float64)
                    panel.curves.append((label, t, np.asarray(topic.blocks[name] * factor, np.float64)))
                    break
        if panel.curves:
            found.append(panel)
    if channels is None:
        path = Panel("path", "m", path=True)
        for label, run in runs:
            steps = run.topics.get("/step")
            if steps is not None and len(steps) and {"x", "y"} <= set(steps.layout.names):
                path.curves.append((label, steps.blocks["x"], steps.blocks["y"]))
        if path.curves:
            found.insert(len(found) - 1, path)
    return found


def _zero(run: Run) -> int:
    return min(int(t.blocks["t_ns"][0]) for t in run.topics.values() if len(t))


def _units(runs: list[tuple[str, Run]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, run in runs:
        for topic in run.topics.values():
            for channel in topic.layout.channels:
                found.setdefault(channel.name, channel.unit)
    return found


def _shown(runs: list[tuple[str, Run]]) -> list[tuple[str, str, str, float]]:
    """(channel of a step, title, unit shown, factor), as the machine of the record has them shown."""
    rows: dict[str, tuple[str, str, str, float]] = {}
    for _, run in runs:
        for tile in recorded_tiles(run):
            rows.setdefault(tile[0], tile)
    return list(rows.values())


def _chosen(runs: list[tuple[str, Run]], channels: list[str] | None) -> list[tuple[str, str, str, float]]:
    units = _units(runs)
    if channels is None:
        shown = _shown(runs)
        besides = {name: (name, name, m.unit, 1.0) for _, run in runs for name, m in measured(run).items()}
        for tile in shown:
            besides.pop(tile[0], None)
        usual = [row for row in (*shown, *besides.values(), _AGE) if row[0] in units]
        has_steps = any(len(run.topics.get("/step", ())) for _, run in runs)
        everything = [(name, name, unit, 1.0) for name, unit in units.items() if name != "step"]
        return usual if has_steps and len(usual) > 1 else everything
    for name in channels:
        if name not in units:
            raise UnknownName.among(units, name, "channel of the record")
    return [(name, name, units[name], 1.0) for name in channels]
