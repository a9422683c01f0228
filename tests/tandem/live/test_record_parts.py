"""A record without end: parts that follow each other without a gap, old ones that are deleted and said to be, a disk
whose sync fails."""

import collections
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sync.record import FILE, RunError, RunWriter, left_off, new_folder, open_run, part_file, parts, read_head
from sync.record.heads import Earlier
from sync.record.retention import Limits, older_runs, plan
from sync.record.sink import Sink
from sync.virtual_clock import NOW, virtual_clock
from tandem.live.recorder.recorder import Note
from tandem.records.inspect.info import info, info_of
from tandem.records.replay import Options, replay_run
from tandem.reports.outcome import RECORD_INCOMPLETE, verdict
from tests.examples import few
from tests.sync.strategies import PROPERTY
from tests.tandem.live.test_recorder import LAYOUTS, Desk, desk, numbers, wait_until
from tests.tandem.runs import BEGIN_NS, CONFIG, CONFIGS, DAQ, STEP, daq_words, step_words

MINUTE_NS = 60 * 10**9
CLEAN = {"balance": {"closes": True}}


class Hours(Desk):
    """A desk on a clock of its own."""

    def __init__(self, folder: Path, **options: Any):
        clock = virtual_clock()
        self._words = clock.words
        self.ended: list[Sink] = []  # of earlier parts
        super().__init__(folder, clock=clock, **options)

    def pass_minutes(self, minutes: float) -> None:
        self._words[NOW] += round(minutes * MINUTE_NS)
        sink = self.recorder.writer.sink
        self.recorder.poll()
        if self.recorder.writer.sink is not sink:
            self.ended.append(sink)

    def on_disk(self) -> None:
        """What was given to the disk is there, and what had to go has gone."""
        wait_until(lambda: all(sink.synced == sink.accepted for sink in self.ended))

        def deleted() -> bool:
            self.recorder.poll()
            return min(parts(self.folder)) == self.recorder.figures()["deleted_parts"] + 1

        wait_until(deleted)


@pytest.fixture
def hours(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hours]:
    settings = getattr(request, "param", ())
    here = Hours(tmp_path / "20260101T000000Z-run", settings=("record.fsync_s=0.01", *settings))
    yield here
    here.let_go()
    here.feed.close()
    for sink in here.ended:
        sink.close()


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_a_record_goes_on_in_a_new_part_after_so_many_minutes(hours: Hours) -> None:
    for _ in range(35):
        hours.feed.push("/daq", 30)
        hours.feed.push("/step", 5)
        hours.pass_minutes(1)
    told, run = hours.end()
    assert hours.feed.everything(run)
    assert told["whole"] and told["state"] == "whole" and told["parts"] == 4
    assert run.whole and run.deleted is None and not run.notices  # a new part is nothing to talk about
    assert [part.cut for part in run.parts] == [None] * 4 and [part.lost for part in run.parts] == [0] * 4
    assert run.topics["/daq"].begins.tolist() == [0] * len(run.topics["/daq"])


@given(st.lists(st.one_of(
    st.tuples(st.just("push"), st.sampled_from(sorted(LAYOUTS)), st.integers(1, 20)),
    st.sampled_from([("look",), ("part",), ("die", 1.0), ("die", 0.9), ("anew",)]),
), max_size=25))  # fmt: skip
@hypothesis_settings(PROPERTY, max_examples=few(30))
def test_no_block_is_missing_or_there_twice_whatever_ends_a_part(todo: list[tuple[Any, ...]]) -> None:
    with desk() as here:
        cut, ended = False, []
        for what, *how in todo:
            if what == "part":
                ended.append(here.recorder.writer.sink)
                assert here.recorder.next_part()
            elif what == "anew":
                here.look()
                here.feed.anew("/daq")
                here.look()
            elif what == "die":
                for sink in ended:
                    assert sink.close()
                here.look()
                here.die(*how)
                cut = cut or how[0] < 1.0
                here.begin()
            else:
                here.do(what, how)
        told, run = here.end()
        if not (cut and any(here.feed.closed.values())):  # a ring that has gone cannot give its end again
            assert here.feed.everything(run)
            assert told["whole"] and run.whole and run.lacking == 0
        for name in LAYOUTS:
            assert numbers(run, name) == sorted(set(numbers(run, name)))
        assert told["topics"]["/daq"]["recorded"] == len(numbers(run, "/daq"))


