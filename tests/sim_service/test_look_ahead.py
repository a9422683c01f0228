"""The look ahead: what a prediction holds, when it warns, and what hindsight makes of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.command_record import PARAMETER
from sim_service.contract.display import Display
from sim_service.contract.machine import STEP, Machine, Parameter, Prediction, Quantity, Shown, Stepping
from sim_service.contract.stability import GROWTH, JUDGE, LOSS, USE, Following, StabilityMonitor
from sim_service.look_ahead import record as rec
from sim_service.look_ahead.hindsight import Hindsight, Warnings
from sim_service.look_ahead.predict import SPACING, Predictor, way_of
from sim_service.look_ahead.service import Parameters
from sync.compile.array_types import read_only
from sync.compile.jit import kernel
from sync.config.config import AheadPath, Config, load
from sync.errors import ConfigError
from sync.ring.block import PUSHED
from sync.ring.ring import RingWriter, push
from tandem.machines.mass_spring import MACHINE as MASS_SPRING

DRIVE = Path(__file__).resolve().parents[2] / "configs" / "drive.toml"
S = 1_000_000_000


@kernel(STEP)
def _roll(state, inputs, params, tables, work, h):
    """A ball on a hill of this steepness: v' = k x + push; what is not measured (NaN) pushes nothing."""
    wind = inputs[2]
    if np.isnan(wind):
        inputs[2] = wind = 0.0
    state[1] += h * (params[0] * state[0] + inputs[0] + wind)
    state[0] += h * state[1]
    work[0], work[1] = state[0], 2.0 * state[0]


@kernel(JUDGE)
def _judge(work, params, tables, numbers, out):
    out[USE], out[GROWTH], out[LOSS] = abs(work[0]) / numbers[0], params[0], abs(work[0]) / numbers[1]


def _monitor(params: np.ndarray) -> StabilityMonitor:
    return StabilityMonitor(_judge, read_only(np.array([4.0, 8.0])), rates=(("push", "push_rate"),))


def _q(*names: str, optional: bool = False) -> tuple[Quantity, ...]:
    return tuple(Quantity(name, "1", "", optional) for name in names)


BALL = Machine(
    "ball",
    (*_q("push", "push_rate"), *_q("wind", optional=True)),
    _q("x", "v"),
    _q("x", "y"),
    (Parameter("hill", "1", 1.0, -10.0, 10.0, ""),),
    _roll,
    capabilities=(
        Shown(display=Display(still=("push_rate",))),
        Prediction(_monitor),
    ),
)
PARAMS = np.array([1.0])


def settings(*overrides: str) -> Config:
    return load(DRIVE, ["look_ahead.step_ms=5", *overrides])


def predict(
    state: tuple[float, float], inputs: tuple[float, float, float] = (0.0, 0.0, 0.0), kind: int = rec.HELD,
    machine: Machine = BALL, params: np.ndarray = PARAMS, overrides: tuple[str, ...] = (),
) -> tuple[dict[str, Any], Predictor]:  # fmt: skip
    predictor = Predictor(settings(*overrides), machine, params)
    block = np.zeros(rec.LAYOUT.words, np.int64)
    predictor.predict(kind, np.array(state), np.array(inputs), np.array([state[0], 2 * state[0]]), params, block)
    found = rec.LAYOUT.view(block[None])[0]
    return {name: found[name].item() for name in rec.LAYOUT.names}, predictor


def test_a_held_future_is_the_machines_own_steps_to_the_bit() -> None:
    found, _ = predict((0.5, 0.1), (0.2, 3.0, 7.0))
    state, work, inputs = np.array([0.5, 0.1]), np.zeros(2), np.zeros(3)
    for k in range(400):
        inputs[:] = 0.2, 0.0, np.nan  # the rate of a hand that holds still is zero; wind comes from no row
        BALL.step(state, inputs, PARAMS, BALL.tables, work, 0.005)
        if (k + 1) % 20 == 0:
            n = (k + 1) // 20
            assert (found[f"x_{n}"], found[f"y_{n}"]) == (work[0], work[1])
    assert found["steps"] == 400 and found["time_to_loss"] == 2.0 and not found["status"] & rec.LOST


