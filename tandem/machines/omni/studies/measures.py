"""What is promised of omni wheels, measured: each function returns figures, and curves for the page.

Limits stand in `promises`; docs/omni.md says what they mean.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import cos, pi, radians, sin

import numpy as np

from sync.clock import now_ns
from sync.compile.array_types import read_only
from sync.config.toml import read
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.omni.build import checked_wheels
from tandem.machines.omni.description import OmniFile
from tandem.machines.omni.studies.natural_contact import NaturalRig
from tandem.machines.omni.studies.runs import Rig, Values
from tandem.machines.omni.wheel import Wheel
from tandem.multibody.contact.kinds import ROLLER, ROLLER_EXPLICIT, ROLLER_IMPLICIT
from tandem.multibody.contact.surfaces import repeat_tracking, track
from tandem.multibody.contact.tracking import Body, Plane, Revolution, nearest, rates, roller
from tandem.reports.html.chart import Series

PAPER_RATIO = 1.5  # cost of the implicit tracking over the explicit one, seed 004
VEHICLES = ("three_wheels", "four_wheels", "mecanum")
SIDE, SPEED = 1.0, 0.25  # of the square, m and m/s
_Pictures = list[tuple[str, list[Series], bool]]  # title, curves, logarithmic


@dataclass
class Measured:
    """Rows of (what, value, limit, whether it holds; None: nothing is promised), and pictures."""

    rows: list[tuple[str, str, str, bool | None]] = field(default_factory=list)
    pictures: _Pictures = field(default_factory=list)
    paths: list[tuple[str, list[Series]]] = field(default_factory=list)  # in the plane

    def most(self, what: str, value: float, limit: float, unit: str = "") -> None:
        self.rows.append((what, f"{value:.2e}{unit}", f"≤ {limit:g}{unit}", value <= limit))

    def least(self, what: str, value: float, limit: float, unit: str = "") -> None:
        self.rows.append((what, f"{value:.1f}{unit}", f"≥ {limit:g}{unit}", value >= limit))

    def shown(self, what: str, value: str, beside: str = "") -> None:
        self.rows.append((what, value, beside, None))


def wheel_of(name: str) -> Wheel:
    return rig_wheels(name)[0]


def attitudes(wheel: Wheel, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Axes of a roller that touches, rho and k1, of an upright wheel with any heading."""
    axes, rhos, k1s = np.empty((count, 3)), np.empty((count, 3)), np.empty((count, 3))
    angles = np.linspace(-0.999, 0.999, count) * radians(wheel.alpha_deg)
    cp, sp = cos(radians(wheel.psi_deg)), sin(radians(wheel.psi_deg))
    for k, q in enumerate(angles):
        yaw = 2.4 * k
        k1, i1, j1 = (
            np.array([cos(yaw), sin(yaw), 0.0]),
            np.array([-sin(yaw), cos(yaw), 0.0]),
            np.array([0.0, 0.0, 1.0]),
        )
        axes[k] = cp * (sin(q) * j1 + cos(q) * i1) + sp * k1
        rhos[k] = cos(q) * j1 - sin(q) * i1
        k1s[k] = k1
    return axes, rhos, k1s, angles


