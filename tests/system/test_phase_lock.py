"""Locked and free steps beside each other, with two crystals that drift apart."""

import signal
from collections.abc import Callable

import numpy as np
import pytest

from tests.ports import free_port
from tests.system.conftest import DRIVE, Program, leftovers, ring_of, wait_for_steps

Start = Callable[..., Program]
pytestmark = pytest.mark.alone
# ten times the drift of two real crystals, and a start 20 ms late: a second here is ten of theirs
CRYSTAL = ("--set", "source.clock_ppm=1000.0", "--set", "source.start_offset_ms=20.0")


def test_locked_steps_follow_the_crystal_of_the_daq(drive: Start, name: str) -> None:
    run = drive("--seconds", "8", "--json", "--set", "sim.phase=locked", *CRYSTAL)
    ring = ring_of(name, "sim")
    assert run.end() == 0, run.said
    steps, _, lost = ring.since(0, 8192)
    ring.close()
    locked = run.json()
    assert lost == 0 and len(steps) == locked["steps"] and locked["balance"]["closes"]
    settled = steps[len(steps) // 4 : -1]  # the very last step drains what is left
    # over seconds, for a host that stands still for 10 ms moves any single step
    steps_long = (settled["t_ns"][-1] - settled["t_ns"][0]) / 5_000_000
    assert (steps_long / (len(settled) - 1 + locked["skipped"]) - 1) * 1e6 == pytest.approx(1000, abs=300)
    strides = np.diff(settled["input_seq"])
    print(f"{(strides != 5).sum()} of {len(strides)} strides are not 5, {locked['waited_steps']} steps waited")
    assert np.abs(strides.sum() - 5 * len(strides)) <= 2
    assert locked["locked_steps"] > 0.3 * locked["steps"]


def test_locked_steps_use_newer_blocks_than_free_ones_beside_them(start: Start, name: str) -> None:
    """One DAQ, two simulators on its blocks at the same time: whatever the machine does meanwhile, it does to both."""
    ports = [free_port() for _ in range(3)]
    common = (str(DRIVE), "--set", "transport.kind=tcp", "--set", f"transport.daq_port={ports[0]}")
    daq = start("daq_service", *common, "--set", f"name={name}", *CRYSTAL)
    sims, rings = {}, {}
    for mode, port in zip(("free", "locked"), ports[1:], strict=True):
        settings = (f"name={name}_{mode}", f"sim.phase={mode}", f"transport.sim_port={port}")
        sims[mode] = start("sim_service", *common, *(word for each in settings for word in ("--set", each)))
    for mode in sims:
        rings[mode] = ring_of(f"{name}_{mode}", "sim")
    begun = {mode: ring.head for mode, ring in rings.items()}
    for mode, ring in rings.items():
        wait_for_steps(ring, begun[mode] + 1600)
    steps = {mode: ring.since(max(ring.head - 1400, 0), 1400)[0] for mode, ring in rings.items()}
    for program in (*sims.values(), daq):
        program.signal(signal.SIGINT)
        assert program.end() == 0, program.said
    for ring in rings.values():
        ring.close()
    assert [left for mode in sims for left in leftovers(f"{name}_{mode}")] == []
    # what both did at the same time
    first = max(taken["started_ns"][0] for taken in steps.values())
    last = min(taken["started_ns"][-1] for taken in steps.values())
    ages = {}
    for mode, taken in steps.items():
        both = (taken["started_ns"] >= first) & (taken["started_ns"] <= last)
        assert both.sum() > 500, mode
        ages[mode] = taken["input_age_ns"][both] / 1e3
    print({mode: f"p50 {np.median(found):.0f} us" for mode, found in ages.items()})
    # free: 1000 ppm are a whole sampling period a second, so that every age comes by
    assert np.percentile(ages["free"], 95) - np.percentile(ages["free"], 5) > 700
    assert np.median(ages["locked"]) < np.median(ages["free"])
