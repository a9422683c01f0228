"""Vectors of numbers with derivatives (dual.py): the text of a whole step, compiled once more, gives its tangents.

    with_derivatives(values, d)    a vector whose entry i is values[i] with the derivatives d[8 i : 8 i + 8]

Of it there are slices, `view` and `part` (natural/views.py), len and size.

`step.py_func`, compiled for such vectors instead of float64 ones, reads numbers with derivatives from them and writes
such into them. Values are those of the plain step: the same operations in the same order, without a derivative in them.
"""

import math
import operator

from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.cpython import slicing
from numba.extending import intrinsic, make_attribute_wrapper, models, register_model
from numba.np.arrayobj import make_array

from tandem.multibody.relative.dual import _VECTOR, DUAL, LANES, _Dual, _make, _max, _min, _parts

_POINTER = types.CPointer(types.float64)


class _DualVector(types.Type):  # type: ignore[misc]  # numba has no types
    def borrowed(self, context, builder, source, start, stop):
        """Code for a view of it, as natural/views.py has them."""
        proxy = cgutils.create_struct_proxy(self)(context, builder, source)
        out = cgutils.create_struct_proxy(self)(context, builder)
        out.v = builder.gep(proxy.v, [start])
        out.d = builder.gep(proxy.d, [builder.mul(start, context.get_constant(types.intp, LANES))])
        out.size = builder.sub(stop, start)
        return out._getvalue()


DUAL_VECTOR = _DualVector("dual8[:]")


@register_model(_DualVector)
class _DualVectorModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, [("v", _POINTER), ("d", _POINTER), ("size", types.intp)])


@intrinsic
def with_derivatives(typingctx, values, derivatives):
    """with_derivatives(values, d): see above. The arrays are contiguous, and outlive it."""

    def codegen(context, builder, sig, args):
        out = cgutils.create_struct_proxy(DUAL_VECTOR)(context, builder)
        of, derivatives = (make_array(k)(context, builder, a) for k, a in zip(sig.args, args, strict=True))
        out.v, out.d = of.data, derivatives.data
        (out.size,) = cgutils.unpack_tuple(builder, of.shape)
        return out._getvalue()

    return DUAL_VECTOR(values, derivatives), codegen


def _place(context, builder, kind, vector, at):
    proxy = cgutils.create_struct_proxy(kind)(context, builder, vector)
    lanes = builder.mul(at, context.get_constant(types.intp, LANES))
    derivatives = builder.bitcast(builder.gep(proxy.d, [lanes]), _VECTOR.as_pointer())
    return builder.gep(proxy.v, [at]), derivatives


def _is_index(kind):
    return isinstance(kind, types.Integer | types.IntEnumMember)


@infer_global(operator.getitem)
class _ReadTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 2 and isinstance(args[0], _DualVector) and _is_index(args[1])
        return signature(DUAL, args[0], types.intp) if right else None


@lower_builtin(operator.getitem, _DualVector, types.intp)
def _read(context, builder, sig, args):
    value, derivatives = _place(context, builder, sig.args[0], args[0], args[1])
    return _make(context, builder, builder.load(value), builder.load(derivatives, align=8))


@infer_global(operator.getitem)
class _SliceTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 2 and isinstance(args[0], _DualVector) and args[1] == types.slice2_type
        return signature(args[0], *args) if right else None


@lower_builtin(operator.getitem, _DualVector, types.slice2_type)
def _slice(context, builder, sig, args):
    proxy = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    ends = context.make_helper(builder, sig.args[1], args[1])
    slicing.fix_slice(builder, ends, proxy.size)
    return sig.args[0].borrowed(context, builder, args[0], ends.start, ends.stop)


@infer_global(len)
class _LengthTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 1 and isinstance(args[0], _DualVector)
        return signature(types.intp, args[0]) if right else None


@lower_builtin(len, _DualVector)
def _length(context, builder, sig, args):
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).size


make_attribute_wrapper(_DualVector, "size", "size")


@infer_global(operator.setitem)
class _WriteTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 3 and isinstance(args[0], _DualVector) and _is_index(args[1])
        return signature(types.none, args[0], types.intp, DUAL) if right else None


@lower_builtin(operator.setitem, _DualVector, types.intp, _Dual)
def _write(context, builder, sig, args):
    value, derivatives = _place(context, builder, sig.args[0], args[0], args[1])
    v, d = _parts(context, builder, DUAL, args[2])
    builder.store(v, value)
    builder.store(d, derivatives, align=8)
    return context.get_dummy_value()


class _Nowhere(types.Type):  # type: ignore[misc]
    def borrowed(self, context, builder, source, start, stop):
        return source


NOWHERE = _Nowhere("nowhere")
register_model(_Nowhere)(models.OpaqueModel)


@intrinsic
def nowhere(typingctx):
    """A vector without entries, into which anything may be written: nothing is kept, and 0 is read."""

    def codegen(context, builder, sig, args):
        return context.get_dummy_value()

    return NOWHERE(), codegen


@infer_global(operator.getitem)
class _ReadNothing(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 2 and isinstance(args[0], _Nowhere) and _is_index(args[1])
        return signature(types.float64, args[0], types.intp) if right else None


@infer_global(operator.setitem)
class _WriteNothing(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 3 and isinstance(args[0], _Nowhere) and _is_index(args[1])
        return signature(types.none, args[0], types.intp, args[2]) if right else None


@infer_global(len)
class _LengthOfNothing(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        return signature(types.intp, args[0]) if len(args) == 1 and isinstance(args[0], _Nowhere) else None


@lower_builtin(operator.getitem, _Nowhere, types.intp)
@lower_builtin(len, _Nowhere)
def _zero(context, builder, sig, args):
    return context.get_constant(sig.return_type, 0)


@lower_builtin(operator.setitem, _Nowhere, types.intp, types.Any)
def _drop(context, builder, sig, args):
    return context.get_dummy_value()


# ---- what steps use and force laws do not ----------------------------------------------------------------------------


@infer_global(math.isnan)
class _IsNanTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        return signature(types.boolean, DUAL) if len(args) == 1 and isinstance(args[0], _Dual) else None


@lower_builtin(math.isnan, _Dual)
def _isnan(context, builder, sig, args):
    v, _ = _parts(context, builder, DUAL, args[0])
    return builder.fcmp_unordered("uno", v, v)


def _of_three(function, choose):
    """min and max of three: numba takes them two by two for its own types alone."""

    @infer_global(function)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args, kws):
            numbers = all(isinstance(a, _Dual | types.Float | types.Integer) for a in args)
            right = len(args) == 3 and numbers and any(isinstance(a, _Dual) for a in args)
            return signature(DUAL, DUAL, DUAL, DUAL) if right else None

    @lower_builtin(function, _Dual, _Dual, _Dual)
    def code(context, builder, sig, args):
        v, d = _parts(context, builder, DUAL, args[0])
        for each in args[1:]:
            v, d = choose(builder, v, d, *_parts(context, builder, DUAL, each))
        return _make(context, builder, v, d)


_of_three(max, _max)
_of_three(min, _min)
