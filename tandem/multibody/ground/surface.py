"""The surface of a road for kernels: height, slope and friction under a point.

Promises
- `surface(road, x, y)` gives z, dz/dx, dz/dy and mu; no allocation, no exception, a finite answer for any finite x, y.
- The slope is the exact derivative of the height that is returned. Inside the data both are continuous, except at the
  foot of a `half_sine` bump and at corners of a trapezoid without rounding, where the slope jumps as the shape does.
- Outside its data a layer goes on with the value of its edge, level in the outward direction; the slope may jump there.
- mu is a factor on the friction of the tyre, 1 where nothing is painted.

Grids are interpolated by cubic Hermite pieces with central differences for slopes (Catmull and Rom's spline): the
surface passes through every node, has no edges, and a plane comes out as that plane, up to the border. Columns of a
curved grid may lie at any distances; their central differences are those of the parabola through three neighbours.

Curved grids have coordinates u along and v to the left of a reference line, a cubic spline P(k) with continuous
curvature, k counted in its knots. The foot of a point p is the root of (p - P) . P', found by Newton's rule from where
a coarse table of bins says; then v = P' x (p - P) / |P'|, grad k = P' / (|P'|^2 - (p - P) . P''), and grad v is the
normal of the line.

Symbols: o begin of a block, s t coordinates in nodes, a b their weights, d outside distance, suffixes x y s v partial
derivatives.
"""

from math import cos, floor, pi, sin, sqrt

from numba import boolean, float64, types

from sync.compile.array_types import CONSTANTS
from sync.compile.jit import inner, kernel
from tandem.multibody.ground.layout import ABSENT, HEAD, Bump, Curved, Grid, Head, Kind, Patch, Shape, Slope

NEWTON = 12  # at most; two to four are usual
CONVERGED = 1e-6  # of the distance between two knots; the error left is about its square
FAR = 1e12  # m; farther away is no different, and no product of such numbers overflows

# a division by zero is no exception; nothing is allocated, so no references are counted: counting took 25 ns a call
_OPTIONS = {"error_model": "numpy", "_nrt": False}


