"""The mechanisms that ship, each against a computation of its own: `python -m verify mechanisms`.

Every file of configs/mechanisms runs as it stands, is recorded, and made again from its record to the bit. The
references take numbers from the file and nothing else (verify/multibody/references): Newton-Euler of the serial robot,
the platform's six legs from its balance of forces, the closed form of the SCARA, small motions of both corners of a car
from where their particles are, the matrices of a hanging chain.

    --only NAME   one file
"""

import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sync.record import open_run
from tandem.mechanism.columns import columns
from tandem.mechanism.record import differences, put_back
from tandem.mechanism.run import Simulated, load, prepare, recorded_file, save_record, simulate
from tandem.multibody.description.mechanism_file import describe
from tandem.multibody.natural.api import freedoms
from tandem.multibody.natural.errors import IllConditioned
from verify.measure import Row, at_most, equal
from verify.multibody.references.serial import Link, rotation, torques
from verify.multibody.references.small_motions import Moved, Spring, hanging_chain, six_particles

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "mechanisms"
DOWN = np.array([0.0, 0.0, -9.81])
Data = dict[str, Any]
Rows = Iterator[Row]
EFFORTS = {"natural": 1e-5, "relative": 1e-10}  # steps of I3AL leave what their projections leave


def mechanisms(
    *, only: Annotated[str | None, "one file"] = None, seconds: Annotated[float | None, "of each run"] = None
) -> Rows:
    for file in sorted(FOLDER.glob("*.toml")):
        if only not in (None, file.stem):
            continue
        done = ran(file, seconds=seconds)
        yield equal(f"{file.stem}: steps not converged", done.figures["capped_steps"], 0)
        yield equal(f"{file.stem}: channels that differ when made again", _changed_channels(done), 0)
        if file.stem in KNOWN:
            yield from KNOWN[file.stem](tomllib.loads(file.read_text()), done)


def ran(file: Path, **chosen: Any) -> Simulated:
    return simulate(*load(file, **chosen), lambda *_: None)


def _changed_channels(done: Simulated) -> int:
    with tempfile.TemporaryDirectory() as folder:
        save_record(Path(folder), done)
        run = open_run(Path(folder))
        described, state = recorded_file(run)
        put_back(run, state)
        return len(differences(run, columns(simulate(described, state, lambda *_: None).record)))


def _efforts(done: Simulated, drives: str, known: Callable[[np.ndarray], np.ndarray], text: str) -> Rows:
    """In both formulations, what all drives take, beside `known` of the instants."""
    file, seconds = Path(done.described.path), done.described.file.run.seconds
    for formulation, limit in EFFORTS.items():
        again = ran(file, seconds=seconds, formulation=formulation)
        found = {name: values for name, _, values in columns(again.record)}
        efforts = np.stack([found[f"{drives}{k}_effort"] for k in range(1, 7) if f"{drives}{k}_effort" in found])
        right = known(found["time"])
        off = float(np.abs(efforts.T - right).max() / np.abs(right).max())
        yield at_most(f"{file.stem}, {formulation}: {text}", off, limit, "of the largest")


# ---- robots ----------------------------------------------------------------------------------------------------------


def _inertia(body: Data) -> np.ndarray:
    """Of a box, or of a cylinder along x, about its centre."""
    m = body["mass"]
    if body["shape"] == "box":
        x, y, z = (side**2 for side in body["size"])
        return np.asarray(m / 12.0 * np.diag([y + z, x + z, x + y]))
    r, length = body["radius"], body["length"]
    across = m * (3.0 * r**2 + length**2) / 12.0
    return np.diag([0.5 * m * r**2, across, across])


def smooth_step(t: np.ndarray, law: list[float]) -> np.ndarray:
    """The quintic with its two derivatives: of each row value, rate and acceleration."""
    before, after, start, end = law
    x, T = np.clip((t - start) / (end - start), 0.0, 1.0), end - start
    shape = (10 - 15 * x + 6 * x * x) * x**3, 30 * x * x * (1 - x) ** 2 / T, 60 * x * (1 - x) * (1 - 2 * x) / T**2
    return np.stack([before + (after - before) * shape[0], *((after - before) * s for s in shape[1:])])


