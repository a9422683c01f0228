"""The virtual driver: profiles against plain Python, paths against geometry, and the closed loop against the road."""

import bisect
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim_service.contract.machine import index
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.machines.car.device.driver import (
    BRAKE,
    MEMORY,
    STEERING,
    THROTTLE,
    Follow,
    Profile,
    drive_along,
    evaluate,
    follow_parameters,
    prepare_path,
    profile_tables,
    read_manoeuvre,
)
from tests.daq_service.conftest import CONFIGS
from tests.examples import few

MANOEUVRES = sorted((CONFIGS / "manoeuvres").glob("*.toml"))

Write = Callable[[str], Path]


# files


@pytest.mark.parametrize("path", MANOEUVRES, ids=lambda path: path.stem)
def test_every_manoeuvre_we_ship_loads_and_stays_within_the_car(path: Path) -> None:
    manoeuvre = read_manoeuvre(path)
    assert manoeuvre.title and manoeuvre.seconds > 0
    times = np.arange(0.0, manoeuvre.seconds, 0.01)
    for profile, low, high in (
        (manoeuvre.throttle, 0.0, 1.0),
        (manoeuvre.brake_bar, 0.0, 40.0),
        (manoeuvre.steering_deg, -540.0, 540.0),
    ):
        tables = profile_tables(profile)
        values = [evaluate(*tables, t) for t in times]
        assert low <= min(values) and max(values) <= high
        # nobody turns the wheel faster than the configured plausibility limit, four turns a second
        if profile is manoeuvre.steering_deg:
            assert np.abs(np.diff(values)).max() / 0.01 < 4 * 360


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as error:
        read_manoeuvre(path)
    assert str(path) in str(error.value)
    return str(error.value)


def test_times_that_do_not_rise_are_refused(manoeuvre_file: Write) -> None:
    said = refused(manoeuvre_file("[throttle]\npoints = [[0, 0], [2, 1], [2, 0]]"))
    assert "throttle.points" in said and "times must rise: 2 s comes after 2 s" in said


def test_path_and_profiles_together_are_refused(manoeuvre_file: Write) -> None:
    text = "[follow]\npath = [[0, 0], [10, 0], [20, 0]]\nspeed = 10\n[throttle]\npoints = [[0, 0]]"
    said = refused(manoeuvre_file(text))
    assert "[follow]" in said and "take out steering_deg, throttle and brake_bar" in said


@pytest.mark.parametrize(
    "text, named",
    [
        ("trottle = { points = [[0, 0]] }", "trottle"),
        ("[steering_deg]\npoint = [[0, 0]]", "steering_deg.point"),
        ("[steering_deg]\nsines = [{ start = 0, amplitude = 1, frequency = 1 }]", "steering_deg.sines[0].frequency"),
        ("[follow]\npath = [[0, 0], [10, 0], [20, 0]]\nspeed = 10\nlookahead = 3", "follow.lookahead"),
    ],
)
def test_unknown_keys_are_refused(manoeuvre_file: Write, text: str, named: str) -> None:
    said = refused(manoeuvre_file(text))
    assert named in said and "unknown key" in said


@pytest.mark.parametrize(
    "text, named",
    [
        ("[throttle]\npoints = []", "throttle.points"),
        ("[throttle]\npoints = [[0, 0, 0]]", "throttle.points[0]"),
        ("[throttle]\npoints = [[0, nan]]", "throttle.points[0][1]"),
        ("[follow]\npath = [[0, 0], [10, 0]]\nspeed = 10", "follow.path"),
        ("[follow]\npath = [[0, 0], [10, 0], [20, 0]]\nspeed = 0", "follow.speed"),
        ("[follow]\npath = [[0, 0], [10, 0], [1e9, 0]]\nspeed = 9", "must be from 5 to 100000 m"),
        ("[follow]\npath = [[0, 0], [1e308, 0], [-1e308, 0]]\nspeed = 9", "must be from 5 to 100000 m"),
        (
            "[steering_deg]\nsines = [{ start = 0, amplitude = 1, frequency_hz = 0 }]",
            "steering_deg.sines[0].frequency_hz",
        ),
    ],
)
def test_values_that_make_no_sense_are_refused(manoeuvre_file: Write, text: str, named: str) -> None:
    assert named in refused(manoeuvre_file(text))


