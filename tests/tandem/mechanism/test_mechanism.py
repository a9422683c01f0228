"""Mechanism files: those we ship run, and whatever is wrong with one is said with file, key and what would be right."""

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sync.errors import ConfigError
from sync.record import open_run
from tandem.commands.cli import app
from tandem.mechanism import run as mechanism_run
from tandem.mechanism.columns import columns
from tandem.multibody.description import sections
from tandem.multibody.description.mechanism_file import describe, read_mechanism
from tandem.records.inspect.compare import compare
from tandem.records.inspect.info import info
from tandem.records.inspect.plot import panels
from tests.examples import few

FOLDER = Path(__file__).resolve().parents[3] / "configs" / "mechanisms"
FILES = sorted(FOLDER.glob("*.toml"))
FOUR_BAR = tomllib.loads((FOLDER / "four_bar.toml").read_text())
SPATIAL = tomllib.loads((FOLDER / "spatial_slider_crank.toml").read_text())


def four_bar(**tables: Any) -> dict[str, Any]:
    """The shipped four-bar with some tables changed."""
    data = copy.deepcopy(FOUR_BAR)
    for key, value in tables.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    return data


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        mechanism_run.prepare(describe(data, "m.toml"))
    assert all(line.startswith("m.toml: ") for line in str(error.value).split("\n"))
    return str(error.value)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_shipped_mechanism_closes_moves_and_keeps_its_constraints(file):
    described, state = mechanism_run.load(file, seconds=0.7)
    before = state.q.copy()
    simulated = mechanism_run.simulate(described, state, lambda share, words: None)
    figures = simulated.figures
    assert figures["ended"] == "finished"
    assert figures["steps"] == round(700 / described.file.run.step_ms)
    assert figures["phi_max"] <= 1e-9 and figures["phid_max"] <= 1e-8
    assert figures["energy_warning"] is None
    assert np.abs(state.q - before).max() > 1e-3


