"""Steady-state forces and moments of a tyre: the Magic Formula of PAC2002 and MF-Tyre 5.2.

Promises
- `evaluate` gives finite numbers for any finite input: load, slips, camber, friction, forwards and backwards.
- No load, no force. Coefficients are those of a load within the file's range; outside it, forces and moments are
  proportional to the load, so they fall to zero with it.
- A tyre of the right side is the mirror image of one of the left to the last bit.
- At mu = 1, within the file's loads and camber angles, it is the published formula, pure and combined, and nothing
  else. A file may ask for a limit: `FRICTION_ELLIPSE` in its section [TANDEM].

Axes are ISO 8855 in the contact point: x forward in the wheel plane and in the road, y left in the road, z up along
the road's normal. Forces and moments are those of the road on the tyre.

    kappa   -v_sx / |v_x|, v_sx = v_x - r_e omega: positive drives, -1 is a locked wheel
    ta      tan(alpha) = v_y / |v_x|: positive if the contact point moves to the left; gives F_y < 0, M_z > 0
    gamma   turn of the wheel about +x: positive with its top to the right; gives a force to the right
    M_z     positive turns the wheel to the left: the aligning moment of positive alpha
    M_x     positive turns the top of the wheel to the right
    M_y     negative for a wheel that rolls forwards: rolling resistance
    u       r_e omega, the speed of rolling; M_y and the trail turn round with it, within `ROLLING` of 0
    mu      friction of the road, 1 being that on which the tyre was measured
    side    +1 for a wheel on the left of the car, -1 on the right

Decisions
- Where the formulas say alpha, tan(alpha) is used, as in Pacejka's book. PAC2002's manual uses the angle; the two
  differ by 1 % at 10 degrees. With the tangent a wheel that slides in any direction, locked, spinning or broadside,
  has a friction force that opposes its sliding; with the angle, the weighting functions lose it at great slips.
- `mu` scales the peaks (as LMUX and LMUY do) and leaves slip stiffness alone; so slips count by slip / mu. The
  weighting functions of combined slip and the trail count by slip / mu too: a slippery road is then similar to a dry
  one at a smaller scale, and combined slip cannot give more than the friction it has.
- The published weighting functions may turn a force round at great slips (C > 1) and may leave the ellipse of the peak
  forces (with their vertical shifts): so be it, the coefficients were fitted to that. With FRICTION_ELLIPSE = 1 they
  stop at 0, and the force at the ellipse.
- Turn slip (turn_slip.py) is for files and cars that ask for it.
- r_e is the radius of slip, but a force in the contact point has the loaded radius for its arm. Whoever applies these
  forces to a wheel owes it the moment -(r_e - r_l) F_x about its axle (forces.py), or power is made of nothing.

Symbols are those of the publications: D peak, C shape, E curvature, K slip stiffness, S_H and S_V shifts, G weighting
of combined slip, t pneumatic trail, M_r residual moment, df relative departure from the nominal load.
"""

from math import atan, copysign, cos, exp, sin, sqrt

from sync.compile.jit import inner
from tandem.machines.car.tyres import turn_slip
from tandem.machines.car.tyres.keys import T

OPTIONS = {"error_model": "numpy"}  # a division by zero is no exception

ROLLING = 0.2  # m/s; slower, rolling resistance and trail fade out
LEAST_FRICTION, MOST_FRICTION = 1e-3, 10.0  # of a road; keeps 0 / 0 away
LEAST_LOAD, MOST_LOAD = 1e-200, 1e9  # N; of the least one, forces over half axes are still numbers
MOST_SLIP = 1e4
MOST_SPEED = 1e3  # m/s
LEAST_FACTOR = 0.1  # what camber leaves of friction and stiffness
LEAST_RELAXATION = 0.1  # of the radius: what a file without relaxation lengths gets, so that the tyre can stand


@inner
def clip(value, low, high):
    return min(max(value, low), high)


@inner
def sign(value):
    return 1.0 if value > 0.0 else (-1.0 if value < 0.0 else 0.0)


