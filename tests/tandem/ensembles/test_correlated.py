"""Intervals of an identification whose residuals are correlated, its windows, and what it says of a wrong model."""

from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tandem
from sync.errors import ConfigError
from tandem.ensembles.correlated import Noise, noise_of
from tandem.ensembles.estimate import Estimate
from tandem.ensembles.identification import Narrowed
from tandem.ensembles.identify import identify, remarks, summary, warnings

HIDDEN = {"mass": 0.7, "stiffness": 260.0, "damping": 3.1}
SIGMA = 1e-3  # m
COLOUR = 0.97  # of one step in the next: the noise remembers 66 steps
STEPS = 1500


def coloured(random: np.random.Generator, count: int) -> np.ndarray:
    white = random.standard_normal(count + 500) * np.sqrt(1.0 - COLOUR**2)
    return np.fromiter(accumulate(white, lambda last, new: COLOUR * last + new), float)[500:]


def columns(seed: int, steps: int = STEPS, colour: bool = True, **hidden: float) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    t = 1e-3 * np.arange(steps + 1)
    handle = 0.03 * np.sin(2.0 * np.pi * (1.0 + 2.0 * (t % 1.5)) * (t % 1.5))
    made = tandem.load_machine("mass_spring", {**HIDDEN, **hidden}).run({"handle": handle[:-1]}, step_s=1e-3)
    noise = [coloured(random, steps + 1) if colour else random.standard_normal(steps + 1) for _ in range(3)]
    position, force = np.append(0.0, made["position"]), np.append(0.0, made["hand_force"])
    speed = np.append(0.0, made["velocity"])
    return {
        "t": t, "handle": handle, "position": position + SIGMA * noise[0], "force": force + 300.0 * SIGMA * noise[1],
        "x": position, "v": speed,
    }  # fmt: skip


def written(path: Path, table: dict[str, np.ndarray]) -> Path:
    rows = np.column_stack(list(table.values()))
    np.savetxt(path, rows, fmt="%.17g", delimiter=",", header=",".join(table), comments="")
    return path


def study(*records: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "pulled", "machine": "mass_spring", "step_ms": 1.0, "records": [str(file) for file in records],
        "measured": {"position": {}, "hand_force": {"channel": "force"}},
        "parameters": {
            "mass": {"low": 0.2, "high": 2.0},
            "stiffness": {"low": 100.0, "high": 500.0},
            "damping": {"low": 0.5, "high": 10.0},
        },
        **changes,
    }  # fmt: skip


def necessary(found: Estimate) -> np.ndarray:
    """Deviations that this noise makes necessary, for the same least squares, by the noise as it was made."""
    values, names = np.array(list(HIDDEN.values())), found.problem.names
    handle = found.problem.windows[0].rows[:, 0]
    parts = []
    for channel, sigma in (("position", SIGMA), ("hand_force", 300.0 * SIGMA)):
        slopes = []
        for k, name in enumerate(names):
            ends = [
                tandem.load_machine("mass_spring", {**HIDDEN, name: values[k] * (1.0 + h)})
                .run({"handle": handle}, step_s=1e-3)[channel]
                for h in (1e-4, -1e-4)
            ]  # fmt: skip
            slopes.append((ends[0] - ends[1]) / (2e-4 * values[k]) / sigma)
        parts.append(np.column_stack(slopes))
    lags = np.abs(np.subtract.outer(np.arange(STEPS), np.arange(STEPS)))
    inside = sum(J.T @ COLOUR**lags @ J for J in parts)
    inverse = np.linalg.inv(sum(J.T @ J for J in parts))
    return np.asarray(np.sqrt(np.diag(inverse @ inside @ inverse)))


@pytest.mark.drill
def test_intervals_hold_in_coloured_noise_as_often_as_they_say_and_are_no_wider_than_twice_what_it_needs(
    tmp_path: Path,
) -> None:
    """50 measurements; by the intervals for white noise a third of the values would lie within."""
    inside, white, widest, hidden = 0, 0, 0.0, np.array(list(HIDDEN.values()))
    needed: np.ndarray | None = None
    count = 50
    for seed in range(count):
        found = identify(study(written(tmp_path / "a.csv", columns(seed))))
        needed = necessary(found) if needed is None else needed
        inside += int(((found.low < hidden) & (hidden < found.high)).sum())
        white += int((np.abs(found.values - hidden) < 1.96 * found.deviations / found.wider).sum())
        widest = max(widest, float((found.deviations / needed).max()))
    assert 0.90 <= inside / (3 * count) <= 0.98
    assert white / (3 * count) < 0.6
    assert widest < 2.0


