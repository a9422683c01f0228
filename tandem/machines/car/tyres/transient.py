"""A tyre in time: slip that builds up over the relaxation length, and a tyre that stands, rocks and slides.

Promises
- One law from standstill to any speed, forwards and backwards, for a rolling, locked or spinning wheel.
- In steady rolling the forces are those of `steady.steady`.
- A standing tyre is a damped spring with friction: it holds without creep below the friction limit, whatever shakes
  it.
- Damping of the standing tyre never takes the force out of the friction ellipse, or farther out of it than the formula
  goes by itself; without drive the tyre only dissipates on the whole
  (a measured tyre, whose curves do not pass through zero, but for the size of those shifts).
- The error is of second order in the step, in the velocities, loads and friction that change during it; no step is
  too long for it to stay stable.
- `tyre` draws on nothing but its arguments, so a Newton iteration may call it as often as it likes.

The contact patch hangs on the rim by the tyre's own compliance. Its deflection e (patch ahead, patch left) follows

    de/dt = -v_s - V s(e),        s = m e / sigma,     m = 1 / sqrt(1 - |e_n|^2),     e_n = e / (sigma D / K)

v_s is the slip velocity of the rim, s the slip the patch has by itself: kappa = s_x, tan(alpha) = -s_y go into the
Magic Formula. V = |v_x| is the speed at which tread runs through the patch, sigma the relaxation lengths, K the slip
stiffnesses, D the peak forces; components x and y have their own. In steady rolling s = -v_s / V; at small slip it
follows over the length sigma; at V = 0 the tyre is a spring of stiffness K / sigma.

Decisions
- m makes e saturate as the force does: with s_n = K s / D, |e_n| = |s_n| / sqrt(1 + |s_n|^2), which is about F / D.
  So the deflection is about the force over the stiffness of the spring (Pacejka's fully nonlinear form), relaxation
  shortens as slip grows, and a wheel that slid to a stop springs back by millimetres, not by sigma times its slip.
  The curve stands in for the Magic Formula's, which need not be invertible; the forces are always the latter's.
- The state is e and not s: a change of load leaves the deflection alone, as in PAC2002's own transient model, and a
  standing tyre whose patch holds returns to the same force when the rim returns to the same place.
- V = min(|v_x|, 10 |r_e omega|): a locked wheel transports no tread, so a braked car that is shaken does not creep.
  Down to kappa = -0.9 nothing changes; beyond, the next rule gives the right slip.
- |s_n| stays below max(slip of the peak, |v_sn| / max(|v_x|, V_LOW)). Where it would not, the patch slides: a speed W
  > V takes the place of V, as much as it takes, which is plastic flow against the slip. So sliding at standstill has
  friction against the direction of sliding, s cannot wind up, and a wheel locked at speed has the slip it should
  have.
- Damping acts on de/dt and is for the standing tyre: it fades with speed, where the road damps and it would only
  spoil the relaxation; in steady rolling and in steady sliding de/dt = 0 and it does nothing.
- The step is e1 = (e0 + h/2 (b0 + b1 (1 + x))) / (1 + x + x^2 / 2), b = -v_s, x = h times the mean of V m / sigma:
  the rule of second order that is exact for a spring (x = 0, the trapezoidal rule, so the deflection is the way the
  rim went) and gives the steady slip of the end for x to infinity. The mean leans towards the end as x grows. m at
  the end follows from one scalar equation, w - 1 + |e_n(w)|^2 = 0 with w = 1 / m^2, which is straight in both limits.

With turn slip the patch is also twisted against the rim, by the angle d about the road's normal,

    dd/dt = psi' - V phi(d),     phi = m d / sigma_t,     m = 1 / sqrt(1 - d_n^2),     d_n = d |K| / (sigma_t M_inf)

psi' is the rate at which the wheel turns, phi the turn slip that goes into the formula, K its moment per phi, M_inf the
moment of turning on the spot (turn_slip.py). With QDRP1 = 1 the standing tyre is so a torsion spring |K| / sigma_t that
gives way at M_inf. A wheel that slides over the road without rolling turns as easily as one that rolls so fast.

The states are e, and v_s and V m / sigma of the last instant, which the step needs from its beginning; of the twist the
same three.
"""

from math import atan, sqrt

from numba import boolean, float64, int64, void

