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
# what must stay apart inside a package: importers (this module and all below it), what they may not import, and why
APART = (
    ("tandem.multibody", "sim_service.registry", "multibody knows no machine"),
    ("sim_service.registry", "sim_service.loop", "a machine does not know what steps it"),
    ("sim_service.registry", "sim_service.service", "a machine does not know what steps it"),
    ("sim_service.registry", "sync.transport", "a machine knows no transport"),
    ("sim_service.registry", "sync.ring.ring", "a machine knows no transport"),
    ("sim_service.inputs", "sim_service.registry", "inputs serve any machine"),
    ("sim_service.loop", "sim_service.service", "the service runs the loop"),
)
# what lies above a machine's model in its folder, and may import anything of tandem but the command line
ABOVE = {"commands", "studies", "notes", "midi"}
_NOT_FOR_MODELS = (
    "sync.transport",
    "sync.ring.ring",
    "sim_service.loop",
    "sim_service.service",
    "daq_service",
    "tandem",
)


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
    for node in _statements(module.tree):
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


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All of them, inside functions, classes and branches too; expressions hold none, and are most of a tree."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inside in getattr(node, name, []):
            if isinstance(inside, ast.stmt):
                yield inside
            yield from _statements(inside)


def breaches(modules: dict[str, Module]) -> list[str]:
    found = [
        *_wrong_ways(modules),
        *_too_close(modules),
        *_machines(modules),
        *_circles(modules),
        *_private(modules),
    ]
    return sorted(found)


def _wrong_ways(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for one in module.imports:
            package = one.target.split(".")[0]
            if package != module.package and package not in ALLOWED[module.package]:
                allowed = ", ".join(sorted(ALLOWED[module.package])) or "none of the others"
                yield f"{module.file}:{one.line}: imports {one.target}; {module.package} may import {allowed}"


def _too_close(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for one in module.imports:
            for importer, forbidden, why in APART:
                if _within(module.name, importer) and _within(one.target, forbidden):
                    yield f"{module.file}:{one.line}: imports {one.target}; {why}"


def _machines(modules: dict[str, Module]) -> Iterator[str]:
    """A machine's model knows neither what steps it nor the program; the program finds machines by their names."""
    for module in modules.values():
        inside = _within(module.name, "tandem.machines")
        above = bool(ABOVE & set(module.name.split(".")))
        for one in module.imports:
            of_machines = _within(one.target, "tandem.machines")
            where = f"{module.file}:{one.line}: imports {one.target}"
            if not inside:
                if of_machines:
                    yield f"{where}; machines are found by their names (sync/config/plugins.py)"
            elif not above:
                of_above = of_machines and bool(ABOVE & set(one.target.split(".")))
                elsewhere = not of_machines and any(_within(one.target, other) for other in _NOT_FOR_MODELS)
                if of_above or elsewhere:
                    yield f"{where}; a machine's model knows neither what steps it nor what is above it"


def _within(name: str, whole: str) -> bool:
    return name == whole or name.startswith(whole + ".")


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
