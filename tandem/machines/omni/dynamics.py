"""The step of an omni machine: motors, then the tree with its contacts, then what is reported of it.

State: joint coordinates, their rates, the books of energy (BOOKS), and of a platform the lagged command (3) and the
pose of ideal kinematics (3).

What is not modelled ends as a divergence: a platform that has fallen over (only rollers meet the floor, and yaw, pitch
and roll are singular where it stands on its nose), a wheel that turns by more than half a turn in a part of a step.
"""

from math import cos, floor, isnan, nan, pi, sin, sqrt

from numba import int64

from sim_service.contract.machine import STEP, places
from sync.compile.jit import inner, kernel
from tandem.machines.omni.build import FLOAT_HEAD, INT_HEAD, LINKS_AT, OF_WHEEL, SHAPE_AT, WHEELS_AT
from tandem.machines.omni.description import (
    BOOKS,
    COMMON_OUTPUTS,
    CONTACT_PARAMETERS,
    CONTROL_PARAMETERS,
    PLATFORM_OUTPUTS,
    RIG_OUTPUTS,
    WHEEL_OUTPUTS,
)
from tandem.multibody.contact.kinds import (
    CONTACT_INTS,
    CONTACT_REALS,
    LINK_INTS,
    LINK_REALS,
    LINK_WORK,
    A,
    P,
    V,
)
from tandem.multibody.contact.stepping import (
    C_FORCE,
    C_POINT,
    C_SPEED,
    CHANGE,
    CONTACT_ROW,
    DAMPING_LOSS,
    FRICTION_LOSS,
    GAP,
    IMPACT_LOSS,
    KINETIC,
    POTENTIAL,
    REPORT,
    SETTINGS,
    SWEEPS,
    WORK,
    Joints,
    Tree,
    advance_tree,
    work_size,
)
from tandem.multibody.natural.views import view

PAR = places("PAR", (*CONTACT_PARAMETERS, *CONTROL_PARAMETERS))
BOOK = places("BOOK", BOOKS)
COMMON = places("COMMON", COMMON_OUTPUTS)
RIG = places("RIG", RIG_OUTPUTS)
PLATFORM = places("PLATFORM", PLATFORM_OUTPUTS)
REPORTED = places("REPORTED", [name for name, *_ in WHEEL_OUTPUTS])
N_COMMON, N_RIG, N_PLATFORM, N_WHEEL = (
    len(COMMON_OUTPUTS),
    len(RIG_OUTPUTS),
    len(PLATFORM_OUTPUTS),
    len(WHEEL_OUTPUTS),
)
N_BOOKS = len(BOOKS)
UPRIGHT = 0.17364817766693033  # cosine of the tilt of a platform that has fallen over: 80 degrees


def machine_work_size(links: int, contacts: int, outputs: int) -> int:
    """Of the work of a machine."""
    return outputs + SETTINGS + 4 * links + REPORT + CONTACT_ROW * contacts + work_size(links, contacts)


@inner
def touching_kinematics(shape, row, angle):
    """Spin of a wheel for a unit of speed ahead, to the left, of turning, that lets nothing slip along the roller.

    The roller at the bottom is at an angle q from there. Seen from above its axis is inclined by atan(tan psi / cos q)
    against the disk, and it touches below the axle, R1 tan q tan psi from the middle of its row.
    """
    passages = angle * shape[2] / (2.0 * pi)
    which = floor(passages + 0.5)
    q = (passages - which) * (2.0 * pi) / shape[2]
    roller = -which - shape[2] * floor(-which / shape[2])  # from 0: that which is at the bottom
    of_row = roller - shape[3] * floor(roller / shape[3]) - 0.5 * (shape[3] - 1.0)
    along = 2.0 * of_row * row[11] - shape[1] * sin(q) / cos(q) * row[10]  # of the axle, from the middle of the wheel
    c, s = row[8], row[9]
    a = row[10] / cos(q)  # of the roller's axis along the axle, for 1 along the wheel
    ax, ay = -s + a * c, c + a * s
    x, y = row[6] + along * c, row[7] + along * s
    return -ax / shape[0], -ay / shape[0], (y * ax - x * ay) / shape[0]


