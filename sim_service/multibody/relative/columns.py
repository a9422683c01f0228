"""Products of small matrices that are stored by columns: sums stay in registers over all columns of a factor.

Products are fused with their sums (llvm.fma, the same bits on every machine). Rows are taken in fours: up to three more
than asked for are read and written. Two columns of the result at once, where there are two: a sum waits for itself, and
one column of few rows has too few sums to fill the time.
"""

from llvmlite import ir
from numba import float64, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from sim_service.multibody.natural.views import view
from sim_service.multibody.relative.ode import LANES
from sync.jit import inner

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ZEROS = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)


def _everywhere(builder, value):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, _ZEROS)


def _place(builder, data, index):
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _fused(builder):
    return cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f64"
    )


def _block(vectors):
    """An intrinsic that adds so many vectors of rows, to two columns at `into` and `other`."""

    @intrinsic
    def block(typingctx, out, into, other, row, A, at, stride, first, last, x, y):
        def codegen(context, builder, signature, args):
            kinds = signature.args
            target, source, *factors = (make_array(kinds[k])(context, builder, args[k]).data for k in (0, 4, 9, 10))
            into, other, row, at, stride, first, last = (
                context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 2, 3, 5, 6, 7, 8)
            )
            intp = context.get_value_type(types.intp)
            fma = _fused(builder)
            places = [
                [_place(builder, target, builder.add(builder.add(begin, row), intp(LANES * v))) for v in range(vectors)]
                for begin in (into, other)
            ]
            sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(vectors)] for _ in range(2)]
            for column, totals in zip(places, sums, strict=True):
                for place, total in zip(column, totals, strict=True):
                    builder.store(builder.load(place, align=8), total)
            begin = builder.add(at, row)
            with cgutils.for_range_slice(builder, first, last, intp(1), intp) as (k, _):
                values = [_everywhere(builder, builder.load(builder.gep(of, [k]))) for of in factors]
                column = builder.add(begin, builder.mul(k, stride))
                for v in range(vectors):
                    entries = builder.load(_place(builder, source, builder.add(column, intp(LANES * v))), align=8)
                    for value, totals in zip(values, sums, strict=True):
                        builder.store(builder.call(fma, [entries, value, builder.load(totals[v])]), totals[v])
            for column, totals in zip(places, sums, strict=True):
                for place, total in zip(column, totals, strict=True):
                    builder.store(builder.load(total), place, align=8)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(out, *(whole,) * 3, A, *(whole,) * 4, x, y), codegen

    return block


def _single(vectors):
    """The same for one column, at the beginning of `out`."""

    @intrinsic
    def block(typingctx, out, row, A, at, stride, first, last, x):
        def codegen(context, builder, signature, args):
            kinds = signature.args
            target, source, factors = (make_array(kinds[k])(context, builder, args[k]) for k in (0, 2, 7))
            row, at, stride, first, last = (
                context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 3, 4, 5, 6)
            )
            intp = context.get_value_type(types.intp)
            fma = _fused(builder)
            sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(vectors)]
            places = [_place(builder, target.data, builder.add(row, intp(LANES * v))) for v in range(vectors)]
            for total, place in zip(sums, places, strict=True):
                builder.store(builder.load(place, align=8), total)
            begin = builder.add(at, row)
            with cgutils.for_range_slice(builder, first, last, intp(1), intp) as (k, _):
                factor = _everywhere(builder, builder.load(builder.gep(factors.data, [k])))
                column = builder.add(begin, builder.mul(k, stride))
                for v, total in enumerate(sums):
                    entries = builder.load(_place(builder, source.data, builder.add(column, intp(LANES * v))), align=8)
                    builder.store(builder.call(fma, [entries, factor, builder.load(total)]), total)
            for total, place in zip(sums, places, strict=True):
                builder.store(builder.load(total), place, align=8)
            return context.get_dummy_value()

        numbers = (types.intp,) * 4
        return types.void(out, types.intp, A, *numbers, x), codegen

    return block


_four, _two, _one = _single(4), _single(2), _single(1)
_four_of_two, _two_of_two, _one_of_two = _block(4), _block(2), _block(1)


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


