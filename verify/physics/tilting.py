"""The narrow vehicle that leans, on tyres: `python -m verify tilting`.

Its lean beside that of a body that feels nothing sideways, from the circle that it drives; its loads beside statics;
its lean in a slalom beside a pendulum integrated here; and live, what an observer on board finds by its sensors.

    --seconds N   of the live run
"""

import tempfile
from collections.abc import Callable, Iterator
from math import atan, cos, degrees, pi, sin
from pathlib import Path

import numpy as np

from sim_service.registry import load_machine
from sync.clock import now_ns
from sync.record import open_run
from verify import ROOT
from verify.measure import Row, at_least, at_most, equal
from verify.real_runs import replayed, tandem

FILE = ROOT / "configs" / "vehicles" / "tilting.toml"
G, H = 9.81, 5e-3
Values = dict[str, np.ndarray]


def drive(
    steer: Callable[[float], float], speed: float, seconds: float, road: Path | None = None, h: float = H
) -> tuple[Values, float]:  # fmt: skip
    """Outputs of every step, and what a step costs in us."""
    files = {"road": road} if road is not None else None
    machine, params = load_machine(FILE, {"start_speed": speed}, files)
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    count, rows, spent = round(seconds / h), [], []
    for k in range(count):
        inputs = np.array([steer(k * h), speed])
        begun = now_ns()
        machine.step(state, inputs, params, machine.tables, work, h)
        spent.append(now_ns() - begun)
        rows.append(work[: len(machine.outputs)].copy())
    found = np.array(rows)
    return {q.name: found[:, i] for i, q in enumerate(machine.outputs)}, 1e-3 * float(np.median(spent))


def radius(x: np.ndarray, y: np.ndarray) -> float:
    """Of the circle through points, by least squares."""
    rows = np.column_stack([x, y, np.ones(len(x))])
    a, b, c = np.linalg.lstsq(rows, x * x + y * y, rcond=None)[0]
    return float(np.sqrt(c + 0.25 * (a * a + b * b)))


def turning(angle: float) -> Callable[[float], float]:
    return lambda t: angle * min(t, 1.0)


def figure_of(name: str) -> float:
    machine, params = load_machine(FILE)
    return float(params[[p.name for p in machine.parameters].index(name)])


def overturning(v: Values, k: int, a: float) -> float:
    """Moment about the way along the ground in the middle, from masses where they are: to the right."""
    joint, axle = figure_of("joint_height"), 0.28
    base, lean = v["base_roll"][k], v["roll"][k]
    total = 0.0
    for mass, across, up in (
        (figure_of("base_mass"), -figure_of("base_height") * sin(base), figure_of("base_height") * cos(base)),
        (figure_of("body_mass"), -joint * sin(base) - figure_of("body_height") * sin(lean),
         joint * cos(base) + figure_of("body_height") * cos(lean)),
        (3.0 * figure_of("wheel_mass"), -axle * sin(base), axle),
    ):  # fmt: skip
        total += mass * (a * up - G * across)
    return total


def pendulum(v: Values, h: float) -> np.ndarray:
    """Angular acceleration of the body alone, by what its joint does and the actuator's torque."""
    m, length, c = figure_of("body_mass"), figure_of("body_height"), figure_of("damping")
    J = figure_of("body_inertia_x") + m * length**2
    across = figure_of("body_inertia_z") - figure_of("body_inertia_y") - m * length**2
    phi, r = v["roll"], v["yaw_rate"]
    moment = m * length * v["felt"] + v["torque"] - c * np.gradient(v["joint"], h)
    of_yaw = across * r * r * np.sin(phi) * np.cos(phi)  # of a body that turns about the vertical
    # it is ahead of the joint's middle or behind it, where yaw that grows moves it aside
    aside = m * length * figure_of("body_ahead") * np.gradient(r, h) * np.cos(phi)
    return np.asarray((moment + of_yaw + aside) / J)


