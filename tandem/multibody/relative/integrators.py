"""Steps of y = (x, w, s), see ode.py: fixed cost, no allocation, one signature.

    linear_euler_step   order 1, L-stable        one Jacobian, one factorisation, 1 evaluation
    ros2_step           order 2, L-stable        the same with 2 evaluations
    rodas3_step         order 3(2), L-stable     with 3
    rodas4_step         order 4(3), L-stable     with 6
    trapezoidal_step    order 2, A-stable        one evaluation for each of Newton's corrections, and one more
    rk4_step            order 4, explicit        4 evaluations, no Jacobian

The Rosenbrock methods (tables in coefficients.py) solve with sigma - J, sigma = 1/(h gamma), the trapezoidal rule with
sigma = 2/h. Rows of x know only x and w, and those of one joint only its own:

    (sigma - J_xx) u_x = r_x + J_xw u_w     J_xx = 0, J_xw = 1, or 3 x 3 blocks for balls

so x is eliminated joint by joint and the n + k equations of (w, s) are factorised. Nothing is assumed about the blocks
of balls: they may be taken away from xi = 0. What J has in other places of the rows of x is not looked at.

The error estimate of a Rosenbrock method is the difference to its embedded solution. The others have none: NaN.
"""

from math import inf, isfinite, nan

from numba import float64, void

from sync.compile.array_copy import copy
from sync.compile.array_types import INDICES, VECTOR
from sync.compile.jit import inner, kernel
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative.coefficients import (
    ALPHA,
    FIRST,
    GAMMA,
    GAMMA_SUM,
    LINEAR_EULER,
    REUSED,
    RODAS3,
    RODAS4,
    ROS2,
    ROW_BLOCKS,
    STAGES,
    E,
    M,
)
from tandem.multibody.relative.lu import factorise, padded, solve, subtract
from tandem.multibody.relative.ode import (
    CAP,
    CAPPED,
    CONTRACTION,
    CORRECTION,
    EQUATIONS,
    ERROR,
    EVALUATIONS,
    FACTORISATIONS,
    FACTORISED,
    FIRST_SCALE,
    GOOD,
    ITERATIONS,
    NOT_FINITE,
    POSITIONS,
    REFRESH,
    STATUS,
    STEP,
    TOLERANCE,
    Part,
)


@inner
def add(into, factor, of):
    for i in range(len(into)):
        into[i] += factor * of[i]


@inner
def invert_block(J, N, n, first, sigma, block):
    """S = (sigma - J_xx)^-1 and S J_xw of the ball at `first`, to `block`."""
    r = first * N + first
    a, b, c = sigma - J[r], -J[r + 1], -J[r + 2]
    d, e, f = -J[r + N], sigma - J[r + N + 1], -J[r + N + 2]
    g, h, i = -J[r + 2 * N], -J[r + 2 * N + 1], sigma - J[r + 2 * N + 2]
    A, D, G = e * i - f * h, f * g - d * i, d * h - e * g
    inverse = 1.0 / (a * A + b * D + c * G)
    block[0], block[1], block[2] = A * inverse, (c * h - b * i) * inverse, (b * f - c * e) * inverse
    block[3], block[4], block[5] = D * inverse, (a * i - c * g) * inverse, (c * d - a * f) * inverse
    block[6], block[7], block[8] = G * inverse, (b * g - a * h) * inverse, (a * e - b * d) * inverse
    for p in range(3):
        for q in range(3):
            total = 0.0
            for k in range(3):
                total += block[3 * p + k] * J[(first + k) * N + n + first + q]
            block[9 + 3 * p + q] = total


@inner
def times_block(block, factor, v, out, keep):
    """out = keep out + factor block v, of the three entries of a ball; `out` and `v` may be the same."""
    a, b, c = factor * v[0], factor * v[1], factor * v[2]
    for p in range(3):
        out[p] = keep * out[p] + (block[3 * p] * a + block[3 * p + 1] * b + block[3 * p + 2] * c)


@inner
def prepare_dense(layout, scratch, sigma):
    J, A = part(layout, scratch, Part.JACOBIAN), part(layout, scratch, Part.FACTORS)
    N = part(layout, layout, Part.SIZES)[EQUATIONS]
    stride = padded(N)
    for r in range(N):
        row = view(J, r * N, (r + 1) * N)
        for c in range(N):
            A[c * stride + r] = -row[c]
        A[r * stride + r] += sigma


