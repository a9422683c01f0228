"""The power is cut: what was synced is read. A small version of verify/robustness/power_cuts.py, which writes down from
outside the process what it does to its disk; here the calls are watched from within."""

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sync.clock import now_ns
from sync.files.private import make_folder, rename
from tests.tandem.live.test_record_parts import Hours, record_hours
from verify.robustness.dropped_writes import CLOSE, FSYNC, MKDIR, OPEN, TRUNCATE, UNLINK, WRITE, WRITE_AT, Disk, Op
from verify.robustness.power_cuts import judged, promised


class Watched:
    """What this process does below a folder, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path):
        self.ops: list[Op] = []
        self._root, self._lock, self._fds = str(root), threading.Lock(), set[int]()
        for name, kind in (("open", OPEN), ("write", WRITE), ("fsync", FSYNC), ("close", CLOSE), ("mkdir", MKDIR),
                           ("unlink", UNLINK), ("rename", 5), ("pwrite", WRITE_AT),
                           ("ftruncate", TRUNCATE)):  # fmt: skip
            monkeypatch.setattr(os, name, self._watching(kind, getattr(os, name)))

    def _watching(self, kind: int, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(what: Any, *more: Any, **options: Any) -> Any:
            with self._lock:
                done = call(what, *more, **options)
                self._note(kind, what, done, more)
                return done

        return watched

    def _note(self, kind: int, what: Any, done: Any, more: tuple[Any, ...]) -> None:
        if isinstance(what, int):
            if what in self._fds:
                data = bytes(more[0][:done]) if kind in (WRITE, WRITE_AT) else b""
                place = str(more[-1]) if kind in (WRITE_AT, TRUNCATE) else ""
                self.ops.append(Op(kind, now_ns(), what, place, data))
                if kind == CLOSE:
                    self._fds.discard(what)
            return
        path = os.fspath(what)
        if isinstance(path, str) and path.startswith(self._root):
            if kind == OPEN:
                self._fds.add(done)
            target = os.fspath(more[0]).encode() if kind == 5 else b""
            self.ops.append(Op(kind, now_ns(), done if kind == OPEN else -1, path, target))


def state_after(root: Path, ops: list[Op]) -> Disk:
    disk = Disk(root)
    for op in ops:
        disk.do(op)
    return disk


def test_whenever_the_power_is_cut_what_was_synced_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    with monkeypatch.context() as patched:
        watched = Watched(patched, root)
        settings = ("record.fsync_s=0.01", "record.keep_gb=0.0001")
        hours = Hours(root / "runs" / "a", settings=settings)
        record_hours(hours, 6)
        hours.recorder.finish("stopped", {}, supervised=True)
        hours.feed.close()
    ops = watched.ops
    pushed = {topic: len(rows) for topic, rows in hours.feed.pushed.items()}
    assert UNLINK in {op.kind for op in ops}
    chance = random.Random(1)
    for seed, cut in enumerate([*chance.sample(range(1, len(ops)), 20), len(ops)]):
        disk = state_after(root, ops[:cut])
        ended = WRITE_AT not in {op.kind for op in ops[cut:]}
        assert judged(disk, "runs/a", pushed, ended, seed)[0] is None, f"cut after operation {cut}"
    sure, _ = promised(state_after(root, ops))
    assert max(sure["/daq"]) == pushed["/daq"] - 1  # at its end everything is promised


def test_without_syncs_nothing_is_promised_and_a_record_without_its_name_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The double itself: a name that was not synced may be gone, whatever was synced of the file."""
    root = tmp_path / "disk"
    root.mkdir()
    with monkeypatch.context() as patched:
        watched = Watched(patched, root)
        fd = os.open(root / "file", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"content")
        os.fsync(fd)
        os.close(fd)
    assert state_after(root, watched.ops).sure_files() == {}


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_file_that_is_renamed_into_its_place_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    with monkeypatch.context() as patched:
        watched = Watched(patched, root)
        make_folder(root / "out")
        fd = os.open(root / "out" / "part", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"content" * 1000)
        os.close(fd)
        rename(root / "out" / "part", root / "out" / "target")
    for seed in range(20):
        left = tmp_path / f"left{seed}"
        left.mkdir()
        state_after(root, watched.ops[:cut]).left(left, random.Random(seed))
        target = left / "out" / "target"
        assert not target.exists() or target.read_bytes() == b"content" * 1000
    if cut >= len(watched.ops):
        assert state_after(root, watched.ops).sure_files()["out/target"] == b"content" * 1000
