"""Coasting over kerbs and against a step: `python -m verify kerbs`.

A frictionless car without drag coasts up a step of 5 cm with a ramp of 2, 5, 10, 20 cm at 2, 5, 10 m/s, in time steps
of 5, 2 and 1 ms, and up one of them as a grid and as OpenCRG files: along the data, across them, and at 60 degrees.
Once it runs quietly on top, its mechanical energy must not have grown (1 J is for rounding and what is left of the
swinging), it must roll on with every step converged, and the greatest wheel load must not depend on the time step
(15 %). A step of 20 cm must stop it at walking pace, before its foot.

Then what it takes to climb: the greatest horizontal force on both front wheels, pushed up an edge slowly, beside that
of a rigid wheel, W sqrt(2 r h - h^2) / (r - h), r the loaded radius, and that of two elliptical cams in tandem
(Schmeitz, A semi-empirical three-dimensional model of the pneumatic tyre rolling over arbitrarily uneven road surfaces,
Delft 2004), W times the greatest effective slope. The cams have their usual parameters (half axes R, order 1.8, a base
of 0.8 of the contact length). They are for low obstacles: up to 5 cm both must agree within 15 %. Above, where a tyre
leaves the ground and the cams do not, the force must be between theirs and the rigid wheel's. Along the way it may not
jump: from one millimetre to the next by at most a tenth of its greatest value. And the force that pushes a whole car up
from standstill must be between the same two and the same for steps of 5, 2.5 and 1 ms (3 %).
"""

import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from sim_service.registry import gather
from tandem.machines.car.buggy import build, prescribed, slots
from tandem.machines.car.buggy.description import OUTPUTS, P, W
from tandem.machines.car.tyres.enveloping import envelope
from tandem.machines.car.tyres.tir import read_tir
from tandem.multibody.ground import make_road, surface
from tandem.multibody.natural import tables as core
from tandem.multibody.natural.tables import P as Part
from verify import CONFIGS
from verify.measure import Row, at_most, holds

VEHICLE = CONFIGS / "vehicles" / "buggy.toml"
HEIGHT, RAMPS, SPEEDS, STEPS = 0.05, (0.02, 0.05, 0.1, 0.2), (2.0, 5.0, 10.0), (5e-3, 2e-3, 1e-3)
MOST_CREATED, MOST_SPREAD = 1.0, 1.15  # J; greatest load over the smallest of the time steps
TALL, WALKING = 0.2, 1.4  # m, m/s
KINDS = ("bump", "grid", "crg", "crg_across", "crg_oblique")
HEADINGS = {"crg_across": 90.0, "crg_oblique": 60.0}  # degrees, of data along the kerb
DATA_BEGIN, DATA_LENGTH, SPACING = -5.0, 60.0, 0.01  # m; of grid and CRG
RAMP = 0.01  # m
EDGES = (
    (0.005, 0.005),
    (0.02, 0.005),
    *((height, RAMP) for height in (0.01, 0.02, 0.03, 0.05, 0.08, 0.11, 0.13, 0.16)),
)
LOW, MOST_OFF, MOST_JUMP = 0.05, 0.15, 0.1  # m; of the force of tandem cams; of the greatest force
CONTACT_LENGTH, SHIFT, ORDER = 0.106, 0.8, 1.8  # m, of a tyre that is pressed by 1 cm; of the cams
FRONT_LOAD = 1656.0  # N on a wheel, at rest
TO_CLIMB, PUSH_STEPS, MOST_HARDER = (0.11, 0.13, 0.16), (5e-3, 2.5e-3, 1e-3), 1.03  # m; s; largest force over smallest
PUSH_RATE, STANDS = 500.0, 0.03  # N/s; m/s, below which a car is pushed harder
BEGIN = 2.0  # m; where the kerb begins; the front wheels start 1.3 m ahead of the origin


