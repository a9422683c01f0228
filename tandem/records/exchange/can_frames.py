"""Frames of a CAN bus, from a log or an MF4 file, as columns: by a DBC, every signal in its physical unit.

A message of the DBC is a sheet with the instants of its frames, its signals are the columns; where several buses have
frames of its id, there is a sheet for each, `Message@bus`. Multiplexed signals are not in every frame, and then have
no value there (NaN). Which bits a signal is: daq_service/devices/dbc.py, as for the live bus. Where the configuration
says which signal a channel is (`[source.signals]`), that channel's raw integers are there too: they are what the DAQ
would have read.
"""

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from daq_service.devices.can_log import LogDamaged, frames
from daq_service.devices.dbc import Bits, bits, find_signal, load_dbc, never_valid
from sync.config.extras import install_extra
from sync.errors import ConfigError
from sync.files.limits import Budget
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import BusNames, Measurement, Progress, Sheet

RAW = "raw"  # ending of a column of raw integers: `Signal raw`, in counts
_MOST_BITS_AT_ONCE = 57  # that eight bytes hold wherever the first of them begins in its byte
_SHOWN = 12
_REPORT_EVERY = 1 << 14
_FRAMES = 1 << 16  # at once


@dataclass
class Frames:
    """The frames of one bus and one id, in the order of the log."""

    seconds: array = field(default_factory=lambda: array("d"))
    lengths: array = field(default_factory=lambda: array("B"))
    data: bytearray = field(default_factory=bytearray)

    def add(self, seconds: float, data: bytes | bytearray) -> None:
        self.seconds.append(seconds)
        self.lengths.append(len(data))
        self.data += data

    def add_many(self, seconds: np.ndarray, lengths: np.ndarray, data: np.ndarray) -> None:
        """`data`: a row of bytes for each frame; the first `lengths` of a row are its data."""
        self.seconds.frombytes(seconds.astype(np.float64).tobytes())
        self.lengths.frombytes(lengths.astype(np.uint8).tobytes())
        self.data += data[np.arange(data.shape[1]) < lengths[:, None]].tobytes()

    def of_length(self, least: int) -> tuple[np.ndarray, np.ndarray]:
        """(seconds, first `least` bytes a row) of those that are so long."""
        lengths, raw = np.frombuffer(self.lengths, np.uint8), np.frombuffer(self.data, np.uint8)
        fit = lengths >= least
        rows = np.zeros((np.count_nonzero(fit), least), np.uint8)
        at, place = 0, 0
        for first in range(0, len(lengths), _FRAMES):  # places of bytes take eight times as much as they do
            part = lengths[first : first + _FRAMES].astype(np.int64)
            begins = at + np.cumsum(part) - part
            long = begins[fit[first : first + _FRAMES]]
            rows[place : place + len(long)] = raw[long[:, None] + np.arange(least)]
            at, place = at + int(part.sum()), place + len(long)
        return np.frombuffer(self.seconds, np.float64)[fit], rows


ById = dict[tuple[str, int, bool], Frames]  # bus, id, whether that is an extended one


def read(path: Path, names: BusNames, progress: Progress) -> Measurement:
    """A log that python-can reads."""
    by_id: ById = {}
    remarks = []
    try:
        for count, message in enumerate(frames(path, str(path))):
            if message.is_error_frame or message.is_remote_frame:
                continue
            if count % _REPORT_EVERY == 0:
                progress(f"reading, {count} frames", 0.0)
            place = (str(message.channel), message.arbitration_id, message.is_extended_id)
            by_id.setdefault(place, Frames()).add(message.timestamp, message.data)
    except LogDamaged as error:  # what came before it is as good as ever
        remarks.append(f"{str(error).removeprefix(f'{path}: ')}; imported is what stands before it")
    except ImportError:
        raise ExchangeError(f"{path}: logs of a bus need python-can and cantools: {install_extra('can')}") from None
    except ConfigError as error:
        raise ExchangeError(str(error).removeprefix(f"{path}: ")) from None
    if not by_id:
        raise ExchangeError(f"{path}: holds no frames" + "".join(f"; {remark}" for remark in remarks))
    sheets = decoded(path, by_id, names, remarks)
    return Measurement(path, sheets, remarks=remarks, signals=names.signals)


