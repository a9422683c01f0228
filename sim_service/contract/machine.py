"""What a machine is to the rest of tandem: names, units, limits, and one nopython step.

A machine is a folder in `tandem/machines/`, or a module of another package (sync/config/plugins.py). Everything that
surrounds it (configuration, output channels, log, view, live tuning) is made from this description and knows nothing
else.

The step is `step(state, inputs, params, tables, work, h)`: float64 vectors but for `tables`, `h` in seconds. It
advances `state` by `h` in place and leaves the outputs in the first `len(outputs)` entries of `work`; the rest of
`work` is room to work in. `params`, the values of `parameters` in their order, and `tables`, integers and numbers that
were made before the first step, are constant: their types are read-only, so that a step that writes into them does not
compile. Between two steps live tuning may change `params`, and a machine that says how (`Reshape`) takes the tables of
another shape.

An optional input that is not measured comes as NaN: the step computes it and puts it there, so that a reader of the
inputs sees what was used; or leaves NaN, where it has no need of it. What the next step depends on is in the state:
with a `work` of zeros it goes on just the same. It allocates nothing, raises nothing and uses nothing but its
arguments, so the same arguments give the same bits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numba import float64, types
from numpy.typing import NDArray

from sim_service.contract.display import AS_IT_IS, Display
from sim_service.contract.scene import Scene
from sync.compile import parts
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR, group, read_only
from sync.errors import UnknownName

Kind = TypeVar("Kind")
Floats = NDArray[np.float64]
places = parts.places  # by name, of its own quantities, for its kernels


class Tables(NamedTuple):
    """What a step reads besides its parameters; make them with `tables`."""

    ints: NDArray[np.int32]
    floats: Floats


def tables(ints: Sequence[int] | NDArray[np.integer] = (), floats: Sequence[float] | Floats = ()) -> Tables:
    """Copies that nothing writes into."""
    return Tables(read_only(np.array(ints, np.int32)), read_only(np.array(floats, np.float64)))


NO_TABLES = tables()
TABLES = group(Tables, INDICES, CONSTANTS)
STEP = types.void(VECTOR, VECTOR, CONSTANTS, TABLES, VECTOR, float64)
# the same as Python has it: state, inputs, params, tables, work, h
Step = Callable[[Floats, Floats, Floats, Tables, Floats, float], None]
# the state after the tables became those of another shape: state, how drawn coordinates moved, params, tables, work
FIT = types.void(VECTOR, VECTOR, CONSTANTS, TABLES, VECTOR)
# the same as STEP with derivatives in eight directions behind each vector, entry by entry
TANGENT = types.void(*3 * [VECTOR, VECTOR], TABLES, VECTOR, VECTOR, float64)


@dataclass(frozen=True)
class Quantity:
    """An input, a state or an output of a machine.

    >>> [(q.name, q.unit) for q in tandem.load_machine("mass_spring").states]
    [('x', 'm'), ('v', 'm/s')]
    """

    name: str
    unit: str
    text: str
    optional: bool = False  # of an input: what no row of [inputs] gives comes as NaN, and the step puts its own there
    at_end: bool = False  # of an input: a step has it where it ends, not where it begins


@dataclass(frozen=True)
class Parameter:
    """A parameter of a machine, with its value and limits.

    >>> tandem.load_machine("mass_spring").parameters.describe("mass").range_text
    'from 0.01 to 100 kg'
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    text: str
    live: bool = True  # may change between two steps; otherwise it shapes the machine
    shapes: bool = False  # not live, but tables for another value can be made while it runs (`Machine.reshape`)
    group: str = ""  # of parameters that belong together; without one the first word of its name
    of_the_file: bool = True  # the machine's file gives it; otherwise it is a hand on it, and begins at `value`

    @property
    def range_text(self) -> str:
        """What would be right, for an error."""
        return f"from {self.low:g} to {self.high:g}" + (f" {self.unit}" if self.unit != "1" else "")

    @property
    def group_name(self) -> str:
        """What its slider stands under."""
        return self.group or self.name.split("_")[0]


def at_rest(state: Floats, params: Floats, tables: Tables, work: Floats) -> None:
    """A machine that begins with zeros."""
    state[:] = 0.0
    work[:] = 0.0


def still(state: Floats, params: Floats, out: Floats) -> None:
    """Frames that do not move."""


# ---- what a machine may have besides: its capabilities --------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """What is shown of it, and what it looks like."""

    display: Display = AS_IT_IS
    scene: Scene | None = None
    frames: Callable[[Floats, Floats, Floats], None] = still  # (state, params, out), see scene.py


