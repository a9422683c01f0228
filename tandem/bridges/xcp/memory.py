"""What a master sees as the slave's memory: addresses of the machine's parameters, and of the blocks of two rings.

Parameters are one segment of calibration data, a float64 each, in the machine's order. A block is memory that is only
measured: every channel at the offset it has in the ring, so that an entry of a DAQ list is a range of a block's bytes.
The names are those of the description (a2l.py). `epk` says which memory this is: another machine, other channels or
other limits give another one, and a tool notices that its description is of an older run.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim_service.contract.machine import Machine, Parameter
from sim_service.step_record import output_layout
from sync.config.config import Config
from sync.record.ros2msg import HEADER_NOTES, Description, comment
from sync.ring.block import HEADER, PAYLOAD, Layout
from sync.ring.streams import DAQ, SIM, Stream
from tandem.records.descriptions import describe
from tandem.records.provenance import parameters_json

EPK = 0x0000_1000
PARAMETERS = 0x0001_0000
BLOCKS = 0x0100_0000  # of the first event; the next begin as far behind it
WORD = 8
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Measured:
    """A channel of a block, or a word of its head."""

    name: str
    type: str  # of sync.ring.block.TYPES
    unit: str
    text: str
    address: int


@dataclass(frozen=True)
class Event:
    """A ring whose every block a DAQ list can be sampled from."""

    number: int
    stream: Stream
    name: str
    layout: Layout
    period_ns: int
    channels: tuple[Measured, ...]

    @property
    def address(self) -> int:
        return BLOCKS * (1 + self.number)

    @property
    def size(self) -> int:
        return WORD * self.layout.words


@dataclass(frozen=True)
class Memory:
    machine: Machine
    name: str  # of the run
    parameters: tuple[tuple[str, Parameter], ...]  # with their names in the description
    events: tuple[Event, ...]

    @property
    def size(self) -> int:
        """Of the segment of parameters, in bytes."""
        return WORD * len(self.parameters)

    @cached_property
    def epk(self) -> str:
        parts = [self.machine.name, *(event.layout.text for event in self.events)]
        parts += [f"{name} {p.low!r} {p.high!r} {p.unit} {p.live} {p.shapes}" for name, p in self.parameters]
        return "tandem-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]

    def event_at(self, address: int, size: int) -> tuple[Event, int] | None:
        """Whose block these bytes are in, and from which of its bytes on; None if they are in no block."""
        for event in self.events:
            offset = address - event.address
            if offset >= 0 and offset + size <= event.size:
                return event, offset
        return None


def memory_of(config: Config, machine: Machine, values: np.ndarray) -> Memory:
    """Of a configuration's machine, whose parameters begin with these values."""
    taken: set[str] = set()
    describing = describe(parameters_json(machine, values))
    streams = (
        (SIM, "step", output_layout(machine), config.step_ns),
        (DAQ, "scan", config.daq.layout, config.period_ns),
    )
    events = []
    for number, (stream, name, layout, period_ns) in enumerate(streams):
        prefix = "" if number == 0 else f"{stream.name}_"
        about = describing(stream.topic, layout)
        channels = _channels(layout, about, prefix, BLOCKS * (1 + number), taken)
        events.append(Event(number, stream, name, layout, period_ns, channels))
    parameters = tuple((_free(p.name, taken), p) for p in machine.parameters)
    return Memory(machine, config.name, parameters, tuple(events))


def _channels(layout: Layout, about: Description, prefix: str, address: int, taken: set[str]) -> tuple[Measured, ...]:
    found = []
    for number, word in enumerate(HEADER):
        unit, text = HEADER_NOTES[word]
        kind = "u8" if number < 2 else "i8"
        found.append(Measured(_free(prefix + word, taken), kind, unit, text, address + WORD * number))
    for channel, offset in zip(layout.channels, layout.offsets, strict=True):
        at = address + WORD * PAYLOAD + offset
        name = _free(prefix + channel.name, taken)
        found.append(Measured(name, channel.type, channel.unit, about.note(channel), at))
    return tuple(found)


def _free(name: str, taken: set[str]) -> str:
    """A name that a description can have, near this one and not in use."""
    if not _NAME.fullmatch(name):
        near = re.sub(r"[^A-Za-z0-9_]+", "_", comment(name)).strip("_")
        name = near if re.match(r"[A-Za-z_]", near) else f"n_{near}"
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free
