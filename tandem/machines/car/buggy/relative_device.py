"""The buggy in relative coordinates on a GPU: its Rosenbrock steps, without I3AL behind them.

A step that is not fit for the method (relative_dynamics.py) is not made: the copy stays before it and says so. Forces
of the corners and the equations of the method's stages are unrolled code (relative_corners.py, relative_matrix.py),
as the mechanism is; a road that cannot be traced leaves both as they are compiled for the CPU.
"""

from contextlib import nullcontext

import numpy as np

from sim_service.contract.machine import Tables
from sync.compile.jit import inner
from tandem.machines.car.buggy import relative_corners, relative_matrix
from tandem.machines.car.buggy.forces import hook
from tandem.machines.car.buggy.law import SPRING
from tandem.machines.car.buggy.relative_corners import CORNER_PORTS, MOST
from tandem.machines.car.buggy.relative_dynamics import (
    _UNFIT,
    ADDED,
    CHANGING,
    DERIVATIVES,
    DERIVATIVES_ON,
    DRIFT,
    FRONT,
    GO_ON,
    MOTION,
    NAMES,
    C,
    car_rates,
    car_rates_and_jacobian,
    corner_columns,
    go_on,
    move,
    rosenbrock_step,
)
from tandem.machines.car.buggy.relative_forces import forces_of_rest, rest
from tandem.multibody.code.calls import call, number_in_memory
from tandem.multibody.code.llvm import Function, arguments_of, module_text, split, with_own_work
from tandem.multibody.code.source import DeviceSource
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative import system
from tandem.multibody.relative.generate import Generated
from tandem.multibody.relative.integrators import rodas3_step
from tandem.multibody.relative.system import P as Own

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
PART = 1600  # operations of a part of the generated functions
_CORNER_FORCES = float(relative_matrix.FIRST + len(relative_matrix.NAMES))
_FRONT_LEFT, _FRONT_RIGHT, _REAR_LEFT, _REAR_RIGHT = (_CORNER_FORCES + 1.0 + w for w in range(4))


@inner
def rates(ints, reals, work, t, y, ydot):
    """As `car_rates`."""
    n, N = len(part(ints, ints, Own.INDEPENDENT)), len(y)
    system.place(ints, reals, work, t, y, False)
    go_on(ints, work, t)
    xdot, a = view(ydot, 0, n), view(ydot, n, 2 * n)
    move(ints, reals, work, MOTION, xdot, a)
    ports, port_rates, f = part(ints, work, C.PORTS), part(ints, work, C.RATES), part(ints, work, C.FORCE)
    live, e, edot, fits = part(ints, work, C.LIVE), view(y, 2 * n, N), view(ydot, 2 * n, N), number_in_memory(0.0)
    for i in range(CORNER_PORTS, len(f)):
        f[i] = 0.0
    call(_CORNER_FORCES, (ports, port_rates, live, part(ints, work, C.ELEMENT), e, f, edot, fits))
    if not fits[0] > 0.5:
        part(ints, work, C.BEGUN)[_UNFIT] = 1.0
    forces_of_rest(ports, port_rates, live, part(ints, reals, C.NUMBERS), e, f, edot)
    move(ints, reals, work, GO_ON, xdot, a)


@inner
def corner_derivatives(which, w, arrays, f, edot, more, edot_t):
    """Of a corner, by the function of this number, a constant; whether the law holds."""
    fits, at = number_in_memory(0.0), SPRING + 3 * w
    own = (
        view(f, 13 * w, 13 * w + 13), view(f, at, at + 3), view(edot, 2 * w, 2 * w + 2),
        view(more, MOST * w, MOST * w + MOST), view(edot_t, 2 * w, 2 * w + 2), fits,
    )  # fmt: skip
    call(which, arrays + own)
    return fits[0] > 0.5


