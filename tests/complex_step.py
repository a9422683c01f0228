"""Derivatives of kernels by the complex step, as an independent check of those that kernels compute themselves.

A kernel's own Python text is run on complex numbers: f(x + i h) has df/dx h for its imaginary part, exact to rounding,
since h may be 1e-30. Comparisons go by the real part, so the branches are those of the kernel.
"""

import cmath
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

STEP = 1e-30


class Number:
    """A complex number that compares by its real part."""

    def __init__(self, z: complex):
        self.z = z

    def __neg__(self):
        return Number(-self.z)

    def __pos__(self):
        return self

    def __abs__(self):
        return -self if math.copysign(1.0, self.z.real) < 0.0 else self

    def __bool__(self):
        return self.z.real != 0.0

    def __int__(self):
        return int(self.z.real)


def complex_of(x: Any) -> complex:
    return x.z if isinstance(x, Number) else complex(x)


def _operator(name: str, forward: Callable[[complex, complex], Any]) -> None:
    setattr(Number, f"__{name}__", lambda a, b: Number(forward(a.z, complex_of(b))))
    setattr(Number, f"__r{name}__", lambda a, b: Number(forward(complex_of(b), a.z)))


_operator("add", lambda a, b: a + b)
_operator("sub", lambda a, b: a - b)
_operator("mul", lambda a, b: a * b)
_operator("truediv", lambda a, b: a / b)
Number.__pow__ = lambda a, n: Number(math.prod([a.z] * n) if isinstance(n, int) else a.z**n)  # type: ignore[attr-defined]
for _name, _compare in (
    ("lt", lambda a, b: a < b),
    ("le", lambda a, b: a <= b),
    ("gt", lambda a, b: a > b),
    ("ge", lambda a, b: a >= b),
    ("eq", lambda a, b: a == b),
    ("ne", lambda a, b: a != b),
):
    setattr(Number, f"__{_name}__", lambda a, b, c=_compare: c(a.z.real, complex_of(b).real))


def _copysign(a, b):
    size, sign = (complex_of(k) for k in (a, b))
    return Number(size if math.copysign(1.0, size.real) == math.copysign(1.0, sign.real) else -size)


def _atan2(a, b):
    y, x = complex_of(a), complex_of(b)
    angle = math.atan2(y.real, x.real)
    return Number(complex(angle, (y.imag * x.real - x.imag * y.real) / (x.real**2 + y.real**2)))


def _root(x):
    z = complex_of(x)
    return Number(0j if z.real == 0.0 else cmath.sqrt(z))


_REPLACED: dict[Any, Any] = {
    math.sin: lambda x: Number(cmath.sin(complex_of(x))),
    math.cos: lambda x: Number(cmath.cos(complex_of(x))),
    math.exp: lambda x: Number(cmath.exp(complex_of(x))),
    math.atan: lambda x: Number(cmath.atan(complex_of(x))),
    math.sqrt: _root,
    math.copysign: _copysign,
    math.atan2: _atan2,
    math.fabs: abs,
    math.floor: lambda x: math.floor(complex_of(x).real),
}
# what duals need is not needed here; what is found by a search in floats gets its derivatives as in kernels
_NAMED = {
    "fresh": lambda x, i, n: x,
    "chain": lambda f, inner: f,
    "value": lambda x: complex_of(x).real,
    "is_dual": lambda x: isinstance(x, Number),
    "graft": lambda v, of: Number(complex(v, of.z.imag)),
    "view": lambda array, start, stop: array[start:stop],
}


@functools.cache
def _in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same text, calling complex versions of all that it calls."""
    names = set(function.__code__.co_names)
    scope = {name: _replace(name, found) for name, found in function.__globals__.items() if name in names}
    return types.FunctionType(function.__code__, {"__builtins__": __builtins__, **scope}, function.__name__)


def _replace(name: str, found: Any) -> Any:
    if name in _NAMED:
        return _NAMED[name]
    if isinstance(found, Dispatcher):
        return _in_python(found.py_func)
    if isinstance(found, types.ModuleType):
        return types.SimpleNamespace(**{k: _replace(k, v) for k, v in vars(found).items() if not k.startswith("__")})
    try:
        return _REPLACED.get(found, found)
    except TypeError:  # cannot be looked up: no function
        return found


def complex_kernel(kernel: Any) -> Callable[..., Any]:
    """The kernel as a Python function of `Number`s and floats."""
    return _in_python(kernel.py_func)


def jacobian(function: Callable[..., Any], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and derivatives of `function(list of Numbers) -> sequence`, row by row."""
    columns = []
    for j in range(len(x)):
        args = [Number(complex(v, STEP if j == k else 0.0)) for k, v in enumerate(x)]
        columns.append([complex_of(y) for y in function(args)])
    found = np.array(columns).T
    return found[:, 0].real, found.imag / STEP
