"""Efforts in the report of a drive and in a replay."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from daq_service import effort_record as rec
from sync.config.config import load
from sync.errors import ConfigError
from sync.record import RunError
from sync.ring.block import Channel, Layout
from tandem.live.figures import _effort_line
from tandem.records.replay_efforts import efforts_again, in_words
from tandem.reports.html.markup import escape
from tandem.reports.round_trip import ROUND_TRIP

DRIVE = Path(__file__).resolve().parents[3] / "configs" / "drive.toml"
STEP = Layout((Channel("step", "i8"), Channel("steering_torque", "f8")))


def test_every_row_of_the_round_trip_has_a_title() -> None:
    assert tuple(ROUND_TRIP) == rec.LEDGER


def test_the_report_says_whether_the_port_was_passive() -> None:
    figures: dict[str, Any] = dict.fromkeys(rec.COUNTERS, 0)
    assert "port" not in _effort_line(figures) and "skipped" not in _effort_line(figures)
    figures |= {"energy": 0.25, "least_energy": 0.0}
    assert "the port was passive, its energy 0.25 J" in _effort_line(figures)
    figures |= {"active_steps": 7, "least_energy": -0.5}
    assert "the port was active in 7 steps" in _effort_line(figures) and "-0.5 J at least" in _effort_line(figures)


def test_the_page_has_the_round_trip_and_what_was_done_to_efforts() -> None:
    from tandem.reports.html.figures import RunData
    from tandem.reports.html.sections import effort_sections

    steps = np.zeros(0, np.dtype([("step", np.int64)]))
    assert effort_sections([RunData("ipc", {"effort": None}, steps)]) == []
    row = {"n": 3, "mean": 1.0, "p50": 111.0, "p90": 120.0, "p99": 222.0, "p999": 230.0, "max": 240.0}
    figures: dict[str, Any] = {name: 1000 + k for k, name in enumerate(rec.COUNTERS)}
    figures |= {"round_trip_us": dict.fromkeys(rec.LEDGER, row), "energy": -0.0625, "least_energy": -0.125}
    figures["round_trip_us"]["there"] = {**row, "n": 0}  # of two clocks
    (section,) = effort_sections([RunData("ipc", {"effort": figures}, steps)])
    shown = "".join(map(str, section.parts))
    assert all(escape(title) in shown for title in ROUND_TRIP.values())
    assert shown.count("111\u00a0µs") == shown.count("222\u00a0µs") == len(ROUND_TRIP) - 1
    for counter in (rec.ZEROED, rec.LIMITS, rec.SLEWS, rec.ACTIVES, rec.DAMPINGS, rec.SKIPPED):
        assert f"1\u202f0{counter:02d}" in shown
    assert "-0.0625 J" in shown and "-0.125 J" in shown
    without = {key: value for key, value in figures.items() if "energy" not in key}
    assert " J<" not in str(effort_sections([RunData("ipc", {"effort": without}, steps)])[0].parts)


class Blocks(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.blocks)


def _run(effort_layout: Layout, step_layout: Layout = STEP) -> Any:
    topics = {
        name: Blocks(layout=layout, blocks=layout.view(np.zeros((3, layout.words), np.int64)))
        for name, layout in (("/effort", effort_layout), ("/step", step_layout))
    }
    return SimpleNamespace(path=Path("run.mcap"), topics=topics)


EFFORT = "source.effort={channel='steering_torque', gain=1.0, limit=1.0, slew=1.0}"


def test_what_cannot_be_made_again_is_not_claimed() -> None:
    assert efforts_again(_run(rec.LAYOUT), load(DRIVE)) is None  # nothing says how it was made
    other = Layout((Channel("step", "i8"),))
    assert efforts_again(_run(rec.LAYOUT, other), load(DRIVE, [EFFORT])) is None
    with pytest.raises(RunError, match="/effort holds"):
        efforts_again(_run(other), load(DRIVE, [EFFORT]))
    with pytest.raises(ConfigError, match=r"run.mcap: source.effort.gain"):
        efforts_again(_run(rec.LAYOUT), load(DRIVE, ["source.effort={channel='steering_torque', limit=1.0, slew=1.0}"]))


def test_keys_of_the_device_stand_beside_those_of_the_effort() -> None:
    found = efforts_again(
        _run(rec.LAYOUT),
        load(DRIVE, ["source.effort={channel='steering_torque', ao='ao1', gain=1.0, limit=1.0, slew=1.0}"]),
    )
    one = {"recorded": 3, "compared": 0, "differing": 0, "first_difference": None}
    assert found == {**one, "topics": {"/effort": one}}
    assert in_words(found) == "0 of 3 efforts made again from their steps: identical, to the bit"
    one |= {"compared": 3, "differing": 2, "first_difference": 1}
    assert in_words({**one, "topics": {"/effort_2": one}}).endswith("2 differ: /effort_2 2, from number 1 on")
