"""A record in parts: whoever kills recorders, every block that passed the rings is in the run once, in order."""

import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from mcap.reader import make_reader

from sync.clock import REAL, Clock, now_ns
from sync.config.config import Config, load
from sync.record import FILE, Run, RunError, Topic, left_off, open_run, parts
from sync.record.reader import find
from sync.ring.block import Channel, Layout
from sync.ring.ring import CLOSED, SHM, STATE_WORD, RingWriter, poke, push
from tandem.live.recorder.recorder import CannotRecord, Recorder
from tandem.records.inspect.info import info
from tests.examples import few
from tests.sync.actors import PATIENCE_S
from tests.sync.strategies import PROPERTY

ROOT = Path(__file__).resolve().parents[3]
DRIVE = ROOT / "configs" / "drive.toml"
DAQ = Layout((Channel("number", "i8"), Channel("other", "i4", "count")))
STEP = Layout((Channel("number", "i8"), Channel("x", "f8", "m")))
LAYOUTS = {"/daq": DAQ, "/step": STEP}
SETTINGS = ("transport.kind=shm", "sim.machine=vehicles/buggy_single_track.toml", "realtime.enabled=false")
_number = itertools.count()


class RingWriters:
    """Two rings and all that was ever pushed into them, each block with a number of its own."""

    def __init__(self, config: Config, capacity: int):
        self._names = {"/daq": config.ring("daq"), "/step": config.ring("sim")}
        self._capacity = capacity
        self.pushed: dict[str, list[np.ndarray]] = {topic: [] for topic in LAYOUTS}
        self.closed: dict[str, int] = dict.fromkeys(LAYOUTS, 0)  # blocks that passed rings which are no more
        self._rings = {topic: self._ring(topic) for topic in LAYOUTS}

    def _ring(self, topic: str) -> RingWriter:
        return RingWriter(self._names[topic], LAYOUTS[topic], self._capacity)

    def push(self, topic: str, count: int) -> None:
        ring, layout = self._rings[topic], LAYOUTS[topic]
        words = np.zeros((count, layout.words), np.int64)
        blocks = layout.view(words)
        blocks["number"] = len(self.pushed[topic]) + np.arange(count)
        blocks["seq"], blocks["epoch"], blocks["t_ns"] = ring.head + np.arange(count), ring.epoch, now_ns()
        blocks["pushed_ns"] = blocks["t_ns"]
        for row in words:
            push(ring.words, row)
        self.pushed[topic].extend(words)

    def reborn(self, topic: str) -> None:
        """Its writer is killed; the next one adopts the segment."""
        self.dies(topic)
        self.comes(topic)
        assert self._rings[topic].adopted

    def dies(self, topic: str, closing: bool = False) -> None:
        """`closing`: after it has marked the ring as closed, and before it has removed it."""
        if closing:
            poke(self._rings[topic].words, STATE_WORD, CLOSED)
        self._rings[topic].leave()
        self._rings[topic].words = np.zeros(0, np.int64)  # the mapping holds the lock too

    def comes(self, topic: str) -> None:
        self._rings[topic] = self._ring(topic)

    def loses_its_name(self, topic: str) -> None:
        """Somebody removes the file; its writer does not notice."""
        (SHM / self._names[topic]).unlink()

    def anew(self, topic: str) -> None:
        """Its writer ends; the next one makes a ring."""
        self._rings[topic].close()
        self.closed[topic] = len(self.pushed[topic])
        self._rings[topic] = self._ring(topic)

    def close(self) -> None:
        for ring in self._rings.values():
            ring.close()

    def everything(self, run: Run) -> bool:
        found = {topic: run.topics[topic].words.tolist() if topic in run.topics else [] for topic in LAYOUTS}
        return found == {topic: [row.tolist() for row in rows] for topic, rows in self.pushed.items()}


