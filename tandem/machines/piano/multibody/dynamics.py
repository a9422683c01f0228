"""The step of the grand action: regulation, then short steps of the tree with its felt, then what is reported.

The key's motion within a step is the cubic through measured travels and speeds. Forces that are reported are means over
the step: what its impulse was.
"""

from math import cos, isnan, sin

from sim_service.contract.machine import STEP, places
from sync.compile.jit import inner, kernel
from tandem.machines.piano.multibody.action import (
    CONTACTS,
    DAMPER_SKIN,
    HAMMER,
    HAMMER_REACH,
    HEAD,
    JACK,
    KEY,
    KNUCKLE_RADIUS,
    LEVER,
    LINKS,
    P2,
    P3,
    REST,
    TAIL,
    TIP,
    TOE,
    WHIPPEN,
    A,
)
from tandem.machines.piano.multibody.description import INPUTS, OUTPUTS, PARAMETERS, STATES
from tandem.multibody.contact import felt as law
from tandem.multibody.contact.felt import (
    CLOSING,
    DEPTH,
    END,
    FELT_INTS,
    FELT_REALS,
    JOINT_REALS,
    LEVEL,
    NORMAL,
    POINT,
    PRELOAD,
    REPORT,
    SPRING,
    START,
    account,
    advance_felt,
    work_size,
)
from tandem.multibody.contact.kinds import LINK_INTS, LINK_REALS, MASS
from tandem.multibody.natural.views import view

S, P, W, C = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS), places("C", CONTACTS)
I = places("I", INPUTS)  # noqa: E741  the letter of the field
N, M, N_OUT = len(LINKS), len(CONTACTS), len(OUTPUTS)
N_LINKS, N_FELT, N_JOINTS, N_REPORT = LINK_REALS * N, FELT_REALS * M, JOINT_REALS * N, REPORT * M
FIRST_BOOK = int(S.work)
SHORT = 31.25e-6  # s, the longest short step …
MOST = 32  # … but no more of them than this
WORK_SIZE = len(OUTPUTS) + N_LINKS + N_FELT + N_JOINTS + N_REPORT + 3 + work_size(N, M)
FASTEST = 5.0  # m/s, of a tip
DEEPEST = 0.002  # m, beyond the key's dip, and above its rest
OFF, AT_STOP = 5e-4, 0.01  # m, rad: of the jack from the knuckle, and from its stop
APPROACH = 0.01  # m/s: so fast a key that is down at the start is pressed there from its rest, without a note


@inner
def regulate(params, tables, links, felt, joints):
    """The tables of a step: as drawn, with what the parameters say."""
    numbers = tables.floats
    for k in range(N_LINKS):
        links[k] = numbers[k]
    for k in range(N_FELT):
        felt[k] = numbers[N_LINKS + k]
    for k in range(N_JOINTS):
        joints[k] = numbers[N_LINKS + N_FELT + k]
    # a mass at the head, which is where the hammer's centre is
    links[LINK_REALS * HAMMER + MASS] = max(links[LINK_REALS * HAMMER + MASS] + params[P.hammer_mass_added], 1e-3)
    for k in range(M):
        felt[FELT_REALS * k + law.STIFFNESS] *= params[P.felt_stiffness]
        felt[FELT_REALS * k + law.DAMPING] *= params[P.felt_damping]
        felt[FELT_REALS * k + law.FRICTION] *= params[P.surface_friction]
    for k in range(N):
        joints[JOINT_REALS * k + LEVEL] *= params[P.pivot_friction]
    joints[JOINT_REALS * JACK + PRELOAD] = params[P.jack_spring]
    joints[JOINT_REALS * LEVER + PRELOAD] = params[P.repetition_spring]
    joints[JOINT_REALS * LEVER + SPRING] = params[P.repetition_stiffness]
    head = view(felt, FELT_REALS * C.head, FELT_REALS * (C.head + 1))
    head[START] = params[P.knuckle_edge]
    head[law.FRICTION] = params[P.knuckle_friction] * params[P.surface_friction]
    side = view(felt, FELT_REALS * C.knuckle_side, FELT_REALS * (C.knuckle_side + 1))
    side[START] = side[END] = params[P.knuckle_edge]
    side[law.FRICTION] = params[P.knuckle_friction] * params[P.surface_friction]
    lift(felt, C.toe, params[P.let_off_button])
    lift(felt, C.drop_screw, params[P.drop_screw])
    lift(felt, C.lever_felt, params[P.repetition_height])
    string = view(felt, FELT_REALS * C.string, FELT_REALS * (C.string + 1))
    angle = params[P.string_angle]
    # the sine to its fifth power: 1e-6 rad at 0.3
    lift(felt, C.string, P3[1] + HAMMER_REACH * angle * (1.0 - angle * angle / 6.0 * (1.0 - angle * angle / 20.0)))
    string[POINT] = HAMMER_REACH
    check = view(felt, FELT_REALS * C.back_check, FELT_REALS * (C.back_check + 1))
    check[START] += params[P.back_check]
    check[END] += params[P.back_check]
    felt[FELT_REALS * C.front_rail + law.ANGLE] = REST[KEY] + params[P.key_dip] / TIP
    felt[FELT_REALS * C.back_rail + law.ANGLE] = REST[KEY] - 1e-5
    damper = view(felt, FELT_REALS * C.damper_felt, FELT_REALS * (C.damper_felt + 1))
    height = TAIL[0] * (REST[KEY] + params[P.damper_travel] / TIP) + DAMPER_SKIN
    damper[START + 1] = damper[END + 1] = height if params[P.damper] > 0.5 else 1.0


