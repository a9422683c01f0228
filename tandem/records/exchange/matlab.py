"""MATLAB files of versions 5 to 7.2, read by scipy: vectors of one length are the columns of a sheet.

Variables may lie in structures (`run.speed`). Units are looked for in the name (`speed [km/h]`), and in what else the
file has of them: a variable `units` beside them, or `channel.name` and `channel.units`, as tyre rigs write them. Files
of version 7.3 are HDF5 and refused. Objects and functions are not read.
"""

import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sync.child_python import python_command, python_environment
from sync.config.extras import install_extra
from sync.errors import TandemError
from sync.files.limits import Budget, DecodedTooLarge
from sync.files.regular import open_regular
from tandem.records.exchange.csv import split_unit
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import Measurement, Sheet

if importlib.util.find_spec("scipy") is None:
    raise ExchangeError(f"scipy is not installed, which MATLAB files need: {install_extra('matlab')}")

_HDF5 = b"MATLAB 7.3"
_DEEPEST, _LONGEST_NAME = 6, 200
_LEAST_ROWS = 2
_READER = "tandem.records.exchange.matlab"


def read(path: Path) -> Measurement:
    try:
        with open_regular(path) as file:
            head = file.read(128)
    except OSError as error:
        raise ExchangeError(f"{path}: cannot be read: {error.strerror}") from None
    if head.startswith(_HDF5):
        raise ExchangeError(f"{path}: is of version 7.3; write it again with save(..., '-v7')")
    if len(head) < 128 or not head.startswith(b"MATLAB 5"):
        raise ExchangeError(f"{path}: not a MATLAB file of version 5 to 7.2")
    with tempfile.TemporaryDirectory() as scratch:
        numbers = Path(scratch) / "columns.npz"
        command = python_command("-m", _READER, str(path), str(numbers))
        done = subprocess.run(command, env=python_environment(), capture_output=True, text=True, check=False)
        if done.returncode < 0:
            raise ExchangeError(
                f"{path}: a damaged MATLAB file: its reader crashed ({signal.Signals(-done.returncode).name})"
            )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["its reader ended without a word"]
            raise ExchangeError(lines[-1])
        with np.load(numbers, allow_pickle=False) as found:
            described, words = json.loads(str(found["described"]))
            columns = {name: found[f"column{k}"] for k, name in enumerate(described)}
    load = _Loader(columns)
    sheets = []
    for rows in sorted({len(values) for values in columns.values()}, reverse=True):
        units = {name: described[name] for name, values in columns.items() if len(values) == rows}
        if rows >= _LEAST_ROWS:
            sheets.append(Sheet(f"{rows} rows", units, load, lambda row: f"row {row + 1}"))
    if not sheets:
        raise ExchangeError(f"{path}: holds no vectors of numbers")
    remarks = [f"{path}: {name}: holds text and is left out" for name in words]
    return Measurement(path, sheets, remarks=remarks)


def _read_here(path: Path, numbers: Path) -> None:
    """In a process of its own: the compiled code of scipy trusts what a damaged file says of itself. What comes back
    are numbers and text, nothing that becomes objects."""
    from scipy.io import loadmat

    budget = Budget(path, path.stat().st_size)
    try:
        with budget.enforced("its variables"), open_regular(path) as file:
            found = loadmat(file, simplify_cells=True)
    except DecodedTooLarge:
        raise
    except Exception as error:  # whatever a damaged file makes of the parser
        text = " ".join(str(error).split()) or type(error).__name__
        raise ExchangeError(f"{path}: a damaged MATLAB file: {text[:200]}") from None
    texts = dict(_texts(found, ""))
    columns: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    for name, values in _vectors(found, ""):
        plain, unit = split_unit(name)
        columns[plain], units[plain] = values, unit or texts.get(plain, "")
    lengths = {len(values) for values in columns.values() if len(values) >= _LEAST_ROWS}
    words = [name for name, value in _inside(found, "") if _is_text(value) and len(value) in lengths]
    arrays: dict[str, Any] = {f"column{k}": values for k, values in enumerate(columns.values())}
    np.savez(numbers, allow_pickle=False, described=np.array(json.dumps([units, words])), **arrays)


class _Loader:
    def __init__(self, columns: dict[str, np.ndarray]):
        self._columns = columns

    def __call__(self, names: list[str]) -> dict[str, np.ndarray]:
        return {name: self._columns[name] for name in names}


def _inside(found: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every variable with its place, structures opened."""
    for name, value in found.items() if isinstance(found, dict) else ():
        if not isinstance(name, str) or name.startswith("__") or len(prefix + name) > _LONGEST_NAME:
            continue
        yield prefix + name, value
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _inside(value, f"{prefix}{name}.", depth + 1)


def _vectors(found: Any, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in _inside(found, prefix):
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufb":
            continue
        if value.ndim == 1:
            yield name, value
        elif value.ndim == 2 and 1 < value.shape[1] <= 64 < value.shape[0]:
            yield from ((f"{name}{k + 1}", value[:, k]) for k in range(value.shape[1]))


def _is_text(value: Any) -> bool:
    """A column, but not of numbers: words, or cells of anything."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "OSU" and value.ndim == 1


def _texts(found: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """(variable, unit) where the file lists names and units beside each other."""
    for place, value in [("", found), *_inside(found, prefix)]:
        names, units = (_words(value.get(key)) if isinstance(value, dict) else [] for key in ("name", "units"))
        if names and len(names) == len(units):
            above = place.rpartition(".")[0]
            beside = f"{above}." if above else ""
            yield from ((f"{beside}{n}", str(u).strip()) for n, u in zip(names, units, strict=True))


def _words(value: Any) -> list[str]:
    """A list of words; MATLAB gives a single one without a list."""
    found = [value] if isinstance(value, str) else list(value) if isinstance(value, list | np.ndarray) else []
    return found if all(isinstance(each, str) for each in found) else []


if __name__ == "__main__":
    try:
        _read_here(Path(sys.argv[1]), Path(sys.argv[2]))
    except TandemError as error:
        sys.exit(" ".join(str(error).split()))
