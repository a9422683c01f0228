"""The estimators of the steering angle's derivatives: what each promises, and that the best one beats the source's.

The truth of a test is a formula; the encoder of verify/path/derivatives.py reads it. Derivatives are in degrees here.
"""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sync.signals import differentiator
from sync.signals.estimators import GAP_S, KINDS, MEMORY, estimate, observe, parameters
from tests.examples import few
from verify.path.derivatives import (
    DEG_PER_COUNT,
    FINE_S,
    Signal,
    best_lag,
    by_hand,
    judge,
    points,
    read_encoder,
    run,
    sines,
)
from verify.path.derivatives import signals as all_signals

signals = cache(all_signals)
SCALE = math.radians(DEG_PER_COUNT)
H = 0.005
BEYOND = ["full_rate", "kalman", "edges"]  # the source
NAMED = {"source": "source N=4", "full_rate": "full_rate N=3", "kalman": "kalman", "edges": "edges"}


class Estimator:
    def __init__(self, kind: str, n: int = 4, scale: float = SCALE, period_s: float = 1e-3) -> None:
        self.memory, self.par = np.zeros(MEMORY), parameters(kind, n, H, period_s, scale)

    def see(self, t_s: float, counts: int) -> None:
        observe(self.memory, self.par, round(t_s * 1e9), counts)

    def say(self, t_s: float, counts: int) -> np.ndarray:
        return np.array(estimate(self.memory, self.par, round(t_s * 1e9), counts, H))

    def follow(self, counts: np.ndarray, start_s: float = 1.0, period_s: float = 1e-3) -> np.ndarray:
        """Every block observed, an answer at every fifth."""
        rows = []
        for i, c in enumerate(counts.tolist()):
            self.see(start_s + i * period_s, c)
            if i % 5 == 4:
                rows.append(self.say(start_s + i * period_s, c))
        return np.array(rows)


def moving(speed: float, acceleration: float, seconds: float = 2.0) -> Signal:
    t = np.arange(round(seconds / FINE_S)) * FINE_S
    angle = 0.07 + speed * t + 0.5 * acceleration * t * t
    return Signal("moving", np.stack([angle, speed + acceleration * t, np.full_like(t, acceleration)]))


