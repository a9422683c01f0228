"""Ten parameters of a virtual car with hidden values and noisy sensors, found again: `python -m
verify.estimation.identify`.

20 repetitions (seeds 0 to 19), each with other hidden values and other noise. Counted are single intervals of 95 % that
hold their value; repetitions in which all ten do; repetitions in which all ten lie within the simultaneous intervals of
95 % (Bonferroni), within the ellipsoid of 95 %, and within the intervals it reaches (Scheffé). Ten right and
independent single intervals hold all at once in 0.95^10 = 60 % of the repetitions: more would mean that they are too
wide. The last repetition is made by differences as well as by exact sensitivities. Then drag area and air density
together, of which only the product acts: they must be named.
Exit code 1 where fewer than 90 % of the single intervals hold, where all ten lie within Scheffé's in fewer than 90 % of
the repetitions, where the errors are not as large as the covariance says (the sum of their squares in its measure,
chi-squared, at 99.9 %), where exact sensitivities and differences disagree, or where the pair is not named.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import chi2

import tandem
from tandem.console.shipped_configs import CONFIGS
from tandem.ensembles.estimate import Estimate
from tandem.ensembles.identify import identify
from tandem.offline.model import Parameters

CAR = CONFIGS / "vehicles" / "buggy_single_track.toml"
STEP_S, SECONDS = 0.005, 40.0
PARAMETERS = (
    "mass", "yaw_inertia", "cg_to_front", "cornering_front", "cornering_rear", "relaxation_y", "drag_area",
    "rolling_resistance", "brake_front", "steering_arm",
)  # fmt: skip
SIGMAS = {"vx": 0.05, "yaw_rate": 0.005, "ax": 0.1, "ay": 0.1}  # of a GNSS receiver and an inertial sensor
WITHIN = 0.15  # of the file's value: hidden values
RANGE = 0.45  # and the range that is searched
SINGLE = 1.959963984540054  # deviations


def inputs(seconds: float) -> dict[str, np.ndarray]:
    """Accelerate, weave, brake, lift, weave faster: everything that acts is moved."""
    t = STEP_S * np.arange(round(seconds / STEP_S))
    throttle = np.interp(t, [0, 1, 8, 9, 20, 21, 24, 25, 33, 34], [0.3, 0.9, 0.9, 0.4, 0.4, 0, 0, 0.8, 0.8, 0.2])
    brake = np.interp(t, [20, 21, 22.5, 23, 35, 36, 37, 38], [0, 15, 15, 0, 0, 20, 20, 0])
    amplitude = np.interp(t, [3, 6, 18, 20, 24, 26, 34, 35], [0, 1, 1, 0, 0, 1, 1, 0])
    angle = amplitude * np.sin(2 * np.pi * (0.2 + 0.02 * t) * t)
    rate = np.gradient(angle, STEP_S)
    return {
        "throttle": throttle, "brake_pressure_bar": brake, "steering_angle": angle, "steering_speed": rate,
        "steering_acceleration": np.gradient(rate, STEP_S),
    }  # fmt: skip


def measurement(file: Path, hidden: dict[str, float], random: np.random.Generator, seconds: float) -> None:
    car = tandem.load_machine(CAR, hidden)
    given = {name: values for name, values in inputs(seconds).items() if name in {q.name for q in car.inputs}}
    made = car.run(given, step_s=STEP_S)
    count = made.rows
    columns = {"t": STEP_S * np.arange(count + 1)}
    columns |= {name: np.append(values, values[-1]) for name, values in given.items()}
    for name, sigma in SIGMAS.items():  # the value at the end of a step stands at that instant
        columns[name] = np.concatenate([[0.0], made[name]]) + sigma * random.standard_normal(count + 1)
    table = np.column_stack(list(columns.values()))
    np.savetxt(file, table, fmt="%.17g", delimiter=",", header=",".join(columns), comments="")


def study(file: Path, names: tuple[str, ...], known: dict[str, float] | None = None) -> dict[str, object]:
    nominal = tandem.load_machine(CAR).parameters
    return {
        "name": "car", "machine": str(CAR), "step_ms": 1e3 * STEP_S, "records": [str(file)],
        "measured": {name: {"sigma": sigma} for name, sigma in SIGMAS.items()},
        "set": known or {}, "parameters": {name: _range(nominal, name) for name in names},
    }  # fmt: skip


def _range(nominal: Parameters, name: str) -> dict[str, float]:
    limits = nominal.describe(name)
    return {"low": max((1 - RANGE) * nominal[name], limits.low), "high": min((1 + RANGE) * nominal[name], limits.high)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    asked = parser.parse_args()
    nominal = tandem.load_machine(CAR).parameters
    count = asked.repetitions
    scores, distances = np.zeros((count, len(PARAMETERS))), np.zeros(count)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "measured.csv"
        for k in range(count):
            random = np.random.default_rng(asked.first_seed + k)
            factors = random.uniform(1 - WITHIN, 1 + WITHIN, len(PARAMETERS))
            hidden = {name: nominal[name] * f for name, f in zip(PARAMETERS, factors, strict=True)}
            measurement(file, hidden, random, asked.seconds)
            found = identify(study(file, PARAMETERS))
            truth = np.array(list(hidden.values()))
            scores[k], distances[k] = (found.values - truth) / found.deviations, found.distance(truth)
            missed = [n for n, score in zip(PARAMETERS, scores[k], strict=True) if not abs(score) < SINGLE]
            outside = f": not {', '.join(missed)}" if missed else ""
            farthest = np.abs(scores[k]).max()
            print(
                f"seed {asked.first_seed + k}: {10 - len(missed)} of 10 single intervals{outside}; farthest"
                f" {farthest:.2f} deviations, chi-squared {distances[k]:.1f}",
                flush=True,
            )
        differences = identify({**study(file, PARAMETERS), "solver": {"sensitivities": "differences"}})
        searched = ("drag_area", "air_density", "rolling_resistance")
        known = {name: value for name, value in hidden.items() if name not in searched}
        pair = identify(study(file, searched, known))
    return judged(scores, distances, found, differences, [set(c.weights) for c in pair.combinations])


def judged(
    scores: np.ndarray, distances: np.ndarray, found: Estimate, differences: Estimate, named: list[set[str]]
) -> int:
    """`found` by exact sensitivities and `differences` by differences, of the last repetition."""
    count, apart = len(scores), np.abs((found.values - differences.values) / found.deviations).max()
    inside, joint = np.abs(scores) < SINGLE, (np.abs(scores) < found.joint_factor).all(axis=1)
    together = distances < found.ellipsoid_factor**2
    shadow = (np.abs(scores) < found.ellipsoid_factor).all(axis=1)
    widths = SINGLE * found.deviations / found.values
    for n, name in enumerate(PARAMETERS):
        print(f"{name:20s} {inside[:, n].mean():4.0%} inside, last interval ±{widths[n]:.2%}")
    print(
        f"sensitivities {found.sensitivities}; by differences the last answer is {apart:.0e} deviations away, its"
        f" deviations {np.abs(differences.deviations / found.deviations - 1.0).max():.0e} others"
    )
    print(f"single intervals (±1.96): {inside.mean():.1%} of {inside.size} hold, 95 % expected")
    print(f"  all ten in {inside.all(axis=1).sum()} of {count} repetitions (independent ones: {0.95**10:.0%})")
    print(f"simultaneous intervals (±{found.joint_factor:.2f}, Bonferroni): all ten in {joint.sum()} of {count}")
    print(f"joint ellipsoid: {together.sum()} of {count}, 95 % expected")
    print(f"its intervals (±{found.ellipsoid_factor:.2f}, Scheffé): all ten in {shadow.sum()} of {count}")
    low, high = chi2.ppf([0.0005, 0.9995], inside.size)
    print(f"squared errors in the measure of the covariance: {distances.sum():.0f}, {low:.0f} to {high:.0f} expected")
    print(f"not told apart: {[sorted(each) for each in named]}")
    calibrated = inside.mean() >= 0.9 and low < distances.sum() < high
    kept = shadow.mean() >= 0.9 and apart < 0.01 and found.sensitivities == "exact"
    return int(not (calibrated and kept and {"drag_area", "air_density"} in named))


if __name__ == "__main__":
    sys.exit(main())