@inner
def lift(felt, contact, height):
    """Both ends of a segment, by its surface's height."""
    own = view(felt, FELT_REALS * contact, FELT_REALS * (contact + 1))
    own[START + 1] += height
    own[END + 1] += height


@inner
def force(report, contact, h):
    return report[REPORT * contact + NORMAL] / h


@inner
def phase(state, q, apart, params):
    """By where the jack is: beyond let-off or not (its toe, were it at its stop, above the button), and out from under
    the knuckle, from when the hammer has left it there until it is back at its stop."""
    x, z = P2[0] - A * cos(q[WHIPPEN]), P2[1] - A * sin(q[WHIPPEN])
    beyond = z - TOE * sin(q[WHIPPEN] + REST[JACK]) > params[P.let_off_button]
    angle = q[WHIPPEN] + q[JACK]
    x, z = x - HEAD * sin(angle) - P3[0], z + HEAD * cos(angle) - P3[1]
    along = cos(q[HAMMER]) * x + sin(q[HAMMER]) * z
    if beyond and (apart > OFF or along < params[P.knuckle_edge] - 0.5 * KNUCKLE_RADIUS):
        state[S.tripped] = 1.0
    elif q[JACK] - REST[JACK] < AT_STOP:
        state[S.tripped] = 0.0
    if state[S.tripped] > 0.0:
        return 2.0 if beyond else 3.0
    return 1.0 if beyond else 0.0


