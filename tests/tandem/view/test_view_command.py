"""A record as a feed, and the player that moves its time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.records.feed import _States, record_feed
from tandem.records.replay import Options
from tandem.view.data_source import RecordData, instants_in
from tandem.view.player import Player, _with_cursor, distance
from tests.tandem.runs import CONFIG, DAQ, MACHINE, MS, PARAMS, STEP, daq_words, step_words, write_drive, write_run
from tests.tandem.view.seen import Gui


def _feed(path: Path, **asked: Any) -> tuple[RecordData, list[str]]:
    said: list[str] = []
    return record_feed(path, Options(**asked), said.append, lambda *_: None), said


@pytest.fixture
def feed(tmp_path: Path) -> RecordData:
    return _feed(write_drive(tmp_path / "a", 400))[0]


def _bare(n: int, begin: int = 0, states: bool = True) -> RecordData:
    steps = STEP.view(step_words(n)).copy()
    for name in ("t_ns", "taken_ns", "input_t_ns"):
        steps[name] += begin
    kept = np.arange(5, n, 6)
    found = np.outer(kept, np.ones(len(MACHINE.states))).astype(np.float32)
    return RecordData("a", CONFIG, MACHINE, PARAMS, steps, kept if states else None, found if states else None)


class Page:
    """A server of a page that nobody sees."""

    def __init__(self) -> None:
        self.gui = Gui()
        self.hand = self.gui.by_label

    def get_clients(self) -> dict[int, Any]:
        return {}

    def step(self, which: str) -> None:
        self.hand["step"].by_hand(which)


def test_a_record_shows_its_own_steps_with_states_made_again(feed: RecordData) -> None:
    assert len(feed) == 400 and feed.knows_states
    feed.go_to(1.0)
    frame = feed.poll()
    assert frame is not None and frame.state.shape == (len(MACHINE.states),)
    assert int(frame.step["step"]) == 200 and np.isfinite(frame.state).all()
    assert feed.time == pytest.approx(1.0)


def test_states_change_evenly_between_those_that_are_kept() -> None:
    feed = _bare(100)
    for step in (5, 7, 11, 50, 94):
        feed.show(step)
        frame = feed.poll()
        assert frame is not None
        np.testing.assert_allclose(frame.state, step)


def test_no_state_is_drawn_between_the_end_of_a_model_and_its_new_begin() -> None:
    feed = _bare(100)
    feed._breaks = np.array([9])
    feed.show(10)
    frame = feed.poll()
    assert frame is not None
    np.testing.assert_allclose(frame.state, 5)


def test_time_is_bounded(feed: RecordData) -> None:
    feed.go_to(-1.0)
    assert feed.at == 0
    feed.go_to(1e9)
    assert feed.at == len(feed) - 1
    feed.show(-7)
    assert feed.at == 0


def test_steps_since_the_last_look_and_anew_after_a_jump() -> None:
    feed = _bare(20_000)
    assert len(feed.steps()) == 1
    feed.show(100)
    assert feed.steps()["step"].tolist() == list(range(1, 101))
    assert len(feed.steps()) == 0
    feed.show(50)  # back: what was before it
    assert feed.steps()["step"].tolist() == list(range(51))
    feed.show(19_999)  # far ahead
    found = feed.steps()
    assert len(found) == 8192 and found["step"][-1] == 19_999


def test_a_record_that_begins_in_the_middle_shows_its_outputs(tmp_path: Path) -> None:
    steps = step_words(400)[50:]
    feed, said = _feed(write_run(tmp_path / "a", {"/daq": (DAQ, daq_words(2000)), "/step": (STEP, steps)}))
    assert not feed.knows_states and len(feed) == 350
    frame = feed.poll()
    assert frame is not None and frame.state is None and int(frame.step["step"]) == 50
    assert any("outputs alone" in text for text in said)


def test_a_record_without_steps_gets_them_from_its_blocks(tmp_path: Path) -> None:
    feed, said = _feed(write_run(tmp_path / "a", {"/daq": (DAQ, daq_words(2000))}))
    assert feed.knows_states and len(feed) > 300
    assert any("holds no steps" in text for text in said)


def test_ideal_is_at_the_same_instants(tmp_path: Path) -> None:
    path = write_drive(tmp_path / "a", 400)
    one, other = _feed(path)[0], _feed(path, mode="ideal")[0]
    assert instants_in(one, other)[1].endswith("the same blocks")
    one.go_to(1.234)
    other.go_near(int(one.instants[one.at]))
    assert other.at == one.at


def test_another_drive_is_aligned_by_its_first_step() -> None:
    one, other = _bare(400), _bare(300, begin=3_600_000 * MS)
    assert instants_in(one, other)[1] == "from the first step of each"
    page = Page()
    player = Player(page, one, other)
    page.step("+1")
    page.step("+1")
    player.advance(0.0)
    assert (one.at, other.at) == (2, 2)
    page.step("last")
    player.advance(0.1)
    assert (one.at, other.at) == (399, 299)


def test_a_twin_is_shown_with_the_car_that_its_readings_are_of() -> None:
    car, twin = _bare(400), _bare(300, begin=3_600_000 * MS)
    car.recorded["input_t_ns"] -= 1  # of a driver, not of a car
    twin.recorded["input_t_ns"] = car.recorded["t_ns"][52:352]  # it began 52 steps later
    car.recorded["input_t_ns"][7] = twin.recorded["input_t_ns"][9]  # one that agrees by chance decides nothing
    for one, other, pairs in (
        (twin, car, [(0, 52), (100, 152), (299, 351)]),
        (car, twin, [(52, 0), (152, 100), (351, 299), (399, 299), (0, 0)]),
    ):
        player = Player(Page(), one, other)
        for at, beside in pairs:
            one.show(at)
            player.playing = False
            player.advance(0.0)
            assert (one.at, other.at) == (at, beside)


def test_a_long_run_keeps_fewer_states() -> None:
    said: list[str] = []
    states = _States(5 * MS, said.append)
    assert states.every(1000, MACHINE) == 6 and not said
    hours = 500 * 3600 * 200
    every = states.every(hours, MACHINE)
    assert hours // every * 4 * len(MACHINE.states) <= 256 << 20 and said


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["RUN", "RUN", "--against", "ideal"], "either a second one"),
        (["RUN", "--against", "nothing"], "is not one of"),
        (["RUN", "--delay-ms", "5"], "needs --mode ideal"),
        (["RUN", "--mode", "other"], "is not one of"),
        (["RUN/nowhere"], "RUN/nowhere"),
        (["RUN", "--host", "nowhere"], "must be an IP address"),
        (["RUN", "--token", "0123456789abcdef"], "No such option"),  # readable by everybody in a list of processes
        (["RUN", "--token-file", "RUN/nothing"], "the token cannot be read"),
        (["RUN", "--set", "view.token=0123456789abcdef"], "is not part of a configuration"),
    ],
)
def test_what_it_refuses(tmp_path: Path, arguments: list[str], said: str) -> None:
    from typer.testing import CliRunner

    from tandem.commands.cli import app

    run = str(write_drive(tmp_path / "a", 100))
    result = CliRunner().invoke(app, ["view", *(a.replace("RUN", run) for a in arguments)])
    assert result.exit_code == 2
    assert said.replace("RUN", run) in result.stderr


# ---- the player ------------------------------------------------------------------------------------------------------


def _seconds(player: Player, begin: float, seconds: float, hz: float = 30.0) -> float:
    """Let it go on."""
    for n in range(round(seconds * hz) + 1):
        player.advance(begin + n / hz)
    return begin + seconds


def test_it_plays_at_its_speed_to_the_end_and_again(feed: RecordData) -> None:
    page = Page()
    player = Player(page, feed)
    now = _seconds(player, 100.0, 1.0)
    assert feed.time == pytest.approx(1.0, abs=0.02)
    page.hand["speed"].by_hand("0.1 x")
    now = _seconds(player, now, 1.0)
    assert feed.time == pytest.approx(1.1, abs=0.02)
    page.hand["speed"].by_hand("10 x")
    now = _seconds(player, now, 1.0)
    assert feed.at == len(feed) - 1 and not player.playing
    player.toggle()  # from the begin
    page.hand["speed"].by_hand("1 x")
    now = _seconds(player, now, 0.5)
    assert feed.time == pytest.approx(0.5, abs=0.05)
    page.hand["again"].by_hand(True)
    _seconds(player, now, 2.0)
    assert player.playing and feed.time == pytest.approx(0.5, abs=0.1)


def test_steps_pause_it(feed: RecordData) -> None:
    page = Page()
    player = Player(page, feed)
    now = _seconds(player, 0.0, 0.5)
    page.step("+1")
    at = feed.at
    now = _seconds(player, now, 0.5)
    assert feed.at == at + 1 and not player.playing
    for step in ("-1", "first", "-1"):
        page.step(step)
    _seconds(player, now, 0.1)
    assert feed.at == 0


def test_while_nobody_watches_time_stands(feed: RecordData) -> None:
    player = Player(Page(), feed)
    player.advance(0.0)
    player.advance(3600.0)  # nobody did in between
    assert feed.time <= 0.5


def test_a_hand_on_the_slider_holds_time(feed: RecordData) -> None:
    page = Page()
    player = Player(page, feed)
    now = _seconds(player, 0.0, 0.1)
    slider = page.hand["time [s]"]
    slider.by_hand(1.5)
    player.advance(now + 0.1)
    player.advance(now + 0.2)
    assert feed.time == pytest.approx(1.5)
    slider.value = 0.2
    slider.moved(None)  # by itself
    player.advance(now + 0.3)
    assert feed.time == pytest.approx(1.5)


def test_what_it_says(feed: RecordData) -> None:
    other = _bare(400)
    other.title = "ideal"
    page = Page()
    player = Player(page, feed, other)
    page.step("+1")
    player.advance(0.0)
    frame, there = feed.poll(), other.poll()
    assert frame is not None
    player.show(frame, there)
    text = page.gui.text
    assert "0.005 s" in text and "step 1 " in text and "distance to ideal" in text and " m</b>" in text


def test_names_from_a_record_are_text(feed: RecordData) -> None:
    """A run's folder, and the name in its start, are chosen by whoever made it."""
    evil = "<img src=x onerror=pwned()>![x](/etc/passwd)"
    other, page = _bare(400), Page()
    feed.title = other.title = evil
    player = Player(page, feed, other)
    player.advance(0.0)
    frame = feed.poll()
    assert frame is not None
    player.show(frame, other.poll())
    assert "&lt;img" in page.gui.text and "<img" not in page.gui.text


def test_distance() -> None:
    one, other = _bare(2).recorded.copy(), _bare(2).recorded.copy()
    other["x"] += 3.0
    other["y"] += 4.0
    assert distance(one[0], other[0]) == pytest.approx(5.0)
    assert np.isnan(distance(one[["t_ns"]][0], other[0]))


def test_curves_of_two_runs_of_different_length() -> None:
    one, other, page = _bare(400), _bare(100), Page()
    player = Player(page, one, other)
    page.hand["time [s]"].by_hand(0.3)
    player.advance(0.0)
    frame = one.poll()
    assert frame is not None
    player.show(frame, other.poll())
    apart = next(h for h in page.hand.values() if any(s["label"] == "distance" for s in h.__dict__.get("series", ())))
    assert len(apart.data[1]) > 100 and np.isfinite(apart.data[1]).all()


def test_the_cursor_leaves_no_gap() -> None:
    x = np.linspace(0, 1, 11)
    t, a, line = _with_cursor(x, (np.where(x > 0.5, np.nan, x),), 0.55)
    assert (np.diff(t) >= 0).all() and np.isfinite(a).all() and len(t) == len(a) == len(line)
    assert line.max() == 0.5 and t[line.argmax()] == 0.55
