"""Numbers with derivatives in eight directions, for force laws in kernels: the law's own text gives its tangents.

    number(v, array, at)    a value with the derivatives array[at : at + 8]
    along(v, lane)          a value that is itself direction `lane`
    value_of, derivatives_of     the value; its derivatives, added to array[at : at + 8]
    chain(a, inner)         a, whose directions are quantities, by the directions of these: inner is a tuple of eight

An argument of a function that is compiled for what it is given may be such a number instead of a float64: arithmetic,
comparisons (of values), abs, min, max and what `math` has below. Where two branches give a float64 and a number, both
become numbers. Derivatives are one vector of eight: a machine has them in one, two or four registers.
A number lives in registers and on the stack of a kernel, never in an array.
"""

import math
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

LANES = 8
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)


class _Derivatives(types.Type):  # type: ignore[misc]  # numba has no types
    pass


class _Dual(types.Type):  # type: ignore[misc]
    def unify(self, typingctx, other):
        return self if isinstance(other, types.Float | types.Integer) else None

    def can_convert_from(self, typingctx, other):
        from numba.core.typeconv import Conversion

        return Conversion.safe if isinstance(other, types.Float | types.Integer) else None


DERIVATIVES = _Derivatives("derivatives8")
DUAL = _Dual("dual8")


@register_model(_Derivatives)
class _DerivativesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _VECTOR)


@register_model(_Dual)
class _DualModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, [("v", types.float64), ("d", DERIVATIVES)])


def _make(context, builder, v, d):
    out = cgutils.create_struct_proxy(DUAL)(context, builder)
    out.v, out.d = v, d
    return out._getvalue()


def _parts(context, builder, kind, value):
    """Value and derivatives, None of a plain number."""
    if isinstance(kind, _Dual):
        proxy = cgutils.create_struct_proxy(DUAL)(context, builder, value)
        return proxy.v, proxy.d
    return context.cast(builder, value, kind, types.float64), None


def _spread(builder, v):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), v, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _fma(builder, a, b, c):
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f64"), [a, b, c])


def _scaled(builder, d, factor):
    return builder.fmul(d, _spread(builder, factor))


def _sum(builder, terms):
    """Of factor times derivatives, of which some are None."""
    total = None
    for factor, d in terms:
        if d is None:
            continue
        if total is None:
            total = d if factor is None else _scaled(builder, d, factor)
        elif factor is None:
            total = builder.fadd(d, total)
        else:
            total = _fma(builder, _spread(builder, factor), d, total)
    return total


@lower_cast(types.Float, _Dual)
@lower_cast(types.Integer, _Dual)
def _from_plain(context, builder, kind, to, value):
    return _make(context, builder, context.cast(builder, value, kind, types.float64), _ZERO)


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _add(builder, a, ad, b, bd):
    return builder.fadd(a, b), _sum(builder, [(None, ad), (None, bd)])


def _sub(builder, a, ad, b, bd):
    return builder.fsub(a, b), _sum(builder, [(None, ad), (_DOUBLE(-1.0), bd)])


def _mul(builder, a, ad, b, bd):
    return builder.fmul(a, b), _sum(builder, [(b, ad), (a, bd)])


def _div(builder, a, ad, b, bd):
    inverse = builder.fdiv(_DOUBLE(1.0), b)
    v = builder.fdiv(a, b)
    return v, _sum(builder, [(inverse, ad), (builder.fneg(builder.fmul(v, inverse)), bd)])


def _choose(builder, first, a, ad, b, bd):
    ad, bd = (_ZERO if d is None else d for d in (ad, bd))
    return builder.select(first, a, b), builder.select(first, ad, bd)


def _min(builder, a, ad, b, bd):
    return _choose(builder, builder.fcmp_ordered("<", a, b), a, ad, b, bd)


def _max(builder, a, ad, b, bd):
    return _choose(builder, builder.fcmp_ordered(">", a, b), a, ad, b, bd)


def _copysign(builder, a, ad, b, bd):
    positive = builder.fcmp_ordered(">=", a, _DOUBLE(0.0))
    forward = builder.fcmp_ordered(">=", b, _DOUBLE(0.0))
    same = builder.icmp_signed("==", positive, forward)
    return builder.select(same, a, builder.fneg(a)), builder.select(same, ad, builder.fneg(ad))


_BINARY = {
    operator.add: _add, operator.sub: _sub, operator.mul: _mul, operator.truediv: _div,
    operator.iadd: _add, operator.isub: _sub, operator.imul: _mul, operator.itruediv: _div,
    min: _min, max: _max,
}  # fmt: skip
_COMPARED = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==",
             operator.ne: "!="}  # fmt: skip


