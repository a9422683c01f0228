"""OpenCRG 1.x files (`.crg`): curved regular grids, from their bytes.

A file is a head of named sections in lines of text, a line that begins with `$$`, and the data: for each cross section
of the road one row of channels, as text of fixed width (LRFI 10, LDFI 20 characters) or as big-endian numbers (KRBI 4,
KDBI 8 bytes), in records of 80 bytes. `parse_crg` reads all four and returns what the file means: the reference line as
headings from point to point, and heights by row and column with slope and banking already added.

Whatever is not read is refused by name, because a road without it would be another one: see `docs/roads.md`. Holes at
the sides of a cross section are legal in the format; they are refused too unless they may be filled from the inside.
"""

import re
from dataclasses import dataclass

import numpy as np

from sync.errors import ConfigError
from tandem.multibody.ground.crg_modifiers import Line, check_modifiers, fills_sides, modified

MOST_ROWS = 2_000_000
MOST_COLUMNS = 4000
MOST_HEAD = 1 << 18  # bytes; 4000 channels take 160 000
MOST_LINE = 500  # characters of a line of the head; longer ones would take the patterns below long
RECORD = 80  # bytes

_FORMATS = {"LRFI": 10, "LDFI": 20, "KRBI": 4, "KDBI": 8}  # size of a number
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?", re.ASCII)
_SECTION = re.compile(r"([\d]+)|at\s+v\s*=\s*(\S+)", re.ASCII)

_ROAD_KEYS = {
    *(f"REFERENCE_LINE_{end}_{what}" for end in ("START", "END") for what in "UXYZSB"),
    *(f"REFERENCE_LINE_{end}_{what}" for end in ("START", "END") for what in ("PHI", "LON", "LAT", "ALT")),
    *(f"REFERENCE_LINE_OFFSET_{what}" for what in ("X", "Y", "Z", "PHI")),
    "REFERENCE_LINE_INCREMENT",
    *(f"LONG_SECTION_V_{what}" for what in ("RIGHT", "LEFT", "INCREMENT")),
}
# options that change the surface, and the value that does what we do
_OPTIONS = {
    "BORDER_MODE_U": 2.0,
    "BORDER_MODE_V": 2.0,
    "BORDER_OFFSET_U": 0.0,
    "BORDER_OFFSET_V": 0.0,
    "BORDER_SMOOTH_UBEG": 0.0,
    "BORDER_SMOOTH_UEND": 0.0,
    "REFLINE_CONTINUATION": 0.0,
}


@dataclass(frozen=True)
class Crg:
    x: float  # start of the reference line
    y: float
    headings: np.ndarray  # rad, of each piece of the line: one less than rows
    increment: float  # length of a piece
    v: np.ndarray  # of the columns, from right to left
    heights: np.ndarray  # rows by columns


def parse_crg(
    data: bytes, file: str, fill_sides: bool = False, ignore_options: bool = False, ignore_modifiers: bool = False
) -> Crg:
    sections, payload = _split(data, file)
    road = _values(sections, "ROAD_CRG", file)
    _refuse_unsupported(sections, road, file, ignore_options)
    modifiers = {} if ignore_modifiers else _values(sections, "ROAD_CRG_MODS", file)
    check_modifiers(modifiers, file)
    increment = road.get("REFERENCE_LINE_INCREMENT", 0.0)
    if not 1e-4 <= increment <= 1e4:
        raise ConfigError(
            f"{file}: $ROAD_CRG: REFERENCE_LINE_INCREMENT = {increment:g}: must be given, from 1e-4 to 1e4 m"
        )
    form, channels = _channels(sections, file)
    columns, v, reference = _sections_of(channels, road, file)
    rows = _numbers(payload, form, len(channels), file)
    if len(rows) < 2:
        raise ConfigError(f"{file}: data: {len(rows)} cross sections; at least 2 are needed")
    end, start = road.get("REFERENCE_LINE_END_U"), road.get("REFERENCE_LINE_START_U", 0.0)
    if end is not None and abs((end - start) / increment + 1 - len(rows)) > 0.5:
        raise ConfigError(
            f"{file}: data: {len(rows)} cross sections, but REFERENCE_LINE_START_U = {start:g}, REFERENCE_LINE_END_U"
            f" = {end:g} and REFERENCE_LINE_INCREMENT = {increment:g} are those of {(end - start) / increment + 1:g}"
        )

    holes = ~np.isfinite(rows[:, columns])
    grid = _without_holes(rows[:, columns], columns, fill_sides or fills_sides(modifiers), file)
    start_phi = road.get("REFERENCE_LINE_START_PHI", 0.0)
    line = Line(
        (
            road.get("REFERENCE_LINE_START_X", 0.0),
            road.get("REFERENCE_LINE_START_Y", 0.0),
            road.get("REFERENCE_LINE_START_Z", 0.0),
        ),
        _along(rows, reference, "phi", start_phi, file)[1:],
        start_phi,
        _along(rows, reference, "slope", road.get("REFERENCE_LINE_START_S", 0.0), file)[1:],
        _along(rows, reference, "banking", road.get("REFERENCE_LINE_START_B", 0.0), file, from_row=0),
        increment,
        v,
        grid,
    )
    x, y = line.start[:2]  # the sums as they always were: a road's bits are kept in records
    ends = x + increment * np.cos(line.headings).sum(), y + increment * np.sin(line.headings).sum(), line.base[-1]
    _check_ends(ends, increment * len(line.headings), road, file)
    if modifiers:
        line = modified(line, holes, start, modifiers, file)
    heights = line.grid + line.banking[:, None] * line.v[None, :] + line.base[:, None]
    if not np.all(np.abs(heights) < 1e6):
        row = int(np.argmax(~np.all(np.abs(heights) < 1e6, axis=1)))
        raise ConfigError(f"{file}: data row {row + 1}: a height of {np.max(np.abs(heights[row])):g} m is beyond 1e6 m")
    x, y = line.start[:2]
    return Crg(x, y, np.ascontiguousarray(line.headings), line.increment, line.v, np.ascontiguousarray(heights))


