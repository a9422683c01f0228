"""The slave: an answer to every command of a master, by the standard, and never anything else.

It knows no socket: packets come in and go out as bytes (server.py carries them). Whatever comes, the answer is one of
the standard's, the simulator is changed only by what calibration.py sends it, and nothing grows. A master is connected
or not; another CONNECT begins a new session, without a DAQ list, in which all that a key protects is locked.

Seed & key: a resource is unlocked by HMAC-SHA-256, under the secret, of the seed and the number of the resource. A
seed is random and good for one attempt. A wrong key ends the session, as the standard has it. While it is locked, a
master learns the identity of the slave (GET_ID, the EPK) and no value.
"""

import hashlib
import hmac
import os
import struct
import zlib
from collections.abc import Callable

import numpy as np

from sync.clock import now_ns
from tandem.bridges.xcp import protocol as xcp
from tandem.bridges.xcp.calibration import PAGES, PROPERTIES, Calibration
from tandem.bridges.xcp.daq import DaqLists
from tandem.bridges.xcp.memory import EPK, PARAMETERS, Event, Memory
from tandem.bridges.xcp.protocol import XcpError

SEED_BYTES = 16
_TEXT = 0xFE  # the address extension of texts that GET_ID and GET_DAQ_EVENT_INFO point to
_OK = bytes((xcp.RESPONSE,))
_DYNAMIC, _PRESCALER, _STAMPS, _OVERLOAD_EVENT = 0x01, 0x02, 0x10, 0x80  # what DAQ lists can
_RELATIVE_BYTE = 0x40  # packets begin with the number of the ODT in its list and that of the list
_CONSISTENT_EVENT, _DAQ_ONLY = 0x80, 0x04
_CRC_32 = 0x09


def key_for(secret: bytes, seed: bytes, resource: int) -> bytes:
    return hmac.new(secret, seed + bytes((resource,)), hashlib.sha256).digest()


