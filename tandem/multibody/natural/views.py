"""Views of parts of the flat arrays (tables.py) inside kernels: borrowed, so that they cost nothing.

Neither a view nor an index is checked when a kernel runs, except where numba checks bounds (NUMBA_BOUNDSCHECK=1, which
has a cache of its own): there a view beyond its array is an IndexError, too. Numbers that come from outside become an
index by `index_within` alone.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from sync.compile.jit import inner


@inner
def index_within(value, low, high):
    """The whole number at or below `value`, from `low` (at least 0) to `high`; NaN is `low`."""
    if not value > low:
        return low
    return int(min(value, high))


def borrowed(context, builder, kind, source, start, stop):
    """Code for the view source[start:stop] of a contiguous vector, without counting a reference."""
    if context.enable_boundscheck:
        (length,) = cgutils.unpack_tuple(builder, source.shape)
        ends = (builder.icmp_signed("<", start, start.type(0)), builder.icmp_signed("<", stop, start))
        wrong = builder.or_(builder.or_(*ends), builder.icmp_signed(">", stop, length))
        with builder.if_then(wrong, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("a view reaches beyond its array",))
    out = make_array(kind)(context, builder)
    populate_array(
        out,
        data=builder.gep(source.data, [start]),
        shape=(builder.sub(stop, start),),
        strides=(source.itemsize,),
        itemsize=source.itemsize,
        meminfo=None,
    )
    return out._getvalue()


def _view_of(context, builder, kind, array, start, stop):
    """Of an array, or of what has views of its own: numbers with derivatives (relative/dual_vectors.py)."""
    if not isinstance(kind, types.Array):
        return kind.borrowed(context, builder, array, start, stop)
    return borrowed(context, builder, kind, make_array(kind)(context, builder, array), start, stop)


@intrinsic
def view(typingctx, array, start, stop):
    """view(array, start, stop): array[start:stop] of a vector that outlives it, with 0 <= start <= stop <= its length.

    A slice would count references and compile to five times the code, and a step takes some hundred of them.
    """

    def codegen(context, builder, signature, args):
        ends = [context.cast(builder, args[k], signature.args[k], types.intp) for k in (1, 2)]
        return _view_of(context, builder, signature.args[0], args[0], *ends)

    return array(array, start, stop), codegen


@intrinsic
def row(typingctx, array, k, size):
    """row(array, k, size): row k of a matrix with rows of that size, as a view."""

    def codegen(context, builder, signature, args):
        which, length = (context.cast(builder, args[i], signature.args[i], types.intp) for i in (1, 2))
        start = builder.mul(which, length)
        return _view_of(context, builder, signature.args[0], args[0], start, builder.add(start, length))

    return array(array, k, size), codegen


@inner
def take(array, at, size):
    """A view of so many from `at` on, and where the next begins: to divide a scratch into its parts."""
    return view(array, at, at + size), at + size


@intrinsic
def part(typingctx, ints, array, which):
    """part(ints, array, WHICH): that part of one of the four arrays, as a borrowed view.

    Its start and stop are at the beginning of `ints`.
    """

    def codegen(context, builder, signature, args):
        header = make_array(signature.args[0])(context, builder, args[0])
        intp = context.get_value_type(types.intp)
        at = builder.mul(context.cast(builder, args[2], signature.args[2], types.intp), intp(2))
        start = builder.sext(builder.load(builder.gep(header.data, [at])), intp)
        stop = builder.sext(builder.load(builder.gep(header.data, [builder.add(at, intp(1))])), intp)
        return _view_of(context, builder, signature.args[1], args[1], start, stop)

    return array(ints, array, which), codegen
