"""Does every step use the newest block that had arrived? Seen from outside, over a whole manoeuvre, on every transport.

A drive runs as usual. This process only watches: it reads every block of the ring the simulator reads and every
output, in order, and a spinning witness notes when each block could be read. A step that starts at s and takes its
block at t must then use a block at least as new as the last one the witness had seen at s, and put into the ring by t.
Where both bounds name the same block, that block is *the* newest, and the difference to the one used must be zero; a
block that arrives between (witness not yet awake, or step just starting) leaves two right answers, counted as
`between`. The steering counts behind the step's angle are compared with those of the newest block, as the source did.

Sampling and step are periodic, so a run would see a single phase between them. The steps therefore run free, 0.7 us
longer than 5 ms: over 50 s the phase passes through all its values seven times.
"""

import json
import math
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np

from sync.child_python import python_command, python_environment
from sync.config.config import load
from sync.ring.ledger import histogram
from sync.ring.ring import RingReader
from sync.ring.watch import SEEN_NS, SEEN_POSITION, watch
from verify import CONFIGS
from verify.measure import Row, equal, figure, holds

CONFIG = CONFIGS / "drive.toml"


class Follow:
    """Every block of a ring, kept."""

    def __init__(self, ring: RingReader):
        self.ring, self.position, self.lost = ring, 0, 0
        self.parts: list[np.ndarray] = []

    def poll(self) -> None:
        while True:
            blocks, self.position, lost = self.ring.since(self.position)
            self.lost += lost
            if len(blocks) == 0:
                return
            self.parts.append(blocks.copy())

    def all(self) -> np.ndarray:
        return np.concatenate(self.parts)


def observe(transport: str, seconds: float, name: str, overrides: list[str]) -> dict[str, Any]:
    settings = [
        f"name={name}",
        f'transport.kind="{transport}"',
        "sim.step_ms=5.0007",
        "sim.phase=free",
        "inputs.steering.estimator=source",
        *overrides,
    ]
    config = load(CONFIG, settings)
    command = python_command("-m", "tandem", "drive", str(CONFIG), "--seconds", str(seconds), "--json")
    for setting in settings:
        command += ["--set", setting]
    drive = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=python_environment()
    )
    inputs = Follow(RingReader(config.ring("daq" if transport == "shm" else "sim_in"), timeout_s=120))
    outputs = Follow(RingReader(config.ring("sim"), timeout_s=120))
    stop = np.zeros(1, np.int64)
    log = np.zeros((int((seconds + 30) * config.daq.rate_hz), 2), np.int64)
    block = np.zeros(inputs.ring.layout.words, np.int64)
    seen: list[int] = []
    arguments = (inputs.ring.words, stop, block, histogram(), 0, log)
    witness = threading.Thread(target=lambda: seen.append(watch(*arguments)))
    witness.start()
    while drive.poll() is None:
        inputs.poll()
        outputs.poll()
        time.sleep(0.1)
    stop[0] = 1
    witness.join()
    inputs.poll()
    outputs.poll()
    result = json.loads(drive.communicate()[0])
    inputs.ring.close()
    outputs.ring.close()
    steering: Any = config.inputs["steering"]  # an encoder's row
    radians = math.radians(steering.per_count) * steering.sign
    answer = judge(
        inputs.all(), outputs.all(), log[: seen[0]], "pushed_ns" if transport == "shm" else "received_ns", radians
    )
    answer |= {
        "transport": transport,
        "seconds": result["seconds"],
        "blocks": result["blocks"],
        "not_read_by_us": inputs.lost + outputs.lost,
        "not_newest_by_the_loops_own_count": result["not_newest"],
        "balance": result["balance"],
    }
    answer["holds"] = (
        answer["older_than_arrived"] == 0
        and answer["newer_than_taken"] == 0
        and answer["largest_difference_in_blocks"] == 0
        and answer["largest_difference_in_counts"] == 0
        and answer["not_read_by_us"] == 0
        and result["not_newest"] == 0
        and result["balance"]["closes"]
    )
    return answer


def judge(blocks: np.ndarray, steps: np.ndarray, log: np.ndarray, stamp: str, radians: float) -> dict[str, Any]:
    """Hold the block of every step against what had arrived."""
    # positions in the ring: blocks are complete and in order, so a block's position is its index
    order = np.argsort(blocks["seq"], kind="stable")
    used = order[np.searchsorted(blocks["seq"][order], steps["input_seq"])]
    assert (blocks["seq"][used] == steps["input_seq"]).all()
    # the witness began before the first step; what it has seen by the start of a step had arrived
    judged = steps["started_ns"] > log[0, SEEN_NS]
    steps, used = steps[judged], used[judged]
    arrived = log[np.searchsorted(log[:, SEEN_NS], steps["started_ns"], side="right") - 1, SEEN_POSITION]
    # what was put into the ring before the step took its block may have been taken
    could = np.searchsorted(blocks[stamp], steps["taken_ns"], side="right") - 1
    certain = arrived == could
    difference = used[certain] - could[certain]
    counts = np.round(steps["steering_angle"][certain] / radians) - blocks["steering"][could[certain]]
    return {
        "steps": len(steps),
        "certain": int(certain.sum()),
        "between": int((~certain).sum()),
        "older_than_arrived": int((used < arrived).sum()),
        "newer_than_taken": int((used > could).sum()),
        "largest_difference_in_blocks": int(np.abs(difference).max(initial=0)),
        "largest_difference_in_counts": int(np.abs(counts).max(initial=0)),
    }


def correspondence(
    *,
    seconds: float = 50.0,
    transport: tuple[Literal["shm", "ipc", "tcp"], ...] = ("shm", "ipc", "tcp"),
    set: Annotated[tuple[str, ...], "KEY=VALUE: override a setting"] = (),
) -> Iterator[Row]:
    for each in transport:
        answer = observe(each, seconds, "correspondence", list(set))
        yield figure(f"{each}: steps judged", answer["steps"])
        yield figure(f"{each}: of these, both bounds name one block", answer["certain"])
        for key, text in (
            ("older_than_arrived", "steps on an older block than had arrived"),
            ("newer_than_taken", "steps on a newer block than was taken"),
            ("largest_difference_in_blocks", "largest difference from the newest block"),
            ("largest_difference_in_counts", "largest difference in counts"),
            ("not_read_by_us", "blocks and steps not seen"),
            ("not_newest_by_the_loops_own_count", "not newest by the loop's own count"),
        ):
            yield equal(f"{each}: {text}", answer[key], 0)
        yield holds(f"{each}: the balance closes", answer["balance"]["closes"])
