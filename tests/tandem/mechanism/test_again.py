"""What a person does to a mechanism is recorded, and done again to the bit; a record from elsewhere is data alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sync.record import RunError, open_run
from tandem.mechanism.again import ACTED, in_hand, replay_mechanism, write_in_hand
from tandem.mechanism.record import write_record
from tandem.mechanism.run import prepare
from tandem.multibody.description.mechanism_file import Described, read_mechanism
from tandem.view import rig as hands
from tandem.view.rig import Rig, with_hands

SPINDLE = Path(__file__).resolve().parents[3] / "configs" / "mechanisms" / "spindle.toml"


def handled(steps: int = 40) -> tuple[Described, Rig]:
    """Every act that there is, some steps between them."""
    described = read_mechanism(SPINDLE)
    with_hands(described.mechanism)
    described, state = prepare(described)
    b = Rig(state)
    point, spring = b.points[-1], next(iter(b.parameters))
    acts: list[tuple[Any, ...]] = [
        ("hold", point, b.where(point) + 0.05), ("push", point, np.array([3.0, 0.0, 1.0])), ("let_go",),
        ("turn", "drum", [0.5, 0.0, 0.1]), ("set", spring, "stiffness", 7.5), ("friction", "shaft", "turn", 0.01),
        ("limit", "shaft", "turn", -0.5, 2.0), ("change", "shaft", "revolute"), ("change", "shaft", "cylindrical"),
        ("prescribe", "drum along x", 0.02, 0.0, 0.0, ()), ("release", "drum along x"), ("switch", "shaft", False),
        ("reset",), ("push", point, [0.0, 1e-3, 1.0 / 3.0]),
    ]  # fmt: skip
    for act in acts:
        b.do(*act)
        for _ in range(steps):
            b.step()
    return described, b


def test_what_was_done_in_the_hand_is_recorded_and_replayed_to_the_bit(tmp_path: Path) -> None:
    described, b = handled()
    write_in_hand(tmp_path, described, b)
    found = replay_mechanism(tmp_path)
    assert found.data["identical"] and found.data["by_hand"] and found.exit_code == 0
    run = open_run(tmp_path)
    assert run.whole and len(run.need("/step")) == b.steps + 1 == found.data["instants"]
    assert len(run.json(ACTED)["acts"]) == len(b.log) == 14
    assert {"rim_x", "rim_x_accel", "phi_error"} <= set(run.need("/step").blocks.dtype.names or ())


def test_a_long_session_keeps_every_second_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands, "_MOST_NUMBERS", 0)
    described, b = handled(17)
    write_in_hand(tmp_path, described, b)
    assert b.stride == 4 and len(b.rows) <= 100
    assert replay_mechanism(tmp_path).data["identical"]


def test_a_change_of_one_act_is_found(tmp_path: Path) -> None:
    described, b = handled(5)
    b.log[1] = (b.log[1][0], "push", (b.points[-1], [3.0, 0.0, 1.0 + 1e-12]))
    write_in_hand(tmp_path, described, b)
    found = replay_mechanism(tmp_path)
    assert not found.data["identical"] and found.exit_code == 1 and "differs" in found.headline


@pytest.mark.parametrize(
    ("acts", "words"),
    [
        ([[0, "_use", []]], "acts[0]: '_use' is none of hold"),
        ([[0, "step", []]], "'step' is none of"),
        ([[0, ["hold"], []]], "is none of"),
        ([[3, "let_go", []], [2, "let_go", []]], "acts[1]: step 2: must be a whole number from 3"),
        ([[1000, "let_go", []]], "acts[0]: step 1000"),
        ([[0, "push", [{"a": 1}, 2]]], "acts[0]: arguments of push"),
        ([[0, "push", ["rim", [float("nan"), 0.0, 0.0]]]], "acts[0]: arguments of push"),
        ([[0, "push", ["rim", [10**400, 0.0, 0.0]]]], "acts[0]: arguments of push"),
        ([[0, "push", ["nowhere", [0.0, 0.0, 0.0]]]], "acts[0]: push cannot be done: nowhere: no such point"),
        ([[0, "push", []]], "acts[0]: push cannot be done"),
        ([[0, "change", [["shaft"], "weld"]]], "acts[0]: change cannot be done"),
        ([7], "acts[0]: must be"),
        ("let_go", "acts: must be a list"),
    ],
)
def test_acts_of_a_strange_record_are_refused(tmp_path: Path, acts: Any, words: str) -> None:
    described, b = handled(2)
    kept = in_hand(described, b)
    kept.attached[ACTED] = json.dumps({"steps": b.steps, "acts": acts}).encode()
    write_record(tmp_path, kept, SPINDLE.read_bytes())
    with pytest.raises(RunError) as error:
        replay_mechanism(tmp_path)
    assert words in str(error.value) and ACTED in str(error.value)


def test_a_count_of_steps_that_is_none_is_refused(tmp_path: Path) -> None:
    described, b = handled(2)
    kept = in_hand(described, b)
    kept.attached[ACTED] = json.dumps({"steps": 1e300, "acts": []}).encode()
    write_record(tmp_path, kept, SPINDLE.read_bytes())
    with pytest.raises(RunError, match="steps = 1e"):
        replay_mechanism(tmp_path)
