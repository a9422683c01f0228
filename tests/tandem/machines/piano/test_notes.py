"""Notes of a recorded run: events, MIDI file, sound; held against readers of their own."""

import io
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sim_service.step_record import output_layout
from sync.errors import ConfigError
from sync.record import open_run
from tandem.commands.cli import app
from tandem.machines.piano import octave, phases
from tandem.machines.piano.notes import TICKS, midi_file, notes_of
from tandem.machines.piano.studies.study import play
from tandem.view.tones import SAMPLE_HZ, Note, frequency, midi_velocity, wave_file
from tests.tandem.runs import BEGIN_NS, MS, write_drive, write_run

PARAMETERS = b'{"model": "piano_phases", "parameters": {"note": {"value": 57.0, "unit": "1"}}}'


def written(folder: Path) -> Path:
    """Two strokes of one key: struck 0.2003 s after the first step and again at 0.7001, damped at 0.6 and 1.2 s."""
    layout = output_layout(phases.MACHINE)
    words = np.zeros((1500, layout.words), np.int64)
    steps = layout.view(words)
    number = np.arange(1500)
    steps["seq"] = steps["step"] = number
    steps["t_ns"] = BEGIN_NS + MS * number
    t = number * 1e-3
    steps["strike_count"] = (t > 0.2003) * 1.0 + (t > 0.7001)
    steps["strike_speed"] = np.where(t > 0.7001, 2.0, 1.0) * (t > 0.2003)
    steps["strike_age"] = np.where(t > 0.7001, t - 0.7001, t - 0.2003) * (t > 0.2003)
    steps["sounding"] = ((t > 0.2003) & (t < 0.6)) | ((t > 0.7001) & (t < 1.2))
    return write_run(folder, {"/step": (layout, words)}, attachments={"parameters.json": PARAMETERS})


def read_midi(data: bytes) -> list[tuple[float, int, int, int]]:
    """(s, status, key, velocity) of every event."""
    assert data[:4] == b"MThd" and data[14:18] == b"MTrk"
    _, kind, tracks, ticks = struct.unpack(">IHHH", data[4:14])
    assert (kind, tracks, ticks) == (0, 1, TICKS) and struct.unpack(">I", data[18:22])[0] == len(data) - 22
    at, now, found, tempo = 22, 0, [], 500_000
    while at < len(data):
        delta = 0
        while True:
            byte = data[at]
            at += 1
            delta = delta << 7 | byte & 0x7F
            if not byte & 0x80:
                break
        now += delta
        if data[at] == 0xFF:
            kind, length = data[at + 1], data[at + 2]
            if kind == 0x51:
                tempo = int.from_bytes(data[at + 3 : at + 6], "big")
            at += 3 + length
            continue
        found.append((now / ticks * tempo * 1e-6, data[at], data[at + 1], data[at + 2]))
        at += 3
    return found


def test_strikes_of_a_run_are_its_notes_by_instant_speed_and_pitch(tmp_path: Path) -> None:
    first, second = notes_of(open_run(written(tmp_path / "run")))
    assert (first.start, first.end) == (pytest.approx(0.2003, abs=1e-9), pytest.approx(0.6, abs=1e-9))
    assert (second.start, second.end) == (pytest.approx(0.7001, abs=1e-9), pytest.approx(1.2, abs=1e-9))
    assert (first.pitch, second.pitch) == (57, 57) and (first.speed, second.speed) == (1.0, 2.0)


def test_velocity_rises_by_25_as_the_hammer_doubles_its_speed() -> None:
    assert [midi_velocity(v) for v in (0.0, 0.5, 1.0, 2.0, 4.0, 1e9)] == [1, 27, 52, 77, 102, 127]


def test_a_midi_file_has_them_to_a_tenth_of_a_millisecond(tmp_path: Path) -> None:
    events = read_midi(midi_file(notes_of(open_run(written(tmp_path / "run")))))
    assert [(status, key, velocity) for _, status, key, velocity in events] == [
        (0x90, 57, 52), (0x80, 57, 64), (0x90, 57, 77), (0x80, 57, 64)
    ]  # fmt: skip
    assert [t for t, *_ in events] == pytest.approx([0.2003, 0.6, 0.7001, 1.2], abs=1e-4)


