"""CSV: a folder with one file a topic, and `run.json`, the run's passport.

One header line, `name [unit]`, then numbers: spreadsheets, `pandas.read_csv` and Matlab's `readtable` take it without a
word about it. Integers are written whole, floating point numbers with as many digits as bring the same bits back.

Reading takes what others write, too: comma, semicolon or tab; a decimal comma where the separator is another sign;
units in the header (`name [unit]`, `name (unit)`) or in a second line; UTF-8, UTF-16 or what old spreadsheets write. An
empty cell is no reading, as where columns have different rates: NaN.
"""

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sync.files.regular import open_regular
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import Measurement, Progress, Sheet, Table, read_passport
from tandem.records.exchange.units import unit

MANIFEST = "run.json"
_ROWS = 1 << 15
_MOST_PASSPORT = 64 << 20
_SEPARATORS = ",;\t"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a formula begins with
_BRACKETS = re.compile(r"^(?P<name>.*\S)\s*(\[(?P<square>[^\[\]]*)\]|\((?P<round>[^()]*)\))$")
_DECIMAL_COMMA = re.compile(r"^\s*[+-]?\d+,\d+([eE][+-]?\d+)?\s*$")


def _no_formula(text: str) -> str:
    """A name that a spreadsheet would compute gets an apostrophe, which it takes for "text" and does not show."""
    return f"'{text}" if text.lstrip("'")[:1] in _FORMULA else text


def _shown(text: str) -> str:
    return text[1:] if text[:1] == "'" and text.lstrip("'")[:1] in _FORMULA else text


def write(tables: list[Table], passport: dict[str, Any], place: Path, progress: Progress) -> list[str]:
    """A folder; returns the names of its files, one a table."""
    place.mkdir()
    names = [f"{table.stem}.csv" for table in tables]
    for name, table in zip(names, tables, strict=True):
        with open(place / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([_no_formula(f"{c.name} [{c.unit}]") for c in table.columns])
            form = ",".join("%r" if c.values.dtype.kind == "f" else "%d" for c in table.columns) + "\n"
            for first in range(0, table.rows, _ROWS):
                columns = [c.values[first : first + _ROWS].tolist() for c in table.columns]
                file.writelines(form % row for row in zip(*columns, strict=True))
                progress(f"writing {name}", first / table.rows)
    (place / MANIFEST).write_text(json.dumps(passport, indent=1))
    return names


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path, progress: Progress = lambda *_: None) -> Measurement:
    """A file, or a folder as exported."""
    if path.is_dir():
        passport = _passport(path / MANIFEST)
        if passport is None:
            raise ExchangeError(f"{path}: no folder of an export: it holds no {MANIFEST}; give a file")
        files = [(topic, path / f"{Table(topic, ()).stem}.csv") for topic in passport["topics"]]
        there = [_Text(file, progress).sheet(topic) for topic, file in files if file.exists()]
        return Measurement(path, there, passport)
    text = _Text(path, progress)
    passport = _passport(path.parent / MANIFEST)
    topics = passport["topics"] if passport else {}
    name = next((topic for topic in topics if Table(topic, ()).stem == path.stem), path.stem)
    return Measurement(path, [text.sheet(name)], passport if name in topics else None)


def _passport(file: Path) -> dict[str, Any] | None:
    try:
        with open_regular(file) as stream:
            data = stream.read(_MOST_PASSPORT + 1)
        if len(data) > _MOST_PASSPORT:
            raise ExchangeError(f"{file}: more than {_MOST_PASSPORT} bytes; no passport of a run is that long")
        return read_passport(data.decode(), str(file))
    except (OSError, UnicodeDecodeError):
        return None


def split_unit(text: str) -> tuple[str, str]:
    """`Angle [deg]` → Angle, deg. Round brackets only if they hold a unit: they may be part of a name."""
    text = text.strip()
    found = _BRACKETS.match(text)
    if found and found["square"] is not None:
        return found["name"], found["square"].strip()
    if found and unit(found["round"]):
        return found["name"], found["round"].strip()
    return text, ""