# open loop


def smooth(points: list[list[float]], t: float) -> float:
    """Between points a cubic with zero slope at both; the ends hold."""
    k = bisect.bisect_right([time for time, _ in points], t)
    if k == 0:
        return points[0][1]
    if k == len(points):
        return points[-1][1]
    (t0, v0), (t1, v1) = points[k - 1], points[k]
    s = (t - t0) / (t1 - t0)
    return v0 * (2 * s**3 - 3 * s**2 + 1) + v1 * (3 * s**2 - 2 * s**3)


def sine(t: float, start: float, cycles: float, amplitude: float, frequency: float, dwell: float) -> float:
    """A sine of so many cycles; three quarters through its first cycle, at the second peak, it stands for a while."""
    peak, end = start + 0.75 / frequency, start + cycles / frequency
    if end <= peak:
        return amplitude * math.sin(2 * math.pi * frequency * (t - start)) if start < t < end else 0.0
    if t <= start or t >= end + dwell:
        return 0.0
    if t <= peak:
        return amplitude * math.sin(2 * math.pi * frequency * (t - start))
    if t <= peak + dwell:
        return -amplitude
    return amplitude * math.sin(2 * math.pi * frequency * (t - dwell - start))


point_lists = st.lists(st.tuples(st.floats(0.01, 5.0), st.floats(-500.0, 500.0)), min_size=1, max_size=8).map(
    lambda steps: [[sum(gap for gap, _ in steps[: k + 1]), value] for k, (_, value) in enumerate(steps)]
)
sines = st.fixed_dictionaries(
    {
        "start": st.floats(0.0, 5.0),
        "cycles": st.floats(0.1, 4.0),
        "amplitude": st.floats(-200.0, 200.0),
        "frequency_hz": st.floats(0.1, 5.0),
        "dwell": st.floats(0.0, 2.0),
    }
)


@settings(max_examples=few(300), deadline=None, derandomize=True)
@given(point_lists, st.lists(sines, max_size=3), st.floats(-1.0, 40.0))
def test_profile_is_points_plus_sines(points: list[list[float]], waves: list[dict[str, float]], t: float) -> None:
    profile = Profile.model_validate({"points": points, "sines": waves})
    for wave in waves:
        # where a broken cycle ends the value jumps, and rounding may decide on which side t is
        end = wave["start"] + wave["cycles"] / wave["frequency_hz"]
        assume(abs(t - end) > 1e-6 and abs(t - end - wave["dwell"]) > 1e-6)
    expected = smooth(points, t) + sum(
        sine(t, w["start"], w["cycles"], w["amplitude"], w["frequency_hz"], w["dwell"]) for w in waves
    )
    assert evaluate(*profile_tables(profile), t) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(point_lists)
def test_profile_passes_through_its_points_level_and_does_not_overshoot(points: list[list[float]]) -> None:
    tables = profile_tables(Profile.model_validate({"points": points}))
    for t, value in points:
        assert evaluate(*tables, t) == pytest.approx(value, abs=1e-9)
    for (t0, v0), (t1, v1) in pairwise(points):
        values = np.array([evaluate(*tables, t) for t in np.linspace(t0, t1, 31)])
        assert values.min() >= min(v0, v1) - 1e-9 and values.max() <= max(v0, v1) + 1e-9
        near = (evaluate(*tables, t0 + 1e-3 * (t1 - t0)) - v0, evaluate(*tables, t1 - 1e-3 * (t1 - t0)) - v1)
        assert np.abs(near).max() <= 4e-6 * abs(v1 - v0) + 1e-9


