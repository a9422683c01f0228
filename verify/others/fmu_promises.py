"""The FMU of a drive: everything that is promised of it, measured and printed.

    python -m verify.others.fmu_promises [--seconds 50] [--run RUN] [--mechanism FILE]

With --mechanism the FMU is that of a mechanism, in Model Exchange: scipy integrates it through FMPy, and is compared
with our own steps. Otherwise it drives the buggy for so long (or takes a run that was driven), makes an FMU of the
machine of that run, and compares every output of every recorded step with it. A line for each promise; exit code 1
if one is not kept. The ratio of times is that of verify/others/fmu.py: a figure, which a busy machine may spoil, and no
promise here. Needs fmpy.
"""

import argparse
import ctypes
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
from tandem.records.replay import Asked, replay_run

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
        self._made: dict[str, Any] = {
            "guid": self.described.guid, "modelIdentifier": "model", "unzipDirectory": extract(str(file), str(folder))
        }  # fmt: skip
        self.at = {v.name: v.valueReference for v in self.described.modelVariables}
        self.outputs = [v.valueReference for v in self.described.modelVariables if v.causality == "output"]
        self.states = [reference for name, reference in self.at.items() if name.startswith("states.")]
        self.it = fmpy.fmi3.FMU3Slave(instanceName="it", **self._made)
        self.it.instantiate()
        self.it.enterInitializationMode()
        self.it.exitInitializationMode()

    def step(self, k: int, h: float, inputs: list[int], values: list[float]) -> bytes:
        self.it.setFloat64(inputs, values)
        self.it.doStep(k * h, h)
        return np.array(self.it.getFloat64(self.outputs)).tobytes()

    def state(self) -> bytes:
        return np.array(self.it.getFloat64(self.states)).tobytes()


def promises(run: Path, folder: Path) -> list[tuple[bool, str]]:
    replayed = replay_run(run, Asked("exact"))
    h, columns = 1e-3 * replayed.config.sim.step_ms, replayed.columns()
    file = folder / "model.fmu"
    made = write_fmu(load_machine(run), "model", h, file, "tandem")
    problems = validate_fmu(str(file))
    fmu = Slave(file, folder / "unpacked")
    shown = subprocess.run(["nm", "-D", fmu.library], capture_output=True, text=True, check=True).stdout
    python = re.findall(r"\b(?:_?Py|NRT|numba)\w*", shown)
    names = [name for row in replayed.config.inputs.values() for name in row.to if name in fmu.at]
    inputs = [fmu.at[name] for name in names]
    given = np.column_stack([columns[name] for name in names])
    wanted = np.ascontiguousarray(np.column_stack([columns[q.name] for q in replayed.model.outputs]))
    count, half = len(wanted), len(wanted) // 2
    saved, different = None, count
    for k in range(count):
        if k == half:
            saved = fmu.it.getFMUState()
            written = fmu.it.serializeFMUState(saved)
        if fmu.step(k, h, inputs, given[k].tolist()) != wanted[k].tobytes():
            different = min(different, k)
    end = fmu.state()
    restored = []
    for state in (saved, fmu.it.deserializeFMUState(written)):
        fmu.it.setFMUState(state)
        steps = [fmu.step(k, h, inputs, given[k].tolist()) == wanted[k].tobytes() for k in range(half, count)]
        restored.append(all(steps) and fmu.state() == end)
    identical = bool(replayed.figures["identical"])
    return [
        (not problems, f"FMPy's validation: {'; '.join(problems) or 'no problem'}"),
        (not python, f"symbols of Python or numba in the library: {', '.join(python) or 'none'}"),
        (made["library_bytes"] <= MOST_BYTES, f"library for {HOST}: {made['library_bytes'] / 1e3:.0f} kB"),
        (identical, f"the replay of the record is exact: {identical}"),
        (different == count, f"{count * h:.1f} s, {count} steps, {wanted.shape[1]} outputs each, to the bit: "
         + ("all" if different == count else f"the first that differs is {different}")),
        (all(restored), f"from half way on, saved and restored, and serialised: the same bits: {restored}"),
    ]  # fmt: skip


MOST_APART = 1e-6  # m, rad, m/s, rad/s, of any output over the time


def exchanged(mechanism: str, seconds: float, folder: Path) -> list[tuple[bool, str]]:
    """Model Exchange of a mechanism: what a method of order 8 makes of its rates, beside a tenth of the file's step."""
    loaded, exchange, step_s = load_source(mechanism, {})
    made = write_fmu(loaded, "model", step_s, folder / "model.fmu", "tandem", exchange=exchange)
    if not made["model_exchange"]:
        return [(False, f"no Model Exchange: {made['no_model_exchange']}")]
    problems = validate_fmu(made["fmu"])
    fmu = Slave(folder / "model.fmu", folder / "unpacked")
    it = fmpy.fmi3.FMU3Model(instanceName="it", **fmu._made)
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
    return [
        (not problems, f"FMPy's validation: {'; '.join(problems) or 'no problem'}"),
        (made["library_bytes"] <= MOST_BYTES, f"library for {HOST}: {made['library_bytes'] / 1e3:.0f} kB"),
        (apart <= MOST_APART, f"{mechanism}, {n} states, {seconds:g} s in {steps} steps of DOP853 through FMPy: at most"
         f" {apart:.1e} from our own steps (allowed {MOST_APART:g})"),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--run", type=Path, help="a run that was driven; default: drive one")
    parser.add_argument("--mechanism", help="a mechanism's file, in Model Exchange")
    asked = parser.parse_args()
    if asked.mechanism:
        with tempfile.TemporaryDirectory(prefix="tandem") as folder:
            found = exchanged(asked.mechanism, min(asked.seconds, 2.0), Path(folder))
        for good, line in found:
            print(f"{'ok ' if good else 'NOT'}  {line}")
        return 0 if all(good for good, _ in found) else 1
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        run = asked.run or driven(asked.seconds, Path(folder) / "runs")
        found = promises(run, Path(folder))
    for good, line in found:
        print(f"{'ok ' if good else 'NOT'}  {line}")
    from verify.others import fmu

    sys.argv = sys.argv[:1]
    fmu.main()
    return 0 if all(good for good, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
