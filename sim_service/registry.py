"""Machines by name, made from their files. What a machine is: contract/machine.py.

A machine is a module, of ours (MACHINES) or of another package (sync/config/plugins.py), that has

    MACHINE                                 a Machine whose parameters are all there is to set, or else
    make(data, sources, changed)            -> (Machine, params), from the contents of its file
    files(data, file, given)                what else it is made from, where it has a `make`: {name: (bytes, shown
                                            name)}; `given` are the files of [sim.files]

`sim.machine` is a TOML file that names the machine, or the name of a machine that needs no file. Everything a machine
is made from passes through `MachineFiles`, bytes under the names they have in a record; so a recorded run is replayed
from its record alone, by the same code that made it from files.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.declared import check_declared
from sim_service.contract.machine import Machine
from sim_service.contract.overruns import check_overruns
from sim_service.contract.start import check_start, moving
from sync.config import plugins
from sync.config.config import Config
from sync.config.toml import parse_toml, read_toml
from sync.errors import ConfigError
from sync.visible import listed

MACHINES = {
    **{name: f"tandem.machines.car.{name}" for name in ("buggy", "single_track", "swerve", "driver")},
    **{name: f"tandem.machines.{name}" for name in ("sensed", "mass_spring", "kart", "tilting", "mechanism")},
    **{
        name: f"tandem.machines.{name}.machine" for name in ("wall", "omni", "fmu", "observer")
    },  # beside their commands
    "tilting_vehicle": "tandem.machines.tilting.vehicle",
    "kart_vehicle": "tandem.machines.kart.vehicle",
    "piano_phases": "tandem.machines.piano.phases",
    "piano_octave": "tandem.machines.piano.octave",
    "piano_multibody": "tandem.machines.piano.multibody",
    "piano_octave_multibody": "tandem.machines.piano.multibody.octave",
}
# how a machine is observed: modules with `observed(machine, params)`, an Observed (tandem/estimation/contract.py)
OBSERVED = {
    "buggy": "tandem.machines.car.buggy.observed",
    "single_track": "tandem.machines.car.single_track.observed",
    "tilting": "tandem.machines.tilting.observed",
    "mechanism": "tandem.machines.mechanism.observed",
    "tilting_vehicle": "tandem.machines.tilting.vehicle.observed",
}
FILE = "machine.toml"  # its name in a record
BY_NAME = "sim.machine"  # what messages call a machine that has no file


def known_machines() -> list[str]:
    """The names of all machines, ours first. Takes a moment: it reads what all installed packages declare."""
    return plugins.known(plugins.MACHINES, MACHINES)


def is_machine(word: object) -> bool:
    """Whether a machine has this name; quick for ours, and for a path."""
    return isinstance(word, str) and (word in MACHINES or (not Path(word).suffix and word in known_machines()))


@dataclass(frozen=True)
class MachineFiles:
    files: dict[str, bytes]  # by their names in a record
    names: dict[str, str]  # what messages call them

    def name(self, key: str = FILE) -> str:
        return self.names.get(key, key)

    def toml(self, key: str = FILE) -> dict[str, Any]:
        if key not in self.files:
            raise ConfigError(f"{self.name(key)}: is missing")
        return parse_toml(self.files[key], self.name(key))

    def as_inside(self, prefix: str) -> dict[str, tuple[bytes, str]]:
        """These as files of a machine around this one, with this prefix before their names."""
        return {prefix + key: (content, self.name(key)) for key, content in self.files.items()}

    def inside(self, prefix: str) -> "MachineFiles":
        """Those of the machine inside this one, see `as_inside`."""
        files = {key.removeprefix(prefix): content for key, content in self.files.items() if key.startswith(prefix)}
        names = {key.removeprefix(prefix): name for key, name in self.names.items() if key.startswith(prefix)}
        return MachineFiles(files, names)

    def with_files(self, keys: Iterable[str], other: "MachineFiles") -> "MachineFiles":
        """The same, but the files for these keys of [sim.files] are those that `other` has, or none if it has none."""
        files, names = dict(self.files), dict(self.names)
        for key in keys:
            inside = [name[: -len(tail)] for name, tail in named_for(key, (*self.files, *other.files))]
            for name, _ in named_for(key, self.files):
                del files[name]
            for name, tail in named_for(key, other.files):
                here = (inside[0] if inside else "") + tail
                files[here], names[here] = other.files[name], other.name(name)
        return MachineFiles(files, names)

    def with_settings(self, top: Mapping[str, str], where: str) -> "MachineFiles":
        """The same with settings in front of the machine's file; `where` these were given, for messages."""
        there = self.toml()
        for key, value in top.items():
            if key in there:
                raise ConfigError(f"{where}.{key} = {value!r}: {self.name()} has {key} = {there[key]!r} itself")
        if not top:
            return self
        front = "".join(
            f"{json.dumps(key)} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in top.items()
        ).encode()
        names = {**self.names, FILE: f"{self.name()} (with {where})"}
        return MachineFiles({**self.files, FILE: front + self.files[FILE]}, names)