class Slave:
    def __init__(
        self, memory: Memory, calibration: Calibration, newest: Callable[[Event], np.ndarray | None],
        secret: bytes = b"", description: bytes = b"",
    ):  # fmt: skip
        """`newest`: the words of an event's newest block. `secret`: without one nothing is locked. `description`: the
        A2L, for a master that wants to upload it."""
        self.memory, self.calibration, self.daq = memory, calibration, DaqLists(memory)
        self.connected = False
        self._newest, self._secret, self._description = newest, secret, description
        self._locked = self._seed_for = 0
        self._seed = self._text = b""
        self._mta = (0, 0)
        self.counts = dict.fromkeys(("commands", "sessions", "errors", "unconnected", "malformed", "wrong_keys"), 0)

    def answer(self, packet: bytes) -> bytes | None:
        """The answer to a command; None where the standard has none: to a master that is not connected."""
        command = packet[0] if packet else -1
        if not self.connected and command != xcp.CONNECT:
            self.counts["unconnected"] += 1
            return None
        self.counts["commands"] += 1
        try:
            least, act = _COMMANDS.get(command, (0, _unknown))
            if len(packet) < least:
                raise XcpError(xcp.CMD_SYNTAX)
            if self._locked & xcp.NEEDS.get(command, 0):
                raise XcpError(xcp.ACCESS_LOCKED)
            return _OK + act(self, packet)
        except XcpError as error:
            self.counts["errors"] += error.code != xcp.CMD_SYNCH
            self.counts["malformed"] += error.code in (xcp.CMD_UNKNOWN, xcp.CMD_SYNTAX)
            return error.packet

    def leave(self) -> None:
        """The master has gone."""
        self.daq.stop_all()
        self.daq.free()
        self.connected = False
        self._seed = b""

    # ---- memory

    def read(self, extension: int, address: int, size: int) -> bytes:
        found = self._read(extension, address, size)
        if len(found) != size:
            raise XcpError(xcp.ACCESS_DENIED)
        return found

    def _read(self, extension: int, address: int, size: int) -> bytes:
        if extension == _TEXT:
            return self._text[address : address + size]
        if extension != 0:
            raise XcpError(xcp.ACCESS_DENIED)
        epk = self.memory.epk.encode()
        if EPK <= address < EPK + len(epk):
            return epk[address - EPK : address - EPK + size]
        if self._locked == xcp.RESOURCES:
            raise XcpError(xcp.ACCESS_LOCKED)
        if PARAMETERS <= address < PARAMETERS + self.memory.size:
            return self.calibration.read(address - PARAMETERS, size)
        measured = self.memory.event_at(address, size)
        if measured is None:
            raise XcpError(xcp.ACCESS_DENIED)
        words = self._newest(measured[0])
        if words is None:
            raise XcpError(xcp.NOT_ACCESSIBLE_NOW)
        return words.tobytes()[measured[1] : measured[1] + size]

    def write(self, extension: int, address: int, data: bytes) -> None:
        inside = address >= PARAMETERS and address + len(data) <= PARAMETERS + self.memory.size
        if extension == 0 and inside:
            self.calibration.write(address - PARAMETERS, data)
        elif extension == 0 and self.memory.event_at(address, max(len(data), 1)) is not None:
            raise XcpError(xcp.WRITE_PROTECTED)
        else:
            raise XcpError(xcp.ACCESS_DENIED)

    def _point(self, text: bytes) -> int:
        """The next upload is of this text."""
        self._text, self._mta = text, (_TEXT, 0)
        return len(text)

    # ---- standard commands

    def _connect(self, packet: bytes) -> bytes:
        self.leave()
        self.connected = True
        self.counts["sessions"] += 1
        self.calibration.begin()
        self._locked = xcp.RESOURCES if self._secret else 0
        self._mta, self._text = (0, 0), b""
        basic = 0x80  # little-endian, addresses of bytes; GET_COMM_MODE_INFO says more
        sizes = struct.pack("<BHBB", xcp.MAX_CTO, xcp.MAX_DTO, xcp.VERSION, xcp.VERSION)
        return bytes((xcp.RESOURCES, basic)) + sizes

    def _disconnect(self, packet: bytes) -> bytes:
        self.leave()
        return b""

    def _status(self, packet: bytes) -> bytes:
        return struct.pack("<BBBH", 0x40 * self.daq.running, self._locked, 0, 0)

    def _synch(self, packet: bytes) -> bytes:
        raise XcpError(xcp.CMD_SYNCH)

    def _modes(self, packet: bytes) -> bytes:
        return bytes((0, 0, 0, 0, 0, 0, 0x10))  # no blocks, no interleaving; version of this slave

    def _id(self, packet: bytes) -> bytes:
        name = self.memory.name.encode("ascii", "replace")
        texts = {0: name, 1: name, 2: name + b".a2l", 5: self.memory.epk.encode()}
        if self._locked != xcp.RESOURCES:
            texts[4] = self._description
        return struct.pack("<BHI", 0, 0, self._point(texts.get(packet[1], b"")))

    def _seed_of(self, packet: bytes) -> bytes:
        first, resource = packet[1], packet[2]
        if first != 0:
            raise XcpError(xcp.SEQUENCE)  # a seed comes in one piece
        if resource not in (xcp.CALIBRATION, xcp.DAQ):
            raise XcpError(xcp.OUT_OF_RANGE)
        locked = bool(self._locked & resource)
        self._seed, self._seed_for = os.urandom(SEED_BYTES) if locked else b"", resource
        return bytes((len(self._seed),)) + self._seed

    def _unlock(self, packet: bytes) -> bytes:
        if not self._seed:
            raise XcpError(xcp.SEQUENCE)
        seed, self._seed = self._seed, b""
        if not hmac.compare_digest(packet[2 : 2 + packet[1]], key_for(self._secret, seed, self._seed_for)):
            self.counts["wrong_keys"] += 1
            self.leave()
            raise XcpError(xcp.ACCESS_LOCKED)
        self._locked &= ~self._seed_for
        return bytes((self._locked,))

    def _set_mta(self, packet: bytes) -> bytes:
        self._mta = struct.unpack_from("<xxxBI", packet)
        return b""

    def _upload(self, packet: bytes) -> bytes:
        return self._uploaded(packet[1])

    def _short_upload(self, packet: bytes) -> bytes:
        size, self._mta = packet[1], struct.unpack_from("<xxxBI", packet)
        return self._uploaded(size)

    def _uploaded(self, size: int) -> bytes:
        if not 0 < size < xcp.MAX_CTO:
            raise XcpError(xcp.OUT_OF_RANGE)
        extension, address = self._mta
        found = self.read(extension, address, size)
        self._mta = extension, address + size
        return found

    def _checksum(self, packet: bytes) -> bytes:
        (size,) = struct.unpack_from("<xxxxI", packet)
        if not 0 < size <= xcp.MOST_CHECKED:
            raise XcpError(xcp.OUT_OF_RANGE, struct.pack("<HI", 0, xcp.MOST_CHECKED))
        extension, address = self._mta
        found = zlib.crc32(self.read(extension, address, size))
        self._mta = extension, address + size
        return struct.pack("<BHI", _CRC_32, 0, found)

    # ---- calibration

    def _download(self, packet: bytes) -> bytes:
        self._downloaded(packet[1], packet[2:])
        return b""

    def _short_download(self, packet: bytes) -> bytes:
        self._mta = struct.unpack_from("<xxxBI", packet)
        self._downloaded(packet[1], packet[8:])
        return b""

    def _downloaded(self, size: int, data: bytes) -> None:
        if len(data) < size:
            raise XcpError(xcp.CMD_SYNTAX)
        if size == 0:
            raise XcpError(xcp.OUT_OF_RANGE)
        extension, address = self._mta
        self.write(extension, address, data[:size])
        self._mta = extension, address + size

    def _set_page(self, packet: bytes) -> bytes:
        self.calibration.set_page(packet[1], packet[2], packet[3])
        return b""

    def _page(self, packet: bytes) -> bytes:
        return bytes((0, 0, self.calibration.page(packet[1], packet[2])))

    def _pages(self, packet: bytes) -> bytes:
        return bytes((1, 0))  # one segment, no freezing

    def _segment(self, packet: bytes) -> bytes:
        mode, segment, info = packet[1], packet[2], packet[3]
        if segment != 0:
            raise XcpError(xcp.SEGMENT_NOT_VALID)
        if mode == 0 and info < 2:
            return struct.pack("<BHI", 0, 0, (PARAMETERS, self.memory.size)[info])
        if mode == 1:
            return bytes((PAGES, 0, 0, 0, 0))
        raise XcpError(xcp.OUT_OF_RANGE)

    def _page_of_segment(self, packet: bytes) -> bytes:
        if packet[2] != 0:
            raise XcpError(xcp.SEGMENT_NOT_VALID)
        if packet[3] >= PAGES:
            raise XcpError(xcp.PAGE_NOT_VALID)
        return bytes((PROPERTIES[packet[3]], 0))

    def _copy_page(self, packet: bytes) -> bytes:
        self.calibration.copy(packet[1], packet[2], packet[3], packet[4])
        return b""

    # ---- DAQ

    def _processor(self, packet: bytes) -> bytes:
        what = _DYNAMIC | _PRESCALER | _STAMPS | _OVERLOAD_EVENT
        return struct.pack("<BHHBB", what, len(self.daq.lists), len(self.memory.events), 0, _RELATIVE_BYTE)

    def _resolution(self, packet: bytes) -> bytes:
        return struct.pack("<BBBBBH", 1, xcp.MAX_ENTRY, 1, 0, xcp.STAMP_MODE, 1)

    def _event(self, packet: bytes) -> bytes:
        (number,) = struct.unpack_from("<xxH", packet)
        if number >= len(self.memory.events):
            raise XcpError(xcp.OUT_OF_RANGE)
        event = self.memory.events[number]
        count, unit = xcp.cycle(event.period_ns)
        length = self._point(event.name.encode())
        return bytes((_CONSISTENT_EVENT | _DAQ_ONLY, xcp.MOST_LISTS, length, count, unit, 0))

    def _list(self, packet: bytes) -> bytes:
        (number,) = struct.unpack_from("<xxH", packet)
        _, found = self.daq.mode(number)
        most = max((len(odt) for odt in found.odts), default=0)
        return struct.pack("<BBBH", _DAQ_ONLY, len(found.odts), min(most, 255), 0)

    def _clock(self, packet: bytes) -> bytes:
        return struct.pack("<BHI", 0, 0, now_ns() // xcp.STAMP_NS & 0xFFFFFFFF)

    def _free(self, packet: bytes) -> bytes:
        self.daq.free()
        return b""

    def _allocate_lists(self, packet: bytes) -> bytes:
        self.daq.allocate_lists(*struct.unpack_from("<xxH", packet))
        return b""

    def _allocate_odts(self, packet: bytes) -> bytes:
        self.daq.allocate_odts(*struct.unpack_from("<xxHB", packet))
        return b""

    def _allocate_entries(self, packet: bytes) -> bytes:
        self.daq.allocate_entries(*struct.unpack_from("<xxHBB", packet))
        return b""

    def _pointer(self, packet: bytes) -> bytes:
        self.daq.point(*struct.unpack_from("<xxHBB", packet))
        return b""

    def _write_daq(self, packet: bytes) -> bytes:
        self.daq.write(*struct.unpack_from("<xBBBI", packet))
        return b""

    def _write_many(self, packet: bytes) -> bytes:
        if len(packet) < 2 + 8 * packet[1]:
            raise XcpError(xcp.CMD_SYNTAX)
        for bit, size, address, extension in struct.iter_unpack("<BBIBx", packet[2 : 2 + 8 * packet[1]]):
            self.daq.write(bit, size, extension, address)
        return b""

    def _read_daq(self, packet: bytes) -> bytes:
        entry = self.daq.read()
        return struct.pack("<BBBI", 0xFF, entry.size, 0, entry.address)

    def _clear(self, packet: bytes) -> bytes:
        self.daq.clear(*struct.unpack_from("<xxH", packet))
        return b""

    def _set_mode(self, packet: bytes) -> bytes:
        mode, number, event, prescaler, priority = struct.unpack_from("<xBHHBB", packet)
        self.daq.set_mode(number, mode, event, prescaler, priority)
        return b""

    def _mode(self, packet: bytes) -> bytes:
        mode, found = self.daq.mode(*struct.unpack_from("<xxH", packet))
        return struct.pack("<BHHBB", mode, 0, found.event, found.prescaler, found.priority)

    def _start_stop(self, packet: bytes) -> bytes:
        mode, number = struct.unpack_from("<xBH", packet)
        acts = (self.daq.stop, self.daq.start, self.daq.select)
        if mode >= len(acts):
            raise XcpError(xcp.MODE_NOT_VALID)
        acts[mode](number)
        return b"\0"  # its packets begin with ODT 0

    def _start_stop_all(self, packet: bytes) -> bytes:
        acts = (self.daq.stop_all, self.daq.start_selected, self.daq.stop_selected)
        if packet[1] >= len(acts):
            raise XcpError(xcp.MODE_NOT_VALID)
        acts[packet[1]]()
        return b""


def _unknown(slave: Slave, packet: bytes) -> bytes:
    raise XcpError(xcp.CMD_UNKNOWN)


# the commands there are: bytes that each has at least, and what it does
_COMMANDS: dict[int, tuple[int, Callable[[Slave, bytes], bytes]]] = {
    xcp.CONNECT: (2, Slave._connect), xcp.DISCONNECT: (1, Slave._disconnect), xcp.GET_STATUS: (1, Slave._status),
    xcp.SYNCH: (1, Slave._synch), xcp.GET_COMM_MODE_INFO: (1, Slave._modes), xcp.GET_ID: (2, Slave._id),
    xcp.GET_SEED: (3, Slave._seed_of), xcp.UNLOCK: (2, Slave._unlock), xcp.SET_MTA: (8, Slave._set_mta),
    xcp.UPLOAD: (2, Slave._upload), xcp.SHORT_UPLOAD: (8, Slave._short_upload),
    xcp.BUILD_CHECKSUM: (8, Slave._checksum),
    xcp.DOWNLOAD: (2, Slave._download), xcp.SHORT_DOWNLOAD: (8, Slave._short_download),
    xcp.SET_CAL_PAGE: (4, Slave._set_page), xcp.GET_CAL_PAGE: (3, Slave._page),
    xcp.GET_PAG_PROCESSOR_INFO: (1, Slave._pages), xcp.GET_SEGMENT_INFO: (5, Slave._segment),
    xcp.GET_PAGE_INFO: (4, Slave._page_of_segment), xcp.COPY_CAL_PAGE: (5, Slave._copy_page),
    xcp.GET_DAQ_PROCESSOR_INFO: (1, Slave._processor), xcp.GET_DAQ_RESOLUTION_INFO: (1, Slave._resolution),
    xcp.GET_DAQ_EVENT_INFO: (4, Slave._event), xcp.GET_DAQ_LIST_INFO: (4, Slave._list),
    xcp.GET_DAQ_CLOCK: (1, Slave._clock), xcp.FREE_DAQ: (1, Slave._free), xcp.ALLOC_DAQ: (4, Slave._allocate_lists),
    xcp.ALLOC_ODT: (5, Slave._allocate_odts), xcp.ALLOC_ODT_ENTRY: (6, Slave._allocate_entries),
    xcp.SET_DAQ_PTR: (6, Slave._pointer), xcp.WRITE_DAQ: (8, Slave._write_daq),
    xcp.WRITE_DAQ_MULTIPLE: (2, Slave._write_many), xcp.READ_DAQ: (1, Slave._read_daq),
    xcp.CLEAR_DAQ_LIST: (4, Slave._clear), xcp.SET_DAQ_LIST_MODE: (8, Slave._set_mode),
    xcp.GET_DAQ_LIST_MODE: (4, Slave._mode), xcp.START_STOP_DAQ_LIST: (4, Slave._start_stop),
    xcp.START_STOP_SYNCH: (2, Slave._start_stop_all),
}  # fmt: skip
OPTIONAL = tuple(code for code in _COMMANDS if code not in (xcp.CONNECT, xcp.DISCONNECT, xcp.GET_STATUS, xcp.SYNCH))
