"""LU factorisation with partial pivoting of a small full matrix.

The matrix is stored column by column: then the update of the factorisation and both substitutions run along columns,
over contiguous memory, and none of them is a sum that would have to be kept in order. Columns are taken four at a time
and have a multiple of four entries, `padded(size)`, those beyond the matrix zero, and there are as many columns: so
the inner loop (`subtract`) has no remainder and loads each entry once for four columns.

Diagonals of U are stored inverted. A singular matrix gives infinities, which the user of the solution looks for.
"""

from llvmlite import ir
from numba import float64, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from sync.compile.jit import inner
from tandem.multibody.natural.views import view


@inner
def padded(size):
    return (size + 3) // 4 * 4


@intrinsic
def subtract(typingctx, out, A, at, stride, start, stop, x0, x1, x2, x3):
    """out[i] -= A[at + i] x0 + A[at + stride + i] x1 + ... for start <= i < stop, four at a time, and x0 first.

    Written in vectors of four: the compiler would test two arrays for overlap before each of many short loops. They
    must not overlap.
    """

    def codegen(context, builder, signature, args):
        kinds = signature.args
        target, source = (make_array(kinds[k])(context, builder, args[k]) for k in range(2))
        at, stride, start, stop = (context.cast(builder, args[k], kinds[k], types.intp) for k in range(2, 6))
        intp = context.get_value_type(types.intp)
        lanes = ir.VectorType(ir.DoubleType(), 4)

        def pointer(data, index):
            return builder.bitcast(builder.gep(data, [index]), lanes.as_pointer())

        factors = []
        for value in args[6:]:
            one = builder.insert_element(ir.Constant(lanes, ir.Undefined), value, ir.IntType(32)(0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), 4), [0] * 4)
            factors.append(builder.shuffle_vector(one, one, zeros))
        columns = [at]
        for _ in range(3):
            columns.append(builder.add(columns[-1], stride))
        with cgutils.for_range_slice(builder, start, stop, intp(4), intp) as (i, _):
            place = pointer(target.data, i)
            total = builder.load(place, align=8)
            for column, factor in zip(columns, factors, strict=True):
                entries = builder.load(pointer(source.data, builder.add(column, i)), align=8)
                total = builder.fsub(total, builder.fmul(entries, factor))
            builder.store(total, place, align=8)
        return context.get_dummy_value()

    numbers = (types.intp,) * 4 + (float64,) * 4
    return types.void(out, A, *numbers), codegen


@inner
def eliminate(A, pivots, size, stride, k):
    """Exchange rows for the largest pivot in column k, and make its multipliers."""
    column = view(A, k * stride, k * stride + size)
    p, largest = k, abs(column[k])
    for i in range(k + 1, size):
        if abs(column[i]) > largest:
            p, largest = i, abs(column[i])
    pivots[k] = p
    if p != k:
        for j in range(size):
            A[j * stride + k], A[j * stride + p] = A[j * stride + p], A[j * stride + k]
    inverse = 1.0 / column[k]
    column[k] = inverse
    lower = view(column, k + 1, size)
    for i in range(len(lower)):
        lower[i] *= inverse


@inner
def factorise(A, pivots, size):
    """A becomes its factors, L below the diagonal; pivots[k] is the row that was exchanged with row k."""
    stride = padded(size)
    for k in range(0, size, 4):
        for c in range(k, min(k + 4, size)):
            eliminate(A, pivots, size, stride, c)
            lower = view(A, c * stride + c + 1, (c + 1) * stride)
            for j in range(c + 1, min(k + 4, size)):
                x = A[j * stride + c]
                other = view(A, j * stride + c + 1, (j + 1) * stride)
                for i in range(len(lower)):
                    other[i] -= lower[i] * x
        if k + 4 >= size:
            break
        at = k * stride + k
        l10, l20, l30 = A[at + 1], A[at + 2], A[at + 3]
        l21, l31, l32 = A[at + stride + 2], A[at + stride + 3], A[at + 2 * stride + 3]
        for j in range(k + 4, size):
            column = view(A, j * stride, (j + 1) * stride)
            x0 = column[k]
            x1 = column[k + 1] - l10 * x0
            x2 = column[k + 2] - l20 * x0 - l21 * x1
            x3 = column[k + 3] - l30 * x0 - l31 * x1 - l32 * x2
            column[k + 1], column[k + 2], column[k + 3] = x1, x2, x3
            subtract(column, A, k * stride, stride, k + 4, stride, x0, x1, x2, x3)


@inner
def solve(A, pivots, size, b):
    """b becomes the solution x of A x = b. It is padded as a column is, with zeros."""
    stride = padded(size)
    for k in range(size):
        p = int(pivots[k])
        b[k], b[p] = b[p], b[k]
    for k in range(0, stride, 4):
        at = k * stride + k
        x0 = b[k]
        x1 = b[k + 1] - A[at + 1] * x0
        x2 = b[k + 2] - A[at + 2] * x0 - A[at + stride + 2] * x1
        x3 = b[k + 3] - A[at + 3] * x0 - A[at + stride + 3] * x1 - A[at + 2 * stride + 3] * x2
        b[k + 1], b[k + 2], b[k + 3] = x1, x2, x3
        subtract(b, A, k * stride, stride, k + 4, stride, x0, x1, x2, x3)
    for k in range(stride - 4, -1, -4):
        at = k * stride + k
        two, three = at + 2 * stride, at + 3 * stride
        x3 = b[k + 3] * A[three + 3]
        x2 = (b[k + 2] - A[three + 2] * x3) * A[two + 2]
        x1 = (b[k + 1] - A[three + 1] * x3 - A[two + 1] * x2) * A[at + stride + 1]
        x0 = (b[k] - A[three] * x3 - A[two] * x2 - A[at + stride] * x1) * A[at]
        b[k], b[k + 1], b[k + 2], b[k + 3] = x0, x1, x2, x3
        subtract(b, A, k * stride, stride, 0, k, x0, x1, x2, x3)
