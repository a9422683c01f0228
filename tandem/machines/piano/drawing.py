"""The action as it is drawn: bodies in the plane x z, the key's front towards -x."""

import math

import numpy as np

from sim_service.contract.scene import Bar, Camera, Point, Scene, Solid, box
from tandem.machines.piano import action, geometry

PER_KEY = 6  # frames: the ground beside it, key, whippen, jack, lever, hammer
_HEAD = 0.02  # m, of the hammer above its shank
_WIDTH = 0.0235  # m, from key to key
_CHECK = ((0.1995, 0.0, 0.0482), (0.2095, 0.0, 0.0682))  # ends of the back-check, on the key
GROUND, KEY, WHIPPEN, JACK, LEVER, HAMMER = range(PER_KEY)


def place(k: int) -> float:
    """Across the keyboard, of key k."""
    return -k * _WIDTH


def _bars(at: int) -> tuple[Bar, ...]:
    key, whippen, jack, lever, hammer = (at + frame for frame in (KEY, WHIPPEN, JACK, LEVER, HAMMER))
    front, top = Point(key, (geometry.CAPSTAN, 0.0, 0.0)), Point(key, (geometry.CAPSTAN, 0.0, geometry.CAPSTAN_HEIGHT))
    return (
        Bar("capstan", front, top, "rod", 0.003),
        Bar("whippen", Point(whippen), Point(whippen, (-geometry.WHIPPEN, 0.0, 0.0)), "link", 0.004),
        Bar("jack", Point(jack), Point(jack, (0.0, 0.0, geometry.JACK)), "upright", 0.003),
        Bar("toe", Point(jack), Point(jack, (-geometry.TOE, 0.0, 0.0)), "arm", 0.003),
        Bar("lever", Point(lever), Point(lever, (-geometry.LEVER, 0.0, 0.0)), "link", 0.003),
        Bar("post", Point(whippen, (-geometry.LEVER_BACK, 0.0, 0.0)), Point(lever), "strut", 0.003),
        Bar("back-check wire", Point(key, (0.19, 0.0, 0.0)), Point(key, _CHECK[0]), "rod", 0.0015),
        Bar("back-check", Point(key, _CHECK[0]), Point(key, _CHECK[1]), "upright", 0.004),
        Bar("shank", Point(hammer), Point(hammer, (geometry.SHANK, 0.0, 0.0)), "rod", 0.003),
        Bar(
            "knuckle",
            Point(hammer, (geometry.Q9, 0.0, 0.0)),
            Point(hammer, (geometry.Q9, 0.0, -geometry.KNUCKLE)),
            "rod",
            0.004,
        ),
    )


def _solids(at: int) -> tuple[Solid, ...]:
    string = geometry.P3Y + _HEAD
    return (
        box("key", at + KEY, (-geometry.FRONT, -0.011, -0.02), (0.2, 0.011, 0.0)),
        box("hammer", at + HAMMER, (geometry.SHANK - 0.006, -0.005, -0.005), (geometry.SHANK + 0.006, 0.005, _HEAD)),
        box("let-off button", at + GROUND, (0.02, -0.005, geometry.BUTTON), (0.06, 0.005, geometry.BUTTON + 0.004)),
        box("string", at + GROUND, (0.1, -0.001, string), (0.35, 0.001, string + 0.001)),
    )


def scene(keys: int = 1) -> Scene:
    """So many actions side by side."""
    starts = [PER_KEY * k for k in range(keys)]
    return Scene(
        frames=PER_KEY * keys,
        solids=tuple(solid for at in starts for solid in _solids(at)),
        bars=tuple(bar for at in starts for bar in _bars(at)),
        size=0.2 if keys == 1 else 0.5,
        cameras=(
            Camera("side", (0.02, -0.52 + place(keys - 1), 0.06), (0.02, 0.0, 0.04), "world"),
            Camera("front", (-0.6, 0.1, 0.3), (0.0, 0.5 * place(keys - 1), 0.04), "world"),
        ),
    )


def _put(out: np.ndarray, frame: int, across: float, x: float, y: float, angle: float) -> None:
    out[frame, 0] = x, across, y
    out[frame, 1] = math.cos(angle), 0.0, math.sin(angle)
    out[frame, 3] = -math.sin(angle), 0.0, math.cos(angle)


def pose(x: np.ndarray, mode: int, params: np.ndarray, out: np.ndarray, across: float = 0.0) -> None:
    q5, c5, s5, _, _, q6, _, jx, jy, _, _ = action.jack_at(mode, x[action.QK], geometry.BUTTON + params[action.HIGHER])
    _put(out, GROUND, across, 0.0, 0.0, 0.0)
    _put(out, KEY, across, 0.0, 0.0, x[action.QK])
    _put(out, WHIPPEN, across, geometry.P2X, geometry.P2Y, q5)
    _put(out, JACK, across, jx, jy, q6)
    back, height = geometry.LEVER_BACK, geometry.LEVER_HEIGHT
    _put(
        out, LEVER, across, geometry.P2X - back * c5 - height * s5, geometry.P2Y - back * s5 + height * c5, x[action.QR]
    )
    _put(out, HAMMER, across, geometry.P3X, geometry.P3Y, x[action.QH])
