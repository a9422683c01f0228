"""A machine of an FMU: its instance, its tables, its names."""

from typing import Any

import numpy as np

from sim_service.contract.machine import Efforts, Machine, Parameter, Placed, Quantity, Stepping, Tables, tables
from sim_service.contract.parameters import checked
from sync.errors import ConfigError
from tandem.machines.fmu import step as stepping
from tandem.machines.fmu.archive import unpacked
from tandem.machines.fmu.library import Instance, instance
from tandem.machines.fmu.settings import HASH, XML, FmuFile
from tandem.machines.fmu.step import OWN, PER_WORD, A, M, N
from tandem.machines.fmu.variables import Description, Variable, channel_name, chosen, read_description
from tandem.multibody.code.calls import as_word

MOST_STATE = 1 << 16  # bytes of a serialised state that are carried along; a larger one is left in its instance
_LIVE, _SHAPING = ("tunable",), ("fixed",)


def build(settings: FmuFile, sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    where, name = sources.name(), sources.name(HASH)
    code = unpacked(sources.files[HASH].decode(errors="replace").strip(), name)
    if code.xml != sources.files[XML]:
        raise ConfigError(f"{sources.name(XML)}: is not the description of {name}")
    about = read_description(sources.files[XML], sources.name(XML))
    inputs = chosen(about.variables, "input", settings.inputs, where)
    outputs = chosen(about.variables, "output", settings.outputs, where)
    if not outputs:
        raise ConfigError(f"{where}: outputs: {name} has none that is a scalar float")
    twice = set(inputs) & set(outputs)
    if twice:
        raise ConfigError(f"{where}: {', '.join(sorted(twice))}: an input and an output cannot have the same name")
    found = _parameters(about, name)
    parameters = tuple(parameter for parameter, _ in found)
    values = {p.name: p.value for p in parameters} | settings.parameters
    params = checked("this FMU", parameters, values, changed, where)
    it = instance(code, about, name)
    order = [*inputs.values(), *outputs.values(), *(variable for _, variable in found)]
    counts = (len(inputs), len(outputs), len(found))
    constants = _tables(about, it, order, counts, params, name)
    machine = Machine(
        name="fmu",
        inputs=tuple(_quantity(own, v) for own, v in inputs.items()),
        states=_states(int(constants.ints[N.STATE])),
        outputs=(
            *(_quantity(own, v) for own, v in outputs.items()),
            Quantity("fmu_status", "1", "what the FMU returned for the step: 0 OK, 1 a warning"),
        ),
        parameters=parameters,
        step=stepping.step,
        initial=_initial(name),
        tables=constants,
        capabilities=(
            Placed(layout=f"fmu {code.hash[:16]} {list(inputs)} {list(outputs)}", addresses=tuple(range(len(A)))),
            Stepping(bound=1e12, one_at_a_time=True),
            Efforts(tuple(outputs)),
        ),
    )
    return machine, params


def _quantity(name: str, variable: Variable) -> Quantity:
    return Quantity(name, variable.unit, variable.text or variable.name)


def _states(size: int) -> tuple[Quantity, ...]:
    own = tuple(Quantity(f"fmu {k}", "1", "") for k in range(size - OWN))
    return (Quantity("steps", "1", "made since the start"), Quantity("time", "s", "of the FMU"), *own)


def _parameters(about: Description, name: str) -> list[tuple[Parameter, Variable]]:
    found: dict[str, tuple[Parameter, Variable]] = {}
    for v in about.variables:
        if v.causality != "parameter" or not v.scalar or v.start is None or v.variability not in (*_LIVE, *_SHAPING):
            continue
        own = channel_name(v.name)
        if own in found:
            raise ConfigError(
                f"{name}: its parameters {found[own][1].name!r} and {v.name!r} would both be called {own}"
            )
        parameter = Parameter(own, v.unit, v.start, v.low, v.high, v.text or v.name, live=v.variability in _LIVE)
        found[own] = parameter, v
    return list(found.values())


def _tables(
    about: Description, it: Instance, order: list[Variable], counts: tuple[int, int, int], params: np.ndarray, name: str
) -> Tables:
    """With an instance that has been started once: the size of its state is known only then."""
    memory, set_before = np.zeros(len(M), np.int64), np.zeros(len(params) + 1)
    references = np.array([v.reference for v in order], np.uint32).view(np.int32)
    no_bytes = _laid_out(about, it, references, counts, (memory, np.zeros(OWN), set_before, np.zeros(1, np.uint8)), 0)
    state, work = np.zeros(OWN), np.zeros(counts[1] + 1)
    stepping.start(state, params, no_bytes, work)
    if np.isnan(work[counts[1]]):
        raise ConfigError(f"{name}: cannot be initialised with these parameters; what it says of it stands above")
    memory[M.VALID] = 0
    size = _state_size(it) if about.keeps_state else 0
    size = 0 if size > MOST_STATE else size
    latest = np.zeros(OWN + -(-size // PER_WORD))
    return _laid_out(about, it, references, counts, (memory, latest, set_before, np.zeros(size + 1, np.uint8)), size)


_HELD: list[Any] = []  # what the addresses in tables point to: an instance stays as long as its process


def _laid_out(
    about: Description, it: Instance, references: np.ndarray, counts: tuple[int, int, int], arrays: Any, size: int
) -> Tables:
    memory, latest, set_before, buffer = arrays
    _HELD.append((it, arrays))
    ints = np.concatenate([[about.version, *counts, len(latest), size], references]).astype(np.int32)
    addresses = [it.pointer, *(array.ctypes.data for array in (memory, latest, set_before, buffer)), *it.addresses]
    return tables(ints, [as_word(address) for address in addresses])


def _state_size(it: Instance) -> int:
    import ctypes

    def function(name: int, *types: Any) -> Any:
        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(it.addresses[name - A.Reset])

    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    get = function(A.GetFMUState, ctypes.c_void_p, ctypes.c_void_p)
    measure = function(A.SerializedFMUStateSize, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    free = function(A.FreeFMUState, ctypes.c_void_p, ctypes.c_void_p)
    if get(it.pointer, ctypes.addressof(handle)) > 1:
        return 0
    failed = measure(it.pointer, handle, ctypes.addressof(size)) > 1
    free(it.pointer, ctypes.addressof(handle))
    return 0 if failed else int(size.value)


def _initial(name: str) -> Any:
    def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        work[:] = 0.0
        stepping.start(state, params, tables, work)
        if np.isnan(work[tables.ints[N.OUTPUTS]]):
            raise ConfigError(f"{name}: cannot be initialised; what it says of it stands above")

    return initial
