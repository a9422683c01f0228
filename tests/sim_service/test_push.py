"""A hand on the car, from the page's side: it pushes as far as it is drawn, and lets go."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.machines import load_machine
from sim_service.machines.scene import poses
from sim_service.view.feed import Frame
from sim_service.view.push import FORCES, TORQUES, Push, bodies, can_push, force_of

VEHICLES = Path(__file__).resolve().parents[2] / "configs" / "vehicles"


class Told:
    """In the commander's place: what was asked for."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def put(self, values: dict[str, float]) -> None:
        self.values |= values


@pytest.fixture
def server() -> Any:
    viser = pytest.importorskip("viser")
    made = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield made
    made.stop()


def test_only_a_model_with_a_hand_can_be_pushed() -> None:
    buggy, _ = load_machine(VEHICLES / "buggy.toml")
    plain, _ = load_machine(VEHICLES / "buggy_single_track.toml")
    assert can_push(buggy) and not can_push(plain)
    assert buggy.scene is not None
    assert [number for number, _ in bodies(buggy.scene).values()] == [0, 1, 2, 3, 4]
    assert force_of(np.array([0.5, -100.0, 0.0]), 2000.0, buggy) == {
        "push_x": 1000.0,
        "push_y": -20000.0,
        "push_z": 0.0,
    }


def test_a_hand_goes_along_pushes_and_lets_go(server: Any) -> None:
    model, params = load_machine(VEHICLES / "buggy.toml")
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    model.initial(state, params, model.tables, work)
    told: Any = Told()
    assert model.scene is not None
    push = Push(server, model, params, model.scene, told)
    push._body.value = "wheel fl"
    assert told.values["push_body"] == 1.0 and told.values["push_x"] == 0.0
    push.show(Frame(0, None, state))
    out = poses(model.scene.frames)
    model.frames(state, params, out)
    centre = model.scene.wheels[0].centre.where(out)
    np.testing.assert_allclose(push._root.position, centre, atol=1e-6)
    push._gizmo.position = (0.0, 0.25, 0.0)
    push._pull()
    assert told.values["push_y"] == pytest.approx(500.0)
    push._torque.value = (100.0, 0.0, 0.0)
    push._turn()
    assert told.values["push_roll"] == 100.0
    for let_go in (lambda: setattr(push._body, "value", "nothing"), push.leave):
        let_go()
        assert all(told.values[name] == 0.0 for name in (*FORCES, *TORQUES)) and push._gizmo is None
        push._body.value = "chassis"
        push._gizmo.position = (0.1, 0.0, 0.0)
        push._pull()
        assert told.values["push_x"] > 0.0
    push.leave()
    assert told.values["push_x"] == 0.0 and push._body.value == "nothing"
