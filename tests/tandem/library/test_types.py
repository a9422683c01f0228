"""The library is typed: a user's program under mypy's strict rules, with tandem installed as anybody has it."""

import ast
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tandem.library import stable

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("user_script.py")
# what calls of the library answer with, where it is no promise
ANSWERS = {
    "tandem.ensembles.estimate": ("Estimate", "Combination"),
    "tandem.ensembles.validate": ("Validated",),
    "tandem.ensembles.identification": ("Problem",),
    "tandem.ensembles.agreement": ("Agreement", "Averaged"),
    "tandem.ensembles.correlated": ("Noise", "Halves"),
    "tandem.ensembles.windows": ("Window",),
}
# of pandas and gymnasium, which need not be there
UNTYPED = {
    "tandem.library.recorded": {"Recorded.frame"},
    "tandem.library.vector_env": {"vector_env"},
    "tandem.offline.table": {"Table.frame"},
}
# numpy's own: an array's shape, any number of a kind, whatever becomes an array
_OF_NUMPY = re.compile(
    r"tuple\[Any, \.\.\.\]|numpy\.(integer|floating|generic)\[Any\]|_SupportsArray\[numpy\.dtype\[Any\]\]"
)


@dataclass(frozen=True)
class Place:
    """An environment that has tandem as a wheel lays it there, and what it needs."""

    folder: Path
    python: Path

    def mypy(self, script: Path) -> "subprocess.CompletedProcess[str]":
        options = ("--strict", "--config-file=", "--python-executable", self.python)
        cache = ("--cache-dir", ROOT / ".mypy_cache" / "user")
        return subprocess.run(
            [sys.executable, "-m", "mypy", *options, *cache, script],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("user")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    for package in ("tandem", "sync", "sim_service", "daq_service"):
        (site / package).symlink_to(ROOT / package)
    libraries = {sysconfig.get_path(key) for key in ("purelib", "platlib")}
    (site / "needed.pth").write_text("\n".join(libraries) + "\n")
    return Place(folder, python)


@pytest.mark.drill
@pytest.mark.slow
def test_a_users_program_is_typed_without_any_of_ours(place: Place) -> None:
    done = place.mypy(SCRIPT)
    assert done.returncode == 0, done.stdout
    broken = place.folder / "broken.py"
    text = SCRIPT.read_text()
    for right, wrong, complaint in (
        ('car.parameters["friction"] = 0.7', 'car.parameters["friction"] = "x"', "Incompatible types in assignment"),
        ("work: Floats, h: float) -> None", "work: Floats) -> None", 'Argument 6 to "Machine" has incompatible type'),
    ):
        assert right in text
        broken.write_text(text.replace(right, wrong))
        assert complaint in place.mypy(broken).stdout


@pytest.mark.drill
@pytest.mark.slow
def test_nothing_public_is_any(place: Place) -> None:
    """Every name of `tandem.__all__` and of the contracts, every member of a class: what mypy says that it is."""
    names = {name: line for module, each in _public() for name, line in _looks(module, each)}
    modules = sorted({module for module, _ in _public()})
    script = place.folder / "looked_at.py"
    script.write_text("\n".join([f"import {module}" for module in modules] + list(names.values())) + "\n")
    done = place.mypy(script)
    assert done.returncode == 0, done.stdout
    found = dict(zip(names, re.findall(r'Revealed type is "(.*)"', done.stdout), strict=True))
    untyped = {f"{module}.{name}" for module, several in UNTYPED.items() for name in several}
    assert {name: kind for name, kind in found.items() if _has_any(kind) and name not in untyped} == {}
    assert untyped <= {name for name, kind in found.items() if _has_any(kind)}


def _has_any(kind: str) -> bool:
    return re.search(r"\bAny\b", _OF_NUMPY.sub("", kind)) is not None


def _public() -> Iterator[tuple[str, str]]:
    places = stable._find("tandem", "_PLACES")
    of_tandem = ((module, name) for name, module in ast.literal_eval(places).items())
    groups = [*stable.CONTRACTS.items(), *ANSWERS.items()]
    others = ((module, name) for module, several in groups for name in several)
    yield from dict.fromkeys([*of_tandem, *others])


def _looks(module: str, name: str) -> Iterator[tuple[str, str]]:
    """A line that asks mypy, for a name and for each of its members."""
    whole = f"{module}.{name}"
    yield whole, f"reveal_type({whole})"
    if isinstance(node := stable._find(module, name), ast.ClassDef):
        typed_dict = any(ast.unparse(base) == "TypedDict" for base in node.bases)
        for line in stable.stable(name, module, name).members:
            member = re.split(r"[(: ]", line, maxsplit=1)[0]
            asked = f'["{member}"]' if typed_dict else f".{member}"
            yield f"{whole}.{member}", f"def _(it: {whole}) -> None: reveal_type(it{asked})"
