"""The sounds of a machine on its page: an event of a step (a count that rises) becomes a note that the browser plays.

The note is made here (tones.py) and handed over as an <audio> element that plays at once: a page has no script of ours.
A browser plays nothing before somebody has clicked into the page.
"""

import base64
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from tandem.reports.html.markup import markup, show
from tandem.view.tones import Note, wave_file

_RATE = 22_050
_SECONDS = 1.2
_MOST_AGE_S = 1.0  # of a strike that is still played: a page that was hidden does not catch up


class Sounds:
    def __init__(self, gui: Any, model: Machine, params: np.ndarray):
        self._sounds = model.shown.display.sounds
        pitches = {p.name: round(float(value)) for p, value in zip(model.parameters, params, strict=False)}
        self._pitch = [min(max(pitches.get(sound.pitch, 60) + sound.above, 0), 127) for sound in self._sounds]
        self._last: list[float | None] = [None] * len(self._sounds)
        self._on = gui.add_checkbox("sound", True, hint="notes are played by this page") if self._sounds else None
        self._element = gui.add_html("") if self._sounds else None
        self.played = 0

    def hear(self, steps: np.ndarray) -> list[Note]:
        """Strikes among new steps."""
        there = steps.dtype.names or ()
        found = []
        for k, sound in enumerate(self._sounds):
            if not len(steps) or sound.count not in there:
                continue
            counts = steps[sound.count].astype(float)
            before, self._last[k] = self._last[k], float(counts[-1])
            if before is None:
                continue
            at = np.flatnonzero(np.diff(counts, prepend=before) > 0.0)
            fresh = (steps["t_ns"][-1] - steps["t_ns"][at]) * 1e-9 < _MOST_AGE_S
            if len(at) and fresh[-1]:
                found.append(Note(0.0, _SECONDS, self._pitch[k], float(steps[sound.speed][at[-1]])))
        return found

    def show(self, steps: np.ndarray) -> None:
        notes = self.hear(steps)
        if self._element is None or self._on is None or not notes or not self._on.value:
            return
        self.played += 1
        sound = base64.b64encode(wave_file(notes, _RATE)).decode()
        # another number is another element, which plays from its beginning
        show(
            self._element,
            markup('<audio data-note="{}" autoplay src="data:audio/wav;base64,{}"></audio>', self.played, sound),
        )