def test_the_command_prints_figures_and_writes_a_run(tmp_path):
    result = CliRunner().invoke(
        app, ["mechanism", str(FOLDER / "pendulum.toml"), "--seconds", "0.5", "--json", "--runs", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["steps"] == 500 and figures["ended"] == "finished" and figures["real_time_factor"] > 0
    (folder,) = tmp_path.iterdir()
    assert folder.name.endswith("Z-pendulum")
    page = (folder / "report.html").read_text()
    assert page.count("<svg") >= 4 and "nan" not in page.lower().replace("nanometre", "")
    assert json.loads((folder / "report.json").read_text())["figures"]["steps"] == 500


def test_a_closed_run_whose_energy_changes_reports_it(tmp_path):
    file = str(FOLDER / "four_bar.toml")
    given = ["mechanism", file, "--step-ms", "5", "--seconds", "2", "--runs", str(tmp_path)]
    result = CliRunner().invoke(app, [*given, "--json"])
    figures = json.loads(result.stdout)
    assert figures["energy_worked_on_by"] == [] and figures["energy_share"] > 1e-3
    assert "% of the" in figures["energy_warning"] and 'or scheme = "projection"' in figures["energy_warning"]
    assert f"tandem: {file}: {figures['energy_warning']}\n" in result.stderr
    page = (next(tmp_path.iterdir()) / "report.html").read_text()
    assert figures["energy_warning"].replace('"', "&quot;") in page or figures["energy_warning"] in page
    fine = CliRunner().invoke(app, [*given, "--scheme", "projection", "--json"])
    assert json.loads(fine.stdout)["energy_warning"] is None and "% of the" not in fine.stderr


def test_work_of_motors_and_dampers_is_no_energy_error():
    described, state = mechanism_run.load(FOLDER / "vehicle.toml", seconds=2.0)
    figures = mechanism_run.simulate(described, state, lambda *_: None).figures
    assert "drive_wheel" in figures["energy_worked_on_by"] and "spring_r" in figures["energy_worked_on_by"]
    assert figures["energy_share"] is None and figures["energy_warning"] is None
    (words,) = [text for name, text in mechanism_run.figure_rows(figures) if name == "energy"]
    assert "off by" not in words and "drive_wheel" in words and "work on it" in words


def _in_both(data: dict[str, Any]) -> list[str]:
    """How a file is refused in either formulation, before the first step."""

    def words(formulation: str) -> str:
        with pytest.raises(ConfigError) as error:
            mechanism_run.prepare(describe(data, "m.toml"), formulation=formulation)
        return str(error.value)

    return [words("natural"), words("relative")]


FIXED, FREE = {"at": [0.0, 0.0], "fixed": True}, {"at": [1.0, 0.0]}
PLANE = {"name": "m", "points": {"A": FIXED, "B": FREE}}
BOB = {"bob": {"point": "B", "mass": 1.0}}
ROD = {"rod": {"kind": "rod", "points": ["A", "B"]}}
TURNING = {
    "name": "m",
    "dimension": 3,
    "points": {"P": {"at": [1.0, 0.0, 0.0]}},
    "vectors": {name: {"along": along} for name, along in zip("abc", np.eye(3).tolist(), strict=True)},
}
# m (d.d - d d^T) of d = (0.3, 0.5, 0.7): all mass on one line through the origin
SLENDER = [[0.74, -0.15, -0.21], [-0.15, 0.58, -0.35], [-0.21, -0.35, 0.34]]


@pytest.mark.parametrize(
    "data, words",
    [
        (PLANE, "point B: can move without mass"),
        (PLANE | {"joints": ROD}, "point B: can move without mass"),
        (PLANE | {"bodies": {"rod": {"nodes": ["A", "B"], "mass": 0.0}}}, "point B: can move without mass"),
        (
            PLANE | {"bodies": {"rod": {"nodes": ["A", "B"], "mass": 1.0, "centre": [0.0, 0.0]}}},
            "point B: can move without mass",
        ),
        (PLANE | {"particles": BOB, "scalars": {"s": {}}}, "scalar s: can move without mass"),
        (
            TURNING
            | {"points": {"P": {"at": [0.0, 0.0, 0.0], "fixed": True}}}
            | {"bodies": {"b": {"nodes": [*"Pabc"], "mass": 1.0, "centre": [0.3, 0.5, 0.7], "inertia": SLENDER}}},
            ": can move without mass",
        ),
        (
            PLANE | {"particles": BOB, "points": {"A": FIXED, "B": FREE, "C": {"at": [1.0, 1e-12]}}}
            | {"joints": {"short": {"kind": "rod", "points": ["B", "C"]}}},
            "joints.short: rod short: its points are 1e-12 m apart, in a mechanism of 1 m",
        ),
        (
            PLANE | {"points": {"A": FIXED, "B": FREE, "C": {"at": [1.0, 1e-12]}}}
            | {"bodies": {"bar": {"nodes": ["B", "C"], "mass": 1.0}}},
            "bodies.bar: body bar: its points are 1e-12 m apart",
        ),
        (
            PLANE | {"particles": BOB, "scalars": {"s": {"inertia": 1.0}, "t": {"inertia": 1.0}}}
            | {"joints": {"g": {"kind": "gear", "scalars": ["s", "t"], "ratio": 0.0}}},
            "joints.g: gear g: ratio = 0: must not be 0",
        ),
        (
            PLANE | {"particles": BOB, "scalars": {"s": {"inertia": 1.0}}}
            | {"joints": {"g": {"kind": "gear", "scalars": ["s", "s"], "ratio": 2.0}}},
            "joints.g: gear g: ties a scalar to itself",
        ),
        (
            TURNING
            | {"bodies": {"b": {"nodes": [*"Pabc"], "mass": 1.0, "centre": [1.0, 0.0, 0.0], "inertia": 0.1}}}
            | {
                "joints": {
                    "u": {
                        "kind": "universal",
                        "bodies": ["ground", "b"],
                        "at": [1.0, 0.0, 0.0],
                        "axes": [[0.0, 1.0, 0.0], [0.0, -2.0, 0.0]],
                    }
                }
            },
            "joints.u: universal u: axes = [[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]: are parallel",
        ),
    ],
    ids=[
        "free point", "point on a rod", "body without mass", "body without inertia on its hinge", "scalar",
        "slender body", "short rod", "short bar", "gear of 0", "gear on itself", "parallel axes",
    ],
)  # fmt: skip
def test_degenerate_mechanisms_are_refused_by_name_in_both_formulations(data: dict[str, Any], words: str) -> None:
    assert all(found.startswith("m.toml: ") and words in found for found in _in_both(data))


def test_relative_coordinates_refuse_what_is_hardly_larger_than_their_gaps_or_weighs_nothing() -> None:
    def refused_in_relative(data: dict[str, Any]) -> str:
        described, state = mechanism_run.prepare(describe(data, "m.toml"), formulation="relative", seconds=0.01)
        with pytest.raises(ConfigError) as error:
            mechanism_run.simulate(described, state, lambda *_: None)
        return str(error.value)

    tiny = PLANE | {"particles": BOB, "points": {"A": FIXED, "B": {"at": [1e-14, 0.0]}}, "joints": ROD}
    words = 'm.toml: run.formulation = "relative": the mechanism is 1e-14 m large: loops are closed to 1e-12 m'
    assert refused_in_relative(tiny).startswith(words)
    # a spring holds it, which is enough for natural coordinates
    held = PLANE | {"points": {"A": FIXED, "B": FREE, "C": {"at": [1.0, 1.0], "fixed": True}}}
    springs = {name: {"kind": "spring", "points": [name, "B"], "stiffness": 9.0, "preload": 1.0} for name in "AC"}
    assert 'relative": point B: can move without mass or inertia' in refused_in_relative(held | {"forces": springs})


def test_the_record_is_one_like_any_other(tmp_path):
    described, state = mechanism_run.load(FOLDER / "four_bar.toml", seconds=0.5)
    simulated = mechanism_run.simulate(described, state, lambda *_: None)
    mechanism_run.write_run(tmp_path / "run", simulated)
    run = open_run(tmp_path / "run")
    steps = run.topics["/step"]
    assert run.whole and run.end["reason"] == "finished" and len(steps) == 501
    np.testing.assert_array_equal(steps.blocks["B_x"], simulated.record["B"][:, 0])
    np.testing.assert_allclose(np.diff(steps.blocks["t_ns"]), 1e6, atol=1)
    units = {c.name: c.unit for c in steps.layout.channels}
    assert units["B_x"] == "m" and units["B_y_rate"] == "m/s" and units["phi_error"] == "m"
    # and the tools for records know it
    assert info(run)["topics"]["/step"]["rate_hz"] == 1000 and compare(run, run)["identical"]
    assert {"B_x", "iterations"} <= {panel.title for panel in panels([("a", run)], None)}


@pytest.mark.parametrize("seconds", [0.5, 5.001])
def test_the_solver_s_figures_stand_beside_their_own_step(tmp_path, seconds):
    described, state = mechanism_run.load(FOLDER / "four_bar.toml", seconds=seconds)
    record = mechanism_run.simulate(described, state, lambda *_: None).record
    found = {name: values for name, _, values in columns(record)}
    steps = np.round(record.t[1:] / 1e-3).astype(int) - 1
    np.testing.assert_array_equal(found["energy_residual"][1:], record["energy_residual"][steps])


@pytest.mark.parametrize("inertia", [[1, 2], [], [[1, 0], [0, 1]], [1, [2]]])
def test_an_inertia_of_another_shape_is_refused(inertia):
    data = copy.deepcopy(SPATIAL)
    name = next(iter(data["bodies"]))
    data["bodies"][name] |= {"inertia": inertia, "centre": [0.0, 0.0, 0.0]}
    assert f"bodies.{name}" in refused(data)


def test_a_run_that_ends_between_kept_instants_keeps_every_step(tmp_path):
    described, state = mechanism_run.load(FOLDER / "pendulum.toml", seconds=9.137, step_ms=1.0)
    simulated = mechanism_run.simulate(described, state, lambda share, words: None)
    assert simulated.figures["steps"] == 9137 == len(simulated.record.diagnostics)
    assert state.time == pytest.approx(9.137)
    assert np.all(np.diff(simulated.record.t) > 0)
    assert mechanism_run.write_run(tmp_path / "run", simulated).exists()


def test_a_divergence_is_said_and_has_its_exit_code(tmp_path):
    # a spring far too stiff for the explicit method at this step
    text = (FOLDER / "double_pendulum.toml").read_text().replace("[run]", '[run]\nscheme = "baumgarte"')
    file = tmp_path / "stiff.toml"
    file.write_text(text + '\n[forces]\ns = { kind = "spring", points = ["A", "C"], stiffness = 1e9 }\n')
    result = CliRunner().invoke(app, ["mechanism", str(file), "--step-ms", "10", "--runs", str(tmp_path)])
    assert result.exit_code == 3
    assert "diverged after" in result.stderr


def test_a_bad_file_is_one_line_and_exit_code_2(tmp_path):
    result = CliRunner().invoke(app, ["mechanism", str(tmp_path / "none.toml"), "--runs", str(tmp_path)])
    assert result.exit_code == 2
    assert "none.toml: no such file" in result.stderr


# ---- what is wrong, and what would be right --------------------------------------------------------------------------


def test_an_unknown_point_is_named_with_the_one_that_was_meant():
    message = refused(four_bar(bodies={"crank": {"nodes": ["A", "BB"], "mass": 1.0}}))
    assert message == "m.toml: bodies.crank: there is no point or vector 'BB'; did you mean B?"


def test_a_body_without_enough_nodes_is_told_what_it_lacks():
    message = refused(four_bar(bodies={"crank": {"nodes": ["A"], "mass": 1.0}}))
    assert "bodies.crank: nodes = ['A']: a bar lies between two points" in message
    lonely = {"nodes": ["A"], "mass": 1.0, "centre": [0.1, 0.0], "inertia": 0.1}
    assert "bodies.crank: " in refused(four_bar(bodies={"crank": lonely}))


def test_an_overconstrained_position_tells_the_residual_of_every_open_constraint():
    message = refused(four_bar(joints={"strut": {"kind": "rod", "points": ["A", "C"], "length": 3.0}}))
    first, *rest = message.split("\n")
    assert "cannot be closed as drawn: of 4 constraints on 4 coordinates" in first
    assert any("strut is off by" in line for line in rest)
    assert all(line.endswith(" m") for line in rest)


def test_a_velocity_against_the_constraints_is_named():
    message = refused(four_bar(start={"velocity": {"B": [1.0, 1.0]}}))
    assert "start.velocity.B" in message and "constraints" in message


def test_several_findings_are_told_together():
    joints = {
        "a": {"kind": "slidder", "point": "B"},
        "b": {"kind": "rod", "points": ["A", "X"]},
        "c": {"kind": "rod", "points": ["A", "C"], "lenght": 1.0},
    }
    lines = refused(four_bar(joints=joints)).split("\n")
    assert len(lines) == 3
    assert "joints.a: kind = 'slidder': is not known; must be one of angle, " in lines[0]
    assert "joints.b: there is no point 'X'; there are A, B, C, D" in lines[1]
    assert "joints.c.lenght = 1.0: unknown key; did you mean length?" in lines[2]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"points": {"A": {"at": [0.0, 0.0, 0.0], "fixed": True}}}, "must be 2 finite numbers"),
        ({"points": {"A": {"at": "here"}}}, "points.A.at = 'here'"),
        ({"points": {"B": {"at": [0.0, 0.0]}}}, "at the same place"),
        ({"gravity": [0.0, 0.0, -9.81]}, "gravity"),
        ({"start": {"velocity": {"A": [1.0, 0.0]}}}, "start.velocity.A: is fixed"),
        ({"start": {"velocity": {"B": 1.0}}}, "must be 2 numbers"),
        ({"show": {"points": ["Q"]}}, "show.points[0]: there is no point 'Q'"),
        ({"run": {"scheme": "euler"}}, "run.scheme = 'euler'"),
        ({"run": {"seconds": 3600.0, "step_ms": 0.001}}, "too many"),
        ({"joints": {"j": {"kind": "revolute", "bodies": ["ground", "ground"], "at": [0.0, 0.0]}}}, "joints.j"),
        ({"joints": {"j": {"kind": "slider", "point": "B", "through": [0, 0], "along": [0, 0]}}}, "no direction"),
        ({"joints": {"j": {"kind": "drive", "scalar": "theta"}}}, "give one law"),
        ({"forces": {"f": {"kind": "torque", "on": "crank", "value": [1.0, 2.0]}}}, "must be one number"),
        ({"forces": {"f": {"kind": "spring", "points": ["A", "B"]}}}, "forces.f.stiffness: is missing"),
        ({"bodies": {"x": {"nodes": ["A", "B"], "mass": -1.0}}}, "bodies.x.mass = -1.0"),
        ({"colour": "red"}, "colour = 'red': unknown key"),
    ],
)
def test_a_slip_is_refused_with_its_key(tables, words):
    assert words in refused(four_bar(**tables))