@inner
def take_rows(J, N, n, m, r, share, X, A, stride):
    """Four rows of J, from row r of (w, s), into columns: four at once fill a column's memory without gaps."""
    at = (n + r) * N
    one, two = view(J, at, at + N), view(J, at + N, at + 2 * N)
    three, four = view(J, at + 2 * N, at + 3 * N), view(J, at + 3 * N, at + 4 * N)
    for c in range(n):
        a, b, d, e = one[c], two[c], three[c], four[c]
        p, q, s, t = one[n + c], two[n + c], three[n + c], four[n + c]
        x, z = view(X, c * stride + r, c * stride + r + 4), view(A, c * stride + r, c * stride + r + 4)
        x[0], x[1], x[2], x[3] = a, b, d, e
        z[0], z[1], z[2], z[3] = -p - share * a, -q - share * b, -s - share * d, -t - share * e
    for c in range(n, m):
        p, q, s, t = one[n + c], two[n + c], three[n + c], four[n + c]
        z = view(A, c * stride + r, c * stride + r + 4)
        z[0], z[1], z[2], z[3] = -p, -q, -s, -t


@inner
def prepare_reduced(layout, scratch, sigma):
    J, A = part(layout, scratch, Part.JACOBIAN), part(layout, scratch, Part.FACTORS)
    X, blocks = part(layout, scratch, Part.COLUMNS), part(layout, scratch, Part.BLOCKS)
    sizes, balls = part(layout, layout, Part.SIZES), part(layout, layout, Part.BALLS)
    N, n, m = sizes[EQUATIONS], sizes[POSITIONS], sizes[FACTORISED]
    stride, share = padded(m), 1.0 / sigma
    # what x takes to w: the columns of x times (sigma - J_xx)^-1 J_xw; of balls the difference to 1 / sigma
    fours = m // 4 * 4
    for r in range(0, fours, 4):
        take_rows(J, N, n, m, r, share, X, A, stride)
    for r in range(fours, m):
        row = view(J, (n + r) * N, (n + r + 1) * N)
        for c in range(n):
            X[c * stride + r] = row[c]
            A[c * stride + r] = -row[n + c] - share * row[c]
        for c in range(n, m):
            A[c * stride + r] = -row[n + c]
    for r in range(m):
        A[r * stride + r] += sigma
    for b in range(len(balls)):
        first, block = balls[b], view(blocks, 18 * b, 18 * (b + 1))
        invert_block(J, N, n, first, sigma, block)
        for q in range(3):
            column = view(A, (first + q) * stride, (first + q + 1) * stride)
            for p in range(3):
                factor = block[9 + 3 * p + q] - (share if p == q else 0.0)
                add(column, -factor, view(X, (first + p) * stride, (first + p + 1) * stride))


@inner
def clear_padding(A, right, size):
    """Of what a step left there that ended in no numbers: zeros times these would be none, either."""
    stride = padded(size)
    for r in range(size, stride):
        right[r] = 0.0
        for c in range(size):
            A[c * stride + r] = 0.0


@inner
def prepare(layout, scratch, sigma):
    """Factorise sigma - J."""
    sizes = part(layout, layout, Part.SIZES)
    if sizes[FACTORISED] == sizes[EQUATIONS]:
        prepare_dense(layout, scratch, sigma)
    else:
        prepare_reduced(layout, scratch, sigma)
    clear_padding(part(layout, scratch, Part.FACTORS), part(layout, scratch, Part.PADDED), sizes[FACTORISED])
    factorise(part(layout, scratch, Part.FACTORS), part(layout, scratch, Part.PIVOTS), sizes[FACTORISED])
    part(layout, scratch, Part.DIAGNOSTIC)[FACTORISATIONS] += 1.0


