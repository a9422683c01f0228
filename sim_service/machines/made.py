"""The vector that a model was made into, as a record keeps it.

Making a model takes many thousand operations on a vehicle file. They give the same words on every machine
(sim_service/portable.py), but not for ever: somebody will improve them. So a record keeps the words themselves, and a
replay that changes nothing takes them instead of what it would make today. What the words mean is named by a hash of
their layout; where that is another one, they cannot be used and the model is made anew.

What a model is given by its files as it is, a road above all, is not kept twice (`Machine.remade`).
"""

import base64
import binascii
import hashlib
import json
import zlib
from typing import Any

import numpy as np

from sim_service.machines.contract import Machine

_MOST_BYTES = 1 << 26  # of words, unpacked


def layout_id(model: Machine, params: np.ndarray) -> str:
    """A hash of what every word of the vector means."""
    names = [[q.name for q in of] for of in (model.inputs, model.states, model.outputs, model.parameters)]
    said = [model.name, names, model.work_size, len(params), list(model.remade), model.layout]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def packed(words: np.ndarray) -> str:
    """Numbers as text, to the bit."""
    return base64.b64encode(zlib.compress(words.astype("<f8").tobytes(), 9)).decode()


def unpacked(text: Any, count: int) -> np.ndarray | None:
    """The numbers again; None if the text is not that of so many."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
    except (TypeError, ValueError, binascii.Error, zlib.error):
        return None
    return np.frombuffer(data, "<f8").astype(float) if len(data) == 8 * count else None


def made_vector(model: Machine, params: np.ndarray) -> dict[str, Any]:
    """What a record keeps."""
    first, behind = model.remade
    return {
        "layout": layout_id(model, params),
        "words": len(params),
        "remade": [first, behind],
        "zlib": packed(_outside(params, first, behind)),
    }


def recorded_vector(model: Machine, params: np.ndarray, kept: Any) -> np.ndarray | None:
    """The vector of a record, for a model that was made here into `params`; None if it means something else here, or
    holds what no model would: a parameter beyond its limits, a number that is not finite."""
    if not isinstance(kept, dict) or kept.get("layout") != layout_id(model, params):
        return None
    first, behind = model.remade
    words = unpacked(kept.get("zlib"), len(params) - (behind - first))
    if words is None:
        return None
    vector = np.concatenate([words[:first], params[first:behind], words[first:]])
    within = all(p.low <= value <= p.high for p, value in zip(model.parameters, vector.tolist(), strict=False))
    return vector if within and np.all(np.isfinite(words) == np.isfinite(_outside(params, first, behind))) else None


def _outside(params: np.ndarray, first: int, behind: int) -> np.ndarray:
    return np.concatenate([params[:first], params[behind:]])
