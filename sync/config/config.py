"""Configuration: one TOML file per use, checked as a whole before anything starts.

How it is read, and how errors in it are reported: sync/config/toml.py. Paths inside a file are relative to that file.
Quantities are SI; where another unit is usual it stands in the key.
"""

import ipaddress
import os
import pwd
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PlainValidator,
    field_validator,
    model_validator,
)

from sync.config.input_rows import Rows
from sync.config.toml import Origins, Section, check, key_of, lay_over, read_toml, with_overrides
from sync.errors import ConfigError
from sync.ring.block import AGE, RESERVED_NAMES, Channel, Layout
from sync.ring.streams import AXIS_EFFORTS, EFFORT, ring_name

_NAME = r"^[a-z][a-z0-9_]{0,31}$"
_MOST_DEEP = 16
_MOST_AHEAD = 4000  # steps of a look ahead
_SOCKET_PATH_MAX = 107  # what the kernel takes as the path of a local socket


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError(f"must be a power of two, such as {1 << value.bit_length()}")
    return value


RingSize = Annotated[int, Field(ge=16, le=1 << 22)]


class ArtificialClock(Section):
    """A DAQ clock that is deliberately wrong on the wire: two hosts, tried out on one."""

    offset_ms: float = 0.0  # by how much it is ahead
    ppm: float = Field(0.0, ge=-1000, le=1000)  # by how much it is too quick


BEYOND_LOOPBACK = "is not the loopback: give both hosts keys (`tandem keys`, then keys = the folder; docs/remote.md)"


class Transport(Section):
    kind: Literal["shm", "ipc", "tcp"] = "ipc"
    daq_host: str = "127.0.0.1"
    sim_host: str = "127.0.0.1"
    daq_port: int = Field(5601, ge=1, le=65535)  # of the DAQ's blocks (tcp)
    sim_port: int = Field(5602, ge=1, le=65535)  # of the simulator's steps (tcp)
    every_port: int = Field(0, ge=0, le=65535)  # where the DAQ publishes every block; 0: nowhere
    keys: str = ""  # folder of keys, see sync/transport/keys.py; empty: none
    daq_key: str = Field("daq", pattern=_NAME)
    sim_key: str = Field("sim", pattern=_NAME)  # the simulator's pair of keys
    clock: Literal["auto", "same", "estimate", "disciplined"] = "auto"
    clock_port: int = Field(5603, ge=1, le=65535)
    clock_bound_us: float = Field(100.0, gt=0)  # of disciplined clocks, as their keeper promises it
    artificial_clock: ArtificialClock = ArtificialClock()

    @property
    def clock_mode(self) -> str:
        """How the simulator reads the DAQ's instants; by default as its own on one host, by estimate on two."""
        if self.clock != "auto":
            return self.clock
        far = self.kind == "tcp" and not all(
            ipaddress.ip_address(h).is_loopback for h in (self.daq_host, self.sim_host)
        )
        return "estimate" if far else "same"

    @model_validator(mode="after")
    def _closed_by_default(self) -> "Transport":
        for key, host in (("daq_host", self.daq_host), ("sim_host", self.sim_host)):
            try:
                loopback = ipaddress.ip_address(host).is_loopback
            except ValueError:
                raise ValueError(f"{key} = {host!r} must be an IP address, such as 127.0.0.1") from None
            if not loopback and not self.keys:
                raise ValueError(f"{key} = {host!r} {BEYOND_LOOPBACK}")
        ports = [(self.daq_host, self.daq_port), (self.sim_host, self.sim_port), (self.daq_host, self.clock_port)]
        if self.every_port:
            ports.append((self.daq_host, self.every_port))
        if len(set(ports)) < len(ports):
            raise ValueError(
                f"daq_port = {self.daq_port}, sim_port = {self.sim_port}, clock_port = {self.clock_port}, every_port ="
                f" {self.every_port}: ports of one host must differ"
            )
        for key, value in (("keys", self.keys), ("every_port", self.every_port)):
            if value and self.kind != "tcp":
                raise ValueError(f"{key} = {value!r} is for tcp; kind must be 'tcp', or {key} not given")
        if self.clock in ("estimate", "disciplined") and self.kind != "tcp":
            raise ValueError(f"clock = {self.clock!r} is for two hosts; kind must be 'tcp', or clock 'same'")
        return self


