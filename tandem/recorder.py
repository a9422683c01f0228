"""The recorder: a process of its own that reads the rings in order and writes every block and every step to a file.

It is a reader like any other: killed, slow or without a disk it costs the loop nothing. Steps are taken before the
blocks, so that in the file, too, no step stands without the block it used. When a ring is made anew (a restarted DAQ)
it follows. What it could not record has a number: `lost` was overwritten before it came, `dropped` found no room
because the disk took nothing.

A recorder that died may be followed by another, which writes the next part of the record and takes every ring up
exactly where the files of its predecessors end: the rings remember longer than it takes to start one. Its numbers are
those of the whole run.
"""

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

import numpy as np

from sync.clock import now_ns, sleep_until
from sync.config import Config
from sync.errors import RingError, TandemError
from sync.realtime import this_thread
from sync.record import Left, LeftOff, Ring, RunWriter, left_off
from sync.record.rings import AGAIN, CLOSED, GONE, LEFT, OPEN
from sync.ring import RingReader, since
from sync.service import EVERY, Prepared, Reporter, main
from tandem.facts import attachments, start_facts

LOOK_S = 0.04
_BATCH = 4096
_PRIORITY = 1  # of real time; the least there is
_NICE = -10  # where that is not permitted
_LEAST_RING_S = 0.5
_PRESENCE_S = 0.5  # between two looks for the file


class CannotRecord(TandemError):
    """There is no place for the record."""


class Tap:
    """One ring, one topic."""

    def __init__(self, topic: str, ring: str, writer: RunWriter, left: Left | None = None, again: bool = False):
        self.topic, self._name, self._writer = topic, ring, writer
        self._ring: RingReader | None = None
        self._position = 0
        self._layout = ""  # of the blocks that were recorded
        self._blocks = np.zeros((0, 0), np.int64)
        self._before: tuple[int, int] | None = None  # (segment, head) of a ring that was dead when first seen
        self._done = -1  # the segment that was read to its end
        self.trouble: str | None = None
        self.recorded = self.before = self.lost = self.dropped = 0
        self.gone = False  # a ring that was not there any more when the record was taken up again
        self._watched = again  # there was a recorder before the ring
        if left is not None:
            self._take_up(left)

    def _note(self, state: str, segment: int, position: int, before: int = 0) -> None:
        self._writer.ring(Ring(self.topic, state, segment, position, self.recorded, before, self._layout))

    def _take_up(self, left: Left) -> None:
        """Go on where the files end."""
        account = left.account
        self.recorded, self.lost, self.before = account.rows, account.missing, left.before
        self._layout, self._position, self.gone = left.layout, account.position, left.gone
        if left.state == LEFT:
            self._before = (account.segment, account.position)
            self._watched = False
        elif left.state == CLOSED:
            self._done = account.segment
        elif left.state != GONE:
            ring = self._found()
            # what its writer did meanwhile, even if it was another one, stands behind this position
            if ring is not None and ring.segment == account.segment and ring.head >= account.position:
                if self._follow(ring):
                    self._note(AGAIN, ring.segment, self._position)
                return
            if ring is not None:
                ring.close()
            self.gone = True
            self._note(GONE, account.segment, account.position)

    def _found(self) -> RingReader | None:
        try:
            return RingReader(self._name)
        except RingError:
            return None

    def _follow(self, ring: RingReader) -> bool:
        """Whether its blocks can stand in the record."""
        try:
            if self._layout not in ("", ring.layout.id):
                raise ValueError(f"{self.topic}: the layout changed in the middle of the run")
            self._writer.topic(self.topic, ring.layout)
        except ValueError as error:
            self.trouble = str(error)
            ring.close()
            return False
        self._ring, self._layout = ring, ring.layout.id
        self._blocks = np.zeros((_BATCH, ring.layout.words), np.int64)
        return True

    def _attach(self) -> bool:
        ring = self._found()
        if ring is None:
            return False
        again = ring.segment == self._done
        if (again and ring.closed) or (not ring.writer_alive and not self._watched):
            if not again and self._before != (found := (ring.segment, ring.head)):
                self._before = found  # of somebody who is no more; adopted, it goes on from here
                self._note(LEFT, *found)
            ring.close()
            return False
        left = self._position if again else 0
        if self._before and self._before[0] == ring.segment:
            left = max(left, self._before[1])
        if not self._follow(ring):
            return False
        # what passed before there was a recorder is none of its losses; what passed while one should have been there is
        self._position = left if self._watched else max(ring.head - ring.capacity, left)
        self.before += self._position - left
        self._note(OPEN, ring.segment, self._position, self._position - left)
        self._watched = True
        return True

    def take(self) -> None:
        """Everything new; then, if the ring was closed, look for its successor."""
        while self.trouble is None and (self._ring is not None or self._attach()):
            assert self._ring is not None
            closed = self._ring.closed  # before the last look, so that nothing can come after it
            while True:
                count, self._position, lost = since(self._ring.words, self._position, self._blocks)
                self.lost += lost
                if count == 0:
                    break
                if self._writer.sink.room:
                    self._writer.add(self.topic, self._blocks[:count], self._position - count)
                    self.recorded += count
                else:
                    self.dropped += count
            if not closed:
                return
            self._done = self._ring.segment
            self._note(CLOSED, self._done, self._position)
            self.close()

    @property
    def ended(self) -> bool:
        """Nothing more will come: its writer has gone, or there is none."""
        return self._ring is None or not self._ring.writer_alive

    def close(self) -> None:
        if self._ring is not None:
            self._ring.close()
            self._ring = None


