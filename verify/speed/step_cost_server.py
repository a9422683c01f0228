"""Answers each line with the processor time of a burst of steps of the buggy of the checkout it is started in.

It is run by its path, in a checkout that may have no such file, and imports nothing of verify.
"""

import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np

STEPS = 400  # of a burst
H = 5e-3


def serve(road: Path | None) -> None:
    """Answer each line with the processor time of a burst, us per step."""
    # where machines are found; before the packages were rearranged it was another place. By the file: an environment in
    # which tandem is installed would find the module elsewhere
    registry = "registry" if Path("sim_service", "registry.py").is_file() else "machines"
    load_machine = import_module(f"sim_service.{registry}").load_machine
    model, params = load_machine(
        Path.cwd() / "configs" / "vehicles" / "buggy.toml", None, {"road": road} if road else None
    )
    names = [q.name for q in model.inputs]
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    inputs = np.array([np.nan if q.optional else 0.0 for q in model.inputs])
    model.initial(state, params, model.tables, work)

    def burst(steps: int, throttle: float, swing: float) -> int:
        rows = np.tile(inputs, (steps, 1))  # optional inputs come as NaN, and the step puts its own there
        rows[:, names.index("throttle")] = throttle
        rows[:, names.index("steering_angle")] = swing * np.sin(0.01 * np.arange(steps))
        begun = time.thread_time_ns()
        for row in rows:
            model.step(state, row, params, model.tables, work, H)
        return time.thread_time_ns() - begun

    burst(400, 0.5, 0.0)
    saved = state.copy(), work.copy()
    print("ready", flush=True)
    for _ in sys.stdin:
        state[:], work[:] = saved
        print(burst(STEPS, 0.4, 1.2) / STEPS / 1e3, flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
