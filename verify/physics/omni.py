"""Omni wheels on ground that is not flat, spinning on the spot, mecanum wheels that are compensated, other rollers.

Each beside an independent result: `python -m verify omni-floor`, `omni-spin`, `omni-compensation`, `omni-rollers`.
"""

from collections.abc import Callable, Iterator
from math import cos, hypot, pi, radians, sin, sqrt, tan

import numpy as np

from sync.compile.array_types import read_only
from tandem.machines.omni.studies.measures import square_command
from tandem.machines.omni.studies.runs import Rig
from tandem.machines.omni.wheel import Wheel
from tandem.multibody.contact.kinds import ROLLER, ROOT, SLIDE, TURN
from tandem.multibody.contact.stepping import find_gaps
from tandem.multibody.contact.tracking import Body, Derivatives, nearest, residual, roller
from tandem.multibody.ground.make import road_from_sources
from tandem.multibody.ground.surface import surface
from verify import ROOT as TREE
from verify.measure import Row, at_least, at_most, equal, figure

G = 9.81
LENGTH, HEIGHT = 0.6, 0.004  # m, of the waves of a floor, half from hollow to crest
STILL = {"speed": [0.0, 0.0], "spin": 0.0, "yaw_rate": 0.0}
Road = dict[str, bytes]


def slope(percent: float) -> Road:
    return {"slope.toml": f'[surface]\nkind = "slope"\ngrade_percent = {percent}\n'.encode()}


def waves(across: bool = False, spacing: float = 0.005) -> Road:
    """A grid of HEIGHT (1 - cos(2 pi x / LENGTH)), and across half of it if asked for."""
    along, k = np.arange(-1.0, 4.0 + spacing, spacing), 2.0 * pi / LENGTH
    aside = np.arange(-1.0, 1.0 + spacing, spacing) if across else np.array([-1.0, 0.0, 1.0])
    z = HEIGHT * (1.0 - np.cos(k * along))[:, None] + (0.5 * HEIGHT * np.sin(k * aside) if across else 0.0 * aside)
    text = "\n".join(",".join(f"{v:.15g}" for v in row) for row in z)
    toml = '[surface]\nkind = "grid"\nfile = "h.csv"\norigin = [-1.0, -1.0]\n'
    toml += f"spacing = [{spacing}, {aside[1] - aside[0]}]\n"
    return {"waves.toml": toml.encode(), "h.csv": text.encode()}


def survey() -> Road:
    """An OpenCRG file: a line that bends, with humps along it and a wave across."""
    head = [
        "$ROAD_CRG",
        "REFERENCE_LINE_INCREMENT = 0.1",
        "REFERENCE_LINE_START_U = 0.0",
        "REFERENCE_LINE_START_PHI = 0.0",
    ]
    head += ["LONG_SECTION_V_RIGHT = -1.0", "LONG_SECTION_V_LEFT = 1.0", "LONG_SECTION_V_INCREMENT = 0.1"]
    head += ["$KD_Definition", "#:LDFI", "U:reference line u,m,0,0.1", "D:reference line phi,rad"]
    head += [*(f"D:long section {k + 1},m" for k in range(21)), "$", "$" * 72]
    for i in range(41):
        z = [0.01 * (1.0 - cos(2.0 * pi * i / 20.0)) + 0.002 * sin(pi * j / 10.0) for j in range(21)]
        fields = [f"{value:20.14f}" for value in (0.01 * i, *z)]
        head += ["".join(fields[k : k + 4]) for k in range(0, len(fields), 4)]
    return {"survey.toml": b'[surface]\nkind = "crg"\nfile = "s.crg"\n', "s.crg": ("\n".join(head) + "\n").encode()}


class Below:
    """The ground as a surface f(r) = z - height(x, y); its second derivatives by differences."""

    def __init__(self, road: np.ndarray) -> None:
        self.road = read_only(road)

    def at(self, r: np.ndarray) -> Derivatives:
        e = 1e-6
        z, zx, zy, _ = surface(self.road, r[0], r[1])
        H = np.zeros((3, 3))
        for k, d in enumerate(((e, 0.0), (0.0, e))):
            (_, ax, ay, _), (_, bx, by, _) = (surface(self.road, r[0] + s * d[0], r[1] + s * d[1]) for s in (1, -1))
            H[k, :2] = (bx - ax) / (2 * e), (by - ay) / (2 * e)
        return float(r[2] - z), np.array([-zx, -zy, 1.0]), 0.5 * (H + H.T)


