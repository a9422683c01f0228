"""A mechanism in relative coordinates as a machine, with one set of independent coordinates and one integrator.

Its states are those of machine_step.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine, Placed, Quantity, Rates, Tables, tables
from tandem.multibody.code.calls import address_of, as_word
from tandem.multibody.code.code_parts import CodeParts
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.tables import EXTERNAL, VALUE
from tandem.multibody.relative import machine_step, ode
from tandem.multibody.relative.machine_step import FRONT, H
from tandem.multibody.relative.system import NAMES, P, System, rates, rates_and_jacobian

_UNITS = {"turn": "rad", "slide": "m", "ball": "rad", "scalar": "m"}


class Equation:
    """What of the system is y, what is kept behind it, and why it has no rates or derivatives, if so."""

    def __init__(self, system: System, mechanism: Equations, start: np.ndarray):
        self.system, self.mechanism, self.start = system, mechanism, start
        generated = system.generated
        self.tree = generated.tree
        place = {k: i for i, k in enumerate(generated.independent)}
        whole = [(b, k) for b, k in enumerate(generated.balls) if all(k + i in place for i in range(3))]
        mixed = [k for k in generated.balls if k not in dict(whole).values() and any(k + i in place for i in range(3))]
        of_balls = {k + i for _, k in whole for i in range(3)}
        self.balls = [(b, place[k]) for b, k in whole]
        self.plain = [i for i, k in enumerate(generated.independent) if k not in of_balls]
        self.forms = list(_forms(mechanism))
        self.external = [i for i in mechanism.inputs.values() if i.kind == EXTERNAL]
        moving = {j for form in self._moved_forms() for j in form.inputs}
        moving |= {j for _, _, c in self.forms for j in c[1]}
        self.moving = [i.name for i in self.external if i.index in moving]
        self.continuous = len(self.plain) + 4 * len(self.balls) + len(generated.independent)
        self.without_rates = ""
        if not generated.independent:
            self.without_rates = "all of its coordinates are driven: there is nothing to integrate"
        elif mixed:
            names = ", ".join(self.tree.velocities[k] for k in mixed)
            self.without_rates = f"the references of {names} move at the end of each step, and Model Exchange has none"
        self.has_tangent = not (self.without_rates or self.balls or generated.driven or self.moving)

    def _moved_forms(self) -> Iterator[Any]:
        yield from self.tree.driven.values()
        yield from (form for loop in self.tree.loops for form in loop.forms)
        yield from self.tree.columns

    # ---- names

    def states(self) -> list[Quantity]:
        generated, names, kinds = self.system.generated, self.tree.velocities, self.tree.kinds
        x = [generated.independent[i] for i in self.plain]
        found = [Quantity(_name(names[k]), _UNITS[kinds[k]], f"Coordinate of {names[k]}") for k in x]
        for b, _ in self.balls:
            name = names[generated.balls[b]]
            found += [Quantity(f"{_name(name)}_q{i}", "1", f"Quaternion of {name}") for i in range(4)]
        found += [
            Quantity(f"{_name(names[k])}_rate", f"{_UNITS[kinds[k]]}/s", f"Velocity of {names[k]}")
            for k in generated.independent
        ]
        found.append(Quantity("kept_time", "s", "End of the last step"))
        found += [Quantity(f"kept_{_name(n)}", "1", "From which loops are closed") for n in names]
        found += [Quantity(f"kept_ref{i}", "1", "Reference of a ball") for i in range(4 * len(generated.balls))]
        taken: dict[str, int] = {}
        for k, quantity in enumerate(found):
            count = taken[quantity.name] = taken.get(quantity.name, 0) + 1
            if count > 1:
                found[k] = replace(quantity, name=f"{quantity.name}_{count}")
        return found

    def outputs(self) -> list[Quantity]:
        found = []
        for name, unit, _ in self.forms:
            found += [Quantity(name, unit, ""), Quantity(f"{name}_rate", f"{unit}/s", "")]
        drives = [self.tree.drives[k] for k in self.system.generated.driven]
        return found + [Quantity(f"{name}_effort", "", "Force or torque of a drive") for name in drives]

    def inputs(self) -> list[Quantity]:
        found = []
        for i in self.external:
            suffixes = ("", "_rate", "_accel") if i.name in self.moving else ("",)
            found += [Quantity(f"{i.name}{s}", "", "As the file has it if not given", optional=True) for s in suffixes]
        return found

    # ---- the machine

    def machine(self, name: str, method: Any) -> Machine:
        system, generated = self.system, self.system.generated
        kernels = ((method, ode.STEP), (rates, ode.RATES), (rates_and_jacobian, ode.RATES_AND_JACOBIAN))
        inputs, outputs, states = self.inputs(), self.outputs(), self.states()
        at = {q.name: k for k, q in enumerate(inputs)}
        terms = [(c, f) for _, _, (of, by, _) in self.forms for c, f in self._terms(of, by)]
        external = [
            (i.index, *(at.get(f"{i.name}{s}", -1) for s in ("", "_rate", "_accel"))) for i in self.external
        ]  # fmt: skip
        head, n, c = np.zeros(FRONT, np.int64), len(generated.independent), len(self.tree.columns)
        counts = [len(self._terms(of, by)) for _, _, (of, by, _) in self.forms]
        head[[H.PLAIN, H.BALLS, H.FORMS]] = len(self.plain), len(self.balls), len(self.forms)
        head[[H.EXTERNAL, H.EFFORTS, H.COLUMNS]] = len(external), len(generated.driven), c
        ints: list[Any] = [
            head, system.ints, system.layout, self.plain, np.ravel(self.balls), np.cumsum([0, *counts]),
            [k for k, _ in terms], np.ravel(external),
        ]  # fmt: skip
        ends = np.cumsum([len(part) for part in ints])
        head[[H.SYSTEM_END, H.LAYOUT_END]] = ends[1:3]
        head[[H.PLAIN_AT, H.BALLS_AT, H.ROWS_AT, H.TERMS_AT, H.EXTERNAL_AT]] = ends[2:7]
        values = self.start[system.span(P.INPUT)][VALUE::3]
        words = [as_word(address_of(*kernel)) for kernel in kernels]
        reals: list[Any] = [
            system.reals, system.settings, [constant for _, _, (_, _, constant) in self.forms], [f for _, f in terms],
            [values[i.index] for i in self.external], words,
        ]  # fmt: skip
        head[[H.REALS, H.SETTINGS, H.CONST, H.FACTOR, H.VALUES]] = np.cumsum([len(part) for part in reals])[:5]
        front = max(len(outputs) + len(states), (len(outputs) + 2 * n) * (2 * n + len(inputs)))
        sizes = [
            front, system.state_size, system.work_size, len(ode.make_scratch(system.layout)), 3 * c, 4 * n * n,
            n * c + c + max(4 * n, 3 * len(self.mechanism.inputs)),
        ]  # fmt: skip
        work_ends = np.cumsum(sizes)
        head[[H.TREE, H.WORK, H.SCRATCH, H.PLACED, H.JACOBIAN, H.DERIVATIVES]] = work_ends[:6]
        first = int(system.ints[2 * P.ADDRESS])
        last = int(head[H.VALUES])
        state, code = self.first_state(), system.code

        def initial(into: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
            work[:] = 0.0
            into[:] = state
            machine_step.rates_of_change(into, np.full(len(inputs), np.nan), params, tables, work, state[y])
            work[len(outputs) :] = 0.0
            assert code.address  # what the addresses point to must not be collected

        y = self.continuous
        addresses = (*range(first, first + len(NAMES)), *range(last, last + len(kernels)))
        constants = tables(np.concatenate([np.asarray(i, np.int64) for i in ints]), np.concatenate(reals))
        beside = machine_step.__name__ if self.has_tangent else ""
        exchanged = () if self.without_rates else (Rates(machine_step.rates_of_change, beside),)
        return Machine(
            name, tuple(inputs), tuple(states), tuple(outputs), (), machine_step.step, initial, constants,
            int(work_ends[-1]),
            (Placed(addresses=addresses), CodeParts(code, lambda: generated.functions, NAMES, kernels), *exchanged),
        )  # fmt: skip

    def _terms(self, columns: dict[int, float], inputs: dict[int, float]) -> list[tuple[int, float]]:
        return [*columns.items(), *((len(self.tree.columns) + j, f) for j, f in inputs.items())]

    def first_state(self) -> np.ndarray:
        system, generated, s = self.system, self.system.generated, self.start
        x, ref, w = (system.part(which, s) for which in (P.X, P.REF, P.W))
        quaternions = [ref[4 * b : 4 * b + 4] for b, _ in self.balls]
        of_x = [x[generated.independent[i]] for i in self.plain]
        of_w = [w[k] for k in generated.independent]
        return np.concatenate([of_x, *quaternions, of_w, system.part(P.TIME, s), x, ref])


def _name(velocity: str) -> str:
    return "_".join("".join(letter if letter.isalnum() else " " for letter in velocity).split())


def _forms(mechanism: Equations) -> Iterator[tuple[str, str, tuple[dict[int, float], dict[int, float], float]]]:
    """Components of nodes and named places: name, unit, factors of coordinates, of inputs, constant."""
    angles = {i for c in mechanism.constraints.values() if c.theta is not None for i in c.theta.terms}
    angles |= set(mechanism.rotors)
    named: dict[str, Linear] = {**mechanism.nodes, **mechanism.places}
    for name, form in named.items():
        if form.constant:
            continue  # fixed to the world
        turning = form.kind == "scalar" and any(k in angles for k in form.terms)
        unit = {"point": "m", "vector": "1"}.get(form.kind, "rad" if turning else "m")
        for k in range(form.dim):
            of, by = ({i: float(c[k]) for i, c in terms.items() if c[k] != 0.0} for terms in (form.terms, form.inputs))
            yield name if form.dim == 1 else f"{name}_{'xyz'[k]}", unit, (of, by, float(form.const[k]))
