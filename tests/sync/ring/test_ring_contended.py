"""A ring under a writer at full speed: nothing torn, nothing backwards, no loss without its number.

The readers are those of verify/path/ring.py, every one a process. The last test shows that they would notice.
"""

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from sync.clock import now_ns
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, RingWriter
from tests.examples import cases
from tests.sync.actors import ROOT, Actor, environment
from tests.sync.pattern import count_torn, write_at_full_speed, write_in_steps

CONTENDED = (
    "import json, sys; from verify.path.ring import contended as c; print(json.dumps(c(*map(int, sys.argv[1:]))))"
)


def bench(seconds: int, *options: str) -> dict[str, Any] | None:
    """What it found; None if its processes took so long to start that they did not meet."""
    command = [sys.executable, "-c", CONTENDED, str(seconds), *options]
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=180
    )  # fmt: skip
    if not done.stdout:
        assert "RingMissing" in done.stderr or "Empty" in done.stderr, done.stderr
        return None
    return json.loads(done.stdout)


WIDE = pytest.param(("4", "40"), id="tiny and wide")
AS_IN_A_RUN = pytest.param((), id="as in a run")


@pytest.mark.alone  # beside others the three hardly meet, and it takes ten times as long
@pytest.mark.parametrize("options", cases(WIDE, AS_IN_A_RUN))
def test_no_read_is_torn_or_backwards_and_every_gap_is_reported(options: tuple[str, ...]) -> None:
    for seconds in (2, 4, 8, 20):  # the longer ones on a machine that is busy with other things
        found = bench(seconds, *options)
        if found is None:
            continue
        newest, since = found["newest"], found["since"]
        assert (newest["torn"], newest["backwards"]) == (0, 0)
        assert (since["torn"], since["silent_gaps"], since["closes"]) == (0, 0, True)
        if found["writer"]["pushed"] > 100_000 and newest["contended"] > 1000 and since["read"] > 1000:
            return  # all three were really at it
    pytest.skip("this machine is too busy to run writer and readers at once")


def test_what_nobody_overwrote_is_never_reported_lost(ring_name: str, actor: Actor) -> None:
    """A follower at the writer's heels, in a ring too large to be lapped in: it may meet a block half written."""
    layout = Layout((Channel("value", "i8"),))
    blocks = 1 << 20
    ring = RingWriter(ring_name, layout, blocks)
    actor.do("from tests.sync.pattern import follow")
    actor.do("reader = RingReader(name); found = []", name=ring_name)
    actor.do("work = lambda: found.extend(follow(reader.words, blocks, now_ns() + 60 * 10**9))", blocks=blocks)
    actor.do("thread = threading.Thread(target=work); thread.start()")
    write_in_steps(ring.words, blocks, 300)
    actor.do("thread.join()")
    ring.close()
    assert actor.do("found") == [blocks, 0, 0]


def test_a_reader_that_does_not_look_at_the_stamps_is_found_out(ring_name: str) -> None:
    wide = Layout(tuple(Channel(f"c{i}", "i8") for i in range(500)))
    ring = RingWriter(ring_name, wide, 2)
    reader = RingReader(ring_name)
    until = now_ns() + 4_000_000_000
    writer = threading.Thread(target=write_at_full_speed, args=(ring.words, until))
    writer.start()
    careful = count_torn(reader.words, now_ns() + 1_000_000_000, True)
    careless = count_torn(reader.words, until - 1_000_000_000, False)
    ring.close()
    writer.join()
    reader.close()
    assert careful[1] == 0
    if careless[1] == 0:
        pytest.skip(
            f"no torn block in {careless[0]} careless reads: this machine does not run writer and reader at once"
        )
