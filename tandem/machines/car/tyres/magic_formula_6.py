"""The Magic Formula of MF-Tyre 6.1 and 6.2: inflation pressure, more of inclination, the height of the wheel.

Pacejka, Tire and Vehicle Dynamics, 3rd edition, 4.3.2 and 4.3.3 and appendix 3; Besselink, Schmeitz, Pacejka, An
improved Magic Formula/Swift tyre model that can handle inflation pressure changes, Vehicle System Dynamics 48 (2010).
What MF 6.2 has more stands in the tyre's height and in the overturning moment. Axes, signs, the clipping of loads and
what a small friction of the road does are those of magic_formula.py, whose step in time this formula shares.

    dpi     relative departure from the nominal pressure; a pressure of 0 stands for the file's own
    mu      friction of the road: forces by slip are mu F(slip / mu), so that slip stiffness stays

Decisions
- Inclination counts as sin(gamma), but as gamma in the longitudinal peak and in rolling resistance, as published.
- The trail carries the side force of a wheel that stands upright and does not spin (4.E74).
- Rolling resistance goes with the nominal load and (Fz / Fz0)^QSY7, as in the paper; the book's equation (4.E70) has
  the load once more.
- LMUX and LMUY scale the vertical shifts by the degressive 10 l / (1 + 9 l) of the book (4.E8).
- Beside what magic_formula.py guards, no factor of pressure takes more than nine tenths of friction or stiffness, and
  the sine of the cornering stiffness stays above 0.001.
"""

from math import atan, copysign, cos, exp, log, sin, sqrt

from sync.compile.jit import inner
from tandem.machines.car.tyres import turn_slip
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.magic_formula import (
    LEAST_FACTOR,
    LEAST_FRICTION,
    LEAST_LOAD,
    LEAST_RELAXATION,
    MOST_FRICTION,
    MOST_LOAD,
    MOST_SLIP,
    MOST_SPEED,
    ROLLING,
    bend,
    clip,
    sign,
    weight,
)

_LEAST_SINE = 1e-3
_LEAST_PRESSED = 1e-12  # m
_LEAST_EFFECT = 0.1  # of speed and slip forces on stiffness


@inner
def _power(x, y):
    """x to the y, of a positive x: by functions that replays compare, not by `**`."""
    return exp(y * log(max(x, 1e-300)))


@inner
def departure(p, pressure):
    """dpi."""
    at = pressure if pressure > 0.0 else p[T.INFLPRES]
    return clip(at, p[T.LOW_PRESSURE], p[T.HIGH_PRESSURE]) / p[T.NOMPRES] - 1.0


@inner
def cornering_stiffness(p, f, df, s, dpi):
    """Ky < 0 at sin(gamma) = s."""
    Fz0 = p[T.NOMINAL_LOAD]
    at = (p[T.PKY2] + p[T.PKY5] * s * s) * max(1.0 + p[T.PPY2] * dpi, LEAST_FACTOR)
    curve = max(sin(p[T.PKY4] * atan(f / (Fz0 * max(at, LEAST_FACTOR * p[T.PKY2])))), _LEAST_SINE)
    K = p[T.PKY1] * Fz0 * max(1.0 + p[T.PPY1] * dpi, LEAST_FACTOR) * curve * p[T.LKY]
    return K * max(1.0 - p[T.PKY3] * abs(s), LEAST_FACTOR)


@inner
def side_friction(p, df, s, dpi):
    mu = (p[T.PDY1] + p[T.PDY2] * df) * max(1.0 + (p[T.PPY3] + p[T.PPY4] * dpi) * dpi, LEAST_FACTOR)
    return mu * max(1.0 - p[T.PDY3] * s * s, LEAST_FACTOR) * p[T.LMUY]


