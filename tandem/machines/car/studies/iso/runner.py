"""A manoeuvre driven offline: the car's own step, hands and feet that are programmed, every step logged.

Promises
- One compiled loop for all manoeuvres, without clock and without chance: the same car and plan give the same bits.
- It stops at the first step that found no finite end, and, where asked, as soon as the car stands.

A plan has a row for each step. Hands turn the wheel as the row says, with its derivatives; to hold a curvature they add
what an integral of its error asks for; along a `Course` they steer as it says for where the car is, and against the
errors of place and heading. Hands have mass: what course or curvature ask for passes a filter of second order, so that
angle, speed and acceleration belong together. With an `Arm` they give way: spring, damper and mass between what is
wanted and the wheel, against the torque of the car, and errors are those of a reaction time before. Feet hold a speed
by the torque on the rear wheels (`gear_mode` 0, a proportional and integral law), or give torque, throttle and brake as
the row says.
"""

from dataclasses import dataclass
from math import isfinite, isnan, sqrt

import numpy as np
from numba import float64, int64, types

from sim_service.contract.machine import STEP, TABLES, index
from sync.compile.jit import kernel
from sync.errors import Diverged, TandemError
from tandem.machines.car.studies.iso.vehicle import STEP_S, Vehicle
from tandem.machines.car.vehicle import PRESCRIBED_INPUTS, VEHICLE_INPUTS

H = STEP_S
_PATIENCE = 12  # times a car is waited for that has not reached its speed

# columns of a plan
ANGLE, RATE, ACCELERATION, CURVATURE, SPEED, TORQUE, THROTTLE, BRAKE, FOLLOWS = range(9)
COLUMNS = 9

# places of the outputs the driver looks at, then what he does with them
X, Y, YAW, VX, VY, YAW_RATE, CAPPED, HELD = range(8)
READ_OUTPUTS = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "capped", "steering_torque")
STOPPED = 2.0  # of `capped`: the step found no end, the car was stopped where it was
STOP_BELOW, TORQUE_MOST, MASS, RADIUS, HANDS, CURVATURE_GAIN, COURSE_BEGIN, COURSE_STEP, PLACE_GAIN, HEADING_GAIN = (
    range(10)
)
ARM_INERTIA, ARM_DAMPING, ARM_STIFFNESS, REACTION = range(10, 14)

# columns of a course
PLACE, HEADING, STEERING = range(3)

# the driver's memory
SPEED_INTEGRAL, CORRECTION, HAND_ANGLE, HAND_RATE = range(4)
MEMORY = 4

_ANGLE = index(VEHICLE_INPUTS, "steering_angle")
_THROTTLE = index(VEHICLE_INPUTS, "throttle")
_BRAKE = index(VEHICLE_INPUTS, "brake_pressure_bar")
_DRIVE = index(VEHICLE_INPUTS, "drive_torque")
_VECTOR, _TABLE = float64[::1], float64[:, ::1]


class CannotDrive(TandemError):
    """The car does not do what the test is about."""

    code = 1


