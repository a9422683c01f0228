"""`tandem observe`: a twin experiment from its file to its figures, and what is refused."""

import json

import pytest
from typer.testing import CliRunner

from tandem.commands.cli import app
from tandem.console.shipped_configs import CONFIGS

TILTING = CONFIGS / "observers" / "tilting.toml"


def run(*arguments):
    return CliRunner().invoke(app, ["observe", *map(str, arguments)])


@pytest.mark.drill
def test_forms_of_the_filter_are_told_beside_each_other(tmp_path):
    """Exact beats constant, agrees with unscented, and smoothing beats it; seeds give the same figures again."""
    study = tmp_path / "study.toml"
    study.write_text(TILTING.read_text().replace("settle_s = 4.0", "settle_s = 1.0"))
    options = ("--count", 2, "--seconds", 2, "--json", "--runs", tmp_path / "runs")
    result = run(study, "--forms", "exact,constant,unscented,smoothed", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[0])
    roll = {form: figures["watched"]["roll"]["all"] for form, figures in found.items()}
    assert 0.0 < roll["smoothed"] < roll["exact"] < 0.8 * roll["constant"]
    assert abs(roll["unscented"] - roll["exact"]) < 0.1 * roll["exact"]
    assert found["exact"]["sensors"]["speed"]["late"] > 50 and found["exact"]["nees"]["above"] < 0.2
    assert (next((tmp_path / "runs").iterdir()) / "report.html").read_text().count("NEES") >= 2
    again = json.loads(run(study, "--forms", "exact", *options).stdout.splitlines()[0])
    for key in ("watched", "nees", "quantities", "sensors"):
        assert again["exact"][key] == found["exact"][key]


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('estimated = ["mass"]', 'estimated = ["weight"]', "filter.estimated: 'weight': must be one of bank, mass"),
        ('signal = "joint"', 'signal = "elbow"', "sensors.potentiometer: signal 'elbow': must be one of"),
        ("[filter.states]\nroll = ", "[filter.states]\nrol = ", "filter.states.rol: fits none of roll, roll_rate"),
        ("[watch]\nroll = ", "[watch]\nrole = ", "watch.role: role: no quantity of this machine; did you mean roll"),
        ('[inputs.steer]\nkind = "waves"', '[inputs.steer]\nkind = "noise"', "inputs.steer.kind = 'noise': must be"),
        (
            'file = "tilting"',
            'file = "tilting"\ntop = { machine = "x" }',
            "machine.top.machine = 'x': sim.machine has machine",
        ),
        (
            'file = "tilting"',
            'file = "mass_spring"',
            "machine.file = 'mass_spring': must be one of buggy, single_track, tilting",
        ),
        ("step_ms = 5.0", "step_ms = 500.0", "step_ms = 500.0"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_key_and_value(tmp_path, old, new, message):
    text = TILTING.read_text()
    assert old in text
    file = tmp_path / "study.toml"
    file.write_text(text.replace(old, new))
    result = run(file)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split()) and str(file) in result.stderr.replace("\n", "")


def test_options_of_the_other_kind_are_refused_by_name(tmp_path):
    for options in (("--count", 2), ("--forms", "exact"), ("--true-model",), ("--seconds", 3)):
        result = run(tmp_path, *options)  # a folder is a recorded run
        assert result.exit_code == 2 and f"{options[0]}" in result.stderr and "is a recorded run" in result.stderr
    for options in (("--tuning", tmp_path), ("--truth", tmp_path), ("--no-smooth",)):
        result = run(TILTING, *options)
        assert result.exit_code == 2 and f"{options[0]}" in result.stderr and "is a twin experiment" in result.stderr


def test_settings_in_front_of_a_file_may_hold_quotes_and_are_named_where_they_stand():
    from sim_service.registry import FILE, MachineFiles

    files = MachineFiles({FILE: b'machine = "buggy"\n'}, {FILE: "car.toml"})
    made = files.with_settings({"formulation": 'rel"ative\\'}, "study.toml: machine.top")
    assert made.toml()["formulation"] == 'rel"ative\\' and made.name() == "car.toml (with study.toml: machine.top)"


def test_a_form_that_is_none_is_refused():
    result = run(TILTING, "--forms", "exact,best")
    assert result.exit_code == 2 and "'best': must be one of exact, constant, unscented, smoothed" in result.stderr


def test_with_the_true_model_errors_are_as_large_as_the_filter_says(tmp_path):
    """In the band of 95 % for 85 % of the time at least; 20 runs of 3 s, of which the last two count."""
    study = tmp_path / "study.toml"
    study.write_text(TILTING.read_text().replace("settle_s = 4.0", "settle_s = 1.0"))
    result = run(study, "--true-model", "--seconds", 3, "--forms", "exact", "--json", "--runs", tmp_path / "runs")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[0])["exact"]
    assert found["nees"]["inside"] > 0.85, found["nees"]


def test_a_study_over_another_one_says_only_what_differs(tmp_path):
    from tandem.machines.observer.studies.settings import read_study

    street, car = (read_study(CONFIGS / "observers" / name) for name in ("buggy_street.toml", "buggy.toml"))
    assert street.filter == car.filter and street.sensors["imu"] == car.sensors["imu"]
    assert street.sensors["gnss"]["sky"]["almanac"] == "nominal" and "sky" not in car.sensors["gnss"]
    file = tmp_path / "study.toml"
    file.write_text('base = "nowhere.toml"\n')
    assert "base = 'nowhere.toml': must be a file" in " ".join(run(file).stderr.split())


def test_readings_under_a_sky_have_the_noise_of_their_satellites():
    """A receiver on a slider between two walls: no position there, and elsewhere the noise that it reports."""
    import numpy as np

    from tandem.estimation.description import Sensors
    from tandem.estimation.experiment import Seen, _receive
    from tandem.estimation.noise import normal_number
    from tandem.estimation.rows import COUNTS, WIDTH, R
    from tandem.estimation.satellites import Sky, nominal_almanac

    steps, h, seed = 4000, 0.1, 3
    rows = np.zeros((2, WIDTH))
    rows[0, R.DIRECTION], rows[1, R.DIRECTION + 1] = 1.0, 1.0
    true = np.stack([np.linspace(-100.0, 100.0, steps), np.zeros(steps)], axis=1)
    noise = np.array([[normal_number(seed, i, k) for i in range(2)] for k in range(steps)])
    sensors = Sensors(
        ("g.x", "g.y"), ("g", "g"), rows, np.zeros((2, COUNTS), np.int32), (), ((), ()), np.zeros(2), np.ones(2), {}
    )
    seen = Seen(
        true + noise, np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)), np.ones((steps, 2)), np.zeros((0, 0))
    )
    walls = np.array([[0.0, 6.0, 60.0, 20.0, 25.0], [0.0, -20.0, 60.0, -6.0, 25.0]])
    sky = Sky(nominal_almanac(), 43_200.0, 0.75, 0.0, 0.17, walls)
    found = _receive(seen, sensors, ["position", "position"], "g", sky, 1.5, h, seed)
    lost = np.isnan(seen.readings[:, 0])
    between = (true[:, 0] > 25.0) & (true[:, 0] < 35.0)
    assert lost[between].all() and not lost[true[:, 0] < -60.0].any()
    assert np.abs(found.antennas[:, :2] - true).max() < 1e-9 and found.satellites[between].max() <= 4
    normal = ((seen.readings - true) / seen.factors)[~lost]
    assert 0.9 < normal.std() < 1.1 and seen.factors[~lost].max() > 1.05
