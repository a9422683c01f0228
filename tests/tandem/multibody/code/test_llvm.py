"""Machine code computes what the graph says, to the bit, however it is split; what is kept of it is used if whole."""

import ctypes
import gc
import platform
import re
from dataclasses import replace

import numpy as np
import pytest

from tandem.multibody.code import llvm
from tandem.multibody.code.graph import CONSTANT, INPUT, UNARY, Graph
from tandem.multibody.code.llvm import Function, compiled, module_text, object_code, split
from tests.tandem.multibody.code.graphs import SIZE, inputs, plain, random_graph

TARGETS = {
    "x86_64-unknown-linux-gnu": b"\x7fELF",
    "x86_64-pc-windows-msvc": b"\x64\x86",
    "arm64-apple-macosx": b"\xcf\xfa\xed\xfe",
}


def function(seed: int, size: int = 200) -> Function:
    """A random graph with its outputs in two arrays; one is given out twice."""
    g, outputs = random_graph(seed, size)
    return Function("f", g, ("x", "y"), ({"a": outputs[:4], "b": [*outputs[3:], g.input("x", 1), g.constant(2.5)]},))


def staged(seed: int) -> Function:
    """Three stages: the second reads what is put in after the first, and all give out what earlier ones made."""
    g, outputs = random_graph(seed)
    z = g.inputs("z", len(outputs))
    between = [e * f + g.cos(f) for e, f in zip(outputs, z, strict=True)]
    return Function(
        "f", g, ("x", "y", "z"),
        ({"a": outputs}, {"b": [*between, outputs[0], z[0]]}, {"c": [between[0], outputs[-1], g.sin(between[1])]}),
    )  # fmt: skip


