"""The virtual haptic device as a process of its own, like a device with its own controller: `tandem device CONFIG`.

It samples into the ring `device`, which the DAQ (`source.own_process = true`) reads, and takes every effort that the
DAQ hands over from the ring `effort`. Its own watchdog reads the heartbeat of the effort loop: when that is older than
`source.watchdog_ms`, because the DAQ has crashed, hangs or was killed, or when another DAQ has adopted the ring, the
actuator gets zero, and nothing else until a living effort loop hands over something new. An effort that has waited for
so long because this process itself hung is dropped.
"""

import contextlib
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from daq_service import effort_record
from daq_service.devices.contract import Host
from daq_service.devices.haptic import HapticDevice, open_here
from daq_service.devices.haptic_plant import COMMANDED, X, hand_over
from daq_service.devices.haptic_settings import Settings
from sync.clock import now_ns
from sync.config.config import Config
from sync.config.toml import check
from sync.process.service import Prepared, Reporter, Worker, held, join, start, watch_workers
from sync.ring import streams
from sync.ring.block import EPOCH, PUSHED, SEQ, Channel, Layout, T
from sync.ring.follower import RingFollower
from sync.ring.ring import HEARTBEAT_WORD, RingWriter, peek, push

_SILENT = 0.75  # share of the promised time: the thread may wake late. The effort loop beats at least every millisecond
_MOST_SCANS = 256


def layout(config: Config) -> Layout:
    """The layout of the ring `device`: the channels as the DAQ has them, what each actuator gets, and where it is."""
    channels = [Channel(c.name, "i8", c.unit) for c in config.daq.channels]
    for behind in ("", *(f"_{name}" for name in sorted(config.source.get("axes", {})))):
        channels += [Channel(f"actuator_given{behind}", "f8", "N"), Channel(f"actuator_position{behind}", "f8", "m")]
    return Layout(tuple(channels))


class Efforts:
    """Puts what the DAQ hands over into the device's queue; zero when the DAQ has fallen silent."""

    def __init__(self, ring: str, queue: np.ndarray, watchdog_ms: float):
        self._follower = RingFollower(ring, effort_record.LAYOUT, living=True, from_now=True, retry_ns=20_000_000)
        self._queue = queue
        self._silent_ns = round(1e6 * _SILENT * watchdog_ms)
        self._zero = True
        self._epoch = -1  # of the loop that handed over last
        self.zeroed = self.taken = self.refused = 0

    def poll(self) -> None:
        now = now_ns()
        ring = self._follower.ring
        if ring is not None and ring.epoch != self._epoch:  # another loop: its predecessor's effort no longer holds
            self._let_go(now)
            self._epoch = ring.epoch
        if ring is not None and now - peek(ring.words, HEARTBEAT_WORD) > self._silent_ns:
            self._let_go(now)
            self._follower.poll()  # another may have taken its place
            if ring is self._follower.ring and now - peek(ring.words, HEARTBEAT_WORD) > self._silent_ns:
                for _ in self._follower.batches():
                    pass  # efforts handed over before the silence are dropped
                return
        for batch in self._follower.batches():
            for effort, pushed, epoch in zip(batch["given"], batch["pushed_ns"], batch["epoch"], strict=True):
                if epoch != self._epoch or now - int(pushed) > self._silent_ns:
                    self._let_go(now)
                    self.refused += 1
                    continue
                hand_over(self._queue, float(effort), int(pushed))
                self._zero = effort == 0.0
                self.taken += 1

    def _let_go(self, now: int) -> None:
        if not self._zero:
            hand_over(self._queue, 0.0, now)
            self._zero = True
            self.zeroed += 1

    def close(self) -> None:
        self._follower.close()


class DeviceLoop:
    """Samples, and hands efforts to the actuator, until it is stopped."""

    def __init__(self, config: Config, device: HapticDevice, ring: RingWriter, watchdog_ms: float):
        self._device, self._ring = device, ring
        self.efforts = Efforts(config.ring("effort"), device.queue, watchdog_ms)
        self.axes = [
            Efforts(config.ring(stream.name), axis.queue, watchdog_ms)
            for stream, axis in zip(streams.AXIS_EFFORTS, device.parts[1:], strict=False)
            if axis.effort
        ]
        self._states = [axis.x for axis in device.parts]
        self._channels = len(config.daq.channels)
        self._scans = np.zeros((_MOST_SCANS, self._channels), np.int64)
        self._t_ns = np.zeros(_MOST_SCANS, np.int64)
        self._block = np.zeros(ring.layout.words, np.int64)
        self._places = [int(place) for place in ring.layout.table[:, 0]]
        self._wait_ns = min(config.period_ns, 1_000_000)
        self.scans = self.lost = 0

    def run(self, stop: threading.Event) -> None:
        self._device.start()
        try:
            while not stop.is_set():
                self.turn()
        finally:
            for efforts in (self.efforts, *self.axes):
                efforts.close()

    def turn(self) -> None:
        for efforts in (self.efforts, *self.axes):
            efforts.poll()
        count, lost = self._device.read(self._scans, self._t_ns, self._wait_ns)
        if lost:
            self.lost += lost
            self._ring.bump_epoch()
        block, words = self._block, self._ring
        values = block.view(np.float64)
        for row in range(count):
            for place, value in zip(self._places, self._scans[row], strict=False):
                block[place] = value
            for n, x in enumerate(self._states):
                values[self._places[self._channels + 2 * n]] = x[COMMANDED]
                values[self._places[self._channels + 2 * n + 1]] = x[X]
            block[SEQ], block[EPOCH] = words.head, words.epoch
            block[T], block[PUSHED] = self._t_ns[row], now_ns()
            push(words.words, block)
        self.scans += count


def prepare(config: Config, file: Path) -> Prepared:
    settings = check(Settings, config.source, str(file), "source")
    device = open_here(config, settings, file, Host())
    return Prepared(partial(run, device, settings), {})


def run(
    device: HapticDevice, settings: Settings, config: Config, file: Path, stop: threading.Event, reporter: Reporter
) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        ring = RingWriter(config.ring("device"), layout(config), streams.DEVICE.capacity(config))
        stack.callback(held(ring, reporter), None)
        loop = DeviceLoop(config, device, ring, settings.watchdog_ms)
        workers = [Worker("device", lambda: loop.run(stop), config, config.realtime.daq_priority, None)]
        start(workers, reporter, stack, stop.set)
        watch_workers(workers, stop, lambda _: None)
        join(workers, reporter)
    every = (loop.efforts, *loop.axes)
    return {
        "scans": loop.scans, "lost": loop.lost, "efforts": sum(each.taken for each in every),
        "zeroed": sum(each.zeroed for each in every), "efforts_refused": sum(each.refused for each in every),
        **device.counts(),
    }  # fmt: skip


def in_words(report: dict[str, Any]) -> str:
    return f"ended: {report['scans']} scans, {report['efforts']} efforts taken, {report['zeroed']} times set to zero"
