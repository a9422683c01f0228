"""Products of small matrices that are stored by columns: sums stay in registers over all columns of a factor.

Products are fused with their sums (llvm.fma, the same bits on every machine). Rows are taken in fours: up to three more
than asked for are read and written. Four columns of the result at once, where there are four: a sum waits for itself,
and one column of few rows has too few sums to fill the time; their factors stand side by side, and are loaded together.
"""

from llvmlite import ir
from numba import float64, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from sync.compile.jit import inner
from tandem.multibody.relative.ode import LANES

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
    """An intrinsic that adds so many vectors of rows to four columns of B, to four of `out`."""

    # long: two blocks of flat arrays and where in them; a kernel takes no object
    @intrinsic
    def block(typingctx, out, into, apart, B, of, between, row, A, at, stride, first, last, x):
        def codegen(context, builder, signature, args):
            kinds = signature.args
            target, begun, source, factors = (
                make_array(kinds[k])(context, builder, args[k]).data for k in (0, 3, 7, 12)
            )
            into, apart, of, between, row, at, stride, first, last = (
                context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 2, 4, 5, 6, 8, 9, 10, 11)
            )
            intp = context.get_value_type(types.intp)
            fma = _fused(builder)

            def all_places(data, begin, between):
                columns = []
                for c in range(LANES):
                    here = builder.add(builder.add(begin, row), builder.mul(between, intp(c)))
                    columns.append([_place(builder, data, builder.add(here, intp(LANES * v))) for v in range(vectors)])
                return columns

            places = all_places(target, into, apart)
            sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(vectors)] for _ in range(LANES)]
            for column, totals in zip(all_places(begun, of, between), sums, strict=True):
                for place, total in zip(column, totals, strict=True):
                    builder.store(builder.load(place, align=8), total)
            begin = builder.add(at, row)
            with cgutils.for_range_slice(builder, first, last, intp(1), intp) as (k, _):
                four = builder.load(_place(builder, factors, builder.mul(k, intp(LANES))), align=8)
                values = [
                    builder.shuffle_vector(four, four, ir.Constant(_ZEROS.type, [c] * LANES)) for c in range(LANES)
                ]
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
        return types.void(out, whole, whole, B, *(whole,) * 3, A, *(whole,) * 4, x), codegen

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
_two_of_four, _one_of_four = _block(2), _block(1)


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


# long: four columns at once and where they stand
@inner
def add_to_four(out, into, apart, B, of, between, rows, A, at, stride, first, last, x):
    """Four columns of `out`, from `into` on and `apart` from each other, are those of B, from `of` on and with
    `between`, and the sum over k of A[at + k stride + i] x[4 k + c], c the column."""
    i = 0
    while i + LANES < rows:
        _two_of_four(out, into, apart, B, of, between, i, A, at, stride, first, last, x)
        i += 2 * LANES
    if i < rows:
        _one_of_four(out, into, apart, B, of, between, i, A, at, stride, first, last, x)


@intrinsic
def four_of_rows(typingctx, x, A, at, stride, factor, first, last):
    """x[4 k + c] = factor[k] A[at + k stride + c], first <= k < last."""

    def codegen(context, builder, signature, args):
        kinds = signature.args
        target, source, factors = (make_array(kinds[k])(context, builder, args[k]).data for k in (0, 1, 4))
        at, stride, first, last = (context.cast(builder, args[k], kinds[k], types.intp) for k in (2, 3, 5, 6))
        intp = context.get_value_type(types.intp)
        with cgutils.for_range_slice(builder, first, last, intp(1), intp) as (k, _):
            factor = _everywhere(builder, builder.load(builder.gep(factors, [k])))
            entries = builder.load(_place(builder, source, builder.add(at, builder.mul(k, stride))), align=8)
            there = _place(builder, target, builder.mul(k, intp(LANES)))
            builder.store(builder.fmul(factor, entries), there, align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(x, A, whole, whole, factor, whole, whole), codegen


@intrinsic
def scaled_column(typingctx, out, into, A, at, rows, factor):
    """out[into + i] = factor A[at + i] of so many rows, in fours."""

    def codegen(context, builder, signature, args):
        kinds = signature.args
        target, source = (make_array(kinds[k])(context, builder, args[k]).data for k in (0, 2))
        into, at, rows = (context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 3, 4))
        intp = context.get_value_type(types.intp)
        factor = _everywhere(builder, args[5])
        with cgutils.for_range_slice(builder, intp(0), rows, intp(LANES), intp) as (i, _):
            entries = builder.load(_place(builder, source, builder.add(at, i)), align=8)
            builder.store(builder.fmul(factor, entries), _place(builder, target, builder.add(into, i)), align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(out, whole, A, whole, whole, float64), codegen


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


def _exchange(vectors):
    """An intrinsic: so many vectors of rows from `row` on, of K and of columns of A, which change each other."""

    @intrinsic
    def block(typingctx, A, row, stride, K, first, last, shares, factors):
        def codegen(context, builder, signature, args):
            kinds = signature.args
            source, gain, shares, factors = (make_array(kinds[k])(context, builder, args[k]).data for k in (0, 3, 6, 7))
            row, stride, first, last = (context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 2, 4, 5))
            intp = context.get_value_type(types.intp)
            fma = _fused(builder)
            places = [_place(builder, gain, builder.add(row, intp(LANES * v))) for v in range(vectors)]
            sums = [cgutils.alloca_once_value(builder, builder.load(place, align=8)) for place in places]
            with cgutils.for_range_slice(builder, first, last, intp(1), intp) as (j, _):
                share, factor = (_everywhere(builder, builder.load(builder.gep(of, [j]))) for of in (shares, factors))
                column = builder.add(row, builder.mul(j, stride))
                for v, total in enumerate(sums):
                    there, k = _place(builder, source, builder.add(column, intp(LANES * v))), builder.load(total)
                    a = builder.load(there, align=8)
                    builder.store(builder.call(fma, [k, share, a]), there, align=8)
                    builder.store(builder.call(fma, [a, factor, k]), total)
            for total, place in zip(sums, places, strict=True):
                builder.store(builder.load(total), place, align=8)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(A, whole, whole, K, whole, whole, shares, factors), codegen

    return block


_exchange_four, _exchange_two, _exchange_one = _exchange(4), _exchange(2), _exchange(1)


@inner
def exchange(A, stride, K, rows, first, last, share, factor):
    """Column after column j, of rows up to `rows` (whole fours): a, k = A[j stride + i], K[i] become a + share[j] k,
    k + factor[j] a. What is below the diagonal of A is 0, as K is in the rows whose turn has not come."""
    i = 0
    while i + 3 * LANES < rows:
        _exchange_four(A, i, stride, K, max(i, first), last, share, factor)
        i += 4 * LANES
    if i + LANES < rows:
        _exchange_two(A, i, stride, K, max(i, first), last, share, factor)
        i += 2 * LANES
    if i < rows:
        _exchange_one(A, i, stride, K, max(i, first), last, share, factor)
