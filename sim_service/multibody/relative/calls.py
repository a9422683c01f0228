"""Calls of generated machine code from kernels.

`call(word, arrays)` calls the function whose address is in the bits of a float64 with pointers to the arrays' first
elements. Addresses lie among other numbers that a kernel is given, so that one compiled kernel serves every mechanism;
they hold for this process and those forked from it.

Kernels can be called so too: `address_of` one with a signature, and `function_at` makes a function of it where it is
called. A kernel that names another links all its code and is optimised with it once more, which for a large step
takes minutes.
"""

import struct
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.experimental.function_type import _get_jit_address
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


def as_word(address: int) -> float:
    """An address as the float64 with its bits."""
    return float(struct.unpack("<d", struct.pack("<q", address))[0])


@intrinsic
def call(typingctx, word, arrays):
    """call(word, (a, b, ...)): unchecked; arrays are contiguous, of float64, long enough, and do not overlap."""

    def codegen(context, builder, signature, args):
        pointer = ir.IntType(8).as_pointer()
        pointers = []
        for kind, value in zip(signature.args[1], cgutils.unpack_tuple(builder, args[1]), strict=True):
            pointers.append(builder.bitcast(make_array(kind)(context, builder, value).data, pointer))
        bits = builder.bitcast(args[0], ir.IntType(64))
        function = ir.FunctionType(ir.VoidType(), [pointer] * len(pointers))
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
