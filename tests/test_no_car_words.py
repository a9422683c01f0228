"""Nothing outside the car's own folders knows that the machine is a car: no word of one stands there, in code, comments
or docstrings. What may is listed below, file by file with its reason, and only as long as it is needed."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sync", "daq_service", "sim_service", "tandem")
# a device has a driver and a mechanism may have gears, a rack and a motor: those are no words of a car
WORDS = {
    "car", "cars", "vehicle", "vehicles", "buggy", "buggies", "chassis", "road", "roads", "wheel", "wheels",
    "wheelbase", "tyre", "tyres", "tire", "tires", "axle", "axles", "steer", "steers", "steered", "steering",
    "understeer", "oversteer", "throttle", "throttles", "brake", "brakes", "braked", "braking", "pedal", "pedals",
    "drive", "drives", "drove", "driven", "driving", "drivetrain", "driveline",
}  # fmt: skip
OF_THE_CAR = (
    "tandem/machines/car",
    "tandem/machines/car/buggy",
    "tandem/machines/car/single_track",
    "tandem/machines/kart",
    "tandem/machines/car/swerve",
    "tandem/machines/omni",
    "tandem/machines/tilting",
    "tandem/multibody/ground",
    "tandem/machines/car/studies/iso",
    "tandem/machines/car/commands/iso.py",
    "tandem/machines/omni/studies",
    "tandem/machines/car/studies/vehicle",
    "tandem/machines/omni/commands.py",
    "tandem/machines/car/commands/vehicle.py",
    "tandem/machines/car/studies/steering",
    "tandem/machines/car/commands/steering.py",
    "tandem/machines/car/doctor/feel.py",
    "tandem/machines/car/doctor/pedals.py",
)
Allowed = Mapping[str, tuple[str, str]]  # a file or a folder: the words, and why they stand there
ALLOWED: Allowed = {
    "daq_service/devices/virtual_driver.py": ("*", "the driver of the emulated car"),
    "daq_service/devices/sdl.py": ("steering", "a constant of SDL"),
    "daq_service/devices/gamepad.py": ("pedal pedals", "an axis from released to pressed, of any machine"),
    "daq_service/devices/virtual.py": ("*", "the emulated car's sensors"),
    "daq_service/devices/virtual_settings.py": ("*", "the emulated car's sensors"),
    "sim_service/registry.py": ("buggy", "the table of the machines that tandem ships"),
    "tandem/multibody": ("drive drives driven", "a drive prescribes a coordinate of a mechanism"),
    "sync/record/format_1.py": ("*", "records of before, which were all of cars"),
    "sync/config/renamed.py": ("*", "configurations of before"),
    "tandem/__main__.py": ("drive", "the name of the car's command"),
    "tandem/commands/cli.py": ("steering drive vehicle", "the names of the car's commands"),
    "tandem/console/config_argument.py": ("drive", "configs/drive.toml, with which several commands begin"),
    "tandem/console/shipped_configs.py": ("drive vehicles buggy", "names of shipped configurations, as examples"),
    "tandem/commands/view.py": ("drive", "configs/drive.toml, with which it begins"),
    "tandem/live/figures.py": ("vehicle drive", "where the source's figures are explained"),
    "sim_service/contract/scene.py": ("wheel wheels steer axle pedal", "things to draw, whatever machine has them"),
    "tandem/mechanism/columns.py": ("drive drives", "a drive prescribes a coordinate of a mechanism"),
    "tandem/mechanism/run.py": ("drive drives", "a drive prescribes a coordinate of a mechanism"),
    "tandem/fmu/mechanism.py": ("drive drives driven", "a drive prescribes a coordinate of a mechanism"),
    "tandem/fmu/mechanism_step.py": ("driven", "a drive prescribes a coordinate of a mechanism"),
    "tandem/mechanism/bench/trees.py": ("drives driven", "a drive prescribes a coordinate of a mechanism"),
    "tandem/view/fork.py": ("buggy", "what its figures were measured on"),
    "tandem/view/ground.py": ("road roads", "the package that reads surfaces"),
    "tandem/view/process.py": ("roads", "the package that reads surfaces"),
    "tandem/records/foxglove/scene.py": ("wheel wheels", "things to draw, whatever machine has them"),
    "tandem/view/looks.py": ("wheel wheels", "things to draw, whatever machine has them"),
    "tandem/view/motion.py": ("wheel wheels steer", "things to draw, whatever machine has them"),
    "tandem/view/scene_view.py": ("wheel wheels axle", "things to draw, whatever machine has them"),
}


def words_of(text: str) -> list[str]:
    """The words of a source, also those that a name is put together from."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)]


def found_in(root: Path) -> dict[str, dict[str, int]]:
    """For every file outside the car's own: its words of a car, and the line of the first of each."""
    found: dict[str, dict[str, int]] = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix()
            if within(name, OF_THE_CAR):
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                for word in WORDS.intersection(words_of(line)):
                    found.setdefault(name, {}).setdefault(word, number)
    return found


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


def complaints(root: Path, allowed: Allowed) -> list[str]:
    found = found_in(root)
    permitted = {(place, word) for place, (words, _) in allowed.items() for word in words.split()}
    used = set()
    wrong = []
    for name, there in found.items():
        for word, line in there.items():
            fits = {(place, w) for place, w in permitted if within(name, (place,)) and w in ("*", word)}
            used |= fits
            if not fits:
                wrong.append(f"{name}:{line}: {word}")
    return wrong + [f"{place}: {word} is allowed and does not stand there" for place, word in sorted(permitted - used)]


def test_no_word_of_a_car_stands_outside_its_folders() -> None:
    assert len([file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]) > 200  # they were looked at
    assert all((ROOT / place).exists() for place in OF_THE_CAR)
    assert complaints(ROOT, ALLOWED) == []


@pytest.mark.parametrize(
    "line, word",
    [
        ("x = 1  # of the car\n", "car"),
        ('"""What the Vehicle does."""\n', "vehicle"),
        ("def steering_angle(): pass\n", "steering"),
        ("class FrontWheel: pass\n", "wheel"),
        ("MAX_BRAKE_BAR = 1\n", "brake"),
        ("note = 'a drive goes on'\n", "drive"),
    ],
)
def test_a_word_of_a_car_is_found_wherever_it_stands(tmp_path: Path, line: str, word: str) -> None:
    source(tmp_path, "sync/one.py", f"import os\n{line}")
    assert complaints(tmp_path, {}) == [f"sync/one.py:2: {word}"]
    assert complaints(tmp_path, {"sync/one.py": (word, "a reason")}) == []
    assert complaints(tmp_path, {"sync": (word, "a reason")}) == complaints(tmp_path, {"sync": ("*", "all")}) == []


def test_words_that_only_look_like_it_pass(tmp_path: Path) -> None:
    source(tmp_path, "sync/one.py", "carry, card, driver, wheeled, broad, retire, attire = 1, 2, 3, 4, 5, 6, 7\n")
    source(tmp_path, "tandem/machines/car/studies/iso/two.py", "car = 1\n")
    source(tmp_path, "tandem/machines/car/three.py", "car = 1\n")
    assert complaints(tmp_path, {}) == []


def test_what_is_allowed_and_no_longer_needed_is_found(tmp_path: Path) -> None:
    source(tmp_path, "sync/one.py", "car = 1\n")
    allowed = {"sync/one.py": ("car road", "a reason"), "sync/gone.py": ("*", "a reason")}
    assert complaints(tmp_path, allowed) == [
        "sync/gone.py: * is allowed and does not stand there",
        "sync/one.py: road is allowed and does not stand there",
    ]


def source(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
