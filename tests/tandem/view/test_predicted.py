"""The page draws the predicted path before the machine, and says what it warns of."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.look_ahead.record import HELD, LAYOUT, LOST, MOVING, POINTS, WARN_LOSS, WARN_USE
from sync.config.config import load
from sync.ring.ring import RingWriter, push
from tandem.machines.mass_spring import MACHINE
from tandem.view import instruments
from tandem.view.data_source import Frame, LiveData, RecordData
from tandem.view.ground import Ground
from tandem.view.predicted import PredictedPaths, in_words
from tests.tandem.view.seen import Seen

DRIVE = Path(__file__).resolve().parents[3] / "configs" / "drive.toml"
PARAMS = np.array([p.value for p in MACHINE.parameters])


def prediction(kind: int, t_ns: int, status: int = 0, **values: float) -> np.ndarray:
    """A path along x, a metre a point."""
    made = np.zeros(1, LAYOUT.dtype)
    made["kind"], made["t_ns"], made["status"] = kind, t_ns, status
    for n in range(POINTS):
        made[f"x_{n + 1}"] = 10.0 + n + 1
    for name, value in values.items():
        made[name] = value
    return made


def feed(*predictions: np.ndarray) -> RecordData:
    steps = np.zeros(3, [("t_ns", "<i8"), ("taken_ns", "<i8")])
    steps["t_ns"] = steps["taken_ns"] = 1_000_000_000, 1_100_000_000, 2_000_000_000
    config = load(DRIVE, ["look_ahead.enabled=true"])
    return RecordData("test", config, MACHINE, PARAMS, steps, predictions=np.concatenate(predictions))


def test_a_path_is_drawn_from_the_machine_on_and_not_when_it_is_old(server: Any) -> None:
    data = feed(prediction(HELD, 900_000_000), prediction(MOVING, 950_000_000))
    seen = Seen(server)
    paths = PredictedPaths(server, data, Ground.of({}, False))
    for at, shown in ((0, True), (1, True), (2, False)):
        data.show(at)
        paths.show(Frame(int(data.recorded["t_ns"][at]), data.recorded[at], None), np.array([12.5, 0.0, 0.0]))
        visible = [seen.node(f"/predicted/{name}").visible for name in ("held", "moving", "warning")]
        assert visible == [shown, shown, False]
    points = seen.node("/predicted/held").points
    assert points.shape == (POINTS, 2, 3)
    np.testing.assert_allclose(points[0, 0, :2], [12.5, 0.0])
    np.testing.assert_allclose(points[-1, 1, :2], [30.0, 0.0])
    assert (np.diff(points[:, 1, 0]) >= 0.0).all()  # what has been passed is not drawn behind the machine


def test_a_warning_is_drawn_in_its_own_colour_and_said(server: Any) -> None:
    lost = prediction(HELD, 900_000_000, LOST | WARN_LOSS, time_to_loss=0.8)
    data = feed(prediction(HELD, 800_000_000), lost)
    seen = Seen(server)
    paths = PredictedPaths(server, data, Ground.of({}, False))
    paths.show(Frame(1_000_000_000, data.recorded[0], None), np.zeros(3))
    assert [seen.node(f"/predicted/{name}").visible for name in ("held", "warning")] == [False, True]
    assert in_words(data.predicted()[HELD], 2.0) == "look ahead: control is lost in 0.8 s with the hands as they are"
    used = prediction(HELD, 0, WARN_USE, time_to_loss=2.0, use_most=0.93)[0]
    assert in_words(used, 2.0) == "look ahead: 93 % of the grip will be used"
    assert in_words(prediction(HELD, 0)[0], 2.0) == in_words(None, 2.0) == ""
    health = instruments.Health(0.0, 0.005, True, True, None, warning="look ahead: x")
    assert instruments.trouble(health) == (instruments.RED, "look ahead: x")


def test_without_a_look_ahead_nothing_is_made(server: Any) -> None:
    data = feed(prediction(HELD, 0))
    data.config = load(DRIVE)
    seen = Seen(server)
    PredictedPaths(server, data, Ground.of({}, False)).show(Frame(0, data.recorded[0], None), np.zeros(3))
    assert seen.node("/predicted/held") is None


def test_a_live_page_has_the_newest_of_each_kind(request: pytest.FixtureRequest) -> None:
    config = load(DRIVE, ["name=test_predicted", "look_ahead.enabled=true"])
    ring = RingWriter(config.ring("look_ahead"), LAYOUT, 16)
    request.addfinalizer(ring.close)
    data = LiveData(config, MACHINE, PARAMS)
    request.addfinalizer(data.close)
    assert data.predicted() == {}
    for kind, t_ns in ((HELD, 1), (MOVING, 2), (HELD, 3)):
        push(ring.words, prediction(kind, t_ns).view(np.int64))
    assert {kind: int(block["t_ns"]) for kind, block in data.predicted().items()} == {HELD: 3, MOVING: 2}
    assert len(data.predicted()) == 2  # and they stay
