"""Drives of the buggy for prediction.py: to the limit and beyond it, and as people drive. Made here, not
stored.

A drive is the car itself, stepped at 5 ms, with a plan for hand wheel and pedals. What is random: the car (grip of the
road, springs, anti-roll bars, which make it turn around or slide straight on), speed, manoeuvre and its measures.

Whether control is lost is judged here, by the motion of the body alone and not by what the look ahead uses: the angle
of its velocity at the rear axle against the car beyond 12° (it turns around), or at the front axle against the front
wheels beyond 20° (it slides straight on), both times the friction factor, faster than 3 m/s; or a car on its side.
"""

from dataclasses import dataclass

import numpy as np

from sim_service.contract.machine import Machine, default_inputs, index
from sim_service.registry import load_machine
from verify import CONFIGS

H = 0.005  # s
BUGGY = CONFIGS / "vehicles" / "buggy.toml"
MANOEUVRES = ("ramp", "step", "power", "brake", "sine")
_TO_FRONT, _TO_REAR = 1.288, 0.962  # m from the centre of gravity: docs/buggy.md
_SPIN, _SLIDE, _SLOW = np.radians(12.0), np.radians(20.0), 3.0
_WHEELBASE, _RATIO = 2.25, 16.0  # m; hand wheel per road wheel
_AT_SPEED_S = 30.0  # to have come to its speed


@dataclass
class Drive:
    """What was driven, from the beginning of the manoeuvre on: a row a step."""

    name: str
    grip: float
    params: np.ndarray
    states: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    lost: int  # the step at which control was lost; -1: never


class Car:
    def __init__(self, machine: Machine, params: np.ndarray):
        self.machine, self.params = machine, params
        self.state, self.work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        self.inputs = default_inputs(machine)
        driven = ("steering_angle", "steering_speed", "throttle", "brake_pressure_bar")
        self.driven = [index(machine.inputs, name) for name in driven]
        machine.initial(self.state, params, machine.tables, self.work)
        self.names = [q.name for q in machine.outputs]
        self.hand = 0.0

    def __getitem__(self, name: str) -> float:
        return float(self.work[self.names.index(name)])

    def step(self, hand: float, throttle: float, brake: float) -> None:
        """To this angle of the hand wheel, no faster than a person turns it."""
        rate = (hand - self.hand) / H
        self.hand = hand
        self.inputs[self.driven] = (hand, rate, throttle, brake)
        self.machine.step(self.state, self.inputs, self.params, self.machine.tables, self.work, H)

    def hold(self, speed: float) -> float:
        """Throttle for it."""
        return float(np.clip(0.25 + 0.5 * (speed - self["vx"]), 0.0, 1.0))


def hand_for(acceleration: float, speed: float) -> float:
    """About the angle of the hand wheel for a lateral acceleration."""
    return 1.15 * _RATIO * _WHEELBASE * acceleration / speed**2


def is_lost(machine: Machine, outputs: np.ndarray, grip: float) -> np.ndarray:
    """Whether the car is lost, for every row of outputs."""
    vx, vy, r, steer, over = (
        outputs[:, index(machine.outputs, n)] for n in ("vx", "vy", "yaw_rate", "road_wheel_angle", "overturned")
    )
    rear = np.abs(np.arctan2(vy - _TO_REAR * r, np.abs(vx)))
    front = np.abs(np.arctan2(vy + _TO_FRONT * r, np.abs(vx)) - np.sign(vx) * steer)
    found: np.ndarray = (np.hypot(vx, vy) > _SLOW) & ((rear > _SPIN * grip) | (front > _SLIDE * grip)) | (over > 0)
    return found


def buggy() -> tuple[Machine, np.ndarray]:
    return load_machine(BUGGY)


def _some_car(machine: Machine, params: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, float]:
    """Its live parameters, and the grip."""
    out = params.copy()
    places = {p.name: i for i, p in enumerate(machine.parameters)}
    grip = float(random.uniform(0.5, 1.0))
    out[places["grip"]] = grip
    for name in ("front_spring_rate", "rear_spring_rate"):
        out[places[name]] *= random.uniform(0.8, 1.2)
    for name in ("front_anti_roll", "rear_anti_roll"):
        out[places[name]] = random.uniform(0.0, 15_000.0)
    return out, grip


def _at_speed(machine: Machine, params: np.ndarray, speed: float) -> Car:
    car, grip = Car(machine, params), [p.name for p in machine.parameters].index("grip")
    for _ in range(round(_AT_SPEED_S / H)):
        car.step(0.0, min(0.9 * float(params[grip]), 0.3 + 0.5 * max(speed - car["vx"], 0.0)), 0.0)
        if car["vx"] >= speed:
            break
    for _ in range(round(0.5 / H)):  # the pitch of getting there is over
        car.step(0.0, car.hold(speed), 0.0)
    return car


