"""Commands: what a person changes while the simulation runs, obeyed between two steps, and part of the record.

The simulator owns a ring of commands. One thread beside the loop takes requests off a local socket, checks them against
the model's description and pushes valid ones; before each step the loop obeys every command that is in the ring by
then, and the step records how many have been obeyed. Commands are recorded like blocks, so a replay obeys the same ones
before the same steps.

A request is a msgpack map of `set` (parameters by name) and of what else can be done to a simulation:

    {"set": {name: value, …}}    {"pause": true|false}    {"steps": n}, that many and then pause again
    {"slow": factor}, 1 is real time, 10 ten times slower    {"reset": true}, the model as it stood at its start

or {} to ask only. A request is applied whole or not at all; the answer always has all parameters and whether the model
is paused, except to a malformed request.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import zmq

from sim_service.command_record import (
    AT_INDEX,
    AT_KIND,
    AT_VALUE,
    LAYOUT,
    LEFT_OUT,
    MOST_SLOW,
    MOST_STEPS,
    PARAMETER,
    PAUSE,
    PAUSED,
    RESET,
    RESTART,
    RESUME,
    SHAPE,
    SHAPED,
    SLOW,
    SLOWNESS,
    STEPS_LEFT,
)
from sim_service.contract.machine import Machine, Reshape
from sim_service.contract.parameters import fault_of
from sim_service.reshape import SLOTS, Shaping, change_shape
from sync.clock import now_ns
from sync.compile.array_copy import copy
from sync.compile.atomics import load_acquire
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.errors import ConfigError, TandemError, first_findings
from sync.process.realtime import at_ease
from sync.ring.block import EPOCH, PUSHED, SEQ, T
from sync.ring.ring import HEAD_WORD, RingWriter, push, read_slot
from sync.ring.streams import COMMAND
from sync.transport.message import MALFORMED
from sync.transport.socket_guard import Connections
from sync.transport.wire import POLL_MS, Context, bind

_MOST_WAITING = int(COMMAND.blocks) // 2  # not obeyed yet
MOST_BYTES = 64 * 1024
_MOST_QUEUED = 16  # requests of one asker that wait
_KEYS = {"set", "pause", "steps", "slow", "reset"}
_RIGHT = 'expected a map (msgpack) such as {"set": {"name": value}}'
_TOO_MANY = "too many commands that have not been obeyed yet; is the simulator waiting for its input?"
_REST_NS = 1_000_000_000
_STRICT: dict[str, Any] = {
    "max_map_len": 512,
    "max_str_len": 256,
    "max_array_len": 0,
    "max_bin_len": 0,
    "max_ext_len": 0,
}


@kernel()
def obey(block, fit, machine):
    """Apply one command."""
    kind, value, mode = block[AT_KIND], block.view(np.float64)[AT_VALUE], machine.mode
    if kind == PARAMETER and 0 <= block[AT_INDEX] < len(machine.params):
        machine.params[block[AT_INDEX]] = value
    elif kind == RESET:
        copy(machine.state, machine.first_state)
        copy(machine.work, machine.first_work)
        mode[RESTART] = 1.0
    elif kind == SHAPE:
        change_shape(machine.shape_rows[block[AT_INDEX] % len(machine.shape_rows)], fit, machine)
    elif kind == PAUSE:
        mode[PAUSED], mode[STEPS_LEFT] = 1.0, value
    elif kind == RESUME:
        mode[PAUSED] = 0.0
    elif kind == SLOW:
        mode[SLOWNESS] = value


@kernel()
def obey_all(ring, cursor, block, fit, machine):
    """Every command from position `cursor` on; returns the position behind the last."""
    head = load_acquire(ring, HEAD_WORD)
    while cursor < head:
        if read_slot(ring, cursor, block):
            obey(block, fit, machine)
        cursor += 1
    return cursor


def checked_commands(commands: np.ndarray, names: Sequence[str], model: Machine, other: bool) -> tuple[np.ndarray, int]:
    """(recorded commands, rows of words, with the places of this machine's parameters; how many were left out).

    `names`: the parameters of the recorded machine, in the order of their recorded places. `other`: this may be another
    machine, and commands that it cannot obey are left out; otherwise such a command raises ConfigError.
    """
    commands, left_out = commands.copy(), 0
    here = {p.name: place for place, p in enumerate(model.parameters)}
    for row in commands:
        kind, place, value = int(row[AT_KIND]), int(row[AT_INDEX]), float(row.view(np.float64)[AT_VALUE])
        fault = None
        if kind in (PARAMETER, SHAPED):
            name = names[place] if 0 <= place < len(names) else f"number {place}"
            fault = fault_of(model, here, name, value, True)
            if fault is None:
                row[AT_INDEX] = here[name]
        elif kind == PAUSE:
            fault = None if 0.0 <= value <= MOST_STEPS else f"steps = {value!r}: must be from 0 to {MOST_STEPS}"
        elif kind == SLOW:
            fault = None if 1.0 <= value <= MOST_SLOW else f"slow = {value!r}: must be from 1 to {MOST_SLOW:g}"
        elif kind not in (RESET, RESUME, SHAPE):
            fault = f"kind {kind}: no command"
        if fault is not None and not other:
            raise ConfigError(f"/command {row[SEQ]}: {fault}")
        if fault is not None:
            row[AT_KIND], row[AT_INDEX] = LEFT_OUT, 0
            left_out += 1
    return commands, left_out


def understood(parts: list[bytes]) -> dict[Any, Any] | None:
    """The request; None if it is malformed."""
    try:
        (data,) = parts
        request = msgpack.unpackb(data, **_STRICT)
    except MALFORMED:
        return None
    return request if isinstance(request, dict) and set(request) <= _KEYS else None


class NoSimulator(TandemError):
    """No simulator is running, or it does not respond."""


class CommandClient:
    """Asks a running simulator. For one thread."""

    def __init__(self, config: Config, timeout_s: float = 2.0):
        self._endpoint, self._name, self._timeout_s = config.command_endpoint, config.name, timeout_s
        self._context: Context = zmq.Context()
        self._connect()

    def _connect(self) -> None:
        self._socket = self._context.socket(zmq.REQ)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVTIMEO, round(1e3 * self._timeout_s))
        self._socket.set(zmq.SNDTIMEO, round(1e3 * self._timeout_s))
        self._socket.set(zmq.MAXMSGSIZE, 1 << 20)
        self._socket.connect(self._endpoint)

    def ask(self, values: dict[str, float] | None = None, **others: Any) -> dict[str, Any]:
        """Set these parameters, if any, and do what `others` ask; returns the simulator's answer, or raises
        NoSimulator if there is none. Once it has shown that it runs, setting parameters may take it ten times as long:
        some shape the machine."""
        if values:
            self._ask({})
            self._socket.set(zmq.RCVTIMEO, round(1e4 * self._timeout_s))
        try:
            return self._ask({**({"set": values} if values else {}), **others})
        finally:
            self._socket.set(zmq.RCVTIMEO, round(1e3 * self._timeout_s))

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._socket.send(msgpack.packb(request))
            answer = msgpack.unpackb(self._socket.recv(), max_map_len=4096, max_str_len=65536)
        except zmq.Again:
            self._socket.close()  # a REQ that was not answered cannot ask again
            self._connect()
            raise NoSimulator(
                f"no simulator named {self._name!r} answers; is a run with that `name` going on on this host?"
            ) from None
        except MALFORMED:
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("parameters"), dict):
            raise NoSimulator(f"what answers at {self._endpoint} is no simulator of tandem")
        return answer

    def close(self) -> None:
        self._socket.close()
        self._context.destroy(0)


class CommandServer:
    """Takes requests, answers each. Owned by one thread, which calls `serve` over and over."""

    def __init__(
        self, zmq_context: Context, endpoint: str, ring: RingWriter, model: Machine, params: np.ndarray,
        obeyed: Callable[[], int], say: Callable[[str], None], shape_rows: np.ndarray | None = None,
    ):  # fmt: skip
        """`shape_rows`: the rows that the loop takes (sim_service/reshape.py); None: the machine keeps its shape."""
        self._ring, self._model, self._params = ring, model, params
        self._obeyed, self._say = obeyed, say
        self._first = params[: len(model.parameters)].copy()
        self._wanted = self._first.copy()  # as commanded, obeyed or not yet
        self._shape_rows, self._shape_at = shape_rows, [0] * SLOTS  # position in the ring of the command for each row
        reshape = model.of(Reshape)
        self._shaping = None if shape_rows is None or reshape is None else Shaping(model, reshape)
        self._places = {p.name: i for i, p in enumerate(model.parameters)}
        self._block = np.zeros(LAYOUT.words, np.int64)
        self.requests = self.refused = self._shape_count = 0
        self._paused, self._slow = False, 1.0
        self._moved: dict[str, str] = {}  # reported after a while without a change: every command is recorded anyway
        self._moved_ns = 0
        self._zmq_context = zmq_context
        self._endpoint = endpoint
        self._connections = Connections()
        self._open()

    def _open(self) -> None:
        self._socket = self._zmq_context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVTIMEO, POLL_MS)
        self._socket.set(zmq.SNDTIMEO, POLL_MS)
        self._socket.set(zmq.MAXMSGSIZE, MOST_BYTES)
        self._socket.set(zmq.RCVHWM, _MOST_QUEUED)
        bind(self._socket, self._endpoint)

    def serve(self) -> None:
        """Wait a little for a request, and answer it."""
        try:
            parts = self._socket.recv_multipart()
        except zmq.Again:
            if self._moved and now_ns() - self._moved_ns > _REST_NS:
                for text in self._moved.values():
                    self._say(text)
                self._moved.clear()
            return
        self.requests += 1
        request = understood(parts)
        error = _RIGHT if request is None else self._take(request)
        if error:
            self.refused += 1
        parameters = self._parameters() if request is not None else {}  # a malformed request is not worth the work
        answer = {
            "ok": error is None, "error": error or "", "model": self._model.name, "parameters": parameters,
            "paused": self._paused, "slow": self._slow,
        }  # fmt: skip
        try:
            self._socket.send(msgpack.packb(answer))
            if error:
                self._connections.count_invalid()
        except zmq.ZMQError:  # the client does not listen; a socket that owes a reply takes no more requests
            self._socket.close()
            self._open()

    def count(self) -> dict[str, int]:
        return {"requests": self.requests, "refused": self.refused}

    def _take(self, request: dict[Any, Any]) -> str | None:
        """Push all commands of a request and return None; or push nothing and return why."""
        changes = request.get("set", {})
        if not isinstance(changes, dict):
            return 'set: expected a map such as {"name": value}'
        can, places = self._shaping is not None, self._places
        faults = (fault_of(self._model, places, name, value, can) for name, value in changes.items())
        others, texts = self._others(request)
        unknown = (text for kind, text in zip(others, texts, strict=True) if kind is None)
        if wrong := first_findings(filter(None, chain(faults, unknown))):
            return wrong
        reshapes = any(
            not self._model.parameters[at].live and value != self._wanted[at]
            for at, value in ((self._places[name], value) for name, value in changes.items())
        )
        if self._ring.head + len(changes) + reshapes + len(others) - self._obeyed() > _MOST_WAITING:
            return _TOO_MANY
        if reshapes and (error := self._make_shape(changes)):
            return error
        for name, value in changes.items():
            p = self._model.parameters[self._places[name]]
            self._push(SHAPED if reshapes else PARAMETER, self._places[name], float(value))
            self._wanted[self._places[name]] = value
            self._moved[name] = f"{name} = {value:g}" + f" {p.unit}" * (p.unit != "1")
            self._moved_ns = now_ns()
        if reshapes:
            self._shape_at[self._shape_count % SLOTS] = self._ring.head
            self._push(SHAPE, self._shape_count, 0.0)
            self._shape_count += 1
        for kind, text in zip(others, texts, strict=True):
            assert kind is not None
            self._push(kind[0], 0, kind[1])
            self._paused = kind[0] == PAUSE if kind[0] in (PAUSE, RESUME) else self._paused
            self._slow = kind[1] if kind[0] == SLOW else self._slow
            self._say(text)
        return None

    def _make_shape(self, changes: dict[str, float]) -> str | None:
        """Make the row of the shape that is asked for; returns why there is none, or None."""
        assert self._shape_rows is not None and self._shaping is not None
        slot = self._shape_count % SLOTS
        if self._shape_count >= SLOTS and self._shape_at[slot] >= self._obeyed():
            return _TOO_MANY
        values = self._wanted.copy()
        for name, value in changes.items():
            values[self._places[name]] = value
        try:
            with at_ease():
                self._shape_rows[slot] = self._shaping.row(values)
        except TandemError as error:
            return str(error)
        except Exception as error:  # whatever is wrong with the shape, the machine goes on as it is
            return f"this shape cannot be made: {error!r}"
        return None

    def _others(self, request: dict[Any, Any]) -> tuple[list[tuple[int, float] | None], list[str]]:
        """For each request besides parameters: (kind, value), or None if it is invalid; and its notice or error."""
        found: list[tuple[int, float] | None] = []
        texts = []
        for key, value in request.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if key == "pause":
                right = isinstance(value, bool)
                found.append(((PAUSE if value else RESUME), 0.0) if right else None)
                texts.append(
                    ("paused" if value else "goes on") if right else f"pause = {value!r}: must be true or false"
                )
            elif key == "steps":
                right = number and 1 <= value <= MOST_STEPS and value == int(value)
                found.append((PAUSE, float(value)) if right else None)
                texts.append(
                    f"{value} steps" if right else f"steps = {value!r}: must be a whole number from 1 to {MOST_STEPS}"
                )
            elif key == "slow":
                right = number and 1.0 <= value <= MOST_SLOW
                found.append((SLOW, float(value)) if right else None)
                slower = "in real time" if value == 1 else f"{value!r} times slower than real time"
                texts.append(slower if right else f"slow = {value!r}: must be from 1 to {MOST_SLOW:g}")
            elif key == "reset":
                found.append((RESET, 0.0) if value is True else None)
                texts.append("the model stands as it started" if value is True else f"reset = {value!r}: must be true")
        return found, texts

    def _push(self, kind: int, index: int, value: float) -> None:
        block = self._block
        block[:] = 0
        block[SEQ], block[EPOCH] = self._ring.head, self._ring.epoch
        block[T] = block[PUSHED] = now_ns()
        block[AT_KIND], block[AT_INDEX] = kind, index
        block.view(np.float64)[AT_VALUE] = value
        push(self._ring.words, block)

    def _parameters(self) -> dict[str, Any]:
        return {
            p.name: {
                "value": float(now), "first": float(first), "low": p.low, "high": p.high, "unit": p.unit,
                "text": p.text, "live": p.live or (p.shapes and self._shaping is not None),
            }
            for p, now, first in zip(self._model.parameters, self._wanted, self._first, strict=True)
        }  # fmt: skip

    def close(self) -> None:
        self._socket.close()
        Path(self._endpoint.removeprefix("ipc://")).unlink(missing_ok=True)
