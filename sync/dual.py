"""Numbers that carry their exact derivatives through kernels (forward mode), so that a formula is written only once.

Promises
- A kernel without a signature (`kernel()`), written for floats, also compiles for duals, and then returns its value
  together with the exact partial derivatives by N chosen arguments: no difference quotient, no second text of the
  formula. numba compiles a kernel for the types it is called with; a dual is one more type.
- The value of a dual is what the same kernel computes from floats, to the bit.
- No allocation, no call but those of the formula: a dual is a value and a vector of N partial derivatives in registers.
- Derivatives are those of the branch taken. At a corner: abs has the slope +1 (or -1 at -0.0), min and max that of
  their first argument (of two) where both are equal, sqrt has 0 at 0: a subgradient of a length.

    n = 3
    x, y, z = seed(x, 0, n), seed(y, 1, n), seed(z, 2, n)       # dx/dx = 1 ...
    f = formula(p, x, y, z)                                     # p are floats: no derivative by them
    value(f), partial(f, 1), write_partials(f, row, at)         # f, df/dy, row[at:at + n]

`chain(f, (u, v, w))` is the chain rule: f depends on three variables that are duals of something else. So a formula of
few arguments inside one of many is computed with few derivatives: `fresh(u, 0, 3)` begins anew with the value of u.
Both leave floats alone, so the outer formula, too, is one text for floats and duals. `constant(x, n)` is a dual without
derivatives.

Why so. Tangents by hand are the formula a second time, and stay right only as long as nobody edits one of the two.
Source transformation writes modules that nobody reads, and numba is slow with long straight-line code. An expression
graph needs all branches as selects and does not follow searches in tables. Operators on a type of numba need
neither: branches, loops and calls stay those of the kernel. In a kernel with N derivatives the functions of one
variable (atan, sin, exp) are evaluated once; products cost N more.

A variable that is a float on one branch and a dual on another is a dual (with zero derivatives on the first). A dual
and a float make a dual; duals of different N do not meet. Compiled code of a formula is cached under the formula's
file, which does not import this one: the name of the type has the digest of this file, so an edit here compiles again.
"""

import hashlib
import math
import operator
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typeconv import Conversion
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model

_DIGEST = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
_DOUBLE = ir.DoubleType()
_NUMBERS = (types.Float, types.Integer, types.Boolean)


class Partials(types.Type):  # type: ignore[misc]  # numba has no types
    """A vector of N derivatives."""

    def __init__(self, n: int):
        self.n = n
        super().__init__(name=f"Partials({n})")


class Dual(types.Type):  # type: ignore[misc]
    """A value and its N derivatives."""

    def __init__(self, n: int):
        self.n = n
        super().__init__(name=f"Dual({n}, {_DIGEST})")

    def unify(self, typingctx, other):
        return self if isinstance(other, _NUMBERS) else None

    def can_convert_from(self, typingctx, other):
        return Conversion.safe if isinstance(other, _NUMBERS) else None


@register_model(Partials)
class _PartialsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, ir.VectorType(_DOUBLE, fe_type.n))


@register_model(Dual)
class _DualModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, [("v", types.float64), ("d", Partials(fe_type.n))])


# ---- code ------------------------------------------------------------------------------------------------------------


def _zeros(n):
    return ir.Constant(ir.VectorType(_DOUBLE, n), [0.0] * n)


def _make(context, builder, kind, v, d):
    out = cgutils.create_struct_proxy(kind)(context, builder)
    out.v, out.d = v, d
    return out._getvalue()


def _open(context, builder, kind, value):
    """Value and derivatives of an operand; None for those of a float."""
    if isinstance(kind, Dual):
        found = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        return found.v, found.d
    return context.cast(builder, value, kind, types.float64), None


def _scale(builder, d, factor, more=None):
    """d times a scalar, plus `more`.

    Fused explicitly, so that derivatives have the same bits on all machines; they need not have those of the text.
    """
    first = ir.Constant(ir.IntType(32), 0)
    spread = builder.insert_element(ir.Constant(d.type, ir.Undefined), factor, first)
    mask = ir.Constant(ir.VectorType(ir.IntType(32), d.type.count), [0] * d.type.count)
    spread = builder.shuffle_vector(spread, spread, mask)
    if more is None:
        return builder.fmul(d, spread)
    fused = ir.FunctionType(d.type, [d.type] * 3)
    fused = cgutils.get_or_insert_function(builder.module, fused, f"llvm.fma.v{d.type.count}f64")
    return builder.call(fused, [d, spread, more])


