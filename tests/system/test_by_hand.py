"""A machine that is no car, moved by hand: from the socket of the page's controls into the record of a run."""

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq

from sync.config.config import load
from sync.record import open_run
from tests.system.conftest import ROOT, Program, ring_of, tandem, until, wait_for_steps

MASS_SPRING = ROOT / "configs" / "mass_spring.toml"
SOURCE = "source={kind='page', controls={handle={least=-0.05, most=0.05, rate_per_s=0.5}}}"
Start = Callable[..., Program]


class Holding:
    """Sends one value over and over, as a page does that somebody has open."""

    def __init__(self, name: str, value: float):
        self._endpoint = f"ipc://{load(MASS_SPRING, [f'name={name}']).socket('hand')}"
        self._message, self._end = msgpack.packb({"handle": value}), threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.set(zmq.LINGER, 0)
            socket.connect(self._endpoint)
            while not self._end.wait(0.02):
                if socket.poll(0, zmq.POLLOUT):
                    socket.send(self._message)

    def let_go(self) -> None:
        self._end.set()
        self._thread.join()


def test_a_handle_moved_by_hand_moves_the_mass(start: Start, name: str, tmp_path: Path) -> None:
    running = start(
        "tandem", "run", str(MASS_SPRING), "--seconds", "0", "--json", "--set", f"name={name}", "--set", SOURCE,
        "--set", "view.enabled=false", "--runs", str(tmp_path / "runs"),
    )  # fmt: skip
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    hand = Holding(name, 0.02)
    until(lambda: steps.newest()["position"] > 0.019, lambda: f"{steps.newest()}")
    hand.let_go()
    until(lambda: abs(steps.newest()["handle"]) < 1e-6, lambda: f"it does not spring back: {steps.newest()}")
    steps.close()
    running.signal(signal.SIGINT)
    assert running.end() == 0, running.said
    record = open_run(tmp_path / "runs")
    assert record.whole and running.json()["balance"]["closes"]
    said = [text for _, text in record.notices]
    assert any("somebody has the controls" in text for text in said)
    assert any("nobody has the controls: handle to 0 m" in text for text in said)
    blocks = record.topics["/daq"].blocks
    counts = blocks["handle"].astype(np.int64)
    assert (counts.min(), counts.max()) == (0, 400)  # 0.02 m, and no way beyond either end
    together = np.diff(blocks["epoch"].astype(np.int64)) == 0  # no scan is missing between them
    assert (np.diff(blocks["t_ns"].astype(np.int64))[together] == 1_000_000).all()
    assert np.abs(np.diff(counts))[together].max() <= 11  # 0.5 mm a scan are ten counts
    made = record.topics["/step"].blocks
    assert made["handle"].max() == pytest.approx(0.02, abs=1e-3)
    assert made["position"].max() > 0.02 and made["hand_force"].min() < 0.0  # it overshoots, and pushes back
    assert json.loads(tandem("replay", str(record.path), "--json").printed)["identical"] is True
