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
        for kind in ("waves", "replay", "nidaqmx", "can", "gamepad", "remote", "page", "haptic", "simulator")
    },
}
# their drivers (NI-DAQmx, gRPC, SDL) do not survive a fork: such a DAQ is a process that imported everything itself
OWN_PROCESS = frozenset({"nidaqmx", "gamepad"})
NOBODY_FEELS = frozenset({"virtual", "waves", "replay", "page", "simulator"})  # efforts move nobody's hand there


def felt(config: Config) -> bool:
    """Whether a hand is in the loop: an effort goes to a device that moves one."""
    return bool(config.efforts) and config.source.get("kind") not in NOBODY_FEELS


# settings that can be checked without the compiled code of their source
QUICKLY_CHECKED = {
    "virtual": "tandem.machines.car.device.settings",
    "haptic": "daq_service.devices.haptic_settings",
}


_ALONE = Host()


def open_device(config: Config, file: Path, host: Host = _ALONE) -> Device:
    """The source that `[source]` names, with the rest of that table as the source itself understands it."""
    module = _module(config, file)
    source: Device = module.open_device(config, _settings(module.Settings, config, file), file, host)
    if not isinstance(source, Device):
        raise ConfigError(
            f"{file}: source.kind = {config.source['kind']!r}: {type(source).__name__} is no Device; derive it from"
            " daq_service.devices.contract.Device"
        )
    if source.effort is not None:
        check_port(config, file, source.effort)
    return source


def require(config: Config, file: Path) -> None:
    """Raises DeviceError where the source needs software that is not installed. Quick, and compiles nothing."""
    settings: DeviceSettings = _settings(_module(config, file).Settings, config, file)
    settings.require()


def refuse_early(config: Config, file: Path) -> None:
    """Raises ConfigError for what is wrong in `[source]`, as far as that can be checked without compiled code."""
    kind = _known_kind(config, file)
    if kind in QUICKLY_CHECKED:
        _settings(importlib.import_module(QUICKLY_CHECKED[kind]).Settings, config, file)


def _settings(model: Any, config: Config, file: Path) -> Any:
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


def _module(config: Config, file: Path) -> Any:
    where, kind = f"{file}: source.kind", config.source.get("kind")
    return plugins.load(plugins.DEVICES, DEVICES, kind, where, ("Settings", "open_device"))