def kerb_file(folder: Path, height: float, ramp: float, kind: str) -> Path:
    """The same kerb as a bump, as heights on a grid, and as an OpenCRG file along its data, across or oblique."""
    file = folder / "kerb.toml"
    bump = f'[[bumps]]\nshape = "trapezoid"\nx = {BEGIN}\nlength = 200.0\nheight = {height}\nramp = {ramp}\n'
    file.write_text(bump + f"rounding = {min(0.02, 0.25 * ramp)}\n")
    if kind == "bump":
        return file
    road = make_road(file)
    if kind in HEADINGS:
        # columns only where the kerb is: beyond them the road is level; v grows to the left, and so down the kerb
        v = np.arange(round((ramp + 0.2) / SPACING)) * SPACING - ramp - 0.1
        row = [surface(road, BEGIN - at, 0.0)[0] for at in v]
        return _crg(folder, file, v, [row] * round(2 * DATA_LENGTH), 1.0, HEADINGS[kind])
    z = np.array([surface(road, x, 0.0)[0] for x in np.arange(round(DATA_LENGTH / SPACING)) * SPACING + DATA_BEGIN])
    if kind == "grid":
        np.save(folder / "kerb.npy", np.column_stack([z, z]))
        where = f"origin = [{DATA_BEGIN}, -5.0]\nspacing = [{SPACING}, 10.0]\n"
        file.write_text(f'[surface]\nkind = "grid"\nfile = "kerb.npy"\n{where}')
        return file
    return _crg(folder, file, np.array([-5.0, 5.0]), [[h, h] for h in z], SPACING, None)


def _crg(
    folder: Path, file: Path, v: np.ndarray, rows: list[list[float]], spacing: float, heading: float | None
) -> Path:
    """`heading`: degrees, of a reference line through the foot of the kerb; none: along x."""
    head = ["$ROAD_CRG", f"REFERENCE_LINE_INCREMENT = {spacing}", "$", "$KD_Definition", "#:LDFI"]
    head += [f"U:reference line u,m,0,{spacing}", *(f"D:long section at v = {at:.3f},m" for at in v)]
    lines = [*head, "$", "$" * 72]
    for row in rows:
        fields = [f"{f'{h:.16f}'[:19]:>20}" for h in row]
        lines += ["".join(fields[k : k + 4]) for k in range(0, len(fields), 4)]
    (folder / "kerb.crg").write_text("\n".join(lines) + "\n")
    x, y = DATA_BEGIN, 0.0
    if heading is not None:
        way = 0.5 * spacing * len(rows)
        x, y = BEGIN - way * math.cos(math.radians(heading)), -way * math.sin(math.radians(heading))
    where = f"at = [{x}, {y}]\nheading_deg = {heading or 0.0}\n"
    file.write_text(f'[surface]\nkind = "crg"\nfile = "kerb.crg"\n{where}')
    return file