def test_white_noise_is_found_white_and_its_intervals_stay(tmp_path: Path) -> None:
    found = identify(study(written(tmp_path / "a.csv", columns(1, colour=False))))
    assert [noise.order for noise in found.noises.values()] == [0, 0] and not found.by_blocks
    assert found.wider == pytest.approx(np.ones(3), rel=0.02)


def test_a_noise_model_has_the_correlation_of_the_noise() -> None:
    """By its closed form: of one step in the next, to the power of the steps apart."""
    noise = noise_of([coloured(np.random.default_rng(k), 4000) for k in range(5)])
    assert noise.covariance(50) / noise.variance == pytest.approx(COLOUR ** np.arange(50), abs=0.05)
    assert noise.memory == pytest.approx((1.0 + COLOUR) / (1.0 - COLOUR), rel=0.15)
    second = Noise(1.0, np.array([1.2, -0.5]), 1.0).covariance(6)  # by the recursion of Yule and Walker
    assert second[1] == pytest.approx(1.2 / 1.5) and second[2] == pytest.approx(1.2 * second[1] - 0.5)


def test_a_short_piece_does_not_make_noise_white_and_only_short_ones_are_told(tmp_path: Path) -> None:
    pieces = [coloured(np.random.default_rng(k), 300) for k in range(40)]
    whole, beside = noise_of(pieces), noise_of([*pieces, np.array([0.1, -0.1])])
    assert beside.order == whole.order > 0 and beside.memory == pytest.approx(whole.memory, rel=0.01)
    assert noise_of([piece[:2] for piece in pieces]).limit == 0
    short = {"windows": {"seconds": 0.002}, "start": {"x": "x", "v": "v"}}
    found = identify(study(written(tmp_path / "a.csv", columns(1, 400)), **short), only_sensitivity=True)
    assert "too short to tell what residuals remember" in "".join(warnings(found))


