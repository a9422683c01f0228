"""`tandem sweep --gpu`, as far as it goes without one: its program, compiled for this processor, steps the copies."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.gpu_code import device
from sim_service.gpu_code.host import HostProgram
from sim_service.gpu_code.packed import pack_machine, unpack_texts
from sync.errors import ConfigError
from tandem.ensembles import gpu_runs
from tandem.ensembles.sweep import prepare, sweep
from tandem.ensembles.work import worker_of

pytest.importorskip("nvidia", reason="the extra gpu is not installed")
ROOT = Path(__file__).resolve().parents[2]
STUDY: dict[str, Any] = {
    "name": "pull",
    "machine": "mass_spring",
    "step_ms": 1.0,
    "manoeuvre": {
        "kind": "inputs",
        "seconds": 0.2,
        "inputs": {"handle": {"points": [[0.0, 0.0], [0.1, 0.05]]}},
    },
    "parameters": {"stiffness": {"low": 100.0, "high": 400.0, "points": 5}, "damping": {"values": [1.0, 4.0]}},
    "figures": {
        "peak": {"kind": "peak", "channel": "position"},
        "pulled": {"kind": "last", "channel": "handle"},
    },
}


class HostCopies:
    """Copies stepped by the program as it is for this processor; if asked for, every second step of the first is one
    that its method does not make."""

    def __init__(self, program: HostProgram, bound: float, *given: np.ndarray, stops: bool = False):
        self._program, self._bound, self._stops = program, bound, stops
        self._states, self._inputs, self._params = given
        self._steps = 0

    def put(self, states: np.ndarray | None = None, inputs: np.ndarray | None = None) -> None:
        self._states = self._states if states is None else states
        self._inputs = self._inputs if inputs is None else inputs

    def states(self) -> np.ndarray:
        return self._states.copy()

    def step(self, h: float) -> None:
        self._steps += 1
        before = self._states[0].copy()
        self._states, self._outputs, self._made = self._program.advance(
            self._states, self._inputs, self._params, h, 1, self._bound
        )
        if self._stops and self._steps % 2:
            self._made[0], self._states[0], self._outputs[0] = 0, before, 0.0

    def outputs(self) -> np.ndarray:
        return self._outputs

    def made(self) -> np.ndarray:
        return self._made


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> HostProgram:
    folder = tmp_path_factory.mktemp("program")
    job = prepare(STUDY).job
    (folder / "machine.packed").write_bytes(pack_machine(job.sources, {}))
    command = [sys.executable, "-m", "sim_service.gpu_code.compile", folder / "machine.packed", folder / "p.ptx"]
    subprocess.run([*command, "--keep", folder / "texts"], check=True, cwd=ROOT)
    assert ".target sm_90" in (folder / "p.ptx").read_text()
    return HostProgram(**unpack_texts((folder / "texts").read_bytes()))


@pytest.mark.parametrize("stops", [False, True])
def test_rows_are_those_of_the_cpu(program: HostProgram, tmp_path: Path, stops: bool) -> None:
    expected = sweep(STUDY, tmp_path).table
    prepared = prepare(STUDY)
    items = [prepared.item(k) for k in range(10)]
    worker = worker_of(prepared.job)
    gpu_runs.check(worker, "study")
    rows = gpu_runs.run_chunk(
        lambda *given: HostCopies(program, worker.machine.bound, *given, stops=stops), worker, items
    )
    assert [row["key"] for row in rows] == [item[0] for item in items] and all(row["status"] == "ok" for row in rows)
    for name in ("peak", "pulled"):
        np.testing.assert_allclose([row["figures"][name] for row in rows], expected[name], rtol=1e-12)


def test_where_there_is_no_gpu_it_is_said_before_anything_is_made(tmp_path: Path) -> None:
    if device.available() is None:
        pytest.skip("there is one")
    with pytest.raises(ConfigError, match=r"--gpu: .*CUDA"):
        sweep(STUDY, tmp_path / "none", gpu=True)
    assert not (tmp_path / "none").exists()


def test_a_study_that_a_gpu_does_not_serve_is_refused() -> None:
    study = {**STUDY, "machine": str(ROOT / "configs" / "vehicles" / "buggy_single_track.toml"), "step_ms": 5.0,
             "manoeuvre": {"kind": "inputs", "seconds": 0.1}, "parameters": {"mass": {"values": [900.0]}},
             "figures": {"drive": {"kind": "last", "channel": "drive_torque"}}}  # fmt: skip
    job = prepare(study).job
    with pytest.raises(ConfigError, match="drive_torque: an input that the machine computes"):
        gpu_runs.check(worker_of(job), "study")
