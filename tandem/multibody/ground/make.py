"""From a road file to the vector that kernels read, from the disk or from the bytes a record has kept.

Promises
- Everything wrong with a road is a `ConfigError` before the first step: it names the file, the key, row or channel, the
  value and what would be right. Nothing else escapes, whatever bytes the files hold.
- A road depends on the bytes of its files alone: `road_from_sources(sources(path))` is `make_road(path)` to the bit.
- Data files lie in the folder of the road file or below it.
"""

from collections.abc import Callable
from math import pi
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from sync.config.toml import Section, check, parse_toml, read_toml
from sync.errors import ConfigError
from tandem.multibody.ground import sections as s
from tandem.multibody.ground.crg import parse_crg
from tandem.multibody.ground.grid import grid_block, parse_grid
from tandem.multibody.ground.layout import ABSENT, Bump, Head, Kind, Shape, Slope, assemble
from tandem.multibody.ground.sharpness import sharpness

MOST_BYTES = 64 << 20  # of a data file
MOST_ROUGH_NODES = 4_000_000

Reader = Callable[[str], bytes]


def make_road(road: str | Path | dict[str, Any]) -> np.ndarray:
    """The vector of a road file; or of its tables, which then cannot name data files."""
    if isinstance(road, dict):
        return _build(road, "road", _no_files)
    path = Path(road)
    return _build(read_toml(path), str(path), lambda name: _read_beside(path, name))


def sources(path: str | Path) -> dict[str, bytes]:
    """Every file a road is made of: the road file under its own name, its data under the names it calls them."""
    path = Path(path)
    _, surface = _checked(read_toml(path), str(path))
    files = {path.name: _read(path, str(path))}
    name = getattr(surface, "file", None)
    if name is not None:
        files[name] = _read_beside(path, name)
    return files


def road_from_sources(files: dict[str, bytes]) -> np.ndarray:
    """The road of `sources`, without the disk."""
    names = [name for name in files if name.endswith(".toml")]
    if len(names) != 1:
        raise ConfigError(f"sources of a road: {', '.join(sorted(files))}: must have exactly one .toml file")

    def read(name: str) -> bytes:
        if name not in files:
            raise ConfigError(f"{names[0]}: surface.file = {name!r}: not among the sources: {', '.join(sorted(files))}")
        return files[name]

    return _build(parse_toml(files[names[0]], names[0]), names[0], read)


# ---- files -----------------------------------------------------------------------------------------------------------


def _no_files(name: str) -> bytes:
    raise ConfigError(f"road: surface.file = {name!r}: only a road read from a file has data files beside it")


def _read_beside(path: Path, name: str) -> bytes:
    _refuse_outside(str(path), name)
    folder = path.parent.resolve()
    target = (folder / name).resolve()
    if not target.is_relative_to(folder):
        raise ConfigError(f"{path}: surface.file = {name!r}: leads out of {folder}; data must lie beside the road file")
    return _read(target, f"{path}: surface.file = {name!r}")


def _refuse_outside(file: str, name: str) -> None:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or name.endswith(".toml"):
        raise ConfigError(
            f"{file}: surface.file = {name!r}: must be a data file beside the road file or in a folder below it"
        )


def _read(path: Path, what: str) -> bytes:
    try:
        if not path.is_file():
            raise ConfigError(f"{what}: no such file")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise ConfigError(f"{what}: {size} bytes; at most {MOST_BYTES} are allowed")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{what}: cannot be read: {getattr(error, 'strerror', error)}") from None


# ---- blocks ----------------------------------------------------------------------------------------------------------


def _checked(data: dict[str, Any], file: str) -> tuple[s.RoadFile, Section]:
    road = check(s.RoadFile, data, file)
    kind = road.surface.get("kind")
    if not isinstance(kind, str) or kind not in s.SURFACES:
        raise ConfigError(f"{file}: surface.kind = {str(kind)[:40]!r}: must be one of {', '.join(s.SURFACES)}")
    return road, check(s.SURFACES[kind], road.surface, file, "surface")


