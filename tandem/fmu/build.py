"""An FMU of a machine: its code and the interface compiled for this host, zipped with the description."""

import platform
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import ConfigError
from tandem.exchange.atomic_files import written_atomically
from tandem.fmu.description import Model, data, description, identifier
from tandem.fmu.object_code import object_file
from tandem.library.model import Model as LoadedMachine

_ARCHITECTURES = {"AMD64": "x86_64", "arm64": "aarch64"}  # other names of the same
PLATFORM = f"{_ARCHITECTURES.get(platform.machine(), platform.machine())}-linux"
_INTERFACE = Path(__file__).with_name("interface.c")
_DATE = (1980, 1, 1, 0, 0, 0)  # the same machine gives the same file


def write_fmu(loaded: LoadedMachine, name: str, step_s: float, out: Path, tool: str) -> dict[str, Any]:
    """Raises ConfigError where it cannot be made; returns what was written."""
    model = as_model(loaded, name, step_s)
    token = model.token
    code = object_file(model.machine)
    with tempfile.TemporaryDirectory() as folder, written_atomically(out) as part:
        library = compiled(Path(folder), code, data(model, token))
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside, content in (
                ("modelDescription.xml", description(model, token, tool).encode()),
                (f"binaries/{PLATFORM}/{model.identifier}.so", library.read_bytes()),
            ):
                archive.writestr(zipfile.ZipInfo(inside, _DATE), content, zipfile.ZIP_DEFLATED)
        size = library.stat().st_size
    machine = model.machine
    return {
        "fmu": str(out), "machine": machine.name, "platform": PLATFORM, "step_s": step_s, "library_bytes": size,
        "inputs": len(machine.inputs), "outputs": len(machine.outputs), "parameters": len(model.live),
        "states": len(machine.states),
    }  # fmt: skip


def as_model(loaded: LoadedMachine, name: str, step_s: float) -> Model:
    machine, params = loaded.description()
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    return Model(machine, identifier(name), params, state, work[: len(machine.outputs)].copy(), step_s)


def compiled(folder: Path, code: bytes, constants: str) -> Path:
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise ConfigError("an FMU needs a C compiler (cc, gcc or clang), and none is on the path of this user")
    (folder / "step.o").write_bytes(code)
    (folder / "model_data.h").write_text(constants)
    command = [
        compiler, "-std=gnu11", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden",
        "-Wl,--no-undefined", "-Wl,-s", "-I", str(folder), str(_INTERFACE), str(folder / "step.o"), "-lm",
        "-o", str(folder / "model.so"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"{compiler} does not compile the FMU: {done.stderr.strip()[-800:]}")
    return folder / "model.so"
