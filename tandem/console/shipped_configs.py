"""Where the configurations are that tandem ships: beside the packages in a checkout, in this one once installed; and
how one is found by its name."""

from pathlib import Path

from sync.errors import ConfigError

_NO_MACHINES = ("studies", "fragments")  # files there name a machine, and are none
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


def shipped_file(machine: str) -> Path | None:
    """The file of configs/ that a machine's name alone stands for; none, if it is made without one.

    Where tandem ships several and none has the machine's own name, one has to be chosen: ConfigError with those there
    are.
    """
    from sync.config.toml import read_toml  # most commands need nothing of it

    found = {}
    for path in sorted(CONFIGS.glob("*/*.toml")):
        data = read_toml(path)
        if data.get("machine") == machine and path.parent.name not in _NO_MACHINES:
            found[path.stem] = path
    if len(found) > 1 and machine not in found:
        there = ", ".join(str(path.relative_to(CONFIGS.parent)) for path in found.values())
        raise ConfigError(f"{machine}: is made from a file; tandem ships {there}")
    return found.get(machine) or next(iter(found.values()), None)
