"""Double lane changes after ISO 3888-1 and ISO 3888-2: a driver who looks ahead, lanes of cones, clean or not.

The car is the rectangle over its wheels: from the front edge of the front wheels to the rear edge of the rear ones, as
wide as the outer edges of the tyres. A test driver may try again: here he tries how far ahead to look and how early to
turn in, in a fixed order, and the best attempt counts (fewest cones, then most room).
"""

from dataclasses import dataclass
from math import degrees

import numpy as np

from daq_service.driver import Follow
from tandem.html.chart import Series
from tandem.iso.result import Panel, Result, Row
from tandem.iso.runner import H, Drive, Log, plan
from tandem.iso.straight import resume
from tandem.iso.vehicle import Vehicle
from tandem.terminal import Update

SPEED = 80.0  # km/h
SEVERE_SPEED = 50.0  # km/h; entry
RUN_UP = 20.0  # m, along x before the first cone, of the path
_CONES = 3.0  # m between cones at most
_LEADS = (0.0, 0.15, 0.3, 0.45)  # of a transition, by which it begins before its section and ends after it
_PREVIEWS = (0.35, 0.45, 0.55, 0.65)  # s


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
    """ISO 3888-2: 12, 13.5, 11, 12.5, 12 m; 1 m between the left edge of the first and the right one of the side lane."""
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


def path(lanes: list[Lane], lead: float) -> list[list[float]]:
    """Waypoints through the middles of the lanes; each change begins `lead` of its length early and ends as late."""
    points = [[-RUN_UP - 200.0, 0.0], [-RUN_UP, 0.0]]
    ends = []
    for a, b in ((lanes[0], lanes[1]), (lanes[1], lanes[2])):
        length = b.begin - a.end
        ends.append((a.end - lead * length, b.begin + lead * length, a.middle, b.middle))
    for x0, x1, y0, y1 in ends:
        if points[-1][0] < x0 - 3.0:
            points += [[float(x), y0] for x in np.arange(points[-1][0] + 3.0, x0 - 1.0, 3.0)]
        for s in np.linspace(0.0, 1.0, 13):
            x = x0 + (x1 - x0) * s
            if x > points[-1][0] + 0.5:
                points.append([float(x), float(y0 + (y1 - y0) * s * s * s * (10.0 - 15.0 * s + 6.0 * s * s))])
    last = lanes[2]
    points += [[float(x), last.middle] for x in np.arange(points[-1][0] + 3.0, last.end + 150.0, 3.0)]
    return points


def hits(vehicle: Vehicle, log: Log, at: np.ndarray) -> tuple[np.ndarray, float]:
    """Which cones the car touched, and the least room it left to any, m (negative: over it by so much)."""
    car = vehicle.linear
    front = car.front.x - car.cg_x + car.front.radius
    rear = car.rear.x - car.cg_x - car.rear.radius
    dx, dy = at[None, :, 0] - log["x"][:, None], at[None, :, 1] - log["y"][:, None]
    c, s = np.cos(log["yaw"])[:, None], np.sin(log["yaw"])[:, None]
    ahead, aside = c * dx + s * dy, np.abs(c * dy - s * dx)
    room = np.where((ahead > rear) & (ahead < front), aside - 0.5 * vehicle.width, np.inf).min(axis=0)
    return room < 0.0, float(room.min())


def lane_change(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    return _change(vehicle, lanes_1(vehicle.width), speed or SPEED, True, update)


def severe_lane_change(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    return _change(vehicle, lanes_2(vehicle.width), speed or SEVERE_SPEED, False, update)


def _change(vehicle: Vehicle, lanes: list[Lane], speed: float, held: bool, update: Update) -> Result:
    v, car = speed / 3.6, vehicle.linear
    name = "lane-change" if held else "severe-lane-change"
    places = cones(lanes)
    approach = Drive(vehicle)
    approach.reach(v)
    update(name, 0.1)
    # the course begins RUN_UP ahead of where the car is now
    shift = float(approach.work[approach.names["x"]]) + RUN_UP
    places = places + np.array([shift, 0.0])
    attempts, seconds, capped = [], approach.steps * H, approach.whole().capped
    for lead in _LEADS:
        for preview in _PREVIEWS:
            follow = Follow(
                path=[[x + shift, y] for x, y in path(lanes, lead)],
                speed=v,
                lateral_acceleration=50.0,
                preview=preview,
                preview_min=2.0,
                wheelbase=car.wheelbase,
                steering_ratio=car.steering_ratio,
                understeer=0.0,
                hand_speed_deg=1000.0,
                reaction=0.05,
            )
            drive = resume(approach, follow)
            log = _through(drive, v, shift, lanes[-1].end, held)
            seconds, capped = seconds + drive.steps * H, capped + drive.whole().capped
            hit, room = hits(vehicle, log, places)
            attempts.append((int(hit.sum()), -room, lead, preview, log, hit))
            update(name, 0.1 + 0.9 * len(attempts) / (len(_LEADS) * len(_PREVIEWS)))
    count, minus_room, lead, preview, log, hit = min(attempts, key=lambda a: a[:4])
    a_y = log.lateral_acceleration
    rows = [
        Row("cones hit", "1", None, count, "counted"),
        Row("least room to a cone", "m", None, -minus_room, "counted"),
        Row("speed at the first gate", "km/h", speed, 3.6 * float(np.interp(shift, log["x"], log["vx"])), "as asked for"),
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
    across = [Series("standing cones", places[~hit, 0] - shift, places[~hit, 1])] if False else []
    outline = [
        Series(f"lane {k + 1}", np.array([lane.begin, lane.end, lane.end, lane.begin, lane.begin]), np.array([lane.right, lane.right, lane.right + lane.width, lane.right + lane.width, lane.right]))
        for k, lane in enumerate(lanes)
    ]  # fmt: skip
    clean = "clean" if count == 0 else f"{count} cone{'s' * (count > 1)} hit"
    title = "Double lane change, after ISO 3888-1" if held else "Severe lane change, after ISO 3888-2"
    way = "speed held" if held else "driveline opened at the entry"
    return Result(
        name,
        title,
        f"{speed:.0f} km/h, {way}, car {vehicle.width:.2f} m wide; {clean}",
        rows,
        [
            Panel("path of the centre of gravity, m", [Series("car", x[seen], log["y"][seen]), *outline, *across], plane=True),
            Panel("hand wheel angle, deg", [Series("steering", log.t, np.degrees(log["steering_angle"]))]),
            Panel("lateral acceleration, m/s²", [Series("simulated", log.t, a_y)]),
            Panel("yaw rate, deg/s, and sideslip, deg", [Series("yaw rate", log.t, np.degrees(log["yaw_rate"])), Series("sideslip", log.t, np.degrees(log["sideslip"]))]),
        ],
        [f"the driver looks {preview:g} s ahead and begins a change {lead:g} of its length early; {len(attempts)} attempts"],
        seconds,
        capped,
    )  # fmt: skip


def _through(drive: Drive, speed: float, shift: float, end: float, held: bool) -> Log:
    """From the run-up past the last gate; where the speed is not held, the driveline opens at the entry."""
    run_up = RUN_UP / speed
    drive.go(plan(run_up, follows=1.0, speed=speed))
    rest = (end + 25.0) / speed * (1.0 if held else 1.3)
    drive.go(plan(rest, follows=1.0, speed=speed) if held else plan(rest, follows=1.0))
    return drive.whole()
