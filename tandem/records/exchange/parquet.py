"""Parquet: a folder with one file a topic; unit, skew and a note in the metadata of every field, the run's passport in
that of the file."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from sync.files.limits import Budget
from sync.files.regular import open_regular
from tandem.records.exchange.csv import split_unit
from tandem.records.exchange.errors import ExchangeError, extra_missing
from tandem.records.exchange.tables import Measurement, Progress, Sheet, Table, read_passport

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise extra_missing("pyarrow", "parquet") from None

# Arrow's own pool keeps address space that it once had, and a hostile file could fill it below any limit
pa.set_memory_pool(pa.system_memory_pool())

_KEY = b"tandem"
# what a damaged file makes of its parser
_DAMAGED = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
_ROWS = 1 << 17
_BYTES_OF_VALUE = 16  # as Arrow reads it, and as a number


def write(tables: list[Table], passport: dict[str, Any], place: Path, progress: Progress) -> list[str]:
    """A folder; returns the names of its files, one a table."""
    place.mkdir()
    names = [f"{table.stem}.parquet" for table in tables]
    for name, table in zip(names, tables, strict=True):
        about = {**passport, "topic": table.topic}
        fields = [
            pa.field(
                c.name, pa.from_numpy_dtype(c.values.dtype), nullable=False,
                metadata={"unit": c.unit, "skew_ns": str(c.skew_ns), "note": c.note},
            )
            for c in table.columns
        ]  # fmt: skip
        schema = pa.schema(fields, metadata={_KEY: json.dumps(about).encode()})
        with pq.ParquetWriter(place / name, schema, compression="zstd") as writer:
            for first in range(0, table.rows, _ROWS):
                arrays = [pa.array(np.ascontiguousarray(c.values[first : first + _ROWS])) for c in table.columns]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
                progress(f"writing {name}", first / table.rows)
    return names


def read(path: Path) -> Measurement:
    """A file, or a folder as exported."""
    if not path.is_dir():
        sheet, passport = _sheet(path)
        return Measurement(path, [sheet], passport)
    found = [_sheet(file) for file in sorted(path.glob("*.parquet"))]
    passports = [passport for _, passport in found]
    if not found or passports[0] is None or len({json.dumps(p and p["start"]) for p in passports}) > 1:
        raise ExchangeError(f"{path}: no folder of one export; give a file")
    return Measurement(path, [sheet for sheet, _ in found], passports[0])


def _sheet(path: Path) -> tuple[Sheet, dict[str, Any] | None]:
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
        if size == 0:
            raise ExchangeError(f"{path}: is empty")
        budget = Budget(path, size)
        with budget.enforced("what it describes"), pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except _DAMAGED as error:
        raise ExchangeError(f"{path}: not a Parquet file: {_first_line(error)}") from None
    if rows == 0:
        raise ExchangeError(f"{path}: names {len(schema.names)} columns but holds no rows")
    if len(set(schema.names)) < len(schema.names):
        raise ExchangeError(f"{path}: two columns have the same name")
    passport = read_passport((schema.metadata or {}).get(_KEY, b""), str(path))
    units, names = {}, {}
    for k, field in enumerate(schema):
        name, in_name = split_unit(field.name)
        in_metadata = (field.metadata or {}).get(b"unit", b"").decode("utf-8", "replace")
        if name in units:
            name = f"{name}@{k + 1}"
        # an Arrow timestamp is loaded as nanoseconds
        units[name] = "ns" if pa.types.is_timestamp(field.type) else in_metadata or in_name
        names[name] = k

    def load(wanted: list[str]) -> dict[str, np.ndarray]:
        for name in wanted:
            _check_type(path, name, schema.field(names[name]).type)
        budget.take(_BYTES_OF_VALUE * rows * len(wanted), f"{rows} rows of {len(wanted)} columns")
        try:
            # pages may hold more than they say: no more memory, and no threads, whose stacks would count
            with budget.enforced("its pages"), pq.ParquetFile(path) as file:
                columns = sorted({schema.names[names[name]] for name in wanted})
                table = file.read(columns=columns, use_threads=False)
        except pa.ArrowMemoryError:
            raise budget.refusal("its pages") from None
        except _DAMAGED as error:
            raise ExchangeError(f"{path}: cannot be read: {_first_line(error)}") from None
        return {name: _numbers(path, name, table.column(schema.names[names[name]])) for name in wanted}

    topic = str((passport or {}).get("topic", path.stem))
    return Sheet(topic, units, load, lambda row: f"row {row + 1}"), passport


def _check_type(path: Path, name: str, kind: Any) -> None:
    """Before anything of it is read: a text may be as long as it likes."""
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_decimal)
    if not any(check(kind) for check in plain):
        raise ExchangeError(f"{path}: column {name} is of type {kind}; numbers are expected")


def _numbers(path: Path, name: str, column: Any) -> np.ndarray:
    kind = column.type
    if column.null_count and not pa.types.is_timestamp(kind):
        column, kind = column.cast(pa.float64()), pa.float64()  # no reading: NaN
    if column.null_count and pa.types.is_timestamp(kind):
        row = column.is_null().to_numpy().argmax() + 1
        raise ExchangeError(f"{path}: row {row}, column {name}: holds no value, a number is expected")
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    values: np.ndarray = column.to_numpy()
    return values


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
