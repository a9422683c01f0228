"""Masses and springs of a five-bar linkage, found from its last joint's path: `python -m verify identify-mechanism`.

The linkage that is measured is the one in plain numpy (verify/multibody/references/planar.py), with hidden masses and
stiffnesses within 15 % of the file's, and noise on both coordinates of the joint. Ours is the mechanism's file with
these four numbers named. Derivatives by the exact way are held against differences of whole runs, too.

    --repetitions N   each with other hidden values and other noise
"""

import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from sim_service.many_steps import run_steps
from sim_service.registry import load_machine
from tandem.ensembles.identify import identify
from tandem.ensembles.many_tangents import tangents
from verify.estimation.mechanism_observers import five_bar
from verify.measure import Row, at_least, at_most, figure, holds
from verify.multibody.shipped import FOLDER

NAMED = {
    "left_bar": "bodies.left_bar.mass", "right_bar": "bodies.right_bar.mass",
    "left_spring": "forces.left_spring.stiffness", "right_spring": "forces.right_spring.stiffness",
}  # fmt: skip
H, SECONDS, NOISE = 2e-3, 1.0, 2e-4
WITHIN, FINE = 0.15, 2  # steps of the truth to one of ours
SINGLE = 1.959963984540054  # deviations


def machine_file(folder: Path) -> Path:
    data = tomllib.loads((FOLDER / "five_bar.toml").read_text())
    lines = ['machine = "mechanism"', f'mechanism = "{FOLDER / "five_bar.toml"}"', "[named]"]
    for name, at in NAMED.items():
        value = nominal(data, at)
        lines.append(f'{name} = {{ at = "{at}", low = {0.2 * value}, high = {5.0 * value} }}')
    file = folder / "five_bar_machine.toml"
    file.write_text("\n".join(lines))
    return file


def nominal(data: dict, at: str) -> float:
    kind, name, key = at.split(".")
    return float(data[kind][name][key])


def measured(hidden: dict[str, float], random: np.random.Generator, seconds: float) -> np.ndarray:
    """t and both coordinates of the joint, of the linkage in plain numpy."""
    of = five_bar()
    bars = {n: (a, b, hidden.get(n, mass)) for n, (a, b, mass) in of.planar.bars.items()}
    springs = {n: (hidden[f"{n}_spring"], rest) for n, (_, rest) in of.planar.springs.items()}
    planar, x = replace(of.planar, bars=bars, springs=springs), np.concatenate([of.s, [3.0, 2.0]])
    rows = []
    for k in range(round(seconds / H) + 1):
        rows.append([k * H, *planar.joints(x[:2])["C"]])
        for _ in range(FINE):
            x = planar.step(x, H / FINE)
    table = np.array(rows)
    table[:, 1:] += NOISE * random.standard_normal(table[:, 1:].shape)
    return table


def study(machine: Path, rows: Path, start: dict[str, float]) -> dict[str, object]:
    return {
        "name": "five_bar", "machine": str(machine), "step_ms": 1e3 * H, "records": [str(rows)],
        "measured": {name: {"sigma": NOISE} for name in ("C_x", "C_y")},
        "parameters": {n: {"low": 0.5 * value, "high": 2.0 * value} for n, value in start.items()},
    }  # fmt: skip


def worst_error(machine: Path) -> float:
    """Derivatives of a second's run by the exact way, off differences of the fourth order: share of the largest."""
    one, params = load_machine(machine)
    count = round(SECONDS / H)
    rows, logged = np.zeros((count, len(one.inputs))), np.arange(len(one.outputs))
    _, exact, _ = tangents(one, params, list(range(len(params))), rows, logged, H)

    def run(place: int, share: float) -> np.ndarray:
        other, values = load_machine(machine, {one.parameters[place].name: float(params[place] * (1.0 + share))})
        state, work, log = np.zeros(len(other.states)), np.zeros(other.work_size), np.zeros((count, len(logged)))
        other.initial(state, values, other.tables, work)
        inputs, outputs = np.zeros(len(other.inputs)), len(other.outputs)
        run_steps(
            other.step, state, inputs, values, other.tables, work, H, rows, logged, log, outputs, other.stepping.bound
        )
        return log

    worst = 0.0
    for place in range(len(params)):
        far = 1e-3
        near, wide = (run(place, s) - run(place, -s) for s in (far, 2.0 * far))
        by = (8.0 * near - wide) / (12.0 * far * params[place])
        worst = max(worst, float((np.abs(by - exact[:, :, place]).max(axis=0) / np.abs(by).max(axis=0)).max()))
    return worst


def identify_mechanism(*, repetitions: int = 10, seconds: float = SECONDS) -> Iterator[Row]:
    data = tomllib.loads((FOLDER / "five_bar.toml").read_text())
    first = {name: nominal(data, at) for name, at in NAMED.items()}
    held, scores, errors, costs = 0, [], [], {"auto": 0.0, "differences": 0.0}
    with tempfile.TemporaryDirectory() as place:
        machine, file = machine_file(Path(place)), Path(place) / "measured.csv"
        yield at_most("derivatives of a run, off differences of runs", worst_error(machine), 1e-5, "of the largest")
        for seed in range(repetitions):
            random = np.random.default_rng(seed)
            hidden = {name: value * random.uniform(1 - WITHIN, 1 + WITHIN) for name, value in first.items()}
            rows = measured(hidden, random, seconds)
            np.savetxt(file, rows, delimiter=",", header="t,C_x,C_y", comments="")
            found = {}
            for how in costs:
                begun = time.process_time()
                found[how] = identify({**study(machine, file, first), "solver": {"sensitivities": how}})
                costs[how] += time.process_time() - begun
            truth = np.array(list(hidden.values()))
            score = (found["auto"].values - truth) / found["auto"].deviations
            held += int((np.abs(score) < SINGLE).sum())
            scores.append(score)
            errors.append(np.abs(found["auto"].values / truth - 1.0))
            apart = np.abs(found["auto"].values - found["differences"].values) / found["auto"].deviations
            if seed == 0:
                yield holds("all derivatives are exact", found["auto"].sensitivities == "exact")
                yield at_most("by differences the answer is away by", float(apart.max()), 0.05, "deviations")
    many = repetitions * len(NAMED)
    yield at_least(f"single intervals of 95 % that hold, of {many}", held / many, 0.85)
    yield at_most("masses and stiffnesses found, off by", 100.0 * float(np.max(errors)), 2.0, "%")
    yield figure("errors over their deviation, rms", float(np.sqrt(np.mean(np.square(scores)))))
    yield figure("processor by differences over that by derivatives", costs["differences"] / costs["auto"])