def _combine(builder, *terms):
    """Sum of d times a scalar over (d, scalar); those without derivatives are left out."""
    total = None
    for d, factor in terms:
        if d is not None:
            total = _scale(builder, d, factor, total)
    return total


def _plus(builder, a, b):
    return b if a is None else a if b is None else builder.fadd(a, b)


def _call(context, builder, function, *args):
    """The function as numba compiles it for floats."""
    sig = signature(types.float64, *[types.float64] * len(args))
    return context.get_function(function, sig)(builder, args)


def _real(x):
    return ir.Constant(_DOUBLE, float(x))


@lower_cast(types.Float, Dual)
@lower_cast(types.Integer, Dual)
@lower_cast(types.Boolean, Dual)
def _from_number(context, builder, fromty, toty, val):
    return _make(context, builder, toty, context.cast(builder, val, fromty, types.float64), _zeros(toty.n))


def _dual_of(args):
    """The one kind of dual among arguments that are duals or numbers, else None."""
    kinds = {a for a in args if isinstance(a, Dual)}
    if len(kinds) != 1 or not all(isinstance(a, (Dual, *_NUMBERS)) for a in args):
        return None
    return kinds.pop()


def _typed(function, arity, truth=False):
    @infer_global(function)
    class DualCall(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args, kws):
            kind = _dual_of(args) if len(args) == arity else None
            if kind is None:
                return None
            # numbers as floats: one version of the code for all of them
            sig = [a if isinstance(a, (Dual, types.Integer)) else types.float64 for a in args]
            return signature(types.boolean if truth else kind, *sig)


def _lowered(function, arity, code):
    """`code(context, builder, kinds, pairs)` makes the result (or, for a truth, a bit) from (value, derivatives)."""

    def lower(context, builder, sig, args):
        pairs = [_open(context, builder, kind, a) for kind, a in zip(sig.args, args, strict=True)]
        found = code(context, builder, *pairs)
        return _make(context, builder, sig.return_type, *found) if isinstance(found, tuple) else found

    _typed(function, arity, truth=code in _TRUTHS)
    if arity == 1:
        lower_builtin(function, Dual)(lower)
        return
    for number in (types.Float, types.Integer):
        lower_builtin(function, Dual, number)(lower)
        lower_builtin(function, number, Dual)(lower)
    lower_builtin(function, Dual, Dual)(lower)


_TRUTHS: set[Any] = set()


def _compare(word):
    def code(context, builder, a, b):
        compare = builder.fcmp_unordered if word == "!=" else builder.fcmp_ordered
        return compare(word, a[0], b[0])

    _TRUTHS.add(code)
    return code


def _add(context, builder, a, b):
    return builder.fadd(a[0], b[0]), _plus(builder, a[1], b[1])


def _sub(context, builder, a, b):
    if b[1] is None:
        return builder.fsub(a[0], b[0]), a[1]
    return builder.fsub(a[0], b[0]), builder.fneg(b[1]) if a[1] is None else builder.fsub(a[1], b[1])


def _mul(context, builder, a, b):
    return builder.fmul(a[0], b[0]), _combine(builder, (a[1], b[0]), (b[1], a[0]))


def _div(context, builder, a, b):
    q = builder.fdiv(a[0], b[0])
    per = builder.fdiv(_real(1.0), b[0])
    return q, _combine(builder, (a[1], per), (b[1], builder.fneg(builder.fmul(q, per))))


def _power(context, builder, a, n):
    """By a number; the exponent has no derivatives."""
    slope = builder.fmul(n[0], _call(context, builder, math.pow, a[0], builder.fsub(n[0], _real(1.0))))
    return _call(context, builder, math.pow, a[0], n[0]), _scale(builder, a[1], slope)


