"""A machine that writes or reads beyond the end of its arrays is refused before it is first stepped.

Compiled code checks no index: `work[7]` of six numbers is other memory, and the damage shows much later, or never. So a
machine from another package is called once on copies of its arrays, with guard words before and behind each array. A
guard word that has changed was written to. Then it is called once more for each array, with other guard words around
that one: if a result depends on them, a guard word was read. The loops contain no such check; an index that only goes
wrong in a later step is not found.
"""

import contextlib
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sim_service.contract.machine import Floats, Machine, Rates, default_inputs
from sim_service.contract.scene import poses
from sync.compile.array_types import read_only
from sync.errors import ConfigError

_GUARDS = 1024  # words on each side
_FILL, _OTHER = 1.5, -2.75  # of guard words; no step makes such numbers all over
_STEP_S = 1e-3  # if the machine does not declare one
_found_sound: "WeakKeyDictionary[object, set[tuple[int, ...]]]" = WeakKeyDictionary()  # sizes, of each step


class _Guarded:
    """Copies of arrays with guard words around them; the guard words around `other` have another value."""

    def __init__(self, arrays: dict[str, np.ndarray], other: str = ""):
        self._fills = {name: _OTHER if name == other else _FILL for name in arrays}
        self._whole = {n: np.full(a.size + 2 * _GUARDS, self._fills[n]) for n, a in arrays.items()}
        self.of = {n: self._whole[n][_GUARDS : _GUARDS + a.size].reshape(a.shape) for n, a in arrays.items()}
        for name, array in arrays.items():
            self.of[name][...] = array

    def written(self) -> tuple[str, int] | None:
        """(array, index) of a write beyond the bounds of an array, the farthest one; None if there is none."""
        for name, whole in self._whole.items():
            places = np.flatnonzero(whole.view(np.int64) != np.float64(self._fills[name]).view(np.int64)) - _GUARDS
            beyond = places[(places < 0) | (places >= self.of[name].size)]
            if len(beyond):
                return name, int(beyond[-1])
        return None


def check_overruns(machine: Machine, params: Floats, where: str) -> None:
    """Raises ConfigError; `where` names what the machine was made from. A machine that has memory of its own is not
    called."""
    sizes = (len(machine.states), len(machine.inputs), len(params), machine.work_size)
    if machine.stepping.one_at_a_time:
        return
    with contextlib.suppress(TypeError):  # a step that cannot be a key is checked every time
        if sizes in _found_sound.get(machine.step, ()):
            return
    _Check(machine, params, where).all()
    with contextlib.suppress(TypeError):
        _found_sound.setdefault(machine.step, set()).add(sizes)


class _Check:
    def __init__(self, machine: Machine, params: Floats, where: str):
        self._machine, self._of = (
            machine,
            f"{where}: machine {machine.name!r}" if where else f"machine {machine.name!r}",
        )
        states, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        self._arrays = {"state": states, "inputs": default_inputs(machine), "params": params, "work": work}
        shown = machine.shown
        self._count = shown.scene.frames if shown.scene is not None else 1

    def all(self) -> None:
        machine = self._machine
        h = 1e-3 * machine.stepping.step_ms or _STEP_S

        def initial(a: dict[str, np.ndarray]) -> None:
            machine.initial(a["state"], read_only(a["params"]), machine.tables, a["work"])

        def step(a: dict[str, np.ndarray]) -> None:
            machine.step(a["state"], a["inputs"], read_only(a["params"]), machine.tables, a["work"], h)

        def frames(a: dict[str, np.ndarray]) -> None:
            machine.shown.frames(a["state"], read_only(a["params"]), a["out"])

        begun = self._called("initial", initial, {n: self._arrays[n] for n in ("state", "params", "work")})
        self._arrays |= {name: begun[name] for name in ("state", "work")}
        self._read("step", step, self._arrays)
        moved = {name: self._arrays[name] for name in ("state", "params")}
        self._read("frames", frames, {**moved, "out": poses(self._count)})
        if (rates := machine.of(Rates)) is not None:

            def of_states(a: dict[str, np.ndarray]) -> None:
                rates.of_states(a["state"], a["inputs"], read_only(a["params"]), machine.tables, a["work"], h)

            scratch = np.zeros(max(machine.work_size, len(machine.outputs) + len(machine.states)))
            self._read("rates", of_states, {**self._arrays, "work": scratch})

    def _called(
        self, what: str, call: Callable[[dict[str, np.ndarray]], None], arrays: dict[str, np.ndarray], other: str = ""
    ) -> dict[str, np.ndarray]:
        """The arrays after the call. Other errors of a function are ignored here: they show when it is used."""
        guarded = _Guarded(arrays, other)
        try:
            call(guarded.of)
        except IndexError as error:  # code that is not compiled checks its indices
            raise ConfigError(f"{self._of}: {self._at(what)}: {error}; {self._sizes(arrays)}") from None
        except Exception:
            return arrays
        if (found := guarded.written()) is not None:
            name, at = found
            size = arrays[name].size
            index = f"{name}[{at}]" if arrays[name].ndim == 1 else f"{name}[{at // 12}]"
            place = f"writes {index}, beyond its end" if at >= size else f"writes {-at} before the beginning of {name}"
            raise ConfigError(f"{self._of}: {self._at(what)} {place}; {self._sizes({name: arrays[name]}, at)}")
        return guarded.of

    def _read(self, what: str, call: Callable[[dict[str, np.ndarray]], None], arrays: dict[str, np.ndarray]) -> None:
        first, again = (_bits(self._called(what, call, arrays)) for _ in range(2))
        for name in arrays if first == again else ():
            if _bits(self._called(what, call, arrays, name)) != first:
                raise ConfigError(
                    f"{self._of}: {self._at(what)} reads beyond {name}; {self._sizes({name: arrays[name]})}"
                )

    def _at(self, what: str) -> str:
        """`what`, with the file and line of the function."""
        machine, rates = self._machine, self._machine.of(Rates)
        function: Any = {
            "initial": machine.initial, "step": machine.step, "frames": machine.shown.frames,
            "rates": rates and rates.of_states,
        }[what]  # fmt: skip
        code = getattr(getattr(function, "py_func", function), "__code__", None)
        return what if code is None else f"{what} at {code.co_filename}:{code.co_firstlineno}"

    def _sizes(self, arrays: dict[str, np.ndarray], at: int = -1) -> str:
        """How many numbers each array has, why, and what would be right."""
        machine, found = self._machine, []
        for name, array in arrays.items():
            n = array.size
            has = f"{name} has {n} number{'s' * (n != 1)}"
            if name == "work":
                needed = f"work_size={at + 1}" if at >= n else "a larger work_size"
                found.append(
                    f"{has}, {len(machine.outputs)} of them outputs; write Machine(…, {needed}) if the index is right"
                )
            elif name == "out":
                found.append(f"there are {len(array)} frames, counted from 0; write Scene(frames=…) if it is right")
            else:
                one = {"state": "states", "inputs": "inputs", "params": "parameters"}[name]
                found.append(f"{has}, as the machine has {one}; declare another, or mend the index")
        return "; ".join(found)


def _bits(arrays: dict[str, np.ndarray]) -> bytes:
    return b"".join(array.tobytes() for array in arrays.values())