def tracked(road: np.ndarray, count: int) -> float:
    """A roller at random over the ground, lifted until it touches: its point beside that of eqs. 5."""
    wheel = Wheel(0.05, 0.0335, 4, 30.0, 45.0, 0.02)
    data, rng, worst = wheel.surface(), np.random.default_rng(5), 0.0
    shape = roller(*data[:4])
    ints = read_only(np.array([-1, SLIDE, ROOT, 0, SLIDE, ROOT, 1, SLIDE, ROOT, 2, TURN, 0], np.int32))
    contacts = read_only(np.array([3, 3, ROLLER], np.int32))
    work, out, none = np.zeros(53 * 4 + 37), np.zeros(4), [0.0] * 6
    for _ in range(count):
        z = rng.uniform(-0.6, 0.6) * data[3]
        turn = rng.uniform(0.0, 2.0 * pi)
        axis = np.array([sqrt(1 - z * z) * cos(turn), sqrt(1 - z * z) * sin(turn), z])
        b = np.cross([0.0, 0.0, 1.0], axis)
        b /= sqrt(b @ b)
        rows = [[*e, *none[:3], 0.0, *none[:3], *none, 0.0] for e in np.eye(3)]
        rows.append([*axis, *none[:3], 1.0, *none[:3], *none, 0.0])
        tables = ints, read_only(np.ravel(rows)), contacts
        place = read_only(np.array([0.0, 0.0, 0.0, *axis, *none, *data]))
        q = np.array([rng.uniform(0.2, 2.0), rng.uniform(-0.3, 0.3), 0.05, 0.0])
        for _ in range(40):
            find_gaps(*tables, place, read_only(road), q, work, out)
            q[2] -= out[0]
        T = np.column_stack([axis, b, np.cross(axis, b)])
        ground, body, point = Body(Below(road)), Body(shape, q[:3], T), out[1:4].copy()  # type: ignore[arg-type]
        g, own = ground.world(point)[1], body.world(point)[1]
        x = nearest(ground, body, np.array([*point, *point, -sqrt(g @ g) / sqrt(own @ own), 0.0]) + 1e-7)
        found = float(np.abs(residual(ground, body, x)).max())
        worst = max(worst, float(np.abs(x[3:6] - point).max()), found)
    return worst


def height_of_centre(x: float, radius: float) -> float:
    """Of a wheel on the waves whose centre is at x: the curve at a distance of its radius."""
    k, foot = 2.0 * pi / LENGTH, x
    for _ in range(80):
        rise = HEIGHT * k * sin(k * foot)
        foot = x + radius * rise / hypot(1.0, rise)
    return HEIGHT * (1.0 - cos(k * foot)) + radius / hypot(1.0, HEIGHT * k * sin(k * foot))


def floor(*, count: int = 200) -> Iterator[Row]:
    """Ground that cars know under omni wheels."""
    for name, road in (("grid", waves(True)), ("OpenCRG", survey())):
        yield at_most(f"point on a {name}, {count} attitudes, beside the general equations",
                      tracked(road_from_sources(road), count), 1e-9, "m")  # fmt: skip
    percent, mass, inertia = 10.0, 0.3 + 4 * 0.02, 2.5e-4
    _, across = Wheel(0.05, 0.05 * cos(pi / 4), 4, 0.0, 45.0, 0.02).inertia()
    inertia += 4 * (across + 0.02 * (0.05 * cos(pi / 4)) ** 2)
    angle = np.arctan(percent / 100.0)
    bench = Rig("bench", {"friction": 0.8}, slope(-percent), tracking="support", bench=STILL)
    v = bench.run(1.0, 1e-3)
    rolled = hypot(v["x"][-1] - bench.start[0], v["z"][-1] - bench.start[2])
    expected = 0.5 * G * sin(angle) * mass / (mass + inertia / 0.05**2)
    yield at_most("a wheel that rolls down 10 % for 1 s beside g sin / (1 + J / m R^2)",
                  abs(rolled / expected - 1.0), 1e-6, "of it")  # fmt: skip
    start = {"speed": [0.6, 0.0], "spin": 12.0, "yaw_rate": 0.0}
    for friction in (0.0, 0.8):
        bench = Rig("bench", {"friction": friction}, waves(), tracking="support", bench=start)
        v = bench.run(3.0, 5e-4)
        off = max(abs(z - height_of_centre(x, 0.05)) for x, z in zip(v["x"], v["z"], strict=True))
        what = f"over {(v['x'][-1]) / LENGTH:.1f} waves of {2e3 * HEIGHT:g} mm, friction {friction:g}"
        yield at_most(f"{what}: centre off the curve at a distance of its radius", off, 1e-6, "m")
        drift = np.ptp(v["kinetic"] + v["potential"]) / v["kinetic"][0]
        yield at_most(f"{what}: change of energy", drift, 1e-5, "of it")
        if friction:
            rolls = np.abs(np.hypot(v["speed_x"], v["speed_z"]) - 0.05 * np.abs(v["spin"])).max()
            yield at_most(f"{what}: speed of its centre less R times spin", rolls, 1e-6, "m/s")
    rough = {"floor.toml": (TREE / "configs" / "roads" / "floor.toml").read_bytes()}
    for name in ("three_wheels", "mecanum"):
        bench = Rig(name, road=rough)
        v = bench.run(4.0, 5e-3, lambda t: (0.3, 0.0, 0.0))
        yield at_most(f"{name} on configs/roads/floor.toml: energy that the books do not explain",
                      np.abs(v["energy_error"]).max() / v["kinetic"].max(), 1e-3, "of it")  # fmt: skip
        yield at_most(f"{name}: impulses unsolved", v["unsolved"].max(), 1e-11)
        yield at_least(f"{name}: times real time at 5 ms", 5e3 / bench.cost_us, 2.0)


