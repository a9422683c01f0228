"""All forces on the buggy but gravity and the gyroscopic torque of its wheels: one nopython hook of the multibody core.

Ports, in the order of `PORTS` below (see tandem/multibody/natural/forces.py for the arguments of a hook):

    each wheel   its centre (3) and spin | the basis of its knuckle (9), through which moments act
    each spring  from its lower end to its upper one (3)
    rear axle    spin of both rear wheels
    chassis      centre of gravity (3), its unit vectors (9)
    each axle    both lower ball joints (6), for the anti-roll bar
    all wheels   spin, of a car with a powertrain

Contact. On a road that bends little within a wheel's outline (`Head.SHARP` is 0) the road under a wheel is taken for
the plane that touches it where the wheel stands; on others its whole outline is pressed (tyres/enveloping.py). In the
wheel plane the wheel reaches down along d; l is the way from its centre to the plane along d, R0 - l the deflection.
The normal force

    F_z = k (R0 - l) / cos(gamma) + c v_n >= 0

is the gradient of k (R0 - l)^2 / 2 with respect to the motion of the wheel, camber included, so the spring gives back
what it takes; also of a wheel that lies, whose cosine levels off (`lean`). The tyre (tandem/machines/car/tyres)
makes the forces in the plane from the velocity of the carrier at the contact point; what of its moments turns the wheel
about its axle goes to the spin, the rest to the knuckle.

Behind the states of tyres, brakes and engine the hook leaves the other results of each wheel (`WHEEL` of the
description): they are known only there.
"""

from math import atan2, cos, log, sin, sqrt

import numpy as np

from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy import brakes, driveline, law
from tandem.machines.car.buggy.bodies import BODY_POINTS, Car
from tandem.machines.car.buggy.description import P, V
from tandem.machines.car.buggy.law import ANTI_ROLL, AXLE, AXLES, CHASSIS, DIFFERENTIAL, SPRING, WHEEL_PORTS
from tandem.machines.car.buggy.slots import (
    AXLE_TORQUE,
    BODY,
    BODY_LOAD,
    BRAKE_PARAMETERS,
    BRAKE_SIZE,
    BRAKE_STATES,
    BRAKES,
    DRAG,
    DRIVE,
    DRIVELINE_PARAMETERS,
    DRIVELINE_SIZE,
    ENERGY,
    ENGINE,
    FRAME,
    FRAMES,
    LEFT,
    LIVE,
    PER_WHEEL,
    POWER,
    POWERTRAIN,
    PRESSURE,
    RATIO,
    ROAD,
    STATES,
    THROTTLE,
    TYRE,
    TYRE_OUT,
    TYRES,
)
from tandem.machines.car.powertrain import implicit, layout
from tandem.machines.car.tyres import formula
from tandem.machines.car.tyres.enveloping import DEEPEST, LEAN, LYING, envelope, lean
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.transient import OUT, tyre
from tandem.machines.car.tyres.transient import STATES as TYRE_STATES
from tandem.multibody.ground import surface
from tandem.multibody.ground.layout import Head
from tandem.multibody.natural.elements import turn
from tandem.multibody.natural.tables import FORCE
from tandem.multibody.natural.views import index_within, view
from tandem.multibody.spatial import cross, dot, three

# blocks of the tangents
_WHEEL_BLOCK = 4 * 4 + 9 * 9
_SPRING_BLOCK = 4 * _WHEEL_BLOCK
_AXLE_BLOCK = _SPRING_BLOCK + 4 * 9
_CHASSIS_BLOCK = _AXLE_BLOCK + 4
_ANTI_ROLL_BLOCK = _CHASSIS_BLOCK + 144
_AXLES_BLOCK = _ANTI_ROLL_BLOCK + 2 * 36

# body and roll cage, estimated: tubes that give way by 3 mm to 1 kN, yield, and slide like steel on asphalt
_BODY_STIFFNESS, _BODY_FRICTION = 3e5, 0.5  # N/m of one point, 1
_BODY_YIELD = 0.2  # m; a point never carries more than the stiffness times this, 60 kN
_BODY_DAMPING, _BODY_MOST = 0.6, 3.0  # s/m: of the normal force per speed of closing; and at most this much of it
_BODY_SLIDES = 0.05  # m/s; slower, friction is viscous
_BODY_NEAR, _BODY_STEEP = 0.05, 1.5  # m, 1: what a spline may be above the slopes between its nodes
_BODY_FAR, _BODY_STRIDE = 1.0, 0.05  # m: how far the way out of a wall is looked for, and in which strides
_BODY_CLOSER, _BODY_FOUND = 20, 1e-7  # steps; m