def test_a_moving_hand_goes_on_for_a_while_and_then_holds() -> None:
    _, predictor = predict((0.0, 0.0), (0.2, 3.0, 0.0), rec.MOVING, overrides=("look_ahead.moving_s=0.1",))
    push_in, rate = predictor.rows[:, 0], predictor.rows[:, 1]
    np.testing.assert_allclose(push_in[:20], 0.2 + 3.0 * 0.005 * np.arange(1, 21))
    assert (push_in[20:] == push_in[19]).all() and (rate[:20] == 3.0).all() and (rate[20:] == 0.0).all()
    assert np.isnan(predictor.rows[:, 2]).all()


def test_the_copy_ends_where_control_is_lost_and_says_when() -> None:
    found, predictor = predict((4.0, 4.0))  # x = 4 exp(t): at 8 after ln 2
    assert found["status"] & rec.LOST and found["time_to_loss"] == pytest.approx(np.log(2.0), abs=0.01)
    assert found["steps"] == round(found["time_to_loss"] / predictor.h) < 400
    assert found["x_20"] == found["x_8"] == predictor.path[found["steps"] - 1, 0]
    assert found["use_most"] == pytest.approx(2.0, abs=0.02) and found["margin"] == 1.0 - found["use_most"]
    already, _ = predict((9.0, 0.0))
    assert already["time_to_loss"] == 0.0 and already["status"] & rec.WARN_LOSS


@pytest.mark.parametrize(
    "state, overrides, warns",
    [
        ((4.0, 4.0), (), rec.WARN_LOSS),
        ((4.0, 4.0), ("look_ahead.warn.loss_s=0.5",), 0),  # it is lost later than that
        ((4.0, 4.0), ("look_ahead.warn.use=0.9",), rec.WARN_LOSS | rec.WARN_USE),
        ((4.0, 4.0), ("look_ahead.warn.use=1.9",), rec.WARN_LOSS),  # not for long enough
        ((0.0, 0.0), ("look_ahead.warn.growth=1.0",), rec.WARN_GROWTH),
        ((0.0, 0.0), ("look_ahead.warn.growth=1.1",), 0),
    ],
)
def test_each_threshold_warns_by_itself(state: tuple[float, float], overrides: tuple[str, ...], warns: int) -> None:
    others = ("look_ahead.warn.growth=1000", "look_ahead.warn.use=1000")
    found, _ = predict(state, overrides=(*others, *overrides))
    assert found["status"] & rec.WARNING == warns
    moving, _ = predict(state, overrides=(*others, *overrides), kind=rec.MOVING)
    assert moving["status"] & rec.WARNING == 0


def test_a_copy_that_diverges_is_a_warning_and_no_exception() -> None:
    found, _ = predict((1.0, 1.0), machine=BALL.having(Stepping(bound=3.0)))
    assert found["status"] & rec.DIVERGED and found["status"] & rec.WARN_LOSS and 0 < found["steps"] < 400
    at_once, _ = predict((1.0, 1.0), machine=BALL.having(Stepping(bound=0.5)))
    assert at_once["steps"] == 0 and at_once["x_1"] == at_once["x_20"] == 1.0


def test_a_machine_that_says_nothing_of_its_control_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"some\.toml: look_ahead\.enabled = true: mass_spring does not say"):
        Predictor(settings(), MASS_SPRING, np.array([p.value for p in MASS_SPRING.parameters]), "some.toml")


