"""How near the buggy is to losing control: use of its tyres, its linearised lateral modes, side-slip at its axles.

Use. Each tyre's force against the ellipse of its peak forces at its load, camber and friction; of an axle the mean of
its wheels by load, of the car the larger of both.

Growth. The single-track car in (v_y, r) about the state it is in, with the slopes C = -dF_y/dα of its axles there: each
tyre's formula, its load, slip and camber held, 0.3° to either side. Beyond the peak a slope is negative; a rear axle
with less slope than the front one needs makes a real mode positive, which is how a car begins to turn around.

    A = [ -(C_f + C_r) / (m v)            -v - (a C_f - b C_r) / (m v)     ]
        [ -(a C_f - b C_r) / (I v)        -(a² C_f + b² C_r) / (I v)       ]

Loss. Angles of the body's velocity, with no tyre in them: at the rear axle against the long axis (it turns around), at
the front axle against the front wheels (it slides straight on), each over the angle that counts as lost on a road of
friction factor 1, by that factor: the slip at which a tyre has its peak falls with it. An overturned car is lost, too.
The angles are beyond the peak of the tyres, where more slip brings no more force: van Zanten (SAE 950759) has steering
lose its effect on a car at side-slips of 12° on dry asphalt and 2° on ice.
"""

from math import atan2, cos, radians, sin, sqrt

import numpy as np

from sim_service.contract.stability import GROWTH, JUDGE, LOSS, USE, Following, StabilityMonitor
from sync.compile.array_types import read_only
from sync.compile.jit import kernel
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.description import WHEEL, P, V, W
from tandem.machines.car.tyres.formula import evaluate
from tandem.multibody.ground.surface import surface

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

SPIN = radians(12.0)  # of the rear axle's velocity against the car
SLIDE = radians(20.0)  # of the front axle's velocity against its wheels
SLOW = 3.0  # m/s; below it nothing is lost but a car on its side, and modes are those at this speed
_ASIDE = radians(0.3)
_MASS, _INERTIA, _FRONT, _REAR, _TABLES_AT = range(5)  # _FRONT, _REAR: from the centre of gravity to the axles, m
_PER_WHEEL = len(WHEEL)
_RATES = (("steering_angle", "steering_speed"),)
_RATIO = 16.0  # from the hand wheel to the road wheels, as a driver has it in his hands; the linkage's varies
_UNDERSTEER = 0.002  # rad at the road wheels for a m/s2


@kernel(error_model="numpy")
def _axle(w, axle, tyre, mu):
    """Its use and its slope, N/rad."""
    used = loads = slope = 0.0
    for k in range(2):
        at = W.wheel_speed_fl + _PER_WHEEL * (2 * axle + k)
        load, alpha, kappa = w[at + V.load], w[at + V.slip_angle], w[at + V.slip]
        if load <= 0.0:
            continue
        camber, speed = w[at + V.camber], w[at + V.speed]
        side = 1.0 if k == 0 else -1.0
        low = evaluate(
            tyre, load, kappa, sin(alpha - _ASIDE) / cos(alpha - _ASIDE), camber, mu, side, speed, False, 0.0
        )
        high = evaluate(
            tyre, load, kappa, sin(alpha + _ASIDE) / cos(alpha + _ASIDE), camber, mu, side, speed, False, 0.0
        )
        slope -= (high[1] - low[1]) / (2.0 * _ASIDE)
        along, across = w[at + V.force_x] / max(low[5], 1.0), w[at + V.force_y] / max(low[6], 1.0)
        used += load * sqrt(along * along + across * across)
        loads += load
    return (used / loads if loads > 0.0 else 0.0), slope


@kernel(error_model="numpy")
def growth(mass, inertia, a, b, front, rear, v):
    """The larger real part of the two modes, 1/s."""
    turning = a * front - b * rear
    a11, a12 = -(front + rear) / (mass * v), -v - turning / (mass * v)
    a21, a22 = -turning / (inertia * v), -(a * a * front + b * b * rear) / (inertia * v)
    half = 0.5 * (a11 + a22)
    square = half * half - (a11 * a22 - a12 * a21)
    return half + sqrt(square) if square > 0.0 else half


@kernel(JUDGE, error_model="numpy")
def judge(w, params, tables, numbers, out):
    a, b = numbers[_FRONT], numbers[_REAR]
    at = int(numbers[_TABLES_AT])
    road = tables.floats[at + slots.ROAD :]
    vx, vy, r = w[W.vx], w[W.vy], w[W.yaw_rate]
    c, s = cos(w[W.yaw]), sin(w[W.yaw])
    _, _, _, front_mu = surface(road, w[W.x] + a * c, w[W.y] + a * s)
    _, _, _, rear_mu = surface(road, w[W.x] - b * c, w[W.y] - b * s)
    front_mu, rear_mu = front_mu * params[P.grip], rear_mu * params[P.grip]
    tyres = at + slots.TYRES
    front, front_slope = _axle(w, 0, tables.floats[tyres : tyres + slots.TYRE], front_mu)
    rear, rear_slope = _axle(w, 1, tables.floats[tyres + slots.TYRE : tyres + 2 * slots.TYRE], rear_mu)
    out[USE] = max(front, rear)
    v = max(abs(vx), SLOW)
    out[GROWTH] = growth(numbers[_MASS], numbers[_INERTIA], a, b, front_slope, rear_slope, v)
    out[LOSS] = w[W.overturned]
    if vx * vx + vy * vy > SLOW * SLOW:
        spins = abs(atan2(vy - b * r, abs(vx)))
        slides = abs(atan2(vy + a * r, abs(vx)) - (w[W.road_wheel_angle] if vx >= 0.0 else -w[W.road_wheel_angle]))
        out[LOSS] = max(out[LOSS], spins / (SPIN * rear_mu), slides / (SLIDE * front_mu))


def mass_figures(params: np.ndarray) -> tuple[float, float, float, float]:
    """Mass, yaw inertia, and from the centre of gravity to the front and to the rear axle: those of linear theory
    (analysis/car.py), from the parameters alone."""
    p = {name: float(params[place]) for name, place in P.__members__.items()}
    front = p["wheel_mass"] + p["front_knuckle_mass"] + p["front_upper_arm_mass"] + p["front_lower_arm_mass"]
    rear = p["wheel_mass"] + p["rear_knuckle_mass"] + p["rear_arm_mass"] + p["strut_rod_mass"]
    lumps = [(p["sprung_mass"], p["sprung_cg_x"], 0.0)]
    lumps += [(2.0 * front, p["front_WC_x"], p["front_WC_y"]), (2.0 * rear, p["rear_WC_x"], p["rear_WC_y"])]
    mass = sum(m for m, _, _ in lumps)
    centre = sum(m * x for m, x, _ in lumps) / mass
    inertia = p["sprung_izz"] + sum(m * ((x - centre) ** 2 + y * y) for m, x, y in lumps)
    inertia += 4.0 * p["wheel_transverse_inertia"]
    return mass, inertia, p["front_WC_x"] - centre, centre - p["rear_WC_x"]


def monitor(params: np.ndarray, numbers_at: int) -> StabilityMonitor:
    """`numbers_at`: where the hook's constants begin in the machine's tables."""
    mass, inertia, front, rear = mass_figures(params)
    numbers = np.array([mass, inertia, front, rear, numbers_at])
    follow = Following("steering_angle", _RATIO * (front + rear), _RATIO * _UNDERSTEER, "steering_speed")
    return StabilityMonitor(judge, read_only(numbers), rates=_RATES, follow=follow)
