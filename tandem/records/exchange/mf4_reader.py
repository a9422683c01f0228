"""The other end of mf4.py: the process in which asammdf opens a file, and gives parts of it as they are asked for.

A line of JSON a request, and one an answer; numbers go through files in a folder of the caller's. What is wrong with
the file is an answer, too; a file on which compiled code crashes ends this process alone.
"""

import gc
import io
import json
import os
import sys
import warnings
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from asammdf import MDF

from sync.errors import TandemError
from sync.files.limits import Budget, DecodedTooLarge
from tandem.records.exchange.can_frames import ById, Frames
from tandem.records.exchange.csv import different
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.mf4_blocks import checked_file
from tandem.records.exchange.tables import Sheet, read_passport

PASSPORT = "tandem.json"
_TIME_MASTER = 1  # sync type
_MARKED_INVALID = 3  # flags of a channel: all of it, or where a bit says so
_BUS_EVENT = 2  # flag of a channel group
_FRAME = "CAN_DataFrame"
_BYTES_OF_FRAME = 120
_BYTES_OF_VALUE = 16  # as the library reads it, and as a number


@dataclass
class File:
    mdf: Any
    sheets: list[Sheet]
    passport: dict[str, Any] | None
    utc: str
    frames: ById


def open_file(path: Path) -> File:
    budget = checked_file(path)
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
    return File(mdf, sheets, passport, utc, frames)


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
        if Path(attachment.file_name).name == PASSPORT:
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
        incomplete: Any = trace.tb_frame.f_locals.get("self")
        if hasattr(incomplete, "_closed"):
            incomplete._closed = True
            for name in ("_tempfile", "_file", "_mapped_file"):
                if hasattr(getattr(incomplete, name, None), "close"):
                    getattr(incomplete, name).close()
        trace = trace.tb_next


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


# ---- requests --------------------------------------------------------------------------------------------------------


def _served(found: File, request: dict[str, Any], numbers: Path) -> dict[str, Any]:
    """`numbers`: where columns and frames are left."""
    if request["what"] == "frames":
        keys, arrays = [], {}
        for k, (place, frames) in enumerate(found.frames.items()):
            keys.append(place)
            arrays[f"s{k}"], arrays[f"l{k}"] = np.frombuffer(frames.seconds), np.frombuffer(frames.lengths, np.uint8)
            arrays[f"d{k}"] = np.frombuffer(frames.data, np.uint8)
        np.savez(numbers, allow_pickle=False, **arrays)
        return {"frames": keys}
    sheet = found.sheets[request["sheet"]]
    names = request["names"]
    values = sheet.load(names)
    assert sheet.seconds is not None
    arrays = {f"v{k}": values[name] for k, name in enumerate(names)}
    arrays |= {f"t{k}": sheet.seconds(name) for k, name in enumerate(names)}
    np.savez(numbers, allow_pickle=False, **arrays)
    return {}


def _answer(out: TextIO, what: dict[str, Any]) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


def _refusal(error: TandemError) -> dict[str, Any]:
    return {"error": str(error), "too_large": isinstance(error, DecodedTooLarge)}


def main(path: Path, numbers: Path) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    try:
        found = open_file(path)
    except TandemError as error:
        _answer(out, _refusal(error))
        return
    sheets = [(sheet.name, sheet.columns) for sheet in found.sheets]
    _answer(out, {"sheets": sheets, "passport": found.passport, "utc": found.utc, "frames": bool(found.frames)})
    for line in sys.stdin:
        try:
            answer = _served(found, json.loads(line), numbers)
        except TandemError as error:
            answer = _refusal(error)
        except OSError as error:
            answer = _refusal(
                ExchangeError(f"{path}: its numbers cannot be put into {numbers.parent}: {error.strerror}")
            )
        _answer(out, answer)
    found.mdf.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
