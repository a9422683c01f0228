"""Locked and free steps beside each other, with two crystals that drift apart."""

from collections.abc import Callable

import numpy as np
import pytest

from sync.config import load
from sync.ring import RingReader
from tests.system.conftest import DRIVE, Program

Start = Callable[..., Program]
# ten times the drift of two real crystals, and a start 20 ms late: a second here is ten of theirs
CRYSTAL = ("--set", "source.clock_ppm=1000.0", "--set", "source.start_offset_ms=20.0")


def _drive(drive: Start, name: str, mode: str) -> tuple[dict, np.ndarray]:
    run = drive("--seconds", "8", "--json", "--set", f"sim.phase={mode}", *CRYSTAL)
    ring = RingReader(load(DRIVE, [f"name={name}"]).ring("sim"), timeout_s=120)
    assert run.end() == 0, run.said
    steps, _, lost = ring.since(0, 8192)
    ring.close()
    assert lost == 0
    result = run.json()
    assert len(steps) == result["steps"]
    return result, steps


def test_locked_steps_hold_their_phase_where_free_ones_slide(drive: Start, name: str) -> None:
    free, free_steps = _drive(drive, name, "free")
    locked, locked_steps = _drive(drive, name, "locked")
    # free: 1000 ppm are a whole sampling period a second, so that every age comes by
    ages = free_steps["input_age_ns"] / 1e3
    assert np.percentile(ages, 95) - np.percentile(ages, 5) > 700
    # locked: the model's time follows the DAQ's crystal, five blocks a step
    settled = locked_steps[len(locked_steps) // 4 : -1]  # the very last step drains what is left
    # over seconds, for a host that stands still for 10 ms moves any single step
    steps_long = (settled["t_ns"][-1] - settled["t_ns"][0]) / 5_000_000
    assert (steps_long / (len(settled) - 1 + locked["skipped"]) - 1) * 1e6 == pytest.approx(1000, abs=300)
    strides = np.diff(settled["input_seq"])
    print(f"{(strides != 5).sum()} of {len(strides)} strides are not 5, {locked['waited_steps']} steps waited")
    assert np.abs(strides.sum() - 5 * len(strides)) <= 2
    assert locked["balance"]["closes"] and free["balance"]["closes"]
    assert locked["locked_steps"] > 0.3 * locked["steps"]
    print(f"p50 age: free {free['age_us']['p50']} us, locked {locked['age_us']['p50']} us")
    assert locked["age_us"]["p50"] < free["age_us"]["p50"]


@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_the_hops_of_every_step_add_up_to_its_age(drive: Start, name: str, transport: str) -> None:
    run = drive("--seconds", "2", "--json", "--transport", transport)
    ring = RingReader(load(DRIVE, [f"name={name}"]).ring("sim"), timeout_s=120)
    assert run.end() == 0, run.said
    steps, _, _ = ring.since(0, 8192)
    ring.close()
    sampled, pushed, sent, received = (
        steps[f"input_{stamp}"] for stamp in ("t_ns", "pushed_ns", "sent_ns", "received_ns")
    )
    if transport == "shm":
        assert not sent.any() and not received.any()
        hops = [pushed - sampled, steps["taken_ns"] - pushed]
    else:
        hops = [pushed - sampled, sent - pushed, received - sent, steps["taken_ns"] - received]
    for hop in hops:
        assert (hop >= 0).all()  # nothing arrives before it was sent
    assert np.abs(sum(hops) - steps["input_age_ns"]).max() <= 1_000
    result = run.json()
    for name_, hop in zip(
        ("sensor", "wait") if transport == "shm" else ("sensor", "ring", "wire", "wait"), hops, strict=True
    ):
        assert result["hops_us"][name_]["n"] == len(steps)
        assert result["hops_us"][name_]["max"] == pytest.approx(hop.max() / 1e3, abs=0.01)
