"""Another run for a source of kind `simulator`: a ring of steps that a thread writes at a steady rate."""

import contextlib
import itertools
import os
import threading

import numpy as np

from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.clock import REAL, Clock, now_ns, sleep_until
from sync.config.config import Config
from sync.ring.block import EPOCH, PUSHED, SEQ, Channel, Layout, T
from sync.ring.ring import RingWriter, push
from sync.ring.streams import ring_name
from tests.daq_service.conftest import DRIVE, drive_config

LAYOUT = Layout((Channel("step", "i8"), Channel("angle", "f8", "rad"), Channel("age_angle", "f8", "s")))
_number = itertools.count()


def config_of(run: str, *more: str, rate_hz: float = 200.0, buffer: int = 1000, per_count: float = 0.001) -> Config:
    one = f"{{of='angle', per_count={per_count}}}"
    channels = f"{{brake={one}, throttle={one}, steering={one}}}"
    source = f"source={{kind='simulator', run='{run}', buffer_blocks={buffer}, channels={channels}}}"
    return drive_config(f"daq.rate_hz={rate_hz}", source, *more)


class Steps:
    """The ring, and what is written into it."""

    def __init__(self, run: str, capacity: int = 8192):
        self.ring = RingWriter(ring_name(run, "sim"), LAYOUT, capacity)
        self._block = np.zeros(LAYOUT.words, np.int64)

    def put(self, t_ns: int, angle: float, age: float = 0.0) -> None:
        block, at = self._block, LAYOUT.table[:, 0]
        block[SEQ], block[EPOCH], block[T], block[PUSHED] = self.ring.head, self.ring.epoch, t_ns, now_ns()
        block[at[0]] = self.ring.head
        block.view(np.float64)[at[1]], block.view(np.float64)[at[2]] = angle, age
        push(self.ring.words, block)


class SteadySteps(Device):
    """The source under test, with a thread that makes a step a period from its start to its stop."""

    def __init__(self, rate_hz: float, buffer: int):
        self._run = f"contract_{os.getpid()}_{next(_number)}"
        self._period = round(1e9 / rate_hz)
        self.device: Device = open_device(config_of(self._run, rate_hz=rate_hz, buffer=buffer), DRIVE, Host())
        self.unwrapped = True
        self._steps = Steps(self._run, 1 << 17)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def _make(self, begin: int) -> None:
        for k in itertools.count(1):
            sleep_until(begin + k * self._period)
            if self._stop.is_set():
                return
            self._steps.put(begin + k * self._period, 0.001 * k)

    def start(self) -> None:
        self.stop()
        self.device.start()
        self._stop.clear()
        self._thread = threading.Thread(target=self._make, args=(now_ns(),), daemon=True)
        self._thread.start()

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        return self.device.read(scans, t_ns, wait_ns)

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.device.stop()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._steps.ring.close()


def open_simulator(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    return SteadySteps(rate_hz, buffer_scans), REAL
