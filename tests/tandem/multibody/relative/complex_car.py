"""The rates of the whole car in complex numbers, many directions at once: its equations by the graph, its forces by
their own text without a compiler.

A function of the force laws is taken as Python, and so is every function that it names. Numbers are vectors of complex
ones that have one real part, by which they are compared: so branches are those of the real law.
"""

import builtins
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from tandem.machines.car.buggy import relative_dynamics as relative
from tandem.machines.car.buggy import relative_forces, slots
from tandem.machines.car.buggy.relative_dynamics import C
from tandem.multibody.natural.views import view
from tandem.multibody.relative.dual import value_of
from tandem.multibody.relative.generate import Generated
from tandem.multibody.relative.system import P as Own

TINY = 1e-30


class Complex(np.ndarray):  # type: ignore[type-arg]
    """A complex number in many directions."""

    def __lt__(self, other: Any) -> bool:  # type: ignore[override]
        return real(self) < real(other)

    def __le__(self, other: Any) -> bool:  # type: ignore[override]
        return real(self) <= real(other)

    def __gt__(self, other: Any) -> bool:  # type: ignore[override]
        return real(self) > real(other)

    def __ge__(self, other: Any) -> bool:  # type: ignore[override]
        return real(self) >= real(other)

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return real(self) == real(other)

    def __ne__(self, other: object) -> bool:  # type: ignore[override]
        return real(self) != real(other)

    __hash__ = None  # type: ignore[assignment]

    def __abs__(self) -> Any:
        return -self if real(self) < 0.0 else +self


def real(a: Any) -> float:
    return float(a[0].real) if isinstance(a, np.ndarray) else float(a)


def _either(of_complex: Callable[[Any], Any], of_real: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda a: of_complex(a) if isinstance(a, Complex) else of_real(a)


def _atan2(y: Any, x: Any) -> Any:
    assert real(x) > 0.0
    return np.arctan(y / x)


def _copysign(a: Any, b: Any) -> Any:
    return abs(a) if real(b) >= 0.0 else -abs(a)


_INSTEAD: dict[Any, Any] = {
    view: lambda array, start, stop: array[start:stop], value_of: real, math.atan2: _atan2,
    math.copysign: _copysign, math.sqrt: _either(np.sqrt, math.sqrt), math.atan: _either(np.arctan, math.atan),
    math.exp: _either(np.exp, math.exp), math.sin: _either(np.sin, math.sin), math.cos: _either(np.cos, math.cos),
}  # fmt: skip


class _Module:
    """A module whose functions are Python's."""

    def __init__(self, module: Any, made: dict[Any, Any]) -> None:
        self._module, self._made = module, made

    def __getattr__(self, name: str) -> Any:
        return _plain(getattr(self._module, name), self._made)


def _plain(value: Any, made: dict[Any, Any]) -> Any:
    if isinstance(value, Dispatcher):
        if value not in made:
            function = value.py_func
            around: dict[str, Any] = {"__builtins__": builtins}
            made[value] = types.FunctionType(function.__code__, around, function.__name__, function.__defaults__)
            for name in _names(function.__code__):
                if name in function.__globals__:
                    around[name] = _plain(function.__globals__[name], made)
        return made[value]
    if isinstance(value, types.ModuleType):
        return _Module(value, made)
    return _INSTEAD.get(value, value) if callable(value) else value


def _names(code: types.CodeType) -> set[str]:
    inside = [_names(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*inside)


forces = _plain(relative_forces.forces, {})


def _objects(values: Any) -> np.ndarray:
    """An array whose entries are Python's floats or complex vectors."""
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = np.asarray(value).view(Complex) if np.ndim(value) else float(value)
    return out


def rates(made: Generated, one: Any, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """As `car_rates` at an instant (test_relative_forces.py): y[entry, direction], t[direction]."""
    functions = {f.name: f for f in made.functions}
    width, n, independent, dependent = len(t), one.n, list(made.independent), list(made.dependent)

    def wide(values: np.ndarray) -> np.ndarray:
        return np.tile(np.asarray(values, complex)[:, None], (1, width))

    given = {"ref": wide(one.part(Own.AT_REF)), "d": wide(one.part(Own.D, one.reals))}
    end = one.part(Own.END)
    before = end[0] - t
    value, rate, second = end[1:4]
    given["u"] = np.array(
        [value - before * (rate - 0.5 * before * second), rate - before * second, second + 0.0 * before]
    )
    x, w = wide(one.part(Own.START_X)), wide(one.part(Own.AT_W))
    x[independent], w[independent] = y[:n], y[n : 2 * n]
    for _ in range(4):
        x[dependent] = functions["close"].graph.evaluate(functions["close"].outputs["new"], {**given, "x": x})
    given |= {"x": x, "w": w}

    graph, (first, last) = functions["motion"].graph, functions["motion"].stages
    at = graph.evaluate([*first["ports"], *first["rates"]], given)
    ports, moving = _objects(at[: len(made.ports)]), _objects(at[len(made.ports) :])
    begun, count = one.part(C.BEGUN), relative.CHANGING
    held = _objects(one.part(C.LIVE))
    for i in range(count):
        held[slots.DRIVE + i] = (begun[i] + (t - begun[2 * count]) * begun[count + i]).view(Complex)
    f, edot = _objects(np.zeros(len(made.ports))), _objects(np.zeros(relative.ADDED))
    numbers, states = _objects(one.part(C.NUMBERS, one.reals)), _objects(one.part(C.ELEMENT))
    assert forces(ports, moving, held, numbers, states, _objects(y[2 * n :]), f, edot)
    given["f"] = np.array([np.broadcast_to(np.asarray(each, complex), width) for each in f])
    found = graph.evaluate([*last["xdot"], *last["acceleration"]], given)
    return np.concatenate([found, [np.broadcast_to(np.asarray(each, complex), width) for each in edot]])
