"""A simulation between two real rings, under a name of its own, in virtual time; gone after the test.

The loop runs in a thread, but time passes only while the test lets it (`let_pass`, `wait_for_steps`, `join`): till then
the loop stands still where it looks at its clock, and what the test does meanwhile is done at that very instant. No
test depends on how fast or how busy the machine is.
"""

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim_service import step_record
from sim_service.contract.machine import Machine
from sim_service.loop import run_on
from sim_service.registry import MACHINES, load_machine
from sim_service.simulation import Simulation
from sync.config.config import load
from sync.ring.ring import HEARTBEAT_WORD, RingReader, RingWriter, peek, push
from sync.virtual_clock import FOREVER, LIMIT, NOW, PARKED, PUSH, let_pass, store_word, virtual_clock
from tests.sim_service.puppet import BUSY

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
DRIVE = CONFIGS / "drive.toml"
_NUMBER = itertools.count()
_START_NS = 10**12  # where virtual time begins
_PATIENCE_NS = 20_000_000_000  # virtual, for steps
_PATIENCE_S = 60.0  # real, for the end of a thread


def pytest_collection_finish(session: pytest.Session) -> None:
    """Who only collects (make collected, before all others) compiles the loop on the virtual clock for them all."""
    if session.config.option.collectonly:
        run_on(virtual_clock())


class World:
    """The loop in a thread, what it reads and what it writes. The test is the DAQ."""

    def __init__(
        self, *overrides: str, file: Path = DRIVE, changed: Callable[[Machine], Machine] = lambda machine: machine
    ):
        # these tests push blocks as they like, not in a rhythm that could be locked to or differentiated
        usual = [
            "sim.phase=free",
            "inputs.steering.estimator=source",
            "sim.machine=vehicles/buggy_single_track.toml",
        ]
        settings = [f"name=t{os.getpid()}_{next(_NUMBER)}", *(usual if file == DRIVE else usual[:1]), *overrides]
        self.config = load(file, settings)
        machine, params = load_machine(file.parent / self.config.sim.machine)
        self.simulation = Simulation(self.config, changed(machine), params)
        self.h_ns = self.config.step_ns
        if self.config.sim.rehearse == "on":
            self.simulation.settings = self.simulation.settings._replace(rehearses=1)
        self.daq = RingWriter(self.config.ring("daq"), self.config.daq.layout, self.config.daq.ring_blocks)
        self.blocks = RingReader(self.config.ring("daq"))
        self.steps = RingWriter(self.config.ring("sim"), self.simulation.layout, self.config.sim.ring_blocks)
        self.results = RingReader(self.config.ring("sim"), self.simulation.layout)
        self.ended: int | None = None
        self._thread: threading.Thread | None = None
        self._words = virtual_clock(_START_NS, _START_NS).words
        self._script = np.zeros((0, 3), np.int64)

    # time

    @property
    def now(self) -> int:
        return int(self._words[NOW])

    @property
    def heartbeat_age_ns(self) -> int:
        return self.now - int(peek(self.results.words, HEARTBEAT_WORD))

    def let_pass(self, duration_ns: int) -> None:
        """Let so much time pass; returns when it has, or when the loop has ended."""
        if not self.running or not let_pass(self._clock, duration_ns, lambda: self.running):
            self._words[LIMIT] = self._words[NOW] = max(self.now, int(self._words[LIMIT]))

    # the DAQ

    def stream(self, period_ns: int, count: int) -> np.ndarray:
        """From now on a block every so often, whose channels tell its number; returns when each is pushed."""
        first = self.daq.head
        n = np.arange(first, first + count)
        at = self.now + period_ns * (np.arange(count) + 1)
        blocks = np.zeros(count, self.daq.layout.dtype)
        blocks["brake"], blocks["throttle"], blocks["steering"] = n & 0x7FFF, n % 421, n
        self.script(blocks, at)
        return at

    def script(self, blocks: np.ndarray, at: np.ndarray) -> None:
        """These are pushed at these instants, without this thread."""
        blocks["t_ns"] = blocks["pushed_ns"] = at
        words = blocks.view(np.int64).reshape(len(at), -1)
        self._script = np.column_stack([at, np.full(len(at), PUSH), np.zeros(len(at), np.int64), words])

    def moved(self, at: np.ndarray) -> None:
        """The blocks of the script can be read at these instants instead, in their order."""
        self._script[:, 0] = np.maximum.accumulate(at)

    def push(self, brake: int = 0, throttle: int = 0, steering: int = 0, age_ns: int = 0, **others: int) -> None:
        record = np.zeros(1, self.daq.layout.dtype)
        record["seq"], record["epoch"] = self.daq.head, self.daq.epoch
        for name, value in {"brake": brake, "throttle": throttle, "steering": steering, **others}.items():
            if value:
                record[name] = value
        record["pushed_ns"] = self.now
        record["t_ns"] = record["pushed_ns"] - age_ns
        push(self.daq.words, record.view(np.int64))

    def renew_daq(self) -> None:
        """The DAQ is gone and another one comes: a new ring under the same name."""
        self.daq.close()
        self.blocks.close()
        self.daq = RingWriter(self.config.ring("daq"), self.config.daq.layout, self.config.daq.ring_blocks)
        self.blocks = RingReader(self.config.ring("daq"))

    # the loop

    def start(self, steps: int = -1) -> None:
        self.simulation.settings = self.simulation.settings._replace(most_steps=steps)
        self._clock = virtual_clock(
            script=np.ascontiguousarray(self._script), rings=self.daq.words.reshape(1, -1), busy=self._busy()
        )._replace(words=self._words)
        run_on(self._clock)  # compiled before anybody waits for it
        self._thread = threading.Thread(target=self._run)
        self._words[PARKED] = 0
        self._thread.start()
        let_pass(self._clock, 0, lambda: self.running)  # until it looks at its clock for the first time

    def _busy(self) -> np.ndarray:
        """Where the puppet says what its step takes; others take none."""
        return self.simulation.busy(BUSY) if self.simulation.model.name == "puppet" else np.zeros(1)

    def _run(self) -> None:
        self.ended = self.simulation.run(self.blocks.words, self.steps.words, self._clock)

    def ask(self, stop: int) -> None:
        self.simulation.control[step_record.STOP] = stop

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait_for_steps(self, steps: int) -> None:
        end = self.now + _PATIENCE_NS
        while self.results.head < steps:
            assert self.running and self.now < end, f"the loop made {self.results.head} of {steps} steps"
            self.let_pass(self.h_ns // 10)

    def join(self) -> np.ndarray:
        """Wait for the end; all results."""
        assert self._thread is not None
        store_word(self._words, LIMIT, FOREVER)
        self._thread.join(_PATIENCE_S)
        assert not self.running
        self._words[LIMIT] = self.now
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
        store_word(self._words, LIMIT, FOREVER)
        if self._thread is not None:
            self._thread.join()
        for ring in (self.results, self.blocks, self.steps, self.daq):
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
    monkeypatch.setitem(MACHINES, "puppet", "tests.sim_service.puppet")

    def write(
        slow_from: int = 0, slow_steps: int = 0, slow_ms: float = 0.0, nan_at: int = -1, bad_bar: float = 1e4
    ) -> str:
        path = tmp_path / "puppet.toml"
        path.write_text(
            f'machine = "puppet"\n[parameters]\nslow_from = {slow_from}\nslow_steps = {slow_steps}\n'
            f"slow_ms = {slow_ms}\nnan_at = {nan_at}\nbad_bar = {bad_bar}\n"
        )
        return f'sim.machine="{path}"'

    return write
