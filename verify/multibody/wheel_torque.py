"""`python -m verify wheel-torque`: a vehicle driven by a wheel torque, a further one at 10 s, beside another code.

The mechanism is a file (configs/mechanisms/vehicle.toml): chassis, arms and springs in the plane, wheels that roll
without slip. It runs in natural coordinates (I3AL, with its error extrapolated away, and plain), in relative ones, and
in Exudyn where that is installed: there of rigid bodies with joints as constraints, built from the figures of the file
and from nothing of our coordinates. What is compared is the comparison of the source on simulation quality (C. R.
Mécanique 2011), which has a closed code in the other part.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sync.clock import now_ns
from sync.config.extras import install_extra
from tandem.console.shipped_configs import CONFIGS
from tandem.mechanism import run as mechanism_run
from tandem.multibody.description.sections import MechanismFile
from tandem.multibody.natural.api import Record, run
from tandem.multibody.relative.run import Runner
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.markup import Markup
from tandem.reports.report import Report, Section, Table
from verify.measure import Result, at_most, figure, note, reported
from verify.multibody import other_codes

FILE = CONFIGS / "mechanisms" / "vehicle.toml"
INSTANTS = 400
# label, formulation, scheme, steps for one of the file's; the first is what the others are compared with
WAYS = (
    ("relative RODAS4", "relative", "rodas4", 1.0),
    ("relative RK4", "relative", "rk4", 1.0),
    ("relative trapezoidal", "relative", "trapezoidal", 1.0),
    ("natural I3AL", "natural", "i3al", 1.0),
    ("natural I3AL", "natural", "i3al", 4.0),
    ("natural I3AL halved, extrapolated", "natural", "i3al_halved", 1.0),
)
QUANTITIES = (
    ("travel", "way of the rear wheel, m"), ("speed", "speed, m/s"), ("heave", "middle of the pivots, m"),
    ("pitch", "pitch of the chassis, rad"), ("spin", "rate of the rear wheel, rad/s"),
)  # fmt: skip
EXUDYN = "Exudyn"
APART = 1e-3  # m/s, of 20: relative coordinates, and natural ones at their finest step, from the first way
Say = Callable[[str, float], None]  # what is being done, and which share of all is


@dataclass(frozen=True)
class Drive:
    """A run at the common instants, and what it cost."""

    label: str
    h: float
    t: np.ndarray
    found: dict[str, np.ndarray]
    real_time_factor: float


def of_record(record: Record) -> dict[str, np.ndarray]:
    """The quantities of a record in natural coordinates."""
    rear, front = record["pivot_r"], record["pivot_f"]
    hub, speed = record["hub_r"], record.values(record.system.mechanism.named("hub_r"), 1)
    arm, rate = (
        record.values(record.system.mechanism.named("rim_r"), k)
        - record.values(record.system.mechanism.named("hub_r"), k)
        for k in (0, 1)
    )
    return {
        "travel": hub[:, 0] - hub[0, 0],
        "speed": speed[:, 0],
        "heave": 0.5 * (rear[:, 1] + front[:, 1]),
        "pitch": np.arctan2(front[:, 1] - rear[:, 1], front[:, 0] - rear[:, 0]),
        "spin": (arm[:, 0] * rate[:, 1] - arm[:, 1] * rate[:, 0]) / (arm**2).sum(axis=1),
    }


def ours(label: str, formulation: str, scheme: str, seconds: float | None, finer: float) -> Drive:
    described, _ = mechanism_run.load(FILE)
    step = described.file.run.step_ms / finer
    options = {"formulation": formulation, "scheme": scheme, "step_ms": step, "seconds": seconds}
    described, state = mechanism_run.load(FILE, **options)
    h = 1e-3 * step
    steps = round(described.file.run.seconds / h)
    every = max(1, steps // INSTANTS)
    begun = now_ns()
    if formulation == "relative":
        runner = Runner(state, scheme)
        record = runner.run(steps * h, h, every=every)
        spent = runner.steps_ns
    else:
        record = run(state, steps * h, h, every=every, strict=False)
        spent = now_ns() - begun
    return Drive(label, h, record.t, of_record(record), steps * h / (spent / 1e9))


# ---- Exudyn ----------------------------------------------------------------------------------------------------------


def smooth_step(law: list[float], t: float) -> float:
    before, after, start, end = law
    x = min(max((t - start) / (end - start), 0.0), 1.0)
    return before + (after - before) * x**3 * (10.0 + x * (6.0 * x - 15.0))


def torque(file: MechanismFile, t: float) -> float:
    """Of the drive, N m: both inputs together."""
    return sum(smooth_step(file.inputs[name]["smooth_step"], t) for name in ("drive", "further"))


# long: a model in the words of another code, part by part
def exudyn_drive(seconds: float | None, finer: float = 1.0) -> Drive:
    exu = other_codes.import_exudyn()
    from exudyn import itemInterface

    items: Any = itemInterface

    file = mechanism_run.load(FILE)[0].file
    h, end = 1e-3 * file.run.step_ms / finer, seconds if seconds is not None else file.run.seconds
    point = {name: np.array(p["at"]) for name, p in file.points.items()}
    mbs = exu.SystemContainer().AddSystem()
    ground = mbs.AddNode(items.NodePointGround(referenceCoordinates=[0, 0, 0]))
    fixed = mbs.AddMarker(items.MarkerNodeCoordinate(nodeNumber=ground, coordinate=0))
    node, body, centre = {}, {}, {}
    for name, b in file.bodies.items():
        ends = [point[n] for n in b["nodes"][:2]]
        length = float(np.linalg.norm(ends[1] - ends[0]))
        # without a centre it is a slender bar
        centre[name] = 0.5 * (ends[0] + ends[1]) if "centre" not in b else np.array(b["centre"])
        inertia = b["mass"] * length**2 / 12 if "inertia" not in b else float(b["inertia"])
        node[name] = mbs.AddNode(items.NodeRigidBody2D(referenceCoordinates=[*centre[name], 0.0]))
        body[name] = mbs.AddObject(
            items.ObjectRigidBody2D(nodeNumber=node[name], physicsMass=b["mass"], physicsInertia=inertia)
        )
        weighed = mbs.AddMarker(items.MarkerBodyMass(bodyNumber=body[name]))
        mbs.AddLoad(items.LoadMassProportional(markerNumber=weighed, loadVector=[0, -9.81, 0]))

    def on(name: str, place: np.ndarray) -> int:
        local = [*(place - centre[name]), 0.0]
        return int(mbs.AddMarker(items.MarkerBodyPosition(bodyNumber=body[name], localPosition=local)))

    for end_of, arm in (("r", "arm_r"), ("f", "arm_f")):
        wheel, hub, pivot = f"wheel_{end_of}", point[f"hub_{end_of}"], point[f"pivot_{end_of}"]
        mbs.AddObject(items.ObjectJointRevolute2D(markerNumbers=[on("chassis", pivot), on(arm, pivot)]))
        mbs.AddObject(items.ObjectJointRevolute2D(markerNumbers=[on(arm, hub), on(wheel, hub)]))
        along, up, turn = (
            mbs.AddMarker(items.MarkerNodeCoordinate(nodeNumber=node[wheel], coordinate=k)) for k in range(3)
        )
        mbs.AddObject(items.CoordinateConstraint(markerNumbers=[fixed, up]))
        radius = -file.joints[f"roll_{end_of}"]["ratio"]
        # factor times the second less the first is zero
        mbs.AddObject(items.CoordinateConstraint(markerNumbers=[along, turn], factorValue1=-radius))
        spring, seat = file.forces[f"spring_{end_of}"], np.array(file.places[f"seat_{end_of}"]["at"])
        mbs.AddObject(
            items.ObjectConnectorSpringDamper(
                markerNumbers=[on(wheel, hub), on("chassis", seat)],
                referenceLength=spring["length"],
                stiffness=spring["stiffness"],
                damping=spring["damping"],
            )
        )
        if end_of == "r":
            drag = file.forces["drag"]["damping"]
            mbs.AddObject(items.CoordinateSpringDamper(markerNumbers=[fixed, along], stiffness=0.0, damping=drag))
    for name, sign in (("wheel_r", -1.0), ("arm_r", 1.0)):
        held = mbs.AddMarker(items.MarkerBodyRigid(bodyNumber=body[name]))

        def pull(_: Any, t: float, __: Any, sign: float = sign) -> list[float]:
            return [0.0, 0.0, sign * torque(file, t)]

        mbs.AddLoad(items.LoadTorqueVector(markerNumber=held, loadVectorUserFunction=pull))

    kinds = exu.OutputVariableType
    sensors = {
        name: mbs.AddSensor(
            items.SensorNode(nodeNumber=node[name.split(".")[0]], storeInternal=True, outputVariableType=kind)
        )
        for name, kind in (
            ("wheel_r.q", kinds.Coordinates), ("wheel_r.v", kinds.Coordinates_t), ("chassis.q", kinds.Coordinates),
        )
    }  # fmt: skip
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.endTime = end
    settings.timeIntegration.numberOfSteps = round(end / h)
    settings.timeIntegration.adaptiveStep = False
    settings.timeIntegration.newton.relativeTolerance = 1e-10
    settings.solution.file.write = False
    settings.solution.sensors.writePeriod = end / INSTANTS
    spent = other_codes.processor_seconds(
        lambda: mbs.SolveDynamic(settings, solverType=exu.DynamicSolverType.GeneralizedAlpha)
    )
    q, v, chassis = (np.asarray(mbs.GetSensorStoredData(sensor)) for sensor in sensors.values())
    lever = 0.5 * (point["pivot_r"] + point["pivot_f"]) - centre["chassis"]
    pitch = chassis[:, 3]
    found = {
        "travel": q[:, 1],
        "speed": v[:, 1],
        "heave": centre["chassis"][1] + chassis[:, 2] + np.sin(pitch) * lever[0] + np.cos(pitch) * lever[1],
        "pitch": pitch,
        "spin": v[:, 3],
    }
    return Drive(EXUDYN, h, q[:, 0], found, end / spent)


# ---- all of them -----------------------------------------------------------------------------------------------------


def measure(seconds: float | None = None, say: Say = lambda what, share: None) -> dict[str, Any]:
    """Curves of every way, and by how much each differs from the first at most."""
    drives = []
    for k, (label, formulation, scheme, finer) in enumerate(WAYS):
        say(label, k / (len(WAYS) + 2))
        drives.append(ours(label, formulation, scheme, seconds, finer))
    here = other_codes.installed()
    if "exudyn" in here:
        for k, finer in enumerate((1.0, 4.0)):
            say(EXUDYN, (len(WAYS) + k) / (len(WAYS) + 2))
            drives.append(exudyn_drive(seconds, finer))
    first = drives[0]
    file = mechanism_run.load(FILE)[0].file
    rows = []
    for drive in drives:
        gaps = {
            key: float(np.abs(np.interp(first.t, drive.t, drive.found[key]) - first.found[key]).max())
            for key, _ in QUANTITIES
        }
        row = {"label": f"{drive.label}, {1e3 * drive.h:g} ms", "h": drive.h}
        rows.append(row | {"differences": gaps, "real_time_factor": drive.real_time_factor})
    return {
        "rows": rows,
        "largest": {key: float(np.abs(first.found[key]).max()) for key, _ in QUANTITIES},
        "curves": [
            {"label": row["label"], "t": d.t.tolist(), **{key: d.found[key].tolist() for key, _ in QUANTITIES}}
            for row, d in zip(rows, drives, strict=True)
        ],
        "torque": [torque(file, float(t)) for t in first.t],
        "other_codes": {k: v for k, v in here.items() if k == "exudyn"},
    }


HEADINGS = ("", *(key for key, _ in QUANTITIES), "× real")


def cells(row: dict[str, Any]) -> list[str]:
    gaps = [f"{row['differences'][key]:.1e}" for key, _ in QUANTITIES]
    return [row["label"], *gaps, f"{row['real_time_factor']:.0f}"]


def lead(result: dict[str, Any]) -> str:
    sizes = ", ".join(f"{key} {value:.3g}" for key, value in result["largest"].items())
    hint = f" Exudyn is not installed, so not compared ({install_extra('compare')})."
    absent = "" if result["other_codes"] else hint
    return f"Largest differences from the first row; largest values there: {sizes}.{absent}"


def _headline(result: dict[str, Any]) -> str:
    own = max(row["differences"]["speed"] for row in result["rows"] if not row["label"].startswith(EXUDYN))
    text = f"Both formulations agree on the speed of the vehicle to {own:.1e} m/s"
    theirs = [row["differences"]["speed"] for row in result["rows"] if row["label"].startswith(EXUDYN)]
    return text + (f", Exudyn with them to {min(theirs):.1e} m/s." if theirs else ".")


def report(result: dict[str, Any]) -> Report:
    sections = [
        Section("Differences", [Table(HEADINGS, [cells(row) for row in result["rows"]]), lead(result)]),
        Section("Over each other", _charts(result), key="curves"),
    ]
    return Report("a vehicle driven by a wheel torque", _headline(result), result, sections)


def _charts(result: dict[str, Any]) -> list[Markup]:
    first = result["curves"][0]
    t = np.array(first["t"])
    charts = [curves("torque of the drive, N m", [Series("both", t, np.array(result["torque"]))])]
    for key, title in QUANTITIES:
        series = [Series(c["label"], np.array(c["t"]), np.array(c[key])) for c in result["curves"]]
        charts.append(curves(title, series))
        apart = [
            Series(c["label"], t, np.abs(np.interp(t, c["t"], c[key]) - np.array(first[key])))
            for c in result["curves"][1:]
        ]
        charts.append(curves(f"{title}: difference from {first['label']}", apart, logarithmic=True))
    return charts


# ---- as a promise ----------------------------------------------------------------------------------------------------


def wheel_torque(
    *,
    seconds: Annotated[float | None, "duration, else the file's"] = None,
    report_in: Annotated[Path | None, "folder for report.html, with the curves, and report.json"] = None,
) -> Iterator[Result]:
    result = measure(seconds, lambda what, share: note(f"{100 * share:.0f} %: {what}"))
    yield reported(report(result), report_in)
    finest = min(row["h"] for row in result["rows"])
    for row in result["rows"][1:]:
        what, apart = f"{row['label']}: speed, largest difference", row["differences"]["speed"]
        judged = row["label"].startswith("relative") or (row["label"].startswith("natural") and row["h"] == finest)
        yield at_most(what, apart, APART, "m/s") if judged else figure(what, apart, "m/s")
