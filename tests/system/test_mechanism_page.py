"""The page of a mechanism in a real browser: the four manipulators, and the plots, by what a person does there; and all
of it again, to the bit, from its record."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sync.config.config import View
from tandem.mechanism.again import replay_mechanism, write_in_hand
from tandem.mechanism.run import prepare
from tandem.multibody.description.mechanism_file import Described, read_mechanism
from tandem.view.listen import close_page, open_page
from tandem.view.mechanism_page import MechanismData, MechanismPage
from tandem.view.rig import Rig, with_hands
from tests.system.browser import act_until, browser, click, lacking, type_into, visit, window, words
from tests.system.conftest import PATIENCE_S, ROOT, until
from tests.tandem.view.pages import TOKEN

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")
TITLE = "Drum on a shaft"


@pytest.fixture
def page() -> Iterator[tuple[MechanismPage, str, Described]]:
    described = read_mechanism(ROOT / "configs" / "mechanisms" / "spindle.toml")
    with_hands(described.mechanism)
    server, _, address = open_page(View(port=0), TITLE, TOKEN)
    described, state = prepare(described)
    made = MechanismPage(server, MechanismData(TITLE, Rig(state)))
    stop = threading.Event()
    thread = threading.Thread(target=made.run, args=(stop, 5.0))
    thread.start()
    try:
        yield made, address, described
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        close_page(server)


@pytest.fixture
def tab() -> Iterator[Any]:
    with browser() as opened:
        context = window(opened, PATIENCE_S, False)
        yield context.new_page()
        context.close()


@pytest.mark.drill
def test_a_person_turns_moves_and_changes_a_mechanism(
    page: tuple[MechanismPage, str, Described], tab: Any, tmp_path: Path
) -> None:
    made, address, described = page
    bench = made.rig
    tab.set_viewport_size({"width": 900, "height": 1600})  # a list whose field is out of sight is hidden
    visit(tab, address, TITLE)

    def pick(label: str, option: str) -> None:
        choice = tab.get_by_role("option", name=option, exact=True).first
        if not choice.count():  # a second click would close the list
            click(tab.get_by_label(label, exact=True).first)
        click(choice)

    def locked(look: Any) -> Any:
        with made._lock:  # its loop steps the bench, and makes its tables anew
            return look()

    def done(act: Any, seen: Any, what: str) -> None:
        act_until(
            act, lambda: locked(seen), lambda: f"{what} has no effect: {locked(lambda: bench.log[-5:])} {words(tab)}"
        )

    def soon(seen: Any, what: str) -> None:
        until(lambda: locked(seen), lambda: what)

    # a point is held, dragged by its arrows, and let go; and pushed
    hold = tab.get_by_label("hold it", exact=True)
    done(lambda: hold.is_checked() or click(hold), lambda: bench.held is not None, "hold")
    there = locked(lambda: np.array(made._gizmo.position))

    def drag() -> None:
        for away in (0.02, 0.05):
            made._gizmo.position = there + np.array([0.0, away, 0.0])
            for moved in made._gizmo._impl_aux.update_cb:
                moved(None)

    locked(drag)
    assert locked(lambda: [act for _, act, _ in bench.log if act == "hold"]) == 3 * ["hold"]
    done(lambda: hold.is_checked() and click(hold), lambda: bench.held is None, "let go")
    done(lambda: type_into(_vector(tab, "force (N)", 0), "2"), lambda: bench.pushed, "push")
    done(lambda: type_into(_vector(tab, "force (N)", 0), "0"), lambda: not bench.pushed, "no push")

    # the torque arc: typed, and drawn about the body
    done(lambda: type_into(_vector(tab, "torque (N m)", 0), "0.5"), lambda: "drum" in bench.torques, "torque")
    assert locked(lambda: bench.torques["drum"]) == pytest.approx([0.5, 0.0, 0.0])
    soon(lambda: made._body._line is not None, "no arc is drawn")
    done(lambda: type_into(_vector(tab, "torque (N m)", 0), "0"), lambda: not bench.torques, "no torque")

    # a cylindrical joint becomes a revolute one where it is, and back
    done(lambda: pick("type", "revolute"), lambda: bench.hinges["shaft"].kind == "revolute", "type")
    slid = locked(lambda: bench.present("shaft", "slide"))
    soon(lambda: bench.steps > 0 and bench.state.time > 0.5, "it does not run")
    assert locked(lambda: bench.present("shaft", "slide")) == pytest.approx(slid, abs=1e-6)
    tab.get_by_text("revolute: turn").first.wait_for()
    done(lambda: pick("type", "cylindrical"), lambda: bench.hinges["shaft"].kind == "cylindrical", "type")

    # friction and limit of the joint
    done(lambda: type_into(tab.get_by_label("friction (N, N m)", exact=True), "0.05"),
         lambda: bench.parameters.get("shaft turn friction", {}).get("level") == 0.05, "friction")  # fmt: skip
    box = tab.get_by_label("limit", exact=True)
    done(lambda: box.is_checked() or click(box), lambda: "shaft turn limit" in bench.parameters, "limit")
    done(lambda: type_into(tab.get_by_label("high (m, rad)", exact=True), "0.75"),
         lambda: bench.parameters["shaft turn limit"]["high"] == 0.75, "high")  # fmt: skip

    # a motion of the body, its effort, and one that cannot be
    done(lambda: type_into(tab.get_by_label("speed (m/s, rad/s)", exact=True), "0.05"),
         lambda: made._body._speed.value == 0.05, "speed")  # fmt: skip
    done(lambda: pick("motion", "drum along x"), lambda: "drum along x" in bench.motions, "motion")
    soon(lambda: abs(bench.motion("drum").velocity[0] - 0.05) < 1e-6, "it does not move as prescribed")
    tab.get_by_text("drum along x: effort").first.wait_for()
    act_until(
        lambda: pick("motion", "drum along y"), lambda: "not done" in words(tab), lambda: f"it is done: {words(tab)}"
    )
    assert locked(lambda: list(bench.motions)) == ["drum along x"]  # the one that was goes on
    assert locked(bench.diagnosis)["phi_error"] < 1e-8

    # the plots have what the body does
    soon(lambda: len(made._body._past) > 10, "nothing is kept for the plots")
    curves = locked(made._body.curves)
    assert len(curves) == 6 and all(np.isfinite(c).all() for data in curves for c in data)
    act_until(
        lambda: click(tab.get_by_text("plots of the body", exact=True).first),
        tab.get_by_text("angular acceleration (rad/s²) x").first.count,
        lambda: f"no plots: {words(tab)}",
    )

    # reset: as drawn
    done(
        lambda: click(tab.get_by_role("button", name="reset", exact=True)),
        lambda: "shaft turn limit" not in bench.parameters,
        "reset",
    )
    assert locked(lambda: bench.hinges["shaft"].kind == "cylindrical" and not bench.motions)

    # all of it again, from its record
    def recorded() -> None:
        bench.paused = True
        write_in_hand(tmp_path, described, bench)

    locked(recorded)
    found = replay_mechanism(tmp_path)
    assert found.data["identical"] and found.data["instants"] > 500


def _vector(tab: Any, label: str, axis: int) -> Any:
    """A field of a vector: the first has the label, the others follow."""
    return tab.get_by_label(label, exact=True).nth(axis)
