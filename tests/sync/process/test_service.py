"""What both services share: a service tells whoever started it what it does, ends when told, and never outlives him."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sync.config.config import load
from sync.process.service import Reporter, Worker, held, join, watch_workers
from sync.process.service import start as start_workers
from sync.process.waiting import Waiting
from sync.ring.block import Layout
from sync.ring.ring import RingWriter, push
from tests.sync.actors import PATIENCE_S, ROOT, environment

DRIVE = ROOT / "configs" / "drive.toml"

# a service that does nothing but what its one argument says, and reports
SERVICE = """
import sys, time
from sync.errors import RingBusy
from sync.process.service import Prepared, serve
def run(config, file, stop, reporter):
    reporter.say("begun")
    reporter.say("said once", once=True)
    reporter.say("said once", once=True)
    {body}
    return {{"name": config.name, "stopped": stop.is_set()}}
settings = ["realtime.enabled=false", *sys.argv[2:]]
sys.exit(serve("daq", lambda *_: Prepared(run), sys.argv[1], settings, {supervised}, words={words}))
"""
LOOP = "while not stop.wait(0.01): reporter.status({'turn': 1})"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    begun = []

    def begin(
        body: str, *overrides: str, supervised: bool = True, word: str = "begin\n", words: str = "None"
    ) -> subprocess.Popen[str]:
        script = SERVICE.format(body=body, supervised=supervised, words=words)
        command = [sys.executable, "-c", script, str(DRIVE), *overrides]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        begun.append(process)
        process.stdin.write(word)
        process.stdin.close()
        process.stdin = None  # for communicate
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_supervised_service_says_everything_as_lines_of_json(start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start("reporter.status({'blocks': 3})", "name=other")
    said, complaint = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaint) == (0, "")
    assert lines(said) == [
        {"kind": "ready"},
        {"kind": "say", "text": "begun"},
        {"kind": "say", "text": "said once"},
        {"kind": "status", "blocks": 3},
        {"kind": "report", "name": "other", "stopped": False},
    ]


def test_a_supervised_service_begins_when_it_is_told_to_and_not_before(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    said, complaint = start(LOOP, word="").communicate(timeout=PATIENCE_S)
    assert lines(said) == [{"kind": "ready"}]  # called off: nobody is there who could say it
    assert complaint == ""


def test_a_service_run_by_hand_talks_on_one_channel_and_reports_on_the_other(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    process = start("reporter.status({'blocks': 3})", supervised=False)
    report, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert json.loads(report) == {"name": "tandem", "stopped": False}
    assert said.splitlines() == ["daq: begun", "daq: said once", "daq: blocks 3"]


def test_a_service_run_by_hand_ends_in_words_unless_json_is_asked_for(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    process = start("pass", supervised=False, words="lambda report: 'ended as ' + report['name']")
    printed, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, printed) == (0, "")
    assert said.splitlines()[-1] == "daq: ended as tandem"


def test_a_status_line_by_hand_has_room_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Reporter("sim", False, threading.Event()).status({f"counter_{n}": 10**n for n in range(30)})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sim: counter_0 1  counter_1 10") and 60 < len(line) <= 80


def test_what_is_waited_for_is_said_with_its_place_and_again_at_growing_intervals() -> None:
    waiting, said = Waiting("a DAQ", "ring tandem.x.daq"), []
    for second in range(100):
        if text := waiting.poll(False, second * 10**9):
            said.append((second, text))
    assert said[0] == (0, "waiting for a DAQ (ring tandem.x.daq)")
    assert said[1] == (5, "still waiting for a DAQ (ring tandem.x.daq), for 5 s now")
    assert [second for second, _ in said] == [0, 5, 10, 20, 40, 80]
    assert waiting.poll(True, 100 * 10**9) is None
    assert waiting.poll(False, 200 * 10**9) == "waiting for a DAQ (ring tandem.x.daq)"  # since now


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_service_that_is_told_to_end_ends_with_its_report(
    start: Callable[..., subprocess.Popen[str]], number: int
) -> None:
    process = start(LOOP)
    assert json.loads(process.stdout.readline()) == {"kind": "ready"}
    assert json.loads(process.stdout.readline())["text"] == "begun"
    process.send_signal(number)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert lines(said)[-1] == {"kind": "report", "name": "tandem", "stopped": True}


def test_a_service_nobody_listens_to_any_more_ends_quietly(start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start(LOOP)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == ""


def test_a_service_works_on_while_its_status_is_not_read(start: Callable[..., subprocess.Popen[str]]) -> None:
    """A full pipe would stop whoever writes: a recorder beside a supervisor that hangs loses blocks."""
    busy = "for turn in range(5000): reporter.status({'turn': turn, 'text': 'x' * 100})"
    service = start(busy + "\n    sys.stderr.write('through\\n'); sys.stderr.flush(); reporter.say('done')")
    assert service.stderr is not None and service.stdout is not None
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(service.stderr.readline()), daemon=True)
    reader.start()
    reader.join(PATIENCE_S)
    assert found == ["through\n"]
    out, _ = service.communicate(timeout=PATIENCE_S)
    lines = [json.loads(line) for line in out.splitlines()]
    turns = [line["turn"] for line in lines if line["kind"] == "status"]
    assert turns == list(range(len(turns))) and 100 < len(turns) < 5000  # as long as there was room
    left_out = f"{5000 - len(turns)} status lines were left out: those before them had not been read"
    assert [line.get("text") for line in lines[-3:]] == ["done", left_out, None] and lines[-1]["kind"] == "report"


def test_a_service_whose_unread_status_is_closed_ends(start: Callable[..., subprocess.Popen[str]]) -> None:
    service = start("while not stop.wait(0.0): reporter.status({'text': 'x' * 1000})")
    assert service.stdout is not None
    service.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        service.wait(0.5)  # the pipe has more than it is given meanwhile
    service.stdout.close()
    assert service.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    "body,overrides,code,expected",
    [
        ("", ["daq.rate_hz=0"], 2, "daq.rate_hz = 0: must be greater than or equal to 0.1"),
        ("raise RingBusy('ring x: owned by pid 7')", [], 1, "ring x: owned by pid 7"),
        ("raise RuntimeError('broken')", [], 70, "failed: RuntimeError: broken"),
    ],
    ids=["a wrong configuration", "an error by name", "any other error"],
)
def test_an_error_is_said_in_one_line_and_has_its_own_exit_code(
    start: Callable[..., subprocess.Popen[str]], body: str, overrides: list[str], code: int, expected: str
) -> None:
    process = start(body or "pass", *overrides)
    said, complaint = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert expected in lines(said)[-1]["text"]
    assert ("Traceback" in complaint) == (code == 70)  # only what nobody foresaw needs one


# ---- threads ---------------------------------------------------------------------------------------------------------


def worker(work: Callable[[], Any], name: str = "work") -> Worker:
    return Worker(name, work, load(DRIVE, ["realtime.enabled=false"]), 50)


def test_the_failure_of_a_thread_is_the_failure_of_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise KeyError("gone")

    stop = threading.Event()
    workers = [worker(stop.wait, "sound"), worker(fail, "broken")]
    for each in workers:
        each.start()
        assert each.ready.wait(PATIENCE_S)
    watch_workers(workers, stop, lambda turn: None)  # ends, for one of them has
    assert stop.is_set()
    with pytest.raises(KeyError, match="gone"):
        join(workers, Reporter("daq", False, stop))
    assert not any(each.is_alive() for each in workers)
    assert capsys.readouterr().err == ""


def test_a_service_is_watched_until_it_is_told_to_stop() -> None:
    stop, turns = threading.Event(), []

    def poll(turn: int) -> None:
        turns.append(turn)
        if turn == 3:
            stop.set()

    sound = worker(lambda: (stop.wait(), 7)[1])
    sound.start()
    watch_workers([sound], stop, poll)
    join([sound], Reporter("daq", False, stop))
    assert turns == [0, 1, 2, 3, 4]  # and once more: whatever made it stop may be worth saying
    assert sound.result == 7


def test_an_error_in_a_poll_is_raised_when_no_thread_works_any_more() -> None:
    """Its sockets are closed while it is unwound: under a thread that still uses them ZeroMQ aborts the process."""

    def poll(turn: int) -> None:
        raise KeyError("a channel that is not there")

    stop = threading.Event()
    sound = worker(stop.wait)
    sound.start()
    watch_workers([sound], stop, poll)
    with pytest.raises(KeyError, match="a channel that is not there"):
        join([sound], Reporter("daq", False, stop))
    assert not sound.is_alive()


def test_an_error_in_a_poll_where_there_is_no_thread_is_raised_too() -> None:
    def poll(turn: int) -> None:
        raise KeyError("a channel that is not there")

    stop = threading.Event()
    with pytest.raises(KeyError, match="a channel that is not there"):
        watch_workers([], stop, poll)
    assert stop.is_set()


STUCK = """import contextlib, threading
    from sync.process.service import Worker, join, start
    from sync.transport.wire import context
    with contextlib.ExitStack() as stack:
        zmq = context()
        socket = zmq.socket(7)
        stack.callback(lambda: (socket.close(), reporter.say("closed under it")))
        workers = [Worker(name, work, config, 50) for name, work in (("stuck", socket.recv), ("sound", stop.wait))]
        start(workers, reporter, stack, stop.set)
        {then}
        join(workers, reporter)"""


@pytest.mark.parametrize("then, code", [("stop.set()", 0), ("1 / 0", 70)])
def test_a_service_whose_thread_does_not_end_leaves_it_its_sockets_and_reports(
    start: Callable[..., subprocess.Popen[str]], then: str, code: int
) -> None:
    """Also where an error ends it: ZeroMQ aborts a process that closes a socket under a thread."""
    process = start(STUCK.format(then=then))
    found, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    left, last = lines(found)[-2:]
    assert left == {"kind": "say", "text": "thread stuck does not end; leaving without it"}
    assert last["kind"] == ("say" if code else "report") and "closed under it" not in found


def test_threads_have_ended_before_anything_is_closed_whatever_ends_a_service() -> None:
    stop, seen = threading.Event(), []
    sound = worker(stop.wait)
    stack = contextlib.ExitStack()
    stack.callback(lambda: seen.append(sound.is_alive()))
    start_workers([sound], Reporter("daq", False, stop), stack, stop.set)
    stack.close()
    assert seen == [False] and stop.is_set()


def test_two_threads_never_mix_their_lines(capfd: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter("daq", True, threading.Event())
    threads = [
        threading.Thread(target=lambda: [reporter.status({"text": "x" * 5000}) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines(capfd.readouterr().out) == [{"kind": "status", "text": "x" * 5000}] * 200


@pytest.mark.parametrize("supervised", [True, False])
def test_who_fails_leaves_its_ring_to_a_successor_if_there_may_be_one(
    ring_name: str, car: Layout, supervised: bool
) -> None:
    reporter = Reporter("daq", supervised, threading.Event())
    with contextlib.suppress(RuntimeError), contextlib.ExitStack() as stack:
        first = RingWriter(ring_name, car, 16)
        stack.push(held(first, reporter))
        push(first.words, np.zeros(car.words, np.int64))
        raise RuntimeError
    epoch = first.epoch
    del first  # with its mapping goes the kernel's lock
    following = RingWriter(ring_name, car, 16)
    if supervised:
        assert following.adopted and following.head == 1 and following.epoch == epoch + 1
    else:
        assert not following.adopted and following.head == 0
    following.close()
