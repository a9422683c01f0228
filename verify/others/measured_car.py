"""A real car: its parameters from one half of a measurement, judged by the other: `python -m verify measured-car`.

Needs TANDEM_REAL_DATA, the folder of measured data with ferrari_250lm/laps_first_300s.csv.gz (5 minutes of a race car
on a circuit, 100 Hz); without it the check says so, and is passed. Speed and road-wheel angle go in, yaw rate and
side-slip come out; windows of 5 s, each from its measured start. Then the halves change places.

Exit code 1 where less than 95 % of the yaw rate or 70 % of the side-slip of an unused half is explained, or where the
two halves differ beyond their simultaneous intervals without a warning that blames the model. The study is the shipped
one, configs/studies/measured_car.toml.
"""

import gzip
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sync.config.toml import read_toml
from tandem.ensembles.identify import identify, rows, warnings
from tandem.ensembles.validate import validate
from verify import ROOT
from verify.measure import NotHere, Row, at_least, figure, holds, note
from verify.registry import REAL_DATA

DATA = "ferrari_250lm/laps_first_300s.csv.gz"
HALVES = ([150.0, 299.0], [299.0, 449.0])  # s on its clock
EXPLAINED = {"yaw_rate": 0.95, "sideslip": 0.7}  # of an unused half
STUDY = ROOT / "configs" / "studies" / "measured_car.toml"


def study(file: Path, fitted: list[float], unused: list[float]) -> dict[str, Any]:
    """The shipped one, of these halves."""
    shipped = read_toml(STUDY)
    windows = {**shipped["windows"], "fitted": [fitted], "unused": [unused]}
    return {**shipped, "records": [str(file)], "windows": windows}


def measured_car() -> Iterator[Row]:
    place = Path(os.environ[REAL_DATA]) / DATA
    if not place.is_file():
        raise NotHere(f"no {DATA} below {REAL_DATA}")
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "laps.csv"
        file.write_bytes(gzip.decompress(place.read_bytes()))
        for fitted, unused in (HALVES, HALVES[::-1]):
            begun = time.perf_counter()
            found = identify(study(file, fitted, unused))
            yield figure(f"identified from {fitted} in", time.perf_counter() - begun, "s")
            values = dict(zip(found.problem.names, found.values.tolist(), strict=True))
            for name, *_, low, high, remark in rows(found):
                stated = f"{values[name]:.4g}; {low} to {high}" + f"; {remark}" * bool(remark)
                yield figure(f"from {fitted}: {name}; interval", stated)
            done = validate(study(file, fitted, unused), settings=values)
            for name, accuracy in done.unused.items():
                what = f"from {fitted}, of {unused}: {name} explained"
                least = EXPLAINED.get(name)
                value = accuracy.explained
                yield figure(what, value) if least is None else at_least(what, value, least)
                yield figure(f"from {fitted}, of {unused}: {name}, error", accuracy.error)
            for line in warnings(found):
                note(line)
            answers.append(found)
    a, b = answers
    apart = [
        n for k, n in enumerate(a.problem.names) if a.joint_low[k] > b.joint_high[k] or b.joint_low[k] > a.joint_high[k]
    ]
    blamed = any("The model is wrong" in line for each in answers for line in warnings(each))
    text = f"apart: {', '.join(apart) or 'none'}; model blamed: {blamed}"
    yield holds("intervals of both halves meet, or the model is blamed", not apart or blamed, text)
