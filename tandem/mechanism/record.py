"""The record of a mechanism's run: the same file as that of any run, so that info, compare, plot and export know it.

One topic, /step: every kept instant, the start first, with what moved, the forces, and the solver's diagnostics
(mechanism_columns.py). The attachment made.json keeps what the file was made into (the system's real
tables and its start, which closing the mechanism found with a library's matrices), so that the run can be made again
to the bit (`put_back`, `differences`) on another machine.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.recorded_parameters import packed, unpacked
from sync.clock import now_ns
from sync.record import CompleteRun, CompleteTopic, Run, RunError, write_complete
from sync.ring.block import RESERVED_NAMES, Channel, Layout
from tandem.mechanism.columns import Column, columns
from tandem.multibody.description.mechanism_file import Described
from tandem.multibody.natural.api import Record, State, System
from tandem.records.provenance import machine_facts

TABLES_FILE = "made.json"


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


def _layout_id(system: System) -> str:
    """A hash of what every word of its tables and of a state means."""
    names = json.dumps([list(system.mechanism.nodes), [c.name for c in system.constraints], system.scheme.name])
    return hashlib.sha256(names.encode() + system.ints.tobytes()).hexdigest()[:16]


def _tables(start: State, reals: np.ndarray, described: Described) -> bytes:
    """What the run was made from, besides its file."""
    content = {
        "run": described.file.run.model_dump(mode="json"),  # the command line may have changed it
        "layout": _layout_id(start.system),
        "reals": packed(reals),
        "start": packed(start.vector),
    }
    return json.dumps(content, indent=1).encode()


def put_back(run: Run, state: State) -> bool:
    """The recorded tables and start into a state made here; False if their layout is not that of here."""
    recorded, system = run.json(TABLES_FILE), state.system
    if recorded.get("layout") != _layout_id(system):
        return False
    reals, start = (
        unpacked(recorded.get("reals"), len(system.reals)),
        unpacked(recorded.get("start"), system.state_size),
    )
    if reals is None or start is None:
        raise RunError(f"{run.path}: attachment {TABLES_FILE} is damaged")
    if not sound_words(reals, start, system):
        raise RunError(f"{run.path}: attachment {TABLES_FILE} has numbers that are not finite")
    system.reals[:], state.vector[:] = reals, start
    return True


def sound_words(reals: np.ndarray, start: np.ndarray, system: System) -> bool:
    """Whether recorded tables and a recorded start are numbers; what is infinite here may be so there."""
    return bool(np.all(np.isfinite(reals) | (reals == system.reals)) and np.isfinite(start).all())


def differences(run: Run, found: list[Column]) -> dict[str, float]:
    """Channels of a record that are not, to the bit, those of a run made again, and how much they differ at most."""
    steps = run.need("/step").blocks
    out = {}
    for name, _, values in _named_apart(found):
        if name not in (steps.dtype.names or ()):
            out[name] = np.inf  # the record is of an earlier version
            continue
        old, new = steps[name], np.ascontiguousarray(values)
        if len(old) != len(new) or np.any(old.view(np.int64) != new.view(np.int64)):
            out[name] = float(np.abs(old - new).max()) if len(old) == len(new) else np.inf
    return out


@dataclass(frozen=True)
class Recorded:
    """What a record of a mechanism is made of."""

    described: Described
    start: State
    reals: np.ndarray  # of its tables, at the start
    columns: list[Column]
    t: np.ndarray  # s since the start, of every row
    figures: dict[str, Any]
    attached: dict[str, bytes] = field(default_factory=dict)


def of_run(described: Described, record: Record, figures: dict[str, Any]) -> Recorded:
    return Recorded(described, record.state(0), record.system.reals, columns(record), record.t, figures)


def write_record(folder: Path, recorded: Recorded, file: bytes) -> Path:
    name = recorded.described.file.name
    found = _named_apart(recorded.columns)
    layout = Layout((Channel("step", "i8"), *(Channel(name, "f8", unit) for name, unit, _ in found)))
    words = np.zeros((len(recorded.t), layout.words), np.int64)
    steps = layout.view(words)
    begun = now_ns()
    steps["seq"] = steps["step"] = np.arange(len(words))
    steps["t_ns"] = steps["pushed_ns"] = begun + np.round(recorded.t * 1e9).astype(np.int64)
    for column, _, values in found:
        steps[column] = values
    facts = {"name": name, "mechanism": name, **machine_facts()}
    topics = {"/step": CompleteTopic(layout, words, np.arange(len(words)))}
    ended = int(steps["t_ns"][-1]) if len(steps) else begun
    tables = _tables(recorded.start, recorded.reals, recorded.described)
    attached = {"mechanism.toml": file, TABLES_FILE: tables, **recorded.attached}
    run = CompleteRun(facts, attached, topics, begun, ended, str(recorded.figures["ended"]), recorded.figures)
    return write_complete(folder, run)
