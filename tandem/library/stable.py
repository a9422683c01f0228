"""Names that others build on, and what they look like: of `import tandem`, and of the contracts of machines, devices
and observers. They keep their place, their arguments, their fields and the defaults of these; a new argument or field
has a default and comes behind the others. Everything else may change.

What they look like is read from the sources, as it is written there, and held by tests/tandem/library/stable_names.txt.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# of a machine, a device, an observer, and what calls answer with: by module
CONTRACTS: dict[str, tuple[str, ...]] = {
    "sim_service.contract.machine": (
        "Machine", "Quantity", "Parameter", "Tables", "tables", "places", "index", "at_rest", "still", "Shown",
        "Efforts", "Placed", "Stepping", "Reshape", "Tangent", "Rates", "Moving", "Prediction", "DeviceCode",
        "Unrolling", "STEP", "FIT", "TANGENT", "Step",
    ),
    "sim_service.contract.display": ("Display", "Tile", "Curve", "Sound"),
    "sim_service.contract.scene": (
        "Scene", "Point", "Bar", "Wheel", "Solid", "Lever", "Arrow", "PushPoints", "Camera", "box", "poses",
    ),
    "sim_service.contract.stability": ("StabilityMonitor", "Following", "JUDGE"),
    "sync.compile.jit": ("kernel",),
    "sync.compile.array_copy": ("copy",),
    "daq_service.devices.contract": ("Device", "Actuator", "DeviceSettings", "Host"),
    "daq_service.effort_settings": ("EffortSettings", "PortSettings"),
    "tandem.estimation.contract": ("Observed", "Estimable", "LINEARISE", "MEASURE", "CORRECT"),
    "tandem.library.answers": ("RunResult", "ReplayFigures", "RecordInfo", "Tuned", "Balance", "Times"),
    "tandem.offline.model": ("Parameters",),
    "tandem.ensembles.sweep": ("Swept",),
    "sync.errors": (
        "TandemError", "ConfigError", "UnknownName", "Diverged", "DeviceError", "InputLost", "RingError", "WireError",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Stable:
    name: str  # as a user writes it: tandem.Model, sim_service.contract.machine.Machine
    text: str  # its first line: arguments, or bases
    members: tuple[str, ...] = ()  # of a class: fields, attributes, methods, a line each
    about: str = ""  # its docstring


def library() -> list[Stable]:
    """What `import tandem` gives."""
    places = _find("tandem", "_PLACES")
    assert isinstance(places, ast.Dict)
    return [stable(f"tandem.{name}", module, name) for name, module in sorted(ast.literal_eval(places).items())]


def contracts() -> dict[str, list[Stable]]:
    return {module: [stable(f"{module}.{name}", module, name) for name in names] for module, names in CONTRACTS.items()}


def lines() -> list[str]:
    """All of them, a line each."""
    every = [*library(), *(each for group in contracts().values() for each in group)]
    return [line for each in every for line in (each.text, *(f"    {member}" for member in each.members))]


def stable(shown: str, module: str, name: str) -> Stable:
    node = _find(module, name)
    if isinstance(node, ast.FunctionDef):
        return Stable(shown, f"{shown}{_signature(node)}", about=ast.get_docstring(node) or "")
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        by_name = {line.partition("(")[0].partition(":")[0].partition(" ")[0]: line for line in _members(module, node)}
        members = tuple(by_name.values())  # what a class overrides stands where its base has it
        return Stable(shown, f"class {shown}({bases})" if bases else f"class {shown}", members, _about(node))
    return Stable(shown, f"{shown} = {ast.unparse(node)}")


def _about(node: ast.ClassDef) -> str:
    return ast.get_docstring(node) or ""


@cache
def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _find(module: str, name: str) -> ast.FunctionDef | ast.ClassDef | ast.expr:
    for node in _tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name and not _overload(node):
            return node
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return node.value
    raise LookupError(f"{module}.{name}: is named as stable, and is not there")


def _overload(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(ast.unparse(each) == "overload" for each in node.decorator_list)


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"({ast.unparse(node.args)}){returns}"


def _members(module: str, node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        if (found := _base(module, ast.unparse(base))) is not None:
            yield from _members(*found)
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            value = f" = {ast.unparse(each.value)}" if each.value is not None else ""
            if not (name := ast.unparse(each.target)).startswith("_"):
                yield f"{name}: {ast.unparse(each.annotation)}{value}"
        elif isinstance(each, ast.Assign):
            for target in each.targets:
                if not (name := ast.unparse(target)).startswith("_"):
                    yield f"{name} = {ast.unparse(each.value)}"
        elif isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            yield from _method(each)
        elif isinstance(each, ast.FunctionDef) and each.name == "__init__":
            yield from _attributes(each)


def _method(node: ast.FunctionDef) -> Iterator[str]:
    decorated = {ast.unparse(each) for each in node.decorator_list}
    if decorated & {"property", "cached_property"}:
        yield f"{node.name}: {ast.unparse(node.returns) if node.returns is not None else ''}"
    elif not any(
        each.endswith((".setter", "field_validator", "overload")) or "validator(" in each for each in decorated
    ):
        yield f"{node.name}{_signature(node)}"


def _attributes(node: ast.FunctionDef) -> Iterator[str]:
    """Public ones that are set where it is made."""
    for each in ast.walk(node):
        targets: list[ast.expr]
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target).startswith("self."):
            targets, kind = [each.target], f": {ast.unparse(each.annotation)}"
        elif isinstance(each, ast.Assign):
            targets, kind = each.targets, ""
        else:
            continue
        for target in targets:
            name = ast.unparse(target)
            if name.startswith("self.") and not name.startswith("self._") and name.count(".") == 1:
                yield f"{name.removeprefix('self.')}{kind}"


def _base(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """A class of ours that another derives from; none of others'."""
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
            place = ROOT.joinpath(*node.module.split("."))
            if place.with_suffix(".py").is_file() and node.module not in ("sync.config.toml",):
                found = _find(node.module, name)
                return (node.module, found) if isinstance(found, ast.ClassDef) else None
    return None
