"""A wheel through SDL: axes by a real virtual joystick of SDL; the motor by a double of SDL's haptic calls."""

import re
import signal
import sys
from collections.abc import Callable, Iterator
from ctypes import pointer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daq_service.devices import gamepad, open_device, require
from daq_service.devices import sdl as joysticks
from daq_service.devices.contract import Host
from daq_service.devices.gamepad import Centred, GamepadDevice, Pedal
from daq_service.devices.sdl import MOST, devices, watch
from sync.config.extras import install_extra
from sync.errors import ConfigError, DeviceError
from sync.virtual_clock import virtual_clock
from tests.daq_service.virtual_wheel import (
    BRAKE,
    GAMEPAD,
    HIGHEST,
    LOWEST,
    STEERING,
    THROTTLE,
    VirtualWheel,
    gamepad_config,
    need_sdl,
    unplug_lasting,
)

MS = 1_000_000
PATIENCE_NS = 60_000 * MS  # of virtual time
FORCE = "source.effort={channel='steering_torque', gain=0.1, limit=0.5, slew=10.0}"
RELEASED = {THROTTLE: HIGHEST, BRAKE: HIGHEST}

RAW = st.integers(LOWEST, HIGHEST)
ZONES = st.floats(0, 0.5)


# ---- conversion ------------------------------------------------------------------------------------------------------


@given(st.booleans(), ZONES, st.lists(RAW, min_size=2))
def test_a_wheel_counts_from_lock_to_lock_with_a_dead_middle(invert: bool, zone: float, raw: list[int]) -> None:
    wheel = Centred(kind="centred", axis=0, invert=invert, dead_zone=zone)
    counts = [wheel.counts(r) for r in sorted(raw, reverse=invert)]
    assert counts == sorted(counts)
    assert all(abs(c) <= MOST for c in counts)
    assert [wheel.counts(r) for r in (LOWEST, 0, HIGHEST)] == ([MOST, 0, -MOST] if invert else [-MOST, 0, MOST])
    for r in raw:
        assert wheel.counts(max(-r, LOWEST + 1)) == -wheel.counts(max(r, LOWEST + 1)) or r == LOWEST
        assert (wheel.counts(r) == 0) >= (abs(r) < zone * MOST - 1)


@given(st.booleans(), st.sampled_from([None, "positive", "negative"]), ZONES, st.lists(RAW, min_size=2))
def test_a_pedal_counts_from_rest_to_full_with_a_dead_rest(
    invert: bool, half: str | None, zone: float, raw: list[int]
) -> None:
    pedal = Pedal(kind="pedal", axis=0, invert=invert, half=half, dead_zone=zone)  # type: ignore[arg-type]
    down = invert != (half == "negative")  # it is pressed where the axis falls
    counts = [pedal.counts(r) for r in sorted(raw, reverse=down)]
    assert counts == sorted(counts)
    assert all(0 <= c <= MOST for c in counts)
    assert pedal.counts(LOWEST if down else HIGHEST) == MOST
    assert pedal.counts(0 if half else HIGHEST if down else LOWEST) == 0


@given(RAW, st.booleans())
def test_of_two_pedals_on_one_axis_only_one_is_pressed(raw: int, invert: bool) -> None:
    one, other = (Pedal(kind="pedal", axis=1, invert=invert, half=h, dead_zone=0.0) for h in ("positive", "negative"))
    assert min(one.counts(raw), other.counts(raw)) == 0
    assert max(one.counts(raw), other.counts(raw)) in (abs(raw), abs(raw) - 1)


