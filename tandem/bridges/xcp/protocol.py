"""The words of XCP 1.4 that the slave speaks: commands, answers, errors, bits; and its own sizes. Little-endian."""

import struct

# ---- what a packet begins with ---------------------------------------------------------------------------------------
RESPONSE, ERROR, EVENT = 0xFF, 0xFE, 0xFD

CONNECT, DISCONNECT, GET_STATUS, SYNCH = 0xFF, 0xFE, 0xFD, 0xFC
GET_COMM_MODE_INFO, GET_ID, SET_REQUEST, GET_SEED, UNLOCK = 0xFB, 0xFA, 0xF9, 0xF8, 0xF7
SET_MTA, UPLOAD, SHORT_UPLOAD, BUILD_CHECKSUM = 0xF6, 0xF5, 0xF4, 0xF3
DOWNLOAD, SHORT_DOWNLOAD = 0xF0, 0xED
SET_CAL_PAGE, GET_CAL_PAGE, GET_PAG_PROCESSOR_INFO = 0xEB, 0xEA, 0xE9
GET_SEGMENT_INFO, GET_PAGE_INFO, COPY_CAL_PAGE = 0xE8, 0xE7, 0xE4
CLEAR_DAQ_LIST, SET_DAQ_PTR, WRITE_DAQ, SET_DAQ_LIST_MODE, GET_DAQ_LIST_MODE = 0xE3, 0xE2, 0xE1, 0xE0, 0xDF
START_STOP_DAQ_LIST, START_STOP_SYNCH, GET_DAQ_CLOCK, READ_DAQ = 0xDE, 0xDD, 0xDC, 0xDB
GET_DAQ_PROCESSOR_INFO, GET_DAQ_RESOLUTION_INFO, GET_DAQ_LIST_INFO, GET_DAQ_EVENT_INFO = 0xDA, 0xD9, 0xD8, 0xD7
FREE_DAQ, ALLOC_DAQ, ALLOC_ODT, ALLOC_ODT_ENTRY, WRITE_DAQ_MULTIPLE = 0xD6, 0xD5, 0xD4, 0xD3, 0xC7

# resources, which can be locked; and the commands that need each
CALIBRATION, DAQ = 0x01, 0x04
RESOURCES = CALIBRATION | DAQ
NEEDS = {
    **dict.fromkeys((DOWNLOAD, SHORT_DOWNLOAD), CALIBRATION),
    **dict.fromkeys(range(COPY_CAL_PAGE, SET_CAL_PAGE + 1), CALIBRATION),
    **dict.fromkeys((*range(ALLOC_ODT_ENTRY, CLEAR_DAQ_LIST + 1), WRITE_DAQ_MULTIPLE), DAQ),
}

# ---- errors ----------------------------------------------------------------------------------------------------------
CMD_SYNCH, CMD_BUSY, DAQ_ACTIVE = 0x00, 0x10, 0x11
CMD_UNKNOWN, CMD_SYNTAX, OUT_OF_RANGE, WRITE_PROTECTED, ACCESS_DENIED, ACCESS_LOCKED = range(0x20, 0x26)
PAGE_NOT_VALID, MODE_NOT_VALID, SEGMENT_NOT_VALID, SEQUENCE, DAQ_CONFIG = range(0x26, 0x2B)
MEMORY_OVERFLOW, GENERIC, NOT_ACCESSIBLE_NOW = 0x30, 0x31, 0x33

EV_DAQ_OVERLOAD, EV_SESSION_TERMINATED = 0x06, 0x07

# ---- sizes -----------------------------------------------------------------------------------------------------------
VERSION = 1  # of the protocol and of the transport layer, their major numbers
MAX_CTO = 250  # bytes of a command or an answer: 31 numbers
MAX_DTO = 1400  # of measured data: within a frame of Ethernet
MAX_ENTRY = 248  # of one entry of a DAQ list
MOST_LISTS, MOST_ODTS, MOST_ENTRIES = 64, 64, 4096  # lists; ODTs of one; entries in all
DTO_HEAD = 2  # number of the ODT in its list, number of the list
STAMP_BYTES = 4
STAMP_NS = 1000  # a microsecond a tick: unit 3 of the standard
STAMP_MODE = 0x34  # that unit in the upper half, four bytes in the lower; a master chooses whether it wants them
MOST_CHECKED = 1 << 16  # bytes of one checksum

HEAD = struct.Struct("<HH")  # over Ethernet: length of the packet, number of it


class XcpError(Exception):
    """An error packet."""

    def __init__(self, code: int, more: bytes = b""):
        super().__init__(f"0x{code:02X}")
        self.code, self.more = code, more

    @property
    def packet(self) -> bytes:
        return bytes((ERROR, self.code)) + self.more


def cycle(period_ns: int) -> tuple[int, int]:
    """A period as XCP has it: a count and its unit, a power of ten of nanoseconds; (0, 3), not cyclic, where none of
    these fits."""
    for unit in range(10):
        count, rest = divmod(period_ns, 10**unit)
        if rest == 0 and 0 < count < 256:
            return count, unit
    return 0, 3
