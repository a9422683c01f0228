"""The can source: signals off a CAN bus, as the raw integers of their frames, in blocks at a fixed rate.

A DBC file (or whatever else cantools reads) says which bits of which frame a signal is. Its factor and offset are not
applied: raw values travel, and [inputs] converts them. Every block has the newest value of every channel at its
instant, and its age if the configuration has a channel `<name>_age_us` (daq_service/sample_hold.py).

A frame that contradicts the DBC is counted and not used; frames of other ids cost next to nothing. A signal that no
longer comes is reported once, and counted. If the blocks have its age, they go on and the simulator sees the age; if
not, they stop until the signal is back. A bus that fails is opened again, ever more rarely, down to once a second; what
comes after is a new epoch. None of this ends the run.

Instead of a bus a log (candump, .asc, .blf, .trc, ...) can play, in real time and through the same code.
"""

import errno
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from daq_service.devices.can_log import Player, read_log
from daq_service.devices.contract import Device, DeviceSettings, Host
from daq_service.devices.dbc import (
    Bits,
    Frame,
    Mapped,
    bits,
    calibration,
    check_type,
    disagrees,
    find_signal,
    load_dbc,
    near_to,
    never_valid,
)  # fmt: skip
from sync.config.config import Config
from sync.config.extras import install_extra
from sync.config.input_rows import of_channel
from sync.errors import ConfigError, DeviceError
from sync.ring.block import AGE

_PACKAGES = {"can": "python-can", "cantools": "cantools"}
_MOST_FRAMES = 10_000  # a turn; a flooding bus must not keep blocks from being delivered
_LEAST_LOG_S = 0.001
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 100_000_000, 1_000_000_000  # between attempts to open the bus
_STAMP_SLACK_NS = 50_000_000  # by how much a stamp may be older than the last time the bus was empty
_AHEAD_NS = 1_000_000  # and ahead of now: rounding, and two clocks that are not read at once
_LAST_STAMP_S = 9e9  # of a wall clock: as many ns as a word holds
_BUS_OFF = 0x40  # class of an error frame, as the kernel reports it
_MOST_FILTERS = 500  # of a socket: the kernel takes 512
_FD_LENGTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64)


class Settings(DeviceSettings):
    kind: str
    interface: str | None = None  # of python-can: socketcan, pcan, kvaser, vector, slcan, …
    channel: str | int | None = None  # of the interface, such as can0
    replay: str | None = None  # a log that plays instead of the bus
    lead_ms: float = Field(500.0, ge=0, le=60_000)  # before it: its first frames again and again
    bitrate: int | None = Field(None, ge=1000, le=20_000_000)  # where the interface has to be told
    fd: bool = False  # CAN FD
    options: dict[str, Any] = {}  # whatever else the interface understands, as python-can has it
    dbc: str  # file that describes the frames
    stale_ms: float = Field(200.0, gt=0, le=60_000)  # a signal not seen for so long is reported and counted
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted
    signals: dict[str, Mapped]  # of daq.channels: where each comes from

    @model_validator(mode="after")
    def _somewhere(self) -> "Settings":
        if self.replay is None and (self.interface is None or self.channel is None):
            raise ValueError('interface and channel must be given, such as "socketcan" and "can0", or a log to replay')
        return self

    def require(self) -> None:
        _require_packages()


def _require_packages() -> None:
    missing = [name for package, name in _PACKAGES.items() if importlib.util.find_spec(package) is None]
    if missing:
        raise DeviceError(f"source.kind = 'can' needs {' and '.join(missing)}: {install_extra('can')}")


_NETWORK = Path("/sys/class/net")
_CAN, _UP = 280, 1  # ARPHRD_CAN, IFF_UP


def devices() -> list[str]:
    """The CAN interfaces of this machine, those of Linux first. Raises DeviceError where the packages are missing."""
    _require_packages()

    # others would ask drivers that may not be there; a user of one names it in the configuration. python-can asks the
    # program `ip`, and writes a traceback where that is missing: the kernel says the same
    return [f"socketcan {place.name}" for place in sorted(_NETWORK.glob("*")) if _is_can(place)]


