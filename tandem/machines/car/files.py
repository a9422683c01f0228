"""Files that a car is made from besides its own: the tyres that its file names, and the road it stands on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sync.config.config import shipped_under
from sync.errors import ConfigError

TYRES = ("tyre_front", "tyre_rear")
MOST_BYTES = 1 << 20  # of a tyre file


def car_files(data: dict[str, Any], file: Path, user_files: Mapping[str, Path]) -> dict[str, tuple[bytes, str]]:
    """Contents and shown names, by their names in a record."""
    found = {key: _tyre(key, data[key], file) for key in TYRES if isinstance(data.get(key), str)}
    if user_files:
        from tandem.multibody.ground.files import read_road_files

        found |= read_road_files(user_files, "a car")
    return found


def _tyre(key: str, reference: str, file: Path) -> tuple[bytes, str]:
    path = file.parent / reference
    try:
        if path.exists() and not (path.is_file() and path.stat().st_size <= MOST_BYTES):
            raise ConfigError(f"{file}: {key} = {reference!r}: must be a file of at most {MOST_BYTES} bytes")
        return path.read_bytes(), str(path)
    except ValueError:
        raise ConfigError(f"{file}: {key} = {reference!r}: is no path") from None
    except OSError as error:
        near = sorted(p.name for p in path.parent.glob(f"*{path.suffix}")) if path.suffix else []
        beside = f"; there are {', '.join(near)}" if near else f"; {path.parent.resolve()} must have such a file"
        if not near and (ours := shipped_under(reference)) is not None:  # of a vehicle file that was copied
            beside = f"; tandem ships {str(ours)!r}: write that, or copy it"
        raise ConfigError(f"{file}: {key} = {reference!r}: cannot be read: {error.strerror}{beside}") from None
