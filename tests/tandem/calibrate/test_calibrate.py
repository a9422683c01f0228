"""Calibration: what is captured was held still; what is written gives back what was asked for; or nothing is."""

import itertools
import os
import shutil
import sys
import tomllib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from daq_service.devices import DEVICES
from sync.config.config import Config, load
from sync.config.toml import Section
from sync.errors import ConfigError
from sync.ring.block import EPOCH, PUSHED, SEQ, T
from sync.ring.ring import RingReader, RingWriter, push
from sync.virtual_clock import virtual_clock
from tandem.calibrate import fragment
from tandem.calibrate.dialogue import Dialogue, Quit, live_line
from tandem.calibrate.person import Screen
from tandem.calibrate.readings import Again, Captured, Readings
from tandem.calibrate.values import Calibration, calibratable
from tandem.commands.cli import app
from tandem.console.shipped_configs import find_config
from tests.sync.strategies import PROPERTY

ROOT = Path(__file__).resolve().parents[3]
DRIVE = ROOT / "configs" / "drive.toml"
MS = 1_000_000
ROWS = calibratable(load(DRIVE).inputs)
_number = itertools.count()
counts = st.floats(-30_000, 30_000)
far = st.floats(20.5, 30_000)


# ---- the values ------------------------------------------------------------------------------------------------------


def captured(at: float, epoch: int = 7) -> Captured:
    return Captured(at, 1.0, 500, epoch)


@given(zero=counts, travel=far, sign=st.sampled_from((1, -1)), amount=st.floats(1, 1500), write=st.booleans())
@PROPERTY
def test_what_was_captured_converts_to_what_was_asked_for(
    zero: float, travel: float, sign: int, amount: float, write: bool
) -> None:
    found = Calibration(ROWS, frozenset({"steering"}), write)
    for channel, asked in (("steering", amount), ("throttle", 1.0), ("brake", amount)):
        found.zero[channel], found.full[channel] = captured(zero), captured(zero + sign * travel)
        found.amount[channel] = asked
    for channel, full in (("steering", amount), ("throttle", 100.0), ("brake", amount)):
        assert found.convert(channel, zero) == pytest.approx(0, abs=1e-9)
        assert found.convert(channel, zero + sign * travel) == pytest.approx(full)
    written = found.settings()
    for name, settings in written.items():
        assert type(ROWS[name]).model_validate({**ROWS[name].model_dump(), **settings})
    assert written["steering"]["sign"] == sign
    assert written["steering"]["per_count"] * travel == pytest.approx(amount)
    assert written["throttle"]["full_counts"] == written["brake"]["full_counts"] == pytest.approx(sign * travel)
    assert written["brake"]["full"] == amount and written["brake"]["zero_counts"] == zero
    assert written["steering"]["zero_counts"] == (zero if write else 0.0)  # an encoder's
    # and read back from the fragment, to the digits that count
    for value in (value for settings in written.values() for value in settings.values()):
        assert tomllib.loads(f"v = {fragment.number(value)}")["v"] == pytest.approx(value, rel=1e-7, abs=1e-300)


# ---- the readings ----------------------------------------------------------------------------------------------------