def _is_can(place: Path) -> bool:
    """Whether this network interface is a CAN bus that is up."""
    try:
        return int((place / "type").read_text()) == _CAN and bool(int((place / "flags").read_text(), 16) & _UP)
    except (OSError, ValueError):  # not an interface, or just gone
        return False


class BusOffError(OSError):
    """Reported by an error frame."""


# ---- the source ------------------------------------------------------------------------------------------------------


class CanDevice(Device):
    def __init__(
        self,
        config: Config,
        settings: Settings,
        file: Path,
        frames: dict[tuple[int, bool], Frame],
        remarks: list[str],
        log: list[Any],
        host: Host,
    ):
        # imported here because they compile: what is missing is reported before that
        from daq_service.sample_hold import SampleHold
        from sync.clock import RealClock

        clock = host.clock or RealClock()
        self._now, self._sleep_until, self._wall = clock.now_ns, clock.sleep_until, clock.wall_ns
        self._held = SampleHold(config, settings.buffer_blocks, clock)
        self._settings, self._frames, self._remarks, self._say = settings, frames, remarks, host.say
        self._stale_ns = [round(1e6 * (settings.signals[n].stale_ms or settings.stale_ms)) for n in self._held.names]
        self._file = file
        self._log = log
        # a log of one instant ends too
        self._lead_ns = round(1e6 * settings.lead_ms)
        self.seconds = max(log[-1].timestamp - log[0].timestamp, _LEAST_LOG_S) + 1e-9 * self._lead_ns if log else None
        self._where = settings.replay or f"{settings.interface} {settings.channel}"
        self._bus: Any = None
        self._started = self._reported_undated = False
        self._stale = [False] * len(self._held.names)
        self._counts = dict.fromkeys(
            ("frames", "malformed", "invalid", "undated", "stale", "error_frames", "bus_errors", "reconnects"), 0
        )
        self._failing = False  # the failure was reported, and the bus is not yet back
        self._pause_ns, self._next_try = _FIRST_PAUSE_NS, 0
        self._emptied_ns = 0  # when the bus had no more frames for us

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    # the bus

    def _open(self) -> Any:
        import can

        s = self._settings
        if self._log:
            return Player(self._log, self._now, self._lead_ns)
        options: dict[str, Any] = dict(s.options)
        if s.bitrate is not None:
            options["bitrate"] = s.bitrate
        if s.fd:
            options["fd"] = True
        # filters in the kernel cost nothing; python-can's own would hide from `recv` that there are more frames
        if s.interface == "socketcan" and len(self._frames) <= _MOST_FILTERS:
            options["can_filters"] = [
                {"can_id": id_, "can_mask": 0x1FFFFFFF if extended else 0x7FF, "extended": extended}
                for id_, extended in self._frames
            ]
        bus = can.Bus(interface=s.interface, channel=s.channel, ignore_config=True, **options)
        if not getattr(bus, "_is_filtered", True):
            bus.set_filters(None)  # the kernel refused them
        return bus

    def _close(self) -> None:
        if self._bus is not None:
            try:
                self._bus.shutdown()
            except _errors():
                pass  # it is gone anyway
            self._bus = None

    def find(self) -> None:
        try:
            bus = self._open()
            try:
                bus.recv(0)  # a socket can be bound to an interface that is down; only reading shows it
            finally:
                bus.shutdown()
        except TypeError as error:
            raise ConfigError(
                f"{self._file}: source.options: interface {self._settings.interface!r}: {error}"
            ) from None
        except _errors() as error:
            raise DeviceError(f"{self._where}: cannot be opened: {_text(error)}{self._advice(error)}") from None
        for remark in self._remarks:
            self._say(remark)

    def _advice(self, error: BaseException) -> str:
        s = self._settings
        if s.interface != "socketcan":
            return "; see python-can's documentation of this interface, and source.channel, bitrate, options"
        code = getattr(error, "error_code", None) or getattr(error, "errno", None)
        if isinstance(error, BusOffError):
            return f"; check wiring and bitrate; ip link set {s.channel} type can restart-ms 100 lets it try again"
        if code == errno.EAFNOSUPPORT:
            return "; this kernel has no CAN: modprobe can can_raw (and the adapter's driver)"
        if code == errno.ENODEV:
            return (
                f"; no such interface: `ip -br link` lists them; for a virtual one: ip link add {s.channel} type vcan"
            )
        if str(s.channel).startswith("vcan"):
            return f"; what may be missing: ip link set {s.channel} up"
        rate = s.bitrate or 500_000
        return f"; what may be missing: ip link set {s.channel} up type can bitrate {rate}" + " fd on" * s.fd

    def _connect(self) -> bool:
        now = self._now()
        if now < self._next_try:
            return False
        try:
            self._bus = self._open()
        except _errors() as error:
            self._fail(error)
            return False
        self._held.lose()  # signals are waited for from now on
        self._emptied_ns = now
        return True

    def _fail(self, error: BaseException) -> None:
        self._counts["bus_errors"] += 1
        if not self._failing:
            self._say(f"{self._where}: {_text(error)}{self._advice(error)}; trying again")
        self._failing = True
        self._close()
        self._held.lose()
        self._next_try = self._now() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)

    def _recovered(self) -> None:
        if self._failing:
            self._counts["reconnects"] += 1
            self._say(f"{self._where}: frames again")
        self._failing = False
        self._pause_ns = _FIRST_PAUSE_NS

    # frames

    def _wall_offset(self) -> int:
        """Wall clock minus monotonic clock, read as nearly at once as three attempts allow."""
        best, offset = 1 << 62, 0
        for _ in range(3):
            before = self._now()
            wall = self._wall()
            after = self._now()
            if after - before < best:
                best, offset = after - before, wall - (before + after) // 2
            if best < 20_000:
                break
        return offset

    def _instant(self, stamp_s: float, offset_ns: int) -> int:
        """When a frame came, by the monotonic clock. A stamp that cannot be true is not used."""
        now = self._now()
        if 0.0 < stamp_s < _LAST_STAMP_S:
            t = round(stamp_s * 1e9) - offset_ns
            if self._emptied_ns - _STAMP_SLACK_NS <= t <= now + _AHEAD_NS:
                return min(t, now)
        self._counts["undated"] += 1
        if not self._reported_undated:
            self._say(f"{self._where}: frames have no time stamps of this computer's clock; dated when they are read")
            self._reported_undated = True
        return now

    def _drain(self) -> None:
        """Take all frames that are there into the held values."""
        counts, held = self._counts, self._held
        offset = 0 if self._log else self._wall_offset()
        for _ in range(_MOST_FRAMES):
            message = self._bus.recv(0)
            if message is None:
                self._emptied_ns = self._now()
                return
            if message.is_error_frame:
                counts["error_frames"] += 1
                if self._settings.interface == "socketcan" and message.arbitration_id & _BUS_OFF:
                    raise BusOffError("bus-off: the controller gave up after too many errors")
                continue
            frame = self._frames.get((message.arbitration_id, message.is_extended_id))
            if frame is None or message.is_remote_frame:
                continue
            counts["frames"] += 1
            found = frame.read(message.data)
            if found is None:
                counts["malformed"] += 1
                continue
            self._recovered()
            t = self._instant(message.timestamp, offset)
            for channel, value in found:
                if value is None:
                    counts["invalid"] += 1
                else:
                    held.note(channel, t, value)

    def _watch(self) -> None:
        """Report which signals have gone and which are back."""
        now, held = self._now(), self._held
        for channel, name in enumerate(held.names):
            old = held.age_ns(channel, now) > self._stale_ns[channel]
            if self._stale[channel]:
                if held.seen(channel) and not old:
                    self._stale[channel] = False
                    self._say(f"{name}: there again")
                continue
            if not old:
                continue
            self._stale[channel] = True
            self._counts["stale"] += 1
            if held.aged[channel]:
                self._say(f"{name}: no frame for {self._stale_ns[channel] / 1e6:g} ms")
            else:
                self._say(
                    f"{name}: no frame for {self._stale_ns[channel] / 1e6:g} ms; no blocks until it is back, since"
                    f" there is no channel {name}{AGE} for its age"
                )
                held.lose(channel)

    # the protocol

    def start(self) -> None:
        self.stop()
        self._started = True
        self._held.start()
        self._stale = [False] * len(self._stale)
        self._failing, self._pause_ns, self._next_try = False, _FIRST_PAUSE_NS, 0
        self._connect()

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        end = self._now() + wait_ns
        while True:
            left = max(end - self._now(), 0)
            if not self._started:
                self._sleep_until(end)
                return 0, 0
            if self._bus is None and not self._connect():
                self._sleep_until(min(end, self._next_try))
            else:
                self._held.wait(left)
                try:
                    self._drain()
                except _errors() as error:
                    self._fail(error)
                else:
                    self._watch()
                    count, lost = self._held.take(scans, t_ns)
                    if count:
                        return count, lost
            if self._now() >= end:
                return 0, 0

    def stop(self) -> None:
        self._started = False
        self._close()
        self._held.stop()


