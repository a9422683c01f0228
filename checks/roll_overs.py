"""Cars that roll over: `python -m checks.roll_overs [count] [seed]`.

Random pushes, wedges under the wheels of one side and kerbs struck sideways, at 5 to 40 m/s. Nothing may become
non-finite; kinetic energy and that of height may never exceed what the car began with and the pushes gave by more than
1 %. A car that lies on its body says so by its output `body_load`.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from checks.kerbs import Coasting
from sim_service.machines.buggy.description import P, W

H, SECONDS = 5e-3, 4.0
WEDGES, KERBS = (0.5, 0.6, 0.7, 0.85, 1.0), (0.05, 0.1, 0.15, 0.2, 0.25)  # m


def one(
    rng: np.random.Generator, folder: Path, cars: dict[str, Coasting]
) -> tuple[bool, float, float, int, float, int]:
    """Finite; energy beyond what was given, J and as a share; capped steps; roll at the end; steps thrown away."""
    kind = rng.integers(3)
    speed = float(rng.uniform(5.0, 40.0))
    # few heights, for a car is made anew for each road
    height = float(rng.choice(WEDGES)) if kind == 1 else float(rng.choice(KERBS))
    bump = f'[[bumps]]\nshape = "trapezoid"\nheight = {height}\n'
    wedge = bump + "x = 5.0\nlength = 12.0\nramp = 5.0\nrounding = 0.5\nright = 0.0\n"  # under the left wheels
    kerb = bump + f"x = 6.0\nlength = 60.0\nramp = {max(0.02, height / 3)}\nrounding = 0.005\n"
    text = ("", wedge, kerb)[kind]
    across = float(rng.uniform(-1.0, 1.0)) * (kind == 2)
    if text not in cars:
        road = folder / "road.toml"
        road.write_text(text)
        cars[text] = Coasting(road, speed)
    car = cars[text]
    car.again(speed, across)
    push = np.zeros(3)
    until = 0.0
    if kind == 0 or rng.random() < 0.3:
        until = float(rng.uniform(0.3, 1.5))
        push = np.array([rng.uniform(-9e3, 9e3), rng.uniform(-2e3, 2e3), rng.uniform(-4e3, 4e3)])
    car.inputs[0] = float(rng.uniform(-6.0, 6.0)) if rng.random() < 0.5 else 0.0
    car.step(H)
    start, given, most, capped = car.energy(), 0.0, 0.0, 0
    before, stopped = np.zeros(3), 0
    for n in range(round(SECONDS / H)):
        on = n * H < until
        car.params[[P.push_roll, P.push_pitch, P.push_yaw]] = push if on else 0.0
        car.step(H)
        if on:
            rates = np.array([car["roll_rate"], car["pitch_rate"], car["yaw_rate"]])
            given, before = given + float(push @ (before + rates)) * 0.5 * H, rates
        if not (np.isfinite(car.state).all() and np.isfinite(car.work[: len(W)]).all()):
            return False, np.nan, np.nan, capped, np.nan, stopped
        capped += int(car["capped"])
        stopped += car["capped"] == 2.0
        most = max(most, car.energy(springs=False) - start - given)
    return True, most, most / (start + given), capped, car["roll"], stopped


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 17
    broken = rolled = capped = stopped = 0
    worst = 0.0
    cars: dict[str, Coasting] = {}
    with tempfile.TemporaryDirectory() as name:
        for n in range(count):
            finite, joule, share, caps, roll, stops = one(np.random.default_rng([seed, n]), Path(name), cars)
            broken, capped = broken + (not finite), capped + caps
            rolled += finite and abs(roll) > 0.7
            worst = max(worst, share if finite else 0.0)
            stopped += stops
            if not finite or share > 0.01 or stops:
                print(f"{n}: finite {finite}, {joule:.0f} J created, {100 * share:.2f} %", end="")
                print(f", {caps} capped, {stops} stopped dead", flush=True)
    print(f"{count} runs: {broken} not finite, {rolled} on side or roof at the end, {capped} capped steps", end="")
    print(f", {stopped} stopped dead, at most {100 * worst:.2f} % of the energy created")
    return 1 if broken or worst > 0.01 else 0


if __name__ == "__main__":
    sys.exit(main())
