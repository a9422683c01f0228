"""MF4 (ASAM MDF 4.10): one file, one channel group a topic, which is one a rate.

Every group has its master channel `t_s`, seconds from the file's start time, which is the instant of the run's first
block on the wall clock; `t_ns` is a channel beside it, exact. Units and notes stand where MDF wants them. The run's
passport is an attachment.

Reading takes channels of any group with a time master, their physical values, and leaves out what the file marks as
invalid. Groups of raw CAN frames are decoded by a DBC (can_frames.py).
"""

import gc
import io
import json
import warnings
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from sync.files.given import open_given
from sync.files.limits import Budget, DecodedTooLarge
from tandem.records.exchange.can_frames import ById, Frames, decoded
from tandem.records.exchange.csv import different
from tandem.records.exchange.errors import ExchangeError, extra_missing
from tandem.records.exchange.mf4_blocks import check_blocks
from tandem.records.exchange.tables import SECONDS, BusNames, Measurement, Progress, Sheet, Table, read_passport

try:
    from asammdf import MDF, Signal
except ImportError:
    raise extra_missing("asammdf", "mf4") from None

_PASSPORT = "tandem.json"
_MAGIC = (b"MDF     ", b"UnFinMF ")  # the latter was not closed
_DEFLATE = 1
_TIME_MASTER = 1  # sync type
_MARKED_INVALID = 3  # flags of a channel: all of it, or where a bit says so
_BUS_EVENT = 2  # flag of a channel group
_FRAME = "CAN_DataFrame"
_BYTES_OF_FRAME = 120
_NO_NAMES = BusNames()
_BYTES_OF_VALUE = 16  # as the library reads it, and as a number


def write(tables: list[Table], passport: dict[str, Any], place: Path, progress: Progress) -> list[str]:
    """One file. The library insists on its ending .mf4."""
    with MDF(version="4.10") as mdf:
        start = started(passport["start"], tables)
        if start is not None:
            mdf.start_time = start
        facts = passport["start"]
        mdf.header.comment = f"run {facts.get('name', '')} of {facts.get('utc', '')}, {facts.get('software', 'tandem')}"
        for k, table in enumerate(tables):
            progress(f"writing {table.topic}", k / (len(tables) + 1))
            seconds = table.columns[0].values
            signals = [
                Signal(
                    np.ascontiguousarray(c.values), seconds, name=c.name, unit=c.unit, comment=c.note,
                    master_metadata=(SECONDS, _TIME_MASTER),
                )
                for c in table.columns[1:]
            ]  # fmt: skip
            mdf.append(signals, acq_name=table.topic, comment=f"topic {table.topic}", common_timebase=True)
        mdf.attach(
            json.dumps(passport).encode(), _PASSPORT, comment="what the run was made with", mime="application/json"
        )
        progress(f"writing {place.suffix[1:]}", len(tables) / (len(tables) + 1))
        mdf.save(place, overwrite=True, compression=_DEFLATE)
    return [place.name]


