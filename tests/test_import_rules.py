"""The rules of imports hold for this tree, and each of them is broken by the smallest tree that can break it."""

import gc
from pathlib import Path

import pytest

from sync.compile import dependencies
from tests.import_rules import breaches, drawing, read_tree

ROOT = Path(__file__).resolve().parents[1]


def tree(root: Path, files: dict[str, str]) -> Path:
    """Packages made of these files; whatever is not given is there and empty."""
    for package in ("tandem", "daq_service", "sim_service", "sync"):
        (root / package).mkdir()
        (root / package / "__init__.py").touch()
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in file.parent.relative_to(root).parents:
            (root / folder / "__init__.py").touch()
        (file.parent / "__init__.py").touch()
        file.write_text(text)
    return root


def found_in(root: Path) -> list[str]:
    return breaches(read_tree(root))


@pytest.fixture(scope="module")
def modules():
    """Of this tree. A million nodes of syntax, all in use: to look for garbage among them takes longer than to read
    them."""
    gc.disable()
    yield read_tree(ROOT)
    gc.enable()


def test_the_rules_hold_here(modules):
    assert {Path("sync/ring/ring.py"), Path("sim_service/loop.py")} <= {module.file for module in modules.values()}
    assert sum(len(module.imports) for module in modules.values()) > 500  # they were looked at
    assert breaches(modules) == []


def test_no_program_is_imported_by_the_package_that_it_lies_in(modules):
    """Python would run its file twice, and warn about that on the terminal."""
    programs = [ROOT / one.file for one in modules.values() if "\nif __name__ ==" in (ROOT / one.file).read_text()]
    assert len(programs) > 10
    assert [file for file in programs if file in dependencies.runs(file.with_name("__init__.py"))] == []


def test_the_arrows_of_the_page_are_those_of_the_code(modules):
    """What is right there: python -m tests.import_rules"""
    drawn = (ROOT / "docs" / "architecture.md").read_text().partition("## Who imports whom")[2].split("```")[1]
    assert drawn.removeprefix("text\n") == drawing(modules)


def test_what_runs_beside_a_machine_can_be_read_whole(modules):
    """The path and its two processes, without any machine: some 23 000 lines."""
    path = [one.file for one in modules.values() if one.package in ("sync", "daq_service", "sim_service")]
    lines = sum(len((ROOT / file).read_text().splitlines()) for file in path)
    assert 15_000 < lines < 25_000


def test_a_drawing_has_each_room_above_what_it_imports_and_no_arrow_that_follows_from_others(tmp_path):
    files = {"tandem/view/a.py": "import sync.ring.b\nimport sync.compile.c\n", "sync/compile/c.py": ""}
    lines = drawing(read_tree(tree(tmp_path, {**files, "sync/ring/b.py": "import sync.compile.c\n"}))).splitlines()
    assert "tandem.view  → sync.ring" in lines and "sync.ring    → sync.compile" in lines
    places = [
        lines.index(line)
        for name in ("tandem.view ", "sync.ring ", "sync.compile")
        for line in lines
        if line.startswith(name)
    ]
    assert places == sorted(places)


def test_what_is_allowed_passes(tmp_path):
    root = tree(
        tmp_path,
        {
            "tandem/a.py": "from daq_service.b import f\nfrom sim_service import c\nimport numpy as np\nc.run(f, np)\n",
            "daq_service/b.py": "from sync.ring.ring import push\nf = push\n",
            "sim_service/c.py": "def run():\n    from sync.ring.ring import SIZE, push\n    from .d import _near\n",
            "sim_service/d.py": "_near = 1\n",
            "sync/ring/ring.py": "from sync.compile.jit import kernel\nSIZE = 1\n@kernel()\ndef push(): pass\n",
            "sync/compile/jit.py": "def kernel(): pass\n",
        },
    )
    assert found_in(root) == []


@pytest.mark.parametrize(
    "importer, imported",
    [
        ("sync", "sim_service"),
        ("sync", "daq_service"),
        ("sync", "tandem"),
        ("daq_service", "sim_service"),
        ("sim_service", "daq_service"),
        ("sim_service", "tandem"),
        ("daq_service", "tandem"),
        ("sync", "verify"),
        ("tandem", "verify"),
    ],
)
@pytest.mark.parametrize("text", ["import {0}.other\n", "from {0}.other import x\n", "from {0} import other\n"])
def test_an_import_against_the_direction_is_found(tmp_path, importer, imported, text):
    root = tree(tmp_path, {f"{importer}/one.py": text.format(imported), f"{imported}/other.py": "x = 1\n"})
    (found,) = found_in(root)
    assert found.startswith(f"{importer}/one.py:1: imports {imported}.other; {importer} may import")


