"""Where the configurations are that tandem ships: beside the packages in a checkout, in this one once installed."""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
CONFIGS = next((folder for folder in (_HERE / "configs", _HERE.parent / "configs") if folder.is_dir()), _HERE)
