"""The tyre of transient.py as an ordinary differential equation: forces, and the rates of its deflections, of states.

Promises
- `law` gives forces, moments and the rates of deflection and twist at an instant; it integrates nothing and remembers
  nothing. Called with duals (sync/dual.py) it gives their exact derivatives by whatever its arguments are duals of;
  `rates` is the same with those by its own arguments.
- Where the patch neither slides nor is about to, it is the limit of `transient.tyre` for steps to 0, to rounding; so it
  is at the limit of sliding. In steady rolling the forces are those of `magic_formula.steady`.
- A standing tyre is a damped spring: it holds without creep up to `HOLDS` of the slip where it slides.
- Rates and forces are continuous in all arguments as long as the tyre touches, and finite for all finite ones.

The law is that at the top of transient.py,

    de/dt = -v_s - W s(e) - b e,        s = m e / sigma

with W = V and b = 0 as long as |e_n| is below `HOLDS` of the limit n (of |e_n|, where |s_n| is at its own limit).

Decisions
- Sliding. transient.py takes W as it must be for |e_n| to stay at n, from the instant it gets there: a corner, which
  an integrator with few evaluations meets by steps that are too long. Here W goes over smoothly from V to

      W1 = max(V, W* |s_n| / limit of |s_n|),     W* the speed at which |e_n| stays as it is

  while |e_n| goes from HOLDS n to n. At |e_n| = n it is W*: the patch stays there. Beyond, W1 > W*: it comes back.
  Where patch and slip have the same direction, W1 is |v_sn| over the limit whatever |e_n|, so the sliding patch is
  drawn to its limit exponentially, and nothing has a corner there. Against the slip W* < V: unloaded as a spring.
- In steady rolling beyond the peak the limit is the slip itself, and W1 is V: nothing changes.
- Beyond the limit (the load fell, the slip that set it is over) transient.py puts e back at once; here it goes back at
  the rate `RETURNS`, beginning softly (b). A tyre in the air loses its deflection at the same rate.
- m has a pole at |e_n| = 1, which a stage of an integrator may overstep. From `BEYOND` times the limit of |s_n| on, it
  goes on along its tangent: a straight line is what a linearly implicit step returns along at once. (Levelling off
  there, even smoothly, such steps jump to and fro for ever.) For the forces it levels off at twice as much, so that
  they stay those of a tyre.
- Damping acts on the part of de/dt without b.
"""

from math import sqrt

from numba import boolean, float64, void

from sim_service.machines.car.tyres import turn_slip
from sim_service.machines.car.tyres.keys import T
from sim_service.machines.car.tyres.magic_formula import (
    LEAST_FRICTION,
    MOST_FRICTION,
    MOST_LOAD,
    MOST_SPEED,
    OPTIONS,
    capacity,
    clip,
    evaluate,
)
from sim_service.machines.car.tyres.standing import DAMPING_TIME
from sim_service.machines.car.tyres.transient import DAMPED_BELOW, LOCKED, V_LOW, relaxation
from sim_service.machines.contract import places
from sync.array_types import CONSTANTS
from sync.dual import chain, constant, fresh, seed, value, write_partials
from sync.jit import kernel

# fmt: off
X = places("X", (
    "FZ",  # N
    "VX", "VY",  # m/s; of the carrier at the contact point
    "U",  # m/s; r_e omega
    "GAMMA", "MU",  # rad, 1
    "EX", "EY",  # m; deflection
    "TURN", "TWIST",  # rad/s, rad; they count with turn slip alone
))
Y = places("Y", (
    "FX", "FY", "MX", "MY", "MZ",  # N, N m; as in transient.py
    "EX_RATE", "EY_RATE", "TWIST_RATE",  # m/s, rad/s
    "KAPPA", "TAN_ALPHA",  # slips of the patch
))
# fmt: on
VARIABLES = len(X)
WITHOUT_TURNING = 8  # of them
RESULTS = len(Y)

HOLDS = 0.98  # of |e_n| at the limit: from there on the patch begins to slide
RETURNS = 1000.0  # 1/s; of a deflection beyond the limit, and of a tyre in the air
SOFTLY = 0.01  # of |e_n|, over which the return sets in
BEYOND = 2.0  # of the slip at the limit