class Car:
    """A ring as the DAQ makes it, whose last second is as it is told."""

    def __init__(self, settings: tuple[str, ...] = (), held: bool = False, file: Path = DRIVE):
        config = load(file, [f"name=calibrate_test_{os.getpid()}_{next(_number)}", *settings])
        if held:
            data = config.model_dump()
            data["daq"]["channels"].append({"name": "brake_age_us", "type": "u4", "unit": "us"})
            config = Config.model_validate(data)
        self.config = config
        self.writer = RingWriter(config.ring("daq"), config.daq.layout, config.daq.ring_blocks)
        self.reader = RingReader(config.ring("daq"))
        self._clock = virtual_clock()
        self.readings = Readings(config, self.reader, self._clock.now_ns)
        self._last: dict[str, Any] = {}

    def hold(self, blocks: int = 1100, ago_ns: int = 0, gap: bool = False, **values: Any) -> None:
        """Channels that are not named stay as they were; a value may be an array, one a block."""
        self._last.update(values)
        words = np.zeros((blocks, self.config.daq.layout.words), np.int64)
        view = self.config.daq.layout.view(words)
        for name, value in self._last.items():
            view[name] = value
        if gap:
            self.writer.bump_epoch()
        words[:, SEQ] = self.writer.head + np.arange(blocks)
        words[:, EPOCH] = self.writer.epoch
        self._clock.sleep_until(self._clock.now_ns() + blocks * self.config.period_ns)
        words[:, T] = self._clock.now_ns() - ago_ns - self.config.period_ns * np.arange(blocks)[::-1]
        words[:, PUSHED] = words[:, T]
        for block in words:
            push(self.writer.words, block)
        self.readings.poll()

    def capture(self, channel: str, since: Captured | None = None) -> Captured:
        return self.readings.capture([channel], 400.0, since)

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


@pytest.fixture
def car() -> Iterator[Callable[..., Car]]:
    made: list[Car] = []

    def make(*settings: str, held: bool = False, file: Path = DRIVE) -> Car:
        made.append(Car(settings, held, file))
        return made[-1]

    yield make
    for one in made:
        one.close()


def refusal(one: Car, channel: str, since: Captured | None = None) -> str:
    with pytest.raises(Again) as caught:
        one.capture(channel, since)
    return str(caught.value)


def test_a_lever_held_still_is_captured_with_its_noise(car: Callable[..., Car]) -> None:
    one, random = car(), np.random.default_rng(1)
    for noise in (0.0, 4.0, 60.0):
        one.hold(brake=np.rint(1000 + noise * random.standard_normal(1100)))
        found = one.capture("brake")
        assert found.counts == pytest.approx(1000, abs=0.2 * noise + 1e-9)
        assert found.blocks == 500 and found.end is None
    assert one.readings.rate_hz == pytest.approx(1000, rel=1e-3)
    assert one.readings.age_ns == 0


@pytest.mark.parametrize(
    "motion",
    [
        np.linspace(0, 100, 1100),
        40 * np.sin(np.arange(1100) / 30),
        np.where(np.arange(1100) < 900, 0, 30),
        np.linspace(0, 40, 1100) + 2 * np.random.default_rng(1).standard_normal(1100),
    ],
    ids=["ramp", "shaking", "step", "ramp in noise"],
)
def test_what_moves_is_not_captured(car: Callable[..., Car], motion: np.ndarray) -> None:
    one = car()
    one.hold(throttle=np.rint(motion))
    assert "it moves" in refusal(one, "throttle")
    one.hold(throttle=100)
    assert one.capture("throttle").counts == 100


def test_a_travel_too_small_is_refused(car: Callable[..., Car]) -> None:
    one = car()
    for travel, enough in ((0, False), (19, False), (-19, False), (21, True), (-21, True)):
        one.hold(steering=500 + travel)
        if enough:
            assert one.capture("steering", captured(500)).counts == 500 + travel
        else:
            assert "at least 20" in refusal(one, "steering", captured(500))


def test_silence_is_said(car: Callable[..., Car]) -> None:
    one = car()
    assert "no block has come yet" in refusal(one, "brake")
    assert live_line(one.readings, Calibration(ROWS, frozenset())) == "no block yet"
    one.hold(ago_ns=2_000 * MS)
    assert "no block for 2.0 s" in refusal(one, "brake")
    assert "no blocks" in live_line(one.readings, Calibration(ROWS, frozenset()))
    one.hold()
    assert one.capture("brake").counts == 0
    one.hold(blocks=100, gap=True)
    assert "gaps" in refusal(one, "brake")


def test_a_value_that_nobody_sends_any_more_is_no_reading(car: Callable[..., Car]) -> None:
    one = car(held=True)
    one.hold(brake=100, brake_age_us=9_000)
    assert one.capture("brake").counts == 100
    one.hold(brake_age_us=2_500_000)
    assert "2.5 s old" in refusal(one, "brake")
    assert one.capture("throttle").counts == 0


