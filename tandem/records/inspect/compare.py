"""`tandem compare`: which channels of two records differ, by how much, and where first.

Steps are compared by their number, blocks by their order. Instants of the two runs are not compared: they are two runs.
Bits are compared, so that -0.0 and 0.0 differ, and equal NaNs do not.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_service.contract.step_channels import STEP_CHANNELS
from sync.record import Run, RunError, Topic, measured
from sync.ring.streams import BLOCK_TOPICS, SIM
from tandem.reports.beside_measured import beside_measured, in_words
from tandem.reports.deviation import deviation, sentence
from tandem.reports.outcome import DAMAGED
from tandem.reports.report import Part, Report, Section, Table

_TOPICS = (SIM.topic, *BLOCK_TOPICS)
_STAMPS = {c.name for c in STEP_CHANNELS}
_LONG = 100  # letters of a setting at the terminal; --json has all of them


def compare(a: Run, b: Run) -> dict[str, Any]:
    topics = {}
    for name in _TOPICS:
        if len(a.topics.get(name, ())) and len(b.topics.get(name, ())):
            topics[name] = _topic(a.topics[name], b.topics[name])
    if not topics:
        raise RunError(f"{a.path} and {b.path}: have no topic in common")
    alone = [n for n in _TOPICS if bool(len(a.topics.get(n, ()))) != bool(len(b.topics.get(n, ())))]
    found = {
        "a": str(a.path),
        "b": str(b.path),
        "identical": not alone and all(not t["differ"] and t["a"] == t["b"] and not t["only"] for t in topics.values()),
        "topics": topics,
        "topics_of_one_only": alone,
        "configuration": _settings(a.json("config.json"), b.json("config.json")),
        "parameters": _settings(a.json("parameters.json"), b.json("parameters.json")),
        "motion": {},
        "measured": {"a": _beside(a), "b": _beside(b)},
    }
    if "/step" in topics:
        columns = [{n: run.topics["/step"].blocks[n] for n in run.topics["/step"].layout.names} for run in (a, b)]
        found["motion"] = deviation(*columns)
    return found


def _beside(run: Run) -> list[dict[str, Any]]:
    """The outputs of its steps beside what sensors measured, where the record has both."""
    steps = run.topics.get(SIM.topic)
    if steps is None or len(steps) < 2 or "taken_ns" not in steps.layout.names:  # a mechanism has no inputs to take
        return []
    begins = np.maximum.accumulate(steps.blocks["taken_ns"])
    ends = begins + round(float(np.median(np.diff(steps.blocks["t_ns"]))))
    return beside_measured(measured(run), ends, {name: steps.blocks[name] for name in steps.layout.names})


def _topic(a: Topic, b: Topic) -> dict[str, Any]:
    units = {c.name: c.unit for c in a.layout.channels}
    others = {c.name: c.unit for c in b.layout.channels}
    n = min(len(a), len(b))
    differ: list[dict[str, Any]] = []
    same: list[str] = []
    for name, unit in units.items():
        if name not in others or (a.name == "/step" and name in _STAMPS):
            continue
        row = _channel(name, unit, a.blocks[name][:n], b.blocks[name][:n])
        if row is None:
            same.append(name)
        else:
            differ.append(row)
    return {
        "a": len(a), "b": len(b), "compared": n, "differ": differ, "same": same,
        "only": sorted(units.keys() ^ others.keys()),
        "units": {n: [units[n], others[n]] for n in units if n in others and units[n] != others[n]},
    }  # fmt: skip


def _channel(name: str, unit: str, a: np.ndarray, b: np.ndarray) -> dict[str, Any] | None:
    x, y = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if x.dtype == y.dtype:
        unequal = np.flatnonzero(x.view(f"i{x.itemsize}") != y.view(f"i{y.itemsize}"))
    else:
        unequal = np.flatnonzero(x != y)
    if not len(unequal):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(x.astype(float) - y.astype(float))
        known = apart[~np.isnan(apart)]
        most, rms = (float(known.max()), float(np.sqrt(np.mean(known**2)))) if len(known) else (np.nan, np.nan)
    k = int(unequal[0])
    return {
        "channel": name, "unit": unit, "max": most, "rms": rms, "count": len(unequal), "first": k,
        "first_a": x[k].item(), "first_b": y[k].item(),
    }  # fmt: skip


def _settings(a: dict[str, Any], b: dict[str, Any], prefix: str = "") -> dict[str, list[Any]]:
    """Keys whose values differ."""
    found: dict[str, list[Any]] = {}
    for key in sorted(a.keys() | b.keys()):
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            found |= _settings(x, y, f"{prefix}{key}.")
        elif x != y:
            found[prefix + key] = [x, y]
    return found


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def report(found: dict[str, Any], damage: Sequence[str] = ()) -> Report:
    """Exit code 10 where a part of one of them is damaged."""
    lines: list[Part] = [f"a: {found['a']}", f"b: {found['b']}"]
    for what in ("configuration", "parameters"):
        settings = {key: pair for key, pair in found[what].items() if not key.startswith("made.")}
        # what was made of parameters is the same once more, packed, and tables
        lines += [f"{what}: {key}: {_short(x)} → {_short(y)}" for key, (x, y) in settings.items()]
        if what == "parameters" and found[what] and not settings:
            lines.append("parameters: the same, but what was made of them is not: other code, or another library")
    for name, topic in found["topics"].items():
        lines += _of_topic(name, topic)
    for which, rows in found["measured"].items():
        lines += [f"{which} beside the measured {text}" for text in in_words(rows)]
    if found["topics_of_one_only"]:
        lines.append(f"only in one of them: {', '.join(found['topics_of_one_only'])}")
    code = DAMAGED if damage else 0
    return Report("tandem compare", _headline(found), found, [Section("", lines)], complaints=damage, code=code)


def _headline(found: dict[str, Any]) -> str:
    if found["identical"]:
        return f"identical, to the bit: all channels of {', '.join(found['topics'])}"
    if found["motion"]:
        return f"b against a: {sentence(found['motion'])}"
    return f"{sum(len(topic['differ']) for topic in found['topics'].values())} channels differ"


def _of_topic(name: str, topic: dict[str, Any]) -> list[Part]:
    text = f"{name}: {topic['compared']} compared"
    if topic["a"] != topic["b"]:
        text += f" ({topic['a']} and {topic['b']} there)"
    text += f", {len(topic['same'])} channels equal to the bit, {len(topic['differ'])} differ"
    if topic["only"]:
        text += f"; only in one: {', '.join(topic['only'])}"
    parts: list[Part] = [text]
    parts += [f"{name} {channel}: unit {x} against {y}" for channel, (x, y) in topic["units"].items()]
    rows = [
        (r["channel"], r["unit"], f"{r['max']:.6g}", f"{r['rms']:.6g}", r["count"], r["first"], f"{r['first_a']:.9g}",
         f"{r['first_b']:.9g}")
        for r in topic["differ"]
    ]  # fmt: skip
    return [*parts, Table(("channel", "unit", "at most", "rms", "how many", "first at", "a", "b"), rows)]
