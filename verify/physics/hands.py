"""Hands found by a force that is not felt: `python -m verify haptics-hand`.

Virtual fingers on the virtual wall's device through the real path at 5 kHz: six sines of 0.02 N, and what is found of
the hand beside what it was made with. A hand at rest, one that moves slowly by 2 mm, heavier and looser ones; then a
grip that doubles. `tandem study wall hand` computes it from the record.

    --seconds N   of each hand
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sync.record import open_run
from tandem.machines.wall.studies.hand import INTERVAL, Found, examine
from verify.measure import Row, at_most, figure, holds
from verify.real_runs import options, replayed, tandem

NAMES = ("mass", "damping", "stiffness")
HANDS = {  # kg, N s/m, N/m, and how far they move by themselves
    "a finger at rest": (0.02, 3.75, 257.0, 0.0),
    "a finger that moves by 2 mm": (0.02, 3.75, 257.0, 0.002),
    "a heavier hand": (0.08, 3.0, 700.0, 0.0),
    "a loose one": (0.01, 8.0, 100.0, 0.0),
}
SHARE = {"mass": 0.05, "damping": 0.12, "stiffness": 0.06}  # of device and hand together: how far off it may be
DEVICE = {"mass": 0.3, "damping": 2.0, "stiffness": 0.0}


def hand(values: tuple[float, float, float, float], grips: str = "") -> str:
    m, b, k, moves = values
    motion = f"{{points=[[0.0,0.012]],amplitude={moves},hz=0.37}}"
    return f"source.hand={{mass={m},damping={b},stiffness={k},motion={motion}{grips}}}"


def run(folder: Path, held: str, seconds: float) -> Path:
    settings = options([held, "sim.parameters.probe=0.02", "view.enabled=false"])
    tandem("run", "configs/wall.toml", "--seconds", f"{seconds:g}", "--runs", str(folder), *settings)
    return max(folder.iterdir())


def hands(*, seconds: float = 15.0) -> Iterator[Row]:
    held = 0
    with tempfile.TemporaryDirectory() as place:
        for n, (what, values) in enumerate(HANDS.items()):
            folder = Path(place) / str(n)
            one = run(folder, hand(values), seconds)
            found = examine(one)
            for k, name in enumerate(NAMES):
                off = abs(found.values[-1, k] - values[k]) / (DEVICE[name] + values[k])
                yield at_most(f"{what}: {name} {found.values[-1, k]:.3g}, off {values[k]:g}", 100.0 * off,
                              100.0 * SHARE[name], "% of hand and device")  # fmt: skip
                held += int(abs(found.values[-1, k] - values[k]) <= INTERVAL * found.values[-1, 3 + k])
            if n == 0:
                yield figure("… moved by the probe, rms", _moved(one), "um")
                yield replayed(one)
        yield holds(f"intervals of 95 % hold in {held} of {3 * len(HANDS)}", held >= 3 * len(HANDS) - 2)
        doubles = hand(HANDS["a finger at rest"], f",grips=[[{seconds},2.0]]")
        found = examine(run(Path(place) / "grip", doubles, 2 * seconds))
        before, after = _at(found, seconds - 1.0), found.values[-1]
        yield at_most("a grip that doubles: stiffness over that before, off 2", abs(after[2] / before[2] - 2.0), 0.1)
        yield at_most("… damping likewise", abs(after[1] / before[1] - 2.0), 0.25)


def _at(found: Found, t: float) -> np.ndarray:
    return np.asarray(found.values[int(np.searchsorted(found.t, t))])


def _moved(folder: Path) -> float:
    position = open_run(folder).topics["/step"].blocks["position"]
    return 1e6 * float(np.std(position[len(position) // 2 :]))