def test_the_end_of_a_range_is_noticed(car: Callable[..., Car]) -> None:
    one = car()
    for value, end in ((32767, 32767), (-32768, -32768), (0, None), (32766, None)):
        one.hold(brake=value)
        assert one.capture("brake").end == end


def test_slow_blocks_and_small_rings_are_enough(car: Callable[..., Car]) -> None:
    slow = car("daq.rate_hz=5", "sim.stale_after_ms=1000")
    slow.hold(blocks=20, steering=33)
    assert slow.capture("steering").counts == 33
    small = car("daq.ring_blocks=16")
    small.hold(steering=44)
    assert small.capture("steering").counts == 44


# ---- the dialogue ----------------------------------------------------------------------------------------------------


class Person:
    """Answers line by line; before an answer the levers may be moved."""

    at_once = False

    def __init__(self, one: Car, *script: str | tuple[dict[str, Any], str]):
        self._car, self.script = one, list(script)

    def typed(self, wait_s: float) -> str:
        moved = self.script.pop(0)
        values, answer = ({}, moved) if isinstance(moved, str) else moved
        self._car.hold(**values)
        return answer + "\n"


def talk(one: Car, *script: str | tuple[dict[str, Any], str], channels: tuple[str, ...], **known: Any) -> Calibration:
    found = Calibration(calibratable(one.config.inputs), frozenset({"steering", "throttle"}))
    person, doubts = Person(one, *script), known.get("doubts", lambda: 0)
    Dialogue(one.readings, found, channels, person, Screen(), lambda: None, doubts).run()  # type: ignore[arg-type]
    assert person.script == []
    return found


ALL = ("steering", "throttle", "brake")
STRAIGHT, LEFT = ({"steering": 12}, ""), ({"steering": -488}, "")


def test_a_person_is_led_through_all_channels(car: Callable[..., Car]) -> None:
    found = talk(
        car(), STRAIGHT, "45", LEFT,
        ({"throttle": 30}, ""), ({"throttle": -370}, ""),
        ({"brake": 100}, ""), "20 bar", ({"brake": 8100}, ""),
        "", channels=ALL,
    )  # fmt: skip
    assert found.settings() == {
        "steering": {"per_count": 45 / 500, "sign": -1, "zero_counts": 0.0},
        "throttle": {"full_counts": -400.0, "zero_counts": 0.0},
        "brake": {"full_counts": 8000.0, "zero_counts": 100.0, "full": 20.0},
    }  # fmt: skip


def test_defaults_stops_and_zeros_of_encoders_can_be_asked_for(car: Callable[..., Car]) -> None:
    found = talk(car(), STRAIGHT, "lock 900", LEFT, "z", "", channels=("steering",))
    assert found.settings() == {
        "steering": {"per_count": 0.9, "sign": -1, "zero_counts": 12.0}
    }  # fmt: skip
    found = talk(car(), STRAIGHT, "", LEFT, "z", "z", "", channels=("steering",))
    assert (found.amount["steering"], found.settings()["steering"]["zero_counts"]) == (90.0, 0.0)
    found = talk(car(), ({"brake": 0}, ""), "", ({"brake": 300}, ""), "", channels=("brake",))
    assert found.settings()["brake"]["full"] == 40.0


def test_what_cannot_be_is_asked_again(car: Callable[..., Car], capsys: pytest.CaptureFixture[str]) -> None:
    moving = ({"steering": np.arange(1100)}, "")
    found = talk(
        car(), moving, "x", STRAIGHT, "-90", "left", "nan", "90", ({"steering": 13}, ""), LEFT,
        ({"brake": 0}, ""), "40", ({"brake": 32767}, ""), "", "?", "", channels=("steering", "brake"),
    )  # fmt: skip
    assert (found.zero["steering"].counts, found.full["steering"].counts) == (12, -488)
    assert found.full["brake"].counts == 32767  # at its stop, the person says
    said = capsys.readouterr().err
    for part in ("it moves", "not one of the keys", "a number above 0", "at least 20", "the end of its range"):
        assert part in said