def heard(run: Path, out: Path) -> np.ndarray:
    """The wave file that `tandem notes` writes."""
    assert CliRunner().invoke(app, ["notes", str(run), "--out", str(out)]).exit_code == 0
    with wave.open(io.BytesIO((out / "notes.wav").read_bytes())) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLE_HZ)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768.0


def check_sound(sound: np.ndarray, onsets: list[float]) -> None:
    """Two notes of 220 Hz at these instants, the second harder and held for 0.4 s at least."""
    # onsets: loud after 20 ms that were not
    loud = np.flatnonzero(np.abs(sound) > 0.05 * np.abs(sound).max()) / SAMPLE_HZ
    starts = loud[np.diff(loud, prepend=-1.0) > 0.02]
    assert list(starts) == pytest.approx(onsets, abs=3e-3)
    # pitch: the strongest line of the spectrum is the fundamental, the next ones its partials
    begin = round((onsets[1] + 0.05) * SAMPLE_HZ)
    part = sound[begin : begin + round(0.4 * SAMPLE_HZ)] * np.hanning(round(0.4 * SAMPLE_HZ))
    lines, hz = np.abs(np.fft.rfft(part)), np.fft.rfftfreq(len(part), 1.0 / SAMPLE_HZ)
    assert hz[np.argmax(lines)] == pytest.approx(220.0, abs=3.0)
    around = (hz > 400.0) & (hz < 500.0)
    assert hz[around][np.argmax(lines[around])] == pytest.approx(440.0, abs=4.0)
    # the harder one is the louder one
    second = round(onsets[1] * SAMPLE_HZ)
    assert np.abs(sound[second:]).max() > 1.3 * np.abs(sound[: second - round(0.1 * SAMPLE_HZ)]).max()


def test_a_wave_file_has_the_pitch_and_the_onsets(tmp_path: Path) -> None:
    check_sound(heard(written(tmp_path / "run"), tmp_path / "out"), [0.2003, 0.7001])


def test_strokes_of_the_grand_action_are_heard_when_its_hammer_strikes(tmp_path: Path) -> None:
    """Two of them, in 30 and in 20 ms; the key is up between them. What the machine gives out, as a loop records it."""
    dip = 9.5e-3
    path = [(0.0, 0.0), (0.2, 0.0), (0.23, dip), (0.5, dip), (0.6, 0.0), (1.0, 0.0), (1.02, dip), (1.6, dip)]
    played = play("piano_multibody", path, 1.6)
    layout = output_layout(played.machine)
    words = np.zeros((len(played.t), layout.words), np.int64)
    steps = layout.view(words)
    steps["seq"] = steps["step"] = np.arange(len(words))
    steps["t_ns"] = BEGIN_NS + np.arange(len(words)) * (MS // 4)
    for quantity in played.machine.outputs:
        steps[quantity.name] = played.of(quantity.name)
    run = write_run(tmp_path / "run", {"/step": (layout, words)}, attachments={"parameters.json": PARAMETERS})
    soft, hard = notes_of(open_run(run))
    assert [note.start for note in (soft, hard)] == pytest.approx([0.2275, 1.020], abs=2e-3)
    assert [note.speed for note in (soft, hard)] == pytest.approx([2.0, 3.0], rel=0.05)
    check_sound(heard(run, tmp_path / "out"), [soft.start, hard.start])


def test_keys_of_an_octave_are_semitones_apart(tmp_path: Path) -> None:
    layout = output_layout(octave.MACHINE)
    words = np.zeros((10, layout.words), np.int64)
    steps = layout.view(words)
    steps["t_ns"] = BEGIN_NS + MS * np.arange(10)
    steps["key1_strike_count"][5:] = steps["key13_strike_count"][2:] = 1.0
    run = write_run(tmp_path / "run", {"/step": (layout, words)}, attachments={"parameters.json": PARAMETERS})
    assert [note.pitch for note in notes_of(open_run(run))] == [69, 57]
    assert frequency(69) == 440.0


def test_a_run_of_something_else_is_refused_and_one_without_strikes_is_silent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="strike_count"):
        notes_of(open_run(write_drive(tmp_path / "drive", 20)))
    assert not read_midi(midi_file([])) and len(wave_file([])) > 44
    with pytest.raises(ConfigError, match="at most 3600 s"):
        wave_file([Note(1e7, 1e7 + 1.0, 60, 1.0)])
