"""Measured beside computed: sets of others, and what tandem makes of them.

Data that may not stand in the repository are found by the environment variable TANDEM_REAL_DATA: a folder of folders
(adams_joints, rav4_can, roads, mf4, tyres, bmw_m8, piano), each with its licence. Limits of joints are the gates of the
open code that ADAMS' results come with (of a revolute-spherical link until it whips round for the first time); where
those results differ by more from ADAMS' own revolute joint, whose motion is the same, that difference is the limit.
"""

import gzip
import os
import shutil
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sync.clock import now_ns
from sync.config.toml import read_toml
from sync.errors import TandemError
from sync.record import measured, open_run
from tandem.records.exchange.importer import Options, import_file, open_measurement
from tandem.records.exchange.tables import BusNames
from verify import ROOT
from verify.measure import NotHere, Printed, Result, Row, at_most, figure
from verify.registry import REAL_DATA

HERE = ROOT / "tests" / "data" / "real"


def row(what: str, value: float | None, unit: str, most: float | None = None, note: str = "") -> Row:
    """A figure, beside its limit if it has one; None is one that there is not."""
    title, unit = f"{what} ({note})" if note else what, "" if unit == "1" else unit
    if value is None:
        return figure(title, "none")
    return figure(title, value, unit) if most is None else at_most(title, value, most, unit)


def _most(apart: np.ndarray) -> float:
    return float(np.abs(apart).max())


def folder(name: str) -> Path | None:
    place = os.environ.get(REAL_DATA)
    found = Path(place) / name if place else None
    return found if found is not None and found.is_dir() else None


def not_here(what: str) -> NoReturn:
    raise NotHere(f"{REAL_DATA} names no folder with {what}")


# ---- joints and a spring of ADAMS ------------------------------------------------------------------------------------

# acceptance of the open code that these results come with: positions, velocities, accelerations, reactions
_GATES = {"Pos": 1e-3, "Vel": 1e-4, "Acc": 2e-2, "Rforce": 1e-2, "Rtorque": 1e-2}
_UNITS = {"Pos": "m", "Vel": "m/s", "Acc": "m/s2", "Rforce": "N", "Rtorque": "N m"}
_ROD_X, _ROD_Y = [0.04, 0.1, 0.1], [0.1, 0.04, 0.1]  # principal inertias of a rod along x, along y, kg m2
# a pendulum that swings as that of the revolute joint does, and which columns of its results are x, y, z here
_SAME_PENDULUM = {"Spherical": [1, 2, 3], "Universal": [2, 1, 3]}
_NO_MASS = 1e-7  # kg
# its link whips round in some 5 ms, with 730 m/s2: small steps, and limits up to the first time, at 2.05 s
_STEP_MS, _UNTIL_S = {"RevSpherical": 0.25}, {"RevSpherical": 2.0}
# of a file for each marker, that of the ground; of the actuator, what it does on the body
_FILES = {
    ("RevSpherical", "Rforce"): "Rforce_Body1", ("RevSpherical", "Rtorque"): "Rtorque_Body1",
    ("LinActuator", "Rforce"): "RforceA", ("LinActuator", "Rtorque"): "RtorqueA",
}  # fmt: skip
_FORMULATIONS = {"natural": {"scheme": "i3al_halved"}, "relative": {}}


def _joint(kind: str, centre: list[float], inertia: list[float], **joint: Any) -> dict[str, Any]:
    """A rod of 1 kg on a joint at the origin, let go."""
    return {
        "points": {"C": {"at": centre}},
        "vectors": {"ex": {"along": [1.0, 0, 0]}, "ey": {"along": [0, 1.0, 0]}, "ez": {"along": [0, 0, 1.0]}},
        "bodies": {"rod": {"nodes": ["C", "ex", "ey", "ez"], "mass": 1.0, "centre": centre, "inertia": inertia}},
        "joints": {"joint": {"kind": kind, "bodies": ["ground", "rod"], "at": [0.0, 0.0, 0.0], **joint}},
    }


def _hung(centre: list[float], inertia: list[float], **parts: Any) -> dict[str, Any]:
    described = _joint("", centre, inertia)
    return {**described, "joints": {}, **parts}


