"""A hand on a machine, from the page's side: it pushes as far as it is drawn, and lets go."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.contract.machine import Parameter
from sim_service.contract.scene import Point, PushPoints, Scene, poses
from sim_service.registry import load_machine
from tandem.machines.mass_spring import MACHINE
from tandem.view.data_source import Frame
from tandem.view.push import Push, can_push, within_limits
from tests.tandem.view.seen import Seen, by_person

VEHICLES = Path(__file__).resolve().parents[3] / "configs" / "vehicles"
HAND = "/push/hand"


class Told:
    """In the commander's place: what was asked for."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def put(self, values: dict[str, float]) -> None:
        self.values |= values


def test_only_a_model_with_a_hand_can_be_pushed() -> None:
    buggy, _ = load_machine(VEHICLES / "buggy.toml")
    plain, _ = load_machine(VEHICLES / "buggy_single_track.toml")
    assert can_push(buggy) and not can_push(plain)
    assert buggy.shown.scene is not None and buggy.shown.scene.push is not None
    assert [name for name, _ in buggy.shown.scene.push.points] == [
        "chassis",
        "wheel fl",
        "wheel fr",
        "wheel rl",
        "wheel rr",
    ]
    assert within_limits(buggy.shown.scene.push.force, 2000.0 * np.array([0.5, -100.0, 0.0]), buggy) == {
        "push_x": 1000.0,
        "push_y": -20000.0,
        "push_z": 0.0,
    }


def test_a_hand_goes_along_pushes_and_lets_go(server: Any) -> None:
    model, params = load_machine(VEHICLES / "buggy.toml")
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    model.initial(state, params, model.tables, work)
    told: Any = Told()
    assert model.shown.scene is not None
    seen = Seen(server)
    push = Push(server, model, params, model.shown.scene, told)
    seen["body"] = "wheel fl"
    assert told.values["push_body"] == 1.0 and told.values["push_x"] == 0.0
    push.show(Frame(0, None, state))
    out = poses(model.shown.scene.frames)
    model.shown.frames(state, params, out)
    centre = model.shown.scene.wheels[0].centre.where(out)
    np.testing.assert_allclose(seen.node("/push").position, centre, atol=1e-6)
    seen.drag(HAND, (0.0, 0.25, 0.0))
    assert told.values["push_y"] == pytest.approx(500.0)
    seen["torque (N m)"] = (100.0, 0.0, 0.0)
    assert told.values["push_roll"] == 100.0
    hand = {"push_x", "push_y", "push_z", "push_roll", "push_pitch", "push_yaw"}
    for let_go in (lambda: by_person(seen.controls["body"], "nothing"), push.leave):
        let_go()
        assert all(told.values[p.name] == 0.0 for p in model.parameters if p.name in hand) and seen.node(HAND) is None
        seen["body"] = "chassis"
        seen.drag(HAND, (0.1, 0.0, 0.0))
        assert told.values["push_x"] > 0.0
    push.leave()
    assert told.values["push_x"] == 0.0 and seen["body"] == "nothing"


def test_a_machine_that_is_no_car_is_pushed_where_it_says(server: Any) -> None:
    """One point, of a machine of its own, without any torque."""
    names = ("hit_x", "hit_y", "hit_z")
    parameters = tuple(Parameter(n, "N", 0.0, -5.0, 5.0, "from outside", of_the_file=False) for n in ("hit", *names))
    by = PushPoints((("block", Point(1, (0.1, 0.0, 0.0))),), "hit", names)
    scene = dataclasses.replace(MACHINE.shown.scene or Scene(), push=by)
    model = dataclasses.replace(MACHINE, parameters=(*MACHINE.parameters, *parameters)).having(
        dataclasses.replace(MACHINE.shown, scene=scene)
    )
    told: Any = Told()
    seen = Seen(server)
    push = Push(server, model, np.array([p.value for p in model.parameters]), scene, told)
    seen["body"] = "block"
    assert told.values == {"hit": 0.0, "hit_x": 0.0, "hit_y": 0.0, "hit_z": 0.0}
    push.show(Frame(0, None, np.array([0.02, 0.0])))
    np.testing.assert_allclose(seen.node("/push").position, (0.42, 0.0, 0.0), atol=1e-9)
    seen.drag(HAND, (1.0, 0.0, 0.001))
    assert told.values["hit_x"] == 5.0 and told.values["hit_z"] == pytest.approx(2.0)
    push.leave()
    assert set(told.values.values()) == {0.0}
