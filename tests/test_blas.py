"""BLAS has one thread in whatever begins with us: a second would spin beside the loop, and be counted in costs."""

import os
import subprocess
import sys

import pytest

from tests import NUMPY_FIRST
from tests.sync.actors import ROOT

SETTINGS = ("OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
PROGRAM = "import os; import {first}; import numpy; print(len(os.listdir('/proc/self/task')))"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="BLAS has one thread on one core anyway")
@pytest.mark.parametrize("first", ["tandem", "sync", "daq_service", "sim_service", "verify"])
def test_numpy_starts_no_threads_behind_a_package_of_ours(first: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    assert subprocess.check_output(command, cwd=ROOT, env=environment, text=True) == "1\n"


def test_nothing_imports_numpy_before_the_tests_do() -> None:
    """With a thread for each core the eigenvalues of a matrix of 73 took 120 ms of a processor, not 1."""
    assert not NUMPY_FIRST
