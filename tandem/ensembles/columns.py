"""Columns of a file that somebody made: CSV, Parquet or MF4, one sheet, numbers."""

from pathlib import Path

import numpy as np

from sync.errors import ConfigError


def read_columns(path: Path, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
    """These columns, or all. Raises ConfigError that names the file and the column."""
    from tandem.records.exchange.importer import open_measurement

    measurement = open_measurement(path)
    if len(measurement.sheets) != 1:
        raise ConfigError(f"{path}: holds {len(measurement.sheets)} tables; one is expected")
    sheet = measurement.sheets[0]
    wanted = list(names if names is not None else sheet.columns)
    missing = [name for name in wanted if name not in sheet.columns]
    if missing:
        raise ConfigError(f"{path}: no column {missing[0]}; there are {', '.join(sheet.columns)}")
    found = sheet.load(wanted)
    return {name: np.asarray(found[name], np.float64) for name in wanted}