def yaw_torque(torque: float) -> Callable[[float], tuple[float, ...]]:
    return lambda t: (0.0, 0.0, 0.0, 0.0, torque)


def spin() -> Iterator[Row]:
    """A torque about the vertical, below and above what friction under a patch can hold."""
    radius, friction = 3e-3, 0.6
    r = (np.arange(20_000) + 0.5) / 20_000  # over the patch, in radii
    for what, pressure, share in (("Hertz", np.sqrt(1.0 - r * r), 3.0 * pi / 16.0), ("even", 0.0 * r + 1.0, 2.0 / 3.0)):
        arm = np.sum(pressure * r * r) / np.sum(pressure * r)
        yield at_most(f"arm of friction under {what} pressure by quadrature, off {share:.4f} radii",
                      abs(arm - share), 1e-5, "radii")  # fmt: skip
    reach = 3.0 * pi / 16.0 * radius
    bound = friction * reach * G * (0.3 + 4 * 0.02)
    _, across = Wheel(0.05, 0.05 * cos(pi / 4), 4, 0.0, 45.0, 0.02).inertia()
    # about the vertical: two rollers above and below lie across it; two stand ahead and behind, and their hinges let
    # them keep from turning with the wheel
    inertia = 1.4e-4 + 2 * across + 2 * 0.02 * (0.05 * cos(pi / 4)) ** 2
    changed = {"friction": friction, "spin_reach": reach}
    for share in (0.5, 0.999):
        v = Rig("bench", changed, tracking="support", bench=STILL).run(1.0, 1e-3, yaw_torque(share * bound))
        yield at_most(
            f"{share:g} of the bound: spin of a wheel that stands", np.abs(v["yaw_rate"]).max(), 1e-3, "rad/s"
        )
    v = Rig("bench", changed, tracking="support", bench=STILL).run(0.5, 1e-3, yaw_torque(2.0 * bound))
    yield at_most("twice the bound: its acceleration beside (torque - bound) / J, off",
                  abs(v["yaw_rate"][-1] / (0.5 * bound / inertia) - 1.0), 1e-6, "of it")  # fmt: skip
    bench = Rig("bench", changed, tracking="support", bench={**STILL, "yaw_rate": 5.0})
    v = bench.run(1.0, 1e-4)
    stops = float(v["t"][int(np.argmax(np.abs(v["yaw_rate"]) < 1e-3))])
    yield at_most(f"left alone at 5 rad/s: when it stops, beside J w / bound = {5.0 * inertia / bound:.4f} s",
                  abs(stops - 5.0 * inertia / bound), 1e-3, "s")  # fmt: skip
    yield at_most("and how far it has turned, beside J w^2 / (2 bound), off",
                  abs(v["yaw"][-1] / (0.5 * 25.0 * inertia / bound) - 1.0), 1e-3, "of it")  # fmt: skip
    yield at_most("and what friction has taken, beside J w^2 / 2, off",
                  abs(v["friction_loss"][-1] / (0.5 * 25.0 * inertia) - 1.0), 1e-4, "of it")  # fmt: skip
    for name in ("three_wheels", "four_wheels", "mecanum"):
        bench = Rig(name, {"spin_reach": reach})
        v = bench.run(3.0, 5e-3, lambda t: (0.2 * cos(4.0 * t), 0.1, 0.6 * cos(3.0 * t)))
        yield at_most(f"{name}: impulses and spins unsolved", v["unsolved"].max(), 1e-11)
        yield at_most(f"{name}: energy that the books do not explain",
                      np.abs(v["energy_error"]).max() / v["kinetic"].max(), 1e-5, "of it")  # fmt: skip
        yield at_least(f"{name}: least that friction takes in a step", np.diff(v["friction_loss"]).min(), 0.0, "J")
        yield at_least(f"{name}: times real time at 5 ms", 5e3 / bench.cost_us, 2.0)