class Desk:
    """A folder, a feed, and recorders that come and go."""

    def __init__(self, folder: Path, capacity: int = 4096, settings: tuple[str, ...] = (), clock: Clock = REAL):
        self.folder, self._clock = folder, clock
        self.config = load(DRIVE, [f"name=parts_{os.getpid()}_{next(_number)}", *SETTINGS, *settings])
        self.feed = RingWriters(self.config, capacity)
        self.recorder = self.begin(again=False)

    def begin(self, again: bool = True) -> Recorder:
        self.recorder = Recorder(self.config, DRIVE, self.folder, b"{}", again, self._clock)
        return self.recorder

    def look(self) -> None:
        self.recorder.poll()
        self.recorder.writer.flush()

    def do(self, what: str, how: list[Any]) -> None:
        """One of the actions that are no death."""
        if what == "look":
            self.look()
        elif what == "push":
            self.feed.push(*how)
        else:
            self.feed.reborn(*how)

    def die(self, share: float = 1.0) -> None:
        """Of what it gave to the disk, so much is in the file."""
        assert self.let_go()
        os.truncate(self.recorder.writer.path, round(share * self.recorder.writer.path.stat().st_size))

    def let_go(self) -> bool:
        """Of its rings and its file, as a process that ends; whether all is on the disk."""
        for tap in self.recorder._taps:
            tap.close()
        return self.recorder.writer.sink.close()

    def end(self) -> tuple[dict[str, Any], Run]:
        told = self.recorder.finish("stopped", {"steps": 3}, supervised=True)
        return told, open_run(self.folder)


@contextmanager
def desk(**options: Any) -> Iterator[Desk]:
    made = Path(tempfile.mkdtemp(prefix="tandem"))
    here = Desk(made, **options)
    try:
        yield here
    finally:
        here.let_go()
        here.feed.close()
        shutil.rmtree(made)


def wait_until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.001)


def numbers(run: Run, topic: str) -> list[int]:
    return run.topics[topic].blocks["number"].tolist() if topic in run.topics else []


# ---- deleted ---------------------------------------------------------------------------------------------------------


def _moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _exchanged(path: Path) -> None:
    content = path.read_bytes()
    path.rename(path.with_name("elsewhere"))  # or the next file might get its number
    path.write_bytes(content)


@pytest.mark.parametrize("part", ["the first part", "the part that is being written"])
@pytest.mark.parametrize(
    "harm, what",
    [
        (Path.unlink, "was deleted or moved"),
        (_moved, "was deleted or moved"),
        (_exchanged, "was replaced by another file"),
        (lambda path: os.truncate(path, 0), "was truncated during the run: 0 of"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "was truncated during the run:"),
    ],
    ids=["deleted", "moved", "exchanged", "emptied", "truncated"],
)
def test_a_part_that_is_not_there_as_it_was_written_is_no_record(
    part: str, harm: Callable[[Path], None], what: str
) -> None:
    with desk() as here:
        path = here.recorder.writer.path
        here.feed.push("/daq", 100)
        here.look()
        if part == "the first part":
            assert here.recorder.next_part()
        old = here.recorder.writer.sink
        wait_until(lambda: old.pending == 0 and all(sink.ended for sink in here.recorder._ending))
        assert here.recorder.presence.check() is None
        harm(path)
        here.feed.push("/daq", 100)
        here.look()  # what is written behind that makes the file as long as it was, or longer
        wait_until(lambda: here.recorder.presence.missing is not None)  # its own thread sees it
        assert "lost: " in here.recorder.figures()["state"]
        found = here.recorder.finish("stopped", {}, supervised=True)
        assert not found["whole"]
        assert found["state"].startswith(f"{path} {what}")


def test_a_part_that_goes_while_no_recorder_runs_or_at_the_very_end_is_missed() -> None:
    for again in (True, False):
        with desk() as here:
            here.feed.push("/daq", 100)
            here.look()
            first = here.recorder.writer.path
            here.recorder.next_part()
            here.recorder.presence.close()
            if again:
                here.die()
            first.unlink()
            if again:
                here.begin()
            found = here.recorder.finish("stopped", {}, supervised=True)
            assert not found["whole"] and found["state"] == f"{first} was deleted or moved during the run"


# ---- killed ----------------------------------------------------------------------------------------------------------


def supervised(config: Config) -> "subprocess.Popen[str]":
    """A recorder, waiting for its word."""
    told = [word for setting in (f"name={config.name}", *SETTINGS, "record.flush_ms=60") for word in ("--set", setting)]
    command = [sys.executable, "-m", "tandem.live.recorder", str(DRIVE), "--supervised", *told]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def told_to(recorder: "subprocess.Popen[str]", **what: Any) -> None:
    assert recorder.stdin is not None
    recorder.stdin.write(json.dumps(what) + "\n")
    recorder.stdin.flush()