@dataclass(frozen=True)
class Efforts:
    """Outputs that may go back to a device, see [source.effort]."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placed:
    """What stands where in its tables."""

    layout: str = ""  # a hash of it
    remade: tuple[int, int] = (0, 0)  # of `tables.floats`: what its files give as it is, such as a map: not recorded
    addresses: tuple[int, ...] = ()  # of `tables.floats`: addresses of code, which hold for this process alone


@dataclass(frozen=True)
class Stepping:
    """What its step requires of the caller."""

    bound: float = 1e9  # no state and no output of it is ever beyond; one that is has diverged
    step_ms: float = 0.0  # the length of step it was made for, and no other is right; 0: any
    one_at_a_time: bool = False  # it has memory of its own, of others' making: no two threads may call it


@dataclass(frozen=True)
class Reshape:
    """How parameters that shape a machine are changed while it runs (sim_service/shapes.py). Without it they need a
    new start."""

    # of all parameters: the numbers of its tables, places of which are the same, and its coordinates as drawn, rows of
    # x, y, z. Raises ConfigError where there is no such machine
    make: Callable[[Floats], tuple[Floats, Floats]]
    fit: Callable[[Floats, Floats, Floats, Tables, Floats], None]  # nopython, signature FIT
    drawn: Floats  # as the machine was made
    columns: tuple[int, ...]  # of each row of it, the first coordinate


@dataclass(frozen=True)
class Tangent:
    """Its step with derivatives."""

    module: str  # whose `tangent` it is, signature TANGENT


@dataclass(frozen=True)
class ShapeSlopes:
    """Derivatives by parameters that shape it: these are in its tables, and no argument of its step."""

    names: Callable[[], tuple[str, ...]]  # by which; asked once, for it takes a while
    # of its parameters, by at most eight places of them: the machine whose Tangent has these derivatives, in that
    # order, and those of its first state, a row a state
    make: Callable[[Floats, Sequence[int]], tuple["Machine", Floats]]


@dataclass(frozen=True)
class Rates:
    """How fast its states change: for those who integrate themselves (docs/fmu.md)."""

    of_states: Step  # nopython, signature STEP: leaves outputs and, behind them, a rate of every state in `work`
    # a module whose `tangent_of_rates`, signature STEP, leaves a row for every output and rate, a column for every
    # state and input; "": they have no derivatives
    tangent: str = ""


@dataclass(frozen=True)
class Moving:
    """How it begins in motion (contract/start.py). Without it what is given must be states of a machine that begins
    with zeros, and the others are zero; one with an `initial` of its own then begins at rest alone."""

    given: tuple[str, ...]  # by which quantities, outputs of it; what is left out it finds itself
    # (state, params, tables, work, inputs of the first step, values by their names): puts state and outputs
    begin: Callable[[Floats, Floats, Tables, Floats, Floats, Mapping[str, float]], None]


@dataclass(frozen=True)
class Prediction:
    """What a look ahead asks of it."""

    make: Callable[[Floats], object]  # of its parameters: a StabilityMonitor (stability.py), when asked for


@dataclass(frozen=True)
class DeviceCode:
    """What steps it on a GPU, where that is not its `step`."""

    make: Callable[[], object]  # a DeviceSource (tandem/multibody/code/source.py)


@dataclass(frozen=True)
class Unrolling:
    """How it gets straight code in the place of its index tables: the same bits, in a part of the time."""

    # the machine with it: all of it (True), which may take ten seconds, or what there is, and more as it is compiled
    # beside by an idle process
    make: Callable[["Machine", bool], "Machine"]


@dataclass(frozen=True)
class Unrolled:
    """A machine that has it: the last of `tables.floats` are addresses, which may come later; whether they serve a
    shape is a number before them."""

    count: int
    follow: Callable[[Floats], None]  # keep these, the last of a copy of the floats, as they are


@dataclass(frozen=True)
class Machine:
    name: str
    inputs: tuple[Quantity, ...]
    states: tuple[Quantity, ...]
    outputs: tuple[Quantity, ...]
    parameters: tuple[Parameter, ...]
    step: Step  # nopython, signature STEP
    initial: Callable[[Floats, Floats, Tables, Floats], None] = at_rest  # state and work at the start
    tables: Tables = NO_TABLES
    work_size: int = 0  # at least that of the outputs
    capabilities: tuple[object, ...] = ()  # at most one of each class; those above, or others' own

    def __post_init__(self) -> None:
        object.__setattr__(self, "work_size", max(self.work_size, len(self.outputs)))
        kinds = [type(each) for each in self.capabilities]
        if twice := {kind.__name__ for kind in kinds if kinds.count(kind) > 1}:
            raise ValueError(f"{self.name}: capabilities: {', '.join(sorted(twice))} more than once")
        for name in self.efforts:
            try:
                index(self.outputs, name)
            except UnknownName as error:
                raise ValueError(f"{self.name}: efforts: {error}") from None

    def of(self, kind: type[Kind]) -> Kind | None:
        """Its capability of that class, if it has one."""
        return next((each for each in self.capabilities if type(each) is kind), None)

    def having(self, *capabilities: object) -> "Machine":
        """The same machine with these in the place of those of their classes."""
        kinds = {type(each) for each in capabilities}
        others = (each for each in self.capabilities if type(each) not in kinds)
        return replace(self, capabilities=(*others, *capabilities))

    def without(self, kind: type) -> "Machine":
        return replace(self, capabilities=tuple(each for each in self.capabilities if type(each) is not kind))

    @property
    def shown(self) -> Shown:
        return self.of(Shown) or _SHOWN

    @property
    def placed(self) -> Placed:
        return self.of(Placed) or _PLACED

    @property
    def stepping(self) -> Stepping:
        return self.of(Stepping) or _STEPPING

    @property
    def efforts(self) -> tuple[str, ...]:
        return (self.of(Efforts) or _EFFORTS).names


_SHOWN, _PLACED, _STEPPING, _EFFORTS = Shown(), Placed(), Stepping(), Efforts()  # of a machine that says nothing of it


def nothing_given(machine: Machine) -> np.ndarray:
    """Its inputs where nobody gives any: zeros, and NaN for those that it computes itself."""
    return np.array([np.nan if q.optional else 0.0 for q in machine.inputs])


def index(quantities: tuple[Quantity, ...], name: str) -> int:
    """Position of a named quantity in its vector."""
    for position, quantity in enumerate(quantities):
        if quantity.name == name:
            return position
    raise UnknownName.among((q.name for q in quantities), name, "quantity of this machine")