from sim_service.contract.machine import places
from sync.compile.array_types import CONSTANTS
from sync.compile.jit import inner, kernel
from tandem.machines.car.tyres import formula, turn_slip
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.magic_formula import (
    LEAST_FRICTION,
    MOST_FRICTION,
    MOST_LOAD,
    MOST_SPEED,
    OPTIONS,
    clip,
    evaluate,
    peaks,
    relaxation,
)

# fmt: off
S = places("S", (
    "EX", "EY",  # m; deflection
    "VSX", "VSY",  # m/s; slip velocity
    "RX", "RY",  # 1/s; V m / sigma
    "TWIST", "TURN", "RT",  # rad, rad/s, 1/s; of the patch against the rim; 0 without turn slip
))
OUT = places("OUT", (
    "FX", "FY", "MX", "MY", "MZ",  # N, N m; of the road on the tyre in the contact point
    "CX", "CY",  # N s/m; -dFx/dv_sx, -dFy/dv_sy, of the force at the end of the step by the velocity then; >= 0
    "KAPPA", "ALPHA",  # 1, rad; slips of the patch, that went into the Magic Formula
))
# fmt: on
STATES = len(S)
OUTPUTS = len(OUT)

DAMPING_TIME = 0.025  # s; damping per stiffness of the standing tyre: a car rocks to rest in about a second

V_LOW = 0.5  # m/s; slower, slip while sliding is related to this
DAMPED_BELOW = 2.0  # m/s; as in the single-track car
LOCKED = 10.0  # the wheel counts as locked as soon as it turns this much slower than it travels
MOST_ITERATIONS = 12  # two to four are usual
STILL = 1e-30  # m; keeps denormal numbers away


# long: plain numbers, for any kind of them: floats, or numbers with derivatives
@inner
def deflect(w, h, ex, ey, bx0, by0, bx1, by1, rx0, ry0, ax, ay, ix, iy):
    """Deflection at the end for w = 1 / m^2, |e_n|^2, its derivative by w, and de/db1, de/dw of both components."""
    m = 1.0 / sqrt(w)
    rx, ry = ax * m, ay * m
    X = h * max(rx, ry)
    th = (1.0 + X) / (2.0 + X)
    dth = X / ((2.0 + X) * (2.0 + X))  # by ln m
    x = h * (rx0 + th * (rx - rx0))
    y = h * (ry0 + th * (ry - ry0))
    cx = 1.0 / (1.0 + x + 0.5 * x * x)
    cy = 1.0 / (1.0 + y + 0.5 * y * y)
    e1x = (ex + 0.5 * h * (bx0 + bx1 * (1.0 + x))) * cx
    e1y = (ey + 0.5 * h * (by0 + by1 * (1.0 + y))) * cy
    half = -0.5 / w  # d ln m / dw
    dx = (0.5 * h * bx1 - e1x * (1.0 + x)) * cx * h * (th * rx + dth * (rx - rx0)) * half
    dy = (0.5 * h * by1 - e1y * (1.0 + y)) * cy * h * (th * ry + dth * (ry - ry0)) * half
    nx, ny = e1x * ix, e1y * iy
    P = nx * nx + ny * ny
    dP = 2.0 * (nx * dx * ix + ny * dy * iy)
    return e1x, e1y, P, dP, 0.5 * h * (1.0 + x) * cx, 0.5 * h * (1.0 + y) * cy, dx, dy


