"""Controls: hold, step, slow down, reset, look ahead; and sliders and keys, where the page is the source.

Nothing here waits: what is asked for goes to the simulator by the commander, values of sliders to the DAQ by a thread.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np
import zmq

from sim_service.contract.display import Tile
from sync.config.config import Config
from sync.config.hand_controls import HandControl, Move, hand_controls
from tandem.reports.html.markup import Markup, markup, show
from tandem.view import fork
from tandem.view.commander import Commander
from tandem.view.data_source import DataSource, Frame
from tandem.view.history import History
from tandem.view.tuning import nice

OnFork = Callable[[np.ndarray | None], None]

_SLOW = {"real time": 1.0, "2 × slower": 2.0, "5 × slower": 5.0, "10 × slower": 10.0, "50 × slower": 50.0}
_HAND_S = 0.05  # from one message to the DAQ to the next


def note(text: str) -> Markup:
    return markup('<div style="font-size:.8rem;margin:.1rem .8rem .4rem">{}</div>', text)


class Controls:
    """Buttons that control a live simulation."""

    def __init__(self, gui: Any, feed: DataSource, commander: Commander, on_fork: OnFork):
        self._feed, self._commander, self._on_fork = feed, commander, on_fork
        self._go = gui.add_button_group("run", ("pause", "go on", "1 step", "10 steps"))
        self._go.on_click(lambda event: self._run(event.target.value))
        self._slow = gui.add_dropdown("pace", tuple(_SLOW))
        self._slow.on_update(self._slower)
        self._other = gui.add_button_group("model", ("reset", "fork ahead", "remove fork"))
        self._other.on_click(lambda event: self._model(event.target.value))
        self._message = gui.add_html("")
        self._frame: Frame | None = None
        self._path: fork.Path | None = None
        self._busy = threading.Lock()
        self._answers = -1

    def _run(self, what: str) -> None:
        if what in ("pause", "go on"):
            self._commander.act(pause=what == "pause")
        else:
            self._commander.act(steps=int(what.split(maxsplit=1)[0]))

    def _slower(self, event: Any) -> None:
        if event.client_id is not None:
            self._commander.act(slow=_SLOW[self._slow.value])

    def _model(self, what: str) -> None:
        if what == "reset":
            self._commander.act(reset=True)
        elif what == "fork ahead":
            threading.Thread(target=self._fork, daemon=True).start()
        else:
            self._path = None
            self._on_fork(None)
            self._show_note("")

    def _show_note(self, text: str) -> None:
        show(self._message, note(text) if text else markup(""))

    def _fork(self) -> None:
        frame = self._frame
        if frame is None or not self._busy.acquire(blocking=False):  # one at a time
            return
        try:
            model, params = self._feed.model, self._feed.params.copy()
            if not fork.can_fork(model):
                self._show_note("this model has no place in the world to draw")
                return
            answer = self._commander.answer
            if answer is not None:
                for i, p in enumerate(model.parameters):
                    params[i] = answer["parameters"].get(p.name, {}).get("value", params[i])
                    if p.shapes and params[i] != self._feed.params[i]:
                        self._show_note(
                            f"no path ahead: {p.name} was changed, and the page has the machine of the start"
                        )
                        return
            path = fork.ahead(model, params, frame, self._feed.config.sim.step_ms * 1e-3)
            self._path = path
            self._on_fork(path.points)
            self._show_note(
                f"ahead by {path.seconds:g} s, inputs held as they are"
                if path.ok
                else f"the model diverges after {(len(path.points) - 1) / path.steps * path.seconds:.2f} s"
            )
        finally:
            self._busy.release()

    def show(self, frame: Frame | None, history: History) -> None:
        self._frame = frame
        if self._commander.answers != self._answers and not self._commander.busy:
            self._answers = self._commander.answers
            answer = self._commander.answer or {}
            for label, factor in _SLOW.items():
                if factor == answer.get("slow") and self._slow.value != label:
                    self._slow.value = label
        path = self._path
        if path is not None and path.ok:
            came = history.at_step(path.step + path.steps)
            if came is not None:
                self._path = None
                there = np.array([float(came["x"]), float(came["y"])])
                off = float(np.linalg.norm(there - path.points[-1, :2]))
                way = float(np.linalg.norm(np.diff(path.points[:, :2], axis=0), axis=1).sum())
                self._show_note(
                    f"{path.seconds:g} s later it was {off:.2f} m from the end of that path of {way:.1f} m; the"
                    " difference is what was done to it meanwhile"
                )


class ForkLine:
    """Draws a fork into the scene, if no other page does."""

    def __init__(self, server: Any):
        self._server, self._line = server, None

    def __call__(self, points: np.ndarray | None) -> None:
        if self._line is not None:
            self._line.remove()
            self._line = None
        if points is not None and len(points) > 1:
            thin = points[:: max(len(points) // 100, 1)].astype(np.float32)
            thin[:, 2] += 0.05
            pairs = np.stack([thin[:-1], thin[1:]], axis=1)
            self._line = self._server.scene.add_line_segments(
                "/fork", points=pairs, colors=(240, 140, 0), thickness=4.0, thickness_units="screen"
            )


# ---- by hand ---------------------------------------------------------------------------------------------------------


class HandSender:
    """Sends the values of the sliders to the DAQ's page source, while somebody has a page open."""

    def __init__(self, config: Config, values: Callable[[], dict[str, float] | None]):
        self._values = values
        self._stop = threading.Event()
        self._endpoint = f"ipc://{config.socket('hand')}"
        self._thread = threading.Thread(target=self._work, name="hand", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.set(zmq.LINGER, 0)
            socket.set(zmq.SNDHWM, 2)
            socket.set(zmq.IMMEDIATE, 1)  # nothing waits for a DAQ that is not there
            socket.connect(self._endpoint)
            while not self._stop.wait(_HAND_S):
                with contextlib.suppress(Exception):  # a page that closes meanwhile
                    values = self._values()
                    if values is not None and socket.poll(0, zmq.POLLOUT):
                        socket.send(msgpack.packb(values))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(1.0)


class HandSlider:
    """The slider of one control, in the unit of its tile; `value` is in its row's, whichever way round the slider
    is."""

    def __init__(
        self, gui: Any, name: str, control: HandControl, touched: Callable[[Any], None], tile: Tile | None = None
    ):
        self.control = control
        row_unit = "" if control.row.unit == "1" else control.row.unit
        self.unit, self.factor = row_unit, 1.0
        if tile is not None and tile.unit not in ("", row_unit):  # its factor is that of the machine's unit
            self.unit, self.factor = tile.unit, tile.factor * control.row.in_si(1.0)
        self._sign = self.factor * (-1.0 if control.settings.reversed else 1.0)
        unit = f" [{self.unit}]" if self.unit else ""
        ends = sorted((self._sign * control.least, self._sign * control.most))
        self._slider = gui.add_slider(
            f"{name.replace('_', ' ')}{unit}", *ends, nice((ends[1] - ends[0]) * 1e-3), self._sign * control.at_rest,
            hint="positive to the left" if control.settings.reversed else None,
        )  # fmt: skip
        self._slider.on_update(touched)

    @property
    def value(self) -> float:
        return float(self._slider.value) / self._sign

    @value.setter
    def value(self, value: float) -> None:
        self._slider.value = self._sign * self.control.clipped(value)


class HandControls:
    """Sliders, keys and buttons for the rows that are moved by hand. The last page that closes lets go."""

    def __init__(self, gui: Any, config: Config, watched: Callable[[], bool], tiles: Sequence[Tile] = ()):
        self._watched, self._touched = watched, False
        self._sliders = {}
        for row, control in hand_controls(config, "").items():
            tile = next((t for t in tiles if t.channel in control.row.to), None)
            self._sliders[row] = HandSlider(gui, row, control, self._touch, tile)
        self._keys = self._moves("keys")
        self._buttons = self._moves("buttons") or {"at rest": self._all_at_rest()}
        gui.add_button_group("hand", tuple(self._buttons)).on_click(
            lambda event: self._press(self._buttons[event.target.value])
        )
        show(gui.add_html(""), note(self._help()))
        for key, moves in self._keys.items():
            gui.add_command(self._in_words(moves), hotkey=key).on_trigger(lambda _, moves=moves: self._press(moves))
        self._sender = HandSender(config, self.values)

    def _moves(self, kind: str) -> dict[str, dict[str, Move]]:
        """What every key, or every button, does to which rows."""
        found: dict[str, dict[str, Move]] = {}
        for row, slider in self._sliders.items():
            for name, move in getattr(slider.control.settings, kind).items():
                found.setdefault(name, {})[row] = move
        return found

    def _all_at_rest(self) -> dict[str, Move]:
        return {row: Move(to=slider.control.at_rest) for row, slider in self._sliders.items()}

    def _help(self) -> str:
        keys = "; ".join(f"{key}: {self._in_words(moves)}" for key, moves in self._keys.items())
        back = [row for row, slider in self._sliders.items() if slider.control.settings.springs_back]
        text = f"Keys, after a click into the scene: {keys}. " if keys else ""
        # a tab or a box that was clicked last keeps the space for itself
        springs = "springs" if len(back) == 1 else "spring"
        return text + (f"When the page is closed, {' and '.join(back)} {springs} back." if back else "")

    def _in_words(self, moves: dict[str, Move]) -> str:
        """Such as `handle +5 mm, lamp to 1`."""
        return ", ".join(
            f"{row} to {m.to * s.factor:g}{f' {s.unit}' * bool(s.unit)}"
            if m.to is not None
            else f"{row} {(m.by or 0.0) * s.factor:+g}{f' {s.unit}' * bool(s.unit)}"
            for row, m in moves.items()
            for s in (self._sliders[row],)
        )

    def _touch(self, event: Any) -> None:
        if event.client_id is not None:  # a person, not we
            self._touched = True

    def _press(self, moves: dict[str, Move]) -> None:
        self._touched = True
        for row, move in moves.items():
            slider = self._sliders[row]
            slider.value = slider.control.moved(slider.value, move)

    def values(self) -> dict[str, float] | None:
        """The values to send, of every row; None until a control of this page has been used."""
        if not self._watched():
            # the next page that is opened does not find a control pressed
            for slider in self._sliders.values():
                if slider.control.settings.springs_back:
                    slider.value = slider.control.at_rest
            self._touched = False
            return None
        if not self._touched:  # another view may have the controls
            return None
        return {row: slider.value for row, slider in self._sliders.items()}

    def close(self) -> None:
        self._sender.close()
