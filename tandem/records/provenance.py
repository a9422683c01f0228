"""What a record holds about its origin: software, machine, configuration, model parameters."""

import contextlib
import ctypes
import json
import os
import platform
import re
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sync.clock import now_ns
from sync.compile import dependencies
from sync.config.config import Config, View
from sync.config.extras import installed_version
from sync.files.token import without_tokens
from sync.process.realtime import permitted
from sync.record import Run
from sync.record.utc import wall_clock

if TYPE_CHECKING:
    from sim_service.contract.machine import Machine

_BITS = ("sources", "machine", "processor", "libc", "numba", "llvmlite", "numpy", "blas")  # results may depend on them
_PACKAGES = ("numpy", "numba", "llvmlite", "pyzmq", "msgpack", "mcap")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def utc_offset_ns() -> int:
    """UTC minus the monotonic clock, now."""
    before = now_ns()
    utc = time.time_ns()
    return int(utc - (before + now_ns()) // 2)


def machine_facts() -> dict[str, str]:
    """When, with what, and where."""
    return {
        "utc": wall_clock(),
        "utc_offset_ns": str(utc_offset_ns()),
        "software": f"tandem {installed_version()}",
        "sources": dependencies.fingerprint(),  # the same sources on the same machine type give the same bits
        "machine": platform.machine(),
        "system": platform.platform(),
        "processor": _processor(),
        "libc": " ".join(platform.libc_ver()),  # its mathematical functions are used by kernels
        "blas": _blas(),
        "cores": str(len(os.sched_getaffinity(0))),
        "real_time": str(permitted(1)).lower(),
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
    }


def other_facts(run: Run) -> dict[str, tuple[str, str]]:
    """Facts that may make a replay differ from its record and are not the same here: (recorded, here)."""
    here = machine_facts()
    found = {key: (run.start.get(key, "not recorded"), here[key]) for key in _BITS}
    return {key: pair for key, pair in found.items() if pair[0] != pair[1]}


def start_facts(config: Config) -> dict[str, str]:
    """The start sentinel."""
    return {
        "name": config.name,
        **machine_facts(),
        "transport": config.transport.kind,
        "step_ns": str(config.step_ns),
        "period_ns": str(config.period_ns),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith(("model name", "CPU part"))]
    return named[0] if named else "unknown"


def _blas() -> str:
    """The BLAS that numpy has loaded, and which of its kernels it chose for this processor."""
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    named = f"{built.get('name', 'unknown')} {built.get('version', '')}".strip()
    try:
        maps = Path("/proc/self/maps").read_text().split()
    except OSError:
        return named
    for library in sorted({word for word in maps if "openblas" in word and ".so" in word}):
        for function in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
            with contextlib.suppress(OSError, AttributeError):
                ask = getattr(ctypes.CDLL(library), function)
                ask.restype = ctypes.c_char_p
                return f"{named} {ask().decode('ascii', 'replace')}"
    return named


def attachments(config: Config, file: Path, parameters: bytes | None = None) -> dict[str, bytes]:
    """The configuration in force, the files it came from, and the model's parameters with their units."""
    # where and for whom a page was served is private, and does not go into a record
    public = config.model_copy(update={"view": View()})
    found = {
        "config.json": as_text(public.model_dump(mode="json")),
        "parameters.json": parameters or model_parameters(config, file),
        "config.toml": file.read_bytes(),
        **model_files(config, file),
    }
    for number, name in enumerate(config.include, 1):
        with contextlib.suppress(OSError):  # config.json has its content
            found[f"include_{number}.toml"] = (file.parent / name).read_bytes()
    manoeuvre = config.source.get("manoeuvre")
    if isinstance(manoeuvre, str) and (file.parent / manoeuvre).is_file():
        found["manoeuvre.toml"] = (file.parent / manoeuvre).read_bytes()
    return {name: without_tokens(data) if name.endswith(".toml") else data for name, data in found.items()}


def not_of_the_machine(attached: dict[str, bytes]) -> dict[str, bytes]:
    """Attachments of the run itself, whatever its machine is made from."""
    run = re.compile(r"(config|parameters|summary)\.json|(config|manoeuvre|include_\d+)\.toml")
    return {name: data for name, data in attached.items() if run.fullmatch(name)}


def model_files(config: Config, file: Path) -> dict[str, bytes]:
    from sim_service.registry import configured

    return configured(config, file.parent).files


def model_parameters(config: Config, file: Path) -> bytes:
    from sim_service.registry import configured_machine

    return parameters_json(*configured_machine(config, file.parent))


def parameters_json(model: "Machine", values: np.ndarray) -> bytes:
    from sim_service.contract.parameters import described

    return as_text(described(model, values))


def as_text(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1).encode()