# long: plain numbers, for any kind of them: floats, or numbers with derivatives
@inner
def slid(n, h, ex, ey, bx0, by0, bx1, by1, gx, gy, ix, iy, V, guess):
    """Deflection of a patch that slides so fast (W >= V) that |e_n| = n, and its de/db1; g = h m / sigma.

    W is that of the whole step: sliding starts and stops, and a mean with that of the beginning would swing. Newton's
    rule on 1 / |e_n|, which is nearly straight in W, inside a bracket.
    """
    low, high = V, 1e300
    W = max(guess, V)
    for _ in range(MOST_ITERATIONS):
        x, y = W * gx, W * gy
        cx, cy = 1.0 / (1.0 + x + 0.5 * x * x), 1.0 / (1.0 + y + 0.5 * y * y)
        e1x = (ex + 0.5 * h * (bx0 + bx1 * (1.0 + x))) * cx
        e1y = (ey + 0.5 * h * (by0 + by1 * (1.0 + y))) * cy
        nx, ny = e1x * ix, e1y * iy
        N = sqrt(nx * nx + ny * ny)
        if abs(N - n) <= 1e-12 * n or h == 0.0 or N == 0.0:
            break
        if n < N:
            low = W
        else:
            high = W
        dx = (0.5 * h * bx1 - e1x * (1.0 + x)) * cx * gx * ix
        dy = (0.5 * h * by1 - e1y * (1.0 + y)) * cy * gy * iy
        slope = (nx * dx + ny * dy) / N
        new = W + (1.0 - N / n) * N / slope if slope < 0.0 else high
        if not low <= new < high:
            new = 4.0 * W + 1e-6 if high > 1e299 else 0.5 * (low + high)
        if new == W:
            break
        W = new
    back = n / N if N > 0.0 else 0.0
    return e1x * back, e1y * back, 0.5 * h * (1.0 + x) * cx, 0.5 * h * (1.0 + y) * cy


@inner
def nearer(w, low, high, P, dP):
    """(w, low, high): Newton's step towards 1 - w = P, kept between what is too low and what is too high."""
    if 1.0 - w < P:
        high = w
    else:
        low = w
    w -= (w - 1.0 + P) / (1.0 + dP) if dP > -1.0 else high
    if not low <= w <= high:
        w = sqrt(low * high)
    return w, low, high


@inner
def twist(h, d0, turn0, turn, r0, a, i, most):
    """Twist at the end of the step, m, and whether the patch gives way; a = V / sigma, i: twist to d_n."""
    low, high = 1.0 / (1.0 + most * most), 1.0
    w = low
    d, _, P, dP, _, _, _, _ = deflect(w, h, d0, 0.0, turn0, 0.0, turn, 0.0, r0, 0.0, a, 0.0, i, 0.0)
    if w - 1.0 + P >= 0.0:
        return clip(d, -sqrt(1.0 - w) / i, sqrt(1.0 - w) / i), 1.0 / sqrt(w), True
    for _ in range(MOST_ITERATIONS):
        last = w
        w, low, high = nearer(w, low, high, P, dP)
        d, _, P, dP, _, _, _, _ = deflect(w, h, d0, 0.0, turn0, 0.0, turn, 0.0, r0, 0.0, a, 0.0, i, 0.0)
        if abs(w - last) <= 1e-9 * w:
            break
    return d, 1.0 / sqrt(w), False


@inner
def held(over, most):
    """What brings forces back on the ellipse they are outside of; 1 within."""
    return sqrt(most / max(over, most))


_VECTOR = float64[::1]