@inner
def motors(ints, floats, params, state, inputs, n, wheels, forces, stiffening, targets, h):
    """Torques of the wheels' motors for a command, and where ideal kinematics has the platform."""
    lagged, ideal = (
        view(state, 2 * n + N_BOOKS, 2 * n + N_BOOKS + 3),
        view(state, 2 * n + N_BOOKS + 3, 2 * n + N_BOOKS + 6),
    )
    ahead, left, turn = lagged[0], lagged[1], lagged[2]
    lag = max(params[PAR.command_lag], h)
    for k in range(3):
        lagged[k] += h * (inputs[k] - lagged[k]) / (lag + h)
    mass, turning = floats[1], floats[2]
    ax, ay, az = (lagged[0] - ahead) / h, (lagged[1] - left) / h, (lagged[2] - turn) / h
    # in axes of the platform, which turn
    fx, fy, mz = mass * (ax - lagged[1] * lagged[2]), mass * (ay + lagged[0] * lagged[2]), turning * az
    mode = params[PAR.control]
    c, s = cos(state[3]), sin(state[3])
    if mode >= 0.5 and mode < 1.5:
        gain = params[PAR.platform_gain]
        vx, vy = c * state[n] + s * state[n + 1], c * state[n + 1] - s * state[n]
        fx += gain * mass * (lagged[0] - vx)
        fy += gain * mass * (lagged[1] - vy)
        mz += gain * turning * (lagged[2] - state[n + 3])
    limit, share = params[PAR.torque_limit], params[PAR.compensation]
    for k in range(wheels):
        link = ints[LINKS_AT + k]
        row = view(floats, WHEELS_AT + OF_WHEEL * k, WHEELS_AT + OF_WHEEL * (k + 1))
        torque = row[3] * fx + row[4] * fy + row[5] * mz
        if mode < 0.5:
            target = row[0] * lagged[0] + row[1] * lagged[1] + row[2] * lagged[2]
            if share > 0.0:
                x, y, z = touching_kinematics(view(floats, SHAPE_AT, SHAPE_AT + 4), row, state[link])
                target += share * (x * lagged[0] + y * lagged[1] + z * lagged[2] - target)
            gain = params[PAR.speed_gain]
            wanted = torque + gain * (target - state[n + link])
            if abs(wanted) <= limit:  # implicit: stable at any gain
                stiffening[link], targets[link] = gain, target
            else:
                torque = wanted
        forces[link] = min(max(torque, -limit), limit)
    # ideal kinematics: the mean command of the step, at the yaw in the middle of it
    middle = ideal[2] + 0.25 * h * (turn + lagged[2])
    c, s = cos(middle), sin(middle)
    x, y = 0.5 * (ahead + lagged[0]), 0.5 * (left + lagged[1])
    ideal[0] += h * (c * x - s * y)
    ideal[1] += h * (s * x + c * y)
    ideal[2] += 0.5 * h * (turn + lagged[2])


@inner
def report_wheel(report, first, count, out):
    """What the floor does to a wheel whose contacts are `count` from `first` on."""
    most = -1
    load = fx = fy = 0.0
    for c in range(first, first + count):
        row = view(report, REPORT + CONTACT_ROW * c, REPORT + CONTACT_ROW * (c + 1))
        if row[C_FORCE + 2] > 0.0 and (
            most < 0 or row[C_FORCE + 2] > report[REPORT + CONTACT_ROW * most + C_FORCE + 2]
        ):
            most = c
        fx += row[C_FORCE]
        fy += row[C_FORCE + 1]
        load += row[C_FORCE + 2]
    out[REPORTED.roller] = most - first + 1 if most >= 0 else 0
    out[REPORTED.load], out[REPORTED.force_x], out[REPORTED.force_y] = load, fx, fy
    out[REPORTED.slip] = out[REPORTED.point_x] = out[REPORTED.point_y] = 0.0
    if most >= 0:
        row = view(report, REPORT + CONTACT_ROW * most, REPORT + CONTACT_ROW * (most + 1))
        out[REPORTED.slip] = sqrt(row[C_SPEED] * row[C_SPEED] + row[C_SPEED + 1] * row[C_SPEED + 1])
        out[REPORTED.point_x], out[REPORTED.point_y] = row[C_POINT], row[C_POINT + 1]


