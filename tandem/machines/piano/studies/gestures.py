"""Strokes of a key, as they are imposed: how a dip is gone down and up, one after the other; and by a finger with mass,
spring and damper, through the virtual device and the real path on the virtual clock."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sync.config.config import load
from tandem.console.shipped_configs import CONFIGS
from tandem.live.closed_loop import run_closed_loop

# place, speed and acceleration of a way of one in a time of one
_WAYS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]] = {
    "ramp": lambda s: (s, np.ones_like(s), np.zeros_like(s)),
    "cosine": lambda s: (
        0.5 - 0.5 * np.cos(np.pi * s), 0.5 * np.pi * np.sin(np.pi * s), 0.5 * np.pi**2 * np.cos(np.pi * s)
    ),
    "minimum jerk": lambda s: (
        s**3 * (10.0 - 15.0 * s + 6.0 * s * s), 30.0 * s**2 * (1.0 - s) ** 2, 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s)
    ),
}  # fmt: skip
STROKE_SHAPES = tuple(_WAYS)
HAND = CONFIGS / "piano_multibody.toml"


@dataclass(frozen=True)
class Stroke:
    """SI. Rests, goes down, is held, and goes up to a height that need not be the key's rest."""

    down: float
    depth: float
    shape: str = "minimum jerk"
    rest: float = 0.0
    hold: float = 0.2
    up: float = 0.08
    to: float = 0.0

    @property
    def seconds(self) -> float:
        return self.rest + self.down + self.hold + self.up


def motion(strokes: Sequence[Stroke], h: float, after: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place, speed and acceleration at the end of every step."""
    total = sum(each.seconds for each in strokes) + after
    t = np.arange(1, round(total / h) + 1) * h
    out = np.zeros((3, len(t)))
    begun, height = 0.0, 0.0
    for each in strokes:
        turns = begun + np.array([each.rest, each.rest + each.down, each.rest + each.down + each.hold, each.seconds])
        for first, last, a, b in ((0, 1, height, each.depth), (2, 3, each.depth, each.to)):
            at = (t > turns[first]) & (t <= turns[last])
            length = turns[last] - turns[first]
            place, speed, acceleration = _WAYS[each.shape]((t[at] - turns[first]) / length)
            out[0, at] = a + (b - a) * place
            out[1, at], out[2, at] = (b - a) * speed / length, (b - a) * acceleration / length**2
        out[0, (t > begun) & (t <= turns[0])] = height
        out[0, (t > turns[1]) & (t <= turns[2])] = each.depth
        begun, height = begun + each.seconds, each.to
    out[0, t > begun] = height
    return out[0], out[1], out[2]


FALL = 0.030  # m, from where the check lets the hammer go to where it rests
LET_GO, HOP = 0.35, 0.36  # of the key's way up; of its speed, as it lands (of a Kawai's hammer)


def returned(before: Stroke | None, then: Stroke) -> bool:
    """Whether the hammer has come to rest before a stroke, by free fall and all its hops: nothing of the model."""
    if before is None:
        return True
    waited = before.up * (1.0 - LET_GO) + then.rest
    return waited >= math.sqrt(2.0 * FALL / 9.81) * (1.0 + HOP) / (1.0 - HOP)


def sampled(count: int, seed: int, fastest: float, slowest: float, dip: float) -> list[Stroke]:
    """Strokes at random: speed (as the time of a whole dip), depth, shape, hold, and how far and how long the key is up
    between them."""
    r = np.random.default_rng(seed)
    found, height = [], 0.0
    for _ in range(count):
        depth, seconds = float(r.uniform(0.96, 1.0) * dip), float(np.exp(r.uniform(np.log(fastest), np.log(slowest))))
        found.append(
            Stroke(
                down=seconds * (depth - height) / dip, depth=depth, shape=str(r.choice(STROKE_SHAPES)),
                rest=float(r.uniform(0.0, 0.1)), hold=float(r.uniform(0.02, 0.3)), up=float(r.uniform(0.03, 0.15)),
                to=float(r.uniform(0.0, 0.35) * dip),
            )
        )  # fmt: skip
        height = found[-1].to
    return found


@dataclass(frozen=True)
class Pressed:
    """What a finger that is no servo does: the key as it went, and the notes."""

    t: np.ndarray
    place: np.ndarray
    force: np.ndarray  # of the action at the tip
    strikes: list[tuple[float, float]]  # s, m/s
    count: int


def pressed(way: Sequence[tuple[float, float]], seconds: float, *overrides: str) -> Pressed:
    """By the virtual finger of configs/piano_multibody.toml, which wants to be where `way` says (s, m)."""
    points = ", ".join(f"[{t}, {x}]" for t, x in way)
    hand = f"source.hand.motion={{points=[{points}]}}"
    config = load(HAND, [hand, "source.effort.rise_ms=0.0", "source.effort.limit=200.0", "source.saturation=200.0",
                         "source.effort.slew=1e7", *overrides])  # fmt: skip
    found = run_closed_loop(config, HAND, seconds, 100_000)
    out = found.outputs
    rises = np.flatnonzero(np.diff(out["strike_count"], prepend=0.0) > 0.0)
    strikes = [(float(found.seconds[k] - out["strike_age"][k]), float(out["strike_speed"][k])) for k in rises]
    return Pressed(found.seconds, found.position, out["tip_force"], strikes, int(out["strike_count"][-1]))
