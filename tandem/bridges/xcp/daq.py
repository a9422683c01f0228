"""DAQ lists: what a master wants of every block, and the packets that come of it.

A list belongs to one event, a ring; its entries are ranges of that ring's blocks. All packets of a list at one event
are of one block, which is never torn, and carry that block's instant. Lists are allocated by the master, in the order
that the standard has: lists, then ODTs, then entries, then what is in them.
"""

from dataclasses import dataclass, field

import numpy as np

from sync.ring.block import T
from tandem.bridges.xcp import protocol as xcp
from tandem.bridges.xcp.memory import Event, Memory
from tandem.bridges.xcp.protocol import XcpError

TIMESTAMP, DIRECTION, PID_OFF, ALTERNATING = 0x10, 0x02, 0x20, 0x01  # bits of a list's mode
SELECTED, RUNNING = 0x01, 0x40  # and of its state


@dataclass
class Entry:
    address: int = 0
    size: int = 0


@dataclass
class List:
    odts: list[list[Entry]] = field(default_factory=list)
    event: int = 0
    mode: int = 0
    prescaler: int = 1
    priority: int = 0
    selected: bool = False
    running: bool = False
    blocks: int = 0  # since its start
    gather: list[np.ndarray] = field(default_factory=list)  # for each ODT, the bytes of a block in their order


