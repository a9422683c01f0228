"""A car and its twin: the truth runs beside as a run of its own, its sensors are what the twin's observer sees."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.record import open_run
from tandem.records.inspect.info import info_of
from tandem.records.replay import Options, replay_run
from tests.system.conftest import ROOT, Program, leftovers, ring_of, tandem, until, wait_for_steps

TWIN = ROOT / "configs" / "twin.toml"
AHEAD = ("--set", 'include=["fragments/twin_lane_change.toml"]', "--set", "look_ahead.rate_hz=2")


def begin(start: Callable[..., Program], name: str, tmp_path: Path, *more: str) -> Program:
    return start(
        "tandem", "drive", str(TWIN), "--json", "--runs", str(tmp_path / "runs"), "--set", f"name={name}", "--set",
        "view.enabled=false", *more,
    )  # fmt: skip


@pytest.mark.alone  # two filters in real time leave little to others, and a look ahead has what all others leave
def test_a_twin_finds_the_car_through_its_sensors_looks_ahead_and_both_runs_are_replayed(
    start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    run = begin(start, name, tmp_path, "--seconds", "0", "--set", "source.settle_s=1.0", *AHEAD)
    predictions, steps = ring_of(name, "look_ahead"), ring_of(name, "sim")
    wait_for_steps(steps, 600)
    until(lambda: predictions.head > 0, lambda: run.said)  # it has what the loops leave
    predictions.close()
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    figures = run.json()
    assert figures["balance"]["closes"] and figures["record"]["whole"]
    truth = figures["truth"]
    assert truth["compared"] + truth["not_compared"] == figures["steps"] and truth["compared"] > 0
    assert truth["readings_used"] > truth["compared"] and truth["readings_late"] > 0
    # how near it comes is for `python -m verify observers`: a machine that has other things to do leaves steps out
    assert all(np.isfinite(truth["watched"][of]["outside"]) for of in ("x", "vx"))
    assert truth["estimated"]["grip"]["truth"] == 0.8
    folder = open_run(tmp_path / "runs").path.parent
    assert info_of(folder)["truth"] == truth
    for each in (folder, folder / "truth"):
        again = replay_run(each, Options(predictions=5)).figures
        assert again["identical"], again
        if each is folder:  # from the estimate
            assert figures["look_ahead"]["predictions"]["held"] > 0
            assert again["look_ahead"]["compared"] > 0 and again["look_ahead"]["differing"] == 0
    # a late reading goes with its age through the blocks
    ages = open_run(folder).topics["/daq"].blocks["gnss_position_x_age_us"]
    assert ages.max() == 4_000_000_000 and 150_000 <= ages.min() < 160_000
    assert np.all(open_run(folder / "truth").topics["/step"].blocks["age_imu"] >= 0.0)
    assert leftovers(f"{name}_truth") == []


@pytest.mark.drill
def test_a_truth_that_is_killed_ends_the_run_which_says_so(
    start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    run = begin(start, name, tmp_path, "--seconds", "0")
    until(lambda: list(Path("/dev/shm").glob(f"tandem.{name}_truth.sim.*")), lambda: run.said)
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    car = ring_of(f"{name}_truth", "sim")
    os.kill(car.writer_pid, signal.SIGKILL)
    assert run.end() == 1, run.said
    steps.close()
    car.close()
    assert "the truth ended with exit code" in run.said and "the simulator was killed by SIGKILL" in run.said
    figures = run.json()
    assert figures["ended"].startswith("the truth ended") and figures["record"]["whole"]
    assert leftovers(f"{name}_truth") == []


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("source.truth=nowhere.toml", "nowhere.toml"),
        ("sim.step_ms=10", "sim.step_ms = 10: must be 5, which observers/buggy_live.toml is made for"),
    ],
)
def test_a_twin_that_cannot_be_is_refused_before_anything_starts(
    name: str, tmp_path: Path, setting: str, why: str
) -> None:
    settings = (f"name={name}", "view.enabled=false", setting)
    words = [word for each in settings for word in ("--set", each)]
    run = tandem("drive", str(TWIN), "--seconds", "1", "--runs", str(tmp_path / "runs"), *words)
    assert run.code == 2 and why in " ".join(run.said.split()), run.said
    assert not list((tmp_path / "runs").glob("*"))
