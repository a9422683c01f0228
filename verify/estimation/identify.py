"""Ten parameters of a virtual car with hidden values and noisy sensors, found again.

20 repetitions (seeds 0 to 19), each with other hidden values and other noise. Counted are single intervals of 95 % that
hold their value; repetitions in which all ten do; repetitions in which all ten lie within the simultaneous intervals of
95 % (Bonferroni), within the ellipsoid of 95 %, and within the intervals it reaches (Scheffé). Ten right and
independent single intervals hold all at once in 0.95^10 = 60 % of the repetitions: more would mean that they are too
wide. The last repetition is made by differences as well as by exact sensitivities. Then drag area and air density
together, of which only the product acts: they must be named.

Promised: 90 % of the single intervals hold, all ten lie within Scheffé's in 90 % of the repetitions, the errors are as
large as the covariance says (the sum of their squares in its measure, chi-squared, at 99.9 %), exact sensitivities and
differences agree, and the pair is named.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import chi2

import tandem
from tandem.console.shipped_configs import CONFIGS
from tandem.ensembles.estimate import Estimate
from tandem.ensembles.identify import identify
from tandem.offline.model import Parameters
from verify.measure import Row, at_least, at_most, figure, holds, note

CAR = CONFIGS / "vehicles" / "buggy_single_track.toml"
BUGGY = CONFIGS / "vehicles" / "buggy.toml"
LIVE = (  # of the buggy, and some that shape its mechanism
    "front_spring_rate", "rear_spring_rate", "front_damper_rebound", "rear_damper_rebound", "grip", "drag_area",
    "brake_front", "rack_travel_per_turn",
)  # fmt: skip
SHAPING = ("sprung_mass", "sprung_izz")
STEP_S, SECONDS = 0.005, 40.0
PARAMETERS = (
    "mass", "yaw_inertia", "cg_to_front", "cornering_front", "cornering_rear", "relaxation_y", "drag_area",
    "rolling_resistance", "brake_front", "steering_arm",
)  # fmt: skip
SIGMAS = {"vx": 0.05, "yaw_rate": 0.005, "ax": 0.1, "ay": 0.1}  # of a GNSS receiver and an inertial sensor
OF_BUGGY = {**SIGMAS, "roll_rate": 0.005, "pitch_rate": 0.005}
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


def measurement(
    file: Path, hidden: dict[str, float], random: np.random.Generator, seconds: float, of: Path = CAR,
    sigmas: dict[str, float] = SIGMAS,
) -> None:  # fmt: skip
    car = tandem.load_machine(of, hidden)
    signals = {name: values for name, values in inputs(seconds).items() if name in {q.name for q in car.inputs}}
    simulated = car.run(signals, step_s=STEP_S)
    count = simulated.rows
    columns = {"t": STEP_S * np.arange(count + 1)}
    columns |= {name: np.append(values, values[-1]) for name, values in signals.items()}
    for name, sigma in sigmas.items():  # the value at the end of a step stands at that instant
        columns[name] = np.concatenate([[0.0], simulated[name]]) + sigma * random.standard_normal(count + 1)
    table = np.column_stack(list(columns.values()))
    np.savetxt(file, table, fmt="%.17g", delimiter=",", header=",".join(columns), comments="")


def study(
    file: Path, names: tuple[str, ...], known: dict[str, float] | None = None, of: Path = CAR,
    sigmas: dict[str, float] = SIGMAS,
) -> dict[str, object]:  # fmt: skip
    nominal = tandem.load_machine(of).parameters
    return {
        "name": "car", "machine": str(of), "step_ms": 1e3 * STEP_S, "records": [str(file)],
        "measured": {name: {"sigma": sigma} for name, sigma in sigmas.items()},
        "set": known or {}, "parameters": {name: _range(nominal, name) for name in names},
    }  # fmt: skip


def _range(nominal: Parameters, name: str) -> dict[str, float]:
    limits = nominal.describe(name)
    return {"low": max((1 - RANGE) * nominal[name], limits.low), "high": min((1 + RANGE) * nominal[name], limits.high)}


def identified(*, repetitions: int = 20, first_seed: int = 0, seconds: float = SECONDS) -> Iterator[Row]:
    nominal = tandem.load_machine(CAR).parameters
    scores, distances = np.zeros((repetitions, len(PARAMETERS))), np.zeros(repetitions)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "measured.csv"
        for k in range(repetitions):
            random = np.random.default_rng(first_seed + k)
            factors = random.uniform(1 - WITHIN, 1 + WITHIN, len(PARAMETERS))
            hidden = {name: nominal[name] * f for name, f in zip(PARAMETERS, factors, strict=True)}
            measurement(file, hidden, random, seconds)
            found = identify(study(file, PARAMETERS))
            truth = np.array(list(hidden.values()))
            scores[k], distances[k] = (found.values - truth) / found.deviations, found.distance(truth)
            missed = [n for n, score in zip(PARAMETERS, scores[k], strict=True) if not abs(score) < SINGLE]
            note(f"seed {first_seed + k}: {10 - len(missed)} of 10 single intervals; outside: {', '.join(missed)}")
        differences = identify({**study(file, PARAMETERS), "solver": {"sensitivities": "differences"}})
        searched = ("drag_area", "air_density", "rolling_resistance")
        known = {name: value for name, value in hidden.items() if name not in searched}
        pair = identify(study(file, searched, known))
    yield from judged(scores, distances, found, differences, [set(c.weights) for c in pair.combinations])


def of_the_buggy(*, seconds: float = SECONDS, rounds: int = 2) -> Iterator[Row]:
    """The eighteen-body car by exact sensitivities and by differences of runs, in turns."""
    nominal, random = tandem.load_machine(BUGGY).parameters, np.random.default_rng(0)
    hidden = {n: nominal[n] * random.uniform(1 - WITHIN, 1 + WITHIN) for n in (*LIVE, *SHAPING)}
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "measured.csv"
        measurement(file, hidden, random, seconds, BUGGY, OF_BUGGY)
        for names, least in ((LIVE, 2.0), ((*LIVE, *SHAPING), 0.0)):
            known = {name: value for name, value in hidden.items() if name not in names}
            costs: dict[str, list[float]] = {"auto": [], "differences": []}
            found = {}
            for _ in range(rounds):
                for how, spent in costs.items():
                    begun = time.process_time()
                    found[how] = identify(
                        {**study(file, names, known, BUGGY, OF_BUGGY), "solver": {"sensitivities": how}}
                    )
                    spent.append(time.process_time() - begun)
            exact, differences = found["auto"], found["differences"]
            of = f"{len(names)} parameters"
            for how, spent in costs.items():
                answer = found[how]
                yield figure(f"{of}, {answer.sensitivities}: processor", min(spent), "s")
                yield figure(f"{of}, {answer.sensitivities}: runs, iterations", f"{answer.runs}, {answer.iterations}")
            shares = [b / a for a, b in zip(*costs.values(), strict=True)]
            what = f"{of}: differences cost so many times as much, the least of {rounds}"
            yield at_least(what, min(shares), least) if least else figure(what, min(shares))
            if names is not LIVE:
                yield figure(f"{of}: by differences all the same", ", ".join(exact.by_differences))
            apart = np.abs((exact.values - differences.values) / exact.deviations).max()
            yield at_most(f"{of}: by differences the answer is away by", apart, 0.01, "deviations")
            # where it is farther: gears and friction make steps in the sum of squares, at which differences stop early
            better = _squares(exact) - _squares(differences)
            yield at_most(f"{of}: sum of squares, beyond that by differences", better, 1e-3)
            truth = np.array([hidden[name] for name in names])
            scores = np.abs((exact.values - truth) / exact.deviations)
            yield at_most(f"{of}: the hidden values are away by, at most", scores.max(), 4.0, "deviations")


def _squares(found: Estimate) -> float:
    """Of what is left over, in deviations of the noise."""
    pairs = zip(found.after, found.problem.measured, strict=True)
    return float(sum(np.sum(((a[n] - m[n]) / found.sigmas[n]) ** 2) for a, m in pairs for n in found.sigmas))


def judged(
    scores: np.ndarray, distances: np.ndarray, found: Estimate, differences: Estimate, named: list[set[str]]
) -> Iterator[Row]:
    """`found` by exact sensitivities and `differences` by differences, of the last repetition."""
    count, apart = len(scores), np.abs((found.values - differences.values) / found.deviations).max()
    inside, joint = np.abs(scores) < SINGLE, (np.abs(scores) < found.joint_factor).all(axis=1)
    together = distances < found.ellipsoid_factor**2
    shadow = (np.abs(scores) < found.ellipsoid_factor).all(axis=1)
    widths = SINGLE * found.deviations / found.values
    for n, name in enumerate(PARAMETERS):
        yield figure(f"{name}: inside; last interval", f"{inside[:, n].mean():.0%}; ±{widths[n]:.2%}")
    yield at_least(f"single intervals (±1.96) that hold, of {inside.size}", inside.mean(), 0.9)
    yield figure(f"all ten single ones hold, of {count}", inside.all(axis=1).sum())
    yield figure(f"simultaneous intervals (±{found.joint_factor:.2f}, Bonferroni), of {count}", joint.sum())
    yield figure(f"joint ellipsoid, of {count}", together.sum())
    yield at_least(f"its intervals (±{found.ellipsoid_factor:.2f}, Scheffé): all ten", shadow.mean(), 0.9)
    low, high = chi2.ppf([0.0005, 0.9995], inside.size)
    fits, between = low < distances.sum() < high, f"{low:.0f} to {high:.0f}"
    yield holds("squared errors in the measure of the covariance", fits, f"{distances.sum():.0f}", between)
    yield holds("sensitivities are exact", found.sensitivities == "exact", found.sensitivities)
    yield at_most("by differences the answer is away by", apart, 0.01, "deviations")
    pair = {"drag_area", "air_density"}
    yield holds("drag area and air density are named as not distinguishable", pair in named, [sorted(e) for e in named])