@inner
def solve_prepared(layout, scratch, sigma, u):
    """u becomes the solution of (sigma - J) x = u."""
    A, pivots = part(layout, scratch, Part.FACTORS), part(layout, scratch, Part.PIVOTS)
    X, blocks = part(layout, scratch, Part.COLUMNS), part(layout, scratch, Part.BLOCKS)
    sizes, balls = part(layout, layout, Part.SIZES), part(layout, layout, Part.BALLS)
    N, m, right = sizes[EQUATIONS], sizes[FACTORISED], part(layout, scratch, Part.PADDED)
    n = N - m  # unknowns that are eliminated
    x, below, stride, share = view(u, 0, n), view(u, n, N), padded(m), 1.0 / sigma
    for b in range(len(balls) if n > 0 else 0):
        # times sigma, because the loop after this one divides all by it
        joint = view(x, balls[b], balls[b] + 3)
        times_block(view(blocks, 18 * b, 18 * b + 9), sigma, joint, joint, 0.0)
    for c in range(n):
        x[c] *= share
    copy(right, below)
    fours = n // 4 * 4
    for c in range(0, fours, 4):
        subtract(right, X, c * stride, stride, 0, stride, -x[c], -x[c + 1], -x[c + 2], -x[c + 3])
    for c in range(fours, n):
        add(right, x[c], view(X, c * stride, (c + 1) * stride))
    solve(A, pivots, m, right)
    copy(below, right)
    for c in range(n):
        x[c] += share * below[c]
    for b in range(len(balls) if n > 0 else 0):
        first = balls[b]
        joint, rates = view(x, first, first + 3), view(below, first, first + 3)
        add(joint, -share, rates)
        times_block(view(blocks, 18 * b + 9, 18 * b + 18), 1.0, rates, joint, 1.0)


@inner
def all_finite(v):
    total = 0.0
    for i in range(len(v)):
        total += abs(v[i])
    return isfinite(total)


@inner
def largest_scaled(v, settings):
    """Of the components over their sizes; infinite if one is not finite."""
    found = 0.0
    for i in range(len(v)):
        found = max(found, abs(v[i]) * settings[FIRST_SCALE + i])
    return found if all_finite(v) else inf


@inner
def begin(layout, scratch):
    out, errors = part(layout, scratch, Part.DIAGNOSTIC), part(layout, scratch, Part.ERRORS)
    for i in range(len(out)):
        out[i] = 0.0
    for i in range(len(errors)):
        errors[i] = nan
    out[ERROR] = nan


@inner
def conclude(layout, scratch, y, following, status):
    """y takes what follows if that is finite; the status of the step."""
    if all_finite(following):
        copy(y, following)
    else:
        status = NOT_FINITE
    part(layout, scratch, Part.DIAGNOSTIC)[STATUS] = status
    return status


@inner
def rosenbrock(table, rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch):
    """A step with the coefficients of `table`."""
    begin(layout, scratch)
    start, by_time = part(layout, scratch, Part.START), part(layout, scratch, Part.BY_TIME)
    trial, U = part(layout, scratch, Part.TRIAL), part(layout, scratch, Part.STAGES)
    out, errors = part(layout, scratch, Part.DIAGNOSTIC), part(layout, scratch, Part.ERRORS)
    N, stages = len(start), int(table[STAGES])
    per_stage, rows = view(table, FIRST, FIRST + ROW_BLOCKS * stages), FIRST + ROW_BLOCKS * stages
    a, c = view(table, rows, rows + stages * stages), view(table, rows + stages * stages, len(table))
    sigma, per_h = 1.0 / (h * table[GAMMA]), 1.0 / h
    rates_and_jacobian(ints, reals, work, t, y, start, part(layout, scratch, Part.JACOBIAN), by_time)
    out[EVALUATIONS] = 1.0
    prepare(layout, scratch, sigma)
    for i in range(stages):
        u = view(U, i * N, (i + 1) * N)
        if per_stage[REUSED * stages + i] > 0.0:
            copy(u, start)
        else:
            copy(trial, y)
            for j in range(i):
                if a[i * stages + j] != 0.0:
                    add(trial, a[i * stages + j], view(U, j * N, (j + 1) * N))
            rates(ints, reals, work, t + per_stage[ALPHA * stages + i] * h, trial, u)
            out[EVALUATIONS] += 1.0
        for j in range(i):
            add(u, c[i * stages + j] * per_h, view(U, j * N, (j + 1) * N))
        add(u, per_stage[GAMMA_SUM * stages + i] * h, by_time)
        solve_prepared(layout, scratch, sigma, u)

    copy(trial, y)
    estimated = False
    for j in range(stages):
        add(trial, per_stage[M * stages + j], view(U, j * N, (j + 1) * N))
        estimated = estimated or per_stage[E * stages + j] != 0.0
    if estimated:
        for i in range(N):
            errors[i] = 0.0
        for j in range(stages):
            if per_stage[E * stages + j] != 0.0:
                add(errors, per_stage[E * stages + j], view(U, j * N, (j + 1) * N))
        out[ERROR] = largest_scaled(errors, settings)
    return conclude(layout, scratch, y, trial, GOOD)


