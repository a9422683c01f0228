"""Two hosts as two network namespaces, with keys, and with clocks that disagree by seconds and drift apart."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sync.transport.keys import make_keys
from tests.system.conftest import PATIENCE_S, ROOT, Program, ring_of, wait_for_steps

OFFSET_MS, PPM = 3_000.0, 50.0
DAQ, SIM = "192.0.2.1", "192.0.2.2"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Two namespaces with a cable between them; gone afterwards."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    one, two = (f"tandem{os.getpid()}{side}" for side in "ab")
    try:
        _ip("netns", "add", one)
        _ip("netns", "add", two)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces cannot be made here: {error.stderr}")
    try:
        cable = f"t{os.getpid() % 100000}"
        _ip("link", "add", f"{cable}a", "netns", one, "type", "veth", "peer", "name", f"{cable}b", "netns", two)
        for space, end, address in ((one, f"{cable}a", DAQ), (two, f"{cable}b", SIM)):
            _ip("-n", space, "addr", "add", f"{address}/30", "dev", end)
            _ip("-n", space, "link", "set", end, "up")
            _ip("-n", space, "link", "set", "lo", "up")
        yield one, two
    finally:
        _ip("netns", "del", one)
        _ip("netns", "del", two)


def _keys(folder: Path) -> list[tuple[str, ...]]:
    """A folder a host: its own pair, and the other's public key."""
    for own in ("daq", "sim"):
        make_keys(folder / own, own)
    for own, other in (("daq", "sim"), ("sim", "daq")):
        shutil.copy(folder / other / f"{other}.key", folder / own)
    return [("--set", f"transport.keys={folder / own}") for own in ("daq", "sim")]


def test_offset_and_drift_are_recovered_within_the_printed_bound(
    hosts: tuple[str, str], start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    arguments = (str(ROOT / "configs" / "two_hosts.toml"), "--set", f"name={name}")
    closed = _keys(tmp_path)
    wrong = (f"transport.artificial_clock.offset_ms={OFFSET_MS}", f"transport.artificial_clock.ppm={PPM}")
    inside = [("ip", "netns", "exec", space) for space in hosts]
    daq = start("daq_service", "--json", *arguments, "--set", wrong[0], "--set", wrong[1], *closed[0], inside=inside[0])
    sim = start("sim_service", "--json", *arguments, *closed[1], inside=inside[1])
    sim.wait_for("the DAQ is there")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 600)
    youngest_us = steps.since(0, 8192)[0]["input_age_ns"].min() / 1e3
    steps.close()
    _knock(inside[1])
    daq.wait_for("somebody was refused")
    sim.signal(signal.SIGINT)
    assert sim.end() == 0, sim.said
    daq.signal(signal.SIGINT)
    assert daq.end() == 0, daq.said
    report = sim.json()
    clock = report["clock"]
    assert clock["mode"] == "estimate"
    true_ns = OFFSET_MS * 1e6 + PPM * 1e-6 * clock["at_ns"]
    error_us = (clock["offset_ns"] - true_ns) / 1e3
    print(f"offset error {error_us:.1f} us, bound {clock['bound_us']:.1f} us, drift {clock['drift_ppm']} ppm")
    assert abs(error_us) <= clock["bound_us"]
    assert report["steps"] >= 600
    # printed with the ages is the worst bound that any of them had
    assert 0 < clock["bound_us"] <= report["bound_us"] < 1e3 * OFFSET_MS / 10
    # read through the estimate, the ages are those of one host, not three seconds off
    assert -report["bound_us"] < youngest_us < 1e3 * OFFSET_MS / 10
    assert "each ±" in sim.said
    assert (daq.json()["refused"], report["refused"]) == (1, 0)


def _knock(inside: tuple[str, ...]) -> None:
    """Somebody without a key, at the DAQ's door."""
    script = f"import socket; socket.create_connection(('{DAQ}', 5601)).close()"
    subprocess.run([*inside, sys.executable, "-c", script], check=True, timeout=PATIENCE_S)


def test_configuration_for_two_hosts_is_complete() -> None:
    from sync.config.config import load

    config = load(ROOT / "configs" / "two_hosts.toml")
    assert config.transport.clock_mode == "estimate"
    assert config.endpoint("daq") == f"tcp://{DAQ}:5601"
    assert Path(ROOT / "configs" / config.sim.machine).exists()