def limit_drive(machine: Machine, params: np.ndarray, seed: int, seconds: float = 8.0) -> Drive:
    """A manoeuvre that goes to the limit; it ends where control is lost, or after so long."""
    random = np.random.default_rng(seed)
    kind = MANOEUVRES[seed % len(MANOEUVRES)]
    own, grip = _some_car(machine, params, random)
    speed = float(random.uniform(12.0, 26.0)) * float(np.sqrt(grip))
    side = float(random.choice([-1.0, 1.0]))
    most = 9.0 * grip  # m/s2, about what the tyres bear
    rate = {"ramp": random.uniform(0.2, 1.0), "step": random.uniform(2.0, 6.0)}.get(kind, 2.0)
    share = random.uniform(1.15, 2.0) if kind == "step" else random.uniform(0.6, 0.85)
    frequency, growing = random.uniform(0.35, 0.7), random.uniform(0.15, 0.4)
    late_s, pedal = random.uniform(1.5, 2.5), random.uniform(0.3, 1.0)
    car = _at_speed(machine, own, speed)

    def plan(t: float) -> tuple[float, float, float]:
        t = max(t - 0.5, 0.0)  # half a second straight on
        if kind == "ramp":
            return min(rate * t, 8.0), car.hold(speed), 0.0
        if kind == "step":
            return min(rate * t, hand_for(share * most, speed)), car.hold(speed), 0.0
        if kind == "sine":  # a slalom that grows
            return hand_for(growing * most * t, speed) * np.sin(2 * np.pi * frequency * t), car.hold(speed), 0.0
        hand = min(rate * t, hand_for(share * most, speed))
        if t < late_s:
            return hand, car.hold(speed), 0.0
        if kind == "power":
            return hand, min(car.hold(speed) + 2.0 * (t - late_s), 0.5 + 0.5 * pedal), 0.0
        return hand, 0.0, min(120.0 * (t - late_s), 20.0 + 30.0 * pedal)

    return _driven(f"{kind} {seed}", car, grip, round(seconds / H), lambda t: _sided(plan(t), side))


def _sided(plan: tuple[float, float, float], side: float) -> tuple[float, float, float]:
    return side * plan[0], plan[1], plan[2]


def normal_drive(machine: Machine, params: np.ndarray, seed: int, seconds: float = 60.0, bends: float = 0.5) -> Drive:
    """As people drive: bends of up to this share of what the road bears, hands of up to 3 rad/s, gentle pedals."""
    random = np.random.default_rng(seed)
    own, grip = _some_car(machine, params, random)
    most = 9.0 * grip
    speed = float(random.uniform(8.0, 24.0)) * float(np.sqrt(grip))
    car = _at_speed(machine, own, speed)
    wanted = {"hand": 0.0, "rate": 1.0, "speed": speed, "until": 0.0, "hand_now": 0.0}

    def plan(t: float) -> tuple[float, float, float]:
        if t >= wanted["until"]:  # a bend, or straight on, faster or slower
            now = max(car["vx"], 5.0)
            wanted["until"] = t + random.uniform(1.0, 4.0)
            bend = random.uniform(-bends, bends) * most if random.random() < 0.75 else 0.0
            wanted["hand"] = float(np.clip(hand_for(bend, now), -4.0, 4.0))
            wanted["rate"] = random.uniform(0.5, 3.0)
            # no faster than the bend allows
            wanted["speed"] = float(np.clip(now + random.uniform(-4.0, 2.0), 6.0, speed))
        step = wanted["rate"] * H
        wanted["hand_now"] += float(np.clip(wanted["hand"] - wanted["hand_now"], -step, step))
        over = car["vx"] - wanted["speed"]
        return wanted["hand_now"], car.hold(wanted["speed"]) * 0.6, float(np.clip(4.0 * (over - 0.5), 0.0, 12.0))

    return _driven(f"normal {seed}", car, grip, round(seconds / H), plan)


def _driven(name: str, car: Car, grip: float, steps: int, plan) -> Drive:  # type: ignore[no-untyped-def]
    machine = car.machine
    states = np.zeros((steps, len(machine.states)))
    inputs = np.zeros((steps, len(machine.inputs)))
    outputs = np.zeros((steps, len(machine.outputs)))
    for k in range(steps):
        car.step(*plan(k * H))
        states[k], inputs[k], outputs[k] = car.state, car.inputs, car.work[: len(machine.outputs)]
        if is_lost(machine, outputs[k : k + 1], grip)[0]:
            return Drive(name, grip, car.params, states[: k + 1], inputs[: k + 1], outputs[: k + 1], k)
    return Drive(name, grip, car.params, states, inputs, outputs, -1)
