"""Mechanism files as able as the builder: places, inputs, equilibrium, modes, contact, shapes, forces in the record."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sync.errors import ConfigError
from sync.record import open_run
from tandem.commands.cli import app
from tandem.mechanism import run as mechanism_run
from tandem.mechanism.again import replay_mechanism
from tandem.mechanism.columns import columns, energies
from tandem.multibody.description.mechanism_file import Described, _Builder, describe
from tandem.multibody.description.sections import MechanismFile
from tandem.multibody.natural.api import Record, State, body_motion, energy, run, shapes

G = 9.81
GROUND = {"at": [0.0, 0.0], "fixed": True}


def prepared(data: dict[str, Any], **chosen: Any) -> tuple[Described, State]:
    return mechanism_run.prepare(describe({"name": "m", **data}, "m.toml"), **chosen)


def simulated(data: dict[str, Any]) -> mechanism_run.Simulated:
    return mechanism_run.simulate(*prepared(data), lambda *_: None)


def recorded(record: Record) -> dict[str, np.ndarray]:
    return {name: values for name, _, values in columns(record)}


def bar(**tables: Any) -> dict[str, Any]:
    """A bar of 2 kg and 1 m on a hinge in the plane, drawn level, without gravity."""
    data = {
        "gravity": [0.0, 0.0], "run": {"seconds": 0.2},
        "points": {"A": GROUND, "B": {"at": [1.0, 0.0]}},
        "bodies": {"bar": {"nodes": ["A", "B"], "mass": 2.0}},
        "joints": {"theta": {"kind": "angle", "bodies": ["ground", "bar"]}},
    }  # fmt: skip
    return {key: {**data.get(key, {}), **tables[key]} if isinstance(tables.get(key), dict) else tables.get(key, value)
            for key, value in {**data, **{k: {} for k in tables if k not in data}}.items()}  # fmt: skip


# ---- places, inputs --------------------------------------------------------------------------------------------------


def test_a_place_on_a_body_stands_where_a_point_may() -> None:
    """A spring on the middle of a bar, a ball in its end and a bar hung on it: against moments about the hinge."""
    data = bar(
        gravity=[0.0, -G],
        places={"mid": {"on": "bar", "at": [0.5, 0.0]}, "hook": {"on": "ground", "at": [0.5, 2.0]}},
        forces={"s": {"kind": "spring", "points": ["hook", "mid"], "stiffness": 200.0, "damping": 1.0, "length": 1.5}},
        particles={"ball": {"point": "mid", "mass": 1.0}},
        show={"points": ["mid"]},
    )
    state = prepared(data)[1]
    spring = 200.0 * 0.5  # 0.5 m longer than free
    inertia = 2.0 / 3.0 + 1.0 * 0.25
    assert state.second(state.system.mechanism.nodes["theta"])[0] == pytest.approx(
        (spring - 3.0 * G) * 0.5 / inertia, rel=1e-9
    )
    np.testing.assert_allclose(state["mid"], [0.5, 0.0], atol=1e-12)


def test_a_body_may_stand_on_places_of_another_whatever_their_order() -> None:
    """A bar hung on the middle of another one needs no joint: the double pendulum of a joint, to rounding."""
    points = {"A": GROUND, "B": {"at": [1.0, 0.0]}, "D": {"at": [0.5, -1.0]}}
    rods = {"low": {"nodes": ["mid", "D"], "mass": 1.0}, "bar": {"nodes": ["A", "B"], "mass": 2.0}}
    shared = {"run": {"seconds": 0.3}, "points": points, "places": {"mid": {"on": "bar", "at": [0.5, 0.0]}}}
    hung = simulated({**shared, "bodies": rods}).record.state(-1)
    tied = {**shared, "points": {**points, "C": {"at": [0.5, 0.0]}}}
    tied["bodies"] = {**rods, "low": {"nodes": ["C", "D"], "mass": 1.0}}
    tied["joints"] = {"pin": {"kind": "spherical", "points": ["C", "mid"]}}
    other = simulated(tied).record.state(-1)
    np.testing.assert_allclose(hung["D"], other["D"], atol=1e-8)
    assert abs(hung["D"][1] + 1.0) > 0.1


def test_a_force_follows_its_input() -> None:
    """m x'' = F sin(w t) from rest, exactly; and a drive that follows an input."""
    data = {
        "gravity": [0.0, 0.0], "run": {"seconds": 1.0, "step_ms": 1.0},
        "points": {"P": {"at": [0.0, 0.0]}}, "particles": {"ball": {"point": "P", "mass": 2.0}},
        "scalars": {"x": {"inertia": 1.0}},
        "inputs": {"load": {"amplitude": 1.0, "rate": 7.0}, "way": {"polynomial": [0.0, 2.0, 1.0]},
                   "two": {"value": 2.0}},
        "joints": {"motor": {"kind": "drive", "scalar": "x", "input": "way"}},
        "forces": {
            "push": {"kind": "force", "point": "P", "vector": [30.0, 0.0], "scale": "load"},
            "lift": {"kind": "force", "point": "P", "vector": [0.0, 1.0], "scale": "two"},
            "drag": {"kind": "force", "point": "x", "vector": -5.0},
        },
    }  # fmt: skip
    done = simulated(data)
    found = recorded(done.record)
    t = found["time"]
    np.testing.assert_allclose(found["P_x"], 30.0 / (2.0 * 7.0) * (t - np.sin(7.0 * t) / 7.0), atol=1e-5)
    np.testing.assert_allclose(found["P_y"], 0.5 * t**2, atol=1e-9)
    np.testing.assert_allclose(found["push_force_x"], 30.0 * np.sin(7.0 * t), atol=1e-9)
    np.testing.assert_allclose(found["x"], 2.0 * t + t**2, atol=1e-9)
    # 1 kg at 2 m/s2 against a drag of 5 N
    np.testing.assert_allclose(found["motor_effort"], 7.0, atol=1e-6)


# ---- equilibrium and modes -------------------------------------------------------------------------------------------


def test_a_run_may_start_from_its_equilibrium() -> None:
    data = bar(
        gravity=[0.0, -G],
        forces={"k": {"kind": "torsion", "scalar": "theta", "stiffness": 50.0}},
        start={"equilibrium": True},
    )
    done = simulated(data)
    theta = recorded(done.record)["theta"]
    # 50 theta = -m g L / 2 cos(theta), by Newton's method on that equation alone
    x = 0.0
    for _ in range(50):
        x -= (50.0 * x + G * math.cos(x)) / (50.0 - G * math.sin(x))
    assert theta[0] == pytest.approx(x, abs=1e-8) and np.ptp(theta) < 1e-8
    with pytest.raises(ConfigError, match="equilibrium"):
        prepared({**data, "start": {"equilibrium": True, "position": {"theta": 0.1}}})
    free = {"points": {"P": {"at": [0.0, 0.0]}}, "particles": {"b": {"point": "P", "mass": 1.0}}}
    with pytest.raises(ConfigError, match="no equilibrium found"):
        prepared({**free, "start": {"equilibrium": True}})


def test_a_run_may_start_elsewhere_than_drawn() -> None:
    state = prepared(bar(start={"position": {"theta": 0.7}, "velocity": {"theta": 2.0}}))[1]
    np.testing.assert_allclose(state["B"], [math.cos(0.7), math.sin(0.7)], atol=1e-9)
    assert state.qd[state.system.column("theta")] == pytest.approx(2.0, rel=1e-9)


def test_modes_are_printed_and_recorded(tmp_path: Path) -> None:
    """A bar on a hinge with a damped spring: frequency, damping ratio and shape of the textbook."""
    file = tmp_path / "bar.toml"
    lines = ['name = "bar"', "gravity = [0.0, 0.0]", "[run]", "seconds = 0.01", "[points]"]
    lines += ["A = { at = [0.0, 0.0], fixed = true }", "B = { at = [1.0, 0.0] }"]
    lines += ["[bodies]", 'bar = { nodes = ["A", "B"], mass = 2.0 }']
    lines += ["[joints]", 'theta = { kind = "angle", bodies = ["ground", "bar"] }']
    lines += ["[forces]", 'k = { kind = "torsion", scalar = "theta", stiffness = 30.0, damping = 0.4 }']
    file.write_text("\n".join(lines))
    result = CliRunner().invoke(app, ["mechanism", str(file), "--modes", "4", "--runs", str(tmp_path / "runs")])
    assert result.exit_code == 0, result.output
    inertia = 2.0 / 3.0
    omega = math.sqrt(30.0 / inertia)
    ratio = 0.4 / (2.0 * math.sqrt(30.0 * inertia))
    hz = omega * math.sqrt(1.0 - ratio**2) / (2.0 * math.pi)
    assert f"{hz:.4g} Hz" in result.output and f"{ratio:.3f}" in result.output
    (folder,) = (tmp_path / "runs").iterdir()
    (mode,) = json.loads((folder / "report.json").read_text())["figures"]["modes"]["modes"]
    assert mode["frequency_hz"] == pytest.approx(hz, rel=1e-5)
    assert abs(mode["shape"]["B"][1]) == pytest.approx(abs(mode["shape"]["theta"][0]), rel=1e-6)  # 1 m at theta
    assert abs(mode["shape"]["B"][0]) < 1e-6
    assert "Natural modes" in (folder / "report.html").read_text()


def test_modes_of_what_cannot_move_and_of_what_nothing_holds() -> None:
    legs = {"left": {"nodes": ["A", "C"], "mass": 1.0}, "right": {"nodes": ["B", "C"], "mass": 1.0}}
    points = {"A": GROUND, "B": {"at": [1.0, 0.0], "fixed": True}, "C": {"at": [0.5, 1.0]}}
    truss = simulated({"points": points, "bodies": legs, "run": {"seconds": 0.01, "modes": 3}})
    assert truss.figures["modes"]["modes"] == [] and mechanism_run.mode_rows(truss.figures) == []
    free = {"points": {"P": {"at": [0.0, 0.0]}}, "particles": {"b": {"point": "P", "mass": 1.0}}}
    drifting = simulated({**free, "gravity": [0.0, 0.0], "run": {"seconds": 0.01, "modes": 3}})
    assert [row[1] for row in mechanism_run.mode_rows(drifting.figures)] == ["creeps, or stays"] * 3
    falling = simulated({**free, "run": {"seconds": 0.01, "modes": 1}})
    assert "not at rest" in falling.figures["modes"]["about"]


# ---- contact ---------------------------------------------------------------------------------------------------------


def block(friction: float, tilt: float = 0.0, **plane: float) -> dict[str, Any]:
    """A particle of 2 kg on a plane that rises by `tilt` along x, in space, at rest on its stiffness."""
    normal = [-math.sin(tilt), 0.0, math.cos(tilt)]
    depth = 2.0 * G * math.cos(tilt) / 1e5
    return {
        "dimension": 3, "run": {"seconds": 1.0, "step_ms": 1.0},
        "points": {"P": {"at": [-depth * n for n in normal]}},
        "particles": {"block": {"point": "P", "mass": 2.0}},
        "forces": {"floor": {
            "kind": "contact", "point": "P", "through": [0.0, 0.0, 0.0], "normal": normal, "stiffness": 1e5,
            "damping": 0.5, "friction": friction, "speed": 1e-3, **plane,
        }},
    }  # fmt: skip


def test_a_block_slides_to_rest_and_its_energy_is_booked() -> None:
    data = block(0.5) | {"start": {"velocity": {"P": [3.0, 0.0, 0.0]}}}
    done = simulated(data)
    found = recorded(done.record)
    assert found["P_x"][-1] == pytest.approx(3.0**2 / (2.0 * 0.5 * G), rel=2e-3)
    assert found["floor_lost"][-1] == pytest.approx(0.5 * 2.0 * 3.0**2, rel=2e-3)
    assert done.figures["lost_to_contact"] == found["floor_lost"][-1]
    np.testing.assert_allclose(found["floor_force_z"], 2.0 * G, rtol=1e-6)
    # at every instant: what is left, and what was taken
    np.testing.assert_allclose(energies(done.record) + found["floor_lost"], energies(done.record)[0], atol=5e-3)


@pytest.mark.parametrize("friction", [0.2, 0.8])
def test_a_block_on_a_slope_holds_or_slides(friction: float) -> None:
    tilt = math.radians(25.0)
    done = simulated(block(friction, tilt) | {"run": {"seconds": 0.5}})
    gone = float(np.linalg.norm(recorded_place(done.record)[-1] - recorded_place(done.record)[0]))
    slides = max(math.sin(tilt) - friction * math.cos(tilt), 0.0)
    assert gone == pytest.approx(0.5 * G * slides * 0.5**2, rel=1e-2, abs=1e-3)


def recorded_place(record: Record) -> np.ndarray:
    return record["P"]


def test_a_plane_pushes_and_never_pulls() -> None:
    """Dropped, it bounces lower than it fell by what was booked, and leaves; a plane above it does nothing."""
    data = block(0.3)
    data["points"] = {"P": {"at": [0.0, 0.0, 0.1]}}
    data["run"] = {"seconds": 0.5, "step_ms": 0.1}
    done = simulated(data)
    found = recorded(done.record)
    assert found["floor_force_z"].min() == 0.0 and found["floor_force_z"].max() > 5.0 * 2.0 * G
    touched = np.flatnonzero(found["floor_force_z"])
    peak = float(found["P_z"][touched[0] :].max())
    bounced = touched[0] + int(np.argmax(found["P_z"][touched[0] :]))
    assert 0.02 < peak < 0.099
    assert 2.0 * G * (0.1 - peak) == pytest.approx(float(found["floor_lost"][bounced]), rel=1e-2)


def test_a_body_rests_on_planes_in_equilibrium() -> None:
    """A box on four places of its own: each carries a quarter of the weight, over another way: m g / 4 k deep."""
    corners = {f"c{i}{j}": {"on": "box", "at": [0.4 * i - 0.2, 0.6 * j - 0.3, 0.0]} for i, j in product((0, 1), (0, 1))}
    data = {
        "dimension": 3, "run": {"seconds": 0.05},
        "points": {"G": {"at": [0.0, 0.0, 0.1]}},
        "vectors": {"u": {"along": [1.0, 0.0, 0.0]}, "v": {"along": [0.0, 1.0, 0.0]}, "w": {"along": [0.0, 0.0, 1.0]}},
        "bodies": {"box": {
            "nodes": ["G", "u", "v", "w"], "centre": [0.0, 0.0, 0.1], "shape": "box", "size": [0.4, 0.6, 0.2],
            "density": 500.0,
        }},
        "places": corners, "start": {"equilibrium": True},
        "forces": {name: {"kind": "contact", "point": name, "through": [0.0, 0.0, 0.0], "normal": [0.0, 0.0, 1.0],
                          "stiffness": 1e5, "damping": 0.5, "friction": 0.6} for name in corners},
    }  # fmt: skip
    done = simulated(data)
    mass = 500.0 * 0.4 * 0.6 * 0.2
    found = recorded(done.record)
    for name in corners:
        np.testing.assert_allclose(found[f"{name}_force_z"], mass * G / 4.0, rtol=1e-6)
        np.testing.assert_allclose(found[f"{name}_z"], -mass * G / 4e5, rtol=1e-6)


# ---- inertia ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "inside"),
    [
        (shapes.box((0.6, 0.2, 0.4)), lambda x, y, z: (abs(x) <= 0.3) & (abs(y) <= 0.1) & (abs(z) <= 0.2)),
        (shapes.cylinder(0.25, 0.6, 0.1), lambda x, y, z: (abs(x) <= 0.3) & (abs(y * y + z * z - 0.03625) <= 0.02625)),
        (shapes.sphere(0.3), lambda x, y, z: x * x + y * y + z * z <= 0.09),
    ],
    ids=["box", "tube", "sphere"],
)  # fmt: skip
def test_a_shape_has_the_moments_of_its_points(shape: shapes.Shape, inside: Any) -> None:
    n = 61
    side = (np.arange(n) + 0.5) / n * 0.64 - 0.32
    x, y, z = np.meshgrid(side, side, side, indexing="ij")
    within = inside(x, y, z)
    r = np.stack([x[within], y[within], z[within]], axis=1)
    volume = len(r) * (0.64 / n) ** 3
    assert shape.mass(1000.0) == pytest.approx(1000.0 * volume, rel=0.04)
    # in a frame that lies askew
    frame = [(1.0, 2.0, 2.0), (-2.0, -1.0, 2.0)]
    R = shapes.axes(frame)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
    placed = r @ R.T
    J = np.einsum("ki,ki->", placed, placed) * np.eye(3) - placed.T @ placed
    np.testing.assert_allclose(shape.inertia(1.0, frame), J / len(r), atol=2e-3)


def test_an_inertia_may_be_given_in_a_frame_of_the_body() -> None:
    nodes = {"nodes": ["P", "u", "v", "w"], "mass": 3.0, "centre": [0.0, 0.0, 0.0]}
    data = {
        "dimension": 3, "points": {"P": {"at": [0.0, 0.0, 0.0]}},
        "vectors": {n: {"along": np.eye(3)[k].tolist()} for k, n in enumerate("uvw")},
        "bodies": {"b": {**nodes, "inertia": [0.1, 0.2, 0.25], "frame": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}},
    }  # fmt: skip
    described = describe({"name": "m", **data}, "m.toml")
    np.testing.assert_allclose(described.mechanism.bodies["b"].inertia, np.diag([0.25, 0.1, 0.2]), atol=1e-15)
    rod = {**nodes, "shape": "rod", "length": 2.0, "frame": [[0.0, 0.0, 1.0]]}
    described = describe({"name": "m", **data, "bodies": {"b": rod}}, "m.toml")
    np.testing.assert_allclose(described.mechanism.bodies["b"].inertia, np.diag([1.0, 1.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"density": 7850.0}, "a density needs a shape"),
        ({"mass": 1.0, "radius": 0.1}, "radius: of a shape"),
        ({"mass": 1.0, "shape": "sphere", "centre": [0.0, 0.0]}, "needs radius"),
        ({"shape": "sphere", "radius": 0.1, "centre": [0.0, 0.0]}, "mass or density"),
        ({"mass": 1.0, "shape": "sphere", "radius": 0.1}, "give its centre"),
        ({"mass": 1.0, "shape": "box", "size": [1.0, 1.0, 1.0], "centre": [0.0, 0.0]}, "size = .*2 numbers"),
        ({"density": 1.0, "shape": "rod", "length": 1.0, "centre": [0.5, 0.0]}, "has no volume"),
        ({"mass": 1.0, "centre": [0.5, 0.0], "inertia": 1.0, "frame": [[1.0, 0.0]]}, "frame: is for space"),
    ],
)  # fmt: skip
def test_a_shape_that_means_nothing_is_refused(body: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=rf"m.toml: bodies.bar.*{words}"):
        prepared(bar(bodies={"bar": {"nodes": ["A", "B"], **body}}))


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"places": {"p": {"on": "bare", "at": [0.0, 0.0]}}}, "places.p: there is no body 'bare'; did you mean bar"),
        ({"places": {"B": {"on": "bar", "at": [0.0, 0.0]}}}, "places.B: .* already"),
        ({"inputs": {"i": {}}}, "inputs.i: give one law"),
        ({"forces": {"f": {"kind": "force", "point": "B", "vector": [1.0, 0.0], "scale": "i"}}}, "no input 'i'"),
        ({"forces": {"f": {"kind": "force", "point": "theta", "vector": [1.0, 0.0]}}}, "one number"),
        ({"forces": {"f": {"kind": "contact", "point": "B", "through": [0.0, 0.0], "normal": [0.0, 0.0],
                           "stiffness": 1.0}}}, "normal"),
        ({"bodies": {"bar": {"nodes": ["A", "p"], "mass": 1.0}}, "places": {"p": {"on": "bar", "at": [1.0, 0.0]}}},
         "bodies.bar: there is no body 'bar'"),
    ],
)  # fmt: skip
def test_a_slip_is_refused(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=rf"m.toml: .*{words}"):
        prepared(bar(**tables))


# ---- the record ------------------------------------------------------------------------------------------------------


def test_the_record_has_forces_reactions_efforts_and_accelerations() -> None:
    data = bar(
        gravity=[0.0, -G],
        run={"seconds": 0.5},
        points={"A": {"at": [0.0, 0.0], "fixed": True}, "B": {"at": [1.0, 0.0]}, "C": {"at": [1.5, 1.0]}},
        bodies={"bar": {"nodes": ["A", "B"], "mass": 2.0}, "rod": {"nodes": ["B", "C"], "mass": 1.0}},
        joints={
            "theta": {"kind": "angle", "bodies": ["ground", "bar"]},
            "phi": {"kind": "angle", "bodies": ["ground", "rod"]},
            "motor": {"kind": "drive", "scalar": "theta", "polynomial": [0.0, 0.0, 3.0]},
        },
        forces={
            "s": {"kind": "spring", "points": ["A", "C"], "stiffness": 80.0, "damping": 2.0, "length": 1.0},
            "twist": {"kind": "torque", "on": "bar", "value": 4.0},
            "load": {"kind": "force", "point": "mid", "vector": [0.0, -7.0]},
        },
        places={"mid": {"on": "bar", "at": [0.5, 0.0]}},
    )  # fmt: skip
    record = simulated(data).record
    found = recorded(record)
    # the spring from places and rates
    d = np.stack([found["C_x"], found["C_y"]], axis=1)
    rate = np.stack([found["C_x_rate"], found["C_y_rate"]], axis=1)
    length = np.linalg.norm(d, axis=1)
    np.testing.assert_allclose(
        found["s_force"], 80.0 * (length - 1.0) + 2.0 * (d * rate).sum(axis=1) / length, rtol=1e-9, atol=1e-9
    )
    # accelerations are the slope of the rates
    slope = np.gradient(found["B_y_rate"], found["time"])
    np.testing.assert_allclose(found["B_y_accel"][1:-1], slope[1:-1], atol=2e-3 * np.abs(slope).max())
    # what the bars exert on each other in B is opposite and equal
    for axis in "xy":
        np.testing.assert_allclose(found[f"bar_B_force_{axis}"], -found[f"rod_B_force_{axis}"], atol=1e-6)
    np.testing.assert_allclose(found["twist_torque"], 4.0, rtol=1e-9)
    # moments about A of the bar alone: motor, torque, joint in B, weight and load, against 2/3 kg m2 at 6 rad/s2
    theta = 3.0 * found["time"] ** 2
    joint = np.cos(theta) * found["bar_B_force_y"] - np.sin(theta) * found["bar_B_force_x"]
    np.testing.assert_allclose(
        found["motor_effort"] + 4.0 + joint - (2.0 * G + 7.0) * 0.5 * np.cos(theta), 6.0 * 2.0 / 3.0, rtol=1e-5
    )
    # the force in the hinge, from the motion of the centre of the bar
    centre = 0.5 * np.stack([found["B_x_accel"], found["B_y_accel"]], axis=1)
    held = 2.0 * centre - np.stack([found["bar_B_force_x"], found["bar_B_force_y"]], axis=1) + [0.0, 2.0 * G + 7.0]
    np.testing.assert_allclose(np.stack([found["bar_A_force_x"], found["bar_A_force_y"]], axis=1), held, atol=1e-6)


def test_reactions_of_joints_in_space_balance_the_body() -> None:
    """A plate on a revolute joint to the ground, a slanting torque on it: forces and moments against its own motion."""
    data = {
        "dimension": 3, "run": {"seconds": 0.3},
        "points": {"P": {"at": [0.3, 0.1, 0.2]}},
        "vectors": {n: {"along": np.eye(3)[k].tolist()} for k, n in enumerate("uvw")},
        "bodies": {"plate": {"nodes": ["P", "u", "v", "w"], "mass": 3.0, "centre": [0.4, 0.2, 0.1],
                             "inertia": [0.2, 0.3, 0.35]}},
        "joints": {"hinge": {"kind": "revolute", "bodies": ["ground", "plate"], "at": [0.0, 0.0, 0.0],
                             "axis": [1.0, 2.0, 2.0]}},
        "forces": {"turn": {"kind": "torque", "on": "plate", "value": [1.0, -2.0, 0.5], "own": [0.0, 3.0, 0.0]}},
        "places": {"pin": {"on": "plate", "at": [0.0, 0.0, 0.0]}},
    }  # fmt: skip
    record = simulated(data).record
    found = recorded(record)
    for k in (0, 100, 300):
        moved = body_motion(record.state(k), "plate")
        force = np.array([found[f"hinge_force_{axis}"][k] for axis in "xyz"])
        torque = np.array([found[f"hinge_torque_{axis}"][k] for axis in "xyz"])
        turn = np.array([found[f"turn_torque_{axis}"][k] for axis in "xyz"])
        np.testing.assert_allclose(force, moved.force - [0.0, 0.0, -3.0 * G], atol=1e-6)
        body = record.system.mechanism.bodies["plate"]
        arm = record.state(k)["pin"] - record.state(k).value(body.centre)
        np.testing.assert_allclose(torque + turn + np.cross(arm, force), moved.torque, atol=1e-6)
        # Euler's equation, with the tensor turned along
        e = np.array([record.state(k)[n] for n in "uvw"]).T
        J = e @ np.diag([0.2, 0.3, 0.35]) @ e.T
        omega = moved.angular_velocity
        np.testing.assert_allclose(J @ moved.angular_acceleration + np.cross(omega, J @ omega), moved.torque, atol=1e-5)


def test_a_rod_has_a_tension_and_a_bar_in_space_its_turning() -> None:
    """A conical pendulum: tension m g / cos, the rod's length keeps it; a bar turns across its axis alone."""
    tilt = 0.5
    rate = math.sqrt(G / math.cos(tilt))
    data = {
        "dimension": 3, "run": {"seconds": 0.5},
        "points": {"O": {"at": [0.0, 0.0, 0.0], "fixed": True}, "P": {"at": [math.sin(tilt), 0.0, -math.cos(tilt)]}},
        "particles": {"bob": {"point": "P", "mass": 2.0}},
        "joints": {"string": {"kind": "rod", "points": ["O", "P"]}},
        "start": {"velocity": {"P": [0.0, rate * math.sin(tilt), 0.0]}},
    }  # fmt: skip
    record = simulated(data).record
    np.testing.assert_allclose(recorded(record)["string_force"], 2.0 * G / math.cos(tilt), rtol=1e-4)
    data["bodies"] = {"bar": {"nodes": ["O", "P"], "mass": 1.0}}
    del data["joints"]
    moved = body_motion(simulated(data).record.state(-1), "bar")
    assert np.linalg.norm(moved.angular_velocity) == pytest.approx(
        np.linalg.norm(moved.velocity) / 0.5, rel=1e-6
    )  # the centre at half a metre from O


