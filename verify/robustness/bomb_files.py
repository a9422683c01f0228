"""Files of at most a megabyte that would take gigabytes or minutes of a reader that believes them.

`BOMBS` has them by format and name, each as a function that makes it.
"""

import struct
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import Channel as McapChannel
from mcap.records import Chunk, ChunkIndex, DataEnd, Header, McapRecord, Message, Metadata, Schema
from mcap.writer import MCAP0_MAGIC

from sync.record.ros2msg import to_definition
from sync.ring.block import Channel, Layout
from verify import ROOT

SIZE = 1_000_000
MB = 1 << 20
Maker = Callable[[], bytes]
BOMBS: dict[str, dict[str, Maker]] = {}


def bomb(kind: str) -> Callable[[Maker], Maker]:
    def keep(make: Maker) -> Maker:
        BOMBS.setdefault(kind, {})[make.__name__.replace("_", " ")] = make
        return make

    return keep


# ---- MCAP ------------------------------------------------------------------------------------------------------------


def packed(*records: McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return bytes(builder.end())


def _chunk(content: bytes, claimed: int | None = None, level: int = 3, **options: Any) -> bytes:
    data = zstandard.ZstdCompressor(level=level, **options).compress(content)
    size = len(content) if claimed is None else claimed
    return packed(Chunk("zstd", data, 0, 0, zlib.crc32(content), size))


def _record(*parts: bytes) -> bytes:
    start = Metadata("tandem.start", {"format": "2", "name": "somebody", "monotonic_ns": "0"})
    filling = max(SIZE - sum(map(len, parts)), 0)
    head = packed(Header("tandem", "somebody"), start) + struct.pack("<BQ", 200, filling) + bytes(filling)
    return bytes(MCAP0_MAGIC) + head + b"".join(parts) + packed(DataEnd(0)) + bytes(MCAP0_MAGIC)


def _topic(layout: Layout, name: str = "/daq", number: int = 1, stated: str | None = None) -> bytes:
    return packed(
        Schema(number, to_definition(name, layout), "ros2msg", "tandem/msg/Daq"),
        McapChannel(number, name, "cdr", {"layout": layout.text if stated is None else stated}, number),
    )


_ONE = Layout((Channel("a", "i2"),))


@bomb("mcap")
def one_chunk_of_zeros() -> bytes:
    return _record(_chunk(struct.pack("<BQ", 200, 60 * MB) + bytes(60 * MB)))


@bomb("mcap")
def hundreds_of_chunks() -> bytes:
    return _record(_chunk(struct.pack("<BQ", 200, 16 * MB) + bytes(16 * MB)) * 500)


@bomb("mcap")
def a_chunk_that_is_longer_than_it_says() -> bytes:
    return _record(_chunk(bytes(400 * MB), claimed=1000, write_content_size=False) * 3)


@bomb("mcap")
def millions_of_empty_records() -> bytes:
    return _record(_chunk(bytes([200, *bytes(8)]) * (40 * MB // 9)) * 50)


@bomb("mcap")
def millions_of_messages() -> bytes:
    return _record(_chunk(_topic(_ONE) + packed(Message(1, 0, b"", 0, 0)) * 1_000_000))


@bomb("mcap")
def a_layout_of_thousands_of_channels() -> bytes:
    layout = Layout(tuple(Channel(f"c{k}", "f8") for k in range(30_000)))
    return _record(_chunk(_topic(layout) + packed(Message(1, 0, b"", 0, 0)) * 10_000))


@bomb("mcap")
def millions_of_cdr_messages() -> bytes:
    return _record(_chunk(_topic(_ONE) + packed(Message(1, 0, b"", 0, 0)) * 1_000_000))


@bomb("mcap")
def a_cdr_layout_of_thousands_of_channels() -> bytes:
    layout = Layout(tuple(Channel(f"c{k}", "f8") for k in range(30_000)))
    return _record(_chunk(_topic(layout) + packed(Message(1, 0, b"", 0, 0)) * 10_000))


@bomb("mcap")
def a_cdr_layout_nested_without_end() -> bytes:
    return _record(_chunk(_topic(_ONE, stated="[" * 5_000_000)))


@bomb("mcap")
def thousands_of_topics() -> bytes:
    topics = b"".join(_topic(_ONE, f"/t{k}", k + 1) for k in range(3000))
    return _record(_chunk(topics + packed(Message(1, 0, b"", 0, 0)) * 100_000))


@bomb("mcap")
def a_message_index_that_is_named_again_and_again() -> bytes:
    """Damaged chunks behind each other; the index at the end says of each that the same long index belongs to it."""
    entries = struct.pack("<QQ", 1, 0) * 20_000
    chunks = packed(Chunk("zstd", b"rubbish", 0, 0, 0, 100))
    body = _record(chunks, struct.pack("<BQHI", Opcode.MESSAGE_INDEX, 6 + len(entries), 0, len(entries)) + entries)
    body = body[: -len(MCAP0_MAGIC)]
    first = body.index(chunks)
    offsets = dict.fromkeys(range(60_000), first + len(chunks))
    summary = packed(ChunkIndex(0, first, "", 0, 0, 0, offsets, 0, 0))
    tail = struct.pack("<BQQQ", Opcode.FOOTER, 20, len(body), 0)
    checksum = zlib.crc32(tail, zlib.crc32(summary))
    return body + summary + tail + struct.pack("<I", checksum) + bytes(MCAP0_MAGIC)


@bomb("mcap")
def thousands_of_damaged_chunks_and_a_false_index() -> bytes:
    chunk = packed(Chunk("zstd", b"", 0, 0, 0, 100)) + struct.pack("<BQHI", Opcode.MESSAGE_INDEX, 6, 0, 0)
    body = _record(chunk * 4000)[: -len(MCAP0_MAGIC)]
    summary = packed(*[Metadata("x", {"a": "b" * 1000})] * 500)
    return body + summary + struct.pack("<BQQQI", Opcode.FOOTER, 20, len(body), 0, 1) + bytes(MCAP0_MAGIC)


# ---- Parquet ---------------------------------------------------------------------------------------------------------

COLUMNS = ("t", "steering", "throttle", "brake")


def _parquet(rows: int, part: int = 1 << 20, **options: Any) -> bytes:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = BytesIO()
    schema = pa.schema([(name, pa.float64()) for name in COLUMNS])
    part = min(rows, part)
    with pq.ParquetWriter(stream, schema, **options) as writer:
        table = pa.table([np.zeros(part)] * len(COLUMNS), schema=schema)
        for first in range(0, rows, part):
            writer.write_table(table.slice(0, min(part, rows - first)), row_group_size=part)
    data = stream.getvalue()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:footer] + bytes(max(SIZE - len(data), 0)) + data[footer:]


@bomb("parquet")
def millions_of_rows_of_one_value() -> bytes:
    return _parquet(8_000_000, compression="zstd")


@bomb("parquet")
def pages_of_zeros() -> bytes:
    return _parquet(4_000_000, compression="zstd", use_dictionary=False, data_page_size=256 * MB)


@bomb("parquet")
def pages_that_hold_more_than_their_rows() -> bytes:
    """The footer of a small file behind the pages of a large one."""
    rows = 1 << 24
    large = _parquet(
        rows, rows, compression="zstd", use_dictionary=False, data_page_size=512 * MB, max_rows_per_page=rows,
        write_statistics=False, write_batch_size=rows,
    )  # fmt: skip
    length = int.from_bytes(large[-8:-4], "little")
    footer = large[-8 - length : -8]
    # the number of rows, twice 2**24 in seven bits a byte as Thrift writes it, becomes twice 2**13
    assert footer.count(b"\x80\x80\x80\x10") > len(COLUMNS)
    return large[: -8 - length] + footer.replace(b"\x80\x80\x80\x10", b"\x80\x80\x81\x00") + large[-8:]


# ---- MF4 -------------------------------------------------------------------------------------------------------------


def _deflated(size: int) -> bytes:
    """Zeros, packed a megabyte at a time; its checksum at the end is wrong, which is found out when it is too late."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x78\xda" + piece * (size // MB) + b"\x03\x00" + bytes(4)


class Mdf:
    """Blocks of an MDF 4.10 file with one group, one channel `t`; more can be linked."""

    def __init__(self, cycles: int = 10) -> None:
        self.data = bytearray(struct.pack("<8s8s8s4xH30xHH", b"MDF     ", b"4.10    ", b"x       ", 410, 0, 0))
        self.head = self.add(b"##HD", [0] * 6, struct.pack("<QhhBBBx2d", 0, 0, 0, 0, 0, 0, 0, 0))
        self.link(self.head, 1, self.add(b"##FH", [0, 0], bytes(16)))
        self.text = self.add(b"##TX", [], b"t\0\0\0\0\0\0\0")
        self.group = self.add(b"##DG", [0] * 4, bytes(8))
        self.link(self.head, 0, self.group)
        self.records = self.add(b"##CG", [0] * 6, struct.pack("<QQHH4xII", 0, cycles, 0, 0, 8, 0))
        self.link(self.group, 1, self.records)
        self.master = self.channel(kind=2, sync=1, bits=64, data_type=4)
        self.link(self.records, 1, self.master)
        self.value = self.channel(bits=64, data_type=4, text=self.add(b"##TX", [], b"v\0\0\0\0\0\0\0"))
        self.link(self.master, 0, self.value)

    def add(self, kind: bytes, links: list[int], content: bytes = b"") -> int:
        place, length = len(self.data), 24 + 8 * len(links) + len(content)
        self.data += struct.pack("<4sIQQ", kind, 0, length, len(links)) + struct.pack(f"<{len(links)}Q", *links)
        self.data += content + bytes(-length % 8)
        return place

    def link(self, place: int, number: int, target: int) -> None:
        struct.pack_into("<Q", self.data, place + 24 + 8 * number, target)

    def channel(self, kind: int = 0, sync: int = 0, bits: int = 8, data_type: int = 0, text: int = 0) -> int:
        content = struct.pack("<BBBBIIIIBBH6d", kind, sync, data_type, 0, 0, bits, 0, 0, 0, 0, 0, *[0.0] * 6)
        return self.add(b"##CN", [0, 0, text or self.text, 0, 0, 0, 0, 0], content)

    def conversion(self, names: list[int]) -> int:
        return self.add(b"##CC", [0, 0, 0, 0, *names], struct.pack("<BBHHHddd", 7, 0, 0, len(names), 1, 0, 0, 1.0))

    def file(self) -> bytes:
        return bytes(self.data) + bytes(max(SIZE - len(self.data), 0))

    def zipped(self, size: int, claimed: int | None = None) -> int:
        data = _deflated(size)
        content = struct.pack("<2sBBIQQ", b"DT", 0, 0, 0, size if claimed is None else claimed, len(data)) + data
        return self.add(b"##DZ", [], content)


@bomb("mf4")
def a_list_of_channels_that_ends_in_itself() -> bytes:
    mdf = Mdf()
    mdf.link(mdf.value, 0, mdf.master)
    return mdf.file()


@bomb("mf4")
def a_list_of_data_that_ends_in_itself() -> bytes:
    mdf = Mdf()
    part = mdf.add(b"##DT", [], bytes(80))
    data = mdf.add(b"##DL", [0, part], struct.pack("<B3xIQ", 1, 1, 80))
    mdf.link(data, 0, data)
    mdf.link(mdf.group, 2, data)
    return mdf.file()


@bomb("mf4")
def groups_that_share_their_channels() -> bytes:
    mdf = Mdf()
    last = mdf.value
    for _ in range(1000):
        channel = mdf.channel()
        mdf.link(last, 0, channel)
        last = channel
    group = mdf.group
    while len(mdf.data) < SIZE:
        other = mdf.add(b"##DG", [0, mdf.records, 0, 0], bytes(8))
        mdf.link(group, 0, other)
        group = other
    return mdf.file()


@bomb("mf4")
def conversions_that_name_the_next_one_twice() -> bytes:
    mdf = Mdf()
    conversion = mdf.conversion([mdf.text, mdf.text])
    for _ in range(40):
        conversion = mdf.conversion([conversion, conversion])
    mdf.link(mdf.master, 4, conversion)
    return mdf.file()


@bomb("mf4")
def a_billion_records_in_eighty_bytes() -> bytes:
    mdf = Mdf(cycles=10**9)
    mdf.link(mdf.group, 2, mdf.add(b"##DT", [], bytes(80)))
    return mdf.file()


@bomb("mf4")
def zipped_data_of_a_gigabyte() -> bytes:
    mdf = Mdf(cycles=10**9 // 8)
    mdf.link(mdf.group, 2, mdf.zipped(960 * MB))
    return mdf.file()


@bomb("mf4")
def zipped_data_that_is_longer_than_it_says() -> bytes:
    mdf = Mdf(cycles=1000)
    mdf.link(mdf.group, 2, mdf.zipped(960 * MB, claimed=8000))
    return mdf.file()


@bomb("mf4")
def an_attachment_of_a_gigabyte() -> bytes:
    mdf = Mdf()
    mdf.link(mdf.group, 2, mdf.add(b"##DT", [], bytes(80)))
    name = mdf.add(b"##TX", [], b"tandem.json\0\0\0\0\0")
    data = _deflated(960 * MB)
    content = struct.pack("<HHI16sQQ", 3, 0, 0, bytes(16), 1000, len(data)) + data
    mdf.link(mdf.head, 3, mdf.add(b"##AT", [0, name, 0, 0], content))
    return mdf.file()


# ---- text ------------------------------------------------------------------------------------------------------------


@bomb("toml")
def a_dotted_key() -> bytes:
    return b"a" + b".a" * (SIZE // 2 - 10) + b" = 1\n"


@bomb("toml")
def a_dotted_key_of_forty_kilobytes() -> bytes:
    return b"a" + b" .\ta" * 10_000 + b" = 1\n"


@bomb("toml")
def many_dotted_tables() -> bytes:
    return b"".join(b"[x%d%s]\n" % (k, b".a" * 400) for k in range(300))


@bomb("toml")
def a_dotted_key_in_quotes() -> bytes:
    return b'"a"' + b'."a"' * 10_000 + b" = 1\n"


@bomb("toml")
def brackets() -> bytes:
    return b"a = " + b"[" * 100_000 + b"]" * 100_000 + b"\n"


@bomb("toml")
def quotes_that_never_close() -> bytes:
    return b'a = "' + b'\\"' * 120_000


@bomb("toml")
def unknown_keys() -> bytes:
    return b"".join(b"key_%d = 1\n" % k for k in range(16_000))


@bomb("toml")
def empty_tables() -> bytes:
    return b"a = [" + b"{}," * 80_000 + b"]\n"


@bomb("toml")
def a_megabyte_of_settings() -> bytes:
    return b"".join(b"k%d = [1, 2, 3]\n" % k for k in range(60_000))


_CAR = (ROOT / "configs" / "vehicles" / "buggy.toml").read_bytes()


@bomb("car")
def unknown_parameters() -> bytes:
    parameters = b"".join(b"sprung_mass_%d = 1.0\n" % k for k in range(10_000))
    return _CAR.replace(b"[parameters]\n", b"[parameters]\n" + parameters)


@bomb("car")
def unknown_points() -> bytes:
    points = b"".join(b"UBJ%d = [1, 1, 1]\n" % k for k in range(11_000))
    return _CAR.replace(b"UBJ = ", points + b"UBJ = ", 1)


_DBC = b'VERSION ""\n\nNS_ :\n\nBS_:\n\nBU_: A\n\n'
_SIGNAL = b' SG_ S%d %s: 8|8@1+ (1,0) [0|255] "x" A\n'


@bomb("dbc")
def thousands_of_multiplexed_signals() -> bytes:
    signals = b"".join(_SIGNAL % (k, b"m%d " % k) for k in range(1, 6000))
    return _DBC + b'BO_ 1 M: 8 A\n SG_ X M : 0|8@1+ (1,0) [0|255] "x" A\n' + signals


@bomb("dbc")
def a_megabyte_of_signals() -> bytes:
    return _DBC + b"BO_ 1 M: 8 A\n" + b"".join(_SIGNAL % (k, b"") for k in range(18_000))


@bomb("dbc")
def a_range_of_four_billion_values() -> bytes:
    signals = b' SG_ P M : 0|8@1+ (1,0) [0|255] "" A\n' + _SIGNAL % (1, b"m0 ")
    return _DBC + b"BO_ 1 M: 8 A\n" + signals + b"\nSG_MUL_VAL_ 1 S1 P 0-4000000000;\n"


@bomb("dbc")
def a_number_of_a_million_digits() -> bytes:
    return _DBC + b"BO_ 1 M: 8 A\n SG_ S : 0|8@1+ (" + b"1" * 900_000 + b',0) [0|255] "x" A\n'


@bomb("dbc")
def a_signal_in_gigabytes() -> bytes:
    return _DBC + b'BO_ 1 M: 8 A\n SG_ S : 40000000000|8@1+ (1,0) [0|255] "x" A\n'


@bomb("dbc")
def a_signal_in_gigabytes_behind_a_comment() -> bytes:
    return _DBC + b'BO_ 1 M: 8 A\n SG_ S : 0|//\n800000000@1+ (1,0) [0|255] "x" A\n'


@bomb("dbc")
def a_signal_in_gigabytes_behind_a_comment_that_a_carriage_return_ends() -> bytes:
    return _DBC + b'BO_ 1 M: 8 A\n SG_ S : 0|//\r+800000000@1+ (1,0) [0|255] "x" A\n'


@bomb("dbc")
def a_frame_of_gigabytes_behind_a_comment() -> bytes:
    return _DBC + b'BO_ 1 M: //\n1000000000 A\n SG_ S : 0|8@1+ (1,0) [0|255] "x" A\n'


@bomb("dbc")
def a_frame_of_gigabytes_without_blanks() -> bytes:
    return _DBC + b'BO_ 1M:1000000000A\n SG_ S : 0|8@1+ (1,0) [0|255] "x" A\n'


@bomb("dbc")
def multiplexed_signals_behind_comments_and_units_that_begin_messages() -> bytes:
    signals = b"".join(_SIGNAL.replace(b'"x"', b'" BO_ "') % (k, b"//\nm%d " % k) for k in range(1, 6000))
    return _DBC + b'BO_ 1 M: 8 A\n SG_ X M : 0|8@1+ (1,0) [0|255] "x" A\n' + signals


@bomb("dbc")
def a_range_that_begins_far_below_zero() -> bytes:
    signals = b' SG_ P M : 0|8@1+ (1,0) [0|255] "" A\n' + _SIGNAL % (1, b"m0 ")
    return _DBC + b"BO_ 1 M: 8 A\n" + signals + b"\nSG_MUL_VAL_ 1 S1 P //\n-4000000000//;\n -5;\n"


@bomb("dbc")
def an_attribute_with_a_billion_digits() -> bytes:
    return _DBC + b'BO_ 1 M: 8 A\n\nBA_DEF_ "a" INT 0 1;\nBA_DEF_DEF_ "a" 0;\nBA_ "a" 1e999999999;\n'


@bomb("dbc")
def slashes() -> bytes:
    return _DBC + b"/" * 320_000


@bomb("dbc")
def a_hundred_thousand_nodes() -> bytes:
    return b'VERSION ""\n\nBU_: ' + b" ".join(b"N%d" % k for k in range(120_000)) + b"\n"


@bomb("tir")
def sections_without_owner() -> bytes:
    return b"".join(b"[SOMETHING_ELSE_%d]\n" % k for k in range(40_000))


@bomb("tir")
def lines_that_almost_match() -> bytes:
    return b"[MODEL]\n" + b"".join(b"A%d =%s'x\n" % (k, b" " * 900) for k in range(1000))


@bomb("tir")
def one_line() -> bytes:
    return b"[MODEL]\nFITTYP = " + b"1" * 950_000


@bomb("tir")
def known_keys_again_and_again() -> bytes:
    return b"[MODEL]\n" + b"FITTYP = 6\n" * 90_000


_ROWS = b"SA,FZ,FY\n"


@bomb("csv")
def a_heading_of_a_megabyte() -> bytes:
    return b"a" * SIZE


@bomb("csv")
def half_a_million_columns() -> bytes:
    return b"SA,FZ,FY" + b"," * 500_000 + b"\n"


@bomb("csv")
def rows_without_numbers() -> bytes:
    return _ROWS + b",,\n" * 330_000


@bomb("csv")
def a_number_of_a_megabyte_in_a_row() -> bytes:
    return _ROWS + b"1" * SIZE + b",1,1\n"


_CRG = "$ROAD_CRG\nREFERENCE_LINE_INCREMENT = {increment}\n{more}$\n$KD_DEFINITION\n#:{form}\n{channels}$\n$$$$\n"


def _crg(form: str, payload: bytes, increment: str = "1.0", more: str = "", columns: int = 2) -> bytes:
    channels = "".join(f"D:long section at v = {k}, m\n" for k in range(columns))
    return _CRG.format(increment=increment, more=more, form=form, channels=channels).encode() + payload


@bomb("crg")
def a_number_that_is_almost_one() -> bytes:
    return _crg("KRBI", bytes(16), increment="1" * 900_000 + "x")


@bomb("crg")
def a_grid_of_a_billion_rows() -> bytes:
    return _crg("KRBI", bytes(80), more="REFERENCE_LINE_START_U = 0\nREFERENCE_LINE_END_U = 1e9\n")


@bomb("crg")
def ten_thousand_columns() -> bytes:
    return _crg("KRBI", bytes(500_000), columns=10_000)


@bomb("crg")
def lines_of_one_character() -> bytes:
    return _crg("LRFI", b"1\n" * 450_000)


@bomb("crg")
def holes_everywhere() -> bytes:
    return _crg("KRBI", struct.pack(">2f", float("nan"), 0.0) * 120_000)


@bomb("crg")
def a_head_without_end() -> bytes:
    return b"$CT\n" + b"x\n" * 490_000


# ---- FMU: modelDescription.xml of 32 MiB, of which deflate makes thirty kilobytes -----------------------------------

_XML = 32 * MB


def _fmu(*content: bytes, first: bytes = b'<fmiModelDescription fmiVersion="3.0">', **entries: bytes) -> bytes:
    """An archive with this description, cut off at what is read of one; it need not end."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", (first + b"".join(content))[:_XML])
        for name, each in entries.items():
            archive.writestr(name, each)
    return stream.getvalue()


@bomb("fmu")
def eight_million_elements() -> bytes:
    return _fmu(b"<a/>" * (8 * MB))


@bomb("fmu")
def eight_million_elements_of_variables() -> bytes:
    return _fmu(b"<ModelVariables>" + b"<a/>" * (8 * MB))


@bomb("fmu")
def inputs_without_end() -> bytes:
    return _fmu(b"<ModelVariables>", b'<a causality="input" name="a" unit="b" start="1" min="1" max="1"/>' * 500_000)


@bomb("fmu")
def one_tag_of_millions_of_attributes() -> bytes:
    return _fmu(b"<a ", b" ".join(b'a%x=""' % k for k in range(140_000)))


@bomb("fmu")
def one_attribute_of_thirty_megabytes() -> bytes:
    return _fmu(b'<a b="', b"x" * _XML)


@bomb("fmu")
def a_comment_of_thirty_megabytes() -> bytes:
    return _fmu(b"<!--", b"x" * _XML)


@bomb("fmu")
def names_without_end() -> bytes:
    return _fmu(b"".join(b"<a%x/>" % k for k in range(200_000)))


@bomb("fmu")
def millions_of_elements_inside_each_other() -> bytes:
    return _fmu(b"<a>" * (10 * MB))


@bomb("fmu")
def entities_of_entities() -> bytes:
    levels = b"".join(b'<!ENTITY e%d "%s">' % (k + 1, b"&e%d;" % k * 10) for k in range(9))
    return _fmu(b"&e9;", first=b'<!DOCTYPE a [<!ENTITY e0 "x">' + levels + b"]><fmiModelDescription>")


@bomb("fmu")
def twenty_thousand_entries_and_more() -> bytes:
    """As the directory of the archive has them; there need be nothing in front of it."""
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<H", 1) + bytes(16) + b"a"
    content = entry * 40_000
    return content + b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 40_000, 40_000, len(content), 0, 0)


def write_all(folder: Path) -> None:
    """All of them, as KIND/NAME.KIND."""
    for kind, named in BOMBS.items():
        for name, make in named.items():
            (folder / kind / name).mkdir(parents=True)
            (folder / kind / name / f"bomb.{kind}").write_bytes(make())