# long: one tyre from slip to forces, in the order a reader follows it; plain numbers, for any kind of them
@kernel(void(CONSTANTS, _VECTOR, _VECTOR, int64, *[float64] * 9, boolean, float64, _VECTOR), **OPTIONS)
def tyre(p, states, after, at, h, fz, vx, vy, omega, r_e, gamma, mu, side, turning, turn, out):
    """Force, moments and derivatives `out` (places `OUT`) at the end of a step h, and the states then.

    `states[at:]` are the states at its beginning, `after[at:]` takes those at its end; they may be the same array only
    if the step is not repeated. vx, vy, omega, fz, gamma, mu are those of the end; so is `turn`, the rate at which the
    wheel turns about the road's normal, which counts with turn slip (`turning`) alone. With h = 0 the deflections stay,
    and `after` takes the velocities: this is how a tyre gets its first states, from zeros.
    """
    vx = clip(vx, -MOST_SPEED, MOST_SPEED)
    vsy = clip(vy, -MOST_SPEED, MOST_SPEED)
    u = clip(omega * r_e, -MOST_SPEED, MOST_SPEED)
    vsx = vx - u
    ex, ey = states[at + S.EX], states[at + S.EY]
    bx0, by0 = -states[at + S.VSX], -states[at + S.VSY]
    rx0, ry0 = states[at + S.RX], states[at + S.RY]
    after[at + S.VSX], after[at + S.VSY] = vsx, vsy
    if not fz > 0.0:
        after[at + S.EX] = after[at + S.EY] = after[at + S.RX] = after[at + S.RY] = 0.0
        after[at + S.TWIST] = after[at + S.TURN] = after[at + S.RT] = 0.0
        for i in range(OUTPUTS):
            out[i] = 0.0
        return
    f = clip(fz, p[T.LOW_LOAD], p[T.HIGH_LOAD])
    g = clip(side * p[T.MIRROR] * gamma, p[T.CAMMIN], p[T.CAMMAX])
    mu = clip(mu, LEAST_FRICTION, MOST_FRICTION)
    Dx, Dy, Kx, Ky = formula.peaks(p, f, g, mu)
    sigx, sigy = formula.relaxation(p, f, g)
    V = min(abs(vx), LOCKED * abs(u))
    phi = d = rt = twisting = left = 0.0
    if turning:
        df = f / p[T.NOMINAL_LOAD] - 1.0
        turn = clip(turn, -MOST_SPEED, MOST_SPEED)
        M = turn_slip.parking_moment(p, f, df, Dy / f)
        sigt = turn_slip.RELAXATION * p[T.UNLOADED_RADIUS]
        K = -turn_slip.spin_stiffness(p, f, df, M, mu) * p[T.UNLOADED_RADIUS]
        over_road = max(V, sqrt(vx * vx + vsy * vsy) - V_LOW)
        rt = over_road / sigt
        most = max(turn_slip.STANDING, K / M * abs(turn) / max(abs(vx), V_LOW))
        d, m, gives = twist(
            h, states[at + S.TWIST], states[at + S.TURN], turn, states[at + S.RT], rt, K / (M * sigt), most
        )
        phi = m * d / sigt
        rt *= m
        # damping of the standing patch: as much as there is friction left for
        twisting = 0.0 if gives else K / sigt * (turn - over_road * phi)
        left = M - abs(d) * K / sigt
        z1, z2, z3, _, _ = turn_slip.weakening(p, df, p[T.UNLOADED_RADIUS] * abs(phi), 0.0, 0.0)
        Dx, Dy, Ky = z1 * Dx, z2 * Dy, z3 * Ky
    after[at + S.TWIST] = d if abs(d) > STILL else 0.0
    after[at + S.TURN], after[at + S.RT] = turn if turning else 0.0, rt
    nx, ny = Kx / Dx, abs(Ky) / Dy  # slip to s_n
    ix, iy = nx / sigx, ny / sigy  # deflection to e_n
    ax, ay = V / sigx, V / sigy
    slide = sqrt((nx * vsx) ** 2 + (ny * vsy) ** 2)
    most = max(p[T.PEAK_SLIP], slide / max(abs(vx), V_LOW))

    # deflection at the end: w between the limit of sliding and 1
    low, high = 1.0 / (1.0 + most * most), 1.0
    w = low
    e1x, e1y, P, dP, Ax, Ay, dx, dy = deflect(w, h, ex, ey, bx0, by0, -vsx, -vsy, rx0, ry0, ax, ay, ix, iy)
    sliding = w - 1.0 + P >= 0.0
    if sliding:
        gx, gy = h / (sqrt(w) * sigx), h / (sqrt(w) * sigy)
        e1x, e1y, Ax, Ay = slid(sqrt(1.0 - w), h, ex, ey, bx0, by0, -vsx, -vsy, gx, gy, ix, iy, V, slide / most)
    else:
        for _ in range(MOST_ITERATIONS):
            last = w
            w, low, high = nearer(w, low, high, P, dP)
            e1x, e1y, P, dP, Ax, Ay, dx, dy = deflect(w, h, ex, ey, bx0, by0, -vsx, -vsy, rx0, ry0, ax, ay, ix, iy)
            if abs(w - last) <= 1e-9 * w:
                break
    m = 1.0 / sqrt(w)
    sx, sy = m * e1x / sigx, m * e1y / sigy

    # force of the formula, damping, friction limit
    Fx, Fy, Mx, My, Mz, Nx, Ny = formula.evaluate(p, fz, sx, -sy, gamma, mu, side, u, turning, phi)
    most_over = max((Fx / Nx) ** 2 + (Fy / Ny) ** 2, 1.0)
    ratio = min(fz, MOST_LOAD) / f
    kx, ky = ratio * Kx / sigx, ratio * abs(Ky) / sigy
    fade = 1.0 + 0.5 * (vx * vx + u * u) / (DAMPED_BELOW * DAMPED_BELOW)
    tau = DAMPING_TIME / (fade * fade)
    if turning:
        Mz -= ratio * clip(tau * twisting, -left, left)
    W = max(V, slide / most) if sliding else V
    Fx -= tau * kx * (vsx + W * sx)
    Fy -= tau * ky * (vsy + W * sy)
    over = (Fx / Nx) ** 2 + (Fy / Ny) ** 2
    hold = held(over, most_over)
    Fx *= hold
    Fy *= hold

    # derivatives: the tangent of e, but a quarter of its secant at least, times the spring; and the damper's. Of a
    # sliding patch the secant, whose damper does nothing
    if sliding:
        tau = 0.0
    else:
        q = 1.0 / max(1.0 + dP, 1e-3)
        Ax = max(Ax - dx * 2.0 * e1x * ix * ix * Ax * q, 0.25 * Ax)
        Ay = max(Ay - dy * 2.0 * e1y * iy * iy * Ay * q, 0.25 * Ay)
    out[OUT.FX], out[OUT.FY] = Fx, Fy
    out[OUT.MX], out[OUT.MY], out[OUT.MZ] = Mx, My, Mz
    out[OUT.CX] = hold * kx * (Ax + tau)
    out[OUT.CY] = hold * ky * (Ay + tau)
    out[OUT.KAPPA], out[OUT.ALPHA] = sx, atan(-sy)
    after[at + S.EX] = e1x if abs(e1x) > STILL else 0.0
    after[at + S.EY] = e1y if abs(e1y) > STILL else 0.0
    after[at + S.RX], after[at + S.RY] = ax * m, ay * m


