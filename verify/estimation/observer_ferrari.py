"""Side-slip of a real car by its observer, from a table to figures: `python -m verify observer-ferrari`.

Needs TANDEM_REAL_DATA, the folder of measured data with ferrari_250lm/laps_first_300s.csv.gz (5 minutes of a race car
on a circuit, 100 Hz). In go speed, road-wheel angle, yaw rate and lateral acceleration; the measured side-slip judges.
Parameters and noise of configs/observers/race_car.toml are from the first half alone: the second is judged, figures of
the first stand beside. Then friction is estimated, within bounds and where it is excited.
"""

import gzip
import os
import tempfile
from collections.abc import Iterator
from math import degrees
from pathlib import Path
from typing import Any

from verify import ROOT
from verify.measure import NotHere, Row, at_least, at_most, figure
from verify.real_runs import tandem
from verify.registry import REAL_DATA

DATA = "ferrari_250lm/laps_first_300s.csv.gz"
HALF = "150"  # s from the beginning of the record
HALVES = {"tuned": ("--to", HALF), "unused": ("--from", HALF)}
MOST_DEG, LEAST_INSIDE, LEAST_SPEED = 0.5, 0.8, 5.0
COLUMNS = (
    "--time", "t:s", "--map", "speed=vx:m/s", "--map", "road_wheel_angle=delta:rad", "--map", "yaw_rate=yawRate:rad/s",
    "--map", "ay=ayCG:m/s2", "--measured", "sideslip=beta_true:rad",
)  # fmt: skip
FRICTION = "{ start = 0.15, walk = 0.1, low = 0.8, high = 1.4, earned = 0.6 }"


def observer_ferrari() -> Iterator[Row]:
    place = Path(os.environ[REAL_DATA]) / DATA
    if not place.is_file():
        raise NotHere(f"no {DATA} below {REAL_DATA}")
    with tempfile.TemporaryDirectory() as folder:
        file, runs = Path(folder) / "laps.csv", ("--runs", str(Path(folder) / "runs"))
        file.write_bytes(gzip.decompress(place.read_bytes()))
        run = tandem("import", str(file), "configs/race_car.toml", *COLUMNS, *runs)["run"]
        earned = with_friction(Path(folder) / "friction.toml")
        for half, span in HALVES.items():
            found = tandem("observe", run, *span, "--truth", "sideslip", "--tuning", str(earned), *runs)
            yield from of_half(half, found["as recorded"])
            free = found[earned.name]
            yield figure(f"{half}: side-slip, rms, friction estimated", degrees(free["errors"]["sideslip"]), "deg")
            yield figure(f"{half}: friction is supported", free["supported"]["friction"], "of the time")


def of_half(half: str, found: dict[str, Any]) -> Iterator[Row]:
    rms, nees = degrees(found["errors"]["sideslip"]), found["smoothed"]["nees"]["forward"]["sideslip"]
    windows, judged = found["windows"]["sideslip"], half == "unused"
    names = f"{half}: side-slip, rms", f"{half}: NEES of side-slip in its band", f"{half}: speed"
    units = "deg", "of the time", "times real time"
    values = rms, nees["inside"], found["real_time_factor"]
    if judged:
        yield at_most(names[0], values[0], MOST_DEG, units[0])
        yield at_least(names[1], values[1], LEAST_INSIDE, units[1])
        yield at_least(names[2], values[2], LEAST_SPEED, units[2])
    else:
        for name, value, unit in zip(names, values, units, strict=True):
            yield figure(name, value, unit)
    yield figure(f"{half}: NEES of side-slip, mean", nees["mean"])
    yield figure(f"{half}: side-slip in windows of 10 s, rms: median", degrees(windows["median"]), "deg")
    yield figure(f"{half}: the worst of them", degrees(windows["worst"]), "deg")
    smoothed = found["smoothed"]["errors"]["sideslip"]["smoothed"]
    yield figure(f"{half}: side-slip, rms, smoothed", degrees(smoothed), "deg")


def with_friction(file: Path) -> Path:
    """The shipped observer, which estimates friction."""
    text = (ROOT / "configs" / "observers" / "race_car.toml").read_text()
    text = text.replace('"../vehicles/', f'"{ROOT}/configs/vehicles/')
    text = text.replace("[filter]\n", '[filter]\nestimated = ["friction"]\n')
    file.write_text(f"{text}[filter.quantities]\nfriction = {FRICTION}\n")
    return file
