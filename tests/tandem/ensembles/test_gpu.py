"""`tandem sweep --gpu` and batches on a GPU, as far as they go without one: the program, compiled for this processor,
steps the copies, in memory that DLPack lends as the device's would be lent."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tandem
from sync.errors import ConfigError
from tandem.ensembles import gpu_runs
from tandem.ensembles.gpu import device, dlpack
from tandem.ensembles.gpu.packed import pack_machine
from tandem.ensembles.sweep import prepare, sweep
from tandem.ensembles.work import worker_of
from tandem.library.gpu_batch import GpuBatch, Shared
from tests.tandem.ensembles.host_program import HostProgram, program_of

pytest.importorskip("nvidia", reason="the extra gpu is not installed")
ROOT = Path(__file__).resolve().parents[3]
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
        self._states, self._outputs, self._done = self._program.advance(
            self._states, self._inputs, self._params, h, 1, self._bound
        )
        if self._stops and self._steps % 2:
            self._done[0], self._states[0], self._outputs[0] = 0, before, 0.0

    def outputs(self) -> np.ndarray:
        return self._outputs

    def steps_done(self) -> np.ndarray:
        return self._done


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> HostProgram:
    folder = tmp_path_factory.mktemp("program")
    job = prepare(STUDY).job
    (folder / "machine.packed").write_bytes(pack_machine(job.sources, {}))
    text, made = program_of(folder / "machine.packed", folder)
    assert ".target sm_90" in text
    return made


@pytest.mark.parametrize("stops", [False, True])
def test_rows_are_those_of_the_cpu(program: HostProgram, tmp_path: Path, stops: bool) -> None:
    expected = sweep(STUDY, tmp_path).table
    prepared = prepare(STUDY)
    items = [prepared.item(k) for k in range(10)]
    worker = worker_of(prepared.job)
    gpu_runs.check(worker, "study")
    rows = gpu_runs.run_chunk(
        lambda *given: HostCopies(program, worker.machine.stepping.bound, *given, stops=stops), worker, items
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


class HostVector:
    def __init__(self, values: np.ndarray):
        self._values = np.ascontiguousarray(values)
        self.shape, self.on = self._values.shape, (dlpack.CPU, 0)

    def put(self, values: np.ndarray) -> None:
        self._values[:] = values

    def put_row(self, row: int, values: np.ndarray) -> None:
        self._values[row] = values

    def get(self) -> np.ndarray:
        return self._values.copy()

    def capsule(self, stream: int | None, versioned: bool) -> Any:
        return dlpack.capsule(self._values.ctypes.data, self.shape, self._values.dtype, self.on, self, versioned)


class HostDevice:
    def use(self) -> None: ...

    def wait(self) -> None: ...

    def vector(self, values: np.ndarray) -> HostVector:
        return HostVector(values)


class Launched:
    """The program as Program of device.py is launched; a copy of `refuses` makes no step here."""

    def __init__(self, program: HostProgram):
        self._program, self.refuses = program, np.zeros(0, np.int64)

    def launch(self, vectors: Any, count: int, h: float, steps: int, bound: float, threads: int) -> None:
        states, inputs, params, outputs, made = vectors
        before = states.get()
        after, shown, done = self._program.advance(before.T, inputs.get().T, params.get().T, h, steps, bound)
        after[self.refuses], done[self.refuses] = before.T[self.refuses], 0
        whole = done == steps
        states.put(after.T)
        made.put(done)
        outputs.put(np.where(whole, shown.T, outputs.get()))


def a_batch(program: HostProgram, copies: int) -> tuple[GpuBatch, Launched]:
    launched = Launched(program)
    return GpuBatch(tandem.load_machine("mass_spring"), copies, 1e-3, HostDevice(), launched), launched


def test_copies_make_the_steps_of_the_cpus_batch_whoever_makes_them(program: HostProgram) -> None:
    mass = np.array([0.5, 0.7, 0.9, 1.1])
    many, launched = a_batch(program, 4)
    same = tandem.batch("mass_spring", 4, {"mass": mass}, step_s=1e-3)
    many.set_parameters(mass=mass)
    many.reset()
    handle = np.from_dlpack(many.inputs)  # type: ignore[arg-type]
    seen = np.from_dlpack(many.outputs)  # type: ignore[arg-type]
    assert handle.shape == (4, 1) and seen.shape == many.outputs.shape == same.outputs.shape
    for k in range(30):
        launched.refuses = np.arange(4)[k % 3 :: 3]  # some steps are made by the CPU
        steps = 1 + k % 2
        handle[:, 0] = 0.01 * np.arange(4) + 1e-3 * k  # written where the program reads
        assert many.step(steps=steps) is many.outputs
        same.step(handle.copy(), steps=steps)
        np.testing.assert_allclose(seen, same.outputs, rtol=1e-13, atol=0.0)
    np.testing.assert_allclose(many.states.numpy(), same.states, rtol=1e-13, atol=0.0)
    assert many.by_cpu == sum((1 + k % 2) * len(range(4)[k % 3 :: 3]) for k in range(30))


def test_a_copy_that_diverges_stays_where_it_was_and_begins_anew_when_told(program: HostProgram) -> None:
    many, _ = a_batch(program, 3)
    many.step({"handle": 0.05})
    before = many.states.numpy()
    many.step({"handle": np.array([0.05, 1e15, 0.05])})
    assert many.diverged.tolist() == [0, 1, 0] and (many.states.numpy()[1] == before[1]).all()
    many.reset(many.diverged == 1)
    assert many.diverged[1] == 0 and (many.states.numpy()[1] == 0.0).all() and (many.states.numpy()[0] != 0.0).any()


def test_what_is_wrong_is_refused_by_name(program: HostProgram) -> None:
    many, _ = a_batch(program, 3)
    with pytest.raises(KeyError, match="hande: no input of mass_spring; did you mean handle"):
        many.step({"hande": 1.0})
    with pytest.raises(ConfigError, match=r"shape \(2, 1\); \(3, 1\) is expected"):
        many.step(np.zeros((2, 1)))
    with pytest.raises(ConfigError, match=r"from_dlpack\(batch.inputs\)"):
        many.step(object())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="must be one of the CPU"):
        tandem.vector_env(many, {"handle": (0.0, 1.0)}, lambda b: b.diverged)  # type: ignore[arg-type]
    if (why := device.available()) is not None:
        with pytest.raises(ConfigError, match=r"gpu: .*CUDA"):
            tandem.batch("mass_spring", 4, gpu=True)
        assert "CUDA" in why


@pytest.mark.parametrize("versioned", [False, True])
def test_memory_that_is_lent_lives_until_it_is_given_back(versioned: bool) -> None:
    class Lender:
        def __init__(self) -> None:
            self.vector = HostVector(np.arange(6.0).reshape(2, 3))

        def __dlpack__(self, **_: Any) -> Any:
            return self.vector.capsule(None, versioned)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.vector.on

    lender = Lender()
    vector = weakref.ref(lender.vector)
    taken = np.from_dlpack(lender)  # type: ignore[arg-type]
    del lender
    gc.collect()
    assert taken.T.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and taken.strides == (8, 24)
    assert taken.flags.writeable == versioned  # the old capsule cannot say that it may be
    owner = vector()
    assert owner is not None  # nobody else has it
    owner.put_row(1, np.array([3.0, 4.0, 7.0]))
    assert taken[2, 1] == 7.0
    del owner
    del taken
    gc.collect()
    assert vector() is None


def test_memory_is_lent_where_it_is_or_not_at_all() -> None:
    shared = Shared(HostVector(np.zeros((2, 3))))
    with pytest.raises(BufferError, match="lent where it is"):
        np.from_dlpack(shared, copy=True)  # type: ignore[arg-type]


def test_memory_that_numpy_does_not_take_is_refused_in_its_words() -> None:
    class OnDevice:
        def __dlpack__(self, **_: Any) -> Any:
            return dlpack.capsule(8, (2, 3), np.dtype(np.float64), (dlpack.CUDA, 0), self, True)

        def __dlpack_device__(self) -> tuple[int, int]:
            return dlpack.CUDA, 0

    with pytest.raises((BufferError, RuntimeError), match="Unsupported device"):
        np.from_dlpack(OnDevice())  # type: ignore[arg-type]
