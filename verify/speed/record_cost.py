"""What a block costs the recorder: CDR with an index behind every write, and the same without one, in one run.

Both write the same blocks through the same sink. A flush has what a drive brings in 200 ms: 200 blocks of /daq, 200 of
/received, 40 of /step. They take turns flush by flush, and the next flush begins when the last is in the file, as in a
run: then none of the indexes is left out. Figures are processor time in microseconds a block, compression and writing
included: of the recorder's thread, of the thread that writes to the disk, and of both; each the mean of those flushes
that are among the cheaper half of their kind, which leaves out what other processes did. `--minutes` begins with a part
that is so old already: its index is as long as that makes it.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np

from sim_service.contract.step_channels import STEP_CHANNELS
from sync.record import RunWriter, Sink
from sync.ring.block import Channel, Layout
from verify.measure import Row, figure

DAQ = Layout((Channel("brake", "i2"), Channel("throttle", "i2"), Channel("steering", "i4")))
STEP = Layout((*STEP_CHANNELS, *(Channel(f"q{k}", "f8") for k in range(43))))
FLUSH = {"/daq": (DAQ, 200), "/received": (DAQ, 200), "/step": (STEP, 40)}  # blocks
BLOCKS = sum(count for _, count in FLUSH.values())
FLUSHES_A_MINUTE = 300
_POLL_S = 0.0005

Blocks = dict[str, np.ndarray]


class Recorder:
    def __init__(self, folder: Path, index: bool = True):
        self._writer = RunWriter(folder, 1 << 30, 1e6)
        self.sink = self._writer.sink
        if not index:
            self._writer._file._write_with_tail = None
        for topic, (layout, _) in FLUSH.items():
            self._writer.topic(topic, layout)

    def flush(self, words: Blocks, first: int) -> None:
        for topic, blocks in words.items():
            self._writer.add(topic, blocks, first)
        self._writer.flush()


def written(sink: Sink) -> None:
    """Wait for it, at no cost to the thread that writes."""
    while sink.pending:
        time.sleep(_POLL_S)
    time.sleep(_POLL_S)  # after the write it polls for the next


def one_flush(writer: Recorder, words: Blocks, first: int) -> tuple[float, float]:
    """Seconds of processor time: of this thread, and of the one that writes."""
    clock = time.pthread_getcpuclockid(writer.sink._thread.ident or 0)
    wrote, begun = time.clock_gettime(clock), time.thread_time()
    writer.flush(words, first)
    own = time.thread_time() - begun
    written(writer.sink)
    return own, time.clock_gettime(clock) - wrote


def cheaper_half(found: list[tuple[float, float]]) -> np.ndarray:
    """(own, writing, both) in microseconds a block."""
    of = np.array([(own, wrote, own + wrote) for own, wrote in found])
    fastest = np.sort(of, axis=0)[: max(1, len(of) // 2)]
    mean: np.ndarray = 1e6 * fastest.mean(axis=0) / BLOCKS
    return mean


def record_cost(
    *,
    rounds: Annotated[int, "flushes of each kind"] = 400,
    minutes: Annotated[float, "age of the part when they begin"] = 0.0,
) -> Iterator[Row]:
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Path(folder) / name for name in ("CDR", "CDR, index")}
        for place in places.values():
            place.mkdir()
        kinds = {"CDR": Recorder(places["CDR"], False), "CDR, index": Recorder(places["CDR, index"])}
        words = {t: np.cumsum(random.integers(0, 1000, (n, layout.words)), 0) for t, (layout, n) in FLUSH.items()}
        first = 0
        for _ in range(max(5, round(minutes * FLUSHES_A_MINUTE))):
            first += BLOCKS
            for writer in kinds.values():
                writer.flush(words, first)
        for writer in kinds.values():
            written(writer.sink)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
        for _ in range(rounds):
            first += BLOCKS
            for name, writer in kinds.items():
                found[name].append(one_flush(writer, words, first))
        for writer in kinds.values():
            writer.sink.close()
    means = {name: cheaper_half(each) for name, each in found.items()}
    for name, (own, wrote, both) in means.items():
        yield figure(f"{name}: a block, recorder; writing", f"{own:.3f}; {wrote:.3f}", "us")
        yield figure(f"{name}: a block, both", both, "us")
        yield figure(f"{name}: of CDR without an index", both / means["CDR"][2])
