"""A machine around a machine: an observer, virtual sensors, an obstacle before a car.

`around(inner, own)` declares everything of the machine inside completely, and what the one around it adds:

    inputs, states, outputs, parameters    those inside, then its own
    work                                   all outputs, the work of the machine inside, its own scratch
    tables                                 integers: `Head`, its own, those inside; numbers: its own, those inside

Its step finds what belongs to the machine inside by `inside(...)`. Display, scene, efforts, bounds, what tables may
hold, changes of shape, unrolled code, a start in motion and the look ahead of the machine inside become those of the
whole. Capabilities of the inner machine's step itself (`OF_ITS_STEP`, and every class of another package) do not: the
whole has another step, which brings its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from sim_service.contract.machine import (
    FIT,
    DeviceCode,
    Efforts,
    Machine,
    Moving,
    Parameter,
    Placed,
    Prediction,
    Quantity,
    Rates,
    Reshape,
    ShapeDerivatives,
    Shown,
    Stepping,
    Tables,
    Tangent,
    Unrolled,
    Unrolling,
    places,
    tables,
)
from sim_service.contract.scene import Scene, Solid
from sync.compile.array_types import read_only
from sync.compile.jit import inner as inline
from sync.compile.jit import kernel

# in front of a composite's integers: how much of each vector belongs to the machine inside, where its part begins
Head = places("Head", ("STATES", "INPUTS", "PARAMETERS", "OUTPUTS", "WORK_AT", "WORK", "INTS_AT", "FLOATS_AT"))
OWN_INTS = len(Head)  # where the composite's own integers begin
OF_ITS_STEP = (ShapeDerivatives, Tangent, Rates, DeviceCode)


def _no_more(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    """Only the machine inside has a start."""


@dataclass(frozen=True)
class Own:
    """What a composite has besides the machine inside."""

    name: str
    step: Any  # nopython, signature STEP: of the whole
    inputs: tuple[Quantity, ...] = ()
    states: tuple[Quantity, ...] = ()
    outputs: tuple[Quantity, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    ints: Any = ()
    floats: Any = ()
    addresses: tuple[int, ...] = ()  # of `floats`
    scratch: int = 0  # size of its own scratch in work
    layout: str = ""  # what stands where in `ints` and `floats`
    # (state, params, tables, work) of the whole, after the machine inside has its start: writes the rest
    begin: Callable[[np.ndarray, np.ndarray, Tables, np.ndarray], None] = _no_more
    step_ms: float = 0.0  # the length of step it was made for; 0: any
    efforts: tuple[str, ...] = ()
    solids: tuple[Solid, ...] = ()  # in front of them, the frames of the scene inside
    # (state, params, out) of the whole, out: of its own solids' frames
    frames: Callable[[np.ndarray, np.ndarray, np.ndarray], None] | None = None
    without: tuple[type, ...] = ()  # capabilities inside that do not hold for the whole
    capabilities: tuple[Any, ...] = ()  # instead of those inside


@inline
def inside(state, params, tables, work):
    """State, parameters, tables and work of the machine inside."""
    ints = tables.ints
    at = ints[Head.WORK_AT]
    return (
        state[: ints[Head.STATES]], params[: ints[Head.PARAMETERS]],
        Tables(ints[ints[Head.INTS_AT] :], tables.floats[ints[Head.FLOATS_AT] :]), work[at : at + ints[Head.WORK]],
    )  # fmt: skip


@inline
def pass_outputs(tables, own_work, work):
    """Copy the outputs of the machine inside to where those of the whole are."""
    for i in range(tables.ints[Head.OUTPUTS]):
        work[i] = own_work[i]


def around(inner: Machine, own: Own) -> Machine:
    outputs = len(inner.outputs) + len(own.outputs)
    own_ints, own_floats = np.asarray(own.ints, np.int64), np.asarray(own.floats, float)
    head = np.zeros(len(Head), np.int64)
    for place, value in (
        (Head.STATES, len(inner.states)), (Head.INPUTS, len(inner.inputs)), (Head.PARAMETERS, len(inner.parameters)),
        (Head.OUTPUTS, len(inner.outputs)), (Head.WORK_AT, outputs), (Head.WORK, inner.work_size),
        (Head.INTS_AT, len(Head) + len(own_ints)), (Head.FLOATS_AT, len(own_floats)),
    ):  # fmt: skip
        head[place] = value
    return Machine(
        name=own.name,
        inputs=(*inner.inputs, *own.inputs),
        states=(*inner.states, *own.states),
        outputs=(*inner.outputs, *own.outputs),
        parameters=(*inner.parameters, *own.parameters),
        step=own.step,
        initial=_initial(inner, own),
        tables=tables(
            np.concatenate([head, own_ints, inner.tables.ints]), np.concatenate([own_floats, inner.tables.floats])
        ),
        work_size=outputs + inner.work_size + own.scratch,
        capabilities=tuple(_capabilities(inner, own, len(own_floats))),
    )


def own_scratch_at(inner: Machine, own_outputs: int) -> int:
    """Where a composite's own scratch begins in its work."""
    return len(inner.outputs) + own_outputs + inner.work_size


Begin = Callable[[np.ndarray, np.ndarray, Tables, np.ndarray], None]