def test_an_import_inside_a_function_counts(tmp_path):
    root = tree(tmp_path, {"sync/one.py": "def f():\n    from tandem.two import main\n", "tandem/two.py": "main = 1\n"})
    assert len(found_in(root)) == 1


def test_an_import_for_type_checking_counts(tmp_path):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sync.two import B\n"
    root = tree(tmp_path, {"sync/one.py": text, "sync/two.py": "from sync.one import A\n"})
    assert found_in(root) == [
        "sync/one.py, sync/two.py: import each other in a circle; move what they share into a module below them"
    ]


@pytest.mark.parametrize("length", [2, 3, 6])
@pytest.mark.parametrize("form", ["from sync.m{0} import f\n", "def f():\n    from . import m{0}\n"])
def test_a_circle_of_any_length_is_found_once(tmp_path, length, form):
    files = {f"sync/m{n}.py": form.format((n + 1) % length) for n in range(length)}
    (found,) = found_in(tree(tmp_path, {**files, "sync/outside.py": "from sync.m0 import f\n"}))
    assert "circle" in found and all(name in found for name in files) and "outside" not in found


def test_two_circles_are_two(tmp_path):
    files = {f"sync/{a}.py": f"import sync.{b}\n" for a, b in ("ab", "ba", "cd", "dc")}
    assert len(found_in(tree(tmp_path, files))) == 2


def test_a_package_that_gathers_its_parts_is_no_circle_but_a_part_that_imports_it_is(tmp_path):
    files = {"sync/box/__init__.py": "from sync.box.part import f\n", "sync/box/part.py": "def f(): pass\n"}
    root = tree(tmp_path, files)
    (root / "sync/box/__init__.py").write_text(files["sync/box/__init__.py"])
    assert found_in(root) == []
    (root / "sync/box/other.py").write_text("from sync.box import f\n")
    assert found_in(root) == []  # nothing of the package needs it
    (root / "sync/box/part.py").write_text("from sync.box.other import g\ndef f(): pass\n")
    assert len(found_in(root)) == 1


@pytest.mark.parametrize("text", ["from sync.deep.one import _hidden\n", "from sync.deep import _module\n"])
def test_a_private_name_of_another_package_is_found(tmp_path, text):
    root = tree(
        tmp_path, {"tandem/a.py": text, "sync/deep/one.py": "def _hidden(): pass\n", "sync/deep/_module.py": "x = 1\n"}
    )
    (found,) = found_in(root)
    assert found.startswith("tandem/a.py:1: imports _") and "private" in found


@pytest.mark.parametrize(
    "importer, imported",
    [
        ("tandem/multibody/natural/a.py", "tandem/machines/car.py"),
        ("tandem/machines/car/a.py", "sync/transport/wire.py"),
        ("tandem/machines/car/a.py", "sim_service/loop.py"),
        ("sim_service/inputs/a.py", "tandem/machines/car.py"),
    ],
)
def test_layers_inside_the_simulator_stay_apart(tmp_path, importer, imported):
    module = imported.removesuffix(".py").replace("/", ".")
    (found,) = found_in(tree(tmp_path, {imported: "x = 1\n", importer: f"import {module}\n"}))
    assert found.startswith(f"{importer}:1: imports {module}; ")


@pytest.mark.parametrize(
    "importer, imported",
    [
        ("tandem/machines/piano/phases.py", "sync/transport/wire.py"),
        ("tandem/machines/piano/phases.py", "tandem/console/terminal.py"),
        ("tandem/machines/piano/phases.py", "tandem/machines/piano/studies/a.py"),
        ("tandem/view/page.py", "tandem/machines/piano/phases.py"),
    ],
)
def test_a_model_knows_nothing_above_it_and_the_program_no_machine(tmp_path, importer, imported):
    name = imported.removesuffix(".py").replace("/", ".")
    (found,) = found_in(tree(tmp_path, {importer: f"import {name}\n", imported: ""}))
    assert found.startswith(f"{importer}:1: imports {name}; ")


def test_what_is_above_a_model_may_import_it_and_the_program(tmp_path):
    text = "import tandem.machines.piano.phases\nimport tandem.console.terminal\nimport sync.ring.ring\n"
    below = dict.fromkeys(("tandem/machines/piano/phases.py", "tandem/console/terminal.py", "sync/ring/ring.py"), "")
    files = {f"tandem/machines/piano/{name}.py": text for name in ("commands", "studies/a")}
    assert found_in(tree(tmp_path, {**files, **below})) == []
