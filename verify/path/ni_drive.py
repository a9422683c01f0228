"""A drive on the NI source: the double as the device, NI's client, both services, a whole minute of real time.

Shown is what the drive counted; the double is a Python process that shares the machine with the drive.
"""

import json
import tempfile
from collections.abc import Iterator
from typing import Annotated

from tests.daqmx_double.handle import Double
from verify.measure import Row, equal, figure, holds
from verify.real_runs import options, tandem

SHOWN = ("seconds", "loops", "blocks", "implausible", "steps", "deadline_misses", "stale_steps", "age_us")


def ni_drive(
    *,
    seconds: float = 60.0,
    ppm: Annotated[float, "by how much the device's crystal is off"] = 40.0,
    set: Annotated[tuple[str, ...], "KEY=VALUE: override a setting"] = (),
) -> Iterator[Row]:
    double = Double()
    try:
        double.tell("configure", script="drive", ppm=ppm)
        with tempfile.TemporaryDirectory() as runs:
            settings = options([f"source.server={double.server}", *set])
            report = tandem("drive", "configs/onboard.toml", "--runs", runs, "--seconds", f"{seconds:g}", *settings)
        refused = double.tell("state")["refused"]
    finally:
        double.close()
    yield equal("exit code of the drive", report["code"], 0)
    yield equal("scans lost", report["balance"]["lost"], 0)
    yield equal("epochs", report["epochs"], 1)
    yield holds("nothing refused by the double", not refused, refused or "nothing")
    for name in SHOWN:
        yield figure(name, json.dumps(report.get(name)))
