"""A week of recording: the recorder's memory and the disk stay bounded, and `tandem info` reads a day in little memory.

The recorder, its writer, the parts, the limits and the disk are the real ones. Only time is not: a virtual clock goes
on by two seconds a look, and some blocks (2 of the DAQ, 1 step) are pushed into the rings meanwhile. So there are as
many parts as in a real week (record.part_minutes = 10), and a chunk every two seconds: an index that is kept for every
chunk, as the recorder once did, is 36 MB a day.

Bounded are memory of this process after the first day, bytes on the disk, and the peak memory of `tandem info` on the
last day that was kept, beside an hour of it.
"""

import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sync.config.config import load
from sync.record import parts
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingWriter, push
from sync.ring.streams import DAQ, SIM
from sync.virtual_clock import NOW, virtual_clock
from tandem.live.recorder.recorder import Recorder
from verify import ROOT
from verify.measure import Row, at_most, equal, holds

CONFIG = ROOT / "configs" / "drive.toml"
LAYOUT = Layout((Channel("number", "i8"), Channel("noise", "i8"), Channel("steering", "f8", "rad")))
POLL_NS = 2_000_000_000
DAY_NS = 86_400 * 10**9
MOST_GROWTH_MB = 8.0
MOST_MORE_MB = 64.0
WAITING = 0.05  # share of the disk that waits to be deleted
PEAK = """
import json, sys
from pathlib import Path
from tandem.records.inspect.info import info_of
def mb(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1e3
Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
before = mb("VmRSS")
found = info_of(Path(sys.argv[1]))
topic = found["topics"]["/daq"]
print(json.dumps([before, mb("VmHWM"), found["whole"], topic["messages"], topic["missing"], len(found["parts"])]))
"""


def memory_mb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def size_of(folder: Path) -> int:
    size = 0
    for path in parts(folder).values():
        with contextlib.suppress(FileNotFoundError):  # it is deleted meanwhile
            size += path.stat().st_size
    return size


class RingWriters:
    """Two rings, and blocks with a number each."""

    def __init__(self, names: dict[str, str]):
        self._rings = {topic: RingWriter(name, LAYOUT, 1 << 10) for topic, name in names.items()}
        self._noise = np.random.default_rng(1)
        self._words = np.zeros((1, LAYOUT.words), np.int64)
        self._block = LAYOUT.view(self._words)
        self.counts = dict.fromkeys(names, 0)

    def push(self, now: int) -> None:
        block = self._block
        for topic, count in (("/daq", 2), ("/step", 1)):
            ring = self._rings[topic]
            for n in range(count):
                block["number"], block["noise"] = self.counts[topic], self._noise.integers(1 << 62)
                block["steering"], block["seq"], block["epoch"] = 0.1, ring.head, ring.epoch
                block["t_ns"] = block["pushed_ns"] = now - POLL_NS + (n + 1) * POLL_NS // count
                push(ring.words, self._words[0])
                self.counts[topic] += 1

    def close(self) -> None:
        for ring in self._rings.values():
            ring.close()


def info_mb(folder: Path) -> tuple[float, list[Any]]:
    """How much more memory `tandem info` takes than its imports."""
    command = [sys.executable, "-c", PEAK, str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    before, after, *found = json.loads(done.stdout.splitlines()[-1])
    return after - before, found


def week(*, days: float = 7.0, keep_gb: float = 0.04) -> Iterator[Row]:
    settings = [
        f"name=week_{os.getpid()}", "transport.kind=shm", "sim.machine=vehicles/buggy_single_track.toml",
        "realtime.enabled=false", "record.flush_ms=500", f"record.keep_gb={keep_gb}",
    ]  # fmt: skip
    config = load(CONFIG, settings)
    with tempfile.TemporaryDirectory(prefix="tandem") as scratch:
        folder = Path(scratch) / "20260101T000000Z-week"
        clock = virtual_clock()
        feed = RingWriters({stream.topic: config.ring(stream.name) for stream in (DAQ, SIM)})
        recorder = Recorder(config, CONFIG, folder, b"{}", clock=clock)
        first_mb, most_bytes = 0.0, 0
        polls_a_day = DAY_NS // POLL_NS
        try:
            for poll in range(1, round(days * polls_a_day) + 1):
                clock.words[NOW] += POLL_NS
                feed.push(int(clock.words[NOW]))
                recorder.poll()
                recorder.notices.clear()
                while not recorder.writer.sink.has_space:
                    time.sleep(0.001)
                if poll % (polls_a_day // 24) == 0:
                    size = size_of(folder)
                    most_bytes = max(most_bytes, size)
                if poll % polls_a_day == 0:
                    mb, day = memory_mb(), poll // polls_a_day
                    first_mb = first_mb or mb
                    what = f"day {day}, {len(parts(folder))} parts, {size / 1e6:.1f} MB on the disk"
                    yield at_most(f"{what}: memory more than on day 1", mb - first_mb, MOST_GROWTH_MB, "MB")
        finally:
            summary = recorder.finish("the week is over", {}, supervised=True)
            feed.close()
        recorded = summary["topics"]["/daq"]["recorded"]
        yield holds(f"the record is whole: {summary['state']}", summary["whole"])
        yield equal("blocks recorded", recorded, feed.counts["/daq"])
        # what is stated to be deleted goes once that is synced, and the disk's seconds are not accelerated
        yield at_most("most on the disk", most_bytes / 1e6, keep_gb * 1e3 * (1 + WAITING), "MB")
        numbers = sorted(parts(folder))
        day_mb, whole = info_mb(folder)
        for number in numbers[:-7]:
            (folder / f"run.{number}.mcap").unlink(missing_ok=True)
        hour_mb, hour = info_mb(folder)
        yield holds(f"tandem info finds {whole[3]} whole parts", whole[0] is True)
        yield equal(f"missing of {whole[1]} blocks", whole[2], 0)
        yield at_most(
            f"tandem info: more memory for {whole[3]} parts than for {hour[3]}", day_mb - hour_mb, MOST_MORE_MB, "MB"
        )
        shutil.rmtree(folder, ignore_errors=True)
