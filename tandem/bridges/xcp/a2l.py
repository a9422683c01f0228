"""The description of the slave for a tool: ASAP2 (A2L) 1.71, made from the same memory that the slave answers from.

Every live parameter is a characteristic with its unit and limits (others are read-only), every channel a measurement
fixed to its event. The blocks of `IF_DATA XCP` are the standard's; their grammar, which a reader needs to read them,
stands in `A2ML`, for these blocks alone.
"""

import numpy as np

from sync.record.ros2msg import comment
from tandem.bridges.xcp import protocol as xcp
from tandem.bridges.xcp.memory import EPK, PARAMETERS, Event, Measured, Memory
from tandem.bridges.xcp.slave import OPTIONAL

_TYPES = {
    "i2": "SWORD", "u2": "UWORD", "i4": "SLONG", "u4": "ULONG", "i8": "A_INT64", "u8": "A_UINT64",
    "f4": "FLOAT32_IEEE", "f8": "FLOAT64_IEEE",
}  # fmt: skip
_VERSION = 0x0104
_TIMEOUTS_MS = (2000, 2000, 2000, 2000, 2000, 2000, 2000)
_NAMES = {
    getattr(xcp, name): name
    for name in [
        "GET_COMM_MODE_INFO",
        "GET_ID",
        "GET_SEED",
        "UNLOCK",
        "SET_MTA",
        "UPLOAD",
        "SHORT_UPLOAD",
        "BUILD_CHECKSUM",
        "DOWNLOAD",
        "SHORT_DOWNLOAD",
        "SET_CAL_PAGE",
        "GET_CAL_PAGE",
        "GET_PAG_PROCESSOR_INFO",
        "GET_SEGMENT_INFO",
        "GET_PAGE_INFO",
        "COPY_CAL_PAGE",
        "CLEAR_DAQ_LIST",
        "SET_DAQ_PTR",
        "WRITE_DAQ",
        "WRITE_DAQ_MULTIPLE",
        "SET_DAQ_LIST_MODE",
        "GET_DAQ_LIST_MODE",
        "START_STOP_DAQ_LIST",
        "START_STOP_SYNCH",
        "GET_DAQ_CLOCK",
        "READ_DAQ",
        "GET_DAQ_PROCESSOR_INFO",
        "GET_DAQ_RESOLUTION_INFO",
        "GET_DAQ_LIST_INFO",
        "GET_DAQ_EVENT_INFO",
        "FREE_DAQ",
        "ALLOC_DAQ",
        "ALLOC_ODT",
        "ALLOC_ODT_ENTRY",
    ]
}

# what IF_DATA holds here, in the language of A2ML
_GRAMMAR = """
block "IF_DATA" taggedunion if_data {
  "XCP" struct {
    taggedstruct {
      block "PROTOCOL_LAYER" struct {
        uint; uint; uint; uint; uint; uint; uint; uint; uchar; uint;
        enum { "BYTE_ORDER_MSB_LAST" = 0, "BYTE_ORDER_MSB_FIRST" = 1 };
        enum { "ADDRESS_GRANULARITY_BYTE" = 1, "ADDRESS_GRANULARITY_WORD" = 2, "ADDRESS_GRANULARITY_DWORD" = 4 };
        taggedstruct {
          ("OPTIONAL_CMD" enum { COMMANDS })*;
          "SEED_AND_KEY_EXTERNAL_FUNCTION" char[256];
        };
      };
      block "PAG" struct { uchar; };
      block "DAQ" struct {
        enum { "STATIC" = 0, "DYNAMIC" = 1 };
        uint; uint; uchar;
        enum { "OPTIMISATION_TYPE_DEFAULT" = 0 };
        enum { "ADDRESS_EXTENSION_FREE" = 0 };
        enum { "IDENTIFICATION_FIELD_TYPE_RELATIVE_BYTE" = 1 };
        enum { "GRANULARITY_ODT_ENTRY_SIZE_DAQ_BYTE" = 1 };
        uchar;
        enum { "NO_OVERLOAD_INDICATION" = 0, "OVERLOAD_INDICATION_EVENT" = 2 };
        taggedstruct {
          "PRESCALER_SUPPORTED";
          block "TIMESTAMP_SUPPORTED" struct { uint; enum { "SIZE_DWORD" = 4 }; enum { "UNIT_1US" = 3 }; };
          (block "EVENT" struct {
            char[101]; char[9]; uint; enum { "DAQ" = 1, "STIM" = 2, "DAQ_STIM" = 3 }; uchar; uchar; uchar; uchar;
          })*;
        };
      };
      block "XCP_ON_TCP_IP" struct { uint; uint; taggedstruct { "ADDRESS" char[16]; }; };
      block "XCP_ON_UDP_IP" struct { uint; uint; taggedstruct { "ADDRESS" char[16]; }; };
      block "SEGMENT" struct {
        uchar; uchar; uchar; uchar; uchar;
        taggedstruct {
          block "CHECKSUM" struct { enum { "XCP_CRC_32" = 9 }; taggedstruct { "MAX_BLOCK_SIZE" ulong; }; };
          (block "PAGE" struct {
            uchar;
            enum { "ECU_ACCESS_DONT_CARE" = 3 };
            enum { "XCP_READ_ACCESS_DONT_CARE" = 3 };
            enum { "XCP_WRITE_ACCESS_NOT_ALLOWED" = 0, "XCP_WRITE_ACCESS_DONT_CARE" = 3 };
            taggedstruct { "INIT_SEGMENT" uchar; };
          })*;
        };
      };
      block "DAQ_EVENT" taggedunion {
        "FIXED_EVENT_LIST" taggedstruct { ("EVENT" uint)*; };
      };
    };
  };
};
"""