def robot_links(data: Data) -> list[Link]:
    points = {name: entry["at"] for table in ("points", "places") for name, entry in data[table].items()}
    return [
        Link(np.array(points[b["nodes"][0]]), np.array(data["joints"][f"q{k}"]["axis"]), b["mass"],
             np.array(b["centre"]), _inertia(b))
        for k, b in enumerate(data["bodies"].values(), 1)
    ]  # fmt: skip


def serial_robot(data: Data, done: Simulated) -> Rows:
    links = robot_links(data)

    def known(t: np.ndarray) -> np.ndarray:
        laws = [smooth_step(t, data["joints"][f"motor{k}"]["smooth_step"]) for k in range(1, 7)]
        moved = np.array(laws).transpose(2, 1, 0)  # instants, derivatives, joints
        return np.array([torques(links, q, w, a, DOWN) for q, w, a in moved])

    yield from _efforts(done, "motor", known, "torques beside Newton-Euler")


def scara(data: Data, done: Simulated) -> Rows:
    """Lagrange's equations by hand: two links that carry nut and quill, which are turned, and one of them lifted."""
    inner, outer, nut, quill = data["bodies"].values()
    l1, l2 = 0.4, 0.3
    d1, d2 = inner["centre"][0], outer["centre"][1]
    I1, I2, I_nut, I_quill = (_inertia(b)[2, 2] for b in (inner, outer, nut, quill))
    m1, m2, m_nut, m_quill = (b["mass"] for b in (inner, outer, nut, quill))
    m3, I3 = m_nut + m_quill, I_nut + I_quill  # both on the third axis

    def known(t: np.ndarray) -> np.ndarray:
        laws = [smooth_step(t, data["joints"][f"motor{k}"]["smooth_step"]) for k in (1, 2, 3, 4)]
        (_, w1, a1), (q2, w2, a2), (_, _, lift), (_, _, a4) = laws
        far = m2 * d2**2 + I2 + m3 * l2**2 + I3
        cross = (m2 * d2 + m3 * l2) * l1
        both = far + cross * np.cos(q2)
        first = m1 * d1**2 + I1 + (m2 + m3) * l1**2 + far + 2.0 * cross * np.cos(q2)
        h = cross * np.sin(q2)
        return np.stack([
            first * a1 + both * a2 + I3 * a4 - h * (2.0 * w1 * w2 + w2**2),
            both * a1 + far * a2 + I3 * a4 + h * w1**2,
            m_quill * (lift + 9.81),
            I3 * (a1 + a2 + a4),
        ], axis=1)  # fmt: skip

    yield from _efforts(done, "motor", known, "efforts beside the closed form")


# ---- the platform ----------------------------------------------------------------------------------------------------


def stewart(data: Data, done: Simulated) -> Rows:
    """Six lengths give the plate's position (Newton), its velocity and its acceleration; six forces balance it."""
    corners = {**data["points"], **data["places"]}
    B, P = (np.array([corners[f"{letter}{k}"]["at"] for k in range(1, 7)]) for letter in "BP")
    plate = data["bodies"]["plate"]
    centre, m = np.array(plate["centre"]), plate["mass"]
    load, cargo = data["particles"]["load"]["mass"], np.array(data["places"]["cargo"]["at"])
    about = m * (3.0 * plate["radius"] ** 2 + plate["length"] ** 2) / 12.0
    J0 = np.diag([about, about, 0.5 * m * plate["radius"] ** 2])
    laws = [data["joints"][f"drive{k}"] for k in range(1, 7)]

    def known(instants: np.ndarray) -> np.ndarray:
        R, at, out = np.eye(3), centre.copy(), []
        for t in instants:
            phases = [law["rate"] * t + law["phase"] for law in laws]
            size = np.array([law["amplitude"] for law in laws])
            rate = np.array([law["rate"] for law in laws])
            length = np.array([law["mean"] for law in laws]) + size * np.sin(phases)
            speed, accel = size * rate * np.cos(phases), -size * rate**2 * np.sin(phases)
            for _ in range(20):
                arms = (P - centre) @ R.T
                legs = at + arms - B
                now = np.linalg.norm(legs, axis=1)
                unit = legs / now[:, None]
                jacobian = np.hstack([unit, np.cross(arms, unit)])
                step = np.linalg.solve(jacobian, length - now)
                at, R = at + step[:3], rotation(step[3:]) @ R
                if np.abs(step).max() < 1e-13:
                    break
            twist = np.linalg.solve(jacobian, speed)
            v, omega = twist[:3], twist[3:]
            ends = v + np.cross(omega, arms)
            turning = np.cross(omega, np.cross(omega, arms))
            # l l'' + l'^2 = |v|^2 + d . a
            right = accel + (speed**2 - np.sum(ends**2, axis=1)) / now - np.sum(unit * turning, axis=1)
            a = np.linalg.solve(jacobian, right)
            far = R @ (cargo - centre)
            J = R @ J0 @ R.T
            pull = load * (a[:3] + np.cross(a[3:], far) + np.cross(omega, np.cross(omega, far)) - DOWN)
            force = m * (a[:3] - DOWN) + pull
            moment = J @ a[3:] + np.cross(omega, J @ omega) + np.cross(far, pull)
            out.append(np.linalg.solve(jacobian.T, np.concatenate([force, moment])))
        return np.array(out)

    yield from _efforts(done, "drive", known, "forces of the legs beside their balance")
    # where the plate is turned by 90 degrees from half-way between pairs, the legs' lines are dependent (Fichter)
    for degrees, loose in ((89.0, 0), (90.0, 1), (91.0, 0)):
        yield equal(f"stewart: motions that its legs do not hold, turned by {degrees:g} degrees",
                    _loose(data, degrees), loose)  # fmt: skip


