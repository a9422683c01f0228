"""Contact of a tyre with a road that bends within its own outline: kerbs, potholes, cobbles.

The part of the road under the wheel, along the wheel plane, presses on the tyre wherever it is inside the outline, a
circle of radius R about the wheel's centre. With p the depth of a point of the road inside it, s the way along,

    A = integral of p^3 ds,      V = k d^2 / 2,      d the depth of the plane that would have the same A

is the energy of the tyre, and its force is the gradient of V with respect to the motion of the wheel. So contact
neither makes nor takes energy, whatever the road: a kerb slows the car down by what it lifts it. On a plane d is the
deflection, and the force that of the linear spring, to a hundredth; on an edge the tyre is softer, as tyres are; where
it touches in two places it is stiffer. The exponent is that with which steps of up to 5 cm take the force they take by
two elliptical cams in tandem (`python -m verify kerbs`). The force acts along its own line towards the centre:
slip is counted in the plane square to it. (Why so and not otherwise: docs/decisions/0037.)

The integral is a sum over `SAMPLES` points which move along with the wheel, and the force the gradient of that sum, so
that energy is kept however coarse they are. As soon as the outline reaches a place where the road bends between them
(`BENT`), which is before the tyre touches it, the sum has `FINER` times as many: an edge passes through them evenly.

Symbols: c centre, a axle (unit, to the left), R unloaded radius, k stiffness, H height of the centre over a point of
the road in the wheel plane, rho its distance from the centre.
"""

from math import sqrt

from sync.compile.jit import inner, kernel
from tandem.multibody.ground import surface

OPTIONS = {"error_model": "numpy"}  # a division by zero is no exception

SAMPLES = 48
BENT, FINER = 0.08, 16  # m per m: how much the slope may change from a point to the next; as many points where it does
FLAT = 0.1  # of R: deeper than this under the centre, p goes on along its tangent
DEEPEST = 0.85  # of R
STEPS = 8
LYING = 0.3  # no smaller cosine of the lean is reckoned with for directions in the road
LEAN, LEAN_WIDTH = 0.7, 0.5  # cosine of the lean from which a wheel stands less and less on its tread; over which

# A of a plane of depth x R, R^4 times C0 x^3.5 (1 + C1 x + ...); to 5e-4 up to x = 0.85
C0 = 1.29299526  # 32 sqrt(2) / 35
C1, C2, C3, C4 = -0.41235598, -0.12975559, 0.08316127, -0.13797105


@inner
def plane(x):
    """A of a plane of depth x, and its slope, both for R = 1."""
    power = C0 * x * x * sqrt(x)
    value = power * x * (1.0 + x * (C1 + x * (C2 + x * (C3 + x * C4))))
    slope = power * (3.5 + x * (4.5 * C1 + x * (5.5 * C2 + x * (6.5 * C3 + x * 7.5 * C4))))
    return value, slope


@inner
def cube_root(x):
    """Of x >= 1, by Newton's rule from above: a power that is not whole has other bits in other libraries."""
    y = sqrt(x)
    for _ in range(100):
        lower = (2.0 * y + x / (y * y)) / 3.0
        if lower >= y:
            break
        y = lower
    return y


@inner
def depth(A):
    """x and dA/dx of the plane with this A, both for R = 1: Newton's rule on A^(1/4), which is nearly straight."""
    value, slope = plane(DEEPEST)
    if value < A:
        # from here x grows by the cube root, as A does by the cube of p: in a wall the spring goes on being linear
        root = cube_root(A / value)
        return DEEPEST + 3.0 * value / slope * (root - 1.0), slope * root * root
    wanted = sqrt(sqrt(A))
    x = min(wanted, DEEPEST)
    for _ in range(STEPS):
        value, slope = plane(x)
        root = sqrt(sqrt(value))
        step = 4.0 * (wanted - root) * value / (root * slope)
        x = min(max(x + step, 0.1 * x), DEEPEST)
        if abs(step) < 1e-12:
            break
    return x, plane(x)[1]


