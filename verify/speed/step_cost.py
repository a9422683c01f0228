"""What a step of the buggy costs here and in another checkout: `python -m verify.speed.step_cost ../other [--rounds
30]`.

`--drives 5`: so many whole drives of each as well, in turn: seconds to the first step, how late steps began, and the
memory of all processes together (PSS, the most while it drove), as medians. One drive of each before them, which
compiles, does not count. `../other` needs no environment of its own: this Python runs both.

`--road configs/roads/rough_c.toml` drives on that road in place of the flat one; `../other` may be this checkout.

Both are loaded in a process of their own and take turns, a burst of steps each, so that whatever else the computer does
meets both alike. The drive is the same: half throttle from rest, then a slalom. Printed is processor time of a step,
least and median over the bursts, and the ratio of this checkout to the other.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from verify import ROOT

STEPS = 400  # of a burst
H = 5e-3
_PATIENCE_S = 600.0  # of a drive; the first one compiles
# figure of a drive, where it is in what the drive says, and the ratio to the other above which the exit code is 1
FIGURES = (
    ("first step, s", ("first_step_s",), 1.1),
    ("memory, MB", ("memory_mb",), 1.1),
    ("lateness p50, us", ("lateness_us", "p50"), 1.03),
    ("lateness p99, us", ("lateness_us", "p99"), None),  # of a busy machine, the machine's
)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder.resolve())}


def drive(folder: Path, seconds: float) -> dict:
    """What a drive there says of itself, with the most memory that its processes had."""
    from verify.speed.memory import (  # of this checkout: what serves runs in the other, which may have none
        children,
        pss_mb,
    )

    with tempfile.TemporaryDirectory(prefix="tandem") as runs:
        words = [word for setting in (f"name=compared_{os.getpid()}", "view.port=0") for word in ("--set", setting)]
        running = subprocess.Popen(
            [sys.executable, "-m", "tandem", "drive", "--seconds", str(seconds), "--json", "--runs", runs, *words],
            cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        most, end = 0.0, time.monotonic() + _PATIENCE_S
        try:
            while running.poll() is None:
                if time.monotonic() > end:
                    raise SystemExit(f"{folder}: the drive did not end within {_PATIENCE_S:g} s")
                with contextlib.suppress(OSError, SystemExit):  # processes that end meanwhile
                    most = max(most, sum(pss_mb(pid) for pid in (running.pid, *children(running.pid))))
                time.sleep(0.25)
            said, errors = running.communicate()
        finally:
            if running.poll() is None:
                running.send_signal(signal.SIGINT)
                running.communicate()
        if running.returncode != 0:
            raise SystemExit(f"{folder}: the drive ended with exit code {running.returncode}:\n{errors[-2000:]}")
        return {**json.loads(said), "memory_mb": most}


def compare_drives(other: Path, drives: int, seconds: float) -> bool:
    """Whether no figure is worse here than it may be."""
    found: list[list[dict]] = [[], []]
    for turn in range(drives + 1):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            made = drive((ROOT, other)[which], seconds)
            if turn > 0:
                found[which].append(made)
    well = True
    for name, where, most in FIGURES:
        here, there = (float(np.median([_at(each, where) for each in of])) for of in found)
        beyond = most is not None and here > most * there
        well &= not beyond
        limit = "" if most is None else f"; at most {most:g}{'  MISSED' if beyond else ''}"
        print(f"{name:17s} here {here:8.2f}, other {there:8.2f}, ratio {here / there:.3f}{limit}", flush=True)
    return well


def _at(figures: dict, where: tuple[str, ...]) -> float:
    found = figures
    for key in where:
        found = found[key]
    return float(found)


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
    parser.add_argument("--drives", type=int, default=0, help="of each, compared as well (default: none)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a drive (default %(default)s)")
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
            [sys.executable, "-m", "verify.speed.step_cost", "--serve", *road],
            cwd=folder,
            env={**environment(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in (ROOT, chosen.other)
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
    well = chosen.drives == 0 or compare_drives(chosen.other.resolve(), chosen.drives, chosen.seconds)
    return 0 if well and middle[0] <= chosen.most * middle[1] else 1


if __name__ == "__main__":
    sys.exit(main())