# long: one call of a kernel over flat arrays
@kernel(
    int64(
        types.FunctionType(STEP), _VECTOR, _VECTOR, _VECTOR, TABLES, _VECTOR, float64,  # machine, its vectors, step
        _TABLE, _VECTOR, _VECTOR, _TABLE,  # plan, settings, memory, course
        int64[::1], int64[::1], _TABLE, int64,  # places: looked at, logged; log; first step
    )
)  # fmt: skip
def run(step, state, inputs, params, tables, work, h, plan, settings, memory, course, read, logged, log, first):
    """Steps made; the log has the outputs at `logged` and then the inputs."""
    outputs = logged.shape[0]
    for k in range(plan.shape[0]):
        row = plan[k]
        vx, vy = work[read[VX]], work[read[VY]]
        speed = sqrt(vx * vx + vy * vy)

        # hands
        angle, rate, acceleration = row[ANGLE], row[RATE], row[ACCELERATION]
        closed = row[FOLLOWS] > 0.0 or not isnan(row[CURVATURE])
        if closed:
            wanted = angle
            if row[FOLLOWS] > 0.0:
                # where the car is; hands are late by 2 / HANDS, so they steer for what comes then
                now = (work[read[X]] - settings[COURSE_BEGIN]) / settings[COURSE_STEP]
                then = now + 2.0 * vx / settings[HANDS] / settings[COURSE_STEP]
                most = course.shape[0] - 1.001
                now, then = min(max(now, 0.0), most), min(max(then, 0.0), most)
                i, j = int(now), int(then)
                f, g = now - i, then - j
                y = course[i, PLACE] + f * (course[i + 1, PLACE] - course[i, PLACE])
                yaw = course[i, HEADING] + f * (course[i + 1, HEADING] - course[i, HEADING])
                wanted = course[j, STEERING] + g * (course[j + 1, STEERING] - course[j, STEERING])
                place, heading = work[read[Y]], work[read[YAW]]
                if settings[REACTION] > 0.0 and k > 0:
                    # he corrects what he saw a reaction time ago
                    back = first + max(k - 1 - int(settings[REACTION] / h + 0.5), 0)
                    now = max((log[back, read[X]] - settings[COURSE_BEGIN]) / settings[COURSE_STEP], 0.0)
                    i = int(min(now, most))
                    f = min(now, most) - i
                    y = course[i, PLACE] + f * (course[i + 1, PLACE] - course[i, PLACE])
                    yaw = course[i, HEADING] + f * (course[i + 1, HEADING] - course[i, HEADING])
                    place, heading = log[back, read[Y]], log[back, read[YAW]]
                wanted += settings[PLACE_GAIN] * (y - place)
                wanted += settings[HEADING_GAIN] * (yaw - heading)
            else:
                error = row[CURVATURE] - work[read[YAW_RATE]] / max(speed, 1.0)
                memory[CORRECTION] += settings[CURVATURE_GAIN] * error * h
                wanted += memory[CORRECTION]
            w = settings[HANDS]
            acceleration = (w * w * (wanted - memory[HAND_ANGLE]) - 2.0 * w * memory[HAND_RATE]) / (1.0 + w * h) ** 2
            if settings[ARM_INERTIA] > 0.0:
                stiffness, damping = settings[ARM_STIFFNESS], settings[ARM_DAMPING]
                hands = stiffness * (wanted - memory[HAND_ANGLE] - h * memory[HAND_RATE]) - damping * memory[HAND_RATE]
                whole = settings[ARM_INERTIA] + h * (damping + h * stiffness)
                acceleration = (hands - work[read[HELD]]) / whole
            memory[HAND_RATE] += h * acceleration
            memory[HAND_ANGLE] += h * memory[HAND_RATE]
            angle, rate = memory[HAND_ANGLE], memory[HAND_RATE]
        else:
            memory[HAND_ANGLE], memory[HAND_RATE] = angle, rate

        # feet
        torque = row[TORQUE]
        if not isnan(row[SPEED]):
            error = row[SPEED] - vx
            before = row[SPEED] if k == 0 or isnan(plan[k - 1, SPEED]) else plan[k - 1, SPEED]
            ask = settings[MASS] * (3.0 * error + (row[SPEED] - before) / h) * settings[RADIUS]
            if abs(ask) < settings[TORQUE_MOST]:
                memory[SPEED_INTEGRAL] += settings[MASS] * settings[RADIUS] * 1.5 * error * h
            torque = min(max(ask + memory[SPEED_INTEGRAL], -settings[TORQUE_MOST]), settings[TORQUE_MOST])
        inputs[_ANGLE], inputs[_ANGLE + 1], inputs[_ANGLE + 2] = angle, rate, acceleration
        inputs[_DRIVE], inputs[_THROTTLE], inputs[_BRAKE] = torque, row[THROTTLE], row[BRAKE]

        step(state, inputs, params, tables, work, h)
        for i in range(outputs):
            log[first + k, i] = work[logged[i]]
        for i in range(inputs.shape[0]):
            log[first + k, outputs + i] = inputs[i]
        finite = isfinite(work[read[X]] + work[read[YAW_RATE]] + work[read[VX]])
        if not finite or work[read[CAPPED]] >= STOPPED:
            return -(k + 1)
        if settings[STOP_BELOW] > 0.0 and abs(work[read[VX]]) < settings[STOP_BELOW]:
            return k + 1
    return plan.shape[0]