@kernel(**OPTIONS)
def stretch(size, most):
    """m of a patch with |e_n| = size, whose |s_n| = m |e_n| has the limit `most`: for rates, and for forces."""
    top = BEYOND * most
    square = 1.0 + top * top
    if size * size < top * top / square:
        m = 1.0 / sqrt(1.0 - size * size)
        return m, m
    x = square * sqrt(square) * (size - top / sqrt(square))
    return (top + x) / size, (top + x / (1.0 + x / top)) / size


@kernel(**OPTIONS)
def sliding(V, size, most, toward, along):
    """W, and b; toward: how fast |e_n|^2 / 2 would grow without W, along: how fast it shrinks per W m."""
    n = most / sqrt(1.0 + most * most)
    W, back = V, 0.0 * size
    if size > n * HOLDS:
        part = min((size / n - HOLDS) / (1.0 - HOLDS), 1.0)
        part = part * part * (3.0 - 2.0 * part)
        W = V + part * max(toward * size / (most * along) - V, 0.0)
        if size > n:
            over = size - n
            back = RETURNS * over * over / ((over + SOFTLY) * size)
    return W, back


@kernel(**OPTIONS)
def law(p, fz, vx, vy, u, gamma, mu, side, ex, ey, turning, turn, d):
    """What is in `Y`, of what is in `X`. Without turn slip `turning` may be None: then it costs nothing."""
    if not fz > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, -RETURNS * ex, -RETURNS * ey, -RETURNS * d, 0.0, 0.0
    vx = clip(vx, -MOST_SPEED, MOST_SPEED)
    vsy = clip(vy, -MOST_SPEED, MOST_SPEED)
    u = clip(u, -MOST_SPEED, MOST_SPEED)
    vsx = vx - u
    f = clip(fz, p[T.LOW_LOAD], p[T.HIGH_LOAD])
    g = clip(side * p[T.MIRROR] * gamma, p[T.CAMMIN], p[T.CAMMAX])
    mu = clip(mu, LEAST_FRICTION, MOST_FRICTION)
    Dx, Dy, Kx, Ky = capacity(p, f, g, mu)
    sigx, sigy = relaxation(p, f, g)
    V = min(abs(vx), LOCKED * abs(u))
    reference = max(abs(vx), V_LOW)
    phi = twisting = left = d_rate = 0.0
    if turning:
        df = f / p[T.NOMINAL_LOAD] - 1.0
        turn = clip(turn, -MOST_SPEED, MOST_SPEED)
        M = turn_slip.parking_moment(p, f, df, Dy / f)
        sigt = turn_slip.RELAXATION * p[T.UNLOADED_RADIUS]
        K = -turn_slip.spin_stiffness(p, f, df, M, mu) * p[T.UNLOADED_RADIUS]
        over_road = max(V, sqrt(vx * vx + vsy * vsy) - V_LOW)
        most = max(turn_slip.STANDING, K / M * abs(turn) / reference)
        i = K / (M * sigt)
        dn = i * d
        D = abs(dn)
        m, m_force = stretch(D, most)
        phi = m_force * d / sigt
        W, back = sliding(over_road, D, most, i * turn * dn, dn * dn / sigt)
        twisting = K / sigt * (turn - W * phi)
        d_rate = turn - (W * m / sigt + back) * d
        left = max(M - D * M, 0.0)
        z1, z2, z3, _, _ = turn_slip.weakening(p, df, p[T.UNLOADED_RADIUS] * abs(phi), 0.0, 0.0)
        Dx, Dy, Ky = z1 * Dx, z2 * Dy, z3 * Ky
    nx, ny = Kx / Dx, abs(Ky) / Dy  # slip to s_n
    ix, iy = nx / sigx, ny / sigy  # deflection to e_n
    most = max(p[T.PEAK_SLIP], sqrt((nx * vsx) ** 2 + (ny * vsy) ** 2) / reference)

    # slip of the patch, and its rate
    enx, eny = ix * ex, iy * ey
    E = sqrt(enx * enx + eny * eny)
    m, m_force = stretch(E, most)
    sx, sy = m_force * ex / sigx, m_force * ey / sigy
    toward, along = -(enx * ix * vsx + eny * iy * vsy), enx * enx / sigx + eny * eny / sigy
    W, back = sliding(V, E, most, toward, along)
    ex_rate, ey_rate = -vsx - (W * m / sigx + back) * ex, -vsy - (W * m / sigy + back) * ey

    # force of the formula, with derivatives by its own few arguments; damping, friction limit
    ta = -sy
    if turning:
        F = evaluate(
            *(p, fresh(fz, 0, 7), fresh(sx, 1, 7), fresh(ta, 2, 7), fresh(gamma, 3, 7), fresh(mu, 4, 7)),
            *(side, fresh(u, 5, 7), True, fresh(phi, 6, 7)),
        )
        Fx, Fy, Mx, My, Mz, Nx, Ny = chain(F, (fz, sx, ta, gamma, mu, u, phi))
    else:
        F = evaluate(
            *(p, fresh(fz, 0, 6), fresh(sx, 1, 6), fresh(ta, 2, 6), fresh(gamma, 3, 6), fresh(mu, 4, 6)),
            *(side, fresh(u, 5, 6), None, 0.0),
        )
        Fx, Fy, Mx, My, Mz, Nx, Ny = chain(F, (fz, sx, ta, gamma, mu, u))
    most_over = max((Fx / Nx) ** 2 + (Fy / Ny) ** 2, 1.0)
    ratio = min(fz, MOST_LOAD) / f
    kx, ky = ratio * Kx / sigx, ratio * abs(Ky) / sigy
    fade = 1.0 + 0.5 * (vx * vx + u * u) / (DAMPED_BELOW * DAMPED_BELOW)
    tau = DAMPING_TIME / (fade * fade)
    if turning:
        Mz -= ratio * clip(tau * twisting, -left, left)
    Fx -= tau * kx * (vsx + W * sx)
    Fy -= tau * ky * (vsy + W * sy)
    over = (Fx / Nx) ** 2 + (Fy / Ny) ** 2
    if over > most_over:
        hold = sqrt(most_over / over)
        Fx *= hold
        Fy *= hold
    return Fx, Fy, Mx, My, Mz, ex_rate, ey_rate, d_rate, sx, ta


