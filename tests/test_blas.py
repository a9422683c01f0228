"""BLAS has one thread in whatever begins with us: a second would spin beside the loop, and be counted in costs."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sync.actors import ROOT

SETTINGS = ("OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
BRINGS_NUMPY = {"numpy", "numba", "scipy"}
OURS = {"sync", "daq_service", "sim_service", "tandem", "tests", "verify"}
SCRIPTS = sorted((ROOT / "verify").rglob("*.py"))
PROGRAM = "import os; import {first}; import numpy; print(len(os.listdir('/proc/self/task')))"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="BLAS has one thread on one core anyway")
@pytest.mark.parametrize("first", ["tandem", "sync", "daq_service", "sim_service", "verify"])
def test_numpy_starts_no_threads_behind_a_package_of_ours(first: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    assert subprocess.check_output(command, cwd=ROOT, env=environment, text=True) == "1\n"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_script_that_is_run_by_its_path_imports_one_of_ours_before_numpy(script: Path) -> None:
    """One that is run as a module (`python -m`) has imported its package before."""
    text = script.read_text()
    if "sys.path.insert" not in text:
        return
    first = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            first += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            first.append((node.module or "").partition(".")[0])
    found = next((name for name in first if name in BRINGS_NUMPY | OURS), "")
    assert found not in BRINGS_NUMPY