def description(memory: Memory, host: str, port: int, tcp: bool = True, udp: bool = True, locked: bool = False) -> str:
    """`locked`: whether a key unlocks it."""
    lines = ["ASAP2_VERSION 1 71", f"/begin PROJECT tandem {_text(f'tandem, run {memory.name}')}"]
    lines += [f"/begin HEADER {_text('')}", f"VERSION {_text(memory.epk)}", "/end HEADER"]
    lines += [f"/begin MODULE tandem {_text(memory.machine.name)}", "/begin A2ML", *_grammar(), "/end A2ML"]
    lines += _interface(memory, host, port, tcp, udp, locked)
    lines += [
        f"/begin MOD_COMMON {_text('')}", "BYTE_ORDER MSB_LAST", "ALIGNMENT_BYTE 1", "ALIGNMENT_WORD 2",
        "ALIGNMENT_LONG 4", "ALIGNMENT_INT64 8", "ALIGNMENT_FLOAT32_IEEE 4", "ALIGNMENT_FLOAT64_IEEE 8",
        "/end MOD_COMMON",
        f"/begin MOD_PAR {_text('')}", f"ADDR_EPK 0x{EPK:X}", f"EPK {_text(memory.epk)}", *_segment(memory),
        "/end MOD_PAR",
        "/begin RECORD_LAYOUT number", "FNC_VALUES 1 FLOAT64_IEEE COLUMN_DIR DIRECT", "/end RECORD_LAYOUT",
    ]  # fmt: skip
    for place, (name, p) in enumerate(memory.parameters):
        lines += [
            f"/begin CHARACTERISTIC {name} {_text(p.text)}",
            f"VALUE 0x{PARAMETERS + 8 * place:X} number 0 NO_COMPU_METHOD {_number(p.low)} {_number(p.high)}",
            f"PHYS_UNIT {_text(p.unit)}", *["READ_ONLY"] * (not p.live and not p.shapes), "/end CHARACTERISTIC",
        ]  # fmt: skip
    for event in memory.events:
        for channel in event.channels:
            lines += _measurement(event, channel)
    lines += _groups(memory)
    return "\n".join([*lines, "/end MODULE", "/end PROJECT", ""])


def _grammar() -> list[str]:
    commands = ", ".join(f'"{name}" = {code}' for code, name in _NAMES.items())
    return _GRAMMAR.strip().replace("COMMANDS", commands).splitlines()