def _whole_power(builder, v, n):
    """v ** n for n >= 0 by multiplications, in numba's own order."""
    found = _real(1.0)
    while n:
        if n & 1:
            found = builder.fmul(found, v)
        n >>= 1
        v = builder.fmul(v, v)
    return found


def _neg(context, builder, a):
    return builder.fneg(a[0]), builder.fneg(a[1])


def _pos(context, builder, a):
    return a


def _abs(context, builder, a):
    sign = _call(context, builder, math.copysign, _real(1.0), a[0])
    return _call(context, builder, math.fabs, a[0]), _scale(builder, a[1], sign)


def _choice(word):
    def code(context, builder, a, b):
        n = next(d.type.count for d in (a[1], b[1]) if d is not None)
        second = builder.fcmp_ordered(word, b[0], a[0])  # as Python: the second only where it is less (greater)
        da, db = (_zeros(n) if d is None else d for d in (a[1], b[1]))
        return builder.select(second, b[0], a[0]), builder.select(second, db, da)

    return code


def _sqrt(context, builder, a):
    root = _call(context, builder, math.sqrt, a[0])
    slope = builder.fdiv(_real(0.5), root)
    slope = builder.select(builder.fcmp_ordered("==", root, _real(0.0)), _real(0.0), slope)
    return root, _scale(builder, a[1], slope)


def _sin(context, builder, a):
    slope = _call(context, builder, math.cos, a[0])
    return _call(context, builder, math.sin, a[0]), _scale(builder, a[1], slope)


def _cos(context, builder, a):
    slope = builder.fneg(_call(context, builder, math.sin, a[0]))
    return _call(context, builder, math.cos, a[0]), _scale(builder, a[1], slope)


def _exp(context, builder, a):
    e = _call(context, builder, math.exp, a[0])
    return e, _scale(builder, a[1], e)


def _atan(context, builder, a):
    slope = builder.fdiv(_real(1.0), builder.fadd(_real(1.0), builder.fmul(a[0], a[0])))
    return _call(context, builder, math.atan, a[0]), _scale(builder, a[1], slope)


def _atan2(context, builder, a, b):
    square = builder.fadd(builder.fmul(a[0], a[0]), builder.fmul(b[0], b[0]))
    per = builder.fdiv(_real(1.0), square)
    by_a, by_b = builder.fmul(b[0], per), builder.fneg(builder.fmul(a[0], per))
    return _call(context, builder, math.atan2, a[0], b[0]), _combine(builder, (a[1], by_a), (b[1], by_b))


def _copysign(context, builder, a, b):
    v = _call(context, builder, math.copysign, a[0], b[0])
    if a[1] is None:
        return v, _zeros(b[1].type.count)
    one = _real(1.0)
    sign = builder.fmul(*[_call(context, builder, math.copysign, one, x) for x in (a[0], b[0])])
    return v, _scale(builder, a[1], sign)


_OF_TWO: tuple[Any, ...] = (
    (operator.add, _add),
    (operator.iadd, _add),
    (operator.sub, _sub),
    (operator.isub, _sub),
    (operator.mul, _mul),
    (operator.imul, _mul),
    (operator.truediv, _div),
    (operator.itruediv, _div),
    (operator.lt, _compare("<")),
    (operator.le, _compare("<=")),
    (operator.gt, _compare(">")),
    (operator.ge, _compare(">=")),
    (operator.eq, _compare("==")),
    (operator.ne, _compare("!=")),
    (max, _choice(">")),
    (min, _choice("<")),
    (math.atan2, _atan2),
    (math.copysign, _copysign),
)
_OF_ONE: tuple[Any, ...] = (
    (operator.neg, _neg),
    (operator.pos, _pos),
    (abs, _abs),
    (math.fabs, _abs),
    (math.sqrt, _sqrt),
    (math.sin, _sin),
    (math.cos, _cos),
    (math.exp, _exp),
    (math.atan, _atan),
)
for _function, _code in _OF_TWO:
    _lowered(_function, 2, _code)
for _function, _code in _OF_ONE:
    _lowered(_function, 1, _code)


