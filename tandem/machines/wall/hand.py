"""The hand on the device, found while it is there: what the port does under a small force of its own.

The force (`probe`) is a sum of sines of a few hertz to some tens. What was given out in all, F, and where the port is,
X, are looked at along each of them, less and less the longer ago; both pass the same filter first, which leaves out
what the hand does slowly. Along each sine the port is a mass with damper and spring, as late as the force comes:

    (K + j w B - w^2 M) X = -F e^(-j w (delay + half a step))

Least squares over all sines give mass, damping and stiffness of device and hand together; what is left over gives
their deviations, beside UNKNOWN of each. F has the wall in it as well, so that the wall is no part of what is found.
"""

from math import cos, exp, pi, sin, sqrt

from sync.compile.jit import inner
from sync.compile.parts import places

HZ = (3.0, 5.0, 8.0, 13.0, 21.0, 34.0)
_PHASES = (0.0, 0.52, 2.09, 4.71, 2.09, 0.52)  # rad; Schroeder's: peaks do not meet
SINES = len(HZ)
FORGOTTEN_S = 2.0  # of each of two averages, one of the other: of a sine beside it little is left
SETTLED_S = 3.0  # of the probe, until there is an answer
FILTER_HZ = 1.5
MEMORY = places("MEMORY", (
    "TIME", "F_LAST", "F_ONCE", "F_TWICE", "X_LAST", "X_ONCE", "X_TWICE",
    *(f"{of}_{part}{k}{times}" for times in ("", "_AGAIN") for k in range(SINES) for of in "FX"
      for part in ("RE", "IM")),
))  # fmt: skip
SIZE = len(MEMORY)
LINES, AGAIN = 7, 7 + 4 * SINES  # where averages begin, and those of them
UNKNOWN = 0.005  # share of each that no average makes better: a delay that varies, steps of the encoder, the hold
FOUND = 6  # mass, damping, stiffness, and their deviations


@inner
def probe(t, amplitude):
    total = 0.0
    for k in range(SINES):
        total += sin(2.0 * pi * HZ[k] * t + _PHASES[k])
    return amplitude * total


@inner
def passed(memory, at, value, share):
    """Twice through a high pass; the first value goes through as nothing."""
    once = share * (memory[at + 1] + value - memory[at])
    memory[at + 2] = share * (memory[at + 2] + once - memory[at + 1])
    memory[at], memory[at + 1] = value, once
    return memory[at + 2]


@inner
def observe(memory, force, position, h):
    """A sample: the force that is given out now, and where the port is."""
    if memory[MEMORY.TIME] == 0.0:
        memory[MEMORY.F_LAST], memory[MEMORY.X_LAST] = force, position
    share, decay = exp(-2.0 * pi * FILTER_HZ * h), exp(-h / FORGOTTEN_S)
    f = passed(memory, MEMORY.F_LAST, force, share)
    x = passed(memory, MEMORY.X_LAST, position, share)
    t = memory[MEMORY.TIME]
    for k in range(SINES):
        c, s = cos(2.0 * pi * HZ[k] * t), sin(2.0 * pi * HZ[k] * t)
        at = LINES + 4 * k
        memory[at] = decay * memory[at] + f * c
        memory[at + 1] = decay * memory[at + 1] - f * s
        memory[at + 2] = decay * memory[at + 2] + x * c
        memory[at + 3] = decay * memory[at + 3] - x * s
    for k in range(4 * SINES):
        memory[AGAIN + k] = decay * memory[AGAIN + k] + memory[LINES + k]
    memory[MEMORY.TIME] = t + h


@inner
def find(memory, late, out):
    """Mass, damping, stiffness of the port, and their deviations; zeros before there is an answer.

    `late`: from a sample to the middle of the force that answers it.
    """
    for i in range(FOUND):
        out[i] = 0.0
    if memory[MEMORY.TIME] < SETTLED_S:
        return
    # normal equations; j w X is across X, so that nothing of B is in those of K and M
    kk = km = mm = bb = ky = my = by = yy = 0.0
    for k in range(SINES):
        w, at = 2.0 * pi * HZ[k], AGAIN + 4 * k
        c, s = cos(w * late), sin(w * late)
        fr, fi, xr, xi = memory[at], memory[at + 1], memory[at + 2], memory[at + 3]
        yr, yi = -(fr * c + fi * s), -(fi * c - fr * s)
        # rows of K: X, of M: -w^2 X, of B: j w X
        size = xr * xr + xi * xi
        kk += size
        km -= w * w * size
        mm += w * w * w * w * size
        bb += w * w * size
        ky += xr * yr + xi * yi
        my -= w * w * (xr * yr + xi * yi)
        by += w * (xr * yi - xi * yr)
        yy += yr * yr + yi * yi
    det = kk * mm - km * km
    if det <= 0.0 or bb <= 0.0:
        return
    K, M, B = (mm * ky - km * my) / det, (kk * my - km * ky) / det, by / bb
    left = max(yy - K * ky - M * my - B * by, 0.0) / (2.0 * SINES - 3.0)
    out[0], out[1], out[2] = M, B, K
    out[3] = sqrt(left * kk / det + (UNKNOWN * M) ** 2)
    out[4] = sqrt(left / bb + (UNKNOWN * B) ** 2)
    out[5] = sqrt(left * mm / det + (UNKNOWN * K) ** 2)