def test_steps_are_repeated_and_channels_skipped(car: Callable[..., Car]) -> None:
    found = talk(
        car(), STRAIGHT, "r", ({"steering": 20}, ""), "90", LEFT,
        "r", ({"steering": 520}, ""),  # the left once more
        ({"throttle": 0}, ""), "s", "r", ({"throttle": 5}, ""), ({"throttle": 305}, ""),
        "s", "",
        channels=ALL,
    )  # fmt: skip
    assert (found.zero["steering"].counts, found.full["steering"].counts) == (20, 520)
    assert found.settings()["throttle"]["full_counts"] == 300
    assert found.done == ["steering", "throttle"]
    assert "brake" not in found.settings()


@pytest.mark.parametrize("script", [("q",), (STRAIGHT, "q"), (STRAIGHT, "", LEFT, "q"), ("s",)])
def test_quitting_is_possible_at_any_time(car: Callable[..., Car], script: tuple[Any, ...]) -> None:
    with pytest.raises(Quit):
        talk(car(), *script, channels=("steering",))


def test_counts_of_an_encoder_across_a_gap_do_not_belong_together(car: Callable[..., Car]) -> None:
    gap = ({"steering": 5000, "gap": True}, "")
    found = talk(car(), STRAIGHT, "", gap, STRAIGHT, "", LEFT, "", channels=("steering",))
    assert found.full["steering"].counts == -488
    doubts = iter([0, 1, 1, 1])
    again = (STRAIGHT, "", LEFT, STRAIGHT, "", LEFT, "")
    assert talk(car(), *again, channels=("steering",), doubts=lambda: next(doubts)).done == ["steering"]
    # a potentiometer is where it is
    pressed = ({"brake": 5000, "gap": True}, "")
    assert talk(car(), ({"brake": 0}, ""), "", pressed, "", channels=("brake",)).travel("brake") == 5000


def test_a_pair_of_hall_sensors_and_a_voice_coil_are_calibrated(
    car: Callable[..., Car], capsys: pytest.CaptureFixture[str]
) -> None:
    """k and o by two places of a known distance, kappa by what the coil reads on the way, integrated."""
    one = car("daq.rate_hz=1000.0", file=ROOT / "configs" / "piano_instrument.toml")
    volts = one.config.inputs["coil"].volts_per_count
    rest, down = {"front": 10_000, "rear": 20_000, "coil": 7}, {"front": 21_000, "rear": 12_000, "coil": 7}
    stroke = np.full(1100, 7)
    stroke[100:300] += 1000  # 0.2 s at 150 mV
    found = talk(
        one, (rest, ""), "0.0095", (down, ""),
        (rest, ""), "0", "0.0095 m", ({"gap": True, **down}, ""),
        (rest, ""), "0.0095", ({**down, "coil": stroke}, ""), "",
        channels=("hall", "coil"),
    )  # fmt: skip
    made = found.settings()
    assert found.convert("hall", (10_000**2 - 20_000**2) / 2**15) == pytest.approx(0.0, abs=1e-12)
    k, o = made["hall"]["gain"], made["hall"]["offset"]
    squares = [(volts * rest["front"]) ** 2 - (volts * rest["rear"]) ** 2]
    squares.append((volts * down["front"]) ** 2 - (volts * down["rear"]) ** 2)
    assert [k * s + o for s in squares] == pytest.approx([0.0, 0.0095], abs=1e-12)
    assert made["coil"] == {"zero_counts": 7.0, "kappa_v_s_per_m": pytest.approx(1000 * volts * 0.2 / 0.0095)}
    said = capsys.readouterr().err
    assert "gap" in said


# ---- the fragment ----------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "car.toml"
    path.write_text(DRIVE.read_text())
    return path


def throttle(full: float = 321.0) -> Calibration:
    found = Calibration(ROWS, frozenset({"throttle"}))
    found.zero["throttle"], found.full["throttle"] = captured(5), captured(5 + full)
    return found


