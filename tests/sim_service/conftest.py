"""A simulation between two real rings, under a name of its own; gone after the test."""

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim_service import step_record
from sim_service.models import MODELS, load_model
from sim_service.simulation import Simulation
from sync.clock import now_ns, sleep_until
from sync.config import load
from sync.ring import RingReader, RingWriter, push

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
DRIVE = CONFIGS / "drive.toml"
_NUMBER = itertools.count()
_PATIENCE_NS = 20_000_000_000


class World:
    """The loop in a thread, what it reads and what it writes. The test is the DAQ."""

    def __init__(self, *overrides: str):
        # these tests push blocks as they like, not in a rhythm that could be locked to or differentiated
        usual = [
            "sim.phase=free",
            "sim.signals.steering_estimator=source",
            "sim.vehicle=vehicles/buggy_single_track.toml",
        ]
        settings = [f"name=t{os.getpid()}_{next(_NUMBER)}", *usual, *overrides]
        self.config = load(DRIVE, settings)
        self.simulation = Simulation(self.config, *load_model(DRIVE.parent / self.config.sim.vehicle))
        self.h_ns = self.config.step_ns
        self.daq = RingWriter(self.config.ring("daq"), self.config.daq.layout, self.config.daq.ring_blocks)
        self._daq = RingReader(self.config.ring("daq"))
        self._out = RingWriter(self.config.ring("sim"), self.simulation.layout, self.config.sim.ring_blocks)
        self.results = RingReader(self.config.ring("sim"), self.simulation.layout)
        self.ended: int | None = None
        self._thread: threading.Thread | None = None

    # the DAQ

    def push(self, brake: int = 0, throttle: int = 0, steering: int = 0, age_ns: int = 0, **others: int) -> None:
        record = np.zeros(1, self.daq.layout.dtype)
        record["seq"], record["epoch"] = self.daq.head, self.daq.epoch
        record["brake"], record["throttle"], record["steering"] = brake, throttle, steering
        for name, value in others.items():
            record[name] = value
        record["pushed_ns"] = now_ns()
        record["t_ns"] = record["pushed_ns"] - age_ns
        push(self.daq.words, record.view(np.int64))

    def renew_daq(self) -> None:
        """The DAQ is gone and another one comes: a new ring under the same name."""
        self.daq.close()
        self._daq.close()
        self.daq = RingWriter(self.config.ring("daq"), self.config.daq.layout, self.config.daq.ring_blocks)
        self._daq = RingReader(self.config.ring("daq"))

    # the loop

    def start(self, steps: int = -1) -> None:
        self.simulation.settings[step_record.MOST_STEPS] = steps
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.ended = self.simulation.run(self._daq.words, self._out.words)

    def ask(self, stop: int) -> None:
        self.simulation.control[step_record.STOP] = stop

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait_for_steps(self, steps: int) -> None:
        end = now_ns() + _PATIENCE_NS
        while self.results.head < steps:
            assert self.running and now_ns() < end, f"the loop made {self.results.head} of {steps} steps"
            sleep_until(now_ns() + 100_000)

    def join(self) -> np.ndarray:
        """Wait for the end; all results."""
        assert self._thread is not None
        self._thread.join(_PATIENCE_NS / 1e9)
        assert not self.running
        outputs, _, lost = self.results.since(0, self.config.sim.ring_blocks)
        assert lost == 0
        return outputs

    def run(self, steps: int) -> np.ndarray:
        self.start(steps)
        return self.join()

    def count(self, counter: int) -> int:
        return int(self.simulation.counters[counter])

    def close(self) -> None:
        self.ask(step_record.NOW)
        if self._thread is not None:
            self._thread.join()
        for ring in (self.results, self._daq, self._out, self.daq):
            ring.close()


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Callable[..., World]:
    """Makes a world from settings of configs/drive.toml."""

    def make(*overrides: str) -> World:
        made = World(*overrides)
        request.addfinalizer(made.close)
        return made

    return make


@pytest.fixture
def puppet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a vehicle file for the puppet; returns the setting that chooses it."""
    monkeypatch.setitem(MODELS, "puppet", "tests.sim_service.puppet")

    def write(
        slow_from: int = 0, slow_steps: int = 0, slow_ms: float = 0.0, nan_at: int = -1, bad_bar: float = 1e4
    ) -> str:
        path = tmp_path / "puppet.toml"
        path.write_text(
            f'model = "puppet"\n[parameters]\nslow_from = {slow_from}\nslow_steps = {slow_steps}\n'
            f"slow_ms = {slow_ms}\nnan_at = {nan_at}\nbad_bar = {bad_bar}\n"
        )
        return f'sim.vehicle="{path}"'

    return write
