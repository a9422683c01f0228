"""The observer of the single-track car: exact slopes, and a log of somebody's car from a table to side-slip."""

from pathlib import Path

import numpy as np
import pytest

from sim_service.registry import load_machine
from tandem.console.shipped_configs import CONFIGS
from tandem.estimation.rows import WIDTH
from tandem.machines.car.single_track import MACHINE
from tandem.machines.car.single_track.description import I, P, S
from tandem.machines.car.single_track.observed import ESTIMABLE, SIGNALS, observed
from tandem.machines.observer.studies.recorded import (
    AS_RECORDED,
    add_smoothed,
    figures,
    measured_truth,
    observe_record,
    smooth_all,
)
from tandem.records.exchange.importer import Options, import_file
from tandem.records.replay import Options as AskedReplay
from tandem.records.replay import replay_run

CAR = CONFIGS / "vehicles" / "measured" / "race_car_single_track.toml"
OBSERVER = CONFIGS / "observers" / "race_car.toml"
H, N, Q = 0.01, len(MACHINE.states), len(ESTIMABLE)
WHICH = np.arange(Q, dtype=np.int32)
WHICH.flags.writeable = False


class Instant:
    """A car in a bend, and what an error of one of its states or parameters does."""

    def __init__(self, inputs: list[float]):
        assert len(inputs) == len(MACHINE.inputs)  # a kernel would read on behind them
        _, self.params = load_machine(CAR)
        self.own, self.inputs, self.work = observed(MACHINE, self.params), np.array(inputs), np.zeros(MACHINE.work_size)
        self.state = np.zeros(N)
        self.state[S.vx], self.state[S.wheel_speed_front : S.wheel_speed_rear + 1] = 20.0, 20.0 / 0.3
        for _ in range(40):
            MACHINE.step(self.state, self.inputs.copy(), self.params, MACHINE.tables, self.work, H)

    def linearised(self, place: int = 0, by: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        state, params = self.state.copy(), self.params.copy()
        if place < N:
            state[place] += by
        else:
            params[ESTIMABLE[place - N].parameter] += by
        F, at, extra = np.zeros(N * (N + Q + 1)), np.zeros(self.own.at_size), np.zeros(Q)
        self.own.linearise(state, self.inputs.copy(), params, MACHINE.tables, self.work, H, WHICH, extra, F, at)
        return state, F.reshape(N + Q + 1, N).T, at

    def read(self, signal: int, row: np.ndarray, at: np.ndarray) -> tuple[float, np.ndarray]:
        slopes = np.zeros(N + Q + 4)
        value = self.own.measure(signal, row, 0.004, at, MACHINE.tables, self.work, WHICH, slopes)
        return value, slopes[: N + Q]


@pytest.mark.parametrize(
    "inputs",
    [
        [0.0, 0.0, 0.0, 0.0, 0.0, np.nan, 0.06, 20.2, np.nan],  # speed and road-wheel angle as measured
        [0.9, 0.0, 0.0, 0.4, 0.0, np.nan, np.nan, np.nan, np.nan],  # driven
    ],
)
def test_slopes_of_step_and_sensors_are_those_of_differences(inputs: list[float]) -> None:
    here = Instant(inputs)
    state, F, at = here.linearised()
    stepped = here.state.copy()
    MACHINE.step(stepped, here.inputs.copy(), here.params, MACHINE.tables, here.work, H)
    np.testing.assert_array_equal(state, stepped)
    row = np.array([1.0, 0.5, 0.3, 0.5, -0.7, 0.6] + (WIDTH - 6) * [0.0])
    row.flags.writeable = False
    seen = [here.read(k, row, at)[1] for k in range(len(SIGNALS))]
    for place in range(N + Q):
        by = 1e-6 * (1.0 if place < N else 1.0 + here.params[ESTIMABLE[place - N].parameter])
        (one, _, at_one), (other, _, at_other) = here.linearised(place, by), here.linearised(place, -by)
        scale = 1.0 + np.abs(F[:, place]).max()
        np.testing.assert_allclose((one - other) / (2.0 * by), F[:, place], atol=2e-6 * scale)
        for k, slopes in enumerate(seen):
            found = (here.read(k, row, at_one)[0] - here.read(k, row, at_other)[0]) / (2.0 * by)
            assert found == pytest.approx(slopes[place], rel=1e-5, abs=1e-5 * np.abs(slopes).max()), SIGNALS[k].name


def driven(tmp_path, steer: float, friction: float, gap: bool = False, overrides: tuple[str, ...] = ()):
    """A run imported from a table: 30 s of the car itself on a road of that friction, with noise on its readings."""
    _, params = load_machine(CAR, {"friction": friction})
    state, work, random = np.zeros(N), np.zeros(MACHINE.work_size), np.random.default_rng(1)
    MACHINE.initial(state, params, MACHINE.tables, work)
    inputs = np.zeros(len(MACHINE.inputs))
    inputs[I.drive_torque], inputs[I.prescribed_speed] = np.nan, 20.0
    state[S.vx], state[S.wheel_speed_front : S.wheel_speed_rear + 1] = 20.0, 20.0 / 0.3
    rows = []
    outputs = [q.name for q in MACHINE.outputs]
    yaw_rate, ay, sideslip = (outputs.index(name) for name in ("yaw_rate", "ay", "sideslip"))
    for k in range(3000):
        inputs[I.prescribed_road_wheel_angle] = steer * np.sin(0.03 * k)
        MACHINE.step(state, inputs.copy(), params, MACHINE.tables, work, H)
        noise = random.normal(size=2) * (0.005, 0.3)
        rows.append(
            (k * H, 20.0, inputs[I.prescribed_road_wheel_angle], *(work[[yaw_rate, ay]] + noise), work[sideslip])
        )
    # readings of an instant are of a step's end; what goes in begins with it
    table = np.array(rows)
    table[1:, 3:] = table[:-1, 3:].copy()
    if gap:
        table = table[(table[:, 0] < 10.0) | (table[:, 0] >= 12.0)]
    file = tmp_path / "log.csv"
    file.write_text("t [s],v,delta,r,a,beta\n" + "\n".join(",".join(repr(float(v)) for v in row) for row in table))
    maps = ["speed=v:m/s", "road_wheel_angle=delta:rad", "yaw_rate=r:rad/s", "ay=a:m/s2"]
    more = {"overrides": list(overrides), "runs": tmp_path / "runs"}
    return import_file(Options(file, CONFIGS / "race_car.toml", True, maps, ["sideslip=beta:rad"], **more))["run"]


def tuning(tmp_path, quantity: str = ""):
    """The shipped observer, which believes its readings and its model more, and may estimate friction."""
    text = OBSERVER.read_text().replace('"../vehicles/', f'"{CONFIGS}/vehicles/')
    text = text.replace("noise = 1.2 ", "noise = 0.3 ").replace("walk = 0.6 }", "walk = 0.05 }")
    if quantity:
        text = text.replace("[filter]\n", '[filter]\nestimated = ["friction"]\n')
        text += f"[filter.quantities]\nfriction = {quantity}\n"
    file = tmp_path / "tuning.toml"
    file.write_text(text)
    return file


def observed_in(run, file, *span: float):
    found = observe_record(Path(run), [file], lambda *_: None, *span)
    shown = figures(found)
    truth = measured_truth(found)
    add_smoothed(shown, found, smooth_all(found, [file], lambda *_: None, list(truth)), truth)
    return found, shown["tuning.toml"]


EARNED = "{ start = 0.15, walk = 0.002, low = 0.5, high = 1.4, earned = 0.4 }"


def test_side_slip_of_an_imported_log_is_within_its_covariance(tmp_path) -> None:
    _found, shown = observed_in(driven(tmp_path, 0.05, 1.1), tuning(tmp_path))
    assert shown["steps"] == 3000 and shown["readings"]["readings_gated"] < 10
    assert shown["errors"]["sideslip"] < 0.002 and shown["supported"] == {}
    nees = shown["smoothed"]["nees"]
    assert nees["forward"]["sideslip"]["above"] < 0.1 and nees["smoothed"]["sideslip"]["above"] < 0.1
    assert shown["windows"]["sideslip"]["count"] == 3


def test_friction_that_is_excited_is_found_and_supported(tmp_path) -> None:
    found, shown = observed_in(driven(tmp_path, 0.09, 0.9), tuning(tmp_path, EARNED))
    last = found["tuning.toml"].columns()
    assert abs(last["estimated_friction"][-1] - 0.9) < 3.0 * last["sigma_friction"][-1] < 0.1
    assert last["supported_friction"][0] == 0.0 and last["supported_friction"][-1] == 1.0
    assert 0.5 < shown["supported"]["friction"] < 1.0


def test_friction_that_nothing_excites_stays_and_is_reported_as_not_supported(tmp_path) -> None:
    found, shown = observed_in(driven(tmp_path, 0.003, 0.9), tuning(tmp_path, EARNED))
    columns = found["tuning.toml"].columns()
    np.testing.assert_array_equal(columns["estimated_friction"], 1.1)
    np.testing.assert_allclose(columns["sigma_friction"], 0.15, rtol=1e-9)
    assert shown["supported"] == {"friction": 0.0} and shown["errors"]["sideslip"] < 0.002


def test_a_gap_begins_the_filter_anew_and_a_span_is_observed_alone(tmp_path) -> None:
    run = driven(tmp_path, 0.05, 1.1, gap=True)
    found, shown = observed_in(run, tuning(tmp_path))
    parts = found["tuning.toml"].parts
    assert len(parts) == 2 and abs(parts[1].first - 1200) <= 1
    assert abs(parts[1].state[S.vx] - 20.0) < 0.1 and abs(parts[1].state[S.yaw_rate]) > 0.01
    assert shown["errors"]["sideslip"] < 0.003
    found, shown = observed_in(run, tuning(tmp_path), 15.0, 20.0)
    assert shown["steps"] == 500 and shown["errors"]["sideslip"] < 0.003


def test_the_live_loop_steps_the_same_observer_by_the_same_rows(tmp_path) -> None:
    """A replay makes its steps with the kernel and the rows of the live loop: the same bits where both begin alike."""
    run = Path(driven(tmp_path, 0.05, 1.1, overrides=("sim.start={vx=20.0, yaw_rate=0.0}",)))
    seen = observe_record(run, [], lambda *_: None)[AS_RECORDED].columns()
    live = replay_run(run, AskedReplay("ideal")).columns()
    assert len(live["sideslip"]) == len(seen["sideslip"]) == 3000 and live["readings_used"][-1] > 5000
    for name in ("measured_yaw_rate", "age_ay", "prescribed_speed", "sideslip", "yaw_rate", "readings_used"):
        np.testing.assert_array_equal(live[name], seen[name])


def test_parameters_are_those_of_the_description() -> None:
    assert [one.parameter for one in ESTIMABLE] == [int(P[one.name]) for one in ESTIMABLE]