def _build(data: dict[str, Any], file: str, read: Reader) -> np.ndarray:
    road, surface = _checked(data, file)
    layers: list[tuple[Kind, np.ndarray]] = []
    if isinstance(surface, s.SlopeSection):
        layers.append((Kind.SLOPE, _slope(surface)))
    elif isinstance(surface, s.GridSection):
        layers.append((Kind.GRID, _grid(surface, file, read)))
    elif isinstance(surface, s.CrgSection):
        layers.append((Kind.CURVED, _crg(surface, file, read)))
    if road.roughness is not None:
        layers.append((Kind.GRID, _rough(road.roughness, file)))
    layers += [(Kind.BUMP, _bump(bump)) for bump in road.bumps]
    try:
        vector = assemble(layers, [_patch(patch) for patch in road.patches], road.friction)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    sharp = sharpness(layers)
    vector[Head.STEEPEST], vector[Head.SHARP] = sharp.steepest, sharp.needs_outline
    return vector


def _slope(section: s.SlopeSection) -> np.ndarray:
    block = np.zeros(Slope.SIZE)
    block[Slope.GRADE], block[Slope.BANK] = section.grade_percent / 100.0, section.bank_percent / 100.0
    block[Slope.FROM_START] = section.begin is None
    block[Slope.BEGIN] = 0.0 if section.begin is None else section.begin
    block[Slope.END] = ABSENT if section.end is None else section.end
    block[Slope.TRANSITION] = section.transition
    return block


def _data(section: s.GridSection | s.CrgSection, file: str, read: Reader) -> bytes:
    _refuse_outside(file, section.file)
    return read(section.file)


def _grid(section: s.GridSection, file: str, read: Reader) -> np.ndarray:
    heights = parse_grid(_data(section, file, read), section.file, section.scale) + section.lift
    return grid_block(heights, (section.origin[0], section.origin[1]), (section.spacing[0], section.spacing[1]))


def _crg(section: s.CrgSection, file: str, read: Reader) -> np.ndarray:
    from tandem.multibody.ground.reference_line import curved_block  # a flat road does not wait for its kernels

    data = _data(section, file, read)
    fill = section.missing == "extend"
    crg = parse_crg(data, section.file, fill, section.ignore_options, section.ignore_modifiers)
    at = None if section.at is None else (section.at[0], section.at[1])
    heading = None if section.heading_deg is None else section.heading_deg * (pi / 180.0)
    return curved_block(crg, at, heading, section.lift, section.file)


def _rough(section: s.Roughness, file: str) -> np.ndarray:
    from tandem.multibody.ground.roughness import CLASSES, period_nodes, rough_field

    nodes = period_nodes(section.length, section.spacing)
    stations = int(section.width / section.lateral_spacing + 1e-9) + 1
    if nodes * stations > MOST_ROUGH_NODES:
        raise ConfigError(
            f"{file}: roughness: {nodes} x {stations} nodes; at most {MOST_ROUGH_NODES} are allowed, so make length or"
            " width smaller, or spacing or lateral_spacing greater"
        )
    density = section.density if section.iso_class is None else CLASSES[section.iso_class]
    assert density is not None  # the section has one of the two
    heights = rough_field(
        density,
        section.seed,
        section.decay,
        nodes,
        section.spacing,
        stations,
        section.lateral_spacing,
        section.shortest,
        section.longest,
    )
    origin = (0.0, section.middle - 0.5 * (stations - 1) * section.lateral_spacing)
    begin = -ABSENT if section.begin is None else section.begin
    return grid_block(heights, origin, (section.spacing, section.lateral_spacing), True, begin, section.transition)


def _bump(section: s.BumpSection) -> np.ndarray:
    block = np.zeros(Bump.SIZE)
    block[Bump.SHAPE] = Shape[section.shape.upper()]
    block[Bump.X], block[Bump.LENGTH], block[Bump.HEIGHT] = section.x, section.length, section.height
    if section.ramp is not None:
        block[Bump.RAMP], block[Bump.BLEND] = section.ramp, section.rounding / section.ramp
    block[Bump.RIGHT] = -ABSENT if section.right is None else section.right
    block[Bump.LEFT] = ABSENT if section.left is None else section.left
    block[Bump.SIDE] = section.side
    return block


def _patch(section: s.PatchSection) -> np.ndarray:
    if section.outline is not None:
        stations = section.outline
    else:
        right = -ABSENT if section.right is None else section.right
        left = ABSENT if section.left is None else section.left
        begin = -ABSENT if section.begin is None else section.begin
        end = ABSENT if section.end is None else section.end
        stations = [[begin, right, left], [end, right, left]]
    return np.array([section.factor, section.edge, len(stations), *(value for row in stations for value in row)])
