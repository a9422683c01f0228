"""Inputs for verify/robustness/fuzz.py: real ones, changed. The same seed makes the same input.

What a checksum or a parser would turn away at the door is changed inside and made sound again outside: a tree of TOML
or msgpack is changed as a tree and written again, a chunk of a record gets its length and checksum right again. A part
of the inputs is left broken, for the doors are to be tried too.
"""

import hashlib
import json
import re
import struct
import zlib
from random import Random
from typing import Any

import msgpack
import zstandard

INTEGERS = (
    0, 1, -1, 2, 3, 7, 16, 63, 64, 65, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536, 10**6, 2**31 - 1, 2**31,
    -(2**31), 2**32 - 1, 2**32, 10**12, 2**53, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**64), 10**30,
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 0.5, 1.0, -1.0, 1e-3, 1e-9, 1e-12, 1e-300, 5e-324, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e100, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), 2.0**53, 0.1, -0.5, 3.14159, 1e-6, 20.0, 100.0,
)  # fmt: skip
WORDS = (
    "",
    " ",
    "x",
    "None",
    "true",
    "../..",
    "/",
    "\0",
    "é",
    "\ud7ff",
    "%s",
    "{}",
    "[",
    "a" * 300,
    "1e400",
    "-",
    "nan",
)
NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?")
TOKEN = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*|[+-]?\d[\d.eE+-]*|\s+|.", re.S)
NUMBER_TEXTS = tuple(
    text.encode()
    for text in (
        "0", "-0", "1", "-1", "0.0", "1e308", "-1e308", "1e-308", "1e400", "nan", "inf", "-inf", "1e6", "1e9", "1e12",
        "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616", "4294967295",
        "65535", "65536", "1_0", "0x1f", "00", ".5", "5.", "1e", "1d3", "1e-9", "1000000", "2", "64", "3.5", "9" * 400,
    )
)  # fmt: skip


def few(r: Random) -> int:
    """How often: mostly once."""
    return r.choice((1, 1, 1, 1, 2, 2, 3, 5, 9))


# ---- bytes and text --------------------------------------------------------------------------------------------------


def changed_bytes(r: Random, data: bytes, others: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(few(r)):
        at = r.randrange(len(out) + 1)
        kind = r.randrange(10)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << r.randrange(8)
        elif kind == 1 and out:
            out[at % len(out)] = r.choice((0, 0x7F, 0x80, 0xFF, 0xC0, 0xC1, 0xDF, 0xDD, r.randrange(256)))
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + r.choice((1, 1, 2, 4, 8, 64))]
        elif kind == 4:
            out[at:at] = out[at : at + r.choice((1, 4, 16, 256))]
        elif kind == 5:
            out[at:at] = r.randbytes(r.choice((1, 2, 4, 8, 32)))
        elif kind == 6:
            other = r.choice(others)
            begin = r.randrange(len(other) + 1)
            out[at : at + r.choice((0, 8, 64))] = other[begin : begin + r.choice((8, 64, 512))]
        elif kind == 7 and len(out) >= 8:
            size = r.choice((2, 4, 8))
            at = r.randrange(len(out) - size + 1)
            value = r.choice(INTEGERS) & ((1 << 8 * size) - 1)
            out[at : at + size] = value.to_bytes(size, r.choice(("big", "little")))
        elif kind == 8 and out:
            begin = r.randrange(len(out))
            size = r.choice((1, 2, 4, 8, 32))
            out[at : at + size] = out[begin : begin + size]
        else:
            out[at:at] = bytes([r.randrange(256)]) * r.choice((1, 10, 1000))
    return bytes(out)


def changed_ends(r: Random, data: bytes, others: list[bytes], last: int) -> bytes:
    """Half of them in the last so many bytes, where a file of columns describes itself, with its length kept."""
    if r.random() < 0.5 or last >= len(data):
        return changed_bytes(r, data, others)
    out = bytearray(data)
    for _ in range(few(r)):
        at = len(out) - 1 - r.randrange(last)
        out[at] = r.choice((0, 1, 0x7F, 0x80, 0xFF, out[at] ^ 1 << r.randrange(8), r.randrange(256)))
    return bytes(out)