def adams_cases() -> dict[str, dict[str, Any]]:
    """By the name of the results; the models as the .adm files have them."""
    ball = _hung([2.0, 0, 0], _ROD_X)
    ball["points"] |= {"O": {"at": [0.0, 0, 0], "fixed": True}, "B": {"at": [0.0, 0, 0]}}
    ball["bodies"]["rod"]["nodes"] = ["B", "C", "ey", "ez"]
    ball["vectors"].pop("ex")
    ball["joints"] = {"joint": {"kind": "spherical", "points": ["O", "B"]}}
    string = _hung([0.0, 2.0, 0], _ROD_X, joints={"joint": {"kind": "rod", "points": ["O", "C"], "length": 2.0}})
    string["points"]["O"] = {"at": [0.0, 0, 0], "fixed": True}
    # its file says 200 N/m and 10 N s/m, its results are those of 10 and 0.5
    spring = {"kind": "spring", "points": ["hook", "C"], "stiffness": 10.0, "damping": 0.5, "length": 1.0}
    hanging = _hung([0.0, 0.0, 0.0], _ROD_X, forces={"spring": spring})
    hanging["points"]["hook"] = {"at": [0.0, 0.0, 1.0], "fixed": True}
    # its file says 57.3 N m/rad and 2.86 N m s/rad, its results are those of 200 and 10
    rotational = _joint("revolute", [2.0, 0, 0], _ROD_X, axis=[0.0, 1.0, 0.0])
    rotational["joints"]["turn"] = {"kind": "angle", "bodies": ["ground", "rod"], "axis": [0.0, 1.0, 0.0], "value": 0.0}
    rotational["forces"] = {"spring": {"kind": "torsion", "scalar": "turn", "stiffness": 200.0, "damping": 10.0}}
    # a link that turns about z at the origin, with next to no mass, and the rod on its end
    linked = _hung([2.0, 2.0, 0.0], _ROD_Y)
    linked["points"] |= {"O": {"at": [0.0, 0, 0], "fixed": True}, "A": {"at": [0.0, 0, 0]}, "S": {"at": [2.0, 0, 0]}}
    linked["vectors"] = {
        "ex": {"along": [1.0, 0, 0]}, "ez": {"along": [0, 0, 1.0]}, "ly": {"along": [0, 1.0, 0]},
        "lz": {"along": [0, 0, 1.0]},
    }  # fmt: skip
    light = {"mass": _NO_MASS, "centre": [2.0, 0.0, 0.0], "inertia": [_NO_MASS] * 3}
    linked["bodies"]["rod"]["nodes"] = ["S", "C", "ex", "ez"]
    linked["bodies"]["link"] = {"nodes": ["A", "S", "ly", "lz"], **light}
    pin = {"kind": "revolute", "bodies": ["ground", "link"], "at": [0.0, 0, 0], "axis": [0.0, 0, 1.0]}
    linked["joints"] = {"pin": pin}
    moved = _joint("prismatic", [0.0, 0, 0], _ROD_X, axis=[0.0, 0.0, 1.0])
    moved["scalars"] = {"along": {"value": 0.0}}
    moved["joints"] |= {
        "measure": {"kind": "rack", "point": "C", "through": [0.0, 0, 0], "along": [0, 0, 1.0], "scalar": "along"},
        "motor": {"kind": "drive", "scalar": "along", "polynomial": [0.0, 1.0, 0.0, 0.0]},
    }
    return {
        "RotSpring": rotational,
        "RevSpherical": linked,
        "LinActuator": moved,
        "TranSpringCB": hanging,
        "Revolute": _joint("revolute", [2.0, 0, 0], _ROD_X, axis=[0.0, 1.0, 0.0]),
        "Spherical": ball,
        "Universal": _joint("universal", [0.0, 2.0, 0], _ROD_Y, axes=[[1.0, 0, 0], [0, 0, 1.0]]),
        "Prismatic": _joint("prismatic", [2.0, 0, 0], _ROD_X, axis=[0.0, 0.0, 1.0]),
        "Cylindrical": _joint("cylindrical", [2.0, 0, 0], _ROD_X, axis=[0.0, 0.0, 1.0]),
        "Distance": string,
        "TranSpring": hanging,
    }