class Coasting:
    """A buggy set going on a road, with its energy."""

    def __init__(
        self,
        road: Path,
        speed: float,
        across: float = 0.0,
        changed: dict[str, float] | None = None,
        extra: bytes = b"",
        tyre: dict[str, float] | None = None,
    ):
        """`extra`: lines for both tyre files; `tyre`: values in place of theirs."""
        sources = gather(VEHICLE, {"road": road})
        for key in ("tyre_front", "tyre_rear"):
            sources.files[key] += extra
            for name, value in (tyre or {}).items():
                line = rf"^{name} *=[^$]*".encode()
                sources.files[key] = re.sub(line, f"{name} = {value} ".encode(), sources.files[key], flags=re.MULTILINE)
        built = build.assemble(sources.toml(), sources, changed or {})
        self.system, self.params, self.tables = built.system, built.params.copy(), built.tables
        self.machine = build._machine(built, "kerb")
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.inputs = np.zeros(len(self.machine.inputs))
        self.inputs[[prescribed.SPEED, prescribed.ANGLE]] = np.nan
        self.machine.initial(self.state, self.params, self.tables, self.work)
        self.start = self.params.copy(), self.state.copy(), self.work.copy(), self.inputs.copy()
        self.push(speed, across)

    def again(self, speed: float, across: float = 0.0) -> None:
        """From the start, at another speed."""
        self.params[:], self.state[:], self.work[:], self.inputs[:] = self.start
        self.push(speed, across)

    @classmethod
    def slippery(
        cls,
        height: float,
        ramp: float,
        speed: float,
        tyre: dict[str, float] | None = None,
        kind: str = "bump",
        **more: float,
    ) -> "Coasting":
        """Without friction or drag, up a kerb that is one of `KINDS`."""
        with tempfile.TemporaryDirectory() as folder:
            road = kerb_file(Path(folder), height, ramp, kind)
            changed = {"drag_area": 0.0, "gear_mode": 0.0, "brake_drag": 0.0, **more}
            return cls(road, speed, 0.0, changed, b"\n[SCALING_COEFFICIENTS]\nLMUX = 1e-6\nLMUY = 1e-6\n", tyre)

    def push(self, speed: float, across: float = 0.0) -> None:
        """Set going at once; `across`: part of the speed to the left."""
        qd = self.state[self.system.span(Part.QD)]
        for node in self.system.mechanism.nodes.values():
            if node.kind == "point":
                qd[node.columns[0]] = speed * (1.0 - across**2) ** 0.5
                qd[node.columns[1]] = speed * across

    def step(self, h: float) -> None:
        self.machine.step(self.state, self.inputs, self.params, self.tables, self.work, h)

    def __getitem__(self, name: str) -> float:
        return float(self.work[W[name]])

    def loads(self) -> np.ndarray:
        return np.array([self[f"load_{w}"] for w in ("fl", "fr", "rl", "rr")])

    def energy_at_start(self) -> float:
        """Before a step was made, when outputs and diagnostics are those of the car at rest."""
        row, col = (self.system.part(p) for p in (Part.MASS_ROW, Part.MASS_COL))
        mass, qd = self.tables.floats[self.system.span(Part.MASS)], self.state[self.system.span(Part.QD)]
        at_rest = self.work[len(OUTPUTS) :][self.system.span(Part.DIAGNOSTIC)][core.KINETIC]
        return self.energy() - float(at_rest) + float(np.sum(np.where(row == col, 0.5, 1.0) * mass * qd[row] * qd[col]))

    def energy(self, springs: bool = True) -> float:
        """Kinetic, of gravity, of springs by their outputs, and what tyres, stops and body have stored."""
        own = self.work[len(OUTPUTS) :]
        kinetic = own[self.system.span(Part.DIAGNOSTIC)][core.KINETIC]
        weight = self.tables.floats[self.system.span(Part.CONSTANT_FORCE)].reshape(-1)
        q = self.state[self.system.span(Part.Q)]
        total = float(kinetic) - float(weight @ q)
        for w in ("fl", "fr", "rl", "rr") if springs else ():
            axle = "front" if w[0] == "f" else "rear"
            rate, free = self.params[P[f"{axle}_spring_rate"]], self.params[P[f"{axle}_spring_length"]]
            total += 0.5 * rate * (free - self[f"spring_length_{w}"]) ** 2
        return total + (float(self.state[self.system.span(Part.ELEMENT)][slots.ENERGY]) if springs else 0.0)


def over(
    ramp: float, speed: float, h: float, height: float = HEIGHT, kind: str = "bump"
) -> tuple[float, float, int, float]:
    """Energy gained, greatest load, capped steps, speed at the end."""
    car = Coasting.slippery(height, ramp, speed, kind=kind)
    car.step(h)
    before, peak, capped = car.energy(), 0.0, 0
    # until the rear wheels have been on top for two seconds
    for _ in range(round(((BEGIN + 1.5) / speed + 2.5) / h)):
        car.step(h)
        peak, capped = max(peak, car.loads().max()), capped + int(car["capped"])
    return car.energy() - before, peak, capped, car["vx"]


def climbed(speed: float, h: float) -> tuple[float, int]:
    """The farthest a car got that coasts against a tall step, m beyond its foot at the front wheels; capped steps."""
    car = Coasting.slippery(TALL, 0.02, speed)
    farthest, capped = -BEGIN, 0
    for _ in range(round(4.0 / h)):
        car.step(h)
        farthest, capped = max(farthest, car["x"] + 1.3 - BEGIN), capped + int(car["capped"])
    return farthest, capped


def slowly_up(road: np.ndarray, tyre: Mapping[str, float], load: float) -> np.ndarray:
    """Horizontal force that holds a wheel with this load at each millimetre of its way up the kerb."""
    R, k = tyre["UNLOADED_RADIUS"], tyre["VERTICAL_STIFFNESS"]
    forces = []
    for x in np.arange(BEGIN - R - 0.01, BEGIN + 0.05, 1e-3):
        low, high = 0.3 * R, 2.0 * R
        for _ in range(40):
            z = 0.5 * (low + high)
            low, high = (z, high) if envelope(road, R, k, x, 0.0, z, 0.0, 1.0, 0.0)[3] > load else (low, z)
        forces.append(-envelope(road, R, k, x, 0.0, high, 0.0, 1.0, 0.0)[1])
    return np.array(forces)


def rigid_slope(R: float, height: float) -> float:
    return math.sqrt(2.0 * R * height - height**2) / (R - height)


