"""The remote source: every block of another DAQ once, in order, dated by our clock; gaps where there were gaps."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from daq_service.devices import open_device
from daq_service.devices.contract import Host
from daq_service.devices.remote import RemoteDevice
from sync.clock import now_ns
from sync.config.config import load
from sync.errors import ConfigError
from sync.ring.block import SEQ
from sync.ring.ring import newest
from sync.transport.host_clock import Artificial, ClockClient, Estimate
from sync.transport.keys import make_keys
from tests.daq_service.conftest import CONFIGS, DRIVE, unique
from tests.daq_service.origin import Origin, both_keys, remote_config
from tests.ports import free_port
from tests.sync.actors import PATIENCE_S

CHANNELS = ("brake", "throttle", "steering")


class Far:
    """A remote source, and all that came out of it."""

    def __init__(self, port: int, *overrides: str, file: Path = DRIVE, **settings: Any):
        self.said: list[str] = []
        source = open_device(remote_config(port, *overrides, **settings), file, Host(say=self.said.append))
        assert isinstance(source, RemoteDevice)
        self.source = source
        self.scans = np.zeros((0, len(CHANNELS)), np.int64)
        self.t_ns = np.zeros(0, np.int64)
        self.gaps: list[tuple[int, int]] = []  # index of the first scan after it, how many were lost
        self._buffer = np.zeros((4096, len(CHANNELS)), np.int64), np.zeros(4096, np.int64)

    def read(self) -> int:
        count, lost = self.source.read(*self._buffer, 5_000_000)
        if lost:
            self.gaps.append((len(self.t_ns), lost))
        self.scans = np.concatenate([self.scans, self._buffer[0][:count]])
        self.t_ns = np.concatenate([self.t_ns, self._buffer[1][:count]])
        return count

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < end, (len(self.t_ns), self.gaps, self.said, self.source.counts())
            self.read()

    def more(self, number: int) -> None:
        wanted = len(self.t_ns) + number
        self.until(lambda: len(self.t_ns) >= wanted)

    def rest(self, origin: Origin) -> None:
        """What is still on its way from an origin that has ended."""
        last = int(origin.blocks()["seq"][-1])
        self.until(lambda: self._newest() == last)
        while self.read():
            pass

    def _newest(self) -> int:
        """Number of the newest block that came over the wire, read or not."""
        link = self.source._link
        assert link is not None
        block = np.zeros(link.ring.layout.words, np.int64)
        return int(block[SEQ]) if newest(link.ring.words, block) >= 0 else -1


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> list[Estimate]:
    """Every estimate of the other host's clock that blocks were dated with."""
    found: list[Estimate] = []
    reading = ClockClient.reading

    def noted(client: ClockClient) -> np.ndarray:
        if client.estimate is not None:
            found.append(client.estimate)
        return reading(client)

    monkeypatch.setattr(ClockClient, "reading", noted)
    return found


def worst_bound_ns(estimates: list[Estimate]) -> int:
    """Of all of them, each at the end of its use."""
    ends = [*(after.at_ns for after in estimates[1:]), now_ns()]
    return max(estimate.bound_at(end) for estimate, end in zip(estimates, ends, strict=True))


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    made: list[Any] = []

    def note(thing: Any) -> Any:
        made.append(thing)
        return thing

    yield note
    for thing in reversed(made):
        thing.source.stop() if isinstance(thing, Far) else thing.close()


def raw(blocks: np.ndarray) -> np.ndarray:
    return np.stack([blocks[name].astype(np.int64) for name in CHANNELS], axis=1)


def assert_the_same(far: Far, blocks: np.ndarray) -> None:
    """From the first that came on, every block of the origin, once, in order, with its values and its instant."""
    assert len(far.t_ns) > 0
    first = int(np.searchsorted(blocks["t_ns"], far.t_ns[0]))
    assert far.t_ns.tolist() == blocks["t_ns"][first:].tolist()
    assert (far.scans == raw(blocks[first:])).all()


@pytest.mark.parametrize("rate_hz", [50.0, 1000.0, 10_000.0])
def test_every_block_comes_once_in_order_as_it_was(closing: Callable[[Any], Any], rate_hz: float) -> None:
    port, rate = free_port(), f"daq.rate_hz={rate_hz}"
    origin = closing(Origin(port, rate))
    far = closing(Far(port, rate))
    far.source.start()
    far.more(round(rate_hz))
    origin.end()  # which says its last block again and again
    far.rest(origin)
    assert_the_same(far, origin.blocks())
    far.until(lambda: far.source.counts()["repeats"] > 0)
    count = far.source.counts()
    assert far.gaps == [] and count["gaps"] == count["dropped"] == count["foreign"] == count["malformed"] == 0
    assert count["repeats"] > 0
    assert far.said[0] == f"waiting for blocks from tcp://127.0.0.1:{port}"


