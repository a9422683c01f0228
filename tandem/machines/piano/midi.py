"""Strikes of a running simulation as MIDI messages, sent while it runs.

Another process than the simulator's: it follows the ring of steps from outside, and whatever a port does, no step waits
for it. A note begins with the step whose count rises, so it is heard up to one look late (5 ms), and the strike's age
inside its step is not made up for; `tandem notes` has the located instants. It ends where the machine's `sounding`
falls, when the same key strikes again, and at the latest when this ends: no note is left hanging.

A port is anything with `send(message)` and `close()`: one of mido (extra `midi`), or a file (MidiFile). One that fails
while it runs (unplugged, its program gone) ends this by name, with the notes that went out; the simulation goes on.
"""

import contextlib
import importlib.util
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim_service.contract.display import Sound
from sync.config.extras import install
from sync.errors import ConfigError, DeviceError
from sync.files.private import rewrite
from sync.ring.follower import RingFollower
from tandem.machines.piano.notes import midi_file
from tandem.view.tones import Note, midi_velocity

POLL_S = 0.005
_SPEED_MOST = 1e3  # m/s; what is faster or not a number is no hammer


@dataclass(frozen=True)
class Message:
    on: bool
    pitch: int
    velocity: int
    speed: float
    t_ns: int  # of its step


class Port(Protocol):
    def send(self, message: Message) -> None: ...

    def close(self) -> None: ...


class Strikes:
    """Messages of steps, in their order."""

    def __init__(self, sounds: tuple[Sound, ...], first: dict[str, float]):
        """`first`: parameters, of which a sound's pitch is one."""
        self._sounds = sounds
        self._pitch = [min(max(round(first.get(sound.pitch, 60.0)) + sound.above, 0), 127) for sound in sounds]
        self._count: list[float | None] = [None] * len(sounds)
        self._on = [False] * len(sounds)
        self.sent = 0

    def of(self, steps: np.ndarray) -> list[Message]:
        there = steps.dtype.names or ()
        found: list[Message] = []
        for step in steps:
            for k, sound in enumerate(self._sounds):
                if sound.count in there:
                    found += self._of_key(k, sound, step, there)
        return found

    def _of_key(self, k: int, sound: Sound, step: Any, there: tuple[str, ...]) -> list[Message]:
        count, t_ns, found = float(step[sound.count]), int(step["t_ns"]), []
        before, self._count[k] = self._count[k], count
        struck = before is not None and count > before
        damper = sound.count.replace("strike_count", "sounding")
        if self._on[k] and (struck or (damper in there and step[damper] <= 0.0)):
            found.append(self._off(k, t_ns))
        speed = float(step[sound.speed])
        if struck and 0.0 <= speed < _SPEED_MOST:
            self._on[k] = True
            self.sent += 1
            found.append(Message(True, self._pitch[k], midi_velocity(speed), speed, t_ns))
        return found

    def _off(self, k: int, t_ns: int) -> Message:
        self._on[k] = False
        return Message(False, self._pitch[k], 64, 0.0, t_ns)

    def rest(self, t_ns: int) -> list[Message]:
        """The ends of all that still sounds."""
        return [self._off(k, t_ns) for k, on in enumerate(self._on) if on]


# ---- ports -----------------------------------------------------------------------------------------------------------


class MidiFile:
    """A `.mid` file, written when it is closed."""

    def __init__(self, path: Path):
        self._path, self._messages = path, list[Message]()
        if not path.parent.is_dir() or path.is_dir():
            raise ConfigError(f"--file {path}: must be a file in a folder that is there")

    def send(self, message: Message) -> None:
        self._messages.append(message)

    def close(self) -> None:
        try:
            rewrite(self._path, midi_file(notes_of_messages(self._messages)))
        except OSError as error:
            raise DeviceError(f"--out {self._path}: cannot be written: {error}") from None


def notes_of_messages(messages: list[Message]) -> list[Note]:
    start_ns = messages[0].t_ns if messages else 0
    open_notes: dict[int, Message] = {}
    found = []
    for message in messages:
        begun = open_notes.pop(message.pitch, None)
        if begun is not None:
            at, end = 1e-9 * (begun.t_ns - start_ns), 1e-9 * (message.t_ns - start_ns)
            found.append(Note(at, end, begun.pitch, begun.speed))
        if message.on:
            open_notes[message.pitch] = message
    return sorted(found, key=lambda note: note.start)


class MidoPort:
    """A port of this host or, with `virtual`, one that other programs see."""

    def __init__(self, mido: Any, name: str, virtual: bool = False):
        self._mido, self._name = mido, name or "tandem"
        if not virtual:
            there = _names(mido)
            if name not in there:
                shown = ", ".join(there) or "there is none; --virtual makes one, --out writes a file"
                raise ConfigError(f"--port {name or 'not given'}: no such MIDI port; those of this host: {shown}")
        try:
            self._port = mido.open_output(self._name, virtual=virtual)
        except Exception as error:  # whatever a backend raises
            raise ConfigError(f"--port {self._name}: cannot be opened: {error}") from None

    def send(self, message: Message) -> None:
        kind = "note_on" if message.on else "note_off"
        try:
            self._port.send(self._mido.Message(kind, note=message.pitch, velocity=message.velocity))
        except Exception as error:  # whatever a backend raises
            raise DeviceError(f"--port {self._name}: does not take messages any more: {error}") from None

    def close(self) -> None:
        with contextlib.suppress(Exception):  # one that is gone
            self._port.close()


def _names(mido: Any) -> list[str]:
    try:
        return list(mido.get_output_names())
    except Exception as error:  # a host without a sequencer, a backend that is not there
        raise ConfigError(f"MIDI ports of this host cannot be listed: {error}; --out writes a file") from None


def load_mido() -> Any:
    absent = [each for each, module in (("mido", "mido"), ("python-rtmidi", "rtmidi")) if not _installed(module)]
    if absent:
        raise ConfigError(
            f"a MIDI port needs {' and '.join(absent)}: {install(*absent)}"
            " (the extra `midi`); --out writes a file without"
        )
    import mido

    return mido


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


# ---- at work ---------------------------------------------------------------------------------------------------------


def play(steps: RingFollower, strikes: Strikes, port: Port, stop: threading.Event, note: Callable[[str], None]) -> int:
    """Until it is stopped or the simulator has ended; the notes that were sent."""
    seen, waiting, last_ns = False, False, 0
    try:
        while True:
            for blocks in steps.batches():
                for message in strikes.of(blocks):
                    port.send(message)
                last_ns = int(blocks["t_ns"][-1])
            if steps.alive and not seen:
                note("the simulator is there")
            elif not seen and not waiting:
                note("waiting for a simulator of this configuration")
                waiting = True
            seen = seen or steps.alive
            if stop.is_set() or (seen and not steps.alive):
                for message in strikes.rest(last_ns):
                    port.send(message)
                return strikes.sent
            stop.wait(POLL_S)
    finally:
        # what an error or Ctrl-C left sounding
        with contextlib.suppress(DeviceError):
            for message in strikes.rest(last_ns):
                port.send(message)
        port.close()
