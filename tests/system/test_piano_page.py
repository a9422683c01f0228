"""A piano key played on its page, in a real browser: seen, felt as a curve, heard, regulated, replayed to the bit.

TANDEM_SCREENSHOTS=FOLDER keeps a picture.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim_service.commands import CommandClient
from sync.config.config import load
from sync.record import open_run
from tandem.machines.piano.port import PHASES
from tandem.records.replay import Options, replay_run
from tests.system.browser import (
    act_until,
    browser,
    choose,
    drawings,
    lacking,
    open_tab,
    picture,
    press,
    visit,
    window,
    words,
)
from tests.system.conftest import PATIENCE_S, ROOT, Program, address, ring_of, until

FILE = ROOT / "configs" / "piano_page.toml"
SHOTS = os.environ.get("TANDEM_SCREENSHOTS")
# of an <audio> element: whether its data were read without an error, and how far it was played
HEARD = "a => a.readyState >= 2 && !a.error && a.currentTime > 0"


def phase(page: Any) -> str:
    """As the page has it in words."""
    lines = words(page).splitlines()
    return next((line.strip() for line in lines if line.strip() in PHASES), "")


@pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")
@pytest.mark.drill
def test_a_key_is_played_and_regulated_on_its_page(start: Callable[..., Program], name: str, tmp_path: Path) -> None:
    pytest.importorskip("viser")
    settings = (f"name={name}", "view.enabled=true", "view.port=0", "view.rate_hz=5")
    options = [word for setting in settings for word in ("--set", setting)]
    run = start("tandem", "run", str(FILE), *options, "--json", "--runs", str(tmp_path / "runs"))
    where = address(run)
    steps = ring_of(name, "sim")
    client = CommandClient(load(FILE, list(settings)), PATIENCE_S)

    def now(channel: str) -> float:
        return float(steps.newest()[channel])

    with browser() as opened:
        page: Any = window(opened, PATIENCE_S, bool(SHOTS)).new_page()
        visit(page, where, f"tandem: {name}")
        until(lambda: phase(page) == "acceleration", lambda: f"no phase in words: {words(page)}")

        def strike() -> None:
            page.keyboard.press("k")
            until(lambda: now("port") < 1e-4, lambda: f"not released: {now('port')}")
            page.keyboard.press("Space")

        act_until(strike, lambda: now("strike_count") > 0, lambda: f"no strike, the key is at {now('port')}")
        until(lambda: phase(page) not in ("", "acceleration"), lambda: f"the phase stays: {words(page)}")
        note = page.locator("audio[data-note]")
        act_until(
            strike, lambda: note.count() and note.first.evaluate(HEARD), lambda: f"no note is played: {words(page)}"
        )
        assert str(note.first.get_attribute("src")).startswith("data:audio/wav;base64,")
        curve = page.locator("svg[data-curve='force over travel'] polyline")
        until(lambda: curve.count() == 2, lambda: f"no force over travel: {words(page)}")
        assert SHOTS or until(lambda: drawings(page), "the action is not drawn")
        if SHOTS:
            picture(page, str(Path(SHOTS) / "piano.png"))
        # what a regulator turns is what the tab begins with
        open_tab(page, "tune")
        before = client.ask()["parameters"]["let_off"]["value"]
        label = page.get_by_text("let off [m]", exact=True).first
        slider = label.locator("xpath=ancestor::*[.//*[@role='slider']][1]").get_by_role("slider").first

        def moved() -> None:
            choose(page, "tune")
            press(slider, "End")

        def let_off() -> float:
            return float(client.ask()["parameters"]["let_off"]["value"])

        act_until(moved, lambda: let_off() > before, lambda: f"let_off stays {let_off()}: {words(page)}")
    client.close()
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    assert run.json()["view"]["rejected"] == 0 and "not shown" not in run.said
    recorded = open_run(tmp_path / "runs").topics["/step"].blocks
    assert set(recorded["phase"]) >= {0.0, 1.0, 2.0} and recorded["strike_speed"].max() > 0.1
    assert replay_run(tmp_path / "runs", Options()).figures["identical"] is True