def test_sine_with_dwell_really_dwells() -> None:
    """The file we ship: one cycle at 0.7 Hz from 14 s; the second peak, -80 deg, is held for half a second."""
    tables = profile_tables(read_manoeuvre(CONFIGS / "manoeuvres" / "sine_with_dwell.toml").steering_deg)
    peak = 14 + 0.75 / 0.7
    assert evaluate(*tables, 14 + 0.25 / 0.7) == pytest.approx(80.0)
    for t in np.linspace(peak, peak + 0.5, 50):
        assert evaluate(*tables, t) == pytest.approx(-80.0)
    # as long as it should, and no longer
    assert evaluate(*tables, peak - 0.05) > -79.0
    assert evaluate(*tables, peak + 0.55) > -79.0
    assert evaluate(*tables, peak + 0.5 + 0.125 / 0.7) == pytest.approx(-80.0 * math.sqrt(0.5))
    assert evaluate(*tables, peak + 0.5 + 0.25 / 0.7 + 1e-6) == 0.0


# paths

SPACING = 0.5


def path_of(points: list[list[float]], closed: bool, **settings: float) -> tuple[np.ndarray, Follow]:
    follow = Follow.model_validate({"path": points, "closed": closed, "speed": 30.0, **settings})
    return prepare_path(follow), follow


def chords(path: np.ndarray, closed: bool) -> np.ndarray:
    """From every point to the next; of a closed path also from the last to the first."""
    points = np.vstack([path[:, :2], path[:1, :2]]) if closed else path[:, :2]
    return np.diff(points, axis=0)


def lateral(path: np.ndarray, closed: bool) -> np.ndarray:
    """v^2 times the curvature, as the path turns over 4.5 m around each point; not at the ends of an open one."""
    step = chords(path, closed)
    along = np.hypot(*step.T)
    direction = np.arctan2(step[:, 1], step[:, 0])
    n = len(path)
    middle = np.arange(n) if closed else np.arange(8, n - 9)
    before, after = direction[(middle - 5) % len(step)], direction[(middle + 4) % len(step)]
    turned = np.abs((after - before + math.pi) % (2 * math.pi) - math.pi)
    between = along[(middle[:, None] + np.arange(-5, 5)) % len(along)].sum(axis=1)
    result: np.ndarray = path[middle, 2] ** 2 * turned * 10 / 9 / between  # 9 corners between 10 chords
    return result


def deceleration(path: np.ndarray, closed: bool) -> np.ndarray:
    """What it takes to have the next point's speed there."""
    speed = np.append(path[:, 2], path[0, 2]) if closed else path[:, 2]
    along = np.hypot(*chords(path, closed).T)
    result: np.ndarray = (speed[:-1] ** 2 - speed[1:] ** 2) / (2 * along)
    return result


@st.composite
def circuits(draw: st.DrawFn) -> list[list[float]]:
    """Waypoints round a centre, 15 to 45 m away from it: whatever they are, the path is closed and has no corners."""
    n = draw(st.integers(6, 12))
    radii = draw(st.lists(st.floats(15.0, 45.0), min_size=n, max_size=n))
    return [
        [r * math.cos(2 * math.pi * k / n), r * math.sin(2 * math.pi * k / n)]
        for k, r in zip(range(n), radii, strict=True)
    ]


limits = st.fixed_dictionaries({"lateral_acceleration": st.floats(1.0, 6.0), "deceleration": st.floats(0.5, 5.0)})


@settings(max_examples=few(60), deadline=None, derandomize=True)
@given(circuits(), limits, st.booleans())
def test_speed_along_a_path_is_one_that_curves_and_brakes_allow(
    points: list[list[float]], limit: dict[str, float], closed: bool
) -> None:
    """The turn of the path over 4.5 m, 15 % over the limit at most; the deceleration from point to point, 2 %."""
    path, follow = path_of(points, closed, **limit)
    assert lateral(path, closed).max() <= 1.15 * follow.lateral_acceleration
    assert deceleration(path, closed).max() <= 1.02 * follow.deceleration
    assert path[:, 2].max() <= follow.speed and path[:-1, 2].min() > 0


@pytest.mark.parametrize("radius", [8.0, 20.0, 50.0])
@pytest.mark.parametrize("first", range(5))
def test_circle_is_driven_at_the_speed_of_a_circle_all_the_way_round(radius: float, first: int) -> None:
    """v^2 / r is the accepted acceleration, within 10 % (the spline through 24 points is no perfect circle), and it
    does not matter where on the circle the list of points begins.
    """
    angles = 2 * math.pi * (np.arange(24) + first / 5) / 24
    points = [[radius * math.cos(a), radius * math.sin(a)] for a in angles]
    path, _ = path_of(points, True, lateral_acceleration=3.0)
    accelerations = path[:, 2] ** 2 / radius
    assert accelerations.max() < 1.1 * 3.0 and accelerations.min() > 0.9 * 3.0


