"""Power cuts: whenever the power fails, everything that the recorder had synced can be read.

Starts the recorder as a drive does, with short parts, and old ones deleted; numbered blocks pass its rings. A library
that is loaded before it (verify/robustness/power_cuts.c) writes down every write, sync, new name and removal. From
that, for each of many instants, a folder is made as a power cut at that instant may leave it
(verify/robustness/dropped_writes.py), and read.

Promised is what stands in chunks that were synced, in files whose names were synced, unless they were deleted. All of
it must be read, in order, nothing twice, nothing that was never there, and no record may be called whole that is not.
Prints how many records kept the promise, and how old the newest promised block was. Exit code 1 if one did not; 2
without a C compiler.
"""

import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sync.clock import now_ns
from sync.config.config import Config, load
from sync.record import RunError, open_run
from sync.record.heads import PART, START, as_head
from sync.record.utc import utc_offset
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingWriter, push
from sync.ring.streams import DAQ, SIM
from verify import ROOT
from verify.measure import Row, at_most, equal, figure, holds, note
from verify.robustness.dropped_writes import FSYNC, UNLINK, WRITE, WRITE_AT, Disk, Op

CONFIG = ROOT / "configs" / "drive.toml"
LAYOUT = Layout((Channel("number", "i8"), Channel("noise", "i8")))
SETTINGS = (
    "transport.kind=shm", "sim.machine=vehicles/buggy_single_track.toml", "realtime.enabled=false",
    "record.flush_ms=40", "record.fsync_s=0.1", "record.part_minutes=0.02", "record.keep_gb=0.0006",
)  # fmt: skip
_HEAD = struct.Struct("<iqiII")
_LATE_S = 5.0  # of a promise; far beyond flush_ms and fsync_s, for machines with much else to do


def read_ops(path: Path) -> list[Op]:
    data, at, found = path.read_bytes(), 0, []
    while at + _HEAD.size <= len(data):
        kind, t_ns, fd, a, b = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        found.append(Op(kind, t_ns, fd, data[at : at + a].decode(), data[at + a : at + a + b]))
        at += a + b
    return found


# ---- what is promised ------------------------------------------------------------------------------------------------


def promised(disk: Disk) -> tuple[dict[str, set[int]], int]:
    """Numbers by topic, as another reader of MCAP finds them in what is sure; and the newest instant among them."""
    from mcap.exceptions import McapError
    from mcap.records import Channel as Topic
    from mcap.records import Chunk, Message, Metadata
    from mcap.stream_reader import StreamReader, breakup_chunk

    found: dict[str, dict[str, set[int]]] = {}
    deleted, newest = 0, 0
    for name, content in disk.sure_files().items():
        mine: dict[str, set[int]] = {}
        topics: dict[int, str] = {}
        utc_offset_ns = 0
        try:
            for record in StreamReader(io.BytesIO(content), emit_chunks=True).records:
                if isinstance(record, Metadata) and record.name == PART and (head := as_head(record)) is not None:
                    deleted = max(deleted, head.earlier.deleted if head.earlier else 0)
                if isinstance(record, Metadata) and record.name == START:
                    utc_offset_ns = utc_offset(record.metadata)
                for one in breakup_chunk(record) if isinstance(record, Chunk) else ():
                    if isinstance(one, Topic):
                        topics[one.id] = one.topic
                    if isinstance(one, Message):
                        mine.setdefault(topics[one.channel_id], set()).add(one.sequence)
                        newest = max(newest, one.log_time - utc_offset_ns)
        except (McapError, EOFError, struct.error):
            pass  # a file that has no end yet
        found[name] = mine
    both: dict[str, set[int]] = {}
    for name, mine in found.items():
        number = name.rsplit("/", 1)[-1].removeprefix("run").removesuffix("mcap").strip(".") or "1"
        for topic, numbers in mine.items() if int(number) > deleted else ():
            both.setdefault(topic, set()).update(numbers)
    return both, newest


def judged(disk: Disk, run: str, pushed: dict[str, int], ended: bool, seed: int) -> tuple[str | None, int]:
    """What is wrong with the record that a power cut now leaves; and the newest instant that was promised."""
    sure, newest = promised(disk)
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        disk.left(Path(folder), random.Random(seed))
        try:
            record = open_run(Path(folder) / run)
        except RunError as error:
            return (f"cannot be read: {error}" if any(sure.values()) else None), newest
        for topic, numbers in sure.items():
            found = record.topics[topic].blocks["number"].tolist() if topic in record.topics else []
            if found != sorted(set(found)) or (found and found[-1] >= pushed[topic]):
                return f"{topic}: out of order, twice, or never there", newest
            if missing := numbers - set(found):
                return f"{topic}: {len(missing)} blocks of {len(numbers)} that were promised are missing", newest
        if record.whole and not ended:
            return "called whole", newest
    return None, newest


