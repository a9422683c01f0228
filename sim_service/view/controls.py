"""Controls: hold, step, slow down, begin anew, look ahead; and drive, where the page is the source.

Nothing here waits: what is asked for goes to the simulator by the commander, hands and feet to the DAQ by a thread.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import zmq

from sim_service.view import fork
from sim_service.view.commander import Commander
from sim_service.view.feed import Feed, Frame
from sim_service.view.history import History
from sync.config import Config
from sync.input_rows import Affine, of_channel
from sync.markup import Markup, markup, show

OnFork = Callable[[np.ndarray | None], None]

_SLOW = {"real time": 1.0, "2 × slower": 2.0, "5 × slower": 5.0, "10 × slower": 10.0, "50 × slower": 50.0}
_HAND_S = 0.05  # from one message to the DAQ to the next


def note(text: str) -> Markup:
    return markup('<div style="font-size:.8rem;margin:.1rem .8rem .4rem">{}</div>', text)


class Controls:
    """Of the simulation. For a feed that is live."""

    def __init__(self, gui: Any, feed: Feed, commander: Commander, on_fork: OnFork):
        self._feed, self._commander, self._on_fork = feed, commander, on_fork
        self._go = gui.add_button_group("run", ("pause", "go on", "1 step", "10 steps"))
        self._go.on_click(lambda event: self._run(event.target.value))
        self._slow = gui.add_dropdown("pace", tuple(_SLOW))
        self._slow.on_update(self._slower)
        self._other = gui.add_button_group("model", ("reset", "fork ahead", "remove fork"))
        self._other.on_click(lambda event: self._model(event.target.value))
        self._said = gui.add_html("")
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
            self._tell("")

    def _tell(self, text: str) -> None:
        show(self._said, note(text) if text else markup(""))

    def _fork(self) -> None:
        frame = self._frame
        if frame is None or not self._busy.acquire(blocking=False):  # one at a time
            return
        try:
            model, params = self._feed.model, self._feed.params.copy()
            if not fork.can_fork(model):
                self._tell("this model has no place in the world to draw")
                return
            told = self._commander.told
            if told is not None:
                for i, p in enumerate(model.parameters):
                    params[i] = told["parameters"].get(p.name, {}).get("value", params[i])
            path = fork.ahead(model, params, frame, self._feed.config.sim.step_ms * 1e-3)
            self._path = path
            self._on_fork(path.points)
            self._tell(
                f"ahead by {path.seconds:g} s, inputs held as they are"
                if path.ok
                else f"the model leaves the numbers after {(len(path.points) - 1) / path.steps * path.seconds:.2f} s"
            )
        finally:
            self._busy.release()

    def show(self, frame: Frame | None, history: History) -> None:
        self._frame = frame
        if self._commander.answers != self._answers and not self._commander.busy:
            self._answers = self._commander.answers
            told = self._commander.told or {}
            for label, factor in _SLOW.items():
                if factor == told.get("slow") and self._slow.value != label:
                    self._slow.value = label
        path = self._path
        if path is not None and path.ok:
            came = history.at_step(path.step + path.steps)
            if came is not None:
                self._path = None
                there = np.array([float(came["x"]), float(came["y"])])
                off = float(np.linalg.norm(there - path.points[-1, :2]))
                way = float(np.linalg.norm(np.diff(path.points[:, :2], axis=0), axis=1).sum())
                self._tell(
                    f"{path.seconds:g} s later it was {off:.2f} m from the end of that path of {way:.1f} m; the"
                    " difference is what was done to it meanwhile"
                )


class ForkLine:
    """Draws a fork into the scene, if nobody else does."""

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


# ---- driving ---------------------------------------------------------------------------------------------------------


class Hand:
    """Sends where wheel and pedals are to the DAQ's page source, while somebody has a page open."""

    def __init__(self, config: Config, where: Callable[[], tuple[float, float, float] | None]):
        self._where = where
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
                    where = self._where()
                    if where is not None and socket.poll(0, zmq.POLLOUT):
                        message = dict(zip(("steering_deg", "throttle", "brake_bar"), where, strict=True))
                        socket.send(msgpack.packb(message))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(1.0)


_KEYS = (  # W, A, S, D and the arrows move the camera
    ("J", "steer left"), ("L", "steer right"), ("I", "more throttle"), ("K", "brake"), ("B", "brake hard"),
    ("space", "brake hard"), ("U", "wheel straight"),
)  # fmt: skip


class Wheel:
    """Sliders and keys for steering, throttle and brake. The last page that closes lets go."""

    def __init__(self, gui: Any, config: Config, watched: Callable[[], bool]):
        self._watched = watched
        self._limit = float(config.source.get("steering_limit_deg", 520.0))
        found = of_channel(config.inputs, "brake")
        self._full = found[1].full if found and isinstance(found[1], Affine) else 100.0
        rest = min(float(config.source.get("let_go_brake_bar", 10.0)), self._full)
        self._rest = rest
        # on a slider left is left, so its sign is not that of the angle
        self._steering = gui.add_slider(
            "steering [deg]", -self._limit, self._limit, 1.0, 0.0, hint="of the hand wheel; left is left"
        )
        self._throttle = gui.add_slider("throttle [%]", 0.0, 100.0, 1.0, 0.0)
        self._brake = gui.add_slider("brake [bar]", 0.0, self._full, 0.5, rest)
        self._touched = False
        for slider in (self._steering, self._throttle, self._brake):
            slider.on_update(self._touch)
        gui.add_button_group("hand", ("wheel straight", "release all", "stop")).on_click(
            lambda event: self._press({"wheel straight": "U", "release all": "", "stop": "space"}[event.target.value])
        )
        keys = gui.add_html("")
        show(keys,
            note("Keys, after a click into the scene: J L steer, I throttle, K brake, B or space brakes hard, U wheel"
                 " straight. A page that is closed lets go of the throttle and brakes lightly.")
        )  # fmt: skip
        for key, text in _KEYS:
            gui.add_command(text, hotkey=key).on_trigger(lambda _, key=key: self._press(key))
        self._hand = Hand(config, self._where)

    def _touch(self, event: Any) -> None:
        if event.client_id is not None:  # a person, not we
            self._touched = True

    def _press(self, key: str) -> None:
        self._touched = True
        steering, throttle, brake = self._steering.value, self._throttle.value, self._brake.value
        if key in ("J", "L"):
            steering += -15.0 if key == "J" else 15.0
        elif key == "U":
            steering = 0.0
        elif key == "I":
            throttle, brake = throttle + 5.0, 0.0
        elif key == "K":
            throttle, brake = 0.0, brake + 2.0
        elif key in ("B", "space"):  # a tab or a box that was clicked last keeps the space for itself
            throttle, brake = 0.0, self._full
        else:
            throttle, brake = 0.0, 0.0
        self._steering.value = min(max(steering, -self._limit), self._limit)
        self._throttle.value = min(max(throttle, 0.0), 100.0)
        self._brake.value = min(max(brake, 0.0), self._full)

    def _where(self) -> tuple[float, float, float] | None:
        if not self._watched():
            # whoever opens a page next does not find the throttle pressed
            self._throttle.value, self._brake.value, self._touched = 0.0, self._rest, False
            return None
        if not self._touched:  # another view may be driving
            return None
        return -float(self._steering.value), float(self._throttle.value) / 100.0, float(self._brake.value)

    def close(self) -> None:
        self._hand.close()
