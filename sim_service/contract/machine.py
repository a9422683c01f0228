"""What a machine is to the rest of tandem: names, units, limits, and one nopython step.

A machine is a folder in `tandem/machines/`, or a module of another package (sync/config/plugins.py). Everything that
surrounds it (configuration, output channels, log, view, live tuning) is made from this description and knows nothing
else of it.

The step is `step(state, inputs, params, tables, work, h)`: float64 vectors but for `tables`, `h` in seconds. It
advances `state` by `h` in place and leaves the outputs in the first `len(outputs)` entries of `work`; the rest of
`work` is scratch. `params`, the values of `parameters` in their order, and `tables`, integers and numbers that were
made before the first step, are constant: their types are read-only, so that a step that writes into them does not
compile. Between two steps live tuning may change `params`, and a machine with a `Reshape` may get the tables of another
shape.

An optional input that is not measured comes as NaN: the step computes it and writes it there, so that a reader of the
inputs sees what was used, or leaves the NaN if it does not need the input. Everything that the next step depends on is
in the state: a `work` of zeros gives the same step. The step allocates nothing, raises nothing and uses nothing but its
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
places = parts.places  # for the kernels of a machine: the places of its quantities, by name


class Tables(NamedTuple):
    """What a step reads besides its parameters; make them with `tables`."""

    ints: NDArray[np.int32]
    floats: Floats


def tables(ints: Sequence[int] | NDArray[np.integer] = (), floats: Sequence[float] | Floats = ()) -> Tables:
    """Read-only copies of these."""
    return Tables(read_only(np.array(ints, np.int32)), read_only(np.array(floats, np.float64)))


NO_TABLES = tables()
TABLES = group(Tables, INDICES, CONSTANTS)
STEP = types.void(VECTOR, VECTOR, CONSTANTS, TABLES, VECTOR, float64)
# the same as Python has it: state, inputs, params, tables, work, h
Step = Callable[[Floats, Floats, Floats, Tables, Floats, float], None]
# fits the state to the tables of another shape: state, how reference coordinates moved, params, tables, work
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
    optional: bool = False  # of an input: NaN if no row of [inputs] gives it; the step then writes its own value
    at_end: bool = False  # of an input: its value is that at the end of a step, not at its beginning


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
    shapes: bool = False  # not live, but tables for another value can be made while it runs (`Reshape`)
    group: str = ""  # of parameters that belong together; without one the first word of its name
    of_the_file: bool = True  # the machine's file gives it; otherwise it is a user's force, and begins at `value`

    @property
    def range_text(self) -> str:
        """The permitted range, for an error message."""
        return f"from {self.low:g} to {self.high:g}" + (f" {self.unit}" if self.unit != "1" else "")

    @property
    def group_name(self) -> str:
        """The heading above its slider."""
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
    """The arrangement of its tables."""

    layout: str = ""  # a hash of it
    remade: tuple[int, int] = (0, 0)  # of `tables.floats`: taken from its files unchanged, such as a map; not recorded
    addresses: tuple[int, ...] = ()  # of `tables.floats`: addresses of code, valid in this process alone


@dataclass(frozen=True)
class Stepping:
    """What its step requires of the caller."""

    bound: float = 1e9  # a machine with a state or an output beyond this has diverged
    step_ms: float = 0.0  # the only length of step that it is made for; 0: any
    one_at_a_time: bool = False  # it has memory outside its arguments, in foreign code: no two threads may call it


@dataclass(frozen=True)
class Reshape:
    """How parameters that shape a machine are changed while it runs (sim_service/reshape.py). Without it they need a
    new start."""

    # from all parameters: the numbers of its tables, at the same places, and its reference coordinates, rows of x, y
    # and z. Raises ConfigError if there is no such machine
    make: Callable[[Floats], tuple[Floats, Floats]]
    fit: Callable[[Floats, Floats, Floats, Tables, Floats], None]  # nopython, signature FIT
    drawn: Floats  # reference coordinates of the machine as it was made
    columns: tuple[int, ...]  # of each row of these, the first coordinate


@dataclass(frozen=True)
class Tangent:
    """Its step with derivatives."""

    module: str  # module that has it as `tangent`, signature TANGENT


@dataclass(frozen=True)
class ShapeDerivatives:
    """Derivatives by parameters that shape it: its tables depend on these, and they are no arguments of its step."""

    names: Callable[[], tuple[str, ...]]  # of these parameters; called once, because it takes a while
    # from its parameters and the places of at most eight of them: the machine whose Tangent has the derivatives by
    # these, in that order, and the derivatives of its first state, a row a state
    make: Callable[[Floats, Sequence[int]], tuple["Machine", Floats]]


@dataclass(frozen=True)
class Rates:
    """How fast its states change: for programs that integrate it themselves (docs/fmu.md)."""

    of_states: Step  # nopython, signature STEP: leaves outputs and, behind them, a rate of every state in `work`
    # a module whose `tangent_of_rates`, signature STEP, leaves a row for every output and rate, a column for every
    # state and input; "": there are no derivatives
    tangent: str = ""


@dataclass(frozen=True)
class Moving:
    """How it begins in motion (contract/start.py). Without this, a machine that begins with zeros can be given some of
    its states, and the others are zero; one with an `initial` of its own always begins at rest."""

    given: tuple[str, ...]  # outputs that may be given; the machine finds those that are left out
    # (state, params, tables, work, inputs of the first step, values by their names): writes state and outputs
    begin: Callable[[Floats, Floats, Tables, Floats, Floats, Mapping[str, float]], None]


@dataclass(frozen=True)
class Prediction:
    """What a look ahead needs of it."""

    make: Callable[[Floats], object]  # from its parameters: a StabilityMonitor (stability.py); called when needed


@dataclass(frozen=True)
class DeviceCode:
    """What steps it on a GPU, if that is not its `step`."""

    make: Callable[[], object]  # a DeviceSource (tandem/multibody/code/source.py)


@dataclass(frozen=True)
class Unrolling:
    """How it gets unrolled code in place of its index tables: the same bits, in a fraction of the time."""

    # (machine, wait): the machine with unrolled code. `wait`: with all of it, which may take ten seconds; otherwise
    # with what is compiled so far, and more as a process of idle priority compiles it
    make: Callable[["Machine", bool], "Machine"]


@dataclass(frozen=True)
class Unrolled:
    """A machine that has unrolled code: the last of `tables.floats` are its addresses, which may be written later; a
    number before them says whether they are valid for a shape."""

    count: int
    follow: Callable[[Floats], None]  # keep these, the last of a copy of the floats, the same as the originals


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
        """The same machine with these in place of its capabilities of the same classes."""
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


_SHOWN, _PLACED, _STEPPING, _EFFORTS = Shown(), Placed(), Stepping(), Efforts()  # of a machine that declares none


def default_inputs(machine: Machine) -> np.ndarray:
    """Its inputs if none are provided: zeros, and NaN for those that it computes itself."""
    return np.array([np.nan if q.optional else 0.0 for q in machine.inputs])


def index(quantities: tuple[Quantity, ...], name: str) -> int:
    """Position of a named quantity in its vector."""
    for position, quantity in enumerate(quantities):
        if quantity.name == name:
            return position
    raise UnknownName.among((q.name for q in quantities), name, "quantity of this machine")
