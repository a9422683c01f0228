"""What a block costs the recorder's thread: CDR as it is written now, and msgpack as format 1 had it, in one run.

    python -m benchmarks.record_cost

Both write the same blocks through the same sink; format 1 as it was: a kernel composes the messages, the mcap package's
writer takes them one by one. A batch is what one look at a ring finds. Figures are processor time of the writing thread
in microseconds a block, least of several rounds, compression included.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mcap.writer import CompressionType, Writer

from sim_service.step_record import STEP_CHANNELS
from sync.array_copy import copy
from sync.block import PUSHED, RECEIVED, Channel, Layout, T
from sync.jit import kernel
from sync.record import RunWriter, Sink
from sync.record.schema import ENCODING, MESSAGES, NAME, to_schema
from sync.transport.message_form import Form, write_message

LAYOUTS = {
    "/daq, 3 channels": Layout((Channel("brake", "i2"), Channel("throttle", "i2"), Channel("steering", "i4"))),
    "/step, 60 channels": Layout((*STEP_CHANNELS, *(Channel(f"q{k}", "f8") for k in range(43)))),
}
BATCHES = (8, 40, 4096)
BLOCKS, ROUNDS = 8192, 5


@kernel()
def _compose(blocks, fields, text, messages):
    for n in range(blocks.shape[0]):
        copy(messages[n], text)
        write_message(blocks[n], fields, messages[n])


def before(folder: Path, layout: Layout, words: np.ndarray, batch: int) -> float:
    sink = Sink(folder / "run.mcap", 1 << 30, 1e6)
    writer = Writer(sink, chunk_size=32 << 20, compression=CompressionType.ZSTD)
    writer.start("tandem", "tandem")
    channel = writer.register_channel("/t", MESSAGES, writer.register_schema(NAME, ENCODING, to_schema(layout)))
    form = Form(layout, received=True)
    begun = time.thread_time()
    for first in range(0, len(words), batch):
        blocks = words[first : first + batch]
        messages = np.empty((len(blocks), form.text.size), np.uint8)
        _compose(np.ascontiguousarray(blocks), form.fields, form.text, messages)
        size, data = form.text.size, messages.tobytes()
        came = np.where(blocks[:, RECEIVED] > 0, blocks[:, RECEIVED], blocks[:, PUSHED]).tolist()
        sampled, places = blocks[:, T].tolist(), (np.arange(first, first + len(blocks)) & 0xFFFFFFFF).tolist()
        for n in range(len(blocks)):
            writer.add_message(channel, came[n], data[n * size : (n + 1) * size], sampled[n], places[n])
        writer.flush()
    took = time.thread_time() - begun
    sink.close()
    return took


def now(folder: Path, layout: Layout, words: np.ndarray, batch: int) -> float:
    writer = RunWriter(folder, 1 << 30, 1e6)
    writer.topic("/t", layout)
    begun = time.thread_time()
    for first in range(0, len(words), batch):
        writer.add("/t", words[first : first + batch], first)
        writer.flush()
    took = time.thread_time() - begun
    writer.sink.close()
    return took


def least(write: Callable[..., float], layout: Layout, words: np.ndarray, batch: int) -> float:
    found = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            found.append(write(Path(folder), layout, words, batch))
    return 1e6 * min(found) / len(words)


def main() -> None:
    random = np.random.default_rng(1)
    print("us a block                 batch   msgpack    CDR   ratio")
    for name, layout in LAYOUTS.items():
        words = np.cumsum(random.integers(0, 1000, (BLOCKS, layout.words)), 0)
        for batch in BATCHES:
            old, new = (least(write, layout, words, batch) for write in (before, now))
            print(f"{name:25}  {batch:5}  {old:8.2f}  {new:5.2f}  {new / old:6.2f}")


if __name__ == "__main__":
    main()
