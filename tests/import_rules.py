"""The rules of imports, over any tree of packages, from the sources alone: nothing is imported to look at it.

An import counts wherever it stands, also inside a function or for type checking only: what is named there must exist.
`breaches` returns sentences, each with file, line and what would be right.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# what each package may import besides itself
ALLOWED = {
    "tandem": {"daq_service", "sim_service", "sync"},
    "daq_service": {"sync"},
    "sim_service": {"sync"},
    "sync": set(),
}
_COMPILERS = {"kernel", "njit", "jit", "intrinsic", "cfunc", "vectorize"}  # decorators that make compiled functions


@dataclass(frozen=True)
class Import:
    """`name` of module `target`, or the module itself if `name` is empty."""

    target: str
    name: str
    line: int


@dataclass
class Module:
    name: str
    file: Path
    tree: ast.Module
    imports: list[Import] = field(default_factory=list)

    @property
    def package(self) -> str:
        return self.name.split(".")[0]

    @property
    def folder(self) -> str:
        """The innermost package it belongs to."""
        return self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]


def read_tree(root: Path) -> dict[str, Module]:
    """Every module of the packages below `root`, by its dotted name."""
    modules = {}
    for package in ALLOWED:
        for file in sorted((root / package).rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            modules[name] = Module(name, file.relative_to(root), ast.parse(file.read_text(), str(file)))
    for module in modules.values():
        module.imports = list(_imports(module, modules))
    return modules


def _imports(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ALLOWED:
                    yield Import(alias.name, "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.folder.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            if base.split(".")[0] in ALLOWED:
                for alias in node.names:
                    inside = f"{base}.{alias.name}"
                    yield (
                        Import(inside, "", node.lineno) if inside in modules else Import(base, alias.name, node.lineno)
                    )


def breaches(root: Path) -> list[str]:
    modules = read_tree(root)
    found = [*_wrong_ways(modules), *_circles(modules), *_private(modules), *_for_constants(modules)]
    return sorted(found)


def _wrong_ways(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for one in module.imports:
            package = one.target.split(".")[0]
            if package != module.package and package not in ALLOWED[module.package]:
                allowed = ", ".join(sorted(ALLOWED[module.package])) or "none of the others"
                yield f"{module.file}:{one.line}: imports {one.target}; {module.package} may import {allowed}"


def _circles(modules: dict[str, Module]) -> Iterator[str]:
    edges = {name: {i.target for i in m.imports if i.target in modules} - {name} for name, m in modules.items()}
    for group in _components(edges):
        files = ", ".join(str(modules[name].file) for name in sorted(group))
        yield f"{files}: import each other in a circle; move what they share into a module below them"


def _components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Groups of more than one node in which every node reaches every other (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            at = stack.index(node)
            groups.append(set(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return [group for group in groups if len(group) > 1]


def _private(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for one in module.imports:
            name = one.name or one.target.rpartition(".")[2]
            target = modules.get(one.target)
            beside = target is not None and target.folder == module.folder
            if name.startswith("_") and not name.startswith("__") and not beside:
                yield f"{module.file}:{one.line}: imports {name} of {one.target}, which is private to its package"


def _for_constants(modules: dict[str, Module]) -> Iterator[str]:
    """Importing a compiled module compiles or loads it, and ties one's own compiled code to every edit of it."""
    compiled = {name: _constants(m.tree) for name, m in modules.items() if _compiles(m.tree)}
    for module in modules.values():
        used: dict[str, list[tuple[str, int]]] = {}
        for one in module.imports:
            if one.target in compiled:
                names = [one.name] if one.name else _attributes(module.tree, one)
                used.setdefault(one.target, []).extend((name, one.line) for name in names)
        for target, names in used.items():
            if names and all(name in compiled[target] for name, _ in names):
                listed = ", ".join(sorted({name for name, _ in names}))
                yield (
                    f"{module.file}:{names[0][1]}: imports the compiled module {target} only for {listed}; "
                    "constants belong into a module that compiles nothing"
                )


def _compiles(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and any(_makes_kernels(d, tree) for d in node.decorator_list)
        for node in ast.walk(tree)
    )


def _makes_kernels(decorator: ast.expr, tree: ast.Module) -> bool:
    """Whether it is one of the compilers, or a name for one with options (`inner = kernel(...)`), also imported."""
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = call.attr if isinstance(call, ast.Attribute) else call.id if isinstance(call, ast.Name) else ""
    return name in _COMPILERS or name in _decorators(tree) or name == "inner"


def _decorators(tree: ast.Module) -> set[str]:
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.func, ast.Name) and node.value.func.id in _COMPILERS
    }


def _constants(tree: ast.Module) -> set[str]:
    """Names a module binds by assignment and not by def, class or import; decorators are none."""
    names = set()
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return names - _decorators(tree)


def _attributes(tree: ast.Module, one: Import) -> list[str]:
    """What is used of a module that was imported whole, by the last part of its name or its alias."""
    called = {one.target.rpartition(".")[2]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno == one.line:
            called |= {a.asname for a in node.names if a.asname and one.target.endswith(a.name)}
    return [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ((isinstance(node.value, ast.Name) and node.value.id in called) or ast.unparse(node.value) == one.target)
    ]
