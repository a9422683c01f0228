"""Commands: what a person changes while the simulation runs, obeyed between two steps, and part of the record.

The simulator owns a ring of commands. One thread beside the loop takes requests off a local socket, checks them against
the model's description and pushes what is right; the loop obeys, before a step, every command there is by then, and
every step says how many it has obeyed. Commands are recorded like blocks, so a replay obeys the same ones before the
same steps.

A request is a msgpack map: {"set": {name: value, …}} or {} to ask only; the answer always tells all parameters.
"""

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import zmq

from sim_service.models.description import Model
from sync.atomics import load_acquire
from sync.block import EPOCH, PAYLOAD, PUSHED, SEQ, Channel, Layout, T
from sync.clock import now_ns
from sync.config import Config
from sync.errors import TandemError
from sync.jit import kernel
from sync.message import MALFORMED
from sync.ring import HEAD_WORD, RingWriter, push, read_slot
from sync.wire import POLL_MS, Context, bind

PARAMETER = 1  # set parameter `index` to `value`
LAYOUT = Layout((Channel("kind", "i8"), Channel("index", "i8"), Channel("value", "f8")))
_KIND, _INDEX, _VALUE = range(PAYLOAD, PAYLOAD + 3)
RING_BLOCKS = 1024
_MOST_WAITING = RING_BLOCKS // 2  # not obeyed yet
MOST_BYTES = 64 * 1024
_STRICT: dict[str, Any] = {
    "max_map_len": 512,
    "max_str_len": 256,
    "max_array_len": 0,
    "max_bin_len": 0,
    "max_ext_len": 0,
}


@kernel()
def obey(block, params):
    """Do what one command says."""
    if block[_KIND] == PARAMETER:
        params[block[_INDEX]] = block.view(np.float64)[_VALUE]


@kernel()
def obey_all(ring, cursor, block, params):
    """Every command from position `cursor` on; returns the position behind the last."""
    head = load_acquire(ring, HEAD_WORD)
    while cursor < head:
        if read_slot(ring, cursor, block):
            obey(block, params)
        cursor += 1
    return cursor


class NoSimulator(TandemError):
    """There is nobody to command, or he does not answer."""


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

    def ask(self, values: dict[str, float] | None = None) -> dict[str, Any]:
        """Set these parameters, if any; what the simulator answers. Raises NoSimulator if it does not."""
        try:
            self._socket.send(msgpack.packb({"set": values} if values else {}))
            answer = msgpack.unpackb(self._socket.recv(), max_map_len=4096, max_str_len=65536)
        except zmq.Again:
            self._socket.close()  # a REQ that was not answered cannot ask again
            self._connect()
            raise NoSimulator(
                f"no simulator named {self._name!r} answers; is a drive with that `name` running on this host?"
            ) from None
        if not isinstance(answer, dict) or not isinstance(answer.get("parameters"), dict):
            raise NoSimulator(f"what answers at {self._endpoint} is no simulator of tandem")
        return answer

    def close(self) -> None:
        self._socket.close()
        self._context.destroy(0)


class CommandServer:
    """Takes requests, answers each. Owned by one thread, which calls `serve` over and over."""

    def __init__(
        self, zmq_context: Context, endpoint: str, ring: RingWriter, model: Model, params: np.ndarray,
        obeyed: Callable[[], int], say: Callable[[str], None],
    ):  # fmt: skip
        self._ring, self._model, self._params = ring, model, params
        self._obeyed, self._say = obeyed, say
        self._first = params[: len(model.parameters)].copy()
        self._wanted = self._first.copy()  # as commanded, obeyed or not yet
        self._places = {p.name: i for i, p in enumerate(model.parameters)}
        self._block = np.zeros(LAYOUT.words, np.int64)
        self.requests = self.refused = 0
        self._socket = zmq_context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVTIMEO, POLL_MS)
        self._socket.set(zmq.SNDTIMEO, POLL_MS)
        self._socket.set(zmq.MAXMSGSIZE, MOST_BYTES)
        bind(self._socket, endpoint)

    def serve(self) -> None:
        """Wait a little for a request, and answer it."""
        try:
            data = self._socket.recv()
        except zmq.Again:
            return
        self.requests += 1
        error = self._take(data)
        if error:
            self.refused += 1
        answer = {"ok": error is None, "error": error or "", "model": self._model.name, "parameters": self._told()}
        try:
            self._socket.send(msgpack.packb(answer))
        except zmq.Again:  # whoever asked does not listen
            return

    def _take(self, data: bytes) -> str | None:
        """Push what is asked for; or nothing at all, and why."""
        try:
            request = msgpack.unpackb(data, **_STRICT)
        except MALFORMED:
            return "not a msgpack map"
        if not isinstance(request, dict) or not set(request) <= {"set"} or not isinstance(request.get("set", {}), dict):
            return 'expected a map such as {"set": {"name": value}}'
        asked = request.get("set", {})
        wrong = [said for name, value in asked.items() if (said := self._wrong(name, value))]
        if wrong:
            return "\n".join(wrong)
        if self._ring.head + len(asked) - self._obeyed() > _MOST_WAITING:
            return "too many commands that have not been obeyed yet; is the simulator waiting for its input?"
        for name, value in asked.items():
            self._push(PARAMETER, self._places[name], float(value))
            self._say(f"{name} = {value:g} {self._model.parameters[self._places[name]].unit}")
        return None

    def _wrong(self, name: Any, value: Any) -> str | None:
        if name not in self._places:
            return f"{name}: no parameter of {self._model.name}"
        p = self._model.parameters[self._places[name]]
        if not p.live:
            return f"{name}: shapes the model; set sim.parameters.{name} and start anew"
        if isinstance(value, bool) or not isinstance(value, int | float) or not p.low <= value <= p.high:
            return f"{name} = {value!r}: must be from {p.low:g} to {p.high:g} {p.unit}"
        return None

    def _push(self, kind: int, index: int, value: float) -> None:
        block = self._block
        block[:] = 0
        block[SEQ], block[EPOCH] = self._ring.head, self._ring.epoch
        block[T] = block[PUSHED] = now_ns()
        block[_KIND], block[_INDEX] = kind, index
        block.view(np.float64)[_VALUE] = value
        push(self._ring.words, block)
        self._wanted[index] = value

    def _told(self) -> dict[str, Any]:
        return {
            p.name: {
                "value": float(now), "first": float(first), "low": p.low, "high": p.high, "unit": p.unit,
                "text": p.text, "live": p.live,
            }
            for p, now, first in zip(self._model.parameters, self._wanted, self._first, strict=True)
        }  # fmt: skip

    def close(self) -> None:
        self._socket.close()