def _to_whole(function):
    """int and math.floor, which numba has as integers: of the value."""

    @infer_global(function)
    class DualWhole(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args, kws):
            return signature(types.int64, args[0]) if len(args) == 1 and isinstance(args[0], Dual) else None

    @lower_builtin(function, Dual)
    def lower(context, builder, sig, args):
        v, _ = _open(context, builder, sig.args[0], args[0])
        if function is int:
            return context.cast(builder, v, types.float64, types.int64)
        return context.get_function(function, signature(types.int64, types.float64))(builder, [v])


_to_whole(int)
_to_whole(math.floor)


@infer_global(operator.pow)
class _DualPower(AbstractTemplate):  # type: ignore[misc]
    prefer_literal = True

    def generic(self, args, kws):
        if len(args) == 2 and isinstance(args[0], Dual) and isinstance(args[1], (types.Integer, types.Float)):
            return signature(args[0], args[0], args[1])
        return None


@lower_builtin(operator.pow, Dual, types.Float)
@lower_builtin(operator.pow, Dual, types.Integer)
def _lower_power(context, builder, sig, args):
    pairs = [_open(context, builder, kind, a) for kind, a in zip(sig.args, args, strict=True)]
    return _make(context, builder, sig.return_type, *_power(context, builder, *pairs))


@lower_builtin(operator.pow, Dual, types.IntegerLiteral)
def _lower_whole_power(context, builder, sig, args):
    n = sig.args[1].literal_value
    if not 0 < n < 100:
        return _lower_power(context, builder, sig, args)
    v, d = _open(context, builder, sig.args[0], args[0])
    slope = builder.fmul(_real(n), _whole_power(builder, v, n - 1))
    return _make(context, builder, sig.return_type, _whole_power(builder, v, n), _scale(builder, d, slope))


# ---- functions for kernels -------------------------------------------------------------------------------------------


@intrinsic(prefer_literal=True)
def seed(typingctx, x, i, n):
    """seed(x, i, n): the i-th of n variables, whose derivative by itself is 1; i and n are constants."""
    if not isinstance(i, types.IntegerLiteral) or not isinstance(n, types.IntegerLiteral):
        return None
    kind, at = Dual(n.literal_value), i.literal_value

    def codegen(context, builder, sig, args):
        v = context.cast(builder, args[0], sig.args[0], types.float64)
        d = ir.Constant(ir.VectorType(_DOUBLE, kind.n), [1.0 if k == at else 0.0 for k in range(kind.n)])
        return _make(context, builder, kind, v, d)

    return kind(types.float64, i, n), codegen


@intrinsic(prefer_literal=True)
def fresh(typingctx, x, i, n):
    """fresh(x, i, n): of a dual, a new i-th of n variables with its value (for `chain`); of a float that float."""
    if isinstance(x, _NUMBERS):
        return types.float64(types.float64, i, n), lambda context, builder, sig, args: args[0]
    if not all(isinstance(k, types.IntegerLiteral) for k in (i, n)) or not isinstance(x, Dual):
        return None
    kind, at = Dual(n.literal_value), i.literal_value

    def codegen(context, builder, sig, args):
        v, _ = _open(context, builder, sig.args[0], args[0])
        d = ir.Constant(ir.VectorType(_DOUBLE, kind.n), [1.0 if k == at else 0.0 for k in range(kind.n)])
        return _make(context, builder, kind, v, d)

    return kind(x, i, n), codegen


@intrinsic(prefer_literal=True)
def constant(typingctx, x, n):
    """constant(x, n): a dual whose n derivatives are 0."""
    if not isinstance(n, types.IntegerLiteral):
        return None
    kind = Dual(n.literal_value)

    def codegen(context, builder, sig, args):
        return _make(context, builder, kind, args[0], _zeros(kind.n))

    return kind(types.float64, n), codegen


@intrinsic
def value(typingctx, x):
    """The float of a dual; of a float itself."""
    if not isinstance(x, (Dual, *_NUMBERS)):
        return None

    def codegen(context, builder, sig, args):
        return _open(context, builder, sig.args[0], args[0])[0]

    return types.float64(x), codegen


@intrinsic
def is_dual(typingctx, x):
    """Whether x is a dual: a constant, so that the branch not taken is not there."""
    found = ir.Constant(ir.IntType(1), isinstance(x, Dual))
    return types.boolean(x), lambda context, builder, sig, args: found


