"""Satellites over a place at a time of day, what boxes beside the way hide of them, and what a receiver makes of it.

An almanac is that of GPS in the YUMA format, or the nominal constellation: 24 satellites in six planes (GPS standard
positioning service, performance standard). Orbits are Kepler's with a node that drifts; the site is a point of the
WGS 84 ellipsoid, and the world's axes there are east, north, up. A satellite is seen if it is above the mask and no box
lies in its direction. Of those, the geometry gives the dilution of precision of each axis, with the receiver's clock as
fourth unknown; below four there is no position.

A model of a receiver's noise and outages, no more: no atmosphere, no reflections, no carrier.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sync.errors import ConfigError
from sync.files.regular import read_regular

MU, EARTH_RATE = 3.986005e14, 7.2921151467e-5  # m3/s2, rad/s (IS-GPS-200)
_A, _F = 6378137.0, 1.0 / 298.257223563  # WGS 84
LEAST = 4  # satellites of a position
WORST = 20.0  # dilution of an axis above which a receiver gives no position
MOST = 256  # satellites of an almanac
# of an almanac, in the order of a row of orbits: what each may be, so that an orbit is one about the earth
_KEYS = {
    "Eccentricity": (0.0, 0.9), "Time of Applicability(s)": (-604800.0, 2 * 604800.0),
    "Orbital Inclination(rad)": (-7.0, 7.0), "Rate of Right Ascen(r/s)": (-1e-3, 1e-3),
    "SQRT(A)  (m 1/2)": (2600.0, 20000.0), "Right Ascen at Week(rad)": (-7.0, 7.0),
    "Argument of Perigee(rad)": (-7.0, 7.0), "Mean Anom(rad)": (-7.0, 7.0),
}  # fmt: skip
# slots of the nominal constellation: mean anomaly + perigee of each plane's four, degrees; planes 60 degrees apart
_SLOTS = (
    (268.126, 161.786, 11.676, 41.806), (80.956, 173.336, 309.976, 204.376), (111.876, 11.796, 339.666, 241.556),
    (135.226, 265.446, 35.156, 167.356), (197.046, 302.596, 66.066, 333.686), (238.886, 345.226, 105.206, 135.346),
)  # fmt: skip
_FIRST_NODE, _INCLINATION, _ROOT_A = 272.847, 55.0, 5153.636


@dataclass(frozen=True)
class Sky:
    """Orbits, where the site is, and what hides satellites there.

    A row of orbits: eccentricity, instant of validity, inclination, drift of the node, root of the semi-axis, node at
    the beginning of the week, argument of perigee, mean anomaly.
    """

    orbits: np.ndarray
    time_s: float  # of the GPS week, at the beginning
    latitude: float  # rad
    longitude: float
    mask: float  # rad
    boxes: np.ndarray  # rows: west, south, east, north, height, m in the world's axes


def nominal_almanac() -> np.ndarray:
    rows = []
    for plane, slots in enumerate(_SLOTS):
        node = np.radians(_FIRST_NODE + 60.0 * plane)
        rows += [[0.0, 0.0, np.radians(_INCLINATION), 0.0, _ROOT_A, node, 0.0, np.radians(m)] for m in slots]
    return np.array(rows)


def read_yuma(path: Path) -> np.ndarray:
    """Orbits of healthy satellites of an almanac."""
    try:
        text = read_regular(path).decode("ascii", errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    satellites: list[dict[str, float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        key, colon, value = line.partition(":")
        key = key.strip()
        if key == "ID":
            satellites.append({})
        elif colon and satellites and (key in _KEYS or key == "Health"):
            satellites[-1][key] = _checked(key, value.strip(), f"{path}:{number}")
    orbits = [[of.get(key, np.nan) for key in _KEYS] for of in satellites if not of.get("Health", 0.0)]
    out = np.array(orbits).reshape(-1, len(_KEYS))
    if not LEAST <= len(out) <= MOST or np.isnan(out).any():
        raise ConfigError(
            f"{path}: {len(out)} healthy satellites; must be a YUMA almanac with all keys of {LEAST} to {MOST}"
        )
    return out


def _checked(key: str, value: str, where: str) -> float:
    low, high = _KEYS.get(key, (0.0, 1e3))  # of the health: any number of a few digits, 0 where all is well
    try:
        found = float(value)
    except ValueError:
        raise ConfigError(f"{where}: {key} = {value!r}: must be a number") from None
    if not low <= found <= high:  # NaN is neither
        raise ConfigError(f"{where}: {key} = {value!r}: must be {low:g} to {high:g}")
    return found


def places(orbits: np.ndarray, time_s: float) -> np.ndarray:
    """Of all satellites, m, in axes that turn with the earth."""
    e, toa, inclination, drift, root, node, perigee, anomaly = orbits.T
    a = root**2
    since = time_s - toa
    M = anomaly + np.sqrt(MU / a**3) * since
    E = M.copy()
    for _ in range(20):
        E = M + e * np.sin(E)
    u = np.arctan2(np.sqrt(1.0 - e**2) * np.sin(E), np.cos(E) - e) + perigee
    r = a * (1.0 - e * np.cos(E))
    O = node + (drift - EARTH_RATE) * since - EARTH_RATE * toa  # noqa: E741  (the field's name of the node)
    x, y = r * np.cos(u), r * np.sin(u)
    return np.stack(
        [
            x * np.cos(O) - y * np.cos(inclination) * np.sin(O),
            x * np.sin(O) + y * np.cos(inclination) * np.cos(O),
            y * np.sin(inclination),
        ],
        axis=1,
    )


def directions(sky: Sky, seconds: float) -> np.ndarray:
    """Unit vectors to all satellites from the site, east, north, up."""
    s, c = np.sin(sky.latitude), np.cos(sky.latitude)
    sl, cl = np.sin(sky.longitude), np.cos(sky.longitude)
    e2 = _F * (2.0 - _F)
    n = _A / np.sqrt(1.0 - e2 * s * s)
    site = np.array([n * c * cl, n * c * sl, n * (1.0 - e2) * s])
    axes = np.array([[-sl, cl, 0.0], [-s * cl, -s * sl, c], [c * cl, c * sl, s]])
    away = (places(sky.orbits, sky.time_s + seconds) - site) @ axes.T
    return np.asarray(away / np.linalg.norm(away, axis=1)[:, None])


def seen_from(sky: Sky, toward: np.ndarray, antenna: np.ndarray) -> np.ndarray:
    """Which directions are above the mask and not behind a box."""
    free = toward[:, 2] > np.sin(sky.mask)
    for west, south, east, north, height in sky.boxes:
        low, high = np.array([west, south, -1e3]) - antenna, np.array([east, north, height]) - antenna
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = low / toward, high / toward
        # NaN: the ray lies in a face's plane; such a face does not limit it
        near = np.nanmax(np.fmin(a, b), axis=1)
        far = np.nanmin(np.fmax(a, b), axis=1)
        free &= ~((near <= far) & (far > 0.0))
    return np.asarray(free)


def dilution(toward: np.ndarray) -> np.ndarray:
    """Of east, north and up: standard deviations for a range error of 1 m; infinite where there is no position."""
    if len(toward) < LEAST:
        return np.full(3, np.inf)
    G = np.hstack([toward, np.ones((len(toward), 1))])
    information = G.T @ G
    if np.linalg.cond(information) > 1e12:
        return np.full(3, np.inf)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(information))[:3]))


@dataclass(frozen=True)
class Reception:
    """Of a receiver at the instants of its readings."""

    seconds: np.ndarray
    antennas: np.ndarray  # where it was
    satellites: np.ndarray
    dilution: np.ndarray  # of each axis
    read: np.ndarray  # the positions it gave; NaN: none


def along(sky: Sky, seconds: np.ndarray, antennas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Satellites seen at these instants and places of an antenna, and the dilution of each axis.

    Satellites move by half a degree in a minute: their directions are those of whole seconds.
    """
    count, spread = np.zeros(len(seconds), np.int64), np.zeros((len(seconds), 3))
    toward, of = np.zeros((0, 3)), None
    for k, t in enumerate(seconds):
        if of != int(t):
            toward, of = directions(sky, float(int(t))), int(t)
        free = toward[seen_from(sky, toward, antennas[k])]
        count[k], spread[k] = len(free), dilution(free)
    return count, spread
