"""Answers to the steering after ISO 7401: a step of the hand wheel, and a sweep of sines.

Predictions are those of the single-track car with roll (`analysis.handling.rolling_track`), given the very road wheel
angles the simulated car had: both answers are then measured by the same rules.
"""

from itertools import pairwise
from math import degrees, inf, isfinite, pi, radians

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.buggy.analysis.handling import System, exponential, roll_terms, rolling_track
from tandem.machines.car.buggy.analysis.steady import tyre_roll_stiffness, wheel_lean
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import Drive, H, Log, instants, plan
from tandem.machines.car.studies.iso.theory import axle_loads, rolling_moment, stiffnesses, turn
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import Series

SPEED = 80.0  # km/h
LEVELS = (1.0, 4.0)  # m/s2, steady
HAND_SPEED = radians(500.0)  # rad/s
_BEFORE, _AFTER = 0.5, 5.0  # s

SWEEP = (0.2, 3.0)  # Hz
SWEEP_SECONDS = 60.0
SWEEP_LEVEL = 1.0  # m/s2 at low frequency
BANDS = 24


def linear_system(vehicle: Vehicle, speed: float) -> System:
    """The car with roll, at the loads it has at this speed, and what `theory.turn` adds to a steady turn.

    Its second output is the lateral acceleration of the centre of gravity, not of the road below it.
    """
    car = vehicle.linear
    loads = axle_loads(vehicle, speed)
    each = [stiffnesses(vehicle, i, 0.5 * load, speed) for i, load in enumerate(loads)]
    found = rolling_track(car, speed, (2.0 * each[0].side_slip, 2.0 * each[1].side_slip))
    # forces on (v, r, φ, ψf, ψr) from the states
    extra = np.zeros((5, len(found.A)))
    turns = [found.states.index(name) for name in ("roll", "axle_roll_front", "axle_roll_rear")]
    yawing = found.states.index("yaw_rate")
    for i, axle in enumerate(car.axles):
        lean = wheel_lean(axle, np.eye(3)[0], np.eye(3)[1 + i])
        spin = speed / vehicle.rolling_radius(i, 0.5 * loads[i])
        extra[2:, yawing] += 2.0 * axle.wheel_inertia * spin * lean
        extra[yawing, 2:5] -= 2.0 * axle.wheel_inertia * spin * lean
        extra[1, turns] += 2.0 * each[i].aligning_lean * lean
        rolling = rolling_moment(vehicle, i, 0.5 * loads[i], speed) / vehicle.arm(i, 0.5 * loads[i]) / (0.5 * loads[i])
        extra[1, turns[1 + i]] -= rolling * tyre_roll_stiffness(axle)
        side = found.states.index(("side_force_front", "side_force_rear")[i])
        extra[2:, side] += each[i].overturning_slip / each[i].side_slip * lean
        extra[2:, turns] += 2.0 * each[i].overturning_lean * np.outer(lean, lean)
    A = found.A.copy()
    A[:5] += np.linalg.solve(roll_terms(car)[0], extra)
    found = System(A, found.B, found.C + (A - found.A)[0] * np.eye(4)[1][:, None], found.D, found.states)
    heights = [axle.roll_centre for axle in car.axles]
    front = (car.cg_x - car.rear.x) / car.wheelbase
    arm = car.cg_height - front * heights[0] - (1.0 - front) * heights[1]
    C, D = found.C.copy(), found.D.copy()
    for row, lever in ((2, arm), (3, front * heights[0]), (4, (1.0 - front) * heights[1])):
        C[1] -= lever * found.A[row]
        D[1] -= lever * found.B[row]
    return System(found.A, found.B, C, D, found.states)


def answer(system: System, steer: np.ndarray) -> np.ndarray:
    """Outputs at the ends of steps, a row each, the steer angle straight between them, all zero before."""
    n = len(system.A)
    whole = np.zeros((n + 2, n + 2))  # x, δ, slope of δ
    whole[:n, :n], whole[:n, n], whole[n, n + 1] = system.A, system.B, 1.0
    advance = exponential(whole * H)
    x, last = np.zeros(n), 0.0
    out = np.empty((len(steer), len(system.C)))
    for k, angle in enumerate(steer):
        x = advance[:n, :n] @ x + advance[:n, n] * last + advance[:n, n + 1] * (angle - last) / H
        out[k] = system.C @ x + system.D * angle
        last = angle
    return out


