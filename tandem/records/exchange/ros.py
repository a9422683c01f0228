"""Bags of ROS 2 (folders of .db3 or .mcap, single .mcap files) and ROS 1 (.bag), read by rosbags.

A topic is a sheet; every number in its messages is a column, by its path (`twist.linear.x`, `ranges.3` of short
arrays). Instants are those of the message's header where it has one, else those of the log. What messages do not say is
a unit; messages whose definition is not in the bag must be among those of ROS 2 itself. A record of ours is no bag to
be imported: it is a run already.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sync.config.extras import install_extra
from sync.files.limits import Budget, DecodedTooLarge
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import Measurement, Sheet

try:
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore
except ImportError:
    raise ExchangeError(f"rosbags is not installed, which bags need: {install_extra('ros')}") from None

_LONGEST_ARRAY = 64
_DEEPEST = 8
_BYTES_OF_VALUE = 16  # a number in an array that grows, and once more where it is loaded
_OURS = {"seq", "epoch", "t_ns", "pushed_ns", "received_ns"}  # of every block
_STAMPED = "header.stamp"
_NONE = array("d", [np.nan])


def read(path: Path) -> Measurement:
    size = sum(f.stat().st_size for f in path.iterdir() if f.is_file()) if path.is_dir() else path.stat().st_size
    budget = Budget(path, size)
    tables: dict[str, _Topic] = {}
    skipped: dict[str, str] = {}
    begun: int | None = None
    try:
        store = get_typestore(Stores.LATEST)
        with budget.enforced("its messages"), AnyReader([path], default_typestore=store) as bag:
            for connection, logged_ns, raw in bag.messages():
                if connection.topic in skipped:
                    continue
                try:
                    message = bag.deserialize(raw, connection.msgtype)
                except Exception as error:
                    skipped[connection.topic] = " ".join(str(error).split())[:100] or type(error).__name__
                    continue
                begun = logged_ns if begun is None else begun
                table = tables.setdefault(connection.topic, _Topic(connection.topic))
                budget.take(_BYTES_OF_VALUE * table.add(logged_ns - begun, begun, message), "its messages")
    except DecodedTooLarge:
        raise
    except Exception as error:  # whatever a damaged bag makes of its reader
        text = " ".join(str(error).split()) or type(error).__name__
        hint = "; if tandem recorded it, it is a run already: tandem replay" if path.suffix == ".mcap" else ""
        raise ExchangeError(f"{path}: cannot be read as a bag: {text[:200]}{hint}") from None
    if any(table.columns.keys() >= _OURS for table in tables.values()):
        raise ExchangeError(f"{path}: is a run already: tandem replay {path}")
    sheets = [table.sheet() for table in tables.values() if table.columns]
    remarks = [f"topic {topic} was left out: {why}" for topic, why in skipped.items()]
    if not sheets:
        raise ExchangeError(f"{path}: holds no numbers over time" + "".join(f"; {remark}" for remark in remarks))
    return Measurement(path, sheets, remarks=remarks)


class _Topic:
    def __init__(self, name: str):
        self.name = name
        self.columns: dict[str, array[float]] = {}  # NaN, or not yet as long, where messages have none
        self._t_ns = array("q")

    def add(self, logged_ns: int, begun_ns: int, message: Any) -> int:
        """Returns how many numbers are kept of it."""
        row = dict(_numbers(message, "", 0))
        seconds, rest = row.pop(f"{_STAMPED}.sec", 0.0), row.pop(f"{_STAMPED}.nanosec", 0.0)
        stamp = int(seconds) * 10**9 + int(rest)
        count, stored = len(self._t_ns), len(row) + 2
        for name, value in row.items():
            column = self.columns.setdefault(name, array("d"))
            stored += count - len(column)
            column.extend(_NONE * (count - len(column)))
            column.append(value)
        self._t_ns.append(stamp - begun_ns if stamp else logged_ns)
        return stored

    def sheet(self) -> Sheet:
        # stamped together: the last one is the newest
        times = np.array(self._t_ns, np.int64)
        last = np.append(np.diff(times) != 0, True)

        def load(names: list[str]) -> dict[str, np.ndarray]:
            found = {n: np.full(len(times), np.nan) for n in names}
            for n, values in found.items():
                values[: len(self.columns[n])] = self.columns[n]
            return {n: values[last] for n, values in found.items()}

        return Sheet(
            self.name,
            dict.fromkeys(self.columns, ""),
            load,
            lambda row: f"message {row + 1}",
            lambda _: times[last] * 1e-9,
        )


def _numbers(value: Any, place: str, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool | int | float | np.number | np.bool_):
        yield place, float(value)
    elif isinstance(value, np.ndarray | list | tuple):
        if len(value) <= _LONGEST_ARRAY and depth < _DEEPEST:
            for k, each in enumerate(value):
                yield from _numbers(each, f"{place}.{k}", depth + 1)
    elif hasattr(value, "__dataclass_fields__") and depth < _DEEPEST:
        for name in value.__dataclass_fields__:
            if not name.startswith("__"):
                yield from _numbers(getattr(value, name), f"{place}.{name}".lstrip("."), depth + 1)
