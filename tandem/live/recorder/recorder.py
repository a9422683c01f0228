"""One record: a tap on every recorded ring, the parts it is written to, what is deleted, how it ends."""

import collections
import json
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

from sync.clock import REAL, Clock, now_ns, sleep_until
from sync.config.config import Config
from sync.errors import TandemError
from sync.files.private import make_folder
from sync.record import Left, LeftOff, RunWriter, Sink, SyncFailure, left_off, part_file, parts
from sync.record.retention import NEWEST, Deletion, Limits, delete, free_bytes, plan
from sync.record.utc import wall_clock
from sync.ring.streams import RECORDED
from tandem.live.recorder.presence import Presence
from tandem.live.recorder.tap import Tap
from tandem.records.descriptions import describe
from tandem.records.provenance import attachments, start_facts

POLL_S = 0.04
_FIRST_PART_NS = 10**9  # age at which a failed sync ends a part; doubled by every failure before
_LEAST_PART_NS = 10 * 10**9  # age at which lack of room on the disk may end it


class Note(NamedTuple):
    """A notice for the record. The supervisor sends the latest of them to a successor again, with the same number."""

    number: int
    at_ns: int
    text: str


class CannotRecord(TandemError):
    """There is no place for the record."""


class Recorder:
    """One run, in as many parts as it takes. Never waits for a slow disk, only for one that hangs when a part is begun:
    the rings hold their blocks for longer than that."""

    def __init__(
        self,
        config: Config,
        file: Path,
        folder: Path,
        parameters: bytes | None,
        again: bool = False,
        clock: Clock = REAL,
    ):
        record = config.record
        self._settings, self._folder, self._name, self._clock = record, folder, config.name, clock
        self._describe = describe(parameters)
        self._limits = Limits(round(record.keep_gb * 1e9), round(record.keep_free_gb * 1e9), record.delete_runs)
        try:
            make_folder(folder)
            left = left_off(folder) if again else LeftOff()
            self.writer = self._new_writer(left.part)
        except FileExistsError:
            raise CannotRecord(f"{folder}: holds a record already; nothing is overwritten") from None
        except OSError as error:
            raise CannotRecord(f"no record in {folder}: {error.strerror}") from None
        self._earlier, self._earlier_bytes = left.earlier, left.size
        self._ending: list[Sink] = []  # earlier parts that the disk has not taken yet
        self._deletions: list[tuple[Sink, Deletion]] = []  # carried out once the part that states it is on the disk
        self._failed: dict[str, SyncFailure] = {}  # by file, of this recorder
        self._failed_reported = 0
        self.notices: collections.deque[str] = collections.deque()  # for the supervisor
        self.presence = Presence(folder, bool(self._limits.free_bytes))
        for number in range(left.earlier.deleted + 1, left.part):
            self.presence.watch(folder / part_file(number))
        self.presence.watch(self.writer.path, self.writer.sink)
        self.presence.start()
        self._run = left.run or os.urandom(8).hex()
        begun_ns = self._begin_part_at(clock.now_ns())
        self._earlier.begun_ns = self._earlier.begun_ns or begun_ns
        self._earlier.at_ns = begun_ns
        self.writer.belongs(self._run, self._earlier.as_json() if left.part > 1 else None)
        self._facts = start_facts(config)
        self.writer.begin(self._facts, {}, begun_ns)
        self._taps = [
            Tap(stream.topic, config.ring(stream.name), self.writer, left.topics.get(stream.topic), again)
            for stream in RECORDED
            if stream.exists(config.transport.kind)
        ]
        # after the rings are open: an open ring cannot vanish, and attachments take a while
        self._attachments = attachments(config, file, parameters)
        self.writer.attach(self._attachments, begun_ns)
        self.writer.flush()
        self._flush_ns = round(record.flush_ms * 1e6)
        self._flushed_ns = clock.now_ns()
        self.worst_pause_ns = 0

    # ---- parts

    def _new_writer(self, part: int, behind: Sink | None = None) -> RunWriter:
        pending = self._settings.most_pending_mb << 20
        return RunWriter(self._folder, pending, self._settings.fsync_s, part, behind, self._describe)

    def _begin_part_at(self, now_ns: int) -> int:
        self._part_ns = now_ns
        self._part_end_ns = now_ns + round(self._settings.part_minutes * 60e9)
        return now_ns

    def _left(self) -> dict[str, Left]:
        found = {tap.topic: tap.left() for tap in self._taps}
        return {topic: left for topic, left in found.items() if left is not None}

    def next_part(self) -> bool:
        """Continue in a new file, with the very block at which this one ends."""
        for tap in self._taps:
            tap.take()
        now = self._clock.now_ns()
        old = self.writer
        try:
            writer = self._new_writer(old.part + 1, old.sink)
        except OSError as error:
            self.notices.append(f"no new part of the record: {error.strerror}; it goes on in {old.path.name}")
            self._begin_part_at(now)
            return False
        deletion = self._to_delete()
        self._note_failures()
        self._earlier.topics, self._earlier.at_ns = self._left(), now
        old.continue_in(writer.path.name, now)
        self._earlier_bytes += old.sink.accepted
        self._ending.append(old.sink)
        self.writer = writer
        writer.belongs(self._run, self._earlier.as_json())
        writer.begin({**self._facts, "utc": wall_clock()}, self._attachments, now)
        for tap in self._taps:
            tap.go_on_in(writer)
        writer.flush()
        self.presence.watch(writer.path, writer.sink)
        self._begin_part_at(now)
        if deletion:
            self._deletions.append((writer.sink, deletion))
            self._earlier_bytes -= deletion.own_bytes
        return True

    def _to_delete(self) -> Deletion:
        """What goes with the next part; the start of that part states it."""
        if not self._limits.any:
            return Deletion()
        try:
            free = free_bytes(self._folder)
            found = plan(self._folder, self._name, self._limits, free, self._earlier.deleted)
        except OSError as error:
            self.notices.append(f"nothing can be deleted to make room: {error.strerror}")
            return Deletion()
        if found.files:
            self._earlier.deleted = found.upto
            self._earlier.deleted_bytes += found.own_bytes
        if found:
            runs = [f"the run {run.name}" for run in found.runs]
            own = [f"parts up to {found.upto} of this run"] if found.files else []
            what = ", ".join(runs + own)
            self.notices.append(f"deleted to make room ({self._rule}): {what}: {found.bytes / 1e9:.3f} GB")
        if found.short:
            self.notices.append(
                f"{found.short / 1e9:.3f} GB more than {self._rule} allows, and nothing older may be deleted"
            )
        return found

    @property
    def _rule(self) -> str:
        settings = self._settings
        rules = {"keep_gb": settings.keep_gb, "keep_free_gb": settings.keep_free_gb}
        return " and ".join(f"record.{key} = {value:g}" for key, value in rules.items() if value)

    def _delete(self) -> None:
        """Delete what a part on the disk states as deleted; in a thread of its own, because a disk may hang."""
        while self._deletions and self._deletions[0][0].synced:
            _, deletion = self._deletions.pop(0)
            for path in deletion.files:
                self.presence.forget(path)
            threading.Thread(target=lambda d=deletion: self.notices.extend(delete(d)), daemon=True).start()

    def _note_failures(self) -> None:
        for sink in (*self._ending, self.writer.sink):
            if sink.sync_failure is not None:
                self._failed[sink.sync_failure.file] = sink.sync_failure
        carried = [text for text in self._earlier.unsynced if text.split(":")[0] not in self._failed]
        begun = self._earlier.begun_ns
        self._earlier.unsynced = carried + [failure.sentence(begun) for failure in self._failed.values()]

    @property
    def _part_is_due(self) -> bool:
        now = self._clock.now_ns()
        if now >= self._part_end_ns:
            return True
        self._note_failures()
        # the more often a disk fails, the more rarely a new file is begun
        if len(self._failed) > self._failed_reported and now - self._part_ns > _FIRST_PART_NS << min(
            self._failed_reported, 10
        ):
            self.notices.extend(self._earlier.unsynced[-(len(self._failed) - self._failed_reported) :])
            self._failed_reported = len(self._failed)
            return True
        free, age = self.presence.free, now - self._part_ns
        low = free is not None and free < self._limits.free_bytes
        least = max(_LEAST_PART_NS, (self._part_end_ns - self._part_ns) // 10)
        return low and age > least and len(parts(self._folder)) > NEWEST

    # ---- at work

    def poll(self) -> None:
        for tap in self._taps:
            tap.take()
        now = self._clock.now_ns()
        # at the next look it would be too late
        if now - self._flushed_ns + round(POLL_S * 1e9) > self._flush_ns:
            self.writer.flush()
            self.worst_pause_ns = max(self.worst_pause_ns, now - self._flushed_ns)
            self._flushed_ns = now
            if self._part_is_due:
                self.next_part()
        self._ending = [sink for sink in self._ending if not self._has_ended(sink)]
        self._delete()

    def _has_ended(self, sink: Sink) -> bool:
        """Whether this part is on the disk, or known to have failed."""
        if sink.ended and sink.sync_failure is not None:
            self._failed[sink.sync_failure.file] = sink.sync_failure
        return sink.ended

    def note(self, notes: "collections.deque[Note]") -> None:
        while notes:
            note = notes.popleft()
            if note.number > self._earlier.noted:  # otherwise an earlier recorder has written it
                self.writer.note(note.text, note.at_ns, note.number)
                self._earlier.noted = note.number

    @property
    def _sinks(self) -> list[Sink]:
        return [*self._ending, self.writer.sink]

    @property
    def error(self) -> str | None:
        """Why the disk takes nothing at the moment."""
        return next((sink.error for sink in self._sinks if sink.error), None)

    def figures(self) -> dict[str, Any]:
        state = f"waiting for the disk: {self.error}" if self.error else "recording"
        dropped = sum(tap.dropped for tap in self._taps)
        if self.presence.missing:
            state = f"lost: {self.presence.missing}"
        if dropped:
            state += f"; {dropped} blocks dropped"
        if gone := [tap.topic for tap in self._taps if tap.gone]:
            state += f"; the end of {' and '.join(gone)} had gone before the record was taken up again"
        state = "; ".join([state, *self._earlier.unsynced, *(tap.trouble for tap in self._taps if tap.trouble)])
        return {
            "state": state,
            "file": str(self.writer.path),
            "parts": self.writer.part,
            "deleted_parts": self._earlier.deleted,
            "deleted_bytes": self._earlier.deleted_bytes,
            "unsynced": self._earlier.unsynced,
            "bytes": self._earlier_bytes + self.writer.sink.written,
            "pending_bytes": self.writer.sink.pending,
            "worst_flush_ms": round(self.worst_pause_ns / 1e6, 1),
            "worst_write_ms": round(max(sink.worst_write_ns for sink in self._sinks) / 1e6, 1),
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
            sleep_until(now_ns() + round(POLL_S * 1e9))
            self.poll()

    # ---- the end

    def finish(self, reason: str, summary: dict[str, Any], supervised: bool) -> dict[str, Any]:
        for tap in self._taps:
            tap.take()
            tap.close()
        taken = [sink.close() or sink.sync_failure is not None for sink in self._ending]
        self._note_failures()
        whole = self.writer.finish(self._end_facts(reason), summary, self._clock.now_ns()) and all(taken)
        if self.writer.sink.sync_failure is not None and self._state_failure_in_a_new_part(reason, summary):
            whole = all(taken)
        self.presence.close()
        missing = self.presence.check()
        self._ending = []
        self._delete()
        self._deletions = []  # files that the last part states as deleted are not read; the next run counts them
        result = self.figures()
        # a recorder started by hand did not miss what passed before its start
        dropped = any(
            tap.lost or tap.dropped or tap.trouble or tap.gone or (supervised and tap.before) for tap in self._taps
        )
        unsynced, deleted = self._earlier.unsynced, self._earlier.deleted
        result["whole"] = whole and not dropped and missing is None and not unsynced
        result["state"] = (
            missing if missing
            else f"cut short: {self.error or 'the disk did not take the rest in time'}" if not whole
            else "; ".join(unsynced) if unsynced
            else "blocks are missing" if dropped
            else f"kept: the last {self.writer.part - deleted} of {self.writer.part} parts" if deleted
            else "whole"
        )  # fmt: skip
        return result

    def _end_facts(self, reason: str) -> dict[str, str]:
        lost = {
            f"{what} {tap.topic}": str(getattr(tap, what))
            for tap in self._taps
            for what in ("recorded", "lost", "dropped", "before")
        }
        deleted = {"deleted_parts": str(self._earlier.deleted)} if self._earlier.deleted else {}
        unsynced = {"unsynced": json.dumps(self._earlier.unsynced)} if self._earlier.unsynced else {}
        return {"reason": reason, **lost, **deleted, **unsynced}

    def _state_failure_in_a_new_part(self, reason: str, summary: dict[str, Any]) -> bool:
        """The last sync failed, which the end in that file cannot say: so write another file that does."""
        self._note_failures()
        now = self._clock.now_ns()
        self._earlier_bytes += self.writer.sink.written
        self._earlier.topics, self._earlier.at_ns = self._left(), now
        try:
            self.writer = self._new_writer(self.writer.part + 1)
        except OSError:
            return False
        self.presence.watch(self.writer.path, self.writer.sink)
        self.writer.belongs(self._run, self._earlier.as_json())
        self.writer.begin({**self._facts, "utc": wall_clock()}, self._attachments, now)
        return self.writer.finish(self._end_facts(reason), summary, now)
