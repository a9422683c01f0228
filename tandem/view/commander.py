"""Talks to the simulator for a page: in a thread of its own, never more often than the simulator likes.

Whatever is asked for returns at once. Moves of a slider are conflated: of each parameter the last value counts, at most
some ten requests a second go out, and the last one always does. What other clients set is seen by the number of
commands the steps have obeyed, and asked for.
"""

import threading
from collections.abc import Callable
from typing import Any

from sim_service.commands import CommandClient, NoSimulator
from sync.clock import now_ns
from sync.config.config import Config

EVERY_NS = 100_000_000
_ASK_NS = 5_000_000_000  # even if nothing seems to have changed
_TIMEOUT_S = 0.5
_MOST_WAITING = 32  # actions; more clicks than that are not meant


class Conflator:
    """What is still to be sent: of every parameter the newest value, and actions in their order. Not for threads."""

    def __init__(self, every_ns: int = EVERY_NS):
        self._every_ns = every_ns
        self._values: dict[str, float] = {}
        self._actions: list[dict[str, Any]] = []
        self._last_ns = -(2**62)

    def put(self, values: dict[str, float]) -> None:
        self._values.update(values)

    def act(self, action: dict[str, Any]) -> None:
        if len(self._actions) < _MOST_WAITING:
            self._actions.append(action)

    def __bool__(self) -> bool:
        return bool(self._values or self._actions)

    def due_ns(self, now: int) -> int:
        """How long until something may go out; 0 at once, and -1 if there is nothing."""
        return max(self._last_ns + self._every_ns - now, 0) if self else -1

    def take(self, now: int) -> tuple[dict[str, float], dict[str, Any]] | None:
        """(parameters, an action) to be sent now; None if nothing is, or not yet."""
        if self.due_ns(now) != 0:
            return None
        values, self._values = self._values, {}
        action = self._actions.pop(0) if self._actions else {}
        self._last_ns = now
        return values, action


class Commander:
    def __init__(self, config: Config):
        self._config = config
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._waiting = Conflator()
        self._stop = False
        self._ask = True
        self._flying = False  # a request that is not answered yet
        self._unheard = False
        self._answer: dict[str, Any] | None = None
        self._requested_ns, self._commands = 0, -1
        self.error = ""  # of the last request; "" if it was obeyed
        self.answers = 0
        self._thread = threading.Thread(target=self._work, name="commander", daemon=True)
        self._thread.start()

    # ---- for the widgets ----

    def put(self, values: dict[str, float]) -> None:
        with self._lock:
            self._waiting.put(values)
        self._wake.set()

    def act(self, **action: Any) -> None:
        with self._lock:
            self._waiting.act(action)
        self._wake.set()

    def seen(self, commands: int) -> None:
        """`commands`: how many the newest step had obeyed; other programs may have sent some."""
        if commands != self._commands or now_ns() - self._requested_ns > _ASK_NS:
            self._commands = commands
            self._ask = True
            self._wake.set()

    @property
    def answer(self) -> dict[str, Any] | None:
        """The simulator's newest answer."""
        return self._answer

    @property
    def busy(self) -> bool:
        """Something has not been answered yet: the simulator's answer is older than the newest request."""
        return bool(self._waiting) or self._flying

    def close(self) -> None:
        self._stop = True
        self._wake.set()
        self._thread.join(2.0 * _TIMEOUT_S)

    # ---- the thread ----

    def _work(self) -> None:
        client = CommandClient(self._config, _TIMEOUT_S)
        try:
            while not self._stop:
                self._turn(client.ask)
        finally:
            client.close()

    def _turn(self, ask: Callable[..., dict[str, Any]]) -> None:
        with self._lock:
            due = self._waiting.due_ns(now_ns())
        if due != 0 and not self._ask:
            self._wake.wait(due * 1e-9 if due > 0 else 1.0)
        self._wake.clear()
        with self._lock:
            taken = self._waiting.take(now_ns())
            self._flying = taken is not None
        if taken is None and not self._ask:
            return
        self._ask = False
        self._requested_ns = now_ns()
        values, action = taken or ({}, {})
        try:
            answer = ask(values, **action)
        except Exception as error:  # no simulator, or a malformed answer: asked again another time
            if not isinstance(error, NoSimulator):
                self._stop or self._wake.wait(1.0)
            if taken is not None:
                self.error, self._unheard = str(error), True
            self._flying = False
            return
        self._answer = answer
        if taken is not None or self._unheard:  # a refusal stays until something else is asked for
            self.error, self._unheard = str(answer.get("error", "")), False
        self.answers += 1
        self._flying = False
