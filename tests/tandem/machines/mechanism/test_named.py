"""Numbers of a mechanism's file as parameters: other values are the file with them; runs have derivatives."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import ShapeDerivatives
from sim_service.many_steps import run_steps
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.ensembles.identify import identify
from tandem.ensembles.many_tangents import tangents
from verify.multibody.shipped import FOLDER

LINKAGE = """
name = "linkage"
dimension = 2
[run]
step_ms = 2.0
[points]
A = { at = [0.0, 0.0], fixed = true }
B = { at = [0.276318298200866, 0.116825502692595] }
C = { at = [0.874, 0.790] }
D = { at = [1.0, 0.0], fixed = true }
E = { at = [0.5, 1.5], fixed = true }
[bodies]
crank = { nodes = ["A", "B"], mass = 1.0 }
coupler = { nodes = ["B", "C"], mass = 2.0 }
rocker = { nodes = ["D", "C"], mass = 2.0 }
[forces]
pull = { kind = "spring", points = ["C", "E"], stiffness = 300.0, length = 0.5, damping = 8.0 }
"""
NAMED = """
machine = "mechanism"
mechanism = "linkage.toml"
[named]
mass = { at = "bodies.coupler.mass", unit = "kg", low = 0.5, high = 5.0 }
stiffness = { at = "forces.pull.stiffness", unit = "N/m", low = 10.0, high = 1000.0 }
pin = { at = "points.D.at.0", unit = "m", low = 0.9, high = 1.1 }
"""
H, STEPS = 2e-3, 200


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "linkage.toml").write_text(LINKAGE)
    (tmp_path / "machine.toml").write_text(NAMED)
    return tmp_path / "machine.toml"


def run(file: Path, **changed: float) -> np.ndarray:
    m, params = load_machine(file, changed)
    state, work = np.zeros(len(m.states)), np.zeros(m.work_size)
    m.initial(state, params, m.tables, work)
    rows, logged = np.zeros((STEPS, len(m.inputs))), np.arange(len(m.outputs))
    log = np.zeros((STEPS, len(logged)))
    bound = m.stepping.bound
    done = run_steps(
        m.step, state, np.zeros(len(m.inputs)), params, m.tables, work, H, rows, logged, log, len(logged), bound
    )
    assert done == STEPS
    return log


def test_another_value_is_the_file_with_it(file: Path) -> None:
    named = run(file, mass=3.0, stiffness=120.0)
    heavier = LINKAGE.replace('"C"], mass = 2.0 }\nrocker', '"C"], mass = 3.0 }\nrocker')
    (file.parent / "linkage.toml").write_text(heavier.replace("stiffness = 300.0", "stiffness = 120.0"))
    assert (named == run(file)).all() and np.ptp(named[:, 0]) > 0.01
    _, params = load_machine(file)
    assert params.tolist() == [3.0, 120.0, 1.0]


def test_derivatives_by_what_moves_nothing_are_those_of_runs(file: Path) -> None:
    m, params = load_machine(file)
    slopes = m.of(ShapeDerivatives)
    assert slopes is not None and slopes.names() == ("mass", "stiffness")  # the pin moves where the loop closes
    rows, logged = np.zeros((STEPS, len(m.inputs))), np.arange(len(m.outputs))
    log, exact, done = tangents(m, params, [0, 1], rows, logged, H)
    assert done == STEPS and (log == run(file)).all()
    for lane, (name, value) in enumerate((("mass", 2.0), ("stiffness", 300.0))):
        far = 1e-3 * value
        near, wide = (run(file, **{name: value + k * far}) - run(file, **{name: value - k * far}) for k in (1, 2))
        by = (8.0 * near - wide) / (12.0 * far)
        assert np.abs(by - exact[:, :, lane]).max() < 1e-6 * np.abs(by).max()


def test_an_identification_finds_them(file: Path) -> None:
    made = run(file, mass=2.6, stiffness=340.0)
    t = H * np.arange(STEPS + 1)
    start = np.array([0.874, 0.790])
    random = np.random.default_rng(0)
    rows = np.column_stack([t, np.vstack([start, made[:, [4, 6]]]) + 1e-5 * random.standard_normal((STEPS + 1, 2))])
    np.savetxt(file.parent / "rows.csv", rows, delimiter=",", header="t,C_x,C_y", comments="")
    ranges = {"mass": (1.0, 4.0), "stiffness": (100.0, 900.0)}
    found = identify({
        "name": "linkage", "machine": str(file), "step_ms": 1e3 * H, "records": [str(file.parent / "rows.csv")],
        "measured": {name: {"sigma": 1e-5} for name in ("C_x", "C_y")},
        "parameters": {name: {"low": low, "high": high} for name, (low, high) in ranges.items()},
    })  # fmt: skip
    assert found.sensitivities == "exact"
    assert found.values.tolist() == pytest.approx([2.6, 340.0], rel=2e-3)


@pytest.mark.parametrize(
    "line, said",
    [
        ('mass = { at = "bodies.spoon.mass" }', r"named\.mass\.at = 'bodies\.spoon\.mass': there is no 'spoon' in .*;"
         r" there are crank, coupler, rocker"),
        ('mass = { at = "points.D.at.5" }', r"there is no '5' in .*; there are 0 to 1"),
        ('mass = { at = "bodies.crank.mass.kg" }', r"there is no 'kg' in .*; there are none"),
        ('mass = { at = "points.A.fixed" }', r"is True in .*; must be a number"),
        ('mass = { at = "bodies.crank.nodes" }', r"is \['A', 'B'\] in .*; must be a number"),
        ('mass = { at = "mass" }', r"named\.mass\.at"),
        ('mass = { at = "bodies.crank.mass", low = 2.0 }', r"bodies\.crank\.mass is 1 in .*; must be from 2 to 1e\+12"),
        ('mass = { at = "bodies.crank.mass", low = -5.0 }\n[parameters]\nmass = -2.0', r"mass"),
        ('mass = { at = "bodies.crank.mass" }\n[parameters]\nweight = 2.0', r"parameters\.weight = 2: unknown"),
        ('"a b" = { at = "bodies.crank.mass" }', r"named\.a b: must be of letters \(a to z\), digits and _"),
        ('"é" = { at = "bodies.crank.mass" }', r"named\.é: must be of letters \(a to z\)"),
        ('m = { at = "bodies.crank.mass", low = 3.0, high = 2.0 }', r"named\.m: low = 3 must be less than high = 2"),
        (
            'm = { at = "bodies.crank.mass" }\nn = { at = "bodies.crank.mass" }',
            r"named\.n: bodies\.crank\.mass is named m already",
        ),
        ('mass = { at = "bodies.crank.mass", high = inf }', r"named\.mass\.high"),
    ],
)  # fmt: skip
def test_what_is_no_number_of_the_file_is_refused(file: Path, line: str, said: str) -> None:
    file.write_text(f'machine = "mechanism"\nmechanism = "linkage.toml"\n[named]\n{line}\n')
    with pytest.raises(ConfigError, match=said):
        load_machine(file)


def test_a_file_with_a_date_is_refused_in_a_sentence(file: Path) -> None:
    text = LINKAGE.replace("coupler = {", "made = 2026-01-01\ncoupler = {")
    (file.parent / "linkage.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"bodies\.made"):
        load_machine(file)


def test_a_number_of_a_robot_under_control_has_a_name_and_names_of_the_control_are_taken(tmp_path: Path) -> None:
    arm = (FOLDER.parent / "robot" / "arm.toml").read_text()
    arm = arm.replace("../mechanisms", str(FOLDER))
    body = next(iter(tomllib.loads((FOLDER / "robot_6r.toml").read_text())["bodies"]))
    at = f'{{ at = "bodies.{body}.mass" }}'
    robot = tmp_path / "robot.toml"
    robot.write_text(f"{arm}\n[named]\nload = {at}\n")
    m, params = load_machine(robot, {"load": 9.0})
    assert m.parameters[-1].name == "load" and params[-1] == 9.0 and len(params) == len(m.parameters)
    state, work = np.zeros(len(m.states)), np.zeros(m.work_size)
    m.initial(state, params, m.tables, work)
    m.step(state, np.full(len(m.inputs), np.nan), params, m.tables, work, 1e-3)
    assert np.isfinite(work[: len(m.outputs)]).all()
    robot.write_text(f"{arm}\n[named]\ncontrol_rate = {at}\n")
    with pytest.raises(ConfigError, match=r"named\.control_rate: is a parameter of the control"):
        load_machine(robot)
