"""Parameters from measurements: those of a machine with hidden values are found, and what cannot be told is said."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tandem
from sync.errors import ConfigError
from tandem.ensembles.identify import identify, remarks, report, rows, summary
from tandem.reports.html.report_page import report_page

HIDDEN = {"mass": 0.7, "stiffness": 260.0, "damping": 3.1}
NOISE = 2e-4  # m


def record(path: Path, seed: int, noise: float = NOISE, steps: int = 1500) -> Path:
    """A measurement of the mass with hidden parameters: the handle is shaken, position and force are read."""
    random = np.random.default_rng(seed)
    t = 1e-3 * np.arange(steps)
    handle = 0.03 * np.sin(2.0 * np.pi * (1.0 + 3.0 * t) * t)
    made = tandem.load_machine("mass_spring", HIDDEN).run({"handle": handle}, step_s=1e-3)
    ends = np.concatenate([[0.0], made["position"]]), np.concatenate([[0.0], made["hand_force"]])
    columns = {
        "t": 1e-3 * np.arange(steps + 1), "handle": np.append(handle, handle[-1]),
        "position": ends[0] + noise * random.standard_normal(steps + 1),
        "force": ends[1] + 100.0 * noise * random.standard_normal(steps + 1),
    }  # fmt: skip
    header = ",".join(columns)
    np.savetxt(path, np.column_stack(list(columns.values())), fmt="%.17g", delimiter=",", header=header, comments="")
    return path


def study(*records: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "pulled", "machine": "mass_spring", "step_ms": 1.0, "records": [str(file) for file in records],
        "measured": {"position": {"sigma": NOISE}, "hand_force": {"channel": "force", "sigma": 100.0 * NOISE}},
        "parameters": {
            "mass": {"low": 0.2, "high": 2.0},
            "stiffness": {"low": 100.0, "high": 500.0},
            "damping": {"low": 0.5, "high": 10.0},
        },
        **changes,
    }  # fmt: skip


def test_hidden_values_are_found_to_the_digits_of_the_data_where_there_is_no_noise(tmp_path: Path) -> None:
    found = identify(study(record(tmp_path / "a.csv", 1, noise=0.0)))
    assert found.values == pytest.approx(list(HIDDEN.values()), rel=1e-6)
    assert found.combinations == [] and found.at_bounds == ()


def test_intervals_hold_the_hidden_values_as_often_as_they_say(tmp_path: Path) -> None:
    inside, scores = 0, []
    for seed in range(12):
        found = identify(study(record(tmp_path / f"{seed}.csv", seed)))
        hidden = np.array(list(HIDDEN.values()))
        inside += int(((found.low < hidden) & (hidden < found.high)).sum())
        scores.append((found.values - hidden) / found.deviations)
    assert inside >= 30  # of 36; 34 are expected, fewer than 30 come once in three thousand
    assert 0.5 < np.std(scores) < 1.5  # errors are as large as said, not only smaller


def test_several_records_tell_more_than_one(tmp_path: Path) -> None:
    files = [record(tmp_path / f"{k}.csv", k) for k in range(4)]
    one, four = identify(study(files[0])), identify(study(*files))
    assert four.deviations == pytest.approx(one.deviations / 2.0, rel=0.05)


def test_noise_that_is_not_given_is_found(tmp_path: Path) -> None:
    both = {"position": {}, "hand_force": {"channel": "force"}}
    found = identify(study(record(tmp_path / "a.csv", 3), measured=both))
    assert found.sigmas["position"] == pytest.approx(NOISE, rel=0.1)
    assert found.sigmas["hand_force"] == pytest.approx(100.0 * NOISE, rel=0.1)


def test_what_the_data_do_not_tell_is_named_and_gets_no_interval(tmp_path: Path) -> None:
    """The position alone knows stiffness and damping per mass; who makes all three larger changes nothing."""
    found = identify(study(record(tmp_path / "a.csv", 1), measured={"position": {"sigma": NOISE}}))
    (combination,) = found.combinations
    assert set(combination.weights) == {"mass", "stiffness", "damping"}
    told = {name: k for k, name in enumerate(found.problem.names) if name in combination.weights}
    assert all(np.isnan(found.deviations[k]) for k in told.values())
    assert found.values[1] / found.values[0] == pytest.approx(260.0 / 0.7, rel=1e-3)
    assert "not told by the data" in str(rows(found)) and "not told apart" in report_page(report(found))


def test_a_prior_tells_what_the_data_do_not(tmp_path: Path) -> None:
    known = study(record(tmp_path / "a.csv", 1), measured={"position": {"sigma": NOISE}})
    known["parameters"]["mass"] |= {"prior": 0.7, "prior_sigma": 0.01}
    found = identify(known)
    assert found.combinations == [] and found.values == pytest.approx(list(HIDDEN.values()), rel=0.02)
    assert found.deviations[0] == pytest.approx(0.01, rel=0.05)


def test_sensitivity_alone_fits_nothing(tmp_path: Path) -> None:
    found = identify(study(record(tmp_path / "a.csv", 1)), only_sensitivity=True)
    assert (found.values == found.problem.start).all() and found.iterations == 0
    # a tenth of the range of the stiffness, by two runs
    model = tandem.load_machine("mass_spring")
    ends = []
    for sign in (1.0, -1.0):
        other = tandem.load_machine("mass_spring", {"stiffness": model.parameters["stiffness"] + sign * 0.004})
        handle = found.problem.job.gathered.data["rows"][0][:, 0]
        ends.append(other.run({"handle": handle}, step_s=1e-3)["position"])
    effect = (ends[0] - ends[1]) / 0.008 * 40.0 / NOISE
    assert found.influence["stiffness"]["position"] == pytest.approx(np.sqrt(np.mean(effect**2)), rel=1e-6)
    assert summary(found)["message"].startswith("not fitted")


def test_exact_sensitivities_and_differences_give_the_same_answer(tmp_path: Path) -> None:
    given = study(record(tmp_path / "a.csv", 5))
    given["parameters"]["mass"] |= {"prior": 0.7, "prior_sigma": 0.01}
    exact, differences = (identify({**given, "solver": {"sensitivities": how}}) for how in ("exact", "differences"))
    assert (exact.sensitivities, differences.sensitivities) == ("exact", "differences")
    assert (
        "sensitivities: exact" in "\n".join(remarks(exact)) and summary(differences)["sensitivities"] == "differences"
    )
    assert (np.abs(exact.values - differences.values) < 1e-3 * exact.deviations).all()
    assert exact.deviations == pytest.approx(differences.deviations, rel=1e-4)
    assert exact.runs < differences.runs < 7 * differences.iterations  # one trial and six differences in each


def test_simultaneous_intervals_are_wider_than_single_ones_and_narrower_than_the_ellipsoid(tmp_path: Path) -> None:
    found = identify(study(record(tmp_path / "a.csv", 5)))
    assert 1.96 < found.joint_factor < found.ellipsoid_factor
    assert (found.joint_low < found.low).all() and (found.high < found.joint_high).all()
    assert found.distance(found.values) == 0.0
    along = found.values + found.deviations * [1.0, 0.0, 0.0]  # one alone: its correlations make it farther
    assert found.distance(along) >= 1.0


def test_a_value_beyond_its_bounds_is_said(tmp_path: Path) -> None:
    tight = study(record(tmp_path / "a.csv", 1))
    tight["parameters"]["damping"] = {"low": 0.5, "high": 2.5}
    assert identify(tight).at_bounds == ("damping",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"mas": {"low": 1.0, "high": 2.0}}}, ["parameters.mas", "mass"]),
        ({"parameters": {"mass": {"low": 2.0, "high": 1.0}}}, ["low must be below high"]),
        ({"parameters": {"mass": {"low": 1.0, "high": 2.0}}}, ["begins at 0.5"]),
        ({"parameters": {"mass": {"low": 0.1, "high": 1e6}}}, ["takes 0.01 to 100 kg"]),
        ({"records": ["none.csv"]}, ["study: records", "none.csv"]),
        ({"set": {"damp": 1.0}}, ["study: set.damp"]),
        ({"measured": {"speed": {}}}, ["measured.speed", "velocity"]),
        ({"measured": {"velocity": {}}}, ["no column velocity", "position"]),
    ],
)
def test_a_wrong_study_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        identify(study(record(tmp_path / "a.csv", 1, steps=20), **changes))
    assert all(word in str(caught.value) for word in words)


def test_an_interval_that_reaches_beyond_its_bounds_is_remarked_upon(tmp_path: Path) -> None:
    file, given = record(tmp_path / "a.csv", 1), {"set": {"damping": HIDDEN["damping"], "mass": HIDDEN["mass"]}}
    wide = identify(study(file, parameters={"stiffness": {"low": 100.0, "high": 500.0}}, **given))
    assert rows(wide)[0][-1] == ""
    value, half = float(wide.values[0]), 1.5 * float(wide.deviations[0])
    bounds = {"low": value - half, "high": value + half, "start": value}
    narrow = identify(study(file, parameters={"stiffness": bounds}, **given))
    assert rows(narrow)[0][-1] == "interval reaches beyond its bounds"


def test_data_that_are_not_whole_are_refused_by_column_and_row(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,handel,position,force\n0.0,0.0,0.0,0.0\n0.1,0.0,0.0,0.0\n")
    with pytest.raises(ConfigError, match="no column handle"):
        identify(study(file))
    file.write_text("t,handle,position,force\n0.0,0.0,0.0,0.0\n0.1,inf,0.0,0.0\n")
    with pytest.raises(ConfigError, match="column handle, row 2: inf"):
        identify(study(file))
    file.write_text("t,handle,position,force\n0.0,0.0,0.0,0.0\n0.1,,0.0,0.0\n")
    with pytest.raises(ConfigError, match="column handle: 1 of 2 rows have a number"):
        identify(study(file))