def errors(kind: str, signal: Signal, rate_hz: float = 1000.0, loss: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Errors of speed and acceleration at the steps from 0.5 s on."""
    reading = read_encoder(signal, rate_hz, loss)
    at = reading.fine[reading.steps]
    wrong = run(NAMED[kind], reading, rate_hz) - signal.truth[:, at].T
    return wrong[at > 0.5 / FINE_S, 1], wrong[at > 0.5 / FINE_S, 2]


def rms(values: np.ndarray) -> float:
    return math.sqrt(np.mean(values**2))


# the source


@pytest.mark.parametrize("n", range(2, differentiator.N_MAX + 1))
@pytest.mark.parametrize("scale", [SCALE, -SCALE])
def test_source_is_the_differentiator_to_the_bit(n: int, scale: float) -> None:
    counts = np.cumsum(np.random.default_rng(n).integers(-9, 10, 200))
    ours, memory, c = Estimator("source", n, scale), np.zeros(differentiator.MEMORY), differentiator.coefficients(n)
    for i, count in enumerate(counts.tolist()):
        ours.see(i * H, count)
        speed, acceleration = differentiator.differentiate(memory, c, count * scale, H)
        assert ours.say(i * H, count).tobytes() == np.array([count * scale, speed, acceleration]).tobytes()


# motion


# rms of speed and acceleration at constant speed; 5.5 deg/s and 680 deg/s2 in the source
NOISE = {"full_rate": (3.0, 410.0), "kalman": (1.5, 80.0), "edges": (2.6, 130.0)}


@pytest.mark.parametrize("rate_hz", [1000.0, 10_000.0])
@pytest.mark.parametrize("speed", [-1303.7, -101.0, 21.3, 333.0, 1411.0])
@pytest.mark.parametrize("kind", BEYOND)
def test_constant_speed_is_found(kind: str, speed: float, rate_hz: float) -> None:
    v, a = errors(kind, moving(speed, 0.0), rate_hz)
    assert abs(v.mean()) < 1.0 and abs(a.mean()) < 40.0
    assert rms(v) < NOISE[kind][0] and rms(a) < NOISE[kind][1]


@pytest.mark.parametrize("acceleration", [-300.0, 150.0, 800.0])
@pytest.mark.parametrize("kind", BEYOND)
def test_constant_acceleration_is_found_through_a_reversal(kind: str, acceleration: float) -> None:
    v, a = errors(kind, moving(-0.8 * acceleration, acceleration))
    late = 0.0095 * acceleration if kind == "full_rate" else 0.0
    assert v.mean() == pytest.approx(-late, abs=0.5) and abs(a.mean()) < 10.0


@pytest.mark.parametrize("kind", ["kalman", "edges"])
def test_reversal_is_not_late(kind: str) -> None:
    signal = Signal("", sines([(1.0, 40.0)], 6.0, 3))
    reading = read_encoder(signal)
    at, speed = reading.fine[reading.steps], run(NAMED[kind], reading)[:, 1]
    turns = np.flatnonzero(np.diff(np.sign(signal.truth[1]))) * FINE_S
    seen = np.flatnonzero(np.diff(np.sign(speed[50:]))) + 50
    found = at[seen] * FINE_S - speed[seen] * 0.005 / (speed[seen + 1] - speed[seen])
    assert all(np.abs(found - turn).min() < 0.004 for turn in turns if 0.3 < turn < 5.9)


def test_negative_scale_mirrors_to_the_bit() -> None:
    counts = np.floor(400 * np.sin(np.arange(3000) * 4e-3)).astype(np.int64)
    for kind in KINDS:
        assert (Estimator(kind).follow(counts) == -Estimator(kind, scale=-SCALE).follow(counts)).all()


# rest


@pytest.mark.parametrize("kind", KINDS)
def test_standing_still_is_zero(kind: str) -> None:
    answer = Estimator(kind).follow(np.full(2000, 123))
    assert np.allclose(answer[:, 0], 123 * SCALE, rtol=1e-12)
    assert np.abs(answer[:, 1]).max() < 1e-12 and np.abs(answer[:, 2]).max() < 1e-9


@pytest.mark.parametrize("kind", BEYOND)
def test_after_a_stop_speed_fades(kind: str) -> None:
    reading = read_encoder(Signal("", by_hand(points((0.0, 0.0), (1.0, 300.0)), 0.0, 3.0)))
    speed = np.abs(run(NAMED[kind], reading)[:, 1])
    # 0.1 s, 0.2 s and 1 s after a stop from 300 deg/s
    assert speed[220] < 3.0 and speed[240] < 0.1 and speed[400] < 1e-6


@pytest.mark.parametrize("kind", BEYOND)
def test_dithering_count_is_quieter_than_in_the_source(kind: str) -> None:
    counts = np.random.default_rng(5).integers(0, 2, 6000)
    here, there = Estimator(kind, 3).follow(counts)[60:], Estimator("source").follow(counts)[60:]
    for i in (1, 2):
        assert rms(here[:, i]) < 0.75 * rms(there[:, i])


@pytest.mark.parametrize("kind", ["kalman", "edges"])
def test_one_count_in_five_seconds_hardly_shows(kind: str) -> None:
    counts = np.repeat(np.arange(5), 5000)
    here, there = np.degrees(Estimator(kind).follow(counts)), np.degrees(Estimator("source").follow(counts))
    assert np.abs(here[:, 1]).max() < 10.0 and np.abs(here[:, 2]).max() < 300.0
    assert rms(here[:, 1]) < rms(there[:, 1]) and rms(here[:, 2]) < 0.3 * rms(there[:, 2])


# the angle


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sine 4 Hz 45°", "tremor 7-11 Hz", "town, raw"])
def test_angle_rounds_to_the_count_that_was_read(kind: str, name: str) -> None:
    reading = read_encoder(next(s for s in signals() if s.name == name))
    angle = run(NAMED[kind], reading)[:, 0]
    assert (np.round(angle / DEG_PER_COUNT) == reading.counts[reading.steps]).all()


@pytest.mark.parametrize("speed", [-301.7, 47.0, 703.0])
@pytest.mark.parametrize("kind", ["kalman", "edges"])
def test_angle_is_smoother_than_counts_and_not_late(kind: str, speed: float) -> None:
    signal = moving(speed, 0.0)
    reading = read_encoder(signal)
    wrong = run(NAMED[kind], reading)[100:, 0] - signal.truth[0, reading.fine[reading.steps]][100:]
    raw = reading.counts[reading.steps][100:] * DEG_PER_COUNT - signal.truth[0, reading.fine[reading.steps]][100:]
    assert wrong.mean() == pytest.approx(-0.5 * DEG_PER_COUNT, abs=0.1 * DEG_PER_COUNT)
    assert np.diff(wrong).std() < 0.6 * np.diff(raw).std()


# gaps, jumps, loss


@pytest.mark.parametrize("kind", KINDS)
def test_zeroed_memory_is_a_start(kind: str) -> None:
    counts = np.arange(0, 900, 3)
    used = Estimator(kind)
    used.follow(counts + 5000)
    used.memory[:] = 0.0
    assert used.follow(counts, 9.0).tobytes() == Estimator(kind).follow(counts, 9.0).tobytes()


@pytest.mark.parametrize("kind", ["kalman", "edges"])
@pytest.mark.parametrize("pause_s, jump", [(2 * GAP_S, 40), (-2 * GAP_S, 0), (0.001, 30_000)])
def test_nothing_is_differentiated_across_a_gap_or_a_jump(kind: str, pause_s: float, jump: int) -> None:
    ours, counts = Estimator(kind), np.arange(500)
    ours.follow(counts)
    t, count = 1.499 + pause_s, 499 + jump
    ours.see(t, count)
    assert ours.say(t, count) == pytest.approx([count * SCALE, 0.0, 0.0])
    # and goes on
    assert ours.follow(count + counts, t + 0.001)[-1, 1] == pytest.approx(1000 * SCALE, rel=0.02)


@pytest.mark.parametrize("kind", ["kalman", "edges"])
def test_a_repeated_or_older_block_changes_nothing(kind: str) -> None:
    once, again = Estimator(kind), Estimator(kind)
    for i in range(300):
        for ours, times in ((once, 1), (again, 2)):
            for _ in range(times):
                ours.see(i * 1e-3, 2 * i)
        again.see((i - 1) * 1e-3, 2 * i - 2)
    assert once.memory.tobytes() == again.memory.tobytes()


@pytest.mark.parametrize("kind", ["kalman", "edges"])
@pytest.mark.parametrize("name", ["sine 2 Hz 20°", "chirp 0.2-4 Hz 30°", "town", "double lane change"])
def test_a_third_of_the_blocks_may_be_missing(kind: str, name: str) -> None:
    signal = next(s for s in signals() if s.name == name)
    for whole, lossy in zip(errors(kind, signal), errors(kind, signal, loss=0.3), strict=True):
        assert rms(lossy) < 1.4 * rms(whole)


@pytest.mark.parametrize("kind", ["kalman", "edges"])
def test_only_the_newest_block_of_each_step_is_enough(kind: str) -> None:
    signal = next(s for s in signals() if s.name == "chirp 0.2-4 Hz 30°")
    for sparse, source in zip(errors(kind, signal, rate_hz=200.0), errors("source", signal), strict=True):
        assert rms(sparse) < rms(source)


blocks = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([0, 1, 100_000, 1_000_000, 5_000_000]), st.integers(-(10**9), 10**10)),  # ns on
        st.one_of(st.integers(-3, 3), st.integers(-40, 40), st.integers(-(2**31), 2**31)),  # counts on
        st.booleans(),  # a step comes
    ),
    min_size=1,
    max_size=120,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=few(150), deadline=None, derandomize=True)
@given(sequence=blocks, scale=st.sampled_from([SCALE, -SCALE, 1e-6, 0.1]))
@example(sequence=[(1, k % 2, True) for k in range(120)], scale=SCALE)
@example(sequence=[(1_000_000, 33 * (-1) ** k, True) for k in range(120)], scale=SCALE)
@example(sequence=[(1_000_000, 0, False)] * 4 + [(1, 2, True), (1, -2, True)] * 50, scale=SCALE)
def test_any_blocks_give_finite_answers(kind: str, sequence: list[tuple[int, int, bool]], scale: float) -> None:
    ours, t, count = Estimator(kind, scale=scale), 10**15, 0
    for later, more, step in sequence:
        t, count = t + later, count + more
        observe(ours.memory, ours.par, t, count)
        if step:
            answer = estimate(ours.memory, ours.par, t, count, H)
            assert all(map(math.isfinite, answer))
            assert abs(answer[0] - count * scale) <= 0.5 * abs(scale) * (1 + 1e-9)
    assert np.isfinite(ours.memory).all()


# the point of it all


def test_kalman_beats_the_source_in_error_and_delay_on_every_signal_it_was_not_tuned_on() -> None:
    judged = 0
    for signal in signals():
        if signal.tuning or signal.quiet:
            continue
        reading = read_encoder(signal)
        at = reading.fine[reading.steps]
        here, there = run("kalman", reading), run("source N=4", reading)
        for i in (1, 2):
            ours, source = judge(here[:, i], signal.truth[i], at), judge(there[:, i], signal.truth[i], at)
            assert ours[0] < source[0], signal.name
            if max(ours[2], source[2]) < 3.0:  # ms: the delays can be told
                assert best_lag(ours[1]) < best_lag(source[1]), signal.name
                judged += 1
    assert judged > 25
