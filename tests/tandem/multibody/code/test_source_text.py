"""C text computes what the machine code does."""

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from tandem.multibody.code.graph import Graph
from tandem.multibody.code.llvm import Function, compiled
from tandem.multibody.code.source_text import c_header, c_text, work_sizes
from tandem.multibody.relative.generate import generate
from tests.tandem.multibody.code.graphs import inputs
from tests.tandem.multibody.code.test_llvm import function, staged
from tests.tandem.multibody.relative.test_tree import mechanism

COMPILER = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
needs_c = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def library(folder, functions, part=800):
    text = folder / "f.c"
    text.write_text(c_text(functions, part))
    command = [COMPILER, "-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wno-unused", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(folder / "f.so"), str(text), "-lm"], check=True, timeout=120)
    return ctypes.CDLL(str(folder / "f.so"))


def call(code, f, given, part=800):
    out = [np.zeros(len(exprs)) for exprs in f.outputs.values()]
    work = np.zeros(work_sizes([f], part)[f.name] + 1)
    work[-1] = 7.0
    arrays = [*(np.ascontiguousarray(given[name], float) for name in f.inputs), *out, work]
    for entry in f.entries:
        getattr(code, entry)(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
    assert work[-1] == 7.0  # no more work than was said
    return np.concatenate([np.zeros(0), *out])


@needs_c
@pytest.mark.parametrize("part", [3, 800])
def test_c_gives_the_bits_of_the_machine_code(tmp_path, part):
    f, g = function(1), replace(staged(2), name="g")
    code, other = library(tmp_path, [f, g], part), compiled([f, g], tmp_path)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        given = inputs(rng) | {"z": rng.normal(size=20)}
        for one in (f, g):
            expected = np.concatenate(other.call(one.name, *(given[name] for name in one.inputs)))
            assert call(code, one, given, part).tobytes() == expected.tobytes()


@needs_c
@pytest.mark.parametrize("name", ["four_bar", "gyroscope"])
def test_c_of_a_mechanism_gives_the_bits_of_its_machine_code(tmp_path, name):
    made = generate(mechanism(name))
    code, other = library(tmp_path, made.functions), compiled(made.functions)
    rng = np.random.default_rng(1)
    for f in made.functions:
        given = {array: rng.uniform(-0.3, 0.3, _length(f, array)) for array in f.inputs}
        expected = np.concatenate([np.zeros(0), *other.call(f.name, *(given[array] for array in f.inputs))])
        assert call(code, f, given).tobytes() == expected.tobytes()


def _length(f, array):
    of = (node[2] for node in f.graph.nodes if node[:2] == ("input", array))
    return 1 + max(of, default=0)


def test_arrays_have_restrict_and_what_is_read_is_constant():
    text = c_text([function(1)])
    assert re.search(
        r"^void f\(const double \*restrict x, const double \*restrict y, double \*restrict a, double \*restrict b,"
        r" double \*restrict work\)$",
        text,
        re.MULTILINE,
    )
    assert text.count("void f(") == 1
    assert c_header([function(1)]).startswith("void f(const double *restrict x")


def test_names_that_are_none_in_c_are_refused():
    g = Graph()
    with pytest.raises(ValueError, match="name in C"):
        c_text([Function("f.1", g, ("x",), ({"y": [g.input("x", 0)]},))])


def test_constants_are_written_to_the_last_bit():
    g = Graph()
    x = g.input("x", 0)
    text = c_text([Function("f", g, ("x",), ({"y": [x * 0.1, x + -1.5]},))])
    assert "0x1.999999999999ap-4" in text
    assert "(-0x1.8000000000000p+0)" in text
