"""Messages in the one form of our own (sync/transport/message.py), written and read by nopython code."""

import msgpack
import numpy as np

from sync.compile.jit import kernel
from sync.ring.block import Layout
from sync.transport.message import HEADER_KEYS, VERSION

# msgpack's codes for numbers of fixed width; any reader knows them, and a message then has a fixed form
_CODES = {"i2": 0xD1, "u2": 0xCD, "i4": 0xD2, "u4": 0xCE, "i8": 0xD3, "u8": 0xCF, "f4": 0xCA, "f8": 0xCB}
_HEADER_TYPES = ("u8", "u8", "i8", "i8", "i8")


class Form:
    """The form of a layout's messages: the bytes that never change, and where the numbers go.

    Our own messages are all of this form, so that nopython code writes or reads one in a microsecond.
    """

    def __init__(self, layout: Layout):
        self.layout = layout
        keys = [*HEADER_KEYS, *layout.names]
        kinds = [*_HEADER_TYPES, *(c.type for c in layout.channels)]
        places = [(word, 0) for word in range(len(HEADER_KEYS))] + [(row[0], row[1]) for row in layout.table.tolist()]
        text = bytearray(msgpack.Packer().pack_map_header(2 + len(keys)))
        text += msgpack.packb("version") + msgpack.packb(VERSION) + msgpack.packb("layout") + msgpack.packb(layout.id)
        fields = []
        changes = bytearray(len(text))
        for key, kind, (word, shift) in zip(keys, kinds, places, strict=True):
            size = int(kind[1])
            text += msgpack.packb(key) + bytes([_CODES[kind]])
            fields.append((len(text), size, word, shift))
            changes += bytes(len(text) - len(changes)) + b"\1" * size
            text += bytes(size)
        self.text = np.frombuffer(bytes(text), np.uint8)
        self.changes = np.frombuffer(bytes(changes), np.uint8)
        self.fields = np.array(fields, np.int64)  # (first byte, bytes, word of the block, bit shift)


@kernel()
def write_message(block, fields, message):
    """Write the numbers of a block into a message that has the form's text already."""
    for at, size, word, shift in fields:
        bits = block[word] >> shift
        for k in range(size - 1, -1, -1):
            message[at + k] = bits & 0xFF
            bits >>= 8


@kernel()
def read_message(message, text, changes, fields, block):
    """Fill `block` from a message; False if the message is not of this form."""
    if message.size != text.size:
        return False
    for i in range(text.size):
        if changes[i] == 0 and message[i] != text[i]:
            return False
    block[:] = 0
    for at, size, word, shift in fields:
        bits = np.int64(0)
        for k in range(size):
            bits = (bits << 8) | np.int64(message[at + k])
        block[word] |= bits << shift
    return True