def at_marker(force: np.ndarray, torque: np.ndarray, of: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The torque of a reaction about the place `at`, given that about `of`."""
    return torque + np.cross(of - at, force)


def _computed(name: str, case: dict[str, Any], formulation: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times, and what ADAMS asks for: of the centre of mass, and on the ground's marker at the origin."""
    from tandem.mechanism import run as work
    from tandem.mechanism.columns import columns
    from tandem.multibody.description.mechanism_file import describe

    file = {"name": name.lower(), "dimension": 3, "gravity": [0.0, 0.0, -9.80665], **case}
    file["run"] = {
        "seconds": 5.0,
        "step_ms": _STEP_MS.get(name, 1.0),
        "formulation": formulation,
        **_FORMULATIONS[formulation],
    }
    described, state = work.prepare(describe(file, name))
    record = work.simulate(described, state, lambda *_: None).record
    found = {label: values for label, _, values in columns(record)}

    def vector(stem: str, suffix: str = "") -> np.ndarray:
        none = np.zeros(len(record.t))
        return np.column_stack([found.get(f"{stem}_{axis}{suffix}", none) for axis in "xyz"])

    place, origin = vector("C"), np.zeros(3)
    result = {"Pos": place, "Vel": vector("C", "_rate"), "Acc": vector("C", "_accel")}
    if name == "RevSpherical":  # the force acts where the link ends, the marker is where it begins
        force = -vector("rod_S_force")
        return record.t, result | {"Rforce": force, "Rtorque": at_marker(force, 0.0 * force, vector("S"), origin)}
    if name == "LinActuator":
        force = np.column_stack([np.zeros((len(record.t), 2)), found["motor_effort"]])
        return record.t, result | {"Rforce": force, "Rtorque": np.zeros_like(force)}
    if name == "RotSpring":
        force, torque = vector("joint_force"), vector("joint_torque")
        torque[:, 1] += found["spring_force"]
        about = at_marker(force, torque, origin, place)  # on the body about its centre
        return record.t, result | {"Rforce": -force, "Rtorque": -torque, "about": about}
    tension = found.get("joint_force", found.get("spring_force"))
    if tension is not None:  # along the rod or spring, which pulls the ground towards the body
        along = place - case["points"]["O" if "O" in case["points"] else "hook"]["at"]
        force = tension[:, None] * along / np.linalg.norm(along, axis=1)[:, None]
        return record.t, result | {"Rforce": force, "Rtorque": np.zeros_like(force)}
    # both are at the origin, where the joint is
    return record.t, result | {"Rforce": -vector("joint_force"), "Rtorque": -vector("joint_torque")}


def adams() -> Iterator[Row]:
    place = folder("adams_joints")
    if place is None:
        not_here("joints and a spring of ADAMS")
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(place / "case01.tar.gz") as archive:
            archive.extractall(scratch, filter="data")

        def theirs(name: str, quantity: str) -> np.ndarray:
            stem = _FILES.get((name, quantity), quantity)
            return np.loadtxt(Path(scratch) / f"{name}_Case01_ADAMS_{stem}.txt", skiprows=3)

        for name, case in adams_cases().items():
            places = {}
            for formulation in _FORMULATIONS:
                try:
                    t, ours = _computed(name, case, formulation)
                except TandemError as error:
                    yield row(f"{name}, {formulation}", None, "", note=str(error))
                    continue
                places[formulation] = ours["Pos"]
                for quantity, gate in _GATES.items():
                    reference = theirs(name, quantity)
                    values = np.column_stack([np.interp(reference[:, 0], t, ours[quantity][:, k]) for k in range(3)])
                    beside = np.abs(values - reference[:, 1:4])
                    if name in _UNTIL_S:
                        yield row(f"{name}, {formulation}: {quantity}, all 5 s", float(beside.max()), _UNITS[quantity])
                        beside = beside[reference[:, 0] < _UNTIL_S[name]]
                    apart = float(beside.max())
                    limit, note = gate, ""
                    if name in _SAME_PENDULUM:
                        other = theirs("Revolute", quantity)[:, _SAME_PENDULUM[name]]
                        spread = float(np.abs(reference[:, 1:4] - other).max())
                        limit = max(gate, 1.05 * spread)
                        note = f"ADAMS' own revolute, the same motion, is {spread:.3g} from it"
                        note += f"; the gate of the other code, {gate:g}, is not met" if apart > gate else ""
                    yield row(f"{name}, {formulation}: {quantity}", apart, _UNITS[quantity], limit, note)
                if "about" in ours:
                    spin = theirs(name, "Aacc")
                    wanted = _ROD_X[1] * spin[:, 2]  # Euler: the inertia about y times ADAMS' angular acceleration
                    apart = _most(np.interp(spin[:, 0], t, ours["about"][:, 1]) - wanted)
                    size = float(np.abs(np.cross(ours["Pos"], ours["Rforce"])).max())
                    note = f"of up to {size:.3g} N m that the force at the joint makes there"
                    yield row(f"{name}, {formulation}: torque about the centre", apart, "N m", _GATES["Rtorque"], note)
            if len(places) == 2:
                early = t < _UNTIL_S.get(name, np.inf)
                apart = float(np.abs(places["natural"] - places["relative"])[early].max())
                yield row(f"{name}: natural beside relative, Pos", apart, "m", 1e-5)


# ---- the bus of a RAV4 -----------------------------------------------------------------------------------------------


def _log(place: Path, scratch: Path) -> Path:
    packed = next(iter(place.glob("*.log.gz")), None)
    if packed is None:
        return next(place.glob("*.log"))
    log = scratch / "rav4.log"
    with gzip.open(packed) as source, open(log, "wb") as target:
        shutil.copyfileobj(source, target)
    return log


def rav4() -> Iterator[Row]:
    place = folder("rav4_can") or HERE / "rav4_can"
    extent = "60 s" if place != HERE / "rav4_can" else "the 20 s of tests/data/real"
    dbc = place / "toyota_2017_opendbc.dbc"
    with tempfile.TemporaryDirectory() as scratch:
        log = _log(place, Path(scratch))
        then = now_ns()
        sheets = {s.name.removesuffix("@can0"): s for s in open_measurement(log, lambda: BusNames(dbc)).sheets}
        steering, wheels = sheets["STEER_ANGLE_SENSOR"], sheets["WHEEL_SPEEDS"]
        both = steering.load(["STEER_ANGLE", "STEER_FRACTION"])
        four = wheels.load([f"WHEEL_SPEED_{wheel}" for wheel in ("FR", "FL", "RR", "RL")])
        read_s = (now_ns() - then) * 1e-9
        theirs = {
            name: np.loadtxt(place / f"decoded_{name}.csv", delimiter=",", skiprows=1) for name in ("steering", "speed")
        }
        angle = both["STEER_ANGLE"] + both["STEER_FRACTION"] - theirs["steering"][:, 1]
        speed = np.mean(list(four.values()), axis=0) / 3.6 - theirs["speed"][:, 1]
        assert steering.seconds is not None
        instants = steering.seconds("STEER_ANGLE") - theirs["steering"][:, 0]
        then = now_ns()
        quantities = ["yaw_rate=KINEMATICS.YAW_RATE", "vx=SPEED.SPEED:km/h", "front_right=WHEEL_SPEED_FR"]
        config, overrides = HERE / "rav4_can" / "rav4.toml", [f"source.dbc={dbc}"]
        options = Options(log, config, True, [], quantities, overrides=overrides, runs=Path(scratch))
        figures = import_file(options)
        import_s = (now_ns() - then) * 1e-9
        brought = measured(open_run(Path(figures["run"])))
    yield from (
        row(
            f"steering angle, {len(angle)} values of {extent}: largest difference",
            float(np.abs(angle).max()),
            "deg",
            0.0,
        ),
        row(f"speed, {len(speed)} values: largest difference", _most(speed), "m/s", 1e-12),
        row(
            "instants: largest difference",
            float(np.abs(instants).max()),
            "s",
            1e-6,
            "candump writes whole microseconds",
        ),
        row("blocks of the import", float(figures["rows"]["/daq"]), "1"),
        row("readings of the measured yaw rate, at their own instants", float(len(brought["yaw_rate"].t_ns)), "1"),
        row("frames to columns", read_s, "s"),
        row("`tandem import`, the whole command but its start", import_s, "s"),
    )


# ---- its GNSS receiver beside the virtual one ------------------------------------------------------------------------

_EARTH_M = 6_371_000.0
_WINDOW_S = 20.0
_STREET = ROOT / "configs" / "observers" / "buggy_street.toml"


def gnss() -> Iterator[Row]:
    place = folder("rav4_can")
    if place is None:
        not_here("the RAV4's GNSS path")
    fixes = np.loadtxt(place / "gnss_ublox.csv", delimiter=",", skiprows=1)
    pose = np.loadtxt(place / "global_pose_vel_ecef.csv", delimiter=",", skiprows=1)
    t, latitude, longitude = fixes[:, 0], np.radians(fixes[:, 1]), np.radians(fixes[:, 2])
    north = _EARTH_M * (latitude - latitude[0])
    east = _EARTH_M * np.cos(latitude[0]) * (longitude - longitude[0])
    # velocities that the owner computed afterwards from everything, rotated into east and north
    (sin_a, sin_o), (cos_a, cos_o) = (f(np.array([latitude[0], longitude[0]])) for f in (np.sin, np.cos))
    up = np.array([cos_a * cos_o, cos_a * sin_o, sin_a])
    to_east = np.array([-sin_o, cos_o, 0.0])
    to_north = np.cross(up, to_east)
    rates = np.column_stack([pose[:, 1:] @ to_east, pose[:, 1:] @ to_north])
    within = (t >= pose[0, 0]) & (t <= pose[-1, 0])
    speed = np.interp(t[within], pose[:, 0], np.hypot(*rates.T))
    steps = np.diff(pose[:, 0])[:, None] * 0.5 * (rates[1:] + rates[:-1])
    path = np.vstack([np.zeros(2), np.cumsum(steps, axis=0)])
    left = np.column_stack(
        [values[within] - np.interp(t[within], pose[:, 0], path[:, k]) for k, values in enumerate((east, north))]
    )
    at = t[within]
    drift, noise = [], []
    for begin in np.arange(at[0], at[-1] - _WINDOW_S, _WINDOW_S):
        rows = (at >= begin) & (at < begin + _WINDOW_S)
        offset = left[rows] - left[rows].mean(axis=0)
        drift.append(np.hypot(*(left[rows][-1] - left[rows][0])))
        noise.append(np.sqrt(np.mean(np.diff(offset, axis=0) ** 2) / 2.0))
    off = fixes[within, 3] - speed
    virtual = tomllib.loads(_STREET.read_text())["sensors"]["gnss"]
    yield from (
        row("fixes beside the path of the owner's velocities", float(np.count_nonzero(within)), "1"),
        row("their speed: rms of the difference", float(np.sqrt(np.mean(off**2))), "m/s"),
        row("their speed: mean difference", float(off.mean()), "m/s"),
        row(f"wander within {_WINDOW_S:g} s, mean", float(np.mean(drift)), "m"),
        row("from fix to fix: noise, an axis", float(np.mean(noise)), "m"),
        row("the virtual receiver in a street: noise of a position, an axis", virtual["position_noise"], "m"),
        row("the virtual receiver in a street: noise of a velocity, an axis", virtual["velocity_noise"], "m/s"),
    )


# ---- roads, loggers, tyres -------------------------------------------------------------------------------------------


def roads() -> Iterator[Row]:
    from tandem.multibody.ground.crg import parse_crg

    place = folder("roads")
    if place is None:
        not_here("measured roads")
    for name in ("belgian_block", "Horstwalde", "detrended_rms_course_1in"):
        data = (place / f"{name}.crg").read_bytes()
        crg = parse_crg(data, name, fill_sides=True)
        yield row(f"{name}: heights, {len(crg.heights)} by {len(crg.v)}: rms", float(crg.heights.std()), "m")
        if name.startswith("detrended"):
            # the file says 0.96944 in over the part that undulates, 100 m to 404.8 m
            part = slice(round(100 / crg.increment), round(404.8 / crg.increment) + 1)
            apart = abs(float(np.sqrt(np.mean(crg.heights[part] ** 2))) / 0.0254 - 0.96944)
            note = "it does not say by which rule"
            yield row("its rms beside what the file says of itself", apart, "in", note=note)
            twice = data.replace(
                b"$KD_DEFINITION", b"$ROAD_CRG_MODS\nSCALE_Z_GRID = 2\nREFPOINT_U = 100\n$KD_DEFINITION", 1
            )
            moved, ignored = parse_crg(twice, name), parse_crg(twice, name, ignore_modifiers=True)
            at = round(100 / crg.increment)
            wanted = 2.0 * (crg.heights - np.interp(0.0, crg.v, crg.heights[at]))
            yield row(
                "modifiers applied: from the heights by hand",
                float(np.abs(moved.heights - wanted).max()),
                "m",
                1e-12,
            )
            yield row(
                "modifiers left out: from the heights", float(np.abs(ignored.heights - crg.heights).max()), "m", 0.0
            )
    try:
        parse_crg((place / "belgian_block.CORRUPT_5bytes_short.crg").read_bytes(), "damaged", fill_sides=True)
        yield row("a file 5 bytes short was read", 1.0, "1", 0.0)
    except TandemError as error:
        yield row("a file 5 bytes short was read", 0.0, "1", 0.0, str(error))


def mf4() -> Iterator[Row]:
    place = folder("mf4")
    if place is None:
        not_here("logger files")
    names = BusNames(place / "canmod-gps.dbc")
    for file in sorted(place.glob("*.MF4")):
        then = now_ns()
        try:
            measurement = open_measurement(file, lambda: names)
        except TandemError as error:
            yield row(file.name, None, "", note=str(error).replace(str(place), ""))
            continue
        values = {s.name: s.load(list(s.columns)) for s in measurement.sheets}
        cost = (now_ns() - then) * 1e-9
        measurement.close()
        count = sum(len(column) for sheet in values.values() for column in sheet.values())
        yield row(f"{file.name}: values of {len(values)} messages", float(count), "1")
        yield row(f"{file.name}: read and decoded", cost, "s")
        imu = values["gnss_imu"]
        size = np.sqrt(sum(imu[f"Acceleration{axis}"] ** 2 for axis in "XYZ"))
        yield row("its accelerometer's mean, beside 9.81", float(abs(size.mean() - 9.81)), "m/s2", 0.5)


def tyres() -> Iterator[Row]:
    place = folder("tyres")
    if place is None:
        not_here("rows of a tyre rig")
    then = now_ns()
    sheet = open_measurement(place / "cornering.mat").sheets[0]
    found = sheet.load(["SA", "FY", "FZ", "ET"])
    yield from (
        row("rows of the rig, with units", float(len(found["SA"])), "1"),
        row("read", (now_ns() - then) * 1e-9, "s"),
        row("channels whose unit the file lists", float(sum(bool(u) for u in sheet.columns.values())), "1"),
    )


# ---- a launch and a stop of an all-wheel drive car -------------------------------------------------------------------

_STUDY = ROOT / "configs" / "studies" / "measured_launch.toml"
_OF_A_PART = {"torque_factor": (0.5, 1.5), "response_s": (0.0, 1.0)}  # the launch alone knows nothing of brakes
_LAUNCH = 0.4  # m/s rms, of speed
_BRAKES, _STANDS = 6.8, 9.5  # s; coasting to the brake pedal, and at rest


def bmw() -> Iterator[Result]:
    from tandem.ensembles.agreement import channels
    from tandem.ensembles.identify import identify

    place = folder("bmw_m8")
    if place is None:
        not_here("the launch and the stop of a BMW")
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "launch.csv"
        names, *lines = gzip.decompress((place / "braking_n9001.csv.gz").read_bytes()).decode().splitlines()
        rises: list[str] = []  # a few samples have the stamp of the one before
        for line in lines:
            if not rises or float(line.split(",")[0]) > float(rises[-1].split(",")[0]):
                rises.append(line)
        file.write_text("\n".join([names.replace("time", "t", 1), *rises]) + "\n")
        study = {**read_toml(_STUDY), "records": [str(file)]}
        then = now_ns()
        found = identify(study)
        cost = (now_ns() - then) * 1e-9
        alone = {name: {"low": low, "high": high} for name, (low, high) in _OF_A_PART.items()}
        parts = {"launch": [0.0, _BRAKES], "stop": [_BRAKES, _STANDS]}
        halves = {}
        for name, fitted in parts.items():
            (other,) = parts.keys() - {name}
            windows = {"fitted": [fitted], "unused": [parts[other]]}
            own = {"parameters": alone, "windows": windows, "start": {"vx": "Velocity_X"}}
            halves[name, other] = identify({**study, **own})
    before, after = (channels(found.problem, each, True)["vx"].error for each in (found.before, found.after))
    yield row("speed in launch and stop, rms, by published figures alone", before, "m/s")
    yield row("with two parameters fitted to all of it, and judged by the same", after, "m/s", _LAUNCH)
    (window, *_), off = found.problem.windows, found.after[0]["vx"] - found.problem.measured[0]["vx"]
    t = window.begin + 5e-3 * np.arange(1, len(off) + 1)
    for name, (begin, end) in parts.items():
        there = off[(t >= begin) & (t < end)]
        yield row(f"… in the {name}", float(np.sqrt(np.mean(there**2))), "m/s")
    for (name, other), half in halves.items():
        seen, unseen = (channels(half.problem, half.after, each)["vx"].error for each in (True, False))
        yield row(f"fitted to the {name} alone: in it", seen, "m/s", _LAUNCH if name == "launch" else None)
        yield row(f"fitted to the {name} alone: in the {other}, which it did not see", unseen, "m/s")
    for name, value in zip(found.problem.names, found.values, strict=True):
        yield row(f"fitted {name}", float(value), "1", note="at its bound" if name in found.at_bounds else "")
    yield row("fitted in", cost, "s")
    yield Printed(
        "Nothing that is fitted to the launch brakes, so that a stop it did not see is off. The log's brake pedal is"
        "\n0 or 1: how far it is pressed is not known, and pedal_bar stands for that too."
    )
