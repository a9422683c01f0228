"""Copies of multibody cars and chains on a GPU, by programs that were compiled where there is none.

    python -m verify gpu-prepare --folder FOLDER --what NAME...           programs and references, without a GPU
    python -m verify gpu-programs --folder FOLDER [--ptxas PATH]        with one; needs numpy and cuda-bindings

WHAT is relative, natural (the buggy in these coordinates), single_track, chain10 to chain250 (rods in natural
coordinates) or recursion10 to recursion250 (links in relative ones, by the articulated-body recursion).
`prepare` takes 1000 copies with beginnings or steering angles of their own 100 steps further on this CPU, and writes
the program as PTX, with the generated functions in parts of several sizes. `run` makes machine code of it with NVIDIA's
ptxas, for several numbers of registers at once, or lets the driver do it where there is no ptxas. It prints for every
program steps a second, registers, local memory and resident threads, how far those copies are from the CPU's, and how
long a step of one copy alone takes.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np

from verify import CONFIGS
from verify.measure import NotHere, Row, figure, note

VEHICLES = CONFIGS / "vehicles"
VEHICLE, SINGLE_TRACK = VEHICLES / "buggy.toml", VEHICLES / "buggy_single_track.toml"
CHECKED, CHECKED_STEPS = 1000, 100
RUN_UP = 600  # steps of a car before its copies part
STEERING = 0.3  # rad at the hand wheel, to either side
CAR_STEP, CHAIN_STEP, RECURSION_STEP = 5e-3, 2e-3, 1e-3
SHOWN = ("x", "y", "z", "vx", "yaw_rate", "ay")
MEMORY = 2e9  # bytes of states at most: they are made here and sent


def car(kind: str) -> tuple[dict[str, Any], Any]:
    """References of a car, and the machine."""
    from sim_service.contract.machine import index
    from sim_service.registry import FILE, MachineFiles, gather, make_machine

    multibody = kind != "single_track"
    found = gather(VEHICLE if multibody else SINGLE_TRACK, {})
    text = f'formulation = "{kind}"\n'.encode() * multibody + found.files[FILE]
    machine, params = make_machine(MachineFiles({**found.files, FILE: text}, found.names))
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    inputs = np.zeros(len(machine.inputs))
    inputs[[k for k, q in enumerate(machine.inputs) if q.optional]] = np.nan
    inputs[index(machine.inputs, "throttle")] = 0.3
    for _ in range(RUN_UP):
        machine.step(state, inputs.copy(), params, machine.tables, work, CAR_STEP)
    every = np.tile(inputs, (CHECKED, 1))
    every[:, index(machine.inputs, "steering_angle")] = np.linspace(-STEERING, STEERING, CHECKED)
    states, outputs = np.tile(state, (CHECKED, 1)), []
    parts = index(machine.outputs, "parts") if kind == "relative" else 0
    fallen = np.zeros(CHECKED, np.int64)
    for n in range(CHECKED):
        for _ in range(CHECKED_STEPS):
            machine.step(states[n], every[n].copy(), params, machine.tables, work, CAR_STEP)
            fallen[n] += kind == "relative" and work[parts] != 0.0
        outputs.append(work[: len(machine.outputs)].copy())
    data = {
        "starts": state[None, :], "inputs": every, "params": params[None, :], "expected": np.array(outputs),
        "fallen": fallen, "names": np.array([q.name for q in machine.outputs]), "h": CAR_STEP,
        "bound": machine.stepping.bound,
    }  # fmt: skip
    return data, machine


def chain(rods: int) -> tuple[dict[str, Any], Any]:
    """The same of a chain, as a machine without inputs whose outputs are its coordinates."""
    from sim_service.contract.machine import DeviceCode, Machine, Quantity, Step, tables
    from sync.compile.jit import inner
    from tandem.multibody.natural.augmented import step
    from tandem.multibody.natural.run import TOTALS, run_steps
    from tandem.multibody.natural.system import no_force
    from tandem.multibody.natural.tables import P
    from tandem.multibody.natural.views import part, view
    from verify.multibody.problems import chain as described

    system = described(rods, 2.0 / rods, 2.0 / rods, 1.0, CHAIN_STEP).build().compile(h=CHAIN_STEP)
    starts = []
    for angle in np.linspace(0.0, 1.0, 32):
        state = system.state()
        x, y = system.q0.reshape(-1, 2).T
        c, s = np.cos(angle), np.sin(angle)
        state.q[:] = np.column_stack([c * x + s * y, c * y - s * x]).ravel()
        state.evaluate()
        starts.append(state.vector.copy())
    places = state.system.span(P.Q)
    expected, none = [], np.zeros((0, 0))
    for vector in starts:
        one = vector.copy()
        run_steps(
            step, system.ints, system.reals, one, system.work(), no_force, CHAIN_STEP, CHECKED_STEPS, CHECKED_STEPS + 1,
            none, none, np.zeros(TOTALS),
        )  # fmt: skip
        expected.append(one[places])
    count = places.stop - places.start
    size = len(system.work())

    @inner
    def advance(state, inputs, params, tables, work, h, shown):
        step(tables.ints, tables.floats, state, view(work, count, len(work)), no_force, h)
        if shown:
            q = part(tables.ints, state, P.Q)
            for i in range(count):
                work[i] = q[i]
        return True

    from tandem.multibody.code.source import DeviceSource

    constants = tables(system.ints, system.reals)
    named = [Quantity(f"{k}", "", "") for k in range(max(len(starts[0]), count))]
    machine = Machine(
        "chain",
        (named[0],),
        tuple(named[: len(starts[0])]),
        tuple(named[:count]),
        (),
        cast(Step, None),
        tables=constants,
        work_size=count + size,
        capabilities=(DeviceCode(lambda: DeviceSource(advance, constants.ints, constants.floats)),),
    )
    data = {
        "starts": np.array(starts), "inputs": np.zeros((1, 1)), "params": np.zeros((1, 0)), "h": CHAIN_STEP,
        "expected": np.array(expected), "fallen": np.zeros(32, np.int64), "bound": 1e9,
        "names": np.array(["x", "y", *(f"q{k}" for k in range(2, count))]),
    }  # fmt: skip
    return data, machine


def recursion(links: int) -> tuple[dict[str, Any], Any]:
    """The same of links by the articulated-body recursion, in steps of Runge and Kutta's method of order 4."""
    import numba

    from sim_service.contract.machine import DeviceCode, Machine, Quantity, Step, tables
    from sync.compile.jit import inner
    from tandem.multibody.code.source import DeviceSource
    from tandem.multibody.natural.views import view
    from verify.multibody.chain import planar_rates
    from verify.multibody.trees import chain as described

    of, n = described(links, False), 2 * links
    size = of.work.size

    @inner
    def rk4(ints, reals, y, work, h):
        f, total, at = view(work, n, 2 * n), view(work, 2 * n, 3 * n), view(work, 3 * n, 4 * n)
        own = view(work, 4 * n, 4 * n + size)
        planar_rates(ints, reals, own, 0.0, y, f)
        for i in range(n):
            total[i] = f[i]
            at[i] = y[i] + 0.5 * h * f[i]
        planar_rates(ints, reals, own, 0.0, at, f)
        for i in range(n):
            total[i] += 2.0 * f[i]
            at[i] = y[i] + 0.5 * h * f[i]
        planar_rates(ints, reals, own, 0.0, at, f)
        for i in range(n):
            total[i] += 2.0 * f[i]
            at[i] = y[i] + h * f[i]
        planar_rates(ints, reals, own, 0.0, at, f)
        for i in range(n):
            y[i] += h / 6.0 * (total[i] + f[i])

    @inner
    def advance(state, inputs, params, tables, work, h, shown):
        rk4(tables.ints, tables.floats, state, work, h)
        if shown:
            for i in range(n):
                work[i] = state[i]
        return True

    @numba.njit
    def steps_of(ints, reals, y, work, h, steps):
        for _ in range(steps):
            rk4(ints, reals, y, work, h)

    constants = tables(of.ints, of.reals)
    starts = np.zeros((CHECKED, n))
    starts[:, :links] = 0.1 * np.random.default_rng(1).normal(size=(CHECKED, links))
    expected = starts.copy()
    work = np.zeros(4 * n + size)
    for one in expected:
        steps_of(of.ints, of.reals, one, work, RECURSION_STEP, CHECKED_STEPS)
    begun = time.perf_counter()
    steps_of(of.ints, of.reals, starts[0].copy(), work, RECURSION_STEP, 1000)
    note(f"recursion, {links} links: {1e3 * (time.perf_counter() - begun):.2f} us a step on one core")
    named = [Quantity(f"{k}", "", "") for k in range(n)]
    machine = Machine(
        "recursion",
        (named[0],),
        tuple(named),
        tuple(named),
        (),
        cast(Step, None),
        tables=constants,
        work_size=4 * n + size,
        capabilities=(
            DeviceCode(
                lambda: DeviceSource(advance, np.array(constants.ints), np.array(constants.floats), inline=False)
            ),
        ),
    )
    data = {
        "starts": starts, "inputs": np.zeros((1, 1)), "params": np.zeros((1, 0)), "h": RECURSION_STEP,
        "expected": expected, "fallen": np.zeros(CHECKED, np.int64), "bound": 1e9,
        "names": np.array(["x", "y", *(f"q{k}" for k in range(2, n))]),
    }  # fmt: skip
    return data, machine


