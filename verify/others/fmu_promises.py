"""The FMU of a drive: everything that is promised of it, measured and printed.

Of a mechanism, in Model Exchange: scipy integrates it through FMPy, and is compared with our own steps. Of a drive: it
drives the buggy for so long (or takes a run that was driven), makes an FMU of the machine of that run, and compares
every output of every recorded step with it. The ratio of times is that of verify/others/fmu.py.
"""

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import fmpy.fmi3
import numpy as np
from fmpy import extract, read_model_description
from fmpy.validation import validate_fmu
from scipy.integrate import DOP853

from sync.child_python import python_command, python_environment
from tandem.fmu.build import write_fmu
from tandem.fmu.platforms import HOST
from tandem.fmu.sources import load_source
from tandem.offline.model import load_machine
from tandem.records.replay import Options, replay_run
from verify.measure import Row, at_most, holds

MOST_BYTES = 1_000_000


def driven(seconds: float, runs: Path) -> Path:
    settings = ('source.manoeuvre="manoeuvres/weave.toml"', "view.enabled=false", "name=fmu_promises")
    options = [word for setting in settings for word in ("--set", setting)]
    command = python_command("-m", "tandem", "drive", "--seconds", f"{seconds:g}", "--runs", str(runs), *options)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=python_environment())
    if done.returncode:
        raise SystemExit(f"the drive ended with {done.returncode}: {done.stderr[-500:]}")
    return runs


class Slave:
    def __init__(self, file: Path, folder: Path):
        fmpy.fmi3.platform_tuple = HOST
        self.described = read_model_description(str(file))
        self.library = folder / "binaries" / HOST / "model.so"
        self._arguments: dict[str, Any] = {
            "guid": self.described.guid, "modelIdentifier": "model", "unzipDirectory": extract(str(file), str(folder))
        }  # fmt: skip
        self.at = {v.name: v.valueReference for v in self.described.modelVariables}
        self.outputs = [v.valueReference for v in self.described.modelVariables if v.causality == "output"]
        self.states = [reference for name, reference in self.at.items() if name.startswith("states.")]
        self.it = fmpy.fmi3.FMU3Slave(instanceName="it", **self._arguments)
        self.it.instantiate()
        self.it.enterInitializationMode()
        self.it.exitInitializationMode()

    def step(self, k: int, h: float, inputs: list[int], values: list[float]) -> bytes:
        self.it.setFloat64(inputs, values)
        self.it.doStep(k * h, h)
        return np.array(self.it.getFloat64(self.outputs)).tobytes()

    def state(self) -> bytes:
        return np.array(self.it.getFloat64(self.states)).tobytes()


def promises(run: Path, folder: Path) -> Iterator[Row]:
    replayed = replay_run(run, Options("exact"))
    h, columns = 1e-3 * replayed.config.sim.step_ms, replayed.columns()
    file = folder / "model.fmu"
    report = write_fmu(load_machine(run), "model", h, file, "tandem")
    problems = validate_fmu(str(file))
    fmu = Slave(file, folder / "unpacked")
    shown = subprocess.run(["nm", "-D", fmu.library], capture_output=True, text=True, check=True).stdout
    python = re.findall(r"\b(?:_?Py|NRT|numba)\w*", shown)
    names = [name for row in replayed.config.inputs.values() for name in row.to if name in fmu.at]
    inputs = [fmu.at[name] for name in names]
    rows = np.column_stack([columns[name] for name in names])
    wanted = np.ascontiguousarray(np.column_stack([columns[q.name] for q in replayed.model.outputs]))
    count, half = len(wanted), len(wanted) // 2
    saved, different = None, count
    for k in range(count):
        if k == half:
            saved = fmu.it.getFMUState()
            written = fmu.it.serializeFMUState(saved)
        if fmu.step(k, h, inputs, rows[k].tolist()) != wanted[k].tobytes():
            different = min(different, k)
    end = fmu.state()
    restored = []
    for state in (saved, fmu.it.deserializeFMUState(written)):
        fmu.it.setFMUState(state)
        steps = [fmu.step(k, h, inputs, rows[k].tolist()) == wanted[k].tobytes() for k in range(half, count)]
        restored.append(all(steps) and fmu.state() == end)
    yield from _checked_file(problems, report)
    yield holds("no symbols of Python or numba in the library", not python, ", ".join(python) or "none")
    yield holds("the replay of the record is exact", replayed.figures["identical"])
    what = f"{count * h:.1f} s, {count} steps, {wanted.shape[1]} outputs each, to the bit"
    yield holds(what, different == count, "all" if different == count else f"the first that differs is {different}")
    yield holds("from half way on, saved and restored, and serialised: the same bits", all(restored), restored)


def _checked_file(problems: list[str], report: dict[str, Any]) -> Iterator[Row]:
    yield holds("FMPy's validation", not problems, "; ".join(problems) or "no problem")
    yield at_most(f"library for {HOST}", report["library_bytes"] / 1e3, MOST_BYTES / 1e3, "kB")


MOST_APART = 1e-6  # m, rad, m/s, rad/s, of any output over the time


def exchanged(mechanism: str, seconds: float, folder: Path) -> Iterator[Row]:
    """Model Exchange of a mechanism: what a method of order 8 makes of its rates, beside a tenth of the file's step."""
    loaded, exchange, step_s = load_source(mechanism, {})
    report = write_fmu(loaded, "model", step_s, folder / "model.fmu", "tandem", exchange=exchange)
    if not report["model_exchange"]:
        yield holds("Model Exchange", False, report["no_model_exchange"])
        return
    problems = validate_fmu(report["fmu"])
    fmu = Slave(folder / "model.fmu", folder / "unpacked")
    it = fmpy.fmi3.FMU3Model(instanceName="it", **fmu._arguments)
    it.instantiate()
    it.enterInitializationMode()
    it.exitInitializationMode()
    it.enterContinuousTimeMode()
    n = fmu.described.numberOfContinuousStates
    y, rate = np.zeros(n), np.zeros(n)
    pointers = [a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in (y, rate)]
    it.getContinuousStates(pointers[0], n)

    def rates(t: float, state: np.ndarray) -> np.ndarray:
        y[:] = state
        it.setTime(t)
        it.setContinuousStates(pointers[0], n)
        it.getContinuousStateDerivatives(pointers[1], n)
        return rate.copy()

    solver = DOP853(rates, 0.0, y.copy(), seconds, rtol=1e-10, atol=1e-10, max_step=0.02)
    apart, steps, own, done = 0.0, 0, loaded.copy(), 0.0
    while solver.status == "running":
        solver.step()
        rates(solver.t, solver.y)
        it.completedIntegratorStep()
        found, steps = np.array(it.getFloat64(fmu.outputs)), steps + 1
        parts = max(1, int(np.ceil((solver.t - done) / (0.1 * step_s))))
        for _ in range(parts):
            wanted = own.step({}, (solver.t - done) / parts)
        done = solver.t
        apart = max(apart, float(np.abs(found - list(wanted.values())).max()))
    yield from _checked_file(problems, report)
    what = f"{mechanism}, {n} states, {seconds:g} s in {steps} steps of DOP853 through FMPy: apart from our own steps"
    yield at_most(what, apart, MOST_APART)


def fmu_promises(
    *, seconds: float = 50.0, run: Annotated[Path | None, "a run that was driven; else one is driven"] = None
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        yield from promises(run or driven(seconds, Path(folder) / "runs"), Path(folder))


def fmu_exchange(*, mechanism: Annotated[str, "its file"], seconds: float = 2.0) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        yield from exchanged(mechanism, seconds, Path(folder))