def test_a_mechanism_in_which_nothing_moves_is_refused():
    data = {"name": "rock", "points": {"A": {"at": [0.0, 0.0], "fixed": True}}}
    assert "nothing can move" in refused(data)


# ---- joints and forces -----------------------------------------------------------------------------------------------


def plane(**tables: Any) -> dict[str, Any]:
    """A rod on a hinge in the plane, and a second one beside it."""
    points = {
        "A": {"at": [0.0, 0.0], "fixed": True},
        "B": {"at": [1.0, 0.0]},
        "C": {"at": [1.5, 0.0]},
        "D": {"at": [2.5, 0.0]},
    }
    bodies = {"one": {"nodes": ["A", "B"], "mass": 1.0}, "two": {"nodes": ["C", "D"], "mass": 1.0}}
    return {"name": "rods", "points": points, "bodies": bodies, **tables}


JOINTS = {
    "spherical": {"kind": "spherical", "points": ["B", "C"]},
    "revolute": {"kind": "revolute", "bodies": ["one", "two"], "at": [1.2, 0.0]},
    "prismatic": {"kind": "prismatic", "bodies": ["ground", "two"], "at": [1.5, 0.0], "axis": [1.0, 0.0]},
    "weld": {"kind": "weld", "bodies": ["two", "ground"], "at": [1.5, 0.0]},
    "rod": {"kind": "rod", "points": ["B", "C"]},
    "slider": {"kind": "slider", "point": "C", "through": [0.0, 0.0], "along": [1.0, 0.0], "on": "one"},
    "angle": {"kind": "angle", "bodies": ["one", "two"]},
}


