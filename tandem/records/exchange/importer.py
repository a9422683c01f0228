"""`tandem import`: someone else's measurement, or an exported run, as a run that can be replayed.

What travels are raw counts in blocks of the configuration's layout. Instants are those of the file; a file whose time
begins below zero is shifted to begin at zero. Columns of a row count as sampled together: the skews of the layout are
the real DAQ's and mean nothing for the file.
"""

import functools
import importlib
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from daq_service.devices.dbc import Mapped as BusSignal
from sim_service.registry import configured_machine
from sync.config.config import Config, load
from sync.config.toml import Section, check
from sync.files.private import by_default, rename
from sync.record import CompleteRun, CompleteTopic, new_folder, write_complete
from sync.record.batch import NAME_OF_RUN, NAME_RULE
from sync.record.utc import KEY as UTC_OFFSET
from sync.record.utc import derived, utc_stamp
from sync.ring.block import AGE
from sync.ring.streams import BLOCK_TOPICS
from tandem.records.exchange import can_frames, csv
from tandem.records.exchange.counts import to_counts
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.mapping import Mapped, mapped, mapped_outputs, samples
from tandem.records.exchange.measured import measured_series, measured_topics
from tandem.records.exchange.resample import Series, onto_blocks
from tandem.records.exchange.tables import (
    BusNames,
    Measurement,
    Progress,
    Sheet,
    attachments_of,
    blocks_from,
    is_block_table,
    layout_of,
)
from tandem.records.provenance import attachments, start_facts
from tandem.reports.report import Line, Report

_NOT_COPIED = ("format", "monotonic_ns")  # the writer sets them itself
_ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".mf4": "mf4", ".mdf": "mf4", ".dat": "mf4",
    ".log": "can_frames", ".asc": "can_frames", ".blf": "can_frames", ".trc": "can_frames",
    ".mat": "matlab", ".mcap": "ros", ".bag": "ros", ".db3": "ros",
}  # fmt: skip


class BusSource(Section):
    """What of `[source]` says which signals of a bus the channels are."""

    signals: dict[str, BusSignal] = {}


@dataclass
class Options:
    """What the command line asks for."""

    file: Path
    config: Path  # the configuration to import for
    explicit_config: bool = False  # False: an exported run brings its own
    maps: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)
    time: str | None = None
    rate_hz: float | None = None
    overrides: list[str] = field(default_factory=list)
    runs: Path = Path("runs")
    dbc: Path | None = None  # of raw CAN frames; None: the configuration's, if its source is a bus


@dataclass
class _Content:
    """A run to be written."""

    name: str
    start: dict[str, str]
    attachments: dict[str, bytes]
    topics: dict[str, CompleteTopic]
    begun_ns: int  # on the clock of the instants; where the start's wall clock belongs
    reason: str
    figures: dict[str, Any]


def import_file(options: Options, progress: Progress = lambda *_: None) -> dict[str, Any]:
    """Write the run; returns its figures."""
    progress("reading", 0.0)
    measurement = open_measurement(options.file, lambda: _bus_names(options), progress)
    try:
        content = content_of(options, measurement)
    finally:
        measurement.close()
    return _write(content, options, progress)


def open_measurement(
    path: Path, names: Callable[[], BusNames] = BusNames, progress: Progress = lambda *_: None
) -> Measurement:
    """`names` is asked where the file may hold raw frames of a bus."""
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix.lower() in _ENDINGS)[:5]
        raise ExchangeError(f"{path}: no such file" + f"; beside it: {', '.join(near)}" * bool(near))
    if path.is_dir():
        if (path / csv.MANIFEST).exists():
            return csv.read(path, progress)
        if any(path.glob("*.parquet")):
            return _reader("parquet")(path)
        if (path / "metadata.yaml").exists():
            return _reader("ros")(path)
        raise ExchangeError(f"{path}: a folder, but none of an export and no ROS 2 bag; give a file")
    kind = _ENDINGS.get(path.suffix.lower())
    if kind is None:
        hint = "; unpack it first" if path.suffix.lower() in (".gz", ".zip", ".xz", ".zst", ".bz2") else ""
        raise ExchangeError(f"{path}: unknown type of file {path.suffix!r}; must be one of {', '.join(_ENDINGS)}{hint}")
    if kind == "csv":
        return csv.read(path, progress)
    if kind == "can_frames":
        return can_frames.read(path, names(), progress)
    if kind == "mf4":
        return _reader(kind)(path, names())
    return _reader(kind)(path)


