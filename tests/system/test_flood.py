"""A short flood at every door of a drive: counted, of no cost in memory, and the run is none the worse."""

import signal
import struct
from collections.abc import Callable
from pathlib import Path

from sync.config.config import Config, load
from tandem.records.replay import Options, replay_run
from tests.ports import free_port
from tests.sync.zmtp import Where, ask, dial, frame
from tests.system.conftest import DRIVE, PATIENCE_S, Program, ring_of, wait_for_steps

MESSAGES, TOO_LONG = 2000, 50


def _resident_mb(config: Config) -> dict[str, float]:
    from sync.ring.ring import RingReader

    found = {}
    for role in ("daq", "sim"):
        ring = RingReader(config.ring(role), timeout_s=PATIENCE_S)
        text = Path(f"/proc/{ring.writer_pid}/status").read_text()
        found[role] = int(text.partition("VmRSS:")[2].split()[0]) / 1024
        ring.close()
    return found


def _subscribe(where: Where) -> bool:
    """Topics without end; whether we were cut off."""
    try:
        with dial(where, b"SUB") as peer:
            for k in range(100 * MESSAGES):
                peer.sendall(frame(b"\1%0200d" % k))
            peer.settimeout(PATIENCE_S)  # it may be looked at only now and then
            while peer.recv(1 << 16):
                pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def _too_long(where: Where, kind: bytes) -> None:
    for _ in range(TOO_LONG):
        with dial(where, kind) as peer:
            peer.sendall(bytes([2]) + struct.pack(">Q", 1 << 30) + bytes(100))
            try:
                while peer.recv(1 << 16):
                    pass
            except OSError:
                pass


def test_a_flood_is_counted_and_hurts_nobody(drive: Callable[..., Program], name: str, tmp_path: Path) -> None:
    ports = {key: free_port() for key in ("daq_port", "sim_port", "clock_port", "every_port")}
    settings = ["transport.kind=tcp", "transport.clock=estimate", *(f"transport.{k}={v}" for k, v in ports.items())]
    config = load(DRIVE, [f"name={name}", *settings])
    run = drive("--seconds", "0", "--json", *(word for setting in settings for word in ("--set", setting)))
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 1)
    steps.close()
    before = _resident_mb(config)
    here = {key: ("127.0.0.1", port) for key, port in ports.items()}
    assert ask(here["clock_port"], MESSAGES) == ask(str(config.socket("command")), MESSAGES) == MESSAGES
    assert all(_subscribe(here[key]) for key in ("daq_port", "every_port", "sim_port"))
    _too_long(here["daq_port"], b"SUB")
    _too_long(here["clock_port"], b"REQ")
    after = _resident_mb(config)
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    result = run.json()
    daq, sim = result["doors"]["daq"], result["doors"]["sim"]
    assert daq["clock"]["malformed"] == MESSAGES and sim["commands"]["refused"] == MESSAGES
    assert daq["cut"] >= 2 + 2 * TOO_LONG and sim["cut"] >= 1
    for role in before:
        assert after[role] - before[role] < 100, (before, after)
    assert result["balance"]["closes"] and result["balance"]["lost"] == 0
    assert result["source_lost"] == 0 and result["record"]["whole"]
    assert replay_run(tmp_path / "runs", Options()).figures["identical"] is True
