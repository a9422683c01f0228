"""The whole car against what is known of it by other means."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sim_service.registry import gather, make_machine
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.analysis.suspension import at_travel
from tandem.machines.car.buggy.bodies import FRONT, REAR
from tandem.machines.car.buggy.build import Assembled, assemble, suspensions
from tandem.machines.car.buggy.description import PARAMETERS, V
from tandem.multibody.natural import problems
from tandem.multibody.natural.api import State
from tandem.multibody.natural.tables import P as Part
from tests.tandem.machines.car.buggy.conftest import VEHICLE, Car, G, assembled

MASS = 790.0


def test_eighteen_bodies_and_fourteen_freedoms() -> None:
    built = assembled()
    bodies = len(built.car.mechanism.bodies) + 1 + 4  # the rack is a particle, wheels are rotors
    assert bodies == 18
    assert problems.freedoms(built.system.state()).shape[1] == 14  # with the rack prescribed


def test_the_same_files_and_changes_are_the_same_car_with_parameters_of_ones_own() -> None:
    first, params = make_machine(gather(VEHICLE), {"front_camber": 0.0})
    params[:] = np.nan
    again, theirs = make_machine(gather(VEHICLE), {"front_camber": 0.0})
    assert again.tables is first.tables and np.isfinite(theirs).all()
    other, _ = make_machine(gather(VEHICLE), {"front_camber": -0.0})
    assert other.tables is not first.tables


def test_wheel_loads_at_rest_are_those_of_the_lever(car: Car) -> None:
    load = car.each("load")
    assert abs(load.sum() / (MASS * G) - 1.0) < 1e-6
    front = MASS * G * (2.25 - 1.2879139) / 2.25 / 2.0
    rear = MASS * G * 1.2879139 / 2.25 / 2.0
    np.testing.assert_allclose(load, [front, front, rear, rear], rtol=5e-3)


def test_at_rest_it_rests() -> None:
    car = Car({"gear_mode": 0.0})
    moved = car.drive(5.0, ("x", "y", "z", "vx", "roll", "pitch"))
    assert np.abs(np.ptp(moved, axis=0)).max() < 1e-5


def _reference(travel: float, rack: float, is_front: bool) -> dict[str, np.ndarray]:
    """Points of the left corner by the other solution, in the axes of the vehicle file."""
    p = {q.name: float(v) for q, v in zip(PARAMETERS, assembled().params, strict=False)}
    points = [
        {n: np.array([p[f"{axle}_{n}_{a}"] for a in "xyz"]) for n in names}
        for axle, names in (("front", FRONT), ("rear", REAR))
    ]
    pose = at_travel(suspensions(p, *points)[0 if is_front else 1], travel, rack)
    return {**pose.points, "axle": pose.axle}


@pytest.mark.parametrize("travel", [-0.06, -0.03, 0.0, 0.02, 0.06])
@pytest.mark.parametrize(
    ("corner", "rack"), [("fl", -0.05), ("fl", 0.0), ("fl", 0.03), ("rl", 0.0), ("fr", 0.04), ("rr", 0.0)]
)
def test_suspensions_move_as_the_independent_solution(corner: str, rack: float, travel: float) -> None:
    built = assembled()
    state = built.system.state()
    left = corner[1] == "l"
    mirror = np.array([1.0, 1.0 if left else -1.0, 1.0])
    want = {k: mirror * v for k, v in _reference(travel, rack if left else -rack, corner[0] == "f").items()}
    want["axle"] *= 1.0 if left else -1.0  # to the left on both sides
    state.inputs[0, 0] = rack
    given = {n: state[n] for n in ("chassis", "ahead", "left", "up")}
    problems.assemble(state, **given, **{f"{corner}.LBJ": want["LBJ"] + built.car.origin})
    (this,) = [c for c in built.car.corners if c.name == corner]
    assert np.linalg.norm(state.value(this.centre) - want["WC"] - built.car.origin) < 1e-5
    assert np.linalg.norm(state[f"{corner}.TRO"] - want["TRO"] - built.car.origin) < 1e-5
    turned = np.degrees(np.arccos(np.clip(state[f"{corner}.axle"] @ want["axle"], -1.0, 1.0)))
    assert turned < 1e-3
    spring = np.linalg.norm(want["SPU"] - want["SPL"])
    assert abs(np.linalg.norm(state.value(this.spring)) - spring) < 1e-5


def test_a_wheel_in_the_air_spins_up_exactly() -> None:
    car = Car({"gear_mode": 0.0, "brake_drag": 0.0})
    built = assembled()
    q = car.state[built.system.span(Part.Q)]
    for node in built.car.mechanism.nodes.values():
        if node.kind == "point":
            q[node.columns[2]] += 100.0
    torque, inertia = 120.0, 0.6
    speed = car.drive(1.2, ("wheel_speed_rl", "wheel_speed_rr", "wheel_speed_fl"), drive_torque=torque)
    t = 5e-3 * np.arange(1, len(speed) + 1)
    assert speed[-1, 0] > 100.0
    # the torque comes at once; the rule takes the mean of before and after for the first step
    np.testing.assert_allclose(speed[1:, 0] - speed[0, 0], 0.5 * torque / inertia * (t[1:] - t[0]), rtol=1e-3)
    np.testing.assert_allclose(speed[:, 1], speed[:, 0], rtol=1e-12)
    assert np.abs(speed[:, 2]).max() < 1e-6


def test_left_and_right_are_mirror_images() -> None:
    names = (
        "x",
        "y",
        "yaw",
        "roll",
        "vx",
        "vy",
        "yaw_rate",
        "ay",
        "steering_torque",
        "load_fl",
        "load_fr",
        "force_y_rl",
        "force_y_rr",
    )
    paths = []
    for sign in (1.0, -1.0):
        car = Car()
        rows = [car.drive(4.0, names, throttle=0.6)]
        for k in range(400):
            angle = sign * 0.8 * np.sin(0.02 * k)
            car.set(steering_angle=angle, steering_speed=sign * 3.2 * np.cos(0.02 * k), throttle=0.2)
            car.set(steering_acceleration=-16.0 * angle)
            rows.append(car.drive(5e-3, names))
        paths.append(np.vstack(rows))
    left, right = paths
    assert np.abs(left[:, 1]).max() > 0.5
    flip = np.array([1, -1, -1, -1, 1, -1, -1, -1, -1, 1, 1, -1, -1])
    order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 12, 11]
    np.testing.assert_allclose(left, flip * right[:, order], atol=1e-6, rtol=1e-7)


def test_forces_at_rest_are_the_gradient_of_an_energy(tmp_path: Path) -> None:
    """Contact on tilted ground, springs and weight give back what they take, whatever way the car is moved."""
    road = tmp_path / "tilted.toml"
    road.write_text('[surface]\nkind = "slope"\ngrade_percent = 7.0\nbank_percent = 5.0\n')
    tyre = (VEHICLE.parent / "../tyres/155_80_r13.tir").read_text()
    # without camber thrust, which has no energy
    (tmp_path / "upright.tir").write_text(tyre + "\n[SCALING_COEFFICIENTS]\nLGAY = 0\nLGAZ = 0\nLMX = 0\n")
    vehicle = tmp_path / "car.toml"
    vehicle.write_text(VEHICLE.read_text().replace("../tyres/155_80_r13.tir", "upright.tir"))
    sources = gather(vehicle, {"road": road})
    built = assemble(sources.toml(), sources, {"gear_mode": 0.0})
    system = built.system
    rate = np.array([40000.0, 40000.0, 23000.0, 23000.0])
    free = np.array([0.419, 0.419, 0.3297, 0.3297])

    def left(state: State) -> np.ndarray:
        after = system.part(Part.ELEMENT_NEXT, state.evaluate())
        return after[slots.LEFT : slots.LEFT + 4 * slots.PER_WHEEL].reshape(4, -1)

    def potential(state: State) -> float:
        of = left(state)
        springs = 0.5 * rate @ (free - of[:, V.spring_length]) ** 2
        deflection = of[:, V.load] * np.cos(of[:, V.camber]) / 165000.0
        weight = system.part(Part.CONSTANT_FORCE) @ state.q
        return float(springs + 0.5 * 165000.0 * deflection @ deflection - weight)

    state = State(system, Car({"gear_mode": 0.0}, road, vehicle).state[: system.state_size].copy())
    state.elements[: slots.LEFT] = 0.0
    rng = np.random.default_rng(3)
    state.q += problems.freedoms(state) @ rng.normal(scale=0.004, size=14)
    problems.assemble(state)
    assert left(state)[:, V.load].min() > 0.0
    force, free_ways = state.forces(), problems.freedoms(state)
    kept, step = state.q.copy(), 1e-6
    for way in free_ways.T:
        values = []
        for sign in (1.0, -1.0):
            state.q[:] = kept + sign * step * way
            problems.assemble(state)
            values.append(potential(state))
        slope = (values[0] - values[1]) / (2.0 * step)
        assert abs(force @ way + slope) < 1e-3 * (1.0 + np.abs(force).max() * 1e-2)


def _power(built: Assembled, car: Car) -> float:
    """Of everything that acts on the car from outside or takes its energy, by kinematics of this test's own."""
    state = State(built.system, car.state[: built.system.state_size])
    of = {n: car.each(n) for n in ("force_x", "force_y", "load", "overturning", "rolling", "aligning", "brake_torque")}
    total = car["axle_torque"] * 0.5 * (car["wheel_speed_rl"] + car["wheel_speed_rr"])
    total -= car["drag"] * float(np.linalg.norm(state.rate(built.car.centre)))
    up = np.array([0.0, 0.0, 1.0])
    chassis = problems.angular_velocity(state, "chassis")
    total -= car["axle_torque"] * float(chassis @ state["left"])  # the drive holds on to the chassis
    for k, corner in enumerate(built.car.corners):
        centre, rate = state.value(corner.centre), state.rate(corner.centre)
        a, ad = state[f"{corner.name}.axle"], state.rate(built.car.mechanism.nodes[f"{corner.name}.axle"])
        spin = state.rate(corner.spin)[0]
        turning = np.cross(a, ad) + spin * a
        down = (a @ up) * a - up
        down /= np.linalg.norm(down)
        arm = down * centre[2] / -down[2]
        ahead = np.cross(a, up) / np.linalg.norm(np.cross(a, up))
        aside = np.cross(up, ahead)
        force = of["force_x"][k] * ahead + of["force_y"][k] * aside
        moment = of["overturning"][k] * ahead + of["rolling"][k] * aside + of["aligning"][k] * up
        velocity = rate + np.cross(turning, arm)
        total += float(force @ velocity + moment @ turning)
        carrier = rate + np.cross(np.cross(a, ad), arm)
        closing = -float(carrier[2])
        total -= 500.0 * closing**2  # of the tyre's vertical damper
        knuckle = problems.angular_velocity(state, corner.knuckle.name)
        total += of["brake_torque"][k] * (spin - float(knuckle @ a))
        d, dd = state.value(corner.spring), state.rate(corner.spring)
        speed = float(d @ dd) / float(np.linalg.norm(d))
        rate_k, free = ((40000.0, 0.419), (23000.0, 0.3297))[k // 2]
        damper = car.each("spring_force")[k] - rate_k * (free - float(np.linalg.norm(d)))
        total += damper * speed
    return total


def _energy(built: Assembled, car: Car) -> float:
    state = State(built.system, car.state[: built.system.state_size])
    energy = 0.5 * float(state.qd @ built.system.mass() @ state.qd)
    energy -= float(built.system.part(Part.CONSTANT_FORCE) @ state.q)
    for k, corner in enumerate(built.car.corners):
        rate, free = ((40000.0, 0.419), (23000.0, 0.3297))[k // 2]
        energy += 0.5 * rate * (free - float(np.linalg.norm(state.value(corner.spring)))) ** 2
        a = state[f"{corner.name}.axle"]
        reach = state.value(corner.centre)[2] / np.sqrt(1.0 - a[2] ** 2)
        energy += 0.5 * 165000.0 * (0.2891 - reach) ** 2
    return energy


def test_energy_is_accounted_for() -> None:
    """Set off, turn, brake: what the car gains and loses is what engine, brakes, tyres, dampers and air do."""
    car, built = Car(), assembled()
    h = 5e-3
    powers, energies = [_power(built, car)], [_energy(built, car)]
    for k in range(800):
        t = k * h
        car.set(throttle=0.7 if t < 2.5 else 0.0, brake_pressure_bar=20.0 if t > 3.0 else 0.0)
        angle = 0.5 * np.sin(3.0 * max(t - 1.5, 0.0))
        car.set(steering_angle=angle, steering_speed=1.5 * np.cos(3.0 * (t - 1.5)) if t > 1.5 else 0.0)
        car.step(h)
        powers.append(_power(built, car))
        energies.append(_energy(built, car))
    p = np.array(powers)
    work = np.concatenate([[0.0], np.cumsum(0.5 * h * (p[1:] + p[:-1]))])
    gained = np.array(energies) - energies[0]
    assert gained.max() > 20e3
    assert np.abs(gained - work).max() < 1e-3 * gained.max()


def test_halving_the_step_quarters_the_error() -> None:
    ends = []
    for h in (0.01, 0.005, 0.0025, 0.00125):
        car = Car({"gear_mode": 0.0})
        built = assembled()
        qd = car.state[built.system.span(Part.QD)]
        for node in built.car.mechanism.nodes.values():
            if node.kind == "point":
                qd[node.columns[0]] = 15.0
            elif node.kind == "scalar":
                qd[node.columns[0]] = 15.0 / 0.283
        car.drive(0.5, h=h)
        rate = 2.0 * np.pi * 0.8
        for k in range(round(1.5 / h)):
            t = (k + 1) * h
            smooth = 0.4 * np.sin(rate * t) ** 3
            speed = 1.2 * rate * np.sin(rate * t) ** 2 * np.cos(rate * t)
            second = 1.2 * rate**2 * (2.0 * np.sin(rate * t) * np.cos(rate * t) ** 2 - np.sin(rate * t) ** 3)
            car.set(steering_angle=smooth, steering_speed=speed, steering_acceleration=second)
            car.step(h)
        ends.append(np.array([car[n] for n in ("y", "yaw", "roll", "vy", "yaw_rate")]))
    errors = [np.abs(a - b) for a, b in itertools.pairwise(ends)]
    assert np.all(errors[2] < errors[1]) and np.all(errors[1] < errors[0])
    orders = np.log2(errors[1] / errors[2])
    assert np.median(orders) > 1.7, orders


def test_parked_on_a_slope_it_stays(tmp_path: Path) -> None:
    road = tmp_path / "slope.toml"
    road.write_text('[surface]\nkind = "slope"\ngrade_percent = 10.0\n')
    car = Car(road=road)
    assert abs(np.tan(-car["pitch"]) - 0.1) < 0.01
    start = np.array([car[n] for n in "xyz"])
    moved = car.drive(60.0, ("x", "y", "z"), brake_pressure_bar=20.0)
    assert np.linalg.norm(moved[-1] - start) < 1e-3  # the engine that idles in gear winds the tyres up
    assert np.linalg.norm(moved[-1] - moved[200]) < 1e-4


def test_from_rest_to_sixty_and_back_without_chatter(car: Car) -> None:
    car.drive(1.0, brake_pressure_bar=10.0)
    start = car.drive(10.0, ("vx", "capped"), throttle=0.8, brake_pressure_bar=0.0)
    assert start[-1, 0] > 60.0 / 3.6 and not start[:, 1].any()
    stop = car.drive(10.0, ("vx", "ax", "capped", "wheel_speed_fl"), throttle=0.0, brake_pressure_bar=25.0)
    assert not stop[:, 2].any()
    rest = stop[-400:]
    assert np.abs(rest[:, 0]).max() < 1e-3 and np.abs(rest[:, 3]).max() < 1e-2
    standing = np.argmax(stop[:, 0] < 0.01)
    after = stop[standing : standing + 200, 0]
    assert after.min() > -0.3  # the car rocks back once on its tyres and springs
    assert np.sum(np.diff(np.sign(after[np.abs(after) > 1e-3])) != 0) <= 6
    assert np.abs(stop[-1, 1] - rest[0, 1]) < 1e-2


def test_parameters_that_are_live_act_at_once(car: Car) -> None:
    place = [p.name for p in car.model.parameters].index("drag_area")
    car.drive(5.0, throttle=0.7)
    before = car["drag"]
    car.params[place] *= 2.0
    car.step()
    assert 1.9 < car["drag"] / before < 2.1
    assert not next(p for p in car.model.parameters if p.name == "sprung_mass").live


def test_the_hand_wheel_is_held_against_the_road(car: Car) -> None:
    """In a steady left turn the wheels want back: the driver holds to the left."""
    car.drive(6.0, throttle=0.6)
    car.drive(2.0, steering_angle=0.6, throttle=0.3)
    assert car["yaw_rate"] > 0.05 and car["steering_torque"] > 0.3
    torque = car["rack_force"] * -0.045 / (2.0 * np.pi)
    assert abs(car["steering_torque"] - torque) < 1e-9


def test_a_jump_of_the_measured_angle_is_a_quick_motion(car: Car) -> None:
    car.drive(3.0, throttle=0.5)
    kept = car.drive(0.5, ("rack", "capped", "phi_error"), steering_angle=3.0)
    assert np.abs(np.diff(kept[:, 0])).max() <= 0.25 * 5e-3 + 1e-12
    assert not kept[:, 1].any() and kept[:, 2].max() < 1e-6


def test_a_speed_and_an_acceleration_that_no_hand_makes_are_not_followed(car: Car) -> None:
    car.drive(3.0, throttle=0.5)
    held = car["steering_torque"]
    for wrong in ({"steering_speed": 500.0}, {"steering_acceleration": 5e4}):
        kept = car.drive(0.05, ("rack", "yaw_rate", "steering_torque"), **wrong)
        assert np.abs(kept[:, 0]).max() < 1e-12 and np.abs(kept[:, 1]).max() < 0.01
        assert np.abs(kept[:, 2] - held).max() < 100.0
        car.drive(0.2, steering_speed=0.0, steering_acceleration=0.0)


def test_it_stands_where_it_is_put_on_an_uneven_road(tmp_path: Path) -> None:
    road = tmp_path / "hump.toml"
    road.write_text("[[bumps]]\nshape = 'cosine'\nx = -1.5\nlength = 2.0\nheight = 0.03\n")
    car = Car({"gear_mode": 0.0}, road)
    assert abs(car["x"]) < 2e-3 and abs(car["y"]) < 1e-6
    moved = car.drive(2.0, ("x", "z"), brake_pressure_bar=30.0)
    assert np.ptp(moved, axis=0).max() < 1e-4


def test_the_last_step_of_a_run_away_is_still_finite() -> None:
    """No input ends a run: the cap marks the step, nothing is raised."""
    car = Car()
    rng = np.random.default_rng(1)
    for _ in range(300):
        car.inputs[:6] = rng.normal(size=6) * [50.0, 500.0, 5000.0, 2.0, 100.0, 1e4]
        car.step()
    assert np.isfinite(car.work[: len(car.names)]).all()
