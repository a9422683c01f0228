"""The record of a mechanism's run: the same file as that of a drive, so that info, compare, plot and export know it.

One topic, /step: every kept instant with the place and velocity of every free point, every vector and coordinate, and
what the solver said of that step.
"""

from pathlib import Path
from typing import Any

import numpy as np

from sim_service.multibody.natural import Record
from sync.block import RESERVED_NAMES, Channel, Layout
from sync.clock import now_ns
from sync.record import WholeRun, WholeTopic, write_whole
from tandem.facts import machine_facts

_SOLVER = {"phi_error": "m", "phid_error": "m/s", "iterations": "1", "energy_residual": "J", "contraction": "1"}
_UNITS = {"point": "m", "vector": "1"}


def columns(record: Record) -> list[tuple[str, str, np.ndarray]]:
    """(name, unit, values) over the kept instants; the start has no step of its own and is left out."""
    found: list[tuple[str, str, np.ndarray]] = [("time", "s", record.t[1:])]
    for name, node in record.system.mechanism.nodes.items():
        if not node.columns:
            continue  # fixed to the world
        # a scalar is an angle or a distance; only an angle has an equation of that kind
        turning = f"{name}.angle" in record.system.mechanism.constraints
        unit = _UNITS.get(node.kind, "rad" if turning else "m")
        for derivative, suffix in ((0, ""), (1, "_rate")):
            values = np.atleast_2d(record.values(node, derivative)[1:].T)
            per_second = f"{unit}/s" if derivative else unit
            axes = [""] if len(values) == 1 else [f"_{axis}" for axis in "xyz"[: len(values)]]
            found += [(f"{name}{axis}{suffix}", per_second, row) for axis, row in zip(axes, values, strict=True)]
    # the step that led to each kept instant
    at = np.clip(
        np.round((record.t[1:] - record.t[0]) / record.system.h).astype(int) - 1, 0, len(record.diagnostics) - 1
    )
    return found + [(name, unit, record[name][at]) for name, unit in _SOLVER.items()]


def _named_apart(found: list[tuple[str, str, np.ndarray]]) -> list[tuple[str, str, np.ndarray]]:
    """A mechanism may call its nodes as it likes, also like a channel that is there already."""
    taken = {*RESERVED_NAMES, "step"}
    out = []
    for wanted, unit, values in found:
        name = wanted
        while name in taken:
            name += "_"
        taken.add(name)
        out.append((name, unit, values))
    return out


def write_record(folder: Path, name: str, record: Record, figures: dict[str, Any], file: bytes) -> Path:
    found = _named_apart(columns(record))
    layout = Layout((Channel("step", "i8"), *(Channel(name, "f8", unit) for name, unit, _ in found)))
    words = np.zeros((len(record.states) - 1, layout.words), np.int64)
    steps = layout.view(words)
    begun = now_ns()
    steps["seq"] = steps["step"] = np.arange(len(words))
    steps["t_ns"] = steps["pushed_ns"] = begun + np.round(record.t[1:] * 1e9).astype(np.int64)
    for column, _, values in found:
        steps[column] = values
    facts = {"name": name, "mechanism": name, **machine_facts()}
    topics = {"/step": WholeTopic(layout, words, np.arange(len(words)))}
    ended = int(steps["t_ns"][-1]) if len(steps) else begun
    run = WholeRun(facts, {"mechanism.toml": file}, topics, begun, ended, str(figures["ended"]), figures)
    return write_whole(folder, run)