def test_recorders_killed_at_any_instant_lose_nothing(tmp_path: Path) -> None:
    config = load(DRIVE, [f"name=parts_{os.getpid()}_{next(_number)}", *SETTINGS])
    chance, stop = random.Random(7), threading.Event()
    feed = RingWriters(config, 32768)
    crew = [supervised(config) for _ in range(4)]

    def written() -> int:
        return sum(path.stat().st_size for path in tmp_path.glob("run/*"))

    def feeding() -> None:
        """On and on, but no more than half a ring while no recorder writes: however slowly one starts, none is late."""
        size, ahead = 0, 0
        while not stop.wait(0.004):
            if (now := written()) != size:
                size, ahead = now, 0
            if ahead < 16384:
                feed.push("/daq", 16)
                feed.push("/step", 4)
                ahead += 16

    def fed(more: int) -> None:
        wanted = len(feed.pushed["/daq"]) + more
        wait_until(lambda: len(feed.pushed["/daq"]) >= wanted)

    feeder = threading.Thread(target=feeding)
    feeder.start()
    try:
        for n, recorder in enumerate(crew):
            assert recorder.stdout is not None and "ready" in recorder.stdout.readline()
            enough = written() + 30_000
            told_to(recorder, folder=str(tmp_path / "run"), parameters="{}", again=n > 0)
            if n < len(crew) - 1:
                if n != 1:  # in the middle of its work; the other one wherever it is
                    wait_until(lambda enough=enough: written() > enough)
                time.sleep(chance.uniform(0.0, 0.4))
                recorder.kill()
                recorder.wait()
                if n == 1:
                    fed(1000)  # with no recorder
        enough = written() + 10_000
        wait_until(lambda: written() > enough)
        stop.set()
        feeder.join()
        told_to(crew[-1], reason="all seconds done", summary={})
        said, _ = crew[-1].communicate(timeout=PATIENCE_S)
    finally:
        stop.set()
        feeder.join()
        feed.close()
        for recorder in crew:
            recorder.kill()
            recorder.communicate()
    report = json.loads(said.splitlines()[-1])
    run = open_run(tmp_path)
    assert feed.everything(run)
    assert len(run.topics["/daq"]) > 1000 and sum(part.size > 30_000 for part in run.parts) >= 2
    assert report["whole"] and report["state"] == "whole"
    assert report["topics"]["/daq"] == {"recorded": len(feed.pushed["/daq"]), "lost": 0, "dropped": 0, "before": 0}
    assert run.whole and run.lacking == 0 and run.ended == "all seconds done"


# ---- whatever happens ------------------------------------------------------------------------------------------------

topics = st.sampled_from(sorted(LAYOUTS))
actions = st.one_of(
    st.tuples(st.just("push"), topics, st.integers(1, 60)),
    st.tuples(st.just("look")),
    st.tuples(st.just("die"), st.one_of(st.just(1.0), st.floats(0.9, 1.0), st.floats(0.0, 1.0))),
    st.tuples(st.just("reborn"), topics),
)


@given(st.lists(actions, min_size=3, max_size=25))
@hypothesis_settings(PROPERTY, max_examples=few(30))
@example([("push", "/daq", 9), ("look",), ("die", 0.0), ("push", "/daq", 9), ("look",), ("die", 1.0)])
@example([("push", "/step", 9), ("look",), ("die", 1.0), ("reborn", "/step"), ("push", "/step", 9), ("look",)])
def test_wherever_their_files_end_recorders_after_each_other_hold_every_block_once(todo: list[tuple[Any, ...]]) -> None:
    with desk() as here:
        deaths = 0
        for what, *how in todo:
            if what != "die":
                here.do(what, how)
            else:
                here.feed.push("/daq", 3)  # seen by nobody yet
                here.recorder.poll()
                here.die(*how)
                here.feed.push("/daq", 2)
                here.begin()
                deaths += 1
        here.feed.push("/daq", 1)
        told, run = here.end()
        assert here.feed.everything(run)
        assert told["whole"] and told["parts"] == len(run.parts) == deaths + 1
        assert {name: told["topics"][name]["recorded"] for name in LAYOUTS} == {
            name: len(rows) for name, rows in here.feed.pushed.items()
        }
        assert run.whole and run.cut is None and run.lacking == 0
        assert run.json("summary.json") == {"steps": 3} and run.ended == "stopped"
        read = [part for part in run.parts[1:] if not (part.cut or "").startswith("not read")]
        again = [text for _, text in run.notices]
        assert len(again) == len(read) and all(text.endswith("no block was lost") for text in again)
        assert [at for at, _ in run.notices] == sorted(at for at, _ in run.notices)
        for topic in run.topics.values():
            assert (topic.begins == 0).all()  # an adopted ring is the same ring


