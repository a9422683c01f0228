"""What a block costs the recorder: CDR with an index behind every write, the same without one, and msgpack as format 1
had it, in one run.

All write the same blocks through the same sink; format 1 as it was: a kernel composes the messages, the mcap package's
writer takes them one by one. A flush has what a drive brings in 200 ms: 200 blocks of /daq, 200 of /received, 40 of
/step. The three take turns flush by flush, and the next flush begins when the last is in the file, as in a run: then
none of the indexes is left out. Figures are processor time in microseconds a block, compression and writing included:
of the recorder's thread, of the thread that writes to the disk, and of both; each the mean of those flushes that are
among the cheaper half of their kind, which leaves out what other processes did. `--minutes` begins with a part that is
so old already: its index is as long as that makes it.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from mcap.writer import CompressionType, Writer

from sim_service.contract.step_channels import STEP_CHANNELS
from sync.compile.array_copy import copy
from sync.compile.jit import kernel
from sync.record import RunWriter, Sink
from sync.record.schema import ENCODING, MESSAGES, NAME, to_schema
from sync.ring.block import PUSHED, RECEIVED, Channel, Layout, T
from sync.transport.message_form import Form, write_message
from verify.measure import Row, figure

DAQ = Layout((Channel("brake", "i2"), Channel("throttle", "i2"), Channel("steering", "i4")))
STEP = Layout((*STEP_CHANNELS, *(Channel(f"q{k}", "f8") for k in range(43))))
FLUSH = {"/daq": (DAQ, 200), "/received": (DAQ, 200), "/step": (STEP, 40)}  # blocks
BLOCKS = sum(count for _, count in FLUSH.values())
FLUSHES_A_MINUTE = 300
_LOOK_S = 0.0005

Blocks = dict[str, np.ndarray]


@kernel()
def _compose(blocks, fields, text, messages):
    for n in range(blocks.shape[0]):
        copy(messages[n], text)
        write_message(blocks[n], fields, messages[n])


class Before:
    """Format 1: msgpack under a JSON Schema."""

    def __init__(self, folder: Path):
        self.sink = Sink(folder / "run.mcap", 1 << 30, 1e6)
        self._writer = Writer(self.sink, chunk_size=32 << 20, compression=CompressionType.ZSTD)
        self._writer.start("tandem", "tandem")
        self._channels = {
            topic: self._writer.register_channel(
                topic, MESSAGES, self._writer.register_schema(NAME, ENCODING, to_schema(layout))
            )
            for topic, (layout, _) in FLUSH.items()
        }
        self._forms = {topic: Form(layout, received=True) for topic, (layout, _) in FLUSH.items()}

    def flush(self, words: Blocks, first: int) -> None:
        for topic, blocks in words.items():
            form = self._forms[topic]
            messages = np.empty((len(blocks), form.text.size), np.uint8)
            _compose(np.ascontiguousarray(blocks), form.fields, form.text, messages)
            size, data = form.text.size, messages.tobytes()
            came = np.where(blocks[:, RECEIVED] > 0, blocks[:, RECEIVED], blocks[:, PUSHED]).tolist()
            sampled, places = blocks[:, T].tolist(), (np.arange(first, first + len(blocks)) & 0xFFFFFFFF).tolist()
            for n in range(len(blocks)):
                self._writer.add_message(
                    self._channels[topic], came[n], data[n * size : (n + 1) * size], sampled[n], places[n]
                )
        self._writer.flush()


class Now:
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
        time.sleep(_LOOK_S)
    time.sleep(_LOOK_S)  # behind the write it looks what there is next


def one_flush(writer: Any, words: Blocks, first: int) -> tuple[float, float]:
    """Seconds of processor time: of this thread, and of the one that writes."""
    clock = time.pthread_getcpuclockid(writer.sink._thread.ident)
    wrote, begun = time.clock_gettime(clock), time.thread_time()
    writer.flush(words, first)
    own = time.thread_time() - begun
    written(writer.sink)
    return own, time.clock_gettime(clock) - wrote


def cheaper_half(found: list[tuple[float, float]]) -> np.ndarray:
    """(own, writing, both) in microseconds a block."""
    of = np.array([(own, wrote, own + wrote) for own, wrote in found])
    kept = np.sort(of, axis=0)[: max(1, len(of) // 2)]
    mean: np.ndarray = 1e6 * kept.mean(axis=0) / BLOCKS
    return mean


def record_cost(
    *,
    rounds: Annotated[int, "flushes of each kind"] = 400,
    minutes: Annotated[float, "age of the part when they begin"] = 0.0,
) -> Iterator[Row]:
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Path(folder) / name for name in ("msgpack", "CDR", "CDR, index")}
        for place in places.values():
            place.mkdir()
        kinds: dict[str, Any] = {"msgpack": Before(places["msgpack"])}
        kinds |= {"CDR": Now(places["CDR"], False), "CDR, index": Now(places["CDR, index"])}
        words = {t: np.cumsum(random.integers(0, 1000, (n, layout.words)), 0) for t, (layout, n) in FLUSH.items()}
        first = 0
        for _ in range(max(5, round(minutes * FLUSHES_A_MINUTE))):
            first += BLOCKS
            for name in ("CDR", "CDR, index"):
                kinds[name].flush(words, first)
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
        yield figure(f"{name}: of msgpack", both / means["msgpack"][2])
        yield figure(f"{name}: of CDR without an index", both / means["CDR"][2])
