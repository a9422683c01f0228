"""The swerve with test persons: trails in random order, hidden; what each drove is recorded, and shown only at the end.

A session is a folder: `session.json` has the seed, the hidden order and how the person rated each trial; each
trial is a run of its own in it, recorded as any. The summary reads the records: per trail, how often it was driven, the
largest torque, torque per angle, lateral acceleration, obstacles hit, the least room, and the person's marks.
"""

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import ConfigError
from sync.files.private import make_folder, rewrite
from sync.files.regular import read_regular
from tandem.reports.report import Report, Section, Table, numbers

FILE = "session.json"
CHANNELS = ("steering_torque", "steering_angle", "ay", "vx", "obstacle_hits", "obstacle_there", "obstacle_room")
MOVED = 0.05  # rad; the wheel counts as moved from here on
MARKS = (1, 7)  # light to heavy


@dataclass
class Session:
    person: str
    seed: int
    trails: list[float]  # m, of the trials, in their order
    runs: list[str] = field(default_factory=list)  # folders, as they are made
    marks: list[int | None] = field(default_factory=list)


def order(trails: tuple[float, ...], repeats: int, seed: int) -> list[float]:
    """Each trail as often, shuffled within each round: nobody gets one twice before having had all."""
    draw = random.Random(seed)
    found: list[float] = []
    for _ in range(repeats):
        part = list(trails)
        draw.shuffle(part)
        found += part
    return found


def save(folder: Path, session: Session) -> None:
    make_folder(folder)
    rewrite(folder / FILE, (json.dumps(asdict(session), indent=1) + "\n").encode())


def load(folder: Path) -> Session:
    file = folder / FILE
    try:
        return Session(**json.loads(read_regular(file)))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{file}: is no session of the caster trials: {error}") from None


def figures(steps: dict[str, np.ndarray]) -> dict[str, float]:
    """What one trial comes to; steps are arrays by channel."""
    angle, torque = steps["steering_angle"], steps["steering_torque"]
    moved = np.abs(angle) > MOVED
    there = steps["obstacle_there"] > 0.5
    return {
        "largest torque": float(np.abs(torque[moved]).max()) if moved.any() else 0.0,
        "torque per angle": float(torque[moved] @ angle[moved] / np.sum(angle[moved] ** 2)) if moved.any() else 0.0,
        "largest lateral acceleration": float(np.abs(steps["ay"]).max()),
        "obstacles hit": float(steps["obstacle_hits"].max()),
        "least room": float(steps["obstacle_room"][there].min()) if there.any() else float("nan"),
    }


def summary(session: Session, trials: list[dict[str, float]]) -> list[dict[str, Any]]:
    """A row per trail, in order of the trail; means over its trials."""
    rows = []
    for trail in sorted(set(session.trails)):
        which = [k for k, each in enumerate(session.trails[: len(trials)]) if each == trail]
        marks = [m for k in which if k < len(session.marks) and (m := session.marks[k]) is not None]
        row: dict[str, Any] = {"trail": trail, "trials": len(which)}
        for name in trials[0] if trials else ():
            row[name] = float(np.mean([trials[k][name] for k in which])) if which else float("nan")
        row["mark"] = float(np.mean(marks)) if marks else float("nan")
        rows.append(row)
    return rows


def read(folder: Path) -> dict[str, np.ndarray]:
    """The steps of a trial, as it was recorded."""
    from sync.record import RunError, open_run
    from sync.ring.streams import SIM

    run = open_run(folder)
    steps = run.topics.get(SIM.topic)
    if steps is None or any(name not in steps.layout.names for name in CHANNELS):
        raise RunError(f"{folder}: is no trial: its steps must have {', '.join(CHANNELS)}")
    return {name: np.asarray(steps.blocks[name], float) for name in CHANNELS}


def report(session: Session, rows: list[dict[str, Any]]) -> Report:
    names = [name for name in rows[0] if name not in ("trail", "trials")] if rows else []
    cells = [[f"{1e3 * row['trail']:.0f}", row["trials"], *numbers(row, names, ".3g")] for row in rows]
    headline = f"{session.person}: {len(session.runs)} of {len(session.trails)} trials driven."
    data = {"person": session.person, "seed": session.seed, "trails": rows}
    sections = [Section("", [Table(("trail, mm", "trials", *names), cells)])]
    code = int(len(session.runs) < len(session.trails))
    return Report("tandem study caster-trials", headline, data, sections, code=code)
