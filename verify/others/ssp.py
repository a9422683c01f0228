"""A system of a car and a driver as SSP, simulated whole by Ecos (C++, of others), beside the same machines without it.

Ecos reads the SSP, opens both FMUs of FMI 3, connects them by name as the SSP says and steps them. The reference steps
the machines themselves, each with what the other gave before. Ecos is loaded in a child: its libraries stay there.

    pip install ecospy tbb    # beside tandem; on x86_64, what its wheel is made for
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sync.child_python import python_command, python_environment
from tandem.offline.model import Model, load_machine
from verify import CONFIGS
from verify.measure import Row, equal, figure, holds

CAR = CONFIGS / "vehicles" / "buggy_single_track.toml"
STEP_S = 0.005
CHANNELS = ("x", "y", "vx")
_CHILD = """
import ctypes, glob, json, sys
for library in glob.glob(sys.prefix + "/lib/libtbb.so.12"):
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
from ecospy import EcosSimulation
path, step, steps, channels = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
system = EcosSimulation(step, ssp_path=path)
system.init()
rows = []
for _ in range(steps):
    system.step()
    rows.append([system.get_real("car::" + name) for name in channels])
system.terminate()
json.dump(rows, open(path + ".json", "w"))
"""


def ssp(*, seconds: float = 20.0) -> Iterator[Row]:
    steps = round(seconds / STEP_S)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "drive.ssp"
        words = python_command("-m", "tandem", "ssp", f"car={CAR}", "driver=driver", "--out", str(file))
        subprocess.run(words, env=python_environment(), check=True, capture_output=True)
        child = [sys.executable, "-c", _CHILD, str(file), str(STEP_S), str(steps), *CHANNELS]
        done = subprocess.run(child, capture_output=True, text=True, check=False, cwd=folder)
        yield holds("Ecos simulates the SSP whole", not done.returncode, done.stderr.strip()[-200:])
        if done.returncode:
            return
        theirs = np.array(json.loads(file.with_suffix(".ssp.json").read_text()))
    ours = driven(steps)
    yield equal("steps", len(theirs), steps)
    yield figure("way round the circle, fastest", f"{np.abs(np.diff(ours[:, :2], axis=0)).sum():.0f} m, "
                 f"{ours[:, 2].max():.2f} m/s")  # fmt: skip
    yield equal("its position and speed beside the machines' own, most apart", np.abs(theirs - ours).max(), 0.0)


def driven(steps: int) -> np.ndarray:
    """Position and speed of the same car with the same driver, without an FMU."""
    models = {"car": load_machine(str(CAR)), "driver": load_machine("driver")}
    names = {name: {q.name for q in model.inputs} for name, model in models.items()}
    outputs = {name: _begun(model) for name, model in models.items()}
    rows = []
    for _ in range(steps):
        inputs = {}
        for name, other in (("car", "driver"), ("driver", "car")):
            inputs[name] = {k: v for k, v in outputs[other].items() if k in names[name]}
        outputs = {name: model.step(inputs[name], STEP_S) for name, model in models.items()}
        rows.append([outputs["car"][k] for k in CHANNELS])
    return np.array(rows)


def _begun(model: Model) -> dict[str, float]:
    """Its outputs before the first step."""
    found, params = model.description()
    state, work = np.zeros(len(found.states)), np.zeros(found.work_size)
    found.initial(state, params, found.tables, work)
    return {q.name: float(value) for q, value in zip(found.outputs, work, strict=False)}
