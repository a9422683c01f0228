"""The DAQ of a configuration, alone and under a name of its own, during a calibration."""

import os
from collections.abc import Callable
from pathlib import Path

from sync.config.config import Config, forced_transport
from sync.errors import ConfigError, DeviceError, RingError, TandemError
from sync.ring.ring import RingReader, remove_stale
from tandem.live.supervisor.launch import DAQ, Service


def alone(name: str) -> list[str]:
    """Settings that keep it apart from a run, and need no simulator."""
    own = f"{name[:16]}_cal_{os.getpid()}"
    return [f"name={own}", *forced_transport("shm"), 'transport.clock="auto"']


class LoneDaq:
    """Ends with its `close`, whatever was before."""

    def __init__(self, file: Path, overrides: list[str], show: Callable[[str], None]):
        self._service = Service(DAQ, show).execute(file, overrides)
        self._begun = False
        self._ring: RingReader | None = None
        self._config: Config | None = None

    def watch(self) -> None:
        """Raises when it has ended: by itself it does not, as long as all is well."""
        code = self._service.code
        if code is None:
            return
        self._service.end()  # its last words too
        for refusal in (ConfigError, DeviceError):
            if code == refusal.code:
                raise refusal(self._service.last_words)
        last_words = f": {self._service.last_words}" if self._service.last_words else ""
        raise TandemError(f"{self._service.exit_message()}{last_words}")

    def ring(self, config: Config) -> RingReader | None:
        """Its ring, once there is one."""
        self.watch()
        self._config = config
        if self._service.ready and not self._begun:
            self._begun = True
            self._service.say("begin")
        if self._begun and self._ring is None:
            try:
                self._ring = RingReader(config.ring("daq"), config.daq.layout)
            except RingError:
                return None
        return self._ring

    def implausible(self) -> int:
        """Counter moves that no encoder can make, so far."""
        return int(self._service.status.get("implausible", 0))

    def close(self) -> None:
        if self._service.code is None:
            self._service.ask_to_end()
        self._service.end()
        if self._ring is not None:
            self._ring.close()
        if self._config is not None:
            remove_stale(self._config.ring("daq"))  # of a DAQ that had to be killed
