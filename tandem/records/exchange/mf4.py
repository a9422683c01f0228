"""MF4 (ASAM MDF 4.10): one file, one channel group a topic, which is one a rate.

Every group has its master channel `t_s`, seconds from the file's start time, which is the instant of the run's first
block on the wall clock; `t_ns` is a channel beside it, exact. Units and notes stand where MDF wants them. The run's
passport is an attachment.

Reading takes channels of any group with a time master, their physical values, and leaves out what the file marks as
invalid. Groups of raw CAN frames are decoded by a DBC (can_frames.py). The file is opened in a process of its own.
"""

import importlib.util
import json
import signal
import subprocess
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sync.child_python import python_command, python_environment
from sync.files.limits import DecodedTooLarge
from tandem.records.exchange.can_frames import ById, Frames, decoded
from tandem.records.exchange.errors import ExchangeError, extra_missing
from tandem.records.exchange.mf4_blocks import checked_file
from tandem.records.exchange.tables import SECONDS, BusNames, Measurement, Progress, Sheet, Table

if importlib.util.find_spec("asammdf") is None:
    raise extra_missing("asammdf", "mf4")

_PASSPORT = "tandem.json"
_DEFLATE = 1
_TIME_MASTER = 1  # sync type
_NO_NAMES = BusNames()
_READER = "tandem.records.exchange.mf4_reader"


def write(tables: list[Table], passport: dict[str, Any], place: Path, progress: Progress) -> list[str]:
    """One file. The library insists on its ending .mf4."""
    from asammdf import MDF, Signal

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


class _Reader:
    """The process in which asammdf reads a file (mf4_reader.py): its compiled code trusts what a damaged file says."""

    def __init__(self, path: Path):
        self._path = path
        self._folder = tempfile.TemporaryDirectory()
        self._numbers = Path(self._folder.name) / "numbers.npz"
        self._process = subprocess.Popen(
            python_command("-m", _READER, str(path), str(self._numbers)), env=python_environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self.described = self._answer()
        except BaseException:
            self.close()
            raise

    def load(self, sheet: int, times: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
        self._ask({"what": "columns", "sheet": sheet, "names": names})
        with np.load(self._numbers, allow_pickle=False) as found:
            times.update({name: found[f"t{k}"] for k, name in enumerate(names)})
            return {name: found[f"v{k}"] for k, name in enumerate(names)}

    def frames(self) -> ById:
        keys = self._ask({"what": "frames"})["frames"]
        by_id: ById = {}
        with np.load(self._numbers, allow_pickle=False) as found:
            for k, (bus, number, extended) in enumerate(keys):
                frames = by_id[str(bus), int(number), bool(extended)] = Frames()
                frames.seconds.frombytes(found[f"s{k}"].tobytes())
                frames.lengths.frombytes(found[f"l{k}"].tobytes())
                frames.data += found[f"d{k}"].tobytes()
        return by_id

    def close(self) -> None:
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                with suppress(OSError):
                    end.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def _ask(self, what: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has crashed, which the answer says
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            how = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with {code}"
            raise ExchangeError(f"{self._path}: a damaged MDF file: its reader {how}")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise (DecodedTooLarge if found["too_large"] else ExchangeError)(found["error"])
        return found


def read(path: Path, names: BusNames = _NO_NAMES) -> Measurement:
    """In a process of its own, which lives as long as its columns are asked for."""
    checked_file(path)  # before one is started
    reader = _Reader(path)
    described = reader.described
    sheets = []
    for k, (name, columns) in enumerate(described["sheets"]):
        times: dict[str, np.ndarray] = {}
        load = partial(reader.load, k, times)
        sheets.append(Sheet(name, columns, load, lambda row: f"sample {row + 1}", times.__getitem__))
    remarks: list[str] = []
    try:
        if described["frames"] and (names.dbc is not None or not any(sheet.columns for sheet in sheets)):
            sheets += decoded(path, reader.frames(), names, remarks)
        if not any(sheet.columns for sheet in sheets):
            raise ExchangeError(f"{path}: holds no samples over time")
    except BaseException:
        reader.close()
        raise
    passport, utc = described["passport"], described["utc"]
    return Measurement(path, sheets, passport, utc, remarks, signals=names.signals, close=reader.close)