@inner
def peaks_6(p, f, g, dpi, mu):
    """Peak forces Dx, Dy and slip stiffnesses Kx > 0, Ky < 0 at a load f within the file's range and camber g."""
    df = f / p[T.NOMINAL_LOAD] - 1.0
    s = sin(g)
    Dx = f * (p[T.PDX1] + p[T.PDX2] * df) * max(1.0 + (p[T.PPX3] + p[T.PPX4] * dpi) * dpi, LEAST_FACTOR)
    Dx *= max(1.0 - p[T.PDX3] * g * g, LEAST_FACTOR) * p[T.LMUX] * mu
    Dy = f * side_friction(p, df, s, dpi) * mu
    Kx = f * (p[T.PKX1] + p[T.PKX2] * df) * exp(p[T.PKX3] * df) * p[T.LKX]
    Kx *= max(1.0 + (p[T.PPX1] + p[T.PPX2] * dpi) * dpi, LEAST_FACTOR)
    return Dx, Dy, Kx, cornering_stiffness(p, f, df, s, dpi)


@inner
def side_force(p, f, df, a, D, K, shift, lift, curvature):
    """Fy in pure slip, and the slip stiffness over C D."""
    C = p[T.PCY1] * p[T.LCY]
    B = K / (C * D)
    ay = a + shift
    E = (p[T.PEY1] + p[T.PEY2] * df) * curvature * p[T.LEY]
    return D * sin(C * atan(bend(B * ay, min(E, 1.0)))) + lift, B * C