DRIVEN = plane(
    joints={
        "turn": {"kind": "angle", "bodies": ["ground", "one"]},
        "swing": {"kind": "angle", "bodies": ["one", "two"]},
        "motor": {"kind": "drive", "scalar": "turn", "polynomial": [0.0, 2.0]},
        "pin": {"kind": "spherical", "points": ["B", "C"]},
    },
    forces={
        "spring": {"kind": "torsion", "scalar": "swing", "stiffness": 5.0, "damping": 0.1},
        "stop": {"kind": "limit", "scalar": "swing", "low": -1.0, "high": 1.0, "stiffness": 1e3},
        "rub": {"kind": "friction", "scalar": "swing", "level": 0.1, "speed": 0.01},
        "push": {"kind": "torque", "on": "swing", "value": 0.1},
        "pull": {"kind": "force", "point": "mid", "vector": [0.0, -1.0], "scale": "load"},
        "floor": {"kind": "contact", "point": "D", "through": [0.0, -1.5], "normal": [0.0, 1.0], "stiffness": 1e4},
    },
    places={"mid": {"on": "two", "at": [2.0, 0.0]}},
    inputs={"load": {"amplitude": 1.0, "rate": 5.0}},
    start={"equilibrium": False, "position": {"swing": 0.1}},
)