def compensation() -> Iterator[Row]:
    """Speeds of mecanum wheels by where their rollers touch."""
    ideal = sin(pi / 8) / (pi / 8)
    for share, expected in ((0.0, ideal), (1.0, 1.0)):
        v = Rig("mecanum", {"speed_gain": 10.0, "compensation": share}).run(2.5, 5e-3, lambda t: (0.0, 0.25, 0.0))
        late = v["speed_left"][v["t"] > 2.5 - 6 * 0.05 * pi / 4 / 0.25]  # six whole passages
        word = "compensated" if share else "by the middle of the roller"
        yield at_most(f"sideways, {word}: speed over that wanted, beside {expected:.4f}, off",
                      abs(late.mean() / 0.25 - expected), 1e-3)  # fmt: skip
        yield figure(f"sideways, {word}: how it varies as rollers pass", late.std(), "m/s")
    for gain, limit in ((1.0, 3e-3), (10.0, 1e-3)):
        runs = [Rig("mecanum", {"speed_gain": gain, "compensation": share}) for share in (0.0, 1.0)]
        off = [bench.run(17.0, 5e-3, square_command)["path_error"] for bench in runs]
        yield at_most(f"square of 1 m, speed gain {gain:g}: off, without {1e3 * off[0].max():.3g} mm",
                      off[1].max(), limit, "m")  # fmt: skip
    lag = [Rig("mecanum", {"speed_gain": 10.0, "compensation": share}).run(6.0, 5e-3, lambda t: (0.2, 0.1, 0.5))
           for share in (0.0, 1.0)]  # fmt: skip
    before, after = (float(v["path_error"].max()) for v in lag)
    yield at_most(f"circle with a turn of 0.5 rad/s: off, without {1e3 * before:.3g} mm", after, 0.5 * before, "m")


def rollers() -> Iterator[Row]:
    """Four, five and ten rollers: the source's formulas, a spindle's closed form, whole turns on the floor.

    The source has no table of them: its figures have four rollers. What it has is its formulas.
    """
    for n in (4, 5, 10):
        alpha, R = pi / n, 0.05
        for psi in (0.0, 30.0):
            R1 = R * cos(alpha) * (1.0 if psi == 0.0 else 0.97)
            wheel = Wheel(R, R1, n, psi, 180.0 / n, 0.02)
            c = cos(radians(psi))
            if psi == 0.0:
                source = 2 * R * sin(alpha)
                yield at_most(f"{n} rollers: length of one, off the source's 2 R sin(alpha) = {1e3 * source:.3f} mm",
                              abs(wheel.length - source), 1e-12, "m")  # fmt: skip
                s = R * sin(alpha) * (np.arange(100_000) + 0.5) / 100_000  # a spindle: an arc about its chord
                r2 = (np.sqrt(R * R - s * s) - R1) ** 2
                along = 0.02 * 0.5 * np.sum(r2 * r2) / np.sum(r2)
                across = 0.02 * np.sum(0.25 * r2 * r2 + r2 * s * s) / np.sum(r2)
                off = max(abs(wheel.inertia()[0] / along - 1.0), abs(wheel.inertia()[1] / across - 1.0))
                yield at_most(f"{n} rollers: inertia beside that of the arc about its chord", off, 1e-4, "of it")
            else:
                held = 2 * (R * c * c * sin(alpha) + R1 * sin(radians(psi)) ** 2 * tan(alpha)) / c
                yield at_most(f"{n} rollers at {psi:g} deg: length of one, off {1e3 * held:.3f} mm",
                              abs(wheel.length - held), 1e-12, "m")  # fmt: skip
                yield figure(f"{n} rollers at {psi:g} deg: the source's length, which holds for R1 = R cos(alpha)",
                             2e3 * R * sin(alpha) / c, "mm")  # fmt: skip
            bench = Rig("bench", {"friction": 0.5}, tracking="explicit", wheel={"rollers": n, "distance": R1,
                          "psi_deg": psi}, bench={"speed": [0.3, 0.0], "spin": 6.0, "yaw_rate": 0.0})  # fmt: skip
            v = bench.run(2.0, 5e-4)
            passed = int(np.count_nonzero(np.diff(v["wheel_roller"])))
            angle = abs(float(v["angle"][-1]))
            yield equal(f"{n} rollers at {psi:g} deg: passed in {angle / (2 * pi):.2f} turns, less what the angle says",
                        passed - round(angle * n / (2 * pi)), 0)  # fmt: skip
            weight = G * (0.3 + n * 0.02)
            yield at_most(f"{n} rollers at {psi:g} deg: load while they pass, off the weight",
                          np.abs(v["wheel_load"] / weight - 1.0).max(), 1e-6, "of it")  # fmt: skip
            yield at_most(
                f"{n} rollers at {psi:g} deg: height of the axle, off R", np.abs(v["z"] - R).max(), 1e-10, "m"
            )
