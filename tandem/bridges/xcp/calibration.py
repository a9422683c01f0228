"""The segment of calibration data and its two pages: the working page, and the reference, which is what the run began
with.

The working page is what the simulator has, as its socket for commands answers: a write is a command like any other,
checked there, obeyed between two steps, recorded and replayed. It is refused as a whole where one of its values is out
of range, or of a parameter that cannot change while the machine runs. Only whole numbers of eight bytes are written: a
parameter is never half the old and half the new value.

The machine can be set to the reference page: then all its parameters are as they began, and the working page is only
noted here, checked as ever, until the machine is set to it again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from sim_service.commands import NoSimulator
from sim_service.contract.parameters import fault_of
from tandem.bridges.xcp.memory import WORD, Memory
from tandem.bridges.xcp.protocol import (
    ACCESS_DENIED,
    CMD_BUSY,
    GENERIC,
    MODE_NOT_VALID,
    NOT_ACCESSIBLE_NOW,
    OUT_OF_RANGE,
    PAGE_NOT_VALID,
    SEGMENT_NOT_VALID,
    WRITE_PROTECTED,
    XcpError,
)

WORKING, REFERENCE = 0, 1
PAGES = 2
ECU, XCP, ALL = 0x01, 0x02, 0x80  # modes of SET_CAL_PAGE
PROPERTIES = (0x3F, 0x0F)  # of the pages: machine and master may both use them at once; the master writes the first

Ask = Callable[..., dict[str, Any]]


class Calibration:
    def __init__(self, memory: Memory, ask: Ask, commands: Callable[[], int]):
        """`ask` as of a CommandClient. `commands`: how many the newest step had obeyed; another number means that
        somebody has changed something."""
        self._machine = memory.machine
        self._places = {p.name: place for place, p in enumerate(self._machine.parameters)}
        self._ask, self._commands = ask, commands
        self._seen: int | None = None
        self.writes = self.refused = 0
        self.pages = {ECU: WORKING, XCP: WORKING}
        count = len(self._machine.parameters)
        self._first, self._working = np.zeros(count), np.zeros(count)
        self._live = np.zeros(count, bool)

    def begin(self) -> None:
        """A session begins: the master sees the working page."""
        self.pages[XCP] = WORKING

    # ---- bytes

    def read(self, offset: int, size: int) -> bytes:
        self._refresh()
        page = self._first if self.pages[XCP] == REFERENCE else self._working
        return page.tobytes()[offset : offset + size]

    def write(self, offset: int, data: bytes) -> None:
        if offset % WORD or len(data) % WORD or not data:
            raise XcpError(ACCESS_DENIED)
        if self.pages[XCP] == REFERENCE:
            raise XcpError(WRITE_PROTECTED)
        self._refresh()
        first = offset // WORD
        values = np.frombuffer(data, "<f8")
        self._set({first + k: float(value) for k, value in enumerate(values)})

    # ---- pages

    def set_page(self, mode: int, segment: int, page: int) -> None:
        if not mode & (ECU | XCP) or mode & ~(ECU | XCP | ALL):
            raise XcpError(MODE_NOT_VALID)
        self._check(segment if not mode & ALL else 0, page)
        if mode & ECU and page != self.pages[ECU]:
            self._refresh()
            wanted = self._first if page == REFERENCE else self._working
            self._send({int(place): float(wanted[place]) for place in np.flatnonzero(self._live)})
            self.pages[ECU] = page
        if mode & XCP:
            self.pages[XCP] = page

    def page(self, mode: int, segment: int) -> int:
        self._check(segment, WORKING)
        if mode not in (ECU, XCP):
            raise XcpError(MODE_NOT_VALID)
        return self.pages[mode]

    def copy(self, from_segment: int, from_page: int, to_segment: int, to_page: int) -> None:
        self._check(from_segment, from_page)
        self._check(to_segment, to_page)
        if to_page == REFERENCE:
            raise XcpError(WRITE_PROTECTED)
        if from_page == REFERENCE:
            self._refresh()
            places = np.flatnonzero(self._live & (self._first != self._working))
            self._set({int(place): float(self._first[place]) for place in places})

    def _check(self, segment: int, page: int) -> None:
        if segment != 0:
            raise XcpError(SEGMENT_NOT_VALID)
        if not 0 <= page < PAGES:
            raise XcpError(PAGE_NOT_VALID)

    # ---- the simulator

    def _set(self, wanted: dict[int, float]) -> None:
        """All of these, or none."""
        values = {place: value for place, value in wanted.items() if value != self._working[place]}
        for place, value in values.items():
            p = self._machine.parameters[place]
            if not self._live[place]:
                self.refused += 1
                raise XcpError(WRITE_PROTECTED)
            if fault_of(self._machine, self._places, p.name, value, True) is not None:
                self.refused += 1
                raise XcpError(OUT_OF_RANGE)
        if self.pages[ECU] == WORKING:
            self._send(values)
        for place, value in values.items():
            self._working[place] = value
        self.writes += len(values)

    def _send(self, values: dict[int, float]) -> None:
        if not values:
            return
        names = {self._machine.parameters[place].name: value for place, value in values.items()}
        answer = self._answer(names)
        if not answer["ok"]:
            self.refused += 1
            raise XcpError(CMD_BUSY if "not been obeyed yet" in answer["error"] else GENERIC)

    def _refresh(self) -> None:
        commands = self._commands()
        if commands == self._seen:
            return
        found = self._answer()["parameters"]
        named = [found[p.name] for p in self._machine.parameters if p.name in found]
        if len(named) != len(self._first):  # another machine than the one that is described
            raise XcpError(NOT_ACCESSIBLE_NOW)
        self._first[:] = [p["first"] for p in named]
        self._live[:] = [p["live"] for p in named]
        if self.pages[ECU] == WORKING or self._seen is None:
            self._working[:] = [p["value"] for p in named]
        self._seen = commands

    def _answer(self, values: dict[str, float] | None = None) -> dict[str, Any]:
        try:
            return self._ask(values)
        except NoSimulator:
            self._seen = None
            raise XcpError(NOT_ACCESSIBLE_NOW) from None