@pytest.mark.parametrize("kind", JOINTS)
def test_a_joint_of_each_kind_holds(kind):
    described, state = mechanism_run.prepare(describe(plane(joints={"j": JOINTS[kind]}), "m.toml"), seconds=0.05)
    figures = mechanism_run.simulate(described, state, lambda share, words: None).figures
    assert figures["phi_max"] <= 1e-9 and figures["phid_max"] <= 1e-8


def test_an_angle_can_be_driven_sprung_and_limited():
    described, state = mechanism_run.prepare(describe(DRIVEN, "m.toml"), seconds=0.2)
    figures = mechanism_run.simulate(described, state, lambda share, words: None).figures
    assert figures["phi_max"] <= 1e-9
    assert state["turn"][0] == pytest.approx(0.4, abs=1e-9)


# ---- anything at all -------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["A", "B", "C", "pin", "crank", "ground", "theta", "rod", "slider", "spring", "angle", "", "ü"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats()
    | WORDS
    | st.lists(st.floats(-1e7, 1e7), max_size=4)
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every key and index in it."""
    found = [path] if path else []
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A shipped mechanism with up to three places deleted, renamed or overwritten."""
    data = copy.deepcopy(draw(st.sampled_from([FOUR_BAR, SPATIAL, DRIVEN])))
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(places(data)))
        table = data
        for key in parents:
            table = table[key]
        match draw(st.sampled_from(["delete", "rename", "overwrite", "add"])):
            case "delete":
                del table[last]
            case "rename" if isinstance(table, dict):
                table[draw(WORDS)] = table.pop(last)
            case "add" if isinstance(table, dict):
                table[draw(WORDS)] = draw(LEAVES)
            case _:
                table[last] = draw(LEAVES)
    return data