def tracking_identity(out: Measured) -> None:
    """Implicit, explicit and the support function against the general equations, at many attitudes."""
    for psi in (0.0, 30.0, 45.0):
        wheel = Wheel(0.05, 0.0335, 4, psi, 45.0, 0.02)
        data = read_only(np.array(wheel.surface()))
        surface = roller(*wheel.surface()[:4])
        floor = Body(Plane(np.array([0.0, 0.0, 1.0])))
        apart = {"implicit": 0.0, "support": 0.0, "general": 0.0}
        found = {kind: np.zeros(3) for kind in (ROLLER_EXPLICIT, ROLLER_IMPLICIT, ROLLER)}
        heights = 0.0
        for axis, rho, k1, q in zip(*attitudes(wheel, 181), strict=True):
            for kind, arm in found.items():
                track(kind, data, axis, rho, k1, arm)
            explicit = found[ROLLER_EXPLICIT]
            apart["implicit"] = max(apart["implicit"], float(np.abs(found[ROLLER_IMPLICIT] - explicit).max()))
            apart["support"] = max(apart["support"], float(np.abs(found[ROLLER] - explicit).max()))
            b = np.cross([0.0, 0.0, 1.0], axis)
            b /= np.sqrt(b @ b)
            centre = np.array([0.0, 0.0, 0.05 - 0.0335 * cos(q)])
            body = Body(surface, centre, np.column_stack([axis, b, np.cross(axis, b)]))
            point = centre + explicit
            g = body.world(point)[1]
            x = nearest(floor, body, np.concatenate([point, point, [1.0 / g[2], 0.0]]) + 1e-5)
            apart["general"] = max(apart["general"], float(np.abs(x[3:6] - point).max()))
            heights = max(heights, abs(0.0335 * cos(q) - explicit[2] - 0.05))
        apart["differential"] = _differential(wheel, surface, data, floor)
        for name, value in apart.items():
            out.most(f"explicit against {name} tracking, psi = {psi:g} deg", value, 1e-9, " m")
        out.most(f"distance of the touching point from the axle, less R, psi = {psi:g} deg", heights, 1e-10, " m")


