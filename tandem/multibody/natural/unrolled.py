"""The parts of a step that index tables drive: by the tables, or by unrolled code where a system has some.

Unrolled code (unrolling.py) is made for one structure and knows no table, index or loop. Where the option CODE says, a
number among the reals tells whether these reals are of that structure, and its addresses stand behind it; what has none
(0) goes by tables. Both are the same operations in the same order, and so the same bits.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sync.compile.jit import inner
from tandem.multibody.code.calls import call, number_in_memory
from tandem.multibody.natural import assembly, cholesky, constraints, elements
from tandem.multibody.natural.tables import BAD_PIVOTS, CODE, P
from tandem.multibody.natural.views import part, view

NAMES = (
    "factorise", "solve", "assemble", "jacobian", "positions", "rates", "velocities", "velocity_terms",
    "times_jacobian", "add_transposed", "add_mass_times", "kinetic_energy", "generalised_forces",
)  # fmt: skip
(
    _FACTORISE, _SOLVE, _ASSEMBLE, _JACOBIAN, _POSITIONS, _RATES, _VELOCITIES, _VELOCITY_TERMS, _TIMES_JACOBIAN,
    _ADD_TRANSPOSED, _ADD_MASS_TIMES, _KINETIC_ENERGY, _GENERALISED_FORCES,
) = range(len(NAMES))  # fmt: skip


@intrinsic
def is_set(typingctx, word):
    """Whether a word has any bit; addresses are no normal numbers, which a comparison might take for 0."""

    def codegen(context, builder, signature, args):
        bits = builder.bitcast(args[0], ir.IntType(64))
        return builder.icmp_unsigned("!=", bits, ir.IntType(64)(0))

    return types.boolean(word), codegen


@inner
def code(ints, reals, which):
    """The word with the address of that part's unrolled code, or 0. It may come while another shape is stepped."""
    option = part(ints, ints, P.OPTION)
    if len(option) <= CODE or reals[option[CODE]] == 0.0:
        return 0.0
    return reals[option[CODE] + 1 + which]


@inner
def factorise(ints, reals, work):
    word = code(ints, reals, _FACTORISE)
    if is_set(word):
        bad = view(part(ints, work, P.DIAGNOSTIC), BAD_PIVOTS, BAD_PIVOTS + 1)
        call(word, (part(ints, work, P.FACTOR), bad))
    else:
        cholesky.factorise(ints, work)


@inner
def solve(ints, reals, work, b):
    word = code(ints, reals, _SOLVE)
    if is_set(word):
        call(word, (part(ints, work, P.FACTOR), b))
    else:
        cholesky.solve(ints, work, b)


@inner
def assemble(ints, reals, work, ck, cc):
    word = code(ints, reals, _ASSEMBLE)
    if is_set(word):
        K, C = part(ints, work, P.PORT_K), part(ints, work, P.PORT_C)
        jac_factor, L = part(ints, work, P.JAC_FACTOR), part(ints, work, P.FACTOR)
        call(word, (part(ints, work, P.JAC), K, C, number_in_memory(ck), number_in_memory(cc), reals, jac_factor, L))
    else:
        assembly.assemble(ints, reals, work, ck, cc)


@inner
def jacobian(ints, reals, work):
    word = code(ints, reals, _JACOBIAN)
    if is_set(word):
        v, trig, r = part(ints, work, P.V), part(ints, work, P.TRIG), part(ints, work, P.R)
        call(word, (v, trig, r, reals, part(ints, work, P.JAC)))
    else:
        constraints.jacobian(ints, reals, work)


@inner
def evaluate_positions(ints, reals, state, work, q, qd):
    """Forms and Phi at q within a step, where rates matter only to forces."""
    word, inputs = code(ints, reals, _POSITIONS), part(ints, state, P.INPUT)
    if is_set(word):
        v, r, trig = part(ints, work, P.V), part(ints, work, P.R), part(ints, work, P.TRIG)
        call(word, (q, inputs, reals, v, r, trig, part(ints, work, P.PHI)))
    else:
        phi = part(ints, work, P.PHI)
        constraints.evaluate_forms(ints, reals, work, q, inputs)
        constraints.positions(ints, reals, work, phi)
        assembly.mask(ints, reals, phi)
    if len(part(ints, ints, P.PORT_FORM)) > 0:
        evaluate_rates(ints, reals, work, qd, inputs)


@inner
def evaluate_rates(ints, reals, work, qd, inputs):
    word = code(ints, reals, _RATES)
    if is_set(word):
        call(word, (qd, inputs, part(ints, work, P.VU), reals, part(ints, work, P.VD)))
    else:
        constraints.evaluate_rates(ints, reals, work, qd, inputs)


@inner
def velocities(ints, reals, work, phid):
    word = code(ints, reals, _VELOCITIES)
    if is_set(word):
        v, vd, r = part(ints, work, P.V), part(ints, work, P.VD), part(ints, work, P.R)
        call(word, (v, vd, r, part(ints, work, P.TRIG), reals, part(ints, work, P.RD), phid))
    else:
        constraints.velocities(ints, reals, work, phid)


@inner
def velocity_terms(ints, reals, work, gamma):
    word = code(ints, reals, _VELOCITY_TERMS)
    if is_set(word):
        v, vd, vu = part(ints, work, P.V), part(ints, work, P.VD), part(ints, work, P.VU)
        r, rd, trig = part(ints, work, P.R), part(ints, work, P.RD), part(ints, work, P.TRIG)
        call(word, (v, vd, vu, r, rd, trig, reals, gamma))
    else:
        constraints.velocity_terms(ints, reals, work, gamma)


@inner
def times_jacobian(ints, reals, jac, x, out):
    word = code(ints, reals, _TIMES_JACOBIAN)
    if is_set(word):
        call(word, (jac, x, out))
    else:
        constraints.times_jacobian(ints, jac, x, out)


@inner
def add_transposed(ints, reals, jac, y, factor, out):
    word = code(ints, reals, _ADD_TRANSPOSED)
    if is_set(word):
        call(word, (jac, y, number_in_memory(factor), out))
    else:
        constraints.add_transposed(ints, jac, y, factor, out)


@inner
def add_mass_times(ints, reals, x, factor, out):
    word = code(ints, reals, _ADD_MASS_TIMES)
    if is_set(word):
        call(word, (x, number_in_memory(factor), out, reals))
    else:
        assembly.add_mass_times(ints, reals, x, factor, out)


@inner
def kinetic_energy(ints, reals, qd):
    word = code(ints, reals, _KINETIC_ENERGY)
    if is_set(word):
        energy = number_in_memory(0.0)
        call(word, (qd, reals, energy))
        return energy[0]
    return assembly.kinetic_energy(ints, reals, qd)


@inner
def forces(ints, reals, state, work, hook, t, h):
    """Q into FORCE, with the port stiffnesses; `look` came before. h is 0 where no step is being made."""
    elements.evaluate_elements(ints, reals, work, hook, t, h, part(ints, state, P.ELEMENT), part(ints, state, P.INPUT))
    word = code(ints, reals, _GENERALISED_FORCES)
    if is_set(word):
        call(word, (part(ints, work, P.PORT_FORCE), reals, part(ints, work, P.FORCE)))
    else:
        elements.generalised_forces(ints, reals, work)
