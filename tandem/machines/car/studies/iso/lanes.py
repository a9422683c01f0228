"""Double lane changes after ISO 3888-1 and ISO 3888-2: a driver who looks ahead, lanes of cones, clean or not.

The car is the rectangle over its wheels: from the front edge of the front wheels to the rear edge of the rear ones, as
wide as the outer edges of the tyres. A test driver may try again: here he tries how early to turn in, in a fixed order,
and the best attempt counts (fewest gates missed, fewest cones, most room).
"""

from dataclasses import dataclass
from itertools import product
from math import degrees

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import Course, Drive, H, Log, plan
from tandem.machines.car.studies.iso.transient import frequency_response, linear_system
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import Series

SPEED = 80.0  # km/h
SEVERE_SPEED = 50.0  # km/h; entry
RUN_UP = 20.0  # m, along x before the first cone, of the path
_CONES = 3.0  # m between cones at most
_LEADS = ((0.1, 0.1), (0.2, 0.2), (0.2, 0.3), (0.25, 0.3), (0.3, 0.3), (0.3, 0.4))  # of both changes
_LATE = (0.0, 0.05, 0.1)  # of their lengths, by which both changes are moved on
_EASE = 0.1  # of the car's answer to slow steering
_PREVIEW = 0.8  # s, the driver looks ahead to correct errors
_RUN_UP_SECONDS = 10.0


@dataclass(frozen=True)
class Lane:
    begin: float
    end: float
    right: float  # y of its right edge
    width: float

    @property
    def middle(self) -> float:
        return self.right + 0.5 * self.width


def lanes_1(width: float) -> list[Lane]:
    """ISO 3888-1: 15, 30, 25, 25, 15, 15 m; the side lane is 3.5 m to the left, right edge to right edge."""
    first, side, last = 1.1 * width + 0.25, 1.2 * width + 0.25, 1.3 * width + 0.25
    begin = -0.5 * first
    return [
        Lane(0.0, 15.0, begin, first),
        Lane(45.0, 70.0, begin + 3.5, side),
        Lane(95.0, 125.0, begin, last),
    ]


def lanes_2(width: float) -> list[Lane]:
    """ISO 3888-2: 12, 13.5, 11, 12.5, 12 m; 1 m between the first lane and the side lane."""
    first, side, last = 1.1 * width + 0.25, width + 1.0, max(1.3 * width + 0.25, 3.0)
    begin = -0.5 * first
    return [
        Lane(0.0, 12.0, begin, first),
        Lane(25.5, 36.5, begin + first + 1.0, side),
        Lane(49.0, 61.0, begin, last),
    ]


def cones(lanes: list[Lane]) -> np.ndarray:
    """Their places, both edges of every lane."""
    out = []
    for lane in lanes:
        count = int(np.ceil((lane.end - lane.begin) / _CONES)) + 1
        for x in np.linspace(lane.begin, lane.end, count):
            out += [[x, lane.right], [x, lane.right + lane.width]]
    return np.array(out)


def course(
    vehicle: Vehicle, lanes: list[Lane], leads: tuple[float, float], late: float, speed: float, begin: float
) -> Course:
    """How a driver who knows his car by linear theory would go: the steering whose answer is the way he wants.

    The way goes through the middles of the lanes; a change begins `leads` of its length early and ends as late (a
    polynomial of fifth order); `late` moves both on. Its lateral acceleration over the car's frequency response is the
    steering; place and heading are then those the linear car would have. `begin` is x of the first gate.
    """
    car = vehicle.linear
    count = 8192
    t = H * np.arange(count) - _RUN_UP_SECONDS
    wanted = _acceleration(lanes, leads, late, speed, t)
    system = linear_system(vehicle, speed)
    lines = 2.0 * np.pi * np.fft.rfftfreq(count, H)
    answers = np.array([frequency_response(system, float(w) / (2.0 * np.pi)) for w in lines])
    H_a, H_r = answers[:, 1], answers[:, 0]
    # where the car hardly answers to the wheel, the driver does not try
    inverse = np.conj(H_a) / (np.abs(H_a) ** 2 + (_EASE * abs(H_a[0])) ** 2)
    steer = np.fft.rfft(wanted) * inverse
    acceleration, yaw_rate = np.fft.irfft(steer * H_a, count), np.fft.irfft(steer * H_r, count)
    y = H * np.cumsum(H * np.cumsum(acceleration))
    heading = H * np.cumsum(yaw_rate)
    hands = car.steering_ratio * np.fft.irfft(steer, count)
    reach = _PREVIEW * speed
    gain = 2.0 * car.wheelbase / reach**2 * car.steering_ratio
    table = np.column_stack([y, heading, hands])
    return Course(begin + speed * float(t[0]), speed * H, table, gain, gain * reach)


def _acceleration(
    lanes: list[Lane], leads: tuple[float, float], late: float, speed: float, t: np.ndarray
) -> np.ndarray:
    x = speed * t
    out = np.zeros(len(t))
    for (a, b), lead in zip(((lanes[0], lanes[1]), (lanes[1], lanes[2])), leads, strict=True):
        length = (b.begin - a.end) * (1.0 + 2.0 * lead)
        s = np.clip((x - a.end + (lead - late) * (b.begin - a.end)) / length, 0.0, 1.0)
        out += (b.middle - a.middle) * (speed / length) ** 2 * 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s)
    return out


