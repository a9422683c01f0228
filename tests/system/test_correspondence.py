"""The block each step used is the newest one that had arrived: seen from outside, on every transport."""

import json
import subprocess
import sys

import pytest

from tests.system.conftest import ROOT


@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
def test_every_step_uses_the_newest_block_that_had_arrived(transport: str) -> None:
    command = [sys.executable, "benchmarks/correspondence.py", "--seconds", "4", "--transport", transport]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (answer,) = json.loads(run.stdout)
    assert answer["kept"]
    assert answer["steps"] > 500
    assert answer["certain"] > answer["steps"] / 4  # or the check would say little
    assert answer["largest_difference_in_blocks"] == answer["largest_difference_in_counts"] == 0