@kernel(**OPTIONS)
def lean(an):
    """Of a wheel whose axle has this component along the normal of the road: cosine of its lean, not below LYING; the
    cosine its spring has; and the derivative of the latter.

    The spring's is the former down to LEAN, then levels off: a wheel that lies stands on its flank, and how it leans
    makes no difference to how far its spring is pressed. Force and moment are the derivatives of the same energy.
    """
    upright = sqrt(max(1.0 - an * an, LYING * LYING))
    if upright > LEAN:
        return upright, upright, 1.0
    beyond = min(LEAN - sqrt(max(1.0 - an * an, 0.0)), LEAN_WIDTH)
    return upright, LEAN - beyond + 0.5 * beyond * beyond / LEAN_WIDTH, 1.0 - beyond / LEAN_WIDTH


@kernel(**OPTIONS)
def pressed(road, R, cosine, cz, bx, by, tx, ty, ds, count):
    """Sums over `count` points of the road, `ds` apart along t, half of them ahead: A; its derivative by the motion of
    the wheel (3); those of g zx s, g zy s and g H; friction and its weight. Then the highest of them, and by how much
    a way from a point to the next one rises otherwise than the way before, at most.
    """
    arm = 1.0 / cosine
    least, first = FLAT * R, 0.5 * (1.0 - count) * ds
    A = fx = fy = fz = friction = weight = 0.0
    along_x = along_y = height = bend = before = rose = 0.0
    top = -1e30
    for i in range(count):
        s = first + i * ds
        z, zx, zy, mu = surface(road, bx + s * tx, by + s * ty)
        rises = z - before
        if i > 1:
            bend = max(bend, abs(rises - rose), abs(rises - (zx * tx + zy * ty) * ds))
        before, rose, top = z, rises, max(top, z)
        H = above = (cz - z) * arm
        over = 0.0
        if least > H:
            over, H = least - H, least
        elif s * s + H * H >= R * R:
            continue
        rho = sqrt(s * s + H * H)
        p = R - rho + over * H / rho
        if p > 0.0:
            square = p * p * ds
            A += p * square
            g = 3.0 * square * H / rho * arm
            fx, fy, fz = fx - g * zx, fy - g * zy, fz + g
            along_x, along_y, height = along_x + g * zx * s, along_y + g * zy * s, height + g * above
            friction, weight = friction + square * mu, weight + square
    return A, fx, fy, fz, along_x, along_y, height, friction, weight, top, bend


@kernel(**OPTIONS)
def envelope(road, R, k, cx, cy, cz, ax, ay, az):
    """Deflection, elastic force (3), its moment about the centre (3), friction factor; no force where nothing touches.

    The moment is that of the same energy: -a x dV/da, a being the axle.
    """
    upright, cosine, slope = lean(az)
    tx, ty = ay / upright, -ax / upright
    bx, by = cx + R * az * ax / upright, cy + R * az * ay / upright  # where a leaning wheel reaches
    ds = 2.0 * R / (SAMPLES - 2)
    A, fx, fy, fz, along_x, along_y, height, friction, weight, top, bend = pressed(
        road, R, cosine, cz, bx, by, tx, ty, ds, SAMPLES
    )
    if bend > BENT * ds:
        # as far as the outline is below the highest point, and a little more for what is between the points
        H = max((cz - top) / cosine, 0.0)
        cells, reach = 0.5 * SAMPLES, sqrt(max(R * R - H * H, 0.0)) / ds + 2.0
        if reach < cells:  # noqa: PLR1730  NaN is not less: it must not become a count
            cells = reach
        A, fx, fy, fz, along_x, along_y, height, friction, weight, _, _ = pressed(
            road, R, cosine, cz, bx, by, tx, ty, ds / FINER, 2 * FINER * int(cells)
        )
    if A == 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0
    size = R * R * R * R
    x, steep = depth(A / size)
    push = k * x * R * R / (size * steep)

    # dV/da: the road points move with the axle, and the heights over them
    aside = -(ax * fx + ay * fy)
    upright_rate = -az / upright if upright > LYING else 0.0  # by az
    leaning = -az / sqrt(max(1.0 - az * az, 1e-12)) * slope
    vx = push * (-R * az * fx - along_y) / upright
    vy = push * (-R * az * fy + along_x) / upright
    turning = upright_rate * (R * az * aside + ay * along_x - ax * along_y) / (upright * upright)
    vz = push * (R * aside / upright - turning)
    vz += push * leaning * height
    mx, my, mz = az * vy - ay * vz, ax * vz - az * vx, ay * vx - ax * vy
    return x * R, push * fx, push * fy, push * fz, mx, my, mz, friction / weight
