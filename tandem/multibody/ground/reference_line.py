"""A curved grid as a block for kernels: the reference line as a spline, its search, and the grid beside it.

The file gives points joined by straight pieces. Their corners would be kinks of the surface, so the line is the cubic
spline through them, whose curvature is continuous. Between points it lies off the chord by the sagitta of the bend,
increment^2 / 8 times the curvature. Where points are closer than `KNOT` the spline goes through every so many of them
only: headings measured every centimetre are noisy, and their noise would be curvature that folds the road.
"""

import numpy as np

from sync.compile.jit import kernel
from sync.errors import ConfigError
from tandem.multibody.ground.crg import Crg
from tandem.multibody.ground.grid import with_border
from tandem.multibody.ground.layout import Curved
from tandem.multibody.portable import cos_sin

KNOT = 0.2  # m, at least, between two knots of the spline (or the increment of the file, if that is more)
MOST_BINS = 1 << 16
MOST_FINDER = 1 << 16
SEARCHED = 1024  # knots of the line a bin chooses from; Newton's rule does the rest
MARGIN = 5.0  # m of bins beside the road


def curved_block(crg: Crg, at: tuple[float, float] | None, heading: float | None, lift: float, file: str) -> np.ndarray:
    """The block; `at` and `heading` (rad) place the start of the line, None leaves it where the file has it."""
    headings = crg.headings if heading is None else crg.headings + (heading - crg.headings[0])
    x, y = (crg.x, crg.y) if at is None else at
    cosines, sines = np.empty(len(headings)), np.empty(len(headings))
    cos_sin(np.ascontiguousarray(headings), cosines, sines)
    points = np.empty((len(headings) + 1, 2))
    points[0] = x, y
    points[1:, 0] = x + np.cumsum(cosines * crg.increment)
    points[1:, 1] = y + np.cumsum(sines * crg.increment)
    if not np.all(np.abs(points) < 1e9):
        raise ConfigError(f"{file}: the reference line leaves the range of 1e9 m")

    # straight means that every section is where a straight line has it, to a micrometre
    run = crg.increment * np.arange(len(points))
    line = np.stack((x + run * cosines[0], y + run * sines[0]), axis=1)
    straight = bool(np.max(np.abs(points - line)) < 1e-6)
    if straight:
        control, bins, corner, size, knots = np.zeros((0, 2)), np.zeros((0, 0)), points[0], 1.0, points
    else:
        knots = _thinned(points, crg.increment)
        control = _spline(knots)
        _refuse_folds(control, crg, file)
        bins, corner, size = _bins(knots, float(np.max(np.abs(crg.v))) + MARGIN)

    finder, per_step = _finder(crg.v)
    heights = with_border(crg.heights + lift)
    parts = (finder, crg.v, _weights(crg.v), control.ravel(), bins.ravel(), heights.ravel())
    places = Curved.SIZE + np.concatenate(([0], np.cumsum([len(part) for part in parts])))
    head = np.zeros(Curved.SIZE)
    head[Curved.STRAIGHT] = straight
    head[Curved.ROWS], head[Curved.INCREMENT] = len(points), crg.increment
    head[Curved.KNOTS], head[Curved.PER_KNOT] = len(knots), (len(points) - 1) / (len(knots) - 1)
    head[Curved.X], head[Curved.Y] = points[0]
    head[Curved.COS], head[Curved.SIN] = cosines[0], sines[0]
    head[Curved.COLUMNS], head[Curved.RIGHT], head[Curved.LEFT] = len(crg.v), crg.v[0], crg.v[-1]
    head[Curved.STEPS], head[Curved.PER_STEP] = len(finder), per_step
    head[Curved.BINS_X], head[Curved.BINS_Y] = bins.shape
    head[Curved.BIN_X], head[Curved.BIN_Y] = corner
    head[Curved.PER_BIN] = 1.0 / size
    head[Curved.AT_FINDER : Curved.AT_HEIGHTS + 1] = places[:-1]
    return np.concatenate((head, *parts))


def _thinned(points: np.ndarray, increment: float) -> np.ndarray:
    """Knots at equal distances along the line, `KNOT` or more apart; every point where these are that far apart."""
    count = len(points) - 1
    if increment < KNOT:
        count = max(int(count * increment / KNOT), 1)
    place = np.arange(count + 1) * ((len(points) - 1) / count)
    before = np.minimum(place.astype(np.int64), len(points) - 2)
    part = (place - before)[:, None]
    return np.ascontiguousarray((1.0 - part) * points[before] + part * points[before + 1])


def _refuse_folds(control: np.ndarray, crg: Crg, file: str) -> None:
    """Cross sections must not meet within the road: then a point would have two heights."""
    first = 0.5 * (control[2:] - control[:-2])
    second = control[2:] - 2.0 * control[1:-1] + control[:-2]
    with np.errstate(divide="ignore", invalid="ignore"):  # where the line turns back at once
        curvature = (first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]) / np.sum(first**2, axis=1) ** 1.5
        spread = np.minimum(1.0 - curvature * crg.v[-1], 1.0 - curvature * crg.v[0])
    if not np.all(spread > 0.1):
        worst = int(np.argmin(spread))
        along = worst * crg.increment * len(crg.headings) / (len(curvature) - 1)
        raise ConfigError(
            f"{file}: {along:g} m along the reference line: a curvature of {curvature[worst]:.3g} 1/m; with v from"
            f" {crg.v[0]:g} to {crg.v[-1]:g} m cross sections meet. The line must be smoother or the road narrower"
        )