def _bus_names(options: Options) -> BusNames:
    """The DBC that was given; else what the configuration has, which then says what its channels are, too."""
    if options.dbc is not None:
        return BusNames(options.dbc)
    if not options.explicit_config:
        return BusNames()
    config = load(options.config, options.overrides)
    source = config.source
    if source.get("kind") != "can" or not isinstance(source.get("dbc"), str):
        return BusNames()
    key = f"{options.config}: source"
    signals = check(BusSource, {"signals": source.get("signals", {})}, key).signals
    return BusNames(options.config.parent / source["dbc"], f"{key}.dbc", signals)


def _reader(kind: str) -> Callable[..., Measurement]:
    read: Callable[..., Measurement] = importlib.import_module(f"tandem.records.exchange.{kind}").read
    return read


# ---- what the run holds ----------------------------------------------------------------------------------------------


def content_of(options: Options, measurement: Measurement) -> _Content:
    ours = not options.maps and not options.measured and options.time is None
    if ours and measurement.passport is not None:
        return _exported(options, measurement, measurement.passport)
    settings = [*options.overrides, *([f"daq.rate_hz={options.rate_hz!r}"] if options.rate_hz is not None else [])]
    config = load(options.config, settings)
    if ours:
        # an exported table without its passport is known by its names and units
        sheet = next((s for s in measurement.sheets if is_block_table(s, config.daq.layout)), None)
        if sheet is not None and options.rate_hz is None:
            topic = blocks_from(measurement.path, sheet, config.daq.layout)
            begun = max(int(config.daq.layout.view(topic.words)["t_ns"][0]), 0)
            return _of_config(options, config, measurement, {"/daq": topic}, begun, {"instants": "exported"})
    return _foreign(options, config, measurement)


def _exported(options: Options, measurement: Measurement, passport: dict[str, Any]) -> _Content:
    """The same run again; with another configuration, if one is given."""
    path = measurement.path
    for option, present in (("--rate-hz", options.rate_hz is not None), ("--set", bool(options.overrides))):
        if present and not options.explicit_config:
            raise ExchangeError(
                f"{option}: {path} is an exported run with its own configuration; give a configuration after it to"
                " import it for another, or change settings when you replay it"
            )
    topics = {
        sheet.name: blocks_from(_file(measurement, sheet), sheet, layout_of(passport, sheet.name, str(path)))
        for sheet in measurement.sheets
        if sheet.name in passport["topics"]
    }
    inputs = [name for name in BLOCK_TOPICS if name in topics]
    if not inputs:
        raise ExchangeError(
            f"{path}: holds {', '.join(topics) or 'none of its topics'}, but no blocks of inputs; give the file of"
            " /daq, or the whole export"
        )
    start = {key: value for key, value in passport["start"].items() if key not in _NOT_COPIED}
    attached = {name: data for name, data in attachments_of(passport).items() if name != "summary.json"}
    if options.explicit_config:
        config = load(options.config, options.overrides)
        layout = topics[inputs[0]].layout
        if config.daq.layout != layout:
            raise ExchangeError(
                f"{path}: its blocks are {layout.text}, {options.config} has {config.daq.layout.text}; leave that"
                " configuration out"
            )
        here = {key: value for key, value in start_facts(config).items() if key != UTC_OFFSET}
        start = {**start, **here, "recorded_utc": start.get("utc", "")}
        attached = attachments(config, options.config)
    start["imported_from"] = path.name
    start |= derived(passport["start"])
    try:
        begun = max(int(passport["start"].get("monotonic_ns", "0")), 0)
    except ValueError:
        begun = 0
    ended = (passport.get("end") or {}).get("reason", "unknown")
    reason = f"imported from {path.name}; had ended: {ended}"
    figures = {"instants": "exported", "channels": {}}
    name = start.setdefault("name", "imported")
    if not NAME_OF_RUN.fullmatch(name):
        raise ExchangeError(f"{path}: start.name = {name[:80]!r}: becomes the name of a folder, {NAME_RULE}")
    return _Content(name, start, attached, topics, begun, reason, figures)


def _file(measurement: Measurement, sheet: Sheet) -> Path:
    """For messages: the sheet's own file, if the measurement is a folder."""
    if not measurement.path.is_dir():
        return measurement.path
    found = sorted(measurement.path.glob(f"{sheet.name.strip('/').replace('/', '_')}.*"))
    return found[0] if found else measurement.path


