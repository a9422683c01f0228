"""Locked and free steps beside each other, with two crystals that drift apart."""

import signal
from collections.abc import Callable

import numpy as np
import pytest

from sim_service.step_record import HOLDOVER, LOCKED, SKIPPED, STALE
from sync.ring.ring import RingReader
from tests.ports import free_port
from tests.system.conftest import DRIVE, Program, leftovers, ring_of, until

Start = Callable[..., Program]
pytestmark = pytest.mark.alone
STRETCH_NS, LATE_NS = 100_000_000, 500_000
# ten times the drift of two real crystals, and a start 20 ms late: a second here is ten of theirs
CRYSTAL = ("--set", "source.clock_ppm=1000.0", "--set", "source.start_offset_ms=20.0")


def undisturbed(ring: RingReader) -> np.ndarray:
    """The longest row of steps behind the first two seconds of which none was given up or without a fresh block: a host
    that pauses ends a row."""
    steps = ring.since(max(ring.head - 4096, 0), 4096)[0]
    steps = steps[steps["step"] >= 400]
    ends = np.flatnonzero(steps["status"] & (SKIPPED | HOLDOVER | STALE))
    edges = np.concatenate([[-1], ends, [len(steps)]])
    longest = int(np.argmax(np.diff(edges)))
    return steps[edges[longest] + 1 : edges[longest + 1]]


def test_locked_steps_follow_the_crystal_of_the_daq(drive: Start, name: str) -> None:
    run = drive("--seconds", "0", "--json", "--set", "sim.phase=locked", *CRYSTAL)
    ring = ring_of(name, "sim")
    until(lambda: len(undisturbed(ring)) > 800, lambda: f"{run.said}\n{len(undisturbed(ring))} of {ring.head} in a row")
    steps = undisturbed(ring)
    ring.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    assert run.json()["balance"]["closes"]
    # over seconds, for a host that stands still for 10 ms moves any single step
    periods = (steps["t_ns"][-1] - steps["t_ns"][0]) / 5_000_000
    assert (periods / (len(steps) - 1) - 1) * 1e6 == pytest.approx(1000, abs=300)
    strides = np.diff(steps["input_seq"])
    print(f"{(strides != 5).sum()} of {len(strides)} strides are not 5")
    assert np.abs(strides.sum() - 5 * len(strides)) <= 2
    assert (steps["status"] & LOCKED != 0).sum() > 0.3 * len(steps)


@pytest.mark.drill  # it compares ages that a real machine made
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

    def ages() -> dict[str, np.ndarray]:
        """Of what both did at the same time; a host that pauses makes the ages of either, and says nothing."""
        steps = {mode: ring.since(max(ring.head - 4096, 0), 4096)[0] for mode, ring in rings.items()}
        if any(len(taken) < 400 for taken in steps.values()):
            return {mode: np.zeros(0) for mode in steps}
        first = max(taken["started_ns"][200] for taken in steps.values())
        last = min(taken["started_ns"][-1] for taken in steps.values())
        # stretches in which either loop was disturbed say nothing of the other's ages
        bad = [
            taken["t_ns"][
                (taken["status"] & (SKIPPED | HOLDOVER | STALE) != 0)
                | (taken["started_ns"] - taken["t_ns"] > LATE_NS)
                | (taken["input_age_ns"] >= 5_000_000)
            ]
            for taken in steps.values()
        ]
        disturbed = np.unique(np.concatenate(bad).astype(np.int64) // STRETCH_NS)
        found = {}
        for mode, taken in steps.items():
            both = (taken["started_ns"] >= first) & (taken["started_ns"] <= last)
            calm = ~np.isin(taken["t_ns"].astype(np.int64) // STRETCH_NS, disturbed)
            found[mode] = taken["input_age_ns"][both & calm] / 1e3
        return found

    until(lambda: min(map(len, ages().values())) > 900, "no steps on fresh blocks")
    compared = ages()
    for program in (*sims.values(), daq):
        program.signal(signal.SIGINT)
        assert program.end() == 0, program.said
    for ring in rings.values():
        ring.close()
    assert [left for mode in sims for left in leftovers(f"{name}_{mode}")] == []
    print({mode: f"p50 {np.median(found):.0f} us" for mode, found in compared.items()})
    # free: 1000 ppm are a whole sampling period a second, so that every age comes by
    assert np.percentile(compared["free"], 95) - np.percentile(compared["free"], 5) > 700
    assert np.median(compared["locked"]) < np.median(compared["free"])