def _check_ends(ends: tuple[float, float, float], length: float, road: dict[str, float], file: str) -> None:
    """The line must end where the file declares it; the rounding of headings moves it by far less than this."""
    for axis, end in zip("XYZ", ends, strict=True):
        value = road.get(f"REFERENCE_LINE_END_{axis}")
        if value is not None and abs(end - value) > 0.1 + 1e-3 * length:
            raise ConfigError(
                f"{file}: $ROAD_CRG: REFERENCE_LINE_END_{axis} = {value:g}: by its headings and slopes the line ends at"
                f" {end:g}; give REFERENCE_LINE_START_{axis} too, or correct either"
            )


def _split(data: bytes, file: str) -> tuple[dict[str, list[str]], bytes]:
    """Sections of the head by name, and the data."""
    sections: dict[str, list[str]] = {}
    name: str | None = None
    place = 0
    while place < min(len(data), MOST_HEAD):
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        if end - place > MOST_LINE and not data.startswith((b"*", b"$$"), place):
            shown = data[place : place + 40].decode("latin-1")
            raise ConfigError(
                f"{file}: {shown!r}...: a line of {end - place} characters; at most {MOST_LINE} are right"
            )
        line = data[place : min(end, place + MOST_LINE)].decode("latin-1").rstrip("\r")
        place = end + 1
        if line.startswith("$$"):
            return sections, data[place:]
        if line.startswith("$"):
            word = re.split(r"[\s!]", line[1:], maxsplit=1)[0].upper()
            name = word or None
            if name and name != "CT" and name in sections:
                raise ConfigError(f"{file}: ${name}: twice; once is right")
            if name:
                sections.setdefault(name, [])
        elif name is not None and not line.startswith("*"):
            bare = line.split("!", 1)[0].strip()
            if bare:
                sections[name].append(bare)
    raise ConfigError(f"{file}: no line that begins with $$ ends the head; this is not an OpenCRG file with data")


def _values(sections: dict[str, list[str]], name: str, file: str) -> dict[str, float]:
    """`KEY = number` lines of a section."""
    values = {}
    for line in sections.get(name, []):
        key, found, text = (part.strip() for part in line.partition("="))
        key = key.upper()
        if not found or not _NUMBER.fullmatch(text):
            raise ConfigError(f"{file}: ${name}: {line[:80]!r}: must be KEY = number")
        number = float(text.upper().replace("D", "E"))
        if not abs(number) < 1e12:
            raise ConfigError(f"{file}: ${name}: {key} = {text[:40]}: must be below 1e12")
        values[key] = number
    return values


def _refuse_unsupported(
    sections: dict[str, list[str]], road: dict[str, float], file: str, ignore_options: bool
) -> None:
    if "ROAD_CRG_FILE" in sections:
        raise ConfigError(f"{file}: $ROAD_CRG_FILE: references are not followed; name the file with the data itself")
    if "ROAD_CRG" not in sections:
        raise ConfigError(f"{file}: $ROAD_CRG: is missing; it must give REFERENCE_LINE_INCREMENT")
    for key in sorted(set(road) - _ROAD_KEYS):
        raise ConfigError(f"{file}: $ROAD_CRG: {key} = {road[key]:g}: unknown key")
    for key in ("X", "Y", "Z", "PHI"):
        offset = road.get(f"REFERENCE_LINE_OFFSET_{key}", 0.0)
        if offset != 0.0:
            raise ConfigError(f"{file}: $ROAD_CRG: REFERENCE_LINE_OFFSET_{key} = {offset:g}: only 0 is supported")
    if ignore_options:
        return
    for key, value in _values(sections, "ROAD_CRG_OPTS", file).items():
        if key in _OPTIONS and value != _OPTIONS[key]:
            raise ConfigError(
                f"{file}: $ROAD_CRG_OPTS: {key} = {value:g}: only {_OPTIONS[key]:g} is supported;"
                " ignore_options = true in the road's TOML takes the data without the file's options"
            )