def test_the_start_is_the_first_row(tmp_path: Path) -> None:
    data = bar(gravity=[0.0, -G], run={"seconds": 0.05, "step_ms": 10.0})
    file = tmp_path / "m.toml"
    file.write_text("")
    described, state = prepared(data)
    done = mechanism_run.simulate(described, state, lambda *_: None)
    mechanism_run.write_run(tmp_path / "run", mechanism_run.Simulated(
        mechanism_run.replace(done.described, path=str(file)), done.record, done.figures
    ))  # fmt: skip
    steps = open_run(tmp_path / "run").need("/step").blocks
    np.testing.assert_allclose(steps["time"], [0.0, 0.01, 0.02, 0.03, 0.04, 0.05])
    assert steps["B_x"][0] == 1.0 and steps["theta"][0] == 0.0 and steps["iterations"][0] == 0.0
    assert steps["theta_accel"][0] == pytest.approx(-1.5 * G, rel=1e-9)
    assert steps["iterations"][1] > 0
    result = CliRunner().invoke(
        app, ["export", str(tmp_path / "run"), "--to", "csv", "--out", str(tmp_path / "csv")]
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    head, *rows = (tmp_path / "csv" / "step.csv").read_text().splitlines()
    at = head.split(",").index("time [s]")
    assert [float(row.split(",")[at]) for row in rows] == pytest.approx(steps["time"])


def test_energy_of_a_run_without_losses_is_booked_too() -> None:
    """Two ways: energies over the record, and `energy` of one instant."""
    record = simulated(bar(gravity=[0.0, -G])).record
    assert energies(record)[-1] == pytest.approx(energy(record.state(-1)).total, abs=1e-12)
    assert run(record.state(-1), 0.01).finite


def test_a_record_with_forces_is_made_again_to_the_bit(tmp_path: Path) -> None:
    file = Path(__file__).resolve().parents[3] / "configs" / "mechanisms" / "spindle.toml"
    described, state = mechanism_run.load(file, seconds=0.2)
    mechanism_run.write_run(tmp_path / "run", mechanism_run.simulate(described, state, lambda *_: None))
    recorded_run = open_run(tmp_path / "run")
    again = replay_mechanism(tmp_path / "run")
    assert again.data["identical"] and not again.notes and again.exit_code == 0
    names = set(recorded_run.need("/step").blocks.dtype.names or ())
    assert {"hub_x_accel", "spring_force", "shaft_force_y", "shaft_torque_z", "rim_y_accel"} <= names


# ---- what contradicts itself -----------------------------------------------------------------------------------------


def refused(data: dict[str, Any], **chosen: Any) -> str:
    with pytest.raises(ConfigError) as error:
        prepared(data, **chosen)
    return str(error.value)


@pytest.mark.parametrize("scheme", ["i3al_halved", "none", "baumgarte", "projection", "linear-implicit"])
def test_dissipation_is_refused_where_it_is_not_one(scheme: str) -> None:
    assert f'dissipation = 0.1 is of scheme = "i3al"; leave it out with scheme = "{scheme}"' in refused(
        bar(run={"scheme": scheme, "dissipation": 0.1})
    )


@pytest.mark.parametrize("name", ["none", "baumgarte", "projection", "i3al", "linear-implicit"])
def test_a_stabilisation_is_the_scheme_of_its_name(name: str) -> None:
    held, same = (prepared(bar(run={key: name}))[0].file.run for key in ("stabilisation", "scheme"))
    assert held.scheme == same.scheme == name
    other = mechanism_run.prepare(describe({"name": "m", **bar(run={"stabilisation": name})}, "m.toml"), scheme="i3al")
    assert other[0].file.run.scheme == "i3al"
    message = refused(bar(run={"stabilisation": name, "scheme": "i3al_halved" if name != "i3al" else "none"}))
    assert f'stabilisation = "{name}" and scheme =' in message and "give one of them" in message
    assert "relative coordinates solve their loops" in refused(
        bar(run={"stabilisation": name, "formulation": "relative"})
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([0.0, "x"], "start.velocity.B[1] = 'x': must be a valid number"),
        ("x", "start.velocity.B = 'x': must be a valid number"),
        ([0.0, 1e9], "start.velocity.B[1] = 1000000000.0: must be less than or equal to 1000000"),
    ],
)
def test_of_a_number_or_a_list_what_was_meant_is_one_finding(value: Any, words: str) -> None:
    assert refused({"start": {"velocity": {"B": value}}} | bar()) == f"m.toml: {words}"


