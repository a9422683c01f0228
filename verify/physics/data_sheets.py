"""Cars from the figures of their data sheets, driven after ISO: are they what such cars are found to be?

Three cars, by what is printed of them: sizes, mass with a driver, weight in front, tyre, ratio, drag. Whatever else the
file needs is estimated by `tandem vehicle new`, the understeer gradient too. Their figures are to be within ranges that
were published of cars of their kind, not of these cars:

    characteristic speed          65 to 100 km/h, lectures on driving dynamics (fka Aachen)
    roll gradient                 3 to 7.5 deg/g, firm sports cars to family cars (Milliken, Race Car Vehicle Dynamics)
    yaw rate: time to 90 %        at most 0.3 s after a step at 80 km/h (Weir and DiMarco, SAE 780010)
    largest lateral acceleration  7.5 to 9 m/s2, skid pads of road tests on summer tyres
    100 to 0 km/h                 34 to 45 m, road tests
"""

import math
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sync.child_python import python_command, python_environment
from tandem.machines.car.studies.iso.manoeuvres import run_tests
from tandem.machines.car.studies.iso.vehicle import load_vehicle
from verify.measure import Result, at_least, at_most, figure, holds, note

_CARS = {
    "small sports car, rear-wheel drive (Mazda MX-5 of 2006)": {
        "wheelbase": "2330 mm", "track_front": "1490 mm", "track_rear": "1495 mm", "mass": "1190 kg",
        "front_share": "52 %", "cg_height": "460 mm", "tyre_size": "205/45 R17", "steering_ratio": "15.0",
        "drag_area": "0.63 m2",
    },
    "compact car (Volkswagen Golf of 2013)": {
        "wheelbase": "2637 mm", "track_front": "1549 mm", "track_rear": "1520 mm", "mass": "1325 kg",
        "front_share": "60 %", "cg_height": "540 mm", "tyre_size": "205/55 R16", "steering_ratio": "15.6",
        "drag_area": "0.64 m2",
    },
    "sports saloon (BMW 320i of 2005)": {
        "wheelbase": "2760 mm", "track_front": "1500 mm", "track_rear": "1513 mm", "mass": "1510 kg",
        "front_share": "50 %", "cg_height": "545 mm", "tyre_size": "205/55 R16", "steering_ratio": "16.0",
        "drag_area": "0.61 m2",
    },
}  # fmt: skip
_G = 9.81


def data_sheets() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        for k, (name, figures) in enumerate(_CARS.items()):
            note(name)
            table, file = Path(folder) / f"car{k}.csv", Path(folder) / f"car{k}.toml"
            table.write_text("".join(f"{key},{value}\n" for key, value in figures.items()))
            words = python_command("-m", "tandem", "vehicle", "new", str(file), "--from", str(table))
            done = subprocess.run(words, env=python_environment(), capture_output=True, text=True, check=False)
            yield holds(f"{name}: a file is made of {len(figures)} figures", not done.returncode, done.stderr[-200:])
            if not done.returncode:
                yield from _driven(name.partition(" (")[0].partition(",")[0], file)


def _driven(name: str, file: Path) -> Iterator[Result]:
    car = load_vehicle(file, {})
    results, failed = run_tests(car, ["circle", "step", "brake"], None, lambda *_: None)
    for test, why in failed.items():
        yield holds(f"{name}: {test}", False, str(why))
    found = {row.quantity: row for result in results for row in result.rows}
    gradient = found["understeer gradient"].simulated
    speed = 3.6 * math.sqrt(car.linear.wheelbase / math.radians(gradient / _G)) if gradient > 0.0 else math.inf
    yield figure(f"{name}: understeer gradient", gradient, "deg/g")
    yield at_most(f"{name}: yaw rate to 90 % after a step", found["yaw rate, rise time at 4 m/s²"].simulated, 0.3, "s")
    for what, value, low, high, unit in (
        ("characteristic speed", speed, 65.0, 100.0, "km/h"),
        ("roll gradient", found["roll gradient"].simulated, 3.0, 7.5, "deg/g"),
        ("largest lateral acceleration", found["largest steady lateral acceleration"].simulated, 7.5, 9.0, "m/s2"),
        ("100 to 0 km/h", found["shortest distance without locking"].simulated, 34.0, 45.0, "m"),
    ):
        yield at_least(f"{name}: {what}", value, low, unit)
        yield at_most(f"{name}: {what}", value, high, unit)