# long: the formulae of the source, line by line
@inner
def evaluate_6(p, fz, kappa, ta, gamma, mu, side, u, turning, phi, dpi):
    """Fx, Fy, Mx, My, Mz, and the half axes Nx, Ny of the friction ellipse; phi is turn slip where `turning`."""
    if not fz > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    flip = side * p[T.MIRROR]
    f = clip(fz, p[T.LOW_LOAD], p[T.HIGH_LOAD])
    ratio = clip(fz, LEAST_LOAD, MOST_LOAD) / f
    mu = clip(mu, LEAST_FRICTION, MOST_FRICTION)
    a0 = clip(flip * ta, -MOST_SLIP, MOST_SLIP)
    k, a = clip(kappa, -MOST_SLIP, MOST_SLIP) / mu, a0 / mu
    g = clip(flip * gamma, p[T.CAMMIN], p[T.CAMMAX])
    u = clip(u, -MOST_SPEED, MOST_SPEED)
    Fz0, R0 = p[T.NOMINAL_LOAD], p[T.UNLOADED_RADIUS]
    df = f / Fz0 - 1.0
    s = sin(g)
    Dx, Dy, Kx, Ky = peaks_6(p, f, g, dpi, 1.0)
    less_x = 10.0 * p[T.LMUX] / (1.0 + 9.0 * p[T.LMUX])
    less_y = 10.0 * p[T.LMUY] / (1.0 + 9.0 * p[T.LMUY])
    x = clip(u / ROLLING, -1.0, 1.0)
    forward = x * (1.875 - x * x * (1.25 - 0.375 * x * x))  # exactly 1 from ROLLING on

    # inclination: a stiffness of its own, and a lift
    Kyg = f * (p[T.PKY6] + p[T.PKY7] * df) * max(1.0 + p[T.PPY5] * dpi, LEAST_FACTOR) * p[T.LKYC]
    by_camber = f * (p[T.PVY3] + p[T.PVY4] * df) * s * p[T.LKYC] * less_y

    # turn slip: of turning, and of leaning, which then is no camber
    z0 = z2 = z5 = z6 = 1.0
    spin = parking = 0.0
    of_slip = (p[T.PHY1] + p[T.PHY2] * df) * p[T.LHY]
    if turning:
        lean = turn_slip.camber_share(p, df) * s * clip(1.0 + k, 0.0, 2.0)
        by_turning = R0 * clip(flip * phi, -turn_slip.MOST_SPIN, turn_slip.MOST_SPIN)
        spin = by_turning + forward * lean
        parking = turn_slip.parking_moment(p, f, df, Dy / f)
        z0 = 0.0
        z1, z2, z3, z5, z6 = turn_slip.weakening(p, df, abs(spin), k, a)
        Ky0 = cornering_stiffness(p, f, df, 0.0, dpi)
        Dx, Dy, Ky = z1 * Dx, z2 * Dy, z3 * Ky
        by_camber *= z2
        SHy = of_slip - by_camber / Ky
        SHy += turn_slip.side_shift(p, df, forward * by_turning + abs(forward) * lean, Kyg, Ky0)
    else:
        z1 = 1.0
        SHy = of_slip + (Kyg * s - by_camber) / Ky

    # longitudinal, pure slip
    Cx = p[T.PCX1] * p[T.LCX]
    SVx = f * (p[T.PVX1] + p[T.PVX2] * df) * p[T.LVX] * less_x * z1
    kx = k + (p[T.PHX1] + p[T.PHX2] * df) * p[T.LHX]
    Ex = (p[T.PEX1] + (p[T.PEX2] + p[T.PEX3] * df) * df) * (1.0 - p[T.PEX4] * sign(kx)) * p[T.LEX]
    Fx = Dx * sin(Cx * atan(bend(Kx / (Cx * Dx) * kx, min(Ex, 1.0)))) + SVx

    # lateral, pure slip; and of a wheel that stands upright and does not spin
    lift = f * (p[T.PVY1] + p[T.PVY2] * df) * p[T.LVY] * less_y
    SVy = lift * z2 + by_camber
    curvature = 1.0 + p[T.PEY5] * s * s - (p[T.PEY3] + p[T.PEY4] * s) * sign(a + SHy)
    Fy, BC = side_force(p, f, df, a, Dy, Ky, SHy, SVy, curvature)
    upright, _ = side_force(
        p, f, df, a, f * side_friction(p, df, 0.0, dpi), cornering_stiffness(p, f, df, 0.0, dpi), of_slip, lift,
        1.0 - p[T.PEY3] * sign(a + of_slip),
    )  # fmt: skip

    # combined slip
    Bxa = (p[T.RBX1] + p[T.RBX3] * s * s) * p[T.LXAL] / sqrt(1.0 + (p[T.RBX2] * k) ** 2)
    Gxa = weight(Bxa, p[T.RCX1], min(p[T.REX1] + p[T.REX2] * df, 1.0), a, p[T.RHX1])
    across = p[T.LYKA] / sqrt(1.0 + (p[T.RBY2] * (a - p[T.RBY3])) ** 2)
    Eyk, SHyk = min(p[T.REY1] + p[T.REY2] * df, 1.0), p[T.RHY1] + p[T.RHY2] * df
    Gyk = weight((p[T.RBY1] + p[T.RBY4] * s * s) * across, p[T.RCY1], Eyk, k, SHyk)
    Gyk0 = weight(p[T.RBY1] * across, p[T.RCY1], Eyk, k, SHyk)
    limited = p[T.FRICTION_ELLIPSE] > 0.0
    if limited:
        Gxa, Gyk, Gyk0 = max(Gxa, 0.0), max(Gyk, 0.0), max(Gyk0, 0.0)
    DVyk = Dy * (p[T.RVY1] + p[T.RVY2] * df + p[T.RVY3] * s) / sqrt(1.0 + (p[T.RVY4] * a) ** 2)
    SVyk = DVyk * sin(p[T.RVY5] * atan(p[T.RVY6] * k)) * p[T.LVYKA]
    Fx, Fy = mu * Fx * Gxa, mu * (Fy * Gyk + SVyk)
    Nx, Ny = mu * (Dx + abs(SVx)), mu * (Dy + abs(SVy))
    over = (Fx / Nx) ** 2 + (Fy / Ny) ** 2
    if limited and over > 1.0:
        over = 1.0 / sqrt(over)
        Fx, Fy = over * Fx, over * Fy

    # aligning moment: trail and residual moment at equivalent slips, arm of Fx
    cos_a = 1.0 / sqrt(1.0 + a0 * a0)
    sharp = p[T.LKY] / p[T.LMUY]
    at = a + p[T.QHZ1] + p[T.QHZ2] * df + (p[T.QHZ3] + p[T.QHZ4] * df) * s
    ar = a + SHy + SVy / Ky
    kk = (Kx / Ky * k) ** 2
    Bt = (p[T.QBZ1] + (p[T.QBZ2] + p[T.QBZ3] * df) * df) * (1.0 + p[T.QBZ4] * s + p[T.QBZ5] * abs(s)) * sharp
    Bt = max(Bt, 0.0)
    Et = p[T.QEZ1] + (p[T.QEZ2] + p[T.QEZ3] * df) * df
    Et *= 1.0 + (p[T.QEZ4] + p[T.QEZ5] * s) * 0.6366197723675814 * atan(Bt * p[T.QCZ1] * at)  # 2 / pi
    Dt = f * R0 / Fz0 * (p[T.QDZ1] + p[T.QDZ2] * df) * (1.0 - p[T.PPZ1] * dpi) * p[T.LTR]
    Dt *= (1.0 + p[T.QDZ3] * abs(s) + p[T.QDZ4] * s * s) * z5
    t = Dt * cos(p[T.QCZ1] * atan(bend(Bt * copysign(sqrt(at * at + kk), at), min(Et, 1.0)))) * cos_a
    Br = (p[T.QBZ9] * sharp + p[T.QBZ10] * BC) * z6
    of_camber = (p[T.QDZ8] + p[T.QDZ9] * df) * (1.0 + p[T.PPZ2] * dpi) + (p[T.QDZ10] + p[T.QDZ11] * df) * abs(s)
    Dr = (p[T.QDZ6] + p[T.QDZ7] * df) * p[T.LRES] * z2 + of_camber * s * p[T.LGAZ] * z0
    Mr = f * R0 * Dr * p[T.LMUY] * cos_a
    Mturn = 0.0
    if turning:
        Mturn, z7 = turn_slip.moment(p, f, df, parking, spin, 1.0 + p[T.PPZ2] * dpi, Gyk)
        fall = cos(z7 * atan(Br * sqrt(ar * ar + kk)))
        Mr *= fall
        Mturn *= fall * cos_a
    else:
        Mr /= sqrt(1.0 + Br * Br * (ar * ar + kk))
    arm = (p[T.SSZ1] + p[T.SSZ2] * Fy / Fz0 + (p[T.SSZ3] + p[T.SSZ4] * df) * s) * R0 * p[T.LS]
    Mz = mu * (forward * (Mr - t * Gyk0 * upright) + Mturn) + arm * Fx

    # overturning
    n = f / Fz0
    Mx = p[T.QSX1] * p[T.LVMX] - p[T.QSX2] * g * (1.0 + p[T.PPMX1] * dpi) - p[T.QSX12] * g * abs(g)
    Mx += p[T.QSX3] * Fy / Fz0 + p[T.QSX10] * atan(p[T.QSX11] * n) * g
    by_side = sin(p[T.QSX7] * g + p[T.QSX8] * atan(p[T.QSX9] * Fy / Fz0))
    Mx += p[T.QSX4] * cos(p[T.QSX5] * atan((p[T.QSX6] * n) ** 2)) * by_side
    Mx = R0 * p[T.LMX] * (f * Mx + Fy * (p[T.QSX13] + p[T.QSX14] * abs(g)))

    # rolling
    v = abs(u) / p[T.LONGVL]
    roll = p[T.QSY1] + p[T.QSY3] * v + p[T.QSY4] * (v * v) * (v * v) + (p[T.QSY5] + p[T.QSY6] * n) * g * g
    My = (
        -R0
        * Fz0
        * (forward * roll + p[T.QSY2] * Fx / Fz0)
        * _power(n, p[T.QSY7])
        * _power(1.0 + dpi, p[T.QSY8])
        * p[T.LMY]
    )

    mirrored = ratio * flip
    return ratio * Fx, mirrored * Fy, mirrored * Mx, ratio * My, mirrored * Mz, ratio * Nx, ratio * Ny