def _channels(sections: dict[str, list[str]], file: str) -> tuple[str, list[str]]:
    """Data format and the names of the channels."""
    form = "KRBI"
    channels = []
    for line in sections.get("KD_DEFINITION", []):
        tag, text = line[:2].upper(), line[2:].strip()
        if tag == "#:":
            form = text.upper()
        elif tag == "D:":
            channels.append(text.lower())
        elif tag != "U:":
            raise ConfigError(f"{file}: $KD_DEFINITION: {line[:80]!r}: must begin with #:, D: or U:")
    if form not in _FORMATS:
        raise ConfigError(f"{file}: $KD_DEFINITION: #:{form[:20]}: must be one of {', '.join(_FORMATS)}")
    if not 1 <= len(channels) <= MOST_COLUMNS:
        raise ConfigError(f"{file}: $KD_DEFINITION: {len(channels)} channels (D:); must be 1 to {MOST_COLUMNS}")
    return form, channels


def _sections_of(
    channels: list[str], road: dict[str, float], file: str
) -> tuple[list[int], np.ndarray, dict[str, int]]:
    """Channels that are long sections, their v, and channels of the reference line by name."""
    columns: list[int] = []
    places: list[float | None] = []
    numbers: list[int] = []
    reference: dict[str, int] = {}
    for channel, text in enumerate(channels):
        name, _, unit = (part.strip() for part in text.partition(","))
        where = f"{file}: $KD_DEFINITION: D:{text[:60]}"
        words = name.split()
        kind = words[-1] if words[:2] == ["reference", "line"] and len(words) == 3 else ""
        section = _SECTION.fullmatch(" ".join(words[2:])) if words[:2] == ["long", "section"] else None
        if kind in ("phi", "slope", "banking"):
            if kind in reference:
                raise ConfigError(f"{where}: twice")
            if unit and unit != ("rad" if kind == "phi" else "m/m"):
                raise ConfigError(f"{where}: must be in {'rad' if kind == 'phi' else 'm/m'}")
            reference[kind] = channel
        elif section:
            if unit and unit != "m":
                raise ConfigError(f"{where}: must be in m")
            position = section.group(2)
            if position is not None and not _NUMBER.fullmatch(position):
                raise ConfigError(f"{where}: v must be a number")
            columns.append(channel)
            places.append(None if position is None else float(position.replace("d", "e")))
            numbers.append(int(section.group(1)[:9]) if section.group(1) else 0)
        else:
            raise ConfigError(
                f"{where}: must be 'long section NUMBER', 'long section at v = METRES' or 'reference line"
                " phi', 'slope' or 'banking'"
            )
    if len(columns) < 2:
        raise ConfigError(f"{file}: $KD_DEFINITION: {len(columns)} long sections; at least 2 are needed")
    positions = [place for place in places if place is not None]
    if positions and len(positions) < len(places):
        raise ConfigError(f"{file}: $KD_DEFINITION: long sections must all be numbered or all have 'at v ='")
    if positions:
        v = np.array(positions)
    elif numbers != list(range(1, len(numbers) + 1)):
        raise ConfigError(f"{file}: $KD_DEFINITION: long sections must be numbered 1 to {len(numbers)} in order")
    else:
        v = _regular(len(columns), road, file)
    if not (np.all(np.diff(v) >= 1e-4) and np.all(np.abs(v) <= 1e4)):
        raise ConfigError(
            f"{file}: long sections at v = {v[0]:g} .. {v[-1]:g}: must go from right to left, 1e-4 m or more apart"
        )
    return columns, v, reference


def _regular(count: int, road: dict[str, float], file: str) -> np.ndarray:
    """Positions of numbered sections, of which the head gives any two of right, left and increment, or one."""
    right, left = road.get("LONG_SECTION_V_RIGHT"), road.get("LONG_SECTION_V_LEFT")
    step = road.get("LONG_SECTION_V_INCREMENT")
    if step is None and right is not None and left is not None:
        step = (left - right) / (count - 1)
    if step is None:
        raise ConfigError(f"{file}: $ROAD_CRG: LONG_SECTION_V_INCREMENT: is missing, for numbered long sections")
    if right is None:
        right = left - (count - 1) * step if left is not None else -0.5 * (count - 1) * step
    if left is not None and abs(right + (count - 1) * step - left) > 0.01 * abs(step):
        raise ConfigError(
            f"{file}: $ROAD_CRG: LONG_SECTION_V_RIGHT = {right:g}, LEFT = {left:g} and INCREMENT = {step:g} do not fit"
            f" {count} long sections"
        )
    return right + step * np.arange(count)