@given(st.lists(st.one_of(actions, st.tuples(st.just("anew"), topics)), min_size=3, max_size=25))
@hypothesis_settings(PROPERTY, max_examples=few(30))
def test_a_ring_made_anew_is_followed_and_no_block_is_there_twice(todo: list[tuple[Any, ...]]) -> None:
    with desk() as here:
        at_death = dict.fromkeys(LAYOUTS, 0)  # what passed rings that were no more when a recorder died or came
        for what, *how in todo:
            if what == "anew":
                here.look()
                here.feed.push(how[0], 2)
                here.feed.anew(*how)
                here.look()
            elif what != "die":
                here.do(what, how)
            else:
                here.die(*how)
                at_death = dict(here.feed.closed)
                here.begin()
        told, run = here.end()
        complete = here.feed.everything(run)
        for name, rows in here.feed.pushed.items():
            found = numbers(run, name)
            assert found == sorted(set(found))
            assert set(range(at_death[name], len(rows))) <= set(found)  # what a ring still had is there
        assert complete or any(at_death.values())
        assert told["whole"] == run.whole or any(at_death.values())


# ---- what cannot be had any more -------------------------------------------------------------------------------------


def test_what_was_overwritten_meanwhile_has_a_number(tmp_path: Path) -> None:
    with desk(capacity=64) as here:
        here.feed.push("/daq", 40)
        here.look()
        here.die()
        here.feed.push("/daq", 100)
        here.begin()
        told, run = here.end()
    assert numbers(run, "/daq") == [*range(40), *range(76, 140)]
    assert not told["whole"] and told["topics"]["/daq"]["lost"] == 36
    assert not run.whole and run.lacking == run.topics["/daq"].missing == 36
    assert run.cut == "36 blocks are missing before run.2.mcap"
    assert [text for _, text in run.notices] == ["the record was taken up again in run.2.mcap: 36 blocks were lost"]


def test_a_ring_that_went_with_its_end_unread_is_no_whole_record() -> None:
    with desk() as here:
        here.feed.push("/daq", 40)
        here.look()
        here.die()
        here.feed.push("/daq", 5)  # whoever comes now cannot know of these
        here.feed.anew("/daq")
        here.feed.push("/daq", 60)  # further than the old one
        here.begin()
        here.look()
        here.die()
        here.begin()
        told, run = here.end()
    assert numbers(run, "/daq") == [*range(40), *range(45, 105)]
    assert not run.whole and run.cut is not None and "the ring of /daq had gone before run.2.mcap" in run.cut
    assert "/daq had gone" in run.notices[0][1] and run.notices[1][1].endswith("no block was lost")
    assert run.topics["/daq"].begins.tolist() == [0] * 40 + [40] * 60
    assert told["topics"]["/daq"]["recorded"] == 100 and not told["whole"]


def test_a_ring_that_was_read_to_its_end_is_no_loss() -> None:
    with desk() as here:
        here.feed.push("/daq", 40)
        here.look()
        here.feed.anew("/daq")
        here.look()
        here.die()
        here.feed.push("/daq", 3)
        here.begin()
        told, run = here.end()
        assert here.feed.everything(run)
    assert told["whole"] and run.whole and run.topics["/daq"].begins.tolist() == [0] * 40 + [40] * 3


@pytest.mark.parametrize("adopted", [True, False])
def test_what_a_dead_writer_left_before_there_was_a_recorder_is_not_of_this_run(adopted: bool) -> None:
    with desk() as here:
        here.feed.push("/daq", 40)
        here.feed.dies("/daq")
        here.look()
        if not adopted:
            here.feed.loses_its_name("/daq")
        here.feed.comes("/daq")
        here.feed.push("/daq", 5)
        here.look()
        here.die()
        here.begin()
        here.feed.push("/daq", 2)
        told, run = here.end()
    assert numbers(run, "/daq") == [*range(40, 47)]
    assert told["whole"] and run.whole
    assert told["topics"]["/daq"] == {"recorded": 7, "lost": 0, "dropped": 0, "before": 0}