def decoded(path: Path, by_id: ById, names: BusNames, remarks: list[str]) -> list[Sheet]:
    """A sheet for every message of the DBC that is there; frames too short for theirs are left out, with a remark."""
    dbc = names.dbc
    ids = {(number, extended) for _, number, extended in by_id}
    if dbc is None:
        count = sum(len(f.seconds) for f in by_id.values())
        buses = ", ".join(dict.fromkeys(bus for bus, _, _ in by_id))
        raise ExchangeError(
            f"{path}: holds {count} raw CAN frames of {len(ids)} ids on {buses}; what is in them says a DBC: give --dbc"
        )
    try:
        database = load_dbc(dbc, names.key)
        selected = [
            (find_signal(database, mapped, f"source.signals.{name}", dbc), mapped)
            for name, mapped in names.signals.items()
        ]
    except ModuleNotFoundError:
        raise ExchangeError(f"{dbc}: a DBC needs cantools: {install_extra('can')}") from None
    except ConfigError as error:
        raise ExchangeError(str(error)) from None
    never = {
        (message.name, signal.name): never_valid(mapped, signal, "source.signals")
        for (message, signal), mapped in selected
    }
    budget = Budget(path, path.stat().st_size)
    sheets, short = [], []
    for message in database.messages:
        places = [(bus, n, x) for bus, n, x in by_id if (n, x) == (message.frame_id, message.is_extended_frame)]
        for place in places:
            name = message.name if len(places) == 1 else f"{message.name}@{place[0]}"
            raw = {signal: values for (owner, signal), values in never.items() if owner == message.name}
            found = _Message(path, name, message, by_id[place], raw, budget)
            if found.rows:
                sheets.append(found.sheet())
                if found.short:
                    remarks.append(f"{name}: {found.short} frames have fewer than its {message.length} bytes: left out")
            else:
                short.append(f"{message.name} has {message.length} bytes, its frames have {max(by_id[place].lengths)}")
    if not sheets:
        seen = ", ".join(f"{n:X}" for n, _ in sorted(ids)[:_SHOWN]) + ", …" * (len(ids) > _SHOWN)
        why = "; ".join(short[:3]) if short else f"it has none of the ids of the log ({seen}, hexadecimal)"
        raise ExchangeError(f"{path}: {dbc} does not fit it: {why}; is it of another bus?")
    return sheets


class _Message:
    def __init__(
        self, path: Path, name: str, message: Any, of_id: Frames, raw: dict[str, frozenset[int]], budget: Budget
    ):
        self._path, self._name, self._message, self._raw = path, name, message, raw
        seconds, data = of_id.of_length(message.length)
        budget.take(data.nbytes + 8 * len(seconds), f"the frames of {name}")
        self.rows, self.short = len(seconds), len(of_id.seconds) - len(seconds)
        # frames that were stamped together: the last of them is the newest
        last = np.append(np.diff(seconds) != 0, True) if self.rows else np.zeros(0, bool)
        self._seconds, self._data = seconds[last], data[last]
        self._times: dict[str, np.ndarray] = {}

    def sheet(self) -> Sheet:
        units = {s.name: s.unit or "" for s in self._message.signals if not self._message.is_container}
        units |= {f"{name} {RAW}": "count" for name in self._raw}
        return Sheet(
            self._name, units, self._load, lambda row: f"frame {row + 1} of {self._name}", self._times.__getitem__
        )

    def _load(self, names: list[str]) -> dict[str, np.ndarray]:
        return {name: self._column(name) for name in names}

    def _column(self, name: str) -> np.ndarray:
        raw = name.endswith(f" {RAW}") and name.removesuffix(f" {RAW}") in self._raw
        signal = self._message.get_signal_by_name(name.removesuffix(f" {RAW}") if raw else name)
        try:
            where = bits(self._message, signal.name)
        except ValueError as error:
            raise ExchangeError(f"{self._path}: {self._name}.{signal.name}: {error}") from None
        values, there = integers(self._data, where)
        never = self._raw.get(signal.name, frozenset())
        there = there & ~np.isin(values, list(never)) if never else there
        if not there.any():
            raise ExchangeError(f"{self._path}: {self._name}.{signal.name} has no valid value in the whole log")
        self._times[name] = self._seconds[there]
        values = values[there]
        if raw:
            return values
        if signal.is_float:
            kind = {16: np.float16, 32: np.float32, 64: np.float64}[signal.length]
            values = values.astype(f"u{signal.length // 8}").view(kind).astype(np.float64)
        return values * float(signal.scale) + float(signal.offset)


def integers(data: np.ndarray, where: Bits) -> tuple[np.ndarray, np.ndarray]:
    """(the signal in every row of bytes, whether the row has it): as Bits.read, for many frames at once."""
    there = np.ones(len(data), bool)
    if where.selector is not None:
        selected, there = integers(data, where.selector)
        there = there & np.isin(selected, list(where.pages))
    if where.length > _MOST_BITS_AT_ONCE:
        rows = [(int.from_bytes(r, "little"), int.from_bytes(r, "big")) for r in map(bytes, data)]
        mask = (1 << where.length) - 1
        plain = [(big if where.big else little) >> where.shift & mask for little, big in rows]
        values = np.array(plain, np.uint64)
    else:
        ordered = data[:, ::-1] if where.big else data  # lowest byte first
        first, count = where.shift // 8, (where.shift % 8 + where.length + 7) // 8
        values = np.zeros(len(data), np.uint64)
        for k in range(count):
            values |= ordered[:, first + k].astype(np.uint64) << np.uint64(8 * k)
        values = values >> np.uint64(where.shift % 8) & np.uint64((1 << where.length) - 1)
    if not where.signed:
        return (values.astype(np.int64) if where.length < 64 else values), there
    left = np.uint64(64 - where.length)
    return (values << left).view(np.int64) >> np.int64(64 - where.length), there


def own_column(measurement: Measurement, channel: str) -> str | None:
    """What the configuration itself maps to a channel, as a map would name it; None if it does not, or it is not
    there, or on several buses."""
    mapped = measurement.signals.get(channel)
    if mapped is None:
        return None
    message, signal = mapped.signal.split(".")
    found = [s.name for s in measurement.sheets if f"{signal} {RAW}" in s.columns and s.name.split("@")[0] == message]
    return f"{found[0]}:{signal} {RAW}" if len(found) == 1 else None