@inner
def rates_and_jacobian(ints, reals, work, t, y, ydot, J, ydot_t):
    """As `car_rates_and_jacobian`, but J is what relative_matrix.py makes of it."""
    system.place(ints, reals, work, t, y, False)
    n, address = len(part(ints, ints, Own.INDEPENDENT)), part(ints, reals, Own.ADDRESS)
    N = 2 * n + ADDED
    ports, port_rates, f = part(ints, work, C.PORTS), part(ints, work, C.RATES), part(ints, work, C.FORCE)
    a, xdot = part(ints, work, Own.ACCELERATION), part(ints, work, Own.XDOT)
    packed, packed_rates = part(ints, work, C.PACKED), part(ints, work, C.PACKED_RATES)
    derivatives, drift = part(ints, work, Own.DERIVATIVES), part(ints, work, Own.DRIFT)
    turns, factor, more = part(ints, work, Own.TURNS), part(ints, work, Own.FACTOR), part(ints, work, C.BY_PORT)
    port_drift, rate_drift = part(ints, work, C.PORT_DRIFT), part(ints, work, C.RATE_DRIFT)
    arrays = (
        part(ints, work, Own.AT_X), part(ints, work, Own.AT_REF), part(ints, work, Own.AT_W),
        part(ints, work, Own.AT_INPUT), part(ints, reals, Own.D), f, ports, port_rates, packed, packed_rates,
        port_drift, rate_drift, a, xdot, part(ints, work, Own.AT_FULL), part(ints, work, Own.AT_EFFORT), derivatives,
        turns, factor, drift, part(ints, work, Own.GENERATED),
    )  # fmt: skip
    call(address[DERIVATIVES], arrays)
    e, edot, edot_t = view(y, 2 * n, N), view(ydot, 2 * n, N), view(ydot_t, 2 * n, N)
    begun, by_force, by_time = part(ints, work, C.BEGUN), part(ints, work, C.BY_FORCE), part(ints, work, C.BY_TIME)
    for i in range(len(by_force)):
        by_force[i] = 0.0
    for i in range(n):
        by_time[i] = 0.0
    for i in range(CORNER_PORTS, len(f)):
        f[i] = 0.0
    go_on(ints, work, t)
    live = part(ints, work, C.LIVE)
    changing = view(begun, CHANGING, 2 * CHANGING)
    arrays_of = (
        ports, port_rates, live, part(ints, work, C.ELEMENT), e, view(changing, 2, 6), packed, packed_rates,
        port_drift, rate_drift,
    )  # fmt: skip
    fit = corner_derivatives(_FRONT_LEFT, 0, arrays_of, f, edot, more, edot_t)
    fit &= corner_derivatives(_FRONT_RIGHT, 1, arrays_of, f, edot, more, edot_t)
    fit &= corner_derivatives(_REAR_LEFT, 2, arrays_of, f, edot, more, edot_t)
    fit &= corner_derivatives(_REAR_RIGHT, 3, arrays_of, f, edot, more, edot_t)
    if not fit:
        begun[_UNFIT] = 1.0
    table = part(ints, ints, Own.BLOCKS)
    of = corner_columns(table)
    rest(
        ports, port_rates, live, changing, part(ints, reals, C.NUMBERS), e, f, edot, part(ints, work, C.DUALS), packed,
        packed_rates, (table[of[2] + 7], table[of[3] + 7]),
        (table[of[0] + 6], table[of[1] + 6], table[of[2] + 6], table[of[3] + 6]), n, N, by_force, J, by_time, edot_t,
    )  # fmt: skip
    call(address[DERIVATIVES_ON], arrays)
    call(address[DRIFT], arrays)
    for i in range(n):
        ydot[i] = xdot[i]
        ydot[n + i] = a[i]
    call(relative_matrix.KEEP, (derivatives, by_force, more, turns, factor, J))
    call(relative_matrix.IN_TIME, (drift, by_time, more, J, ydot_t))


@inner
def advance(state, inputs, params, tables, work, h, shown):
    return rosenbrock_step(rodas3_step, rates, rates_and_jacobian, hook, state, inputs, params, tables, work, h, shown)


@inner
def advance_as_compiled(state, inputs, params, tables, work, h, shown):
    """Of a road that cannot be traced."""
    return rosenbrock_step(
        rodas3_step, car_rates, car_rates_and_jacobian, hook, state, inputs, params, tables, work, h, shown
    )


def source(
    constants: Tables, addresses: tuple[int, ...], generated: Generated, numbers: np.ndarray, part: int = PART
) -> DeviceSource:
    """Of a machine with these tables, in which addresses become numbers of functions."""
    traced = relative_corners.serves(numbers)
    floats = np.array(constants.floats)
    floats[list(addresses)] = np.arange(len(addresses))
    assert len(addresses) == relative_matrix.FIRST
    functions = [f for f in generated.functions if any(entry in NAMES[1:] for entry in f.entries)]
    first, last = constants.ints[FRONT + 2 * Own.GENERATED : FRONT + 2 * Own.GENERATED + 2]
    assert all(split(f, part)[1] <= last - first for f in functions)
    unrolled = _unrolled(numbers, generated) if traced else []
    sizes = {entry: len(arguments_of(f)) for f in functions for entry in f.entries}
    sizes |= {f.name: len(arguments_of(f)) - 1 for f in unrolled}
    numbered = [*NAMES, *[""] * (relative_matrix.FIRST - len(NAMES)), *(f.name for f in unrolled)]
    # a number that stands for another kind of function is never called with so many arrays
    names = {k: [name if sizes.get(name) == k else f"none_{k}" for name in numbered] for k in set(sizes.values())}
    # loops are closed in as many corrections as a copy needs; all else is called equally often by all
    together = tuple(entry for entry in sizes if entry != "close")

    def text() -> str:
        more = with_own_work(unrolled, part).splitlines()
        return module_text(functions, part) + "\n".join(line for line in more if not line.startswith("declare"))

    return DeviceSource(
        advance if traced else advance_as_compiled, np.array(constants.ints), floats, text, names,
        relative_matrix.taking_place if traced else nullcontext, together=together,
    )  # fmt: skip


def _unrolled(numbers: np.ndarray, generated: Generated) -> list[Function]:
    """In the order of their numbers."""
    corners = relative_corners.CornerDerivatives(numbers, generated)
    structure = relative_matrix.Structure(generated, corners)
    return [*relative_matrix.functions(structure), relative_corners.forces(numbers), *corners.functions]