@pytest.mark.parametrize("looks", [True, False])
def test_a_ring_whose_writer_was_killed_while_it_closed_it_goes_on_when_it_is_adopted(looks: bool) -> None:
    with desk() as here:
        here.feed.push("/daq", 40)
        here.look()
        here.feed.push("/daq", 2)
        here.feed.dies("/daq", closing=True)
        if looks:
            here.look()
        here.feed.comes("/daq")
        here.feed.push("/daq", 3)
        here.look()
        here.feed.push("/daq", 4)
        told, run = here.end()
        assert here.feed.everything(run)
    assert told["whole"] and run.whole and (run.topics["/daq"].begins == 0).all()


def test_a_ring_that_lost_its_name_is_read_to_its_writers_end_and_the_next_one_followed() -> None:
    with desk() as here:
        here.feed.push("/daq", 40)
        here.look()
        here.feed.loses_its_name("/daq")
        here.feed.push("/daq", 2)
        here.feed.dies("/daq")
        here.feed.comes("/daq")
        here.feed.push("/daq", 3)
        here.look()
        told, run = here.end()
        assert here.feed.everything(run)
    assert told["whole"] and run.whole and run.topics["/daq"].begins.tolist() == [0] * 42 + [42] * 3


# ---- files -----------------------------------------------------------------------------------------------------------


class Three:
    def __init__(self, folder: Path, pushed: dict[str, list[np.ndarray]]):
        self.folder, self.pushed = folder, pushed


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Three:
    """A whole run in three parts; the middle of it holds a ring made anew."""
    folder = tmp_path_factory.mktemp("three")
    with desk() as here:
        for part in range(3):
            for turn in range(6):
                here.feed.push("/daq", 7 + turn)
                here.feed.push("/step", 3)
                here.look()
                if (part, turn) == (1, 3):
                    here.feed.anew("/daq")
            here.recorder.writer.note(f"part {part}", now_ns())
            if part < 2:
                here.feed.push("/daq", 2)
                here.die()
                here.begin()
        _, run = here.end()
        assert run.whole and here.feed.everything(run)
        shutil.copytree(here.folder, folder, dirs_exist_ok=True)
    return Three(folder, here.feed.pushed)


def alone(data: bytes) -> dict[str, Topic]:
    """What one file holds by itself; nothing if it is none."""
    with tempfile.TemporaryDirectory(prefix="tandem") as made:
        (Path(made) / FILE).write_bytes(data)
        try:
            return open_run(Path(made)).topics
        except RunError:
            return {}


@given(st.integers(1, 3), st.one_of(st.floats(0.0, 1.0), st.floats(0.97, 1.0)))
@hypothesis_settings(PROPERTY, max_examples=few(50))
def test_of_a_part_cut_anywhere_afterwards_the_rest_is_read_and_the_loss_is_counted(
    three: Three, number: int, share: float
) -> None:
    folder, pushed = three.folder, three.pushed
    with tempfile.TemporaryDirectory(prefix="tandem") as made:
        shutil.copytree(folder, made, dirs_exist_ok=True)
        path = parts(Path(made))[number]
        os.truncate(path, round(share * path.stat().st_size))
        run = open_run(Path(made))
        held = [alone(file.read_bytes()) for file in parts(Path(made)).values()]
    lost = 0
    for name, rows in pushed.items():
        expected = [int(n) for part in held if name in part for n in part[name].blocks["number"]]
        assert numbers(run, name) == expected == sorted(set(expected))
        if number < 3 and expected:
            assert run.topics[name].missing == len(rows) - len(expected)
        lost += len(rows) - len(expected)
    if number < 3:
        assert run.lacking == lost and run.whole == (lost == 0)
        assert (run.cut is None) == (lost == 0)
    elif share < 0.999:
        assert run.whole == (run.end is not None and run.cut is None)


@given(st.lists(st.tuples(st.sampled_from(("first", "second", "anew")), st.integers(1, 9)), max_size=12))
@hypothesis_settings(PROPERTY, max_examples=few(15))
def test_a_recorder_that_was_taken_for_dead_and_goes_on_makes_no_block_twice(todo: list[tuple[str, int]]) -> None:
    with desk() as here:
        here.feed.push("/daq", 5)
        here.look()
        sink = here.recorder.writer.sink
        wait_until(lambda: sink.written == sink.accepted)
        first, second = here.recorder, here.begin()
        for who, count in todo:
            here.feed.push("/daq", count)
            if who == "anew":  # both see it to its end
                first.poll(), second.poll()
                here.feed.anew("/daq")
            (first if who == "first" else second).poll()
        first.poll()
        here.recorder = first
        here.die()
        here.recorder = second
        _, run = here.end()
        assert here.feed.everything(run)
    assert run.whole and run.topics["/daq"].missing == 0


