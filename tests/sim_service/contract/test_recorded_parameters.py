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

from sim_service.command_record import AT_INDEX, AT_KIND, AT_VALUE, PARAMETER
from sim_service.contract.machine import index, tables
from sim_service.contract.recorded_parameters import packed, recorded_machine, unpacked, with_words, words_of
from sync.record import RunError, open_run
from tandem.console.present import print_report
from tandem.multibody.natural import tables as core
from tandem.records.exchange.exporter import export
from tandem.records.replay import Options, configuration, replay_run, report
from verify.tree.golden import GOLDEN, store

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
    figures = replay_run(changed(tmp_path, heavier), Options()).figures
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
    figures = replay_run(changed(tmp_path, change), Options()).figures
    assert figures["parameters"] == "made here"
    assert figures["identical"] is True


def test_a_record_never_says_where_compiled_code_finds_its_tables() -> None:
    """Places are integers, and a record has none of them: others than those of here make its words unusable."""
    run = open_run(GOLDEN / "town.mcap")
    _, model, params = configuration(run, Options())
    made = run.json("parameters.json")["made"]
    words = unpacked(made["zlib"], made["words"] - (made["remade"][1] - made["remade"][0]))
    assert words is not None and words.tobytes() == words_of(model, params).tobytes()
    assert recorded_machine(model, params, made) is not None
    ints = model.tables.ints.copy()
    ints[-1] += 1
    assert recorded_machine(replace(model, tables=tables(ints, model.tables.floats)), params, made) is None


def test_a_record_does_not_decide_how_long_a_step_takes(tmp_path: Path) -> None:
    """A step that iterates without end is compiled code: nobody could even interrupt it."""
    _, model, params = configuration(open_run(GOLDEN / "town.mcap"), Options())
    words = words_of(model, params)
    settings = slice(len(words) - core.SETTINGS, len(words))  # the last numbers of a mechanism
    assert words[settings][core.RHO] == 1.0
    for value in (0.0, 1e15):
        words[settings] = value
        accepted = with_words(model, params, words)
        assert accepted is not None
        machine, values = accepted
        state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        model.initial(state, params, model.tables, work)
        inputs = np.full(len(machine.inputs), np.nan)
        machine.step(state, inputs, values, machine.tables, work, 0.005)
        iterations = work[index(machine.outputs, "iterations")]
        assert iterations <= 16 * 3 * 12 * 2  # parts, attempts, of which one in two halves, with so many each


def hostile_command(folder: Path, value: float, name: str = "push_body", kind: int = PARAMETER) -> Path:
    """A golden run one of whose commands sets another parameter."""
    run = open_run(GOLDEN / "lane_change.mcap")
    topic = run.topics["/command"]
    words = topic.words.copy()
    place = list(run.json("parameters.json")["parameters"]).index(name)
    row = int(np.flatnonzero(words[:, AT_KIND] == PARAMETER)[0])
    words[row, AT_KIND], words[row, AT_INDEX], words.view(np.float64)[row, AT_VALUE] = kind, place, value
    path = folder / "run.mcap"
    store(path, run, {**run.topics, "/command": replace(topic, words=words)})
    return path


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("push_body", 1e12), r"/command \d+: push_body = 1000000000000.0: must be from 0 to 4"),
        (("push_body", -1.0), r"push_body = -1.0: must be from 0 to 4"),
        (("grip", float("nan")), r"grip = nan: must be from"),
    ],
)
def test_a_recorded_command_out_of_range_is_refused(tmp_path: Path, command: tuple[str, float], expected: str) -> None:
    path = hostile_command(tmp_path, command[1], command[0])
    for mode in ("exact", "ideal"):
        with pytest.raises(RunError, match=expected):
            replay_run(path, Options(mode=mode))


@pytest.mark.parametrize("kind", [0, 8, -1, 2**31])
def test_a_recorded_command_of_no_kind_is_refused(tmp_path: Path, kind: int) -> None:
    with pytest.raises(RunError, match=f"kind {kind}: no command"):
        replay_run(hostile_command(tmp_path, 1.0, kind=kind), Options())


def test_another_machine_leaves_out_commands_it_does_not_know_and_counts_them(tmp_path: Path) -> None:
    run = hostile_command(tmp_path, 2.0)
    config = Path(__file__).parents[3] / "configs" / "vehicles" / "buggy_single_track.toml"
    asked = Options(mode="ideal", overrides=[f"sim.machine={config}", "sim.files.road="])
    done = replay_run(run, asked)
    assert done.figures["commands_left_out"] > 0
    assert set(done.plan.commands[:, AT_KIND].tolist()) & {0}


def test_a_hostile_record_is_exported_without_its_steps_made_again(tmp_path: Path) -> None:
    """Of a record that cannot be replayed an export has what was recorded, and says that there is no scene."""
    reports: list[str] = []
    export(hostile_command(tmp_path, 1e12), "mcap", tmp_path / "out.mcap", lambda *_: None, reports.append)
    assert "push_body = 1000000000000.0: must be from 0 to 4" in " ".join(reports)
    assert "no transforms and no markers" in " ".join(reports) and (tmp_path / "out.mcap").stat().st_size > 100_000


def test_a_changed_replay_makes_its_parameters(tmp_path: Path) -> None:
    asked = Options(overrides=["sim.parameters.mass=700.0"])
    done = replay_run(changed(tmp_path, heavier), asked)
    assert done.figures["parameters"] == "made here"
    assert done.params[[p.name for p in done.model.parameters].index("mass")] == 700.0


def test_a_replay_that_differs_says_what_else_does(tmp_path: Path) -> None:
    facts = {"blas": "another one", "numpy": "1.0", "libc": "glibc 1.0", "processor": "abacus"}
    figures = replay_run(changed(tmp_path, heavier, **facts), Options()).figures
    assert {key: figures["other_facts"][key][0] for key in facts} == facts
    text = io.StringIO()
    print_report(Console(file=text, width=120), report(figures))
    for key, was in facts.items():
        assert f"recorded with another {key}: {was}, here " in text.getvalue()
    assert "the parameters are those of the record" in text.getvalue()
