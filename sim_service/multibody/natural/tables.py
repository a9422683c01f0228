"""Where everything is: the layout of the four flat arrays that a compiled system and its runs consist of.

    ints   int32    constant: index tables; begins with the start and stop of every part listed below
    reals  float64  constant but for parameters, weights and settings, which may change between steps
    state  float64  one instant of one run: what is saved and forked
    work   float64  scratch of a step; its first entries are the diagnostics of the last one

Kernels take these four and reach a part with `part(ints, array, WHICH)`, which is a view and costs nothing.
"""

from enum import IntEnum, auto

from numba import float64, int32, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from sync.jit import kernel


class P(IntEnum):
    """Parts of the arrays. `ints`:"""

    # scalar linear forms V = const + sum coef q[col], and their entries in the inputs
    FORM_PTR = 0
    FORM_COL = auto()
    INPUT_FORM = auto()
    INPUT_INDEX = auto()
    # product sums R = sum coef V[a] V[b]: one per plain constraint, then two per angle
    ROW_PTR = auto()
    TERM_A = auto()
    TERM_B = auto()
    ANGLE_FORM = auto()
    # Jacobian, compressed rows; the schedule J[dst] += coef V[form] of plain rows and of angles (times sine or cosine)
    JAC_PTR = auto()
    JAC_COL = auto()
    JAC_DST = auto()
    JAC_FORM = auto()
    TRIG_DST = auto()
    TRIG_FORM = auto()
    TRIG_FACTOR = auto()
    THETA_DST = auto()
    THETA_ANGLE = auto()
    # mass matrix, lower triangle
    MASS_ROW = auto()
    MASS_COL = auto()
    # force elements, their ports (forms), and how port forces reach the coordinates
    EL_KIND = auto()
    EL_PORT = auto()
    EL_PARAM = auto()
    EL_BLOCK = auto()
    EL_INPUT = auto()
    PORT_FORM = auto()
    FORCE_COL = auto()
    FORCE_PORT = auto()
    # where the entries of M, of the port stiffnesses and of J^T W J belong in the factor
    MASS_DST = auto()
    TANGENT_DST = auto()
    TANGENT_SRC = auto()
    JTJ_DST = auto()
    # factorisation: order, supernodes, rows of each, destinations of its update
    ORDER = auto()
    SUPER_COL = auto()
    SUPER_PTR = auto()
    SUPER_ROW = auto()
    SUPER_PANEL = auto()
    SUPER_UPDATE = auto()
    UPDATE_DST = auto()
    # inputs that follow a law of time
    MOTION_KIND = auto()

    # reals
    FORM_COEF = auto()
    FORM_CONST = auto()
    INPUT_COEF = auto()
    TERM_COEF = auto()
    JAC_CONST = auto()
    JAC_COEF = auto()
    TRIG_COEF = auto()
    THETA_COEF = auto()
    MASS = auto()
    CONSTANT_FORCE = auto()
    FORCE_COEF = auto()
    TANGENT_COEF = auto()
    PARAM = auto()
    MOTION = auto()
    WEIGHT = auto()
    SETTING = auto()

    # state
    TIME = auto()
    Q = auto()
    QD = auto()
    QDD = auto()
    LAM = auto()
    ELEMENT = auto()
    INPUT = auto()
    POWER = auto()

    # work
    DIAGNOSTIC = auto()
    V = auto()
    VD = auto()
    VU = auto()
    R = auto()
    RD = auto()
    PHI = auto()
    RESIDUAL = auto()
    SECOND = auto()
    DIRECTION = auto()
    JAC = auto()
    JAC_FACTOR = auto()
    TRIG = auto()
    FORCE = auto()
    X = auto()
    XD = auto()
    PORT_FORCE = auto()
    PORT_K = auto()
    PORT_C = auto()
    ELEMENT_NEXT = auto()
    FACTOR = auto()
    UPDATE = auto()
    SOLVE = auto()
    RHS = auto()
    Q0 = auto()
    QD0 = auto()
    STAGE = auto()


HEADER = 2 * len(P)

# settings, in SETTING
(
    SCHEME, XI, TOLERANCE, TOLERANCE_PHI, TOLERANCE_VELOCITY, TOLERANCE_ACCELERATION, CAP, PASSES, REFACTOR,
    BAUMGARTE_RATE, BAUMGARTE_DAMPING, STABILISATION, HOOK_PORT, HOOK_PARAM, HOOK_BLOCK,
) = range(15)  # fmt: skip
SETTINGS = 15

# diagnostics of the last step, in DIAGNOSTIC
(
    ITERATIONS, PHI_ERROR, PHID_ERROR, ENERGY_RESIDUAL, CAPPED, CONTRACTION, FACTORISATIONS, BAD_PIVOTS, KINETIC,
    CORRECTION,
) = range(10)  # fmt: skip
DIAGNOSTICS = (
    "iterations", "phi_error", "phid_error", "energy_residual", "capped", "contraction", "factorisations",
    "bad_pivots", "kinetic", "correction",
)  # fmt: skip

# three entries per input: value, rate, second derivative
VALUE, RATE, SECOND = range(3)

INTS = int32[::1]
REALS = float64[::1]
# force hook: t, h, x, xd, inputs, params, states, next states, -> forces, K blocks, C blocks (see forces.py)
FORCE = types.void(float64, float64, REALS, REALS, REALS, REALS, REALS, REALS, REALS, REALS, REALS)
HOOK = types.FunctionType(FORCE)


# a function that only other kernels call: without wrappers for Python it compiles in two thirds of the time
inner = kernel(cache=False, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def borrowed(context, builder, kind, source, start, stop):
    """Code for the view source[start:stop] of a contiguous vector, without counting a reference."""
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


@intrinsic
def view(typingctx, array, start, stop):
    """view(array, start, stop): array[start:stop] of a vector that outlives it, with 0 <= start <= stop <= its length.

    A slice would count references and compile to five times the code, and a step takes some hundred of them.
    """

    def codegen(context, builder, signature, args):
        source = make_array(signature.args[0])(context, builder, args[0])
        ends = [context.cast(builder, args[k], signature.args[k], types.intp) for k in (1, 2)]
        return borrowed(context, builder, signature.args[0], source, *ends)

    return array(array, start, stop), codegen


@intrinsic
def part(typingctx, ints, array, which):
    """part(ints, array, WHICH): that part of one of the four arrays, as a borrowed view.

    Its start and stop are at the beginning of `ints`.
    """

    def codegen(context, builder, signature, args):
        header = make_array(signature.args[0])(context, builder, args[0])
        source = make_array(signature.args[1])(context, builder, args[1])
        intp = context.get_value_type(types.intp)
        at = builder.mul(context.cast(builder, args[2], signature.args[2], types.intp), intp(2))
        start = builder.sext(builder.load(builder.gep(header.data, [at])), intp)
        stop = builder.sext(builder.load(builder.gep(header.data, [builder.add(at, intp(1))])), intp)
        return borrowed(context, builder, signature.args[1], source, start, stop)

    return array(ints, array, which), codegen
