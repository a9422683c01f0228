"""Kernels are called with as many arguments as they take.

The compiler says so of what it compiles. Programs for GPUs and other code that is compiled when it is asked for are
compiled by no test: seen, a function got one more argument, and the car's program for GPUs could not be made any more.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.import_rules import PACKAGES, Module

ROOT = Path(__file__).resolve().parents[3]
COMPILED = {"kernel", "inner", "merged"}


def read_kernels(root: Path) -> dict[str, Module]:
    """Modules that have any, by their dotted names."""
    found = {}
    for file in (file for package in PACKAGES for file in sorted((root / package).rglob("*.py"))):
        text = file.read_text()
        if any(f"@{decorator}" in text for decorator in COMPILED):
            parts = file.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, file.relative_to(root), ast.parse(text))
    return found


def _compiled(module: Module) -> dict[str, ast.FunctionDef]:
    """Its functions that are compiled, those inside other functions left out: their names mean nothing elsewhere."""
    found = {}
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef):
            decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
            if any(isinstance(d, ast.Name) and d.id in COMPILED for d in decorators):
                found[node.name] = node
    return found


def _fits(call: ast.Call, function: ast.FunctionDef) -> bool:
    a = function.args
    told = a.vararg is None and a.kwarg is None and not a.kwonlyargs
    if not told or call.keywords or any(isinstance(given, ast.Starred) for given in call.args):
        return True  # as far as can be seen from here
    return len(a.args) - len(a.defaults) <= len(call.args) <= len(a.args)


def _names(module: Module, modules: dict[str, Module]) -> dict[str, tuple[str, str]]:
    """What names of a module lead to: a module and a name in it, or a module and ""."""
    found = {}
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                found[alias.asname or alias.name] = (inside, "") if inside in modules else (node.module, alias.name)
    return found


def wrong_calls(modules: dict[str, Module]) -> Iterator[str]:
    compiled = {name: _compiled(module) for name, module in modules.items()}
    for name, module in modules.items():
        names = _names(module, modules)
        for function in compiled[name].values():
            for call in ast.walk(function):
                if not isinstance(call, ast.Call):
                    continue
                of, target = call.func, None
                if isinstance(of, ast.Name):
                    where, what = names.get(of.id, (name, of.id))
                    target = compiled.get(where, {}).get(what)
                elif isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id in names:
                    where, what = names[of.value.id]
                    target = compiled.get(where, {}).get(of.attr) if not what else None
                own = {a.arg for a in function.args.args}  # a function that is given to it may have any name
                if target is None or (isinstance(of, ast.Name) and of.id in own) or _fits(call, target):
                    continue
                takes, has = len(target.args.args), len(call.args)
                yield f"{module.file}:{call.lineno}: {target.name} takes {takes} arguments, here are {has}"


@pytest.mark.slow
def test_every_call_has_the_arguments_of_its_kernel() -> None:
    modules = read_kernels(ROOT)
    assert sum(len(_compiled(module)) for module in modules.values()) > 500  # they were looked at
    assert list(wrong_calls(modules)) == []


@pytest.mark.parametrize(
    ("call", "wrong"),
    [("b.f(x, 1)", False), ("b.f(x)", True), ("g(x)", False), ("g(x, 1, 2)", True), ("g(*x)", False)],
)
def test_a_wrong_call_is_found(tmp_path: Path, call: str, wrong: bool) -> None:
    for package in ("tandem", "daq_service", "sim_service", "sync"):
        (tmp_path / package).mkdir()
    (tmp_path / "sync" / "b.py").write_text("@inner\ndef f(x, y):\n    pass\n@kernel()\ndef g(x, y=1):\n    pass\n")
    text = f"from sync import b\nfrom sync.b import g\n@inner\ndef h(x):\n    return {call}\n"
    (tmp_path / "sim_service" / "a.py").write_text(text)
    assert bool(list(wrong_calls(read_kernels(tmp_path)))) is wrong