@inner
def smoothstep(t):
    """From 0 to 1 over t = 0 to 1, level at both ends: value and slope."""
    t = min(max(t, 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t), 6.0 * t * (1.0 - t)


@inner
def rise(d, L):
    """Integral over d of the smooth step of length L: height, slope and curvature of a road that begins to climb."""
    if d <= 0.0:
        return 0.0, 0.0, 0.0
    if d >= L:
        return d - 0.5 * L, 1.0, 0.0
    t = d / L
    return L * t * t * t * (1.0 - 0.5 * t), t * t * (3.0 - 2.0 * t), 6.0 * t * (1.0 - t) / L


@inner
def weights(t):
    """Weights of four neighbours at t between the middle two, and their derivatives."""
    t2 = t * t
    t3 = t2 * t
    return (
        0.5 * (-t3 + 2.0 * t2 - t),
        0.5 * (3.0 * t3 - 5.0 * t2 + 2.0),
        0.5 * (-3.0 * t3 + 4.0 * t2 + t),
        0.5 * (t3 - t2),
        0.5 * (-3.0 * t2 + 4.0 * t - 1.0),
        0.5 * (9.0 * t2 - 10.0 * t),
        0.5 * (-9.0 * t2 + 8.0 * t + 1.0),
        0.5 * (3.0 * t2 - 2.0 * t),
    )


@inner
def row(road, k, B):
    """One row of four nodes from k on: height and slope across, with `weights` B."""
    a, b, c, d = road[k], road[k + 1], road[k + 2], road[k + 3]
    return a * B[0] + b * B[1] + c * B[2] + d * B[3], a * B[4] + b * B[5] + c * B[6] + d * B[7]


@inner
def patchwork(road, o, columns, i, j, A, B):
    """Height and both slopes of the piece whose 4 x 4 nodes begin at row i, column j, with `weights` A and B."""
    k = o + i * columns + j
    a, at = row(road, k, B)
    b, bt = row(road, k + columns, B)
    c, ct = row(road, k + 2 * columns, B)
    d, dt = row(road, k + 3 * columns, B)
    return (
        A[0] * a + A[1] * b + A[2] * c + A[3] * d,
        A[4] * a + A[5] * b + A[6] * c + A[7] * d,
        A[0] * at + A[1] * bt + A[2] * ct + A[3] * dt,
    )


@inner
def cell(s, n):
    """s held within nodes 0 to n - 1: the cell, the place in it, and 1 inside or 0 where it was held."""
    inside = 1.0 if 0.0 <= s <= n - 1.0 else 0.0
    s = min(max(s, 0.0), n - 1.0)
    i = min(max(int(s), 0), n - 2)
    return i, s - i, inside


@inner
def slope(road, o, x, y):
    g, b, L = road[o + Slope.GRADE], road[o + Slope.BANK], road[o + Slope.TRANSITION]
    h, hx, hxx = x, 1.0, 0.0
    if road[o + Slope.FROM_START] == 0.0:
        h, hx, hxx = rise(x - road[o + Slope.BEGIN], L)
    if road[o + Slope.END] < ABSENT:
        e, ex, exx = rise(x - road[o + Slope.END], L)
        h, hx, hxx = h - e, hx - ex, hxx - exx
    return g * h + b * hx * y, g * hx + b * hxx * y, b * hx


@inner
def grid(road, o, x, y):
    px, py = road[o + Grid.PER_X], road[o + Grid.PER_Y]
    n, m = int(road[o + Grid.ROWS]), int(road[o + Grid.COLUMNS])
    s = (x - road[o + Grid.X]) * px
    t = (y - road[o + Grid.Y]) * py
    if road[o + Grid.PERIODIC] != 0.0:
        s -= n * floor(s / n)
        i = min(max(int(s), 0), n - 1)
        s -= i
        in_x = 1.0
    else:
        i, s, in_x = cell(s, n)
    j, t, in_y = cell(t, m)
    z, zx, zy = patchwork(road, o + Grid.SIZE, m + 2, i, j, weights(s), weights(t))
    zx *= px * in_x
    zy *= py * in_y
    begin = road[o + Grid.BEGIN]
    if begin > -ABSENT:
        L = road[o + Grid.TRANSITION]
        f, fx = smoothstep((x - begin) / L)
        return f * z, f * zx + fx / L * z, f * zy
    return z, zx, zy


@inner
def ramp(t, c):
    """A straight line from 0 to 1 whose ends are rounded by parabolas over c each: value and slope."""
    if t <= 0.0:
        return 0.0, 0.0
    if t >= 1.0:
        return 1.0, 0.0
    k = 1.0 / (1.0 - c)
    if t < c:
        return 0.5 * k * t * t / c, k * t / c
    if t > 1.0 - c:
        return 1.0 - 0.5 * k * (1.0 - t) * (1.0 - t) / c, k * (1.0 - t) / c
    return k * (t - 0.5 * c), k


@inner
def bump(road, o, x, y):
    L = road[o + Bump.LENGTH]
    d = x - road[o + Bump.X]
    if d <= 0.0 or d >= L:
        return 0.0, 0.0, 0.0
    # across: smooth sides, outside of which there is nothing
    e = road[o + Bump.SIDE]
    right, rightx = smoothstep((y - road[o + Bump.RIGHT]) / e)
    left, leftx = smoothstep((road[o + Bump.LEFT] - y) / e)
    w = right * left
    if w == 0.0:
        return 0.0, 0.0, 0.0
    wy = (rightx * left - right * leftx) / e
    # along
    shape = int(road[o + Bump.SHAPE])
    if shape == Shape.COSINE:
        p, px = 0.5 - 0.5 * cos(2.0 * pi * d / L), pi / L * sin(2.0 * pi * d / L)
    elif shape == Shape.HALF_SINE:
        p, px = sin(pi * d / L), pi / L * cos(pi * d / L)
    else:
        a, c = road[o + Bump.RAMP], road[o + Bump.BLEND]
        up, upx = ramp(d / a, c)
        down, downx = ramp((L - d) / a, c)
        p, px = up * down, (upx * down - up * downx) / a
    H = road[o + Bump.HEIGHT]
    return H * p * w, H * px * w, H * p * wy


@inner
def spline(road, o, n, s):
    """The reference line at s: position, and first and second derivative by s."""
    i = min(max(int(s), 0), n - 2)
    t = s - i
    k = o + 2 * i
    q = 1.0 - t
    a, d = q * q * q / 6.0, t * t * t / 6.0
    b, c = (4.0 - 6.0 * t * t + 3.0 * t * t * t) / 6.0, (4.0 - 6.0 * q * q + 3.0 * q * q * q) / 6.0
    a1, d1 = -0.5 * q * q, 0.5 * t * t
    b1, c1 = 0.5 * t * (3.0 * t - 4.0), -0.5 * q * (3.0 * q - 4.0)
    b2, c2 = 3.0 * t - 2.0, 3.0 * q - 2.0
    x0, x1, x2, x3 = road[k], road[k + 2], road[k + 4], road[k + 6]
    y0, y1, y2, y3 = road[k + 1], road[k + 3], road[k + 5], road[k + 7]
    return (
        a * x0 + b * x1 + c * x2 + d * x3,
        a * y0 + b * y1 + c * y2 + d * y3,
        a1 * x0 + b1 * x1 + c1 * x2 + d1 * x3,
        a1 * y0 + b1 * y1 + c1 * y2 + d1 * y3,
        q * x0 + b2 * x1 + c2 * x2 + t * x3,
        q * y0 + b2 * y1 + c2 * y2 + t * y3,
    )


@inner
def foot(road, o, x, y):
    """Coordinates of a point beside the reference line: row s, distance v and their gradients sx, sy, vx, vy."""
    if road[o + Curved.STRAIGHT] != 0.0:
        c, si = road[o + Curved.COS], road[o + Curved.SIN]
        du = road[o + Curved.INCREMENT]
        dx, dy = x - road[o + Curved.X], y - road[o + Curved.Y]
        return (dx * c + dy * si) / du, dy * c - dx * si, c / du, si / du, -si, c

    # where to begin: the nearest knot, as seen from the middle of a bin
    bx, by = int(road[o + Curved.BINS_X]), int(road[o + Curved.BINS_Y])
    i = int(min(max((x - road[o + Curved.BIN_X]) * road[o + Curved.PER_BIN], 0.0), bx - 1.0))
    j = int(min(max((y - road[o + Curved.BIN_Y]) * road[o + Curved.PER_BIN], 0.0), by - 1.0))
    i, j = min(max(i, 0), bx - 1), min(max(j, 0), by - 1)
    k = road[o + int(road[o + Curved.AT_BINS]) + i * by + j]

    n = int(road[o + Curved.KNOTS])
    line = o + int(road[o + Curved.AT_LINE])
    last = n - 1.0
    X, Y, X1, Y1, X2, Y2 = spline(road, line, n, k)
    for _ in range(NEWTON):
        T = X1 * X1 + Y1 * Y1
        g = max(T - (x - X) * X2 - (y - Y) * Y2, 0.1 * T)
        new = min(max(k + ((x - X) * X1 + (y - Y) * Y1) / g, 0.0), last)
        step = abs(new - k)
        k = new
        X, Y, X1, Y1, X2, Y2 = spline(road, line, n, k)
        if step < CONVERGED:
            break
    T = X1 * X1 + Y1 * Y1
    g = max(T - (x - X) * X2 - (y - Y) * Y2, 0.1 * T)
    ahead = (x - X) * X1 + (y - Y) * Y1
    if (k == 0.0 and ahead < 0.0) or (k == last and ahead > 0.0):
        # beyond an end the line goes on straight
        k += ahead / T
        g = T
    r = 1.0 / sqrt(T)
    per = road[o + Curved.PER_KNOT]
    return k * per, ((y - Y) * X1 - (x - X) * Y1) * r, X1 * per / g, Y1 * per / g, -Y1 * r, X1 * r


@inner
def curved(road, o, x, y):
    s, v, sx, sy, vx, vy = foot(road, o, x, y)
    i, t, in_s = cell(s, int(road[o + Curved.ROWS]))

    # the gap between columns: a table knows it or, nearly always, the one before
    m = int(road[o + Curved.COLUMNS])
    right, left = road[o + Curved.RIGHT], road[o + Curved.LEFT]
    in_v = 1.0 if right <= v <= left else 0.0
    v = min(max(v, right), left)
    steps = int(road[o + Curved.STEPS])
    f = min(max(int((v - right) * road[o + Curved.PER_STEP]), 0), steps - 1)
    j = min(max(int(road[o + int(road[o + Curved.AT_FINDER]) + f]), 0), m - 2)
    at = o + int(road[o + Curved.AT_POSITIONS])
    while j < m - 2 and v >= road[at + j + 1]:
        j += 1
    q = (v - road[at + j]) / (road[at + j + 1] - road[at + j])
    w = o + int(road[o + Curved.AT_WEIGHTS]) + 12 * j
    per = 1.0 / (road[at + j + 1] - road[at + j])
    B = (
        road[w] * q + road[w + 1] * q * q + road[w + 2] * q * q * q,
        1.0 + road[w + 3] * q + road[w + 4] * q * q + road[w + 5] * q * q * q,
        road[w + 6] * q + road[w + 7] * q * q + road[w + 8] * q * q * q,
        road[w + 9] * q + road[w + 10] * q * q + road[w + 11] * q * q * q,
        road[w] + 2.0 * road[w + 1] * q + 3.0 * road[w + 2] * q * q,
        road[w + 3] + 2.0 * road[w + 4] * q + 3.0 * road[w + 5] * q * q,
        road[w + 6] + 2.0 * road[w + 7] * q + 3.0 * road[w + 8] * q * q,
        road[w + 9] + 2.0 * road[w + 10] * q + 3.0 * road[w + 11] * q * q,
    )
    z, zs, zq = patchwork(road, o + int(road[o + Curved.AT_HEIGHTS]), m + 2, i, j, weights(t), B)
    zs *= in_s
    zv = zq * per * in_v
    return z, zs * sx + zv * vx, zs * sy + zv * vy


@inner
def within(d, e):
    """1 on the positive side of an edge, 0 on the other; smooth over the width e of the edge."""
    if e == 0.0:
        return 1.0 if d >= 0.0 else 0.0
    w, _ = smoothstep(d / e + 0.5)
    return w


@inner
def paint(road, o, x, y, mu):
    """Friction after a patch."""
    e = road[o + Patch.EDGE]
    n = int(road[o + Patch.STATIONS])
    k = o + Patch.SIZE
    last = k + 3 * (n - 1)
    w = within(x - road[k], e) * within(road[last] - x, e)
    if w == 0.0:
        return mu
    while k < last - 3 and x >= road[k + 3]:
        k += 3
    t = min(max((x - road[k]) / (road[k + 3] - road[k]), 0.0), 1.0)
    right = road[k + 1] + t * (road[k + 4] - road[k + 1])
    left = road[k + 2] + t * (road[k + 5] - road[k + 2])
    w *= within(y - right, e) * within(left - y, e)
    return (1.0 - w) * mu + w * road[o + Patch.FACTOR]


@kernel(types.UniTuple(float64, 4)(CONSTANTS, float64, float64), **_OPTIONS)
def surface(road, x, y):
    """Height, its slopes along x and y, and the friction factor of the road at (x, y)."""
    x, y = min(max(x, -FAR), FAR), min(max(y, -FAR), FAR)
    z = zx = zy = 0.0
    layers = int(road[Head.LAYERS])
    for layer in range(layers):
        kind = int(road[HEAD + 2 * layer])
        o = int(road[HEAD + 2 * layer + 1])
        if kind == Kind.GRID:
            a, ax, ay = grid(road, o, x, y)
        elif kind == Kind.SLOPE:
            a, ax, ay = slope(road, o, x, y)
        elif kind == Kind.BUMP:
            a, ax, ay = bump(road, o, x, y)
        else:
            a, ax, ay = curved(road, o, x, y)
        z, zx, zy = z + a, zx + ax, zy + ay
    mu = road[Head.FRICTION]
    for patch in range(int(road[Head.PATCHES])):
        mu = paint(road, int(road[HEAD + 2 * layers + patch]), x, y, mu)
    return z, zx, zy, mu


@kernel(boolean(CONSTANTS, float64, float64), **_OPTIONS)
def outside(road, x, y):
    """Whether (x, y) is outside the data of a layer that has data, so that its edge is carried on."""
    x, y = min(max(x, -FAR), FAR), min(max(y, -FAR), FAR)
    for layer in range(int(road[Head.LAYERS])):
        kind = int(road[HEAD + 2 * layer])
        o = int(road[HEAD + 2 * layer + 1])
        if kind == Kind.GRID:
            s = (x - road[o + Grid.X]) * road[o + Grid.PER_X]
            t = (y - road[o + Grid.Y]) * road[o + Grid.PER_Y]
            along = road[o + Grid.PERIODIC] != 0.0 or 0.0 <= s <= road[o + Grid.ROWS] - 1.0
            if not (along and 0.0 <= t <= road[o + Grid.COLUMNS] - 1.0):
                return True
        elif kind == Kind.CURVED:
            s, v, _, _, _, _ = foot(road, o, x, y)
            along = 0.0 <= s <= road[o + Curved.ROWS] - 1.0
            if not (along and road[o + Curved.RIGHT] <= v <= road[o + Curved.LEFT]):
                return True
    return False