@inner
def complete(state, inputs, params, h):
    """Travel of the tip, within what a key has, speed and acceleration; what is not measured: from the step before."""
    travel = min(max(inputs[I.position], -DEEPEST), params[P.key_dip] + DEEPEST)
    before = TIP * (state[S.key] - REST[KEY])
    if state[S.begun] < 1.0:
        # put where it is at once, its parts would be inside each other
        speed = APPROACH if travel > before else -APPROACH
        if abs(travel - before) > APPROACH * h and speed * state[S.last_speed] >= 0.0:  # nor have they met in between
            if isnan(inputs[I.velocity]):
                inputs[I.velocity] = speed
            if isnan(inputs[I.acceleration]):
                inputs[I.acceleration] = 0.0
            state[S.last_speed] = speed
            return before + h * speed, speed, 0.0
        state[S.begun] = 1.0
    if isnan(inputs[I.velocity]):
        inputs[I.velocity] = (travel - before) / h
    speed = min(max(inputs[I.velocity], -FASTEST), FASTEST)
    if isnan(inputs[I.acceleration]):
        inputs[I.acceleration] = (speed - state[S.last_speed]) / h
    state[S.last_speed] = speed
    return travel, speed, inputs[I.acceleration]


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    at = N_OUT
    links, felt = view(work, at, at + N_LINKS), view(work, at + N_LINKS, at + N_LINKS + N_FELT)
    at += N_LINKS + N_FELT
    joints, report = view(work, at, at + N_JOINTS), view(work, at + N_JOINTS, at + N_JOINTS + N_REPORT)
    at += N_JOINTS + N_REPORT
    gravity, scratch = view(work, at, at + 3), view(work, at + 3, len(work))
    gravity[0], gravity[1], gravity[2] = 0.0, 0.0, -params[P.gravity]
    ints = tables.ints
    tree, kinds = view(ints, 0, LINK_INTS * N), view(ints, LINK_INTS * N, LINK_INTS * N + FELT_INTS * M)
    action = law.Tree(tree, links, joints, kinds, felt, gravity)
    regulate(params, tables, links, felt, joints)
    q, v = view(state, 0, N), view(state, N, 2 * N)
    books = view(state, FIRST_BOOK, FIRST_BOOK + law.BOOKS)
    if state[S.begun] == 0.0:
        account(action, q, v, books, scratch)
        state[S.energy_at_start] = books[law.KINETIC] + books[law.POTENTIAL] + books[law.STORED]
        state[S.begun] = 0.5
    travel, speed, acceleration = complete(state, inputs, params, h)
    # the cubic through the key's angles and rates at both ends
    count = min(max(int(h / SHORT + 0.999), 1), MOST)
    short = h / count
    a, va = q[KEY], v[KEY]
    b, vb = REST[KEY] + travel / TIP, speed / TIP
    for k in range(N_REPORT):
        report[k] = 0.0
    effort, struck = 0.0, state[S.struck]
    for k in range(1, count + 1):
        s = k / count
        r = 1.0 - s
        angle = r * r * (1.0 + 2.0 * s) * a + s * r * r * h * va + s * s * (3.0 - 2.0 * s) * b - s * s * r * h * vb
        rate = 6.0 * s * r * (b - a) / h + r * (1.0 - 3.0 * s) * va + s * (3.0 * s - 2.0) * vb
        key = law.First(angle, rate, acceleration / TIP)
        effort += advance_felt(action, q, v, key, short, books, report, scratch)
        # a blow: the instant at which felt and string touch
        state[S.elapsed] += short
        depth = report[REPORT * C.string + DEPTH]
        if depth > 0.0 and state[S.on_string] == 0.0:
            up = HAMMER_REACH * v[HAMMER]
            state[S.on_string] = 1.0
            state[S.struck] += 1.0
            state[S.struck_speed] = report[REPORT * C.string + CLOSING] if up <= 0.0 else up
            state[S.struck_at] = state[S.elapsed] - short
        elif depth <= 0.0:
            state[S.on_string] = 0.0
    account(action, q, v, books, scratch)
    work[W.tip_force] = effort / (count * TIP)
    work[W.pilot_force] = force(report, C.capstan, h)
    work[W.port], work[W.hammer] = travel, q[HAMMER]
    work[W.hammer_speed] = HAMMER_REACH * v[HAMMER]
    work[W.whippen_angle] = q[WHIPPEN]
    work[W.jack_angle], work[W.lever_angle] = q[JACK] - REST[JACK], q[LEVER] - REST[LEVER]
    work[W.head_force], work[W.toe_force] = force(report, C.head, h), force(report, C.toe, h)
    work[W.lever_force], work[W.drop_force] = force(report, C.lever_felt, h), force(report, C.drop_screw, h)
    work[W.check_force], work[W.string_force] = force(report, C.back_check, h), force(report, C.string, h)
    work[W.damper_force], work[W.rail_force] = force(report, C.damper_felt, h), force(report, C.front_rail, h)
    work[W.phase] = phase(state, q, -report[REPORT * C.head + DEPTH], params)
    # without a damper a string sounds on
    if state[S.struck] > struck:
        state[S.undamped] = 1.0
    elif travel < params[P.damper_travel] and params[P.damper] > 0.5:
        state[S.undamped] = 0.0
    work[W.strike_count], work[W.strike_speed] = state[S.struck], state[S.struck_speed]
    work[W.strike_age] = state[S.elapsed] - state[S.struck_at] if state[S.struck] > 0.0 else 0.0
    work[W.sounding] = state[S.undamped]
    work[W.work_done] = books[law.WORK]
    work[W.energy_error] = (
        books[law.KINETIC] + books[law.POTENTIAL] + books[law.STORED] - state[S.energy_at_start]
        + books[law.FELT_LOSS] + books[law.FRICTION_LOSS] + books[law.PIVOT_LOSS] - books[law.WORK]
    )  # fmt: skip
