"""Readings of sensors that are no inputs: they keep instants and units, and stand beside the model's outputs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sync.config.config import load
from sync.errors import ConfigError
from sync.record import Run, RunError, measured, open_run
from sync.record.measured import Measured
from tandem.commands.cli import app
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.importer import Options, import_file
from tandem.records.feed import record_feed
from tandem.records.inspect.compare import compare
from tandem.records.inspect.plot import panels
from tandem.records.replay import Options as Replay
from tandem.records.replay import replay_run
from tandem.records.replay_save import save
from tandem.reports.beside_measured import beside_measured, in_words
from tandem.view.plots import choices

DRIVE = Path(__file__).resolve().parents[3] / "configs" / "drive.toml"
TWIN = DRIVE.parent / "twin.toml"
CAR = ["sim.machine=vehicles/buggy_single_track.toml"]
MAPS = ["steering=angle:deg", "throttle=0:%", "brake=0:bar"]


def table(path: Path, head: str, *columns: np.ndarray) -> Path:
    rows = (",".join(repr(float(v)) for v in row) for row in zip(*columns, strict=True))
    path.write_text(head + "\n" + "\n".join(rows) + "\n")
    return path


def brought(file: Path, *quantities: str, **more: object) -> Run:
    asked = Options(file, DRIVE, True, MAPS, list(quantities), runs=file.parent / "runs", overrides=CAR, **more)  # type: ignore[arg-type]
    return open_run(Path(import_file(asked)["run"]))


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """At 100 Hz, with a second missing and a sensor that says nothing for a while."""
    t = np.arange(0, 4, 0.01)
    t = t[(t < 2.0) | (t >= 3.0)]
    rate = np.sin(t)
    rate[50:60] = np.nan
    return table(tmp_path / "m.csv", "t [s],angle,r,beta,dead", t, 10 * t, np.degrees(rate), 0.01 * t, 7 + 0 * t)


def test_quantities_keep_instants_gaps_and_the_units_of_the_outputs(drive: Path) -> None:
    found = measured(brought(drive, "yaw_rate=r:deg/s", "sideslip=beta:rad", "speed_of_rain=beta:km/h"))
    assert {name: m.unit for name, m in found.items()} == {
        "yaw_rate": "rad/s",
        "sideslip": "rad",
        "speed_of_rain": "m/s",
    }
    rate = found["yaw_rate"]
    assert len(rate.t_ns) == 290 and len(found["sideslip"].t_ns) == 300  # each its own instants
    np.testing.assert_allclose(rate.values, np.sin(rate.t_ns * 1e-9), atol=1e-12)
    np.testing.assert_allclose(found["speed_of_rain"].values * 3.6, 0.01 * found["speed_of_rain"].t_ns * 1e-9)
    # a second without samples is a gap, and so are ten readings that are none
    assert np.flatnonzero(np.diff(rate.epoch)).tolist() == [49, 189]
    assert np.isnan(rate.at(np.array([int(2.5e9), int(0.55e9), -1]))).all()
    assert rate.at(np.array([int(1.005e9)])) == pytest.approx(np.sin(1.005), abs=1e-4)


def test_a_time_below_zero_moves_blocks_and_readings_together(tmp_path: Path) -> None:
    t = np.arange(-1, 1, 0.001)
    run = brought(table(tmp_path / "m.csv", "t [s],angle,r", t, 10 * t, t), "yaw_rate=r:rad/s")
    rate = measured(run)["yaw_rate"]
    np.testing.assert_array_equal(rate.t_ns, run.topics["/daq"].blocks["t_ns"])
    np.testing.assert_allclose(rate.values, rate.t_ns * 1e-9 - 1, atol=1e-9)


def test_a_saved_replay_has_them_beside_its_steps(drive: Path, tmp_path: Path) -> None:
    run = brought(drive, "yaw_rate=r:deg/s")
    saved = open_run(save(replay_run(run.path, Replay(mode="ideal")), tmp_path / "again", {}))
    one, other = measured(run)["yaw_rate"], measured(saved)["yaw_rate"]
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.t_ns, other.t_ns)
    steps = saved.topics["/step"].blocks
    assert steps["t_ns"][0] <= other.t_ns[-1] and steps["t_ns"][-1] >= other.t_ns[0]  # the same clock


@pytest.mark.parametrize(
    "text, said",
    [
        ("yaw_rate=r:m", "yaw_rate=r:m: m is a unit of length; the machine's yaw_rate is in rad/s"),
        ("yaw_rate=r", "does not say in which unit r is; add it, such as yaw_rate=r:rad/s"),
        ("yaw_rate=rr:deg/s", "has no column rr"),
        ("yaw_rate", "expected NAME=COLUMN:UNIT"),
        ("t_ns=r:deg/s", "becomes the name of a channel"),
        ("Yaw Rate=r:deg/s", "becomes the name of a channel"),
        ("yaw_rate=3:deg/s", "3 is a number and no column"),
    ],
)
def test_what_cannot_be_brought_is_told_in_a_sentence(drive: Path, text: str, said: str) -> None:
    with pytest.raises(ExchangeError) as caught:
        brought(drive, text)
    assert said in str(caught.value)
    assert not (drive.parent / "runs").exists()


def test_a_map_to_no_channel_says_how_a_sensor_comes_along(drive: Path) -> None:
    asked = Options(drive, DRIVE, True, [*MAPS, "yaw_rate=r:deg/s"], runs=drive.parent / "runs", overrides=CAR)
    with pytest.raises(ExchangeError, match="comes along with --measured yaw_rate=r:deg/s"):
        import_file(asked)


def test_a_constant_reading_and_missing_ones_are_remarked_upon(drive: Path) -> None:
    asked = Options(
        drive, DRIVE, True, MAPS, ["x=dead:m", "yaw_rate=r:deg/s"], runs=drive.parent / "runs", overrides=CAR
    )
    remarks = import_file(asked)["remarks"]
    assert remarks == [
        "x: is 7 m all along; was its sensor there?",
        "yaw_rate: 10 of 300 readings are not a number: left out",
    ]


def test_a_record_that_breaks_the_promises_is_refused(drive: Path) -> None:
    run = brought(drive, "yaw_rate=r:deg/s")
    run.topics["/measured"].blocks["t_ns"][3] = 0
    with pytest.raises(RunError, match="do not ascend"):
        measured(run)


def test_between_samples_on_both_sides_of_a_gap_there_is_nothing() -> None:
    m = Measured("x", "m", np.array([0, 10, 100, 110]), np.array([0.0, 1.0, 5.0, 6.0]), np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(m.at(np.array([0, 5, 10, 50, 100, 110, 111])), [0, 0.5, 1, np.nan, 5, 6, np.nan])


# ---- beside the model ------------------------------------------------------------------------------------------------


def test_a_replay_a_comparison_a_plot_and_the_page_show_them_beside_the_model(drive: Path, tmp_path: Path) -> None:
    run = brought(drive, "yaw_rate=r:deg/s", "sideslip=beta:rad", "rain=beta:m")
    done = replay_run(run.path, Replay(mode="ideal"))
    saved = open_run(save(done, tmp_path / "again", {}))
    rows = {row["channel"]: row for row in done.figures["measured"]}
    assert rows.keys() == {"yaw_rate", "sideslip"}  # rain is no output
    # by hand: the model at the end of its steps, at the sensor's instants
    rate = measured(run)["yaw_rate"]
    ends = done.instants + done.config.step_ns
    within = (rate.t_ns >= ends[0]) & (rate.t_ns <= ends[-1])
    left = np.interp(rate.t_ns[within], ends, done.columns()["yaw_rate"]) - rate.values[within]
    assert rows["yaw_rate"]["readings"] == np.count_nonzero(within)
    assert rows["yaw_rate"]["rms"] == pytest.approx(np.sqrt(np.mean(left**2)))
    assert rows["yaw_rate"]["explained"] == pytest.approx(1 - np.mean(left**2) / np.var(rate.values[within]))
    # two records, each beside its sensors
    found = compare(saved, saved)["measured"]
    assert found["a"] == found["b"]
    assert found["a"][0]["rms"] == pytest.approx(rows["yaw_rate"]["rms"], rel=1e-6)
    # a plot: both in one panel, on the same axes; and what is no output in its own
    titles = {panel.title: panel for panel in panels([("a", saved)], ["yaw_rate", "rain"])}
    assert [label for label, _, _ in titles["yaw_rate"].curves] == ["a, measured", "a"]
    assert [label for label, _, _ in titles["rain"].curves] == ["a, measured"]
    assert any("rain" in panel.title for panel in panels([("a", saved)], None))
    # the page
    feed = record_feed(saved.path, Replay("exact"), lambda _: None, lambda *_: None)
    assert feed.measured == {"yaw_rate": "rad/s", "sideslip": "rad", "rain": "m"}
    shown = feed.recorded["measured yaw_rate"]
    there = np.isfinite(shown)
    assert 300 < np.count_nonzero(there) < len(shown)  # nothing where the sensor said nothing
    np.testing.assert_allclose(shown[there], np.sin((feed.recorded["taken_ns"][there] + 5_000_000) * 1e-9), atol=1e-3)
    listed = choices(feed.model, feed.measured)
    assert listed["measured / yaw_rate"].names == ["yaw_rate", "measured yaw_rate"]
    assert listed["measured / rain"].names == ["measured rain"]


def test_how_much_is_explained_of_a_signal_is_one_zero_or_less() -> None:
    t = np.arange(1000) * 1_000_000
    m = Measured("x", "m", t, np.sin(t * 1e-8), np.zeros(1000))
    constant = Measured("y", "m", t, np.full(1000, 2.0), np.zeros(1000))
    both = {"x": m, "y": constant}
    perfect, none = beside_measured(both, t, {"x": m.values, "y": np.full(1000, 2.5)})
    assert perfect["rms"] == 0.0 and perfect["explained"] == 1.0
    assert none["explained"] is None and none["bias"] == pytest.approx(0.5)
    assert beside_measured(both, t, {"x": np.full(1000, m.values.mean())})[0]["explained"] == pytest.approx(0.0)
    assert beside_measured(both, t, {"x": -m.values})[0]["explained"] < -2.9
    assert beside_measured(both, t + 10**12, {"x": m.values}) == []  # not at the same time
    assert "constant" in in_words([none])[0] and "100.0 % of them explained" in in_words([perfect])[0]


# ---- a part of it, in motion -----------------------------------------------------------------------------------------


@pytest.fixture
def corner(tmp_path: Path) -> Path:
    t = np.arange(0, 4, 0.01)
    columns = (10 * t, 20 + 0 * t, 0.1 * t, 0.001 * t)
    return brought(
        table(tmp_path / "m.csv", "t [s],angle,v,r,beta", t, *columns),
        "vx=v:m/s", "yaw_rate=r:rad/s", "sideslip=beta:rad",
    ).path  # fmt: skip


def test_a_replay_may_be_of_a_part_and_begin_as_was_measured_there(corner: Path, tmp_path: Path) -> None:
    whole = replay_run(corner, Replay("ideal"))
    part = replay_run(corner, Replay("ideal", from_s=1.0, to_s=2.5, moving=True))
    assert part.instants[0] - whole.instants[0] == 1_000_000_000 and len(part.instants) == 300
    assert part.config.sim.start == pytest.approx({"vx": 20.0, "yaw_rate": 0.1, "sideslip": 0.001}, rel=1e-6)
    assert part.columns()["vx"][0] == pytest.approx(20.0, abs=0.1)
    assert part.columns()["yaw_rate"][0] == pytest.approx(0.1, abs=0.05)
    rows = {row["channel"]: row for row in part.figures["measured"]}
    assert rows["vx"]["readings"] == 150 and rows["vx"]["rms"] < 2.0
    saved = save(part, tmp_path / "part", {})  # a run like any other: it begins in motion again
    assert replay_run(saved, Replay("exact")).figures["identical"] is True


def test_a_part_of_a_record_with_steps_has_what_was_on_board_beside_it(corner: Path, tmp_path: Path) -> None:
    steps = save(replay_run(corner, Replay("ideal", moving=True)), tmp_path / "steps", {})
    part = replay_run(steps, Replay("ideal", from_s=2.0))
    assert len(part.instants) == len(replay_run(steps, Replay("exact")).instants) - 400
    assert part.figures["against"]["on_board"] and part.figures["steps_before"] == 0


def test_the_report_of_a_replay_has_a_table_and_pictures_of_what_was_measured(corner: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["replay", str(corner), "--moving", "--to", "1", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Beside what was measured" in done.output and "yaw_rate" in done.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 3 and "sideslip, rad" in page
    assert open_run(tmp_path / "out").topics["/step"].blocks["vx"][0] > 19.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "exact", "from_s": 1.0}, "an exact replay needs every step from the first on"),
        ({"mode": "exact", "moving": True}, "--moving: an exact replay repeats the steps of the record"),
        ({"mode": "ideal", "from_s": 9.0}, r"no step is from 9 s to its end \(--from, --to\); it has 0 to 3\.99 s"),
        ({"mode": "ideal", "from_s": 2.0, "to_s": 1.0}, "no step is from 2 s to 1 s"),
    ],
)
def test_a_part_that_there_is_not_is_a_sentence(corner: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises((RunError, ConfigError), match=words):
        replay_run(corner, Replay(**options))


def test_a_moving_start_without_measurements_says_how_they_come_along(drive: Path) -> None:
    run = brought(drive, "rain=dead:m")
    with pytest.raises(RunError, match=r"--moving: none of .* is measured at the first step; bring them along"):
        replay_run(run.path, Replay("ideal", moving=True))


def test_a_row_that_takes_a_measurement_is_fed_by_an_import(tmp_path: Path) -> None:
    """In the counts of its own unit; another unit of the same is converted, and one of something else refused."""
    config = load(TWIN)
    t = np.arange(0, 0.5, 0.01)
    file = table(tmp_path / "m.csv", "t [s],r [deg/s],ay [g]", t, 10.0 * t, 0.5 * t)
    brought = {"imu_rate_z": "imu_rate_z=r", "imu_specific_force_y": "imu_specific_force_y=ay"}
    maps = [brought.get(name, f"{name}=0:count") for name in config.daq.layout.names if not name.endswith("_age_us")]
    asked = Options(file, TWIN, True, maps, runs=tmp_path / "runs", rate_hz=100.0)
    blocks = open_run(Path(import_file(asked)["run"])).topics["/daq"].blocks
    np.testing.assert_array_equal(blocks["imu_rate_z"], np.rint(np.radians(10.0 * t) * 1e6))
    np.testing.assert_array_equal(blocks["imu_specific_force_y"], np.rint(0.5 * t * 9.80665e4))
    with pytest.raises(ExchangeError, match="g is a unit of acceleration, imu_rate_z takes"):
        import_file(replace(asked, maps=[m.replace("imu_rate_z=r", "imu_rate_z=ay") for m in maps]))
