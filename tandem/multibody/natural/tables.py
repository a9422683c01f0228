"""Where everything is: the layout of the four flat arrays that a compiled system and its runs consist of.

    ints   int32    constant: index tables; begins with the start and stop of every part listed below
    reals  float64  constant in a step; parameters, weights and settings may change between two (as options may, the
                    last of `ints`)
    state  float64  one instant of one run: what is saved and forked
    work   float64  scratch of a step; its first entries are the diagnostics of the last one

Kernels take these four and reach a part with `part(ints, array, WHICH)` of views.py. Nothing here is compiled.
"""

from enum import IntEnum, auto

from numba import float64, types

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR


class P(IntEnum):
    """Parts of the arrays. `ints`:"""

    # scalar linear forms V = const + sum coef q[col], and their entries in the inputs
    FORM_PTR = 0
    FORM_COL = auto()
    INPUT_FORM = auto()
    INPUT_INDEX = auto()
    # product sums R = sum coef V[a] V[b]: one per plain constraint, then two per angle; behind those of R, slips, which
    # are sums of coef V[a] Vd[b]
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
    OPTION = auto()

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
    SCALE = auto()  # 1 / size of each coordinate and of each constraint, for tolerances
    PHI_SCALE = auto()
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
    ALPHA = auto()  # the auxiliary accelerations of generalised-alpha; empty without it

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
    LIVE = auto()  # what the hook reads besides, constant for a step: see forces.py
    SAVED = auto()  # three states: before the step, and two of halving.py


HEADER = 2 * len(P)

# settings that say how often or in which way something is computed, in OPTION
SCHEME, CAP, PASSES, RETRIES = range(4)
OPTIONS = 4
CODE = OPTIONS  # of a system with unrolled code (unrolled.py): where its addresses begin among the reals

# the others, in SETTING
(
    XI, TOLERANCE, TOLERANCE_PHI, TOLERANCE_VELOCITY, TOLERANCE_ACCELERATION, REFACTOR, BAUMGARTE_RATE,
    BAUMGARTE_DAMPING, STABILISATION, RHO,
) = range(10)  # fmt: skip
SETTINGS = 10

# diagnostics of the last step, in DIAGNOSTIC
(
    ITERATIONS, PHI_ERROR, PHID_ERROR, ENERGY_RESIDUAL, CAPPED, CONTRACTION, FACTORISATIONS, BAD_PIVOTS, KINETIC,
    CORRECTION, ATTEMPTS, STEP_ERROR,
) = range(12)  # fmt: skip
DIAGNOSTICS = (
    "iterations", "phi_error", "phid_error", "energy_residual", "capped", "contraction", "factorisations",
    "bad_pivots", "kinetic", "correction", "attempts", "step_error",
)  # fmt: skip

# three entries per input: value, rate, second derivative
VALUE, RATE, SECOND = range(3)
# what is asked of a state (evaluation.py)
KINEMATICS, TANGENT, ACCELERATE, SOLVE = range(4)

INTS = INDICES
REALS = VECTOR
# force hook: t, h, x, xd, inputs, live, params, states, next states, -> forces, K blocks, C blocks (see forces.py)
FORCE = types.void(float64, float64, REALS, REALS, REALS, REALS, CONSTANTS, REALS, REALS, REALS, REALS, REALS)
HOOK = types.FunctionType(FORCE)

# kinds of force elements, in EL_KIND
SPRING, TORSION, FORCE_ON, TORQUE_3D, TORQUE_2D, FRICTION, LIMIT, ROTOR, CONTACT, DRAG = range(10)
STILL = 1e-9  # m/s, where the resistance of a fluid that grows with the square is rounded
CONTACT_STATES = 2  # energy lost, and the power of the loss at the last step

# laws of time of an input, in MOTION_KIND, four parameters each
EXTERNAL, POLYNOMIAL, HARMONIC, SMOOTH_STEP = range(4)
