"""A mass m in a point of the chassis that the machine knows nothing of: what it does to accelerations and transition.

It is a force -m (p + g) in that point, p its acceleration, which the mass feels too. With G the accelerations of all
velocities by a force in the point, G_p those of the point, A the rows of the Jacobian of the point's acceleration,

    B = (1 + m G_p)^-1        the share of p + g, as the car alone would have it, that is felt
    effect = -m G B (p + g)   on the accelerations
    J' = J - G C, C = m B A   the Jacobian of the car with the mass, G without its rows of coordinates

The transition is that of J', a change of rank three: with S = (sigma - J)^-1,

    (sigma - J')^-1 = S - S G (1 + C S G)^-1 C S

Over a step the mass feels the mean acceleration of the car alone, which is the change of its velocity over the step: so
what it does is of second order in h, as the transition is. G is that of the step's beginning.
"""

from sync.compile.jit import inner
from tandem.multibody.natural.views import view
from tandem.multibody.relative.columns import add_to_four
from tandem.multibody.relative.ode import LANES
from tandem.multibody.relative.port_jacobian import solve as solve_mass
from tandem.multibody.relative.transition import times_solutions
from tandem.multibody.spatial import cross, dot, into_world, inverse_of, times

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

GRAVITY = 9.81  # m/s2
COLUMNS = 3  # of G: a force along each axis of the world


