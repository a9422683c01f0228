"""A fleet: every record below a folder replayed, many at a time, and one table of what came of it.

Exactly, each must give its own bits again. Ideally, with a delay, with another configuration or other parameters, the
table has how far each run ends up from what was on board. A record that is cut short is replayed as far as it goes;
one that cannot be read or replayed is a row that says why, also where it ends the process that replays it. What is done
is kept by the contents of the files.
"""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.registry import configured
from sync.compile import dependencies
from sync.config.config import load
from sync.errors import ConfigError, TandemError, near_names
from sync.files.consent import ConsentMissing
from sync.files.private import by_default
from sync.files.regular import open_regular
from sync.record import FILE, RunError, open_run, parts
from tandem.ensembles.pool import Interrupted, WorkerEnded, pool, run_all
from tandem.ensembles.rows import Results, row_file
from tandem.ensembles.table import arrow, write_columns
from tandem.ensembles.work import Row, lost_row
from tandem.records.replay import Options, Replayed, configuration, recorded_columns, refuse_contradictions, replay_run
from tandem.reports.deviation import deviation

Progress = Callable[[str, float], None]
TABLE = "fleet.parquet"
NO_CONSENT = "no consent"  # to the code of an FMU
_BLOCK = 1 << 20
_MOST_CHECKED = 8  # records, for what is asked of all of them
_UNITS = {
    "simulated_s": "s", "steps": "1", "recorded_steps": "1", "missing_blocks": "1", "differing_channels": "1",
    "diverged_steps": "1", "damages": "1", "apart_max": "m", "apart_rms": "m", "lateral_max": "m",
    "off_path_max": "m", "yaw_rate_max": "deg/s",
}  # fmt: skip
_DEVIATIONS = (
    ("apart_max", "apart_m", "max"),
    ("apart_rms", "apart_m", "rms"),
    ("lateral_max", "lateral_m", "max"),
    ("off_path_max", "off_path_m", "max"),
    ("yaw_rate_max", "yaw_rate_deg_per_s", "max"),
)


@dataclass(frozen=True)
class FleetOptions:
    """What every record is asked for, as `tandem replay` has it."""

    mode: str = "exact"
    delay_ms: float = 0.0
    config: str = ""
    overrides: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()  # of these, the difference from what was recorded

    @property
    def replay(self) -> Options:
        config = Path(self.config) if self.config else None
        return Options(self.mode, self.delay_ms, config=config, overrides=list(self.overrides))


@dataclass(frozen=True)
class Fleet:
    folder: Path
    options: FleetOptions
    records: tuple[Path, ...]
    results: Results
    out: Path
    made_now: int
    columns: dict[str, Any] = field(repr=False)

    @property
    def sound(self) -> bool:
        """Whether every record could be replayed, and gave its own bits where nothing was changed."""
        wrong = {"broken", "failed"} if self.options.replay.changed else {"broken", "failed", "differs"}
        return not wrong & set(self.results.status)

    def summary(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder), "mode": self.options.mode, "delay_ms": self.options.delay_ms,
            "config": self.options.config, "set": list(self.options.overrides),
            "records": len(self.records), "made_now": self.made_now, "status": self.results.counts(),
            "simulated_s": float(np.nansum(self.results.figures["simulated_s"])), "table": str(self.out / TABLE),
        }  # fmt: skip


def records_below(folder: Path) -> tuple[Path, ...]:
    """Every record, by the first of its files; parts of one run are one record."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; one with runs below it is expected")
    found: dict[Path, None] = {}
    for file in sorted(folder.rglob("*.mcap")):
        if file.is_file() and not file.name.startswith("."):
            found[_files(file)[0]] = None
    if not found:
        raise ConfigError(f"{folder}: no record below it; records are .mcap files, such as RUN/{FILE}")
    return tuple(found)


def _files(file: Path) -> list[Path]:
    """All parts of the record that a file belongs to."""
    found = list(parts(file.parent).values())
    return found if file in found else [file]


def _digest(file: Path) -> bytes:
    """A digest of all parts of a record; of a part that cannot be read, of the system's message."""
    digest = hashlib.sha256()
    for part in _files(file):
        try:
            with open_regular(part) as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
        except OSError as error:
            digest.update(str(error).encode())
    return digest.digest()


