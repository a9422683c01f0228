"""The simulator source: the steps of another run as scans, its results as the counts of sensors and encoders.

The other run is the "real" machine of a twin: a simulator with parameters of its own, whose virtual sensors (machine
`sensed`) have added noise, latency and outages already. Each of its steps is one scan at the step's own instant. A
channel takes an output or an input of that run's machine, in counts; with an `age` it has a channel NAME_age_us beside
it, which holds how old the reading was at that instant.

    [source]
    kind = "simulator"
    truth = "twin_truth.toml"    # a configuration: started and ended with this run, recorded in its folder; or
    truth_set = []               # what is set in it, as --set takes it: ["sim.parameters.grip=0.5"]
    run = "other"                # the name of a run that another terminal has started
    watch = ["x", "speed"]       # outputs of both machines that are compared at the end,
    settle_s = 5.0               # after the twin has found the other in so long

    [source.channels.speed]
    of = "reading_speed"         # of the other machine
    age = "age_speed"            # s
    per_count = 0.001            # value = per_count (counts - zero_counts)
    zero_counts = 0.0

Nothing is invented and nothing is delivered twice: each step left out is a lost scan, and a restart of the simulator is
a gap. The other run may start later than this one.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from daq_service.devices.contract import Device, DeviceSettings, Host
from sync.clock import now_ns, sleep_until
from sync.config.config import Config, load
from sync.config.toml import Section
from sync.errors import ConfigError
from sync.ring.block import AGE, EPOCH, SEQ, Layout, T
from sync.ring.follower import RingFollower
from sync.ring.streams import SIM, ring_name, truth_name
from sync.transport.wire import wait_beyond

_LONGEST_NAME = 32
_RETRY_NS = 10_000_000  # between two polls for its ring
_MOST_AGE_US = 2**32 - 1


class Taken(Section):
    of: str = Field(min_length=1)  # an output or an input of the other machine
    per_count: float = Field(gt=0)  # its unit in one count
    zero_counts: float = 0.0  # where it is 0
    age: str = ""  # output that says how old it is, s


class Settings(DeviceSettings):
    moves_hand = False

    kind: str
    truth: str = ""  # configuration of the other run, which is started and ended with this one; or
    truth_set: list[str] = []  # what is set in it, as --set takes it
    # the name of a run that another terminal has started
    run: Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]{0,31})?$")] = ""
    channels: dict[str, Taken]  # of daq.channels: what each takes
    watch: list[str] = []  # outputs of both machines that are compared at the end
    settle_s: float = Field(0.0, ge=0, le=3600)  # not before so long
    buffer_blocks: int = Field(1000, ge=1, le=1_000_000)  # that it holds; older ones are lost, and counted

    @model_validator(mode="after")
    def _one_run(self) -> "Settings":
        if bool(self.truth) == bool(self.run):
            raise ValueError("must take the steps of one run: give truth, a configuration, or run, a name")
        return self


class SimulatorDevice(Device):
    unwrapped = True

    def __init__(self, config: Config, settings: Settings, other: str, file: Path, host: Host):
        self._settings, self._file, self._say, self.other = settings, file, host.say, other
        self._nap_ns = min(max(config.period_ns // 50, 20_000), 1_000_000)
        self._channels = [c.name for c in config.daq.channels]
        self._follower = RingFollower(ring_name(other, SIM.name), living=True, retry_ns=_RETRY_NS)
        self._segment = -1  # of the ring whose layout was checked
        self._blocks = np.zeros((0, 0), np.int64)
        self._earliest = 2**62
        self._last: tuple[int, int] | None = None  # epoch and number of the last step delivered
        self._not_finite = self._dropped = 0

    def start(self) -> None:
        self.stop()
        self._earliest, self._last, self._segment = now_ns(), None, -1

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        until = now_ns() + wait_ns
        if self._earliest == 2**62:
            sleep_until(until)
            return 0, 0
        while True:
            self._follower.poll()
            ring = self._follower.ring
            if ring is not None:
                if ring.segment != self._segment:
                    self._check(ring.layout)
                    self._segment = ring.segment
                count, lost = self._take(scans, t_ns, ring.layout)
                if count:
                    return count, lost
                if wait_beyond(ring.words, self._follower.position - 1, until, self._nap_ns, 0):
                    continue
                return 0, 0
            if now_ns() >= until:
                return 0, 0
            sleep_until(min(now_ns() + _RETRY_NS, until))

    def _take(self, scans: np.ndarray, t_ns: np.ndarray, layout: Layout) -> tuple[int, int]:
        follower, most = self._follower, len(scans)
        assert follower.ring is not None
        if (oldest := follower.ring.head - self._settings.buffer_blocks) > follower.position and self._last is not None:
            self._dropped += oldest - follower.position
            follower.position = oldest
        if self._blocks.shape != (most, layout.words):
            self._blocks = np.zeros((most, layout.words), np.int64)
        begun = follower.position
        found = follower.take(self._blocks)
        first = 0
        if self._last is None and found:  # steps from before the start are not used
            ours = self._blocks[:found, T] >= self._earliest
            first = int(np.argmax(ours)) if ours.any() else found
        taken = self._blocks[first:found]
        follows = (taken[1:, EPOCH] == taken[:-1, EPOCH]) & (taken[1:, SEQ] == taken[:-1, SEQ] + 1)
        if not follows.all():  # scans after a gap do not continue these: they begin the next read
            taken = taken[: 1 + int(np.argmin(follows))]
            follower.position = begun + first + len(taken) if begun + found == follower.position else follower.position
        if not len(taken):
            return 0, 0
        here = int(taken[0, EPOCH]), int(taken[0, SEQ])
        lost = 0
        if self._last is not None and here != (self._last[0], self._last[1] + 1):
            lost = max(here[1] - self._last[1] - 1, 1)
        self._last = int(taken[-1, EPOCH]), int(taken[-1, SEQ])
        self._fill(scans[: len(taken)], layout.view(taken))
        t_ns[: len(taken)] = taken[:, T]
        return len(taken), lost

    def _fill(self, scans: np.ndarray, steps: np.ndarray) -> None:
        for column, name in enumerate(self._channels):
            if name.endswith(AGE):
                age_us = np.rint(1e6 * steps[self._settings.channels[name.removesuffix(AGE)].age])
                scans[:, column] = np.nan_to_num(np.clip(age_us, 0, _MOST_AGE_US), nan=_MOST_AGE_US)
                continue
            how = self._settings.channels[name]
            counts = np.floor(steps[how.of] / how.per_count + how.zero_counts + 0.5)
            bad = ~np.isfinite(counts)
            self._not_finite += int(bad.sum())
            scans[:, column] = np.clip(np.where(bad, 0.0, counts), -(2.0**53), 2.0**53)

    def _check(self, layout: Layout) -> None:
        for name, how in self._settings.channels.items():
            for key, wanted in (("of", how.of), ("age", how.age)):
                if wanted and wanted not in layout.names:
                    raise ConfigError(f"{self._file}: source.channels.{name}.{key} = {wanted!r}: {self._has(layout)}")
        for name in self._settings.watch:
            if name not in layout.names:
                raise ConfigError(f"{self._file}: source.watch: {name}: {self._has(layout)}")
        self._say(f"the steps of the run {self.other} are there")

    def _has(self, layout: Layout) -> str:
        return f"the run {self.other} has {', '.join(layout.names)}"

    def counts(self) -> dict[str, int]:
        return {"not_finite": self._not_finite, "left_in_the_ring": self._dropped}

    def stop(self) -> None:
        self._follower.close()
        self._earliest = 2**62


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> SimulatorDevice:
    names = [channel.name for channel in config.daq.channels]
    for name, how in settings.channels.items():
        if name not in names:
            raise ConfigError(f"{file}: source.channels.{name}: daq.channels has {', '.join(names)}, and no {name}")
        if bool(how.age) != (name + AGE in names):
            raise ConfigError(
                f"{file}: source.channels.{name}.age = {how.age!r}: a channel {name}{AGE} must be in daq.channels with"
                " an age, and only then"
            )
    for name in names:
        if name.removesuffix(AGE) not in settings.channels:
            raise ConfigError(f"{file}: daq.channels: {name}: give [source.channels.{name}], or leave the channel out")
    other = settings.run
    if settings.truth:
        other = truth_name(config.name)
        if len(other) > _LONGEST_NAME:
            raise ConfigError(f"{file}: name = {config.name!r}: too long for that of its truth, {other}")
        truth = load(file.parent / settings.truth, settings.truth_set)
        rate_hz = 1e3 / truth.sim.step_ms
        if abs(config.daq.rate_hz - rate_hz) > 1e-6 * rate_hz:
            raise ConfigError(
                f"{file}: daq.rate_hz = {config.daq.rate_hz:g}: must be {rate_hz:g}, a scan for every step of"
                f" {settings.truth}"
            )
    return SimulatorDevice(config, settings, other, file, host)
