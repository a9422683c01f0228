"""The golden runs: what an earlier version recorded, this one must make again to the bit, on any machine.

A change that is meant to change results stores them anew (verify/tree/golden.py) and says why, and by how much.
"""

import json
import os
import platform
import re
import subprocess
import sys

import numpy as np
import pytest

from sim_service import step_record
from sim_service.command_record import PARAMETER, PAUSE, RESUME
from sync.record import open_run
from verify import ROOT
from verify.tree.golden import DRIVES, GOLDEN, MOST_BYTES, NAMES, replay

REPLAYED = "import json; from verify.tree.golden import NAMES, replay; print(json.dumps({n: replay(n) for n in NAMES}))"
OTHER_KERNELS = {"aarch64": ("CORTEXA53", "ARMV8"), "x86_64": ("Prescott", "Sandybridge")}  # every processor has them


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_run_replays_to_the_bit(name: str) -> None:
    found = replay(name)
    assert found["identical"], found
    assert found["parameters"] == "recorded"


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_made_into_the_recorded_words(name: str) -> None:
    assert replay(name)["parameters_differ"] == 0


@pytest.mark.drill
@pytest.mark.slow
def test_another_blas_kernel_changes_nothing() -> None:
    here = replay("single_track")["blas"]
    kernels = [k for k in OTHER_KERNELS.get(platform.machine(), ()) if not here.lower().endswith(k.lower())]
    if "openblas" not in here.lower() or not kernels:
        pytest.skip(f"no other kernel of {here} is known")
    done = subprocess.run(
        [sys.executable, "-c", REPLAYED],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_CORETYPE": kernels[0]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)
    assert set(results) == set(NAMES)
    for name, found in results.items():
        assert found["blas"] != here
        assert found["identical"] and found["parameters_differ"] == 0, (name, found)


def test_golden_runs_hold_what_they_are_for() -> None:
    runs = {name: open_run(GOLDEN / f"{name}.mcap") for name in NAMES}
    assert all(run.whole and run.json("parameters.json").get("made") for name, run in runs.items() if name in DRIVES)
    kinds = runs["lane_change"].topics["/command"].blocks["kind"].tolist()
    assert kinds.count(PARAMETER) >= 4 and PAUSE in kinds and RESUME in kinds
    assert runs["lane_change"].json("config.json")["sim"]["files"]["road"]
    assert len(np.unique(runs["daq_killed"].need("/step").blocks["input_epoch"])) >= 2
    status = runs["stale"].need("/step").blocks["status"] & step_record.STALE
    assert status.any() and not status[-1]
    for name in ("town", "lane_change", "single_track"):
        assert np.abs(runs[name].need("/step").blocks["ay"]).max() > 1.0, name


def test_golden_runs_are_small_and_name_no_machine() -> None:
    files = sorted(GOLDEN.glob("*.mcap"))
    assert [file.stem for file in files] == sorted(NAMES)
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    secret = re.compile(rb"/(home|root|tmp|work|Users|dev/shm)/|hostname|\btoken\b\"?: ?\"[^\"]")
    for file in files:
        run = open_run(file)
        texts = [*run.attachments.values(), *(f"{k}={v}".encode() for k, v in {**run.start, **(run.end or {})}.items())]
        assert not run.notices
        for text in texts:
            assert not secret.search(text), file