@inner
def at_instant(p, fz, vx, vy, u, gamma, mu, side, ex, ey):
    """Fx, Fy, Mx, My, Mz, de/dt (2) at deflections e, and whether the patch holds; without turn slip.

    What `tyre` gives of MF 5.2 for a step of zero, without the search for a deflection that is known. fz is positive.
    For any kind of number (multibody/relative/dual.py): so the law gives its own derivatives.
    """
    vx = clip(vx, -MOST_SPEED, MOST_SPEED)
    vsy = clip(vy, -MOST_SPEED, MOST_SPEED)
    u = clip(u, -MOST_SPEED, MOST_SPEED)
    vsx = vx - u
    f = clip(fz, p[T.LOW_LOAD], p[T.HIGH_LOAD])
    g = clip(side * p[T.MIRROR] * gamma, p[T.CAMMIN], p[T.CAMMAX])
    mu = clip(mu, LEAST_FRICTION, MOST_FRICTION)
    Dx, Dy, Kx, Ky = peaks(p, f, g, mu)
    sigx, sigy = relaxation(p, f, g)
    V = min(abs(vx), LOCKED * abs(u))
    nx, ny = Kx / Dx, abs(Ky) / Dy
    most = max(p[T.PEAK_SLIP], sqrt((nx * vsx) ** 2 + (ny * vsy) ** 2) / max(abs(vx), V_LOW))
    w = 1.0 - ((nx / sigx * ex) ** 2 + (ny / sigy * ey) ** 2)
    low = 1.0 / (1.0 + most * most)
    holds = w > low
    m = 1.0 / sqrt(max(w, low))
    rx, ry = V * m / sigx, V * m / sigy
    sx, sy = m * ex / sigx, m * ey / sigy
    Fx, Fy, Mx, My, Mz, Nx, Ny = evaluate(p, fz, sx, -sy, gamma, mu, side, u, False, 0.0)
    most_over = max((Fx / Nx) ** 2 + (Fy / Ny) ** 2, 1.0)
    ratio = min(fz, MOST_LOAD) / f
    fade = 1.0 + 0.5 * (vx * vx + u * u) / (DAMPED_BELOW * DAMPED_BELOW)
    tau = DAMPING_TIME / (fade * fade)
    Fx -= tau * ratio * Kx / sigx * (vsx + V * sx)
    Fy -= tau * ratio * abs(Ky) / sigy * (vsy + V * sy)
    hold = held((Fx / Nx) ** 2 + (Fy / Ny) ** 2, most_over)
    return hold * Fx, hold * Fy, Mx, My, Mz, -vsx - rx * ex, -vsy - ry * ey, holds