def tilting(*, seconds: float = 15.0) -> Iterator[Row]:
    v, cost = drive(lambda t: 0.0, 8.0, 4.0)
    front, base, body, wheel = (figure_of(n) for n in ("wheelbase", "base_mass", "body_mass", "wheel_mass"))
    weight = G * (base + body + 3 * wheel)
    carried = v["load_front"][-1] + 2 * v["load_rl"][-1]
    yield at_most("load of all wheels off the weight", abs(carried - weight) / weight, 1e-3, "of it")
    along = base * (figure_of("base_ahead") + front / 2) + body * (figure_of("body_ahead") + front / 2) + wheel * front
    expected = G * along / front
    yield at_most(f"load of the front wheel off the lever's {expected:.0f} N", abs(v["load_front"][0] / expected - 1.0),
                  1e-3, "of it")  # fmt: skip
    worst = transfer = sideways = 0.0
    for speed, angle in ((5.0, 0.1), (8.0, 0.05), (8.0, 0.08), (11.0, -0.04), (14.0, 0.03)):
        v, _ = drive(turning(angle), speed, 20.0)
        late = slice(-1000, None)
        R = radius(v["x"][late], v["y"][late])
        u = float(np.mean(v["speed"][late]))
        worst = max(worst, abs(abs(degrees(float(v["roll"][-1]))) - degrees(atan(u * u / (G * R)))))
        sideways = max(sideways, float(np.abs(v["felt"][late]).max()))
        a = u * u / R * np.sign(angle)
        moved = 0.5 * figure_of("track") * (v["load_rr"][-1] - v["load_rl"][-1])
        transfer = max(transfer, abs(moved / overturning(v, -1, a) - 1.0))
    yield at_most("lean in five circles, 5 to 14 m/s, off atan(v^2 / g R), R of the circle driven", worst, 0.2, "deg")
    yield at_most("what the occupant feels sideways in them", sideways, 0.03, "m/s2")
    yield at_most("load moved across the rear axle, off what masses where they are ask for", transfer, 0.03, "of it")
    with tempfile.TemporaryDirectory() as folder:
        banked = Path(folder) / "bank.toml"
        banked.write_text('[surface]\nkind = "slope"\nbank_percent = 8.0\n')
        v, _ = drive(lambda t: 0.0, 8.0, 6.0, banked)
        yield at_most("on a bank of 8 %: lean against the vertical", abs(degrees(v["roll"][-1])), 0.5, "deg")
        yield at_least(
            "… of the body against the frame", abs(degrees(v["joint"][-1])), degrees(atan(0.08)) - 0.5, "deg"
        )
    v, _ = drive(lambda t: 0.06 * sin(2.0 * pi * 0.5 * t), 10.0, 10.0, h=1e-3)
    late = slice(500, None)  # without the start
    grown = np.gradient(v["roll_rate"], 1e-3)[late]
    off = np.abs(pendulum(v, 1e-3)[late] - grown)
    most = degrees(float(np.abs(v["roll"]).max()))
    yield at_most(f"slalom of 0.5 Hz, lean to {most:.1f} deg: its angular acceleration, up to"
                  f" {np.abs(grown).max():.2f} rad/s2, off the pendulum's", off.max(), 0.05, "rad/s2")  # fmt: skip
    left, right = (drive(turning(angle), 9.0, 5.0)[0] for angle in (0.06, -0.06))
    yield at_most("left and right turn, lean of one less that of the other",
                  float(np.abs(left["roll"] + right["roll"]).max()), 1e-9, "rad")  # fmt: skip
    yield at_most("a step of 5 ms", cost, 500.0, "us")
    with tempfile.TemporaryDirectory() as folder:
        found = tandem("run", "configs/tilting_observed.toml", "--seconds", f"{seconds:g}", "--runs", folder)
        yield equal(f"live: blocks lost, of {found['steps']} steps", found["balance"]["lost"], 0)
        truth = found["truth"]
        yield at_most("live: lean that the observer on board finds, rms", degrees(truth["watched"]["roll"]["outside"]),
                      0.2, "deg")  # fmt: skip
        used, gated = truth["readings_used"], truth["readings_gated"]
        yield at_most(f"live: readings gated, of {used + gated}", gated / (used + gated), 0.01, "of them")
        run = open_run(Path(folder)).path.parent
        yield replayed(run)
        yield replayed(run / "truth")