def _foreign(options: Options, config: Config, measurement: Measurement) -> _Content:
    layout, path = config.daq.layout, measurement.path
    outputs = {}
    if options.measured:
        outputs = {q.name: q.unit for q in configured_machine(config, options.config.parent)[0].outputs}
    maps = [*options.maps, *_own_maps(options, config, measurement)]
    sources = mapped(measurement, maps, layout, config.inputs, _typed(options))
    wanted = mapped_outputs(measurement, options.measured, outputs)
    series, remarks = _series(options, config, measurement, sources)
    if not series:
        raise ExchangeError(f"{path}: every channel is mapped to a number; at least one must be a column")
    try:
        blocks = onto_blocks(list(series.values()), config.period_ns)
    except ExchangeError as error:
        raise ExchangeError(f"{path}: {error}") from None
    of_sensors, more = measured_series(measurement, wanted, options.time)
    shift = max(-min([int(blocks.t_ns[0]), *(int(s.t_ns[0]) for s in of_sensors)]), 0)
    words = np.zeros((len(blocks.t_ns), layout.words), np.int64)
    records = layout.view(words)
    records["seq"] = np.arange(len(words))
    records["epoch"] = blocks.epoch
    records["t_ns"] = records["pushed_ns"] = blocks.t_ns + shift
    for name, counts, instants in zip(series, blocks.counts, blocks.sampled_ns, strict=True):
        records[name] = counts
        if name + AGE in layout.names:
            records[name + AGE] = np.minimum((blocks.t_ns - instants) // 1000, np.iinfo(np.uint32).max)
    for m in sources:
        if m.source.sheet is None:
            value = np.array([m.source.constant])
            option = functools.partial("--map {0}={1}".format, m.channel.name, m.source.column)
            records[m.channel.name] = to_counts(value, m.channel, config.inputs, m.source.unit, option)[0]
    figures = {
        "instants": "kept" if blocks.unchanged else "resampled",
        "samples": max(len(s.t_ns) for s in series.values()),
        "superseded": blocks.superseded,
        "shift_ns": shift,
        "channels": {m.channel.name: f"{m.source.column} [{m.source.unit.symbol}]" for m in sources},
        "measured": {s.name: s.about for s in of_sensors},
        "remarks": [*measurement.remarks, *remarks, *blocks.ends, *more],
    }
    topics = {"/daq": CompleteTopic(layout, words, np.arange(len(words), dtype=np.int64))}
    topics |= measured_topics(of_sensors, shift)
    # a file that says when its time was zero
    begun = int(records["t_ns"][0]) if measurement.utc is None else shift
    return _of_config(options, config, measurement, topics, begun, figures)


def _typed(options: Options) -> str:
    words = ["tandem", "import", str(options.file), *([str(options.config)] if options.explicit_config else [])]
    for option, value in (("--dbc", options.dbc), ("--time", options.time), ("--rate-hz", options.rate_hz)):
        words += [] if value is None else [option, str(value)]
    for option, several in (("--set", options.overrides), ("--map", options.maps), ("--measured", options.measured)):
        words += [word for each in several for word in (option, each)]
    return shlex.join(words)


def _own_maps(options: Options, config: Config, measurement: Measurement) -> list[str]:
    """Channels that the configuration itself takes off a bus, where nothing else is asked for."""
    chosen = {text.partition("=")[0].strip() for text in options.maps}
    found = {c.name: can_frames.own_column(measurement, c.name) for c in config.daq.layout.channels}
    return [f"{name}={column}" for name, column in found.items() if column is not None and name not in chosen]


def _series(
    options: Options, config: Config, measurement: Measurement, sources: list[Mapped]
) -> tuple[dict[str, Series], list[str]]:
    """(by channel, what should be known about them); a sheet is loaded once."""
    found, remarks = {}, []
    for sheet in measurement.sheets:
        mine = [m for m in sources if m.source.sheet is sheet]
        if not mine:
            continue
        loaded = samples(measurement, sheet, list(dict.fromkeys(m.source.column for m in mine)), options.time)
        for m in mine:
            t_ns, values = loaded[m.source.column]
            rows = np.flatnonzero(~np.isnan(values))  # where there is a reading
            if not len(rows):
                raise ExchangeError(f"{measurement.path}: column {m.source.column} holds no number at all")
            if len(rows) < len(values):
                none = len(values) - len(rows)
                remarks.append(f"{m.channel.name}: {none} of {len(values)} readings are not a number: left out")
                t_ns, values = t_ns[rows], values[rows]
            where = functools.partial(_where, measurement, sheet, m.source.column, rows)
            counts = to_counts(values, m.channel, config.inputs, m.source.unit, where)
            found[m.channel.name] = Series(m.source.column, t_ns, counts)
    return found, remarks


def _where(measurement: Measurement, sheet: Sheet, column: str, rows: np.ndarray, place: int) -> str:
    return f"{measurement.path}: {sheet.where(int(rows[place]))}, column {column}"


def _of_config(
    options: Options,
    config: Config,
    measurement: Measurement,
    topics: dict[str, CompleteTopic],
    begun_ns: int,
    figures: dict[str, Any],
) -> _Content:
    start = start_facts(config) | {"imported_from": measurement.path.name}
    del start[UTC_OFFSET]  # of this computer's clock, on which nothing was measured
    if measurement.utc is not None:
        start |= {"recorded_utc": measurement.utc, **derived({"utc": measurement.utc, "monotonic_ns": str(begun_ns)})}
    attached = attachments(config, options.config)
    reason = f"imported from {measurement.path.name}"
    return _Content(config.name, start, attached, topics, begun_ns, reason, {"channels": {}, **figures})


# ---- writing it ------------------------------------------------------------------------------------------------------


def _write(content: _Content, options: Options, progress: Progress) -> dict[str, Any]:
    """Under another name first, so that a run is there whole or not at all."""
    runs = options.runs
    part: Path | None = None
    new_folders = [folder for folder in (runs, *runs.parents) if not folder.exists()]
    folder: Path | None = None
    done = False
    try:
        if runs == Path("runs"):
            by_default(runs / "run")
        part = new_folder(runs, ".importing", utc_stamp())
        figures = _write_run(part, content, options, progress)
        folder = new_folder(runs, utc_stamp(), content.name)
        rename(part, folder)
        done = True
    except OSError as error:
        raise ExchangeError(f"{runs}: cannot be written: {error.strerror or error}") from None
    finally:
        if not done:
            for left in (part, folder):
                if left is not None:
                    shutil.rmtree(left, ignore_errors=True)
            for empty in new_folders:
                try:
                    empty.rmdir()
                except OSError:
                    break
    return {"run": str(folder), **figures}


def _write_run(folder: Path, content: _Content, options: Options, progress: Progress) -> dict[str, Any]:
    figures = {**summary_of(content), "from": str(options.file)}
    last_ns = max(int(topic.layout.view(topic.words)["t_ns"][-1]) for topic in content.topics.values())
    ended_ns = max(last_ns, content.begun_ns)
    run = CompleteRun(
        content.start, content.attachments, content.topics, content.begun_ns, ended_ns, content.reason, figures
    )
    write_complete(folder, run, lambda share: progress("writing", share))
    return figures


def summary_of(content: _Content) -> dict[str, Any]:
    name = next(name for name in BLOCK_TOPICS if name in content.topics)
    topic = content.topics[name]
    blocks = topic.layout.view(topic.words)
    return {
        "rows": {name: len(t.words) for name, t in content.topics.items()},
        "columns": {name: len(t.layout.names) for name, t in content.topics.items()},
        "seconds": round((int(blocks["t_ns"][-1]) - int(blocks["t_ns"][0])) * 1e-9, 9),
        "gaps": int(np.count_nonzero(np.diff(blocks["epoch"].astype(np.int64)))),
        **content.figures,
    }


def report(figures: dict[str, Any]) -> Report:
    counts = ", ".join(f"{rows} rows of {name}" for name, rows in figures["rows"].items())
    lines: list[Line] = [
        {
            "kept": "every sample is a block, at its own instant",
            "resampled": "put on the DAQ's period: the newest sample at or before each block",
            "exported": "an exported run: blocks, instants and numbers as they were",
        }[figures["instants"]]
    ]
    if figures.get("superseded"):
        lines.append(f"{figures['superseded']} samples are in no block: newer ones came before the next block was due")
    if figures.get("shift_ns"):
        lines.append(f"the file's time begins below zero: shifted by {figures['shift_ns'] * 1e-9:g} s")
    lines += [f"  {channel} ← {source}" for channel, source in figures["channels"].items()]
    lines += [f"  measured {name} ← {about}" for name, about in figures.get("measured", {}).items()]
    lines += figures.get("remarks", ())
    lines += [f"run: {figures['run']}", f"try: tandem replay {figures['run']} --mode ideal"]
    headline = f"{counts}; {figures['seconds']:.3f} s, {figures['gaps']} gaps"
    return Report("tandem import", headline, figures, notes=lines)