def subject(name: str) -> tuple[dict[str, Any], Any]:
    if name.startswith("chain"):
        return chain(int(name.removeprefix("chain")))
    return recursion(int(name.removeprefix("recursion"))) if name.startswith("recursion") else car(name)


def prepared(
    *,
    folder: Annotated[Path, "where programs and references go"],
    what: Annotated[tuple[str, ...], "machines, recursionN, chainN"] = ("relative",),
) -> Iterator[Row]:
    """All references first: what was compiled for a GPU can no longer be called."""
    from tandem.ensembles.gpu.compile import texts
    from tandem.multibody.code.ptx import ptx

    machines = {}
    for name in what:
        (folder / name).mkdir(parents=True, exist_ok=True)
        data, machines[name] = subject(name)
        np.savez_compressed(folder / name / "data.npz", **data)
        yield figure(f"{name}: references that had steps of another method", int((data["fallen"] > 0).sum()))
    for name, machine in machines.items():
        parts = texts(machine)
        text = ptx(**parts)
        (folder / name / "program.ptx").write_text(text)
        yield figure(f"{name}: program", len(text), "bytes")


# ---- where there is a GPU: nothing is compiled -----------------------------------------------------------------------


def rows(of: np.ndarray, count: int) -> np.ndarray:
    """So many rows, these over and over."""
    return np.ascontiguousarray(of[np.arange(count) % len(of)])