def _interface(memory: Memory, host: str, port: int, tcp: bool, udp: bool, locked: bool) -> list[str]:
    times = " ".join(f"0x{ms:04X}" for ms in _TIMEOUTS_MS)
    lines = [
        "/begin IF_DATA XCP", f"/begin PROTOCOL_LAYER 0x{_VERSION:04X} {times} 0x{xcp.MAX_CTO:02X} 0x{xcp.MAX_DTO:04X}",
        "BYTE_ORDER_MSB_LAST ADDRESS_GRANULARITY_BYTE", *(f"OPTIONAL_CMD {_NAMES[code]}" for code in OPTIONAL),
    ]  # fmt: skip
    lines += [f"SEED_AND_KEY_EXTERNAL_FUNCTION {_text('tandem_xcp_key')}"] * locked
    lines += [
        "/end PROTOCOL_LAYER", "/begin PAG 0x01", "/end PAG",
        f"/begin DAQ DYNAMIC 0x{xcp.MOST_LISTS:X} 0x{len(memory.events):X} 0x0 OPTIMISATION_TYPE_DEFAULT",
        "ADDRESS_EXTENSION_FREE IDENTIFICATION_FIELD_TYPE_RELATIVE_BYTE GRANULARITY_ODT_ENTRY_SIZE_DAQ_BYTE",
        f"0x{xcp.MAX_ENTRY:X} OVERLOAD_INDICATION_EVENT PRESCALER_SUPPORTED",
        "/begin TIMESTAMP_SUPPORTED 0x1 SIZE_DWORD UNIT_1US", "/end TIMESTAMP_SUPPORTED",
    ]  # fmt: skip
    for event in memory.events:
        count, unit = xcp.cycle(event.period_ns)
        name = _text(event.name)
        number = f"0x{event.number:X}"
        lines += [
            f"/begin EVENT {name} {name} {number} DAQ 0x{xcp.MOST_LISTS:X} 0x{count:X} 0x{unit:X} 0x0",
            "/end EVENT",
        ]
    lines.append("/end DAQ")
    for wanted, kind in ((tcp, "TCP"), (udp, "UDP")):
        if wanted:
            lines += [f"/begin XCP_ON_{kind}_IP 0x{_VERSION:04X} 0x{port:X} ADDRESS {_text(host)}"]
            lines += [f"/end XCP_ON_{kind}_IP"]
    return [*lines, "/end IF_DATA"]


def _segment(memory: Memory) -> list[str]:
    size = f"0x{memory.size:X}"
    lines = [f"/begin MEMORY_SEGMENT parameters {_text('of the machine')} DATA FLASH INTERN 0x{PARAMETERS:X} {size}"]
    lines += ["-1 -1 -1 -1 -1", "/begin IF_DATA XCP", "/begin SEGMENT 0x0 0x2 0x0 0x0 0x0"]
    lines += [f"/begin CHECKSUM XCP_CRC_32 MAX_BLOCK_SIZE 0x{xcp.MOST_CHECKED:X}", "/end CHECKSUM"]
    for page, write in enumerate(("DONT_CARE", "NOT_ALLOWED")):
        lines += [
            f"/begin PAGE 0x{page:X} ECU_ACCESS_DONT_CARE XCP_READ_ACCESS_DONT_CARE XCP_WRITE_ACCESS_{write}",
            "INIT_SEGMENT 0x0", "/end PAGE",
        ]  # fmt: skip
    return [*lines, "/end SEGMENT", "/end IF_DATA", "/end MEMORY_SEGMENT"]


def _measurement(event: Event, channel: Measured) -> list[str]:
    kind = np.dtype(channel.type)
    about = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    low, high = (f"{limit:d}" if kind.kind != "f" else _number(float(limit)) for limit in (about.min, about.max))
    return [
        f"/begin MEASUREMENT {channel.name} {_text(channel.text)}",
        f"{_TYPES[channel.type]} NO_COMPU_METHOD 0 0 {low} {high}",
        f"ECU_ADDRESS 0x{channel.address:X}", f"PHYS_UNIT {_text(channel.unit)}",
        f"/begin IF_DATA XCP /begin DAQ_EVENT FIXED_EVENT_LIST EVENT 0x{event.number:X} /end DAQ_EVENT /end IF_DATA",
        "/end MEASUREMENT",
    ]  # fmt: skip


def _groups(memory: Memory) -> list[str]:
    """Parameters as the page has them, and the channels of each event."""
    groups: dict[str, list[str]] = {}
    for name, p in memory.parameters:
        groups.setdefault(p.group_name, []).append(name)
    lines = []
    for number, (title, names) in enumerate(groups.items()):
        lines += [f"/begin GROUP parameters_{number} {_text(title)} ROOT", "/begin REF_CHARACTERISTIC"]
        lines += [*names, "/end REF_CHARACTERISTIC", "/end GROUP"]
    for event in memory.events:
        lines += [f"/begin GROUP event_{event.name} {_text(event.stream.holds)} ROOT", "/begin REF_MEASUREMENT"]
        lines += [*(channel.name for channel in event.channels), "/end REF_MEASUREMENT", "/end GROUP"]
    return lines


def _number(value: float) -> str:
    return repr(max(min(value, 1.7976931348623157e308), -1.7976931348623157e308))


def _text(text: str) -> str:
    """On one line, without what would end it."""
    return '"' + comment(text).replace("\\", "/").replace('"', "'")[:255] + '"'
