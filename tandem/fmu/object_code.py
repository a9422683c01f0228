"""The machine code of a step, as an object file that a linker takes.

numba has compiled the step already, to the bit that a run executes: the same LLVM module is emitted once more, in
position-independent form. What only Python calls is removed. What is left of Python are paths that are never taken (an
exception out of compiled code that raises none, the address of a function that is known): their functions become a trap
each, so that no name of Python is in the object.
"""

import re
from typing import Any

import llvmlite.binding as llvm

from sim_service.machines.contract import Machine
from sync.errors import ConfigError

STEP = "tandem_machine_step"
ARGUMENTS = 45  # as numba flattens them: result, exception, six arrays of seven words, the step size
# of the C library: what a step may ask for
ALLOWED = frozenset(
    {
        "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp",
        "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sqrt", "cbrt", "hypot", "fmod", "floor", "ceil",
        "trunc", "round", "rint", "nearbyint", "fabs", "fmin", "fmax", "copysign", "ldexp", "frexp", "sincos", "memset",
        "memcpy", "memmove",
    }
)  # fmt: skip


def object_file(machine: Machine) -> bytes:
    """Raises ConfigError for a machine whose code cannot leave this process."""
    if machine.addresses:
        raise ConfigError(
            f"{machine.name}: its step calls code that was generated in this process, by its address; no FMU can be"
            ' made of it yet; where its file has formulation = "relative", "natural" would do'
        )
    compiled = next(iter(machine.step.overloads.values()))
    module = llvm.parse_bitcode(compiled.library._get_module_for_linking().as_bitcode())
    step = module.get_function(compiled.fndesc.llvm_func_name)
    if len(list(step.arguments)) != ARGUMENTS:
        raise ConfigError(
            f"{machine.name}: its step has {len(list(step.arguments))} words of arguments, not {ARGUMENTS}"
        )
    step.name, step.visibility = STEP, "hidden"
    target = _target_machine()
    _keep_only(module, STEP)
    _remove_unused(module, target)
    module.link_in(llvm.parse_assembly(_traps(module)))
    _keep_only(module, STEP)
    _remove_unused(module, target)
    left = sorted(f.name for f in module.functions if f.is_declaration and not _allowed(f.name))
    left += [g.name for g in module.global_variables if g.is_declaration]
    if left:
        raise ConfigError(f"{machine.name}: its step needs {', '.join(left)}, which no target has")
    return bytes(target.emit_object(module))


def _target_machine() -> Any:
    """Any processor of this kind: the operations of a step, and their order, are fixed in the module."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(opt=3, reloc="pic", codemodel="default")


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
    return f'target triple = "{module.triple}"\n' + "\n".join(
        line.replace("() unreachable", "()\n unreachable\n") for line in lines
    )