def plan(seconds: float, **columns: float | np.ndarray) -> np.ndarray:
    """A plan of so many seconds. Columns not given: hands and feet still, neither speed nor curvature held."""
    steps = max(1, round(seconds / H))
    rows = np.zeros((steps, COLUMNS))
    rows[:, CURVATURE] = rows[:, SPEED] = np.nan
    for name, value in columns.items():
        rows[:, _PLACES[name]] = value
    return rows


def instants(seconds: float) -> np.ndarray:
    """The ends of the steps of a plan of so many seconds."""
    return H * np.arange(1, max(1, round(seconds / H)) + 1)


_PLACES = {
    "angle": ANGLE,
    "rate": RATE,
    "acceleration": ACCELERATION,
    "curvature": CURVATURE,
    "speed": SPEED,
    "torque": TORQUE,
    "throttle": THROTTLE,
    "brake": BRAKE,
    "follows": FOLLOWS,
}


@dataclass(frozen=True, eq=False)
class Course:
    """Along x from `begin`, every `step` m: place y and heading the car should have there, hand wheel angle for it.

    The gains are hand wheel angle per metre and per rad of error.
    """

    begin: float
    step: float
    table: np.ndarray
    place_gain: float
    heading_gain: float


@dataclass(frozen=True)
class Arm:
    """Of a driver whose hands give way: at the hand wheel, kg m2, N m s/rad, N m/rad, and s until he corrects."""

    inertia: float
    damping: float
    stiffness: float
    reaction: float