@inner
def bend(x, E):
    """Argument of the last arctangent of the formula."""
    return x - E * (x - atan(x))


@inner
def weight(B, C, E, x, S):
    """G of combined slip: 1 at x = 0, with shift S."""
    G = cos(C * atan(bend(B * (x + S), E)))
    if S != 0.0:
        G /= max(cos(C * atan(bend(B * S, E))), 0.1)
    return G


@inner
def peaks(p, f, g, mu):
    """Peak forces Dx, Dy and slip stiffnesses Kx > 0, Ky < 0 at a load f within the file's range and camber g; for any
    kind of number (multibody/relative/dual.py)."""
    Fz0 = p[T.NOMINAL_LOAD]
    df = f / Fz0 - 1.0
    gx, gy = g * p[T.LGAX], g * p[T.LGAY]
    Dx = f * (p[T.PDX1] + p[T.PDX2] * df) * max(1.0 - p[T.PDX3] * gx * gx, LEAST_FACTOR) * p[T.LMUX] * mu
    Dy = f * (p[T.PDY1] + p[T.PDY2] * df) * max(1.0 - p[T.PDY3] * gy * gy, LEAST_FACTOR) * p[T.LMUY] * mu
    Kx = f * (p[T.PKX1] + p[T.PKX2] * df) * exp(p[T.PKX3] * df) * p[T.LKX]
    r = f / (p[T.PKY2] * Fz0)
    Ky = p[T.PKY1] * Fz0 * (2.0 * r / (1.0 + r * r)) * p[T.LKY]  # sin(2 atan(r))
    return Dx, Dy, Kx, Ky * max(1.0 - p[T.PKY3] * abs(gy), LEAST_FACTOR)


@inner
def relaxation(p, f, g):
    """Relaxation lengths at a load f within the file's range and camber g."""
    df = f / p[T.NOMINAL_LOAD] - 1.0
    R0 = p[T.UNLOADED_RADIUS]
    r = f / (p[T.PTY2] * p[T.NOMINAL_LOAD])
    sx = (p[T.PTX1] + p[T.PTX2] * df) * exp(p[T.PTX3] * df) * f / p[T.NOMINAL_LOAD] * R0 * p[T.LSGKP]
    sy = p[T.PTY1] * (2.0 * r / (1.0 + r * r)) * R0 * p[T.LFZO] * p[T.LSGAL]  # sin(2 atan(r))
    sy *= 1.0 - p[T.PKY3] * abs(g * p[T.LGAY])
    least = LEAST_RELAXATION * R0
    return max(sx, least), max(sy, least)


