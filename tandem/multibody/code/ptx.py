"""PTX from LLVM IR: a thread's function (entry.py), the generated functions it calls, and tables as constants.

Tables are constants of the program: where LLVM knows an index it puts the number there, so that lengths and places of
parts cost nothing, loops over them are unrolled where that is worth it, and what a table switches off is gone. The
price is a program for every machine. Mathematics is that of libdevice (package nvidia-nvvm). Nothing is contracted
unless asked for (`contract`): then multiplications and additions are fused, as compilers for GPUs do.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from sync.config.extras import install_extra
from sync.errors import ConfigError

TRIPLE = "nvptx64-nvidia-cuda"
HOPPER = "sm_90"
KERNEL = "advance_copies"
LARGE = 1_000_000  # characters of IR
MOST_REGISTERS = 255  # of a thread
FUNCTIONS = (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log10",
    "log1p", "pow", "hypot", "cbrt", "fmod", "sqrt", "floor", "ceil", "trunc", "fabs", "copysign",
)  # fmt: skip
_INTRINSICS = (*FUNCTIONS[:13], "log10", "pow")  # of LLVM, that its code generator has nothing for


def libdevice() -> bytes:
    """The bitcode of NVIDIA's mathematics, of the package nvidia-nvvm."""
    import importlib.util

    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or []) if found else []:
        for path in Path(folder).glob("*/nvvm/libdevice/libdevice.10.bc"):
            return path.read_bytes()
    raise ConfigError(f"for a GPU libdevice is needed (nvidia-nvvm): {install_extra('gpu')}")


def _retargeted(text: str, contract: bool) -> str:
    """IR of the CPU as IR for the device."""
    text = re.sub(r"^target (datalayout|triple) = .*$", "", text, flags=re.M)
    text = re.sub(r"@llvm\.(" + "|".join(_INTRINSICS) + r")\.f64\b", r"@__nv_\1", text)
    text = re.sub(r"@(" + "|".join(FUNCTIONS) + r")\(", r"@__nv_\1(", text)
    if contract:
        text = re.sub(r"= (fmul|fadd|fsub) (?!contract)", r"= \1 contract ", text)
    seen: set[str] = set()
    lines = []
    for line in text.splitlines():
        found = re.match(r"declare .*@(__nv_\w+)\(", line)
        if found and found.group(1) in seen:  # it had two names
            continue
        seen.update(found.groups() if found else ())
        lines.append(line)
    return "\n".join(lines)


_WAIT = "llvm.nvvm.barrier.cta.sync.all"


def in_own_memory(text: str, shared: str = "d", together: Sequence[str] = ()) -> str:
    """Generated functions (multibody/code/llvm.py) whose arrays are their thread's own, but for one.

    Threads of a block enter each part of the functions `together` at once: megabytes of code that runs straight through
    are then fetched once for all of them. A thread that has ended is not waited for.
    """
    out = [f"declare void @{_WAIT}(i32)"] if together else []
    waits = False
    for line in text.splitlines():
        if line.startswith("define void"):  # called from outside: with pointers that may point anywhere
            names = re.findall(r"%(\w+)", line)
            waits = re.split(r"[@(]", line)[1] in together
            out.append(line.replace(" nounwind {", " alwaysinline nounwind {"))
            casts = [n for n in names if n != shared]
            out += [f"  %own.{n} = addrspacecast ptr %{n} to ptr addrspace(5)" for n in casts]
        elif line.startswith("  %work = alloca"):
            out += [line, "  %own.work = addrspacecast ptr %work to ptr addrspace(5)"]
        elif line.startswith("  call void"):
            out += [f"  call void @{_WAIT}(i32 0)"] * waits
            out.append(re.sub(r"ptr %(?!" + shared + r"\b)(\w+)", r"ptr addrspace(5) %own.\1", line))
        elif line.startswith("define internal"):
            out.append(re.sub(r"ptr (noalias (?:readonly )?)%(?!" + shared + r"\b)", r"ptr addrspace(5) \1%", line))
        elif " = getelementptr double, ptr %" in line and f"ptr %{shared}," not in line:
            out.append(line.replace("double, ptr %", "double, ptr addrspace(5) %"))
        else:
            out.append(line)
    return _loads_and_stores(out)


