"""A twin against its truth, from two records: what is compared, and records that somebody else has made."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sync.record import CompleteRun, CompleteTopic, write_complete
from sync.ring.block import Channel, Layout
from tandem.console.present import print_report
from tandem.console.terminal import Terminal
from tandem.records.against_truth import against_truth, truth_section
from tandem.reports.report import Report

TRUE = Layout((Channel("x", "f8", unit="m"),))
OWN = Layout((Channel("input_t_ns", "i8"), Channel("input_seq", "i8"), Channel("x", "f8", unit="[red]m")))
STEP_NS = 5_000_000
COUNT = 40
SOURCE: dict[str, Any] = {"watch": ["x", "[b]y"], "settle_s": 0.1}


def write(folder: Path, layout: Layout, values: dict[str, Any], source: Any = None, **attachments: bytes) -> None:
    words = np.zeros((COUNT, layout.words), np.int64)
    view = layout.view(words)
    view["seq"], view["t_ns"] = np.arange(COUNT), STEP_NS * np.arange(COUNT)
    for name, value in values.items():
        view[name] = value
    topics = {"/step": CompleteTopic(layout, words, np.arange(COUNT))}
    files = {"config.json": json.dumps({"source": source, "inputs": {}}).encode()} | {
        name.replace("_json", ".json"): data for name, data in attachments.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_complete(folder, CompleteRun({"name": "t"}, files, topics, 0, STEP_NS * COUNT, "made by hand", {}))


def twin(folder: Path, source: Any = SOURCE, **attachments: bytes) -> Path:
    """Off by 0.5 m; the last five steps used the block of the one before them."""
    k = np.minimum(np.arange(COUNT), COUNT - 6)
    write(folder, OWN, {"input_t_ns": STEP_NS * k, "input_seq": k, "x": k + 0.5}, source)
    write(folder / "truth", TRUE, {"x": np.arange(COUNT)}, **attachments)
    return folder


def test_steps_are_compared_at_the_instants_of_their_blocks(tmp_path: Path) -> None:
    found = against_truth(twin(tmp_path / "run"))
    assert found is not None
    assert (found["compared"], found["not_compared"]) == (COUNT - 5, 5)
    assert found["watched"]["x"]["outside"] == found["watched"]["x"]["worst"] == 0.5
    shown = io.StringIO()
    print_report(Terminal(file=shown, width=100), Report("", "", found, [truth_section(found)]))
    assert "not compared: [b]y" in shown.getvalue()
    assert "[red]m" in shown.getvalue() and "35 steps compared, 5 had no instant" in shown.getvalue()


@pytest.mark.parametrize(
    "source",
    [None, 1, [], {"watch": 1}, {"watch": "x"}, {"watch": [1, "y", None]}, {"watch": ["x"], "settle_s": "soon"}],
)
def test_settings_that_make_no_sense_leave_out_what_they_are_for(tmp_path: Path, source: Any) -> None:
    found = against_truth(twin(tmp_path / "run", source))
    assert found is not None and found["compared"] == COUNT - 5
    assert list(found["watched"]) == (["x"] if isinstance(source, dict) and source.get("watch") == ["x"] else [])


def test_without_what_it_needs_nothing_is_compared(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    write(alone, OWN, {})
    assert against_truth(alone) is None
    (alone / "truth").mkdir()
    assert against_truth(alone) is None  # nothing in it
    (alone / "truth" / "run.mcap").write_bytes(b"no record")
    assert against_truth(alone) is None
    write(tmp_path / "other", TRUE, {})  # of another program: no instants of blocks
    write(tmp_path / "other" / "truth", TRUE, {})
    assert against_truth(tmp_path / "other") is None
    assert against_truth(twin(tmp_path / "damaged", parameters_json=b"{")) is None