_VECTOR = float64[::1]


@kernel(**OPTIONS)
def _write(results, out, by, n):
    for k in range(RESULTS):
        out[k] = value(results[k])
        write_partials(results[k], by, n * k)


@kernel(**OPTIONS)
def values(p, x, side, turning, out):
    """`out` takes the results `Y` of the variables x (`X`)."""
    results = law(p, x[0], x[1], x[2], x[3], x[4], x[5], side, x[6], x[7], turning, x[8], x[9])
    for k in range(RESULTS):
        out[k] = results[k]


@kernel(void(CONSTANTS, CONSTANTS, float64, boolean, _VECTOR, _VECTOR), **OPTIONS)
def rates(p, x, side, turning, out, by):
    """The same, and into `by` their derivatives: a row of `VARIABLES` per result, or without turn slip of the first
    `WITHOUT_TURNING` of them.
    """
    if turning:
        _write(
            law(
                *(
                    p,
                    seed(x[0], 0, VARIABLES),
                    seed(x[1], 1, VARIABLES),
                    seed(x[2], 2, VARIABLES),
                    seed(x[3], 3, VARIABLES),
                    seed(x[4], 4, VARIABLES),
                ),
                *(seed(x[5], 5, VARIABLES), side, seed(x[6], 6, VARIABLES), seed(x[7], 7, VARIABLES), True),
                *(seed(x[8], 8, VARIABLES), seed(x[9], 9, VARIABLES)),
            ),
            *(out, by, VARIABLES),
        )
    else:
        _write(
            law(
                *(
                    p,
                    seed(x[0], 0, WITHOUT_TURNING),
                    seed(x[1], 1, WITHOUT_TURNING),
                    seed(x[2], 2, WITHOUT_TURNING),
                    seed(x[3], 3, WITHOUT_TURNING),
                    seed(x[4], 4, WITHOUT_TURNING),
                ),
                *(
                    seed(x[5], 5, WITHOUT_TURNING),
                    side,
                    seed(x[6], 6, WITHOUT_TURNING),
                    seed(x[7], 7, WITHOUT_TURNING),
                    None,
                    0.0,
                    constant(0.0, WITHOUT_TURNING),
                ),
            ),
            *(out, by, WITHOUT_TURNING),
        )