def replay_record(file: str, key: str, options: FleetOptions) -> Row:
    """A row, whatever the record is like."""
    try:
        done = replay_run(Path(file), options.replay)
        return _row(done, key, options)
    except ConsentMissing as error:
        return {"key": key, "status": NO_CONSENT, "steps": 0, "error": str(error), "again": True}
    except RunError as error:
        return {"key": key, "status": "broken", "steps": 0, "error": str(error)}
    except TandemError as error:
        return {"key": key, "status": "diverged" if error.code == 3 else "failed", "steps": 0, "error": str(error)}
    except Exception as error:  # a damaged record may break anything; the others are still to be replayed
        return {"key": key, "status": "failed", "steps": 0, "error": f"{type(error).__name__}: {error}"}


def _row(done: Replayed, key: str, options: FleetOptions) -> Row:
    found = done.figures
    figures: dict[str, float] = {
        "simulated_s": found["simulated_s"],
        "recorded_steps": found["recorded_steps"],
        "missing_blocks": found["missing_blocks"],
        "diverged_steps": found["diverged_steps"],
        "differing_channels": len(found["differing_channels"]),
        "damages": len(found["record_damage"]),
    }
    old, new = recorded_columns(done.run, done.model), done.columns()
    old = {name: values[done.plan.first :] for name, values in old.items()}
    away = found.get("against", {}).get("on_board") or ({} if found["identical"] else deviation(old, new))
    for name, group, figure in _DEVIATIONS:
        if group in away:
            figures[name] = away[group][figure]
    units: dict[str, str] = {}
    for channel in options.channels:
        if channel in old and channel in new:
            n = min(len(new[channel]), len(old[channel]))
            error = new[channel][:n] - old[channel][:n]
            figures[f"{channel}_rms"] = float(np.sqrt(np.mean(error * error)))
            figures[f"{channel}_max"] = float(np.abs(error).max())
            unit = next(q.unit for q in (*done.model.inputs, *done.model.outputs) if q.name == channel)
            units |= {f"{channel}_rms": unit, f"{channel}_max": unit}
    row: Row = {"key": key, "status": _status(found), "steps": found["steps"], "figures": figures, "units": units}
    notes = [*found["record_damage"], *([found["stopped"]] if found["stopped"] else [])]
    if notes:
        row["error"] = "; ".join(notes)
    return row


def _status(found: dict[str, Any]) -> str:
    if found["diverged"]:
        return "diverged"
    if found["record_damage"] or found["stopped"]:
        return "damaged"
    if found["mode"] == "exact" and found["identical"] is not None:
        return "identical" if found["identical"] else "differs"
    return "ok"


def replay_chunk(options: FleetOptions, chunk: list[tuple[str, str]]) -> tuple[list[Row], float]:
    begun = time.perf_counter()
    rows = [replay_record(file, key, options) for file, key in chunk]
    return rows, time.perf_counter() - begun


def _lost(item: tuple[str, str], ended: WorkerEnded) -> Row:
    return lost_row(item[1], ended)