@inner
def contact_arm(reach, an, a, n):
    """From the centre of a wheel to where it touches; its cosines (see `lean`)."""
    upright, cosine, slope = lean(an)
    if upright > LEAN:
        return law.arm_of(reach, cosine, an, a, n)
    # beside the foot of the normal by what the spring is pressed by leaning
    aside = reach * slope * an / sqrt(max(1.0 - an * an, 1e-12))
    down = reach * cosine + aside * an
    return aside * a[0] - down * n[0], aside * a[1] - down * n[1], aside * a[2] - down * n[2]


# long: one wheel from contact to forces, in the order a reader follows it
@inner
def wheel(w, h, x, xd, live, params, states, after, f, K, C):
    """Contact, tyre and brake of one wheel; energy in its spring and the power it gives."""
    at = WHEEL_PORTS * w
    frame = FRAMES + FRAME * w
    basis, basis_rate = view(x, at + 4, at + 13), view(xd, at + 4, at + 13)
    metric = view(params, frame, frame + 9)
    centre, velocity, spin = three(x, at), three(xd, at), xd[at + 3]

    # the axle, how it turns, and the turning of the knuckle about it
    a, b = law.axle_of(params, w, x), law.axle_of(params, w, xd)
    side = 1.0 if w % 2 == 0 else -1.0
    toe = live[P.front_toe_in] if w < 2 else live[P.rear_toe_in]
    if toe != 0.0:
        ct, st = cos(toe), -side * sin(toe)
        a = ct * a[0] - st * a[1], st * a[0] + ct * a[1], a[2]
        b = ct * b[0] - st * b[1], st * b[0] + ct * b[1], b[2]
    own = law.turning_about(a, basis, metric, basis_rate)
    omega = cross(a, b)

    # the road: first below the centre, then where the wheel touches
    road = view(params, ROAD, len(params))
    tyre_at = TYRES + TYRE * (w // 2)
    p = view(params, tyre_at, tyre_at + TYRE)
    px, py = centre[0], centre[1]
    n = d = more_moment = (0.0, 0.0, 0.0)
    an = upright = cosine = stands = reach = 0.0
    mu = 1.0
    sharp = road[Head.SHARP] > 0.0
    spring_load = stored = gives = 0.0
    free, stiffness = p[T.UNLOADED_RADIUS], 0.0
    if sharp:
        stiffness = formula.stiffness(p)
        depth, gx, gy, gz, mx, my, mz, mu = envelope(
            road, free, stiffness, centre[0], centre[1], centre[2], a[0], a[1], a[2]
        )
        spring_load = sqrt(gx * gx + gy * gy + gz * gz)
        n = (0.0, 0.0, 1.0)
        if spring_load > 0.0:
            n = gx / spring_load, gy / spring_load, gz / spring_load
        an = dot(a, n)
        upright, cosine, stands = lean(an)
        stored = 0.5 * stiffness * depth * depth
        gives = gx * xd[at] + gy * xd[at + 1] + gz * xd[at + 2] + mx * omega[0] + my * omega[1] + mz * omega[2]
        reach = free - min(depth, DEEPEST * free)
        d = contact_arm(reach, an, a, n)
        # what the moment of the elastic force is beyond that about the point where friction acts
        more_moment = mx - d[1] * gz + d[2] * gy, my - d[2] * gx + d[0] * gz, mz - d[0] * gy + d[1] * gx
    for _ in range(0 if sharp else 2):
        pz, slope_x, slope_y, mu = surface(road, px, py)
        n = law.normal_of(slope_x, slope_y)
        an = dot(a, n)
        upright, cosine, stands = lean(an)
        reach = law.reach_to(centre, px, py, pz, n, cosine)
        d = contact_arm(reach, an, a, n)
        px, py = centre[0] + d[0], centre[1] + d[1]

    # velocity of the carrier where the wheel touches, in the axes of the contact
    v = law.carried(velocity, omega, d)
    t, s = law.contact_axes(a, n, upright)
    along, across = dot(v, t), dot(v, s)
    closing = -dot(v, n)
    turns = dot(omega, n)
    trail = live[P.caster_trail] if w < 2 else 0.0
    if trail != 0.0:
        across -= trail * turns

    # normal force
    if not sharp:
        free = formula.free_radius(p, spin)
    deflection = free - reach
    if not sharp:
        push, stiffness, stored = formula.spring(p, deflection, spin)
        spring_load = law.along_normal(push, cosine)
        gives = -max(spring_load, 0.0) * closing
    load = spring_load + p[T.VERTICAL_DAMPING] * closing
    touches = deflection > 0.0 and load > 0.0
    if not touches:
        load = 0.0
    # thrust and moments of camber are those of a tyre that stands on its tread
    camber = atan2(an, upright)
    effective = camber if upright > LEAN else stands * camber

    # tyre
    radius = formula.rolling_radius(p, max(deflection, 0.0), load, spin)
    beyond = radius - reach
    if upright <= LEAN:
        # what a wheel that lies drags along the road is nearer to its axle; slip and torque must have the same arm
        c = sqrt(max(1.0 - an * an, 1e-12))
        nearer = c * (cosine * c + stands * an * an) / upright
        beyond, radius = beyond * nearer, radius * nearer
    out = view(after, TYRE_OUT, STATES)
    mu *= live[P.grip]
    turning = live[P.turn_slip] > 0.5 or p[T.TURN_SLIP] > 0.0
    at_tyre = TYRE_STATES * w
    tyre(p, states, after, at_tyre, h, load, along, across, spin, radius, effective, mu, side, turning, turns, out)
    Fx, Fy, Mx, My, Mz = out[OUT.FX], out[OUT.FY], out[OUT.MX], out[OUT.MY], out[OUT.MZ]
    if upright <= LEAN:
        Mx, Mz = stands * Mx, stands * Mz
    # slip counts by the rolling radius, the force has the loaded one for its arm: without this moment power is made. It
    # is along the axle: across it, it would work on the knuckle
    more = -beyond * Fx
    damp_x, damp_y = out[OUT.CX], out[OUT.CY]
    g = law.contact_force(n, t, s, load, Fx, Fy)
    rub = 0.0
    if an * an > 1.0 - LYING * LYING:
        # on its flank the tyre has no direction to roll in, and rubs like the body
        rolled = cross(a, d)
        u = v[0] + spin * rolled[0], v[1] + spin * rolled[1], v[2] + spin * rolled[2]
        un = dot(u, n)
        u = u[0] - un * n[0], u[1] - un * n[1], u[2] - un * n[2]
        flank = 1.0 - (1.0 - an * an) / (LYING * LYING)
        rub = _BODY_FRICTION * mu * load * flank / sqrt(dot(u, u) + _BODY_SLIDES * _BODY_SLIDES)
        g = g[0] - rub * u[0], g[1] - rub * u[1], g[2] - rub * u[2]
    h_ = law.contact_moment(n, t, s, d, a, g, Mx, My, Mz, more)
    if sharp and touches:
        h_ = h_[0] + more_moment[0], h_[1] + more_moment[1], h_[2] + more_moment[2]

    # brake, against the knuckle
    b = view(live, BRAKE_PARAMETERS, BRAKE_PARAMETERS + BRAKE_SIZE)
    limit = brakes.friction_limit(b, w < 2, live[PRESSURE + w])
    inertia = live[P.wheel_spin_inertia]
    braking, damp_spin = brakes.brake(b, limit, states, after, BRAKES + BRAKE_STATES * w, h, spin - own, inertia)
    back = dot(h_, a) + braking
    f[at], f[at + 1], f[at + 2], f[at + 3] = g[0], g[1], g[2], back
    if trail != 0.0:
        # wheel and contact stand behind where they are drawn: the knuckle, not the wheel, has the forces' moment
        aside = cross(t, g)
        h_ = h_[0] - trail * aside[0], h_[1] - trail * aside[1], h_[2] - trail * aside[2]
    turn(basis, metric, h_[0] - back * a[0], h_[1] - back * a[1], h_[2] - back * a[2], view(f, at + 4, at + 13))

    # tangent: normal stiffness and damping, slip against velocity and spin
    block = _WHEEL_BLOCK * w
    stiff = stiffness / (cosine * cosine) if touches else 0.0
    damp = p[T.VERTICAL_DAMPING] if touches else 0.0
    none = radius - radius  # of the kind that they are
    n4, t4, s4 = (n[0], n[1], n[2], none), (t[0], t[1], t[2], -radius), (s[0], s[1], s[2], none)
    for i in range(4):
        for j in range(4):
            K[block + 4 * i + j] = stiff * n4[i] * n4[j]
            C[block + 4 * i + j] = (damp - rub) * n4[i] * n4[j] + damp_x * t4[i] * t4[j] + damp_y * s4[i] * s4[j]
        if i < 3:
            C[block + 5 * i] += rub
    C[block + 15] += damp_spin

    left = LEFT + PER_WHEEL * w
    after[left + V.wheel_speed] = spin
    after[left + V.rolling_radius] = radius
    after[left + V.speed] = along
    after[left + V.slip] = out[OUT.KAPPA]
    after[left + V.slip_angle] = out[OUT.ALPHA]
    after[left + V.camber] = camber
    after[left + V.load] = load
    after[left + V.force_x] = Fx
    after[left + V.force_y] = Fy
    after[left + V.overturning] = Mx
    after[left + V.rolling] = My + more
    after[left + V.aligning] = Mz
    after[left + V.brake_torque] = braking
    return stored, gives


@inner
def spring(w, x, xd, live, params, after, f, K, C):
    """Spring, damper and stops of one wheel; energy in the stops and the power they give."""
    at, block, left = SPRING + 3 * w, _SPRING_BLOCK + 9 * w, LEFT + PER_WHEEL * w
    front = w < 2
    length, u, speed = law.spring_line(three(x, at), three(xd, at))
    push = law.spring_push(front, live, params, length, speed)
    rate, damp = law.rate_and_damping(front, live, speed)
    low, pressed, high, extended = law.stops(front, live, params, length)
    apart, stop = law.bumper(low, pressed)
    together, stop_too = law.bumper(high, extended)
    if extended > 0.0:
        stop = stop_too
    elif not pressed > 0.0:
        stop = 0.0
    for i in range(3):
        f[at + i] = push * u[i]
        for j in range(3):
            K[block + 3 * i + j] = (rate + stop) * u[i] * u[j]
            C[block + 3 * i + j] = damp * u[i] * u[j]
    after[left + V.spring_length] = length
    after[left + V.spring_force] = push
    return law.bumper_energy(low, pressed) + law.bumper_energy(high, extended), (apart - together) * speed


@inner
def rear_axle(h, xd, live, states, after, f, C):
    """The driveline turns the rear wheels and holds on to the chassis."""
    p = view(live, DRIVELINE_PARAMETERS, DRIVELINE_PARAMETERS + DRIVELINE_SIZE)
    speed = 0.5 * (xd[AXLE] + xd[AXLE + 1])
    torque, damp = driveline.driveline(p, live[THROTTLE], live[DRIVE], live[RATIO], states, after, ENGINE, h, speed)
    f[AXLE] += 0.5 * torque
    f[AXLE + 1] += 0.5 * torque
    for i in range(4):
        C[_AXLE_BLOCK + i] = 0.25 * damp
    apart = xd[AXLE] - xd[AXLE + 1]
    lock = law.coupling(live, DIFFERENTIAL, torque, speed, apart)
    if lock > 0.0:
        between = lock * apart
        f[AXLE] -= between
        f[AXLE + 1] += between
        for i in range(4):
            C[_AXLE_BLOCK + i] += lock if i in (0, 3) else -lock
    after[AXLE_TORQUE] = torque
    return torque


@inner
def all_axles(h, xd, live, states, after, f, C):
    """As `rear_axle`, of a car with a powertrain: torque on all wheels, and a differential in both axles."""
    w = xd[AXLES], xd[AXLES + 1], xd[AXLES + 2], xd[AXLES + 3]
    front, rear = implicit.axles(
        live, LIVE, live[DRIVE], live[RATIO], h, w, states, after, POWERTRAIN, f, C, AXLES, _AXLES_BLOCK
    )  # fmt: skip
    after[ENGINE], after[ENGINE + 1], after[AXLE_TORQUE] = states[ENGINE], states[ENGINE + 1], rear
    for axle in range(2):
        at = LIVE + layout.OF_FRONT_AXLE if axle == 0 else DIFFERENTIAL
        left, right = xd[AXLES + 2 * axle], xd[AXLES + 2 * axle + 1]
        lock = law.coupling(live, at, front if axle == 0 else rear, 0.5 * (left + right), left - right)
        if lock > 0.0:
            ahead, behind = (1.0, 0.0) if axle == 0 else (0.0, 1.0)
            share = ahead, -ahead, behind, -behind
            implicit.put(f, C, AXLES, _AXLES_BLOCK, share, -lock * (left - right), lock)
    return front + rear


@inner
def chassis(xd, x, live, params, after, f, torque):
    """Drag at the centre of gravity; the reaction to the drive."""
    e1 = three(x, CHASSIS + 6)
    g, pitch, after[DRAG] = law.air(live, three(xd, CHASSIS), three(x, CHASSIS + 3), three(x, CHASSIS + 9))
    f[CHASSIS], f[CHASSIS + 1], f[CHASSIS + 2] = g
    torque -= pitch
    turn_chassis(x, params, f, (-torque * e1[0], -torque * e1[1], -torque * e1[2]))


@kernel(error_model="numpy")
def point_load(depth):
    """Force on a point of the body so deep in the road, and its stiffness."""
    give = 1.0 / (1.0 + depth / _BODY_YIELD) if depth > 0.0 else 0.0
    return _BODY_STIFFNESS * depth * give, _BODY_STIFFNESS * give * give


@kernel(error_model="numpy")
def point_energy(depth):
    """What `point_load` took to get there."""
    if depth <= 0.0:
        return 0.0
    return _BODY_STIFFNESS * _BODY_YIELD * (depth - _BODY_YIELD * log(1.0 + depth / _BODY_YIELD))


@kernel(error_model="numpy")
def exit_along(road, px, py, pz, ux, uy):
    """How far from a point in the road the open is along a level direction, and the slopes of the road there; at most
    `_BODY_FAR`."""
    inside, outside, below = 0.0, 0.0, 0.0
    z = zx = zy = 0.0
    while outside < _BODY_FAR:
        inside, outside = outside, outside + _BODY_STRIDE
        z, zx, zy, _ = surface(road, px + outside * ux, py + outside * uy)
        below = pz - z
        if below > 0.0:
            break
    if below <= 0.0:
        return _BODY_FAR, 0.0, 0.0
    at = outside
    for _ in range(_BODY_CLOSER):
        # Newton's rule inside the bracket, else its middle
        slope = zx * ux + zy * uy
        following = at + below / slope if slope < 0.0 else inside
        if not inside < following < outside:
            following = 0.5 * (inside + outside)
        near = abs(following - at) < _BODY_FOUND
        at = following
        z, zx, zy, _ = surface(road, px + at * ux, py + at * uy)
        below = pz - z
        if near:
            break
        if below > 0.0:
            outside = at
        else:
            inside = at
    return min(at, _BODY_FAR), zx, zy


@kernel(error_model="numpy")
def depth_inside(road, px, py, pz, D, zx, zy):
    """How deep a point is in a road with edges, D below its surface there; and the gradient of that.

    d^-2 = D^-2 + the sum of s^-2, s the ways out along both axes: on a plane, however steep, the distance to it; beside
    a wall nearly that to the wall; smooth where the nearest way out becomes another one. So a point that is pushed into
    a wall finds the force of a yielding body, not that of the height above it, and its energy is continuous.
    """
    total = 1.0 / (D * D)
    w = total / D
    gx, gy, gz = w * zx, w * zy, -w
    for i in range(4):
        ux, uy = (1.0 - i, 0.0) if i % 2 == 0 else (0.0, 2.0 - i)
        s, ex, ey = exit_along(road, px, py, pz, ux, uy)
        slope = ex * ux + ey * uy
        if s >= _BODY_FAR or slope >= 0.0:
            continue
        s = max(s, _BODY_FOUND)
        total += 1.0 / (s * s) - 1.0 / (_BODY_FAR * _BODY_FAR)
        w = -1.0 / (s * s * s * slope)
        gx, gy, gz = gx + w * ex, gy + w * ey, gz - w
    d = 1.0 / sqrt(total)
    w = d * d * d
    return d, w * gx, w * gy, w * gz


@inner
def body(x, xd, params, after, f, K, C):
    """Body and roll cage on the road: springs that press on points of the chassis, and friction there. Energy in the
    springs and the power they give."""
    after[BODY_LOAD] = stored = gives = 0.0
    road = view(params, ROAD, len(params))
    cx, cy, cz = x[CHASSIS], x[CHASSIS + 1], x[CHASSIS + 2]
    below, _, _, _ = surface(road, cx, cy)
    steep = _BODY_STEEP * road[Head.STEEPEST]
    for k in range(BODY_POINTS):
        at = BODY + 3 * k
        a, b, c = params[at], params[at + 1], params[at + 2]
        pz = cz + a * x[CHASSIS + 5] + b * x[CHASSIS + 8] + c * x[CHASSIS + 11]
        px = cx + a * x[CHASSIS + 3] + b * x[CHASSIS + 6] + c * x[CHASSIS + 9]
        py = cy + a * x[CHASSIS + 4] + b * x[CHASSIS + 7] + c * x[CHASSIS + 10]
        if pz > below + _BODY_NEAR + steep * (abs(px - cx) + abs(py - cy)):
            continue  # above anything that the road can climb to from here: its height is not asked for
        z, slope_x, slope_y, mu = surface(road, px, py)
        if pz >= z:
            continue
        # the gradient of an energy of the depth in the road: what a point is pushed into it takes what it then gives
        depth, gx, gy, gz = z - pz, slope_x, slope_y, -1.0
        if road[Head.SHARP] > 0.0:
            depth, gx, gy, gz = depth_inside(road, px, py, pz, depth, slope_x, slope_y)
        size = sqrt(gz * gz + gx * gx + gy * gy)
        nx, ny, nz = -gx / size, -gy / size, -gz / size
        force, stiff = point_load(depth)
        press = force * size
        vx = xd[CHASSIS] + a * xd[CHASSIS + 3] + b * xd[CHASSIS + 6] + c * xd[CHASSIS + 9]
        vy = xd[CHASSIS + 1] + a * xd[CHASSIS + 4] + b * xd[CHASSIS + 7] + c * xd[CHASSIS + 10]
        vz = xd[CHASSIS + 2] + a * xd[CHASSIS + 5] + b * xd[CHASSIS + 8] + c * xd[CHASSIS + 11]
        closing = -(vx * nx + vy * ny + vz * nz)
        more = min(max(1.0 + _BODY_DAMPING * closing, 0.0), _BODY_MOST)
        load = press * more
        stored, gives = stored + point_energy(depth), gives - press * closing
        sx, sy, sz = vx + closing * nx, vy + closing * ny, vz + closing * nz
        drag = _BODY_FRICTION * mu * load / sqrt(sx * sx + sy * sy + sz * sz + _BODY_SLIDES * _BODY_SLIDES)
        F = (load * nx - drag * sx, load * ny - drag * sy, load * nz - drag * sz)
        n, w = (nx, ny, nz), (1.0, a, b, c)
        stiff *= size * size * more
        damp = (press * _BODY_DAMPING if 0.0 < more < _BODY_MOST else 0.0) - drag
        after[BODY_LOAD] += load
        for i in range(4):
            for j in range(3):
                row = 3 * i + j
                f[CHASSIS + row] += w[i] * F[j]
                for k2 in range(4):
                    for m in range(3):
                        place = _CHASSIS_BLOCK + 12 * row + 3 * k2 + m
                        ww = w[i] * w[k2]
                        K[place] += ww * stiff * n[j] * n[m]
                        C[place] += ww * (damp * n[j] * n[m] + (drag if j == m else 0.0))
    return stored, gives


@inner
def push(x, live, params, f):
    """A hand on the car: a force on the chassis or on a wheel, a torque on the chassis."""
    body = index_within(live[P.push_body] + 0.5, 0, 4)
    at = CHASSIS if body == 0 else WHEEL_PORTS * (body - 1)
    f[at] += live[P.push_x]
    f[at + 1] += live[P.push_y]
    f[at + 2] += live[P.push_z]
    e0, e1, e2 = three(x, CHASSIS + 3), three(x, CHASSIS + 6), three(x, CHASSIS + 9)
    turn_chassis(x, params, f, law.rotated_by(live[P.push_roll], live[P.push_pitch], live[P.push_yaw], e0, e1, e2))


@inner
def turn_chassis(x, params, f, m):
    basis = view(x, CHASSIS + 3, CHASSIS + 12)
    metric = view(params, FRAMES + 4 * FRAME, FRAMES + 4 * FRAME + 9)
    turn(basis, metric, m[0], m[1], m[2], view(f, CHASSIS + 3, CHASSIS + 12))


@inner
def anti_roll(axle, rate, x, params, f, K):
    """A bar between both lower ball joints: k times the difference of their heights in the chassis."""
    block = _ANTI_ROLL_BLOCK + 36 * axle
    up, d = three(x, CHASSIS + 9), law.between_ends(x, axle)
    pull, m = law.couple(rate * dot(up, d), up, d)
    add_couple(f, axle, pull)
    u = (up[0], up[1], up[2], -up[0], -up[1], -up[2])
    for i in range(6):
        for j in range(6):
            K[block + 6 * i + j] = rate * u[i] * u[j]
    turn_chassis(x, params, f, m)


@inner
def add_couple(f, axle, pull):
    at = ANTI_ROLL + 6 * axle
    for i in range(3):
        f[at + i] -= pull[i]
        f[at + 3 + i] += pull[i]


@inner
def roll_centre(axle, higher, x, params, after, f):
    """Of the axle's lateral force, what goes from wheels to chassis past the springs by a higher roll centre: a couple
    of forces at the lower ball joints and, opposite, at the chassis."""
    left = LEFT + PER_WHEEL * 2 * axle
    up, d = three(x, CHASSIS + 9), law.between_ends(x, axle)
    apart = sqrt(max(dot(d, d), 1e-6))
    pull, m = law.couple(-higher * (after[left + V.force_y] + after[left + PER_WHEEL + V.force_y]) / apart, up, d)
    add_couple(f, axle, pull)
    turn_chassis(x, params, f, m)


@kernel(FORCE, error_model="numpy")
def hook(t, h, x, xd, inputs, live, params, states, after, f, K, C):
    stored = gives = 0.0
    for w in range(4):
        in_tyre, by_tyre = wheel(w, h, x, xd, live, params, states, after, f, K, C)
        in_stop, by_stop = spring(w, x, xd, live, params, after, f, K, C)
        stored, gives = stored + in_tyre + in_stop, gives + by_tyre + by_stop
    if len(live) > LIVE:
        torque = all_axles(h, xd, live, states, after, f, C)
    else:
        torque = rear_axle(h, xd, live, states, after, f, C)
    chassis(xd, x, live, params, after, f, torque)
    in_body, by_body = body(x, xd, params, after, f, K, C)
    after[ENERGY], after[POWER] = stored + in_body, gives + by_body
    push(x, live, params, f)
    if live[P.front_anti_roll] > 0.0:
        anti_roll(0, live[P.front_anti_roll], x, params, f, K)
    if live[P.rear_anti_roll] > 0.0:
        anti_roll(1, live[P.rear_anti_roll], x, params, f, K)
    if live[P.front_roll_centre] != 0.0:
        roll_centre(0, live[P.front_roll_centre], x, params, after, f)
    if live[P.rear_roll_centre] != 0.0:
        roll_centre(1, live[P.rear_roll_centre], x, params, after, f)


inner_hook = inner(hook.py_func)  # for other kinds of numbers: tangent.py


def add_forces(car: Car, numbers: np.ndarray, live: np.ndarray, powered: bool = False) -> None:
    """Give the mechanism its forces: `numbers` are the hook's constants, `live` what else it reads in a step; with a
    powertrain, that of the powertrain behind it."""
    states = STATES
    if powered:
        live, states = np.concatenate([live, np.zeros(layout.LIVE)]), STATES + len(layout.LEFT)
    m = car.mechanism
    for k, corner in enumerate(car.corners):
        ports = [corner.centre, corner.spin]
        if k == 0:  # all the hook's states and numbers are those of its first force
            m.model_force(f"{corner.name} contact", ports, states=states, data=numbers, live=live)
        else:
            m.model_force(f"{corner.name} contact", ports)
        m.model_force(f"{corner.name} moments", corner.knuckle.basis)
    for corner in car.corners:
        m.model_force(f"{corner.name} spring", [corner.spring])
    m.model_force("rear axle", [corner.spin for corner in car.corners[2:]])
    m.model_force("chassis", [car.centre, *car.chassis.basis])
    for k, name in enumerate(("front", "rear")):
        m.model_force(f"{name} anti-roll", [corner.lower for corner in car.corners[2 * k : 2 * k + 2]])
    if powered:
        m.model_force("all wheels", [corner.spin for corner in car.corners])


def frames(car: Car) -> np.ndarray:
    """Reciprocal metric of each knuckle's basis and its axle in it; that of the chassis."""
    parts = []
    for corner in car.corners:
        parts += [corner.knuckle.metric.ravel(), corner.knuckle.components(corner.axle)]
    return np.concatenate([*parts, car.chassis.metric.ravel()])
