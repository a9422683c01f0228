"""What sensors make of a machine's true values: noise, offset, axes as they are mounted, quantum, range.

Random numbers are by counter (noise.py): those of row i are of stream i, walks of offsets, offsets at the start and
mounted axes have streams of their own.
"""

from math import floor

import numpy as np
from numba import float64

from sync.compile.array_types import CONSTANTS
from sync.compile.jit import kernel
from tandem.estimation.description import Sensors, rotated
from tandem.estimation.noise import normal_number
from tandem.estimation.rows import R

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

WALKS, START, AXES = 10_000, 20_000, 30_000  # streams


@kernel(float64(CONSTANTS, float64, float64, float64), error_model="numpy")
def read(row, value, noise, random):
    """What a sensor makes of the value that is there."""
    out = value + noise * random
    if row[R.QUANTUM] > 0.0:
        out = row[R.QUANTUM] * (floor(out / row[R.QUANTUM]) + 0.5)
    return min(max(out, row[R.LOW]), row[R.HIGH])


def true_rows(sensors: Sensors, seed: int) -> np.ndarray:
    """Rows with the axes as they are mounted, not as they should be."""
    rows = sensors.rows.copy()
    for i, name in enumerate(sensors.sensor):
        if sensors.misalignment[i] > 0.0:
            stream = AXES + sorted(set(sensors.sensor)).index(name)
            angles = sensors.misalignment[i] * np.array([normal_number(seed, stream, k) for k in range(3)])
            rows[i, R.DIRECTION : R.DIRECTION + 3] = rotated(rows[i, R.DIRECTION : R.DIRECTION + 3], angles)
    return rows


def offsets_at_start(sensors: Sensors, seed: int) -> np.ndarray:
    return np.array([b.start * normal_number(seed, START, i) for i, b in enumerate(sensors.biases)])