def test_the_other_host_may_start_later(closing: Callable[[Any], Any]) -> None:
    port = free_port()
    far = closing(Far(port))
    far.source.start()
    for _ in range(10):
        assert far.read() == 0  # returns, although nobody is there
    origin = closing(Origin(port))
    far.more(100)
    origin.end()
    far.rest(origin)
    assert_the_same(far, origin.blocks())


def test_instants_of_a_clock_that_is_wrong_are_within_the_bound(
    closing: Callable[[Any], Any], estimates: list[Estimate]
) -> None:
    port, clock_port = free_port(), free_port()
    origin = closing(Origin(port, clock_port=clock_port, clock=Artificial(3_000_000_000, 50e-6)))
    far = closing(Far(port, clock="estimate", clock_port=clock_port))
    far.source.start()
    far.more(1)
    assert far.source.counts()["undated"] > 0  # nothing came before the clock was known
    assert far.source.bound_ns > 0
    far.more(1000)
    origin.end()
    far.rest(origin)
    blocks = origin.blocks()
    first = len(blocks) - len(far.t_ns)
    assert (far.scans == raw(blocks[first:])).all()
    error = np.abs(far.t_ns - blocks["t_ns"][first:])
    assert error.max() <= worst_bound_ns(estimates)
    assert (np.diff(far.t_ns) > 0).all()
    assert far.gaps == []


def test_a_clock_that_is_another_after_a_restart_is_learnt_anew(
    closing: Callable[[Any], Any], estimates: list[Estimate]
) -> None:
    port, clock_port = free_port(), free_port()
    origin = Origin(port, clock_port=clock_port, clock=Artificial(5_000_000_000))
    far = closing(Far(port, clock="estimate", clock_port=clock_port))
    far.source.start()
    far.more(100)
    origin.close()
    far.until(lambda: far.source._link.receiver.clock[0] == 0.0)  # type: ignore[union-attr]
    reborn = closing(Origin(port, clock_port=clock_port, clock=Artificial(-7_000_000_000)))
    before = len(far.t_ns)
    estimates.clear()
    far.more(200)
    reborn.end()
    far.rest(reborn)
    blocks = reborn.blocks()[-(len(far.t_ns) - before) :]
    assert np.abs(far.t_ns[before:] - blocks["t_ns"]).max() <= worst_bound_ns(estimates)
    assert [first for first, _ in far.gaps] == [before]


def test_a_restart_is_a_gap_as_long_as_it_took(closing: Callable[[Any], Any]) -> None:
    port = free_port()
    first = Origin(port)
    far = closing(Far(port, silent_ms=100.0))
    far.source.start()
    far.more(100)
    first.end()
    far.rest(first)
    first.close()
    far.until(lambda: far.said[-1].startswith("no blocks from"))
    before = len(far.t_ns)
    again = closing(Origin(port))
    far.more(100)
    again.end()
    far.rest(again)
    assert len(far.gaps) == 1 and far.gaps[0][0] == before
    away = (far.t_ns[before] - far.t_ns[before - 1]) / 1e6 - 1
    assert abs(far.gaps[0][1] - away) <= 1 and away > 100
    assert (far.scans[before:] == raw(again.blocks()[-(len(far.t_ns) - before) :])).all()
    # on a busy machine it may have been silent before, and lost nothing
    assert far.said[0].startswith("waiting for blocks")
    (lost,) = [text for text in far.said if "come again" in text and "; 0 lost" not in text]
    assert f"come again; {far.gaps[0][1]} lost" in lost


KILLED = """
import sys
from tests.daq_service.origin import Origin
Origin(int(sys.argv[1]), name=sys.argv[2])
print("there", flush=True)
sys.stdin.read()
"""


def test_a_killed_origin_that_is_reborn_in_its_old_ring_is_a_gap(closing: Callable[[Any], Any]) -> None:
    port, name = free_port(), unique()
    command = [sys.executable, "-c", KILLED, str(port), name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=CONFIGS.parent, env={**os.environ}) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"there\n"
            far = closing(Far(port))
            far.source.start()
            far.more(200)
        finally:
            child.send_signal(signal.SIGKILL)
    far.until(lambda: far.said[-1].startswith("no blocks from"))
    reborn = closing(Origin(port, name=name))
    assert reborn.writer.adopted
    far.more(100)
    far.until(lambda: len(far.gaps) > 0)
    ((first, lost),) = far.gaps
    away = (far.t_ns[first] - far.t_ns[first - 1]) / 1e6 - 1
    assert abs(lost - away) <= 1
    assert (np.diff(far.t_ns) > 0).all()


def test_with_keys_as_without(closing: Callable[[Any], Any], tmp_path: Path) -> None:
    keys = both_keys(tmp_path / "keys")
    port, clock_port = free_port(), free_port()
    origin = closing(Origin(port, clock_port=clock_port, keys=keys))
    far = closing(Far(port, keys=str(keys), clock="estimate", clock_port=clock_port))
    far.source.start()
    far.more(200)
    origin.end()
    far.rest(origin)
    blocks = origin.blocks()[-len(far.t_ns) :]
    assert (far.scans == raw(blocks)).all() and far.gaps == []
    assert origin.guard is not None and origin.guard.refused == 0


