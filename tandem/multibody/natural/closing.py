"""A state whose equations have changed, brought onto them: positions, velocities, accelerations.

Each by the least change in the metric of the mass, with M + Phi_q^T W Phi_q as in a step; what is left of a violation
after a pass is divided by the penalty.
"""

from sync.compile.jit import inner
from tandem.multibody.natural.assembly import assemble, evaluate_kinematics, largest
from tandem.multibody.natural.augmented import project_accelerations, project_velocities
from tandem.multibody.natural.cholesky import factorise, solve
from tandem.multibody.natural.constraints import add_transposed, jacobian
from tandem.multibody.natural.tables import P
from tandem.multibody.natural.views import part

PASSES = 20
CLOSED = 1e-13  # m; rates and accelerations likewise


@inner
def close(ints, reals, state, work):
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    phi, weight = part(ints, work, P.PHI), part(ints, reals, P.WEIGHT)
    rhs, y = part(ints, work, P.RHS), part(ints, work, P.RESIDUAL)
    last = 1e300
    for _ in range(PASSES):
        evaluate_kinematics(ints, reals, state, work, q, qd)
        jacobian(ints, reals, work)
        assemble(ints, reals, work, 0.0, 0.0)
        factorise(ints, work)
        size = largest(phi)
        if size <= CLOSED or not size < last:
            break
        last = size
        for k in range(len(y)):
            y[k] = weight[k] * phi[k]
        for i in range(len(rhs)):
            rhs[i] = 0.0
        add_transposed(ints, part(ints, work, P.JAC_FACTOR), y, 1.0, rhs)
        solve(ints, work, rhs)
        for i in range(len(q)):
            q[i] -= rhs[i]
    project_velocities(ints, reals, state, work, qd, PASSES, CLOSED)
    project_accelerations(ints, reals, state, work, qdd, PASSES, CLOSED)


@inner
def evaluate_ports(ints, reals, state, work):
    """Ports and their rates at a state, where forces and outputs find them."""
    evaluate_kinematics(ints, reals, state, work, part(ints, state, P.Q), part(ints, state, P.QD))
    form, v, vd = part(ints, ints, P.PORT_FORM), part(ints, work, P.V), part(ints, work, P.VD)
    x, xd = part(ints, work, P.X), part(ints, work, P.XD)
    for i in range(len(form)):
        x[i], xd[i] = v[form[i]], vd[form[i]]
