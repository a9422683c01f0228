"""The machine code of a step, as an object file that a linker takes.

numba has compiled the step already, to the bit that a run executes: the same LLVM module is emitted once more, in
position-independent form. What only Python calls is removed. What is left of Python are paths that are never taken (an
exception out of compiled code that raises none, the address of a function that is known): their functions become a trap
each, so that no name of Python is in the object.
"""

import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from sim_service.contract.machine import Machine
from sync.errors import ConfigError

STEP, RATES, TANGENT = "tandem_machine_step", "tandem_machine_rates", "tandem_machine_tangent"
ARRAYS = 6  # state, inputs, params, ints and floats of the tables, work
WORDS = 7  # of an array, as numba flattens one: owner, parent, items, bytes an item, data, shape, strides
ARGUMENTS = 2 + ARRAYS * WORDS + 1  # result, exception, the arrays, the step size
# of the C library: what a step may ask for
ALLOWED = frozenset(
    {
        "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp",
        "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sqrt", "cbrt", "hypot", "fmod", "floor", "ceil",
        "trunc", "round", "rint", "nearbyint", "fabs", "fma", "fmin", "fmax", "copysign", "ldexp", "frexp", "sincos",
        "memset", "memcpy", "memmove",
    }
)  # fmt: skip


def object_file(machine: Machine, params: int, triple: str = "", kernel: Any = None, name: str = STEP) -> bytes:
    """Of the machine's step, or of another kernel with its signature, with so many parameters, for the platform that
    LLVM calls so (the host's unless given). Exported is

        int32_t NAME(state, inputs, params, ints, floats, work, h)

    six pointers and a number, with the kernel inside it: handed on as numba flattens its arguments they are 45 words,
    which took longer than a small step itself.
    """
    step: Any = kernel or machine.step
    compiled = next(iter(step.overloads.values()))
    return _emitted(machine.name, compiled, name, triple, lambda step: _entrance(machine, params, step, name))


def kernel_object(machine: Machine, kernel: Any, signature: Any, name: str, triple: str) -> bytes:
    """Of a kernel that the step calls by its address, as numba calls it."""
    return _emitted(machine.name, kernel.overloads[tuple(signature.args)], name, triple, None)


def _emitted(machine: str, compiled: Any, name: str, triple: str, entrance: Callable[[Any], str] | None) -> bytes:
    module = llvm.parse_bitcode(compiled.library._get_module_for_linking().as_bitcode())
    target = _target_machine(triple)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    step = module.get_function(compiled.fndesc.llvm_func_name)
    step.name = inside = name if entrance is None else f"{name}_of_numba"
    if entrance is not None:
        if len(list(step.arguments)) != ARGUMENTS:
            raise ConfigError(
                f"{machine}: its step has {len(list(step.arguments))} words of arguments, not {ARGUMENTS}"
            )
        step.add_function_attribute("alwaysinline")
    _keep_only(module, inside)
    _remove_unused(module, target)
    module.link_in(_parsed(_traps(module), target))
    if entrance is not None:
        module.link_in(_parsed(entrance(step), target))
        _keep_only(module, name)
        _inline(module, target)
    else:
        _keep_only(module, name)
    _remove_unused(module, target)
    left = sorted(f.name for f in module.functions if f.is_declaration and not _allowed(f.name))
    left += [g.name for g in module.global_variables if g.is_declaration]
    if left:
        raise ConfigError(f"{machine}: its step needs {', '.join(left)}, which no target has")
    return bytes(target.emit_object(module))


def _target_machine(triple: str) -> Any:
    """Any processor of this kind: the operations of a step, and their order, are fixed in the module."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    return target.create_target_machine(opt=3, reloc="pic", codemodel="default")


def _parsed(text: str, target: Any) -> Any:
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    return module


def _entrance(machine: Machine, params: int, step: Any, name: str) -> str:
    """The exported function around the kernel: sizes are constants of the machine."""
    sizes = (
        (len(machine.states), 8), (len(machine.inputs), 8), (params, 8),
        (len(machine.tables.ints), 4), (len(machine.tables.floats), 8), (machine.work_size, 8),
    )  # fmt: skip
    words = ["ptr %result", "ptr %exception"]
    for k, (count, size) in enumerate(sizes):
        words += ["ptr null", "ptr null", f"i64 {count}", f"i64 {size}", f"ptr %a{k}", f"i64 {count}", f"i64 {size}"]
    types = ", ".join(word.split()[0] for word in (*words, "double"))
    return f"""
declare i32 @{step.name}({types})
define hidden i32 @{name}({", ".join(f"ptr %a{k}" for k in range(ARRAYS))}, double %h) {{
  %result = alloca ptr
  %exception = alloca ptr
  store ptr null, ptr %result
  store ptr null, ptr %exception
  %status = call i32 @{step.name}({", ".join(words)}, double %h)
  ret i32 %status
}}
"""


def _inline(module: Any, target: Any) -> None:
    """What follows from constants is removed; no operation on numbers is changed by it."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=0)))


def _allowed(name: str) -> bool:
    return name.startswith("llvm.") or name in ALLOWED


def _keep_only(module: Any, name: str) -> None:
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration:
            each.linkage = "external" if each.name == name else "internal"


def _remove_unused(module: Any, target: Any) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=0)))


def _traps(module: Any) -> str:
    """Definitions for whatever the module declares and no target has."""
    lines = ["declare void @llvm.trap()"]
    for function in module.functions:
        if function.is_declaration and not _allowed(function.name):
            # declare [attributes] TYPE @NAME(TYPES) [attributes] [#N]
            found = re.search(r"declare\s+(?P<head>.*?)@(?P<name>\"[^\"]+\"|[\w.$-]+)\((?P<types>.*?)\)", str(function))
            assert found is not None, str(function)
            kind = found["head"].split()[-1]
            types = ", ".join(
                "..." if t.strip() == "..." else t.split()[0] for t in found["types"].split(",") if t.strip()
            )
            lines.append(f"define {kind} @{found['name']}({types}) {{ call void @llvm.trap() unreachable }}")
    for variable in module.global_variables:
        if variable.is_declaration:
            lines.append(f"@{variable.name} = global ptr null")
    return "\n".join(line.replace("() unreachable", "()\n unreachable\n") for line in lines)