_REGISTERS = re.compile(r"\.maxnreg\s+\d+")


def with_registers(program: str, count: int) -> str:
    """A program whose kernel has so many registers at most. Its own directives count before options of an assembler or
    a driver."""
    limited, found = _REGISTERS.subn(f".maxnreg {count}", program)
    if not found:
        raise ValueError("this program does not say how many registers its kernel has (.maxnreg)")
    return limited


def limited(folder: Path, registers: list[int]) -> Iterator[Path]:
    """All programs below a folder, each for these numbers of registers."""
    for source in sorted(folder.glob("**/*.ptx")):
        for count in registers:
            target = source.with_name(f"{source.stem}_{count}.limited")
            target.write_text(with_registers(source.read_text(), count))
            yield target


def assembled(ptxas: str, folder: Path, registers: list[int], limit_s: float) -> Iterator[Path]:
    """Machine code of all programs below a folder: what is there, then what is made, as it is done; what takes longer
    than the limit is given up."""
    begun, running = time.perf_counter(), {}
    there = sorted(folder.glob("**/*.cubin"))
    for source in limited(folder, registers):
        target = source.with_suffix(".cubin")
        if target not in there:
            command = [ptxas, "-arch=sm_90", "-v", str(source), "-o", str(target)]
            running[target] = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    yield from there
    while running:
        for target, process in list(running.items()):
            late = time.perf_counter() - begun > limit_s
            if late:
                process.kill()
            if process.poll() is not None or late:
                del running[target]
                took = time.perf_counter() - begun
                note(f"{target}: {'given up' if late else f'assembled in {took:.0f} s'}")
                if process.wait() == 0:
                    yield target
        time.sleep(0.2)


