"""A fleet: every record below a folder replayed; damaged ones are rows, what is done is kept by content."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tandem
from sync.errors import ConfigError
from tandem.ensembles.fleet import FleetOptions, fleet, records_below, replay_record

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good records, one of them twice, and three that are damaged, each in its own way."""
    good = (GOLDEN / "single_track.mcap").read_bytes()
    contents = {
        "monday": good, "tuesday": good, "deeper/wednesday": (GOLDEN / "stale.mcap").read_bytes(),
        "empty": b"", "nonsense": b"no record at all", "cut": good[: len(good) // 2],
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.mcap").write_bytes(content)
    return tmp_path / "runs"


def test_good_records_are_identical_and_damaged_ones_are_rows_that_say_so(folder: Path, tmp_path: Path) -> None:
    done = fleet(folder, out=tmp_path / "out", workers=2)
    table = pq.read_table(tmp_path / "out" / "fleet.parquet").to_pylist()
    status = {row["record"].removesuffix("/run.mcap"): row["status"] for row in table}
    assert {status[name] for name in ("monday", "tuesday", "deeper/wednesday")} == {"identical"}
    assert status["empty"] == status["nonsense"] == "broken" and status["cut"] in ("damaged", "broken")
    assert all(row["note"] for row in table if row["status"] not in ("identical", "ok"))
    assert done.made_now == 6 and fleet(folder, out=tmp_path / "out").made_now == 0
    assert not done.sound  # exit code 1: two could not be replayed
    shutil.rmtree(folder / "tuesday")
    assert fleet(folder, out=tmp_path / "out").made_now == 0  # what is left was replayed before


def test_another_parameter_gives_what_the_library_gives(folder: Path) -> None:
    setting = "sim.parameters.mass=900"
    file = folder / "monday" / "run.mcap"
    row = replay_record(str(file), "key", FleetOptions(mode="ideal", overrides=(setting,), channels=("vx",)))
    _, figures = tandem.open_run(file).replay([setting], mode="ideal")
    on_board = figures["against"]["on_board"]
    assert row["status"] == "ok" and row["figures"]["apart_max"] == on_board["apart_m"]["max"] > 0.0
    assert row["figures"]["vx_rms"] > 0.0 and row["units"]["vx_rms"] == "m/s"


def test_parts_of_a_run_are_one_record(tmp_path: Path) -> None:
    for name in ("run.mcap", "run.2.mcap", "run.10.mcap"):
        (tmp_path / name).touch()
    assert records_below(tmp_path) == (tmp_path / "run.mcap",)


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no record below it"):
        records_below(tmp_path)
    with pytest.raises(ConfigError, match="no such folder"):
        records_below(tmp_path / "none")


def test_what_no_record_can_be_asked_for_is_refused_before_any_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--delay-ms -4"):
        fleet(tmp_path, FleetOptions(delay_ms=-4.0, mode="ideal"))
    with pytest.raises(ConfigError, match="--mode ideal"):
        fleet(tmp_path, FleetOptions(delay_ms=4.0))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (FleetOptions(mode="ideal", overrides=("sim.parameters.mas=900",)), r"--set: .*sim\.parameters\.mas"),
        (FleetOptions(mode="ideal", overrides=("sim.parameters.mass=-900",)), r"--set: .*sim\.parameters\.mass"),
        (FleetOptions(channels=("yaw_rat",)), r"--channels yaw_rat: .*yaw_rate"),
    ],
)
def test_what_fits_none_of_the_records_is_refused_once(
    folder: Path, tmp_path: Path, asked: FleetOptions, words
) -> None:
    with pytest.raises(ConfigError, match=words):
        fleet(folder, asked, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
