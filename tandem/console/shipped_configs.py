"""Where the configurations are that tandem ships: beside the packages in a checkout, in this one once installed; and
how one is found by its name."""

from pathlib import Path

from sync.errors import ConfigError

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
