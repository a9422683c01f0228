"""Random unevenness after ISO 8608: a field of heights from a class, a seed and a coherence.

Along x every profile has the one-sided spectral density Gd(n) = Gd(n0) (n / n0)^-2 between the longest and the shortest
wavelength, n the spatial frequency in cycles per metre, n0 = 0.1. Two profiles at distance d across the road have the
coherence exp(-decay n d): long waves are common to both wheels, short ones are not. With decay = 3 the two tracks of a
car are about as coherent as on an isotropic surface of this spectrum; 0 makes every profile the same.

Method. For each frequency the complex amplitude, seen across the road, is a process with an exponential correlation,
which is that of a first-order recursion from station to station:

    c[j+1] = r c[j] + sqrt(1 - r^2) w[j],      r = exp(-decay n dy),      w independent, of variance 1

An inverse Fourier transform along x then makes each profile. It is periodic: the road repeats after the period, which
is the least power of two of nodes that is not shorter than what was asked for. Random bits are those of PCG64, whose
sequence numpy guarantees; everything after them is `portable`, so a seed means the same bits everywhere.
"""

from math import ceil, sqrt

import numpy as np

from sync.compile.jit import kernel
from tandem.multibody.portable import falling, fourier, normal

REFERENCE_FREQUENCY = 0.1  # n0, cycles/m

# geometric mean of each class, m3; the limits of a class are half and twice that
CLASSES = {name: 16e-6 * 4.0**number for number, name in enumerate("ABCDEFGH")}


def period_nodes(length: float, spacing: float) -> int:
    """Nodes of the least power of two that are not shorter than `length`."""
    return 1 << max(ceil(length / spacing) - 1, 1).bit_length()


def rough_field(
    density: float,
    seed: int,
    decay: float,
    nodes: int,
    spacing: float,
    stations: int,
    station_spacing: float,
    shortest: float,
    longest: float,
) -> np.ndarray:
    """Heights over one period: `nodes` rows along x, `stations` columns across."""
    period = nodes * spacing
    first = max(ceil(period / longest), 1)
    last = min(int(period / shortest), nodes // 2 - 1)
    bits = np.random.PCG64(seed).random_raw(2 * (last - first + 1) * stations)
    noise = normal(np.asarray(bits, dtype=np.uint64))
    heights = np.zeros((nodes, stations))
    _synthesise(noise, first, last, density, decay, spacing, station_spacing, heights)
    return heights


@kernel(
    "void(float64[::1], int64, int64, float64, float64, float64, float64, float64[:, ::1])",
    allocates=True,
    error_model="numpy",
)
def _synthesise(noise, first, last, density, decay, spacing, station_spacing, heights):
    nodes, stations = heights.shape
    dn = 1.0 / (nodes * spacing)
    count = last - first + 1
    a, b = np.zeros(count), np.zeros(count)
    re, im = np.zeros(nodes), np.zeros(nodes)
    for j in range(stations):
        re[:] = 0.0
        im[:] = 0.0
        for k in range(count):
            n = (first + k) * dn
            at = 2 * (j * count + k)
            if j == 0:
                a[k], b[k] = noise[at], noise[at + 1]
            else:
                r = falling(decay * n * station_spacing)
                q = sqrt(1.0 - r * r)
                a[k], b[k] = r * a[k] + q * noise[at], r * b[k] + q * noise[at + 1]
            # the real part of the sum is a cos - b sin, of variance Gd dn
            amplitude = REFERENCE_FREQUENCY / n * sqrt(density * dn)
            re[first + k], im[first + k] = amplitude * a[k], amplitude * b[k]
        fourier(re, im)
        for i in range(nodes):
            heights[i, j] = re[i]
