"""The commands `tandem notes`, `tandem midi` and `tandem study piano`."""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from tandem.console.config_argument import NeededConfig
from tandem.console.help_text import RECORDS, RUN, Brought, takes_only
from tandem.console.present import give
from tandem.console.terminal import AsJson, Overrides, Runs, compiled, errors, output, progress, run_folder

_PIANOS = tuple(f"tandem.machines.piano.{name}" for name in ("phases", "octave", "multibody"))


def notes(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A recorded run of a piano key.")],
    out: Annotated[Path | None, typer.Option(help="Folder for notes.mid and notes.wav. Default: the run's.")] = None,
    as_json: AsJson = False,
) -> None:
    """The notes of a run: every strike with its instant and speed, a MIDI file and a WAV file."""
    with errors():
        from sync.files.private import by_default, make_folder, rewrite
        from sync.record import open_run
        from tandem.machines.piano.notes import as_figures, midi_file, notes_of
        from tandem.view.tones import wave_file

        opened = open_run(run, ("/step",))
        found = notes_of(opened)
        sound = wave_file(found)
        folder = out or by_default(opened.path).parent
        make_folder(folder)
        rewrite(folder / "notes.mid", midi_file(found))
        rewrite(folder / "notes.wav", sound)
    if as_json:
        print(json.dumps({"notes": as_figures(found), "folder": str(folder)}), flush=True)
        return
    console = output()
    for note in found:
        console.print(
            f"{note.start:9.4f} s  note {note.pitch:3d}  {note.speed:5.2f} m/s  velocity {note.velocity:3d}"
            f"  for {note.end - note.start:.3f} s"
        )
    console.print(f"{len(found)} notes: {folder / 'notes.mid'}, {folder / 'notes.wav'}", soft_wrap=True, markup=False)


def midi(
    context: typer.Context,
    config: NeededConfig,
    port: Annotated[str, typer.Option(help="A MIDI port of this host, by its name.")] = "",
    virtual: Annotated[
        bool, typer.Option("--virtual", help="A port that other programs see, named by --port.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A .mid file in place of a port.")] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Send the strikes of a running simulation to a MIDI port, until it ends or Ctrl-C."""
    with errors():
        from sim_service.registry import configured_machine
        from sync.config.config import load
        from sync.errors import ConfigError
        from sync.process.threads import set_by_signals
        from sync.ring.follower import RingFollower
        from tandem.machines.piano.midi import MidiFile, MidoPort, Port, Strikes, load_mido, play

        if out is not None:
            takes_only(context, f"{out} is in place of a port", "config", "out", "overrides", "as_json")
        checked = load(config, overrides or [])
        machine, params = configured_machine(checked, config.parent)
        if not machine.shown.display.sounds:
            raise ConfigError(f"{config}: the machine {machine.name} has no strikes; a piano key is expected")
        opened: Port = MidiFile(out) if out is not None else MidoPort(load_mido(), port, virtual)
        values = {p.name: float(value) for p, value in zip(machine.parameters, params, strict=False)}
        stop = threading.Event()
        set_by_signals(stop, signal.SIGINT, signal.SIGTERM)
        steps = RingFollower(checked.ring("sim"), living=True, from_now=True)
        try:
            strikes = Strikes(machine.shown.display.sounds, values)
            sent = play(steps, strikes, opened, stop, lambda text: print(f"midi: {text}", file=sys.stderr, flush=True))
        finally:
            steps.close()
    if as_json:
        print(json.dumps({"notes": sent}), flush=True)
    else:
        output().print(f"{sent} notes sent", markup=False)


def study_piano(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="phases, multibody: a model's strokes; strokes: soft to fortissimo; measured: beside a real action;"
            " models: both on the same key; sensitivity: what a gesture changes; instrument: its sensors; or all",
        ),
    ] = "all",
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """A piano key examined: slow press, regulation, blows, repetition; tables and a page with curves.

    Exit codes: 0 everything promised holds; 1 something does not; 2 a name is wrong.
    """
    from sync.errors import ConfigError

    with errors():
        with compiled("piano", "tandem.machines.piano.studies", *_PIANOS):
            from tandem.machines.piano import studies as piano
            from tandem.machines.piano.studies import study
        if what != "all" and what not in piano.PARTS:
            raise ConfigError(f"study piano {what}: must be one of {', '.join(piano.PARTS)}, all")
        with progress("study piano") as update:
            results = piano.examine([*piano.PARTS] if what == "all" else [what], update)
    give(study.report(results), as_json, run_folder(runs, "study_piano"))


COMMANDS = (
    Brought("notes", notes, RECORDS),
    Brought("midi", midi, RUN),
    Brought("study piano", study_piano),
)