def _core(value: Any) -> Any:
    if value in ("auto", "any") or (type(value) is int and value >= 0):
        return value
    raise ValueError("must be the number of a core, 'auto' or 'any'")


Core = Annotated[int | Literal["auto", "any"], PlainValidator(_core)]


class Realtime(Section):
    enabled: bool = True
    daq_priority: int = Field(60, ge=1, le=98)
    wire_priority: int = Field(65, ge=1, le=98)
    sim_priority: int = Field(80, ge=1, le=98)
    daq_core: Core = "auto"
    sim_core: Core = "auto"
    lock_memory: bool = True  # so that no page of it is ever fetched from the disk


class ChannelConfig(Section):
    name: str = Field(pattern=_NAME)  # by which rows, records and pages know it
    type: Literal["i2", "u2", "i4", "u4"]  # of the register: signed or unsigned, in bytes
    unit: str = "count"  # of the register; for people
    skew_us: float = Field(0.0, le=0.0, ge=-1e6)  # when it was sampled, against the block's instant
    counter_bits: int | None = Field(None, ge=8, le=32)  # of a counter that wraps; it is unwrapped
    max_counts_per_s: float | None = Field(None, gt=0)  # of a counter: what is faster is counted as implausible

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in RESERVED_NAMES:
            raise ValueError(f"is taken by the block's header; not one of {', '.join(RESERVED_NAMES)}")
        return name

    @model_validator(mode="after")
    def _limit_needs_counter(self) -> "ChannelConfig":
        if self.max_counts_per_s is not None and self.counter_bits is None:
            raise ValueError("max_counts_per_s is for counters; give counter_bits too")
        if self.name.endswith(AGE) and (self.type != "u4" or self.unit != "us" or self.counter_bits is not None):
            raise ValueError(f'a channel ...{AGE} holds the age of another: type must be "u4" and unit "us"')
        return self


class Daq(Section):
    rate_hz: float = Field(1000.0, ge=0.1, le=10_000)  # of blocks
    ring_blocks: RingSize = 16384
    read_wait_ms: float = Field(5.0, gt=0, le=1000)
    idle_repeat_ms: float = Field(20.0, ge=1, le=1000)
    channels: Annotated[list[ChannelConfig], Field(min_length=1, max_length=64)]  # what a block holds, widest last

    _sizes = field_validator("ring_blocks")(_power_of_two)

    @field_validator("channels")
    @classmethod
    def _different(cls, channels: list[ChannelConfig]) -> list[ChannelConfig]:
        names = [c.name for c in channels]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"names must differ; twice: {', '.join(twice)}")
        for name in names:
            if name.endswith(AGE) and name.removesuffix(AGE) not in names:
                raise ValueError(f"{name} is the age of a channel {name.removesuffix(AGE)}, which is not there")
        return channels

    @property
    def layout(self) -> Layout:
        return Layout(tuple(Channel(c.name, c.type, c.unit, round(c.skew_us * 1000)) for c in self.channels))


class Stale(Section):
    """Input older than `sim.stale_after_ms`: what becomes of it, row by row, is in `[inputs.<row>.stale]`; all times
    count from there."""

    stop_after_ms: float = Field(5000.0, ge=0, le=3_600_000)  # of any row; 0: never
    stop: Literal["pause", "end"] = "pause"


