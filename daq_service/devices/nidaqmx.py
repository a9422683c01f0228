"""The nidaqmx source: channels off analog inputs and encoder counters of one NI device.

    [source.channels.NAME]  # of every channel in daq.channels
    input = "ai0"  # or "ctr0": the counter of an encoder

All analog inputs are one task, every counter is a task of its own, since a task holds one. The counters are clocked by
the converter's sample clock and armed before it starts, so sample k of all tasks is the same edge; where no channel is
analog, `clock_input` is converted for its clock alone. Tasks are read one after the other, in order, and a scan is
delivered when all of them have it: a read that ended early (a timeout with part of the data) misaligns nothing.

Analog inputs are read in volts, which the driver has corrected with the device's own calibration, and are converted
back to counts (`full_counts` at `max_v`): blocks hold counts, and calibrations are made for counts. Counters come as
the register reads them; the acquisition unwraps them.

Every answer of the driver is looked up in one table, ACTIONS. After an overrun all tasks restart; when the device is
gone they are created again and again until it is back. Both are a gap, counted and reported. Registers then begin
again: software continues the readings from where they were, so motion during the gap is missing from them for good
(docs/nidaqmx.md).

`server` names a machine whose NI gRPC device server has the device; without one it is the driver of this machine.
"""

import contextlib
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from daq_service.devices.contract import Device, Host
from daq_service.devices.nidaqmx_driver import Action, Link, action, no_driver, package, server_lost, text
from daq_service.devices.nidaqmx_settings import INPUTS, AnalogInput, EncoderInput, Settings
from daq_service.effort_settings import EffortSettings
from sync.config.config import Config
from sync.config.toml import check
from sync.errors import ConfigError, DeviceError
from sync.files.regular import open_regular
from sync.ring.block import AGE

_MOST_PEM = 1 << 20  # bytes


def linked(server: str, pem: tuple[str, ...], folder: Path) -> Link:
    """The way to the driver; `pem`: server_ca, server_certificate and server_key, files relative to `folder`."""
    return Link(server, tuple(_pem(folder / name) if name else None for name in pem) if any(pem) else ())


def _pem(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_PEM + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {getattr(error, 'strerror', error)}; a PEM file is expected"
        ) from None
    if len(data) > _MOST_PEM or b"-----BEGIN " not in data:
        raise ConfigError(
            f"{path}: is no PEM file: it must have a line -----BEGIN ...-----, and at most {_MOST_PEM} bytes"
        )
    return data


def _effort_settings(data: dict[str, Any], file: Path) -> tuple[EffortSettings, str]:
    """(the settings of the way back, its output channel)."""

    class NiEffort(EffortSettings):
        ao: str = Field("ao0", pattern=r"^ao\d+$")

    checked = check(NiEffort, data, str(file), "source.effort")
    return checked, checked.ao


_WRITE_S = 0.2
_FAILED_WRITES = 20  # in a row: then the output itself is at fault
_CAPACITY = 4096  # scans
_UNFILLED = 0xA5A5A5A5  # in a counter's buffer before a read


class _Ended(Exception):
    """The source has been stopped meanwhile."""


# ---- for a search for devices ----------------------------------------------------------------------------------------


def devices(server: str = "", pem: tuple[str, ...] = (), folder: Path = Path()) -> list[str]:
    """The devices that a driver has, one line each. Raises DeviceError if there is no driver."""
    ni = package()
    link = linked(server, pem, folder)
    try:
        return [
            f"{name}: {d.product_type}, {len(d.ai_physical_chans)} analog inputs up to {_rate(d)}, "
            f"{len(d.ci_physical_chans)} counters of {_bits(d)} bits, {len(d.ao_physical_chans)} analog outputs"
            for name, d in ((d.name, d) for d in link.system(ni).devices)
        ]
    except (ni.errors.DaqNotFoundError, ni.errors.DaqNotSupportedError) as error:
        raise no_driver(error) from None
    except ni.errors.Error as error:
        raise DeviceError(f"{link.where}: {text(error)}") from None
    finally:
        link.close()


def _rate(device: Any) -> str:
    return f"{device.ai_max_single_chan_rate:g} Hz" if len(device.ai_physical_chans) else "0 Hz"


