"""The virtual haptic device: its mechanics against closed forms, its encoder, its actuator. The contract:
test_device_contract.py."""

import math

import numpy as np
import pytest

from daq_service.devices import haptic_plant, open_device
from daq_service.devices.contract import Host
from daq_service.devices.haptic import HapticDevice
from daq_service.devices.haptic_plant import COMMANDED, FORCE, MODE, STICKS, V, X, hand_over
from sync.errors import ConfigError
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import DRIVE, drive_config

MS = 1_000_000


def opened(source: str) -> tuple[HapticDevice, object]:
    clock = virtual_clock(read_ns=0)
    config = drive_config(f"source={{kind='haptic', position='steering', {source}}}")
    device = open_device(config, DRIVE, Host(clock=clock))
    assert isinstance(device, HapticDevice)
    device.start()
    return device, clock


def states(device: HapticDevice, clock: object, scans: int, every_ms: int = 1) -> np.ndarray:
    """The mechanics at so many samples, 1 ms apart, read so many at once."""
    room, t_ns, found = np.zeros((every_ms, 3), np.int64), np.zeros(every_ms, np.int64), []
    for _ in range(scans // every_ms):
        clock.sleep_until(clock.now_ns() + every_ms * MS)  # type: ignore[attr-defined]
        assert device.read(room, t_ns, MS) == (every_ms, 0)
        found.append(device.x.copy())
    return np.array(found)


def test_five_degrees_of_the_default_encoder_are_5461_counts() -> None:
    away = math.radians(5.0) * 0.2286
    device, clock = opened(f"hand={{rigid=true, motion={{points=[[0.0, 0.0], [0.1, {away + 1e-9}]]}}}}")
    scans, t_ns = np.zeros((101, 3), np.int64), np.zeros(101, np.int64)
    clock.sleep_until(clock.now_ns() + 101 * MS)  # type: ignore[attr-defined]
    assert device.read(scans, t_ns, MS) == (101, 0)
    steering = scans[:, 2]
    assert steering[0] == 0 and steering[-1] == 5461 and (np.diff(steering) >= 54).all()


def test_a_finger_that_is_let_go_swings_as_the_closed_form() -> None:
    """Device .3 kg, 2 N s/m with the default finger, whose intended position jumps by a millimetre."""
    device, clock = opened("hand={motion={points=[[0.0, 0.0], [0.005, 0.0], [0.005000001, 0.001]]}}")
    x = states(device, clock, 300)[6:, X]
    t = 1e-3 * np.arange(6, 300) - 0.005
    sigma, omega_2 = 5.75 / 0.32 / 2.0, 257.0 / 0.32
    w = math.sqrt(omega_2 - sigma**2)
    expected = 1e-3 * (1.0 - np.exp(-sigma * t) * (np.cos(w * t) + sigma / w * np.sin(w * t)))
    # the damper feels the jump as well: a rate of a metre in a millisecond, for a microsecond
    expected += 1e-3 * (3.75 / 0.32) / w * np.exp(-sigma * t) * np.sin(w * t)
    assert np.abs(x - expected).max() < 3e-9


def test_an_effort_acts_after_the_dead_time_through_the_lag_and_no_further_than_saturation() -> None:
    device, clock = opened("hand=false, damping=0.0, dead_time_ms=2.5, bandwidth_hz=50.0, saturation=3.0, newton=2.0")
    start = clock.now_ns()  # type: ignore[attr-defined]
    hand_over(device.queue, 5.0, start)
    found = states(device, clock, 40)
    t = 1e-3 * np.arange(1, 41) - 0.0025
    lag = 1.0 / (2.0 * math.pi * 50.0)
    acted = t > 0
    assert (found[~acted][:, [X, V, FORCE]] == 0.0).all() and (found[acted, COMMANDED] == 3.0).all()
    t = t[acted]
    assert found[acted, FORCE] == pytest.approx(3.0 * (1.0 - np.exp(-t / lag)), rel=1e-11)
    assert found[acted, V] == pytest.approx(-3.0 / 0.3 * (t - lag * (1.0 - np.exp(-t / lag))), rel=1e-9)


def test_friction_stops_it_where_the_closed_form_says_and_holds_it() -> None:
    device, clock = opened("hand=false, damping=0.0, friction=1.5")
    device.x[V], device.plant[MODE] = 0.2, haptic_plant.FORWARD
    found = states(device, clock, 100)
    assert found[-1, X] == pytest.approx(0.2**2 / (2.0 * 1.5 / 0.3), rel=1e-12)
    assert found[-1, V] == 0.0 and device.plant[MODE] == STICKS
    stands = found[-1, X]
    hand_over(device.queue, 1.4, int(device.plant[haptic_plant.AT]))
    assert (states(device, clock, 20)[:, X] == stands).all()
    hand_over(device.queue, 1.8, int(device.plant[haptic_plant.AT]))
    moved = states(device, clock, 20)
    assert moved[-1, X] - stands == pytest.approx(-0.5 * 0.3 / 0.3 * 0.02**2, rel=1e-9)


def test_stick_and_slip_of_a_finger_that_swings_it_loses_what_friction_takes() -> None:
    """Energy of the spring before and after: the friction force times the way, whatever happened in between."""
    hand = "{mass=0.0, damping=0.0, stiffness=400.0}"
    device, clock = opened(f"mass=0.1, damping=0.0, friction=0.4, hand={hand}")
    device.x[X], device.plant[MODE] = 0.01, STICKS
    found = states(device, clock, 400)
    turns = found[1:, X][np.sign(np.diff(found[:, X], append=found[-1, X]))[1:] == 0]
    # every half swing ends 2 F / k nearer: 10 mm, 8, 6, 4, 2, and there the spring is weaker than the friction
    assert abs(turns[-1]) == pytest.approx(0.0, abs=1e-3 + 1e-9)
    assert device.plant[haptic_plant.EXCEEDED] == 0 and device.plant[MODE] == STICKS


def test_the_same_efforts_give_the_same_bits_however_they_are_read() -> None:
    runs = []
    for every in (1, 4):
        device, clock = opened("friction=0.1, bandwidth_hz=200.0, hand={bias=1.0, motion={amplitude=0.01, hz=7.0}}")
        start = clock.now_ns()  # type: ignore[attr-defined]
        for k in range(100):
            hand_over(device.queue, math.sin(0.7 * k), start + 700_000 * k + 123)
        runs.append(states(device, clock, 80, every)[-1])
    assert (runs[0] == runs[1]).all() and runs[0][X] != 0.0


def test_an_effort_that_comes_late_acts_from_there_on_and_is_counted() -> None:
    device, clock = opened("hand=false, damping=0.0")
    states(device, clock, 5)
    hand_over(device.queue, 3.0, int(device.plant[haptic_plant.AT]) - 2 * MS)
    assert states(device, clock, 1)[-1, V] == pytest.approx(-3.0 / 0.3 * 1e-3)
    assert device.counts() == {"efforts_late": 1, "efforts_missed": 0, "steps_with_too_many_events": 0}


def test_a_force_sensor_reads_what_the_hand_pushes_with() -> None:
    """At rest against an effort: the effort. Force in counts of 1 mN."""
    device, clock = opened("force_sensor='throttle'")
    hand_over(device.queue, 1.0, clock.now_ns())  # type: ignore[attr-defined]
    room, t_ns = np.zeros((3000, 3), np.int64), np.zeros(3000, np.int64)
    clock.sleep_until(clock.now_ns() + 3000 * MS)  # type: ignore[attr-defined]
    device.read(room, t_ns, MS)
    assert room[-1, 1] == 1000 and device.x[X] == pytest.approx(-1.0 / 257.0)


@pytest.mark.parametrize(
    "source, message",
    [
        ("position='handle'", r"source.position = 'handle': daq.channels has brake, throttle, steering, and no handle"),
        ("force_sensor='steering'", r"source.force_sensor = 'steering': is the encoder's channel"),
        ("channels={steering={hz=1.0}}", r"source.channels.steering: must be a channel beside .* brake, throttle"),
        ("channels={brake={wave='saw'}}", r"source.channels.brake.wave = 'saw'"),
        ("hand={motion={points=[[0.1, 0.0]]}}", r"source.hand.motion.points.* the first point must be at 0 s"),
        ("mass=0.0", r"source.mass = 0.0: .*greater than 0"),
        ("mass=1e-9, hand={mass=0.0}", r"source.mass = 1e-09 with its stiffness .* times as fast as can be sampled"),
        ("bandwidth_hz=1e5, mass=1e-5, hand={stiffness=1e6, mass=0.0}", r"source.bandwidth_hz = 100000: moves"),
        ("start_count=10000000000000000000", r"start_count"),
        ("hand={bias=inf}", r"source.hand.bias = inf"),
        ("hand={motion={points=[[0.0, 0.0], [1e-12, 0.0]]}}", r"rise by a nanosecond at least"),
        ("hand={motion={points=[[0.0, nan]]}}", r"points"),
        ("hand={motion={period=1e-12}}", r"period"),
    ],
)
def test_what_is_wrong_is_named(source: str, message: str) -> None:
    given = source if source.startswith("position") else f"position='steering', {source}"
    config = drive_config(f"source={{kind='haptic', {given}}}")
    with pytest.raises(ConfigError, match=message):
        open_device(config, DRIVE)


# ---- beside an exponential of the whole, by another method -----------------------------------------------------------


def exponential(a: np.ndarray) -> np.ndarray:
    """By eigenvalues would fail on a double one: squared from the series of a small share of it."""
    small = a / 2.0**60
    total = np.eye(len(a), dtype=np.longdouble) + small
    rest = small.astype(np.longdouble)  # e^a - 1, which squaring does not round away
    for _ in range(60):
        rest = 2.0 * rest + rest @ rest
    total = np.eye(len(a)) + rest
    return total.astype(float)


@pytest.mark.parametrize(
    "mass, damping, stiffness, hand_mass, hand_damping, hand_stiffness, bias, lag_hz, dead_ms, amplitude, hz",
    [
        (0.3, 2.0, 0.0, 0.02, 3.75, 257.0, 0.0, 0.0, 0.0, 0.01, 5.0),
        (0.3, 2.0, 40.0, 0.02, 3.75, 257.0, -3.0, 80.0, 0.7, 0.01, 5.0),
        (0.03, 0.3, 0.0, 0.05, 0.8, 20.0, 0.1, 0.0, 0.5, 0.35, 0.4),
        (0.01, 0.0, 0.0, 0.0, 0.0, 9000.0, 1.0, 900.0, 1.3, 0.002, 33.0),
        (2.0, 50.0, 300.0, 0.1, 90.0, 2500.0, 7.0, 15.0, 2.2, 0.02, 1.0),
    ],
)
def test_it_moves_as_the_exponential_of_port_actuator_and_motion_says(
    mass: float, damping: float, stiffness: float, hand_mass: float, hand_damping: float, hand_stiffness: float,
    bias: float, lag_hz: float, dead_ms: float, amplitude: float, hz: float,
) -> None:  # fmt: skip
    """Written from the equation of motion, with the efforts' instants as the only joints: states x, v, actuator force,
    sine and cosine of the hand's intention, one."""
    device, clock = opened(
        f"mass={mass}, damping={damping}, stiffness={stiffness}, bandwidth_hz={lag_hz}, dead_time_ms={dead_ms},"
        f" hand={{mass={hand_mass}, damping={hand_damping}, stiffness={hand_stiffness}, bias={bias},"
        f" motion={{amplitude={amplitude}, hz={hz}}}}}"
    )
    start = clock.now_ns()  # type: ignore[attr-defined]
    efforts = [(0.0, 0.0)]
    for k in range(30):
        efforts.append((1e-9 * (700_000 * k + 123) + 1e-3 * dead_ms, 2.0 * math.sin(0.7 * k)))
        hand_over(device.queue, efforts[-1][1], start + 700_000 * k + 123)
    found = states(device, clock, 25)[-1]
    m, w, lag = mass + hand_mass, 2.0 * math.pi * hz, 2.0 * math.pi * lag_hz
    x = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    for (t, effort), (until, _) in zip(efforts, [*efforts[1:], (math.inf, 0.0)], strict=True):
        a = np.zeros((6, 6))
        a[0, 1] = 1.0
        a[1] = np.array([
            -(stiffness + hand_stiffness), -(damping + hand_damping), -1.0 if lag_hz else 0.0,
            hand_stiffness * amplitude, hand_damping * amplitude * w, bias - (0.0 if lag_hz else effort),
        ]) / m  # fmt: skip
        a[2, 2], a[2, 5] = -lag, lag * effort
        a[3, 4], a[4, 3] = w, -w
        lasts = min(until, 1e-9 * (device.plant[haptic_plant.AT] - start)) - t
        if lasts > 0.0:
            x = exponential(a * lasts) @ x
    assert found[[X, V]] == pytest.approx(x[:2], rel=1e-9, abs=1e-12)
    assert not lag_hz or found[FORCE] == pytest.approx(x[2], rel=1e-9, abs=1e-12)


# ---- further axes ----------------------------------------------------------------------------------------------------

_AXES = (
    "axes={throttle={mass=0.5, damping=4.0, friction=0.2, hand={motion={amplitude=0.01, hz=3.0}}}, brake={hand=false}}"
)


def test_axes_are_sampled_together_and_know_nothing_of_each_other() -> None:
    alone, other = opened("hand={motion={amplitude=0.01, hz=5.0}}")
    device, clock = opened(f"hand={{motion={{amplitude=0.01, hz=5.0}}}}, {_AXES}")
    assert [axis.channel for axis in device.axes] == ["brake", "throttle"]  # by name
    hand_over(device.axes[0].queue, -2.0, clock.now_ns())  # type: ignore[attr-defined]
    assert states(device, clock, 200, 2).tobytes() == states(alone, other, 200, 2).tobytes()
    brake, throttle = (axis.x for axis in device.axes)
    assert brake[COMMANDED] == -2.0 and brake[X] > 0.01 and throttle[COMMANDED] == 0.0 and abs(throttle[X]) > 1e-4
    room, t_ns = np.zeros((1, 3), np.int64), np.zeros(1, np.int64)
    clock.sleep_until(clock.now_ns() + MS)  # type: ignore[attr-defined]
    assert device.read(room, t_ns, MS) == (1, 0)
    channels, per_count = drive_config().daq.channels, device.settings.per_count
    for column, x in enumerate((brake, throttle)):
        assert room[0, column] == math.floor((x[X] + 1e-6 * channels[column].skew_us * x[V]) / per_count)


@pytest.mark.parametrize(
    ("axes", "match"),
    [
        ("axes={steering={}}", r"source\.axes\.steering: must be a channel beside the device's own: brake, throttle"),
        ("axes={clutch={}}", r"source\.axes\.clutch: must be a channel"),
        ("axes={brake={mass=-1.0}}", r"source\.axes\.brake\.mass"),
        ("axes={brake={mass=0.001, stiffness=1e6}}", r"source\.axes\.brake\.mass = 0.001 .* times as fast"),
        ("axes={brake={effort={channel='x', gain=1.0, limit=1.0, slew=1.0}}}", r"needs \[source\.effort\]"),
        ("axes={a={}, b={}, c={}, d={}}", r"source\.axes"),
    ],
)
def test_an_axis_that_cannot_be_is_refused_by_its_key(axes: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        opened(axes)
