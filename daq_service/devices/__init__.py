"""Sources: where scans come from. Each is one file, behind the one contract of contract.py.

Our own are modules of this folder or of a machine's; other packages declare theirs as entry points `tandem.devices`
(sync/config/plugins.py). Each is a module with `Settings`, a DeviceSettings, and `open_device(config, settings, file,
host)`, which returns a Device.
"""

import importlib
from pathlib import Path
from typing import Any

from daq_service.devices.contract import Device, DeviceSettings, Host
from daq_service.effort_settings import EffortSettings, check_port
from sync.config import plugins
from sync.config.config import Config
from sync.config.toml import check
from sync.errors import ConfigError

DEVICES = {
    "virtual": "tandem.machines.car.device.virtual",
    **{
        kind: f"daq_service.devices.{kind}"
        for kind in ("waves", "replay", "nidaqmx", "can", "gamepad", "remote", "page", "haptic", "simulator", "ros2")
    },
}
# modules of the `Settings` of kinds whose own module has compiled code: these are needed before that
_SETTINGS = {
    "virtual": "tandem.machines.car.device.settings",
    "haptic": "daq_service.devices.haptic_settings",
}
_WITH_KERNELS = frozenset({"waves", "can", "replay", "simulator", "remote", "page"})  # and settings in the same module


def settings_class(config: Config, where: str = "the configuration") -> type[DeviceSettings]:
    """The settings class of the kind of source that is named, with what that kind declares of itself."""
    kind = config.source.get("kind")
    shipped = _SETTINGS.get(kind) if isinstance(kind, str) else None
    module = importlib.import_module(shipped) if shipped else _module(kind, where)
    found = module.Settings
    if not (isinstance(found, type) and issubclass(found, DeviceSettings)):
        raise ConfigError(
            f"{where}: source.kind = {kind!r}: its Settings is no DeviceSettings; derive it from"
            " daq_service.devices.contract.DeviceSettings"
        )
    return found


def moves_hand(config: Config) -> bool:
    """Whether a hand is in the loop: an effort goes to a device that moves it."""
    return bool(config.efforts) and settings_class(config).moves_hand


_ALONE = Host()


def open_device(config: Config, file: Path, host: Host = _ALONE) -> Device:
    """The source that `[source]` names, with the rest of that table as the source itself understands it."""
    settings = _settings(config, file)
    source: Device = _module(config.source["kind"], str(file)).open_device(config, settings, file, host)
    if not isinstance(source, Device):
        raise ConfigError(
            f"{file}: source.kind = {config.source['kind']!r}: {type(source).__name__} is no Device; derive it from"
            " daq_service.devices.contract.Device"
        )
    if source.effort is not None:
        check_port(config, file, source.effort)
    return source


def require(config: Config, file: Path) -> None:
    """Raises DeviceError if the source needs software that is not installed. Quick, and compiles nothing."""
    _settings(config, file).require()


def refuse_early(config: Config, file: Path) -> None:
    """Raises ConfigError for errors in `[source]`, as far as they can be found without compiled code."""
    if _known_kind(config, file) not in _WITH_KERNELS:
        _settings(config, file)


def _settings(config: Config, file: Path) -> DeviceSettings:
    model = settings_class(config, str(file))
    if "force" in config.source and "effort" in model.model_fields:
        raise ConfigError(
            f"{file}: source.force: is called [source.effort] now, with the same keys; it has"
            f" {', '.join(EffortSettings.model_fields)} (docs/devices.md)"
        )
    return check(model, config.source, str(file), "source")


def _known_kind(config: Config, file: Path) -> str:
    kind = config.source.get("kind")
    known = plugins.known(plugins.DEVICES, DEVICES)
    if not isinstance(kind, str) or kind not in known:
        raise ConfigError(f"{file}: source.kind = {kind!r}: must be one of {', '.join(known)}")
    return kind


def _module(kind: Any, where: str) -> Any:
    return plugins.load(plugins.DEVICES, DEVICES, kind, f"{where}: source.kind", ("Settings", "open_device"))
