"""Calls of generated machine code from kernels.

`call(word, arrays)` calls the function whose address is in the bits of a float64 with pointers to the arrays' first
elements. Addresses lie among other numbers that a kernel is given, so that one compiled kernel serves every mechanism;
they hold for this process and those forked from it.

Kernels can be called so too: `address_of` one with a signature, and `function_at` makes a function of it where it is
called. A kernel that names another links all its code and is optimised with it once more, which for a large step
takes minutes.

Code for another processor knows no addresses of this one: `by_name` makes the word a number, and the call one of the
function of that number, by its name.
"""

import contextlib
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.experimental.function_type import _get_jit_address
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from sync.compile.array_types import VECTOR


def as_word(address: int) -> float:
    """An address as the float64 with its bits."""
    return float(struct.unpack("<d", struct.pack("<q", address))[0])


_names: dict[int, list[str]] = {}  # of functions by how many arrays they are given, while code is made for elsewhere


@contextlib.contextmanager
def by_name(names: Mapping[int, list[str]]) -> Iterator[None]:
    """Calls that are compiled meanwhile are by name: of the functions with so many arrays, that of the number which is
    the whole word's value, not its bits."""
    _names.update(names)
    try:
        yield
    finally:
        _names.clear()


@intrinsic
def call(typingctx, word, arrays):
    """call(word, (a, b, ...)): unchecked; arrays are contiguous, of float64, long enough, and do not overlap."""

    def codegen(context, builder, signature, args):
        pointer = ir.IntType(8).as_pointer()
        pointers = []
        for kind, value in zip(signature.args[1], cgutils.unpack_tuple(builder, args[1]), strict=True):
            pointers.append(builder.bitcast(make_array(kind)(context, builder, value).data, pointer))
        function = ir.FunctionType(ir.VoidType(), [pointer] * len(pointers))
        if _names:
            of = _names[len(pointers)]
            here = [cgutils.get_or_insert_function(builder.module, function, name) for name in of]
            for k, one in enumerate(here):
                with builder.if_then(builder.fcmp_ordered("==", args[0], ir.DoubleType()(float(k)))):
                    builder.call(one, pointers)
            return context.get_dummy_value()
        bits = builder.bitcast(args[0], ir.IntType(64))
        builder.call(builder.inttoptr(bits, function.as_pointer()), pointers)
        return context.get_dummy_value()

    return types.void(word, arrays), codegen


def address_of(kernel: Any, signature: Any) -> int:
    """Of a kernel that was compiled for this signature; it must live as long as anything calls it."""
    return int(_get_jit_address(kernel, signature))


def function_at(signature: Any) -> Any:
    """make(word): inside kernels, the kernel of that signature whose address is in the bits of a float64."""
    kind = types.FunctionType(signature)

    @intrinsic
    def make(typingctx, word):
        def codegen(context, builder, signature, args):
            pointer = context.get_value_type(types.voidptr)
            out = cgutils.create_struct_proxy(kind)(context, builder)
            out.jit_addr = out.c_addr = builder.inttoptr(builder.bitcast(args[0], ir.IntType(64)), pointer)
            out.py_addr = pointer(None)
            return out._getvalue()

        return kind(word), codegen

    return make


@intrinsic
def number_in_memory(typingctx, value):
    """A vector of this number alone, which lives as long as the function that asks for it."""

    def codegen(context, builder, signature, args):
        out = make_array(VECTOR)(context, builder)
        place = cgutils.alloca_once_value(builder, args[0])
        width = context.get_constant(types.intp, 8)
        one = context.get_constant(types.intp, 1)
        populate_array(out, data=place, shape=(one,), strides=(width,), itemsize=width, meminfo=None)
        builder.store(args[0], place)
        return out._getvalue()

    return VECTOR(value), codegen