class Presence(threading.Thread):
    """Watches, in a thread of its own because a disk may hang, whether the file being written can still be found under
    its name: one that was deleted takes every byte, and nobody will ever read it."""

    def __init__(self, path: Path):
        super().__init__(name="presence", daemon=True)
        self._path, self._own = path, self._identity(path)
        self._end = threading.Event()
        self.missing: str | None = None

    @staticmethod
    def _identity(path: Path) -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def look(self) -> str | None:
        """What is wrong, once something is: a file that was put back by hand lacks what came meanwhile."""
        if self.missing is None and self._identity(self._path) != self._own:
            self.missing = f"{self._path} was deleted or moved during the run"
        return self.missing

    def run(self) -> None:
        while self.look() is None and not self._end.wait(_PRESENCE_S):
            pass

    def close(self) -> None:
        self._end.set()


class Recorder:
    def __init__(self, config: Config, file: Path, folder: Path, parameters: bytes | None, again: bool = False):
        record = config.record
        try:
            folder.mkdir(parents=True, exist_ok=True)
            left = left_off(folder) if again else LeftOff()
            self.writer = RunWriter(folder, record.most_pending_mb << 20, record.fsync_s, left.part)
        except FileExistsError:
            raise CannotRecord(f"{folder}: holds a record already; nothing is overwritten") from None
        except OSError as error:
            raise CannotRecord(f"no record in {folder}: {error.strerror}") from None
        self._earlier_bytes = left.size
        self.presence = Presence(self.writer.path)
        self.presence.start()
        self.writer.belongs(left.run or os.urandom(8).hex())
        begun_ns = now_ns()
        self.writer.begin(start_facts(config), {}, begun_ns)
        rings = {"/step": "sim", "/received": "sim_in", "/daq": "daq", "/command": "command"}
        if config.transport.kind == "shm":
            del rings["/received"]
        self._taps = [
            Tap(topic, config.ring(ring), self.writer, left.topics.get(topic), again) for topic, ring in rings.items()
        ]
        # behind the rings: a ring that is held cannot go any more, and these take their time
        self.writer.attach(attachments(config, file, parameters), begun_ns)
        self.writer.flush()
        self._flush_ns = round(record.flush_ms * 1e6)
        self._flushed_ns = now_ns()
        self.worst_pause_ns = 0

    def look(self) -> None:
        for tap in self._taps:
            tap.take()
        now = now_ns()
        # a look later it would be too late
        if now - self._flushed_ns + round(LOOK_S * 1e9) > self._flush_ns:
            self.writer.flush()
            self.worst_pause_ns = max(self.worst_pause_ns, now - self._flushed_ns)
            self._flushed_ns = now

    def note(self, notes: "collections.deque[tuple[int, str]]") -> None:
        while notes:
            at_ns, text = notes.popleft()
            self.writer.note(text, at_ns)

    def figures(self) -> dict[str, Any]:
        sink = self.writer.sink
        state = f"waiting for the disk: {sink.error}" if sink.error else "recording"
        dropped = sum(tap.dropped for tap in self._taps)
        if self.presence.missing:
            state = f"lost: {self.presence.missing}"
        if dropped:
            state += f"; {dropped} blocks dropped"
        if gone := [tap.topic for tap in self._taps if tap.gone]:
            state += f"; the end of {' and '.join(gone)} had gone before the record was taken up again"
        state = "; ".join([state, *(tap.trouble for tap in self._taps if tap.trouble)])
        return {
            "state": state,
            "file": str(self.writer.path),
            "parts": self.writer.part,
            "bytes": self._earlier_bytes + sink.written,
            "pending_bytes": sink.accepted - sink.written,
            "worst_flush_ms": round(self.worst_pause_ns / 1e6, 1),
            "worst_write_ms": round(sink.worst_write_ns / 1e6, 1),
            "topics": {
                tap.topic: {
                    "recorded": tap.recorded, "lost": tap.lost, "dropped": tap.dropped, "before": tap.before
                }
                for tap in self._taps
            },
        }  # fmt: skip

    def drain(self, seconds: float) -> None:
        """Go on until nothing more can come, at most for so long."""
        end = now_ns() + round(seconds * 1e9)
        while now_ns() < end and not all(tap.ended for tap in self._taps):
            sleep_until(now_ns() + round(LOOK_S * 1e9))
            self.look()

    def finish(self, reason: str, summary: dict[str, Any], supervised: bool) -> dict[str, Any]:
        for tap in self._taps:
            tap.take()
            tap.close()
        lost = {
            f"{what} {tap.topic}": str(getattr(tap, what))
            for tap in self._taps
            for what in ("recorded", "lost", "dropped", "before")
        }
        whole = self.writer.finish({"reason": reason, **lost}, summary, now_ns())
        self.presence.close()
        missing = self.presence.look()
        result = self.figures()
        # by hand, what passed before the recorder was started is nothing it missed
        dropped = any(
            tap.lost or tap.dropped or tap.trouble or tap.gone or (supervised and tap.before) for tap in self._taps
        )
        result["whole"] = whole and not dropped and missing is None
        result["state"] = (
            missing if missing
            else f"cut short: {self.writer.sink.error or 'the disk did not take the rest in time'}" if not whole
            else "blocks are missing" if dropped else "whole"
        )  # fmt: skip
        return result