@pytest.mark.parametrize("name", ["baumgart", ["none"], 3])
def test_a_stabilisation_that_is_none_is_one_finding(name: Any) -> None:
    (line,) = refused(bar(run={"stabilisation": name})).splitlines()
    assert f"run.stabilisation = {name!r}: must be 'none'" in line


@pytest.mark.parametrize("law", [{"polynomial": [0.0]}, {"smooth_step": [0.0, 1.0, 0.0, 1.0]}, {"value": 1.0}])
def test_what_is_of_a_sine_is_refused_beside_another_law(law: dict[str, Any]) -> None:
    message = refused(bar(inputs={"u": {**law, "rate": 2.0, "mean": 0.1}}))
    assert "inputs.u" in message and "mean, rate: of a law with an amplitude" in message


def test_forces_may_be_as_large_as_the_builder_takes_them() -> None:
    _, state = prepared(bar(forces={
        "f": {"kind": "force", "point": "B", "vector": [5e6, 0.0]}, "t": {"kind": "torque", "on": "bar", "value": 2e7},
        "s": {"kind": "spring", "points": ["A", "B"], "stiffness": 1.0, "preload": 3e6},
    }))  # fmt: skip
    system = state.system
    assert system.reals[system.parameter("f", "x")] == 5e6 and system.reals[system.parameter("s", "preload")] == 3e6


