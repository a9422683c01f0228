"""Where the configurations are that tandem ships: beside the packages in a checkout, in this one once installed; and
how one is found by its name."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from sync.errors import ConfigError

_NO_MACHINES = ("studies", "fragments")  # files there name a machine, and are none
_LONGEST = 255  # letters of a name
_HERE = Path(__file__).resolve().parents[1]
CONFIGS = next((folder for folder in (_HERE / "configs", _HERE.parent / "configs") if folder.is_dir()), _HERE)


def find_config(path: Path, folder: str = "") -> Path:
    """A file by its path, or a shipped one by its name (`drive`, `vehicles/buggy`); `folder` of configs/ comes first.

    A path that leads nowhere is returned as it is: reading it reports what is wrong. A bare name that is none raises
    ConfigError with those there are.
    """
    if not path.name:
        raise ConfigError(f"{path}: a file, or the name of a shipped configuration, is expected; it is a folder")
    if path.is_file():
        return path
    for place in (CONFIGS / folder, CONFIGS, CONFIGS.parent):
        for name in (path, path.with_name(f"{path.name}.toml")):
            if (place / name).is_file():
                return place / name
    if path.suffix or len(path.parts) != 1:
        return path
    where = CONFIGS / folder
    there = ", ".join(sorted(p.stem for p in where.glob("*.toml") if not p.stem.endswith("_calibration")))
    raise ConfigError(f"{path}: neither a file nor a configuration in {where}, which has {there}")


def named_files(file: Path) -> list[Path]:
    """A shipped file and those that it names, directly or by one of them; in the order in which they are named."""
    from sync.config.toml import read_toml

    found: dict[Path, None] = {}
    todo = [file.resolve()]
    while todo:
        path = todo.pop(0)
        if path in found:
            continue
        found[path] = None
        if path.suffix == ".toml":
            todo += [each for text in _texts(read_toml(path)) if (each := _beside(path, text)) is not None]
    return list(found)


def _texts(value: object) -> Iterator[str]:
    """All strings of a file's tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _beside(file: Path, text: str) -> Path | None:
    """The shipped file that a string in another one names, if it names one."""
    if not Path(text).suffix or len(text) > _LONGEST or "\0" in text:
        return None
    path = (file.parent / text).resolve()
    return path if path.is_file() and path.is_relative_to(CONFIGS.resolve()) else None


def copied(config: Path, folder: Path) -> list[Path]:
    """Copy a shipped file, and those that it names, to their places below a folder; nothing there is replaced.

    Raises ConfigError where there is no such file, or something in the way.
    """
    from sync.files.private import make_folder

    file = find_config(config)
    if not file.is_file() or not file.resolve().is_relative_to(CONFIGS.resolve()):
        raise ConfigError(f"{config}: tandem ships no such file; one of {CONFIGS} is expected, such as drive")
    places = {each: folder / each.relative_to(CONFIGS.resolve()) for each in named_files(file)}
    if taken := [str(place) for place in places.values() if place.exists()]:
        raise ConfigError(f"{', '.join(taken)}: there already; give another folder, or move it away")
    try:
        for each, place in places.items():
            make_folder(place.parent)
            shutil.copyfile(each, place)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}; a folder is expected") from None
    return list(places.values())


def shipped_file(machine: str) -> Path | None:
    """The file of configs/ that a machine's name alone stands for; none, if it is made without one.

    Where tandem ships several and none has the machine's own name, one has to be chosen: ConfigError with those there
    are.
    """
    from sync.config.toml import read_toml  # most commands need nothing of it
    from tandem.brought import FILES

    if machine in FILES:
        return CONFIGS / FILES[machine]
    found = {}
    for path in sorted(CONFIGS.glob("*/*.toml")):
        if path.parent.name in _NO_MACHINES or machine.encode() not in path.read_bytes():
            continue  # most of them, which are not worth parsing
        if read_toml(path).get("machine") == machine:
            found[path.stem] = path
    if len(found) > 1 and machine not in found:
        there = ", ".join(str(path.relative_to(CONFIGS.parent)) for path in found.values())
        raise ConfigError(f"{machine}: is made from a file; tandem ships {there}")
    return found.get(machine) or next(iter(found.values()), None)
