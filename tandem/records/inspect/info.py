"""`tandem info`: what a record holds, how it ended, what is missing.

The figures are collected from the blocks as they are read, part by part: a week of recording takes no more memory than
one of its parts.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.inputs.stages import counted
from sim_service.step_record import STATUS
from sync.record import Run, Topic, open_run
from sync.record.settings import recorded_machine_name, recorded_parameters, recorded_rows
from tandem.records.against_truth import against_truth, truth_section
from tandem.reports.outcome import DAMAGED
from tandem.reports.report import Part, Report, Section, Table, bad, warn

_GAP_PERIODS = 1.5
_FOR_A_PERIOD = 4096  # intervals, whose median is the period
_MOST_AGES = 1 << 20
_MOST_PARTS = 12  # that are listed


class _TopicFigures:
    def __init__(self, topic: Topic):
        self._layout = topic.layout
        self._messages = self._gaps = self._longest_ns = 0
        self._first_ns: int | None = None
        self._last_ns = 0
        self._epochs, self._epoch = 0, -1
        self._period = 0.0
        self._unread: list[np.ndarray] = []  # intervals, before the period is known

    def add(self, topic: Topic) -> None:
        if not len(topic):
            return
        t = topic.blocks["t_ns"].astype(np.int64)
        apart = np.diff(t) if self._first_ns is None else np.diff(t, prepend=np.int64(self._last_ns))
        self._first_ns = int(t[0]) if self._first_ns is None else self._first_ns
        self._messages, self._last_ns = self._messages + len(t), int(t[-1])
        epochs = topic.blocks["epoch"].astype(np.int64)
        self._epochs += int((np.diff(epochs, prepend=np.int64(self._epoch)) != 0).sum())
        self._epoch = int(epochs[-1])
        self._unread.append(apart)
        if self._period or sum(len(part) for part in self._unread) >= _FOR_A_PERIOD:
            self._count_gaps()

    def _count_gaps(self) -> None:
        apart = np.concatenate(self._unread) if self._unread else np.zeros(0, np.int64)
        self._unread = []
        if not len(apart):
            return
        self._period = self._period or float(np.median(apart))
        self._longest_ns = max(self._longest_ns, int(apart.max()))
        if self._period > 0:
            self._gaps += int((apart > _GAP_PERIODS * self._period).sum())

    def facts(self, missing: int, counts: dict[str, str]) -> dict[str, Any]:
        self._count_gaps()
        first_ns = self._first_ns
        return {
            "messages": self._messages,
            "seconds": float(self._last_ns - first_ns) * 1e-9 if first_ns is not None else 0.0,
            "rate_hz": round(1e9 / self._period, 3) if self._period > 0 else None,
            "gaps": self._gaps,
            "longest_gap_ms": round(self._longest_ns / 1e6, 3),
            "epochs": self._epochs,
            "missing": missing,
            **{what: int(number) if number.isdecimal() else None for what, number in counts.items()},
            "first_ns": first_ns,
            "last_ns": self._last_ns if first_ns is not None else None,
            "channels": {c.name: c.unit for c in self._layout.channels},
        }


class _StepFigures:
    def __init__(self) -> None:
        self._ages = np.zeros(0)  # of every so manieth step, us
        self._stride, self._skip, self._oldest = 1, 0, -np.inf
        self._status: dict[str, int] = {}
        self._stages: dict[int, int] = {}  # words of them, and in how many steps
        self._steps = 0

    def add(self, topic: Topic) -> None:
        types = {c.name: c.type for c in topic.layout.channels}
        if not len(topic) or (types.get("input_age_ns"), types.get("status")) != ("i8", "i8"):
            return  # of a mechanism, which has no input from outside
        steps = topic.blocks
        ages = steps["input_age_ns"] / 1e3
        self._steps += len(ages)
        self._oldest = max(self._oldest, float(ages.max()))
        self._ages = np.concatenate([self._ages, ages[self._skip :: self._stride]])
        self._skip = (self._skip - len(ages)) % self._stride
        while len(self._ages) > _MOST_AGES:
            self._skip += self._stride * (len(self._ages) % 2)
            self._ages, self._stride = self._ages[::2].copy(), 2 * self._stride
        flagged = {word: int((steps["status"] & bit != 0).sum()) for bit, word in STATUS.items()}
        if types.get("input_stages") == "i8":
            for stages, count in zip(*np.unique(steps["input_stages"], return_counts=True), strict=True):
                self._stages[int(stages)] = self._stages.get(int(stages), 0) + int(count)
        for word, count in flagged.items():
            self._status[word] = self._status.get(word, 0) + count

    def facts(self, rows: Sequence[str]) -> dict[str, Any]:
        """`rows` of inputs, by name."""
        if not self._steps:
            return {}
        p50, p99 = float(np.median(self._ages)), float(np.percentile(self._ages, 99))
        return {
            "age_us": {"p50": p50, "p99": p99, "max": self._oldest},
            "status": {word: count for word, count in (self._status | self._of_rows(rows)).items() if count},
        }

    def _of_rows(self, rows: Sequence[str]) -> dict[str, int]:
        words, counts = np.array(list(self._stages), np.int64), np.array(list(self._stages.values()), np.int64)
        return {word: int(counts[where].sum()) for word, where in counted(words, rows).items()}


class _Figures:
    """Figures of all topics, updated with each block."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicFigures] = {}
        self.steps = _StepFigures()

    def add(self, topic: Topic) -> None:
        self._topics.setdefault(topic.name, _TopicFigures(topic)).add(topic)
        if topic.name == "/step":
            self.steps.add(topic)

    def topics(self, run: Run) -> dict[str, dict[str, Any]]:
        end = run.end or {}
        return {
            name: figures.facts(
                run.topics[name].missing if name in run.topics else 0,
                {what: end.get(f"{what} {name}", "0") for what in ("lost", "dropped", "before")},
            )
            for name, figures in self._topics.items()
        }


