"""C functions called from kernels by addresses that are known only when the machine is made.

`call_c(word, arguments)` calls the function whose address is in the bits of a float64 and returns its int32. An array
goes as a pointer to its first element, a float64 as it is, everything else as a whole word: on the platforms there are
(x86-64, aarch64) a C bool or int reads its part of the register. `integers_at(word, n)` and its like are arrays at an
address.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

_WORD = ir.IntType(64)


@intrinsic
def call_c(typingctx, word, arguments):
    """Unchecked: the arguments are what the function takes."""

    def codegen(context, builder, signature, args):
        values = []
        for kind, value in zip(signature.args[1], cgutils.unpack_tuple(builder, args[1]), strict=True):
            if isinstance(kind, types.Array):
                values.append(builder.ptrtoint(make_array(kind)(context, builder, value).data, _WORD))
            elif isinstance(kind, types.Float):
                values.append(value)
            else:
                values.append(context.cast(builder, value, kind, types.int64))
        function = ir.FunctionType(ir.IntType(32), [value.type for value in values])
        address = builder.inttoptr(builder.bitcast(args[0], _WORD), function.as_pointer())
        return builder.call(address, values)

    return types.int32(word, arguments), codegen


@intrinsic
def as_integer(typingctx, word):
    """The bits of a float64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], _WORD)

    return types.int64(word), codegen


def _array_at(kind):
    """(word, n): the n values of this kind at that address."""

    @intrinsic
    def at(typingctx, word, count):
        array = types.Array(kind, 1, "C")

        def codegen(context, builder, signature, args):
            data = builder.inttoptr(builder.bitcast(args[0], _WORD), context.get_data_type(kind).as_pointer())
            size = context.get_constant(types.intp, kind.bitwidth // 8)
            out = make_array(array)(context, builder)
            shape = [context.cast(builder, args[1], signature.args[1], types.intp)]
            populate_array(out, data=data, shape=shape, strides=[size], itemsize=size, meminfo=None)
            return out._getvalue()

        return array(word, count), codegen

    return at


integers_at, floats_at, bytes_at = (_array_at(kind) for kind in (types.int64, types.float64, types.uint8))