def test_halves_that_are_not_compared_are_said_to_be(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", columns(1))
    few = identify(study(file))
    assert few.halves is None and f"{few.blocks} pieces" in few.not_halved
    assert "the halves of the data are not compared" in "".join(remarks(few))
    assert summary(few)["halves"] == {"not_compared": few.not_halved}
    # only quotients of the three change the position
    loose = identify(study(file, measured={"position": {}}, step_ms=1.0), only_sensitivity=True)
    assert loose.halves is None and "directions" in loose.not_halved


def test_windows_start_where_they_were_measured_and_those_unused_judge(tmp_path: Path) -> None:
    windows = {"seconds": 0.5, "fitted": [[0.0, 2.0]], "unused": [[2.0, 3.0]]}
    moving = study(written(tmp_path / "a.csv", columns(4, 3000)), windows=windows, start={"x": "x", "v": "v"})
    found = identify(moving)
    assert [(w.begin, w.fitted) for w in found.problem.windows] == [
        (0.0, True), (0.5, True), (1.0, True), (1.5, True), (2.0, False), (2.5, False),
    ]  # fmt: skip
    assert ((found.low < list(HIDDEN.values())) & (found.high > list(HIDDEN.values()))).all()
    figures = summary(found)
    assert figures["unused"]["position"]["explained"] > 0.95 and warnings(found) == []
    # from rest the same windows cannot be explained, and that is said
    still = identify({**moving, "start": {}, "windows": {**windows, "fitted": [[0.5, 2.0]]}})
    assert summary(still)["unused"]["position"]["explained"] < 0.9


def test_a_start_has_its_part_in_exact_sensitivities(tmp_path: Path) -> None:
    windows = {"seconds": 0.5}
    moving = study(written(tmp_path / "a.csv", columns(4, 1500)), windows=windows, start={"x": "x", "v": "v"})
    exact, differences = (identify({**moving, "solver": {"sensitivities": how}}) for how in ("exact", "differences"))
    assert exact.values == pytest.approx(differences.values, rel=1e-4)


@pytest.mark.drill
def test_halves_of_different_machines_are_told_apart_and_the_model_is_blamed(tmp_path: Path) -> None:
    one = written(tmp_path / "one.csv", columns(1, 15000))
    other = written(tmp_path / "other.csv", columns(2, 15000, damping=4.5))
    same = written(tmp_path / "same.csv", columns(3, 15000))
    moving: dict[str, Any] = {"windows": {"seconds": 1.0}, "start": {"x": "x", "v": "v"}}
    wrong = identify(study(one, other, **moving))
    assert wrong.halves is not None and not wrong.halves.agree
    (line,) = [line for line in warnings(wrong) if "half" in line]
    assert "damping" in line and "The model is wrong, not the noise" in line
    right = identify(study(one, same, **moving))
    assert right.halves is not None and right.halves.agree and "half of the data agree" in "".join(remarks(right))


def test_what_is_unexplained_and_as_large_as_the_signal_is_a_warning(tmp_path: Path) -> None:
    table = columns(1)
    table["position"] = 0.03 * np.sin(40.0 * table["t"])
    assert any("is not explained" in line for line in warnings(identify(study(written(tmp_path / "a.csv", table)))))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"windows": {"fitted": [[0.0, 9.0]]}}, ["windows.fitted[0] = [0, 9]", "has 0 to 1.5 s"]),
        ({"windows": {"unused": [[1.0, 0.5]]}}, ["unused[0] = [1, 0.5]", "from < to"]),
        ({"windows": {"fitted": [[0, 1.0]], "unused": [[0.5, 1.5]]}}, ["fitted [0, 1]", "overlap"]),
        ({"windows": {"unused": [[0.0, 1.5]]}}, ["windows.fitted: no window"]),
        ({"windows": {"unused_records": ["b.csv"]}}, ["windows.unused_records: b.csv: must be one of records"]),
        ({"start": {"position": "x"}}, ["start.position: mass_spring begins with x, v"]),
        ({"start": {"x": "nothing"}}, ["no column nothing"]),
        ({"inputs": {"handle": 0.0, "pedal": 1.0}}, ["inputs.pedal: no input of mass_spring", "handle"]),
        ({"measured": {"position": {"channel": "constant"}}}, ["measured.position: constant is 1 in every window"]),
        ({"parameters": {}}, ["parameters: is missing"]),
    ],
)
def test_wrong_windows_are_a_sentence(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    table = columns(1)
    table["constant"] = np.ones(STEPS + 1)
    with pytest.raises(ConfigError) as caught:
        identify(study(written(tmp_path / "a.csv", table), **changes))
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_window_in_a_gap_is_left_out_and_counted(tmp_path: Path) -> None:
    table = {name: np.delete(values, slice(600, 700)) for name, values in columns(1).items()}
    moving = study(written(tmp_path / "a.csv", table), windows={"seconds": 0.5}, start={"x": "x", "v": "v"})
    found = identify(moving)
    assert [w.begin for w in found.problem.windows] == [0.0, 1.0] and "1 windows are left out" in str(warnings(found))


def test_a_window_may_reach_to_the_last_sample(tmp_path: Path) -> None:
    """The instants of its steps are sums, and round."""
    for steps in (1500, 1111, 700):
        file = written(tmp_path / "a.csv", columns(1, steps))
        found = identify(study(file, windows={"fitted": [[0.0, 1e-3 * steps]]}), only_sensitivity=True)
        assert len(found.problem.windows[0].rows) == steps and found.problem.gaps == 0


def test_from_and_to_narrow_what_is_used(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", columns(1))
    found = identify(study(file, windows={"seconds": 0.25}), narrowed=Narrowed(0.5, 1.0))
    assert [w.begin for w in found.problem.windows] == [0.5, 0.75]
    with pytest.raises(ConfigError, match=r"none is left of --from 5 --to 6;"):
        identify(study(file), narrowed=Narrowed(5.0, 6.0))
