"""The device: tasks, sample clock, buffers, counters, signals, and everything that can go wrong with them."""

import math
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.daqmx_double.clocks import Time

REFUSED = -229_999  # no code of NI's: the test that meets it did something no hardware would forgive
UNKNOWN_DEVICE, GONE, HELD = -200_220, -201_003, -50_103
TIMEOUT, OVERWRITTEN, INVALID_TASK = -200_284, -200_279, -200_088
TICKS, X4, CONTINUOUS, ANGULAR_POSITION = 10_304, 10_092, 10_123, 10_360


class DaqFault(Exception):
    def __init__(self, code: int, text: str = "", samples: int | None = None):
        super().__init__(text or f"the double was told to fail with {code}")
        self.code, self.samples = code, samples


@dataclass
class Task:
    name: str
    kind: str = ""  # ai, ci or ao
    channels: list[str] = field(default_factory=list)  # such as Dev1/ai0; several of an ai task
    settings: dict[str, Any] = field(default_factory=dict)
    timing: dict[str, Any] = field(default_factory=dict)
    buffer: int = 0
    running: bool = False
    read: int = 0  # samples taken out since the start
    broken: int = 0  # the code that every read gets until the task is stopped
    life: int = 0  # of the device, when the task was made

    @property
    def channel(self) -> str:
        return ", ".join(self.channels)


@dataclass
class Provoked:
    call: str
    code: int
    channel: str = ""  # only on a task with this one
    samples: int | None = None  # of a read: so many all the same
    how: str = "metadata"  # or status: in the reply
    times: int = 1
    after: int = 0  # so many calls are let through first


@dataclass
class Settings:
    """What a test may set; `reset` restores it."""

    name: str = "Dev1"
    product: str = "USB-6343 (double)"
    ai: int = 4
    counters: int = 4
    ao: int = 2
    ai_max_rate: float = 500_000.0
    ai_max_together: float = 500_000.0  # of several inputs that share the converter, all together
    simultaneous: bool = False  # every input has a converter of its own
    ai_ranges: tuple[float, ...] = (-10.0, 10.0, -5.0, 5.0, -1.0, 1.0)
    ao_ranges: tuple[float, ...] = (-10.0, 10.0)
    counter_bits: int = 32
    counter_clock: bool = True
    counter_types: tuple[int, ...] = (ANGULAR_POSITION, 10_125)
    ppm: float = 0.0  # by how much its period is longer than asked
    transfer_us: float = 0.0  # from a sample until the host may have it
    start_us: float = 0.0  # that a start takes, in a time of the test's
    pulses_per_rev: int = 500
    starts: tuple[int, ...] = (0, 0, 0, 0)  # registers of the counters when they are armed
    script: str = "index"


