"""Height grids: from the bytes of a CSV or .npy file to a block for kernels.

One row of a file is a cross section: row k lies at x = origin + k spacing, its values go from right to left (y grows).
CSV files have commas, semicolons, tabs or blanks between numbers; lines that begin with # are remarks.
"""

import ast
import re

import numpy as np

from sync.errors import ConfigError
from tandem.multibody.ground.layout import ABSENT, Grid

MOST_NODES = 8_000_000
_NPY = b"\x93NUMPY"


def parse_grid(data: bytes, file: str, scale: float) -> np.ndarray:
    """Heights of the file in metres, all finite."""
    values = _from_npy(data, file) if data.startswith(_NPY) else _from_csv(data, file)
    with np.errstate(over="ignore", invalid="ignore"):  # found below
        heights = values * scale
    if min(heights.shape) < 2:
        raise ConfigError(f"{file}: {heights.shape[0]} rows of {heights.shape[1]}; at least 2 of 2 are needed")
    bad = ~(np.abs(heights) < 1e6)
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        value = heights[row, column]
        raise ConfigError(
            f"{file}: row {row + 1}, column {column + 1}: {value} m: must be a height below 1e6 m; holes are not filled"
        )
    return np.ascontiguousarray(heights)


def _from_csv(data: bytes, file: str) -> np.ndarray:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: byte {error.start}: not text; a CSV or .npy file is expected") from None
    rows: list[list[float]] = []
    count = 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        fields = re.split(r"[,;]", bare) if re.search(r"[,;]", bare) else bare.split()
        if rows and len(fields) != len(rows[0]):
            raise ConfigError(
                f"{file}: line {number}: {len(fields)} values, but {len(rows[0])} in rows before; rows must be equal"
            )
        try:
            rows.append([float(field) for field in fields])
        except ValueError:
            column, field = next((k, f) for k, f in enumerate(fields, 1) if not _is_number(f))
            raise ConfigError(
                f"{file}: line {number}, column {column}: {field.strip()[:40]!r}: must be a number"
            ) from None
        count += len(fields)
        _limit(count, file)
    if not rows:
        raise ConfigError(f"{file}: no rows of numbers in it")
    return np.array(rows)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _from_npy(data: bytes, file: str) -> np.ndarray:
    """An array of two dimensions; only plain numbers, checked before any memory is taken."""
    try:
        shape, fortran, dtype, begin = _npy_head(data)
    except Exception:  # whatever a damaged head does to numpy's reader
        raise ConfigError(f"{file}: the head of this .npy file cannot be read") from None
    if len(shape) != 2 or dtype.kind not in "fiu" or dtype.itemsize > 8:
        raise ConfigError(f"{file}: an array {shape} of {dtype}; two dimensions of float or integer are expected")
    _limit(shape[0] * shape[1], file)
    if len(data) - begin != shape[0] * shape[1] * dtype.itemsize:
        raise ConfigError(f"{file}: {len(data) - begin} bytes of data, not {shape[0]} x {shape[1]} x {dtype.itemsize}")
    array = np.frombuffer(data, dtype=dtype, offset=begin).reshape(shape, order="F" if fortran else "C")
    with np.errstate(invalid="ignore"):  # NaN of the signalling sort
        return array.astype(np.float64)


def _npy_head(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    wide = 2 if data[6] == 1 else 4
    length = int.from_bytes(data[8 : 8 + wide], "little")
    begin = 8 + wide + length
    if data[6] not in (1, 2, 3) or length > 10_000 or begin > len(data):
        raise ValueError
    head = ast.literal_eval(data[8 + wide : begin].decode("latin-1"))
    shape = tuple(head["shape"])
    if any(type(n) is not int or n < 0 for n in shape) or not isinstance(head["descr"], str):
        raise ValueError
    return shape, bool(head["fortran_order"]), np.dtype(head["descr"]), begin


def _limit(count: int, file: str) -> None:
    if count > MOST_NODES:
        raise ConfigError(f"{file}: {count} heights or more; at most {MOST_NODES} are allowed")


def with_border(heights: np.ndarray, periodic: bool = False) -> np.ndarray:
    """One node more on each side, on the straight line through the last two, so that planes stay planes to the edge.

    Rows of a period go on instead, two of them after the last: there is a cell between the last row and the first.
    """
    if periodic:
        rows = np.concatenate((heights[-1:], heights, heights[:2]))
    else:
        rows = np.concatenate((2.0 * heights[:1] - heights[1:2], heights, 2.0 * heights[-1:] - heights[-2:-1]))
    return np.concatenate((2.0 * rows[:, :1] - rows[:, 1:2], rows, 2.0 * rows[:, -1:] - rows[:, -2:-1]), axis=1)


def grid_block(
    heights: np.ndarray,
    origin: tuple[float, float],
    spacing: tuple[float, float],
    periodic: bool = False,
    begin: float = -ABSENT,
    transition: float = 1.0,
) -> np.ndarray:
    head = np.zeros(Grid.SIZE)
    head[Grid.X], head[Grid.Y] = origin
    head[Grid.PER_X], head[Grid.PER_Y] = 1.0 / spacing[0], 1.0 / spacing[1]
    head[Grid.ROWS], head[Grid.COLUMNS] = heights.shape
    head[Grid.PERIODIC], head[Grid.BEGIN], head[Grid.TRANSITION] = periodic, begin, transition
    return np.concatenate((head, with_border(heights, periodic).ravel()))
