"""The grand action as it is drawn: the links, what a regulator sets, and where the hammer is caught."""

from math import cos, sin

import numpy as np

from sim_service.contract.scene import Bar, Camera, Point, Scene, Solid, box
from tandem.machines.piano.drawing import place
from tandem.machines.piano.multibody.action import (
    CHECK,
    CHECKED,
    DAMPER,
    HAMMER,
    HAMMER_REACH,
    HEAD,
    JACK,
    KEY,
    LEVER,
    LINKS,
    P3,
    TIP,
    TOE,
    WHIPPEN,
    poses,
    rotated,
)
from tandem.machines.piano.multibody.dynamics import P

# frames: the world's, then of every key those of the links and behind them these
BUTTON, STRING, BACK_CHECK = range(len(LINKS), len(LINKS) + 3)
PER_KEY = len(LINKS) + 3
_CHECK = [rotated(CHECKED, x, z) for x, z in CHECK]


def pose(q: np.ndarray, params: np.ndarray, out: np.ndarray, k: int = 0) -> None:
    """Of key k, whose joints are at q."""
    own, across = out[1 + PER_KEY * k : 1 + PER_KEY * (k + 1)], place(k)
    for link, (x, z, angle) in enumerate(poses(q)):
        c, s = cos(angle), sin(angle)
        own[link, 0] = x, across, z
        own[link, 1:] = (c, 0.0, s), (0.0, 1.0, 0.0), (-s, 0.0, c)
    # what a regulator sets: the button and the string stand in the world, the back-check on the key
    own[BUTTON, 0] = 0.0, across, params[P.let_off_button]
    own[STRING, 0] = 0.0, across, P3[1] + HAMMER_REACH * sin(params[P.string_angle])
    own[BACK_CHECK] = own[KEY]
    own[BACK_CHECK, 0] += params[P.back_check] * own[KEY, 1]


def _bar(name: str, frame: int, low: tuple[float, float], high: tuple[float, float]) -> Solid:
    """Corners in x and z of a part, as wide as the parts of an action are."""
    return box(name, frame, (low[0], -0.004, low[1]), (high[0], 0.004, high[1]))


def _solids(at: int) -> tuple[Solid, ...]:
    return (
        _bar("key", at + KEY, (-TIP - 0.01, -0.012), (0.225, 0.0)),
        _bar("pilot", at + KEY, (0.121, 0.0), (0.131, 0.0262)),
        _bar("whippen", at + WHIPPEN, (-0.11, 0.001), (0.004, 0.008)),
        _bar("jack", at + JACK, (-0.003, 0.0), (0.004, HEAD)),
        _bar("toe", at + JACK, (-TOE, -0.004), (0.0, 0.0)),
        _bar("lever", at + LEVER, (-0.056, 0.001), (0.01, 0.006)),
        _bar("shank", at + HAMMER, (0.0, -0.003), (HAMMER_REACH, 0.003)),
        _bar("head", at + HAMMER, (HAMMER_REACH - 0.008, -0.02), (HAMMER_REACH + 0.01, 0.0)),
        _bar("damper", at + DAMPER, (-0.14, 0.0), (0.0, 0.006)),
        box("let-off button", at + BUTTON, (0.02, -0.004, 0.0), (0.08, 0.004, 0.004)),
        box("string", at + STRING, (0.0, -0.001, 0.0), (0.35, 0.001, 0.001)),
    )


def _bars(at: int) -> tuple[Bar, ...]:
    low, high = (Point(at + BACK_CHECK, (x, 0.0, z)) for x, z in _CHECK)
    return (
        Bar("back-check wire", Point(at + KEY, (0.19, 0.0, 0.0)), low, "rod", 0.0015),
        Bar("back-check", low, high, "upright", 0.004),
    )


def scene(keys: int = 1) -> Scene:
    """So many actions side by side."""
    starts = [1 + PER_KEY * k for k in range(keys)]
    side = Camera("side", (0.01, -0.6 + place(keys - 1), 0.06), (0.01, 0.0, 0.05), "world")
    front = Camera("front", (-0.6, 0.1, 0.3), (0.0, 0.5 * place(keys - 1), 0.04), "world")
    return Scene(
        frames=1 + PER_KEY * keys,
        solids=tuple(solid for at in starts for solid in _solids(at)),
        bars=tuple(bar for at in starts for bar in _bars(at)),
        size=0.3 if keys == 1 else 0.5,
        cameras=(side,) if keys == 1 else (side, front),
    )