def fleet(
    folder: str | Path,
    options: FleetOptions | None = None,
    out: str | Path | None = None,
    workers: int = 0,
    progress: Progress = lambda *_: None,
) -> Fleet:
    """Replay every record below a folder. `out` (by default `runs/fleet_FOLDER`) gets the table and what is done.

    Raises ConfigError where there is no record or what is asked for is wrong, Interrupted on Ctrl-C.
    """
    options = options or FleetOptions()
    folder = Path(folder)
    refuse_contradictions(options.replay)
    arrow("the table of a fleet")
    records = records_below(folder)
    _refuse_unknown(options, records)
    place = Path(out) if out is not None else by_default(Path("runs") / f"fleet_{folder.resolve().name}")
    base = _base(options)
    keys = []
    for k, file in enumerate(records):
        keys.append(hashlib.sha256(base.encode() + _digest(file)).hexdigest()[:24])
        progress("reading", 0.05 * k / len(records))
    results = Results(keys, _UNITS)
    with row_file(place, base) as done:
        done.read(results)
        before = results.done

        def sink(rows: list[Row]) -> None:
            done.append(rows)
            for row in rows:
                results.take(row)
            progress(f"{results.done} of {len(records)} records", results.done / len(records))

        if todo := [(str(records[k]), keys[k]) for k in results.missing()]:
            with pool("processes", min(workers, len(todo)), preload=("tandem.ensembles.fleet",)) as where:
                whole = run_all(where, lambda chunk: (replay_chunk, (options, chunk)), todo, sink, _lost)
            if not whole:
                raise Interrupted(f"{results.done} of {len(records)} records are done; the same command goes on")
    columns = _columns(folder, records, results)
    write_columns(place / TABLE, columns, results.units, about={"asked": dataclasses.asdict(options)})
    return Fleet(folder, options, records, results, place, results.done - before, columns)


def _refuse_unknown(options: FleetOptions, records: tuple[Path, ...]) -> None:
    """A setting or a channel that fits none of the records is wrong once, not once a record.

    Some records are looked at, until one takes it: records may be of different machines. One that cannot be read is
    for its row to tell.
    """
    if not (options.overrides or options.channels):
        return
    plain = dataclasses.replace(options.replay, overrides=[])
    refused: list[str] = []
    missing: dict[str, list[str]] = {}
    checked = 0
    for file in records:
        if checked == _MOST_CHECKED:
            break
        try:
            run = open_run(file)
            _, model, _ = configuration(run, plain)
        except Exception:  # a damaged record may break anything
            continue
        checked += 1
        if options.overrides:
            try:
                _, model, _ = configuration(run, options.replay)
            except ConfigError as error:
                refused.append(str(error))
                continue
            except Exception:
                continue
        names = [q.name for q in (*model.inputs, *model.outputs)]
        missing[str(file)] = [name for name in options.channels if name not in names]
        if not missing[str(file)]:
            return
    if refused and len(refused) == checked:
        others = f" (so do {checked - 1} others that were looked at)" if checked > 1 else ""
        raise ConfigError(f"--set: the record refuses it{others}: {refused[0]}")
    for name in options.channels:
        if missing and all(name in of for of in missing.values()):
            near = near_names(name, names, 3) or names[:12]
            raise ConfigError(
                f"--channels {name}: no channel of the records looked at; {model.name} has {', '.join(near)} …"
            )


def _base(options: FleetOptions) -> str:
    """A digest of what every replay depends on; a configuration that is wrong is refused here, not once a record."""
    stamp = dependencies.stamp(dependencies.file_of("tandem.ensembles.fleet"))
    digest = hashlib.sha256(json.dumps([dataclasses.asdict(options), stamp, dependencies.fingerprint()]).encode())
    if options.config:
        path = Path(options.config)
        config = load(path, list(options.overrides))
        digest.update(config.model_dump_json().encode())
        for name, content in sorted(configured(config, path.parent).files.items()):
            digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()


def _columns(folder: Path, records: tuple[Path, ...], results: Results) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "record": [str(file.relative_to(folder)) for file in records],
        "status": results.status,
        "note": [results.errors.get(k, "") for k in range(len(records))],
        "steps": results.steps,
    }
    there = {name: values for name, values in results.figures.items() if name != "steps"}
    known = [name for name, values in there.items() if np.isfinite(values).any()]
    return columns | {name: there[name] for name in known}