@inner
def relaxation_6(p, f, g, dpi):
    """Relaxation lengths at a load f within the file's range: slip stiffness over that of the carcass; without one in
    the file, as MF 5.2 has them."""
    Fz0, R0 = p[T.NOMINAL_LOAD], p[T.UNLOADED_RADIUS]
    df = f / Fz0 - 1.0
    _, _, Kx, Ky = peaks_6(p, f, g, dpi, 1.0)
    Cx = p[T.LONGITUDINAL_STIFFNESS] * max(1.0 + (p[T.PCFX1] + p[T.PCFX2] * df) * df, LEAST_FACTOR)
    Cy = p[T.LATERAL_STIFFNESS] * max(1.0 + (p[T.PCFY1] + p[T.PCFY2] * df) * df, LEAST_FACTOR)
    if Cx > 0.0:
        sx = Kx / (Cx * max(1.0 + p[T.PCFX3] * dpi, LEAST_FACTOR))
    else:
        sx = (p[T.PTX1] + p[T.PTX2] * df) * exp(p[T.PTX3] * df) * f / Fz0 * R0
    if Cy > 0.0:
        sy = -Ky / (Cy * max(1.0 + p[T.PCFY3] * dpi, LEAST_FACTOR))
    else:
        r = f / (p[T.PTY2] * Fz0)
        sy = p[T.PTY1] * (2.0 * r / (1.0 + r * r)) * R0 * p[T.LFZO]
    least = LEAST_RELAXATION * R0
    return max(sx * p[T.LSGKP], least), max(sy * p[T.LSGAL], least)