def step(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    v = (speed or SPEED) / 3.6
    system = linear_system(vehicle, v)
    rows: list[Row] = []
    panels: list[Panel] = []
    notes = []
    seconds, capped = 0.0, 0
    for k, level in enumerate(LEVELS):
        # the angle that gives the level: first as theory has it, then corrected by what came
        angle = turn(vehicle, v, level).steer * vehicle.linear.steering_ratio
        for attempt in range(3):
            log = _step(vehicle, v, angle)
            update("step", (3 * k + attempt + 1) / (3 * len(LEVELS)))
            seconds, capped = seconds + float(log.t[-1]), capped + log.capped
            settled = float((log.speed * log["yaw_rate"])[-200:].mean())
            if abs(settled / level - 1.0) < 0.01:
                break
            angle *= level / settled
        if not 0.5 * level < settled < 2.0 * level:
            notes.append(f"{level:g} m/s² is not reached: {settled:.2f} m/s², so it has no figures")
            continue
        predicted = answer(system, log["road_wheel_angle"])
        t = log.t - _BEFORE
        reference = _half(t, log["road_wheel_angle"])
        rows += _step_rows(f"at {level:g} m/s²", log, predicted, t - reference)
        if not any(row.quantity.startswith("yaw rate, peak") and f"at {level:g}" in row.quantity for row in rows):
            notes.append(f"to {level:g} m/s² the yaw rate rises to its end without a peak: no peak time, no TB factor")
        if abs(settled / level - 1.0) > 0.05:
            notes.append(f"{level:g} m/s² is not reached: {settled:.2f} m/s²")
        for title, place, of in (
            ("yaw rate, deg/s", 0, np.degrees(log["yaw_rate"])),
            ("lateral acceleration, m/s²", 1, log.lateral_acceleration),
            ("roll, deg", 3, np.degrees(log["roll"])),
        ):
            theory = predicted[:, place] if place == 1 else np.degrees(predicted[:, place])
            series = [Series("linear theory with roll", t - reference, theory), Series("simulated", t - reference, of)]
            panels.append(Panel(f"{title}, to {level:g} m/s²", series))
    notes.append("theory has linear tyres: to 4 m/s² their slip grows faster than the force")
    return Result(
        "step",
        "Step steer, after ISO 7401",
        f"{3.6 * v:.0f} km/h held, hand wheel at {degrees(HAND_SPEED):.0f} deg/s; time runs from half the steer angle",
        rows,
        panels,
        notes,
        seconds,
        capped,
    )


def _step(vehicle: Vehicle, speed: float, angle: float) -> Log:
    drive = Drive(vehicle)
    drive.reach(speed)
    total = _BEFORE + _AFTER
    t = instants(total) - _BEFORE
    hands = np.clip(t * HAND_SPEED, 0.0, abs(angle)) * np.sign(angle)
    moving = (hands != 0.0) & (np.abs(hands) < abs(angle))
    return drive.go(plan(total, angle=hands, rate=np.where(moving, np.sign(angle) * HAND_SPEED, 0.0), speed=speed))


def _half(t: np.ndarray, steer: np.ndarray) -> float:
    """When half of the steer angle is reached."""
    return float(np.interp(0.5 * abs(steer[-1]), np.abs(steer[t <= 1.0]), t[t <= 1.0]))


def _step_rows(where: str, log: Log, predicted: np.ndarray, t: np.ndarray) -> list[Row]:
    by = "single track with roll, on the same steer angle"
    steer = float(log["road_wheel_angle"][-200:].mean())
    theirs = [_rise(t, predicted[:, 0]), _rise(t, predicted[:, 1])]
    ours = [_rise(t, log["yaw_rate"]), _rise(t, log.lateral_acceleration)]
    roll = float(log["roll"][-200:].mean()), float(predicted[-200:, 3].mean())
    beta = float(log["sideslip"][-200:].mean()), float(predicted[-200:, 2].mean())
    rows = [
        Row(f"yaw gain {where}", "1/s", theirs[0]["steady"] / steer, ours[0]["steady"] / steer, f"steady; {by}"),
        Row(f"yaw rate, rise time {where}", "s", theirs[0]["rise"], ours[0]["rise"], f"to 90 %; {by}"),
        Row(f"lateral acceleration, rise time {where}", "s", theirs[1]["rise"], ours[1]["rise"], f"to 90 %; {by}"),
        Row(f"yaw rate, overshoot {where}", "%", 100 * theirs[0]["over"], 100 * ours[0]["over"], by),
        Row(f"roll {where}", "deg", degrees(roll[1]), degrees(roll[0]), f"steady; {by}"),
        Row(f"sideslip {where}", "deg", degrees(beta[1]), degrees(beta[0]), f"steady; {by}"),
    ]
    if isfinite(theirs[0]["peak"]) and isfinite(ours[0]["peak"]):
        bees = [abs(degrees(b)) * a["peak"] for b, a in ((beta[1], theirs[0]), (beta[0], ours[0]))]
        rows += [
            Row(f"yaw rate, peak time {where}", "s", theirs[0]["peak"], ours[0]["peak"], by),
            Row(f"TB factor {where}", "deg s", bees[0], bees[1], f"peak time times steady sideslip; {by}"),
        ]
    return rows


def _rise(t: np.ndarray, values: np.ndarray) -> dict[str, float]:
    steady = float(values[-200:].mean())
    share = values / steady
    first = int(np.flatnonzero(share >= 0.9)[0])
    rise = float(np.interp(0.9, share[first - 1 : first + 1], t[first - 1 : first + 1]))
    top = int(np.argmax(share))
    if top > len(share) - 200 or share[top] < 1.005:  # it creeps up to its end: no peak
        return {"steady": steady, "rise": rise, "peak": inf, "over": 0.0}
    # the top lies between steps: a parabola through three of them
    a, b, c = (float(v) for v in share[top - 1 : top + 2])
    bend = a - 2.0 * b + c
    shift = 0.5 * (a - c) / bend if bend < 0.0 else 0.0
    return {
        "steady": steady,
        "rise": rise,
        "peak": float(t[top]) + shift * H,
        "over": b - 0.25 * (a - c) * shift - 1.0,
    }


# long: one manoeuvre, from its first run to its last row
def sweep(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    v = (speed or SPEED) / 3.6
    drive = Drive(vehicle)
    drive.reach(v)
    update("sweep", 0.1)
    angle = turn(vehicle, v, SWEEP_LEVEL).steer * vehicle.linear.steering_ratio
    hands, rate, acceleration = _chirp(angle)
    log = drive.go(plan(SWEEP_SECONDS, angle=hands, rate=rate, acceleration=acceleration, speed=v))
    update("sweep", 0.8)
    system = linear_system(vehicle, v)
    frequencies, gains = _response(log["road_wheel_angle"], [log["yaw_rate"], log.lateral_acceleration, log["roll"]])
    theory = np.array([frequency_response(system, f) for f in frequencies])[:, (0, 1, 3)]
    by = "single track with roll: C (jω − A)⁻¹ B + D"
    rows = []
    for k, (name, unit, factor) in enumerate(
        (("yaw rate", "1/s", 1.0), ("lateral acceleration", "m/s² per deg", radians(1.0)), ("roll", "deg/deg", 1.0))
    ):
        size, theirs = factor * np.abs(gains[:, k]), factor * np.abs(theory[:, k])
        for at in (0.3, 1.0, 2.0):
            rows.append(
                Row(
                    f"{name}, gain at {at:g} Hz",
                    unit,
                    float(np.interp(at, frequencies, theirs)),
                    float(np.interp(at, frequencies, size)),
                    by,
                )
            )
        if k < 2:
            angles = [np.degrees(np.unwrap(np.angle(g[:, k]))) for g in (theory, gains)]
            predicted, simulated = (float(np.interp(1.0, frequencies, a)) for a in angles)
            rows.append(Row(f"{name}, phase at 1 Hz", "deg", predicted, simulated, by))
        if k == 0:
            rows.append(
                Row(
                    "yaw rate, bandwidth",
                    "Hz",
                    _bandwidth(frequencies, theirs),
                    _bandwidth(frequencies, size),
                    f"−3 dB of the gain at {SWEEP[0]:g} Hz; {by}",
                )
            )
    names = (
        "yaw rate per road wheel angle, 1/s",
        "lateral acceleration per road wheel angle, m/s² per deg",
        "roll per road wheel angle",
    )
    panels = []
    for k, name in enumerate(names):
        factor = radians(1.0) if k == 1 else 1.0
        panels.append(
            Panel(
                name,
                [
                    Series("linear theory with roll", frequencies, factor * np.abs(theory[:, k])),
                    Series("simulated", frequencies, factor * np.abs(gains[:, k])),
                ],
                "Hz",
            )
        )
    panels.append(
        Panel(
            "phase of yaw rate and lateral acceleration, deg",
            [
                Series(f"{name}: {what}", frequencies, np.degrees(np.unwrap(np.angle(g[:, k]))))
                for k, name in enumerate(("yaw rate", "lateral acceleration"))
                for what, g in (("theory", theory), ("simulated", gains))
            ],
            "Hz",
        )
    )
    update("sweep", 1.0)
    return Result(
        "sweep",
        "Frequency response by a sine sweep, after ISO 7401",
        f"{3.6 * v:.0f} km/h held, {SWEEP[0]:g} to {SWEEP[1]:g} Hz in {SWEEP_SECONDS:g} s,"
        f" {degrees(angle):.1f} deg at the hand wheel",
        rows,
        panels,
        ["near 2 Hz the car hardly sways or rolls: its gains there are small differences of large terms"],
        drive.steps * H,
        drive.whole().capped,
    )


def _chirp(amplitude: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hand wheel angle with its derivatives; the frequency grows by equal factors in equal times, beyond both ends."""
    t = instants(SWEEP_SECONDS)
    low, high = 0.8 * SWEEP[0], 1.2 * SWEEP[1]
    k = np.log(high / low) / SWEEP_SECONDS
    omega = 2.0 * pi * low * np.exp(k * t)
    phase = (omega - 2.0 * pi * low) / k
    sine, cosine = np.sin(phase), np.cos(phase)
    return amplitude * sine, amplitude * omega * cosine, amplitude * (k * omega * cosine - omega**2 * sine)


def _response(steer: np.ndarray, answers: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Complex answer per steer angle in bands of equal ratio: Σ U* Y / Σ U* U over the lines of a band."""
    n = len(steer)
    lines = np.fft.rfftfreq(n, H)
    U = np.fft.rfft(steer - steer.mean())
    edges = np.geomspace(*SWEEP, BANDS + 1)
    centres, out = [], []
    for low, high in pairwise(edges):
        band = (lines >= low) & (lines < high)
        if not band.any():
            continue
        power = np.abs(U[band]) ** 2
        centres.append(float((lines[band] * power).sum() / power.sum()))
        out.append([(np.conj(U[band]) * np.fft.rfft(y - y.mean())[band]).sum() / power.sum() for y in answers])
    return np.array(centres), np.array(out)


def frequency_response(system: System, frequency: float) -> np.ndarray:
    jw = 2j * pi * frequency
    found: np.ndarray = system.C @ np.linalg.solve(jw * np.eye(len(system.A)) - system.A, system.B) + system.D
    return found


def _bandwidth(frequencies: np.ndarray, size: np.ndarray) -> float:
    below = np.flatnonzero(size < size[0] / np.sqrt(2.0))
    if len(below) == 0 or below[0] == 0:
        return float("inf")
    k = int(below[0])
    return float(np.interp(-size[0] / np.sqrt(2.0), -size[k - 1 : k + 1], frequencies[k - 1 : k + 1]))