@pytest.mark.parametrize(
    "override, error",
    [
        ("look_ahead.horizon_s=1.001", "horizon_s = 1.001 must be a whole number of steps of step_ms = 20"),
        ("look_ahead.rate_hz=0", "look_ahead.rate_hz"),
        ("look_ahead.warn.use=0", "look_ahead.warn.use"),
        ("look_ahead.ahead=true", "look_ahead.ahead"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(override: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        load(DRIVE, [override])


def test_parameters_are_those_that_the_step_had_obeyed(request: pytest.FixtureRequest) -> None:
    config = load(DRIVE, ["name=ahead_commands"])
    ring = RingWriter(config.ring("command"), COMMANDS, 16)
    request.addfinalizer(ring.close)
    found = Parameters(config, np.array([1.0, 2.0]))
    request.addfinalizer(found.close)
    block = np.zeros(1, COMMANDS.dtype)

    def command(index: int, value: float) -> None:
        block["seq"], block["epoch"] = ring.head, ring.epoch
        block["kind"], block["index"], block["value"] = PARAMETER, index, value
        push(ring.words, block.view(np.int64))

    command(0, 5.0)
    command(1, 6.0)
    assert found.at(0, ring.epoch).tolist() == [1.0, 2.0]
    assert found.at(1, ring.epoch).tolist() == [5.0, 2.0]
    assert found.at(2, ring.epoch).tolist() == [5.0, 6.0]
    ring.bump_epoch()  # another simulator: as made, and what was commanded before it is not for it
    assert found.at(2, ring.epoch).tolist() == [1.0, 2.0]
    command(0, 7.0)
    assert found.at(3, ring.epoch).tolist() == [7.0, 2.0] and found.lost == 0


def test_warnings_are_counted_against_losses() -> None:
    found = Warnings(2 * S)
    for ms in (0, 50, 100):  # one warning, that comes true after 0.8 s; it is lost for a while
        found.warned(ms * 1_000_000)
    for ms in (800, 805, 810):
        found.lost(ms * 1_000_000)
    found.warned(900_000_000)  # of what is lost already
    found.until(3 * S)
    assert (found.warnings, found.came_true, found.false_alarms, found.losses) == (1, 1, 0, 1)
    assert found.leads_s == [0.8]
    found.warned(10 * S)  # two apart, none of which comes true
    found.warned(11 * S)
    found.until(14 * S)
    found.lost(20 * S)  # out of nothing
    assert (found.warnings, found.false_alarms, found.losses, found.unwarned) == (3, 2, 2, 1)


def test_a_path_is_held_against_where_the_machine_was() -> None:
    found = Hindsight(5_000_000, 0.02, 100)
    block = np.zeros(rec.LAYOUT.words, np.int64)
    view = rec.LAYOUT.view(block[None])
    view["step"], view["step_epoch"], view["steps"], block[PUSHED] = 100, 7, 100, S
    for n in range(rec.POINTS):
        view[f"x_{n + 1}"] = 0.1 * (n + 1)  # at 1 m/s
    found.predicted(block)
    view["kind"], view["steps"] = rec.MOVING, 50  # ended half way
    found.predicted(block)
    for step in range(100, 501):  # in truth at 1.5 m/s
        found.happened(7, step, 0, np.array([1.5 * 0.005 * (step - 100), 0.0]), False)
        found.compare()
    view["kind"], view["step"] = rec.HELD, 500
    found.predicted(block)
    found.forget()  # the machine was reset
    for step in range(501, 1000):
        found.happened(7, step, 0, np.array([100.0, 0.0]), False)
        found.compare()
    off = found.figures()["off_m"]
    assert [off["held"][at]["p50"] for at in ("0.5 s", "1 s", "2 s")] == pytest.approx([0.25, 0.5, 1.0], rel=0.02)
    assert off["moving"]["1 s"]["p50"] == pytest.approx(0.5, rel=0.02) and off["moving"]["2 s"]["p50"] == 0.0


# ---- a path that is followed -----------------------------------------------------------------------------------------


@kernel(STEP)
def _cart(state, inputs, params, tables, work, h):
    """A point with a heading that turns by its input times its speed; inputs are the curvature and its rate."""
    state[2] += h * inputs[0] * state[3]
    state[0] += h * state[3] * np.cos(state[2])
    state[1] += h * state[3] * np.sin(state[2])
    for i in range(4):
        work[i] = state[i]


@kernel(JUDGE)
def _never(work, params, tables, numbers, out):
    out[USE] = out[GROWTH] = out[LOSS] = 0.0


CART = Machine(
    "cart",
    _q("turn", "turn_rate"),
    _q("x", "y", "yaw", "vx"),
    _q("x", "y", "yaw", "vx"),
    (),
    _cart,
    capabilities=(
        Prediction(
            lambda params: StabilityMonitor(
                _never,
                read_only(np.zeros(1)),
                rates=(("turn", "turn_rate"),),
                follow=Following("turn", 1.0, rate="turn_rate"),
            )
        ),
    ),
)
AWAY = "look_ahead.path={points=[[0, 2], [30, 2], [30, 60]], hand_rate=5.0}"


def along(state: tuple[float, ...], *overrides: str, machine: Machine = CART) -> Predictor:
    predictor = Predictor(settings(*overrides), machine, np.zeros(0))
    block = np.zeros(rec.LAYOUT.words, np.int64)
    of = np.array(state)
    predictor.predict(rec.PATH, of, np.zeros(2), of, np.zeros(0), block)
    return predictor


def test_a_path_is_found_and_followed_no_faster_than_a_hand_is() -> None:
    found = along((0.0, 0.0, 0.0, 10.0), AWAY)
    assert found.kinds == [rec.HELD, rec.MOVING, rec.PATH]
    assert abs(found.path[-1, 1] - 2.0) < 0.2 and found.path[-1, 0] > 18.0
    corner = along((25.0, 2.0, 0.0, 10.0), AWAY)
    assert abs(corner.path[-1, 0] - 30.0) < 0.5 and corner.path[-1, 1] > 10.0
    straight = along((0.0, 0.0, 0.0, 10.0), AWAY.replace("5.0", "1e-6"))
    assert abs(straight.path[-1, 1]) < 1e-3  # a hand that hardly moves


def test_a_closed_path_goes_on_at_its_beginning_and_an_open_one_ends() -> None:
    ring = "look_ahead.path={closed=true, points=[[0, 0], [20, 0], [20, 20], [0, 20]], preview_m=2.0, preview_s=0.2}"
    found = along((1.0, 19.9, -1.570796, 10.0), ring)
    assert found.path[-1, 1] < 5.0
    way = way_of(AheadPath(points=[[0.0, 0.0], [10.0, 0.0], [10.0, 0.0], [10.0, 5.0]]))
    assert np.allclose(np.hypot(*np.diff(way, axis=0).T), SPACING, rtol=0.05) and way[-1].tolist() == [10.0, 5.0]
    assert np.isfinite(along((500.0, -300.0, 2.0, 0.0), AWAY).path).all()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("{points=[[0, 0]]}", "must lead somewhere"),
        ("{points=[[0, 0], [0, 0]]}", "must lead somewhere"),
        ("{points=[[0, 0], [1, 0, 3]]}", "points"),
        ("{points=[[0, 0], [1, 0]], preview=1.0}", "preview"),
    ],
)
def test_a_path_that_cannot_be_is_refused(path: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings(f"look_ahead.path={path}")


def test_a_machine_that_is_not_guided_follows_no_path() -> None:
    with pytest.raises(ConfigError, match=r"look_ahead\.path: ball does not say how it is guided"):
        Predictor(settings(AWAY), BALL, PARAMS)
    with pytest.raises(ConfigError, match="at most 100000 m"):
        Predictor(settings("look_ahead.path={points=[[0, 0], [200000, 0]]}"), CART, np.zeros(0))


def test_of_an_observer_the_estimated_machine_is_stepped_with_the_estimated_parameters() -> None:
    """What begins its state is the machine's, then come the parameters; what is measured does not matter."""
    ahead = replace(_monitor(PARAMS), of=BALL, params_at=2)
    watcher = replace(
        BALL, name="watcher", states=_q("x", "v", "hill", "variance"), inputs=(*BALL.inputs, *_q("measured")),
        outputs=(*BALL.outputs, *_q("sigma")),
    ).having(Prediction(lambda params: ahead))  # fmt: skip
    steep = np.array([2.5])
    expected, _ = predict((0.5, 0.1), (0.2, 0.0, np.nan), params=steep)
    predictor = Predictor(settings(), watcher, PARAMS)
    block = np.zeros(rec.LAYOUT.words, np.int64)
    state, inputs = np.array([0.5, 0.1, 2.5, 77.0]), np.array([0.2, 0.0, np.nan, 9.0])
    predictor.predict(rec.HELD, state, inputs, np.array([0.5, 1.0, 3.0]), PARAMS, block)
    found = rec.LAYOUT.view(block[None])[0]
    assert {name: found[name].item() for name in rec.LAYOUT.names} == expected
