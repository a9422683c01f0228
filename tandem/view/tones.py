"""Notes as sound: strings that are struck, for the page and for files.

Velocity, by MIDI's number: 52 + 25 log2(v / (1 m/s)), from 1 to 127: a hammer twice as fast is 25 more, 4 m/s are 102.
Loudness of the sound is in proportion to the speed; a faster hammer also sounds brighter.
"""

import io
import math
import wave
from dataclasses import dataclass

import numpy as np

from sync.errors import ConfigError

SAMPLE_HZ = 44_100
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
