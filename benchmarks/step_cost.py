"""What a step of the buggy costs here and in another checkout: `python -m benchmarks.step_cost ../other [--rounds 30]`.

`--road configs/roads/rough_c.toml` drives on that road in place of the flat one; `../other` may be this checkout.

Both are loaded in a process of their own and take turns, a burst of steps each, so that whatever else the computer does
meets both alike. The drive is the same: half throttle from rest, then a slalom. Printed is processor time of a step,
least and median over the bursts, and the ratio of this checkout to the other.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
STEPS = 400  # of a burst
H = 5e-3


def serve(road: Path | None) -> None:
    """Answer each line with the processor time of a burst, us per step."""
    from sim_service.registry import load_machine

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--most", type=float, default=1.1, help="ratio above which the exit code is 1")
    parser.add_argument("--road", type=Path, help="in place of the flat one")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.road)
        return 0
    if chosen.other is None:
        parser.error("name the other checkout")
    road = ["--road", str(chosen.road.resolve())] if chosen.road else []
    both = [
        subprocess.Popen(
            [sys.executable, __file__, "--serve", *road],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder.resolve()), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in (HERE, chosen.other)
    ]
    costs: list[list[float]] = [[], []]
    try:
        for process in both:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for turn in range(chosen.rounds):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                process = both[which]
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write("go\n")
                process.stdin.flush()
                costs[which].append(float(process.stdout.readline()))
    finally:
        for process in both:
            process.kill()
            process.communicate()
    least, middle = [min(c) for c in costs], [float(np.median(c)) for c in costs]
    for name, a, b in zip(("here", "other"), least, middle, strict=True):
        print(f"{name:5s}  least {a:.1f} us, median {b:.1f} us a step")
    print(f"ratio  least {least[0] / least[1]:.3f}, median {middle[0] / middle[1]:.3f}; at most {chosen.most:g}")
    return 0 if middle[0] <= chosen.most * middle[1] else 1


if __name__ == "__main__":
    sys.exit(main())