def info_of(path: Path, progress: Callable[[float], None] = lambda _: None) -> dict[str, Any]:
    """The figures of a record, which is read part by part, not into memory."""
    figures = _Figures()
    run = open_run(path, progress=progress, consume=figures.add)
    return _info(run, figures)


def info(run: Run) -> dict[str, Any]:
    figures = _Figures()
    for topic in run.topics.values():
        figures.add(topic)
    return _info(run, figures)


def _info(run: Run, figures: _Figures) -> dict[str, Any]:
    topics = figures.topics(run)
    firsts = [t["first_ns"] for t in topics.values() if t["first_ns"] is not None]
    lasts = [t["last_ns"] for t in topics.values() if t["last_ns"] is not None]
    return {
        "file": str(run.path),
        "bytes": run.size,
        "name": run.name,
        "utc": run.start.get("utc"),
        "seconds": round((max(lasts) - min(firsts)) * 1e-9, 6) if firsts else 0.0,
        "whole": run.whole,
        "lacking": run.lacking,
        "ended": run.ended,
        "cut": run.cut,
        "damage": run.losses,
        "unsynced": run.unsynced,
        "deleted": _deleted(run),
        "parts": [{"file": p.file, "bytes": p.size, "cut": p.cut, "lost": p.lost} for p in run.parts],
        "topics": topics,
        "steps": figures.steps.facts(recorded_rows(run)),
        "notices": [
            {"s": round((at - min(firsts)) * 1e-9, 3) if firsts else None, "text": text} for at, text in run.notices
        ],
        "model": recorded_machine_name(run) or None,
        "parameters": recorded_parameters(run),
        "start": run.start,
        "truth": against_truth(run.path),
        "attachments": {name: len(data) for name, data in run.attachments.items()},
    }


def _deleted(run: Run) -> dict[str, Any] | None:
    if run.deleted is None:
        return None
    readable = len(run.parts) - sum(part.cut is not None and part.cut.startswith("not read") for part in run.parts)
    return {
        "parts": run.deleted.parts, "remaining": readable, "bytes": run.deleted.bytes, "rows": run.deleted.rows,
        "text": run.deleted.sentence(run.begun),
    }  # fmt: skip


