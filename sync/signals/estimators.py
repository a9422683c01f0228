"""Value, rate and acceleration from encoder counts: estimators, rows of KINDS, behind one pair of kernels.

`observe` takes every block, `estimate` gives a result once a step. Both read a parameter vector made once by
`parameters` and store what they know in one memory vector, which is zero at the start, and again after a gap. The
result is for the instant of the newest block, in the unit that a count is given in, per s and per s2.

- source: the thesis' differentiators on the angle at the steps, to the bit those of `differentiator.py`.
- full_rate: the same on the mean of the blocks of each step, which averages out part of the quantisation.
- kalman: constant acceleration with white jerk, once for a calm and once for a brisk motion, mixed by how well each
  predicted the counts (an interacting multiple model). A reading is the middle of its count, with an error of
  1/sqrt(12) counts; that error is not white noise but lasts until the encoder has moved on by some 0.2 counts, where
  the autocorrelation of a sawtooth has its zero. So the slower the encoder turns, the less weight a single reading has.
- edges: a parabola through the instants at which the count changed, as if the rate were measured in hardware (Merry,
  van de Molengraft, Steinbuch 2010). Between two edges the speed is bounded by the edge that has not come.

The angle of source and full_rate is counts times scale. That of kalman and edges is smooth and never leaves the count
that was read: at most half a count from the source's, and equal to it at rest. (Counting begins at an unknown place
within a count, so the middle of the first one is as good a zero as its lower end, and the angle at rest stays what it
was.) None of them is delayed.

Kalman and edges restart by themselves after 0.1 s without a block, when time runs backwards as far, or when the
count jumps faster than 100 rad/s: nothing is differentiated across such a place. A block that is not newer than the
last (by more than a microsecond) is ignored: a held value, with its age, is one observation.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sync.compile.jit import inner, kernel
from sync.signals.differentiator import N_MAX, coefficients, differentiate

# settings of kalman and edges, for motions of a hand on a handle, in rad; chosen on the tuning signals of
# verify/path/derivatives.py, see decision 10
CALM_JERK, BRISK_JERK = 400.0, 2.0e4  # rad2/s5, spectral densities of jerk
BECOMES_BRISK, BECOMES_CALM = 8.0, 1.0  # 1/s
START_SPEED, START_ACCELERATION = 2.0, 20.0  # rad/s and rad/s2, how little is known at the start
LASTING = 0.2  # counts of travel for which an error of quantisation lasts
WINDOW_S, REACH_S = 0.04, 0.15  # edges no older than the window are fitted; at least four, if they are within reach
FEWEST_EDGES = 4
GAP_S = 0.1
SAME_S = 1e-6  # ages are in whole microseconds: instants this close count as one
FASTEST = 100.0  # rad/s

# parameters: kind, scale, and what the kind needs
_KIND, _SCALE, _OWN = range(3)
_N, _AGE, _C = range(_OWN, _OWN + 3)  # source and full_rate: window, mean age of a step's blocks (s), coefficients
_LIMIT, _CALM, _BRISK, _UP, _DOWN, _START_VV, _START_AA = range(_OWN, _OWN + 7)  # kalman and edges, in counts and s
PARAMETERS = _C + N_MAX + 1

# memory: of source, what `differentiate` remembers
# of full_rate: blocks since the last step, sums of their counts and ages (s, at the last of them), its instant, last
# speed, last mean; then what `differentiate` remembers
_BLOCKS, _COUNTS, _AGES, _LAST_T, _LAST_SPEED, _MEAN, _MEANS = range(7)
# of kalman and edges: blocks so far, instant and count of the last
_SEEN, _T, _COUNT = range(3)
# of kalman: probability of brisk; then two states x, v, a with covariances xx, xv, xa, vv, va, aa, in counts and s
_P_BRISK, _STATES = 3, 4
_X, _V, _A, _XX, _XV, _XA, _VV, _VA, _AA, _STATE = range(10)
# of edges: how many are known, the instant by which the last had happened, then instants and places, newest first
_KNOWN, _LAST_EDGE, _EDGE = 3, 4, 5
_MOST_EDGES = 44
MEMORY = _EDGE + 2 * _MOST_EDGES
_IGNORED, _RESTARTED, _CONTINUED = range(3)  # a block


# ---- source and full rate --------------------------------------------------------------------------------------------


def _windowed(n: int, step_s: float, period_s: float, per_count: float, motion: float) -> list[float]:
    return [n, max(step_s - period_s, 0.0) / 2.0, *coefficients(n)]


@inner
def _nothing(memory, par, t_ns, counts):
    """It needs nothing but the count at the step."""


@inner
def _source_estimate(memory, par, counts, h):
    angle = counts * par[_SCALE]
    speed, acceleration = differentiate(memory, par[_C : _C + int(par[_N]) + 1], angle, h)
    return angle, speed, acceleration


@kernel()
def _average(memory, par, t_ns, counts):
    if memory[_LAST_T] > 0.0 and abs(t_ns - memory[_LAST_T]) <= SAME_S * 1e9:
        return
    # ages are relative to the last block: a newer one makes them grow
    if memory[_BLOCKS] > 0.0:
        memory[_AGES] += memory[_BLOCKS] * (t_ns - memory[_LAST_T]) * 1e-9
    memory[_BLOCKS] += 1.0
    memory[_COUNTS] += counts
    memory[_LAST_T] = t_ns


@kernel()
def _average_estimate(memory, par, counts, h):
    angle = counts * par[_SCALE]
    if memory[_BLOCKS] > 0.0:
        # missing blocks shift the instant that the mean belongs to
        late = memory[_AGES] / memory[_BLOCKS] - par[_AGE]
        late = min(max(late, -h), h)
        memory[_MEAN] = memory[_COUNTS] / memory[_BLOCKS] * par[_SCALE] + memory[_LAST_SPEED] * late
        memory[_BLOCKS] = memory[_COUNTS] = memory[_AGES] = 0.0
    c = par[_C : _C + int(par[_N]) + 1]
    speed, acceleration = differentiate(memory[_MEANS:], c, memory[_MEAN], h)
    memory[_LAST_SPEED] = speed
    return angle, speed, acceleration


# ---- what kalman and edges share -------------------------------------------------------------------------------------


def _in_counts(n: int, step_s: float, period_s: float, per_count: float, motion: float) -> list[float]:
    c = motion / abs(per_count)
    return [
        FASTEST * c, CALM_JERK * c**2, BRISK_JERK * c**2, BECOMES_BRISK, BECOMES_CALM, (START_SPEED * c) ** 2,
        (START_ACCELERATION * c) ** 2,
    ]  # fmt: skip


@kernel()
def _within(par, counts, x, v, a):
    # the count is certain; the value stays off its ends, so that the angle rounds to it
    x = min(max(x, counts + 1e-3), counts + 0.999)
    return (x - 0.5) * par[_SCALE], v * par[_SCALE], a * par[_SCALE]


@kernel()
def _track(memory, par, t_ns, counts):
    """How a block continues what came before: (how, seconds since then, counts since then)."""
    dt = (t_ns - memory[_T]) * 1e-9
    move = counts - memory[_COUNT]
    if memory[_SEEN] > 0.0 and -GAP_S <= dt <= SAME_S:
        return _IGNORED, dt, move
    # two counts of tolerance: quantisation and an encoder that trembles
    restart = memory[_SEEN] == 0.0 or dt < 0.0 or dt > GAP_S or abs(move) > par[_LIMIT] * dt + 2.0
    if restart:
        memory[:] = 0.0
    memory[_SEEN] += 1.0
    memory[_T] = t_ns
    memory[_COUNT] = counts
    return _RESTARTED if restart else _CONTINUED, dt, move


# ---- kalman ----------------------------------------------------------------------------------------------------------


@kernel()
def _kalman_start(memory, par, counts):
    memory[_P_BRISK] = 0.5
    for mode in range(2):
        s = memory[_STATES + mode * _STATE : _STATES + (mode + 1) * _STATE]
        s[_X] = counts + 0.5
        s[_XX] = 1.0 / 12.0
        s[_VV] = par[_START_VV]
        s[_AA] = par[_START_AA]


@kernel()
def _kalman_step(memory, par, dt, counts):
    calm = memory[_STATES : _STATES + _STATE]
    brisk = memory[_STATES + _STATE : _STATES + 2 * _STATE]
    p = memory[_P_BRISK]

    # the weight of a reading at this speed, to which a sixth of the speed's uncertainty is added
    v = (1.0 - p) * calm[_V] + p * brisk[_V]
    spread = (1.0 - p) * calm[_VV] + p * brisk[_VV] + p * (1.0 - p) * (calm[_V] - brisk[_V]) ** 2
    travel = dt * math.sqrt(v * v + spread / 36.0) + 1e-12
    R = max(LASTING / travel, 1.0) / 12.0

    # a calm motion may have become brisk: each filter starts from a mixture of both
    up, down = 1.0 - math.exp(-par[_UP] * dt), 1.0 - math.exp(-par[_DOWN] * dt)
    p_next = (1.0 - p) * up + p * (1.0 - down)
    _mix(calm, brisk, p * down / (1.0 - p_next), p * (1.0 - down) / p_next)

    _predict(calm, dt, par[_CALM])
    _predict(brisk, dt, par[_BRISK])
    says_calm, says_brisk = _correct(calm, counts + 0.5, R), _correct(brisk, counts + 0.5, R)
    # odds of 1e6 are as good as certain, and still recover in time
    odds = (1.0 - p_next) / p_next * math.exp(min(max(says_calm - says_brisk, -50.0), 50.0))
    memory[_P_BRISK] = min(max(1.0 / (1.0 + odds), 1e-6), 1.0 - 1e-6)


@kernel()
def _mix(calm, brisk, w_calm, w_brisk):
    """Replace both by mixtures of both; w = weight of brisk in each."""
    dx, dv, da = calm[_X] - brisk[_X], calm[_V] - brisk[_V], calm[_A] - brisk[_A]
    for k in range(_STATE):
        c, b = calm[k], brisk[k]
        calm[k] = c + w_calm * (b - c)
        brisk[k] = c + w_brisk * (b - c)
    for s, w in ((calm, w_calm * (1.0 - w_calm)), (brisk, w_brisk * (1.0 - w_brisk))):
        s[_XX] += w * dx * dx
        s[_XV] += w * dx * dv
        s[_XA] += w * dx * da
        s[_VV] += w * dv * dv
        s[_VA] += w * dv * da
        s[_AA] += w * da * da


@kernel()
def _predict(s, t, q):
    """Constant acceleration over t seconds, white jerk of density q."""
    t2 = 0.5 * t * t
    s[_X] += s[_V] * t + s[_A] * t2
    s[_V] += s[_A] * t
    # F P, the rows that change
    xx, xv, xa = s[_XX] + t * s[_XV] + t2 * s[_XA], s[_XV] + t * s[_VV] + t2 * s[_VA], s[_XA] + t * s[_VA] + t2 * s[_AA]
    vv, va = s[_VV] + t * s[_VA], s[_VA] + t * s[_AA]
    # F P F' + Q
    s[_XX] = xx + t * xv + t2 * xa + q * t**5 / 20.0
    s[_XV] = xv + t * xa + q * t**4 / 8.0
    s[_XA] = xa + q * t**3 / 6.0
    s[_VV] = vv + t * va + q * t**3 / 3.0
    s[_VA] = va + q * t * t / 2.0
    s[_AA] += q * t


@kernel()
def _correct(s, z, R):
    """A reading z of x with variance R; returns the logarithm of how likely it was, but for a constant."""
    S = s[_XX] + R
    e = z - s[_X]
    kx, kv, ka = s[_XX] / S, s[_XV] / S, s[_XA] / S
    s[_X] += kx * e
    s[_V] += kv * e
    s[_A] += ka * e
    s[_VV] -= kv * s[_XV]
    s[_VA] -= kv * s[_XA]
    s[_AA] -= ka * s[_XA]
    s[_XX] *= R / S
    s[_XV] *= R / S
    s[_XA] *= R / S
    return -0.5 * (e * e / S + math.log(S))


@kernel()
def _kalman_estimate(memory):
    p = memory[_P_BRISK]
    calm, brisk = memory[_STATES:], memory[_STATES + _STATE :]
    return (
        calm[_X] + p * (brisk[_X] - calm[_X]),
        calm[_V] + p * (brisk[_V] - calm[_V]),
        calm[_A] + p * (brisk[_A] - calm[_A]),
    )


@kernel()
def _kalman_take(memory, par, t_ns, counts):
    how, dt, _ = _track(memory, par, t_ns, counts)
    if how == _RESTARTED:
        _kalman_start(memory, par, counts)
    elif how == _CONTINUED:
        _kalman_step(memory, par, dt, counts)


@inner
def _kalman_now(memory, par, counts, h):
    if memory[_SEEN] == 0.0:
        return counts * par[_SCALE], 0.0, 0.0
    x, v, a = _kalman_estimate(memory)
    return _within(par, counts, x, v, a)


# ---- edges -----------------------------------------------------------------------------------------------------------


@kernel()
def _edge(memory, t_ns, dt, place):
    """The count changed within the last dt: it was at `place`, the mean of the edges passed, in the middle of it."""
    instants = memory[_EDGE : _EDGE + _MOST_EDGES]
    places = memory[_EDGE + _MOST_EDGES :]
    t = t_ns - 0.5e9 * dt
    # never more than fit the window: an edge too near to the one before the last takes the place of the last
    spacing = WINDOW_S * 1e9 / (_MOST_EDGES - FEWEST_EDGES - 1)
    if memory[_KNOWN] < 2.0 or t - instants[1] >= spacing:
        for k in range(_MOST_EDGES - 1, 0, -1):
            instants[k] = instants[k - 1]
            places[k] = places[k - 1]
        memory[_KNOWN] = min(memory[_KNOWN] + 1.0, float(_MOST_EDGES))
    instants[0] = t
    places[0] = place
    memory[_LAST_EDGE] = t_ns


@kernel()
def _edges_estimate(memory, par):
    now, counts = memory[_T], memory[_COUNT]
    instants = memory[_EDGE : _EDGE + _MOST_EDGES]
    places = memory[_EDGE + _MOST_EDGES :]
    n = 0
    while n < int(memory[_KNOWN]):
        age = (now - instants[n]) * 1e-9
        if age > WINDOW_S and (n >= FEWEST_EDGES or age > REACH_S):
            break
        n += 1
    if n < 2:
        return counts + 0.5, 0.0, 0.0

    x, v, a = _parabola(instants, places, n, now, counts, 0.0)
    if x < counts or x > counts + 1.0:
        # the count says where it is
        x, v, a = _parabola(instants, places, n, now, counts, min(max(x - counts, 0.0), 1.0) + 1.0)
    # the next edge has not come
    since = (now - memory[_LAST_EDGE]) * 1e-9
    v_most, a_most = par[_LIMIT], 100.0 * par[_LIMIT]
    if since > 0.0:
        v_most, a_most = min(v_most, 1.0 / since), min(a_most, 2.0 / (since * since))
    return x, min(max(v, -v_most), v_most), min(max(a, -a_most), a_most)


@kernel()
def _parabola(instants, places, n, now, counts, held):
    """Least squares through n edges and, if `held` > 0, the place counts + held - 1 now; its value and derivatives."""
    # time in units of 10 ms and places against the count: sums of like size
    s0 = s1 = s2 = s3 = s4 = y0 = y1 = y2 = 0.0
    for k in range(n):
        u, y = (instants[k] - now) * 1e-7, places[k] - counts
        uu = u * u
        s0 += 1.0
        s1 += u
        s2 += uu
        s3 += uu * u
        s4 += uu * uu
        y0 += y
        y1 += u * y
        y2 += uu * y
    if held > 0.0:
        s0 += 3.0
        y0 += 3.0 * (held - 1.0)
    A, B, C = s2 * s4 - s3 * s3, s1 * s4 - s2 * s3, s1 * s3 - s2 * s2
    D = s0 * A - s1 * B + s2 * C
    if 1e-9 * s0 * s2 * s4 >= D:
        # two edges, or all at nearly one instant: a line, or nothing
        D = s0 * s2 - s1 * s1
        if 1e-9 * s0 * s2 >= D:
            return counts + 0.5, 0.0, 0.0
        return counts + (y0 * s2 - s1 * y1) / D, (s0 * y1 - s1 * y0) / D * 100.0, 0.0
    x = (y0 * A - y1 * B + y2 * C) / D
    v = (-y0 * B + y1 * (s0 * s4 - s2 * s2) - y2 * (s0 * s3 - s1 * s2)) / D
    a = (y0 * C - y1 * (s0 * s3 - s1 * s2) + y2 * (s0 * s2 - s1 * s1)) / D
    return counts + x, v * 100.0, 2.0 * a * 1e4


@kernel()
def _edges_take(memory, par, t_ns, counts):
    how, dt, move = _track(memory, par, t_ns, counts)
    if how == _CONTINUED and move != 0.0:
        _edge(memory, t_ns, dt, counts - 0.5 * move + 0.5)


@inner
def _edges_now(memory, par, counts, h):
    if memory[_SEEN] == 0.0:
        return counts * par[_SCALE], 0.0, 0.0
    x, v, a = _edges_estimate(memory, par)
    return _within(par, counts, x, v, a)


# ---- all of them -----------------------------------------------------------------------------------------------------


class Estimator(NamedTuple):
    """A further estimator is a row of KINDS, with its name in ESTIMATORS (sync/config/input_rows.py)."""

    numbers: Callable[[int, float, float, float, float], list[float]]  # of `parameters` without the kind: its own
    take: Any  # nopython: (memory, par, t_ns, counts), a block
    now: Any  # nopython: (memory, par, counts, h) -> value, rate, acceleration


KINDS = {
    "source": Estimator(_windowed, _nothing, _source_estimate),
    "full_rate": Estimator(_windowed, _average, _average_estimate),
    "kalman": Estimator(_in_counts, _kalman_take, _kalman_now),
    "edges": Estimator(_in_counts, _edges_take, _edges_now),
}


def parameters(kind: str, n: int, step_s: float, period_s: float, per_count: float, motion: float = 1.0) -> np.ndarray:
    """The parameters of `observe` and `estimate`. `n` is the window of source and full_rate; the period is that of the
    blocks; `motion`: how large motions are, relative to those that the settings are for."""
    par = np.zeros(PARAMETERS)
    own = KINDS[kind].numbers(n, step_s, period_s, per_count, motion)
    par[_KIND], par[_SCALE], par[_OWN : _OWN + len(own)] = list(KINDS).index(kind), per_count, own
    return par


def _taking(number: int, take: Any, others: Any) -> Any:
    @inner
    def found(kind, memory, par, t_ns, counts):
        if kind == number:
            take(memory, par, t_ns, counts)
        else:
            others(kind, memory, par, t_ns, counts)

    return found


def _saying(number: int, now: Any, others: Any) -> Any:
    @inner
    def found(kind, memory, par, counts, h):
        if kind == number:
            return now(memory, par, counts, h)
        return others(kind, memory, par, counts, h)

    return found


@inner
def _takes_none(kind, memory, par, t_ns, counts):
    pass


@inner
def _says_none(kind, memory, par, counts, h):
    return 0.0, 0.0, 0.0


_take, _now = _takes_none, _says_none
for _number, _each in enumerate(KINDS.values()):
    _take, _now = _taking(_number, _each.take, _take), _saying(_number, _each.now, _now)


@kernel()
def observe(memory, par, t_ns, counts):
    """Take a block: the instant (ns) and the count of its sample. For every block, in order."""
    _take(int(par[_KIND]), memory, par, t_ns, counts)


@kernel()
def estimate(memory, par, t_ns, counts, h):
    """(angle, speed, acceleration) at the newest block, which `observe` has seen. Once a step of h seconds.

    The block's instant is part of the question, but known since `observe`: none of them looks at it again.
    """
    return _now(int(par[_KIND]), memory, par, counts, h)


@kernel()
def from_counts(par, counts):
    """The angle by the count alone."""
    return counts * par[_SCALE]