class Sim(Section):
    step_ms: float = Field(5.0, ge=0.1, le=20.0)  # of the machine
    machine: str = Field(min_length=1)  # its file (*.toml), which names it; or, of one that needs no file, its name
    files: dict[str, str] = {}  # further ones it reads, by the names it gives them
    parameters: dict[str, float] = {}  # of the machine, where they differ from its file
    # of a step that index tables drive: these, or unrolled code made of them; auto: unrolled where steps are many
    code: Literal["auto", "tables", "unrolled"] = "auto"
    start: dict[str, float] = {}  # in motion: quantities of the machine; what is left out it finds itself. {}: at rest
    ring_blocks: RingSize = 4096  # steps that the ring holds, a power of two
    stale_after_ms: float = Field(100.0, gt=0, le=10_000)
    stale: Stale = Stale()
    overload: Literal["catch_up", "skip"] = "catch_up"
    catch_up_steps: int = Field(4, ge=0, le=1000)
    on_divergence: Literal["end", "reset", "keep"] = "end"
    most_divergences: int = Field(10, ge=1, le=1000)  # without a second of good steps between them
    phase: Literal["locked", "free"] = "locked"
    phase_slew: float = Field(0.005, gt=0, le=0.1)
    phase_quantile: float = 0.75  # of the blocks, there when their step begins; 0: what costs least (phase.py)
    rehearse: Literal["auto", "on", "off"] = "auto"
    probe_rest_ms: float = Field(50.0, ge=0, le=10_000)

    _sizes = field_validator("ring_blocks")(_power_of_two)

    @field_validator("phase_quantile")
    @classmethod
    def _most_blocks(cls, quantile: float) -> float:
        if quantile != 0.0 and not 0.5 <= quantile <= 0.999:
            raise ValueError("must be from 0.5 to 0.999, or 0: the delay that costs least")
        return quantile


class Record(Section):
    """The record of a run, see sync/record/."""

    enabled: bool = True
    flush_ms: float = Field(200.0, ge=20, le=500)
    fsync_s: float = Field(2.0, gt=0, le=60)
    most_pending_mb: int = Field(64, ge=1, le=4096)
    part_minutes: float = Field(10.0, ge=0.001, le=1440)  # then the record goes on in a new file
    # what is deleted, oldest parts first, so that the disk has room for what comes; 0: nothing
    keep_gb: float = Field(0.0, ge=0, le=1e6)  # of records at most
    keep_free_gb: float = Field(0.0, ge=0, le=1e6)  # on the disk at least
    delete_runs: bool = False  # older runs of the same name, in the same folder, count too and go first


class Supervision(Section):
    """What becomes of a process of a run that crashes, see tandem/live/supervisor/restart_policy.py."""

    restart: bool = True  # false: the run ends with the DAQ or the simulator
    restarts: int = Field(10, ge=0, le=1000)  # of one process within the time below; then it is given up
    within_s: float = Field(60.0, gt=0, le=3600)  # see restarts


def _port(value: Any) -> Any:
    if value == "auto" or (type(value) is int and 0 <= value <= 65535):
        return value
    raise ValueError("must be a port from 0 (any that is free) to 65535, or 'auto'")