def hits(vehicle: Vehicle, log: Log, at: np.ndarray) -> tuple[np.ndarray, float]:
    """Which cones the car touched, and the least room it left to any, m (negative: over it by so much)."""
    car = vehicle.linear
    front = car.front.x - car.cg_x + car.front.radius
    rear = car.rear.x - car.cg_x - car.rear.radius
    dx, dy = at[None, :, 0] - log["x"][:, None], at[None, :, 1] - log["y"][:, None]
    c, s = np.cos(log["yaw"])[:, None], np.sin(log["yaw"])[:, None]
    ahead, aside = c * dx + s * dy, np.abs(c * dy - s * dx)
    clearance = np.where((ahead > rear) & (ahead < front), aside - 0.5 * vehicle.width, np.inf).min(axis=0)
    return clearance < 0.0, float(clearance.min())


def lane_change(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    return _change(vehicle, lanes_1(vehicle.width), speed or SPEED, True, update)


def severe_lane_change(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    return _change(vehicle, lanes_2(vehicle.width), speed or SEVERE_SPEED, False, update)


def _change(vehicle: Vehicle, lanes: list[Lane], speed: float, held: bool, update: Update) -> Result:
    v = speed / 3.6
    name = "lane-change" if held else "severe-lane-change"
    places = cones(lanes)
    approach = Drive(vehicle)
    approach.reach(v)
    update(name, 0.1)
    # the course begins RUN_UP ahead of where the car is now
    shift = float(approach.work[approach.names["x"]]) + RUN_UP
    places = places + np.array([shift, 0.0])
    attempts, seconds, capped = [], approach.steps * H, approach.whole().capped
    for leads, late in product(_LEADS, _LATE):
        drive = approach.onward(course(vehicle, lanes, leads, late, v, shift))
        log = through(drive, v, lanes[-1].end, held)
        seconds, capped = seconds + drive.steps * H, capped + drive.whole().capped
        hit, clearance = hits(vehicle, log, places)
        attempts.append(
            (missed_gates(lanes, log, shift), int(hit.sum()), -clearance, (leads[0] - late, leads[1] - late), log)
        )
        update(name, 0.1 + 0.9 * len(attempts) / (len(_LEADS) * len(_LATE)))
    missed, count, minus_clearance, chosen, log = min(attempts, key=lambda a: a[:4])
    a_y = log.lateral_acceleration
    rows = [
        Row("gates missed", "1", None, missed, "counted"),
        Row("cones hit", "1", None, count, "counted"),
        Row("least room to a cone", "m", None, -minus_clearance, "counted"),
        Row(
            "speed at the first gate", "km/h", None, 3.6 * float(np.interp(shift, log["x"], log["vx"])), "as asked for"
        ),
        Row("speed at the last gate", "km/h", None, 3.6 * float(np.interp(shift + lanes[-1].end, log["x"], log["vx"]))),
        Row("largest lateral acceleration", "m/s²", None, float(np.abs(a_y).max())),
        Row("largest yaw rate", "deg/s", None, degrees(float(np.abs(log["yaw_rate"]).max()))),
        Row("largest sideslip", "deg", None, degrees(float(np.abs(log["sideslip"]).max()))),
        Row("largest roll", "deg", None, degrees(float(np.abs(log["roll"]).max()))),
        Row("largest hand wheel angle", "deg", None, degrees(float(np.abs(log["steering_angle"]).max()))),
        Row("least wheel load", "N", None, min(float(log[f"load_{w}"].min()) for w in ("fl", "fr", "rl", "rr"))),
        Row("steps capped", "1", 0.0, log.capped, "every step converges"),
    ]
    x = log["x"] - shift
    seen = x > -RUN_UP
    outline = [
        Series(
            f"lane {k + 1}",
            lane.begin + np.array([0.0, 1.0, 1.0, 0.0, 0.0]) * (lane.end - lane.begin),
            lane.right + np.array([0.0, 0.0, 1.0, 1.0, 0.0]) * lane.width,
        )
        for k, lane in enumerate(lanes)
    ]
    clean = "off the course" if missed else "clean" if count == 0 else f"{count} cone{'s' * (count > 1)} hit"
    title = "Double lane change, after ISO 3888-1" if held else "Severe lane change, after ISO 3888-2"
    way = "speed held" if held else "driveline opened at the entry"
    return Result(
        name,
        title,
        f"{speed:.0f} km/h, {way}, car {vehicle.width:.2f} m wide; {clean}",
        rows,
        [
            Panel("path of the centre of gravity, m", [Series("car", x[seen], log["y"][seen]), *outline], plane=True),
            Panel("hand wheel angle, deg", [Series("steering", log.t, np.degrees(log["steering_angle"]))]),
            Panel("lateral acceleration, m/s²", [Series("simulated", log.t, a_y)]),
            Panel(
                "yaw rate, deg/s, and sideslip, deg",
                [
                    Series("yaw rate", log.t, np.degrees(log["yaw_rate"])),
                    Series("sideslip", log.t, np.degrees(log["sideslip"])),
                ],
            ),
        ],
        [
            f"best of {len(attempts)} attempts: the changes begin {chosen[0]:.2g} and {chosen[1]:.2g} of their lengths"
            " early"
        ],
        seconds,
        capped,
    )


def missed_gates(lanes: list[Lane], log: Log, shift: float) -> int:
    """Begins and ends of lanes that the centre of gravity did not pass between its cones."""
    x = log["x"] - shift
    out = 0
    for lane in lanes:
        for gate in (lane.begin, lane.end):
            past = np.flatnonzero(x > gate)
            out += not (len(past) and abs(float(log["y"][past[0]]) - lane.middle) < 0.5 * lane.width)
    return out


def through(drive: Drive, speed: float, end: float, held: bool) -> Log:
    """From the run-up past the last gate; where the speed is not held, the driveline opens at the entry."""
    run_up = RUN_UP / speed
    drive.go(plan(run_up, follows=1.0, speed=speed))
    rest = (end + 15.0) / speed * (1.0 if held else 1.3)
    drive.go(plan(rest, follows=1.0, speed=speed) if held else plan(rest, follows=1.0))
    return drive.whole()
