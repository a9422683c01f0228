"""The other host of a remote source: a DAQ in this process, with every block on a port of the loopback."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from daq_service.acquire import Acquisition
from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.clock import REAL, Clock
from sync.config.config import Config
from sync.ring.ring import RingReader, RingWriter
from sync.transport.host_clock import Artificial, ClockServer
from sync.transport.keys import make_keys, read_keys
from sync.transport.socket_guard import SocketGuard
from sync.transport.wire import Publisher, context
from tests.daq_service.conftest import DRIVE, drive_config
from tests.ports import free_port


class Origin:
    """From its making to `close`: samples, and publishes what it samples."""

    def __init__(
        self,
        port: int,
        *overrides: str,
        clock_port: int = 0,
        clock: Artificial | None = None,
        keys: Path | None = None,
        name: str | None = None,
    ):
        own = [f"name={name}"] if name else []
        # as much as a stalled machine may need: all its blocks are looked at in the end
        self.config: Config = drive_config("daq.ring_blocks=131072", *own, *overrides)
        self._stop = threading.Event()
        self._stack = contextlib.ExitStack()
        self.writer = RingWriter(self.config.ring("daq"), self.config.daq.layout, self.config.daq.ring_blocks)
        self._stack.callback(self.writer.close)
        self.reader = RingReader(self.config.ring("daq"))
        self._stack.callback(self.reader.close)
        zmq_context = context()
        self._stack.callback(zmq_context.destroy, 0)
        self.guard = SocketGuard(zmq_context, read_keys(keys, "daq", "sim")) if keys else None
        if self.guard is not None:
            self._stack.callback(self.guard.close)
        shown = clock or Artificial()
        self.every = Publisher(
            zmq_context, f"tcp://127.0.0.1:{port}", self.config.daq.layout, (shown.offset_ns, shown.drift), self.guard,
            waiting=round(10 * self.config.daq.rate_hz) + 64,
        )  # fmt: skip
        self._stack.callback(self.every.close)
        source = open_device(self.config, DRIVE)
        self.acquisition = Acquisition(self.config, source, self.writer, None, self.every)
        work: list[Callable[[], None]] = [lambda: self.acquisition.run(self._stop)]
        if clock_port:
            server = ClockServer(zmq_context, f"tcp://127.0.0.1:{clock_port}", shown, self.guard)
            self._stack.callback(server.close)
            work.append(lambda: self._serve(server))
        self._threads = [threading.Thread(target=job, daemon=True) for job in work]
        for thread in self._threads:
            thread.start()

    def _serve(self, server: ClockServer) -> None:
        while not self._stop.is_set():
            server.serve()

    def blocks(self) -> np.ndarray:
        """All of them, as they are in its ring."""
        found, _, lost = self.reader.since(0, self.config.daq.ring_blocks)
        assert lost == 0
        return found

    def end(self) -> None:
        """No more blocks; its ring can still be looked at."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        self.end()
        self._stack.close()


def remote_config(port: int, *overrides: str, **settings: object) -> Config:
    """configs/drive.toml with another host as its source."""
    asked = {"kind": "remote", "host": "127.0.0.1", "port": port, **settings}
    values = ", ".join(
        f"{k} = {str(v).lower() if isinstance(v, bool | int | float) else repr(v)}" for k, v in asked.items()
    )
    return drive_config(f"source={{{values}}}", *overrides)


def both_keys(folder: Path, *names: str) -> Path:
    """A folder of keys of hosts that know each other."""
    for name in names or ("daq", "sim"):
        make_keys(folder, name)
    return folder


class Chained(Device):
    """The remote source under the contract: its origin runs from each start to the next stop."""

    unwrapped = True

    def __init__(self, rate_hz: float, buffer_scans: int):
        self._port, self._rate = free_port(), f"daq.rate_hz={rate_hz}"
        config = remote_config(self._port, self._rate, buffer_blocks=buffer_scans)
        self._source = open_device(config, DRIVE, Host())
        self._origin: Origin | None = None

    def start(self) -> None:
        self._origin = Origin(self._port, self._rate)
        self._source.start()

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        return self._source.read(scans, t_ns, wait_ns)

    def stop(self) -> None:
        self._source.stop()
        if self._origin is not None:
            self._origin.close()
            self._origin = None


def open_remote(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    return Chained(rate_hz, buffer_scans), REAL
