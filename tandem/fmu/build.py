"""An FMU of a machine: its code and the interface compiled for each platform, zipped with the description."""

import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine, Rates
from sync.child_python import python_environment
from sync.errors import ConfigError
from tandem.fmu.address_code import objects as code_objects
from tandem.fmu.address_code import parts_of, symbols
from tandem.fmu.description import Model, data, description, identifier
from tandem.fmu.layered import TERMINALS, terminals
from tandem.fmu.object_code import RATES, STEP, TANGENT, object_file
from tandem.fmu.platforms import HOST, Platform, compiler, find_platform
from tandem.multibody.code.code_parts import CodeParts
from tandem.offline.model import Model as LoadedMachine
from tandem.records.exchange.atomic_files import written_atomically

_INTERFACE = Path(__file__).with_name("interface.c")
_DATE = (1980, 1, 1, 0, 0, 0)  # the same machine gives the same file


@dataclass(frozen=True)
class Exchange:
    """What a machine is as a differential equation, where its step does not tell."""

    continuous: int  # of its states, the first
    time_at: int  # of its states: the instant
    missing: str = ""  # why it has no rates of change


def write_fmu(
    loaded: LoadedMachine,
    name: str,
    step_s: float,
    out: Path,
    tool: str,
    platforms: Sequence[str] = (HOST,),
    exchange: Exchange | None = None,
) -> dict[str, Any]:
    """Raises ConfigError where it cannot be made; returns what was written."""
    wanted = [find_platform(each) for each in dict.fromkeys(platforms)]
    commands = [compiler(platform) for platform in wanted]  # reports what is missing before anything is compiled
    model, kernels = as_model(loaded, name, step_s, exchange)
    token = model.token
    sizes = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        written_atomically(out) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        put(archive, "modelDescription.xml", description(model, token, tool).encode())
        put(archive, TERMINALS, terminals(model.machine).encode())
        for platform, command in zip(wanted, commands, strict=True):
            library = compiled(Path(folder), platform, command, model, kernels)
            sizes[platform.name] = len(library)
            put(archive, f"binaries/{platform.name}/{model.identifier}.{platform.ending}", library)
    machine = model.machine
    return {
        "fmu": str(out), "machine": machine.name, "platforms": sizes, "step_s": step_s,
        "library_bytes": max(sizes.values()), "model_exchange": model.has_rates,
        "no_model_exchange": "" if model.has_rates else no_rates_because(machine, exchange),
        "inputs": len(machine.inputs), "outputs": len(machine.outputs), "parameters": len(model.live),
        "states": len(machine.states),
    }  # fmt: skip


def put(archive: zipfile.ZipFile, inside: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(inside, _DATE), content, zipfile.ZIP_DEFLATED)


def no_rates_because(machine: Machine, exchange: Exchange | None) -> str:
    """Why one without rates of change has none."""
    parts = machine.of(CodeParts)
    why = exchange.missing if exchange is not None else parts.no_rates if parts is not None else ""
    return why or "its step says where it is after a while, and nothing beside it says how fast its states change"


def as_model(
    loaded: LoadedMachine, name: str, step_s: float, exchange: Exchange | None = None
) -> tuple[Model, dict[str, Any]]:
    """And its kernels by the names they have in C."""
    machine, params = loaded.description()
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    outputs = work[: len(machine.outputs)].copy()
    exchange = exchange or Exchange(len(state), -1)
    found = {STEP: machine.step}
    if (rates := machine.of(Rates)) is not None:
        found[RATES] = rates.of_states
        if rates.tangent:
            found[TANGENT] = import_module(rates.tangent).tangent_of_rates
    rows, columns = len(outputs) + len(state), len(state) + len(machine.inputs)
    needed = (rows if RATES in found else 0, rows * columns if TANGENT in found else 0)
    parts = parts_of(machine)
    code = tuple(symbols(parts)) if parts is not None else ()
    machine = replace(machine, work_size=max(machine.work_size, *needed))
    return Model(
        machine, identifier(name), params, state, outputs, step_s, RATES in found, TANGENT in found,
        exchange.continuous, exchange.time_at, code,
    ), found  # fmt: skip


def compiled(folder: Path, platform: Platform, command: list[str], model: Model, kernels: dict[str, Any]) -> bytes:
    """The library of a platform."""
    objects = [object_file(model.machine, len(model.params), platform.triple, k, name) for name, k in kernels.items()]
    if (parts := parts_of(model.machine)) is not None:
        objects += code_objects(model.machine, parts, platform)
    files = [folder / f"{platform.name}_{k}.o" for k in range(len(objects))]
    for file, content in zip(files, objects, strict=True):
        file.write_bytes(content)
    (folder / "model_data.h").write_text(data(model, model.token))
    library = folder / f"{platform.name}.{platform.ending}"
    exports = folder / "exports.map"  # nothing but FMI: a generated function may be called as one of the C library
    exports.write_text("{ global: fmi3*; local: *; };")
    own = [f"-Wl,--version-script={exports}"] if platform.ending == "so" else []
    words = [
        *command, "-std=gnu11", "-O2", "-ffp-contract=off", "-shared", "-fvisibility=hidden", "-s",
        *([] if platform.ending == "dll" else ["-fPIC"]), "-I", folder, _INTERFACE, *files, *platform.links, *own,
        "-o", library,
    ]  # fmt: skip
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=python_environment())
    if done.returncode:
        raise ConfigError(f"{command[0]} does not compile the FMU for {platform.name}: {done.stderr.strip()[-800:]}")
    return library.read_bytes()