def changed_blocks(r: Random, data: bytes, others: list[bytes]) -> bytes:
    """A file of MDF: mostly words inside its blocks (lengths, links, counts, sizes), which stay where they are."""
    places = [found.start() for found in re.finditer(rb"##[A-Z]{2}", data)]
    if not places or r.random() < 0.2:
        return changed_bytes(r, data, others)
    out = bytearray(data)
    for _ in range(few(r)):
        at = r.choice(places) + r.choice((0, 2, 8, 16, 24, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120))
        kind = r.random()
        if at + 8 > len(out):
            continue
        if kind < 0.25:  # a link to another block
            out[at : at + 8] = r.choice(places).to_bytes(8, "little")
        elif kind < 0.5:
            out[at : at + 8] = (r.choice(INTEGERS) & (2**64 - 1)).to_bytes(8, "little")
        elif kind < 0.75:
            size = r.choice((1, 2, 4))
            out[at : at + size] = (r.choice(INTEGERS) & (2 ** (8 * size) - 1)).to_bytes(size, "little")
        else:
            out[at + r.randrange(8)] = r.choice((0, 1, 2, 3, 7, 8, 16, 0x7F, 0x80, 0xFF, r.randrange(256)))
    return bytes(out)


def changed_text(r: Random, data: bytes, others: list[bytes]) -> bytes:
    """By numbers, words and lines."""
    for _ in range(few(r)):
        kind = r.randrange(9)
        if kind <= 2:
            numbers = list(NUMBER.finditer(data))
            if numbers:
                found = r.choice(numbers)
                data = data[: found.start()] + r.choice(NUMBER_TEXTS) + data[found.end() :]
        elif kind == 3:
            tokens = TOKEN.findall(data)
            if tokens:
                one, other = r.randrange(len(tokens)), r.randrange(len(tokens))
                tokens[one], tokens[other] = tokens[other], tokens[one]
                data = b"".join(tokens)
        elif kind == 4:
            tokens = TOKEN.findall(data)
            if tokens:
                tokens[r.randrange(len(tokens))] = r.choice(TOKEN.findall(r.choice(others)) or [b""])
                data = b"".join(tokens)
        elif kind == 5:
            lines = data.split(b"\n")
            one = r.randrange(len(lines))
            lines[one : one + 1] = r.choice(([], [lines[one]] * 2, [r.choice(lines), lines[one]]))
            data = b"\n".join(lines)
        elif kind == 6:
            lines = data.split(b"\n")
            lines.insert(r.randrange(len(lines) + 1), r.choice(r.choice(others).split(b"\n")))
            data = b"\n".join(lines)
        elif kind == 7:
            at = r.randrange(len(data) + 1)
            data = data[:at] + r.choice(WORDS).encode() + data[at:]
        else:
            data = changed_bytes(r, data, others)
    return data


# ---- trees -----------------------------------------------------------------------------------------------------------


def a_value(r: Random, like: Any = None) -> Any:
    if isinstance(like, bool) and r.random() < 0.5:
        return not like
    if isinstance(like, int | float) and not isinstance(like, bool) and r.random() < 0.6:
        scaled = like * r.choice((0.5, 2, -1, 1.01, 10, 100, 1e-3)) + r.choice((0, 0, 1, -1))
        return int(scaled) if isinstance(like, int) and abs(scaled) < 2**70 else scaled
    kind = r.randrange(12)
    if kind < 3:
        return r.choice(INTEGERS)
    if kind < 6:
        return r.choice(FLOATS)
    if kind < 8:
        return r.choice(WORDS)
    if kind == 8:
        return r.choice((True, False))
    if kind == 9:
        return [like] * r.choice((0, 1, 2, 3, 20))
    if kind == 10:
        return {"a": like} if like is not None else {}
    deep: Any = 1
    for _ in range(r.choice((3, 30, 200))):
        deep = [deep]
    return deep


def _places(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        found.append((tree, key))
        _places(tree[key], found)
    return found


def _copy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree


def changed_tree(r: Random, tree: Any, known: list[Any], others: list[Any]) -> Any:
    """Values, keys and branches of a tree changed; `known` are keys that mean something somewhere."""
    tree = _copy(tree)
    for _ in range(few(r)):
        places = _places(tree, [])
        if not places:
            return tree
        # leaves first: a whole table replaced hides what is below
        leaves = [p for p in places if not isinstance(p[0][p[1]], dict | list)]
        holder, key = r.choice(leaves if leaves and r.random() < 0.7 else places)
        kind = r.randrange(12)
        if kind < 6:
            holder[key] = a_value(r, holder[key])
        elif kind == 6:
            del holder[key]
        elif kind == 7 and isinstance(holder, dict):
            holder[r.choice(known) if known and r.random() < 0.8 else r.choice(WORDS)] = holder.pop(key)
        elif kind == 8 and isinstance(holder, dict) and known:
            holder[r.choice(known)] = a_value(r, holder[key])
        elif kind == 9 and isinstance(holder, list):
            holder[key:key] = [_copy(holder[key])] * r.choice((1, 2, 100))
        elif kind == 10:
            other, from_key = r.choice(_places(r.choice(others), []) or [(holder, key)])
            holder[key] = _copy(other[from_key])
        else:
            other, from_key = r.choice(places)
            if other is not holder and from_key in (other if isinstance(other, dict) else range(len(other))):
                holder[key] = _copy(other[from_key])
    return tree


def keys_of(trees: list[Any]) -> list[str]:
    return sorted({key for tree in trees for holder, key in _places(tree, []) if isinstance(key, str)})


def toml(tree: dict[str, Any]) -> bytes:
    """The tree as TOML: a line a key, tables inline."""
    return "".join(f"{_key(key)} = {_inline(value)}\n" for key, value in tree.items()).encode("utf-8", "replace")


def _key(key: Any) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)
    return repr(value) if isinstance(value, int | float) else str(value)