def test_many_bodies_may_stand_on_each_other() -> None:
    """A pile with its last named first: bodies are put in order however deep it is."""
    count = 1500
    points = {"O": GROUND, **{f"p{k}": {"at": [k + 1.0, 0.0]} for k in range(count)}}
    bodies = {f"b{k}": {"nodes": [f"h{k}" if k else "O", f"p{k}"], "mass": 1.0} for k in reversed(range(count))}
    places = {f"h{k}": {"on": f"b{k - 1}", "at": [float(k), 0.0]} for k in range(1, count)}
    file = MechanismFile(name="m", points=points, bodies=bodies, places=places)
    assert _Builder(file, "m.toml")._in_order() == [f"b{k}" for k in range(count)]


def test_what_would_take_hours_is_refused_with_its_key() -> None:
    pile = {"points": {"O": GROUND}, "chains": {"c": {"begin": "O", "count": 310, "step": [0.1, 0.0], "mass": 1.0}}}
    assert "start.equilibrium = true: is for at most 600 coordinates" in refused(
        pile | {"start": {"equilibrium": True}}
    )
    assert "run.modes = 2: is for at most 600 coordinates, and there are 620" in refused(pile, modes=2)


def test_a_start_that_cannot_be_is_said_with_its_keys() -> None:
    assert "start.position.B = [2.0, 0.0]: " in refused(bar(start={"position": {"B": [2.0, 0.0]}}))
    both = bar(
        scalars={"x": {"inertia": 1.0}, "y": {"inertia": 1.0}},
        joints={
            "ratio": {"kind": "gear", "scalars": ["x", "y"], "ratio": 1.0},
            "one": {"kind": "drive", "scalar": "x", "polynomial": [0.0, 1.0]},
            "two": {"kind": "drive", "scalar": "y", "polynomial": [0.0, 2.0]},
        },
    )
    assert "m.toml: joints.one (rate 1), joints.two (rate 2): no velocities" in refused(both)


def test_the_error_of_a_scheme_without_an_estimate_is_not_invented() -> None:
    def row(scheme: str) -> str:
        figures = simulated(bar(run={"scheme": scheme, "seconds": 0.01})).figures
        return dict(mechanism_run.figure_rows(figures))["error of the steps, estimated"]

    assert "all together" in row("i3al") and row("projection") == "not estimated"


def test_a_long_run_is_recorded_to_its_end() -> None:
    """4503 steps: every second is kept, and the last."""
    record = simulated(bar(run={"seconds": 4.503})).record
    assert record.steps == 4503 and record.t[-1] == pytest.approx(4.503) and len(record.states) < 2300
    assert len(recorded(record)["phi_error"]) == len(record.states)