def started(start: dict[str, str], tables: list[Table]) -> datetime | None:
    """The wall clock at the zero of t_s, from the wall clock and the monotonic instant at which the record began."""
    try:
        begun = datetime.fromisoformat(start.get("recorded_utc") or start["utc"])
        table = tables[0]
        t_ns, seconds = (next(c.values for c in table.columns if c.name == name) for name in ("t_ns", SECONDS))
        zero_ns = int(t_ns[0]) - round(float(seconds[0]) * 1e9)
        return begun.astimezone(UTC) + timedelta(microseconds=(zero_ns - int(start["monotonic_ns"])) // 1000)
    except (KeyError, ValueError, OverflowError):
        return None


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path, names: BusNames = _NO_NAMES) -> Measurement:
    try:
        with open_given(path) as file:
            start = file.read(8)
    except OSError as error:
        raise ExchangeError(f"{path}: cannot be read: {error.strerror}") from None
    if not start.startswith(_MAGIC):
        raise ExchangeError(f"{path}: not an MDF file: it begins with {start!r}" if start else f"{path}: is empty")
    budget = Budget(path, path.stat().st_size)
    check_blocks(path, budget)
    mdf = None
    refused: DecodedTooLarge | None = None
    try:
        with budget.enforced("what it describes"), _quiet():
            mdf = MDF(path)
    except DecodedTooLarge as error:
        _let_go(error)
        refused = error
    except Exception as error:  # whatever a damaged file makes of the parser
        _let_go(error)
    if mdf is None:
        with warnings.catch_warnings():  # asammdf leaves the file open; it goes now, and without a word
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        if refused is not None:
            raise refused
        raise ExchangeError(f"{path}: a damaged MDF file; asammdf cannot open it either")
    try:
        with budget.enforced("its attachment"), _quiet():
            sheets, passport = _sheets(path, mdf, budget), _passport(path, mdf)
            frames = _frames(path, mdf, budget)
        utc = mdf.start_time.astimezone(UTC).isoformat()
    except (ExchangeError, DecodedTooLarge):
        mdf.close()
        raise
    except Exception as error:
        mdf.close()
        raise ExchangeError(f"{path}: cannot be read: {_first_line(error)}") from None
    remarks: list[str] = []
    if frames and (names.dbc is not None or not any(sheet.columns for sheet in sheets)):
        try:
            sheets += decoded(path, frames, names, remarks)
        except ExchangeError:
            mdf.close()
            raise
    if not any(sheet.columns for sheet in sheets):
        mdf.close()
        raise ExchangeError(f"{path}: holds no samples over time")
    return Measurement(path, sheets, passport, utc, remarks, signals=names.signals, close=mdf.close)


def _sheets(path: Path, mdf: Any, budget: Budget) -> list[Sheet]:
    groups = []
    for number, group in enumerate(mdf.groups):
        master = mdf.masters_db.get(number)
        timed = master is not None and getattr(group.channels[master], "sync_type", _TIME_MASTER) == _TIME_MASTER
        if timed and group.channel_group.cycles_nr and not _is_bus(group):
            _check(path, group)
            groups.append((number, master, group))
    # a name may stand in many groups: it is given a number, over the whole file unless the file is ours
    sheets = []
    seen: list[str] = []
    own = _passport(path, mdf) is not None
    for number, master, group in groups:
        indices = [k for k in range(len(group.channels)) if k != master]
        names = [group.channels[k].name for k in indices]
        before = [] if own else seen
        names = different([*before, *names])[len(before) :]
        seen += [group.channels[k].name for k in indices]
        sheets.append(_Group(path, mdf, number, dict(zip(names, indices, strict=True)), budget).sheet())
    return sheets


def _is_bus(group: Any) -> bool:
    """Frames as a logger took them, not measurements: the rate switch of a frame is no brake."""
    return bool(getattr(group.channel_group, "flags", 0) & _BUS_EVENT)


def _frames(path: Path, mdf: Any, budget: Budget) -> ById:
    """The CAN data frames of all groups, by bus and id."""
    found: ById = {}
    for number, group in enumerate(mdf.groups):
        prefix = next((c.name for c in group.channels if c.name == _FRAME), None)
        if not _is_bus(group) or prefix is None or not group.channel_group.cycles_nr:
            continue
        _check(path, group)
        indices = {c.name.removeprefix(f"{_FRAME}."): k for k, c in enumerate(group.channels)}
        if not {"ID", "DataBytes"} <= indices.keys():
            raise ExchangeError(f"{path}: its CAN frames have no {_FRAME}.ID and {_FRAME}.DataBytes")
        wanted = [name for name in ("ID", "IDE", "DataLength", "DataBytes", "BusChannel") if name in indices]
        budget.take(_BYTES_OF_FRAME * group.channel_group.cycles_nr, "its CAN frames")
        places = [(None, number, indices[name]) for name in wanted]
        signals = dict(zip(wanted, mdf.select(places, copy_master=False, raw=True, validate=True), strict=True))
        data = signals["DataBytes"].samples
        if data.ndim != 2 or data.dtype != np.uint8:
            raise ExchangeError(f"{path}: the data of its CAN frames are {data.dtype}, bytes are expected")
        count = len(data)
        if any(len(s.samples) != count for s in signals.values()):
            raise ExchangeError(f"{path}: its CAN frames are marked as invalid in part; they cannot be distinguished")
        ids = signals["ID"].samples.astype(np.int64) & 0x1FFFFFFF
        extended = signals["IDE"].samples.astype(bool) if "IDE" in signals else ids > 0x7FF
        bus = signals["BusChannel"].samples if "BusChannel" in signals else np.zeros(count, np.int64)
        lengths = signals["DataLength"].samples if "DataLength" in signals else np.full(count, data.shape[1])
        lengths = np.minimum(lengths, data.shape[1])
        key = (ids << 9) | (extended.astype(np.int64) << 8) | bus.astype(np.int64)
        for each in np.unique(key):
            rows = np.flatnonzero(key == each)
            frames = found.setdefault((f"bus{each & 0xFF}", int(each >> 9), bool(each >> 8 & 1)), Frames())
            frames.add_many(signals["ID"].timestamps[rows], lengths[rows], data[rows])
    return found


