"""A machine judged by windows it was not fitted to: shares, regions, drift, curves, the worst window, a verdict."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.registry import configured_machine
from sync.config.config import load
from sync.errors import ConfigError
from sync.record import open_run
from tandem.ensembles.agreement import agreement
from tandem.ensembles.identify import identify, warnings
from tandem.ensembles.identify import summary as identified
from tandem.ensembles.validate import NOT_VALID, VALID, headline, remarks, report, summary, validate
from tandem.ensembles.window_record import write_window
from tandem.ensembles.windows import Measured
from tandem.records.replay import Options, replay_run
from tandem.reports.html.page import json_ready
from tandem.reports.html.report_page import report_page
from tests.tandem.ensembles.test_correlated import HIDDEN, SIGMA, columns, written

WINDOWS = {"seconds": 0.5, "fitted": [[0.0, 2.0]], "unused": [[2.0, 6.0]]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data") / "a.csv", columns(5, 6000))


def study(file: Path, **changes: Any) -> dict[str, Any]:
    curve = {"channel": "velocity", "of": "position", "edges": [0.0, 0.2, 0.4, 0.8], "size": True}
    return {
        "name": "judged", "machine": "mass_spring", "step_ms": 1.0, "records": [str(file)], "set": HIDDEN,
        "measured": {
            "position": {"tolerance": 3.0 * SIGMA},
            "hand_force": {"channel": "force", "tolerance": 900.0 * SIGMA, "tolerance_share": 0.05},
            "velocity": {"channel": "v", "tolerance": 0.02},
        },
        "windows": WINDOWS, "start": {"x": "x", "v": {"channel": "v", "scale": 1.0}},
        "validation": {
            "inside": 0.95, "explained": 0.9, "curves": {"swing": curve},
            "regions": {"speed": {"channel": "velocity", "edges": [0.0, 0.2, 2.0], "size": True}},
        },
        **changes,
    }  # fmt: skip


def test_the_right_machine_is_valid_and_a_wrong_one_is_not(data: Path) -> None:
    right = validate(study(data))
    assert right.code == VALID and right.complaints == [] and headline(right).startswith("VALID")
    assert (len(right.problem.windows), right.problem.fitted) == (12, 4)
    wrong = validate(study(data), settings={"stiffness": 400.0})
    assert wrong.code == NOT_VALID and headline(wrong).startswith("NOT VALID")
    assert any("position" in line and "within the tolerance" in line for line in wrong.complaints)
    assert wrong.unused["position"].error > 3.0 * right.unused["position"].error
    assert "OUTSIDE" in report_page(report(wrong)) and "OUTSIDE" not in report_page(report(right))
    json.dumps(json_ready(summary(wrong)))


def test_figures_are_those_of_their_definitions() -> None:
    measured, simulated = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.5, 2.0, 2.2, 6.0])
    found = agreement(measured, simulated, Measured(tolerance=0.1, tolerance_share=0.3))
    assert found.inside == 0.75  # 0.5 is beyond 0.1 + 0.3, 0.8 is within 0.1 + 0.9
    assert (found.bias, found.largest, found.error) == pytest.approx((-0.075, 0.8, (0.89 / 4.0) ** 0.5))
    assert found.explained == pytest.approx(1.0 - 0.89 / 14.0)


def test_regions_hold_all_steps_between_their_edges_and_a_drift_its_time(data: Path) -> None:
    done = validate(study(data))
    figures = summary(done)
    speeds = np.abs(np.concatenate([w.measured["velocity"] for w in done.problem.windows[done.problem.fitted :]]))
    there = {row[2]: int(row[3]) for row in figures["regions"] if row[0] == "position"}
    assert there == {"0 … 0.2": int((speeds < 0.2).sum()), "0.2 … 2": int((speeds >= 0.2).sum())}
    at, values = figures["drift"]["position"]
    assert len(at) == 10 and at[0] == pytest.approx(0.025) and all(v < 3.0 * SIGMA for v in values)


def test_a_curve_has_the_mean_of_what_was_measured_its_scatter_and_a_band(data: Path) -> None:
    for point in validate(study(data)).curves()["swing"]:
        assert point.inside and point.tolerance == pytest.approx(3.0 * SIGMA) and 0.0 < point.scatter < 0.01
        assert abs(point.simulated - point.measured) < 2.0 * SIGMA
    off = validate(study(data), settings={"stiffness": 150.0})
    assert not all(point.inside for point in off.curves()["swing"]) and "curve swing" in "".join(off.complaints)


def test_the_parameters_of_a_report_of_identify_are_taken(data: Path, tmp_path: Path) -> None:
    given = {**study(data), "set": {}, "parameters": {"stiffness": {"low": 100.0, "high": 500.0}}}
    given |= {"set": {"mass": HIDDEN["mass"], "damping": HIDDEN["damping"]}}
    assert validate(given).code == NOT_VALID  # of its own stiffness
    (tmp_path / "report.json").write_text(json.dumps(json_ready(identified(identify(given)))))
    done = validate(given, found=tmp_path)
    assert done.code == VALID and done.problem.study.set["stiffness"] == pytest.approx(260.0, rel=0.02)
    (tmp_path / "report.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"--found .*: is no report\.json of tandem identify"):
        validate(given, found=tmp_path)
    with pytest.raises(ConfigError, match=r"--found .*: No such file"):
        validate(given, found=tmp_path / "none")


def test_the_worst_window_is_a_run_that_begins_in_motion_and_replays_to_the_bit(data: Path, tmp_path: Path) -> None:
    """Two ways to its motion: the study's, and a replay of blocks through inputs, from the recorded start."""
    done = validate(study(data), settings={"stiffness": 280.0})
    window = done.problem.windows[done.worst]
    assert not window.fitted and str(window) in "".join(remarks(done))
    folder = write_window(done.problem, done.worst, tmp_path / "worst")
    again = replay_run(folder, Options("exact"))
    assert again.figures["steps"] == 500 and again.figures["identical"]
    assert again.columns()["position"] == pytest.approx(done.simulated[done.worst]["position"], abs=1e-7)
    assert again.run.topics["/measured"].blocks["position"] == pytest.approx(window.measured["position"])


