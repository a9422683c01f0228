"""1024 cars as one vector environment, stepped through DLPack without a copy: `python -m verify vector-env`.

Actions come as tensors of PyTorch where it is installed, otherwise as arrays that numpy exports and imports through
DLPack, the same door. Checked: the observation and what DLPack makes of it are the batch's own memory, before and after
steps; a tensor made once sees every step; a tensor over the inputs, written in place, moves the cars; every car makes
the steps of a single one to the bit. Prints one line; exit code 1 if one of it is not so.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tandem
from verify.measure import Row, figure, holds

CARS = 1024


def door() -> tuple[str, Callable[[Any], Any]]:
    """A name, and a function that makes a tensor of whatever has __dlpack__, sharing its memory."""
    try:
        import torch
    except ModuleNotFoundError:
        return f"numpy {np.__version__} through DLPack (PyTorch is not installed)", np.from_dlpack
    return f"PyTorch {torch.__version__}", torch.from_dlpack


def vector_env(*, steps: int = 200) -> Iterator[Row]:
    name, share = door()
    cars = tandem.batch("single_track", CARS)
    env = tandem.vector_env(
        cars,
        actions={"throttle": (0.0, 1.0), "steering_angle": (-1.0, 1.0)},
        reward=lambda batch: batch.outputs[:, batch.output_index["vx"]],
    )
    observed, _ = env.reset(seed=1)
    seen, address = share(observed), cars.outputs.ctypes.data
    random = np.random.default_rng(1)
    actions = np.column_stack([random.uniform(0.2, 0.8, CARS), random.uniform(-0.5, 0.5, CARS)])
    tensor = share(actions)
    begun = time.perf_counter()
    for _ in range(steps):
        observed, _, _, _, _ = env.step(tensor)
    yield figure(f"{CARS} cars, {steps} steps from {name}", CARS * steps / (time.perf_counter() - begun), "steps/s")
    same = observed is cars.outputs and np.from_dlpack(seen).ctypes.data == address == cars.outputs.ctypes.data
    yield holds("an observation is the batch's memory", same)
    yield holds("what is new is seen through it", np.array_equal(np.from_dlpack(seen), cars.outputs))
    alone = tandem.load_machine("single_track").run(
        {"throttle": np.full(steps, actions[7, 0]), "steering_angle": np.full(steps, actions[7, 1])},
        step_s=cars.step_s,
    )
    bits = all(alone[q][-1] == cars.outputs[7, k] for q, k in cars.output_index.items())
    yield holds("one of them is a single car's, to the bit", bits)
    # inputs are a tensor too: written in place, without an action
    inputs = share(cars.inputs)
    inputs[:, cars.input_index["brake_pressure_bar"]] = 20.0
    inputs[:, cars.input_index["throttle"]] = 0.0
    before = cars.outputs[:, cars.output_index["vx"]].copy()
    cars.step(steps=20)
    yield holds("inputs are written in place", (cars.outputs[:, cars.output_index["vx"]] < before).all())
    env.close()
