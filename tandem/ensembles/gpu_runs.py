"""Runs of a study on a GPU: the copies of a chunk are stepped together, row by row of their inputs.

Served are manoeuvres that are a table of inputs, with parameters that do not shape the machine. The program of the
machine (tandem/ensembles/gpu) is compiled in a process of its own and kept beside the compiled kernels. Results are
the CPU's but for fused multiplications and additions and the last bits of sine, cosine and the like (docs/ensembles.md
has what that makes). A step that the machine's method does not make on a GPU
is made by the CPU, from the same state; a run that diverges is made by the CPU as a whole.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.registry import MachineFiles
from sync.child_python import python_command, python_environment
from sync.compile import dependencies
from sync.errors import ConfigError, TandemError
from tandem.ensembles.gpu import device
from tandem.ensembles.gpu.packed import pack_machine
from tandem.ensembles.manoeuvres import Log
from tandem.ensembles.open_loop import OpenLoop
from tandem.ensembles.work import Item, Job, Row, Worker, worker_of

_MEMORY = 1e9  # bytes of logged channels of a chunk
_MOST = 16_384  # copies of a chunk
THREADS = 64


class Stepper(Protocol):
    """Copies that are stepped together (device.Copies, with its program)."""

    def put(self, states: np.ndarray | None = None, inputs: np.ndarray | None = None) -> None: ...

    def step(self, h: float) -> None: ...

    def states(self) -> np.ndarray: ...

    def outputs(self) -> np.ndarray: ...

    def steps_done(self) -> np.ndarray: ...


Start = Callable[[np.ndarray, np.ndarray, np.ndarray], Stepper]  # states, inputs, params


def check(worker: Worker, where: str) -> None:
    """Raises ConfigError where a study cannot be run so."""
    if not worker.live or not isinstance(worker.manoeuvre, OpenLoop):
        raise ConfigError(
            f"{where}: --gpu serves manoeuvre.kind inputs and record, and parameters that are live; without it this"
            " study runs on the CPU"
        )
    computed = [q.name for q in worker.machine.inputs if q.optional]
    if wrong := [name for name in worker.manoeuvre.channels if name in computed]:
        raise ConfigError(f"{where}: {wrong[0]}: an input that the machine computes is not fetched from a GPU")


def program_of(sources: MachineFiles, changed: dict[str, float]) -> bytes:
    """PTX of a machine with these parameters; compiled once for its files and these sources."""
    packed = pack_machine(sources, changed)
    key = hashlib.sha256(dependencies.fingerprint().encode() + packed).hexdigest()[:32]
    dependencies.own_cache()
    folder = dependencies.cache_directory() / "gpu"
    folder.mkdir(mode=0o700, exist_ok=True)
    stored = folder / f"{key}.ptx"
    if not stored.exists():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            source, target = Path(place) / "machine.packed", Path(place) / "program.ptx"
            source.write_bytes(packed)
            command = python_command("-m", "tandem.ensembles.gpu.compile", str(source), str(target))
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=python_environment())
            if done.returncode:
                raise TandemError(f"gpu: the machine does not compile for a GPU: {done.stderr.strip()[-500:]}")
            os.replace(target, stored)
    return stored.read_bytes()


def on_device(worker: Worker, image: bytes) -> Start:
    gpu = device.Device()
    program = device.Program(gpu, image)

    class Copies:
        def __init__(self, states: np.ndarray, inputs: np.ndarray, params: np.ndarray):
            machine = worker.machine
            self._copies = device.Copies(gpu, states, inputs, params, len(machine.outputs), machine.stepping.bound)
            self.states, self.outputs = self._copies.states, self._copies.outputs
            self.put, self.steps_done = self._copies.put, self._copies.steps_done

        def step(self, h: float) -> None:
            self._copies.step(program, h, 1, THREADS)

        def __del__(self) -> None:
            self._copies.free()

    return Copies


def chunk_size(worker: Worker) -> int:
    longest = max(len(rows) for rows in worker.manoeuvre.rows)  # type: ignore[attr-defined]
    channels = max(len(worker.manoeuvre.channels), 1)  # type: ignore[attr-defined]
    return int(np.clip(_MEMORY // (8 * longest * channels), 1, _MOST))


def run_chunk(start: Start, worker: Worker, items: list[Item]) -> list[Row]:
    """Rows of these runs, in their order."""
    found: dict[str, Row] = {}
    for case in sorted({item[1] for item in items}):
        some = [item for item in items if item[1] == case]
        for item, log in zip(some, _logs(start, worker, case, some), strict=True):
            found[item[0]] = worker.row(item) if log is None else worker.finished(item[0], log)
    return [found[item[0]] for item in items]


def _logs(start: Start, worker: Worker, case: int, items: list[Item]) -> list[Log | None]:
    """What each run left; nothing of one that diverges."""
    machine, manoeuvre = worker.machine, worker.manoeuvre
    assert isinstance(manoeuvre, OpenLoop)
    params = np.array([worker.params_of(values) for _, _, values in items])
    states, work = np.zeros((len(items), len(machine.states))), np.zeros(machine.work_size)
    for state, own in zip(states, params, strict=True):
        work[:] = 0.0
        machine.initial(state, own, machine.tables, work)
    rows, places, h = manoeuvre.rows[case], manoeuvre.places, manoeuvre.step_s
    log, whole = np.zeros((len(rows), len(places), len(items))), np.ones(len(items), bool)
    copies = start(states, np.tile(rows[0], (len(items), 1)), params)
    count = len(machine.outputs)
    of_outputs = places < count
    for k, row in enumerate(rows):
        if k and not np.array_equal(row, rows[k - 1], equal_nan=True):
            copies.put(inputs=np.tile(row, (len(items), 1)))
        copies.step(h)
        outputs = copies.outputs()
        left = np.flatnonzero(whole & (copies.steps_done() != 1))
        if len(left):
            whole[left] = _step_here(machine, copies, left, row, params, h, outputs)
        log[k, of_outputs] = outputs.T[places[of_outputs]]
        log[k, ~of_outputs] = row[places[~of_outputs] - count, None]
    return [
        Log({name: log[:, i, n].copy() for i, name in enumerate(manoeuvre.channels)}, h, len(rows)) if ok else None
        for n, ok in enumerate(whole)
    ]


def _step_here(
    machine: Machine, copies: Stepper, which: np.ndarray, row: np.ndarray, params: np.ndarray, h: float,
    outputs: np.ndarray,
) -> list[bool]:  # fmt: skip
    """A step of these copies by the CPU; whether each stays within bounds."""
    states, work, sound = copies.states(), np.zeros(machine.work_size), []
    for n in which:
        work[:] = 0.0
        state = states[n].copy()
        try:
            machine.step(state, row.copy(), params[n], machine.tables, work, h)
        except Exception:  # a division by zero: it has diverged
            state[:] = np.nan
        out = work[: outputs.shape[1]]
        sound.append(
            bool((np.abs(state) <= machine.stepping.bound).all() and (np.abs(out) <= machine.stepping.bound).all())
        )
        if sound[-1]:
            states[n], outputs[n] = state, out
    copies.put(states=states)
    return sound


def run_all(
    job: Job, todo: list[Item], sink: Callable[[list[Row]], None], start: Callable[[Worker], Start] | None = None
) -> None:
    """All of these runs. `start` makes the copies (of a GPU, unless given)."""
    if start is None and (why := device.available()):
        raise ConfigError(f"--gpu: {why}")
    worker = worker_of(job)
    check(worker, job.where)
    begin: Any = start(worker) if start else on_device(worker, program_of(job.sources, worker.common))
    size = chunk_size(worker)
    for first in range(0, len(todo), size):
        sink(run_chunk(begin, worker, todo[first : first + size]))