@inner
def add_to_two(out, into, other, rows, A, at, stride, first, last, x, y):
    """The same to two columns of `out` at once: x for the one that begins at `into`, y for that at `other`."""
    i = 0
    while i + 3 * LANES < rows:
        _four_of_two(out, into, other, i, A, at, stride, first, last, x, y)
        i += 4 * LANES
    if i + LANES < rows:
        _two_of_two(out, into, other, i, A, at, stride, first, last, x, y)
        i += 2 * LANES
    if i < rows:
        _one_of_two(out, into, other, i, A, at, stride, first, last, x, y)


def _along(columns):
    """An intrinsic: sums of A[at + c stride + i] h[i] for so many columns c, rows from `first` to `last` in fours."""

    @intrinsic
    def along(typingctx, A, at, stride, h, first, last):
        def codegen(context, builder, signature, args):
            kinds = signature.args
            source, factors = (make_array(kinds[k])(context, builder, args[k]).data for k in (0, 3))
            at, stride, first, last = (context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 2, 4, 5))
            intp = context.get_value_type(types.intp)
            fma = _fused(builder)
            sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(columns)]
            for total in sums:
                builder.store(ir.Constant(_VECTOR, [0.0] * LANES), total)
            begins = [at]
            for _ in range(columns - 1):
                begins.append(builder.add(begins[-1], stride))
            with cgutils.for_range_slice(builder, first, last, intp(LANES), intp) as (i, _):
                values = builder.load(_place(builder, factors, i), align=8)
                for begin, total in zip(begins, sums, strict=True):
                    entries = builder.load(_place(builder, source, builder.add(begin, i)), align=8)
                    builder.store(builder.call(fma, [entries, values, builder.load(total)]), total)
            out = []
            for total in sums:
                lanes = [builder.extract_element(builder.load(total), ir.IntType(32)(k)) for k in range(LANES)]
                out.append(builder.fadd(builder.fadd(lanes[0], lanes[1]), builder.fadd(lanes[2], lanes[3])))
            return context.make_tuple(builder, signature.return_type, out)

        whole = types.intp
        return types.UniTuple(float64, columns)(A, whole, whole, h, whole, whole), codegen

    return along


sums_of_four, sums_of_one = _along(4), _along(1)


@inner
def times_four(A, stride, h, last):
    """Products of h with four columns of A, of rows up to `last`, in fours."""
    return sums_of_four(A, 0, stride, h, 0, last)


@intrinsic
def exchange(typingctx, A, at, K, last, share, factor):
    """Of rows from 0 to `last`, in fours: a, k = A[at + i], K[i] become a + share k, k + factor a."""

    def codegen(context, builder, signature, args):
        kinds = signature.args
        column, gain = (make_array(kinds[k])(context, builder, args[k]).data for k in (0, 2))
        at, last = (context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 3))
        intp = context.get_value_type(types.intp)
        fma = _fused(builder)
        share, factor = _everywhere(builder, args[4]), _everywhere(builder, args[5])
        with cgutils.for_range_slice(builder, intp(0), last, intp(LANES), intp) as (i, _):
            there, own = _place(builder, column, builder.add(at, i)), _place(builder, gain, i)
            a, k = builder.load(there, align=8), builder.load(own, align=8)
            builder.store(builder.call(fma, [k, share, a]), there, align=8)
            builder.store(builder.call(fma, [a, factor, k]), own, align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(A, whole, K, whole, float64, float64), codegen


@inner
def solve_rows(factors, pivots, size, stride, R, width, x):
    """Right sides R, `size` rows of `width` (whole fours), become their solutions with the factors of lu.py."""
    for k in range(size):
        p = int(pivots[k])
        if p != k:
            one, two = view(R, k * width, (k + 1) * width), view(R, p * width, (p + 1) * width)
            for i in range(width):
                one[i], two[i] = two[i], one[i]
    for i in range(size):
        for k in range(i):
            x[k] = -factors[k * stride + i]
        add_columns(view(R, i * width, (i + 1) * width), width, R, 0, width, 0, i, x)
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            x[k] = -factors[k * stride + i]
        row, inverse = view(R, i * width, (i + 1) * width), factors[i * stride + i]
        add_columns(row, width, R, 0, width, i + 1, size, x)
        for j in range(width):
            row[j] *= inverse
