"""Which parameters a replay uses, and what it says when its results are not those of the record."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from checks.golden_runs import GOLDEN, store
from sim_service.machines.contract import tables
from sim_service.machines.recorded_parameters import made_words, packed, recorded_machine, unpacked
from sync.record import open_run
from tandem.replay import Asked, configuration, print_replay, replay_run

Change = Callable[[dict[str, Any]], None]


def changed(tmp_path: Path, change: Change, golden: str = "single_track", **facts: str) -> Path:
    """A golden run with another `made`, recorded on a machine of other facts."""
    run = open_run(GOLDEN / f"{golden}.mcap")
    described = run.json("parameters.json")
    change(described["made"])
    run.start.update(facts)
    path = tmp_path / "run.mcap"
    store(path, run, attached={**run.attachments, "parameters.json": json.dumps(described).encode()})
    return path


def heavier(made: dict[str, Any]) -> None:
    words = unpacked(made["zlib"], made["words"])
    assert words is not None
    words[0] = np.nextafter(words[0], np.inf)
    made["zlib"] = packed(words)


def test_an_unchanged_replay_uses_the_recorded_parameters(tmp_path: Path) -> None:
    figures = replay_run(changed(tmp_path, heavier), Asked()).figures
    assert figures["parameters"] == "recorded"
    assert figures["parameters_differ"] == 1
    assert figures["identical"] is False  # they count to the last bit


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.update(layout="0" * 16),
        lambda made: made.update(zlib="no base64"),
        lambda made: made.update(zlib=packed(np.zeros(3))),
        lambda made: made.update(zlib=7),
        lambda made: made.update(zlib=packed(np.full(made["words"], 1e300))),
        lambda made: made.update(zlib=packed(np.full(made["words"], np.nan))),
    ],
    ids=["another layout", "no text of numbers", "another number of words", "no text", "beyond limits", "no numbers"],
)
def test_parameters_that_cannot_be_used_are_made_here(tmp_path: Path, change: Change) -> None:
    figures = replay_run(changed(tmp_path, change), Asked()).figures
    assert figures["parameters"] == "made here"
    assert figures["identical"] is True


def test_a_record_never_says_where_compiled_code_finds_its_tables() -> None:
    """Places are integers, and a record has none of them: others than those of here make its words unusable."""
    run = open_run(GOLDEN / "town.mcap")
    _, model, params = configuration(run, Asked())
    made = run.json("parameters.json")["made"]
    words = unpacked(made["zlib"], made["words"] - (made["remade"][1] - made["remade"][0]))
    assert words is not None and words.tobytes() == made_words(model, params).tobytes()
    assert recorded_machine(model, params, made) is not None
    ints = model.tables.ints.copy()
    ints[-1] += 1
    assert recorded_machine(replace(model, tables=tables(ints, model.tables.floats)), params, made) is None


def test_a_record_does_not_decide_how_long_a_step_takes(tmp_path: Path) -> None:
    """A step that iterates without end is compiled code: nobody could even interrupt it."""
    run = open_run(GOLDEN / "town.mcap")
    _, model, params = configuration(run, Asked())
    made = run.json("parameters.json")["made"]
    first, behind = made["remade"]
    assert len(model.counts) == 3
    for place in model.counts:
        words = made_words(model, params)
        at = len(params) + place - (behind - first) * (place >= behind)
        assert words[at] == model.tables.floats[place] == int(words[at]) <= 20
        words[at] += 1e15
        assert recorded_machine(model, params, {**made, "zlib": packed(words)}) is None


def test_a_changed_replay_makes_its_parameters(tmp_path: Path) -> None:
    asked = Asked(overrides=["sim.parameters.mass=700.0"])
    done = replay_run(changed(tmp_path, heavier), asked)
    assert done.figures["parameters"] == "made here"
    assert done.params[[p.name for p in done.model.parameters].index("mass")] == 700.0


def test_a_replay_that_differs_says_what_else_does(tmp_path: Path) -> None:
    facts = {"blas": "another one", "numpy": "1.0", "libc": "glibc 1.0", "processor": "abacus"}
    figures = replay_run(changed(tmp_path, heavier, **facts), Asked()).figures
    assert {key: figures["other_facts"][key][0] for key in facts} == facts
    text = io.StringIO()
    print_replay(Console(file=text, width=120), figures)
    for key, was in facts.items():
        assert f"recorded with another {key}: {was}, here " in text.getvalue()
    assert "the parameters are those of the record" in text.getvalue()
