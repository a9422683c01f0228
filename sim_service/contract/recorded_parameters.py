"""The numbers of a machine that was made, as a record keeps them: its parameters and those of its tables.

Making a machine may take many thousand operations on its file. They give the same words on every computer
(tandem/multibody/portable.py), but only until they are improved. So a record keeps the words themselves, and a replay
that changes nothing takes them instead of what it would make today. A hash of their layout, which includes the integers
of the tables, identifies what the words mean; if it differs, they cannot be used and the machine is made from its
files. Integers are never taken from a record. Whatever a kernel uses as a place, a size, a count or a choice is one of
them, or is clamped where it is used (multibody/natural/views.py): a file from elsewhere decides neither where compiled
code reads and writes nor how long a step takes.

Numbers that a machine takes unchanged from its files, such as a large map, are not stored twice (`Placed.remade`).
"""

import base64
import binascii
import hashlib
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine, tables

_MOST_BYTES = 1 << 26  # of words, unpacked


def layout_id(model: Machine, params: np.ndarray) -> str:
    """A hash of what every word of the vector means."""
    names = [[q.name for q in of] for of in (model.inputs, model.states, model.outputs, model.parameters)]
    ints, floats = model.tables
    layout = model.placed.layout + (hashlib.sha256(ints.tobytes()).hexdigest()[:16] if len(ints) else "")
    content = [model.name, names, model.work_size, len(params) + len(floats), list(model.placed.remade), layout]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def packed(words: np.ndarray) -> str:
    """Numbers as text that `unpacked` reads bit-identically."""
    return base64.b64encode(zlib.compress(words.astype("<f8").tobytes(), 9)).decode()


def unpacked(text: Any, count: int) -> np.ndarray | None:
    """The numbers of such a text; None if it does not hold `count` of them."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
    except (TypeError, ValueError, binascii.Error, zlib.error):
        return None
    return np.frombuffer(data, "<f8").astype(float) if len(data) == 8 * count else None


def packed_words(model: Machine, params: np.ndarray) -> dict[str, Any]:
    """What a record keeps."""
    first, behind = model.placed.remade
    return {
        "layout": layout_id(model, params),
        "words": len(params) + len(model.tables.floats),
        "remade": [first, behind],
        "zlib": packed(words_of(model, params)),
    }


def recorded_machine(model: Machine, params: np.ndarray, recorded: Any) -> tuple[Machine, np.ndarray] | None:
    """A machine that was made here, with `params`, as a record has it; None if its words mean something else here, or
    are invalid: a parameter out of range, a number that is not finite."""
    if not isinstance(recorded, dict) or recorded.get("layout") != layout_id(model, params):
        return None
    words = unpacked(recorded.get("zlib"), len(words_of(model, params)))
    return None if words is None else with_words(model, params, words)


def with_words(model: Machine, params: np.ndarray, words: np.ndarray) -> tuple[Machine, np.ndarray] | None:
    """The same, from the unpacked words."""
    current = words_of(model, params)
    within = all(p.low <= value <= p.high for p, value in zip(model.parameters, words.tolist(), strict=False))
    if not within or not np.all(np.isfinite(words) | (words == current)):
        return None
    values, floats = words[: len(params)], words[len(params) :]
    first, behind = model.placed.remade
    floats = np.concatenate([floats[:first], model.tables.floats[first:behind], floats[first:]])
    floats[list(model.placed.addresses)] = model.tables.floats[list(model.placed.addresses)]
    return replace(model, tables=tables(model.tables.ints, floats)), values


def words_of(model: Machine, params: np.ndarray) -> np.ndarray:
    """The words that a record keeps: the parameters, and the floats except those that are remade."""
    first, behind = model.placed.remade
    floats = model.tables.floats.copy()
    floats[list(model.placed.addresses)] = 0.0
    return np.concatenate([params, floats[:first], floats[behind:]])
