"""Windows as they are cut from tables and recorded runs: units, empty cells, gaps, spans, and instants of inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.registry import configured_machine, load_machine
from sync.config.config import load
from sync.errors import ConfigError
from sync.record import Run, open_run
from tandem.ensembles import windows as module
from tandem.ensembles.columns import read_columns
from tandem.ensembles.windows import Column, Cut, Measured, Sources, Spans, Windows, cut, open_recording
from tandem.records.exchange.importer import Options, import_file
from tandem.records.replay import Options as Replay
from tandem.records.replay import replay_run
from tandem.records.replay_save import save

STEP = 0.01
DRIVE = Path(__file__).resolve().parents[3] / "configs" / "drive.toml"
CAR = ["sim.machine=vehicles/buggy_single_track.toml"]
STILL = dict.fromkeys(
    ("steering_angle", "steering_speed", "steering_acceleration", "throttle", "brake_pressure_bar"), 0.0
)


def written(path: Path, head: str, rows: list[str]) -> Path:
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def laps(path: Path, head: str = "t,vx,delta,r,note", last: float = 4.0) -> Path:
    """A car that gains speed; a text in a column that nobody asks for."""
    rows = [f"{t:.2f},{10.0 + 2.0 * t:.17g},0.02,{0.1 * t:.17g},lap" for t in np.arange(0.0, last + 0.005, STEP)]
    return written(path, head, rows)


def sources(**changes: Any) -> Sources:
    inputs = {"prescribed_speed": "vx", "prescribed_road_wheel_angle": "delta", **STILL}
    given: dict[str, Any] = {"inputs": inputs, "measured": {"yaw_rate": Measured(channel="r")}, "start": {"vx": "vx"}}
    return Sources(**{**given, **changes})


def cut_of(*files: Path, of: Sources | None = None, most_steps: int | None = None, **settings: Any) -> Cut:
    machine, of = load_machine("single_track")[0], of or sources()
    recordings = {file.name: open_recording(file, machine, of, STEP, "study") for file in files}
    return cut(recordings, Windows(**settings), of, STEP, "study", most_steps=most_steps)


def column(found: Cut, name: str) -> np.ndarray:
    names = [q.name for q in load_machine("single_track")[0].inputs]
    return found.windows[0].rows[:, names.index(name)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("0.5,10,0.02,0.1,lap", "column t, row 402: 0.5 s behind 4 s; instants must ascend"),
        ("4.0,10,0.02,0.1,lap", "row 402: 4 s behind 4 s"),
        (",10,0.02,0.1,lap", "row 402: nan s behind 4 s"),
    ],
)
def test_time_that_does_not_rise_is_named_by_its_row(row: str, words: str, tmp_path: Path) -> None:
    file = laps(tmp_path / "a.csv")
    file.write_text(f"{file.read_text()}{row}\n")
    with pytest.raises(ConfigError, match=words):
        cut_of(file)


def test_windows_that_fit_in_no_span_or_no_step_are_refused(tmp_path: Path) -> None:
    file = laps(tmp_path / "a.csv")
    with pytest.raises(ConfigError, match="the longest span has 4 s, and a window at least 50 s"):
        cut_of(file, seconds=100.0)
    with pytest.raises(ConfigError, match=r"windows\.seconds = 0\.001: shorter than a step of 0\.01 s"):
        cut_of(file, seconds=1e-3)


def test_columns_that_nobody_asks_for_may_hold_anything(tmp_path: Path) -> None:
    assert len(cut_of(laps(tmp_path / "a.csv"), seconds=1.0).windows) == 4


def test_the_unit_of_a_header_is_believed(tmp_path: Path) -> None:
    plain = cut_of(laps(tmp_path / "a.csv"))
    other = cut_of(laps(tmp_path / "b.csv", "t [s],vx [km/h],delta [deg],r [deg/s],note"))
    assert other.windows[0].measured["yaw_rate"] == pytest.approx(np.radians(plain.windows[0].measured["yaw_rate"]))
    assert column(other, "prescribed_road_wheel_angle") == pytest.approx(np.radians(0.02))
    assert other.windows[0].start["vx"] == pytest.approx(10.0 / 3.6)
    late = cut_of(laps(tmp_path / "c.csv", "t [ms],vx,delta,r,note", last=400.0), of=sources())
    assert late.windows[0].end == pytest.approx(0.4)
    found = read_columns(tmp_path / "b.csv", ("t", "vx"), {"t": "s", "vx": "m/s"})
    assert found["vx"][0] == pytest.approx(10.0 / 3.6)


@pytest.mark.parametrize(
    ("head", "scale", "words"),
    [
        ("t,vx,delta,r [m],note", 1.0, "measured.yaw_rate: its header says m, a unit of length; rad/s is wanted"),
        ("t,vx,delta,r [furlong],note", 1.0, "its header says furlong, a unit that is not known here"),
        ("t,vx,delta,r [deg/s],note", 0.0174533, "converted to rad/s; scale = 0.0174533 would do that again"),
        ("t [m],vx,delta,r,note", 1.0, "column t: its header says m"),
    ],
)
def test_a_unit_that_does_not_fit_is_refused(tmp_path: Path, head: str, scale: float, words: str) -> None:
    of = sources(measured={"yaw_rate": Measured(channel="r", scale=scale)})
    with pytest.raises(ConfigError, match=words):
        cut_of(laps(tmp_path / "a.csv", head), of=of)


def test_a_scale_makes_a_quantity_of_volts_and_a_sign_of_degrees(tmp_path: Path) -> None:
    volts = cut_of(
        laps(tmp_path / "a.csv", "t,vx,delta,r [V],note"),
        of=sources(measured={"yaw_rate": Measured(channel="r", scale=0.5)}),
    )
    assert volts.windows[0].measured["yaw_rate"][-1] == pytest.approx(0.2)
    turned = {"prescribed_road_wheel_angle": Column(channel="delta", scale=-1.0), "prescribed_speed": "vx", **STILL}
    found = cut_of(laps(tmp_path / "b.csv", "t,vx,delta [deg],r,note"), of=sources(inputs=turned))
    assert column(found, "prescribed_road_wheel_angle") == pytest.approx(-np.radians(0.02))


def test_a_prescribed_speed_is_that_at_the_end_of_a_step_and_an_angle_that_at_its_begin(tmp_path: Path) -> None:
    rows = [f"{k * STEP:.2f},{10.0 + k},{0.001 * k},{0.1 * k}" for k in range(101)]
    found = cut_of(written(tmp_path / "a.csv", "t,vx,delta,r", rows))
    assert found.windows[0].start["vx"] == 10.0
    assert column(found, "prescribed_speed") == pytest.approx(11.0 + np.arange(100))
    assert column(found, "prescribed_road_wheel_angle") == pytest.approx(0.001 * np.arange(100))
    assert found.windows[0].measured["yaw_rate"] == pytest.approx(0.1 * np.arange(1, 101))


def test_an_empty_cell_is_no_reading_and_a_slow_column_has_no_gaps(tmp_path: Path) -> None:
    """A row wherever one of the columns has a value: yaw rate at a tenth of the rate, then none for half a second."""
    rows = [
        f"{k * STEP:.2f},{10.0 + 0.02 * k},0.02,{'' if k % 10 or 200 < k < 250 else repr(0.001 * k)}"
        for k in range(401)
    ]
    found = cut_of(written(tmp_path / "a.csv", "t,vx,delta,r", rows), seconds=1.0)
    assert [w.begin for w in found.windows] == [0.0, 1.0, 3.0] and (found.gaps, found.lost_s) == (1, 1.0)
    assert found.windows[1].measured["yaw_rate"] == pytest.approx(0.001 * np.arange(101, 201))


def test_most_steps_are_those_of_a_window(tmp_path: Path) -> None:
    found = cut_of(laps(tmp_path / "a.csv"), seconds=1.0, most_steps=30)
    assert [(w.begin, len(w.rows)) for w in found.windows] == [(0.0, 30), (1.0, 30), (2.0, 30), (3.0, 30)]


def test_records_of_unequal_length_have_their_own_spans(tmp_path: Path) -> None:
    long, short = laps(tmp_path / "long.csv"), laps(tmp_path / "short.csv", last=2.0)
    own = {"short.csv": Spans(fitted=[[0.0, 1.0]], unused=[[1.0, 2.0]])}
    machine, of = load_machine("single_track")[0], sources()
    records = {file.name: open_recording(file, machine, of, STEP, "study") for file in (long, short)}
    made = cut(records, Windows(seconds=1.0, fitted=[[0.0, 3.0]], unused=[[3.0, 4.0]], of=own), of, STEP, "study")
    assert [(w.record, w.begin) for w in made.windows if not w.fitted] == [("long.csv", 3.0), ("short.csv", 1.0)]
    assert sum(w.fitted for w in made.windows) == 4


def test_a_span_outside_of_one_record_names_it_and_the_way_out(tmp_path: Path) -> None:
    files = [laps(tmp_path / "long.csv"), laps(tmp_path / "short.csv", last=2.0)]
    with pytest.raises(ConfigError, match=r'short\.csv has 0 to 2 s; .*\[windows\.of\."short\.csv"\]'):
        cut_of(*files, fitted=[[0.0, 3.0]])
    machine = load_machine("single_track")[0]
    recording = open_recording(files[0], machine, sources(), STEP, "study")
    with pytest.raises(ConfigError, match=r"windows\.of: none\.csv: must be one of records"):
        cut({"long.csv": recording}, Windows(of={"none.csv": Spans()}), sources(), STEP, "study")


# ---- recorded runs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def replayed(tmp_path: Path) -> Run:
    """Inputs that are missing for a second, beside a yaw rate that is not."""
    rows = [f"{t:.2f},{'' if 2.0 <= t < 3.0 else 10 * t},{t}" for t in np.arange(0.0, 5.0, 0.01)]
    file = written(tmp_path / "m.csv", "t [s],angle,r", rows)
    maps = ["steering=angle:deg", "throttle=0:%", "brake=0:bar"]
    asked = Options(file, DRIVE, True, maps, ["yaw_rate=r:rad/s"], runs=tmp_path / "runs", overrides=CAR)
    run = import_file(asked)["run"]
    return open_run(save(replay_run(Path(run), Replay("ideal")), tmp_path / "steps", {}))


def of_steps(run: Run, **settings: Any) -> Cut:
    config = load(DRIVE, CAR)
    machine = configured_machine(config, DRIVE.parent)[0]
    of, step_s = Sources({}, {"yaw_rate": Measured()}, {}), config.step_ns * 1e-9
    recording = open_recording(run.path, machine, of, step_s, "study")
    return cut({"a": recording}, Windows(**settings), of, step_s, "study")


def test_a_gap_in_the_inputs_alone_is_in_no_window(replayed: Run) -> None:
    found = of_steps(replayed, seconds=0.5)
    assert [round(w.begin, 3) for w in found.windows] == [0.0, 0.5, 1.0, 1.5, 3.0, 3.5, 4.0, 4.5]
    assert found.gaps == 2 and found.lost_s == pytest.approx(1.0, abs=0.02)
    whole = of_steps(replayed)  # one window: up to its gap
    assert len(whole.windows) == 1 and whole.windows[0].end == pytest.approx(2.03, abs=0.03) and whole.gaps == 1


def test_a_window_does_not_span_a_restart_and_what_follows_is_used(
    replayed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = replayed.topics["/step"].blocks
    middle = int(np.searchsorted(steps["t_ns"], steps["t_ns"][0] + 3_700_000_000))
    steps["step"][middle:] -= steps["step"][middle]  # another simulator's
    monkeypatch.setattr(module, "open_run", lambda path: replayed)
    found = of_steps(replayed, seconds=0.5)
    assert [round(w.begin, 3) for w in found.windows] == [0.0, 0.5, 1.0, 1.5, 3.0, 4.0, 4.5] and found.gaps == 3