def named_for(key: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """The names for a key of [sim.files], each with what the machine that reads it calls it, see `as_inside`."""
    found = ((name, re.search(rf"(?:^|:)({re.escape(key)}(?:[:.].*)?)$", name)) for name in names)
    return [(name, match[1]) for name, match in found if match is not None]


def gather(machine: str | Path, further: Mapping[str, Path] | None = None) -> MachineFiles:
    """Read a machine's file (a path) and whatever it is made from besides; or take a machine by its name alone."""
    further = further or {}
    path = Path(machine)
    if isinstance(machine, str):
        where, data = BY_NAME, {"machine": machine}
        files = {FILE: f"machine = {machine!r}\n".encode()}
        module = plugins.load(plugins.MACHINES, MACHINES, machine, where)
    else:
        data, where = read_toml(path), str(path)
        files = {FILE: path.read_bytes()}
        module = machine_module(data, where)
    names = {FILE: where}
    read = getattr(module, "files", None)
    for key, file in further.items():
        if read is None:
            raise ConfigError(f"sim.files.{key} = {str(file)!r}: {data['machine']} reads no further files")
    for key, (content, shown) in (read(data, path, further) if read is not None else {}).items():
        files[key], names[key] = content, shown
    return MachineFiles(files, names)


def recorded(files: dict[str, bytes], where: str) -> MachineFiles:
    """The same from the attachments of a record."""
    return MachineFiles(files, {key: f"{where} ({key})" for key in (*files, FILE)})


def load_machine(
    machine: str | Path, changed: dict[str, float] | None = None, further: Mapping[str, Path] | None = None
) -> tuple[Machine, np.ndarray]:
    """The machine of a file, or of that name, and its parameters: the file must give all of them, within their limits.

    `changed` are parameters that differ from the file, as `sim.parameters` has them.
    """
    return make_machine(gather(machine, further), changed)


def sim_files(config: Config) -> dict[str, str]:
    """What [sim.files] names; an empty name is none."""
    return {key: name for key, name in config.sim.files.items() if name}


def configured(config: Config, folder: Path) -> MachineFiles:
    """What the machine of a configuration is made from; paths in it are relative to `folder`."""
    machine = config.sim.machine
    further = {key: folder / name for key, name in sim_files(config).items()}
    return gather(folder / machine if machine.endswith(".toml") else machine, further)


def configured_machine(config: Config, folder: Path) -> tuple[Machine, np.ndarray]:
    return started(configured(config, folder), config)


def started(sources: MachineFiles, config: Config) -> tuple[Machine, np.ndarray]:
    """The machine made from these, with the parameters and the start of the configuration."""
    machine, params = make_machine(sources, config.sim.parameters)
    if not config.sim.start:
        return machine, params
    check_start(machine, config.sim.start, "sim.start")
    return moving(machine, config.sim.start), params


def check_step(config: Config, machine: Machine, file: str) -> None:
    """Raises ConfigError if the machine is made for another step: one that counts time in steps would be wrong."""
    if machine.stepping.step_ms not in (0.0, config.sim.step_ms):
        raise ConfigError(
            f"{file}: sim.step_ms = {config.sim.step_ms:g}: must be {machine.stepping.step_ms:g}, which"
            f" {config.sim.machine} is made for (its step_ms)"
        )


def make_machine(sources: MachineFiles, changed: dict[str, float] | None = None) -> tuple[Machine, np.ndarray]:
    data = sources.toml()
    built = _build(data, sources, changed or {})
    if data["machine"] not in MACHINES:  # tests check ours
        check_overruns(*built, sources.name())
    return built


def _build(data: dict[str, Any], sources: MachineFiles, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    module = machine_module(data, sources.name())
    if (make := getattr(module, "make", None)) is not None:
        try:
            built: tuple[Machine, np.ndarray] = make(data, sources, changed)
        except ConfigError as error:
            missing = re.findall(rf"^{re.escape(BY_NAME)}: (\w+): is missing", str(error), re.MULTILINE)
            if missing:
                raise ConfigError(
                    f"{BY_NAME} = {data['machine']!r}: is made from a file that has {listed(missing)}; name that file"
                ) from None
            raise
        check_declared(built[0], sources.name())
        return built
    machine = getattr(module, "MACHINE", None)
    if not isinstance(machine, Machine):
        raise ConfigError(
            f"{sources.name()}: machine = {data['machine']!r}: {module!r} has no MACHINE and no make(...)"
        )
    from sim_service.contract.parameters import make_plain

    check_declared(machine, sources.name())  # before its parameters are compared with what is given
    return make_plain(machine, data, sources, changed)


def observed_module(machine: str, where: str) -> Any:
    """The module that has how a machine is observed; `where` the machine is named, for messages."""
    return plugins.load(plugins.OBSERVED, OBSERVED, machine, where, ("observed",))


def machine_module(data: dict[str, Any], path: str) -> Any:
    """The module of the machine that a file names; `path` of the file, for messages."""
    if "machine" not in data:
        raise ConfigError(f"{path}: machine: is missing")
    return plugins.load(plugins.MACHINES, MACHINES, data["machine"], f"{path}: machine")