def _bits(device: Any) -> int:
    return int(device.ci_max_size) if len(device.ci_physical_chans) else 0


# ---- the source ------------------------------------------------------------------------------------------------------


class _Stream:
    """One task, and what was read from it but not delivered yet: a row for each channel."""

    def __init__(self, task: Any, reader: Callable[..., int], dtype: Any, channels: int = 1):
        self.task, self._reader, self._channels = task, reader, channels
        self._read = np.zeros(channels * _CAPACITY, dtype)
        self.pending = np.zeros((channels, _CAPACITY), dtype)
        self.count = 0
        self.total = 0  # samples of each channel read since the start
        self._unfilled = np.nan if dtype is np.float64 else _UNFILLED

    def begin(self) -> None:
        self.task.start()
        self.count = self.total = 0

    def read(self, count: int, timeout_s: float) -> int:
        """Read up to `count` more; fewer is normal. Raises what the driver raises, except a timeout."""
        place = self._read[: self._channels * count]
        place[:] = self._unfilled
        short = False
        try:
            got = int(self._reader(place, number_of_samples_per_channel=count, timeout=timeout_s))
        except Exception as error:
            if action(error) is not Action.KEEP:
                raise
            got, short = int(getattr(error, "samps_per_chan_read", 0)), True
        if not 0 <= got <= count:
            raise _Misaligned(f"{got} samples came where at most {count} were asked for")
        # channel after channel, without gaps, even if the read ended early (ni/nidaqmx-python, issue 528)
        values = place[: self._channels * got]
        # some servers report so many samples but hand none over: then this task is ahead of the others
        if short and got and (np.isnan(values) if values.dtype == np.float64 else values == _UNFILLED).all():
            raise _Misaligned(f"{got} samples were read but not handed over")
        self.pending[:, self.count : self.count + got] = values.reshape(self._channels, got)
        self.count += got
        self.total += got
        return got

    def take(self, count: int) -> np.ndarray:
        taken = self.pending[:, :count].copy()
        self.pending[:, : self.count - count] = self.pending[:, count : self.count].copy()
        self.count -= count
        return taken


class _Misaligned(Exception):
    """It is no longer certain that the tasks are at the same sample."""

    error_code = -200279