@kernel(STEP, error_model="numpy")
def linear_euler_step(rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch):
    return rosenbrock(LINEAR_EULER, rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch)


@kernel(STEP, error_model="numpy")
def ros2_step(rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch):
    return rosenbrock(ROS2, rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch)


@kernel(STEP, error_model="numpy")
def rodas3_step(rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch):
    return rosenbrock(RODAS3, rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch)


@kernel(STEP, error_model="numpy")
def rodas4_step(rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch):
    return rosenbrock(RODAS4, rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch)


@kernel(STEP, error_model="numpy")
def trapezoidal_step(rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch):
    """y_next = y + h/2 (f(t, y) + f(t + h, y_next)).

    Newton begins at the solution of the equations linearised at the beginning of the step, which costs no evaluation,
    and keeps that Jacobian until corrections shrink slowly.
    """
    begin(layout, scratch)
    start, by_time = part(layout, scratch, Part.START), part(layout, scratch, Part.BY_TIME)
    f, trial = part(layout, scratch, Part.RATES), part(layout, scratch, Part.TRIAL)
    u, out = part(layout, scratch, Part.RIGHT), part(layout, scratch, Part.DIAGNOSTIC)
    J, N, sigma = part(layout, scratch, Part.JACOBIAN), len(start), 2.0 / h
    rates_and_jacobian(ints, reals, work, t, y, start, J, by_time)
    out[EVALUATIONS] = 1.0
    prepare(layout, scratch, sigma)
    for i in range(N):
        u[i] = 2.0 * start[i] + h * by_time[i]
        trial[i] = y[i]
    solve_prepared(layout, scratch, sigma, u)
    add(trial, 1.0, u)
    last = largest_scaled(u, settings)

    status, again = CAPPED, False
    for turn in range(part(layout, layout, Part.SIZES)[CAP]):
        if again:
            rates_and_jacobian(ints, reals, work, t + h, trial, f, J, by_time)
            prepare(layout, scratch, sigma)
        else:
            rates(ints, reals, work, t + h, trial, f)
        out[EVALUATIONS] += 1.0
        for i in range(N):
            u[i] = start[i] + f[i] - sigma * (trial[i] - y[i])
        solve_prepared(layout, scratch, sigma, u)
        add(trial, 1.0, u)
        size = largest_scaled(u, settings)
        out[ITERATIONS], out[CORRECTION] = turn + 1.0, size
        if turn > 0 and last > 0.0:
            out[CONTRACTION] = max(out[CONTRACTION], size / last)
        if size <= settings[TOLERANCE]:
            status = GOOD
            break
        if not isfinite(size):
            break
        again = size > settings[REFRESH] * last
        last = size
    return conclude(layout, scratch, y, trial, status)


@kernel(STEP, error_model="numpy")
def rk4_step(rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch):
    """The classical method of Runge and Kutta; the Jacobian is not asked for."""
    begin(layout, scratch)
    trial, total = part(layout, scratch, Part.TRIAL), part(layout, scratch, Part.RIGHT)
    f = part(layout, scratch, Part.RATES)
    copy(total, y)
    rates(ints, reals, work, t, y, f)
    for stage in range(1, 4):
        add(total, h / (6.0 if stage == 1 else 3.0), f)
        share = h if stage == 3 else 0.5 * h
        for i in range(len(trial)):
            trial[i] = y[i] + share * f[i]
        rates(ints, reals, work, t + share, trial, f)
    add(total, h / 6.0, f)
    part(layout, scratch, Part.DIAGNOSTIC)[EVALUATIONS] = 4.0
    return conclude(layout, scratch, y, total, GOOD)


@kernel(void(INDICES, VECTOR, float64), error_model="numpy")
def factorise_shifted(layout, scratch, sigma):
    """Factorise sigma - J of the J in scratch: for tests and measurements of the linear algebra alone."""
    prepare(layout, scratch, sigma)


@kernel(void(INDICES, VECTOR, float64, VECTOR), error_model="numpy")
def solve_shifted(layout, scratch, sigma, u):
    """u becomes the solution with what was factorised."""
    solve_prepared(layout, scratch, sigma, u)
