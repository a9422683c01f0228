"""A recorded run of a mechanism again, bit for bit: one that was simulated, or one that a person had in the hand.

Of the latter the record has every act with the step before which it was done (`acts.json`), and the motion of what was
drawn; types of joints, limits and motions that were added on the way are made again by their acts. Whatever a record
holds is checked before it does anything: names of acts are those of a table, their arguments numbers and names.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sync.record import Run, RunError, open_run
from tandem.mechanism.columns import Column, columns, motions, turning_scalars
from tandem.mechanism.record import Recorded, differences, put_back, write_record
from tandem.mechanism.run import recorded_file, simulate
from tandem.multibody.description.mechanism_file import Described
from tandem.multibody.natural.api import AssemblyError, MechanismError, Record
from tandem.multibody.natural.tables import P
from tandem.reports.outcome import DAMAGED
from tandem.reports.report import Report, Section, Table
from tandem.view.rig import ACTS, Event, Rig, with_hands

ACTED = "acts.json"
MOST_STEPS, MOST_ACTS = 50_000_000, 1_000_000
MOST = 1e300  # of a number; beyond, an integer may be no float at all


def in_hand(described: Described, bench: Rig) -> Recorded:
    """What a record keeps of a mechanism in the hand."""
    start, reals = bench.begin
    found, t = _moved(bench)
    acts = {"steps": bench.steps, "acts": [[before, act, _plain(arguments)] for before, act, arguments in bench.log]}
    figures = {"steps": bench.steps, "acts": len(bench.log), "seconds": float(t[-1]), "ended": "finished"}
    return Recorded(described, start, reals, found, t, figures, {ACTED: json.dumps(acts).encode()})


def write_in_hand(folder: Path, described: Described, bench: Rig) -> Path:
    return write_record(folder, in_hand(described, bench), Path(described.path).read_bytes())


def _plain(value: Any) -> Any:
    """Arguments of an act as JSON has them; floats to the bit."""
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _moved(bench: Rig) -> tuple[list[Column], np.ndarray]:
    """Columns of what was drawn, over the rows that a bench has kept, the present instant last; and when they were.

    The session is over with it: the mechanism is as drawn again, without what was added to it.
    """
    at = list(range(0, bench.steps + 1, bench.stride))
    rows = list(bench.rows)
    if at[-1] != bench.steps:
        at.append(bench.steps)
        rows.append(bench.row())
    bench.reset()
    system, values = bench.begin[0].system, np.array(rows)
    n = system.n
    states = np.zeros((len(rows), system.state_size))
    states[:, system.span(P.TIME)] = values[:, :1]
    for k, which in enumerate((P.Q, P.QD, P.QDD)):
        states[:, system.span(which)] = values[:, 1 + k * n : 1 + (k + 1) * n]
    found = motions(Record(system, states, np.zeros((0, 0)), bench.steps), turning_scalars(system))
    found += [("phi_error", "m", values[:, -2]), ("phid_error", "m/s", values[:, -1])]
    return found, np.array(at) * system.h


def _acts(run: Run) -> tuple[list[Event], int]:
    """The acts of a record, and how many steps it has."""
    where, data = f"{run.path} ({ACTED})", run.json(ACTED)
    total, acts = data.get("steps"), data.get("acts")
    if not (isinstance(total, int) and _count(total, MOST_STEPS)):
        raise RunError(f"{where}: steps = {total!r}: must be a whole number to {MOST_STEPS}")
    if not isinstance(acts, list) or len(acts) > MOST_ACTS:
        raise RunError(f"{where}: acts: must be a list of at most {MOST_ACTS}")
    found: list[Event] = []
    last = 0
    for k, one in enumerate(acts):
        if not (isinstance(one, list) and len(one) == 3 and isinstance(one[2], list)):
            raise RunError(f"{where}: acts[{k}]: must be [steps before it, act, [arguments]]")
        before, act, arguments = one
        if not _count(before, total) or before < last:
            raise RunError(f"{where}: acts[{k}]: step {before!r}: must be a whole number from {last} to {total}")
        if act not in ACTS:
            raise RunError(f"{where}: acts[{k}]: {act!r} is none of {', '.join(ACTS)}")
        if not all(_argument(one) for one in arguments):
            raise RunError(f"{where}: acts[{k}]: arguments of {act} must be names, numbers and lists of these")
        found.append((before, act, tuple(arguments)))
        last = before
    return found, total


def _count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _argument(value: Any, deep: bool = True) -> bool:
    if isinstance(value, list):
        return deep and all(_argument(one, False) for one in value)
    return isinstance(value, str | bool) or (isinstance(value, int | float) and abs(value) <= MOST)


def replay_mechanism(path: Path, progress: Callable[[str, float], None] = lambda *_: None) -> Report:
    """The run again, and what of it is not the record's."""
    run = open_run(path, progress=lambda share: progress("reading", share))
    by_hand = ACTED in run.attachments
    described, state = recorded_file(run, with_hands) if by_hand else recorded_file(run)
    same_tables = put_back(run, state)
    if by_hand:
        acts, steps = _acts(run)
        bench = Rig(state)
        try:
            bench.repeat(acts, steps)
        except (MechanismError, AssemblyError, TypeError, ValueError, KeyError) as error:
            at = len(bench.log)
            raise RunError(f"{run.path} ({ACTED}): acts[{at}]: {acts[at][1]} cannot be done: {error}") from None
        found, _ = _moved(bench)
    else:
        found = columns(simulate(described, state, lambda share, figures: progress(figures, share)).record)
    different = differences(run, found)
    instants = len(found[0][2])
    text = f"identical to the record: {len(found)} channels at {instants} instants, to the bit"
    if different:
        text = f"differs from the record in {len(different)} of {len(found)} channels: {', '.join(list(different)[:8])}"
    notes = [] if same_tables else ["this version makes other tables of the file: the recorded ones were not used"]
    data = {
        "name": described.file.name, "identical": not different, "instants": instants, "by_hand": by_hand,
        "differing_channels": [{"channel": name, "max": most} for name, most in different.items()],
    }  # fmt: skip
    table = Table(("channel", "at most"), [(name, f"{most:.6g}") for name, most in different.items()])
    code = DAMAGED if run.losses else int(bool(different))
    return Report("tandem replay", text, data, [Section("Channels that differ", [table])], notes, run.losses, code)