def written(file: Path, out: Path, found: Calibration, force: bool = False) -> None:
    config = load(file)
    ends = {"throttle zero": "released", "throttle full": "fully\npressed"}
    fragment.write(fragment.text(found, config, file, out, "2026-01-01", ends), config, file, [], out, force)


def test_a_fragment_says_what_it_is_and_the_configuration_reads_it(file: Path) -> None:
    out = fragment.default_place(file)
    written(file, out, throttle())
    assert out == file.with_name("car_calibration.toml")
    text = out.read_text()
    for part in (
        'include = ["car_calibration.toml"]',
        "2026-01-01",
        str(file),
        "virtual",
        "326.00",
        "5.0 was captured",
    ):
        assert part in text
    assert tomllib.loads(text) == {"inputs": {"throttle": {"full_counts": 321.0, "zero_counts": 0.0}}}
    file.write_text(file.read_text().replace("include = []", 'include = ["car_calibration.toml"]'))
    assert load(file).inputs["throttle"].full_counts == 321.0
    assert fragment.include(load(file), file, out) == ["car_calibration.toml"]
    assert fragment.include(load(file), file, Path("/elsewhere/x.toml"))[1:] == ["/elsewhere/x.toml"]


def test_a_fragment_replaces_nothing_unasked(file: Path) -> None:
    out = fragment.default_place(file)
    written(file, out, throttle())
    with pytest.raises(ConfigError, match="--force"):
        fragment.check_place(out, False)
    with pytest.raises(ConfigError, match="--force"):
        written(file, out, throttle(99.0))
    assert "321" in out.read_text()
    written(file, out, throttle(99.0), force=True)
    assert "99" in out.read_text()
    assert sorted(p.name for p in file.parent.iterdir()) == ["car.toml", "car_calibration.toml"]


def test_a_fragment_that_its_configuration_refuses_is_not_written(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"inputs\.throttle\.full_counts"):
        written(file, fragment.default_place(file), throttle(0.0))
    assert [p.name for p in file.parent.iterdir()] == ["car.toml"]


def test_a_source_that_knows_better_is_heard(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = fragment.default_place(file)
    written(file, out, throttle())
    shutil.copytree(DRIVE.parent / "manoeuvres", file.parent / "manoeuvres")
    assert fragment.objection(load(file), file, [], out) is None

    class Knowing(types.ModuleType):
        class Settings(Section):
            kind: str
            manoeuvre: str

        @staticmethod
        def open_device(config: Config, *_: Any) -> None:
            raise ConfigError(f"full_counts = {config.inputs['throttle'].full_counts:g}: I have 300")

    monkeypatch.setitem(sys.modules, DEVICES["virtual"], Knowing("virtual"))
    assert fragment.objection(load(file), file, [], out) == "full_counts = 321: I have 300"


@pytest.mark.parametrize("place", ["", "nowhere/x.toml"])
def test_a_place_that_cannot_be_is_said_before_anything_moves(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError, match="--out"):
        fragment.check_place(tmp_path / place, True)


# ---- the command -----------------------------------------------------------------------------------------------------


def test_a_configuration_is_found_by_its_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config(Path("drive")) == DRIVE
    assert find_config(DRIVE) == DRIVE
    with pytest.raises(ConfigError, match=r"no_such_car: neither a file nor .*drive"):
        find_config(Path("no_such_car"))


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["no_such_car"], "neither a file nor"),
        (["no/such.toml"], "no such file"),
        (["drive", "--row", "clutch"], "--row clutch: must be one of steering, throttle, brake"),
        (["drive", "--out", "/"], "--out"),
        (["drive", "--show", "--set", "daq.rat_hz=1"], "did you mean rate_hz?"),
    ],
)
def test_a_wrong_question_is_refused_before_anything_starts(arguments: list[str], said: str, tmp_path: Path) -> None:
    place = [] if "--show" in arguments else ["--out", str(tmp_path / "x.toml")]  # with --show nothing is written
    done = CliRunner().invoke(app, ["calibrate", *place, *arguments])
    assert done.exit_code == 2
    assert said in done.output
    assert list(tmp_path.iterdir()) == []