def gpu_programs(
    *,
    folder: Annotated[Path, "of what was prepared"],
    ptxas: Annotated[str, "NVIDIA's assembler"] = shutil.which("ptxas") or "",
    registers: Annotated[tuple[int, ...], "of a thread, at most"] = (255, 168, 128),
    patience: Annotated[float, "s for the assembler"] = 600.0,
    threads: Annotated[tuple[int, ...], "of a block"] = (64, 128, 512),
    copies: Annotated[int, "on the GPU"] = 135_168,
    seconds: Annotated[float, "of a measurement, about"] = 2.0,
) -> Iterator[Row]:
    """Four times what an H200 has resident with 255 registers a thread, twice that with 128: no multiprocessor is
    idle."""
    from tandem.ensembles.gpu import device as on

    if why := on.available():
        raise NotHere(why)
    gpu = on.Device()
    note(gpu.name)
    programs = (
        assembled(ptxas, folder, list(registers), patience)
        if ptxas
        else iter(sorted(folder.glob("**/*.cubin")) or list(limited(folder, list(registers))))
    )
    for image in programs:
        with np.load(image.parent / "data.npz") as found:
            data = dict(found)
        for count in threads:
            what = f"{image.parent.name}/{image.name}, {count} threads"
            try:
                for name, value in measured(on, gpu, image, data, copies, seconds, count).items():
                    yield figure(f"{what}: {name}", value if isinstance(value, int | float) else json.dumps(value))
            except RuntimeError as error:  # too many registers for so many threads, or too little memory
                yield figure(what, str(error))


def measured(
    on: Any, gpu: Any, image: Path, data: dict[str, Any], copies: int, seconds: float, threads: int
) -> dict[str, Any]:
    begun = time.perf_counter()
    program = on.Program(gpu, image.read_bytes())
    found: dict[str, Any] = {"loaded_s": round(time.perf_counter() - begun, 1)} | program.figures(threads)
    names, bound, h = [str(name) for name in data["names"]], float(data["bound"]), float(data["h"])

    def create(count: int) -> Any:
        return on.Copies(
            gpu, *(rows(data[key], count) for key in ("starts", "inputs", "params")), len(names), bound
        )  # fmt: skip

    def took(of: Any, steps: int) -> float:
        begun = time.perf_counter()
        of.step(program, h, steps, threads)
        gpu.wait()
        return time.perf_counter() - begun

    checked = create(CHECKED)
    took(checked, CHECKED_STEPS)
    expected, fallen = rows(data["expected"], CHECKED), data["fallen"][np.arange(CHECKED) % len(data["fallen"])]
    same = (checked.steps_done() == CHECKED_STEPS) & (fallen == 0)
    apart = np.abs(checked.outputs() - expected)[same]
    checked.free()
    found["compared"] = int(same.sum())
    for name in SHOWN:
        if name in names and same.any():
            found[f"apart_{name}"] = float(apart[:, names.index(name)].max())
    one = create(1)
    took(one, 1)
    found["one_copy_us"] = round(1e6 * took(one, 20) / 20, 1)
    one.free()
    copies = int(min(copies, MEMORY // (8 * data["starts"].shape[1])))
    many = create(copies)
    took(many, 1)
    steps = int(np.clip(seconds / max(took(many, 2) / 2, 1e-6), 2, 200))
    best, total = min((took(many, steps), float(many.steps_done().sum())) for _ in range(2))
    found |= {"copies": copies, "steps": steps, "steps_per_s": round(total / best)}
    found["stopped"] = int((many.steps_done() != steps).sum())
    many.free()
    program.unload()
    return found
