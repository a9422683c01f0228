"""Strikes of a running simulation as MIDI messages: to a port, to a file, from a ring; refusals by name."""

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim_service.contract.display import Sound
from sync.errors import ConfigError, DeviceError
from tandem.machines.piano import midi as midi_out
from tandem.machines.piano.midi import Message, MidiFile, MidoPort, Strikes, load_mido, notes_of_messages, play

SOUNDS = (Sound("strike_count", "strike_speed", "note"), Sound("key1_strike_count", "key1_strike_speed", "note", 1))
CHANNELS = [name for key in ("", "key1_") for name in (f"{key}strike_count", f"{key}strike_speed", f"{key}sounding")]


def steps(*rows: tuple[float, ...]) -> np.ndarray:
    found = np.zeros(len(rows), [("t_ns", "<i8"), *((name, "<f8") for name in CHANNELS)])
    for k, row in enumerate(rows):
        found[k] = (k * 1_000_000, *row)
    return found


STRUCK = steps(
    (0, 0, 0, 0, 0, 0), (1, 2.0, 1, 0, 0, 0), (1, 2.0, 1, 1, 1.0, 1), (2, 1.0, 1, 1, 1.0, 1), (2, 1.0, 0, 1, 1.0, 1)
)
PLAYED = [(True, 60, 77), (True, 61, 52), (False, 60, 64), (True, 60, 52), (False, 60, 64)]


def short(messages: list[Message]) -> list[tuple[bool, int, int]]:
    return [(m.on, m.pitch, m.velocity) for m in messages]


def test_a_note_begins_with_a_strike_and_ends_with_the_next_or_the_damper() -> None:
    strikes = Strikes(SOUNDS, {"note": 60.0})
    assert short(strikes.of(STRUCK)) == PLAYED and strikes.sent == 3
    assert short(strikes.rest(9)) == [(False, 61, 64)] and strikes.rest(9) == []


def test_what_was_struck_before_is_not_played_and_no_speed_is_no_note() -> None:
    assert Strikes(SOUNDS, {"note": 60.0}).of(STRUCK[3:4]) == []
    for speed in (np.nan, np.inf, -1.0, 1e300):
        assert Strikes(SOUNDS, {}).of(steps((0, 0, 0, 0, 0, 0), (1, speed, 1, 0, 0, 0))) == []
    assert Strikes(SOUNDS, {"note": 300.0}).of(STRUCK)[0].pitch == 127


class Ring:
    """Of a simulator that ends after these steps."""

    def __init__(self, *blocks: np.ndarray):
        self._blocks, self.alive = list(blocks), True

    def batches(self) -> list[np.ndarray]:
        self.alive = bool(self._blocks)
        return [self._blocks.pop(0)] if self._blocks else []


def test_a_file_has_what_was_played_and_every_note_ends(tmp_path: Path) -> None:
    ring: Any = Ring(STRUCK[:2], STRUCK[2:])
    assert play(ring, Strikes(SOUNDS, {}), MidiFile(tmp_path / "a.mid"), threading.Event(), lambda _: None) == 3
    data = (tmp_path / "a.mid").read_bytes()
    assert data.startswith(b"MThd") and data.count(b"\x90\x3c") == 2 and data.count(b"\x80\x3d") == 1
    assert notes_of_messages([]) == []


def test_mido_gets_the_messages() -> None:
    """Mido's own messages and its port in memory, where it is installed; else what is asked of it."""
    sent: list[Any] = []
    port = SimpleNamespace(send=sent.append, close=lambda: sent.append("closed"))
    try:
        import mido

        message, port = mido.Message, mido.ports.EchoPort()
        sent_by = lambda: [(m.type == "note_on", m.note, m.velocity) for m in port.iter_pending()]  # noqa: E731
    except ImportError:
        message = lambda kind, **values: (kind == "note_on", values["note"], values["velocity"])  # noqa: E731
        sent_by = lambda: sent  # noqa: E731
    fake = SimpleNamespace(get_output_names=lambda: ["synth"], open_output=lambda name, virtual: port, Message=message)
    out = MidoPort(fake, "synth")
    for each in Strikes(SOUNDS, {}).of(STRUCK):
        out.send(each)
    assert list(sent_by()) == PLAYED
    with pytest.raises(ConfigError, match="--port organ: no such MIDI port; those of this host: synth"):
        MidoPort(fake, "organ")
    empty = SimpleNamespace(get_output_names=list, open_output=None, Message=None)
    with pytest.raises(ConfigError, match="there is none; --virtual makes one"):
        MidoPort(empty, "")


def test_without_mido_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(midi_out, "_installed", lambda module: False)
    with pytest.raises(ConfigError) as refused:
        load_mido()
    assert f"{sys.executable} -m pip install mido python-rtmidi" in str(refused.value)


def test_a_port_that_goes_away_ends_it_by_name_and_it_says_what_it_waits_for() -> None:
    sent: list[Any] = []

    def send(message: Any) -> None:
        if len(sent) == 2:
            raise OSError("unplugged")
        sent.append(message)

    port = SimpleNamespace(send=send, close=lambda: send(None))
    fake = SimpleNamespace(
        get_output_names=lambda: ["synth"], open_output=lambda name, virtual: port, Message=lambda kind, **_: kind
    )
    absent: Any = Ring()
    absent.batches = iter([[], [], [STRUCK]]).__next__
    absent.alive = False
    said: list[str] = []
    with pytest.raises(DeviceError, match="--port synth: does not take messages any more: unplugged"):
        play(absent, Strikes(SOUNDS, {}), MidoPort(fake, "synth"), threading.Event(), said.append)
    assert sent == ["note_on", "note_on"] and said == ["waiting for a simulator of this configuration"]


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "a.mid", tmp_path):
        with pytest.raises(ConfigError, match=r"--file .*: must be a file in a folder that is there"):
            MidiFile(path)