def called(code: llvm.Compiled, function: Function, given: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate(code.call(function.name, *(given[name] for name in function.inputs)))


def by_hand(function: Function, given: dict[str, np.ndarray]) -> np.ndarray:
    return plain(function.graph, [e for array in function.outputs.values() for e in array], given)


@pytest.mark.parametrize("seed", range(8))
def test_code_computes_the_graph_to_the_bit(tmp_path, seed):
    one = function(seed)
    code = compiled([one], tmp_path)
    for k in range(20):
        given = inputs(np.random.default_rng(k))
        assert called(code, one, given).tobytes() == by_hand(one, given).tobytes()


@pytest.mark.parametrize("one", [function(3, 900), staged(5)], ids=["in parts", "in stages"])
def test_every_address_is_a_constant_within_its_array(one):
    """Whatever the numbers are, generated code reads and writes nothing but places that its graph names."""
    read = [node for node in one.graph.nodes if node[0] == INPUT]
    sizes = {name: 1 + max((node[2] for node in read if node[1] == name), default=-1) for name in one.inputs}
    sizes |= {name: len(exprs) for name, exprs in one.outputs.items()} | {"work": split(one)[1]}
    pointers, count = set(), 0
    for line in module_text([one]).splitlines():
        if found := re.fullmatch(r"  (%\w+) = getelementptr double, ptr %(\w+), i64 (\d+)", line):
            assert int(found[3]) < sizes[found[2]], line
            pointers.add(found[1])
        elif " ptr " in line and not line.startswith(("define", "declare", "  call void @f")):
            pointer = re.search(r"ptr (%\w+)$", line)
            assert pointer and pointer[1] in pointers, line
            count += 1
        else:
            assert "inttoptr" not in line and "ptrtoint" not in line
    assert count > 50


def test_every_operation_is_compiled_to_its_own(tmp_path):
    g = Graph()
    x = g.inputs("x", 4)
    made = [g.operation(what, x[:1]) for what in UNARY]
    made += [x[0] + x[1], x[0] - x[1], x[0] * x[1], x[0] / x[1], g.min(*x[:2]), g.max(*x[:2]), g.select(*x)]
    one = Function("f", g, ("x",), ({"y": made},))
    code = compiled([one], tmp_path)
    for at in ([0.3, 0.7, 1.0, 2.0], [0.7, 0.3, -1.0, 2.0], [2.0, 2.0, 3.0, 4.0], [1e-300, -1e300, 0.0, 5.0]):
        given = {"x": np.array(at)}
        assert called(code, one, given).tobytes() == by_hand(one, given).tobytes()


def test_what_is_no_number_takes_the_side_that_the_graph_takes(tmp_path):
    g = Graph()
    a, b = g.inputs("x", 2)
    one = Function("f", g, ("x",), ({"y": [g.min(a, b), g.max(a, b), g.select(a, b, a, b)]},))
    code = compiled([one], tmp_path)
    for at in ([np.nan, 1.0], [1.0, np.nan]):
        np.testing.assert_array_equal(called(code, one, {"x": np.array(at)}), g.evaluate(one.outputs["y"], {"x": at}))


@pytest.mark.parametrize("part", [1, 2, 7, 50, 10_000])
def test_parts_of_any_size_give_the_same_bits(tmp_path, part):
    for one in (function(1), staged(2)):
        rng = np.random.default_rng(1)
        given = inputs(rng) | {"z": rng.normal(size=20)}
        whole = called(compiled([one], tmp_path), one, given)
        assert called(compiled([one], tmp_path, part), one, given).tobytes() == whole.tobytes()
        assert whole.tobytes() == by_hand(one, given).tobytes()


@pytest.mark.parametrize("part", [1, 3, 20, 800])
def test_parts_make_every_operation_once_and_read_what_was_left(part):
    for one in (function(3), staged(4)):
        g = one.graph
        parts, size = split(one, part)
        work: dict[int, int] = {}
        made: list[int] = []
        for p in parts:
            assert len(p.ids) <= part
            assert all(work[place] == id for id, place in p.reads.items())
            here = set(p.ids)
            for id in p.ids:
                for k in g.operands(id):
                    assert k in here or k in p.reads or g.nodes[k][0] in (CONSTANT, INPUT)
            for id, place in p.leaves.items():
                assert place < size
                assert place not in p.reads.values()  # a value stays where it is while it is read
                work[place] = id
            made += p.ids
        assert len(made) == len(set(made)) == one.operations


def test_stages_are_called_one_by_one_and_read_what_was_put_in_between(tmp_path):
    one = staged(5)
    assert one.entries == ["f_0", "f_1", "f_2"]
    code = compiled([one], tmp_path, 10)
    given = inputs(np.random.default_rng(2)) | {"z": np.full(len(one.stages[0]["a"]), np.nan)}
    out = [np.zeros(len(exprs)) for exprs in one.outputs.values()]
    work = np.zeros(code.work_size)
    arrays = [*given.values(), *out, work]
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
    entry = [ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(code.address[e]) for e in one.entries]
    entry[0](*pointers)
    assert np.all(np.isfinite(out[0]))
    given["z"][:] = np.sin(out[0])
    for stage in entry[1:]:
        stage(*pointers)
    assert np.concatenate(out).tobytes() == by_hand(one, given).tobytes()


def test_functions_of_one_module_do_not_meet(tmp_path):
    a, b = function(6), function(7)
    other = replace(b, name="g")
    code = compiled([a, other], tmp_path, 10)
    given = inputs(np.random.default_rng(3))
    assert called(code, a, given).tobytes() == by_hand(a, given).tobytes()
    assert called(code, other, given).tobytes() == by_hand(other, given).tobytes()


def test_a_function_without_operations_gives_out_what_it_is_given(tmp_path):
    g = Graph()
    one = Function("f", g, ("x",), ({"y": [g.input("x", 1), g.constant(-2.0)], "none": []},))
    values, none = compiled([one], tmp_path).call("f", np.array([1.0, 5.0]))
    assert (values.tolist(), len(none)) == ([5.0, -2.0], 0)


def test_arrays_of_one_name_are_refused():
    g = Graph()
    with pytest.raises(ValueError, match="a name of its own"):
        module_text([Function("f", g, ("x", "x"), ({"y": [g.input("x", 0)]},))])


@pytest.mark.parametrize("part", [1, 3, 7, 400])
@pytest.mark.parametrize("seed", range(4))
def test_an_array_that_is_read_and_written_is_changed_in_place(tmp_path, part, seed):
    """Whatever still needs what was there before: every entry of `x` becomes a mixture of all of them."""
    g, outputs = random_graph(seed, 120)
    x = g.inputs("x", SIZE)
    mixed = [outputs[k] * x[(k + 1) % SIZE] + g.sin(x[k]) for k in range(SIZE - 2)]
    one = Function("f", g, ("x", "y"), ({"x": [*mixed, x[SIZE - 2], g.constant(2.0)], "z": [mixed[0] + x[0]]},))
    given = inputs(np.random.default_rng(seed))
    changed, z = compiled([one], tmp_path, part).call("f", given["x"], given["y"])
    wanted = plain(g, [*one.outputs["x"], *one.outputs["z"]], given)
    assert np.append(changed, z).tobytes() == wanted.tobytes()


def test_entries_that_change_places_in_place_are_refused():
    g = Graph()
    x = g.inputs("x", 2)
    with pytest.raises(ValueError, match=r"x\[0\] = x\[1\], which is changed as well"):
        module_text([Function("f", g, ("x",), ({"x": [x[1], x[0]]},))])


def test_wrong_arrays_are_refused(tmp_path):
    with pytest.raises(ValueError, match="takes x, y"):
        compiled([function(1)], tmp_path).call("f", np.zeros(SIZE))


# the cache


def test_code_is_compiled_once(tmp_path, monkeypatch):
    one = function(1)
    first = called(compiled([one], tmp_path), one, inputs(np.random.default_rng(1)))
    monkeypatch.setattr(llvm, "object_code", lambda text: pytest.fail("compiled again"))
    assert called(compiled([one], tmp_path), one, inputs(np.random.default_rng(1))).tobytes() == first.tobytes()
    assert len(list(tmp_path.iterdir())) == 1


def test_another_text_is_another_file(tmp_path):
    compiled([function(1)], tmp_path)
    compiled([function(2)], tmp_path)
    compiled([function(2)], tmp_path, 10)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", ["empty", "rubbish", "short", "changed", "another"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    one = function(1)
    given = inputs(np.random.default_rng(1))
    expected = called(compiled([one], tmp_path), one, given)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    if damage == "another":
        (tmp_path / "other").mkdir()
        compiled([function(2)], tmp_path / "other")
        (other,) = (tmp_path / "other").iterdir()
        path.write_bytes(other.read_bytes())
    else:
        middle = len(whole) // 2
        bad = {"empty": b"", "rubbish": b"rubbish" * 40, "short": whole[:middle],
               "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]}  # fmt: skip
        path.write_bytes(bad[damage])
    assert called(compiled([one], tmp_path), one, given).tobytes() == expected.tobytes()
    assert path.read_bytes() == whole


def test_the_same_text_gives_the_same_code():
    text = module_text([function(1)])
    assert text == module_text([function(1)])
    assert object_code(text) == object_code(text)


@pytest.mark.parametrize("triple", TARGETS)
def test_other_machines_get_their_code_from_the_same_text(triple):
    code = object_code(module_text([function(1), replace(staged(2), name="g")]), triple)
    assert code.startswith(TARGETS[triple])
    assert b"f" in code and b"g_2" in code


def test_nothing_is_contracted():
    """A product and a sum stay two roundings on machines that could do both at once."""
    g = Graph()
    a, b, c = g.inputs("x", 3)
    one = Function("f", g, ("x",), ({"y": [a * b + c]},))
    x = np.array([1.0 + 2.0**-30, 1.0 - 2.0**-30, -1.0])
    code = llvm.Compiled([one.signature], [object_code(module_text([one]))], 0)
    assert code.call("f", x)[0][0] == 0.0, platform.machine()


def test_addresses_hold_when_what_loaded_them_is_gone():
    """Kernels have them as numbers in tables that outlive the machine; the same contents are in memory once."""
    g = Graph()
    a, b = g.inputs("x", 2)
    one = Function("f", g, ("x",), ({"y": [a * b, a - b]},))
    objects = [object_code(module_text([one]))]
    code = llvm.Compiled([one.signature], objects, 0)
    address = code.address["f"]
    assert llvm.Compiled([one.signature], objects, 0).address["f"] == address
    del code
    gc.collect()
    arrays = np.array([3.0, 2.0]), np.zeros(2), np.zeros(1)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(address)(*(array.ctypes.data for array in arrays))
    assert list(arrays[1]) == [6.0, 1.0]