@inner
def free_radius(p, omega):
    """Of the tyre that spins, and is thrown outwards."""
    R0 = p[T.UNLOADED_RADIUS]
    turns = omega * R0 / p[T.LONGVL]
    return R0 * (p[T.Q_RE0] + p[T.Q_V1] * turns * turns)


@inner
def rolling_radius_6(p, load, omega, dpi):
    """Rolling radius r_e = v_x / omega of the free wheel under a load."""
    n = max(load, 0.0) / p[T.FNOMIN]
    give = p[T.FNOMIN] / (p[T.VERTICAL_STIFFNESS] * max(1.0 + p[T.PFZ1] * dpi, LEAST_FACTOR))
    R = free_radius(p, omega)
    return clip(R - give * (p[T.DREFF] * atan(p[T.BREFF] * n) + p[T.FREFF] * n), 0.5 * R, R)


@inner
def pressed(p, depth, omega, dpi):
    """Load of a tyre that is pressed so deep, its stiffness and the energy in it; without what slip does to them."""
    R0 = p[T.UNLOADED_RADIUS]
    scale = 1.0 + p[T.Q_V2] * abs(omega) * R0 / p[T.LONGVL]
    scale *= max(1.0 + p[T.PFZ1] * dpi, LEAST_FACTOR) * p[T.FNOMIN]
    d = max(depth, 0.0) / R0
    load = scale * d * (p[T.Q_FZ1] + p[T.Q_FZ2] * d)
    stiffness = scale / R0 * (p[T.Q_FZ1] + 2.0 * p[T.Q_FZ2] * d)
    return load, stiffness, scale * R0 * d * d * (0.5 * p[T.Q_FZ1] + p[T.Q_FZ2] * d / 3.0)


@inner
def normal_load(p, radius, omega, gamma, Fx, Fy, dpi):
    """Fz of a wheel whose centre is at this loaded radius: with speed, pressure, slip forces and inclination."""
    R0, Fz0, R = p[T.UNLOADED_RADIUS], p[T.FNOMIN], free_radius(p, omega)
    depth = max(R - radius, 0.0)
    along = (p[T.Q_FCX] * Fx / Fz0) ** 2
    stiff = p[T.Q_FZ1]
    if p[T.VERSION] > 61.5:
        share = radius / R
        tread = (1.075 - 0.5 * p[T.ASPECT_RATIO]) * p[T.WIDTH]
        inner_ = p[T.Q_CAM1] * radius + p[T.Q_CAM2] * radius * radius
        outer = p[T.Q_CAM1] * R + p[T.Q_CAM2] * R * R
        if outer != 0.0:
            lean = abs(sin(gamma) / cos(gamma))
            depth += (inner_ / outer) ** 2 * tread / 8.0 * lean - p[T.Q_CAM3] * depth * abs(gamma)
        depth = max(depth, _LEAST_PRESSED)
        skew = (p[T.Q_FYS1] + p[T.Q_FYS2] * share + p[T.Q_FYS3] * share * share) * gamma
        aside = (_power(depth / R0, p[T.Q_FCY2]) * p[T.Q_FCY] * (Fy - skew) / Fz0) ** 2
    else:
        stiff += p[T.Q_FZ3] * gamma * gamma
        aside = (p[T.Q_FCY] * Fy / Fz0) ** 2
    effect = 1.0 + p[T.Q_V2] * abs(omega) * R0 / p[T.LONGVL] - along - aside
    d = depth / R0
    return max(effect, _LEAST_EFFECT) * (1.0 + p[T.PFZ1] * dpi) * (stiff + p[T.Q_FZ2] * d) * d * Fz0
