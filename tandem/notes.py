"""The notes of a recorded run: strikes of hammers as an event stream, as a MIDI file and as sound.

A strike is a `strike_count` that rises (of a machine with several keys: `key3_strike_count`); `strike_speed` and
`strike_age` say how fast the hammer was and how long before the end of the step. A note ends where `sounding` falls.

Velocity, by MIDI's number: 52 + 25 log2(v / (1 m/s)), from 1 to 127: a hammer twice as fast is 25 more, 4 m/s are 102.
Loudness of the sound is in proportion to the speed; a faster hammer also sounds brighter.
"""

import io
import math
import struct
import wave
from dataclasses import dataclass
from typing import Any

import numpy as np

from sync.errors import ConfigError
from sync.record import Run

SAMPLE_HZ = 44_100
TICKS = 10_000  # a second: a quarter note a second long
_STRETCH = 4e-4  # inharmonicity of a string in the middle of a piano
_PARTIALS = 12
_LOUDEST = 4.0  # m/s, of a hammer at full scale
_MOST_S = 3600.0  # of sound


@dataclass(frozen=True)
class Note:
    start: float  # s since the first step
    end: float
    pitch: int  # as MIDI numbers it
    speed: float  # m/s, of the hammer

    @property
    def velocity(self) -> int:
        return midi_velocity(self.speed)


def midi_velocity(speed: float) -> int:
    return min(max(round(52.0 + 25.0 * math.log2(max(speed, 1e-3))), 1), 127)


def frequency(pitch: int) -> float:
    return float(440.0 * 2.0 ** ((pitch - 69) / 12.0))


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


# ---- sound -----------------------------------------------------------------------------------------------------------


def tone(note: Note, rate: int = SAMPLE_HZ) -> np.ndarray:
    """Partials of a stiff string that decay, the higher the sooner; the damper ends it within a tenth of a second."""
    held = min(note.end - note.start, 20.0)
    t = np.arange(round((held + 0.15) * rate)) / rate
    base, loud = frequency(note.pitch), min(note.speed / _LOUDEST, 1.0)
    sound = np.zeros(len(t))
    for k in range(1, _PARTIALS + 1):
        hz = k * base * math.sqrt(1.0 + _STRETCH * k * k)
        if hz > 0.45 * rate:
            break
        share = math.exp(-(k - 1) / (1.0 + 5.0 * loud)) / k
        sound += share * np.exp(-t * (0.6 + 0.35 * k)) * np.sin(2.0 * math.pi * hz * t)
    sound *= np.minimum(t / 1.5e-3, 1.0) * np.exp(-np.maximum(t - held, 0.0) / 0.03)
    return np.asarray(loud * sound)


def sound_of(notes: list[Note], rate: int = SAMPLE_HZ) -> np.ndarray:
    """All notes together, never beyond one."""
    length = max((note.end for note in notes), default=0.0) + 0.5
    if length > _MOST_S:
        raise ConfigError(f"{length:.0f} s of sound: at most {_MOST_S:.0f} s can be written")
    mixed = np.zeros(round(length * rate))
    for note in notes:
        own, at = tone(note, rate), round(note.start * rate)
        own = own[: len(mixed) - at]
        mixed[at : at + len(own)] += own
    peak = float(np.abs(mixed).max(initial=0.0))
    return mixed * (0.9 / peak) if peak > 0.9 else mixed


def wave_file(notes: list[Note], rate: int = SAMPLE_HZ) -> bytes:
    """16 bits, one channel."""
    samples = np.round(32767.0 * sound_of(notes, rate)).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


def as_figures(notes: list[Note]) -> list[dict[str, Any]]:
    return [{"start": n.start, "end": n.end, "pitch": n.pitch, "speed": n.speed, "velocity": n.velocity} for n in notes]
