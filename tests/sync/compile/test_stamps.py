"""A kernel is compiled again when an edit changes it, and only then."""

import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sync.compile import stamps as kernel_stamps

_count = itertools.count()
PARTS = '''
"""Parts."""
from enum import IntEnum

import numpy as np
from numba.extending import intrinsic
from sync.compile.jit import inner, kernel

GAIN = 2.0
OTHER = 3.0
TABLE = np.array([1.0, 2.0])


class Place(IntEnum):
    FIRST = 0


WIDTHS = {"word": 3}


def _width():
    return WIDTHS["word"]


@intrinsic
def word(typingctx):
    def codegen(context, builder, signature, args):
        return context.get_constant(signature.return_type, _width())

    return typingctx, codegen


@inner
def deep(x):
    return GAIN * x


@kernel()
def middle(x):
    """Twice."""
    return deep(x) + TABLE[Place.FIRST]


@inner
def beside(x):
    return OTHER * x


def scaled_by(function, factor=1.0):
    @inner
    def scaled(x):
        return factor * function(x)

    return scaled
'''
KERNELS = """
import PARTS
from PARTS import deep, inner, middle, scaled_by, word


@inner
def direct(x, y=0.5):
    return middle(x) + y


@inner
def by_module(x):
    return PARTS.deep(x)


@inner
def with_word(x):
    return x + word()


of_a_function = scaled_by(deep)
"""


@pytest.fixture
def stamps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Stamps of the kernels above after an edit (old text, new text)."""
    names = ("direct", "by_module", "with_word", "of_a_function")

    def stamps(old: str = "", new: str = "") -> dict[str, str]:
        assert old in PARTS + KERNELS
        folder = tmp_path / str(next(_count))
        folder.mkdir()
        for name, text in (("edited_parts", PARTS), ("edited_kernels", KERNELS)):
            (folder / f"{name}.py").write_text(text.replace(old, new).replace("PARTS", "edited_parts"))
            sys.modules.pop(name, None)
        monkeypatch.syspath_prepend(folder)
        kernels: Any = importlib.import_module("edited_kernels")
        return {name: kernel_stamps.stamp(getattr(kernels, name).py_func) for name in names}

    return stamps


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("GAIN = 2.0", "GAIN = 2.5", {"direct", "by_module", "of_a_function"}),
        ("OTHER = 3.0", "OTHER = 3.5", set()),
        ("return OTHER * x", "return OTHER + x", set()),
        ("[1.0, 2.0]", "[1.0, 2.5]", {"direct"}),
        ("FIRST = 0", "FIRST = 1", {"direct"}),
        ("return GAIN * x", "return GAIN * x + 1.0", {"direct", "by_module", "of_a_function"}),
        ("factor=1.0", "factor=2.0", {"of_a_function"}),
        ('{"word": 3}', '{"word": 4}', {"with_word"}),
        ('WIDTHS["word"]\n', 'WIDTHS["word"] + 1\n', {"with_word"}),
        ("y=0.5", "y=0.6", {"direct"}),
        ("@kernel()\n", "@kernel(fastmath=True)\n", {"direct"}),
        ('"""Twice."""', '"""Two times."""', set()),
        ('"""Parts."""', "# a line more\n\n", set()),
    ],
)
def test_an_edit_changes_the_stamps_of_the_kernels_that_use_it(
    stamps: Callable[..., dict[str, str]], old: str, new: str, changed: set[str]
) -> None:
    before, after = stamps(), stamps(old, new)
    assert {name for name in before if before[name] != after[name]} == changed


def test_a_text_that_was_given_to_a_function_later_is_no_constant_of_it() -> None:
    def made(factor: str) -> Any:
        space: dict[str, Any] = {}
        exec(compile(f"def scaled(x):\n    return {factor} * x\n", __file__, "exec"), space)
        space["scaled"].__doc__ = "Scaled."
        return space["scaled"]

    assert kernel_stamps.stamp(made("2.0")) == kernel_stamps.stamp(made("2.0")) != kernel_stamps.stamp(made("3.0"))


def test_a_kernel_that_names_what_comes_later_counts_with_its_whole_file(tmp_path: Path) -> None:
    def stamp(text: str) -> str:
        file = tmp_path / f"later_{next(_count)}" / "later.py"
        file.parent.mkdir()
        file.write_text(text)
        spec = importlib.util.spec_from_file_location("later", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.stamped = kernel_stamps.stamp  # type: ignore[attr-defined]
        spec.loader.exec_module(module)
        return str(module.found)

    text = "def first(x):\n    return second(x)\n\nfound = stamped(first)\n\ndef second(x):\n    return x\n"
    assert stamp(text) == stamp(text) != stamp(text.replace("return x\n", "return 2 * x\n"))


def test_what_teaches_numba_to_compile_a_type_counts_with_all_who_import_it(tmp_path: Path) -> None:
    def stamp(body: str) -> str:
        folder = tmp_path / str(next(_count))
        folder.mkdir()
        (folder / "taught.py").write_text(
            "from numba.extending import overload\ndef size(x):\n    raise NotImplementedError\n"
            f"@overload(size)\ndef _size(x):\n    return lambda x: {body}\n"
        )
        (folder / "uses.py").write_text("import taught\nfrom taught import size\ndef twice(x):\n    return size(x)\n")
        for name in ("taught", "uses"):
            sys.modules.pop(name, None)
        sys.path.insert(0, str(folder))
        try:
            return kernel_stamps.stamp(importlib.import_module("uses").twice)
        finally:
            sys.path.remove(str(folder))

    assert stamp("1") == stamp("1") != stamp("2")
