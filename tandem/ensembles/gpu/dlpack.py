"""Memory as others take it without a copy: DLPack's capsule around an address. numpy exports only its own arrays, and
cuda-bindings none, so the structures of the standard stand here."""

import ctypes
from typing import Any

import numpy as np

CPU, CUDA = 1, 2  # kinds of device
_OLD, _NEW = (
    b"dltensor",
    b"dltensor_versioned",
)  # before version 1.0, which can say that memory may be written, and since
_CODES = {"f": 2, "i": 0}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_KINDS = {_OLD: _Managed, _NEW: _Versioned}
_lent: dict[int, tuple[Any, ...]] = {}  # by its address: what must live as long as somebody has it


@_Deleter
def _give_back(address: int) -> None:
    _lent.pop(address, None)


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
for _used in (_lent, _give_back):  # a tensor that is given back while modules are being taken down still finds them
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_used))


def capsule(
    address: int, shape: tuple[int, ...], kind: np.dtype, on: tuple[int, int], owner: Any, versioned: bool
) -> Any:
    """The array of this shape at this address, transposed. `owner` lives until it is given back.

    A capsule without a consumer is never freed: a destructor would run Python while an exception may be pending.
    """
    lengths = shape[::-1]
    strides, size = [], 1
    for length in lengths:
        strides.append(size)
        size *= length
    sizes = (ctypes.c_int64 * len(lengths))(*lengths)
    steps = (ctypes.c_int64 * len(lengths))(*strides)
    name = _NEW if versioned else _OLD
    managed = _KINDS[name]()
    if versioned:
        managed.version[0] = 1
    managed.tensor = _Tensor(
        address, (ctypes.c_int32 * 2)(*on), len(lengths), _CODES[kind.kind], 8 * kind.itemsize, 1, sizes, steps, 0
    )
    managed.deleter = _give_back
    place = ctypes.addressof(managed)
    _lent[place] = (owner, managed, sizes, steps)
    return _new(place, name, None)
