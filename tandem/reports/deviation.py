"""How far two runs of a machine that moves on the ground are apart, in metres and not in milliseconds.

Both are compared step by step, at the same instant. *Apart* is the distance between the two, *lateral* the part of it
across the direction in which the reference began. *Off the path* is the distance to the
nearest point of the reference's path, whenever it was there: two runs that do the same, one later, are apart, but
not off the path.
"""

from typing import Any

import numpy as np

POSE = ("x", "y", "yaw")
_BLOCK = 256


def deviation(reference: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, Any]:
    """How far two runs are apart, by columns with names, over the first steps that both have. Empty without a pose."""
    if not all(name in reference and name in other for name in POSE):
        return {}
    n = min(len(reference["x"]), len(other["x"]))
    if n == 0:
        return {}
    dx, dy = other["x"][:n] - reference["x"][:n], other["y"][:n] - reference["y"][:n]
    cos, sin = np.cos(reference["yaw"][0]), np.sin(reference["yaw"][0])
    off = off_path(reference["x"][:n], reference["y"][:n], other["x"][:n], other["y"][:n])
    found = {
        "apart_m": _figures(np.hypot(dx, dy)),
        "lateral_m": _figures(cos * dy - sin * dx),
        "off_path_m": _figures(off),
        "yaw_deg": _figures(np.rad2deg(other["yaw"][:n] - reference["yaw"][:n])),
    }
    if "yaw_rate" in reference and "yaw_rate" in other:
        found["yaw_rate_deg_per_s"] = _figures(np.rad2deg(other["yaw_rate"][:n] - reference["yaw_rate"][:n]))
    return found


def _figures(values: np.ndarray) -> dict[str, float]:
    return {
        "max": float(np.abs(values).max()),
        "rms": float(np.sqrt(np.mean(values**2))),
        "end": float(values[-1]),
    }


def off_path(x: np.ndarray, y: np.ndarray, other_x: np.ndarray, other_y: np.ndarray) -> np.ndarray:
    """Distance of every point of the other to the polyline x, y.

    A path that crosses itself is no trouble: the search stays near the point that was nearest before, and follows.
    """
    # at rest the same point comes again and again; a polyline has segments of some length
    keep = np.concatenate([[True], np.hypot(np.diff(x), np.diff(y)) > 1e-9])
    px, py = x[keep], y[keep]
    if len(px) < 2:
        alone: np.ndarray = np.hypot(other_x - px[0], other_y - py[0])
        return alone
    ux, uy = np.diff(px), np.diff(py)
    length2 = ux * ux + uy * uy
    found = np.empty(len(other_x))
    near = 0
    for k in range(len(other_x)):
        low, high = max(near - _BLOCK, 0), min(near + _BLOCK, len(ux))
        s = slice(low, high)
        ax, ay = other_x[k] - px[s], other_y[k] - py[s]
        t = np.clip((ax * ux[s] + ay * uy[s]) / length2[s], 0.0, 1.0)
        d2 = (ax - t * ux[s]) ** 2 + (ay - t * uy[s]) ** 2
        best = int(np.argmin(d2))
        near, found[k] = low + best, np.sqrt(d2[best])
    return found


def sentence(found: dict[str, Any]) -> str:
    if not found:
        return "no pose to compare"
    return (
        f"at the same instant at most {_metres(found['apart_m']['max'])} apart, in lateral position"
        f" {_metres(found['lateral_m']['max'])}; {_metres(found['off_path_m']['max'])} off the path; yaw rate"
        f" {found.get('yaw_rate_deg_per_s', {'max': 0.0})['max']:.3g} deg/s"
    )


def _metres(value: float) -> str:
    return f"{value:.3f} m" if value >= 0.01 else f"{1e3 * value:.3g} mm"
