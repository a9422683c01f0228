"""The fields of the page: what a person does acts, and what the page writes into its own fields does not."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sync.config.config import View
from tandem.view.listen import close_page, open_page
from tandem.view.mechanism_page import MechanismData, MechanismPage
from tandem.view.rig import Rig
from tests.tandem.view.pages import TOKEN
from tests.tandem.view.seen import Seen
from tests.tandem.view.test_mechanism_page import bench
from tests.tandem.view.test_rig import spindle


@pytest.fixture
def server() -> Iterator[Any]:
    made = open_page(View(port=0), "m", TOKEN)[0]
    yield made
    close_page(made)


def page_of(server: Any, of: Rig) -> tuple[MechanismPage, Seen]:
    seen = Seen(server)
    return MechanismPage(server, MechanismData("m", of)), seen


def test_choosing_a_body_leaves_the_motions_of_all(server: Any) -> None:
    page, seen = page_of(server, bench("double_pendulum"))
    b = page.rig
    first, second = b.bodies
    seen["speed (m/s, rad/s)"] = 0.5
    seen["motion"] = f"{first} turn"
    law = dict(b.motions)
    assert list(law) == [f"{first} turn"]
    seen["speed (m/s, rad/s)"] = 0.25  # another law of the same
    law = dict(b.motions)
    b.step()
    seen["body"] = second
    assert b.motions == law and seen["motion"] == "none"
    seen["body"] = first
    assert b.motions == law and seen["motion"] == f"{first} turn"
    seen["motion"] = "none"
    assert not b.motions


def test_choosing_a_joint_changes_none(server: Any) -> None:
    page, seen = page_of(server, bench("four_bar"))
    b = page.rig
    first, second = list(b.hinges)[:2]
    limit = {"low (m, rad)": 3.0, "high (m, rad)": 4.0, "limit": True}
    for label, value in {"type": "weld", **limit}.items():
        seen[label] = value
    parameters, log = b.parameters, list(b.log)
    assert b.hinges[first].kind == "weld" and parameters[f"{first} turn limit"]["high"] == 4.0
    for name, kind in ((second, "revolute"), (first, "weld")):
        seen["joint"] = name
        assert seen["type"] == kind and b.hinges[first].kind == "weld"
        assert b.parameters == parameters and b.log == log
    assert {label: seen[label] for label in limit} == limit


def test_a_motion_that_cannot_be_leaves_the_one_that_is(server: Any) -> None:
    page, seen = page_of(server, spindle())
    b = page.rig
    seen["speed (m/s, rad/s)"] = 0.1
    seen["motion"] = "drum along x"
    law = dict(b.motions)
    seen["motion"] = "drum along y"
    page.update_text()
    assert b.motions == law and seen["motion"] == "drum along x" and "holds already" in seen.text
    seen["motion"] = "bearing slide"
    assert list(b.motions) == ["bearing slide"]


def test_a_number_that_cannot_be_is_not_shown(server: Any) -> None:
    spring = {"s": {"kind": "spring", "points": ["P", "P"], "stiffness": 3.0, "length": 0.0}}
    page, seen = page_of(server, spindle(forces=spring))
    seen["s: stiffness"] = -1.0
    page.update_text()
    assert seen["s: stiffness"] == 3.0 and "s: stiffness = -1: must be at least 0" in seen.text
    seen["s: stiffness"] = 4.0
    assert page.rig.parameters["s"]["stiffness"] == 4.0


def test_what_ends_by_itself_is_shown(server: Any) -> None:
    page, seen = page_of(server, bench("four_bar"))
    b = page.rig
    seen["body"] = "coupler"
    seen["speed (m/s, rad/s)"] = 0.05
    seen["motion"] = "coupler along x"
    while b.motions:
        b.step()
    page.advance(0.0, False)
    assert seen["motion"] == "none" and "cannot go on" in b.notice


def test_after_a_reset_of_its_own_the_fields_are_as_drawn(server: Any) -> None:
    page, seen = page_of(server, bench("slider_crank"))
    b = page.rig
    joint = b.joints[0]
    seen[joint] = False
    seen["hold it"] = True
    seen["torque (N m)"] = (0.0, 1.0, 0.0)
    assert seen.node("/hand") is not None
    b.state.qd[:] = np.nan
    page.advance(b.system.h * 1.5, False)
    assert b.paused and seen["pause"] and "reset" in b.notice
    assert seen[joint] and not seen["hold it"] and seen.node("/hand") is None
    assert seen["torque (N m)"] == (0.0, 0.0, 0.0)
    seen["pause"] = False
    assert not b.paused