class Drive:
    """A car on its way, from standing: plan after plan, and the log of all of them."""

    def __init__(self, vehicle: Vehicle, course: Course | None = None, arm: Arm | None = None) -> None:
        model = vehicle.model
        self.vehicle = vehicle
        self.params, self.state, self.work = vehicle.params.copy(), vehicle.state.copy(), vehicle.work.copy()
        self.inputs = np.zeros(len(model.inputs))
        for quantity in PRESCRIBED_INPUTS:
            self.inputs[index(model.inputs, quantity.name)] = np.nan
        self.names = {q.name: i for i, q in enumerate((*model.outputs, *model.inputs))}
        self.read = np.array([index(model.outputs, name) for name in READ_OUTPUTS])
        self.logged = np.arange(len(model.outputs))
        car, rear = vehicle.linear, vehicle.linear.rear
        # the rear wheels do not spin: half of what they could hold
        most = 0.5 * vehicle.friction_x * car.loads[1] * rear.radius
        hold = 2.0 * car.wheelbase * car.steering_ratio
        along = [0.0, 1.0, 0.0, 0.0]
        if course is not None:
            along = [course.begin, course.step, course.place_gain, course.heading_gain]
        hands = [0.0] * 4 if arm is None else [arm.inertia, arm.damping, arm.stiffness, arm.reaction]
        # an arm is late by damping / stiffness, which its driver knows
        late = 40.0 if arm is None else 2.0 * arm.stiffness / arm.damping
        self.settings = np.array([0.0, most, car.mass, rear.radius, late, hold, *along, *hands])
        self.memory = np.zeros(MEMORY)
        self.course = np.zeros((2, 3)) if course is None else course.table
        self.rows: list[np.ndarray] = []
        self.steps = 0
        self.set("gear_mode", 0.0)

    def set(self, parameter: str, value: float) -> None:
        """Change a live parameter from the next step on."""
        self.params[self.vehicle.place(parameter)] = value

    def go(self, rows: np.ndarray, stop_below: float = 0.0) -> "Log":
        """Drive a plan; its own part of the log. `stop_below`: ends as soon as the car is slower than this, m/s."""
        log = np.zeros((len(rows), len(self.logged) + len(self.inputs)))
        self.settings[STOP_BELOW] = stop_below
        model = self.vehicle.model
        done = run(
            model.step, self.state, self.inputs, self.params, model.tables, self.work, H, rows, self.settings,
            self.memory, self.course, self.read, self.logged, log, 0,
        )  # fmt: skip
        if done < 0:
            at = H * (self.steps - done)
            raise Diverged(f"the car diverged {at:.2f} s after the start: a step found no finite end")
        self.rows.append(log[:done])
        self.vehicle.step_errors.append(float(log[:done, self.names["step_error"]].max()))
        self.steps += done
        return Log(self.names, log[:done])

    def onward(self, course: Course | None = None, arm: Arm | None = None) -> "Drive":
        """A drive that goes on from the same instant, with a log of its own."""
        other = Drive(self.vehicle, course, arm)
        other.state[:], other.work[:], other.params[:] = self.state, self.work, self.params
        other.inputs[:], other.memory[:] = self.inputs, self.memory
        return other

    def whole(self) -> "Log":
        return Log(self.names, np.vstack(self.rows))

    def reach(self, speed: float, acceleration: float = 3.0, settle: float = 4.0) -> "Log":
        """Straight ahead to a speed, m/s, as quickly as its tyres allow, and on at it until all is steady."""
        most = self.settings[TORQUE_MOST] / (self.settings[MASS] * self.settings[RADIUS])
        acceleration = min(acceleration, 0.7 * float(most))
        ramp = speed / acceleration
        self.go(plan(ramp, speed=np.minimum(speed, acceleration * instants(ramp))))
        for _ in range(_PATIENCE):
            log = self.go(plan(settle, speed=speed))
            if abs(float(log["vx"][-1]) / speed - 1.0) < 0.002:
                break
        if abs(float(log["vx"][-1]) / speed - 1.0) > 0.02:
            raise CannotDrive(f"{3.6 * speed:.0f} km/h is not reached: {3.6 * float(log['vx'][-1]):.0f} km/h")
        if abs(float(log["yaw"][-1])) > 0.2:
            raise CannotDrive(f"the car does not keep straight on its way to {3.6 * speed:.0f} km/h")
        return log


class Log:
    """Rows of a drive, columns by the names of the model's outputs and inputs; `t` in s from its first row."""

    def __init__(self, names: dict[str, int], rows: np.ndarray) -> None:
        self.names, self.rows = names, rows

    def __getitem__(self, name: str) -> np.ndarray:
        found: np.ndarray = self.rows[:, self.names[name]]
        return found

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def t(self) -> np.ndarray:
        found: np.ndarray = H * np.arange(1, len(self.rows) + 1)
        return found

    @property
    def speed(self) -> np.ndarray:
        found: np.ndarray = np.hypot(self["vx"], self["vy"])
        return found

    @property
    def lateral_acceleration(self) -> np.ndarray:
        """Horizontal and across the heading, without the part of gravity that a leaning accelerometer reads."""
        roll = self["roll"]
        # chassis axes to the horizontal ones of the heading
        found: np.ndarray = self["ay"] * np.cos(roll) - self["az"] * np.sin(roll)
        return found

    def last(self, seconds: float) -> "Log":
        return Log(self.names, self.rows[-max(1, round(seconds / H)) :])

    def mean(self, name: str) -> float:
        return float(self[name].mean())

    @property
    def capped(self) -> int:
        return int(self["capped"].sum())