@settings(max_examples=few(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_either_starts_or_is_refused(data):
    try:
        described, state = mechanism_run.prepare(describe(data, "m.toml"))
    except ConfigError as error:
        message = str(error)
    else:
        message = "m.toml: fine"
        assert np.all(np.isfinite(state.q)) and described.mechanism.n == len(state.q)
    assert all(line.startswith("m.toml: ") for line in message.split("\n"))


def test_the_shipped_files_say_what_they_are():
    for file in FILES:
        described = read_mechanism(file)
        assert described.file.name == file.stem and described.file.title


def test_the_example_of_the_documentation_runs():
    text = (FOLDER.parents[1] / "docs" / "mechanisms.md").read_text()
    example = text.split("```toml\n")[1].split("```")[0]
    described, state = mechanism_run.prepare(describe(tomllib.loads(example), "door.toml"), seconds=0.5)
    figures = mechanism_run.simulate(described, state, lambda share, words: None).figures
    assert figures["ended"] == "finished" and figures["phi_max"] < 1e-9


def test_every_kind_of_joint_and_force_is_documented():
    text = (FOLDER.parents[1] / "docs" / "mechanisms.md").read_text()
    for kind in (*sections.JOINTS, *sections.FORCES):
        assert f"`{kind}`" in text, kind


# ---- what a run says of itself ---------------------------------------------------------------------------------------


def _command(*words: str) -> Any:
    return CliRunner().invoke(app, ["mechanism", *words])


def test_a_duration_that_is_no_multiple_of_the_step_is_kept(tmp_path):
    result = _command(
        str(FOLDER / "pendulum.toml"), "--seconds", "0.01", "--step-ms", "3", "--json", "--runs", str(tmp_path)
    )
    figures = json.loads(result.stdout)
    assert figures["seconds"] == pytest.approx(0.01) and figures["steps"] == 4
    assert figures["freedoms"] == 1 and figures["redundant"] == 0
    (folder,) = tmp_path.iterdir()
    assert open_run(folder).topics["/step"].blocks["time"][-1] == pytest.approx(0.01)


def test_json_of_a_diverged_run_has_no_bare_nan(tmp_path):
    text = (FOLDER / "double_pendulum.toml").read_text().replace("[run]", '[run]\nscheme = "baumgarte"')
    file = tmp_path / "stiff.toml"
    file.write_text(text + '\n[forces]\ns = { kind = "spring", points = ["A", "C"], stiffness = 1e9 }\n')
    result = _command(str(file), "--step-ms", "10", "--json", "--runs", str(tmp_path / "runs"))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert "diverged" in json.loads(result.stdout, parse_constant=refuse)["ended"]
    assert result.exit_code == 3


def test_a_run_in_which_no_step_converges_has_its_exit_code(tmp_path, monkeypatch):
    plain = mechanism_run.Settings
    monkeypatch.setattr(mechanism_run, "Settings", lambda **given: plain(**given, cap=1))
    result = _command(str(FOLDER / "four_bar.toml"), "--seconds", "0.1", "--runs", str(tmp_path))
    assert result.exit_code == 3
    assert "100 of 100 steps did not converge" in result.stderr


def test_a_locked_mechanism_is_said(tmp_path):
    file = tmp_path / "truss.toml"
    file.write_text(
        'name = "truss"\n[run]\nseconds = 0.01\n[points]\nA = { at = [0, 0], fixed = true }\n'
        "B = { at = [1, 0], fixed = true }\nC = { at = [0.5, 1] }\n[bodies]\n"
        'left = { nodes = ["A", "C"], mass = 1 }\nright = { nodes = ["B", "C"], mass = 1 }\n'
    )
    result = _command(str(file), "--runs", str(tmp_path / "runs"))
    assert result.exit_code == 0
    assert "no freedom is left" in result.stderr


def test_a_file_may_hold_a_reaction_wheel_and_its_satellite_turns():
    data = {
        "name": "satellite", "dimension": 3, "gravity": [0.0, 0.0, 0.0], "run": {"seconds": 0.5},
        "points": {"G": {"at": [0.0, 0.0, 0.0]}},
        "vectors": {"u": {"along": [1.0, 0.0, 0.0]}, "v": {"along": [0.0, 1.0, 0.0]}, "w": {"along": [0.0, 0.0, 1.0]}},
        "scalars": {"spin": {}},
        "bodies": {"bus": {"nodes": ["G", "u", "v", "w"], "mass": 5.0, "centre": [0.0, 0.0, 0.0], "inertia": 2.0}},
        "forces": {
            "disc": {"kind": "rotor", "body": "bus", "axis": [0.0, 0.0, 2.0], "scalar": "spin", "inertia": 0.1},
            "motor": {"kind": "torque", "on": "spin", "value": 1.0},
            "jet": {"kind": "torque", "on": "bus", "own": [0.0, 0.0, 0.25]},
        },
    }  # fmt: skip
    described, state = mechanism_run.prepare(describe(data, "m.toml"))
    mechanism_run.simulate(described, state, lambda *_: None)
    assert state.qd[state.system.column("spin")] == pytest.approx(5.0, rel=1e-9)
    # the bus turns back by the motor, ahead by the jet: 2 kg m2 at -0.75 N m for half a second
    angle = np.arctan2(state["u"][1], state["u"][0])
    assert angle == pytest.approx(-0.5 * 0.375 * 0.25, rel=1e-6)


def test_a_drive_may_be_a_smooth_step_and_has_one_law():
    smooth = {"kind": "drive", "scalar": "theta", "smooth_step": [0.0, 1.0, 0.0, 0.5]}
    data = {
        "name": "arm", "run": {"seconds": 0.6},
        "points": {"A": {"at": [0.0, 0.0], "fixed": True}, "B": {"at": [1.0, 0.0]}},
        "bodies": {"arm": {"nodes": ["A", "B"], "mass": 1.0}},
        "joints": {"theta": {"kind": "angle", "bodies": ["ground", "arm"]}, "turn": smooth},
    }  # fmt: skip
    described, state = mechanism_run.prepare(describe(data, "m.toml"))
    mechanism_run.simulate(described, state, lambda *_: None)
    assert state["theta"][0] == pytest.approx(1.0, abs=1e-9)
    data["joints"]["turn"] = smooth | {"polynomial": [0.0]}
    assert "give one law" in refused(data)
