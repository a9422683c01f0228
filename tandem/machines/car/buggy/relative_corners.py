"""The corners' forces of the buggy's step in relative coordinates as unrolled code, for a GPU.

The text of relative_forces.py is traced with numbers that are expressions (multibody/code/traced_numbers.py): the
same law, the same derivatives, without loops, scratch arrays and derivatives that are zero anyway. Roads with a shape
or with patches cannot be traced (`serves`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tandem.machines.car.buggy import relative_forces, slots
from tandem.machines.car.buggy.law import SPRING
from tandem.machines.car.buggy.relative_forces import SCRATCH
from tandem.multibody.code.graph import Expr
from tandem.multibody.code.llvm import Function
from tandem.multibody.code.traced_numbers import Array, Law, Number
from tandem.multibody.ground.layout import Head
from tandem.multibody.relative.generate import Generated

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
MOST = 200  # that a corner gives of derivatives
CORNER_PORTS = SPRING + 12  # ports of the corners: the first ones


def serves(numbers: np.ndarray) -> bool:
    road = numbers[slots.ROAD :]
    return bool(road[Head.LAYERS] < 0.5 and road[Head.PATCHES] < 0.5)


def _law() -> Law:
    """With texts that choose, of functions that branch by numbers."""
    law: Law

    def surface(road: Sequence[float], x: Any, y: Any) -> tuple[float, float, float, float]:
        return 0.0, 0.0, 0.0, road[Head.FRICTION]

    def sign(value: Number) -> Number:
        return law.choose(0.0, value, 1.0, law.choose(value, 0.0, -1.0, 0.0))

    law = Law({f.__name__: f for f in (surface, sign)})
    return law


def _inputs(law: Law, sizes: dict[str, int]) -> dict[str, Array]:
    return {name: Array(law, name, size) for name, size in sizes.items()}


def _function(name: str, law: Law, inputs: Sequence[str], outputs: dict[str, list[Expr]]) -> Function:
    flat = [e for array in outputs.values() for e in array]
    plain, moved = law.graph.fused(flat)
    of, at = {}, 0
    for array, exprs in outputs.items():
        of[array] = moved[at : at + len(exprs)]
        at += len(exprs)
    return Function(name, plain, tuple(inputs), (of,))


_SIZES = {
    "x": 90, "xd": 90, "live": slots.LIVE, "states": slots.STATES, "e": slots.ADDED,
}  # fmt: skip


def forces(numbers: np.ndarray) -> Function:
    """corner_forces of all corners: f, rates of the deflections, whether the law holds."""
    law = _law()
    a = _inputs(law, _SIZES)
    f, edot = Array(law, "f", CORNER_PORTS, True, range(CORNER_PORTS)), Array(law, "edot", 8, True)
    params = numbers.tolist()
    for w in range(4):
        bool(
            law.follow(relative_forces.corner_forces)(
                w, a["x"], a["xd"], a["live"], params, a["states"], a["e"], f, edot
            )
        )
    of_f, of_edot = f.written(), edot.written()
    return _function("corner_forces", law, tuple(_SIZES), {
        "f": [of_f[k] for k in range(CORNER_PORTS)], "edot": [of_edot[k] for k in range(8)], "fits": [law.fits()],
    })  # fmt: skip


class CornerDerivatives:
    """corner_rows and corner of each corner, with the places in `more` of what it adds: to the derivatives of
    generalised forces, to what changes with time; and of J."""

    def __init__(self, numbers: np.ndarray, generated: Generated):
        self.derivatives: dict[tuple[int, int], list[int]] = {}
        self.J: dict[tuple[int, int], int] = {}
        self.in_time: dict[int, list[int]] = {}
        self.functions = [self._corner(w, numbers.tolist(), generated) for w in range(4)]

    def _corner(self, w: int, params: list[float], generated: Generated) -> Function:
        (of,) = (f for f in generated.functions if f.name == "derivatives")
        found, n = of.outputs, len(generated.independent)
        N = 2 * n + slots.ADDED
        law = _law()

        def array(name: str, of: str) -> Array:
            zeros = [k for k, e in enumerate(found[of]) if e.value == 0.0]
            return Array(law, name, len(found[of]), zeros=zeros)

        a = _inputs(law, {**_SIZES, "pressure_rates": 4})
        P, R = array("P", "port_derivatives"), array("R", "rate_derivatives")
        drift, rate_drift = array("port_drift", "port_drift"), array("rate_drift", "rate_drift")
        f, edot = Array(law, "f", CORNER_PORTS, True, range(CORNER_PORTS)), Array(law, "edot", 8, True)
        derivatives, J = Array(law, "derivatives", 2 * n * n, True, range(2 * n * n)), Array(law, "J", N * N, True)
        by_time, edot_t = Array(law, "by_time", n, True, range(n)), Array(law, "edot_t", 8, True)
        Z = Array(law, "Z", SCRATCH, True)
        law.follow(relative_forces.corner_rows)(w, a["x"], params, P, R, drift, rate_drift, Z)
        bool(
            law.follow(relative_forces.corner)(
                w, a["x"], a["xd"], a["live"], a["pressure_rates"], params, a["states"], a["e"], f, edot, Z,
                generated.blocks.columns[2 * w], n, N, derivatives, J, by_time, edot_t,
            )
        )  # fmt: skip
        more: list[Expr] = []
        at = MOST * w
        for k, e in sorted(derivatives.written().items()):
            if e.value != 0.0:
                self.derivatives.setdefault(divmod(k, 2 * n), []).append(at + len(more))
                more.append(e)
        for k, e in sorted(J.written().items()):
            if e.value != 0.0:
                self.J[divmod(k, N)] = at + len(more)
                more.append(e)
        for k, e in sorted(by_time.written().items()):
            if e.value != 0.0:
                self.in_time.setdefault(k, []).append(at + len(more))
                more.append(e)
        assert len(more) <= MOST
        forces, rates, in_time = f.written(), edot.written(), edot_t.written()
        inputs = (*_SIZES, "pressure_rates", "P", "R", "port_drift", "rate_drift")
        return _function(f"corner_derivatives_{w}", law, inputs, {
            "f": [forces[13 * w + k] for k in range(13)], "push": [forces[SPRING + 3 * w + k] for k in range(3)],
            "edot": [rates[2 * w], rates[2 * w + 1]], "more": more, "edot_t": [in_time[2 * w], in_time[2 * w + 1]],
            "fits": [law.fits()],
        })  # fmt: skip
