"""The buggy in relative coordinates: the natural machine with the tables of its tree behind its own.

Refused by name is what would send every step to I3AL: a road with edges, tyres with turn slip, steering by torque or
with a torsion bar, halved or estimated steps.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sim_service.contract.machine import (
    STEP,
    DeviceCode,
    Machine,
    Moving,
    Placed,
    Quantity,
    Reshape,
    Tables,
    Tangent,
    Unrolling,
    tables,
)
from sync.compile.parts import joined, lay_out, places_in, span
from sync.errors import ConfigError
from tandem.machines.car.buggy import dynamics, forces, relative_forces, relative_reshape, slots, start
from tandem.machines.car.buggy import relative_dynamics as relative
from tandem.machines.car.buggy.description import PARAMETERS, P, W
from tandem.machines.car.buggy.reference import reference_positions
from tandem.machines.car.buggy.relative_dynamics import C
from tandem.machines.car.tyres.keys import T
from tandem.multibody.code.calls import address_of, as_word
from tandem.multibody.code.code_parts import CodeParts
from tandem.multibody.code.llvm import Compiled
from tandem.multibody.ground.layout import Head
from tandem.multibody.natural import evaluation
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.system import System
from tandem.multibody.natural.tables import FORCE
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.relative import integrators, ode
from tandem.multibody.relative.build import build, build_like, structure_of
from tandem.multibody.relative.generate import Generated
from tandem.multibody.relative.system import P as Own

COMPILED_ON_REQUEST = True  # with all that it imports: see sync/compile/build.py

_NOT_SERVED = {  # parameters, and from which value on
    "steering_mode": 0.5, "column_stiffness": 1e-300, "step_halving": 0.5, "estimate_every": 0.5, "turn_slip": 0.5,
}  # fmt: skip


_TURN = 0.3  # rad; so far the tree finds the natural state from where it is
_FOR_GPU = 400  # numbers that longer parts of the generated functions (relative_device.py) leave for each other, more


def in_relative(machine: Machine, built: Any, other: Callable[[np.ndarray], Any], path: str) -> Machine:
    """The same machine, stepped in relative coordinates where these are fit. `built` is what it was assembled from,
    `other` assembles the car of another shape."""
    _refuse(machine, built.params, path)
    try:
        generated, code = build(built.car.mechanism)
    except MechanismError as error:
        raise ConfigError(f'{path}: formulation = "relative": {error}') from None
    blocks = generated.blocks
    if not relative_forces.serves(blocks.first, blocks.sizes, blocks.columns, blocks.filled):
        raise ConfigError(
            f'{path}: formulation = "relative": the wheels of this geometry are not moved by one velocity of their own'
            ' each beside the chassis; formulation = "natural" serves it'
        )
    constants, sizes, addresses = _tables(machine, built.system, generated, code)
    states, tree_work, scratch = sizes
    total = len(machine.states) + states
    begin = _begin(machine, generated, constants)
    extra = [Quantity(f"tree {i}", "", "") for i in range(states)]
    return (
        replace(
            machine,
            states=(*machine.states, *extra),
            tables=constants,
            step=relative.step,
            initial=begin,
            work_size=machine.work_size + tree_work + scratch + total,
        )
        .having(
            Placed(
                f"{machine.placed.layout} relative {len(Own)} {len(C)} {relative.ADDED}",
                machine.placed.remade,
                addresses,
            ),
            _reshape(machine, built, generated, code, constants, addresses, other, path),
            DeviceCode(lambda: _device(constants, addresses, generated)),
            _moving(machine, built.system, constants),
            CodeParts(code, lambda: generated.functions, tuple(relative.NAMES), _KERNELS, _NO_RATES),
        )
        .without(Unrolling)  # its tables are those of the tree
        .without(Tangent)  # of natural coordinates' steps
    )


def _reshape(
    machine: Machine, built: Any, first: Generated, code: Compiled, constants: Tables, addresses: tuple[int, ...],
    other: Callable[[np.ndarray], Any], path: str,
) -> Reshape:  # fmt: skip
    natural = machine.of(Reshape)
    assert natural is not None

    def make(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = other(params)
        try:
            generated = build_like(found.car.mechanism, structure_of(built.car.mechanism), first)
        except MechanismError as error:
            raise ConfigError(f'{path}: formulation = "relative": {error}') from None
        if generated is not None:
            at, _, _ = _tables(replace(machine, tables=found.tables), found.system, generated, code)
        if generated is None or not np.array_equal(at.ints, constants.ints):
            raise ConfigError(_other_equations(built.params, params, path))
        floats = at.floats.copy()
        floats[list(addresses)] = constants.floats[list(addresses)]
        return floats, reference_positions(found.car, found.system)[1]

    return replace(natural, make=make, fit=relative_reshape.fit)


def _other_equations(first: np.ndarray, now: np.ndarray, path: str) -> str:
    """Why, and what would do: a figure that was exactly 0 at the start is in none of the equations."""
    shapes = [p.name for p in PARAMETERS if p.shapes]
    new = [name for name in shapes if first[P[name]] == 0.0 != now[P[name]]]
    gone = [name for name in shapes if now[P[name]] == 0.0 != first[P[name]]]
    why = [f"{name} was exactly 0 at the start" for name in new] + [f"{name} is exactly 0 now" for name in gone]
    right = [f"start with sim.parameters.{name} = 1e-9" for name in new] + [f"set {name} = 1e-9" for name in gone]
    return (
        f'{path}: formulation = "relative": this shape has other equations of motion:'
        f" {', '.join(why) or 'a figure made of its parameters became exactly 0, or is so no more'};"
        f" {', '.join([*right, 'or']) if right else ''}"
    ).rstrip() + ' start with formulation = "natural"'


_KERNELS = (
    (forces.hook, FORCE), (dynamics.step, STEP), (evaluation.examine, relative.EXAMINE),
    (integrators.rodas3_step, ode.STEP), (relative.car_rates, ode.RATES),
    (relative.car_rates_and_jacobian, ode.RATES_AND_JACOBIAN),
)  # fmt: skip

_NO_RATES = (
    "gears, brakes that hold and tyres that slide are decided once a step and kept until the next, and slow or sliding"
    " wheels are stepped by I3AL"
)


def _device(constants: Tables, addresses: tuple[int, ...], generated: Generated) -> Any:
    from tandem.machines.car.buggy import relative_device  # only who compiles for a GPU needs it

    first, last = constants.ints[relative.FRONT + 2 * C.NUMBERS : relative.FRONT + 2 * C.NUMBERS + 2]
    return relative_device.source(constants, addresses, generated, constants.floats[first:last])


def _refuse(machine: Machine, params: np.ndarray, path: str) -> None:
    wrong = [
        f"parameters.{name} = {params[P[name]]:g}: is not served in relative coordinates; it must be 0"
        for name, least in _NOT_SERVED.items()
        if params[P[name]] >= least
    ]
    numbers = machine.tables.floats[machine.tables.ints[slots.NUMBERS] :]
    if numbers[slots.ROAD + Head.SHARP] > 0.0:
        wrong.append("the road has edges or bends within a wheel's outline, which relative coordinates do not serve")
    for k, key in enumerate(("tyre_front", "tyre_rear")):
        if numbers[slots.TYRES + slots.TYRE * k + T.TURN_SLIP] > 0.0:
            wrong.append(f"{key}: turn slip is not served in relative coordinates")
        if numbers[slots.TYRES + slots.TYRE * k + T.VERSION] > 0.0:
            wrong.append(f"{key}: MF 6 is not served in relative coordinates")
    if wrong:
        right = 'formulation = "natural" serves it'
        raise ConfigError("\n".join(f'{path}: formulation = "relative": {what}; {right}' for what in wrong))


def _begin(machine: Machine, generated: Generated, constants: Tables) -> Any:
    """As the natural machine begins."""
    head = constants.ints
    ints = head[relative.FRONT :]

    def initial(state: np.ndarray, params: np.ndarray, constants: Tables, work: np.ndarray) -> None:
        size, own = int(head[relative.STATE_AT]), int(head[relative.WORK_AT])
        work[:] = 0.0
        of_car = tables(head[head[relative.NATURAL_AT] :], constants.floats[: head[relative.FLOATS]])
        machine.initial(state[:size], params, of_car, work[:own])
        tree = state[size:]
        tree[:] = 0.0
        tree[span(ints, Own.X)] = generated.tree.assembled
        tree[span(ints, Own.REF)] = np.tile([1.0, 0.0, 0.0, 0.0], len(generated.balls))
        relative.join(state, params, constants, work, True)

    return initial


def _moving(machine: Machine, system: System, constants: Tables) -> Moving:
    """As the natural machine begins in motion. The tree follows it from where it is, turn by turn."""
    natural, head = machine.of(Moving), constants.ints
    assert natural is not None

    def begin(
        state: np.ndarray, params: np.ndarray, constants: Tables, work: np.ndarray, inputs: np.ndarray,
        values: Mapping[str, float],
    ) -> None:  # fmt: skip
        size, own = int(head[relative.STATE_AT]), int(head[relative.WORK_AT])
        of_car = tables(head[head[relative.NATURAL_AT] :], constants.floats[: head[relative.FLOATS]])
        before = float(work[W.yaw])
        natural.begin(state[:size], params, of_car, work[:own], inputs, values)
        yaw = float(work[W.yaw]) - before
        turns = math.ceil(abs(yaw) / _TURN)
        for k in range(1, turns):
            other, other_work = state.copy(), work.copy()
            start.turn_about(system, other[:size], other_work[:own], yaw * (k / turns - 1.0))
            dynamics.show(other[:size], params, of_car, other_work[:own])
            relative.join(other, params, constants, other_work, True)
            state[size:] = other[size:]
        relative.join(state, params, constants, work, False)

    return Moving(natural.given, begin)


def _tables(
    machine: Machine, system: System, generated: Generated, code: Compiled
) -> tuple[Tables, tuple[int, int, int], tuple[int, ...]]:
    """Tables; sizes of state, work and scratch; places of addresses."""
    (d,) = code.call("prepare", generated.parameters)
    tree, blocks = generated.tree, generated.blocks
    n, u, v, m = tree.n, len(generated.independent), len(generated.dependent), len(blocks.ball_rows)
    forms = [tree.driven[k] for k in generated.driven]
    start = np.zeros((1, 3))
    start[:, 0] = generated.at.inputs
    pivots = code.call("close", generated.at.x, generated.at.ref, start.ravel(), d)[2]
    bare = blocks.table.copy()
    bare[1] = 0
    place = {k: i for i, k in enumerate(generated.independent)}
    free = [place[k] for k in generated.balls if all(k + i in place for i in range(3))]
    layout = ode.make_layout(u, relative.ADDED, free)
    settings = ode.make_settings(layout)
    ints: dict[int, Any] = {
        Own.INDEPENDENT: generated.independent, Own.DEPENDENT: generated.dependent, Own.DRIVEN: generated.driven,
        Own.BALLS: generated.balls, Own.LAW_KIND: [i.kind for i in system.mechanism.inputs.values()],
        Own.DRIVEN_PTR: np.cumsum([0, *(len(form.inputs) for form in forms)]), Own.BLOCKS: blocks.table,
        Own.DRIVEN_INPUT: [k for form in forms for k in form.inputs], C.BARE: bare,
    }  # fmt: skip
    addresses = [code.address[name] for name in relative.NAMES] + [address_of(*kernel) for kernel in _KERNELS]
    reals: dict[int, Any] = {
        Own.ADDRESS: [as_word(address) for address in addresses], Own.D: d, Own.LAW: np.zeros(4),
        Own.DRIVEN_CONST: [form.const for form in forms],
        Own.DRIVEN_FACTOR: [c for form in forms for c in form.inputs.values()], Own.PIVOT: pivots,
    }  # fmt: skip
    state = {
        Own.TIME: 1, Own.X: n, Own.REF: 4 * len(generated.balls), Own.W: n, Own.FULL: n, Own.EFFORT: 1, Own.INPUT: 3,
        C.FLAG: 1,
    }  # fmt: skip
    ports, packed = len(generated.ports), sum(a * len(c) for a, c in zip(blocks.sizes, blocks.columns, strict=True))
    square = sum(size * size for size in blocks.sizes)
    work = {
        Own.AT_X: n, Own.AT_REF: 4 * len(generated.balls), Own.AT_W: n, Own.AT_INPUT: 3, Own.START_X: n, Own.NEW: v,
        Own.H: v, Own.PIVOTS: v, Own.ACCELERATION: u, Own.XDOT: u, Own.AT_FULL: n, Own.AT_EFFORT: 1, Own.END: 4,
        Own.DERIVATIVES: 2 * u * u, Own.TURNS: 2 * u * m, Own.FACTOR: u * u, Own.DRIFT: u + 2 * m,
        Own.SCRATCH: blocks.work_size, Own.GENERATED: code.work_size + _FOR_GPU, Own.Y: 2 * u + relative.ADDED,
        Own.NONE: 1,
        C.PORTS: ports, C.RATES: ports, C.FORCE: ports, C.STIFF: square, C.DAMP: square, C.PACKED: packed,
        C.PACKED_RATES: packed, C.BY_PORT: ports * u, C.PORT_DRIFT: ports, C.RATE_DRIFT: ports,
        C.ELEMENT: slots.STATES, C.AFTER: slots.STATES, C.LIVE: slots.LIVE, C.BEGUN: relative.BEGUN_SIZE,
        C.BY_FORCE: 2 * u * u, C.BY_TIME: u, C.DUALS: relative_forces.SCRATCH, C.MOVED_Y: 2 * u + relative.ADDED,
        C.NORMAL: u * u, C.SIDE: u,
    }  # fmt: skip
    natural = machine.tables
    count = len(Own) + len(C)
    spans, (ints_end, reals_end, state_end, work_end) = lay_out(
        count, (2 * count, ints), (len(natural.floats), reals), (0, state), (0, work)
    )
    hooks = int(natural.ints[slots.NUMBERS]), system.span(Part.PARAM).stop
    spans[2 * C.NUMBERS : 2 * C.NUMBERS + 2] = hooks
    front = np.zeros(relative.FRONT, np.int64)
    front[relative.STATE_AT] = len(machine.states)
    front[relative.WORK_AT] = machine.work_size
    front[relative.SCRATCH_AT] = machine.work_size + work_end
    front[relative.LAYOUT_AT] = relative.FRONT + ints_end
    front[relative.NATURAL_AT] = front[relative.LAYOUT_AT] + len(layout)
    front[relative.FLOATS] = len(natural.floats)
    front[relative.SETTINGS_AT] = reals_end
    constants = tables(
        np.concatenate([front, spans, joined(ints, np.int64), layout, natural.ints]),
        np.concatenate([natural.floats, joined(reals, float), settings]),
    )
    lengths = state_end, work_end, len(ode.make_scratch(layout))
    return constants, lengths, places_in(spans, Own.ADDRESS)