def _kinds(args):
    numbers = all(isinstance(a, _Dual | types.Float | types.Integer) for a in args)
    if len(args) != 2 or not numbers or not any(isinstance(a, _Dual) for a in args):
        return None
    return [a if isinstance(a, _Dual) else types.float64 for a in args]


def _offer(function, result):
    @infer_global(function)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args, kws):
            kinds = _kinds(args)
            return None if kinds is None else signature(result, *kinds)


def _lower(function, make):
    def code(context, builder, sig, args):
        (a, ad), (b, bd) = (_parts(context, builder, k, v) for k, v in zip(sig.args, args, strict=True))
        return _make(context, builder, *make(builder, a, ad, b, bd))

    for kinds in ((_Dual, _Dual), (_Dual, types.float64), (types.float64, _Dual)):
        lower_builtin(function, *kinds)(code)


def _lower_compared(function, sign):
    def code(context, builder, sig, args):
        (a, _), (b, _) = (_parts(context, builder, k, v) for k, v in zip(sig.args, args, strict=True))
        compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        return compare(sign, a, b)

    for kinds in ((_Dual, _Dual), (_Dual, types.float64), (types.float64, _Dual)):
        lower_builtin(function, *kinds)(code)


for _function, _rule in _BINARY.items():
    _offer(_function, DUAL)
    _lower(_function, _rule)
for _function, _sign in _COMPARED.items():
    _offer(_function, types.boolean)
    _lower_compared(_function, _sign)


@infer_global(math.copysign)
class _CopysignTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        both = len(args) == 2 and all(isinstance(a, _Dual) for a in args)
        return signature(DUAL, DUAL, DUAL) if both else None


_lower(math.copysign, _copysign)


@infer_global(operator.pow)
class _SquareTemplate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        square = len(args) == 2 and isinstance(args[0], _Dual) and getattr(args[1], "literal_value", None) == 2
        return signature(DUAL, DUAL, args[1]) if square else None


@lower_builtin(operator.pow, _Dual, types.IntegerLiteral)
def _square(context, builder, sig, args):
    v, d = _parts(context, builder, sig.args[0], args[0])
    return _make(context, builder, *_mul(builder, v, d, v, d))


# ---- functions of one number -----------------------------------------------------------------------------------------


def _plain(context, builder, function, v):
    kind = signature(types.float64, types.float64)
    resolved = context.typing_context.resolve_function_type(
        context.typing_context.resolve_value_type(function), (types.float64,), {}
    )
    called = context.get_function(context.typing_context.resolve_value_type(function), resolved or kind)
    return called(builder, [v])


def _d_sqrt(context, builder, v, out):
    # of 0, which has no slope, 0: a length that is nothing has no direction to grow in
    nothing = builder.fcmp_ordered("==", out, _DOUBLE(0.0))
    return builder.select(nothing, _DOUBLE(0.0), builder.fdiv(_DOUBLE(0.5), out))


def _d_atan(context, builder, v, out):
    return builder.fdiv(_DOUBLE(1.0), builder.fadd(builder.fmul(v, v), _DOUBLE(1.0)))


def _d_exp(context, builder, v, out):
    return out


def _d_log(context, builder, v, out):
    return builder.fdiv(_DOUBLE(1.0), v)


def _d_asin(context, builder, v, out):
    square = builder.fsub(_DOUBLE(1.0), builder.fmul(v, v))
    return builder.fdiv(_DOUBLE(1.0), _plain(context, builder, math.sqrt, square))


def _d_sin(context, builder, v, out):
    return _plain(context, builder, math.cos, v)


def _d_cos(context, builder, v, out):
    return builder.fneg(_plain(context, builder, math.sin, v))


def _d_abs(context, builder, v, out):
    return builder.select(builder.fcmp_ordered("<", v, _DOUBLE(0.0)), _DOUBLE(-1.0), _DOUBLE(1.0))


def _d_neg(context, builder, v, out):
    return _DOUBLE(-1.0)


_UNARY = {math.sqrt: _d_sqrt, math.atan: _d_atan, math.exp: _d_exp, math.sin: _d_sin, math.cos: _d_cos, abs: _d_abs,
          math.log: _d_log, math.asin: _d_asin, operator.neg: _d_neg}  # fmt: skip


def _offer_unary(function, slope):
    @infer_global(function)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args, kws):
            return signature(DUAL, DUAL) if len(args) == 1 and isinstance(args[0], _Dual) else None

    @lower_builtin(function, _Dual)
    def code(context, builder, sig, args):
        v, d = _parts(context, builder, sig.args[0], args[0])
        out = builder.fneg(v) if function is operator.neg else _plain(context, builder, function, v)
        return _make(context, builder, out, _scaled(builder, d, slope(context, builder, v, out)))


for _function, _slope in _UNARY.items():
    _offer_unary(_function, _slope)


