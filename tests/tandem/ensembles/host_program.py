"""The program of a GPU compiled for this processor: the same text and tables, a copy at a time. It checks what the
device is given where there is none.

`python -m tests.tandem.ensembles.host_program TEXTS MACHINE PROGRAM.ptx` is the command that makes a program, which
keeps what the program is made of.
"""

import ctypes
import subprocess
import sys
from collections.abc import Mapping
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import msgpack
import numpy as np

from tandem.ensembles.gpu import compile as command
from tandem.multibody.code.ptx import FUNCTIONS, constants_text


class HostProgram:
    """advance(states, inputs, params, h, steps, bound) -> states, outputs, steps made; all [copy, entry]."""

    def __init__(
        self, text: str, name: str, generated: str, ints: np.ndarray, floats: np.ndarray, sizes: Mapping[str, int],
        **of_a_gpu: Any,
    ):  # fmt: skip
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._sizes = sizes
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        whole = llvm.parse_assembly(_wrapper(f'"{name}"') + constants_text(ints, floats))
        for part in (text, generated):
            made = llvm.parse_assembly(part)
            made.data_layout, made.triple = str(machine.target_data), llvm.get_default_triple()
            whole.link_in(made)
        whole.data_layout, whole.triple = str(machine.target_data), llvm.get_default_triple()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
        builder.getModulePassManager().run(whole, builder)
        library = ctypes.CDLL(find_library("m"))
        for function in ("memset", "memcpy", "memmove", *FUNCTIONS):  # LLVM's linker knows none
            llvm.add_symbol(function, ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0)
        for function in whole.functions:
            if function.is_declaration and function.name.startswith("none_"):  # never called, see calls.py
                llvm.add_symbol(function.name, 1)
        self._engine = llvm.create_mcjit_compiler(whole, machine)
        self._engine.finalize_object()
        address = self._engine.get_function_address("advance_copy")
        kinds: list[Any] = [ctypes.c_void_p] * 10 + [ctypes.c_int64, ctypes.c_int64, ctypes.c_double, ctypes.c_int64]
        self._call = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_double)(address)

    def advance(
        self, states: np.ndarray, inputs: np.ndarray, params: np.ndarray, h: float, steps: int, bound: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s, copies = self._sizes, len(states)
        given = [np.array(a.T, np.float64, order="C") for a in (states, inputs, params)]
        outputs, made = np.zeros((s["outputs"], copies)), np.zeros(copies, np.int64)
        own = [np.zeros(s[k]) for k in ("states", "states", "inputs", "params", "work")]
        places: list[Any] = [a.ctypes.data for a in (*given, outputs, made, *own)]
        for n in range(copies):
            self._call(*places, n, copies, h, steps, bound)
        return np.ascontiguousarray(given[0].T), np.ascontiguousarray(outputs.T), made


def _wrapper(name: str) -> str:
    own = ", ".join(f"ptr %own.{k}" for k in range(5))
    types = ", ".join(["ptr"] * 14 + ["i64", "i64", "double", "i64", "double"])
    return f"""
declare i32 @{name}({types})
define void @advance_copy(ptr %states, ptr %inputs, ptr %params, ptr %outputs, ptr %made, {own}, i64 %n, i64 %copies,
    double %h, i64 %steps, double %bound) {{
  %result = alloca ptr, align 8
  %failure = alloca ptr, align 8
  %x = call i32 @{name}(ptr %result, ptr %failure, ptr %states, ptr %inputs, ptr %params, ptr %outputs, ptr %made,
    ptr @table_ints, ptr @table_floats, {own}, i64 %n, i64 %copies, double %h, i64 %steps, double %bound)
  ret void
}}
"""


def program_of(machine: Path, folder: Path) -> tuple[str, HostProgram]:
    """The program that the command makes of a machine, for a GPU and for this processor."""
    places = [folder / "texts", machine, folder / "program.ptx"]
    subprocess.run([sys.executable, "-m", __name__, *places], check=True, cwd=Path(__file__).resolve().parents[3])
    made = msgpack.unpackb(places[0].read_bytes())
    arrays = {name: np.frombuffer(made[name][1], made[name][0]) for name in ("ints", "floats")}
    return places[2].read_text(), HostProgram(**{**made, **arrays})


def main() -> int:
    texts, kept = command.texts, Path(sys.argv.pop(1))

    def keeping(machine: Any) -> dict[str, Any]:
        made = texts(machine)
        arrays = {name: [made[name].dtype.str, made[name].tobytes()] for name in ("ints", "floats")}
        kept.write_bytes(msgpack.packb({**made, **arrays}))
        return made

    command.texts = keeping
    return command.main()


if __name__ == "__main__":
    sys.exit(main())