def _loose(data: Data, degrees: float) -> int:
    """Freedoms with all lengths as they are, the plate drawn turned about the upright."""
    turn = rotation(np.array([0.0, 0.0, np.radians(degrees)]))
    free = {name for name, point in data["points"].items() if not point.get("fixed")}
    moved = {
        table: {
            name: {**entry, "at": (turn @ np.array(entry["at"])).tolist()}
            if table == "places" or name in free else entry
            for name, entry in data[table].items()
        }
        for table in ("points", "places")
    }  # fmt: skip
    bodies = {"plate": {**data["bodies"]["plate"]}}
    ends = {**moved["points"], **moved["places"]}
    joints, scalars = {}, {}
    for k in range(1, 7):
        length = float(np.linalg.norm(np.subtract(ends[f"P{k}"]["at"], ends[f"B{k}"]["at"])))
        scalars[f"l{k}"] = {"value": length}
        joints[f"leg{k}"] = data["joints"][f"leg{k}"]
        joints[f"drive{k}"] = {"kind": "drive", "scalar": f"l{k}", "polynomial": [length]}
    file = {**data, **moved, "bodies": bodies, "scalars": scalars, "joints": joints}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IllConditioned)  # in the singular position
        return int(freedoms(prepare(describe(file, "turned"))[1]).shape[1])


# ---- corners of a car, and the crane ---------------------------------------------------------------------------------


