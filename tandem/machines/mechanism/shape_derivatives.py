"""Derivatives of a mechanism's runs by named numbers of its file: masses, inertias, stiffnesses, a start.

Numbers of the file become what is prepared for the generated functions (`d`, relative/generate.py). How `d` and the
first state change with a number is found by building the mechanism with it a little larger and a little smaller; the
rest, from `d` to a whole run, is exact (tangent.py). A number that moves something (a length, a place) also moves where
loops close, which that does not have: for such ones, differences of whole runs are taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sim_service.contract.machine import Machine, ShapeDerivatives, Tables, Tangent, tables
from sync.compile.parts import joined, lay_out
from sync.errors import ConfigError
from tandem.machines.mechanism import tangent
from tandem.machines.mechanism.tangent import LANES, A
from tandem.multibody.code.calls import as_word
from tandem.multibody.code.llvm import Compiled, compiled
from tandem.multibody.natural.tables import EXTERNAL
from tandem.multibody.relative.generate import derivatives_by_prepared
from tandem.multibody.relative.machine import Equation
from tandem.multibody.relative.system import P

_SHARE = 1e-5  # of a number: what it is changed by; d is close to linear in it
_SMALL = 1e-9  # of the largest: a change that is rounding
_ELSEWHERE = 0.07  # of all numbers: so far away a change must be the same to be taken as constant


@dataclass
class Shared:
    """What machines of one file have together, whatever their values are."""

    first: Equation  # of the values in the file; its code serves the others
    structure: str
    code: Compiled | None = None
    names: tuple[str, ...] | None = None  # of those that move nothing
    constant: dict[int, "Change"] = field(default_factory=dict)  # of those that d and the first state are linear in


Change = tuple[np.ndarray, np.ndarray]  # of d and of the first state, by a parameter
Other = Callable[[np.ndarray], Equation]


class _Derivatives:
    """Of one mechanism, as it was built."""

    def __init__(self, machine: Machine, one: Equation, other: Other, shared: Shared) -> None:
        self.machine, self.one, self.other, self.shared = machine, one, other, shared

    def change(self, params: np.ndarray, place: int) -> Change | None:
        """By a parameter; None where another value makes other equations."""
        if place in self.shared.constant:
            return self.shared.constant[place]
        step = _SHARE * max(abs(params[place]), 1e-3)
        found = []
        for sign in (1.0, -1.0):
            values = params.copy()
            values[place] += sign * step
            try:
                one = self.other(values)
            except ConfigError:  # beyond what there can be of it
                return None
            if one.system.code is not self.one.system.code:
                return None
            found.append((one.system.part(P.D, one.system.reals), one.first_state()))
        (d, state), (d_less, state_less) = found
        return (d - d_less) / (2.0 * step), (state - state_less) / (2.0 * step)

    def names(self) -> tuple[str, ...]:
        if self.shared.names is None:
            params = np.array([p.value for p in self.machine.parameters])
            function, moving = derivatives_by_prepared(self.one.system.generated)
            self.shared.code = compiled([function])
            names, found = [], {}
            for place, p in enumerate(self.machine.parameters):
                change = self.change(params, place)
                most = 0.0 if change is None else float(np.abs(change[0]).max(initial=0.0))
                if change is not None and all(abs(change[0][k]) <= _SMALL * most for k in moving):
                    names.append(p.name)
                    found[place] = change
            self.shared.names = tuple(names)
            self._find_constant(params, found)
        return self.shared.names

    def _find_constant(self, params: np.ndarray, found: dict[int, Change]) -> None:
        """Which of these are the same where all parameters have other values."""
        elsewhere = params * (1.0 + _ELSEWHERE)
        same = {}
        for place, change in found.items():
            there = self.change(elsewhere, place)
            if there is not None and all(map(_alike, change, there)):
                same[place] = change
        self.shared.constant = same

    def make(self, params: np.ndarray, which: Sequence[int]) -> tuple[Machine, np.ndarray]:
        self.names()
        code = self.shared.code
        assert code is not None
        system, machine = self.one.system, self.machine
        count = system.generated.prepared
        d, first = np.zeros((LANES, count)), np.zeros((len(machine.states), LANES))
        for lane, place in enumerate(which):
            found = self.change(params, place)
            d[lane], first[:, lane] = found or (np.nan, np.nan)  # who asks takes differences then
        n, outputs = len(system.generated.independent), len(machine.outputs)
        states = [q.name for q in machine.states]
        ints = {A.SIZES: [n, outputs, states.index("kept_time")]}
        reals = {A.D_DERIVATIVES: d.ravel(), A.WORD: [as_word(code.address["by_prepared"])]}
        N = 2 * n
        sizes = {
            A.OUT: outputs, A.Y: N, A.RATE: 4 * N, A.DRIFT: N, A.STAGES: 4 * N * LANES, A.FORCED: n,
            A.GENERATED: max(code.work_size, 1),
        }  # fmt: skip
        head, floats = machine.tables.ints, machine.tables.floats
        spans, (_, _, end) = lay_out(
            len(A), (2 * len(A), ints), (len(floats), reals), (LANES * machine.work_size, sizes)
        )
        extended: Tables = tables(
            np.concatenate([head, spans, joined(ints, np.int64), [len(head)]]),
            np.concatenate([floats, joined(reals, float)]),
        )
        # behind the derivatives of the machine's own work there is scratch for what the tangent needs
        size = -(-end // LANES)
        extended_machine = replace(machine, tables=extended, work_size=size)
        return extended_machine.having(Tangent(tangent.__name__)), first


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= 1e3 * _SMALL * np.abs(a).max(initial=0.0))


def shape_derivatives(machine: Machine, one: Equation, other: Other, shared: Shared) -> Machine:
    """The machine with derivatives by its parameters; `other` is the mechanism with other values of them."""
    moving = any(i.kind != EXTERNAL for i in one.mechanism.inputs.values())
    if not one.has_tangent or moving:
        return machine
    found = _Derivatives(machine, one, other, shared)
    return machine.having(ShapeDerivatives(found.names, found.make))
