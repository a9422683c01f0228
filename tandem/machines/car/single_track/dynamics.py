"""The motion of the single-track car: a rigid body in the plane, two axles, tyres that can stand, roll, slide and stop.

Promises
- One law from standstill to any speed, forwards and backwards; no switch between a moving and a parked car.
- Without drive torque the energy of body, wheels and tyre deflections only falls; a parked car stays where it is.
- The force of an axle never exceeds its friction limit.
- A step is cut into equal substeps of at most `SUBSTEP`, so calls whose lengths are multiples of it give the same bits
  however the time is divided among them. Below it the error is of first order in the step.

Tyre. The contact patch hangs on the rim by a spring and a damper, with deflection e, and creeps over the road:

    F = K e + D de/dt,      de/dt = -v_s - |u| chi F / C - lam F,      |F| <= N

v_s is the slip velocity of the rim (v_x - r w, v_y), u = r w the speed of rolling, chi F / C the slip at which the
rolling tyre makes the force F, N the friction limit, at which the patch slides against F (lam > 0 only there). In
steady rolling F is the slip characteristic; at small slip it follows slip over the relaxation length C / K, at large
slip faster; at u = 0 it is a damped spring in series with Coulomb friction. Every term only dissipates, hence the
second promise. The damper is there for the standing tyre and fades as it rolls. The characteristic is

    F = -N (s - s^2 / 4) s_vec / s,      s_vec = (C_x v_sx, C_y v_sy) / (N |u|),      s = |s_vec| <= 2

the parabola with slope C that meets the friction limit level; this makes chi = 1 / (1 - s / 4).

Loads. Friction and slip stiffness per load fall linearly with the load of a wheel. Summed over the two wheels of an
axle this needs the load transfer between them only as its square, so the single track knows about its width.

Prescribed speed. The longitudinal equation is replaced by the given speed, reached along a straight line at the end of
the step; the force it takes is `drive_force`. Load transfer and the friction left across the wheels follow from it.

Brakes and rolling resistance are Coulomb friction in the wheel bearing: an impulse that can stop a wheel, not turn it.

Symbols: vx vy q velocity and yaw rate of the body, wf wr wheel speeds, a b distance of the axles from the centre of
gravity, H height of the latter, L wheelbase, Nf Nr friction limits, Zf Zr axle loads, k c spring and slip stiffness
of an axle, z force a slip velocity raises within a substep; suffix f front, r rear; x along and y across the wheel
(or the car).
"""

from math import atan2, ceil, cos, isnan, pi, sin, sqrt

import numpy as np

from sim_service.contract.machine import STEP, Tables
from sync.compile.jit import inner, kernel
from tandem.machines.car.engine import drive_torque
from tandem.machines.car.single_track.description import INPUTS, I, P, S, W

GRAVITY = 9.81  # m/s2
SUBSTEP = 0.5e-3  # s; the wheel on its tyre spring turns at about 180 rad/s
DAMPED_BELOW = 2.0  # m/s of rolling; faster, the road damps the tyre and the damper would only spoil its relaxation
STILL_SPEED = 1e-10  # m/s, rad/s, m/s2; slower is standing still, which also keeps denormal numbers away
STILL_DEFLECTION = 1e-14  # m; less than the slowest motion makes in a substep
SLIDING_ITERATIONS = 2  # the direction of sliding friction is then right within a tenth of a degree
TINY = 1e-300  # keeps 0 / 0 away
CRAWL = 0.1  # m/s; slips are output relative to at least this speed
LEAST_WEIGHT = 0.1  # of its weight, that lift leaves a car: it has no height to fly to
LEFT_ACROSS = 0.3  # of an axle's friction limit at least, with a prescribed speed: which axle brakes how is a guess

_OPTIONS = {"error_model": "numpy"}  # a division by zero is no exception


@inner
def still(value, limit):
    return value if abs(value) > limit else 0.0


@inner
def per_load(Z, dZ, fall, Z0):
    """Factor on friction or slip stiffness of an axle with load Z, of which dZ moved from one wheel to the other.

    Sum of Zi (1 - fall (Zi / Z0 - 1)) over Zi = Z / 2 +- dZ, divided by Z.
    """
    return max(1.0 + fall - fall * (0.5 * Z * Z + 2.0 * dZ * dZ) / (Z0 * Z), 0.1)