def _check(path: Path, group: Any) -> None:
    """The library's compiled code trusts the places of channels in a record; a damaged file would end the process."""
    size = getattr(group.channel_group, "samples_byte_nr", 0)
    marks = 8 * getattr(group.channel_group, "invalidation_bytes_nr", 0)
    for c in group.channels:
        if hasattr(c, "byte_offset") and c.byte_offset + (c.bit_offset + c.bit_count + 7) // 8 > size:
            raise ExchangeError(f"{path}: a damaged MDF file: channel {c.name} lies outside its record")
        if getattr(c, "flags", 0) & _MARKED_INVALID and c.pos_invalidation_bit >= marks:
            raise ExchangeError(f"{path}: a damaged MDF file: the mark of {c.name} as invalid lies outside its record")


class _Group:
    def __init__(self, path: Path, mdf: Any, number: int, channels: dict[str, int], budget: Budget):
        self._path, self._mdf, self._number, self._channels = path, mdf, number, channels
        self._budget = budget
        self._times: dict[str, np.ndarray] = {}
        self._name = mdf.groups[number].channel_group.acq_name or f"group {number}"

    def sheet(self) -> Sheet:
        units = {n: self._mdf.get_channel_unit(group=self._number, index=k) or "" for n, k in self._channels.items()}
        return Sheet(self._name, units, self._load, lambda row: f"sample {row + 1}", self._times.__getitem__)

    def _load(self, names: list[str]) -> dict[str, np.ndarray]:
        places = [(None, self._number, self._channels[name]) for name in names]
        cycles = self._mdf.groups[self._number].channel_group.cycles_nr
        self._budget.take(_BYTES_OF_VALUE * cycles * len(names), f"the samples of {self._name}")
        try:
            with self._budget.enforced(f"the data of {self._name}"), _quiet():
                found = self._mdf.select(places, copy_master=False, ignore_value2text_conversions=True, validate=True)
        except DecodedTooLarge:
            raise
        except Exception as error:
            raise ExchangeError(f"{self._path}: {self._name} cannot be read: {_first_line(error)}") from None
        for name, signal in zip(names, found, strict=True):
            if signal.samples.dtype.kind not in "iufb" or signal.samples.ndim != 1:
                raise ExchangeError(f"{self._path}: channel {name} holds no numbers but {signal.samples.dtype}")
            # each its own: what is invalid is left out
            self._times[name] = signal.timestamps
        return {name: signal.samples for name, signal in zip(names, found, strict=True)}


def _passport(path: Path, mdf: Any) -> dict[str, Any] | None:
    for index, attachment in enumerate(getattr(mdf, "attachments", ())):
        if Path(attachment.file_name).name == _PASSPORT:
            with suppress(OSError):
                return read_passport(mdf.extract_attachment(index=index)[0], str(path))
    return None


def _quiet() -> redirect_stdout[io.StringIO]:
    """The library prints what it finds wrong, with whatever names the file has in it."""
    return redirect_stdout(io.StringIO())


def _let_go(error: BaseException) -> None:
    """A file that cannot be read leaves the library's object half made; its destructor would complain on the screen."""
    trace = error.__traceback__
    while trace is not None:
        half_made: Any = trace.tb_frame.f_locals.get("self")
        if hasattr(half_made, "_closed"):
            half_made._closed = True
            for name in ("_tempfile", "_file", "_mapped_file"):
                if hasattr(getattr(half_made, name, None), "close"):
                    getattr(half_made, name).close()
        trace = trace.tb_next


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