# long: one step from inputs to outputs, in the order of its equations
@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    ints, floats = tables.ints, tables.floats
    n, m, wheels, substeps, rig = ints[0], ints[1], ints[2], ints[3], ints[4]
    links, contacts = (
        view(ints, INT_HEAD, INT_HEAD + LINK_INTS * n),
        view(ints, INT_HEAD + LINK_INTS * n, INT_HEAD + LINK_INTS * n + CONTACT_INTS * m),
    )
    at = FLOAT_HEAD + LINK_REALS * n
    reals, surfaces = view(floats, FLOAT_HEAD, at), view(floats, at, at + CONTACT_REALS * m)
    road = view(floats, at + CONTACT_REALS * m, len(floats))
    at = N_COMMON + wheels * N_WHEEL + (N_RIG if rig else N_PLATFORM)
    settings, at = view(work, at, at + SETTINGS), at + SETTINGS
    forces, at = view(work, at, at + n), at + n
    stiffening, at = view(work, at, at + n), at + n
    targets, at = view(work, at, at + n), at + n
    multipliers, at = view(work, at, at + n), at + n
    report, at = view(work, at, at + REPORT + CONTACT_ROW * m), at + REPORT + CONTACT_ROW * m
    contact_work = view(work, at, len(work))
    q, v, books = view(state, 0, n), view(state, n, 2 * n), view(state, 2 * n, 2 * n + N_BOOKS)
    settings[0], settings[1], settings[2] = 0.0, 0.0, -params[PAR.gravity]
    settings[3], settings[4], settings[5] = params[PAR.friction], params[PAR.restitution], params[PAR.compliance]
    settings[6], settings[7] = floats[0], params[PAR.spin_reach]
    if rig:  # a wrench that is not connected; a platform's commands are required, and NaN of one is a divergence
        for k in range(len(inputs)):
            if isnan(inputs[k]):
                inputs[k] = 0.0

    tree = Tree(links, reals, contacts, surfaces, road, int64(ints[5]), int64(ints[6]))
    joints = Joints(q, v, forces, stiffening, targets, multipliers)
    part = h / substeps
    unsolved = sweeps = 0.0
    gap = 1e9
    for _ in range(substeps):
        for i in range(n):
            forces[i] = stiffening[i] = targets[i] = 0.0
        if rig:
            forces[0], forces[1], forces[2], forces[3] = inputs[1], inputs[2], inputs[3], inputs[4]
            forces[5] = inputs[0]
        else:
            motors(ints, floats, params, state, inputs, n, wheels, forces, stiffening, targets, part)
        advance_tree(tree, settings, joints, contact_work, report, part)
        unsolved, sweeps, gap = max(unsolved, report[CHANGE]), max(sweeps, report[SWEEPS]), min(gap, report[GAP])
        total = report[KINETIC] + report[POTENTIAL]
        books[BOOK.work_done] += report[WORK]
        books[BOOK.friction_loss] += report[FRICTION_LOSS]
        books[BOOK.impact_loss] += report[IMPACT_LOSS]
        books[BOOK.damping_loss] += report[DAMPING_LOSS]
        if books[BOOK.books_open] == 0.0:
            books[BOOK.books_open] = 1.0
            books[BOOK.energy_at_start] = (
                total
                - books[BOOK.work_done]
                + (books[BOOK.friction_loss] + books[BOOK.impact_loss] + books[BOOK.damping_loss])
            )

    out = view(work, 0, N_COMMON)
    out[COMMON.kinetic], out[COMMON.potential] = report[KINETIC], report[POTENTIAL]
    lost = books[BOOK.friction_loss] + books[BOOK.impact_loss] + books[BOOK.damping_loss]
    out[COMMON.energy_error] = total - books[BOOK.energy_at_start] - books[BOOK.work_done] + lost
    out[COMMON.work_done], out[COMMON.friction_loss] = books[BOOK.work_done], books[BOOK.friction_loss]
    out[COMMON.impact_loss] = books[BOOK.impact_loss]
    out[COMMON.lowest_gap], out[COMMON.sweeps], out[COMMON.unsolved] = gap, sweeps, unsolved
    each = m // wheels
    modelled = rig != 0 or cos(q[4]) * cos(q[5]) > UPRIGHT
    for w in range(wheels):
        out = view(work, N_COMMON + N_WHEEL * w, N_COMMON + N_WHEEL * (w + 1))
        link = ints[LINKS_AT + w]
        report_wheel(report, each * w, each, out)
        out[REPORTED.spin] = v[link]
        modelled &= abs(v[link]) * part < pi
        out[REPORTED.torque] = forces[link] - stiffening[link] * (v[link] - targets[link])
    at = N_COMMON + wheels * N_WHEEL
    if rig:
        out = view(work, at, at + N_RIG)
        for k in range(4):
            out[k], out[5 + k] = q[k], v[k]
        out[RIG.angle], out[RIG.spin], out[RIG.servo_torque] = q[5], v[5], multipliers[4]
        own = view(contact_work, LINK_WORK * 6, LINK_WORK * 7)
        p, V6 = view(own, P, P + 3), view(own, V, V + 6)
        before = books[BOOK.last_speed]
        out[RIG.roller1_height] = q[2] + p[2]
        out[RIG.roller1_speed_z] = V6[5] + V6[0] * p[1] - V6[1] * p[0]
        out[RIG.roller1_accel_z] = (out[RIG.roller1_speed_z] - before) / h
        books[BOOK.last_speed] = out[RIG.roller1_speed_z]
        # about its own axis, through its own centre: the inertia of the link about its axis times its spin in space
        out[RIG.roller1_spin_momentum] = floats[FLOAT_HEAD - 1] * (
            own[A] * V6[0] + own[A + 1] * V6[1] + own[A + 2] * V6[2]
        )
    else:
        out = view(work, at, at + N_PLATFORM)
        c, s = cos(q[3]), sin(q[3])
        for k in range(6):
            out[k] = q[k]
        out[PLATFORM.speed_ahead], out[PLATFORM.speed_left] = c * v[0] + s * v[1], c * v[1] - s * v[0]
        out[PLATFORM.turn_rate] = v[3]
        out[PLATFORM.accel_z] = (v[2] - books[BOOK.last_speed]) / h
        books[BOOK.last_speed] = v[2]
        ideal = view(state, 2 * n + N_BOOKS + 3, 2 * n + N_BOOKS + 6)
        for k in range(3):
            out[PLATFORM.ideal_x + k] = ideal[k]
        x, y = ideal[0] - q[0], ideal[1] - q[1]
        out[PLATFORM.path_error] = sqrt(x * x + y * y)
    if not modelled:
        q[0] = nan
