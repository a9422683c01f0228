"""The process of the recorder: supervised it reads from standard input what to record and how the run ended."""

import collections
import contextlib
import functools
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from sync.clock import now_ns
from sync.config.config import Config
from sync.process.realtime import this_thread
from sync.process.service import EVERY, Prepared, Reporter
from tandem.live.recorder.recorder import POLL_S, Note, Recorder

_PRIORITY = 1  # of real time; the least there is
_NICE = -10  # where that is not permitted
_LEAST_RING_S = 0.5


def _listen(stop: threading.Event, messages: list[dict[str, Any]], notes: "collections.deque[Note]") -> None:
    """Read notes, and how the run ended, from the supervisor; its input also ends when the supervisor has gone."""
    for line in sys.stdin:
        try:
            message = dict(json.loads(line))
        except ValueError:
            continue
        if "note" in message:
            notes.append(Note(int(message["number"]), int(message["at_ns"]), str(message["note"])))
            continue
        messages.append(message)
        break
    stop.set()


def run(config: Config, file: Path, stop: threading.Event, reporter: Reporter, folder: Path | None) -> dict[str, Any]:
    """Record into `folder`. Supervised (None), the first line on standard input has the folder, the model's parameters
    (to build the model here would cost its imports) and whether this is the next part of the record in that folder;
    notes follow, and at last the end."""
    supervised, parameters, again = folder is None, None, False
    if folder is None:
        reporter.ready({})
        line = sys.stdin.readline()
        if not line:
            return {}  # called off
        message = json.loads(line)
        if "folder" not in message:
            return {}  # the run went on without a recorder, and has ended
        folder, parameters, again = Path(message["folder"]), message["parameters"].encode(), bool(message.get("again"))
    # rings do not wait: run before all other programs, if permitted, but after everything that feeds the loop
    if not config.realtime.enabled or this_thread(_PRIORITY):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    recorder = Recorder(config, file, folder, parameters, again)
    messages: list[dict[str, Any]] = []
    notes: collections.deque[Note] = collections.deque()
    if supervised:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a message of the supervisor ends it, or the supervisor's end
        threading.Thread(target=_listen, args=(stop, messages, notes), daemon=True).start()
    for role, blocks, rate in (("daq", config.daq.ring_blocks, config.daq.rate_hz),
                               ("sim", config.sim.ring_blocks, 1e3 / config.sim.step_ms)):  # fmt: skip
        if blocks / rate < _LEAST_RING_S:
            reporter.say(
                f"{role}.ring_blocks = {blocks}: the ring holds {1e3 * blocks / rate:.0f} ms; a recorder may be late by"
                f" more, so blocks may be lost: {round(_LEAST_RING_S * rate)} or more are safe"
            )
    reporter.status(recorder.figures())
    turn, trouble = 0, None
    while not stop.wait(POLL_S):
        recorder.note(notes)
        recorder.poll()
        if recorder.error != trouble:
            trouble = recorder.error
            reporter.say(f"the disk takes nothing: {trouble}" if trouble else "the disk takes data again")
        if recorder.presence.missing:
            reporter.say(f"{recorder.presence.missing}: the record is not whole", once=True)
        while recorder.notices:
            text = recorder.notices.popleft()
            recorder.writer.note(f"record: {text}", now_ns())
            reporter.say(text)
        if turn % EVERY == 0:
            reporter.status(recorder.figures())
        turn += 1
    if supervised and not messages:
        recorder.drain(1.0)  # the services are ending too, a little later
    recorder.note(notes)
    message = messages[0] if messages else {}
    reason = message.get("reason") or ("the supervisor ended without a word" if supervised else "stopped")
    return recorder.finish(reason, message.get("summary") or {}, supervised)


def in_words(report: dict[str, Any]) -> str:
    """What it did, for a person."""
    counts = ", ".join(f"{topic['recorded']} {name}" for name, topic in report["topics"].items() if topic["recorded"])
    return f"{report['state']}: {counts or 'nothing'} in {report['file']}, {report['bytes'] / 1e6:.1f} MB"


def prepare(config: Config, file: Path) -> Prepared:
    return Prepared(functools.partial(run, folder=None))