def _initial(inner: Machine, own: Own) -> Begin:
    def initial(state: np.ndarray, params: np.ndarray, whole_tables: Tables, work: np.ndarray) -> None:
        state[:] = 0.0
        work[:] = 0.0
        parts = inside.py_func(state, params, whole_tables, work)
        inner.initial(*parts)
        pass_outputs.py_func(whole_tables, parts[-1], work)
        own.begin(state, params, whole_tables, work)

    return initial


def _capabilities(inner: Machine, own: Own, floats_at: int) -> list[Any]:
    """The capabilities of the whole, each once."""
    capabilities: list[Any] = [
        _shown(inner, own), Efforts((*inner.efforts, *own.efforts)), _placed(inner.placed, own, floats_at),
        _stepping(inner, own),
    ]  # fmt: skip
    replaced = {type(each) for each in (*capabilities, *own.capabilities)} | set(own.without)
    for each in inner.capabilities:
        kind = type(each)
        if kind in PASSED_ON and kind not in replaced:
            capabilities.append(PASSED_ON[kind](inner, own, each))
    return [*capabilities, *own.capabilities]


def _shown(inner: Machine, own: Own) -> Shown:
    states, parameters = len(inner.states), len(inner.parameters)
    shown, scene = inner.shown, inner.shown.scene
    if own.solids:
        scene = scene or Scene()
        count = scene.frames + max(solid.frame for solid in own.solids) + 1
        moved = tuple(replace(solid, frame=scene.frames + solid.frame) for solid in own.solids)
        scene = replace(scene, frames=count, solids=(*scene.solids, *moved))
    first = 1 if shown.scene is None else shown.scene.frames

    def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        shown.frames(state[:states], params[:parameters], out[:first])
        if own.frames is not None:
            own.frames(state, params, out[first:])

    return Shown(shown.display, scene, frames)


def _placed(placed: Placed, own: Own, floats_at: int) -> Placed:
    first, behind = placed.remade
    return Placed(
        f"{own.layout} around {placed.layout}" if own.layout else placed.layout,
        (floats_at + first, floats_at + behind) if first < behind else (0, 0),
        (*own.addresses, *(floats_at + place for place in placed.addresses)),
    )


def _stepping(inner: Machine, own: Own) -> Stepping:
    stepping = inner.stepping
    if own.step_ms and stepping.step_ms not in (0.0, own.step_ms):
        raise ValueError(f"{own.name}: steps of {own.step_ms:g} ms around {inner.name}, of {stepping.step_ms:g} ms")
    return replace(stepping, step_ms=own.step_ms or stepping.step_ms)


def _reshape(inner: Machine, own: Own, reshape: Reshape) -> Reshape:
    parameters, floats = len(inner.parameters), np.asarray(own.floats, float)

    def make(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        numbers, reference = reshape.make(params[:parameters])
        return np.concatenate([floats, numbers]), reference

    return replace(reshape, make=make, fit=_fit_inside(reshape.fit))


@cache
def _fit_inside(fit: Any) -> Any:
    @kernel(FIT, error_model="numpy")
    def fit_inside(state, moved, params, tables, work):
        own_state, own_params, own_tables, own_work = inside(state, params, tables, work)
        fit(own_state, moved, own_params, own_tables, own_work)

    return fit_inside


def _moving(inner: Machine, own: Own, moving: Moving) -> Moving:
    inputs = len(inner.inputs)

    def begin(
        state: np.ndarray, params: np.ndarray, whole_tables: Tables, work: np.ndarray, first: np.ndarray,
        values: Mapping[str, float],
    ) -> None:  # fmt: skip
        own_state, own_params, own_tables, own_work = inside.py_func(state, params, whole_tables, work)
        moving.begin(own_state, own_params, own_tables, own_work, first[:inputs], values)
        pass_outputs.py_func(whole_tables, own_work, work)
        own.begin(state, params, whole_tables, work)

    return replace(moving, begin=begin)


def _prediction(inner: Machine, own: Own, prediction: Prediction) -> Prediction:
    """The machine inside is stepped ahead, without what is around it."""
    parameters = len(inner.parameters)

    def make(params: np.ndarray) -> object:
        monitor: Any = prediction.make(params[:parameters])
        return monitor if monitor.of is not None else replace(monitor, of=inner)

    return Prediction(make)


def _unrolling(inner: Machine, own: Own, unrolling: Unrolling) -> Unrolling:
    """The machine inside gets its unrolled code in the whole's tables, which may differ from those it was made with."""

    def make(whole: Machine, wait: bool) -> Machine:
        ints, floats = whole.tables
        at, floats_at = ints[Head.INTS_AT], ints[Head.FLOATS_AT]
        coded = unrolling.make(replace(inner, tables=Tables(ints[at:], floats[floats_at:])), wait)
        numbers = np.concatenate([floats[:floats_at], coded.tables.floats])
        if (code := coded.of(Unrolled)) is not None:
            code.follow(numbers[len(numbers) - code.count :])
        unrolled = replace(
            whole, tables=Tables(read_only(np.concatenate([ints[:at], coded.tables.ints])), read_only(numbers))
        )
        kinds = {Placed, Unrolled} | {Reshape for each in whole.capabilities if type(each) is Reshape}
        return unrolled.having(*(each for each in around(coded, own).capabilities if type(each) in kinds))

    return Unrolling(make)


PASSED_ON: dict[type, Callable[[Machine, Own, Any], Any]] = {
    Reshape: _reshape,
    Moving: _moving,
    Prediction: _prediction,
    Unrolling: _unrolling,
    Unrolled: lambda inner, own, unrolled: unrolled,  # its addresses are the last of all numbers here, too
}