class View(Section):
    """The page that shows a run, see tandem/view/."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Annotated[int | Literal["auto"], PlainValidator(_port)] = "auto"  # 0: any; auto: the first free from 8790
    saves: str = Field("runs/saved", min_length=1, max_length=1024)  # the only folder that the page writes to
    rate_hz: float = Field(30.0, ge=1, le=60)

    @model_validator(mode="before")
    @classmethod
    def _no_token(cls, data: Any) -> Any:
        if isinstance(data, dict) and "token" in data:
            raise ValueError(
                "token: is not part of a configuration, which is recorded: every run has a token of its own; to choose"
                " it set TANDEM_TOKEN, or use --token-file"
            )
        return data

    @field_validator("host")
    @classmethod
    def _address(cls, host: str) -> str:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise ValueError(f"host = {host!r} must be an IP address, such as 127.0.0.1") from None
        return host


class Warnings(Section):
    """Thresholds of the prediction with held inputs: any of them is enough to warn; 1000 never warns. What is compared
    with them: sim_service/contract/stability.py."""

    loss_s: float = Field(2.0, ge=0, le=10)  # control is lost within so long; 0: never
    growth: float = Field(-0.5, ge=-1000, le=1000)  # 1/s, of deviations: reached
    growth_s: float = Field(0.3, gt=0, le=10)  # for so long of what is predicted
    use: float = Field(0.9, gt=0, le=1000)  # of the grip: reached
    use_s: float = Field(0.3, gt=0, le=10)  # for so long of what is predicted


WayPoint = Annotated[list[Annotated[float, Field(ge=-1e6, le=1e6)]], Field(min_length=2, max_length=2)]


class AheadPath(Section):
    """A path that a third prediction follows, with a hand that aims at a point of it some time ahead."""

    points: Annotated[list[WayPoint], Field(max_length=2000)] = []  # m; straight between them; none: no such future
    closed: bool = False  # its end is joined to its beginning
    preview_s: float = Field(0.7, gt=0, le=10)  # so far ahead is the place it aims at,
    preview_m: float = Field(5.0, gt=0, le=1000)  # and at least so far
    hand_rate: float = Field(10.0, gt=0, le=1e6)  # of the input that guides, in its unit a second, at most

    @field_validator("points")
    @classmethod
    def _leads_somewhere(cls, points: list[list[float]]) -> list[list[float]]:
        if points and all(point == points[0] for point in points):
            raise ValueError("are all the same place; a path must lead somewhere")
        return points


class LookAhead(Section):
    """A process that steps a copy of the machine ahead of it, see sim_service/look_ahead/."""

    enabled: bool = False  # whether it runs
    horizon_s: float = Field(2.0, ge=0.1, le=10)  # how far it steps ahead
    rate_hz: float = Field(20.0, ge=0.1, le=100)  # of the future in which all inputs are held; others between
    step_ms: float = Field(20.0, ge=0.1, le=50)  # of the copy
    moving_s: float = Field(0.5, ge=0, le=10)  # so long a hand that moves goes on as it does, in the second future
    core: Core = "auto"  # "auto": any but those of the loop and, where there are three, of the acquisition
    path: AheadPath = AheadPath()
    warn: Warnings = Warnings()

    @property
    def steps(self) -> int:
        return round(1e3 * self.horizon_s / self.step_ms)

    @model_validator(mode="after")
    def _whole_steps(self) -> "LookAhead":
        steps = 1e3 * self.horizon_s / self.step_ms
        if not 1 <= round(steps) <= _MOST_AHEAD or abs(steps - round(steps)) > 1e-6:
            raise ValueError(
                f"horizon_s = {self.horizon_s:g} must be a whole number of steps of step_ms = {self.step_ms:g},"
                f" at most {_MOST_AHEAD}"
            )
        return self


class Config(Section):
    include: list[str] = []  # fragments, such as a calibration, that go over this file; --set goes over them
    name: str = Field("tandem", pattern=_NAME)
    seconds: float = Field(50.0, ge=0, le=9e9)  # nanoseconds fit into a word
    transport: Transport = Transport()
    realtime: Realtime = Realtime()
    daq: Daq
    source: dict[str, Any]  # `kind`, and settings that the source itself checks
    inputs: Rows = {}  # of the machine, from channels; see sync/config/input_rows.py
    sim: Sim
    record: Record = Record()
    view: View = View()
    supervision: Supervision = Supervision()
    look_ahead: LookAhead = LookAhead()

    @field_validator("source")
    @classmethod
    def _shallow(cls, source: dict[str, Any]) -> dict[str, Any]:
        """Refuse deeper tables: a record stores them as JSON, whose writers have limits, and no source needs them."""
        inside: list[Any] = [source]
        for _ in range(_MOST_DEEP):
            tables = [value.values() if isinstance(value, dict) else value for value in inside]
            inside = [value for table in tables for value in table if isinstance(value, dict | list)]
        if inside:
            raise ValueError(f"tables and lists within each other must not be deeper than {_MOST_DEEP}")
        return source

    @model_validator(mode="after")
    def _channels_there(self) -> "Config":
        there = self.daq.layout.names
        for name, row in self.inputs.items():
            for channel in row.channels:
                if channel not in there:
                    raise ValueError(f"inputs.{name} reads the channel {channel}; daq.channels has {', '.join(there)}")
        return self

    @property
    def step_ns(self) -> int:
        return round(self.sim.step_ms * 1e6)

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.daq.rate_hz)

    @property
    def efforts(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The efforts that go back to the device, by stream: (the key of the table, the table, not checked yet)."""
        found = {EFFORT.name: ("source.effort", self.source.get("effort"))}
        axes = self.source.get("axes")
        for stream, name in zip(AXIS_EFFORTS, sorted(axes) if isinstance(axes, dict) else (), strict=False):
            axis = axes[name] if isinstance(axes, dict) else None
            found[stream.name] = f"source.axes.{name}.effort", axis.get("effort") if isinstance(axis, dict) else None
        return {stream: (key, table) for stream, (key, table) in found.items() if isinstance(table, dict)}

    def ring(self, stream: str) -> str:
        """Name of the ring of a stream (sync/ring/streams.py)."""
        return ring_name(self.name, stream)

    def endpoint(self, role: str) -> str:
        """Where the `daq` or the `sim` service publishes."""
        if self.transport.kind == "tcp":
            to = self.transport
            host, port = (to.daq_host, to.daq_port) if role == "daq" else (to.sim_host, to.sim_port)
            return tcp(host, port)
        return f"ipc://{self.socket(role)}"

    @property
    def command_endpoint(self) -> str:
        """Where the simulator takes commands: from its own host only, and its own user."""
        return f"ipc://{self.socket('command')}"

    @property
    def clock_endpoint(self) -> str:
        """Where the DAQ answers what time it is."""
        return tcp(self.transport.daq_host, self.transport.clock_port)

    @property
    def every_endpoint(self) -> str:
        """Where the DAQ publishes every block, if it does."""
        return tcp(self.transport.daq_host, self.transport.every_port)

    def socket(self, role: str) -> Path:
        return runtime_directory() / f"{self.name}.{role}.ipc"