def _errors() -> tuple[type[Exception], ...]:
    """What a bus raises when it fails. ValueError: a socket that was closed."""
    import can

    return (can.CanError, OSError, ValueError)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> CanDevice:
    _require_packages()
    import can

    if settings.interface is not None and settings.interface not in can.VALID_INTERFACES:
        near = near_to(settings.interface, can.VALID_INTERFACES).replace("it has", "python-can has")
        raise ConfigError(f"{file}: source.interface = {settings.interface!r}: unknown{near}")
    channels = [c for c in config.daq.channels if not c.name.endswith(AGE)]
    names = [c.name for c in channels]
    for name in settings.signals:
        if name not in names:
            near = near_to(name, names)
            raise ConfigError(f"{file}: source.signals.{name}: daq.channels has none of that name{near}")
    dbc = file.parent / settings.dbc
    database = load_dbc(dbc, f"{file}: source.dbc")
    remarks: list[str] = []
    wanted: dict[tuple[int, bool], tuple[Any, list[tuple[int, Bits, frozenset[int]]]]] = {}
    for number, channel in enumerate(channels):
        key = f"{file}: source.signals.{channel.name}"
        if channel.name not in settings.signals:
            raise ConfigError(f'{key}: is missing: say where it comes from, such as {{ signal = "Message.Signal" }}')
        mapped = settings.signals[channel.name]
        message, signal = find_signal(database, mapped, key, dbc)
        check_type(channel, signal, mapped.signal, file)
        never = never_valid(mapped, signal, key)
        same, places = wanted.setdefault((message.frame_id, message.is_extended_frame), (message, []))
        if same is not message:
            raise ConfigError(f"{key}.signal = {mapped.signal!r}: {dbc} gives {same.name} the same id")
        try:
            places.append((number, bits(message, signal.name), never))
        except ValueError as error:
            raise ConfigError(f"{key}.signal = {mapped.signal!r}: {dbc}: {error}") from None
        found = of_channel(config.inputs, channel.name)
        by_dbc = calibration(found[1], signal) if found else {}
        if found and disagrees(by_dbc, found[1]):
            here = ", ".join(f"{k} = {v:.6g}" for k, v in by_dbc.items())
            ours = ", ".join(f"{getattr(found[1], k):.6g}" for k in by_dbc)
            remarks.append(
                f"{channel.name}: by {dbc.name} {mapped.signal} has a factor of {signal.scale:g} {signal.unit or ''}"
                f" and an offset of {signal.offset:g}: inputs.{found[0]}.{here} (it has {ours})"
            )
    frames = {}
    for id_, (message, places) in wanted.items():
        padded = next((n for n in _FD_LENGTHS if n >= message.length), message.length)
        frames[id_] = Frame((message.length, padded), tuple(places))
    log = []
    if settings.replay is not None:
        log = read_log(file.parent / settings.replay, frames, settings.channel, f"{file}: source.replay")
    return CanDevice(config, settings, file, frames, remarks, log, host)