class Device:
    """All of it under one lock; reads wait outside of it."""

    def __init__(self, time: Time) -> None:
        self._lock = threading.RLock()
        self._time = time
        self._born = time.now_ns()
        self._life = 0
        self._number = 0
        self.tasks: dict[str, Task] = {}
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self.set = Settings()
            self.tasks.clear()
            self.present, self.held = True, False
            self._ai_start = self._ai_number = 0
            self._provoked: list[Provoked] = []
            self.refused: list[str] = []
            self.calls: dict[str, int] = {}
            self.written: list[tuple[int, float]] = []
            self.starts = 0  # of the converter

    # ---- what a test tells it ----------------------------------------------------------------------------------------

    def configure(self, **changes: Any) -> None:
        with self._lock:
            for key, value in changes.items():
                if not hasattr(self.set, key):
                    raise KeyError(key)
                setattr(self.set, key, tuple(value) if isinstance(value, list) else value)

    def lose(self) -> None:
        with self._lock:
            self.present = False
            self._life += 1  # what was set up before is no more, even when it is back

    def provoke(self, **what: Any) -> None:
        with self._lock:
            self._provoked.append(Provoked(**what))

    def state(self) -> dict[str, Any]:
        with self._lock:
            return {
                "tasks": [
                    {"channel": t.channel, "running": t.running, "read": t.read, "buffer": t.buffer}
                    for t in self.tasks.values()
                ],
                "refused": self.refused,
                "waiting": len(self._provoked),
                "calls": dict(self.calls),
                "starts": self.starts,
                "ai_start_ns": self._ai_start,
                "period_ns": self._period() if self._ai_start else 0.0,
            }

    # ---- what every call goes through --------------------------------------------------------------------------------

    def refuse(self, text: str) -> DaqFault:
        self.refused.append(text)
        return DaqFault(REFUSED, f"the double refuses: {text}")

    def called(self, call: str, task: Task | None) -> Provoked | None:
        """Counts the call, and finds what a test wants to happen to it."""
        with self._lock:
            self.calls[call] = self.calls.get(call, 0) + 1
            for wanted in self._provoked:
                if wanted.call == call and (
                    not wanted.channel or (task is not None and any(c.endswith(wanted.channel) for c in task.channels))
                ):
                    if wanted.after > 0:
                        wanted.after -= 1
                        continue
                    wanted.times -= 1
                    if wanted.times <= 0:
                        self._provoked.remove(wanted)
                    return wanted
            return None

    def task(self, name: str) -> Task:
        with self._lock:
            if name not in self.tasks:
                raise DaqFault(INVALID_TASK, "Specified task is invalid or does not exist.")
            return self.tasks[name]

    def alive(self, task: Task) -> None:
        if not self.present or task.life != self._life:
            raise DaqFault(GONE, "Device cannot be accessed. Possible causes: Device is no longer present.")

    def known(self, device: str) -> None:
        if device != self.set.name:
            raise DaqFault(UNKNOWN_DEVICE, f"Device identifier is invalid. Device Specified: {device}")
        if not self.present:
            raise DaqFault(GONE, "Device cannot be accessed. Possible causes: Device is no longer present.")

    def channels(self, kind: str) -> list[str]:
        s = self.set
        count, stem = {"ai": (s.ai, "ai"), "ao": (s.ao, "ao"), "ci": (s.counters, "ctr")}[kind]
        return [f"{s.name}/{stem}{i}" for i in range(count)]

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def create(self, name: str) -> str:
        with self._lock:
            self._number += 1
            name = name or f"_unnamedTask<{self._number}>"
            self.tasks[name] = Task(name, life=self._life)
            return name

    def add_channel(self, task: Task, kind: str, channel: str, **settings: Any) -> None:
        with self._lock:
            self.known(channel.split("/", maxsplit=1)[0])
            if channel not in self.channels(kind):
                raise DaqFault(-200_170, f"Physical channel specified does not exist: {channel}")
            if task.kind and (task.kind, kind) != ("ai", "ai"):
                raise self.refuse(f"a second channel ({channel}) in the task of {task.channel}")
            if channel in task.channels:
                raise DaqFault(-200_489, f"Specified channel cannot be added to the task: {channel} is in it")
            if kind == "ai":
                low, high = settings["range"]
                ranges = self.set.ai_ranges
                if not any(a <= low and high <= b for a, b in zip(ranges[::2], ranges[1::2], strict=True)):
                    raise DaqFault(-200_077, f"Requested value is not a supported value: {channel}: {low} to {high} V")
            task.channels.append(channel)
            task.kind, task.settings, task.life = kind, settings, self._life

    def reserve(self, task: Task) -> None:
        with self._lock:
            self.alive(task)
            others = (  # a device has one converter's clock, whatever it converts
                t
                for t in self._of(task.kind)
                if t is not task and (task.kind == "ai" or set(t.channels) & set(task.channels))
            )
            if self.held or any(t.settings.get("reserved") for t in others):
                raise DaqFault(HELD, "The specified resource is reserved.")
            task.settings["reserved"] = True

    def _of(self, kind: str) -> list[Task]:
        return [t for t in self.tasks.values() if t.kind == kind]

    def start(self, task: Task) -> None:
        with self._lock:
            self.reserve(task)
            if task.kind == "ci":
                self._start_counter(task)
            elif task.kind == "ai":
                self._start_converter(task)
            task.running = True

    def _start_counter(self, task: Task) -> None:
        self._sampled(task)
        s = task.settings
        if s["units"] != TICKS:
            raise self.refuse(f"{task.channel}: units {s['units']} and not ticks: an angle, not a count")
        if s["pulses_per_rev"] != self.set.pulses_per_rev:
            raise self.refuse(f"{task.channel}: {s['pulses_per_rev']} pulses a turn, not {self.set.pulses_per_rev}")
        if s["decoding"] != X4:
            raise self.refuse(f"{task.channel}: decoding {s['decoding']} and not X4")
        clock = f"/{self.set.name}/ai/SampleClock"
        if task.timing["source"] != clock:
            raise self.refuse(f"{task.channel}: clocked from {task.timing['source']!r} and not from {clock}")
        if any(t.running for t in self._of("ai")):
            raise self.refuse(f"{task.channel}: started after the converter whose clock it counts on")
        task.read, task.broken = 0, 0

    def _start_converter(self, task: Task) -> None:
        self._sampled(task)
        if task.timing["source"]:
            raise self.refuse(f"{task.channel}: clocked from {task.timing['source']!r} and not from its own clock")
        most, in_turn = self.set.ai_max_rate, 1 if self.set.simultaneous else len(task.channels)
        if in_turn > 1:
            most = min(most, self.set.ai_max_together / in_turn)
        if task.timing["rate"] > most:
            raise DaqFault(-200_077, "Requested value is not a supported value for this property: sample rate")
        waiting = [t.channel for t in self._of("ci") if not t.running]
        if waiting:
            raise self.refuse(f"{task.channel}: started before its counters ({', '.join(waiting)})")
        task.read, task.broken = 0, 0
        self._time.sleep(round(self.set.start_us * 1000.0))
        self._ai_start = self._time.now_ns()
        self._ai_rate = task.timing["rate"]
        self._ai_number = round((self._ai_start - self._born) / self._period())
        self.starts += 1

    def _sampled(self, task: Task) -> None:
        if task.timing.get("mode") != CONTINUOUS:
            raise self.refuse(f"{task.channel}: has no continuous sample clock")
        if task.buffer <= 0:
            raise self.refuse(f"{task.channel}: buffer size left to the driver")

    def stop(self, task: Task) -> None:
        with self._lock:
            if task.kind == "ci" and task.running and any(t.running for t in self._of("ai")) and self.present:
                raise self.refuse(f"{task.channel}: stopped while the converter runs")
            task.running, task.broken = False, 0
            task.settings["reserved"] = False

    def clear(self, task: Task) -> None:
        with self._lock:
            try:
                self.stop(task)
            finally:
                self.tasks.pop(task.name, None)

    # ---- samples -----------------------------------------------------------------------------------------------------

    def _period(self) -> float:
        return 1e9 / self._ai_rate * (1.0 + self.set.ppm * 1e-6)

    _ai_rate = 1000.0

    def _taken(self, now: int) -> int:
        """Samples that the host may have by now."""
        ago = now - self._ai_start - self.set.transfer_us * 1000.0
        return int(ago // self._period()) + 1 if ago >= 0 else 0

    def _ready(self, task: Task) -> int:
        with self._lock:
            self.alive(task)
            if not task.running:
                raise self.refuse(f"{task.channel}: read before it was started")
            if task.broken:
                raise DaqFault(task.broken, "the task has ended with an error and was not stopped")
            clocked = any(t.running for t in self._of("ai"))
            ready = self._taken(self._time.now_ns()) - task.read if clocked else 0
            if ready > task.buffer:
                task.broken = OVERWRITTEN
                raise DaqFault(
                    OVERWRITTEN, "The application is not able to keep up with the hardware acquisition.", samples=0
                )
            return max(ready, 0)

    def available(self, task: Task) -> int:
        return self._ready(task)

    def acquired(self, task: Task) -> int:
        return self._ready(task) + task.read

    def read(self, task: Task, count: int, timeout: float, only: int | None = None) -> tuple[int, list[list[float]]]:
        """(status, samples of each channel): waits for `count`; what is there by the timeout comes with the status that
        says so."""
        status = 0
        if only is not None:
            while self._ready(task) < min(only, count):
                self._time.sleep(200_000)
            count = min(only, count)
        else:
            end = self._time.now_ns() + round(timeout * 1e9) if timeout >= 0 else 2**62
            while (ready := self._ready(task)) < count:
                now = self._time.now_ns()
                if now >= end:
                    status, count = TIMEOUT, ready
                    break
                with self._lock:
                    due = self._ai_start + (task.read + count - 1) * self._period() + self.set.transfer_us * 1000.0
                # a little at a time, so that a loss is noticed
                self._time.sleep(max(math.ceil(min(due, end, now + 50_000_000)) - now, self._time.least_ns))
        with self._lock:
            first = task.read
            task.read += count
            return status, [[self._value(c, k) for k in range(first, first + count)] for c in task.channels]

    def _value(self, channel: str, k: int) -> float:
        number, name = self._ai_number, channel.rsplit("/", 1)[-1]
        if name.startswith("ai"):
            return analog_volts(self.set.script, int(name[2:]), k, number)
        place = int(name[3:])
        moved = encoder_counts(self.set.script, place, number + k) - encoder_counts(self.set.script, place, number)
        return (self.set.starts[place] + moved) % (1 << self.set.counter_bits)

    # ---- output ------------------------------------------------------------------------------------------------------

    def write(self, task: Task, value: float) -> None:
        with self._lock:
            self.alive(task)
            low, high = task.settings["range"]
            if not (math.isfinite(value) and low <= value <= high):
                raise DaqFault(-200_561, f"Attempted writing analog data that is too large or too small: {value}")
            self.written.append((self._time.now_ns(), value))


# ---- signals: of the number k of a sample since the start, or of its number since the device was born ---------------
# "index": every channel tells k, each in its own way. "drive": on ctr0 a hand that weaves, on ctr1 and ai0 feet

INDEX_MODULUS = 30_000
INDEX_STEPS = (3, -2, 5, -7)  # counts a sample, of the counters


def analog_index(place: int, k: Any) -> Any:
    """What a channel aiN of "index" reads, in counts of 5 V / 32767."""
    return (k + 100 * place) % INDEX_MODULUS * (-1) ** place


def analog_volts(script: str, place: int, k: int, number: int) -> float:
    if script == "index":
        return float(analog_index(place, k)) * 5.0 / 32767.0
    if place > 0:
        return 0.0
    phase = (number + k) % 10_000
    return 0.8 if 8000 <= phase < 9000 else -0.0004


def encoder_counts(script: str, place: int, number: int) -> int:
    if script == "index":
        return INDEX_STEPS[place] * number
    if place == 0:
        return round(250.0 * math.sin(number * 0.004))
    return round(180.0 - 120.0 * math.cos(number * 0.0011))
