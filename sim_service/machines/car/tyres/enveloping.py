"""Contact of a tyre with a road that bends within its own outline: kerbs, potholes, cobbles.

The part of the road under the wheel, along the wheel plane, presses on the tyre wherever it is inside the outline, a
circle of radius R about the wheel's centre. With p the depth of a point of the road inside it, s the way along,

    A = integral of p^(3/2) ds,      V = k d^2 / 2,      d the depth of the plane that would have the same A

is the energy of the tyre, and its force is the gradient of V with respect to the motion of the wheel. So contact
neither makes nor takes energy, whatever the road: a kerb slows the car down by what it lifts it. On a plane d is the
deflection, and the force that of the linear spring, to a hundredth; on an edge the tyre is softer, as tyres are;
where it touches in two places it has two springs. The force acts along its own line towards the centre: slip is counted
in the plane square to it. (Why so and not otherwise: docs/decisions/0037.)

The integral is a sum over `SAMPLES` points which move along with the wheel, and the force the gradient of that sum, so
that energy is kept however coarse they are; ramps shorter than their distance make the force uneven.

Symbols: c centre, a axle (unit, to the left), R unloaded radius, k stiffness, H height of the centre over a point of
the road in the wheel plane, rho its distance from the centre.
"""

from math import sqrt

from sim_service.roads import surface
from sync.jit import inner, kernel

OPTIONS = {"error_model": "numpy"}  # a division by zero is no exception

SAMPLES = 48
FLAT = 0.1  # of R: deeper than this under the centre, p goes on along its tangent
DEEPEST = 0.85  # of R
STEPS = 8
LYING = 0.3  # no smaller cosine of the lean is reckoned with for directions in the road
LEAN, LEAN_WIDTH = 0.7, 0.5  # cosine of the lean from which a wheel stands less and less on its tread; over which

# A of a plane of depth x R, R^2.5 times C0 x^2 (1 + C1 x + ...); to 3e-4 up to x = 0.85
C0 = 1.6660811  # 3 pi sqrt(2) / 8
C1, C2, C3, C4 = -0.3737734, -0.0876762, 0.02441744, -0.07352367


@inner
def depth(A):
    """x and dI/dx of the plane with this A, both for R = 1."""
    x = min(sqrt(A / C0), DEEPEST)
    slope = 1.0
    for _ in range(STEPS):
        value = C0 * x * x * (1.0 + x * (C1 + x * (C2 + x * (C3 + x * C4))))
        slope = C0 * x * (2.0 + x * (3.0 * C1 + x * (4.0 * C2 + x * (5.0 * C3 + x * 6.0 * C4))))
        step = (A - value) / slope
        x = min(x + step, DEEPEST)
        if abs(step) < 1e-12:
            break
    if x == DEEPEST:
        # on along the tangent, so that force and energy go on together
        value = C0 * x * x * (1.0 + x * (C1 + x * (C2 + x * (C3 + x * C4))))
        x += max(A - value, 0.0) / slope
    return x, slope


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
def envelope(road, R, k, cx, cy, cz, ax, ay, az):
    """Deflection, elastic force (3), its moment about the centre (3), friction factor; no force where nothing touches.

    The moment is that of the same energy: -a x dV/da, a being the axle.
    """
    upright, cosine, slope = lean(az)
    tx, ty = ay / upright, -ax / upright
    bx, by = cx + R * az * ax / upright, cy + R * az * ay / upright  # where a leaning wheel reaches
    ds = 2.0 * R / SAMPLES
    arm = 1.0 / cosine
    least = FLAT * R
    A = fx = fy = fz = friction = weight = 0.0
    along_x = along_y = height = 0.0  # of the sums of g zx s, g zy s, g H
    for i in range(SAMPLES):
        s = (i + 0.5) * ds - R
        z, zx, zy, mu = surface(road, bx + s * tx, by + s * ty)
        H = (cz - z) / cosine
        over, above = 0.0, H
        if least > H:
            over, H = least - H, least
        rho = sqrt(s * s + H * H)
        p = R - rho + over * H / rho
        if p > 0.0:
            root = sqrt(p)
            A += p * root * ds
            g = 1.5 * root * ds * H / rho * arm
            fx, fy, fz = fx - g * zx, fy - g * zy, fz + g
            along_x, along_y, height = along_x + g * zx * s, along_y + g * zy * s, height + g * above
            friction, weight = friction + root * mu, weight + root
    if A == 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0
    size = R * R * sqrt(R)
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