class NiDevice(Device):
    def __init__(self, config: Config, settings: Settings, file: Path, host: Host):
        from daq_service.sample_clock import SampleClock
        from sync.clock import RealClock

        clock = host.clock or RealClock()
        self._now, self._sleep_until = clock.now_ns, clock.sleep_until
        self._settings, self._file, self._say = settings, file, host.say
        self._rate = config.daq.rate_hz
        self._period = 1e9 / self._rate
        self._analog: dict[str, AnalogInput] = {}  # by name, in the order of the channels, as in the task
        self._encoders: dict[str, EncoderInput] = {}
        self._bits: dict[str, int] = {}  # of the encoders' counters
        for channel in config.daq.channels:
            wiring = settings.channels[channel.name]
            if isinstance(wiring, AnalogInput):
                self._analog[channel.name] = wiring
            else:
                self._encoders[channel.name] = wiring
                self._bits[channel.name] = channel.counter_bits or 32
        names = [c.name for c in config.daq.channels]
        self._analog_columns = [names.index(n) for n in self._analog]
        self._encoder_columns = [names.index(n) for n in self._encoders]
        self._per_volt = np.array([[w.full_counts / w.max_v] for w in self._analog.values()])
        self._masks = [(1 << bits) - 1 for bits in self._bits.values()]
        self._buffer = max(round(settings.buffer_s * self._rate), 2)
        pem = (settings.server_ca, settings.server_certificate, settings.server_key)
        self._link = linked(settings.server, pem, file.parent)
        self._clock = SampleClock(self._period)
        self._streams: list[_Stream] = []  # the converter's, then the counters'; none while there is no device
        self._ao: Any = None
        self._ao_task: Any = None
        self._ao_lock = threading.Lock()
        self._ao_name = ""
        self._ao_since_ns = 0
        self.effort: EffortSettings | None = None
        if settings.effort is not None:
            self.effort, self._ao_name = _effort_settings(settings.effort, file)
        self.wants = self.effort.wants if self.effort else ()
        self._running = False
        self._stopped = False  # a late thread must not open the device again
        self._forget()
        self._counts = dict.fromkeys(("overruns", "reconnects", "refused", "partial", "unwritten"), 0)

    def _forget(self) -> None:
        self._last_ns = 0  # instant of the last scan delivered, 0 before there is one
        self._gap = False  # the next scan does not continue the last
        self._last = [0] * len(self._encoders)  # readings of the counters, as delivered
        self._offset = [0] * len(self._encoders)
        self._retry_ns = 0
        self._back_off = self._settings.back_off_first_s
        self._reported_gone = self._reported_held = False
        self._ao_failed = 0  # writes in a row
        self._ao_retry_ns = 0
        self._ao_back_off = self._settings.back_off_first_s
        self._ao_error = ""
        self._reported_output = False

    def counts(self) -> dict[str, int]:
        return {**self._counts, "clock_ppb": round(self._clock.ppm * 1e3)}

    # ---- before the run ----------------------------------------------------------------------------------------------

    def find(self) -> None:
        """Check that the device is there, can do what is asked, and is free for us."""
        ni = package()
        self._stopped, self._link.cut = False, False
        try:
            self._check_device(ni)
            self._make(ni)
            for task in self._tasks():
                task.control(ni.constants.TaskMode.TASK_RESERVE)
        except Exception as error:
            self._link.cut = server_lost(error)
            self._drop()
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> Exception:
        """Why there can be no run."""
        if isinstance(error, DeviceError | ConfigError):
            return error
        what, s = action(error), self._settings
        if type(error).__name__ in ("DaqNotFoundError", "DaqNotSupportedError"):
            return no_driver(error)
        if type(error).__module__.split(".")[0] != "nidaqmx":
            return error  # a fault of ours
        if what is Action.RATE:
            return ConfigError(
                f"{self._file}: daq.rate_hz = {self._rate:g}: more than {s.device} can convert: {text(error)}"
            )
        if what is Action.HELD:
            return DeviceError(f"{s.device} is held by another process; end it, or take another device: {text(error)}")
        if what is Action.UNKNOWN:
            return DeviceError(
                f"source.device = {s.device!r}: {self._link.where} has no such device{self._present()}: {text(error)}"
            )
        if server_lost(error):
            return DeviceError(f"{self._link.where} does not answer: {text(error)}")
        if what is Action.RECONNECT:
            return DeviceError(f"{s.device} cannot be reached; is it plugged in and powered? {text(error)}")
        return DeviceError(f"{s.device}: {text(error)}")

    def _present(self) -> str:
        with contextlib.suppress(Exception):
            names = list(self._link.system(package()).devices.device_names)
            return f"; it has {', '.join(names)}" if names else "; it has none at all"
        return ""

    def _check_device(self, ni: Any) -> None:
        s, link = self._settings, self._link
        present = list(link.system(ni).devices.device_names)
        if s.device not in present:
            raise DeviceError(
                f"source.device = {s.device!r}: {link.where} has no such device; it has"
                f" {', '.join(present) or 'none at all'}"
            )
        device = link.system(ni).devices[s.device]

        def refuse(requested: str, can: str) -> DeviceError:
            return DeviceError(f"{s.device} ({device.product_type}): {requested}: {can}")

        def need(kind: str, key: str, name: str, has: list[str]) -> None:
            if f"{s.device}/{name}" not in has:
                short = ", ".join(n.split("/", 1)[-1] for n in has)
                raise refuse(f"source.{key} = {name!r} is asked for", f"it has {short or f'no {kind} at all'}")

        inputs, counters = device.ai_physical_chans.channel_names, device.ci_physical_chans.channel_names
        for name, wiring in self._analog.items():
            need("analog input", f"channels.{name}.input", wiring.input, inputs)
            _covered(refuse, name, wiring.min_v, wiring.max_v, list(device.ai_voltage_rngs))
        if s.clock_input:
            need("analog input", "clock_input", s.clock_input, inputs)
        self._check_rate(device, refuse)
        for name, encoder in self._encoders.items():
            need("counter", f"channels.{name}.input", encoder.input, counters)
            if ni.constants.UsageTypeCI.POSITION_ANGULAR_ENCODER not in device.ci_meas_types:
                raise refuse("encoders are to be counted", "its counters cannot measure angular position")
            if not device.ci_samp_clk_supported:
                raise refuse("counters are to be sampled with the converter", "its counters have no sample clock")
            if device.ci_max_size != self._bits[name]:
                raise refuse(
                    f"daq.channels: {name}.counter_bits = {self._bits[name]} is asked for",
                    f"its counters have {device.ci_max_size}; set counter_bits = {device.ci_max_size}",
                )
        if self.effort:
            need("analog output", "effort.ao", self._ao_name, device.ao_physical_chans.channel_names)
            limit = self.effort.limit
            _covered(refuse, "effort", -limit, limit, list(device.ao_voltage_rngs))

    def _check_rate(self, device: Any, refuse: Callable[[str, str], DeviceError]) -> None:
        fastest, shared = device.ai_max_single_chan_rate, ""
        count = len(self._analog)
        if count > 1 and not device.ai_simultaneous_sampling_supported:  # one converter for all of them, in turn
            together = device.ai_max_multi_chan_rate
            if together / count < fastest:
                fastest, shared = together / count, f" of {count} inputs, {together:g} in all"
        if fastest < self._rate:
            raise refuse(
                f"daq.rate_hz = {self._rate:g} is asked for", f"its converter does at most {fastest:g} Hz{shared}"
            )

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def _make(self, ni: Any) -> None:
        """All tasks, set up but not started."""
        s, k = self._settings, ni.constants
        tasks: list[Any] = []

        def task() -> Any:
            if self._stopped:
                raise _Ended
            tasks.append(ni.Task(grpc_options=self._link.options()))
            return tasks[-1]

        try:
            converter = task()
            for analog in self._analog.values():
                converter.ai_channels.add_ai_voltage_chan(
                    f"{s.device}/{analog.input}",
                    terminal_config=k.TerminalConfiguration[analog.terminals.upper()],
                    min_val=analog.min_v,
                    max_val=analog.max_v,
                )
            if s.clock_input:
                low, high = [*self._link.system(ni).devices[s.device].ai_voltage_rngs, -5.0, 5.0][:2]  # any will do
                converter.ai_channels.add_ai_voltage_chan(f"{s.device}/{s.clock_input}", min_val=low, max_val=high)
            reader = ni.stream_readers.AnalogMultiChannelReader(converter.in_stream)
            reader.verify_array_shape = False
            self._clocked(k, converter, "")
            streams = [_Stream(converter, reader.read_many_sample, np.float64, len(self._analog) or 1)]
            for encoder in self._encoders.values():
                counter = task()
                channel = counter.ci_channels.add_ci_ang_encoder_chan(
                    f"{s.device}/{encoder.input}",
                    decoding_type=k.EncoderType[f"X_{encoder.decoding[1]}"],
                    units=k.AngleUnits.TICKS,
                    pulses_per_rev=encoder.pulses_per_rev,
                )
                if encoder.a:
                    channel.ci_encoder_a_input_term = encoder.a
                if encoder.b:
                    channel.ci_encoder_b_input_term = encoder.b
                self._clocked(k, counter, f"/{s.device}/ai/SampleClock")
                counting = ni.stream_readers.CounterReader(counter.in_stream)
                counting.verify_array_shape = False
                streams.append(_Stream(counter, counting.read_many_sample_uint32, np.uint32))
            out = task() if self.effort else None
            writer = self._output(ni, out) if out is not None else None
            with self._ao_lock:
                if self._stopped:
                    raise _Ended
                self._ao_task, self._ao, self._ao_since_ns = out, writer, self._now()
                self._streams = streams
        except Exception as error:
            self._link.cut = self._link.cut or server_lost(error)
            self._close(tasks)
            raise

    def _output(self, ni: Any, task: Any) -> Any:
        assert self.effort is not None
        task.ao_channels.add_ao_voltage_chan(
            f"{self._settings.device}/{self._ao_name}", min_val=-self.effort.limit, max_val=self.effort.limit
        )
        return ni.stream_writers.AnalogSingleChannelWriter(task.out_stream, auto_start=True)

    def _close(self, tasks: list[Any]) -> None:
        """Close the tasks, whatever state they are in. After one call without an answer no other is made."""
        for task in tasks:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # a warning that a task which is gone was not ended properly
                    task.close()
            except Exception as error:
                if server_lost(error):
                    self._link.cut = True

    def _clocked(self, k: Any, task: Any, source: str) -> None:
        task.timing.cfg_samp_clk_timing(
            self._rate, source=source, sample_mode=k.AcquisitionType.CONTINUOUS, samps_per_chan=self._buffer
        )
        task.in_stream.input_buf_size = self._buffer

    def _begin(self) -> None:
        """Counters first, so that they see the very first edge of the converter's clock."""
        converter, *counters = self._streams
        for counter in counters:
            counter.begin()
        self._clock.start(self._now())
        converter.begin()

    def _halt(self) -> None:
        """Stop all tasks, whatever errors that reports: the converter first, because its clock paces the others."""
        failed: Exception | None = None
        for stream in self._streams:
            try:
                stream.task.stop()
            except Exception as error:
                if server_lost(error):
                    raise
                if action(error) is not Action.RESTART:  # a task reports again why it had ended
                    failed = failed or error
        if failed is not None:
            raise failed

    def _tasks(self) -> list[Any]:
        return [*(s.task for s in self._streams), *([self._ao_task] if self._ao_task is not None else [])]

    def _drop(self) -> None:
        """Close the device, whatever state it is in."""
        with self._ao_lock:
            tasks = self._tasks()
            self._streams, self._ao, self._ao_task = [], None, None
        self._close(tasks)

    # ---- the run -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._running:
            return
        self._forget()
        self._stopped, self._link.cut = False, False
        try:
            if not self._streams:
                self._make(package())
            self._begin()
        except Exception as error:
            self._link.cut = server_lost(error)
            self._drop()
            raise self._refusal(error) from None
        self._running = True

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        until = self._now() + wait_ns
        if not self._running:
            self._sleep_until(until)
            return 0, 0
        if not self._streams and not self._reconnect(until):
            return 0, 0
        for _ in range(2):
            try:
                self._fetch(min(len(scans), _CAPACITY), until, wait_ns)
            except Exception as error:
                self._handle(error)
                if not self._streams:
                    return 0, 0
                until = self._now() + wait_ns  # it was restarted: wait for its first scans
            else:
                self._mend_output()
                return self._deliver(scans, t_ns)
        return 0, 0

    def _fetch(self, capacity: int, until: int, wait_ns: int) -> None:
        """Read what the converter has, and as much from the counters, so that all tasks are at the same sample."""
        converter, *counters = self._streams
        capacity -= converter.count
        if capacity > 0:
            available = converter.task.in_stream.avail_samp_per_chan
            self._clock.saw(converter.total + available, self._now())
            # not more than can come: a wait that ends with a sample shows when that came, one that times out does not
            coming = min(self._settings.scans_per_read, max(-int(-wait_ns // self._period), 1))
            wanted = min(max(available, coming), capacity)
            left = max(until - self._now(), 0) * 1e-9
            got = converter.read(wanted, left)
            if available < wanted:  # it waited, so its last sample is a fresh one
                self._clock.saw(converter.total, self._now())
            self._counts["partial"] += 0 < got < wanted
        for counter in counters:
            behind = converter.total - counter.total
            if behind > 0:
                # its edge has passed, so the sample is on its way
                left = max(until - self._now(), 1_000_000) * 1e-9
                self._counts["partial"] += counter.read(behind, left) < behind

    def _deliver(self, scans: np.ndarray, t_ns: np.ndarray) -> tuple[int, int]:
        streams = self._streams
        count = min([len(scans), *(s.count for s in streams)])
        if count == 0 or not streams:
            return 0, 0
        first = streams[0].total - streams[0].count
        self._clock.instants(first, t_ns[:count])
        volts, *registers = (s.take(count) for s in streams)
        if self._analog:
            scans[:count, self._analog_columns] = np.rint(volts * self._per_volt).astype(np.int64).T
        for i, (column, register) in enumerate(zip(self._encoder_columns, registers, strict=True)):
            raw = register[0].astype(np.int64)
            if first == 0 and self._gap:
                self._offset[i] = self._last[i] - int(raw[0])
            readings = (raw + self._offset[i]) & self._masks[i]
            scans[:count, column] = readings
            self._last[i] = int(readings[-1])
        lost = 0
        if self._gap and self._last_ns:
            lost = max(round((int(t_ns[0]) - self._last_ns) / self._period) - 1, 1)
        self._gap = False
        self._last_ns = int(t_ns[count - 1])
        self._reported_gone = self._reported_held = False
        self._back_off = self._settings.back_off_first_s
        return count, lost

    # ---- when something is wrong -------------------------------------------------------------------------------------

    def _handle(self, error: Exception) -> None:
        """Go on as ACTIONS says, or raise."""
        what = action(error)
        if self._stopped:
            self._drop()
            self._link.close()
        elif what is Action.KEEP:
            self._counts["partial"] += 1
        elif what is Action.RESTART:
            self._counts["overruns"] += 1
            self._gap = True
            times = self._counts["overruns"]
            if times & (times - 1) == 0:  # report the first, second, fourth and so on: a repeated one is no news
                again = f" (overrun {times})" if times > 1 else ""
                self._say(f"{self._settings.device}: scans were lost, sampling is restarted{again}: {text(error)}")
            try:
                self._halt()
                self._begin()
            except Exception as second:
                if action(second) in (Action.RESTART, Action.KEEP):  # tasks that cannot be stopped are created again
                    self._lose(second)
                else:
                    self._handle(second)
        elif what in (Action.RECONNECT, Action.HELD, Action.UNKNOWN):
            self._lose(error)
        else:
            self._end_output()
            self._drop()
            self._running = False
            raise self._refusal(error) from None

    def _lose(self, error: Exception) -> None:
        self._gap = True
        if server_lost(error):
            self._link.cut = True
        else:
            self._end_output()  # perhaps only the inputs are gone
        self._drop()
        self._retry_ns = self._now() + round(self._back_off * 1e9)
        self._back_off = min(2.0 * self._back_off, self._settings.back_off_most_s)
        device = self._settings.device
        what = action(error)
        if what is Action.HELD:
            if not self._reported_held:
                self._say(f"{device} is held by another process; it is tried again until it is free: {text(error)}")
            self._reported_held = True
        elif not self._reported_gone:
            which = f"is not a device of {self._link.where}{self._present()}" if what is Action.UNKNOWN else "is gone"
            self._say(f"{device} {which}; it is looked for until it is back: {text(error)}")
            self._reported_gone = True

    def _reconnect(self, until: int) -> bool:
        """Try again whatever a device reports while it comes back, except a rate that it can never do."""
        if self._stopped:
            return False
        if self._now() < self._retry_ns:
            self._sleep_until(min(until, self._retry_ns))
            return False
        try:
            self._link.cut = False
            self._link.clear_unheard()
            self._make(package())
            self._begin()
        except Exception as error:
            self._counts["refused"] += 1
            if self._stopped or action(error) is Action.RATE:
                self._handle(error)
            else:
                self._lose(error)
            return False
        self._counts["reconnects"] += 1
        self._say(f"{self._settings.device} is back")
        return True

    # ---- the way back ------------------------------------------------------------------------------------------------

    def put(self, value: float) -> None:
        """See daq_service/effort.py. A failure here also shows in the next read, or it repeats: reads mend both."""
        with self._ao_lock:
            if self.effort is not None:
                # a device that has just come back begins at zero and must not jump to the present effort
                most = self.effort.slew * (self._now() - self._ao_since_ns) * 1e-9
                self._write(min(max(value, -most), most))

    def _write(self, value: float) -> Exception | None:
        """Returns what went wrong, or None."""
        if self._ao is None:
            return None
        try:
            self._ao.write_one_sample(value, timeout=_WRITE_S)
        except Exception as error:
            self._counts["unwritten"] += 1
            self._ao_failed += 1
            self._ao_error = text(error)
            return error
        self._ao_failed = 0
        return None

    def _mend_output(self) -> None:
        """Create an output again that fails while the inputs work, ever more rarely."""
        if self.effort is None or self._stopped:
            return
        name = f"{self._settings.device}/{self._ao_name}"
        if self._ao_failed == 0:
            if self._reported_output and self._ao is not None:
                self._reported_output, self._ao_back_off = False, self._settings.back_off_first_s
                self._say(f"{name} is back")
            return
        if self._ao_failed < _FAILED_WRITES or self._now() < self._ao_retry_ns:
            return
        if not self._reported_output:
            self._reported_output = True
            self._say(f"{name} does not take the effort; it is made again until it does: {self._ao_error}")
        self._ao_retry_ns = self._now() + round(self._ao_back_off * 1e9)
        self._ao_back_off = min(2.0 * self._ao_back_off, self._settings.back_off_most_s)
        with self._ao_lock:
            old, self._ao, self._ao_task = self._ao_task, None, None
        tasks = [old] if old is not None else []
        self._close(tasks)
        tasks.clear()
        try:
            ni = package()
            tasks.append(ni.Task(grpc_options=self._link.options()))
            writer = self._output(ni, tasks[0])
            with self._ao_lock:
                if self._stopped:
                    raise _Ended
                self._ao_task, self._ao, self._ao_since_ns = tasks[0], writer, self._now()
        except Exception:  # the next read reports a device that is gone
            self._close(tasks)

    def _end_output(self) -> Exception | None:
        """Write zero, and nothing after it, even if the thread that writes efforts is still running."""
        with self._ao_lock:
            failed = self._write(0.0)
            self._ao = None
            return failed

    def stop(self) -> None:
        """Stop; a server that hangs delays this by one call, not by one for each task."""
        self._stopped, self._running = True, False
        failed = self._end_output()
        if self._streams and not (failed and server_lost(failed)):
            try:
                self._halt()
            except Exception as error:
                failed = error
        if failed and server_lost(failed):
            self._link.cut = True
        self._drop()
        self._link.close()


def _covered(refuse: Any, name: str, low: float, high: float, ranges: list[float]) -> None:
    pairs = list(zip(ranges[::2], ranges[1::2], strict=True))
    if not any(a <= low and high <= b for a, b in pairs):
        can = ", ".join(f"{a:g} to {b:g} V" for a, b in pairs)
        raise refuse(f"{name}: {low:g} to {high:g} V is asked for", f"it has {can or 'no range at all'}")


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> NiDevice:
    names = [channel.name for channel in config.daq.channels]
    for name in settings.channels:
        if name not in names:
            raise ConfigError(f"{file}: source.channels.{name}: daq.channels has no {name}; it has {', '.join(names)}")
    for channel in config.daq.channels:
        where = f"{file}: daq.channels: {channel.name}"
        if channel.name.endswith(AGE):
            raise ConfigError(
                f"{where}: the nidaqmx source has no ages, its channels are sampled with the scan; leave it out"
            )
        wiring = settings.channels.get(channel.name)
        if wiring is None:
            raise ConfigError(
                f"{where}: source.channels has no {channel.name}; give [source.channels.{channel.name}] with input ="
                f" {INPUTS}"
            )
        if isinstance(wiring, AnalogInput) != (channel.counter_bits is None):
            raise ConfigError(
                f"{where}.counter_bits = {channel.counter_bits}: "
                + (
                    f"{wiring.input} is an analog input, and has none; leave counter_bits out"
                    if isinstance(wiring, AnalogInput)
                    else f"{wiring.input} is a counter: give the width that the device's have, such as 32"
                )
            )
    held = settings.buffer_s * config.daq.rate_hz
    if held < 2 * settings.scans_per_read and settings.scans_per_read > 1:
        raise ConfigError(
            f"{file}: source.buffer_s = {settings.buffer_s:g}: holds {held:g} scans, and must hold twice"
            f" source.scans_per_read = {settings.scans_per_read} at least"
        )
    return NiDevice(config, settings, file, host)
