"""out += A x for the covariance's products: sums stay in registers over all columns, sixteen rows at a time.

Products are fused with their sums (llvm.fma, the same bits on every machine). Rows are taken in fours: up to three more
than asked for are read and written.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from sim_service.observers.rows import LANES
from sync.jit import inner

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _block(vectors):
    """An intrinsic that adds so many vectors of rows."""

    @intrinsic
    def block(typingctx, out, row, A, at, stride, first, last, x):
        def codegen(context, builder, signature, args):
            kinds = signature.args
            target, source, factors = (make_array(kinds[k])(context, builder, args[k]) for k in (0, 2, 7))
            row, at, stride, first, last = (
                context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 3, 4, 5, 6)
            )
            intp = context.get_value_type(types.intp)
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f64"
            )
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

            def pointer(data, index):
                return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())

            sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(vectors)]
            places = [pointer(target.data, builder.add(row, intp(LANES * v))) for v in range(vectors)]
            for total, place in zip(sums, places, strict=True):
                builder.store(builder.load(place, align=8), total)
            begin = builder.add(at, row)
            with cgutils.for_range_slice(builder, first, last, intp(1), intp) as (k, _):
                value = builder.load(builder.gep(factors.data, [k]))
                one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.IntType(32)(0))
                factor = builder.shuffle_vector(one, one, zeros)
                column = builder.add(begin, builder.mul(k, stride))
                for v, total in enumerate(sums):
                    entries = builder.load(pointer(source.data, builder.add(column, intp(LANES * v))), align=8)
                    builder.store(builder.call(fma, [entries, factor, builder.load(total)]), total)
            for total, place in zip(sums, places, strict=True):
                builder.store(builder.load(total), place, align=8)
            return context.get_dummy_value()

        numbers = (types.intp,) * 4
        return types.void(out, types.intp, A, *numbers, x), codegen

    return block


_four, _two, _one = _block(4), _block(2), _block(1)


@inner
def add_columns(out, rows, A, at, stride, first, last, x):
    """out[i] += sum over k of A[at + k stride + i] x[k], first <= k < last, of `rows` rows."""
    i = 0
    while i + 3 * LANES < rows:
        _four(out, i, A, at, stride, first, last, x)
        i += 4 * LANES
    if i + LANES < rows:
        _two(out, i, A, at, stride, first, last, x)
        i += 2 * LANES
    if i < rows:
        _one(out, i, A, at, stride, first, last, x)