# long: the formulae of the source, line by line
@inner
def evaluate(p, fz, kappa, ta, gamma, mu, side, u, turning, phi):
    """Fx, Fy, Mx, My, Mz, and the half axes Nx, Ny of the friction ellipse; phi is turn slip where `turning`."""
    if not fz > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    # the tyre as it was measured: on its own side, within its loads and camber angles
    flip = side * p[T.MIRROR]
    f = clip(fz, p[T.LOW_LOAD], p[T.HIGH_LOAD])
    ratio = clip(fz, LEAST_LOAD, MOST_LOAD) / f
    k = clip(kappa, -MOST_SLIP, MOST_SLIP)
    a = clip(flip * ta, -MOST_SLIP, MOST_SLIP)
    g = clip(flip * gamma, p[T.CAMMIN], p[T.CAMMAX])
    u = clip(u, -MOST_SPEED, MOST_SPEED)
    mu = clip(mu, LEAST_FRICTION, MOST_FRICTION)
    Fz0, R0 = p[T.NOMINAL_LOAD], p[T.UNLOADED_RADIUS]
    df = f / Fz0 - 1.0
    gy, gz = g * p[T.LGAY], g * p[T.LGAZ]
    Dx, Dy, Kx, Ky = peaks(p, f, g, mu)
    x = clip(u / ROLLING, -1.0, 1.0)
    forward = x * (1.875 - x * x * (1.25 - 0.375 * x * x))  # exactly 1 from ROLLING on

    # turn slip: of turning, and of leaning, which then is no camber
    z0 = z2 = z5 = z6 = 1.0
    spin = shift = parking = 0.0
    if turning:
        lean = turn_slip.camber_share(p, df) * sin(g) * clip(1.0 + k, 0.0, 2.0)
        by_turning = R0 * clip(flip * phi, -turn_slip.MOST_SPIN, turn_slip.MOST_SPIN)
        spin = by_turning + forward * lean
        parking = turn_slip.parking_moment(p, f, df, Dy / f)
        z0 = 0.0
        z1, z2, z3, z5, z6 = turn_slip.weakening(p, df, abs(spin), k, a)
        Ky0 = peaks(p, f, 0.0, mu)[3]
        by_camber = f * (p[T.PVY3] + p[T.PVY4] * df) * p[T.LGAY] * p[T.LMUY] * mu
        Kyg = p[T.PHY3] * p[T.LGAY] * Ky0 + by_camber
        Dx, Dy, Ky = z1 * Dx, z2 * Dy, z3 * Ky
        shift = turn_slip.side_shift(p, df, forward * by_turning + abs(forward) * lean, Kyg, Ky0)
        shift -= by_camber * g * z2 / Ky

    # longitudinal, pure slip
    Cx = p[T.PCX1] * p[T.LCX]
    SHx = (p[T.PHX1] + p[T.PHX2] * df) * p[T.LHX]
    SVx = f * (p[T.PVX1] + p[T.PVX2] * df) * p[T.LVX] * p[T.LMUX] * mu
    kx = k + SHx
    Ex = (p[T.PEX1] + (p[T.PEX2] + p[T.PEX3] * df) * df) * (1.0 - p[T.PEX4] * sign(kx)) * p[T.LEX]
    Fx = Dx * sin(Cx * atan(bend(Kx / (Cx * Dx) * kx, min(Ex, 1.0)))) + SVx

    # lateral, pure slip
    Cy = p[T.PCY1] * p[T.LCY]
    SHy = (p[T.PHY1] + p[T.PHY2] * df) * p[T.LHY] + p[T.PHY3] * gy * z0 + shift
    SVy = (p[T.PVY1] + p[T.PVY2] * df) * p[T.LVY] + (p[T.PVY3] + p[T.PVY4] * df) * gy
    SVy *= f * p[T.LMUY] * mu * z2
    ay = a + SHy
    Ey = (p[T.PEY1] + p[T.PEY2] * df) * (1.0 - (p[T.PEY3] + p[T.PEY4] * gy) * sign(ay)) * p[T.LEY]
    By = Ky / (Cy * Dy)
    Fy = Dy * sin(Cy * atan(bend(By * ay, min(Ey, 1.0)))) + SVy

    # combined slip: slips count by slip / mu
    km, am = k / mu, a / mu
    Bxa = p[T.RBX1] * p[T.LXAL] / sqrt(1.0 + (p[T.RBX2] * km) ** 2)  # cos(atan(x)) = 1 / sqrt(1 + x^2)
    Gxa = weight(Bxa, p[T.RCX1], min(p[T.REX1] + p[T.REX2] * df, 1.0), am, p[T.RHX1])
    Byk = p[T.RBY1] * p[T.LYKA] / sqrt(1.0 + (p[T.RBY2] * (am - p[T.RBY3])) ** 2)
    Gyk = weight(Byk, p[T.RCY1], min(p[T.REY1] + p[T.REY2] * df, 1.0), km, p[T.RHY1] + p[T.RHY2] * df)
    limited = p[T.FRICTION_ELLIPSE] > 0.0
    if limited:
        Gxa, Gyk = max(Gxa, 0.0), max(Gyk, 0.0)
    Fx *= Gxa
    DVyk = Dy * (p[T.RVY1] + p[T.RVY2] * df + p[T.RVY3] * g) / sqrt(1.0 + (p[T.RVY4] * am) ** 2)
    SVyk = DVyk * sin(p[T.RVY5] * atan(p[T.RVY6] * km)) * p[T.LVYKA]
    Fy = Fy * Gyk + SVyk

    # inside the ellipse, where the file asks for it
    Nx, Ny = Dx + abs(SVx), Dy + abs(SVy)
    over = (Fx / Nx) ** 2 + (Fy / Ny) ** 2
    if limited and over > 1.0:
        over = 1.0 / sqrt(over)
        Fx *= over
        Fy *= over
        SVyk *= over

    # aligning moment: trail and residual moment at equivalent slips, arm of Fx
    cos_a = 1.0 / sqrt(1.0 + a * a)
    sharp = p[T.LKY] / (p[T.LMUY] * mu)
    at = a + p[T.QHZ1] + p[T.QHZ2] * df + (p[T.QHZ3] + p[T.QHZ4] * df) * gz
    ar = a + SHy + SVy / Ky
    kk = (Kx / Ky * k) ** 2
    Bt = (p[T.QBZ1] + (p[T.QBZ2] + p[T.QBZ3] * df) * df) * (1.0 + p[T.QBZ4] * gz + p[T.QBZ5] * abs(gz)) * sharp
    Bt = max(Bt, 0.0)
    Et = p[T.QEZ1] + (p[T.QEZ2] + p[T.QEZ3] * df) * df
    Et *= 1.0 + (p[T.QEZ4] + p[T.QEZ5] * gz) * 0.6366197723675814 * atan(Bt * p[T.QCZ1] * at)  # 2 / pi
    Dt = f * (p[T.QDZ1] + p[T.QDZ2] * df) * (1.0 + (p[T.QDZ3] + p[T.QDZ4] * gz) * gz) * R0 / Fz0 * p[T.LTR] * z5
    t = Dt * cos(p[T.QCZ1] * atan(bend(Bt * copysign(sqrt(at * at + kk), at), min(Et, 1.0)))) * cos_a
    Br = (p[T.QBZ9] * sharp + p[T.QBZ10] * By * Cy) * z6
    Dr = (p[T.QDZ6] + p[T.QDZ7] * df) * p[T.LRES] * z2 + (p[T.QDZ8] + p[T.QDZ9] * df) * gz * z0
    Mturn = 0.0
    if turning:
        Mturn, z7 = turn_slip.moment(p, f, df, parking, spin, mu, Gyk)
        fall = cos(z7 * atan(Br * sqrt(ar * ar + kk))) * cos_a
        Mr = f * R0 * Dr * p[T.LMUY] * mu * fall
        Mturn *= fall
    else:
        Mr = f * R0 * Dr * p[T.LMUY] * mu / sqrt(1.0 + Br * Br * (ar * ar + kk)) * cos_a
    s = (p[T.SSZ1] + p[T.SSZ2] * Fy / Fz0 + (p[T.SSZ3] + p[T.SSZ4] * df) * g) * R0 * p[T.LS]
    Mz = forward * (Mr - t * (Fy - SVyk)) + s * Fx + Mturn

    Mx = R0 * f * (p[T.QSX1] * p[T.LVMX] - p[T.QSX2] * g + p[T.QSX3] * Fy / Fz0) * p[T.LMX]
    v = abs(u) / p[T.LONGVL]
    roll = p[T.QSY1] + p[T.QSY3] * v + p[T.QSY4] * (v * v) * (v * v)
    My = -R0 * f * (forward * roll + p[T.QSY2] * Fx / Fz0) * p[T.LMY]  # drive pulls on the same arm both ways

    mirrored = ratio * flip
    return ratio * Fx, mirrored * Fy, mirrored * Mx, ratio * My, mirrored * Mz, ratio * Nx, ratio * Ny


@inner
def rolling_radius(p, deflection):
    """Rolling radius r_e = v_x / omega of the free wheel at a vertical deflection."""
    nominal = p[T.FNOMIN] / p[T.VERTICAL_STIFFNESS]
    d = max(deflection, 0.0) / nominal
    R0 = p[T.UNLOADED_RADIUS]
    return clip(R0 - nominal * (p[T.DREFF] * atan(p[T.BREFF] * d) + p[T.FREFF] * d), 0.5 * R0, R0)
