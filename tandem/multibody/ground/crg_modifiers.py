"""The modifiers of an OpenCRG file (`$ROAD_CRG_MODS`), in the order of the standard's own library: scales, then holes,
then the place of a point of the reference line, then offsets.

A section with nothing in it modifies nothing. Where a reference point is placed, offsets of the line are not used: the
library computes its own from it.
"""

from dataclasses import dataclass, replace

import numpy as np

from sync.errors import ConfigError

_SCALES = ("SCALE_Z_GRID", "SCALE_SLOPE", "SCALE_BANKING", "SCALE_LENGTH", "SCALE_WIDTH", "SCALE_CURVATURE")
_OFFSETS = tuple(
    f"REFLINE_{what}" for what in ("ROTCENTER_X", "ROTCENTER_Y", *(f"OFFSET_{k}" for k in ("X", "Y", "Z", "PHI")))
)
_POINT = tuple(f"REFPOINT_{k}{end}" for k in "UV" for end in ("", "_FRACTION", "_OFFSET")) + tuple(
    f"REFPOINT_{k}" for k in ("X", "Y", "Z", "PHI")
)
_KNOWN = (*_SCALES, "GRID_NAN_MODE", "GRID_NAN_OFFSET", *_OFFSETS, *_POINT)
_AS_IT_IS, _ZERO, _KEEP_LAST = 0, 1, 2  # of GRID_NAN_MODE


@dataclass(frozen=True)
class Line:
    """What of a road modifiers change, slope and banking still apart from the grid."""

    start: tuple[float, float, float]
    headings: np.ndarray  # of each piece
    start_phi: float
    slopes: np.ndarray  # of each piece
    banking: np.ndarray  # of each row
    increment: float
    v: np.ndarray
    grid: np.ndarray  # rows by columns

    @property
    def base(self) -> np.ndarray:
        """Height of the line at each row."""
        return self.start[2] + np.concatenate(([0.0], np.cumsum(self.slopes * self.increment)))

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        x = self.start[0] + np.concatenate(([0.0], np.cumsum(self.increment * np.cos(self.headings))))
        y = self.start[1] + np.concatenate(([0.0], np.cumsum(self.increment * np.sin(self.headings))))
        return x, y


def check_modifiers(modifiers: dict[str, float], file: str) -> None:
    for key, value in modifiers.items():
        where = f"{file}: $ROAD_CRG_MODS: {key} = {value:g}"
        if key not in _KNOWN:
            raise ConfigError(f"{where}: unknown; known are {', '.join(_KNOWN)}")
        if key in ("SCALE_LENGTH", "SCALE_WIDTH") and not 1e-3 <= value <= 1e3:
            raise ConfigError(f"{where}: must be from 1e-3 to 1e3")
        if key == "GRID_NAN_MODE" and value not in (_AS_IT_IS, _ZERO, _KEEP_LAST):
            raise ConfigError(f"{where}: must be 0 (as they are), 1 (zero) or 2 (the last value goes on)")
    for k in "UV":
        if f"REFPOINT_{k}" in modifiers and f"REFPOINT_{k}_FRACTION" in modifiers:
            raise ConfigError(f"{file}: $ROAD_CRG_MODS: REFPOINT_{k} and REFPOINT_{k}_FRACTION: give one of them")


def fills_sides(modifiers: dict[str, float]) -> bool:
    return modifiers.get("GRID_NAN_MODE", _AS_IT_IS) != _AS_IT_IS


def modified(line: Line, holes: np.ndarray, start_u: float, modifiers: dict[str, float], file: str) -> Line:
    """`holes`: where the grid had none and was filled from the inside, which the modifiers may want otherwise."""
    line = _scaled(line, modifiers)
    if fills_sides(modifiers) and holes.any():
        offset = modifiers.get("GRID_NAN_OFFSET", 0.0)
        base = 0.0 if modifiers["GRID_NAN_MODE"] == _ZERO else line.grid
        line = replace(line, grid=np.where(holes, base + offset, line.grid))
    if any(key in modifiers for key in _POINT):
        return _placed(line, start_u, modifiers, file)
    turn = modifiers.get("REFLINE_OFFSET_PHI", 0.0)
    centre = modifiers.get("REFLINE_ROTCENTER_X", line.start[0]), modifiers.get("REFLINE_ROTCENTER_Y", line.start[1])
    shift = tuple(modifiers.get(f"REFLINE_OFFSET_{k}", 0.0) for k in "XYZ")
    return _moved(line, turn, centre, (shift[0], shift[1], shift[2]))


def _scaled(line: Line, modifiers: dict[str, float]) -> Line:
    z, slope, banking, length, width, curvature = (modifiers.get(key, 1.0) for key in _SCALES)
    headings = line.headings
    if curvature != 1.0:
        headings = line.start_phi + curvature * (np.unwrap(headings) - headings[0])
    return replace(
        line, grid=z * line.grid, slopes=slope * line.slopes, banking=banking * line.banking,
        increment=length * line.increment, v=width * line.v, headings=headings,
    )  # fmt: skip


def _placed(line: Line, start_u: float, modifiers: dict[str, float], file: str) -> Line:
    """A point of the road at a place, and the line there in a direction; both are zero where none is given."""
    length = line.increment * len(line.headings)
    u = modifiers.get("REFPOINT_U", start_u + modifiers.get("REFPOINT_U_FRACTION", 0.0) * length)
    v = modifiers.get("REFPOINT_V", 0.0)
    if "REFPOINT_V_FRACTION" in modifiers:
        v = line.v[0] + modifiers["REFPOINT_V_FRACTION"] * (line.v[-1] - line.v[0])
    u, v = u + modifiers.get("REFPOINT_U_OFFSET", 0.0) - start_u, v + modifiers.get("REFPOINT_V_OFFSET", 0.0)
    if not (-1e-9 <= u <= length + 1e-9 and line.v[0] - 1e-9 <= v <= line.v[-1] + 1e-9):
        raise ConfigError(
            f"{file}: $ROAD_CRG_MODS: the reference point at u = {start_u + u:g}, v = {v:g} is not on the road, which"
            f" is {length:g} m long and reaches from v = {line.v[0]:g} to {line.v[-1]:g}"
        )
    x, y = line.points
    piece = min(int(max(u, 0.0) / line.increment), len(line.headings) - 1)
    along = u - piece * line.increment
    share = along / line.increment
    phi = float(line.headings[piece])
    px = float(x[piece] + along * np.cos(phi) - v * np.sin(phi))
    py = float(y[piece] + along * np.sin(phi) + v * np.cos(phi))
    rows = [np.interp(v, line.v, line.grid[k] + line.banking[k] * line.v) + line.base[k] for k in (piece, piece + 1)]
    pz = float((1.0 - share) * rows[0] + share * rows[1])
    wanted = tuple(modifiers.get(f"REFPOINT_{k}", 0.0) for k in "XYZ")
    turn = modifiers.get("REFPOINT_PHI", 0.0) - phi
    return _moved(line, turn, (px, py), (wanted[0] - px, wanted[1] - py, wanted[2] - pz))


def _moved(line: Line, turn: float, centre: tuple[float, float], shift: tuple[float, float, float]) -> Line:
    dx, dy = line.start[0] - centre[0], line.start[1] - centre[1]
    cos, sin = float(np.cos(turn)), float(np.sin(turn))
    x, y = centre[0] + dx * cos - dy * sin + shift[0], centre[1] + dx * sin + dy * cos + shift[1]
    start = (x, y, line.start[2] + shift[2])
    return replace(line, start=start, headings=line.headings + turn, start_phi=line.start_phi + turn)