def _spline(knots: np.ndarray) -> np.ndarray:
    """Control points of the cubic spline through `knots`, one more at each end.

    At its ends it has the direction of the parabola through the last three knots.
    """
    tangents = np.stack((knots[1] - knots[0], knots[-1] - knots[-2]))
    if len(knots) > 2:
        tangents[0] += 0.5 * (tangents[0] - (knots[2] - knots[1]))
        tangents[1] += 0.5 * (tangents[1] - (knots[-2] - knots[-3]))
    control = np.empty((len(knots) + 2, 2))
    _solve(knots, np.ascontiguousarray(tangents), control)
    return control


@kernel("void(float64[:, ::1], float64[:, ::1], float64[:, ::1])", allocates=True, error_model="numpy")
def _solve(points, tangents, c):
    """(c[i-1] + 4 c[i] + c[i+1]) / 6 = point, and (c[2] - c[0]) / 2, (c[n+1] - c[n-1]) / 2 = tangents at the ends."""
    n = points.shape[0]
    factor = np.zeros(n + 1)
    for axis in range(2):
        # with c[0] and c[n+1] put in, the first and the last equation have a neighbour twice
        factor[1] = 0.5
        c[1, axis] = (6.0 * points[0, axis] + 2.0 * tangents[0, axis]) / 4.0
        for i in range(2, n + 1):
            lower = 2.0 if i == n else 1.0
            value = 6.0 * points[i - 1, axis] - (2.0 * tangents[1, axis] if i == n else 0.0)
            pivot = 4.0 - lower * factor[i - 1]
            factor[i] = 1.0 / pivot
            c[i, axis] = (value - lower * c[i - 1, axis]) / pivot
        for i in range(n - 1, 0, -1):
            c[i, axis] -= factor[i] * c[i + 1, axis]
        c[0, axis] = c[2, axis] - 2.0 * tangents[0, axis]
        c[n + 1, axis] = c[n - 1, axis] + 2.0 * tangents[1, axis]


def _bins(points: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray, float]:
    """For squares that cover the road: the number of the knot that is nearest to the middle of each."""
    corner = points.min(axis=0) - margin
    extent = points.max(axis=0) + margin - corner
    size = float(max(np.sqrt(extent[0] * extent[1] / MOST_BINS), extent.max() / 4096.0))
    bins = np.zeros((int(extent[0] / size) + 1, int(extent[1] / size) + 1))
    _nearest(points, max(len(points) // SEARCHED, 1), corner, size, bins)
    return bins, corner, size


@kernel("void(float64[:, ::1], int64, float64[::1], float64, float64[:, ::1])", error_model="numpy")
def _nearest(points, stride, corner, size, bins):
    for i in range(bins.shape[0]):
        x = corner[0] + (i + 0.5) * size
        for j in range(bins.shape[1]):
            y = corner[1] + (j + 0.5) * size
            least = np.inf
            for k in range(0, points.shape[0], stride):
                dx, dy = points[k, 0] - x, points[k, 1] - y
                d = dx * dx + dy * dy
                if d < least:
                    least = d
                    bins[i, j] = k


def _finder(v: np.ndarray) -> tuple[np.ndarray, float]:
    """For equal steps across the road: the gap between columns in which each step begins. A step fits into any gap."""
    steps = int(np.ceil((v[-1] - v[0]) / np.min(np.diff(v)) * 1.001)) + 1
    steps = min(max(steps, 1), MOST_FINDER)
    per_step = steps / (v[-1] - v[0])
    begins = v[0] + np.arange(steps) / per_step
    gaps = np.clip(np.searchsorted(v, begins, side="right") - 1, 0, len(v) - 2)
    return gaps.astype(np.float64), float(per_step)


def _weights(v: np.ndarray) -> np.ndarray:
    """Twelve numbers for each gap: coefficients of q, q^2, q^3 in the weights of four columns, q = 0 to 1 in the gap.

    The slope at a column is that of the parabola through it and its neighbours. The weight of the second column has
    besides these the constant 1.
    """
    wide = np.concatenate(([2.0 * v[0] - v[1]], v, [2.0 * v[-1] - v[-2]]))
    table = np.zeros((len(v) - 1, 4, 3))
    for k in range(len(v) - 1):
        before, h, after = np.diff(wide[k : k + 4])
        start = np.zeros(4)
        start[0] = -h / (before * (before + h))
        start[2] = before / (h * (before + h))
        start[1] = -start[0] - start[2]
        end = np.zeros(4)
        end[1] = -after / (h * (h + after))
        end[3] = h / (after * (h + after))
        end[2] = -end[1] - end[3]
        table[k] = np.outer(start * h, (1.0, -2.0, 1.0)) + np.outer(end * h, (0.0, -1.0, 1.0))
        table[k, 1] += 0.0, -3.0, 2.0
        table[k, 2] += 0.0, 3.0, -2.0
    return table.ravel()