def test_whichever_part_is_named_the_run_is_opened_and_each_is_a_file_of_its_own(three: Three) -> None:
    folder = three.folder
    files = parts(folder)
    assert [path.name for path in files.values()] == ["run.mcap", "run.2.mcap", "run.3.mcap"]
    told: list[float] = []
    run = open_run(files[2], progress=told.append)
    assert told == sorted(told) and told[-1] == 1.0
    assert run.path == find(files[3]) == find(folder) == files[1]
    assert run.size == sum(path.stat().st_size for path in files.values()) == info(run)["bytes"]
    assert [text for _, text in run.notices if text.startswith("part ")] == ["part 0", "part 1", "part 2"]
    assert list(open_run(folder, ("/step",)).topics) == ["/step"]
    for path in files.values():
        held = alone(path.read_bytes())
        assert len(held["/daq"]) and len(held["/step"])
    with open(files[3], "rb") as stream:  # and for everybody else
        names = {attachment.name for attachment in make_reader(stream).iter_attachments()}
    assert {"config.json", "config.toml", "machine.toml", "summary.json"} <= names


@pytest.mark.parametrize("change,said,whole", [
    ("no 2", "run.2.mcap is not there", False),
    ("no 1", "run.mcap is not there", False),
    ("2 of another run", "run.2.mcap is of another run", False),
    ("4 of another run", None, True),
    ("4 empty", None, True),
    ("4 of another program", None, True),
    ("5 of this run, empty", None, True),
    ("2 empty", "blocks are missing before run.3.mcap", False),
])  # fmt: skip
def test_parts_that_are_not_what_they_should_be(
    three: Three, tmp_path: Path, change: str, said: str | None, whole: bool
) -> None:
    shutil.copytree(three.folder, tmp_path / "run")
    number = int(re.findall(r"\d", change)[0])
    path = tmp_path / "run" / (FILE if number == 1 else f"run.{number}.mcap")
    if change.startswith("no"):
        path.unlink()
    elif "another run" in change:
        with desk() as here:
            here.feed.push("/daq", 30)
            here.end()
            shutil.copy(here.folder / FILE, path)
    else:
        path.write_bytes(b"something else" if "program" in change else b"")
    run = open_run(tmp_path)
    assert run.whole == whole, run.cut
    assert (run.cut is None) if said is None else said in (run.cut or "")
    if number > 3:
        assert run.parts[-1].cut is not None and run.parts[-1].cut.startswith("not read: ")
    left = [int(n) for n in numbers(run, "/step")]
    assert left == sorted(set(left)) and len(left) >= 36


def test_parts_that_are_not_there_are_said_as_a_range(three: Three, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(three.folder, tmp_path / "run"))
    (folder / "run.3.mcap").rename(folder / "run.999999.mcap")
    cut = open_run(folder).cut or ""
    assert "run.3.mcap to run.999998.mcap are not there" in cut and len(cut) < 1000


def test_all_parts_unreadable_is_a_run_error(tmp_path: Path) -> None:
    for name in (FILE, "run.2.mcap"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(RunError, match=r"run\.mcap: not an MCAP file, or cut short at its very start"):
        open_run(tmp_path)


def test_a_record_is_continued_only_if_that_is_asked_for() -> None:
    with desk() as here:
        here.die()
        with pytest.raises(CannotRecord, match="holds a record already"):
            Recorder(here.config, DRIVE, here.folder, b"{}")
        (here.folder / FILE).rename(here.folder / "run.2.mcap")
        with pytest.raises(CannotRecord, match="holds a record already"):
            Recorder(here.config, DRIVE, here.folder, b"{}")
        assert left_off(here.folder).part == 3


def test_asked_to_go_on_where_nothing_is_a_recorder_begins(tmp_path: Path) -> None:
    with desk() as here:
        here.feed.push("/daq", 20)
        here.die()
        (here.folder / FILE).unlink()
        here.begin()
        told, run = here.end()
        assert here.feed.everything(run)
    assert told["whole"] and run.whole and told["parts"] == 1 and run.path.name == FILE