@settings(max_examples=few(50), deadline=None, derandomize=True)
@given(circuits(), st.booleans())
def test_path_passes_through_its_waypoints_every_half_metre(points: list[list[float]], closed: bool) -> None:
    path, _ = path_of(points, closed)
    for x, y in points:
        assert np.hypot(path[:, 0] - x, path[:, 1] - y).min() <= SPACING / 2 + 0.3
    along = np.hypot(*chords(path, closed).T)
    assert along.max() < 1.05 * SPACING and along.min() > 0.9 * SPACING


def test_open_path_ends_with_a_stop_and_a_closed_one_does_not() -> None:
    points = [[0.0, 0.0], [50.0, 0.0], [100.0, 0.0], [100.0, 50.0]]
    assert path_of(points, False)[0][-1, 2] == 0.0
    assert path_of(points, True)[0][:, 2].min() > 1.0


def test_straight_road_is_driven_at_full_speed_until_the_brakes_are_needed() -> None:
    path, follow = path_of([[0, 0], [200, 0], [400, 0]], False, speed=20.0, deceleration=2.0)
    left = path[-1, 0] - path[:, 0]
    expected = np.minimum(20.0, np.sqrt(2 * follow.deceleration * left))
    assert np.abs(path[:, 2] - expected).max() < 1e-6 + 0.01 * 20.0


# closed loop


class Drive:
    """Driver and car in one plain loop: the driver looks every millisecond, the car steps every five."""

    LOOK, LOOKS = 1e-3, 5

    def __init__(self, follow: Follow):
        self.follow = follow
        self.path = prepare_path(follow)
        self.par = follow_parameters(follow)
        self.memory = np.zeros(MEMORY)
        self.model, self.params = load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")
        self.state = np.zeros(len(self.model.states))
        self.work = np.zeros(self.model.work_size)
        self.inputs = np.array([np.nan if q.optional else 0.0 for q in self.model.inputs])
        self.model.initial(self.state, self.params, self.model.tables, self.work)
        self.pose = [index(self.model.outputs, name) for name in ("x", "y", "yaw", "vx")]
        self.off: list[float] = []
        self.speeds: list[float] = []
        self.places: list[int] = []

    def run(self, seconds: float, fresh: bool = True) -> "Drive":
        waypoints = self.path[:, :2]
        for k in range(round(seconds / (self.LOOK * self.LOOKS))):
            x, y, yaw, vx = (float(self.work[i]) for i in self.pose)
            for _ in range(self.LOOKS):
                drive_along(self.path, self.par, self.memory, x, y, yaw, vx, fresh, self.LOOK)
            self.inputs[0] = math.radians(self.memory[STEERING])
            self.inputs[3] = self.memory[THROTTLE]
            self.inputs[4] = self.memory[BRAKE]
            self.inputs[5] = math.nan  # of the car's own engine
            self.model.step(self.state, self.inputs, self.params, self.model.tables, self.work, self.LOOK * self.LOOKS)
            if k % 4 == 0:
                distances = np.hypot(waypoints[:, 0] - x, waypoints[:, 1] - y)
                nearest = int(distances.argmin())
                self.off.append(_beside(waypoints, nearest, x, y))
                self.places.append(nearest)
                self.speeds.append(vx)
        return self

    @property
    def where(self) -> tuple[float, float]:
        return float(self.work[self.pose[0]]), float(self.work[self.pose[1]])

    @property
    def speed(self) -> float:
        return float(self.work[self.pose[3]])


def _beside(points: np.ndarray, nearest: int, x: float, y: float) -> float:
    """Distance from the polyline around its nearest point."""
    best = math.inf
    for k in (nearest - 1, nearest):
        a, b = points[k % len(points)], points[(k + 1) % len(points)]
        along = b - a
        length2 = float(along @ along)
        if length2 > 4.0:  # from the end of an open path back to its beginning
            continue
        f = min(max(((x - a[0]) * along[0] + (y - a[1]) * along[1]) / length2, 0.0), 1.0)
        best = min(best, math.hypot(a[0] + f * along[0] - x, a[1] + f * along[1] - y))
    return best


