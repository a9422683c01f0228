"""The code of an FMU in this process: loaded, one instance made, the functions that a step calls by their addresses.

Raises ConfigError where the FMU has no code for this host, lacks a function, or gives no instance; with what it logged.
"""

import ctypes
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

from sync.errors import ConfigError
from tandem.machines.fmu.archive import PLATFORMS, Unpacked
from tandem.machines.fmu.variables import Description

# in the order of step.py's table of addresses; what FMI 2.0 calls otherwise stands behind it
FUNCTIONS = (
    ("Reset", ""), ("SetupExperiment", ""), ("EnterInitializationMode", ""), ("ExitInitializationMode", ""),
    ("SetFloat64", "SetReal"), ("GetFloat64", "GetReal"), ("DoStep", ""),
    ("GetFMUState", "GetFMUstate"), ("SetFMUState", "SetFMUstate"),
    ("SerializedFMUStateSize", "SerializedFMUstateSize"), ("SerializeFMUState", "SerializeFMUstate"),
    ("DeserializeFMUState", "DeSerializeFMUstate"), ("FreeFMUState", "FreeFMUstate"),
)  # fmt: skip
_ONLY_2, _STATE = {"SetupExperiment"}, 7  # functions from here on are those of a saved state
_MOST_LINES = 20
_LOG_3 = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
_LOG_2 = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p
)  # and what belongs into the text, which is not read


class _Callbacks(ctypes.Structure):
    _fields_ = (
        ("logger", _LOG_2), ("allocate", ctypes.c_void_p), ("free", ctypes.c_void_p), ("finished", ctypes.c_void_p),
        ("environment", ctypes.c_void_p),
    )  # fmt: skip


@dataclass(frozen=True)
class Instance:
    pointer: int
    addresses: tuple[int, ...]  # of FUNCTIONS; 0 for what is not there and not needed
    held: tuple[Any, ...]  # what must live as long as the instance does


def instance(unpacked: Unpacked, about: Description, name: str) -> Instance:
    platform = PLATFORMS[about.version]
    place = unpacked.folder / "binaries" / platform / f"{about.identifier}.so"
    if not place.is_file():
        raise ConfigError(f"{name}: has no code for {platform} (binaries/{platform}/{about.identifier}.so)")
    try:
        library = ctypes.CDLL(str(place))
    except OSError as error:
        raise ConfigError(f"{name}: its code for {platform} cannot be loaded: {error}") from None
    addresses = tuple(_address(library, about, at, name) for at in range(len(FUNCTIONS)))
    lines: deque[str] = deque(maxlen=_MOST_LINES)
    count = 0

    def log(text: bytes | None) -> None:
        """The first few are shown: a step that fails says why."""
        nonlocal count
        count += 1
        line = (text or b"").decode(errors="replace")[:500]
        lines.append(line)
        if count <= _MOST_LINES:
            print(f"{name}: {line}", file=sys.stderr, flush=True)

    make = {3: _instantiated_3, 2: _instantiated_2}[about.version]
    pointer, held = make(library, unpacked, about, log)
    if not pointer:
        raise ConfigError(f"{name}: gives no instance: {'; '.join(lines) or 'and says nothing about it'}")
    return Instance(int(pointer), addresses, (library, *held))


def _address(library: Any, about: Description, at: int, name: str) -> int:
    modern, old = FUNCTIONS[at]
    function = f"fmi{about.version}{old if about.version == 2 and old else modern}"
    if (modern in _ONLY_2 and about.version == 3) or (at >= _STATE and not about.keeps_state):
        return 0
    try:
        return int(ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0)
    except AttributeError:
        raise ConfigError(f"{name}: its code has no function {function}") from None


def _instantiated_3(library: Any, unpacked: Unpacked, about: Description, log: Any) -> tuple[Any, tuple[Any, ...]]:
    callback = _LOG_3(lambda environment, status, category, text: log(text))
    function = library.fmi3InstantiateCoSimulation
    function.restype = ctypes.c_void_p
    function.argtypes = (
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_bool, ctypes.c_bool, ctypes.c_bool, ctypes.c_bool,
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, _LOG_3, ctypes.c_void_p,
    )  # fmt: skip
    resources = f"{unpacked.folder / 'resources'}/".encode()
    pointer = function(
        b"tandem", about.token.encode(), resources, False, False, False, False, None, 0, None, callback, None
    )
    return pointer, (callback,)


def _instantiated_2(library: Any, unpacked: Unpacked, about: Description, log: Any) -> tuple[Any, tuple[Any, ...]]:
    libc = ctypes.CDLL(None)
    callback = _LOG_2(lambda environment, instance, status, category, text: log(text))
    own = _Callbacks(
        callback, ctypes.cast(libc.calloc, ctypes.c_void_p).value, ctypes.cast(libc.free, ctypes.c_void_p).value, None,
        None,
    )  # fmt: skip
    function = library.fmi2Instantiate
    function.restype = ctypes.c_void_p
    function.argtypes = (
        ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int
    )  # fmt: skip
    resources = (unpacked.folder / "resources").as_uri().encode()
    pointer = function(b"tandem", 1, about.token.encode(), resources, ctypes.addressof(own), 0, 0)
    return pointer, (callback, own)