def _numbers(payload: bytes, form: str, count: int, file: str) -> np.ndarray:
    """Rows of the data, NaN where a value is missing."""
    size = _FORMATS[form]
    if form in ("KRBI", "KDBI"):
        whole = len(payload) // size
        with np.errstate(invalid="ignore"):  # NaN of the signalling sort
            values = np.frombuffer(payload, dtype=f">f{size}", count=whole).astype(np.float64)
        rows = whole // count
        # the last record is filled up with NaN, which may be more than a row long
        while (
            rows
            and np.all(np.isnan(values[(rows - 1) * count : rows * count]))
            and whole - (rows - 1) * count < (RECORD // size)
        ):
            rows -= 1
        tail = values[rows * count :]
        if len(payload) % size > 2 or not np.all(np.isnan(tail)) or len(tail) >= RECORD // size:
            raise ConfigError(
                f"{file}: data: {len(payload)} bytes are not whole rows of {count} numbers of {size} bytes each;"
                " the file is cut off or its channels are wrong"
            )
        _limit(rows, file)
        return values[: rows * count].reshape(rows, count)

    per_line = RECORD // size
    lines_per_row = -(-count // per_line)
    lines = payload.decode("latin-1").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) % lines_per_row:
        raise ConfigError(
            f"{file}: data: {len(lines)} lines are not whole rows of {count} numbers, {lines_per_row} lines each"
        )
    _limit(len(lines) // lines_per_row, file)
    rows_of_text = np.empty((len(lines) // lines_per_row, count))
    for number, line in enumerate(lines):
        row, part = divmod(number, lines_per_row)
        first = part * per_line
        wanted = min(per_line, count - first)
        text = line.rstrip()
        if len(text) > wanted * size:
            raise ConfigError(f"{file}: data row {row + 1}: {len(text)} characters; at most {wanted * size} are right")
        for k in range(wanted):
            field = text[k * size : (k + 1) * size].strip()
            rows_of_text[row, first + k] = _number(field, row, first + k, file)
    return rows_of_text


def _number(field: str, row: int, channel: int, file: str) -> float:
    if "*" in field:
        return np.nan
    if not _NUMBER.fullmatch(field):
        raise ConfigError(f"{file}: data row {row + 1}, channel {channel + 1}: {field!r}: must be a number or *****")
    return float(field.upper().replace("D", "E"))


def _limit(rows: int, file: str) -> None:
    if rows > MOST_ROWS:
        raise ConfigError(f"{file}: data: {rows} cross sections; at most {MOST_ROWS} are allowed")


def _without_holes(grid: np.ndarray, columns: list[int], fill_sides: bool, file: str) -> np.ndarray:
    bad = ~np.isfinite(grid)
    if not bad.any():
        return grid
    row, column = (int(k) for k in np.argwhere(bad)[0])
    if not fill_sides:
        raise ConfigError(
            f"{file}: data row {row + 1}, channel {columns[column] + 1}: a hole (NaN, ***** or infinite); heights must"
            " be complete, or missing = 'extend' in the road's TOML fills the sides"
        )
    grid = grid.copy()
    for r in np.flatnonzero(bad.any(axis=1)):
        good = np.flatnonzero(~bad[r])
        if len(good) == 0 or good[-1] - good[0] + 1 != len(good):
            raise ConfigError(f"{file}: data row {int(r) + 1}: a hole inside the road, not at its side; fill it first")
        grid[r, : good[0]] = grid[r, good[0]]
        grid[r, good[-1] + 1 :] = grid[r, good[-1]]
    return grid


def _along(
    rows: np.ndarray, reference: dict[str, int], name: str, constant: float, file: str, from_row: int = 1
) -> np.ndarray:
    """A channel of the reference line; without one, the value at its start holds all along.

    Headings and slopes are those of the piece that ends in a row, so the first row has none.
    """
    if name not in reference:
        return np.full(len(rows), constant)
    channel = np.ascontiguousarray(rows[:, reference[name]])
    bad = ~(np.abs(channel[from_row:]) < 1e3)
    if bad.any():
        row = int(np.argmax(bad)) + from_row
        raise ConfigError(
            f"{file}: data row {row + 1}, channel {reference[name] + 1} (reference line {name}): {channel[row]}: must"
            " be a number"
        )
    return channel