def test_a_window_in_which_the_machine_diverges_is_a_verdict_not_an_end(data: Path) -> None:
    done = validate(study(data, start={"x": 1e12, "v": "v"}))
    assert done.code == NOT_VALID and len(done.diverged) == 12 and "diverges in" in done.complaints[0]
    json.dumps(json_ready(summary(done)), allow_nan=False)
    report_page(report(done))


def test_one_window_that_diverges_leaves_the_figures_of_the_others_the_fit_and_a_worst_run(tmp_path: Path) -> None:
    table = columns(5, 6000)
    table["x"][5500] = 1e12  # where the last window begins
    given = study(written(tmp_path / "a.csv", table))
    done = validate(given)
    assert done.code == NOT_VALID and len(done.diverged) == 1 and done.unused["position"].explained > 0.95
    assert done.worst == len(done.problem.windows) - 1
    written_run = open_run(write_window(done.problem, done.worst, tmp_path / "worst"))
    assert 0 < len(written_run.topics["/step"]) <= 500
    report_page(report(done))
    parameters = {"stiffness": {"low": 100.0, "high": 500.0}}
    found = identify({**given, "parameters": parameters, "set": {k: HIDDEN[k] for k in ("mass", "damping")}})
    assert found.values == pytest.approx([260.0], rel=0.02) and len(found.diverged) == 1
    assert "diverges in 1 unused windows" in "".join(warnings(found))
    json.dumps(json_ready(identified(found)), allow_nan=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"windows": {"fitted": [[0.0, 6.0]]}}, ["windows.unused: is missing"]),
        ({"windows": {"unused": [[5.0, 9.0]]}}, ["windows.unused[0] = [5, 9]", "has 0 to 6 s"]),
        ({"validation": {"regions": {"a": {"channel": "x", "edges": [0, 1]}}}}, ["regions.a: x is not measured"]),
        ({"validation": {"regions": {"a": {"channel": "position", "edges": [1, 0]}}}}, ["edges must rise"]),
        ({"validation": {"inside": 1.5}}, ["validation.inside = 1.5"]),
        ({"measured": {"position": {"tolerance": -1.0}}}, ["measured.position.tolerance = -1"]),
    ],
)  # fmt: skip
def test_a_wrong_study_is_a_sentence(data: Path, changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(study(data, **changes))
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_configuration_has_its_machine_begin_in_motion(tmp_path: Path) -> None:
    folder = Path(__file__).resolve().parents[3] / "configs"
    settings = ["sim.machine=vehicles/buggy_single_track.toml", "sim.start={vx = 15.0, yaw_rate = 0.2}"]
    machine, params = configured_machine(load(folder / "drive.toml", settings), folder)
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    names = [q.name for q in machine.outputs]
    assert (work[names.index("vx")], work[names.index("yaw_rate")]) == (15.0, 0.2)
    with pytest.raises(ConfigError, match=r"sim\.start\.speed: single_track begins with x, y, yaw, vx"):
        configured_machine(load(folder / "drive.toml", [settings[0], "sim.start={speed = 1.0}"]), folder)
