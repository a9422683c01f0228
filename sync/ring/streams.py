"""Every stream of blocks on a host: one row a ring, with its writer, rate, layout, and where its blocks go from there.

Services, recorder, supervisor, view and doctor take their lists of rings from this table. docs/streams.md shows it, and
a test compares the two (`python -m sync.ring.streams` prints it). A new stream is a new row, and the process that
writes it.

The rows are in the order opposite to the flow: results before what they were made from. The recorder reads the rings in
this order, so that a record never holds a step without the block it used. This module compiles nothing, because the
configuration imports it.
"""

import os
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal


@dataclass(frozen=True)
class Stream:
    name: str  # of the ring, as in `config.ring(name)`
    writer: Literal["daq", "sim", "device", "look_ahead"]  # the process
    holds: str
    rate: str  # the key of the configuration that sets it, or words
    layout: str  # where it is declared: a key of the configuration, or words
    blocks: str | int  # capacity of the ring: a number, or a key of the configuration
    topic: str = ""  # in a record; "": not recorded
    socket: str = ""  # on which the newest block is published (ipc, tcp); "": not published
    shown: bool = False  # followed by the view
    only_wire: bool = False  # with shm its reader reads the other end's ring instead

    def capacity(self, config: Any) -> int:
        """Blocks of its ring in this configuration (sync.config.config.Config, which itself imports this table)."""
        return self.blocks if isinstance(self.blocks, int) else int(reduce(getattr, self.blocks.split("."), config))

    def exists(self, transport: str) -> bool:
        """Whether a run with this kind of transport may have it."""
        return not self.only_wire or transport != "shm"


LOOK_AHEAD = Stream(
    "look_ahead", "look_ahead", "predictions, if any are made: path, grip, time to loss of control, warnings",
    "look_ahead.rate_hz, others between", "sim_service/look_ahead/record.py", 1024, topic="/look_ahead", shown=True,
)  # fmt: skip
EFFORT = Stream(
    "effort", "daq", "every effort handed over to the device: the step it comes from, what was wanted, what was given",
    "at every step, source.effort.rate_hz between", "daq_service/effort_record.py", 8192, topic="/effort",
)  # fmt: skip
# one for each further axis of the device (`source.axes`), in the order of their names; a device has at most these
AXIS_EFFORTS = tuple(
    Stream(
        f"effort_{n}", "daq", f"the same of the device's axis {n}, by name in order",
        "at every step, source.axes.NAME.effort.rate_hz between", "daq_service/effort_record.py", 4096,
        topic=f"/effort_{n}",
    )
    for n in (1, 2, 3)
)  # fmt: skip
SIM = Stream(
    "sim", "sim", "every step: the block it used, its inputs, its outputs", "sim.step_ms",
    "the model's outputs", "sim.ring_blocks", topic="/step", socket="sim", shown=True,
)  # fmt: skip
STATE = Stream(
    "state", "sim", "the model's state after every step", "sim.step_ms", "the model's states", 64, shown=True
)  # a replay computes it again, so that it need not be recorded
SIM_IN = Stream(
    "sim_in", "sim", "every block that arrived from the DAQ", "as they arrive, at most daq.rate_hz",
    "daq.channels", "daq.ring_blocks", topic="/received", only_wire=True,
)  # fmt: skip
DAQ = Stream(
    "daq", "daq", "every scan of the channels, raw", "daq.rate_hz",
    "daq.channels", "daq.ring_blocks", topic="/daq", socket="daq", shown=True,
)  # fmt: skip
COMMAND = Stream(
    "command", "sim", "commands to the simulator: what to change or do", "as commanded",
    "kind, index, value", 1024, topic="/command",
)  # fmt: skip
DAQ_IN = Stream(
    "daq_in", "daq", "the outputs of every step that arrived from the simulator, if the source wants any",
    "as they arrive, at most every sim.step_ms", "what the source wants", 64, only_wire=True,
)  # fmt: skip

DEVICE = Stream(
    "device", "device", "every scan of a virtual device that is a process of its own, and what its actuator was given",
    "daq.rate_hz", "daq_service/haptic_process.py", 16384,
)  # fmt: skip

_ALL = (LOOK_AHEAD, EFFORT, *AXIS_EFFORTS, SIM, STATE, SIM_IN, DAQ, COMMAND, DAQ_IN, DEVICE)
STREAMS = {stream.name: stream for stream in _ALL}
RECORDED = tuple(stream for stream in STREAMS.values() if stream.topic)
SHOWN = tuple(stream for stream in STREAMS.values() if stream.shown)
BLOCK_TOPICS = (DAQ.topic, SIM_IN.topic)  # of a record: blocks as sampled, and as the simulator received them

# local sockets of a run, by name, and the stream whose writer owns each: blocks, requests and replies
SOCKETS = {stream.socket: stream for stream in STREAMS.values() if stream.socket} | {"command": SIM, "hand": DAQ}


def ring_name(run: str, stream: str) -> str:
    """The segment's name. It contains the user's id: a name in shared memory belongs to its first user, and two users
    may run the same configuration."""
    return f"tandem.{run}.{STREAMS[stream].name}.{os.getuid()}"


def truth_name(run: str) -> str:
    """Name of the run that is started beside this one as the "real" machine (`source.truth`)."""
    return f"{run}_truth"


def as_markdown() -> str:
    """The table of docs/streams.md."""
    head = ("ring", "written by", "holds", "rate", "layout", "blocks", "topic of a record", "published", "shown")
    rows = [
        (
            f"`{s.name}`" + (" (ipc, tcp)" if s.only_wire else ""), s.writer, s.holds, s.rate, s.layout, str(s.blocks),
            f"`{s.topic}`" if s.topic else "", "newest" if s.socket else "", "yes" if s.shown else "",
        )
        for s in STREAMS.values()
    ]  # fmt: skip
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


if __name__ == "__main__":
    print(as_markdown(), end="")