def packed(r: Random, tree: Any) -> bytes:
    try:
        return bytes(msgpack.packb(tree, use_single_float=r.random() < 0.1))
    except (OverflowError, ValueError, TypeError):
        return bytes(msgpack.packb(_fitting(tree), default=str))


def _fitting(tree: Any) -> Any:
    """With integers that msgpack can hold."""
    if isinstance(tree, dict):
        return {key: _fitting(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_fitting(value) for value in tree[:50]] if _depth(tree) < 100 else []
    if isinstance(tree, int) and not -(2**63) <= tree < 2**64:
        return tree & (2**64 - 1)
    return tree


def _depth(tree: Any) -> int:
    depth = 0
    while isinstance(tree, list) and tree:
        tree, depth = tree[0], depth + 1
    return depth


# ---- records ---------------------------------------------------------------------------------------------------------

MAGIC = b"\x89MCAP0\r\n"
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _ATTACHMENT, _METADATA = 3, 4, 5, 6, 9, 12


def records(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 9 <= len(data):
        opcode, length = struct.unpack_from("<BQ", data, at)
        found.append((opcode, data[at + 9 : at + 9 + length]))
        at += 9 + length
    return found


def joined(some: list[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack("<BQ", opcode, len(body)) + body for opcode, body in some)


def _text(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _take_text(body: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<I", body, at)
    return body[at + 4 : at + 4 + length], at + 4 + length


def changed_record(r: Random, data: bytes, others: list[bytes]) -> bytes:
    """A record of a run with something in it changed, lengths and checksums right again; or simply its bytes."""
    if r.random() < 0.15:
        return changed_bytes(r, data, others)
    some = records(data[len(MAGIC) :])
    for _ in range(few(r)):
        at = r.randrange(len(some))
        opcode, body = some[at]
        kind = r.random()
        if kind < 0.06:
            del some[at]
        elif kind < 0.1:
            some.insert(r.randrange(len(some) + 1), some[at])
        elif kind < 0.15:
            some[at] = (opcode, changed_bytes(r, body, [body]))
        else:
            try:
                some[at] = (opcode, _inside(r, opcode, body))
            except (struct.error, ValueError, IndexError, zstandard.ZstdError):
                some[at] = (opcode, changed_bytes(r, body, [body]))
        if not some:
            break
    out = MAGIC + joined(some)
    return out[: r.randrange(len(out))] if r.random() < 0.03 else out


def _inside(r: Random, opcode: int, body: bytes) -> bytes:
    if opcode == _CHUNK:
        return _chunk(r, body)
    if opcode == _ATTACHMENT:
        return _attachment(r, body)
    if opcode == _METADATA:
        return _metadata(r, body)
    if opcode == _SCHEMA:
        return _schema(r, body)
    return changed_bytes(r, body, [body])


def _chunk(r: Random, body: bytes) -> bytes:
    compression, at = _take_text(body, 28)
    content = body[at + 8 :]
    inner = records(zstandard.decompress(content) if compression else content)
    for _ in range(r.choice((1, 1, 2, 5, 40))):
        place = r.randrange(len(inner))
        kind, data = inner[place]
        if kind != _MESSAGE:
            inner[place] = (kind, _schema(r, data) if kind == _SCHEMA else changed_bytes(r, data, [data]))
        elif r.random() < 0.1:
            inner[place : place + 1] = r.choice(([], [inner[place]] * 3, [(kind, changed_bytes(r, data, [data]))]))
        else:
            inner[place] = (kind, _message(r, data))
        if not inner:
            break
    content = joined(inner)
    head = body[:16] + struct.pack("<QI", len(content), r.choice((zlib.crc32(content), zlib.crc32(content), 0)))
    shut = zstandard.compress(content) if compression and r.random() < 0.5 else content
    return head + _text(b"zstd" if shut is not content else b"") + struct.pack("<Q", len(shut)) + shut


def _message(r: Random, body: bytes) -> bytes:
    """One of our own form has its numbers in fixed places; now and then it is another program's."""
    head, message = bytearray(body[:22]), bytearray(body[22:])
    if r.random() < 0.1:
        struct.pack_into("<I", head, 2, r.choice(INTEGERS) & 0xFFFFFFFF)
    if r.random() < 0.1:
        return bytes(head) + packed(r, changed_tree(r, msgpack.unpackb(bytes(message)), [], [{}]))
    places = [at for at, code in enumerate(message[:-8]) if code in (0xCF, 0xD3, 0xCB, 0xD2, 0xD1)]
    for at in r.sample(places, min(len(places), few(r))):
        size = {0xD1: 2, 0xD2: 4}.get(message[at], 8)
        value = r.choice(INTEGERS)
        if message[at] == 0xCB and r.random() < 0.7:
            message[at + 1 : at + 9] = struct.pack(">d", r.choice(FLOATS))
        else:
            message[at + 1 : at + 1 + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "big")
    return bytes(head + message)


def _attachment(r: Random, body: bytes) -> bytes:
    name, at = _take_text(body, 16)
    media, at = _take_text(body, at)
    content = body[at + 8 : -4]
    if r.random() < 0.1:
        name = r.choice((b"config.json", b"parameters.json", b"machine.toml", b"", changed_bytes(r, name, [name])))
    if name.endswith(b".json") and r.random() < 0.8:
        tree = json.loads(content)
        content = json.dumps(changed_tree(r, tree, keys_of([tree]), [tree])).encode()
    else:
        content = changed_text(r, content, [content])
    new = body[:16] + _text(name) + _text(media) + struct.pack("<Q", len(content)) + content
    return new + struct.pack("<I", r.choice((zlib.crc32(new), zlib.crc32(new), zlib.crc32(new), 0)))


def _metadata(r: Random, body: bytes) -> bytes:
    name, at = _take_text(body, 0)
    end = at + 4 + struct.unpack_from("<I", body, at)[0]
    pairs, at = [], at + 4
    while at < end:
        key, at = _take_text(body, at)
        value, at = _take_text(body, at)
        pairs.append((key, value))
    if pairs:
        place = r.randrange(len(pairs))
        key, value = pairs[place]
        pairs[place] = r.choice(((key, r.choice(NUMBER_TEXTS)), (key, changed_bytes(r, value, [value])), (value, key)))
        if r.random() < 0.1:
            del pairs[place]
    content = b"".join(_text(key) + _text(value) for key, value in pairs)
    return _text(name) + struct.pack("<I", len(content)) + content


def _schema(r: Random, body: bytes) -> bytes:
    """Another layout; most of the time with the id that it then has, so that it is believed."""
    name, at = _take_text(body, 2)
    encoding, at = _take_text(body, at)
    content, _ = _take_text(body, at)
    tree = json.loads(content)
    properties = tree["properties"]
    names = [n for n, p in properties.items() if isinstance(p, dict) and "raw_type" in p]
    kind = r.randrange(5)
    if kind == 0 and names:
        del properties[r.choice(names)]
    elif kind == 1 and names:
        properties[r.choice((*names, "x", "t_s", "ring_position", "é", "a" * 300))] = properties.pop(r.choice(names))
    elif kind == 2 and names:
        properties[r.choice(names)]["raw_type"] = r.choice(("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "x"))
    elif kind == 3 and names:
        properties[r.choice(names)][r.choice(("unit", "skew_ns"))] = a_value(r)
    else:
        tree = changed_tree(r, tree, keys_of([tree]), [tree])
        properties = tree.get("properties")
    if r.random() < 0.85 and isinstance(properties, dict):
        try:
            rows = [
                [n, p["raw_type"], p["unit"], p["skew_ns"]]
                for n, p in properties.items()
                if isinstance(p, dict) and "raw_type" in p
            ]
            text = json.dumps(rows, separators=(",", ":"))
            properties["layout"] = {"const": hashlib.sha256(text.encode()).hexdigest()[:16]}
        except KeyError:
            pass
    try:
        content = json.dumps(tree).encode()
    except (ValueError, RecursionError):
        content = b"{}"
    return body[:2] + _text(name) + _text(encoding) + _text(content)
