"""Every number that a record may hold, replaced by others: does a step read or write beyond its arrays, or never end?

    python -m verify hostile-words                          every machine, every word, with bounds checked
    python -m verify hostile-words --machine wall --machine buggy
    python -m verify hostile-words --every 97               a sample, each word with one value in turn
    python -m verify hostile-words --json

A record holds a machine's parameters, the numbers of its tables, and commands. Each word in turn becomes each of VALUES
and passes what a replay has it pass; what is accepted makes STEPS steps, fewer where they are slow (a step that does
not converge is tried again in parts, a hundred times as long as others). Verdicts of a case:

    refused        the recorded words are not used: the machine is made from its files, or the record is refused
    ran            all steps were made, and all states and outputs stay within the machine's bound
    diverged       all steps were made, with states or outputs beyond
    out of bounds  a kernel reached beyond an array
    crashed        the process was ended by a signal
    endless        one step took longer than SIGINT may wait

Kernels are compiled with bounds checked (NUMBA_BOUNDSCHECK, and the views of multibody/natural/views.py), which takes
some minutes the first time; `--unchecked` uses those of every run, whose arrays then stand before a page that ends the
process when it is touched. Generated code has constant addresses: tests/tandem/multibody/code/test_llvm.py.
Exits with 1 if any case is of the last three kinds.
"""

import ctypes
import faulthandler
import mmap
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from verify import CONFIGS
from verify.measure import NotHere, Row, equal, figure

VALUES = (float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 2.0, 1e9, -1e9, 1e15, 2.0**31, 5e-324)
STEPS = 20
ENOUGH_S = 0.03  # of steps of a case that are slow; two of them at least
ENDLESS_S = 2.0
_GIVE_UP_S = 20.0  # the process of a case that takes longer is killed
# shipped machines: a configuration, and what is set in it
MACHINES: dict[str, tuple[str, list[str]]] = {
    "buggy": ("drive.toml", []),
    "buggy, relative": ("drive.toml", ["sim.machine=RELATIVE"]),
    "single_track": ("drive.toml", ["sim.machine=vehicles/buggy_single_track.toml"]),
    "swerve": ("drive.toml", ["sim.machine=vehicles/swerve.toml"]),
    "mass_spring": ("mass_spring.toml", []),
    "kart": ("kart.toml", []),
    "wall": ("wall.toml", []),
    "omni, platform": ("omni_square.toml", []),
    "omni, bench": ("omni_bench.toml", []),
    "piano_phases": ("piano.toml", []),
    "piano_octave": ("piano_octave.toml", []),
    "piano_multibody": ("piano_multibody.toml", []),
    "piano_octave_multibody": ("piano_octave_multibody.toml", []),
    "tilting": ("tilting.toml", ["sim.machine=tilting"]),
    "tilting_vehicle": ("tilting.toml", []),
    "omni on a road": ("omni_square.toml", ["sim.files.road=roads/floor.toml"]),
    "kart_vehicle": ("kart_wheel.toml", []),
    "sensed tilting_vehicle": ("tilting_truth.toml", []),
    "observer of tilting": ("tilting_observed.toml", []),
    "observer of buggy": ("twin.toml", []),
    "sensed buggy": ("twin_truth.toml", []),
}
MECHANISMS = ("slider_crank", "spatial_slider_crank", "vehicle", "bricard")
REFUSED, RAN, DIVERGED, OUT_OF_BOUNDS, CRASHED, ENDLESS = range(6)
VERDICTS = ("refused", "ran", "diverged", "out of bounds", "crashed", "endless")
FAULTS = (OUT_OF_BOUNDS, CRASHED, ENDLESS)


@dataclass
class Subject:
    """Something with words: case `n` is word n // len(VALUES) with value n % len(VALUES)."""

    name: str
    words: int
    run: Callable[[int, float], tuple[int, float]]  # of a word and its value: verdict, longest step in seconds

    @property
    def cases(self) -> int:
        return self.words * len(VALUES)


