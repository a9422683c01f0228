"""The report of a vehicle: tables in mm and degrees, and curves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tandem.machines.car.buggy.analysis.car import GRAVITY
from tandem.machines.car.studies.vehicle.parameters import Loaded
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.scatter import side_by_side
from tandem.reports.html.svg import HALF
from tandem.reports.html.words import Raw
from tandem.reports.report import Report, Section, Table, number

NO_BUSHINGS = (
    "There are no bushings: every joint is ideal, so forces change no toe and no camber. What gives way are springs and"
    " tyres; their rates in series are those of the body against the road."
)
_AXLES = {"front": "Front axle (double wishbone)", "rear": "Rear axle (MacPherson strut)"}
_WITH_TABLES = ("standing", "front", "rear", "steering")  # printed with --tables: together more than a screen
_WHEELS = ("front left", "front right", "rear left", "rear right")


@dataclass(frozen=True)
class Column:
    heading: str
    key: str
    scale: float
    form: str


_DEG, _MM, _PER_MM = 180.0 / math.pi, 1e3, 1e-3
_TRAVEL = (
    Column("travel\nmm", "travel", _MM, "+.0f"),
    Column("camber\ndeg", "camber", _DEG, "+.3f"),
    Column("toe-in\ndeg", "toe_in", _DEG, "+.4f"),
    Column("roll centre\nmm", "roll_centre", _MM, ".1f"),
    Column("motion\nratio", "motion_ratio", -1.0, ".4f"),
    Column("wheel rate\nN/mm", "wheel_rate", _PER_MM, ".2f"),
    Column("spring\nmm", "spring_length", _MM, ".2f"),
    Column("spring\nN", "spring_force", 1.0, ".0f"),
    Column("scrub\nmm", "scrub", _MM, ".2f"),
    Column("trail\nmm", "trail", _MM, ".2f"),
    Column("caster\ndeg", "caster", _DEG, ".2f"),
    Column("half track\nmm", "half_track_change", _MM, "+.2f"),
    Column("differs\nm", "difference", 1.0, ".0e"),
    Column("differs\ndeg", "difference_deg", 1.0, ".0e"),
)
_STEER = (
    Column("rack\nmm", "rack", _MM, "+.1f"),
    Column("hand wheel\ndeg", "hand_wheel", _DEG, ".0f"),
    Column("inner\ndeg", "left", _DEG, ".3f"),
    Column("outer\ndeg", "right", _DEG, ".3f"),
    Column("mean\ndeg", "mean", _DEG, ".3f"),
    Column("Ackermann\n%", "ackermann", 100.0, ".1f"),
    Column("Ackermann\nerror, deg", "ackermann_error", _DEG, "+.3f"),
    Column("steering\nratio", "ratio", 1.0, ".2f"),
    Column("camber inner\ndeg", "camber_left", _DEG, "+.2f"),
    Column("camber outer\ndeg", "camber_right", _DEG, "+.2f"),
    Column("turn radius\nm", "turn_radius", 1.0, ".2f"),
    Column("differs\nm", "difference", 1.0, ".0e"),
    Column("differs\ndeg", "difference_deg", 1.0, ".0e"),
)


def _cells(columns: Sequence[Column], row: dict[str, Any]) -> list[str]:
    return [number(None if row[c.key] is None else row[c.key] * c.scale, c.form) for c in columns]


def _headline(result: dict[str, Any]) -> str:
    seen = result["comparison"]
    verdict = "agree" if seen["agrees"] else "DO NOT AGREE"
    changed = "".join(f", {name} = {value:g}" for name, value in result["changed"].items())
    return (
        f"{Path(result['vehicle']).stem}{changed}: mechanism and closed form {verdict}: largest difference"
        f" {seen['largest']:.1e} m and"
        f" {seen['largest_deg']:.1e} deg in {seen['positions_compared']} positions, wheel travel"
        f" {1e3 * seen['travel'][0]:+.0f} to {1e3 * seen['travel'][1]:+.0f} mm, rack {1e3 * seen['rack'][0]:+.0f} to"
        f" {1e3 * seen['rack'][1]:+.0f} mm (allowed {seen['allowed']:.0e} m, {seen['allowed_deg']:.0e} deg)."
    )


def report(result: dict[str, Any], whole: bool = True) -> Report:
    """`whole`: at the terminal with what is more than a screen together."""
    found = [Section("Hardpoints", result["unusual"], key="unusual")] if result["unusual"] else []
    if result["follows"]:
        found.append(Section("What follows from [figures]", result["follows"], key="follows"))
    found += [_static(result["static"]), _wheels(result["static"]), _compliance(result), _modes(result["compliance"])]
    found += [_axle(result, axle) for axle in _AXLES] + [_steering(result)]
    sections = [replace(each, on="page") if each.key in _WITH_TABLES and not whole else each for each in found]
    notes = [] if whole else ["Standing, over wheel travel and over rack: --tables, or --out PAGE.html for curves."]
    title = f"tandem vehicle report: {result['vehicle']}"
    code = int(not result["comparison"]["agrees"])
    return Report(title, _headline(result), result, sections, notes, code=code)


def report_new(loaded: Loaded, origin: Mapping[str, str]) -> Report:
    """Of a car that was just written from figures."""
    estimated = [name for name, why in origin.items() if why != "given"]
    follows, unusual = list(loaded.built.follows), list(loaded.built.unusual)
    headline = f"{loaded.path}: written, built and sound; {len(estimated)} of {len(origin)} figures are estimates."
    sections = [Section("What follows from [figures]", follows, key="follows")]
    sections += [Section("Hardpoints", unusual, key="unusual")] if unusual else []
    notes = [f"Estimates: {', '.join(estimated)}"] if estimated else []
    notes.append(f"tandem vehicle report {loaded.path} has the whole car, tandem iso circle {loaded.path} drives it.")
    data = {"vehicle": loaded.path, "estimates": estimated, "follows": follows, "unusual": unusual}
    return Report(f"tandem vehicle new: {loaded.path}", headline, data, sections, notes)


def _axle(result: dict[str, Any], axle: str) -> Section:
    lead = (
        "Both wheels together, straight ahead; travel is the rise of the wheel centre from the drawing, stops at the"
        " ends. 'Differs' is the largest difference of the mechanism from the closed form, over all racks."
    )
    table = Table([c.heading for c in _TRAVEL], [_cells(_TRAVEL, row) for row in result[axle]])
    return Section(f"{_AXLES[axle]} over wheel travel", [table, _travel_curves(result, axle)], lead, key=axle)


def _steering(result: dict[str, Any]) -> Section:
    lead = (
        "To the left, at the drawn height; to the right it is the mirror image. Ackermann 100 % is rolling without"
        " slip, 0 % parallel; its error is what the inner wheel turns too far. 'Differs' over all wheel travels."
    )
    left = sorted((r for r in result["steering"] if r["hand_wheel"] >= -1e-9), key=lambda r: float(r["hand_wheel"]))
    table = Table([c.heading for c in _STEER], [_cells(_STEER, row) for row in left])
    return Section("Steering over rack travel", [table, _steer_curves(result)], lead, key="steering")


def _static(s: dict[str, Any]) -> Section:
    x, y, z = s["cg_as_drawn"]
    rows = [
        ["mass, kg", f"{s['mass']:.1f} (sprung {s['sprung_mass']:.1f}, unsprung {_pair(s['unsprung_mass'], '.1f')})"],
        ["wheelbase; track, mm", f"{1e3 * s['wheelbase']:.0f}; {_pair(s['track'], '.0f', 1e3)}"],
        ["centre of gravity as drawn, mm", f"x {1e3 * x:.1f}, y {1e3 * y:.1f}, z {1e3 * z:.1f}"],
        ["behind the front axle, mm", f"{1e3 * s['cg_behind_front_axle']:.1f}"],
        ["load on the front axle, %", f"{100 * s['front_share']:.2f}"],
        ["yaw inertia, kg m2", f"{s['yaw_inertia']:.0f}"],
    ]
    lead = "Pairs are front and rear."
    return Section("Masses and centre of gravity", [Table(("", ""), rows)], lead, key="static")


def _wheels(s: dict[str, Any]) -> Section:
    a, b = s["computed"], s["multibody"]
    rows = []
    for what, key, scale, form in (
        ("load, N", "load", 1.0, ".2f"),
        ("wheel travel, mm", "travel", 1e3, "+.2f"),
        ("spring length, mm", "spring_length", 1e3, ".2f"),
        ("spring force, N", "spring_force", 1.0, ".1f"),
        ("height of wheel centre, mm", "loaded_radius", 1e3, ".2f"),
    ):
        for k, wheel in enumerate(_WHEELS):
            rows.append(_beside(f"{what}: {wheel}", a[key][k], b[key][k], scale, form))
    for k, axle in enumerate(("front", "rear")):
        what = f"ride height at the lower arm's hinge, mm: {axle} (drawn {1e3 * s['ride_height_as_drawn'][k]:.1f})"
        rows.append(_beside(what, a["ride_height"][k], b["ride_height"][k], 1e3, ".2f"))
    rows.append(_beside("height of the centre of gravity, mm", a["cg_height"], b["cg_height"], 1e3, ".2f"))
    rows.append(_beside("pitch, nose down, deg", a["pitch"], b["pitch"], _DEG, "+.4f"))
    rows.append(_beside("roll, to the right, deg", a["roll"], b["roll"], _DEG, "+.4f"))
    lead = (
        "At rest on level ground: by statics with exact geometry, and the multibody car as it is before its first step."
        " Statics knows neither anti-roll bars nor side forces of the tyres; parts between chassis and wheel are lumps."
    )
    return Section("Standing", [Table(("", "computed", "multibody", "difference"), rows)], lead, key="standing")


def _beside(what: str, a: float, b: float, scale: float, form: str) -> list[str]:
    return [what, number(a * scale, form), number(b * scale, form), f"{(b - a) * scale:+.0e}"]


def _pair(values: Sequence[float], form: str, scale: float = 1.0) -> str:
    return " and ".join(f"{scale * value:{form}}" for value in values)


def _compliance(result: dict[str, Any]) -> Section:
    c, g = result["compliance"], result["geometry"]
    both: list[tuple[str, Sequence[float], float, str]] = [
        ("wheel rate (spring), N/mm", c["wheel_rate"], 1e-3, ".2f"),
        ("tyre rate, N/mm", c["tyre_rate"], 1e-3, ".1f"),
        ("both in series, N/mm", c["ride_rate"], 1e-3, ".2f"),
        ("damping at the wheel, N s/m", c["wheel_damping"], 1.0, ".0f"),
        ("roll stiffness of springs and bar, N m/deg", c["roll_stiffness"], 1.0 / _DEG, ".1f"),
        ("of that the anti-roll bar, N m/deg", c["anti_roll_stiffness"], 1.0 / _DEG, ".1f"),
        ("roll centre, mm", g["roll_centre"], 1e3, ".1f"),
        ("camber gain, deg per 100 mm", g["camber_gain"], 0.1 * _DEG, "+.3f"),
        ("toe-in gain, deg per 100 mm", g["toe_in_gain"], 0.1 * _DEG, "+.4f"),
        ("roll steer, deg/deg", g["roll_steer"], 1.0, "+.4f"),
        ("cornering stiffness of a tyre, N/deg", c["cornering_stiffness"], 1.0 / _DEG, ".0f"),
        ("relaxation length, mm", c["relaxation_length"], 1e3, ".0f"),
    ]
    rows = [[what, *(f"{v * scale:{form}}" for v in values)] for what, values, scale, form in both]
    rows += [
        # in a turn the spinning wheels and the overturning moments of the tyres lean it further: `tandem iso circle`
        ["roll gradient by springs and tyres alone, deg/g", f"{c['roll_gradient'] * GRAVITY * _DEG:.3f}", ""],
        ["centre of gravity over the roll axis, mm", f"{1e3 * g['roll_axis_arm']:.1f}", ""],
        ["steering ratio, straight ahead", f"{g['steering_ratio']:.2f}", ""],
        [
            "anti-dive, front; anti-lift, rear (braking), %",
            *(f"{100 * g[k]:.1f}" for k in ("anti_dive_front", "anti_lift_rear")),
        ],
        ["anti-squat, rear (driving), %", "–", f"{100 * g['anti_squat_rear']:.1f}"],
    ]
    lead = "As the car stands; rates are of one wheel.\n" + NO_BUSHINGS
    return Section("Compliance and gains", [Table(("", "front", "rear"), rows)], lead, key="compliance")


def _modes(c: dict[str, Any]) -> Section:
    rows = [
        [m["name"].replace("_", " "), f"{m['undamped_hz']:.3f}", f"{m['damped_hz']:.3f}", f"{100 * m['damping']:.1f}"]
        for m in c["modes"]
    ]
    lead = "Of the linear car of seven freedoms on its tyres, held sideways by the road."
    headings = ("", "undamped, Hz", "damped, Hz", "damping, % of critical")
    return Section("Natural frequencies", [Table(headings, rows)], lead, key="modes")


def _column(rows: Sequence[dict[str, Any]], key: str, scale: float) -> np.ndarray:
    return np.array([math.nan if row[key] is None else scale * row[key] for row in rows])


def _travel_curves(result: dict[str, Any], axle: str) -> Raw:
    rows = result[f"{axle}_fine"]
    x = _column(rows, "travel", _MM)

    def chart(title: str, *of: tuple[str, str, float]) -> Raw:
        return curves(title, [Series(label, x, _column(rows, key, s)) for label, key, s in of], "mm", width=HALF)

    return side_by_side(
        [
            chart("camber, deg", ("camber", "camber", _DEG)),
            chart("toe-in, deg", ("toe-in", "toe_in", _DEG)),
            chart("roll centre above the road, mm", ("roll centre", "roll_centre", _MM)),
            chart("motion ratio, spring per wheel", ("motion ratio", "motion_ratio", -1.0)),
            chart("wheel rate, N/mm", ("wheel rate", "wheel_rate", _PER_MM)),
            chart("spring length, mm", ("spring length", "spring_length", _MM)),
            chart("scrub radius and caster trail, mm", ("scrub", "scrub", _MM), ("trail", "trail", _MM)),
            chart(
                "movement of the contact point, mm",
                ("half track, outwards", "half_track_change", _MM),
                ("wheel centre, forwards", "forward", _MM),
            ),
        ]
    )


def _steer_curves(result: dict[str, Any]) -> Raw:
    rows = sorted(result["steering"], key=lambda r: float(r["hand_wheel"]))
    x = _column(rows, "hand_wheel", _DEG)

    def chart(title: str, *of: tuple[str, str, float]) -> Raw:
        return curves(title, [Series(label, x, _column(rows, key, s)) for label, key, s in of], "deg", width=HALF)

    return side_by_side(
        [
            chart("steer angles over the hand wheel, deg", ("left", "left", _DEG), ("right", "right", _DEG)),
            chart("Ackermann error of the inner wheel, deg", ("error", "ackermann_error", _DEG)),
            chart("steering ratio", ("hand wheel per mean road wheel", "ratio", 1.0)),
            chart("camber, deg", ("left", "camber_left", _DEG), ("right", "camber_right", _DEG)),
        ]
    )