# ---- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "override, said",
    [
        ("source.axes.brake.axis=0", r"source.axes: steering and brake share axis 0: both must be pedals"),
        ("source.axes.brake.axis=2", r"throttle and brake share axis 2: .* one with half = 'positive'"),
        ("source.axes.clutch={kind='pedal', axis=4}", r"axes.clutch: is no channel; daq.channels has brake, throttle"),
        ("source.axes.brake={axis=3, invert=true}", r"source.axes: brake.kind is missing: must be 'centred', .* or 'p"),
        ("source.axes.brake.kind='slider'", r"source.axes: brake.kind = 'slider': must be 'centred'"),
        ("source.axes.steering.half='positive'", r"source.axes.steering.half = 'positive': unknown key"),
        ("source.device=-1", r"source.device = -1: must be part of a name, a GUID or the number"),
        ("source.effort={channel='a', gain=1.0, limit=1.5, slew=1.0}", r"effort.limit = 1.5: is a share of the full"),
        ("source.steering_range_deg=540.0", r"steering_range_deg = 540.0: unknown key"),
        ("daq.channels=[{name='brake', type='i2'}, {name='throttle', type='i2'}, {name='steering', type='u2'}]",
         r"steering.type = 'u2': must be 'i2' or 'i4'"),
        ("daq.channels=[{name='brake', type='i2'}, {name='throttle', type='i2', counter_bits=16},"
         " {name='steering', type='i4'}]", r"throttle.counter_bits = 16: an axis is no counter"),
        ("daq.channels=[{name='brake', type='i2'}, {name='throttle', type='i2'}, {name='steering', type='i4'},"
         " {name='clutch', type='i2'}]", r"clutch: has no axis; give \[source.axes.clutch\]"),
    ],
)  # fmt: skip
def test_wrong_settings_are_said_before_anything_is_opened(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_device(gamepad_config(override), GAMEPAD)


def test_without_sdl_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    joysticks.load.cache_clear()
    monkeypatch.setitem(sys.modules, "sdl2", None)
    try:
        with pytest.raises(DeviceError, match=re.escape(install_extra("gamepad"))):
            require(gamepad_config(), GAMEPAD)
    finally:
        joysticks.load.cache_clear()


# ---- a virtual joystick ----------------------------------------------------------------------------------------------


@pytest.fixture
def plugged() -> Iterator[Callable[..., VirtualWheel]]:
    unplug_lasting()
    made: list[VirtualWheel] = []

    def plug(*args: Any, **kwargs: Any) -> VirtualWheel:
        made.append(VirtualWheel(*args, **kwargs))
        return made[-1]

    need_sdl()
    yield plug
    for wheel in made:
        wheel.close()


class Seat:
    """The source, what it says, and the columns it fills by name."""

    def __init__(self, *overrides: str):
        config = gamepad_config(*overrides)
        self.rows: Any = config.inputs
        self.said: list[str] = []
        self.last_ns = 0  # instant of the newest scan
        self.clock = virtual_clock(read_ns=100)
        source = open_device(config, GAMEPAD, Host(say=self.said.append, clock=self.clock))
        assert isinstance(source, GamepadDevice)
        self.source = source
        self._names = config.daq.layout.names
        self._scans = np.zeros((4096, len(self._names)), np.int64)
        self._t_ns = np.zeros(4096, np.int64)

    def read(self, wait_ms: int = 20) -> tuple[dict[str, np.ndarray], np.ndarray, int]:
        count, lost = self.source.read(self._scans, self._t_ns, wait_ms * MS)
        columns = dict(zip(self._names, self._scans[:count].T.copy(), strict=True))
        self.last_ns = int(self._t_ns[count - 1]) if count else self.last_ns
        return columns, self._t_ns[:count].copy(), lost

    def latest(self) -> dict[str, int]:
        """A scan of after the next look at the device: with all that was done to it before."""
        polls = self.source.counts()["polls"] + 2  # one may be under way
        self.until(lambda: self.source.counts()["polls"] >= polls)
        noticed_ns = self.clock.now_ns()
        last: dict[str, int] = {}
        while not last or self.last_ns <= noticed_ns:
            assert self.clock.now_ns() < noticed_ns + PATIENCE_NS, self.said
            columns, t_ns, _ = self.read()
            if len(t_ns):
                last = {name: int(column[-1]) for name, column in columns.items()}
        return last

    def until(self, done: Callable[[], bool]) -> None:
        end = self.clock.now_ns() + PATIENCE_NS
        while not done():
            assert self.clock.now_ns() < end, self.said
            self.read()


@pytest.fixture
def seat() -> Iterator[Callable[..., Seat]]:
    made: list[Seat] = []

    def take(*overrides: str) -> Seat:
        made.append(Seat(*overrides))
        made[-1].source.find()
        made[-1].source.start()
        return made[-1]

    yield take
    for one in made:
        one.source.stop()


def test_the_shipped_calibration_fits_the_counts(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    wheel = plugged(at=RELEASED)
    driver = seat()
    assert {k: v for k, v in driver.latest().items() if not k.endswith("_us")} == dict.fromkeys(
        ("brake", "throttle", "steering"), 0
    )
    s, t, b = (driver.rows[name] for name in ("steering", "throttle", "brake"))
    for steering, throttle, brake in ((LOWEST, LOWEST, HIGHEST), (HIGHEST, HIGHEST, LOWEST), (0, -1, 1)):
        wheel.move({STEERING: steering, THROTTLE: throttle, BRAKE: brake})
        got = driver.latest()
        # a wheel turned to the left (down, for a joystick) is a positive angle
        angle = (got["steering"] - s.zero_counts) * s.per_count * s.sign
        assert angle == pytest.approx(-450 * steering / 32768, abs=0.1)
        assert got["throttle"] / t.full_counts == pytest.approx((HIGHEST - throttle) / 65535, abs=0.011)
        assert got["brake"] / b.full_counts == pytest.approx((HIGHEST - brake) / 65535, abs=0.011)
    assert driver.source.counts() | {"polls": 0} == {"polls": 0, "unplugged": 0, "unmoved": 0}


def test_a_scan_has_what_was_read_before_its_instant(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    wheel = plugged(at=RELEASED)
    driver = seat()
    driver.latest()
    for place in range(1, 100):
        moved_ns, last = driver.clock.now_ns(), 0
        wheel.move({STEERING: place})
        while last != place:
            assert driver.clock.now_ns() < moved_ns + PATIENCE_NS
            columns, t_ns, lost = driver.read()
            assert lost == 0
            for value, age_us, t in zip(columns["steering"], columns["steering_age_us"], t_ns, strict=True):
                assert value in (place - 1, place)
                assert value < place or moved_ns <= t - age_us * 1000
                last = int(value)


def test_what_rests_is_confirmed(plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]) -> None:
    plugged(at=RELEASED)
    driver = seat()
    ages: list[int] = []
    end = driver.clock.now_ns() + PATIENCE_NS
    while np.count_nonzero(np.diff(ages) < 0) < 5:  # it gets older from scan to scan, and is as good as new again
        assert driver.clock.now_ns() < end
        ages += driver.read()[0]["steering_age_us"].tolist()


def test_any_channel_may_be_an_axis(plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]) -> None:
    """One handle, of a machine that is no car, with its age."""
    wheel = plugged()
    channels = "[{name='handle', type='i4'}, {name='handle_age_us', type='u4', unit='us'}]"
    row = "{kind='encoder', channel='handle', per_count=1e-6, unit='m', to=[]}"
    handle = seat(
        f"daq.channels={channels}", f"inputs={{handle={row}}}",
        "source.axes={handle={kind='centred', axis=1, invert=true}}",
    )  # fmt: skip
    assert handle.latest()["handle"] == 0
    wheel.move({1: 1000})
    got = handle.latest()
    assert got["handle"] == -1000 and 0 <= got["handle_age_us"] <= 11_000


def test_what_has_not_moved_yet_is_no_full_throttle(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    """A wheel that has told nothing reads as zeros or as ends of the range, whichever they are."""
    wheel = plugged(at={STEERING: LOWEST, THROTTLE: LOWEST, BRAKE: 0})
    driver = seat()
    got = driver.latest()
    assert (got["steering"], got["throttle"], got["brake"]) == (0, 0, 0)
    assert driver.source.counts()["unmoved"] == 3
    wheel.move({STEERING: 5000, **RELEASED})
    got = driver.latest()
    assert (got["steering"], got["throttle"], got["brake"]) == (5000, 0, 0)
    # once it has moved, the same place is meant
    wheel.move({STEERING: LOWEST, THROTTLE: LOWEST, BRAKE: LOWEST})
    got = driver.latest()
    assert (got["steering"], got["throttle"], got["brake"]) == (-MOST, MOST, MOST)
    assert driver.source.counts()["unmoved"] == 0


def test_a_wheel_at_rest_that_is_turned_a_little_is_believed(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    plugged(at={STEERING: 1234, **RELEASED})
    assert seat().latest()["steering"] == 1234


def test_an_unplugged_wheel_is_a_gap_and_only_the_same_one_ends_it(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    wheel = plugged("First wheel", 1, RELEASED)
    driver = seat()
    wheel.move({STEERING: 1000})
    assert driver.latest()["steering"] == 1000
    wheel.unplug()
    plugged("Other wheel", 2, RELEASED).move({STEERING: -77})
    end = driver.clock.now_ns() + PATIENCE_NS
    while not driver.said or driver.clock.now_ns() < driver.last_ns + 400 * MS:
        assert driver.clock.now_ns() < end
        columns, t_ns, lost = driver.read(5)
        assert lost == 0
        assert set(columns["steering"].tolist()) <= {1000}
    last = driver.last_ns
    assert driver.said == ["First wheel is unplugged; looking for it"]
    wheel.plug({STEERING: 500, **RELEASED})
    while not len(t_ns):
        assert driver.clock.now_ns() < end
        columns, t_ns, lost = driver.read()
    assert set(columns["steering"].tolist()) == {500}
    # as many were lost as the time that passed had room for
    assert lost * MS + MS == t_ns[0] - last and lost > 200
    assert driver.said[1:] == ["First wheel is there"]
    assert driver.source.counts()["unplugged"] == 1


def test_one_that_is_not_there_at_the_start_is_taken_when_it_comes(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    wheel = plugged(at=RELEASED)
    driver = seat()
    driver.source.stop()
    wheel.unplug()
    driver.source.start()
    assert len(driver.read(5)[1]) == 0
    assert driver.said == ["Virtual wheel is not there; looking for it"]
    wheel.plug({STEERING: 321, **RELEASED})
    assert driver.latest()["steering"] == 321


def test_a_joystick_is_meant_by_number_guid_or_part_of_its_name(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    for product in (1, 2, 3):
        plugged(f"Wheel number {product}", product, {STEERING: product, **RELEASED})
    there = devices()
    assert [d.name for d in there] == [f"Wheel number {p}" for p in (1, 2, 3)]
    assert len({d.guid for d in there}) == 3 and {(d.axes, d.haptic) for d in there} == {(4, False)}
    for setting, product in (("''", 1), ("'NUMBER 3'", 3), (f"'{there[1].guid.upper()}'", 2), ("2", 3)):
        assert seat(f"source.device={setting}").latest()["steering"] == product


def test_numbers_of_axes_are_found_by_moving_them(
    plugged: Callable[..., VirtualWheel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock of our own: the wheel is moved while the watcher rests for the third time."""
    said: list[str] = []
    watch(said.append, 0.0)
    assert "no joystick is there" in said.pop()
    wheel = plugged(at=RELEASED)
    rests: list[int] = []

    def rest(until_ns: int) -> None:
        rests.append(until_ns)
        if len(rests) == 3:
            wheel.move({BRAKE: LOWEST, STEERING: 100})

    monkeypatch.setattr("sync.clock.now_ns", lambda: rests[-1] if rests else 0)
    monkeypatch.setattr("sync.clock.sleep_until", rest)
    watch(said.append, 0.5)
    assert rests[-1] >= 500 * MS
    assert said == [str(devices()[0]), "0: axis 3 is at -32768"]


def test_what_is_missing_is_said_with_what_is_there(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]
) -> None:
    with pytest.raises(DeviceError, match=r"no joystick is there"):
        seat()
    plugged("Small wheel", axes=3)
    with pytest.raises(DeviceError, match=r"source.axes.brake.axis = 3: Small wheel has 3 axes.*axes 0 to 2, no force"):
        seat()
    with pytest.raises(
        DeviceError, match=r"source.device = 'G29': is not there; there is 0: Small wheel \(GUID [0-9a-f]"
    ):
        seat("source.device='G29'")
    with pytest.raises(DeviceError, match=r"source.device = 7: is not there"):
        seat("source.device=7")


@pytest.mark.parametrize(
    "readable, said",
    [(0, "group input"), (1, "is the device plugged in, has it power"), (None, "nor any /dev/input")],
)
def test_without_a_joystick_it_is_said_what_to_check(
    readable: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joysticks.glob, "glob", lambda _: [] if readable is None else ["/dev/input/event0"])
    monkeypatch.setattr(joysticks.os, "access", lambda *_: bool(readable))
    assert said in joysticks.none_there()


def test_signals_stay_ours(plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat]) -> None:
    plugged(at=RELEASED)
    seat().latest()
    caught = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigCgt"))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert not int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


# ---- the motor, against a double of SDL's haptic calls ---------------------------------------------------------------


class Haptics:
    """SDL, but for the calls of force feedback, which are remembered; `able` is what the device says it can."""

    def __init__(self, able: int | None = None, fails: tuple[str, ...] = ()):
        self._sdl = need_sdl()
        s = self._sdl
        self.able = s.SDL_HAPTIC_CONSTANT | s.SDL_HAPTIC_GAIN | s.SDL_HAPTIC_AUTOCENTER if able is None else able
        self.fails = fails
        self.calls: list[tuple[Any, ...]] = []
        self.level: int | None = None  # that the wheel feels; None without an effect
        self.sent: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("SDL_Haptic") or name == "SDL_HapticEffect":
            return getattr(self._sdl, name)
        return lambda *arguments: self._call(name.removeprefix("SDL_Haptic"), arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        plain = tuple(a for a in arguments if isinstance(a, int))
        self.calls.append((name, *plain))
        if name in self.fails:
            return None if name.startswith("Open") else -1
        if name in ("NewEffect", "UpdateEffect"):
            constant = arguments[-1]._obj.constant
            assert (constant.type, constant.direction.type, constant.length) == (1, 3, 2**32 - 1)
            self.sent.append(constant.level)
            if name == "UpdateEffect" and self.level is not None:
                self.level = constant.level
        if name == "RunEffect":
            self.level = self.sent[-1]
        if name in ("StopEffect", "DestroyEffect", "Close"):
            self.level = None
        return {"OpenFromJoystick": pointer(self._sdl.SDL_Haptic(1)), "Query": self.able, "NewEffect": 7}.get(name, 0)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


def test_the_motor_starts_without_force_and_without_a_spring() -> None:
    sdl = Haptics()
    joysticks.Motor(sdl, None)
    assert sdl.calls == [
        ("OpenFromJoystick",), ("Query",), ("SetAutocenter", 0), ("SetGain", 100), ("NewEffect",), ("RunEffect", 7, 1)
    ]  # fmt: skip
    assert sdl.level == 0


@given(st.lists(st.floats(-3, 3)))
def test_a_positive_force_pushes_to_the_right_and_none_is_beyond_full(shares: list[float]) -> None:
    sdl = Haptics()
    motor = joysticks.Motor(sdl, None)
    for share in shares:
        assert motor.put(share)
        # the effect comes from the right, so its positive levels push to the left
        assert sdl.level == -round(min(max(share, -1), 1) * MOST)
    motor.close()
    assert sdl.level is None
    assert sdl.names()[-3:] == ["StopEffect", "DestroyEffect", "Close"]


def test_only_changes_are_sent() -> None:
    sdl = Haptics()
    motor = joysticks.Motor(sdl, None)
    for share in (0.0, 0.0, 0.25, 0.25, 0.25 + 1e-6, -0.25, -0.25, 0.0, 0.0):
        motor.put(share)
    assert sdl.names().count("UpdateEffect") == 3


def test_at_its_end_the_wheel_is_free_and_stays_so() -> None:
    sdl = Haptics()
    motor = joysticks.Motor(sdl, None)
    motor.put(0.5)
    for _ in range(2):
        motor.close()
    assert sdl.names()[-4:] == ["UpdateEffect", "StopEffect", "DestroyEffect", "Close"] and sdl.sent[-1] == 0
    many = len(sdl.calls)
    assert motor.put(0.9) and len(sdl.calls) == many


def test_what_the_wheel_did_not_take_is_sent_again() -> None:
    sdl = Haptics()
    motor = joysticks.Motor(sdl, None)
    sdl.fails = ("UpdateEffect",)
    assert not motor.put(0.5) and not motor.put(0.5)
    sdl.fails = ()
    assert motor.put(0.5) and sdl.level == -round(0.5 * MOST)


@pytest.mark.parametrize(
    "able, fails", [(None, ("OpenFromJoystick",)), (1 << 4, ()), (None, ("NewEffect",)), (None, ("RunEffect",))]
)
def test_a_wheel_that_cannot_is_let_go(able: int | None, fails: tuple[str, ...]) -> None:
    sdl = Haptics(able, fails)
    with pytest.raises(joysticks.NoMotorError):
        joysticks.Motor(sdl, None)
    assert sdl.names()[-1] == ("OpenFromJoystick" if "OpenFromJoystick" in fails else "Close")


def test_a_wheel_without_a_motor_is_refused_by_name_where_a_force_is_asked_for(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SDL's virtual joystick has none. One that has lost it when it comes back goes on without, said once."""
    wheel = plugged(at={STEERING: 7, **RELEASED})
    with pytest.raises(DeviceError, match=r"source\.effort: Virtual wheel gives no force back \(.+\); choose another"):
        seat(FORCE)
    assert seat().source.effort is None
    sdl, motor, fails = Haptics(), joysticks.Motor, ("OpenFromJoystick",)
    monkeypatch.setattr(gamepad, "Motor", lambda _, stick: motor(sdl, stick))
    driver = seat(FORCE)
    driver.source.put(0.3)
    assert driver.source.wants == ("steering_torque",) and sdl.level not in (None, 0)
    sdl.fails = fails
    for _ in range(2):
        wheel.unplug()
        driver.read()
        wheel.plug({STEERING: 7, **RELEASED})
        assert driver.latest()["steering"] == 7
        driver.source.put(0.3)
    assert sdl.level is None and sum("gives no force back" in said for said in driver.said) == 1


def test_force_rises_from_zero_with_every_wheel_that_comes_and_is_gone_at_the_stop(
    plugged: Callable[..., VirtualWheel], seat: Callable[..., Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The motor is a double, the rest is the source on a virtual joystick."""
    sdl = Haptics()
    motor = joysticks.Motor
    monkeypatch.setattr(gamepad, "Motor", lambda _, stick: motor(sdl, stick))
    wheel = plugged(at=RELEASED)
    driver = seat(FORCE)
    for _ in range(2):
        levels = []
        for _ in range(40):  # at 500 a second and a slew of 10 a second: 25 to the limit
            driver.source.put(0.5)
            levels.append(sdl.level)
        steps = -np.diff([0, *levels])
        assert (steps >= 0).all() and steps.max() <= 0.021 * MOST and levels[-1] == -round(0.5 * MOST)
        driver.source.put(-0.1)
        assert sdl.level == round(0.1 * MOST)
        wheel.unplug()
        driver.read()
        assert sdl.level is None
        driver.source.put(0.5)
        assert sdl.level is None
        wheel.plug(RELEASED)
        driver.latest()
        assert sdl.level == 0
    sdl.fails = ("UpdateEffect",)
    for _ in range(100):
        driver.source.put(0.5)
    assert driver.source.counts()["force_refused"] == 100
    assert driver.said.count("Virtual wheel refuses its force") == 1
    sdl.fails = ()
    driver.source.put(0.5)
    assert sdl.level not in (None, 0)
    driver.source.stop()
    assert sdl.level is None
    driver.source.put(0.5)
    assert sdl.level is None
