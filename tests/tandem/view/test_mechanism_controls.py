"""The fields of the page: what a person does acts, and what the page writes into its own fields does not."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from viser import GuiEvent

from sync.config.config import View
from tandem.view.bench import Bench
from tandem.view.listen import close_page, open_page
from tandem.view.mechanism_page import MechanismData, MechanismPage
from tests.tandem.view.pages import TOKEN
from tests.tandem.view.test_bench import spindle
from tests.tandem.view.test_mechanism_page import bench


@pytest.fixture
def server() -> Iterator[Any]:
    made = open_page(View(port=0), "m", TOKEN)[0]
    yield made
    close_page(made)


def page_of(server: Any, of: Bench) -> MechanismPage:
    return MechanismPage(server, MechanismData("m", of))


def by_person(field: Any, value: Any) -> None:
    """As viser does for a value that comes from a browser."""
    field._impl.value = value
    for act in field._impl.update_cb:
        act(GuiEvent(None, 1, field))


def test_choosing_a_body_leaves_the_motions_of_all(server: Any) -> None:
    page = page_of(server, bench("double_pendulum"))
    b, body = page.bench, page._body
    first, second = b.bodies
    by_person(body._speed, 0.5)
    by_person(body._motion, f"{first} turn")
    law = dict(b.motions)
    assert list(law) == [f"{first} turn"]
    by_person(body._speed, 0.25)  # another law of the same
    law = dict(b.motions)
    b.step()
    by_person(body._which, second)
    assert b.motions == law and body._motion.value == "none"
    by_person(body._which, first)
    assert b.motions == law and body._motion.value == f"{first} turn"
    by_person(body._motion, "none")
    assert not b.motions


def test_choosing_a_joint_changes_none(server: Any) -> None:
    page = page_of(server, bench("four_bar"))
    b, joint = page.bench, page._hinges
    first, second = list(b.hinges)[:2]
    by_person(joint._kind, "weld")
    by_person(joint._low, 3.0)
    by_person(joint._high, 4.0)
    by_person(joint._limit, True)
    parameters, log = b.parameters, list(b.log)
    assert b.hinges[first].kind == "weld" and parameters[f"{first} turn limit"]["high"] == 4.0
    for name, kind in ((second, "revolute"), (first, "weld")):
        by_person(joint._which, name)
        assert joint._kind.value == kind and b.hinges[first].kind == "weld"
        assert b.parameters == parameters and b.log == log
    assert (joint._low.value, joint._high.value, joint._limit.value) == (3.0, 4.0, True)


def test_a_motion_that_cannot_be_leaves_the_one_that_is(server: Any) -> None:
    page = page_of(server, spindle())
    b, body = page.bench, page._body
    by_person(body._speed, 0.1)
    by_person(body._motion, "drum along x")
    law = dict(b.motions)
    by_person(body._motion, "drum along y")
    assert b.motions == law and body._motion.value == "drum along x" and "holds already" in page._refused[1]
    by_person(body._motion, "bearing slide")
    assert list(b.motions) == ["bearing slide"]


def test_a_number_that_cannot_be_is_not_shown(server: Any) -> None:
    spring = {"s": {"kind": "spring", "points": ["P", "P"], "stiffness": 3.0, "length": 0.0}}
    page = page_of(server, spindle(forces=spring))
    field = page._fields["s", "stiffness"]
    by_person(field, -1.0)
    assert field.value == 3.0 and "s: stiffness = -1: must be at least 0" in page._refused[1]
    by_person(field, 4.0)
    assert page.bench.parameters["s"]["stiffness"] == 4.0


def test_what_ends_by_itself_is_shown(server: Any) -> None:
    page = page_of(server, bench("four_bar"))
    b, body = page.bench, page._body
    by_person(body._which, "coupler")
    by_person(body._speed, 0.05)
    by_person(body._motion, "coupler along x")
    while b.motions:
        b.step()
    page.look(0.0, False)
    assert body._motion.value == "none" and "cannot go on" in b.notice


def test_after_a_reset_of_its_own_the_fields_are_as_drawn(server: Any) -> None:
    page = page_of(server, bench("slider_crank"))
    b, body = page.bench, page._body
    by_person(page._boxes[0], False)
    by_person(page._hold, True)
    by_person(body._torque, (0.0, 1.0, 0.0))
    b.state.qd[:] = np.nan
    page.look(b.system.h * 1.5, False)
    assert b.paused and page._pause.value and "reset" in b.notice and not b.log
    assert page._boxes[0].value and not page._hold.value and page._gizmo is None
    assert body._torque.value == (0.0, 0.0, 0.0)
    by_person(page._pause, False)
    assert not b.paused
