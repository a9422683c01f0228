"""Turn slip: what a tyre does that is turned about the normal of the road, down to the moment of parking.

The factors zeta of Pacejka (Tire and Vehicle Dynamics, 4.3.3; PAC2002 in modes 5, 15, 25), on the formula of
magic_formula.py. Without turn slip all of them are 1, and the formula is the published one to the bit.

    phi     spin of the patch over its speed, 1/m: psi' / |V| of the turning wheel, and of one that leans
            (1 - eps) sin(gamma) / R0; positive turns to the left, as a positive gamma acts
    M_inf   moment of a tyre that is turned on the spot: QCRP1 mu_y R0 Fz sqrt(Fz / Fz0). It goes with Fz^1.5, as does
            mu Fz^1.5 / (3 sqrt(p)), Gough's for an inflation pressure p; for QCRP1 = sqrt(Fz0 / p) / (3 R0) they agree

Decisions
- Where the book divides by V_x of either sign, the side force has the sign of rolling and the moment has none: it
  always resists turning. On the spot the side force of spin is 0 and the moment all of M_inf.
- Spin from camber counts with R0 in place of r_e: camber stiffness is then the same with turn slip and without.
- The moment at 90 degrees of slip may not exceed that at 0 (else the arccosine has no value); a file whose residual
  moment does not resist spin (QDZ8 >= 0) is refused where it asks for turn slip, and gets the slope M_inf R0 where the
  car does.
"""

from math import atan, atan2, pi, sin, sqrt

from sync.compile.jit import inner
from tandem.machines.car.tyres.keys import T

MOST_SPIN = 1e4  # 1/m
RELAXATION = 0.1  # of the radius: the way over which the moment builds up, half of half the patch; an estimate
STANDING = 10.0  # slip of a patch that is turned on the spot, as a multiple of M_inf / slope: 0.995 of M_inf


@inner
def cos_atan(x):
    return 1.0 / sqrt(1.0 + x * x)


@inner
def camber_share(p, df):
    """1 - eps: how much spin from leaning counts against spin from turning."""
    return max(1.0 - p[T.PECP1] * (1.0 + p[T.PECP2] * df), 0.05)


@inner
def parking_moment(p, f, df, muy):
    """M_inf."""
    return p[T.QCRP1] * muy * p[T.UNLOADED_RADIUS] * f * sqrt(f / p[T.NOMINAL_LOAD]) * p[T.LMP]


@inner
def spin_stiffness(p, f, df, most, mu):
    """Residual moment per R0 phi, < 0; `most`: M_inf."""
    K = f * p[T.UNLOADED_RADIUS] * (p[T.QDZ8] + p[T.QDZ9] * df) * p[T.LGAZ] * p[T.LMUY] * mu / camber_share(p, df)
    return min(K, -1e-6 * most) if K < 0.0 else -most


@inner
def weakening(p, df, spin, k, a):
    """zeta1, zeta2, zeta3, zeta5, zeta6: what spin R0 |phi| leaves of peaks, side stiffness, trail and B_r."""
    Bx = p[T.PDXP1] * (1.0 + p[T.PDXP2] * df) * cos_atan(p[T.PDXP3] * k)
    By = p[T.PDYP1] * (1.0 + p[T.PDYP2] * df) * cos_atan(p[T.PDYP3] * a)
    z2 = cos_atan(By * (spin + p[T.PDYP4] * sqrt(spin)))
    return (
        cos_atan(Bx * spin),
        z2,
        cos_atan(p[T.PKYP1] * spin * spin),
        cos_atan(p[T.QDTP1] * spin),
        cos_atan(p[T.QBRP1] * spin),
    )


@inner
def side_shift(p, df, spin, Kyg, Ky0):
    """S_Hy of spin R0 phi; Kyg: side force per camber, Ky0: per slip."""
    C, D, E = p[T.PHYP1], p[T.PHYP2] + p[T.PHYP3] * df, p[T.PHYP4]
    B = Kyg / (camber_share(p, df) * C * D * Ky0)
    x = B * spin
    return D * sin(C * atan(x - E * (x - atan(x))))


@inner
def moment(p, f, df, most, spin, mu, Gyk):
    """D_r of spin R0 phi, and zeta7."""
    C = p[T.QDRP1]
    D = most / sin(0.5 * pi * C)
    M = D * sin(C * atan(spin_stiffness(p, f, df, most, mu) * spin / (C * D)))
    across = most * 2.0 / pi * atan(p[T.QCRP2] * abs(spin)) * Gyk
    share = min(max(across / abs(M) if M != 0.0 else 0.0, 0.0), 1.0)
    return M, 2.0 / pi * atan2(sqrt((1.0 - share) * (1.0 + share)), share)  # the arccosine, portably