def test_a_key_nobody_knows_gets_nothing_and_says_why(closing: Callable[[Any], Any], tmp_path: Path) -> None:
    keys = both_keys(tmp_path / "keys")
    make_keys(tmp_path / "other", "sim")
    (tmp_path / "other" / "daq.key").write_bytes((keys / "daq.key").read_bytes())
    port = free_port()
    origin = closing(Origin(port, keys=keys))
    far = closing(Far(port, keys=str(tmp_path / "other")))
    far.source.start()
    far.until(lambda: any("we are not let in" in text for text in far.said))
    assert len(far.t_ns) == 0 and far.source.counts()["shut_out"] > 0
    assert origin.guard is not None and origin.guard.refused > 0


def test_garbage_is_counted_and_what_follows_is_taken(closing: Callable[[Any], Any]) -> None:
    port = free_port()
    far = closing(Far(port))
    far.source.start()
    rng = np.random.default_rng(1)
    junk = [rng.bytes(int(n)) for n in rng.integers(0, 300, 200)]
    fields = dict.fromkeys(("seq", "epoch", "t_ns", "pushed_ns", "sent_ns"), 0)
    junk += [msgpack.packb({"version": 1, "layout": "0" * 16, **fields, "brake": 0}), msgpack.packb([1]), b"\xc1"]
    stop = threading.Event()

    def flood() -> None:
        with zmq.Context() as context, context.socket(zmq.PUB) as noise:
            noise.linger = 0
            noise.bind(f"tcp://127.0.0.1:{port}")
            while not stop.is_set():
                for message in junk:
                    noise.send_multipart([message, message])
                time.sleep(0.001)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        far.until(lambda: far.source.counts()["malformed"] > 5000 and far.source.counts()["foreign"] > 10)
    finally:
        stop.set()
        thread.join()
    assert len(far.t_ns) == 0
    origin = closing(Origin(port))
    far.more(100)
    origin.end()
    far.rest(origin)
    assert_the_same(far, origin.blocks())
    assert sum("no blocks on" in text for text in far.said) == 1
    assert sum("blocks of other channels" in text for text in far.said) == 1


@pytest.mark.parametrize(
    "old, new",
    [('unit = "count"\nskew', 'unit = "bar"\nskew'), ("us = -200.0", "us = -100.0"), ('"i4"', '"u4"')],
    ids=["unit", "skew", "type"],
)
def test_blocks_of_other_channels_are_foreign(
    closing: Callable[[Any], Any], tmp_path: Path, old: str, new: str
) -> None:
    text = DRIVE.read_text()
    assert old in text
    (tmp_path / "other.toml").write_text(text.replace(old, new))
    port = free_port()
    closing(Origin(port))
    said: list[str] = []
    asked = f"source={{kind='remote', host='127.0.0.1', port={port}}}"
    config = load(tmp_path / "other.toml", [f"name={unique()}", asked])
    source: Any = open_device(config, tmp_path / "other.toml", Host(say=said.append))
    source.start()
    try:
        end = time.monotonic() + PATIENCE_S
        scans, t_ns = np.zeros((64, 3), np.int64), np.zeros(64, np.int64)
        while not any("daq.channels must be the other host's" in text for text in said):
            assert time.monotonic() < end
            assert source.read(scans, t_ns, 5_000_000) == (0, 0)
    finally:
        source.stop()


def test_another_rate_is_said(closing: Callable[[Any], Any]) -> None:
    port = free_port()
    closing(Origin(port, "daq.rate_hz=500"))
    far = closing(Far(port))
    far.source.start()
    far.until(lambda: any("come at 500 Hz; daq.rate_hz = 1000" in text for text in far.said))


def test_stop_ends_everything_also_while_nobody_answers(closing: Callable[[Any], Any]) -> None:
    far = closing(Far(free_port(), clock="estimate", clock_port=free_port()))
    before = set(threading.enumerate())
    far.source.start()
    far.read()
    assert set(threading.enumerate()) > before
    far.source.stop()
    assert set(threading.enumerate()) <= before  # none was left behind, waiting
    assert far.read() == 0


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "by name": ({"host": "daq.local"}, "host = 'daq.local' must be an IP address"),
    "open network": ({"host": "192.0.2.1"}, "host = '192.0.2.1' is not the loopback: give both hosts keys"),
    "no folder": ({"keys": "nowhere"}, "nowhere: no such folder of keys"),
    "clock": ({"clock": "sundial"}, "source.clock = 'sundial'"),
    "unknown": ({"prot": 1}, "source.prot = 1: unknown key; did you mean port?"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_before_anything_starts(what: str) -> None:
    settings, said = WRONG[what]
    with pytest.raises(ConfigError) as caught:
        Far(5604, **settings)
    assert said in str(caught.value)