def test_a_recorder_that_takes_a_long_run_up_again_reads_only_its_last_part(
    hours: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        hours.feed.push("/daq", 30)
        hours.pass_minutes(11)
    hours.feed.push("/daq", 3)
    hours.on_disk()
    hours.die()
    for number, path in parts(hours.folder).items():
        if 1 < number < 5:
            with open(path, "r+b") as file:  # its middle is not looked at any more
                file.seek(path.stat().st_size // 2)
                file.write(bytes(64))
    assert left_off(hours.folder).topics["/daq"].account.rows == 150
    hours.begin()
    told, _ = hours.end()
    assert told["topics"]["/daq"]["recorded"] == 153 and told["topics"]["/daq"]["lost"] == 0


def test_a_part_by_itself_says_where_it_goes_on(hours: Hours, tmp_path: Path) -> None:
    hours.feed.push("/daq", 30)
    hours.pass_minutes(11)
    hours.end()
    (tmp_path / "alone").mkdir()
    shutil.copy(hours.folder / FILE, tmp_path / "alone" / FILE)
    run = open_run(tmp_path / "alone")
    assert not run.whole and run.ended == "without an end: it goes on in run.2.mcap, which is not there"


# ---- read part by part -----------------------------------------------------------------------------------------------


def test_figures_collected_part_by_part_are_those_of_the_whole(hours: Hours) -> None:
    for _ in range(4):
        hours.feed.push("/daq", 700)
        hours.feed.push("/step", 100)
        hours.pass_minutes(11)
    _, run = hours.end()
    assert info_of(hours.folder) == info(run)
    most = []
    read = open_run(hours.folder, consume=lambda topic: most.append(len(topic)))
    assert max(most) <= 700 and sum(most) == 3200 and not len(read.topics["/daq"]) and read.whole


def test_rows_that_lie_in_a_file_are_the_same_rows(hours: Hours, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        hours.feed.push("/daq", 700)
        hours.pass_minutes(11)
    _, run = hours.end()
    monkeypatch.setattr("sync.record.join._IN_MEMORY", 1 << 12)
    spilled = open_run(hours.folder).topics["/daq"]
    assert isinstance(spilled.words, np.memmap)
    assert np.array_equal(spilled.words, run.topics["/daq"].words)
    assert np.array_equal(spilled.positions, run.topics["/daq"].positions) and spilled.missing == 0
    assert sorted(path.name for path in hours.folder.iterdir()) == sorted(p.name for p in parts(hours.folder).values())


# ---- old parts are deleted -------------------------------------------------------------------------------------------


def record_hours(hours: Hours, rounds: int = 12) -> None:
    for _ in range(rounds):
        hours.feed.push("/daq", 200)
        hours.feed.push("/step", 40)
        hours.pass_minutes(11)
        hours.on_disk()


@pytest.mark.parametrize("hours", [("record.keep_gb=0.0002",)], indirect=True)
def test_what_was_deleted_to_make_room_is_stated_and_the_rest_is_complete(hours: Hours) -> None:
    record_hours(hours)
    told, run = hours.end()
    files = parts(hours.folder)
    assert 2 < len(files) < 13 and sum(path.stat().st_size for path in files.values()) <= 200_000
    gone = min(files) - 1
    assert told["deleted_parts"] == gone and told["whole"]
    assert told["state"] == f"kept: the last {13 - gone} of 13 parts"
    assert run.deleted is not None and run.deleted.parts == gone and run.whole and run.cut is None
    assert run.deleted.rows == {"/daq": 200 * gone, "/step": 40 * gone}
    assert numbers(run, "/daq") == list(range(200 * gone, 2400))
    assert run.end is not None and run.end["deleted_parts"] == str(gone)
    assert f"parts 1 to {gone} were deleted to make room" in info(run)["deleted"]["text"]
    assert any("deleted to make room (record.keep_gb = 0.0002): parts up to" in text for text in hours.recorder.notices)
    assert verdict({**CLEAN, "record": told}).code == 0  # as it was asked for


@pytest.mark.parametrize("hours", [("record.keep_gb=0.0002",)], indirect=True)
def test_a_recorder_that_takes_over_goes_on_deleting_and_counting(hours: Hours) -> None:
    record_hours(hours)
    deleted = hours.recorder.figures()["deleted_parts"]
    hours.die()
    hours.begin()
    assert hours.recorder.figures()["deleted_parts"] == deleted > 0
    record_hours(hours, 3)
    told, run = hours.end()
    assert told["deleted_parts"] > deleted and told["whole"] and run.whole
    assert told["topics"]["/daq"]["recorded"] == 15 * 200
    assert numbers(run, "/daq")[-1] == 15 * 200 - 1 and run.topics["/daq"].missing == 0


@pytest.mark.parametrize("hours", [("record.keep_gb=0.000001",)], indirect=True)
def test_the_newest_two_parts_stay_whatever_the_limit(hours: Hours) -> None:
    record_hours(hours, 4)
    assert list(parts(hours.folder)) == [4, 5]
    assert any("nothing older may be deleted" in text for text in hours.recorder.notices)


@pytest.mark.parametrize("hours", [("record.keep_gb=0.0001",)], indirect=True)
def test_nothing_is_deleted_before_the_part_that_states_it_is_on_the_disk(
    hours: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_hours(hours, 3)
    before = set(parts(hours.folder).values())
    monkeypatch.setattr("sync.record.sink.os.fsync", refuse)
    for _ in range(3):
        hours.feed.push("/daq", 300)
        hours.pass_minutes(11)
    wait_until(lambda: all(sink.sync_failure for sink in hours.ended[-2:]))
    hours.recorder.poll()
    assert before <= set(parts(hours.folder).values())
    assert hours.recorder.figures()["deleted_parts"] >= min(parts(hours.folder))  # though it is to go


def test_a_part_deleted_by_hand_is_missing(hours: Hours) -> None:
    record_hours(hours, 3)
    hours.end()
    (hours.folder / FILE).unlink()
    run = open_run(hours.folder)
    assert not run.whole and run.deleted is None and "run.mcap is not there" in (run.cut or "") and run.lacking == 240


def test_a_replay_of_what_is_left_says_what_it_can_do(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, part=3)
    earlier = Earlier(deleted=2, deleted_bytes=10**6, begun_ns=BEGIN_NS, at_ns=BEGIN_NS + 10**9)
    writer.belongs("a run", earlier.as_json())
    kept = {
        "config.json": CONFIG.model_dump_json().encode(),
        "machine.toml": (CONFIGS / CONFIG.sim.machine).read_bytes(),
    }
    writer.begin({"name": "a drive"}, kept, BEGIN_NS + 10**9)
    for name, layout, words, first in (("/daq", DAQ, daq_words(2000), 1000), ("/step", STEP, step_words(400), 200)):
        writer.topic(name, layout)
        writer.add(name, words[first:], first)
    assert writer.finish({"reason": "stopped"}, {}, BEGIN_NS + 2 * 10**9)
    with pytest.raises(RunError, match=r"parts 1 to 2 were deleted to make room, 1.0 MB, up to 1.0 s, after the first"):
        replay_run(tmp_path, Options())
    done = replay_run(tmp_path, Options(mode="ideal"))
    assert done.figures["steps"] == 200 and "parts 1 to 2 were deleted" in done.figures["deleted"]


_SIZE = 4000


def test_older_runs_go_first_if_that_is_asked_for_and_only_those_of_this_name(tmp_path: Path) -> None:
    def a_run(stamp: str, name: str, stated: str = "") -> Path:
        folder = new_folder(tmp_path, stamp, name)
        writer = RunWriter(folder)
        writer.begin({"name": stated or name}, {}, BEGIN_NS)
        writer.finish({"reason": "stopped"}, {}, BEGIN_NS)
        (folder / FILE).write_bytes((folder / FILE).read_bytes()[:_SIZE].ljust(_SIZE, b"\0"))
        return folder

    first, second = a_run("20260101T000000Z", "car"), a_run("20260102T000000Z", "car")
    a_run("20260101T000000Z", "car_2"), a_run("20260101T000000Z", "bus")
    here = a_run("20260103T000000Z", "car")
    a_run("20260104T000000Z", "car")
    a_run("20260101T010000Z", "car-2")  # looks like the second of a second, and is another one's
    a_run("20260101T020000Z", "car", stated="bus")
    for stamp, holds in (("20260101T030000Z", "thesis.tex"), ("20260101T040000Z", FILE)):
        (new_folder(tmp_path, stamp, "car") / holds).write_text("no record")
    new_folder(tmp_path, "20260101T050000Z", "car")
    assert older_runs(here, "car") == [first, second]
    limits = Limits(keep_bytes=7 * _SIZE // 2, runs=True)
    assert plan(here, "car", limits, 0).runs == [first] and not plan(here, "car", limits, 0).files
    assert not plan(here, "car", Limits(keep_bytes=7 * _SIZE // 2), 0)
    assert plan(here, "car", Limits(free_bytes=5 * _SIZE, runs=True), 7 * _SIZE // 2).runs == [first, second]
    assert not plan(here, "car", Limits(runs=True), 0)
    link = tmp_path / "20250101T000000Z-car"
    link.symlink_to(second)
    assert link not in older_runs(here, "car")


def test_a_run_that_is_being_written_is_not_deleted(hours: Hours) -> None:
    name = hours.config.name
    later = new_folder(hours.folder.parent, "20270101T000000Z", name)
    hours.folder = hours.folder.rename(hours.folder.with_name(f"20260101T000000Z-{name}"))
    assert older_runs(later, name) == []
    hours.end()
    assert older_runs(later, name) == [hours.folder]


# ---- a sync that fails -----------------------------------------------------------------------------------------------


def refuse(*_: Any) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


class FailsOnce:
    """A disk: of the syncs of this file the next one fails. Others may come from a test before, whose disk is late."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path):
        self._sync, self._file, self.failed = os.fsync, file.stat().st_ino, False
        monkeypatch.setattr("sync.record.sink.os.fsync", self)

    def __call__(self, fd: int) -> None:
        if not self.failed and os.fstat(fd).st_ino == self._file:
            self.failed = True
            refuse()
        self._sync(fd)


def test_a_failed_sync_is_never_forgotten_and_a_new_part_begins(hours: Hours, monkeypatch: pytest.MonkeyPatch) -> None:
    hours.feed.push("/daq", 100)
    hours.pass_minutes(1)
    sink = hours.recorder.writer.sink  # a disk that fails at once ends this part in the very look that wrote to it
    wait_until(lambda: sink.synced > 0)
    disk = FailsOnce(monkeypatch, hours.recorder.writer.path)
    hours.feed.push("/daq", 200)
    hours.pass_minutes(1)
    # a disk takes its own time: until it has failed the clock stands, or a part would begin because one was due
    wait_until(lambda: sink.sync_failure is not None)
    assert disk.failed
    hours.pass_minutes(1)
    assert hours.recorder.writer.part == 2
    hours.feed.push("/daq", 100)
    told, run = hours.end()
    assert not told["whole"] and "run.mcap: the disk failed (Input/output error): what came from" in told["state"]
    assert not run.whole and len(run.unsynced) == 1 and run.unsynced[0] == told["unsynced"][0]
    assert numbers(run, "/daq") == list(range(400)) and told["parts"] == 2  # it is all there, as long as the power is
    assert verdict({**CLEAN, "record": told}).code == RECORD_INCOMPLETE
    assert info(run)["unsynced"] == run.unsynced
    head = read_head(hours.folder / part_file(2))
    assert head is not None and head.earlier is not None and head.earlier.unsynced  # also if there never is an end


def test_a_last_sync_that_fails_is_stated_behind_it(hours: Hours, monkeypatch: pytest.MonkeyPatch) -> None:
    hours.feed.push("/daq", 100)
    hours.pass_minutes(1)
    wait_until(lambda: hours.recorder.writer.sink.synced == hours.recorder.writer.sink.accepted)
    disk = FailsOnce(monkeypatch, hours.recorder.writer.path)
    told, run = hours.end()
    assert disk.failed and not told["whole"] and told["parts"] == 2
    assert not run.whole and "run.mcap: the disk failed" in run.unsynced[0] and run.end is not None


@pytest.mark.parametrize("share", [0.0, 0.4, 0.7, 0.9, 1.0])
def test_every_note_is_kept_once_whoever_dies_while_it_is_written(share: float) -> None:
    """A note may be on its way to a recorder that is killed: its successor is told the latest once more."""
    told = [Note(n, n * 10**6, f"note {n}") for n in range(1, 9)]
    with desk() as here:
        here.recorder.note(collections.deque(told[:3]))
        here.look()
        here.recorder.next_part()
        here.recorder.note(collections.deque(told[3:6]))
        here.look()
        here.die(share)
        here.begin()
        here.recorder.note(collections.deque(told[2:]))
        _, run = here.end()
    said = [(at_ns, text) for at_ns, text in run.notices if text.startswith("note")]
    assert said == [(note.at_ns, note.text) for note in told]
