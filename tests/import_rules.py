"""The rules of imports, over any tree of packages, from the sources alone: nothing is imported to look at it.

An import counts wherever it stands, also inside a function or for type checking only: what is named there must exist.
`breaches` returns sentences, each with file, line and what would be right.

    python -m tests.import_rules       print which room imports which, as it stands in docs/architecture.md
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ("tandem", "daq_service", "sim_service", "sync", "verify")  # top to bottom but the last, which is above all
# what lies above a machine's model in its folder, and may import anything of tandem but the command line
ABOVE = {"commands", "studies", "doctor", "report", "device", "notes", "midi"}
_MODEL, _BROUGHT = "a machine's model", "what a machine brings"
# who may import what, besides itself: the innermost room counts. A name stands for all below it
_CONTRACT = ("sim_service.contract", "sim_service.registry", "sim_service.composite")
_BELOW = (
    "sync.compile", "sync.config", "sync.files", "sync.signals", "sync.ring.block", "sync.errors", "sync.visible",
)  # fmt: skip
ARROWS: dict[str, tuple[str, ...]] = {
    "sync": (),
    "daq_service": ("sync",),
    "sim_service": ("sync", *_CONTRACT),
    "sim_service.contract": _BELOW,
    "sim_service.registry": ("sim_service.contract", *_BELOW),
    "sim_service.composite": ("sim_service.contract", *_BELOW),
    "tandem.multibody": (*_BELOW, "sim_service.contract"),
    "tandem.estimation": (*_BELOW, "sim_service.contract", "tandem.multibody"),
    _MODEL: (*_BELOW, *_CONTRACT, "tandem.multibody", "tandem.estimation"),
    _BROUGHT: ("sync", "daq_service", "sim_service", "tandem"),
    "tandem": ("sync", "daq_service", "sim_service"),
    "verify": ("sync", "daq_service", "sim_service", "tandem"),
}
# the rooms of the program: each imports those behind it in some order, never in a circle; what is on top is no room
ON_TOP = ("tandem", "tandem.__main__", "tandem.commands", "tandem.library")


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
    for package in PACKAGES:
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
                if alias.name.split(".")[0] in PACKAGES:
                    yield Import(alias.name, "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.folder.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            if base.split(".")[0] in PACKAGES:
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


def area_of(name: str) -> str:
    """Whose arrows a module has: those of a package, of a room of the physics, or of a part of a machine."""
    if _within(name, "tandem.machines"):
        return _BROUGHT if ABOVE & set(name.split(".")) else _MODEL
    return max((area for area in ARROWS if _within(name, area)), key=len)


def room_of(name: str) -> str:
    """The folder of a package that a module is in; among these there is no circle either."""
    area, parts = area_of(name), name.split(".")
    return ".".join(parts[:2]) if area in ("sync", "tandem") else area


def breaches(modules: dict[str, Module]) -> list[str]:
    found = [
        *_wrong_ways(modules),
        *_machines(modules),
        *_circles({name: {one.target for one in module.imports} for name, module in modules.items()}, modules),
        *_circles_of_rooms(modules),
        *_private(modules),
    ]
    return sorted(found)


def _wrong_ways(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        area = area_of(module.name)
        for one in module.imports:
            of = area_of(one.target)
            inside = of == area or (area == "tandem" and one.target.startswith("tandem."))
            if not inside and not any(_within(one.target, name) for name in ARROWS[area]):
                may = ", ".join(ARROWS[area]) or "none of the others"
                yield f"{module.file}:{one.line}: imports {one.target}; {area} may import {may}"


def _machines(modules: dict[str, Module]) -> Iterator[str]:
    """The program finds machines by their names, and nobody but what is on top imports the command line."""
    for module in modules.values():
        of_the_program = area_of(module.name) == "tandem"
        for one in module.imports:
            where = f"{module.file}:{one.line}: imports {one.target}"
            if _within(one.target, "tandem.machines") and of_the_program:
                yield f"{where}; machines are found by their names (sync/config/plugins.py)"
            if _within(one.target, "tandem.commands") and room_of(module.name) not in ON_TOP:
                yield f"{where}; the command line is above everything"


def _within(name: str, whole: str) -> bool:
    return name == whole or name.startswith(whole + ".")


def _circles(edges: dict[str, set[str]], modules: dict[str, Module]) -> Iterator[str]:
    for group in _components({name: (to & modules.keys()) - {name} for name, to in edges.items()}):
        files = ", ".join(str(modules[name].file) for name in sorted(group))
        yield f"{files}: import each other in a circle; move what they share into a module below them"


def arrows(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Which room imports which."""
    rooms: dict[str, set[str]] = {room_of(name): set() for name in modules}
    for module in modules.values():
        rooms[room_of(module.name)] |= {room_of(one.target) for one in module.imports if one.target in modules}
    return {room: to - {room} for room, to in rooms.items()}


def drawing(modules: dict[str, Module]) -> str:
    """A line a room, each above all it imports; what follows from another arrow is left out."""
    to = arrows(modules)

    def reached(room: str) -> set[str]:
        return to[room].union(*(reached(other) for other in to[room]))

    def height(room: str) -> int:
        return max((1 + height(other) for other in to[room]), default=0)

    wide = max(map(len, to))
    lines = []
    for room in sorted(to, key=lambda room: (-height(room), room)):
        direct = ", ".join(sorted(to[room] - set().union(*map(reached, to[room]))))
        lines.append(f"{room:{wide}} → {direct}\n" if direct else f"{room}\n")
    return "".join(lines)


def _circles_of_rooms(modules: dict[str, Module]) -> Iterator[str]:
    for group in _components(arrows(modules)):
        if all(modules[room].file.name != "__init__.py" for room in group if room in modules):
            continue  # single files: a circle of these is found as such
        yield f"{', '.join(sorted(group))}: rooms that import each other in a circle; move what they share below them"


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


if __name__ == "__main__":
    print(drawing(read_tree(Path(__file__).resolve().parents[1])), end="")