def stride_of(errors: int) -> int:
    return -(-errors // LANES) * LANES


def scratch_size(n: int, errors: int) -> int:
    """Numbers that are left from `put_on` on: G, then rows of C, in fours; m B by the chassis' six accelerations; and
    scratch of six fours."""
    return 2 * n * LANES + LANES * stride_of(errors) + 18 + 6 * LANES


def carrying_size(columns: int, factorised: int) -> int:
    """Numbers that `carry_over` needs, of all columns that are solved."""
    return LANES * (stride_of(columns) + stride_of(factorised))


@inner
def of_force(memory, n, i):
    """Acceleration i by a unit of force along each axis."""
    at = LANES * (n + i)
    return memory[at], memory[at + 1], memory[at + 2]


@inner
def in_point(turn, a, alpha):
    """Acceleration of the point by those of the chassis; `turn`: rows of what its turning does."""
    return a[0] + dot(turn[0], alpha), a[1] + dot(turn[1], alpha), a[2] + dot(turn[2], alpha)


@inner
def effect_of(memory, n, mass, B, Gp, p, effect, slope):
    """What the mass does to all accelerations where the point's is p, and its derivative by the mass."""
    f = times(B, (p[0], p[1], p[2] + GRAVITY))
    s = times(B, times(Gp, f))
    along = f[0] - mass * s[0], f[1] - mass * s[1], f[2] - mass * s[2]
    for i in range(len(effect)):
        g = of_force(memory, n, i)
        effect[i], slope[i] = -mass * dot(g, f), -dot(g, along)


@inner
def share_of(share, a, stride):
    """m B times the point's acceleration, by the chassis' six that stand `stride` apart."""
    out = (0.0, 0.0, 0.0)
    for k in range(6):
        x = a[k * stride]
        out = (out[0] + share[k] * x, out[1] + share[6 + k] * x, out[2] + share[12 + k] * x)
    return out


@inner
def feel(memory, n, errors, rates):
    """Accelerations among `rates`, by whatever else, as they are with the mass."""
    behind = (2 * n + (errors + LANES - 1) // LANES * LANES) * LANES
    c = share_of(view(memory, behind, behind + 18), view(rates, n, 2 * n), 1)
    for i in range(n):
        rates[n + i] -= dot(c, of_force(memory, n, i))


# long: flat arrays of the car and of the load; a kernel takes no object
@inner
def put_on(factor, n, mass, r, q, omega, start, mean, rows, memory, seen, by_mass, into, forced):
    """A mass in r (chassis' axes, from its origin) where the attitude is q.

    `start`, `mean`: accelerations at the beginning of the step, and of the chassis its mean over it. `rows`: of the
    Jacobian, those of the chassis' six accelerations and two more, `stride_of` apart; they become those with the mass.
    `seen`, `by_mass` become effect and derivative by the mass, of the six at the instant; `forced`, `into` those of all
    rates over the step.
    """
    errors = len(into)
    stride = (errors + LANES - 1) // LANES * LANES
    behind = (2 * n + stride) * LANES
    C, share = view(memory, 2 * n * LANES, behind), view(memory, behind, behind + 18)
    x = view(memory, behind + 18, behind + 18 + 6 * LANES)
    a, b, c = (
        into_world(q, (0.0, -r[2], r[1])), into_world(q, (r[2], 0.0, -r[0])), into_world(q, (-r[1], r[0], 0.0))
    )  # fmt: skip
    turn = (a[0], b[0], c[0]), (a[1], b[1], c[1]), (a[2], b[2], c[2])
    for i in range(2 * n * LANES):
        memory[i] = 0.0
    for axis in range(3):
        memory[LANES * (n + axis) + axis] = 1.0
        for k in range(3):
            memory[LANES * (n + 3 + k) + axis] = turn[axis][k]
    solve_mass(n, factor, memory, LANES)
    a0, a1, a2 = of_force(memory, n, 3), of_force(memory, n, 4), of_force(memory, n, 5)
    Gp = (
        in_point_of(turn[0], of_force(memory, n, 0), a0, a1, a2),
        in_point_of(turn[1], of_force(memory, n, 1), a0, a1, a2),
        in_point_of(turn[2], of_force(memory, n, 2), a0, a1, a2),
    )
    B = inverse_of(
        (1.0 + mass * Gp[0][0], mass * Gp[0][1], mass * Gp[0][2]),
        (mass * Gp[1][0], 1.0 + mass * Gp[1][1], mass * Gp[1][2]),
        (mass * Gp[2][0], mass * Gp[2][1], 1.0 + mass * Gp[2][2]),
    )
    inwards = into_world(q, cross(omega, cross(omega, r)))
    # over the step, then at the instant; the chassis' six are the first
    for i in range(errors):
        forced[i] = into[i] = 0.0
    p = in_point(turn, (mean[0] + inwards[0], mean[1] + inwards[1], mean[2] + inwards[2]), (mean[3], mean[4], mean[5]))
    effect_of(memory, n, mass, B, Gp, p, view(forced, n, 2 * n), view(into, n, 2 * n))
    p = in_point(
        turn, (start[n] + inwards[0], start[n + 1] + inwards[1], start[n + 2] + inwards[2]),
        (start[n + 3], start[n + 4], start[n + 5]),
    )  # fmt: skip
    effect_of(memory, n, mass, B, Gp, p, seen, by_mass)
    for k in range(3):
        by = times(B, (mass * turn[0][k], mass * turn[1][k], mass * turn[2][k]))
        for i in range(3):
            share[6 * i + k], share[6 * i + 3 + k] = mass * B[i][k], by[i]
    # rows of C; those that measurements use feel the mass too
    for j in range(LANES * stride):
        C[j] = 0.0
    for k in range(6):
        x[LANES * k], x[LANES * k + 1], x[LANES * k + 2] = share[k], share[6 + k], share[12 + k]
        x[LANES * k + 3] = 0.0
    add_to_four(C, 0, stride, C, 0, stride, stride, rows, 0, stride, 0, 6, x)
    for first in range(0, 6, LANES):
        for axis in range(COLUMNS):
            for i in range(LANES):
                x[LANES * axis + i] = -memory[LANES * (n + first + i) + axis]
        at = first * stride
        add_to_four(rows, at, stride, rows, at, stride, stride, C, 0, stride, 0, COLUMNS, x)


@inner
def in_point_of(turn, g, a0, a1, a2):
    """A row of G_p."""
    return (
        g[0] + turn[0] * a0[0] + turn[1] * a1[0] + turn[2] * a2[0],
        g[1] + turn[0] * a0[1] + turn[1] * a1[1] + turn[2] * a2[1],
        g[2] + turn[0] * a0[2] + turn[1] * a1[2] + turn[2] * a2[2],
    )


@inner
def columns_of(memory, n, rates, at, errors):
    """G as rates, to three columns of `rates` from number `at` on."""
    for axis in range(COLUMNS):
        for i in range(errors):
            rates[(at + axis) * errors + i] = 0.0
        for i in range(n):
            rates[(at + axis) * errors + n + i] = memory[LANES * (n + i) + axis]


@inner
def carry_over(layout, scratch, sigma, memory, n, errors, R, width, first, by):
    """Solutions of the car alone, R (transition.py), become those of the car with the mass; from column `first` on they
    have those of G. `by`: scratch of `carrying_size`."""
    stride = (errors + LANES - 1) // LANES * LANES
    C, x = view(memory, 2 * n * LANES, 2 * n * LANES + LANES * stride), view(by, LANES * width, len(by))
    times_solutions(layout, scratch, sigma, C, stride, R, width, by, x)
    one, two, three = view(by, 0, width), view(by, width, 2 * width), view(by, 2 * width, 3 * width)
    # what is there of rates is 2 S times them
    K = inverse_of(
        (1.0 + 0.5 * one[first], 0.5 * one[first + 1], 0.5 * one[first + 2]),
        (0.5 * two[first], 1.0 + 0.5 * two[first + 1], 0.5 * two[first + 2]),
        (0.5 * three[first], 0.5 * three[first + 1], 1.0 + 0.5 * three[first + 2]),
    )
    for j in range(width):
        one[j], two[j], three[j] = times(K, (-0.5 * one[j], -0.5 * two[j], -0.5 * three[j]))
    for i in range(0, len(R) // width, LANES):
        for axis in range(COLUMNS):
            for c in range(LANES):
                x[LANES * axis + c] = R[(i + c) * width + first + axis]
        add_to_four(R, i * width, width, R, i * width, width, width, by, 0, width, 0, COLUMNS, x)
