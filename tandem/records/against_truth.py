"""A twin against the "real" machine it ran beside (`source.truth`), from both records: errors of what is watched.

A step of the twin used a block, which was made from a step of the real machine and has that step's instant: both steps
have the same length and begin at the same instant, so their results are compared. Estimated quantities are compared
with the real machine's parameters of the same names, if it has these.
"""

from pathlib import Path
from typing import Any

import numpy as np

from sync.record import Run, RunError, open_run
from sync.record.settings import recorded_number, recorded_parameters
from tandem.reports.report import Section, Table

FOLDER = "truth"  # in a run's folder: holds the record of the "real" machine beside it

_OUT_S = 1.0  # a reading older than this comes from a sensor that is out: a latency is far less
_NEVER_S = 3999.0  # what has not come yet has a higher age than this
ESTIMATED, SIGMA, AGE = "estimated_", "sigma_", "age_"


def truth_folder(run: Path) -> Path | None:
    """Where the record of the real machine is; None if the run had none."""
    folder = (run if run.is_dir() else run.parent) / FOLDER
    return folder if folder.is_dir() else None


def against_truth(path: Path) -> dict[str, Any] | None:
    """Figures of the run in this folder or file; None if it ran beside no other, or nothing of that was recorded."""
    folder = truth_folder(path)
    if folder is None:
        return None
    try:
        run, truth = (open_run(each, ("/step",)) for each in (path, folder))
        if not (_has_steps(run, {"input_t_ns", "input_seq"}) and _has_steps(truth, set())):
            return None
        return compare(run, truth)
    except RunError:
        return None


def _has_steps(run: Run, names: set[str]) -> bool:
    topic = run.topics.get("/step")
    return topic is not None and len(topic) > 0 and names <= {*topic.layout.names}


def paired(steps: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every step of the twin: the number of the real machine's step, and whether it has the same instant."""
    order = np.argsort(true["t_ns"], kind="stable")
    at = np.searchsorted(true["t_ns"][order], steps["input_t_ns"])
    at = order[np.minimum(at, len(order) - 1)]
    # of several steps that used the same block only the first has its instant
    fresh = np.concatenate([[True], steps["input_seq"][1:] != steps["input_seq"][:-1]])
    return at, (true["t_ns"][at] == steps["input_t_ns"]) & fresh


def watched_truth(path: Path) -> dict[str, np.ndarray]:
    """The quantities that `source.watch` names, from the real machine's record, for every step of the run; NaN: not
    known, or before `source.settle_s`."""
    folder = truth_folder(path)
    if folder is None:
        return {}
    try:
        run, truth = (open_run(each, ("/step",)) for each in (path, folder))
    except RunError:
        return {}
    if not (_has_steps(run, {"input_t_ns", "input_seq"}) and _has_steps(truth, set())):
        return {}
    steps, true = run.topics["/step"].blocks, truth.topics["/step"].blocks
    at, known = paired(steps, true)
    source = run.json("config.json").get("source")
    source = source if isinstance(source, dict) else {}
    watch, settle_ns = source.get("watch"), 1e9 * (_number(source.get("settle_s")) or 0.0)
    known &= steps["t_ns"] - steps["t_ns"][0] >= settle_ns
    names = {*(true.dtype.names or ())} & {*(steps.dtype.names or ())}
    return {
        name: np.where(known, true[name][at], np.nan)
        for name in (watch if isinstance(watch, list) else ()) if name in names
    }  # fmt: skip


def compare(run: Run, truth: Run) -> dict[str, Any]:
    steps, true = run.topics["/step"].blocks, truth.topics["/step"].blocks
    at, known = paired(steps, true)
    steps, true = steps[known], true[at[known]]
    source = run.json("config.json").get("source")
    source = source if isinstance(source, dict) else {}
    watch, settle_s = source.get("watch"), _number(source.get("settle_s")) or 0.0
    seconds = (steps["t_ns"] - steps["t_ns"][0]) * 1e-9 if len(steps) else np.zeros(0)
    settled = seconds >= settle_s
    names = true.dtype.names or ()
    out = np.zeros(len(true), bool)
    for name in names:
        if name.startswith(AGE):
            out |= (true[name] > _OUT_S) & (true[name] < _NEVER_S)
    units = {c.name: c.unit for c in run.topics["/step"].layout.channels}
    parts = {"outside": settled & ~out, "outage": settled & out}
    watched: dict[str, Any] = {}
    unknown: list[str] = []
    for name in watch if isinstance(watch, list) else ():
        if name not in names or name not in (steps.dtype.names or ()):
            unknown.append(str(name))
            continue
        error = steps[name] - true[name]
        if units.get(name) == "rad":
            error = np.remainder(error + np.pi, 2.0 * np.pi) - np.pi
        watched[name] = {
            "unit": units.get(name, ""),
            **{part: float(np.sqrt(np.mean(error[where] ** 2))) for part, where in parts.items() if where.any()},
            "worst": float(np.abs(error[settled]).max()) if settled.any() else None,
            "outage_end": float(abs(error[np.flatnonzero(parts["outage"])[-1]])) if parts["outage"].any() else None,
            "mean_true": float(np.mean(np.abs(true[name][settled]))) if settled.any() else None,
        }
    real = recorded_parameters(truth)
    estimated = {
        name.removeprefix(ESTIMATED): {
            "estimate": float(steps[name][-1]),
            "sigma": float(steps[SIGMA + name.removeprefix(ESTIMATED)][-1]),
            "truth": _number(real.get(name.removeprefix(ESTIMATED))),
        }
        for name in (steps.dtype.names or ())
        if name.startswith(ESTIMATED) and len(steps) and SIGMA + name.removeprefix(ESTIMATED) in steps.dtype.names
    }
    readings = {
        key: int(steps[key][-1]) for key in ("readings_used", "readings_gated", "readings_late")
        if len(steps) and key in (steps.dtype.names or ())
    }  # fmt: skip
    return {
        "record": str(truth.path), "compared": len(steps), "not_compared": int((~known).sum()),
        "settle_s": settle_s, "outage_s": float(np.sum(parts["outage"]) * _period(seconds)),
        "watched": watched, "unknown": unknown, "estimated": estimated, **readings,
    }  # fmt: skip


def _period(seconds: np.ndarray) -> float:
    return float(np.median(np.diff(seconds))) if len(seconds) > 1 else 0.0


def _number(value: Any) -> float | None:
    if isinstance(value, dict):
        value = value.get("value")
    return recorded_number(value)


def truth_section(found: dict[str, Any]) -> Section:
    keys = ("outside", "outage", "outage_end", "worst")
    rows = [(name, *(row.get(key) for key in keys), row["unit"]) for name, row in found["watched"].items()]
    lines = [f"not outputs of both, so not compared: {', '.join(found['unknown'])}"] if found["unknown"] else []
    for name, row in found["estimated"].items():
        true = "" if row["truth"] is None else f"; truth {row['truth']:.4g}"
        lines.append(f"{name}: {row['estimate']:.4g} ± {row['sigma']:.2g}{true}")
    counted = ", ".join(f"{found[key]} {key.removeprefix('readings_')}" for key in found if key.startswith("readings_"))
    lines.append(
        f"{found['compared']} steps compared, {found['not_compared']} had no instant of their own"
        + f"; readings: {counted}" * bool(counted)
    )
    table = Table(("", "outside", "in outages", "at their end", "worst", "unit"), rows)
    return Section(f"Against the truth, from {found['settle_s']:g} s on: rms", [table, *lines], key="truth")