def _part(part: dict[str, Any], later: bool) -> str:
    facts = [f"{part['bytes'] / 1e6:.2f} MB", *([part["cut"]] if part["cut"] else [])]
    if later and not str(part["cut"]).startswith("not read"):
        facts.append(f"{part['lost']} blocks lost before it" if part["lost"] else "goes on where those before it end")
    return f"  {part['file']}: {'; '.join(facts)}"


def _parts(parts: list[dict[str, Any]]) -> list[str]:
    """All of a few; of many the first, the last, and those in which something is missing."""
    many = len(parts) > _MOST_PARTS
    shown = [
        _part(part, number > 0)
        for number, part in enumerate(parts if len(parts) > 1 else ())
        if not many or number in (0, len(parts) - 1) or part["cut"] or part["lost"]
    ]
    return shown + [f"  {len(parts)} parts in all"] * many


def report(found: dict[str, Any]) -> Report:
    """Exit code 10 where a part is damaged."""
    start = found["start"]
    mark = "whole" if found["whole"] else "not whole"
    if found["lacking"]:
        mark += f": lacks {found['lacking']} blocks"
    over = f"{found['seconds']:.3f} s over {start.get('transport', '?')}"
    headline = f"{found['name']}, {over}: {mark}; ended: {found['ended']}."
    permitted = "permitted" if start.get("real_time") == "true" else "not permitted"
    about: list[Part] = [f"{found['file']}  {found['bytes'] / 1e6:.2f} MB, {start.get('utc')}"]
    if found["cut"] and not found["ended"].endswith(found["cut"]):
        about.append(bad(found["cut"]))
    if found["deleted"]:
        about.append(warn(f"kept: the last {found['deleted']['remaining']} parts; {found['deleted']['text']}"))
    about += [*map(bad, found["unsynced"]), *_parts(found["parts"])]
    about.append(
        f"{start.get('software')} ({start.get('sources')}), Python {start.get('python')}, numba {start.get('numba')};"
        f" {start.get('machine')} {start.get('processor')}, {start.get('cores')} cores, real time {permitted}"
    )
    sections = [Section("", about), Section("Topics", _topics(found["topics"])), Section("", _happened(found))]
    if found["truth"]:
        sections.append(truth_section(found["truth"]))
    damage = found["damage"]
    return Report("tandem info", headline, found, sections, complaints=damage, code=DAMAGED if damage else 0)


def _topics(topics: dict[str, Any]) -> list[Part]:
    rows = []
    for name, t in topics.items():
        rate = f"{t['rate_hz']:g}" if t["rate_hz"] else "?"
        cells = [t["messages"], rate, f"{t['seconds']:.3f}", t["gaps"], t["longest_gap_ms"], t["epochs"]]
        rows.append([name, *(str(c) for c in (*cells, t["missing"], t["lost"], t["dropped"]))])
    headings = ("", "messages", "Hz", "s", "gaps", "longest, ms", "epochs", "missing", "lost", "dropped")
    channels = [f"{name}: " + ", ".join(f"{c} [{u}]" for c, u in t["channels"].items()) for name, t in topics.items()]
    return [Table(headings, rows), *channels]


def _happened(found: dict[str, Any]) -> list[str]:
    lines = []
    if found["steps"]:
        age = found["steps"]["age_us"]
        lines.append(f"age at use: p50 {age['p50']:.0f} us, p99 {age['p99']:.0f} us, max {age['max']:.0f} us")
        lines.append("steps: " + ", ".join(f"{count} {word}" for word, count in found["steps"]["status"].items()))
    for notice in found["notices"]:
        at = "" if notice["s"] is None else f"{notice['s']:9.3f} s  "
        lines.append(f"{at}{notice['text']}")
    if found["model"]:
        lines.append(f"model {found['model']}, {len(found['parameters'])} parameters (--json lists them)")
    return lines