# ---- the recorder ----------------------------------------------------------------------------------------------------


def fed(config: Config, recorder: "subprocess.Popen[str]", folder: Path, seconds: float) -> dict[str, int]:
    """Blocks through its rings for so long; how many."""
    assert recorder.stdin is not None and recorder.stdout is not None
    assert "ready" in recorder.stdout.readline()
    recorder.stdin.write(json.dumps({"folder": str(folder), "parameters": "{}"}) + "\n")
    recorder.stdin.flush()
    noise = np.random.default_rng(1)
    rings = {stream.topic: RingWriter(config.ring(stream.name), LAYOUT, 1 << 14) for stream in (DAQ, SIM)}
    counts = dict.fromkeys(rings, 0)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            for topic, ring in rings.items():
                for _ in range(8 if topic == "/daq" else 2):
                    words = np.zeros((1, LAYOUT.words), np.int64)
                    block = LAYOUT.view(words)
                    block["number"], block["noise"] = counts[topic], noise.integers(1 << 62)
                    block["seq"], block["t_ns"], block["pushed_ns"] = ring.head, now_ns(), now_ns()
                    push(ring.words, words[0])
                    counts[topic] += 1
            time.sleep(0.004)
        recorder.stdin.write(json.dumps({"reason": "all seconds done", "summary": {}}) + "\n")
        recorder.stdin.flush()
        report = json.loads(recorder.stdout.read().splitlines()[-1])
        if recorder.wait(60) != 0 or not report["whole"]:
            raise SystemExit(f"the recorder itself failed: {report}")
        note(f"{sum(counts.values())} blocks in {report['parts']} parts, {report['deleted_parts']} of them deleted")
    finally:
        for ring in rings.values():
            ring.close()
    return counts


def operations(seconds: float, work: Path) -> tuple[list[Op], dict[str, int], Path]:
    library = work / "power_cuts.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl", "-lpthread"], check=True)
    disk, log = work / "disk", work / "oplog"
    disk.mkdir()
    chosen = [f"name=power_{os.getpid()}", *SETTINGS]
    command = [sys.executable, "-m", "tandem.live.recorder", str(CONFIG), "--supervised"]
    environment = {**os.environ, "LD_PRELOAD": str(library), "OPLOG": str(log), "OPLOG_ROOT": str(disk)}
    recorder = subprocess.Popen(
        [*command, *(word for setting in chosen for word in ("--set", setting))], cwd=ROOT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        counts = fed(load(CONFIG, chosen), recorder, disk / "runs" / "a", seconds)
    finally:
        recorder.kill()
        recorder.wait()
    return read_ops(log), counts, disk


def power_cuts(*, cuts: int = 100, seconds: float = 20.0, seed: int = 1) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        ops, counts, root = operations(seconds, Path(folder))
        kinds = [op.kind for op in ops]
        yield figure("operations on the disk", len(ops))
        yield figure("syncs; removals", f"{kinds.count(FSYNC)}; {kinds.count(UNLINK)}")
        chance = random.Random(seed)
        places = [*sorted(chance.sample(range(1, len(ops)), cuts - 1)), len(ops)]
        disk, done, readable, oldest_s = Disk(root), 0, 0, 0.0
        for number, cut in enumerate(places):
            for op in ops[done:cut]:
                disk.do(op)
            done = cut
            wrong, newest = judged(disk, "runs/a", counts, ended=not {WRITE, WRITE_AT} & set(kinds[cut:]), seed=number)
            at_ns = ops[cut - 1].t_ns
            late_s = (at_ns - max(newest, ops[0].t_ns)) * 1e-9 if cut < len(ops) else 0.0
            oldest_s = max(oldest_s, late_s)
            readable += not wrong
            if wrong:
                yield holds(f"cut after operation {cut}: readable", False, wrong)
    yield equal(f"records readable up to what was promised, of {len(places)}", readable, len(places))
    yield at_most("age of the newest promised block", oldest_s, _LATE_S, "s")