def _listen(stop: threading.Event, said: list[dict[str, Any]], notes: "collections.deque[tuple[int, str]]") -> None:
    """What is to be noted, and how the run ended, as the supervisor tells it; or that there is none any more."""
    for line in sys.stdin:
        try:
            told = dict(json.loads(line))
        except ValueError:
            continue
        if "note" in told:
            notes.append((now_ns(), str(told["note"])))
            continue
        said.append(told)
        break
    stop.set()


def run(config: Config, file: Path, stop: threading.Event, reporter: Reporter, folder: Path | None) -> dict[str, Any]:
    """Record into `folder`; supervised (None) the folder and the model's parameters come as the first line on standard
    input (whoever starts a drive has the model already; here it would cost its import), and whether this is to be the
    next part of the record in that folder; then notes, at last the end."""
    supervised, parameters, again = folder is None, None, False
    if folder is None:
        reporter.ready({})
        line = sys.stdin.readline()
        if not line:
            return {}  # called off
        told = json.loads(line)
        if "folder" not in told:
            return {}  # the drive went on without it, and has ended
        folder, parameters, again = Path(told["folder"]), told["parameters"].encode(), bool(told.get("again"))
    # the rings do not wait: before whatever else runs here, if it may, and behind everything that feeds the loop
    if not config.realtime.enabled or this_thread(_PRIORITY):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    recorder = Recorder(config, file, folder, parameters, again)
    said: list[dict[str, Any]] = []
    notes: collections.deque[tuple[int, str]] = collections.deque()
    if supervised:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the supervisor's word ends it, or the supervisor's end
        threading.Thread(target=_listen, args=(stop, said, notes), daemon=True).start()
    for role, blocks, rate in (("daq", config.daq.ring_blocks, config.daq.rate_hz),
                               ("sim", config.sim.ring_blocks, 1e3 / config.sim.step_ms)):  # fmt: skip
        if blocks / rate < _LEAST_RING_S:
            reporter.say(
                f"{role}.ring_blocks = {blocks}: the ring holds {1e3 * blocks / rate:.0f} ms; a recorder may be late by"
                f" more, so blocks may be lost: {round(_LEAST_RING_S * rate)} or more are safe"
            )
    reporter.status(recorder.figures())
    turn, trouble = 0, None
    while not stop.wait(LOOK_S):
        recorder.note(notes)
        recorder.look()
        if recorder.writer.sink.error != trouble:
            trouble = recorder.writer.sink.error
            reporter.say(f"the disk takes nothing: {trouble}" if trouble else "the disk takes data again")
        if recorder.presence.missing:
            reporter.say(f"{recorder.presence.missing}: the record is lost", once=True)
        if turn % EVERY == 0:
            reporter.status(recorder.figures())
        turn += 1
    if supervised and not said:
        recorder.drain(1.0)  # the services end too, a little later
    recorder.note(notes)
    told = said[0] if said else {}
    reason = told.get("reason") or ("the supervisor ended without a word" if supervised else "stopped")
    return recorder.finish(reason, told.get("summary") or {}, supervised)


def in_words(report: dict[str, Any]) -> str:
    """What it did, for a person."""
    counts = ", ".join(f"{topic['recorded']} {name}" for name, topic in report["topics"].items() if topic["recorded"])
    return f"{report['state']}: {counts or 'nothing'} in {report['file']}, {report['bytes'] / 1e6:.1f} MB"


def prepare(config: Config, file: Path) -> Prepared:
    return Prepared(functools.partial(run, folder=None))


if __name__ == "__main__":
    sys.exit(main("record", prepare, real_time=False, waits=False))