def _offer_whole(function):
    """Of a number a whole one, which has no derivatives."""

    @infer_global(function)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args, kws):
            return signature(types.int64, DUAL) if len(args) == 1 and isinstance(args[0], _Dual) else None

    @lower_builtin(function, _Dual)
    def code(context, builder, sig, args):
        v, _ = _parts(context, builder, sig.args[0], args[0])
        if function is not int:
            name = {math.floor: "llvm.floor.f64", round: "llvm.rint.f64"}[function]
            kind = ir.FunctionType(_DOUBLE, [_DOUBLE])
            v = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [v])
        return builder.fptosi(v, ir.IntType(64))


for _whole in (int, round, math.floor):
    _offer_whole(_whole)


@infer_global(math.atan2)
class _Atan2Template(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args, kws):
        both = len(args) == 2 and all(isinstance(a, _Dual) for a in args)
        return signature(DUAL, DUAL, DUAL) if both else None


@lower_builtin(math.atan2, _Dual, _Dual)
def _atan2(context, builder, sig, args):
    (y, yd), (x, xd) = (_parts(context, builder, k, v) for k, v in zip(sig.args, args, strict=True))
    kind = context.typing_context.resolve_value_type(math.atan2)
    resolved = context.typing_context.resolve_function_type(kind, (types.float64, types.float64), {})
    out = context.get_function(kind, resolved)(builder, [y, x])
    square = builder.fdiv(_DOUBLE(1.0), builder.fadd(builder.fmul(x, x), builder.fmul(y, y)))
    derivatives = _sum(builder, [(builder.fmul(x, square), yd), (builder.fneg(builder.fmul(y, square)), xd)])
    return _make(context, builder, out, derivatives)


# ---- to and from arrays ----------------------------------------------------------------------------------------------


def _pointer(context, builder, kind, array, at_kind, at):
    data = make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [context.cast(builder, at, at_kind, types.intp)]), _VECTOR.as_pointer())


@intrinsic
def number(typingctx, v, array, at):
    """number(v, array, at): v with the derivatives array[at : at + 8]."""

    def codegen(context, builder, sig, args):
        place = _pointer(context, builder, sig.args[1], args[1], sig.args[2], args[2])
        return _make(context, builder, args[0], builder.load(place, align=8))

    return DUAL(types.float64, array, at), codegen


@intrinsic
def along(typingctx, v, lane):
    """along(v, lane): v, whose derivative in direction `lane`, a constant, is 1."""
    if not isinstance(lane, types.IntegerLiteral):
        return None
    which = lane.literal_value

    def codegen(context, builder, sig, args):
        return _make(context, builder, args[0], ir.Constant(_VECTOR, [float(i == which) for i in range(LANES)]))

    return DUAL(types.float64, lane), codegen


@intrinsic
def value_of(typingctx, a):
    """The value of a number, or a float64 itself."""

    def codegen(context, builder, sig, args):
        return _parts(context, builder, sig.args[0], args[0])[0]

    return types.float64(a), codegen


@intrinsic
def derivative_of(typingctx, a, lane):
    """The derivative in direction `lane`, a constant."""
    if not isinstance(lane, types.IntegerLiteral):
        return None
    which = lane.literal_value

    def codegen(context, builder, sig, args):
        return builder.extract_element(_parts(context, builder, DUAL, args[0])[1], ir.IntType(32)(which))

    return types.float64(DUAL, lane), codegen


@intrinsic
def add_derivatives(typingctx, a, factor, array, at):
    """add_derivatives(a, factor, array, at): array[at : at + 8] += factor times the derivatives."""

    def codegen(context, builder, sig, args):
        place = _pointer(context, builder, sig.args[2], args[2], sig.args[3], args[3])
        d = _parts(context, builder, DUAL, args[0])[1]
        builder.store(_fma(builder, _spread(builder, args[1]), d, builder.load(place, align=8)), place, align=8)
        return context.get_dummy_value()

    return types.void(DUAL, types.float64, array, at), codegen


@intrinsic
def chain(typingctx, a, inner):
    """chain(a, inner): a, whose direction k is that along the quantity inner[k], in the directions of these.

    A quantity that is a float64 is constant there.
    """

    def codegen(context, builder, sig, args):
        v, d = _parts(context, builder, DUAL, args[0])
        terms = []
        for k, (kind, value) in enumerate(zip(sig.args[1], cgutils.unpack_tuple(builder, args[1]), strict=True)):
            derivatives = _parts(context, builder, kind, value)[1]
            terms.append((builder.extract_element(d, ir.IntType(32)(k)), derivatives))
        total = _sum(builder, terms)
        return _make(context, builder, v, _ZERO if total is None else total)

    return DUAL(DUAL, inner), codegen