def tandem_slope(R: float, height: float) -> float:
    """The greatest effective slope of two elliptical cams over a step."""
    x = np.linspace(-1.5 * R, 1.5 * R, 6001)  # of a cam, the step being at 0
    outline = R * ((1.0 - np.clip(np.abs(x) / R, 0.0, 1.0) ** ORDER) ** (1.0 / ORDER) - 1.0)
    rise = np.where(x < 0.0, np.maximum(height + outline, 0.0), height)
    base = SHIFT * CONTACT_LENGTH
    return float((np.interp(x + 0.5 * base, x, rise) - np.interp(x - 0.5 * base, x, rise)).max()) / base


def edges() -> Iterator[Row]:
    """The forces that edges take."""
    tyre, load = read_tir(VEHICLE.parents[1] / "tyres" / "155_80_r13.tir"), FRONT_LOAD
    R, loaded = tyre["UNLOADED_RADIUS"], tyre["UNLOADED_RADIUS"] - load / tyre["VERTICAL_STIFFNESS"]
    for height, ramp in EDGES:
        with tempfile.TemporaryDirectory() as folder:
            forces = slowly_up(make_road(kerb_file(Path(folder), height, ramp, "bump")), tyre.values, load)
        cams, rigid = (2.0 * load * slope for slope in (tandem_slope(R, height), rigid_slope(loaded, height)))
        found, jump = 2.0 * float(forces.max()), float(np.abs(np.diff(forces)).max() / forces.max())
        what = f"edge of {height} m, ramp {ramp} m"
        yield at_most(f"{what}: greatest jump of the force within 1 mm", jump, MOST_JUMP, "of the greatest")
        if height <= LOW:
            yield at_most(f"{what}: force beside tandem cams' {cams:.0f} N, off by", abs(found / cams - 1.0), MOST_OFF)
        else:
            between = f"between {cams:.0f} and {rigid:.0f} N"
            yield holds(f"{what}: force on both front wheels", cams < found < rigid, f"{found:.0f} N", between)
    for height in TO_CLIMB:
        cams, rigid = (2.0 * load * slope for slope in (tandem_slope(R, height), rigid_slope(loaded, height)))
        pushes = [pushed_up(height, 0.02, h) for h in PUSH_STEPS]
        good = cams < min(pushes) and max(pushes) < rigid and max(pushes) / min(pushes) <= MOST_HARDER
        shown = ", ".join(f"{push:.0f}" for push in pushes)
        between = f"between {cams:.0f} and {rigid:.0f} N"
        yield holds(f"a car up {height} m from standstill at 5, 2.5, 1 ms", good, f"{shown} N", between)


def pushed_up(height: float, ramp: float, h: float) -> float:
    """The force that pushes a car up which stands before a kerb, its front wheels nearly touching."""
    car, near = Coasting.slippery(height, ramp, 0.3), BEGIN - 1.3 - math.sqrt(0.56 * height - height**2) - 0.005
    while car["x"] < near:
        car.step(h)
    car.push(0.0)
    push = 0.0
    while car["x"] + 1.3 < BEGIN + 0.02 and push < 2e4:
        if car["vx"] < STANDS:
            push += PUSH_RATE * h
        car.params[P.push_x] = push
        car.step(h)
    return push


def kerbs() -> Iterator[Row]:
    yield from edges()
    cases = [(ramp, speed, "bump") for ramp in RAMPS for speed in SPEEDS]
    for ramp, speed, kind in [*cases, *((0.05, 5.0, kind) for kind in KINDS[1:])]:
        runs = [over(ramp, speed, h, kind=kind) for h in STEPS]
        peaks, what = [r[1] for r in runs], f"{kind}, ramp {ramp} m, {speed} m/s"
        yield at_most(f"{what}: energy gained", max(r[0] for r in runs), MOST_CREATED, "J")
        yield at_most(f"{what}: greatest load at 5, 2, 1 ms, ratio", max(peaks) / min(peaks), MOST_SPREAD)
        good = bool(np.isfinite(runs).all()) and all(capped == 0 and after > 0.0 for _, _, capped, after in runs)
        yield holds(f"{what}: finite, no step capped, rolls on", good)
    for h in STEPS:
        far, capped = climbed(WALKING, h)
        what = f"step of {TALL} m at {WALKING} m/s, {h * 1e3:g} ms"
        yield holds(f"{what}: front axle stays before it", far < 0.0 and capped == 0, f"{far:.3f} m, {capped} capped")
