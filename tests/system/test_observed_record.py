"""`tandem observe` over the record of a live run: its filter again, to the bit, and another one."""

import json
from collections.abc import Callable
from pathlib import Path

from sync.record import open_run
from tests.system.conftest import ROOT, Program, tandem

CONFIG = ROOT / "configs" / "tilting_observed.toml"
TUNING = ROOT / "configs" / "observers" / "tilting_live.toml"


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