@inner
def friction(w, dw):
    """Wheel speed after a friction impulse that would change it by dw >= 0."""
    return max(w - dw, 0.0) if w > 0.0 else min(w + dw, 0.0)


# long: plain numbers: a kernel takes no object, and a tuple would be made at every call
@kernel(cache=False, **_OPTIONS)  # compiled for floats and, by tangent.py, for numbers with derivatives
def tyre(ex, ey, sx, sy, u, N, kx, ky, cx, cy, tau, mw, dt):
    """Force (Fx, Fy) of an axle and its new deflection, implicit in e: u >= 0, slip velocity s, mw = J / r^2.

    With z = K dt + D the law is F (1 + z u chi / C) = K e - z v_s =: T, and chi follows from a quadratic.
    """
    # the damper stays below what would make the light wheel unstable in a substep
    fade = 1.0 + (u / DAMPED_BELOW) ** 2
    zx = kx * dt + min(tau * kx / fade, mw / dt)
    zy = ky * dt + tau * ky / fade
    Tx = kx * ex - zx * sx
    Ty = ky * ey - zy * sy
    T2 = Tx * Tx + Ty * Ty

    # |T| / N = A s - s^2 / 4, with A exact in pure slip and good to second order in Ax - Ay otherwise
    Ax = zx * u / cx
    Ay = zy * u / cy
    A = 1.0 + (Ax * Tx * Tx + Ay * Ty * Ty) / max(T2, TINY)
    t = sqrt(T2) / N
    s = 2.0 * t / (A + sqrt(max(A * A - t, 0.0)))
    chi = 1.0 / (1.0 - 0.25 * min(s, 2.0))
    Bx = 1.0 + Ax * chi
    By = 1.0 + Ay * chi
    Fx = Tx / Bx
    Fy = Ty / By
    F = sqrt(Fx * Fx + Fy * Fy)
    if F > N:
        # the patch slides: find lam with |F| = N by Newton's rule on 1 / |F|, which is nearly straight in lam
        for _ in range(SLIDING_ITERATIONS):
            lam = F * F * (F / N - 1.0) / (Fx * Fx * zx / Bx + Fy * Fy * zy / By)
            Bx += lam * zx
            By += lam * zy
            Fx = Tx / Bx
            Fy = Ty / By
            F = sqrt(Fx * Fx + Fy * Fy)
        Fx *= N / F
        Fy *= N / F
    ex += dt * (Fx - kx * ex) / zx
    ey += dt * (Fy - ky * ey) / zy
    return Fx, Fy, still(ex, STILL_DEFLECTION), still(ey, STILL_DEFLECTION)


@inner
def slips(ux, uy, u):
    """Longitudinal slip and slip angle of a wheel that moves with (ux, uy) and rolls with u."""
    return (u - ux) / max(abs(ux), abs(u), CRAWL), atan2(uy, max(abs(ux), CRAWL))


