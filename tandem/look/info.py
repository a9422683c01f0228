"""`tandem info`: what a record holds, how it ended, what is missing."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sim_service.signals.stages import counted
from sim_service.step_record import STATUS
from sync.record import Run, Topic

_GAP_PERIODS = 1.5


def topic_facts(topic: Topic, end: dict[str, str] | None) -> dict[str, Any]:
    t = topic.blocks["t_ns"].astype(np.int64)
    apart = np.diff(t)
    period = float(np.median(apart)) if len(apart) else 0.0
    epochs = topic.blocks["epoch"]
    told = {what: (end or {}).get(f"{what} {topic.name}", "0") for what in ("lost", "dropped", "before")}
    counted = {what: int(number) if number.isdecimal() else None for what, number in told.items()}
    return {
        "messages": len(topic),
        "seconds": float(t[-1] - t[0]) * 1e-9 if len(t) else 0.0,
        "rate_hz": round(1e9 / period, 3) if period > 0 else None,
        "gaps": int((apart > _GAP_PERIODS * period).sum()) if period > 0 else 0,
        "longest_gap_ms": round(float(apart.max()) / 1e6, 3) if len(apart) else 0.0,
        "epochs": 1 + int((epochs[1:] != epochs[:-1]).sum()) if len(epochs) else 0,
        "missing": topic.missing,
        **counted,
        "first_ns": int(t[0]) if len(t) else None,
        "last_ns": int(t[-1]) if len(t) else None,
        "channels": {c.name: c.unit for c in topic.layout.channels},
    }


def info(run: Run) -> dict[str, Any]:
    topics = {name: topic_facts(topic, run.end) for name, topic in run.topics.items()}
    firsts = [t["first_ns"] for t in topics.values() if t["first_ns"] is not None]
    lasts = [t["last_ns"] for t in topics.values() if t["last_ns"] is not None]
    parameters = run.json("parameters.json")
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
        "parts": [{"file": p.file, "bytes": p.size, "cut": p.cut, "lost": p.lost} for p in run.parts],
        "topics": topics,
        "steps": _steps(run),
        "said": [{"s": round((at - min(firsts)) * 1e-9, 3) if firsts else None, "text": text} for at, text in run.said],
        "model": parameters.get("model"),
        "parameters": named if isinstance(named := parameters.get("parameters"), dict) else {},
        "start": run.start,
        "attachments": {name: len(data) for name, data in run.attachments.items()},
    }


def _steps(run: Run) -> dict[str, Any]:
    if "/step" not in run.topics or not len(run.topics["/step"]):
        return {}
    steps = run.topics["/step"].blocks
    told = {c.name: c.type for c in run.topics["/step"].layout.channels}
    if (told.get("input_age_ns"), told.get("status")) != ("i8", "i8"):
        return {}  # of a mechanism, which has no input from outside
    ages = steps["input_age_ns"] / 1e3
    said = {word: int((steps["status"] & bit != 0).sum()) for bit, word in STATUS.items()}
    if told.get("input_stages") == "i8":
        said |= {word: int(where.sum()) for word, where in counted(steps["input_stages"]).items()}
    return {
        "age_us": {"p50": float(np.median(ages)), "p99": float(np.percentile(ages, 99)), "max": float(ages.max())},
        "status": {word: count for word, count in said.items() if count},
    }


def _part(part: dict[str, Any], later: bool) -> str:
    said = [f"{part['bytes'] / 1e6:.2f} MB", *([part["cut"]] if part["cut"] else [])]
    if later and not str(part["cut"]).startswith("not read"):
        said.append(f"{part['lost']} blocks lost before it" if part["lost"] else "goes on where those before it end")
    return f"  {part['file']}: {'; '.join(said)}"


def print_info(console: Console, found: dict[str, Any]) -> None:
    start = {key: escape(value) for key, value in found["start"].items()}
    console.print(f"[bold]{escape(found['file'])}[/]  {found['bytes'] / 1e6:.2f} MB", soft_wrap=True)
    console.print(
        f"{escape(found['name'])}, {start.get('utc')}, {found['seconds']:.3f} s over {start.get('transport', '?')}"
    )
    mark = "[green]whole[/]" if found["whole"] else "[bold red]not whole[/]"
    if found["lacking"]:
        mark += f": lacks {found['lacking']} blocks"
    console.print(f"{mark}; ended: {escape(found['ended'])}", soft_wrap=True)
    if found["cut"] and not found["ended"].endswith(found["cut"]):
        console.print(escape(found["cut"]), soft_wrap=True)
    for number, part in enumerate(found["parts"] if len(found["parts"]) > 1 else ()):
        console.print(_part(part, number > 0), soft_wrap=True, markup=False, highlight=False)
    console.print(
        f"{start.get('software')} ({start.get('sources')}), Python {start.get('python')}, numba {start.get('numba')};"
        f" {start.get('machine')} {start.get('processor')}, {start.get('cores')} cores,"
        f" real time {'permitted' if start.get('real_time') == 'true' else 'not permitted'}",
        soft_wrap=True,
    )
    table = Table(title="Topics", title_justify="left")
    for heading in ("", "messages", "Hz", "s", "gaps", "longest, ms", "epochs", "missing", "lost", "dropped"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, t in found["topics"].items():
        rate = f"{t['rate_hz']:g}" if t["rate_hz"] else "?"
        cells = [t["messages"], rate, f"{t['seconds']:.3f}", t["gaps"], t["longest_gap_ms"], t["epochs"]]
        table.add_row(name, *(str(c) for c in (*cells, t["missing"], t["lost"], t["dropped"])))
    console.print(table)
    for name, t in found["topics"].items():
        channels = ", ".join(f"{c} [{unit}]" for c, unit in t["channels"].items())
        console.print(f"{name}: {channels}", soft_wrap=True, markup=False, highlight=False)
    if found["steps"]:
        age = found["steps"]["age_us"]
        status = ", ".join(f"{count} {word}" for word, count in found["steps"]["status"].items())
        console.print(f"age at use: p50 {age['p50']:.0f} us, p99 {age['p99']:.0f} us, max {age['max']:.0f} us")
        console.print(f"steps: {status}", soft_wrap=True)
    for said in found["said"]:
        at = "" if said["s"] is None else f"{said['s']:9.3f} s  "
        console.print(f"{at}{said['text']}", soft_wrap=True, markup=False, highlight=False)
    if found["model"]:
        console.print(f"model {found['model']}, {len(found['parameters'])} parameters (--json lists them)")
