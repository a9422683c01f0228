"""The sink: a file that never makes its writer wait, and forgets nothing while a disk refuses."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sync.clock import now_ns, sleep_until
from sync.record import Sink
from tests.examples import few
from tests.sync.actors import PATIENCE_S
from tests.sync.strategies import PROPERTY

MS = 1_000_000


def wait_until(what: Callable[[], bool]) -> None:
    end = now_ns() + PATIENCE_S * 10**9
    while not what():
        assert now_ns() < end
        sleep_until(now_ns() + MS)


# ---- a disk that takes everything ------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=2000), max_size=200), st.sampled_from((0.0, 1e6)))
@settings(PROPERTY, max_examples=few(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_file_is_what_was_written_in_order(tmp_path: Path, parts: list[bytes], fsync_s: float) -> None:
    path = tmp_path / "file"
    path.unlink(missing_ok=True)
    sink = Sink(path, 1 << 20, fsync_s)
    at = 0
    for part in parts:
        assert sink.tell() == at
        assert sink.write(part) == len(part)
        at += len(part)
    assert sink.close()
    assert path.read_bytes() == b"".join(parts)
    assert sink.written == sink.accepted == at and sink.error is None


def test_many_small_writes_beside_the_writing_thread_keep_their_order(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "file", 1 << 30, 0.001)
    parts = [n.to_bytes(4, "little") for n in range(30_000)]
    for part in parts:
        sink.write(part)
    assert sink.close()
    assert (tmp_path / "file").read_bytes() == b"".join(parts)


def test_what_was_given_is_kept_whatever_its_giver_does_with_it(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "file", 1 << 20, 1.0)
    buffer = bytearray(b"before")
    for _ in range(100):
        sink.write(buffer)  # type: ignore[arg-type]
    buffer[:] = b"after!"
    assert sink.close() and (tmp_path / "file").read_bytes() == 100 * b"before"


def test_it_is_in_the_file_without_a_flush_or_a_close(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "file", 1 << 20, 1e6)
    sink.write(b"now")
    sink.flush()
    wait_until(lambda: (tmp_path / "file").read_bytes() == b"now")
    assert sink.close()


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"somebody's")
    with pytest.raises(FileExistsError):
        Sink(path, 1 << 20, 1.0)
    assert path.read_bytes() == b"somebody's"
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        Sink(tmp_path / "link", 1 << 20, 1.0)


def test_a_folder_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Sink(tmp_path / "nowhere" / "file", 1 << 20, 1.0)


# ---- a disk that refuses ---------------------------------------------------------------------------------------------

# in a process of its own: the limit on the size of a file is one of the whole process. A write beyond it is cut short
# at first, then refused
CHILD = """
    import resource
    from pathlib import Path
    from sync.record import Sink
    from tests.sync.record.test_sink import wait_until

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    path = Path({path!r})
    parts = [bytes([n % 251]) * (1 + 37 * n % 4099) for n in range(200)]
    whole = b"".join(parts)
    limit(100_000)
    sink = Sink(path, 150_000, 0.01)
    for part in parts:
        sink.write(part)  # returns, whatever the disk does
    wait_until(lambda: sink.error is not None)
"""


def in_child(path: Path, then: str) -> str:
    code = textwrap.dedent(CHILD.format(path=str(path))) + textwrap.dedent(then)
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_disk_that_refuses_and_later_accepts_again_loses_nothing(tmp_path: Path) -> None:
    said = in_child(
        tmp_path / "file",
        """
        print(sink.error, sink.written, path.stat().st_size, sink.has_space, sink.accepted == len(whole))
        for size in (100_001, 230_000):  # a little room, then more, then all
            limit(size)
            wait_until(lambda: sink.written == size)
            sink.write(b"")
        more = b""
        for n in range(20_000):  # beside a thread that tries again and again
            sink.write(n.to_bytes(3, "little"))
            more += n.to_bytes(3, "little")
        limit(resource.RLIM_INFINITY)
        wait_until(lambda: sink.error is None and sink.written == sink.accepted)
        print(sink.has_space, sink.close(), path.read_bytes() == whole + more)
        """,
    )
    assert said.splitlines() == ["File too large 100000 100000 False True", "True True True"]


def test_close_says_so_when_not_everything_reached_the_file(tmp_path: Path) -> None:
    said = in_child(
        tmp_path / "file",
        """
        print(sink.close(), sink.error)
        print(path.read_bytes() == whole[:100_000], sink.accepted - sink.written == len(whole) - 100_000)
        """,
    )
    assert said.splitlines() == ["False File too large", "True True"]


def test_a_disk_that_has_room_again_at_the_very_end_gets_everything(tmp_path: Path) -> None:
    said = in_child(
        tmp_path / "file",
        """
        limit(resource.RLIM_INFINITY)
        print(sink.close(), path.read_bytes() == whole)
        """,
    )
    assert said.splitlines() == ["True True"]


def test_space_ends_when_enough_waits_and_comes_back(tmp_path: Path) -> None:
    """Who checks for space before each piece keeps at most one piece more than the bound waiting."""
    said = in_child(
        tmp_path / "file",
        """
        waiting = sink.accepted - sink.written
        print(sink.has_space == (waiting < 150_000))
        limit(resource.RLIM_INFINITY)
        wait_until(lambda: sink.has_space and sink.written == sink.accepted)
        limit(path.stat().st_size)
        pieces = 0
        while sink.has_space:
            sink.write(bytes(1000))
            pieces += 1
        print(pieces, sink.accepted - sink.written)
        limit(resource.RLIM_INFINITY)
        wait_until(lambda: sink.has_space)
        print(sink.close())
        """,
    )
    assert said.splitlines() == ["True", "150 150000", "True"]


def test_a_run_recorded_over_a_refusal_is_whole(tmp_path: Path) -> None:
    """The writer of records on such a disk: nothing in the file tells that there was trouble."""
    said = in_child(
        tmp_path / "other",
        """
        import numpy as np
        from sync.ring.block import Channel, Layout
        from sync.record import RunWriter, open_run

        layout = Layout((Channel("a", "i8"), Channel("b", "f8")))
        limit(3_000)
        writer = RunWriter(path.parent, fsync_s=0.01)
        writer.begin({}, {"config.json": b"{}"}, 0)
        writer.topic("/daq", layout)
        noise = np.random.default_rng(1).integers(0, 2**60, (400, layout.words))
        for first in range(0, 400, 40):
            writer.add("/daq", noise[first : first + 40], first)
            writer.flush()
        wait_until(lambda: writer.sink.error is not None)
        run = open_run(path.parent)
        print(run.cut is not None, len(run.topics["/daq"]) < 400 if run.topics else True)
        limit(resource.RLIM_INFINITY)
        print(writer.finish({"reason": "stopped"}, {}, 1))
        run = open_run(path.parent)
        print(run.cut, run.end["reason"], np.array_equal(run.topics["/daq"].words, noise), run.topics["/daq"].missing)
        """,
    )
    assert said.splitlines() == ["True True", "True", "None stopped True 0"]