def test_lane_change_is_driven_within_a_metre_at_its_speed_and_ends_at_rest() -> None:
    follow = read_manoeuvre(CONFIGS / "manoeuvres" / "follow_lane_change.toml").follow
    assert follow is not None
    drive = Drive(follow).run(30.0)
    on_the_way = [k for k, place in enumerate(drive.places) if place < len(drive.path) - 1]
    assert max(drive.off[k] for k in on_the_way) < 1.0
    # at its speed: in the lanes never much faster than the path says, and not at a walk either
    lanes = [k for k, place in enumerate(drive.places) if 75 < drive.path[place, 0] < 155]
    assert len(lanes) > 100
    assert max(drive.speeds[k] - drive.path[drive.places[k], 2] for k in lanes) < 2.5
    assert min(drive.speeds[k] for k in lanes) > 0.75 * follow.speed
    # it stops straight behind the end of the path, two lengths of the car away at most, and stays
    assert -1.0 < drive.where[0] - drive.path[-1, 0] < 7.0 and abs(drive.where[1]) < 0.1
    assert abs(drive.speed) < 1e-3
    before = drive.where
    assert math.dist(before, drive.run(2.0).where) < 1e-3


def test_circuit_is_driven_lap_after_lap_within_two_metres() -> None:
    follow = read_manoeuvre(CONFIGS / "manoeuvres" / "follow_circuit.toml").follow
    assert follow is not None
    drive = Drive(follow).run(60.0)
    assert max(drive.off) < 2.0
    n = len(drive.path)
    moves = [(b - a + n // 2) % n - n // 2 for a, b in pairwise(drive.places)]
    assert sum(moves) / n > 2.0
    # never backwards, but for the nearest point's own jitter at the start
    assert min(moves) >= -1
    # once at speed it stays there: no slower than half of what the path says, no faster than 2.5 m/s above
    settled = range(500, len(drive.speeds))
    assert all(0.5 * drive.path[drive.places[k], 2] < drive.speeds[k] for k in settled)
    assert all(drive.speeds[k] < drive.path[drive.places[k], 2] + 2.5 for k in settled)


def test_blind_driver_lifts_his_foot_brakes_and_holds_the_wheel() -> None:
    follow = read_manoeuvre(CONFIGS / "manoeuvres" / "follow_circuit.toml").follow
    assert follow is not None
    drive = Drive(follow).run(3.0)
    assert drive.speed > 3.0 and drive.memory[THROTTLE] > 0.5
    angle = drive.memory[STEERING]
    drive.run(1.0, fresh=False)
    assert drive.memory[THROTTLE] < 1e-3
    assert drive.memory[BRAKE] == pytest.approx(15.0, abs=0.1)
    assert drive.memory[STEERING] == angle
    drive.run(9.0, fresh=False)
    assert abs(drive.speed) < 1e-3


def test_driver_who_sees_again_drives_on() -> None:
    follow = read_manoeuvre(CONFIGS / "manoeuvres" / "follow_circuit.toml").follow
    assert follow is not None
    drive = Drive(follow).run(8.0).run(0.3, fresh=False).run(10.0)
    assert max(drive.off) < 2.0 and drive.speed > 5.0


def test_hands_are_no_faster_than_the_driver_says() -> None:
    follow = Follow(path=[[0, 0], [10, 10], [20, 20]], speed=10.0, hand_speed_deg=100.0, reaction=0.01)
    path, par, memory = prepare_path(follow), follow_parameters(follow), np.zeros(MEMORY)
    angles = [0.0]
    for _ in range(200):
        drive_along(path, par, memory, 0.0, 0.0, 0.0, 5.0, True, 1e-3)
        angles.append(float(memory[STEERING]))
    assert np.diff(angles).max() <= 100.0 * 1e-3 * (1 + 1e-9)
    assert angles[-1] > 15.0