def different(names: list[str]) -> list[str]:
    """Names that occur again get a number: `speed`, `speed@2`."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}@{seen[name]}")
    return result


@dataclass
class _Form:
    encoding: str
    separator: str
    decimal_comma: bool
    skip: int  # lines before the first row


class _Text:
    """A text file with named columns."""

    def __init__(self, path: Path, progress: Progress):
        self.path, self._progress, self._share = path, progress, 0.0
        self._blank: set[str] = set()
        encoding = self._encoding()
        try:
            with open(path, encoding=encoding, newline="") as file:
                head, skip = file.readline(1 << 20), 1
                separator = ""
                if head.startswith("sep="):  # how Excel is informed
                    separator, head, skip = head[4:5], file.readline(1 << 20), 2
                if not head.strip():
                    raise ExchangeError(f"{path}: is empty; a line with the names of the columns is expected")
                separator = separator.strip("\r\n") or max(_SEPARATORS, key=head.count)
                rows = csv.reader(io.StringIO(head), delimiter=separator)
                names = [_shown(name) for name in next(rows)]
                following = [row for row, _ in zip(csv.reader(file, delimiter=separator), range(2), strict=False)]
        except OSError as error:
            raise ExchangeError(f"{path}: cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise ExchangeError(f"{path}: not a text file with columns: {error}") from None
        if all(_is_number(name) for name in names):
            raise ExchangeError(f"{path}: line {skip} holds numbers; the names of the columns are expected there")
        if len(names) == 1:
            raise ExchangeError(
                f"{path}: line {skip} names one column, {names[0][:80]!r}; the names of all are expected there, between"
                " commas, semicolons or tabs"
            )
        pairs = [split_unit(name) for name in names]
        if following and _are_units(following[0]):
            units = [cell.strip().strip("[]()") for cell in following.pop(0)]
            pairs = [(name, u or line) for (name, u), line in zip(pairs, [*units, *[""] * len(pairs)], strict=False)]
            skip += 1
        comma = separator != "," and any(_DECIMAL_COMMA.match(cell) for row in following for cell in row)
        self._form = _Form(encoding, separator, comma, skip)
        self._names = different([name or f"column{k + 1}" for k, (name, _) in enumerate(pairs)])
        self._units = [u for _, u in pairs]
        if not any(any(row) for row in following):
            raise ExchangeError(f"{path}: names {len(names)} columns but holds no rows")

    def _encoding(self) -> str:
        try:
            with open_regular(self.path) as file:
                start = file.read(1 << 16)
        except OSError as error:
            raise ExchangeError(f"{self.path}: cannot be read: {error.strerror}") from None
        if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # first: UTF-16 has the same two bytes
            return "utf-32"
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in start:
            raise ExchangeError(f"{self.path}: not a text file; UTF-16 needs its mark (BOM) at the begin")
        try:
            codecs.getincrementaldecoder("utf-8-sig")().decode(start)  # the last character may be cut in two
        except UnicodeDecodeError:
            return "cp1252"
        return "utf-8-sig"

    def sheet(self, name: str) -> Sheet:
        units = dict(zip(self._names, self._units, strict=True))
        return Sheet(name, units, self._load, lambda row: f"line {row + 1 + self._form.skip}", blank=self._blank)

    def _load(self, names: list[str]) -> dict[str, np.ndarray]:
        places = [self._names.index(name) for name in names]
        parts: list[list[np.ndarray]] = [[] for _ in names]
        for first_line, rows in self._rows():
            self._progress(f"reading {self.path.name}, {first_line + len(rows)} lines", self._share)
            for part, place in zip(parts, places, strict=True):
                part.append(self._numbers([row[place] for row in rows], self._names[place], first_line))
        return {name: _join(part) for name, part in zip(names, parts, strict=True)}

    def _rows(self) -> Iterator[tuple[int, list[list[str]]]]:
        """Rows in portions, each with the line of its first."""
        form, width = self._form, len(self._names)
        try:
            with open(self.path, encoding=form.encoding, newline="") as file:
                reader = csv.reader(file, delimiter=form.separator)
                for _ in range(form.skip):
                    next(reader)
                rows: list[list[str]] = []
                line = form.skip + 1
                size = max(self.path.stat().st_size, 1)
                for row in reader:
                    if len(row) != width:
                        if not any(row) and not any(any(rest) for rest in reader):
                            break  # empty lines at the end
                        at = line + len(rows)
                        both = form.separator == "," and len(row) > width
                        raise ExchangeError(
                            f"{self.path}: line {at}: has {len(row)} cells, {width} columns are named"
                            + "; with decimal commas, columns must be separated by semicolons or tabs" * both
                        )
                    rows.append(row)
                    if len(rows) == _ROWS:
                        self._share = min(os.lseek(file.fileno(), 0, os.SEEK_CUR) / size, 1.0)
                        yield line, rows
                        line += len(rows)
                        rows = []
                if rows:
                    yield line, rows
        except OSError as error:
            raise ExchangeError(f"{self.path}: cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise ExchangeError(f"{self.path}: not a text file with columns: {error}") from None

    def _numbers(self, cells: list[str], name: str, first_line: int) -> np.ndarray:
        try:
            return _integers(list(map(int, _plain(cells))))
        except ValueError:
            pass
        try:
            plain = _plain(cells, self._form.decimal_comma)
            try:  # the usual column has a number in every cell
                return np.array(list(map(float, plain)), np.float64)
            except ValueError:
                pass
            values = [float(cell) if cell and not cell.isspace() else None for cell in plain]
            if None in values:
                self._blank.add(name)
            return np.array(values, np.float64)  # None is NaN
        except ValueError:
            pass
        for k, cell in enumerate(cells):
            if cell.strip() and not _is_number(cell, self._form.decimal_comma):
                raise ExchangeError(f"{self.path}: line {first_line + k}, column {name}: {cell!r} is not a number")
        raise AssertionError("every cell is a number")


def _are_units(cells: list[str]) -> bool:
    """A second line of units: no number but 1, and at least one unit that is not 1."""
    numbers = {cell.strip() for cell in cells if _is_number(cell)}
    return numbers <= {"1"} and any(unit(cell.strip().strip("[]()")) and not _is_number(cell) for cell in cells)


def _plain(cells: list[str], decimal_comma: bool = False) -> list[str]:
    """Python reads 1_000 as a number; no other program does."""
    if "_" in "".join(cells):
        raise ValueError("an underscore")
    return [cell.replace(",", ".") for cell in cells] if decimal_comma else cells


def _is_number(cell: str, decimal_comma: bool = True) -> bool:
    try:
        float(_plain([cell], decimal_comma)[0])
    except ValueError:
        return False
    return True


def _integers(values: list[int]) -> np.ndarray:
    for kind in (np.int64, np.uint64):
        try:
            return np.array(values, kind)
        except OverflowError:
            continue
    raise ValueError("beyond 64 bits")


def _join(parts: list[np.ndarray]) -> np.ndarray:
    kinds = {part.dtype.kind for part in parts}
    if kinds == {"i", "u"} and all(part.min() >= 0 for part in parts):
        return np.concatenate([part.astype(np.uint64) for part in parts])
    return np.concatenate(parts)
