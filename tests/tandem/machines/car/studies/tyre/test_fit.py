"""A fit finds the tyre that its rows are of, stays sound, and judges itself by rows that it did not see."""

import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sync.errors import ConfigError
from tandem.commands import cli
from tandem.machines.car.studies.tyre.figures import against, key_figures
from tandem.machines.car.studies.tyre.fit import (
    DENSE,
    STAGES,
    fit,
    forces,
    grid,
    opened,
    soundness,
    unused_blocks,
    vector,
)
from tandem.machines.car.studies.tyre.rows import Rows, read_rows
from tandem.machines.car.studies.tyre.written import property_file
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.tir import parse_tir, read_tir, tyre_vector

NOISE = 0.01  # of the nominal load
FILES = Path(__file__).resolve().parents[5] / "data" / "real" / "tyres"


def rig(version: int, combined: bool = False, count: int = 2000) -> Rows:
    """Sweeps of a published tyre with some noise."""
    tir = read_tir(FILES / f"MagicFormula{version}_Parameters.tir", tolerant=True)
    rng, nominal = np.random.default_rng(2), tir["FNOMIN"]
    time = np.arange(count)
    columns = {
        "alpha": 0.2 * np.sin(0.05 * time), "fz": nominal * np.repeat(rng.choice([0.4, 0.8, 1.2], count // 100), 100),
        "camber": np.repeat(rng.choice([-0.05, 0.0, 0.05], count // 100), 100),
    }  # fmt: skip
    if version > 60:
        columns["pressure"] = np.repeat(rng.choice([2.2e5, 2.6e5, 3.2e5], count // 100), 100)
    if combined:
        columns["kappa"] = np.repeat(rng.choice([0.0, 0.0, 1.0], count // 100), 100) * 0.15 * np.sin(0.13 * time)
        columns["alpha"][3 * count // 4 :] = 0.0
        columns["kappa"][3 * count // 4 :] = 0.15 * np.sin(0.13 * time[3 * count // 4 :])
    rows = Rows("rig", columns)
    p = opened(tyre_vector(tir), rows)
    p[T.MIRROR] = 1.0
    found = forces(p, rows)
    noise = NOISE * nominal * rng.normal(size=count)
    return Rows("rig", columns | {"fy": found[:, 1] + noise, "fx": found[:, 0] + noise})


STAND_IN = {
    "VERTICAL_STIFFNESS": 2e5, "PCX1": 1.6, "PDX1": 1.0, "PKX1": 20.0, "PCY1": 1.4, "PDY1": 1.0, "PKY1": -20.0,
    "PKY2": 1.5, "PEY1": -0.5,
}  # fmt: skip
GIVEN = {"UNLOADED_RADIUS": 0.35, "VERTICAL_STIFFNESS": 3e5}


@pytest.mark.parametrize(("version", "of"), [("5.2", 52), ("6.1", 61)])
def test_the_tyre_of_the_rows_is_found_and_written_as_a_sound_file(version: str, of: int) -> None:
    rows = rig(of)
    fitted = fit(rows, version, GIVEN)
    (lateral,) = fitted.stages
    assert lateral["title"] == "lateral force"
    noise = NOISE * (6752.0 if of > 60 else 9416.6) / float(np.sqrt(np.mean(rows.columns["fy"] ** 2)))
    assert 0.8 * noise < lateral["unused"] < 1.2 * noise, noise
    tir = parse_tir(fitted.text, "written.tir")  # strictly
    assert tir.version == f"MF {version}" and tir["UNLOADED_RADIUS"] == 0.35
    p = tyre_vector(tir)
    for load in np.linspace(0.125 * tir["FNOMIN"], tir["FZMAX"], 9):
        df = load / tir["FNOMIN"] - 1.0
        assert tir["PDY1"] + tir["PDY2"] * df > 0.0 and tir["PEY1"] + tir["PEY2"] * df <= 1.0, load
    assert np.isfinite(forces(p, rows)).all()
    assert all(half >= 0.0 for half in fitted.intervals.values())
    assert any("longitudinal force: no rows" in remark for remark in fitted.remarks)
    assert any(
        remark.startswith("left at 0, because rows of slip tell nothing about it: PTX1") for remark in fitted.remarks
    )


@pytest.mark.parametrize(("version", "form"), [("5.2", "'MF-TYRE'\nFITTYP = 6"), ("6.1", "'USER'\nFITTYP = 61")])
def test_other_programs_read_what_is_written_and_compute_the_same(version: str, form: str) -> None:
    text = property_file(version, {"FNOMIN": 3000.0, "UNLOADED_RADIUS": 0.3}, ["a remark"])
    assert text.splitlines()[:2] == ["$ a remark", "[MDI_HEADER]"]
    assert f"[MODEL]\nPROPERTY_FILE_FORMAT = {form}\n" in text
    assert "TANDEM" not in text and "FRICTION_ELLIPSE" not in text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"PEY1": 0.9, "PEY2": 0.4}, "E is above 1 on the one side or the other at "),
        ({"PEY1": 0.9, "PEY4": 3.0}, "E is above 1"),  # with camber, on one side
        ({"PDY2": -0.62}, "the peak nearly vanishes at 7"),
        ({"PKY3": 12.0}, "the slip stiffness nearly vanishes"),
        ({"PHY1": 0.3}, "slip is not resisted at "),
    ],
)
def test_a_formula_that_is_unsound_anywhere_on_its_grid_is_found(changed: dict[str, float], said: str) -> None:
    sound = {"FNOMIN": 3000.0, "FZMAX": 7800.0, "CAMMAX": 0.1, "CAMMIN": -0.1, "UNLOADED_RADIUS": 0.3, **STAND_IN}
    camber = np.array([-0.08, 0.08])
    rows = Rows("rig", {"fz": np.array([1e3, 6e3]), "alpha": np.zeros(2), "fy": np.zeros(2), "camber": camber})
    p = vector(property_file("5.2", sound, ()), rows)
    for name, value in changed.items():
        p[T[name]] = value
    found = soundness(STAGES[0], p, grid(rows, sound, "5.2", DENSE))
    assert found.startswith(said) and bool(found) == bool(said), found


def test_rows_that_ask_for_an_unsound_formula_get_a_sound_one() -> None:
    """Friction that falls with load as no tyre's does, so that a free fit would have none at the heaviest load."""
    rows = rig(52)
    hard = Rows("rig", rows.columns | {"fy": rows.columns["fy"] * (1.0 - 0.66 * rows.columns["fz"] / 9416.6)})
    tir = parse_tir(fit(hard, "5.2", GIVEN).text, "a")
    assert all(tir["PDY1"] + tir["PDY2"] * (load / tir["FNOMIN"] - 1.0) > 0.0 for load in (0.0, tir["FZMAX"]))


def test_a_fit_that_stays_unsound_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lateral force: the fit is unsound: E is above 1 .*; rows of more loads"):
        fit(rig(52), "5.2", GIVEN | {"PEY1": 1.5, "PEY2": 0.0, "PEY3": 0.0, "PEY4": 0.0})


def test_pure_slip_comes_before_combined_slip() -> None:
    fitted = fit(rig(52, combined=True), "5.2", GIVEN)
    assert [stage["title"] for stage in fitted.stages] == [
        "lateral force", "longitudinal force", "longitudinal force in combined slip", "lateral force in combined slip",
    ]  # fmt: skip
    assert all(stage["unused"] < 0.06 for stage in fitted.stages)


def test_rows_that_judge_are_a_tenth_in_blocks() -> None:
    unused = unused_blocks(10_000)
    assert unused.mean() == 0.1
    assert (np.diff(np.flatnonzero(np.diff(unused.astype(int))))[::2] == 100).all()


@pytest.mark.parametrize("name", ["MagicFormula52_Parameters", "MagicFormula61_Parameters", "chrono_HMMWV_Pac02Tire"])
def test_key_figures_of_published_files_are_those_of_tyres(name: str) -> None:
    figures = key_figures(read_tir(FILES / f"{name}.tir", tolerant=True))
    for row in figures["at"]:
        assert 0.3 < row["friction_y"] < 2.0 and row["stiffness_y"] > 1.0
        assert 0.01 < row["relaxation_y"] < 3.0


def test_commands_show_compare_and_fit(tmp_path: Path) -> None:
    rows = rig(52)
    table = np.stack([rows.columns[name] for name in ("alpha", "fz", "camber", "fy")], axis=1)
    np.savetxt(tmp_path / "rig.csv", table, delimiter=",", header="SA [rad],FZ [N],IA [rad],FY [N]", comments="")
    run = CliRunner().invoke
    made, page = tmp_path / "made.tir", tmp_path / "made.html"
    wanted = ["--to", str(made), "--version", "5.2", "--out", str(page)]
    found = run(cli.app, ["tyre", "fit", str(tmp_path / "rig.csv"), *wanted])
    assert found.exit_code == 0, found.output
    assert "lateral force" in found.output and "<svg" in page.read_text()
    other = FILES / "MagicFormula52_Parameters.tir"
    found = run(cli.app, ["tyre", "compare", str(made), str(other), str(tmp_path / "rig.csv")])
    assert found.exit_code == 0 and "left of the rms" in found.output
    found = run(cli.app, ["tyre", "show", str(other), "--strict"])
    assert found.exit_code == 2 and "USER_SUB_ID: unknown key" in found.output
    found = run(cli.app, ["tyre", "show", str(other)])
    assert found.exit_code == 0 and "USER_SUB_ID = 815" in found.output


@pytest.mark.skipif(not os.environ.get("TANDEM_REAL_DATA"), reason="TANDEM_REAL_DATA is not set: the rows are not here")
@pytest.mark.parametrize(("version", "most"), [("5.2", 0.065), ("6.1", 0.05)])
def test_cornering_rows_of_a_rig_are_met(version: str, most: float) -> None:
    rows = read_rows(Path(os.environ["TANDEM_REAL_DATA"]) / "tyres" / "cornering.mat")
    fitted = fit(rows, version, {})
    assert fitted.stages[0]["unused"] <= most
    published = read_tir(Path(os.environ["TANDEM_REAL_DATA"]) / "tyres" / "obfuscated_v52.tir", tolerant=True)
    assert against(published, rows)["fy"]["left"] > 0.08
