"""Tables as Parquet files: a unit and a note in the metadata of every field. The same rows give the same bytes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import TandemError
from sync.files.private import make_folder, written
from tandem.ensembles.extras import needs


class NotWritten(TandemError):
    """A full disk, a folder that is not there or not ours."""

    code = 1


def arrow(what: str) -> tuple[Any, Any]:
    return needs("pyarrow", "sweep", what), needs("pyarrow.parquet", "sweep", what)


def write_columns(
    path: Path,
    columns: Mapping[str, np.ndarray | Sequence[Any]],
    units: Mapping[str, str],
    notes: Mapping[str, str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """A file that is there whole or not at all; what it held before is replaced."""
    pa, pq = arrow(str(path))
    fields, arrays = [], []
    for name, values in columns.items():
        array = pa.array(values, pa.string()) if isinstance(values, list | tuple) else pa.array(values)
        metadata = {"unit": units.get(name, ""), "note": (notes or {}).get(name, "")}
        fields.append(pa.field(name, array.type, metadata=metadata))
        arrays.append(array)
    schema = pa.schema(fields, metadata={b"tandem": json.dumps(about or {}, sort_keys=True).encode()})
    try:
        make_folder(path.parent)
        with written(path, replace=True) as part:
            pq.write_table(pa.Table.from_arrays(arrays, schema=schema), part, compression="zstd")
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written: {error.strerror or error}") from None