class DaqLists:
    def __init__(self, memory: Memory):
        self._memory = memory
        self.lists: list[List] = []
        self._stage = 0  # of the allocation: 1 lists, 2 ODTs, 3 entries are there
        self._entries = 0
        self._at: tuple[int, int, int] | None = None
        self.sent = 0  # packets

    @property
    def running(self) -> bool:
        return any(each.running for each in self.lists)

    # ---- allocation

    def free(self) -> None:
        self._idle()
        self.lists, self._stage, self._entries, self._at = [], 0, 0, None

    def allocate_lists(self, count: int) -> None:
        self._idle()
        if self._stage != 0 or self.lists:
            raise XcpError(xcp.SEQUENCE)
        if count > xcp.MOST_LISTS:
            raise XcpError(xcp.MEMORY_OVERFLOW)
        self.lists = [List() for _ in range(count)]
        self._stage = 1

    def allocate_odts(self, number: int, count: int) -> None:
        self._idle()
        if self._stage not in (1, 2):
            raise XcpError(xcp.SEQUENCE)
        found = self._list(number)
        if count > xcp.MOST_ODTS:
            raise XcpError(xcp.MEMORY_OVERFLOW)
        found.odts = [[] for _ in range(count)]
        self._stage = 2

    def allocate_entries(self, number: int, odt: int, count: int) -> None:
        self._idle()
        if self._stage not in (2, 3):
            raise XcpError(xcp.SEQUENCE)
        found = self._list(number)
        if odt >= len(found.odts):
            raise XcpError(xcp.OUT_OF_RANGE)
        if self._entries + count > xcp.MOST_ENTRIES:
            raise XcpError(xcp.MEMORY_OVERFLOW)
        self._entries += count - len(found.odts[odt])
        found.odts[odt] = [Entry() for _ in range(count)]
        self._stage = 3

    # ---- entries

    def point(self, number: int, odt: int, entry: int) -> None:
        found = self._list(number)
        if odt >= len(found.odts) or entry >= len(found.odts[odt]):
            raise XcpError(xcp.OUT_OF_RANGE)
        self._at = number, odt, entry

    def write(self, bit: int, size: int, extension: int, address: int) -> None:
        if bit != 0xFF or extension != 0 or not 0 < size <= xcp.MAX_ENTRY:
            raise XcpError(xcp.OUT_OF_RANGE)
        if self._memory.event_at(address, size) is None:
            raise XcpError(xcp.ACCESS_DENIED)
        if self._at is not None:
            self._still(self._at[0])
        found = self._next()
        found.address, found.size = address, size

    def read(self) -> Entry:
        return self._next()

    def _next(self) -> Entry:
        if self._at is None:
            raise XcpError(xcp.SEQUENCE)
        number, odt, entry = self._at
        entries = self.lists[number].odts[odt]
        if entry >= len(entries):
            raise XcpError(xcp.OUT_OF_RANGE)
        self._at = number, odt, entry + 1
        return entries[entry]

    def clear(self, number: int) -> None:
        found = self._list(number)
        found.selected = found.running = False
        for odt in found.odts:
            odt[:] = [Entry() for _ in odt]

    # ---- modes

    def set_mode(self, number: int, mode: int, event: int, prescaler: int, priority: int) -> None:
        found = self._still(number)
        if mode & (DIRECTION | PID_OFF | ALTERNATING):
            raise XcpError(xcp.MODE_NOT_VALID)
        if event >= len(self._memory.events) or prescaler < 1:
            raise XcpError(xcp.OUT_OF_RANGE)
        found.mode, found.event = mode & TIMESTAMP, event
        found.prescaler, found.priority = prescaler, priority

    def mode(self, number: int) -> tuple[int, List]:
        found = self._list(number)
        return found.mode | SELECTED * found.selected | RUNNING * found.running, found

    def start(self, number: int) -> None:
        found = self._list(number)
        self._prepare(found)
        found.running = True

    def stop(self, number: int) -> None:
        self._list(number).running = False

    def select(self, number: int) -> None:
        found = self._list(number)
        self._prepare(found)
        found.selected = True

    def start_selected(self) -> None:
        for each in self.lists:
            each.running, each.selected = each.running or each.selected, False

    def stop_selected(self) -> None:
        for each in self.lists:
            each.running, each.selected = each.running and not each.selected, False

    def stop_all(self) -> None:
        for each in self.lists:
            each.running = each.selected = False

    def _prepare(self, found: List) -> None:
        """Check a list as a whole, and note where in a block its bytes are."""
        event = self._memory.events[found.event]
        gather = []
        for number, odt in enumerate(found.odts):
            spans = []
            for entry in odt:
                if entry.size == 0:
                    continue
                at = self._memory.event_at(entry.address, entry.size)
                if at is None or at[0] is not event:
                    raise XcpError(xcp.DAQ_CONFIG)
                spans.append(np.arange(at[1], at[1] + entry.size))
            bytes_of = np.concatenate(spans) if spans else np.zeros(0, np.int64)
            head = xcp.DTO_HEAD + xcp.STAMP_BYTES * (number == 0 and bool(found.mode & TIMESTAMP))
            if head + len(bytes_of) > xcp.MAX_DTO:
                raise XcpError(xcp.DAQ_CONFIG)
            gather.append(bytes_of)
        if not any(len(each) for each in gather):
            raise XcpError(xcp.DAQ_CONFIG)
        found.gather, found.blocks = gather, 0

    # ---- packets

    def packets(self, event: Event, words: np.ndarray) -> list[bytes]:
        """Of these blocks, rows of words, in order: all packets of a block, then those of the next one."""
        wanted = [(n, each) for n, each in enumerate(self.lists) if each.running and each.event == event.number]
        if not wanted or not len(words):
            return []
        data = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)
        stamps = (words[:, T] // xcp.STAMP_NS & 0xFFFFFFFF).astype("<u4")
        by_block: list[list[bytes]] = [[] for _ in words]
        for number, each in wanted:
            due = np.arange(len(words))
            due = due[(each.blocks + due) % each.prescaler == 0]
            each.blocks += len(words)
            for odt, bytes_of in enumerate(each.gather):
                stamped = odt == 0 and bool(each.mode & TIMESTAMP)
                if not len(bytes_of) and not stamped:
                    continue
                head = bytes((odt, number))
                for row, part in zip(due.tolist(), data[due][:, bytes_of], strict=True):
                    stamp = stamps[row].tobytes() if stamped else b""
                    by_block[row].append(head + stamp + part.tobytes())
        found = [packet for packets in by_block for packet in packets]
        self.sent += len(found)
        return found

    # ---- which may not be changed now

    def _list(self, number: int) -> List:
        if number >= len(self.lists):
            raise XcpError(xcp.OUT_OF_RANGE)
        return self.lists[number]

    def _still(self, number: int) -> List:
        found = self._list(number)
        if found.running:
            raise XcpError(xcp.DAQ_ACTIVE)
        return found

    def _idle(self) -> None:
        if self.running:
            raise XcpError(xcp.DAQ_ACTIVE)