# long: one step from inputs to outputs, in the order of its equations
@kernel(STEP, **_OPTIONS)
def step(state, inputs, params, tables, work, h):
    m, Iz = params[P.mass], params[P.yaw_inertia]
    L, a, H = params[P.wheelbase], params[P.cg_to_front], params[P.cg_height]
    b = L - a
    r = params[P.wheel_radius]
    Jf = 2.0 * params[P.wheel_inertia]
    Jr = Jf + params[P.driveline_inertia]
    mwf, mwr = Jf / (r * r), Jr / (r * r)
    drag = 0.5 * params[P.air_density] * params[P.drag_area]
    lift = 0.5 * params[P.air_density] * params[P.lift_area] / m
    roll = params[P.rolling_resistance] * r
    share = params[P.transfer_share_front]
    roll_f = m * H * share / params[P.track_front]
    roll_r = m * H * (1.0 - share) / params[P.track_rear]

    # tyres: slip stiffness per load, and the spring that gives the relaxation length at the nominal load
    Z0, tau = params[P.tyre_load], params[P.damping_time]
    mu, mu_fall, c_fall = params[P.friction], params[P.friction_fall], params[P.stiffness_fall]
    cx, cyf, cyr = params[P.slip_stiffness], params[P.cornering_front], params[P.cornering_rear]
    kx = 2.0 * Z0 * cx / params[P.relaxation_x]
    kyf = 2.0 * Z0 * cyf / params[P.relaxation_y]
    kyr = 2.0 * Z0 * cyr / params[P.relaxation_y]

    # inputs, held over the step
    rack = inputs[I.steering_angle] * params[P.rack_travel_per_turn] / (2.0 * pi)
    delta = max(-params[P.rack_limit], min(params[P.rack_limit], rack)) / params[P.steering_arm]
    if not isnan(inputs[I.prescribed_road_wheel_angle]):
        delta = inputs[I.prescribed_road_wheel_angle]
    cd, sd = cos(delta), sin(delta)
    if isnan(inputs[I.drive_torque]):
        ratio = params[P.gear_ratio] * params[P.final_ratio]
        inputs[I.drive_torque] = drive_torque(inputs[I.throttle], state[S.wheel_speed_rear], ratio)
    drive = inputs[I.drive_torque]
    drive_f = 0.0 if isnan(inputs[I.front_drive_torque]) else inputs[I.front_drive_torque]
    pressure = max(inputs[I.brake_pressure_bar], 0.0)
    brake_f = 2.0 * params[P.brake_front] * pressure
    brake_r = 2.0 * params[P.brake_rear] * pressure

    x, y, yaw = state[S.x], state[S.y], state[S.yaw]
    vx, vy, q = state[S.vx], state[S.vy], state[S.yaw_rate]
    wf, wr = state[S.wheel_speed_front], state[S.wheel_speed_rear]
    exf, eyf = state[S.deflection_x_front], state[S.deflection_y_front]
    exr, eyr = state[S.deflection_x_rear], state[S.deflection_y_rear]
    tx, ty = state[S.transfer_x], state[S.transfer_y]

    count = max(ceil(h / SUBSTEP - 1e-9), 1)
    dt = h / count
    lag = dt / (params[P.transfer_time] + dt)
    driven = not isnan(inputs[I.prescribed_speed])
    a_driven = (inputs[I.prescribed_speed] - vx) / h if driven else 0.0
    brakes = params[P.brake_front] + params[P.brake_rear]
    brakes_f = params[P.brake_front] / brakes if brakes > 0.0 else 0.5
    ax = ay = Zf = Zr = Fxf = Fyf = Fxr = Fyr = Gf = Gr = force = 0.0
    for _ in range(count):
        # axle loads, and what moves across each axle
        g = max(GRAVITY - lift * vx * vx, LEAST_WEIGHT * GRAVITY)
        Zf = min(max(m * (g * b - tx * H) / L, 1.0), m * g - 1.0)
        Zr = m * g - Zf
        dZf = min(abs(roll_f * ty), 0.5 * Zf)
        dZr = min(abs(roll_r * ty), 0.5 * Zr)

        # tyres
        Nf = mu * Zf * per_load(Zf, dZf, mu_fall, Z0)
        Nr = mu * Zr * per_load(Zr, dZr, mu_fall, Z0)
        Cf = Zf * per_load(Zf, dZf, c_fall, Z0)
        Cr = Zr * per_load(Zr, dZr, c_fall, Z0)
        vyf = vy + a * q
        if driven:
            # the axles share the force along the car, lagged as the load is: the rear one drives, the brakes do as they
            # are set. The wheels roll, and across them there is the friction that is left
            Gf = max(min(brakes_f * m * tx, 0.0), -Nf)
            Gr = max(min(m * tx - Gf, Nr), -Nr)
            Nf = sqrt(max(Nf * Nf - Gf * Gf, (LEFT_ACROSS * Nf) ** 2))
            Nr = sqrt(max(Nr * Nr - Gr * Gr, (LEFT_ACROSS * Nr) ** 2))
            wf, wr = (vx * cd + vyf * sd) / r, vx / r
            exf = exr = 0.0
        sxf = vx * cd + vyf * sd - r * wf
        syf = vyf * cd - vx * sd
        Fxf, Fyf, exf, eyf = tyre(exf, eyf, sxf, syf, abs(r * wf), Nf, kx, kyf, cx * Cf, cyf * Cf, tau, mwf, dt)
        sxr = vx - r * wr
        syr = vy - b * q
        Fxr, Fyr, exr, eyr = tyre(exr, eyr, sxr, syr, abs(r * wr), Nr, kx, kyr, cx * Cr, cyr * Cr, tau, mwr, dt)

        if driven:
            Fxf, Fxr = Gf, Gr

        # body: midpoint rule for the turning of its axes, which leaves its energy alone
        Fyb = Fxf * sd + Fyf * cd
        ax_tyre = (Fxf * cd - Fyf * sd + Fxr) / m
        ax = ax_tyre - drag * abs(vx) * vx / m
        ay = (Fyb + Fyr) / m
        q1 = still(q + dt * (a * Fyb - b * Fyr) / Iz, STILL_SPEED)
        turn = 0.25 * dt * (q + q1)
        px = vx + dt * ax + turn * vy
        py = vy + dt * ay - turn * vx
        vx1 = still((px + turn * py) / (1.0 + turn * turn), STILL_SPEED)
        vy1 = still((py - turn * px) / (1.0 + turn * turn), STILL_SPEED)

        # wheels: torques first, then the friction that can only stop them
        wf = friction(wf - dt * r * Fxf / Jf + dt * drive_f / Jf, dt * (brake_f + roll * Zf) / Jf)
        wr = friction(wr + dt * (drive - r * Fxr) / Jr, dt * (brake_r + roll * Zr) / Jr)
        wf = still(wf, STILL_SPEED)
        wr = still(wr, STILL_SPEED)

        if driven:
            vx1 = vx + dt * a_driven
            vy1 = still(vy + dt * ay - 0.25 * dt * (q + q1) * (vx + vx1), STILL_SPEED)
            ax = a_driven - 0.25 * (q + q1) * (vy + vy1)
            ax_tyre = ax + drag * abs(vx) * vx / m
            force = m * ax_tyre + Fyf * sd
            wf, wr = (vx1 * cd + (vy1 + a * q1) * sd) / r, vx1 / r

        # position, by mean velocity and mean heading
        yaw1 = yaw + 0.5 * dt * (q + q1)
        cp, sp = cos(0.5 * (yaw + yaw1)), sin(0.5 * (yaw + yaw1))
        ux, uy = 0.5 * (vx + vx1), 0.5 * (vy + vy1)
        x += dt * (ux * cp - uy * sp)
        y += dt * (ux * sp + uy * cp)
        yaw, vx, vy, q = yaw1, vx1, vy1, q1

        # drag acts at the height of the centre of gravity, so only the tyres' share of ax moves load
        tx = still(tx + lag * (ax_tyre - tx), STILL_SPEED)
        ty = still(ty + lag * (ay - ty), STILL_SPEED)

    state[S.x], state[S.y], state[S.yaw] = x, y, yaw
    state[S.vx], state[S.vy], state[S.yaw_rate] = vx, vy, q
    state[S.wheel_speed_front], state[S.wheel_speed_rear] = wf, wr
    state[S.deflection_x_front], state[S.deflection_y_front] = exf, eyf
    state[S.deflection_x_rear], state[S.deflection_y_rear] = exr, eyr
    state[S.transfer_x], state[S.transfer_y] = tx, ty

    # outputs: motion at the end of the step, forces and accelerations of its last substep
    vyf = vy + a * q
    slip_f, alpha_f = slips(vx * cd + vyf * sd, vyf * cd - vx * sd, r * wf)
    slip_r, alpha_r = slips(vx, vy - b * q, r * wr)
    work[W.x], work[W.y], work[W.yaw] = x, y, yaw
    work[W.vx], work[W.vy], work[W.yaw_rate] = vx, vy, q
    work[W.ax], work[W.ay] = ax, ay
    work[W.sideslip] = atan2(vy, max(abs(vx), CRAWL))
    work[W.road_wheel_angle] = delta
    work[W.wheel_speed_front], work[W.wheel_speed_rear] = wf, wr
    work[W.slip_front], work[W.slip_rear] = slip_f, slip_r
    work[W.slip_angle_front], work[W.slip_angle_rear] = alpha_f, alpha_r
    work[W.load_front], work[W.load_rear] = Zf, Zr
    work[W.force_x_front], work[W.force_y_front] = Fxf, Fyf
    work[W.force_x_rear], work[W.force_y_rear] = Fxr, Fyr
    work[W.drive_force] = force if driven else Fxf + Fxr


def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    """The car at rest at the origin; a step of no length makes the outputs."""
    state[:] = 0.0
    work[:] = 0.0
    step(state, np.array([np.nan if q.optional else 0.0 for q in INPUTS]), params, tables, work, 0.0)
