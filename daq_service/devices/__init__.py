"""Sources: where scans come from. Each is one file here, behind the one protocol below.

A source delivers whole scans, oldest first, as raw register readings: a row a scan, a column a channel of the
configuration, int64. It never splits a scan, never invents one, and reports how many it knows to be lost.

Our own are files of this folder; other packages declare theirs as entry points `tandem.devices`
(sync/config/plugins.py), each a module with `Settings`, a table of sync/config/toml.py, and `open_device(config,
settings, file, host)`.

Opening a source reads files and checks the configuration, nothing else: the supervisor does it too. Only the process
that samples looks for the device (`find`), and it alone touches it afterwards.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sync.config import plugins
from sync.config.config import Config
from sync.config.toml import check
from sync.errors import ConfigError

if TYPE_CHECKING:  # this module is imported before anything is compiled
    from sync.clock import RealClock, VirtualClock
    from sync.ring.ring import RingReader

DEVICES = {
    kind: f"daq_service.devices.{kind}"
    for kind in ("virtual", "waves", "replay", "nidaqmx", "can", "gamepad", "remote", "page", "haptic", "simulator")
}
# their drivers (NI-DAQmx, gRPC, SDL) do not survive a fork: such a DAQ is a process that imported everything itself
OWN_PROCESS = frozenset({"nidaqmx", "gamepad"})
NOBODY_FEELS = frozenset({"virtual", "waves", "replay", "page", "simulator"})  # efforts move nobody's hand there


def felt(config: Config) -> bool:
    """Whether a hand is in the loop: an effort goes to a device that moves one."""
    return bool(config.efforts) and config.source.get("kind") not in NOBODY_FEELS


# settings that can be checked without the compiled code of their source
QUICKLY_CHECKED = {
    "virtual": "daq_service.devices.virtual_settings",
    "haptic": "daq_service.devices.haptic_settings",
}


@dataclass(frozen=True)
class Host:
    """What a source has of the process it runs in."""

    # the simulator's output, with the channels the source `wants`; None while there is none
    feedback: "Callable[[], RingReader | None]" = lambda: None
    say: Callable[[str], None] = lambda _: None  # what a person should read; kept in the record's summary
    clock: "RealClock | VirtualClock | None" = None  # that the source lives by; None: the host's own


class Device(Protocol):
    """And, if it has them:

    `unwrapped` = True: its counters are running counts already
    `seconds`: when it ends by itself
    `wants`: names of simulator outputs it looks at (Host.feedback)
    `find()`: look for the device and try whether it can do what is asked; raises DeviceError. Called once, before start
    `bound_ns`: how far its instants may be off, where they are another clock's; the simulator adds it to every age
    `counts()`: a dict of counters of its own, for the report
    `effort`: how an output of the simulator goes back to the device (daq_service/effort_settings.py), or None. With it
        `put(value)`, or `compiled_put` for the effort loop itself, see Actuator in daq_service/effort.py
    `axes`: its further Actuators, by name in order (`source.axes`), each with its own effort, or None
    """

    def start(self) -> None:
        """Begin sampling. Nothing is sampled before."""

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        """Take all whole scans there are, at most `len(scans)`; wait at most `wait_ns` for the first.

        Fills `scans` and the sample instants `t_ns`. Returns (how many, how many were lost just before them). No scan
        at all is a normal answer. Lost scans are a gap: what follows is not the continuation of what came before.
        """

    def stop(self) -> None:
        """End sampling and let go of the device. May be called twice."""


_ALONE = Host()


def open_device(config: Config, file: Path, host: Host = _ALONE) -> Device:
    """The source that `[source]` names, with the rest of that table as the source itself understands it."""
    module = _module(config, file)
    source: Device = module.open_device(config, _settings(module.Settings, config, file), file, host)
    if (effort := getattr(source, "effort", None)) is not None:
        from daq_service.effort_settings import check_port

        check_port(config, file, effort)
    return source


def require(config: Config, file: Path) -> None:
    """Raises DeviceError where the source needs software that is not installed. Quick, and compiles nothing."""
    module = _module(config, file)
    if (needs := getattr(module, "require", None)) is not None:
        needs(_settings(module.Settings, config, file))


def find(source: Device) -> None:
    if (look := getattr(source, "find", None)) is not None:
        look()


def refuse_early(config: Config, file: Path) -> None:
    """Raises ConfigError for what is wrong in `[source]`, as far as that can be checked without compiled code."""
    kind = _known_kind(config, file)
    if kind in QUICKLY_CHECKED:
        _settings(importlib.import_module(QUICKLY_CHECKED[kind]).Settings, config, file)


def _settings(model: Any, config: Config, file: Path) -> Any:
    if "force" in config.source and "effort" in model.model_fields:
        from daq_service.effort_settings import EffortSettings

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
    module = plugins.load(plugins.DEVICES, DEVICES, kind, where)
    for name in ("Settings", "open_device"):
        if kind not in DEVICES and not hasattr(module, name):
            raise ConfigError(f"{where} = {kind!r}: {module!r} has no {name}")
    return module
