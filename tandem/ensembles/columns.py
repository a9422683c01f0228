"""Columns of a file that somebody made: CSV, Parquet or MF4, one sheet, numbers. None is read that is not asked for.

A unit in the header is believed: values are converted to the unit that is wanted, and one that measures something else
is refused. A cell without a reading is NaN.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from sync.errors import ConfigError
from tandem.records.exchange.tables import Sheet
from tandem.records.exchange.units import unit

_THE_SAME = 0.01  # of a factor: a scale so near to it is that factor, with fewer digits


def open_columns(path: Path) -> Sheet:
    """Read the names of its columns only. Raises ConfigError that names the file."""
    from tandem.records.exchange.importer import open_measurement

    measurement = open_measurement(path)
    if len(measurement.sheets) != 1:
        raise ConfigError(f"{path}: holds {len(measurement.sheets)} tables; one is expected")
    return measurement.sheets[0]


def read_columns(
    path: Path, names: Collection[str] | None = None, units: Mapping[str, str] | None = None
) -> dict[str, np.ndarray]:
    """These columns, or all, in these units. Raises ConfigError that names the file and the column."""
    sheet = open_columns(path)
    wanted = list(names if names is not None else sheet.columns)
    missing = [name for name in wanted if name not in sheet.columns]
    if missing:
        raise ConfigError(f"{path}: no column {missing[0]}; there are {', '.join(sheet.columns)}")
    units = units or {}
    factors = {name: factor(sheet.columns[name], units.get(name, ""), 1.0, f"{path}: column {name}") for name in wanted}
    found = sheet.load(wanted)
    return {name: factors[name] * np.asarray(found[name], np.float64) for name in wanted}


def factor(there: str, wanted: str, scale: float, where: str) -> float:
    """From the unit that a file says to the one that is wanted; 1 where either says none.

    `scale` is the user's own: one that is not 1 may turn one quantity into another (a sensor's volts), but must not
    convert again what is converted here. Raises ConfigError.
    """
    if not there or not wanted or there == wanted:
        return 1.0
    source, own = unit(there), unit(wanted)
    if source is None or own is None or source.dimension != own.dimension:
        if scale != 1.0:
            return 1.0
        known = "a unit that is not known here" if source is None else f"a unit of {source.dimension}"
        raise ConfigError(
            f"{where}: its header says {there}, {known}; {wanted} is wanted: give another column, or a scale that makes"
            f" {wanted} of it"
        )
    found = source.factor / own.factor
    if found != 1.0 and abs(abs(scale) / found - 1.0) < _THE_SAME:
        raise ConfigError(
            f"{where}: its header says {there}, which is converted to {wanted}; scale = {scale:g} would do that again:"
            " leave it out"
        )
    return found
