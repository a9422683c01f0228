"""A step, and the same again in two halves (halving.py), as the step of a system.

Within a step forces see velocities before they are projected onto the constraints. Where forces depend on velocity, the
accelerations that a step leaves are off by that, to second order, and a step that begins with them is not the same rule
as one that begins with exact ones: the extrapolation would be of second order. So `halved_step` solves for the
accelerations after the first half and at the end.
"""

from sync.compile.jit import inner, kernel
from tandem.multibody.natural.assembly import evaluate_kinematics
from tandem.multibody.natural.augmented import STEP, applied_power
from tandem.multibody.natural.constraints import jacobian
from tandem.multibody.natural.evaluation import solve_accelerations
from tandem.multibody.natural.halving import other_half, whole_and_half
from tandem.multibody.natural.tables import P
from tandem.multibody.natural.unrolled import forces
from tandem.multibody.natural.views import part, view


@inner
def solve_again(ints, reals, state, work, hook):
    """Accelerations and multipliers of the velocities as they are, where forces may depend on them."""
    qd = part(ints, state, P.QD)
    if len(part(ints, ints, P.PORT_FORM)) == 0 or len(part(ints, state, P.ALPHA)) > 0:
        return
    evaluate_kinematics(ints, reals, state, work, part(ints, state, P.Q), qd)
    forces(ints, reals, state, work, hook, part(ints, state, P.TIME)[0], 0.0)
    jacobian(ints, reals, work)
    solve_accelerations(ints, reals, state, work, 0.0, 0.0)
    part(ints, state, P.POWER)[0] = applied_power(ints, reals, state, work, qd)


@kernel(STEP, error_model="numpy")
def halved_step(ints, reals, state, work, hook, h):
    """`halve`, with whatever the hook is given constant in the step, and accelerations that fit the velocities."""
    nothing = view(work, 0, 0)
    sums = whole_and_half(ints, reals, state, work, hook, h, nothing, nothing, 0)
    solve_again(ints, reals, state, work, hook)
    if other_half(ints, reals, state, work, hook, h, nothing, 0, sums):
        solve_again(ints, reals, state, work, hook)