def _loads_and_stores(lines: list[str]) -> str:
    out: list[str] = []
    own: set[str] = set()
    for line in lines:
        if line.startswith("define"):
            own = set()
        if " = getelementptr double, ptr addrspace(5)" in line:
            own.add(line.split(" =")[0].strip())
        found = re.match(r"(.* = load double, |.*store double [^,]+, )ptr (%[\w.]+)(.*)$", line)
        if found and found.group(2) in own:
            out.append(f"{found.group(1)}ptr addrspace(5) {found.group(2)}{found.group(3)}")
        else:
            out.append(line)
    return "\n".join(out) + "\n"


def constants_text(ints: np.ndarray, floats: np.ndarray) -> str:
    whole = ", ".join(f"i32 {k}" for k in ints.tolist())
    bits = ", ".join(f"double 0x{k:016X}" for k in floats.view(np.uint64).tolist())
    return (
        f"@table_ints = internal constant [{ints.size} x i32] [{whole}], align 16\n"
        f"@table_floats = internal constant [{floats.size} x double] [{bits}], align 16\n"
    )


def _kernel(name: str, sizes: Mapping[str, int], registers: int) -> str:
    own = {"state": sizes["states"], "before": sizes["states"], "inputs": sizes["inputs"], "params": sizes["params"],
           "work": sizes["work"]}  # fmt: skip
    scratch = "\n".join(f"  %own.{k} = alloca [{max(n, 1)} x double], align 16" for k, n in own.items())
    passed = ", ".join(f"ptr %own.{k}" for k in own)
    types = ", ".join(["ptr"] * 14 + ["i64", "i64", "double", "i64", "double"])
    return f"""
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @{name}({types})

define ptx_kernel void @{KERNEL}(ptr %states, ptr %inputs, ptr %params, ptr %outputs, ptr %made, i64 %copies,
    double %h, i64 %steps, double %bound) "nvvm.maxnreg"="{registers}" {{
  %result = alloca ptr, align 8
  %failure = alloca ptr, align 8
{scratch}
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %w = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %f = mul i32 %b, %w
  %i = add i32 %f, %t
  %n = zext i32 %i to i64
  %in = icmp slt i64 %n, %copies
  br i1 %in, label %go, label %end
go:
  %x = call i32 @{name}(ptr %result, ptr %failure, ptr %states, ptr %inputs, ptr %params, ptr %outputs, ptr %made,
    ptr @table_ints, ptr @table_floats, {passed}, i64 %n, i64 %copies, double %h, i64 %steps, double %bound)
  br label %end
end:
  ret void
}}
"""


def ptx(
    text: str, name: str, generated: str, ints: np.ndarray, floats: np.ndarray, sizes: Mapping[str, int],
    contract: bool = True, inline: bool | None = None, registers: int = MOST_REGISTERS, together: Sequence[str] = (),
    processor: str = HOPPER,
) -> str:  # fmt: skip
    """PTX of the kernel KERNEL(states, inputs, params, outputs, made, copies, h, steps, bound).

    `inline`: all that numba compiled becomes one function, whose places are then known everywhere; otherwise LLVM
    decides, as for a large step whose parts are called from many places (10 minutes were not enough for a multibody one
    in natural coordinates). By default by size. `registers` of a thread at most: fewer let more threads be resident.
    """
    inline = bool(generated) or len(text) < LARGE if inline is None else inline
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, features="+ptx80", opt=3)
    quoted = f'"{name}"'
    whole = llvm.parse_assembly(_kernel(quoted, sizes, registers) + constants_text(ints, floats))
    parts = [_retargeted(text, contract), _retargeted(in_own_memory(generated, together=together), contract)]
    for part in parts:
        whole.link_in(llvm.parse_assembly(part))
    ours = {f.name for f in whole.functions if not f.is_declaration}
    library = llvm.parse_bitcode(libdevice())
    library.data_layout, library.triple = str(machine.target_data), TRIPLE
    whole.link_in(library)
    whole.data_layout, whole.triple = str(machine.target_data), TRIPLE
    for function in whole.functions:
        if not function.is_declaration and function.name != KERNEL:
            function.linkage = "internal"
            if (
                inline and function.name in ours and not re.search(r"\.\d+$", function.name)
            ):  # parts of generated functions stay by themselves
                function.add_function_attribute("alwaysinline")
    whole.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(whole, builder)
    missing = [f.name for f in whole.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if missing:
        raise ValueError(f"not available on a GPU: {', '.join(missing)}")
    return str(machine.emit_assembly(whole))