def tcp(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def runtime_directory() -> Path:
    """Where local sockets live: private to the user.

    Without XDG_RUNTIME_DIR in /tmp or, if another user has taken the name there, in the user's home: from then on
    always there, even if the name in /tmp is free again.
    """
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return _private_folder(Path(base) / "tandem")
    usual, at_home = [Path(tempfile.gettempdir()) / f"tandem-{os.getuid()}"], _at_home()
    refused: list[ConfigError] = []
    for place in at_home + usual if any(map(os.path.isdir, at_home)) else usual + at_home:
        try:
            return _private_folder(place)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


def _at_home() -> list[Path]:
    """Found by the system's list of users, not by HOME: all processes of a user must find the same folder."""
    try:
        return [Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "tandem" / "run"]
    except KeyError:
        return []


def _private_folder(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be made: {error.strerror}; set XDG_RUNTIME_DIR to a writable folder"
        ) from None
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{path}: is no directory; remove it, or set XDG_RUNTIME_DIR to a directory of your own")
    if status.st_uid != os.getuid():
        raise ConfigError(f"{path}: belongs to another user; set XDG_RUNTIME_DIR to a directory of your own")
    path.chmod(0o700)
    if len(str(path)) + 45 > _SOCKET_PATH_MAX:
        raise ConfigError(f"{path}: too long for a local socket's path; set XDG_RUNTIME_DIR to a shorter one")
    return path


# ---- reading ---------------------------------------------------------------------------------------------------------


def forced_transport(kind: str) -> list[str]:
    """Overrides that force this kind, whatever the file has; settings for tcp alone are reset for the others."""
    hosts = [f'transport.{role}_host="127.0.0.1"' for role in ("daq", "sim")]
    only_tcp = [] if kind == "tcp" else ['transport.keys=""', "transport.every_port=0", *hosts]
    return [f'transport.kind="{kind}"', *only_tcp]


_OTHER_FILES = (
    ("figures", "a study", "`tandem sweep` takes it"),
    ("records", "a study", "`tandem identify` takes it"),
    ("machine", "a machine", "one names it as sim.machine"),
    ("bodies", "a mechanism", "`tandem mechanism` and `tandem view` take it"),
)  # other TOML files, which may be passed by mistake: a key that only these have, what they describe, their use


def load(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """The configuration of a run, with its fragments.

    `overrides` are `key.path=value` with a TOML value, as given to --set; they go over everything, also over the list
    of fragments.
    """
    path = Path(path)
    data = read_toml(path)
    for key, what, use in _OTHER_FILES:
        if key in data and "daq" not in data:
            raise ConfigError(f"{path}: describes {what} (it has `{key}`), a configuration is expected; {use}")
    return assembled(data, data.get("include", []), overrides, path.parent, str(path))


_PLACES = (Path(__file__).parents[2] / "configs", Path(__file__).parents[2] / "tandem" / "configs")
_SHIPPED = next((place for place in _PLACES if place.is_dir()), None)


def shipped_under(reference: str) -> Path | None:
    """The file that tandem ships whose place ends like this path, such as `../tyres/155_80_r13.tir`."""
    parts = [part for part in Path(reference).parts if part not in ("/", "..", ".")]
    found = _SHIPPED.joinpath(*parts[-2:]) if _SHIPPED is not None and parts else None
    return found if found is not None and found.is_file() else None


def named_files(data: dict[str, Any]) -> dict[str, str]:
    """TOML files that a configuration names, by their keys."""
    found: dict[str, str] = {}
    for table, key in (("sim", "machine"), ("source", "manoeuvre"), ("sim", "files")):
        value = data[table].get(key) if isinstance(data.get(table), dict) else None
        several = {f"{table}.{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else None
        found |= {
            name: each
            for name, each in (several or {f"{table}.{key}": value}).items()
            if isinstance(each, str) and each.endswith(".toml")
        }
    return found


def _find_files(data: dict[str, Any], overrides: list[str], folder: Path, carried: dict[str, str]) -> None:
    """Find the files that are named: beside the configuration, and before that in the working folder if --set names
    them. A file that is in neither is taken from those that tandem ships, for copied configurations, and a run reports
    it (`shipped_instead`). Files that a record carries are not searched, unless --set names them."""
    overridden = {tuple(key_of(override)) for override in overrides}
    for key, name in named_files(data).items():
        place = tuple(key.split("."))
        by_hand = any(place[: len(each)] == each for each in overridden)
        if carried.get(key) == name and not by_hand:
            continue
        places = [Path.cwd()] * by_hand + [folder] + [_SHIPPED] * (_SHIPPED is not None)
        found = next((each for each in places if each is not None and (each / name).is_file()), None)
        if found is None or found == folder:
            continue
        table = data
        for part in place[:-1]:
            table = table[part]
        table[place[-1]] = str((found / name).absolute())


def shipped_instead(config: Config, file: Path) -> list[str]:
    """A sentence for each file that is not where the configuration names it and was taken from those that tandem ships:
    if only the folder was mistyped, that may be another machine."""
    if _SHIPPED is None or file.parent.resolve().is_relative_to(_SHIPPED.resolve()):
        return []
    return [
        f"{key}: there is no {Path(name).relative_to(_SHIPPED)} in {file.parent.absolute()}; taken is {name}, which"
        " tandem ships"
        for key, name in named_files(config.model_dump()).items()
        if Path(name).is_relative_to(_SHIPPED)
    ]


def assembled(
    data: dict[str, Any], include: Any, overrides: Iterable[str], folder: Path, file: str, carries: bool = False
) -> Config:
    """`data` of `file`, with the fragments over it, later ones over earlier ones, and the overrides over them all.

    `include` are the fragments, unless the overrides name others; their paths count from `folder`. `carries`: `data`
    is of a record, which has the files that it names; none of them is looked for on the disk.
    """
    overrides = list(overrides)
    carried = named_files(data) if carries else {}
    include_overrides = [override for override in overrides if key_of(override) == ["include"]]
    included = with_overrides({"include": include}, include_overrides)["include"]
    if not isinstance(included, list) or not all(isinstance(name, str) for name in included):
        raise ConfigError(f'{file}: include = {included!r}: must be a list of files, such as ["calibration.toml"]')
    origins: Origins = {}
    for name in included:
        place = folder / name
        try:
            fragment = read_toml(place)
        except ConfigError as error:
            raise ConfigError(f"{error} (included by {file})") from None
        if "include" in fragment:
            raise ConfigError(f"{place}: include: a fragment cannot include others")
        lay_over(data, fragment, str(place), origins)
    with_overrides(data, overrides)
    _find_files(data, overrides, folder, carried)
    for override in overrides:
        key = tuple(key_of(override))
        for origin in [o for o in origins if o[: len(key)] == key[: len(o)]]:
            del origins[origin]  # the command line has replaced it, or something in it
    return check(Config, data, file, origins=origins)
