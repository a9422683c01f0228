"""What unrolled code gains over index tables.

The buggy in natural coordinates, by tables and by code, in turns within one run: a step warm, a step after 32 MB were
read, a future of the look ahead, a lane change of a sweep, and the replay of a run with reading. Every pair must agree
to the bit, and unrolled code has limits of time on whatever machine this is. First of all it is compiled from nothing.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import numpy as np

from sim_service.contract.machine import Machine, default_inputs
from sim_service.look_ahead import record
from sim_service.look_ahead.predict import Predictor
from sim_service.many_steps import WORTH_WAITING, for_many_steps
from sim_service.registry import load_machine
from sync.config.config import load
from tandem.ensembles import sweep, work
from tandem.machines.car.buggy.slots import HEAD
from tandem.multibody.code import store
from tandem.multibody.natural import unrolling
from tandem.records.replay import Options, replay_run
from verify import CONFIGS
from verify.measure import Row, at_least, at_most, equal, figure

COMPILED_S = 60.0  # of one core
LIMITS = {"step": 42.0, "future of the look ahead": 5e3, "lane change of a sweep": 250e3}  # us, medians
LEAST_REAL_TIME = 60.0  # of a replay of ten minutes
STEPS, FLUSHED, FUTURES, H = 2000, 200, 10, 5e-3
_EVICT = np.zeros(4_000_000)


def compiled_from_nothing(machine: Machine) -> float:
    """Processor time, in s."""
    begun = time.thread_time_ns()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(store, "folder", return_value=Path(folder)),
    ):
        list(unrolling.compile_functions(np.array(machine.tables.ints[HEAD:]), np.array(machine.tables.floats)))
    return (time.thread_time_ns() - begun) * 1e-9


def drive(machine: Machine, params: np.ndarray, steps: int, flush: bool) -> tuple[np.ndarray, bytes]:
    """Microseconds of each step, and what came out."""
    state, scratch = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, scratch)
    names = [q.name for q in machine.inputs]
    inputs = np.array([np.nan if q.optional else 0.0 for q in machine.inputs])
    inputs[names.index("steering_angle")], inputs[names.index("throttle")] = 0.3, 0.4
    took = np.zeros(steps)
    for k in range(steps):
        if flush:
            _EVICT.sum()
        begun = time.perf_counter_ns()
        machine.step(state, inputs, params, machine.tables, scratch, H)
        took[k] = 1e-3 * (time.perf_counter_ns() - begun)
    return took, state.tobytes() + scratch[: len(machine.outputs)].tobytes()


def futures(predictor: Predictor, machine: Machine, params: np.ndarray) -> tuple[np.ndarray, bytes]:
    state, scratch = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, scratch)
    inputs = default_inputs(machine)
    inputs[[q.name for q in machine.inputs].index("throttle")] = 0.4
    block, took = np.zeros(record.LAYOUT.words, np.int64), np.zeros(FUTURES)
    for k in range(FUTURES):
        begun = time.perf_counter_ns()
        predictor.predict(record.HELD, state, inputs, scratch[: len(machine.outputs)], params, block)
        took[k] = 1e-3 * (time.perf_counter_ns() - begun)
    return took, block.tobytes() + predictor.path.tobytes()


def lane_change(worker: work.Worker, values: Any) -> tuple[np.ndarray, bytes]:
    begun = time.thread_time_ns()
    log = worker.log(0, values)
    took = 1e-3 * (time.thread_time_ns() - begun)
    return np.array([took]), b"".join(np.asarray(each).tobytes() for each in log.columns.values())


def replayed(run: Path, code: str, simulated_s: list[float]) -> tuple[np.ndarray, bytes]:
    begun = time.perf_counter_ns()
    done = replay_run(run, Options(overrides=[f"sim.code={code}"]))
    took = 1e-3 * (time.perf_counter_ns() - begun)
    simulated_s.append(done.figures["simulated_s"])
    return np.array([took]), done.results.tobytes()


def unrolled(
    *, rounds: int = 8, replay: Annotated[Path | None, "a recorded run of the buggy to replay"] = None
) -> Iterator[Row]:
    plain, params = load_machine(CONFIGS / "vehicles" / "buggy.toml")
    yield at_most("compiled from nothing", compiled_from_nothing(plain), COMPILED_S, "s of one core")
    coded = for_many_steps(plain, WORTH_WAITING)
    settings = load(CONFIGS / "drive.toml", ["look_ahead.enabled=true"])
    ahead = [Predictor(settings, plain, params) for _ in range(2)]
    ahead[1].unroll()
    study = sweep.prepare(CONFIGS / "studies" / "lane_change.toml")
    workers = [work.Worker(replace(study.job, runs=runs)) for runs in (0, WORTH_WAITING)]
    for worker in workers:
        worker.log(0, study.values[0])
    pairs: dict[str, Any] = {  # by tables and unrolled: functions that give times, and bits
        "step": tuple(lambda m=m: drive(m, params, STEPS, False) for m in (plain, coded)),
        "step after 32 MB": tuple(lambda m=m: drive(m, params, FLUSHED, True) for m in (plain, coded)),
        "future of the look ahead": tuple(lambda p=p: futures(p, plain, params) for p in ahead),
        "lane change of a sweep": tuple(lambda w=w: lane_change(w, study.values[0]) for w in workers),
    }
    simulated_s: list[float] = []
    if replay:
        pairs["replay with reading"] = tuple(
            lambda code=code: replayed(replay, code, simulated_s) for code in ("tables", "unrolled")
        )
    for name, pair in pairs.items():
        found = [[run() for run in pair] for _ in range(rounds)]
        tables, code = (np.median(np.concatenate([round_[k][0] for round_ in found])) for k in range(2))
        ratios = [np.median(round_[1][0]) / np.median(round_[0][0]) for round_ in found]
        yield figure(f"{name}: by tables", tables, "us")
        unrolled_us = f"{name}: unrolled", float(code)
        yield at_most(*unrolled_us, LIMITS[name], "us") if name in LIMITS else figure(*unrolled_us, "us")
        yield figure(f"{name}: ratio", np.median(ratios))
        if "replay" in name:
            yield at_least(f"{name}: times real time", 1e6 * simulated_s[0] / code, LEAST_REAL_TIME)
        yield equal(f"{name}: different results", len({bits for round_ in found for _, bits in round_}), 1)
