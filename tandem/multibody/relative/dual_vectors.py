"""Vectors of numbers with derivatives (dual.py): the text of a whole step, compiled once more, gives its tangents.

    with_slopes(values, slopes)    a vector whose entry i is values[i] with the derivatives slopes[8 i : 8 i + 8]

`step.py_func`, compiled for such vectors instead of float64 ones, reads numbers with derivatives from them and writes
such into them. Values are those of the plain step: the same operations in the same order, without a derivative in them.
"""

import math
import operator

from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

from tandem.multibody.relative.dual import _VECTOR, DUAL, LANES, _Dual, _make, _max, _min, _parts

_POINTER = types.CPointer(types.float64)


class _DualVector(types.Type):  # type: ignore[misc]  # numba has no types
    pass


DUAL_VECTOR = _DualVector("dual8[:]")


@register_model(_DualVector)
class _DualVectorModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, [("v", _POINTER), ("d", _POINTER)])


@intrinsic
def with_slopes(typingctx, values, slopes):
    """with_slopes(values, slopes): see above. The arrays are contiguous, and outlive it."""

    def codegen(context, builder, sig, args):
        out = cgutils.create_struct_proxy(DUAL_VECTOR)(context, builder)
        out.v, out.d = (make_array(k)(context, builder, a).data for k, a in zip(sig.args, args, strict=True))
        return out._getvalue()

    return DUAL_VECTOR(values, slopes), codegen


def _place(context, builder, kind, vector, at):
    given = cgutils.create_struct_proxy(kind)(context, builder, vector)
    lanes = builder.mul(at, context.get_constant(types.intp, LANES))
    slopes = builder.bitcast(builder.gep(given.d, [lanes]), _VECTOR.as_pointer())
    return builder.gep(given.v, [at]), slopes


def _is_index(kind):
    return isinstance(kind, types.Integer | types.IntEnumMember)


@infer_global(operator.getitem)
class _ReadTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 2 and isinstance(args[0], _DualVector) and _is_index(args[1])
        return signature(DUAL, args[0], types.intp) if right else None


@lower_builtin(operator.getitem, _DualVector, types.intp)
def _read(context, builder, sig, args):
    value, slopes = _place(context, builder, sig.args[0], args[0], args[1])
    return _make(context, builder, builder.load(value), builder.load(slopes, align=8))


@infer_global(operator.setitem)
class _WriteTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        right = len(args) == 3 and isinstance(args[0], _DualVector) and _is_index(args[1])
        return signature(types.none, args[0], types.intp, DUAL) if right else None


@lower_builtin(operator.setitem, _DualVector, types.intp, _Dual)
def _write(context, builder, sig, args):
    value, slopes = _place(context, builder, sig.args[0], args[0], args[1])
    v, d = _parts(context, builder, DUAL, args[2])
    builder.store(v, value)
    builder.store(d, slopes, align=8)
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
