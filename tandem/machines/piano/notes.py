"""The notes of a recorded run: strikes of hammers as an event stream and as a MIDI file.

A strike is a `strike_count` that rises (of a machine with several keys: `key3_strike_count`); `strike_speed` and
`strike_age` say how fast the hammer was and how long before the end of the step. A note ends where `sounding` falls.
"""

import struct
from typing import Any

import numpy as np

from sync.errors import ConfigError
from sync.record import Run
from tandem.view.tones import Note

TICKS = 10_000  # a second: a quarter note a second long


def _pitch_of_first(run: Run) -> int:
    """The parameter `note` of the recorded machine."""
    try:
        value = run.json("parameters.json")["parameters"]["note"]["value"]
        return min(max(round(float(value)), 0), 127)
    except (KeyError, TypeError, ValueError, OverflowError):
        return 60


def _of_key(t: np.ndarray, steps: np.ndarray, before: str, pitch: int) -> list[Note]:
    count, sounding = steps[f"{before}strike_count"], steps[f"{before}sounding"]
    rises = np.flatnonzero(np.diff(count, prepend=0.0) > 0.0)
    ends = np.flatnonzero((sounding[1:] <= 0.0) & (sounding[:-1] > 0.0)) + 1
    found = []
    for n, k in enumerate(rises):
        start = float(t[k] - steps[f"{before}strike_age"][k])
        later = ends[ends > k]
        end = float(t[later[0]]) if len(later) else float(t[-1])
        if n + 1 < len(rises):  # struck again
            end = min(end, float(t[rises[n + 1]] - steps[f"{before}strike_age"][rises[n + 1]]))
        found.append(Note(max(start, 0.0), max(end, start), pitch, float(steps[f"{before}strike_speed"][k])))
    return found


def notes_of(run: Run) -> list[Note]:
    """In the order of their strikes."""
    topic = run.topics.get("/step")
    names = () if topic is None else topic.blocks.dtype.names or ()
    keys = [name.removesuffix("strike_count") for name in names if name.endswith("strike_count")]
    if topic is None or not keys:
        raise ConfigError(f"{run.path}: its steps have no strike_count; a run of a piano key is expected")
    steps = topic.blocks
    if not len(steps):
        return []
    t = 1e-9 * (steps["t_ns"] - steps["t_ns"][0]).astype(float)
    first = _pitch_of_first(run)
    found = [note for k, key in enumerate(keys) for note in _of_key(t, steps, key, min(first + k, 127))]
    return sorted(found, key=lambda note: (note.start, note.pitch))


# ---- MIDI ------------------------------------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    """Of variable length, seven bits a byte."""
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(0x80 | value & 0x7F)
    return bytes(reversed(parts))


def midi_file(notes: list[Note]) -> bytes:
    """Format 0: one track, a tick of a tenth of a millisecond."""
    events = [(round(note.start * TICKS), 1, bytes([0x90, note.pitch, note.velocity])) for note in notes]
    events += [(round(note.end * TICKS), 0, bytes([0x80, note.pitch, 64])) for note in notes]
    track, now = b"\x00\xff\x51\x03" + (1_000_000).to_bytes(3, "big"), 0
    for tick, _, message in sorted(events):
        track += _number(max(tick - now, 0)) + message
        now = max(tick, now)
    track += b"\x00\xff\x2f\x00"
    header = b"MThd" + struct.pack(">IHHH", 6, 0, 1, TICKS)
    return header + b"MTrk" + struct.pack(">I", len(track)) + track


def as_figures(notes: list[Note]) -> list[dict[str, Any]]:
    return [{"start": n.start, "end": n.end, "pitch": n.pitch, "speed": n.speed, "velocity": n.velocity} for n in notes]