@intrinsic
def graft(typingctx, v, of):
    """graft(v, of): a dual with the value v and the derivatives of `of`; v where `of` is a float.

    For what was found by a search in floats, and whose derivatives are known (those of one more step of Newton's rule).
    """
    if not isinstance(of, Dual):
        return types.float64(types.float64, of), lambda context, builder, sig, args: args[0]

    def codegen(context, builder, sig, args):
        return _make(context, builder, of, args[0], _open(context, builder, of, args[1])[1])

    return of(types.float64, of), codegen


@intrinsic
def partial(typingctx, x, i):
    """partial(x, i): the derivative of x by the i-th variable; 0 of a float."""
    if not isinstance(x, (Dual, *_NUMBERS)):
        return None

    def codegen(context, builder, sig, args):
        _, d = _open(context, builder, sig.args[0], args[0])
        if d is None:
            return _real(0.0)
        return builder.extract_element(d, context.cast(builder, args[1], sig.args[1], types.int64))

    return types.float64(x, i), codegen


@intrinsic
def write_partials(typingctx, x, row, at):
    """write_partials(x, row, at): all derivatives into row[at:at + n]; the vector must be that long."""
    if not isinstance(x, Dual) or not isinstance(row, types.Array):
        return None

    def codegen(context, builder, sig, args):
        _, d = _open(context, builder, sig.args[0], args[0])
        into = context.make_array(sig.args[1])(context, builder, args[1])
        place = builder.gep(into.data, [context.cast(builder, args[2], sig.args[2], types.intp)])
        builder.store(d, builder.bitcast(place, d.type.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(x, row, at), codegen


@intrinsic
def read_dual(typingctx, v, like, row, at):
    """read_dual(v, like, row, at): value v with the derivatives row[at:at + n], of the kind of the dual `like`."""
    if not isinstance(like, Dual) or not isinstance(row, types.Array):
        return None

    def codegen(context, builder, sig, args):
        of = context.make_array(sig.args[2])(context, builder, args[2])
        place = builder.gep(of.data, [context.cast(builder, args[3], sig.args[3], types.intp)])
        vector = ir.VectorType(_DOUBLE, like.n)
        d = builder.load(builder.bitcast(place, vector.as_pointer()), align=8)
        return _make(context, builder, like, args[0], d)

    return like(types.float64, like, row, at), codegen


@intrinsic
def chain(typingctx, f, inner):
    """chain(f, (u, v, ...)): f, whose variables are u, v, ..., as a function of what these are duals of.

    f may be a tuple of such. Some variables may be floats: then f does not change with them. Where all are, f stays.
    """
    if not isinstance(inner, types.BaseTuple):
        return None
    results = tuple(f) if isinstance(f, types.BaseTuple) else (f,)
    kind = _dual_of(tuple(inner))
    if kind is None:
        wrong = any(isinstance(r, Dual) for r in results)
        return None if wrong else (f(f, inner), lambda context, builder, sig, args: args[0])
    if not all(isinstance(r, _NUMBERS) or (isinstance(r, Dual) and r.n == len(inner)) for r in results):
        return None

    def one(context, builder, result, outer, inner_value):
        v, slopes = _open(context, builder, result, outer)
        total = None
        for i, part in enumerate(inner):
            _, d = _open(context, builder, part, builder.extract_value(inner_value, i))
            if d is not None and slopes is not None:
                slope = builder.extract_element(slopes, ir.Constant(ir.IntType(64), i))
                total = _scale(builder, d, slope, total)
        return _make(context, builder, kind, v, _zeros(kind.n) if total is None else total)

    def codegen(context, builder, sig, args):
        if not isinstance(f, types.BaseTuple):
            return one(context, builder, f, *args)
        parts = [one(context, builder, r, builder.extract_value(args[0], k), args[1]) for k, r in enumerate(results)]
        return context.make_tuple(builder, sig.return_type, parts)

    whole = types.UniTuple(kind, len(results)) if isinstance(f, types.BaseTuple) else kind
    return whole(f, inner), codegen
