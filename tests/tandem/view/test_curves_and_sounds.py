"""Curves and sounds of a machine on its page, without a browser: what is drawn and what is played, from steps alone."""

import base64
import io
import re
import wave
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim_service.contract.display import Curve
from sim_service.registry import load_machine
from sim_service.step_record import output_layout
from tandem.view.curves import Curves, picture
from tandem.view.history import History
from tandem.view.instruments import tiles
from tandem.view.sounds import Sounds
from tandem.view.tuning import _first_shown, grouped

MACHINE, PARAMS = load_machine("piano_phases", {"note": 69.0})
MS = 1_000_000


class Gui:
    def add_html(self, content: str) -> Any:
        self.html = SimpleNamespace(content=content)
        return self.html

    def add_checkbox(self, _: str, value: bool, **__: Any) -> Any:
        self.box = SimpleNamespace(value=value)
        return self.box


def steps(first: int, count: int, **columns: Any) -> np.ndarray:
    made = np.zeros(count, output_layout(MACHINE).dtype)
    made["step"] = first + np.arange(count)
    made["t_ns"] = MS * made["step"]
    for name, values in columns.items():
        made[name] = values
    return made


def test_a_strike_is_played_once_with_its_pitch_and_one_of_the_past_is_not() -> None:
    gui = Gui()
    sounds = Sounds(gui, MACHINE, PARAMS)
    handle = gui.html
    sounds.show(steps(0, 10, strike_count=3.0))  # before the page was there
    assert not handle.content
    sounds.show(steps(10, 10, strike_count=[3.0] * 5 + [4.0] * 5, strike_speed=2.0))
    content = handle.content
    found = re.search(r'data-note="1" autoplay src="data:audio/wav;base64,([^"]+)"', content)
    assert found
    with wave.open(io.BytesIO(base64.b64decode(found[1]))) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(float)
        hz = np.fft.rfftfreq(len(sound), 1.0 / file.getframerate())
    assert hz[np.argmax(np.abs(np.fft.rfft(sound)))] == pytest.approx(440.0, abs=3.0)
    sounds.show(steps(20, 10, strike_count=4.0))
    sounds.show(steps(30, 0))
    assert handle.content == content
    # a page that was hidden for long does not catch up; a reset is no strike
    sounds.show(steps(40, 5000, strike_count=[5.0] + [5.0] * 4999))
    sounds.show(steps(5040, 2, strike_count=0.0))
    assert handle.content == content
    gui.box.value = False
    sounds.show(steps(6000, 2, strike_count=1.0))
    assert handle.content == content and sounds.played == 1


def test_force_over_travel_is_drawn_and_nothing_hostile_breaks_it() -> None:
    history = History(1e-3)
    history.add(steps(0, 1000, port=np.linspace(0.0, 8e-3, 1000), tip_force=np.linspace(1.0, 3.0, 1000)))
    gui, made = Gui(), []
    gui.add_html = lambda content: made.append(SimpleNamespace(content=content)) or made[-1]  # type: ignore[method-assign]
    Curves(gui, MACHINE.shown.display.curves).show(history)
    assert "<polyline" in made[0].content and "mm" in made[0].content
    curve = Curve("<a>", "x", "y")
    for values in (np.zeros(0), np.full(9, np.nan), np.full(9, 1e300), np.array([np.inf, 1.0, 2.0]), np.zeros(9)):
        text = picture(curve, values, values)
        assert "<a>" not in text and "nan" not in text and "inf" not in text


def test_phases_are_shown_in_words_and_regulation_has_its_sliders_first() -> None:
    phase = next(tile for tile in tiles(MACHINE)[1] if tile.channel == "phase")
    from tandem.view.instruments import figure

    assert [figure(phase, v) for v in (0.0, 1.0, 3.0, 7.0)] == ["acceleration", "let-off", "reset", "7"]
    assert figure(phase, np.nan) == "–"
    for name in ("piano_phases", "piano_multibody"):
        machine, _ = load_machine(name)
        groups = grouped(p for p in machine.parameters if p.live)
        assert _first_shown(groups, machine.shown.display.tuned) == "regulation"
        shown = {p.name for p in groups["regulation"]}
        assert len(shown & {"let_off", "let_off_button", "hammer_mass", "hammer_mass_added"}) == 2
