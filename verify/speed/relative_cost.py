"""What the generated code of the buggy costs.

Operations of every function; times to make it (with --cold in an empty cache, and of what that consists: a tree, the
graph, machine code); to get it from the cache in a new process, the least of some, and of what that consists; and with
another mass. Then the least time of an evaluation over rounds of bursts, also as a part of natural coordinates' own
evaluation (without forces of the model either) in the same run. Forces are held; their kernels are not in the figures.
At the end, with forces in them, the least time of the car's rates with their Jacobian, and a sentence a promise. All
but the first line and generation is the processor's time: beside other programs the clock shows theirs too.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from numba import float64, int64, types, void

from sim_service.contract.machine import index
from sim_service.registry import FILE, MachineFiles, gather, make_machine
from sync.child_python import python_command, python_environment
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import kernel
from tandem.machines.car.buggy.build import assemble
from tandem.multibody.code import store
from tandem.multibody.code.calls import address_of, as_word, call, function_at
from tandem.multibody.code.llvm import Compiled, Function, compiled
from tandem.multibody.natural import evaluation
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.natural.system import no_force
from tandem.multibody.relative import ode
from tandem.multibody.relative.build import build, digest
from tandem.multibody.relative.generate import Generated, generate
from tandem.multibody.relative.port_jacobian import jacobian
from tandem.multibody.relative.spanning import make_tree
from tandem.multibody.relative.system import P as Own
from verify import CONFIGS
from verify.measure import Row, at_most, figure, note

BUGGY = CONFIGS / "vehicles" / "buggy.toml"
BURST = 50
COLD_S, CACHED_S, EVALUATION_US, JACOBIAN_US = 20.0, 0.1, 3.0, 25.0  # limits


def buggy(**changed: float) -> Mechanism:
    sources = gather(BUGGY)
    found: Mechanism = assemble(sources.toml(), sources, changed).car.mechanism
    return found


def _often(count: int) -> Callable[..., None]:
    """A kernel that calls generated code with so many arrays, time and again."""

    @kernel(void(CONSTANTS, types.UniTuple(VECTOR, count), int64), cache=False, error_model="numpy")
    def often(words, arrays, times):
        for _ in range(times):
            for word in words:
                call(word, arrays)

    return often


def least_us(burst: Callable[[int], object], rounds: int) -> float:
    """Of one evaluation: a call from Python costs more, hence the difference of long and short bursts."""
    least = [np.inf, np.inf]
    for _ in range(rounds):
        for k, times in enumerate((BURST, 3 * BURST)):
            begun = time.thread_time_ns()
            burst(times)
            least[k] = min(least[k], time.thread_time_ns() - begun)
    return (least[1] - least[0]) / (2e3 * BURST)


class Arrays:
    """Inputs of the functions, where the mechanism is assembled and everything moves a little."""

    def __init__(self, generated: Generated, code: Compiled) -> None:
        tree = generated.tree
        random = np.random.default_rng(1)
        u = np.zeros((len(tree.start), 3))
        u[:, 0] = tree.start
        (d,) = code.call("prepare", generated.parameters)
        self.code = code
        self.inputs = {
            "p": generated.parameters, "x": tree.assembled, "ref": np.tile([1.0, 0.0, 0.0, 0.0], len(generated.balls)),
            "w": random.uniform(-0.1, 0.1, tree.n), "u": u.ravel(), "d": d, "f": np.zeros(len(generated.ports)),
            "full": np.zeros(tree.n),
        }  # fmt: skip
        self.work = np.zeros(max(code.work_size, 1))

    def of(self, name: str) -> tuple[np.ndarray, ...]:
        function = self.code.functions[name]
        out = [np.zeros(max(size, 1)) for size in function.outputs.values()]
        return (*(self.inputs[array] for array in function.inputs), *out, self.work)

    def cost_us(self, name: str, entries: list[str], rounds: int) -> float:
        arrays = self.of(name)
        often = _often(len(arrays))
        words = np.array([as_word(self.code.address[entry]) for entry in entries])
        return least_us(lambda times: often(words, arrays, times), rounds)


def evaluation_us(generated: Generated, arrays: Arrays, rounds: int) -> float:
    """All of `motion` but the ports, which only forces of the model need, behind one correction of the loops."""
    motion = next(f for f in generated.functions if f.name == "motion")
    needed = {name: exprs for name, exprs in motion.stages[-1].items() if name not in ("ports", "rates")}
    with tempfile.TemporaryDirectory() as folder:
        code = compiled([Function("motion", motion.graph, motion.inputs, (needed,))], Path(folder))
    alone = Arrays(generated, arrays.code)
    alone.code, alone.work = code, np.zeros(max(code.work_size, 1))
    return arrays.cost_us("close", ["close"], rounds) + alone.cost_us("motion", ["motion"], rounds)


def jacobian_us(generated: Generated, arrays: Arrays, rounds: int) -> float:
    """The part of the Jacobian that is no generated code, with full blocks of the forces."""
    function = arrays.code.functions["derivatives"]
    values = arrays.code.call("derivatives", *(arrays.inputs[array] for array in function.inputs))
    out = dict(zip(function.outputs, values, strict=True))
    blocks, n = generated.blocks, len(generated.independent)
    random = np.random.default_rng(2)
    K, C = (random.uniform(-1.0, 1.0, sum(size * size for size in blocks.sizes)) for _ in range(2))
    arguments = (
        blocks.table, K, C, out["port_derivatives"], out["rate_derivatives"], out["derivatives"], out["turns"],
        out["factor"], np.zeros(blocks.work_size), np.zeros(4 * n * n), 2 * n,
    )  # fmt: skip

    @kernel(cache=False, error_model="numpy")
    def often(table, K, C, P, R, derivatives, turns, factor, work, J, stride, times):
        for _ in range(times):
            jacobian(table, K, C, P, R, derivatives, turns, factor, work, J, stride)

    return least_us(lambda times: often(*arguments, times), rounds)


def natural_us(mechanism: Mechanism, rounds: int) -> float:
    """Accelerations by natural coordinates, model forces zero."""
    system = mechanism.compile(1e-3, hook=no_force)
    state, work = system.state(), system.work()

    def burst(times: int) -> None:
        for _ in range(times):
            evaluation.accelerate(system.ints, system.reals, state.vector, work, system.hook)

    return least_us(burst, max(rounds // 10, 3))


both_at = function_at(ode.RATES_AND_JACOBIAN)


def car_us(rounds: int) -> float:
    """Rates of the whole car with their exact Jacobian, forces included, while it drives."""
    from tandem.machines.car.buggy import relative_dynamics as relative  # compiled for this alone

    found = gather(BUGGY)
    text = b'formulation = "relative"\n' + found.files[FILE]
    machine, params = make_machine(MachineFiles({**found.files, FILE: text}, found.names))
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    inputs = np.array([np.nan if q.optional else 0.0 for q in machine.inputs])
    inputs[index(machine.inputs, "throttle")] = 0.5
    for _ in range(600):
        machine.step(state, inputs.copy(), params, machine.tables, work, 5e-3)
    assert work[index(machine.outputs, "parts")] == 0.0
    head, reals = machine.tables.ints, machine.tables.floats
    ints, scratch = head[relative.FRONT :], work[head[relative.WORK_AT] : head[relative.SCRATCH_AT]]
    tree = state[head[relative.STATE_AT] :]

    def part(which: int, array: np.ndarray) -> np.ndarray:
        return array[ints[2 * which] : ints[2 * which + 1]]

    # where the step has ended, the turn of the chassis taken into its reference
    x, y, independent = part(Own.X, tree), part(Own.Y, scratch).copy(), part(Own.INDEPENDENT, ints)
    y[: len(independent)] = x[independent]
    part(Own.AT_REF, scratch)[:], part(Own.START_X, scratch)[:] = part(Own.REF, tree), x
    N, t = len(y), float(part(Own.TIME, tree)[0])
    word = as_word(address_of(relative.car_rates_and_jacobian, ode.RATES_AND_JACOBIAN))
    signature = void(float64, INDICES, CONSTANTS, VECTOR, float64, VECTOR, VECTOR, VECTOR, VECTOR, int64)

    @kernel(signature, cache=False, error_model="numpy")
    def often(word, ints, reals, scratch, t, y, ydot, J, ydot_t, times):
        both = both_at(word)
        for _ in range(times):
            both(ints, reals, scratch, t, y, ydot, J, ydot_t)

    out = np.zeros(N), np.zeros(N * N), np.zeros(N)
    return least_us(lambda times: often(word, ints, reals, scratch, t, y, *out, times), rounds)


FRESH = """
import time
begun = time.perf_counter()
import verify.speed.relative_cost as cost
print(time.perf_counter() - begun, *cost.load_s(cost.Path({folder!r})))
"""


def load_s(folder: Path) -> tuple[float, float, float, float]:
    """Description, `build`, the digest that it begins with, and `build` with a mass that was never there; processor."""
    times = [time.thread_time()]
    mechanism = buggy()
    times.append(time.thread_time())
    build(mechanism, folder=folder)
    times.append(time.thread_time())
    digest(mechanism)
    times.append(time.thread_time())
    other = buggy(sprung_mass=690.0 + 1e-9 * (time.perf_counter_ns() % 1_000_000_000))
    begun = time.thread_time()
    build(other, folder=folder)
    changed = time.thread_time() - begun
    described, built, digested = np.diff(times)
    return described, built, digested, changed


def from_cache(folder: Path, processes: int = 3) -> float:
    """Seconds of the processor, the least of some processes."""
    program = FRESH.format(folder=str(folder))
    command, own = python_command("-c", program), python_environment()
    runs = [
        subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=own).stdout for _ in range(processes)
    ]
    imported, described, built, digested, changed = np.min([[float(x) for x in run.split()] for run in runs], axis=0)
    note(f"from the cache {1e3 * built:.0f} ms, of which the digest of the description {1e3 * digested:.0f} ms")
    note(f"with another mass {changed:.2f} s; before that imports {imported:.2f} s, description {described:.2f} s")
    return float(built)


def relative_cost(*, rounds: int = 200, cold: Annotated[bool, "compile again"] = False) -> Iterator[Row]:
    mechanism = buggy()
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty) if cold else store.folder()
        begun, used = time.perf_counter(), time.thread_time()
        generated, code = build(mechanism, folder=folder)
        built = time.thread_time() - used
        yield figure("built by the clock", time.perf_counter() - begun, "s")
        yield figure("size", code.code_size // 1024, "KiB")
        if cold:
            yield at_most("generation and compilation, cold", built, COLD_S, "s of the processor")
            begun = time.perf_counter()
            tree = make_tree(mechanism)
            spanned = time.perf_counter()
            generate(mechanism, tree=tree)
            yield figure("of which tree", spanned - begun, "s")
            yield figure("of which graph", time.perf_counter() - spanned, "s")
        cached = from_cache(folder)
    natural = natural_us(mechanism, rounds)
    yield figure("natural", natural, "us")
    arrays = Arrays(generated, code)
    for name, operations in generated.operations.items():
        entries = code.functions[name].entries
        entries = entries[:2] if name == "derivatives" else entries
        cost = arrays.cost_us(name, entries, rounds)
        yield figure(f"{name}: {operations} operations; of natural", f"{cost:.2f}; {cost / natural:.4f}", "us")
    cost = jacobian_us(generated, arrays, rounds)
    yield figure("jacobian; of natural", f"{cost:.2f}; {cost / natural:.4f}", "us")
    alone = evaluation_us(generated, arrays, rounds)
    yield at_most("one evaluation without forces", alone, EVALUATION_US, "us")
    yield at_most("rates of the whole car with their exact Jacobian", car_us(rounds), JACOBIAN_US, "us")
    yield at_most("from the cache", cached, CACHED_S, "s of the processor")
