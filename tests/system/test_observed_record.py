"""Observers in live runs: `tandem observe` over the record gives their bits, and a log plays to one as it was read."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.record import open_run
from tandem.records.replay import Options, replay_run
from tests.system.conftest import ROOT, Program, tandem

CONFIG = ROOT / "configs" / "tilting_observed.toml"
TUNING = ROOT / "configs" / "observers" / "tilting_live.toml"
RACE_CAR = ROOT / "configs" / "race_car.toml"


@pytest.mark.drill
def test_a_recorded_run_is_observed_again_and_with_another_tuning(
    start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    running = start(
        "tandem", "run", str(CONFIG), "--seconds", "1", "--json", "--set", f"name={name}", "--set",
        "view.enabled=false", "--runs", str(tmp_path / "runs"),
    )  # fmt: skip
    assert running.end() == 0, running.said
    run = open_run(tmp_path / "runs").path
    other = tmp_path / "unsure.toml"
    other.write_text(TUNING.read_text().replace("noise = 0.01", "noise = 0.05"))
    done = tandem("observe", str(run), "--tuning", str(other), "--json", "--runs", str(tmp_path / "reports"))
    assert done.code == 0, done
    found = json.loads(done.printed.splitlines()[0])
    as_recorded, unsure = found["as recorded"], found["unsure.toml"]
    assert as_recorded["identical"] is True and set(as_recorded["rms_from_board"].values()) == {0.0}
    readings = as_recorded["readings"]
    assert (
        readings["readings_used"] > 2 * as_recorded["steps"] and readings["readings_gated"] < as_recorded["steps"] / 10
    )
    assert unsure["identical"] is False and unsure["mean_sigma"]["roll"] > as_recorded["mean_sigma"]["roll"]
    refused = tandem("observe", str(run), "--tuning", str(tmp_path / "nowhere.toml"))
    assert refused.code == 2
    wrong = tandem("observe", str(run), "--tuning", str(ROOT / "configs" / "vehicles" / "kart.toml"))
    assert wrong.code == 2


def test_a_live_observer_takes_the_rows_of_an_imported_log(
    start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    """Real processes, the log as their device: each step has the row that the record has, and the filter its bits."""
    log, pace = tmp_path / "log.csv", [f"{0.01 * k:.2f},20.0,{0.03 * np.sin(0.03 * k):.6f}" for k in range(400)]
    turned = [0.17 * np.sin(0.03 * k - 0.1) for k in range(400)]
    rows = [f"{row},{r:.6f},{20.0 * r:.4f}" for row, r in zip(pace, turned, strict=True)]
    log.write_text("\n".join(["t [s],v [m/s],delta [rad],r [rad/s],a [m/s2]", *rows]))
    maps = ("speed=v", "road_wheel_angle=delta", "yaw_rate=r", "ay=a")
    moving = ("--set", "sim.start={vx=20.0}")
    done = tandem(
        "import", str(log), str(RACE_CAR), *moving, *(word for one in maps for word in ("--map", one)), "--json",
        "--runs", str(tmp_path / "imported"),
    )  # fmt: skip
    assert done.code == 0, done
    imported = json.loads(done.printed)["run"]
    running = start(
        "tandem", "run", str(RACE_CAR), "--repeat", imported, "--seconds", "1", "--json", "--set", f"name={name}",
        *moving, "--set", "view.enabled=false", "--runs", str(tmp_path / "live"),
    )  # fmt: skip
    assert running.end() == 0, running.said
    live = open_run(tmp_path / "live")
    steps, blocks = live.topics["/step"].blocks, live.topics["/daq"].blocks
    counts = open_run(Path(imported)).topics["/daq"].blocks
    offline = replay_run(Path(imported), Options("ideal")).columns()
    # of each step the block that it used, and of the log the row that this block played
    played = steps["input_seq"].astype(np.int64) - int(blocks["seq"][0])
    assert played[0] >= 0 and len(np.unique(played)) > 50
    for channel in ("speed", "road_wheel_angle", "yaw_rate", "ay"):
        np.testing.assert_array_equal(blocks[channel], counts[channel][: len(blocks)])
    for given in ("prescribed_speed", "prescribed_road_wheel_angle", "measured_yaw_rate", "measured_ay"):
        np.testing.assert_array_equal(steps[given], offline[given][played])
    assert steps["readings_used"][-1] > len(np.unique(played))
    again = tandem("observe", str(live.path), "--no-smooth", "--json", "--runs", str(tmp_path / "reports"))
    assert again.code == 0, again
    assert json.loads(again.printed.splitlines()[0])["as recorded"]["identical"] is True