# ---- arrays that end where a page begins that must not be touched ----------------------------------------------------


def guarded(array: np.ndarray, writeable: bool = True) -> np.ndarray:
    page = mmap.PAGESIZE
    size = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for at in (start, start + page + size):
        if protect(ctypes.c_void_p(at), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    out = np.frombuffer(memory, array.dtype, array.size, page + size - array.nbytes)
    out[:] = array
    out.flags.writeable = writeable
    return out


# ---- subjects --------------------------------------------------------------------------------------------------------


def _judged(step: Callable[[], None], sound: Callable[[], bool]) -> tuple[int, float]:
    longest, spent, well = 0.0, 0.0, True
    for k in range(STEPS):
        begun = time.thread_time()
        try:
            step()
        except IndexError:
            return OUT_OF_BOUNDS, longest
        took = time.thread_time() - begun
        longest, spent, well = max(longest, took), spent + took, well and sound()
        if k > 0 and spent > ENOUGH_S:
            break
    if longest > ENDLESS_S:
        return ENDLESS, longest
    return (RAN if well else DIVERGED), longest


def machine_words(name: str, guard: bool) -> Subject:
    """Parameters and tables of a machine, as a record has them."""
    from sim_service.contract.machine import Tables
    from sim_service.contract.recorded_parameters import with_words, words_of

    config, model, params = _machine(name)
    original, h = words_of(model, params), config.step_ns * 1e-9
    constant = np.array([np.nan if q.optional else 0.3 for q in model.inputs])
    first, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    model.initial(first, params, model.tables, work)
    inputs = constant.copy()
    for _ in range(STEPS):  # from a state that moves
        inputs[:] = constant
        model.step(first, inputs, params, model.tables, work, h)
    own = guarded if guard else lambda array, writeable=True: array.copy()
    state, inputs, scratch, ints = own(first), own(inputs), own(work), own(model.tables.ints, False)

    def run(word: int, value: float) -> tuple[int, float]:
        words = original.copy()
        words[word] = value
        accepted = with_words(model, params, words)
        if accepted is None:
            return REFUSED, 0.0
        other, values = accepted
        values = own(values) if guard else values
        floats = own(other.tables.floats, False) if guard else other.tables.floats
        tables = Tables(ints if guard else other.tables.ints, floats)
        state[:], scratch[:] = first, work

        def step() -> None:
            inputs[:] = constant
            model.step(state, inputs, values, tables, scratch, h)

        def sound() -> bool:
            both = (state, scratch[: len(model.outputs)])
            return all(bool(np.all(np.abs(part) <= model.stepping.bound)) for part in both)

        return _judged(step, sound)

    return Subject(name, len(original), run)


def machine_commands(name: str) -> Subject:
    """Each word of a command of each kind, obeyed by a replay."""
    from sim_service.command_record import AT_INDEX, AT_KIND, LAYOUT
    from sim_service.commands import checked_commands
    from sim_service.replay import INITIAL, RESTART, Plan, replay
    from sim_service.simulation import Simulation
    from sync.errors import TandemError

    config, model, params = _machine(name)
    simulation = Simulation(config, model, params.copy())
    blocks = np.zeros((STEPS, config.daq.layout.words), np.int64)
    config.daq.layout.view(blocks)["seq"] = np.arange(STEPS)
    config.daq.layout.view(blocks)["t_ns"] = config.step_ns * np.arange(STEPS)
    names = [p.name for p in model.parameters]
    kinds, parameters = 8, len(names)
    # a row for each kind, and for the kind that sets a parameter one for each of them
    rows = np.zeros((kinds + parameters, LAYOUT.words), np.int64)
    rows[:, AT_KIND], rows[kinds:, AT_KIND] = np.arange(len(rows)), 1
    rows[kinds:, AT_INDEX] = np.arange(parameters)
    which = [(row, word) for row in range(kinds) for word in range(LAYOUT.words)]
    which += [(row, LAYOUT.words - 1) for row in range(kinds, len(rows))]

    def run(word: int, value: float) -> tuple[int, float]:
        row, place = which[word]
        command = rows[row : row + 1].copy()
        if place == LAYOUT.words - 1:
            command.view(np.float64)[0, place] = value
        else:
            command[0, place] = int(min(max(value, -(2.0**62)), 2.0**62)) if np.isfinite(value) else -(2**63)
        simulation.params[:] = params
        plan = Plan(
            blocks, np.arange(STEPS), np.zeros(STEPS, np.int64), np.zeros(STEPS, np.int64), np.zeros(STEPS, np.int64)
        )
        plan.flags[0] = INITIAL | RESTART
        plan.obeyed = np.zeros((STEPS, 2), np.int64)
        plan.obeyed[2:] = 1
        plan.obeyed[2, 0] = 0
        begun = time.thread_time()
        try:
            plan.commands, _ = checked_commands(command, names, model, False)
            results = replay(simulation, plan)
        except TandemError:
            return REFUSED, 0.0
        except IndexError:
            return OUT_OF_BOUNDS, 0.0
        longest = (time.thread_time() - begun) / STEPS
        return (RAN if len(results) == STEPS and np.isfinite(results).all() else DIVERGED), longest

    return Subject(f"{name}: commands", len(which), run)


def mechanism_words(name: str, guard: bool) -> Subject:
    """Tables and start of a mechanism in natural coordinates, as its record has them."""
    from tandem.mechanism.record import sound_words
    from tandem.mechanism.run import load
    from tandem.multibody.natural.augmented import step as advance

    _, begun = load(CONFIGS / "mechanisms" / f"{name}.toml")
    system = begun.system
    original, count = np.concatenate([system.reals, begun.vector]), len(system.reals)
    own = guarded if guard else lambda array, writeable=True: array.copy()
    ints, reals, state, work = own(system.ints, False), own(system.reals), own(begun.vector), own(system.work())
    clean = system.work()

    def run(word: int, value: float) -> tuple[int, float]:
        words = original.copy()
        words[word] = value
        if not sound_words(words[:count], words[count:], system):
            return REFUSED, 0.0
        reals[:], state[:], work[:] = words[:count], words[count:], clean
        return _judged(
            lambda: advance(ints, reals, state, work, system.hook, system.h),
            lambda: bool(np.isfinite(state).all()),
        )

    return Subject(f"mechanism {name}", len(original), run)


def _machine(name: str) -> tuple[Any, Any, np.ndarray]:
    from sim_service.registry import configured, configured_machine, make_machine
    from sync.config.config import load

    file, settings = MACHINES[name]
    relative = [s for s in settings if s == "sim.machine=RELATIVE"]
    config = load(CONFIGS / file, [s for s in settings if s not in relative])
    if relative:
        sources = configured(config, CONFIGS).with_settings({"formulation": "relative"}, "--set")
        return config, *make_machine(sources, config.sim.parameters)
    return config, *configured_machine(config, CONFIGS)


# ---- running them ----------------------------------------------------------------------------------------------------


def _cases(subject: Subject, every: int) -> Iterator[int]:
    """All of them; or of each so-many-th word one, with the values in turn."""
    if every == 1:
        yield from range(subject.cases)
        return
    for k, word in enumerate(range(0, subject.words, every)):
        yield word * len(VALUES) + k % len(VALUES)


def _work(subject: Subject, cases: list[int], page: np.ndarray, verdicts: np.ndarray, longest: np.ndarray) -> None:
    for k, case in enumerate(cases):
        page[0], page[1] = k, time.monotonic_ns()
        verdict, took = subject.run(case // len(VALUES), VALUES[case % len(VALUES)])
        verdicts[k] = verdict
        longest[0] = max(longest[0], took)
    page[0] = len(cases)


def _shared(count: int, dtype: Any) -> np.ndarray:
    return np.frombuffer(mmap.mmap(-1, max(count, 1) * np.dtype(dtype).itemsize), dtype, count)


def judge(subject: Subject, every: int, workers: int) -> dict[str, Any]:
    """Verdicts of all cases; a process that a case ends is replaced, and goes on with the next."""
    begun = time.monotonic_ns()
    todo = list(_cases(subject, every))
    parts = [todo[k::workers] for k in range(min(workers, len(todo)))]
    pages = [(_shared(2, np.int64), _shared(len(part), np.int8), _shared(1, np.float64)) for part in parts]
    running: dict[int, int] = {}
    ends = [0] * len(parts)

    def start(k: int) -> None:
        page, verdicts, longest = pages[k]
        page[:] = ends[k], time.monotonic_ns()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                faulthandler.disable()  # a crash is a verdict, and the next case follows
                np.seterr(all="ignore")
                _work(subject, parts[k][ends[k] :], page, verdicts[ends[k] :], longest)
                code = 0
            finally:
                os._exit(code)
        running[pid] = k

    for k in range(len(parts)):
        start(k)
    faults = []
    while running:
        time.sleep(0.01)
        for pid, k in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)  # of these alone: the caller may have other children
            if not ended and time.monotonic_ns() - pages[k][0][1] > _GIVE_UP_S * 1e9:
                os.kill(pid, signal.SIGKILL)
            if not ended:
                continue
            del running[pid]
            if os.WIFEXITED(status) and status:
                raise SystemExit(f"{subject.name}: the check itself failed, see above")
            if os.WIFSIGNALED(status):
                at = ends[k] + int(pages[k][0][0])
                pages[k][1][at] = ENDLESS if os.WTERMSIG(status) == signal.SIGKILL else CRASHED
                ends[k] = at + 1
                if ends[k] < len(parts[k]):
                    start(k)
    counts: Counter[str] = Counter()
    for part, (_, verdicts, _) in zip(parts, pages, strict=True):
        counts.update(VERDICTS[v] for v in verdicts.tolist())
        faults += [
            {"word": case // len(VALUES), "value": repr(VALUES[case % len(VALUES)]), "verdict": VERDICTS[v]}
            for case, v in zip(part, verdicts.tolist(), strict=True)
            if v in FAULTS
        ]
    return {
        "subject": subject.name, "words": subject.words, "cases": len(todo), "verdicts": dict(counts),
        "longest_step_ms": round(1e3 * max(float(longest[0]) for _, _, longest in pages), 3),
        "seconds": round((time.monotonic_ns() - begun) * 1e-9, 1), "faults": faults,
    }  # fmt: skip


def hostile_words(
    *,
    machine: Annotated[tuple[str, ...], "by name"] = (*MACHINES, *MECHANISMS),
    every: Annotated[int, "each so-many-th word, with one value each"] = 1,
    jobs: Annotated[int, "processes"] = os.cpu_count() or 1,
) -> Iterator[Row]:
    if unknown := {*machine} - {*MACHINES, *MECHANISMS} or min(every, jobs) < 1:
        raise NotHere(f"{unknown}: no machine of {', '.join((*MACHINES, *MECHANISMS))}, or --every or --jobs below 1")
    unchecked = os.environ.get("NUMBA_BOUNDSCHECK") != "1"  # numba reads it when it is imported
    np.seterr(all="ignore")
    for name in machine:
        if name in MECHANISMS:
            subjects = [lambda name=name: mechanism_words(name, unchecked)]
        else:
            subjects = [lambda name=name: machine_words(name, unchecked), lambda name=name: machine_commands(name)]
        for make in subjects:
            row = judge(make(), every, jobs)
            found = ", ".join(f"{count} {verdict}" for verdict, count in sorted(row["verdicts"].items()))
            faults = "; ".join(f"word {f['word']} = {f['value']}: {f['verdict']}" for f in row["faults"][:5])
            title = f"{row['subject']}: {row['words']} words, {row['cases']} cases: {found}: faults"
            yield equal(title + (f" ({faults})" if faults else ""), len(row["faults"]), 0)
            yield figure(f"{row['subject']}: longest step", row["longest_step_ms"], "ms")