class Corner:
    """Bodies of a corner by their pose; s is how far the body of the car is lifted, and the turn of the lower arm."""

    def __init__(self, data: Data, arms: dict[str, str], upright: str, closing: Callable[..., np.ndarray]) -> None:
        self.data, self.arms, self.upright, self.closing = data, arms, upright, closing
        named = {**data["points"], **data["places"]}
        self.at = {name: np.array(entry["at"]) for name, entry in named.items()}
        masses, self.particles, self.bodies = [], {}, data["bodies"]
        for name, body in self.bodies.items():
            inertia = np.diag(_inertia(body)) if "shape" in body else np.array(body["inertia"])
            mass, places = six_particles(body["mass"], np.array(body["centre"]), inertia)
            masses.append(mass)
            self.particles[name] = places
        self.masses = np.concatenate(masses)
        self.springs = data["forces"]
        first = len(self.masses)
        lengths = [np.linalg.norm(np.subtract(*(self.at[p] for p in s["points"]))) for s in self.springs.values()]
        springs = tuple(
            Spring(first + 2 * k, first + 2 * k + 1, s["stiffness"], s["damping"], float(lengths[k]), s["preload"])
            for k, s in enumerate(self.springs.values())
        )
        self.moved = Moved(self.masses, self.places, springs)

    def _arm(self, name: str, angle: float, lift: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Turned about the line through its two places on the body."""
        front, rear = (self.at[node] for node in self.bodies[name]["nodes"][:2])
        turn = rotation(angle * (front - rear) / np.linalg.norm(front - rear))
        return lambda p: (p - rear) @ turn.T + rear + lift

    def poses(self, s: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
        """Newton on what closes the corner: the turns of further arms, and of the upright about its lower ball."""
        lift = np.array([0.0, 0.0, s[0]])
        lower, *others = self.arms
        unknown = np.zeros(len(others) + 3)

        def posed(y: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
            out = {lower: self._arm(lower, s[1], lift), "body": lambda p: p + lift}
            out |= {name: self._arm(name, y[k], lift) for k, name in enumerate(others)}
            ball = self.at[self.arms[lower]]
            turn, to = rotation(y[len(others) :]), out[lower](ball)
            out[self.upright] = lambda p: (p - ball) @ turn.T + to
            return out

        for _ in range(30):
            left = self.closing(self, posed(unknown))
            jacobian = np.array([
                (self.closing(self, posed(unknown + d)) - self.closing(self, posed(unknown - d))) / 2e-6
                for d in 1e-6 * np.eye(len(unknown))
            ]).T  # fmt: skip
            step = np.linalg.solve(jacobian, left)
            unknown = unknown - step
            if np.abs(step).max() < 1e-14:
                break
        return posed(unknown)

    def places(self, s: np.ndarray) -> np.ndarray:
        pose = self.poses(s)
        out = [pose[name](places) for name, places in self.particles.items()]
        on = {"patch": "ground", **{name: entry["on"] for name, entry in self.data["places"].items()}}
        for spring in self.springs.values():
            for end in spring["points"]:
                out.append((self.at[end] if on[end] == "ground" else pose[on[end]](self.at[end]))[None, :])
        return np.concatenate(out)


def _tie_rod(corner: Corner, pose: dict[str, Callable[[np.ndarray], np.ndarray]]) -> float:
    inside, outside = corner.at["rack_end"], corner.at["tie_end"]
    now = np.linalg.norm(pose[corner.upright](outside) - pose["body"](inside))
    return float(now - np.linalg.norm(outside - inside))


def _two_arms(corner: Corner, pose: dict[str, Callable[[np.ndarray], np.ndarray]]) -> np.ndarray:
    ball = corner.at["upper_ball"]
    return np.append(pose["upright"](ball) - pose["upper_arm"](ball), _tie_rod(corner, pose))


def _strut(corner: Corner, pose: dict[str, Callable[[np.ndarray], np.ndarray]]) -> np.ndarray:
    seat, top = corner.at["seat"], corner.at["top"]
    along = pose["knuckle"](top) - pose["knuckle"](seat)  # the strut's axis, which goes on through the top
    away = np.cross(pose["body"](top) - pose["knuckle"](seat), along / np.linalg.norm(along))
    return np.append(away[:2], _tie_rod(corner, pose))


def _corner(data: Data, corner: Corner, done: Simulated) -> Rows:
    known = corner.moved.eigenvalues(corner.moved.rest(np.zeros(2)))
    found = [complex(*mode["eigenvalue"]) for mode in done.figures["modes"]["modes"]]
    for what, a, b in zip(("body", "wheel"), found, known, strict=True):
        hz, damping = abs(b) / (2.0 * np.pi), -b.real / abs(b)
        yield at_most(f"{data['name']}: frequency of the {what} beside {hz:.4g} Hz, damping {damping:.3f}",
                      abs(complex(a.real, abs(a.imag)) - b) / abs(b), 1e-5, "of it")  # fmt: skip


def wishbones(data: Data, done: Simulated) -> Rows:
    arms = {"lower_arm": "lower_ball", "upper_arm": "upper_ball"}
    yield from _corner(data, Corner(data, arms, "upright", _two_arms), done)


def macpherson(data: Data, done: Simulated) -> Rows:
    yield from _corner(data, Corner(data, {"arm": "ball"}, "knuckle", _strut), done)


def crane(data: Data, done: Simulated) -> Rows:
    rope = data["chains"]["rope"]
    known = hanging_chain(rope["count"], -rope["step"][1], rope["mass"], data["particles"]["load"]["mass"])
    hz = np.array([mode["frequency_hz"] for mode in done.figures["modes"]["modes"]])
    known = known[: len(hz)] / (2.0 * np.pi)
    yield at_most(f"crane: frequencies beside {', '.join(f'{f:.4g}' for f in known)} Hz of a hanging chain",
                  float(np.abs(hz / known - 1.0).max()), 2e-6, "of each")  # fmt: skip


KNOWN: dict[str, Callable[[Data, Simulated], Rows]] = {
    "robot_6r": serial_robot, "stewart": stewart, "scara": scara, "wishbones": wishbones, "macpherson": macpherson,
    "crane": crane,
}  # fmt: skip