def _differential(wheel: Wheel, surface: Revolution, data: np.ndarray, floor: Body) -> float:
    """Eqs. 7 and 8 by Runge and Kutta while a roller passes, begun with eqs. 5: farthest from the explicit tracking."""
    k1, i1, j1 = np.array([0.0, 1.0, 0.0]), np.array([-1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    cp, sp = cos(radians(wheel.psi_deg)), sin(radians(wheel.psi_deg))
    most, count, arm = 0.9 * radians(wheel.alpha_deg), 200, np.zeros(3)

    def body(q: float) -> tuple[Body, np.ndarray]:
        """Of a wheel that turns with 1 rad/s about an axle at rest; and the point of the explicit tracking."""
        axis, rho = cp * (sin(q) * j1 + cos(q) * i1) + sp * k1, cos(q) * j1 - sin(q) * i1
        centre = wheel.radius * j1 - wheel.distance * rho
        b = np.cross(j1, axis)
        b /= np.sqrt(b @ b)
        track(ROLLER_EXPLICIT, data, axis, rho, k1, arm)
        T = np.column_stack([axis, b, np.cross(axis, b)])
        return Body(surface, centre, T, np.cross(k1, -wheel.distance * rho), k1), centre + arm

    def change(q: float, x: np.ndarray) -> np.ndarray:
        return rates(floor, body(q)[0], x)

    first, point = body(-most)
    x = nearest(floor, first, np.concatenate([point, point, [1.0 / first.world(point)[1][2], 0.0]]))
    h, worst = 2.0 * most / count, 0.0
    for k in range(count):
        q = -most + k * h
        one = change(q, x)
        two = change(q + h / 2, x + h / 2 * one)
        three = change(q + h / 2, x + h / 2 * two)
        x = x + h / 6 * (one + 2 * two + 2 * three + change(q + h, x + h * three))
        worst = max(worst, float(np.abs(x[3:6] - body(q + h)[1]).max()))
    return worst


def motion_identity(out: Measured, seconds: float) -> None:
    """Both trackings of the paper in a free motion that rolls and slides: its figures 8, 9, 10."""
    for name in ("bench", "bench_inclined"):
        for friction in (0.0, 0.3):
            runs = {kind: Rig(name, {"friction": friction}, tracking=kind).run(seconds, 1e-3)
                    for kind in ("explicit", "implicit", "support")}  # fmt: skip
            label = f"{name}, friction {friction:g}"
            explicit = runs["explicit"]
            for other in ("implicit", "support"):
                for channel, what, limit, unit in (
                    ("roller1_accel_z", "acceleration", 1e-8, " m/s2"), ("roller1_speed_z", "velocity", 1e-7, " m/s"),
                    ("roller1_height", "position", 1e-6, " m"),
                ):  # fmt: skip
                    gap = float(np.abs(runs[other][channel] - explicit[channel]).max())
                    out.most(f"{label}: {what} of roller 1, explicit against {other}", gap, limit, unit)
            if friction:
                t = explicit["t"]
                pair = [Series(kind, t, runs[kind]["roller1_speed_z"]) for kind in ("explicit", "implicit")]
                out.pictures.append((f"{name}: vertical velocity of roller 1, m/s (figure 8)", pair, False))
                for channel, title in (("roller1_accel_z", "accelerations, m/s2 (figure 9)"),
                                       ("roller1_height", "positions, m (figure 10)")):  # fmt: skip
                    gap_curve = runs["implicit"][channel] - explicit[channel]
                    out.pictures.append((f"{name}: divergence of {title}", [Series("implicit", t, gap_curve)], False))


def costs(out: Measured) -> None:
    """Of one tracking, and of a step with either."""
    wheel = wheel_of("bench_inclined")
    axes, rhos, k1s, _ = attitudes(wheel, 64)
    data, spent = read_only(np.array(wheel.surface())), dict[str, float]()
    flat = tuple(np.ascontiguousarray(a.ravel()) for a in (axes, rhos, k1s))
    kinds = {"explicit": ROLLER_EXPLICIT, "implicit": ROLLER_IMPLICIT, "support": ROLLER}
    for _ in range(60):  # in turns, so that other work on the machine meets all of them; the best of each
        for name, kind in kinds.items():
            begun = now_ns()
            repeat_tracking(*(kind, data, *flat, 20_000))
            spent[name] = min(spent.get(name, 1e9), (now_ns() - begun) / 20_000)
    ratio = spent["implicit"] / spent["explicit"]
    out.shown("one tracking: explicit, implicit, support", ", ".join(f"{v:.1f} ns" for v in spent.values()))
    out.shown("implicit over explicit tracking", f"{ratio:.2f} ×", f"paper {PAPER_RATIO:g} × of the whole run")
    step = {}
    for way in ("explicit", "implicit", "support"):
        rig = Rig("bench_inclined", {"friction": 0.3}, tracking=way)
        rig.run(0.2, 1e-3)
        rig.run(2.0, 1e-3)
        step[way] = rig.cost_us
    out.shown("one step of the bench: explicit, implicit, support", ", ".join(f"{v:.1f} µs" for v in step.values()))
    out.shown("implicit over explicit step", f"{step['implicit'] / step['explicit']:.2f} ×", f"paper {PAPER_RATIO:g} ×")


def conservation(out: Measured, passages: int) -> None:
    """Energy without friction over so many rollers; spin of a roller that touches nothing."""
    for name in ("bench", "bench_inclined"):
        rig = Rig(name, {"friction": 0.0})
        seconds = passages / 4 * 2 * pi / 6.0
        values = rig.run(seconds, 1e-3)
        total = values["kinetic"] + values["potential"]
        drift = float(np.ptp(total)) / float(values["kinetic"][0])
        passed = int(np.count_nonzero(np.diff(values["wheel_roller"])))
        out.least(f"{name}: rollers that passed", float(passed), float(passages))
        out.most(f"{name}: change of energy over {passed} passages, relative", drift, 1e-6)
        gap = float(np.abs(values["lowest_gap"]).max())
        out.most(f"{name}: distance of the wheel from the floor", gap, 1e-10, " m")
        spin = values["roller1_spin_momentum"]
        scale = max(float(np.abs(spin).max()), 6.0 * wheel_of(name).inertia()[0])
        out.most(
            f"{name}: change of the spin of roller 1 without friction, relative", float(np.ptp(spin)) / scale, 1e-6
        )
    values = Rig("bench_inclined", {"friction": 0.3}).run(10.0, 1e-3)
    apart = values["wheel_roller"] != 1.0
    spin = values["roller1_spin_momentum"]
    changed = np.flatnonzero(np.diff(apart)) + 1
    flights = [part for part, of in zip(np.split(spin, changed), np.split(apart, changed), strict=True) if of[0]]
    change = max(float(np.ptp(part)) for part in flights) / float(np.abs(spin).max())
    out.most(
        f"with friction: change of the spin of roller 1 while it touches nothing, {len(flights)} times, relative",
        change,
        1e-6,
    )


def real_time(out: Measured) -> None:
    for name, h, limit in (("bench", 1e-3, 5.0), ("bench_inclined", 1e-3, 5.0), *((v, 5e-3, 2.0) for v in VEHICLES)):
        rig = Rig(name)
        drive = None if name.startswith("bench") else (lambda t: (0.2, 0.1, 0.3))
        rig.run(0.5, h, drive)
        rig.run(3.0, h, drive)
        links, contacts = rig.machine.tables.ints[:2]
        text = f"{name}: {links} joints, {contacts} rollers, {1e3 * h:g} ms, {rig.cost_us:.0f} µs a step: × real time"
        out.least(text, 1e6 * h / rig.cost_us, limit)


def square_command(t: float) -> tuple[float, float, float]:
    side = int(t / (SIDE / SPEED))
    return (*((SPEED, 0.0), (0.0, SPEED), (-SPEED, 0.0), (0.0, -SPEED), (0.0, 0.0))[min(side, 4)], 0.0)


def squares(out: Measured) -> None:
    """A square of 1 m, the speeds of the wheels by inverse kinematics, nothing corrected on the way."""
    limits = {"three_wheels": 0.005, "four_wheels": 0.005, "mecanum": 0.05}
    paths: list[Series] = []
    errors: list[Series] = []
    for name in VEHICLES:
        v = Rig(name).run(4 * SIDE / SPEED + 1.0, 5e-3, square_command)
        out.most(
            f"{name}: error of an open-loop square of {SIDE:g} m", float(v["path_error"].max()), limits[name], " m"
        )
        out.most(f"{name}: impulses, what is left unsolved of the largest", float(v["unsolved"].max()), 1e-11)
        out.shown(f"{name}: corrections of impulses, most of {len(v['t'])} steps", f"{v['sweeps'].max():.0f} sweeps")
        load, slip = v["wheel1_load"], v["wheel1_slip"]
        figures = f"{v['yaw'][-1]:.4f} rad, {load.min():.1f} to {load.max():.1f} N, {slip.max():.3f} m/s"
        out.shown(f"{name}: yaw at the end, load of wheel 1, largest slip", figures)
        paths.append(Series(name, v["x"], v["y"]))
        errors.append(Series(name, v["t"], v["path_error"]))
        if name == VEHICLES[0]:
            paths.insert(0, Series("ideal kinematics", v["ideal_x"], v["ideal_y"]))
    out.paths.append(("square driven open loop, m", paths))
    out.pictures.append(("distance from where ideal kinematics has it, m", errors, False))
    for mode, what in ((1.0, "torques that correct the platform's speed"), (2.0, "torques ahead of the command alone")):
        v = Rig("mecanum", {"control": mode}).run(4 * SIDE / SPEED + 1.0, 5e-3, square_command)
        out.shown(f"mecanum: the same by {what}", f"{v['path_error'].max():.3f} m")


def against_ideal(out: Measured) -> None:
    """What ideal non-holonomic kinematics says beside what the vehicle does: speed, vibration as rollers pass, slip."""
    h, seconds = 5e-3, 4.0
    for name in VEHICLES:
        v = Rig(name).run(seconds, h, lambda t: (0.2, 0.1, 0.0))
        late = v["t"] > 1.0
        for what, ideal in (("speed_ahead", 0.2), ("speed_left", 0.1)):
            speed = v[what][late]
            out.shown(
                f"{name}: {what.replace('_', ' ')}, m/s: mean, vibration (rms), most off",
                f"{speed.mean():.4f}, {speed.std():.1e}, {np.abs(speed - ideal).max():.1e}", f"ideal {ideal:g}, 0, 0",
            )  # fmt: skip
        shaking = v["accel_z"][late]
        slip = max(float(v[f"wheel{k + 1}_slip"][late].max()) for k in range(len(rig_wheels(name))))
        load = v["wheel1_load"][late]
        passed = int(np.count_nonzero(np.diff(v["wheel1_roller"][late])))
        out.shown(
            f"{name}: {passed} changes of roller of wheel 1: heave (rms), load, largest slip of a wheel",
            f"{shaking.std():.1e} m/s2, {load.min():.1f} to {load.max():.1f} N, {slip:.1e} m/s", "ideal 0, even, 0",
        )  # fmt: skip
        window = (v["t"] > 2.0) & (v["t"] < 3.0)
        t = v["t"][window]
        pair = [Series("vehicle", t, v["speed_left"][window]), Series("ideal", t, np.full(len(t), 0.1))]
        out.pictures.append((f"{name}: speed to the left, m/s", pair, False))
        out.pictures.append((f"{name}: slip of wheel 1, m/s", [Series("slip", t, v["wheel1_slip"][window])], False))


def rig_wheels(name: str) -> list[Wheel]:
    path = CONFIGS / "omni" / f"{name}.toml"
    return checked_wheels(read(path, OmniFile), str(path))


def passages(out: Measured) -> None:
    """Force of the floor and servo torque while rollers pass, of a wheel that is driven."""
    for psi, distance in ((0.0, 0.035355339059327376), (30.0, 0.0335), (45.0, 0.0335)):
        rig = Rig("bench", {"friction": 0.5}, wheel={"psi_deg": psi, "distance": distance})
        v = rig.run(2.0, 5e-4, lambda t: (0.002, 0.0, 0.0, 0.0, 0.0))
        rows = (
            ("load, N", "wheel_load"), ("friction along x, N", "wheel_force_x"),
            ("servo torque, N m", "servo_torque"), ("number of the roller", "wheel_roller"),
        )  # fmt: skip
        for title, channel in rows:
            out.pictures.append(
                (f"driven bench, psi = {psi:g} deg: {title}", [Series(channel, v["t"], v[channel])], False)
            )
        out.shown(f"driven bench, psi = {psi:g} deg: servo torque, books",
                  f"{v['servo_torque'].min():.4f} to {v['servo_torque'].max():.4f} N m, "
                  f"unexplained {np.abs(v['energy_error']).max() / v['kinetic'].max():.1e}")  # fmt: skip


def sweeps(out: Measured) -> None:
    """What inclination, the number of rollers and friction do to a wheel that is let go."""
    for psi in (0.0, 15.0, 30.0, 45.0, 60.0):
        distance = 0.05 * cos(pi / 8) * (1.0 if psi < 20.0 else 0.93)
        v = Rig("bench", {"friction": 0.5}, wheel={"psi_deg": psi, "rollers": 8, "distance": distance}).run(3.0, 5e-4)
        out.shown(f"psi = {psi:g} deg, 8 rollers: lost to friction in 3 s, servo torque", _lost(v))
    for n in (4, 6, 8, 12):
        distance = 0.05 * cos(pi / n)
        v = Rig("bench", {"friction": 0.5}, wheel={"rollers": n, "distance": distance}).run(3.0, 5e-4)
        out.shown(f"{n} rollers, psi = 0: lost to friction in 3 s, servo torque", _lost(v))
    curves = []
    for mu in (0.01, 0.05, 0.2, 0.8):
        v = Rig("bench_inclined", {"friction": mu}).run(3.0, 5e-4)
        out.shown(f"friction {mu:g}: lost to friction in 3 s, servo torque", _lost(v))
        curves.append(Series(f"friction {mu:g}", v["t"], v["speed_x"]))
    out.pictures.append(("free motion of the inclined bench: speed along x, m/s", curves, False))
    for h in (2e-3, 1e-3, 5e-4, 2.5e-4):
        v = Rig("bench", {"friction": 0.5}).run(2.0, h)
        out.shown(f"step of {1e3 * h:g} ms: lost to friction in 2 s, servo torque", _lost(v))


def _lost(v: Values) -> str:
    share = v["friction_loss"][-1] / v["kinetic"][0]
    return f"{100.0 * share:.2f} %, {v['servo_torque'].min():.3f} to {v['servo_torque'].max():.3f} N m"


def formulations(
    out: Measured, names: Sequence[str] = ("bench", "bench_inclined"), seconds: float = 0.5, finest: float = 5e-4
) -> None:
    """Contact with friction in natural coordinates beside relative ones: a wheel that slides, then rolls with stick."""
    steps = (4.0 * finest, 2.0 * finest, finest)
    for name in names:
        ours = {h: Rig(name, {"friction": 0.1}, bench={"spin": 9.0}).run(seconds, h) for h in steps}
        start = Rig(name, bench={"spin": 9.0}).start
        other = NaturalRig(name, 0.1, start)
        theirs = {h: other.run(seconds, h) for h in steps}
        both = [(ours[h], theirs[h]) for h in steps]
        away = [np.hypot(a["x"] - b["x"], a["y"] - b["y"]) for a, b in both]
        rotation = [np.abs(a["yaw"] - b["yaw"]) for a, b in both]
        spun = [np.abs(a["roller1_spin_momentum"] - b["roller1_spin_momentum"]) for a, b in both]
        for what, unit, limit, apart, scale in (
            ("path", " m", 1e-5, away, 1.0), ("yaw", " rad", 1e-4, rotation, 1.0),
            ("spin of roller 1, relative", "", 1e-3, spun, float(np.abs(both[-1][0]["roller1_spin_momentum"]).max())),
        ):  # fmt: skip
            most = [float(gap.max()) / scale for gap in apart]
            out.most(f"{name}, friction 0.1: {what}, natural against relative coordinates, {1e3 * finest:g} ms",
                     most[-1], limit, unit)  # fmt: skip
            out.shown(f"{name}: the same at steps of {', '.join(f'{1e3 * h:g}' for h in steps)} ms",
                      ", ".join(f"{v:.1e}" for v in most) + unit)  # fmt: skip
            if not scale < 1.0:
                out.most(f"{name}: {what}, a step's difference over that of twice the step, largest",
                         max(b / a for a, b in pairwise(most)), 0.7)  # fmt: skip
        by_step = np.hypot(ours[steps[1]]["x"] - ours[finest]["x"][1::2], ours[steps[1]]["y"] - ours[finest]["y"][1::2])
        out.shown(f"{name}: path, what half the step changes in relative coordinates", f"{by_step.max():.1e} m")
        differ = sum(int(np.sum(a["wheel_roller"] != b["wheel_roller"])) for a, b in both)
        out.most(f"{name}: steps on another roller", float(differ), 0.0)
        sliding = [float(np.mean(run["wheel_slip"] > 1e-6)) for run in both[-1]]
        out.most(f"{name}: share of the run that slides ({sliding[0]:.3f}), less that in natural coordinates",
                 abs(sliding[0] - sliding[1]), 0.01)  # fmt: skip
        # it is a run with both
        out.least(f"{name}: slides, sticks, % of the run", 100.0 * min(sliding[0], 1.0 - sliding[0]), 5.0)


def repeated(out: Measured) -> None:
    for name in ("bench_inclined", "mecanum"):
        drive = None if name.startswith("bench") else (lambda t: (0.2, 0.1, 0.3))
        states = [Rig(name) for _ in range(2)]
        for rig in states:
            rig.run(1.0, 5e-3, drive)
        differing = int(np.sum(states[0].state.view(np.int64) != states[1].state.view(np.int64)))
        out.most(f"{name}: words of the state that differ in the same run twice, in one process", float(differing), 0.0)


STUDIES: dict[str, tuple[str, Callable[[Measured], None]]] = {
    "tracking": ("Trackings against each other and the general equations", tracking_identity),
    "identity": ("Implicit against explicit over 10 s", lambda out: motion_identity(out, 10.0)),
    "conservation": ("Energy and spin", lambda out: conservation(out, 100)),
    "cost": ("Cost of a tracking and of a step", costs),
    "real-time": ("Real time", real_time),
    "square": ("A square driven open loop", squares),
    "ideal": ("Ideal kinematics beside the vehicle", against_ideal),
    "formulations": ("Natural against relative coordinates, with friction", formulations),
    "passages": ("Contact force over roller passages", passages),
    "sweeps": ("Inclination, number of rollers, friction, step", sweeps),
    "repeat": ("The same run twice in one process", repeated),
}
