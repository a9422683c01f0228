"""The panel without a browser: what is kept and drawn, what is sent and undone, what is saved, what a fork is."""

import dataclasses
import itertools
import math
import queue
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service import step_record
from sim_service.contract.display import Display
from sim_service.contract.machine import Machine, Parameter, Quantity, Shown, default_inputs
from sim_service.inputs.stages import HELD, RAMPED, SAFE
from sim_service.registry import configured_machine, load_machine
from sync.config.config import load
from sync.config.hand_controls import hand_controls
from tandem.view import fork, instruments, plots, tuning
from tandem.view.commander import Commander, Conflator
from tandem.view.controls import Controls, ForkLine, HandControls, HandSlider
from tandem.view.data_source import Frame
from tandem.view.history import MOST_POINTS, MOST_STEPS, History, Pace, decimated
from tandem.view.instruments import at_its_end, banner
from tandem.view.panel import Panel, manoeuvre_seconds
from tests.sync.actors import PATIENCE_S
from tests.tandem.view.seen import Gui, Handle, Seen

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
DRIVE = CONFIGS / "drive.toml"
MS = 1_000_000
SPRING = "front spring rate [N\u202f\u2215\u202fm]"
DAMPER = "front damper [N s\u202f\u2215\u202fm]"

MACHINE = Machine(
    name="thing",
    inputs=(Quantity("throttle", "1", "pedal"),),
    states=(),
    outputs=(
        Quantity("x", "m", "place"),
        Quantity("y", "m", "place"),
        Quantity("load_fl", "N", "load"),
        Quantity("load_fr", "N", "load"),
        Quantity("load_rl", "N", "load"),
        Quantity("load_rr", "N", "load"),
    ),
    parameters=(
        Parameter("front_spring_rate", "N/m", 40e3, 1e3, 500e3, "along the spring"),
        Parameter("front_damper", "N s/m", 2e3, 0.0, 50e3, "while pressed"),
        Parameter("front_WC_x", "m", 0.0, -5.0, 2.0, "hardpoint", live=False, group="front hardpoints"),
        Parameter("front_WC_y", "m", 0.0, -5.0, 2.0, "hardpoint", live=False, group="front hardpoints"),
        Parameter("abs", "1", 0.0, 0.0, 1.0, "1: anti-lock control"),
        Parameter("grip", "1", 1.0, 0.05, 2.0, "of all tyres"),
    ),
    work_size=6,
    step=None,
    initial=lambda *_: None,
    capabilities=(
        Shown(display=Display(families=(("all wheels", ("fl", "fr", "rl", "rr")), ("both axles", ("front", "rear"))))),
    ),
)


def steps(first: int, count: int, seq: list[int] | None = None, **columns: Any) -> np.ndarray:
    """Records as a ring tells them, 5 ms apart."""
    dtype = step_record.output_layout(MACHINE).dtype
    made = np.zeros(count, dtype)
    number = first + np.arange(count)
    made["step"], made["t_ns"] = number, 5 * MS * number
    made["started_ns"], made["taken_ns"] = made["t_ns"] + 20_000, made["t_ns"] + 30_000
    made["pushed_ns"], made["input_age_ns"] = made["t_ns"] + 150_000, 300_000
    made["input_seq"] = seq if seq is not None else 5 * number
    for name, values in columns.items():
        made[name] = values
    return made


# ---- history ---------------------------------------------------------------------------------------------------------


def test_few_points_are_left_as_they_are() -> None:
    t = np.arange(600.0)
    shown, columns = decimated(t, [t**2])
    assert (shown == t).all() and (columns[0] == t**2).all()


@pytest.mark.parametrize("n", [601, 1000, 3999, 4001, 8192])
def test_many_points_become_few_that_reach_every_peak(n: int) -> None:
    t = np.arange(float(n))
    rng = np.random.default_rng(n)
    noise, wave = rng.normal(size=n), np.sin(0.01 * t)
    noise[n // 2 + 7], wave[n - 3] = 50.0, -30.0
    shown, (a, b) = decimated(t, [noise, wave])
    assert len(shown) == len(a) == len(b) <= MOST_POINTS
    assert (np.diff(shown) > 0).all() and shown[-1] >= n - 2 * n / MOST_POINTS - 2
    assert a.max() == 50.0 and b.min() == -30.0


def test_what_is_no_number_neither_hides_nor_breaks_the_others() -> None:
    values = np.ones(2000)
    values[::3], values[1500] = np.nan, 9.0
    _, (found,) = decimated(np.arange(2000.0), [values])
    assert np.nanmax(found) == 9.0
    _, (found,) = decimated(np.arange(2000.0), [np.full(2000, np.nan)])
    assert np.isnan(found).all()


def test_history_is_bounded_and_in_order() -> None:
    history = History(0.005, seconds=1.0)
    for first in range(0, 1000, 7):
        history.add(steps(first, 7))
    kept = history.last()
    assert len(history) == 201 and len(kept) == 201
    assert (np.diff(kept["step"]) == 1).all() and kept["step"][-1] == 1000
    history.add(steps(2000, 5000))  # more than it holds, at once
    assert history.last()["step"].tolist() == list(range(6799, 7000))


def test_a_very_short_step_does_not_need_room_without_end() -> None:
    history = History(0.0001)
    for first in range(0, 50_000, 1000):
        history.add(steps(first, 1000))
    assert len(history) <= MOST_STEPS
    assert len(set(np.diff(history.last()["step"]))) == 1


def test_other_channels_begin_a_new_history() -> None:
    history = History(0.005)
    history.add(steps(0, 10))
    other = np.zeros(3, [("t_ns", "<i8"), ("status", "<i8"), ("step", "<i8")])
    history.add(other)
    assert len(history) == 3
    history.add(np.zeros(0, [("t_ns", "<i8")]))  # a feed without a ring
    assert len(history) == 3


def test_pace_is_of_the_last_second() -> None:
    history = History(0.005)
    slow = steps(0, 1000)
    slow["status"][:500] = step_record.STALE
    slow["status"][[900, 950]] = step_record.MISSED
    slow["pushed_ns"][990] += 4 * MS
    history.add(slow)
    pace = history.pace()
    assert pace is not None and pace.steps == 201
    assert pace.status == step_record.MISSED and pace.misses == 2
    assert pace.cost_median == 120_000 and pace.cost_most == 120_000 + 4 * MS
    assert pace.lateness_most == 20_000 and pace.age_most == 300_000


def test_balance_counts_every_block_once() -> None:
    history = History(0.005)
    history.add(steps(0, 6, seq=[10, 15, 15, 21, 22, 30]))
    assert history.balance() == (found := history.balance())
    assert (found.used, found.superseded, found.again, found.gaps) == (4, 16, 1, 0)
    assert found.used + found.superseded == 30 - 10
    history.add(steps(6, 2, seq=[3, 8], input_epoch=[1, 1]))
    assert history.balance().gaps == 1


# ---- instruments -----------------------------------------------------------------------------------------------------


ROWS = ("steering", "throttle", "brake")


def _health(**changes: Any) -> instruments.Health:
    status, misses, stages = (changes.pop(key, 0) for key in ("status", "misses", "stages"))
    pace = Pace(200, status or step_record.LOCKED, 3e5, 4e5, 1e5, 2e5, 2e4, 3e4, misses, stages)
    return instruments.Health(
        **{"rows": ROWS, "silent_s": 0.004, "step_s": 0.005, "sim": True, "daq": True, "pace": pace, **changes}
    )


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"sim": False, "silent_s": None}, "no run of this name yet"),
        ({"sim": False, "silent_s": 7.0}, "simulator gone: no step for 7 s"),
        ({"silent_s": None}, "first step"),
        ({"daq": False}, "DAQ"),
        ({"silent_s": 0.5}, "no step"),
        ({"status": step_record.STALE}, "stale"),
        ({"status": step_record.SKIPPED}, "gave steps up"),
        ({"misses": 3}, "3 deadlines"),
        ({"paused": True, "silent_s": 9.0}, "paused"),
        ({"slow": 10.0, "status": step_record.SLOWED | step_record.MISSED, "misses": 2}, "10 times slower"),
        ({"status": step_record.DIVERGED}, "not finite or out of bounds"),
        ({"status": step_record.STALE, "stages": RAMPED << 4 | HELD}, "steering held, throttle ramped to safe"),
        ({"status": step_record.STALE, "stages": SAFE << 4, "silent_s": 1.0}, "stands still until it is fresh again"),
    ],
)
def test_the_banner_says_what_is_wrong(changes: dict[str, Any], word: str) -> None:
    found = instruments.trouble(_health(**changes))
    assert found is not None and word in found[1]
    assert word in instruments.banner(found)


def test_no_banner_when_all_is_well_and_slow_motion_is_not_silence() -> None:
    assert instruments.trouble(_health()) is None and "running" in instruments.banner(None)
    found = instruments.trouble(_health(slow=100.0, silent_s=0.5))
    assert found is not None and "slow motion" in found[1]


def test_instruments_of_any_model() -> None:
    driver, car = instruments.tiles(MACHINE)
    assert [t.label for t in driver] == ["throttle"]
    assert [t.channel for t in car] == [q.name for q in MACHINE.outputs]
    text = instruments.dials(driver, car, lambda _: math.nan, load(DRIVE).inputs)
    assert "–" in text and "nan" not in text
    stale = {"input_stages": float(RAMPED << 4)}
    assert "throttle: ramped to safe" in instruments.dials(
        driver, car, lambda name: stale.get(name, 0.0), load(DRIVE).inputs
    )


def test_instruments_are_those_that_the_machine_names() -> None:
    made, _ = load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")
    hands, figures = instruments.tiles(made)
    assert [t.label for t in hands] == ["steering", "throttle", "brake"]
    assert [t.label for t in figures] == ["speed", "yaw rate", "lateral acc.", "sideslip"]
    text = instruments.dials(hands, figures, lambda name: -0.5 if name == "steering_angle" else 0.0, load(DRIVE).inputs)
    assert "29" in text and "deg right" in text
    there = {q.name for q in (*made.inputs, *made.outputs)}
    shown = made.shown.display
    assert {t.channel for t in (*hands, *figures)} | {c for pair in shown.plots for c in pair} <= there
    assert set(shown.still) <= there and set(made.efforts) <= there


def test_status_in_words_and_books() -> None:
    assert instruments.status_words(step_record.LOCKED, step_record.LOCKED | step_record.MISSED) == (
        "locked (in the last second: deadline missed)"
    )
    history = History(0.005)
    history.add(steps(0, 300))
    text = instruments.books(steps(300, 1)[0], history.pace(), history.balance(), 20.0, 4)
    assert "120 µs" in text and "299 used, 1196 superseded" in text
    assert instruments.number(-0.001, 1) == "0.0" and instruments.number(-1.0, 0) == "-1"


# ---- plots -----------------------------------------------------------------------------------------------------------


def test_choices_have_groups_and_all_wheels_at_once() -> None:
    there = plots.choices(MACHINE)
    assert list(there)[:3] == ["input / throttle", "output / x", "output / y"]
    assert there["all wheels / load"].names == ["load_fl", "load_fr", "load_rl", "load_rr"]
    assert there["fl / load_fl"].unit == "N"
    history = History(0.005)
    history.add(steps(0, 4000, load_fl=np.arange(4000)))
    picked = [there["all wheels / load"], there["timing / step cost"]]
    t, columns = plots.curves(history, picked)
    assert len(columns) == 5 and len(t) <= MOST_POINTS and t[-1] <= 0.0
    assert columns[0].max() == 3999.0 and columns[4] == pytest.approx(np.full(len(t), 0.12))
    shape = plots.layout(picked, {"N": 0})
    assert len(shape["series"]) == 6 and [a["label"] for a in shape["axes"]] == ["s before now", "N", "ms"]
    assert shape["series"][5]["scale"] == "y1"
    # an axis that one curve has is coloured like it
    assert shape["axes"][2]["stroke"] == shape["series"][5]["stroke"] != shape["axes"][1]["stroke"]


@pytest.mark.parametrize(
    "most, now, unit, expected, shown",
    [(5.0, 0, "rad/s", 0, "rad/s"), (0.004, 0, "rad/s", -3, "mrad/s"), (3e-7, 0, "m", -9, "nm"),
     (0.5, -3, "N", -3, "mN"), (2.0, -3, "m/s", 0, "m/s"), (math.nan, -3, "m", -3, "mm"), (1e-40, 0, "m", -9, "nm"),
     (1e-5, 0, "ms", 0, "ms"), (1e-5, 0, "1", 0, ""), (1e-5, 0, "km/h", 0, "km/h")],
)  # fmt: skip
def test_small_figures_get_a_unit_with_a_prefix(most: float, now: int, unit: str, expected: int, shown: str) -> None:
    assert plots.power(most, now, unit) == expected and plots.prefixed(unit, expected) == shown


def test_what_hardly_moves_is_a_flat_line_and_not_noise() -> None:
    noise = 1e-18 * np.sin(np.arange(100.0))
    low, high = plots.span([noise], "m/s") or (0.0, 0.0)
    assert low <= -1e-3 and high >= 1e-3
    assert plots.span([np.array([0.0, 1.0])], "m/s") is None
    # three decimals must tell the ticks of an axis apart, also far from zero
    low, high = plots.span([np.array([3.7281, 3.7284])], "m") or (0.0, 0.0)
    assert high - low >= 0.01 and low < 3.7281 and high > 3.7284
    assert plots.span([np.full(3, np.nan)], "N") is not None


def test_a_curve_is_not_drawn_across_an_outage() -> None:
    history = History(0.005)
    history.add(steps(0, 100))
    later = steps(100, 100)
    later["t_ns"] += 2_000_000_000
    history.add(later)
    t, (load,) = history.curves([("load_fl", "")])
    gap = int(np.flatnonzero(np.isnan(load))[0])
    assert np.isnan(load).sum() == 1 and t[gap + 1] - t[gap] > 1.9 and (np.diff(t) > 0).all()


def test_a_plot_has_the_units_of_the_tiles() -> None:
    made, _ = load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")
    tiles = {tile.channel: tile for tile in (*made.shown.display.figures, *made.shown.display.hands)}
    for choice in plots.choices(made).values():
        if (tile := tiles.get(choice.names[0])) and tile.unit and not choice.minus:
            assert (choice.unit, choice.factor) == (tile.unit, tile.factor)


def test_what_is_compared_has_one_unit() -> None:
    there = plots.choices(load_machine("tilting")[0])
    shown = [(there[name].unit, there[name].factor) for name in ("output / roll", "output / roll_wanted")]
    assert shown[0] == shown[1] and shown[0][0] == "deg"


def test_there_are_up_to_six_charts_and_a_record_is_shown_whole(server: Any) -> None:
    made = steps(0, 8000)
    seen = Seen(server)
    shown = plots.Plots(server, MACHINE, made)
    history = History(0.005)
    history.add(made)
    seen.controls["charts"].value = seen.controls["charts"].options[-1]
    shown.show(history)
    assert len(seen.charts) == min(plots.MOST_CHARTS, len(plots.choices(MACHINE)))
    seen.controls["shown"].value = plots.WHOLE
    shown.show(history)
    data = seen.charts[0].data
    assert data[0][0] == 0.0 and data[0][-1] > 39.0  # not the last twenty seconds
    assert len({str(chart.cursor) for chart in seen.charts}) == 1  # one cursor
    seen.controls["charts"].value = "1"
    shown.show(history)
    assert len(seen.charts) == 1


def test_a_chart_whose_axes_change_is_another_in_the_same_place(server: Any) -> None:
    """One that is changed on a busy page keeps a wrong range of time."""
    seen = Seen(server)
    shown, history = plots.Plots(server, MACHINE), History(0.005)
    history.add(steps(0, 400, throttle=np.linspace(0.0, 1.0, 400)))
    shown.show(history)
    first = seen.charts[0]
    shown.show(history)
    assert seen.charts[0] is first and len(first.data[0]) == 400
    history.add(steps(400, 4001, throttle=0.3))  # a flat line now: its axis has ends
    shown.show(history)
    (other,) = [chart for chart in seen.charts if chart.order == first.order]
    assert other is not first and first._impl.removed
    assert other.scales["y0"]["range"][0] < 0.3 and np.all(other.data[1] == 0.3)


def test_a_chart_that_stays_spans_another_time_after_a_page_has_opened(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page makes it of no width first, and finds no ticks of time until the span changes."""
    seen = Seen(server)
    drawn = plots.ViserChart(server, server.gui.add_folder("charts"), 190, 1.0, "one")
    choice = plots.Choice("output / far", ["far"], "m")
    assert not drawn.settle(0.0)  # there is none yet
    drawn.show(plots.layout([choice], {}, whole=True), (np.linspace(0.0, 90.0, 7), np.arange(7.0)))
    (chart,) = seen.charts
    assert not drawn.settle(1.0)  # nobody looks
    monkeypatch.setattr(server, "get_clients", lambda: {3: None})
    ends = []
    for now in np.arange(10.0, 30.0, 0.5):
        if drawn.settle(now):
            ends.append(chart.data[0][-1])
            assert np.array_equal(chart.data[0][:-1], np.linspace(0.0, 90.0, 7)[:-1])
    assert len(ends) == 3 and all(a != b for a, b in itertools.pairwise((90.0, *ends)))
    assert np.allclose(ends, 90.0, atol=1e-3)


def test_axles_go_together_too() -> None:
    quantities = tuple(Quantity(n, "1", "") for n in ("slip_front", "slip_rear", "slip_fl", "slip_fr"))
    there = plots.choices(dataclasses.replace(MACHINE, outputs=quantities))
    assert there["both axles / slip"].names == ["slip_front", "slip_rear"]
    assert there["all wheels / slip"].names == ["slip_fl", "slip_fr"]


# ---- commander -------------------------------------------------------------------------------------------------------


def test_moves_are_conflated_and_the_last_one_is_always_sent() -> None:
    queue = Conflator(every_ns=100)
    sent = []
    for now in range(0, 1000, 7):
        queue.put({"grip": float(now)})
        if (taken := queue.take(now)) is not None:
            sent.append(taken[0]["grip"])
    assert len(sent) <= 10
    assert queue.take(2000) == ({"grip": 994.0}, {}) and not queue and queue.take(3000) is None


def test_actions_keep_their_order_and_pass_with_parameters() -> None:
    queue = Conflator(every_ns=10)
    queue.act({"pause": True})
    queue.act({"steps": 1})
    queue.put({"a": 1.0})
    queue.put({"b": 2.0, "a": 3.0})
    assert queue.take(0) == ({"a": 3.0, "b": 2.0}, {"pause": True})
    assert queue.take(5) is None and queue.due_ns(5) == 5
    assert queue.take(10) == ({}, {"steps": 1})
    for _ in range(1000):
        queue.act({"reset": True})
    assert sum(queue.take(20 + 10 * i) is not None for i in range(1000)) < 100


def test_nobody_answers_is_said_and_nothing_waits() -> None:
    commander = Commander(load(DRIVE, ["name=nobody_at_all"]))
    try:
        commander.put({"grip": 0.5})
        end = time.monotonic() + PATIENCE_S
        while not commander.error:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert "no simulator" in commander.error and commander.answer is None
    finally:
        commander.close()


class Told:
    """A commander whose simulator obeys at once, and says what it was asked."""

    def __init__(self, parameters: tuple[Parameter, ...]):
        self.asked: list[dict[str, Any]] = []
        self.values = {p.name: p.value for p in parameters}
        self._parameters = parameters
        self.error, self.answers, self.busy = "", 0, False

    @property
    def answer(self) -> dict[str, Any]:
        return {
            "paused": False, "slow": 1.0,
            "parameters": {
                p.name: {"value": self.values[p.name], "first": p.value, "low": p.low, "high": p.high, "unit": p.unit,
                         "text": p.text, "live": p.live}
                for p in self._parameters
            },
        }  # fmt: skip

    def put(self, values: dict[str, float]) -> None:
        self.asked.append(values)
        self.values |= values
        self.answers += 1

    def act(self, **action: Any) -> None:
        self.asked.append(action)


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Gui, Told, tuning.Tuning]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuning, "_JUMP", float("inf"))  # everything is drawn, nothing typed
    gui, told = Gui(), Told(MACHINE.parameters)
    starts = {p.name: p.value for p in MACHINE.parameters}
    return gui, told, tuning.Tuning(gui, MACHINE, starts, "mine", told, tmp_path / "saved")  # type: ignore[arg-type]


# ---- tuning ----------------------------------------------------------------------------------------------------------


def test_parameters_are_grouped_by_the_beginning_of_their_names() -> None:
    found = tuning.grouped(MACHINE.parameters)
    assert {g: [p.name for p in members] for g, members in found.items()} == {
        "front": ["front_spring_rate", "front_damper"],
        "front hardpoints": ["front_WC_x", "front_WC_y"],
        "other": ["abs", "grip"],
    }
    by_name = {p.name: p for p in MACHINE.parameters}
    assert tuning.matches(by_name["front_damper"], "DAMP front") and tuning.matches(by_name["grip"], "tyres")
    assert not tuning.matches(by_name["grip"], "tyres front")


@pytest.mark.parametrize(
    "value, expected", [(1.0, 1.0), (0.99, 0.5), (3.0, 2.0), (7e4, 5e4), (0.0021, 0.002), (0.0, 1e-6), (math.inf, 1e-6)]
)
def test_nice_numbers(value: float, expected: float) -> None:
    assert tuning.nice(value) == pytest.approx(expected)


def test_sliders_cover_what_is_near_and_switches_are_whole() -> None:
    spring, damper, *_, switch, grip = MACHINE.parameters
    low, high, step, wide = tuning.slider_range(spring, spring.value)
    assert (low, high, wide) == (1e3, 2e5, True) and step == 100.0
    assert tuning.slider_range(damper, 2e3)[3] and tuning.slider_range(switch, 0.0) == (0.0, 1.0, 1.0, False)
    assert tuning.slider_range(grip, 1.0) == (0.05, 2.0, 0.001, False)


def test_a_sliders_range_holds_its_start_for_every_shipped_vehicle() -> None:
    for p in MACHINE.parameters:
        for start in (p.low, p.value, p.high, 0.5 * (p.low + p.high)):
            low, high, step, _ = tuning.slider_range(p, start)
            assert p.low <= low <= start <= high <= p.high and step > 0


def test_a_change_goes_to_the_simulator_and_can_be_undone(tuned: tuple[Gui, Told, tuning.Tuning]) -> None:
    gui, told, page = tuned
    slider = gui.by_label["grip"]
    for value in (0.9, 0.8, 0.7):  # one move of a hand
        slider.by_hand(value)
    gui.by_label[SPRING].by_hand(50e3)
    assert told.values["grip"] == 0.7 and told.values["front_spring_rate"] == 50e3
    changes = gui.by_label["changes"]
    changes.by_hand("undo")
    assert told.values["front_spring_rate"] == 40e3 and told.values["grip"] == 0.7
    changes.by_hand("undo")
    assert told.values["grip"] == 1.0
    page.show()
    assert slider.value == 1.0
    changes.by_hand("undo")
    assert told.asked[-1] == {"grip": 1.0}  # nothing more was asked


def test_a_number_that_is_typed_is_obeyed_when_it_has_come_to_rest(
    tuned: tuple[Gui, Told, tuning.Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    gui, told, page = tuned
    monkeypatch.setattr(tuning, "_JUMP", 0.02)
    for digits in (1e3, 5e4, 50e3):  # as a field tells it, key by key, within the limits
        gui.by_label[SPRING].by_hand(digits)
        page.show()
    assert told.values["front_spring_rate"] == 40e3
    monkeypatch.setattr(tuning, "_REST_NS", -1)
    page.show()
    assert told.values["front_spring_rate"] == 50e3
    gui.by_label["changes"].by_hand("undo")
    assert told.values["front_spring_rate"] == 40e3


@pytest.mark.parametrize("shaping", [True, False])
def test_what_shapes_the_model_has_a_slider_where_the_simulator_takes_it(
    shaping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mass = Parameter("front_mass", "kg", 40.0, 1.0, 500.0, "of both wheels", live=False, shapes=True)
    camber = Parameter("front_camber", "rad", 0.0, -0.2, 0.2, "of both wheels", live=False, shapes=True)
    shaped = [dataclasses.replace(p, shapes=not p.live) for p in MACHINE.parameters]
    model = dataclasses.replace(MACHINE, parameters=(*shaped, mass, camber))
    gui, told = Gui(), Told(model.parameters)
    starts = {p.name: p.value for p in model.parameters}
    page = tuning.Tuning(gui, model, starts, "mine", told, shaping=shaping)  # type: ignore[arg-type]
    gui.by_label["group"].by_hand("front")
    shown = [h.content for h in gui.by_label.values() if "content" in h.__dict__]
    assert ("front mass [kg]" in gui.by_label) is shaping and any("front_mass" in text for text in shown) is not shaping
    if not shaping:
        return
    sliders = (gui.by_label[label] for label in ("front mass [kg]", "front WC x [m]", "front camber [rad]"))
    assert [(s.min, s.max) for s in sliders] == [(20.0, 60.0), (-0.05, 0.05), (-0.04, 0.04)]
    for value in (41.0, 41.5):  # each change of shape costs the simulator a part of a second
        gui.by_label["front mass [kg]"].by_hand(value)
        page.show()
    assert told.asked == []
    monkeypatch.setattr(tuning, "_REST_NS", -1)
    page.show()
    assert told.asked == [{"front_mass": 41.5}]
    gui.by_label["changes"].by_hand("undo")
    assert told.values["front_mass"] == 40.0


def test_reset_puts_back_all_and_can_be_undone_too(tuned: tuple[Gui, Told, tuning.Tuning]) -> None:
    gui, told, page = tuned
    gui.by_label["grip"].by_hand(0.5)
    gui.by_label[DAMPER].by_hand(3e3)
    page.show()
    gui.by_label["changes"].by_hand("reset to start")
    assert told.asked[-1] == {"grip": 1.0, "front_damper": 2e3}
    gui.by_label["changes"].by_hand("undo")
    assert told.values["grip"] == 0.5 and told.values["front_damper"] == 3e3


def test_values_follow_what_others_set_even_beyond_the_slider(tuned: tuple[Gui, Told, tuning.Tuning]) -> None:
    gui, told, page = tuned
    told.put({"front_spring_rate": 450e3, "grip": 0.3})
    page.show()
    assert gui.by_label[SPRING].value == 450e3
    assert gui.by_label[SPRING].max >= 450e3 and gui.by_label["grip"].value == 0.3


def test_a_slider_reaches_all_limits_on_request(tuned: tuple[Gui, Told, tuning.Tuning]) -> None:
    gui, told, _ = tuned
    spring = gui.by_label[SPRING]
    assert (spring.min, spring.max) == (1e3, 2e5)
    gui.by_label["all limits"].by_hand(True)
    assert (spring.min, spring.max) == (1e3, 5e5)
    spring.by_hand(3e5)
    gui.by_label["all limits"].by_hand(False)
    assert (spring.min, spring.max) == (1e3, 3e5) and told.values["front_spring_rate"] == 3e5


def test_a_refusal_is_shown_as_text(tuned: tuple[Gui, Told, tuning.Tuning]) -> None:
    gui, told, page = tuned
    told.error = "grip = 9: must be from 0.05 to 2 <script>"
    page.show()
    shown = [h.content for h in gui.by_label.values() if "content" in h.__dict__]
    assert any("must be from" in text and "<script>" not in text for text in shown)


def test_search_and_group_choose_what_is_shown(tuned: tuple[Gui, Told, tuning.Tuning]) -> None:
    gui, _, _ = tuned
    grip, spring = gui.by_label["grip"], gui.by_label[SPRING]
    gui.by_label["search"].by_hand("spring")
    assert spring.visible and not grip.visible
    gui.by_label["search"].by_hand("")
    gui.by_label["group"].by_hand("other")
    assert grip.visible and not spring.visible
    gui.by_label["group"].by_hand("front hardpoints")
    assert not grip.visible and any("front_WC_x" in h.__dict__.get("content", "") for h in gui.by_label.values())
    gui.by_label["group"].by_hand(tuning.ALL)
    assert grip.visible and spring.visible


def test_a_saved_fragment_is_used_by_include(tuned: tuple[Gui, Told, tuning.Tuning], tmp_path: Path) -> None:
    gui, told, _ = tuned
    gui.by_label["save as configuration"].by_hand(True)
    assert not (tmp_path / "saved").exists()  # nothing to save
    told.put({"grip": 0.1 + 0.2, "front_spring_rate": 41234.5})
    for _ in range(2):
        gui.by_label["save as configuration"].by_hand(True)
    first, second = (tmp_path / "saved" / f"mine_parameters{end}.toml" for end in ("", "_2"))
    assert (first.stat().st_mode & 0o777, first.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert first.read_text() == second.read_text()
    config = load(DRIVE, [f"include=['{first}']", "sim.parameters.abs=1.0"])
    assert config.sim.parameters == {"grip": 0.1 + 0.2, "front_spring_rate": 41234.5, "abs": 1.0}


@pytest.mark.parametrize(
    "asked",
    [
        "/etc/x.toml", "../x.toml", "a/../../x.toml", "x.txt", "", ".toml", "runs/", "a/x.toml", "..toml", "-x.toml",
        "x\n.toml", "x\0.toml", "x.toml.", "x" * 100 + ".toml", "ü.toml", "x.toml/y.toml",
    ],
)  # fmt: skip
def test_a_page_writes_only_where_it_may(asked: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(ValueError):
        tuning.save("", asked, inner)
    assert list(tmp_path.rglob("*.toml")) == []


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    (inner / "x.toml").symlink_to(outer / "y.toml")
    assert tuning.save("", "x.toml", inner) == inner / "x_2.toml"
    (tmp_path / "link").symlink_to(outer)
    with pytest.raises(ValueError, match="must be a folder of this user"):
        tuning.save("", "x.toml", tmp_path / "link")
    inner.chmod(0o777)
    with pytest.raises(ValueError, match="nobody else may write"):
        tuning.save("", "z.toml", inner)
    assert list(outer.iterdir()) == []


# ---- fork ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["buggy", "buggy_single_track"])
def driven(request: pytest.FixtureRequest) -> tuple[Machine, np.ndarray, list[Frame], np.ndarray]:
    """A model on its way: frames as the view would see them, inputs of every step."""
    config = load(DRIVE, [f"sim.machine=vehicles/{request.param}.toml"])
    model, params = configured_machine(config, CONFIGS)
    live = params.copy()
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    model.initial(state, live, model.tables, work)
    started = live.copy()
    names = [q.name for q in model.inputs]
    dtype = step_record.output_layout(model).dtype
    frames, inputs = [], np.zeros((700, len(names)))
    for i in range(700):
        t = 0.005 * i
        given = {
            "throttle": 0.5,
            "drive_torque": 300.0,
            "steering_angle": 1.0 * math.sin(t),
            "steering_speed": math.cos(t),
        }
        inputs[i] = [given.get(n, without) for n, without in zip(names, default_inputs(model), strict=True)]
        model.step(state, inputs[i], live, model.tables, work, 0.005)
        record = np.zeros((), dtype)
        record["step"] = i
        for n, v in zip(names, inputs[i], strict=True):
            record[n] = v
        for q, v in zip(model.outputs, work, strict=False):
            record[q.name] = v
        frames.append(Frame(5 * MS * i, record, state.copy()))
    return model, started, frames, inputs


def test_a_copy_of_state_and_parameters_goes_on_with_the_same_bits(
    driven: tuple[Machine, np.ndarray, list[Frame], np.ndarray],
) -> None:
    """So a fork needs nothing of the live model's `work`, and nothing its steps left behind the parameters."""
    model, params, frames, inputs = driven
    state, work, own = frames[300].state.copy(), np.zeros(model.work_size), params.copy()
    for i in range(301, 700):
        model.step(state, inputs[i], own, model.tables, work, 0.005)
        assert (state == frames[i].state).all()
    for q, value in zip(model.outputs, work, strict=False):
        assert value == frames[699].step[q.name] or math.isnan(value)


def test_a_fork_holds_wheel_and_pedals_and_changes_nothing(
    driven: tuple[Machine, np.ndarray, list[Frame], np.ndarray],
) -> None:
    model, params, frames, _ = driven
    before, kept = frames[250].state.copy(), params.copy()
    path = fork.ahead(model, params, frames[250], 0.005)
    assert path.ok and path.step == 250 and path.steps == 400 and path.points.shape == (401, 3)
    assert (frames[250].state == before).all() and params.tobytes() == kept.tobytes()
    assert path.points[0, 0] == frames[250].step["x"]
    speed = np.linalg.norm(np.diff(path.points[:, :2], axis=0), axis=1) / 0.005
    assert speed.max() < 30.0 and np.abs(np.diff(speed)).max() < 0.5
    # soon after, the car is where it was said to be; later it depends on the driver
    for ahead, off in ((20, 0.05), (100, 1.0)):
        there = [float(frames[250 + ahead].step[n]) for n in ("x", "y")]
        assert math.dist(there, path.points[ahead, :2]) < off


def test_a_fork_that_leaves_the_numbers_ends_there(
    driven: tuple[Machine, np.ndarray, list[Frame], np.ndarray],
) -> None:
    model, params, frames, _ = driven
    broken = Frame(0, frames[0].step, np.full(len(model.states), np.nan))
    path = fork.ahead(model, params, broken, 0.005)
    assert not path.ok and len(path.points) == 1


def test_the_page_tells_how_far_the_car_was_from_the_fork(
    driven: tuple[Machine, np.ndarray, list[Frame], np.ndarray],
) -> None:
    model, params, frames, _ = driven
    gui, told = Gui(), Told(model.parameters)
    told.values = {p.name: float(v) for p, v in zip(model.parameters, params, strict=False)}
    drawn: queue.Queue[np.ndarray | None] = queue.Queue()
    feed: Any = Handle(model=model, params=params, config=load(DRIVE))
    controls = Controls(gui, feed, told, drawn.put)  # type: ignore[arg-type]
    history = History(0.005)
    controls.show(frames[250], history)
    gui.by_label["model"].by_hand("fork ahead")
    path = drawn.get(timeout=PATIENCE_S)
    assert path is not None and len(path) == 401
    records = np.stack([f.step for f in frames])
    records["t_ns"] = 5 * MS * np.arange(len(frames))
    history.add(records)
    controls.show(frames[-1], history)
    assert any("m from the end of that path" in h.__dict__.get("content", "") for h in gui.by_label.values())
    gui.by_label["model"].by_hand("remove fork")
    assert drawn.get(timeout=PATIENCE_S) is None


def test_controls_ask_the_simulator() -> None:
    gui, told = Gui(), Told(MACHINE.parameters)
    feed: Any = Handle(model=MACHINE, params=np.zeros(6), config=load(DRIVE))
    controls = Controls(gui, feed, told, lambda _: None)  # type: ignore[arg-type]
    controls.show(None, History(0.005))
    for press in ("pause", "1 step", "10 steps", "go on"):
        gui.by_label["run"].by_hand(press)
    gui.by_label["model"].by_hand("reset")
    gui.by_label["pace"].by_hand("10 × slower")
    assert told.asked == [
        {"pause": True},
        {"steps": 1},
        {"steps": 10},
        {"pause": False},
        {"reset": True},
        {"slow": 10.0},
    ]


# ---- the whole of it, on a server that nobody visits -----------------------------------------------------------------


class Still:
    """A feed that shows what it is given."""

    title, live, measured, files = "still", True, {}, {}

    def __init__(self, *overrides: str) -> None:
        self.model, self.params = MACHINE, np.array([p.value for p in MACHINE.parameters])
        self.config = load(DRIVE, ["name=panel_still", *overrides])
        self.records = steps(0, 0)

    def steps(self) -> np.ndarray:
        return self.records

    def alive(self) -> dict[str, bool]:
        return {"daq": True, "sim": True}


@pytest.mark.parametrize("source", ["{kind='page'}", "{kind='virtual', manoeuvre='x'}"])
def test_a_panel_shows_anything_and_nothing(server: Any, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    feed: Any = Still(f"source={source}")
    seen = Seen(server)
    panel = Panel(server, feed)
    try:
        panel.show(None)  # nobody watches
        monkeypatch.setattr(server, "get_clients", lambda: {0: None})
        monkeypatch.setattr("tandem.view.panel._FIGURES_NS", 0)  # everything is drawn each time
        monkeypatch.setattr("tandem.view.panel._PLOTS_NS", 0)
        panel.show(None)
        feed.records = steps(0, 50, load_fl=np.nan)
        for record in (feed.records[-1], np.zeros((), [("pushed_ns", "<i8")])):
            panel.show(Frame(0, record, np.zeros(0)))
        assert "cannot be shown" in seen.text
        panel.show(Frame(0, feed.records[-1], np.zeros(0)))
        assert "no step for" in seen.text and "nan" not in seen.text
        assert ("hand" in seen.controls) == ("page" in source)
        panel.tab("scene")
    finally:
        panel.close()


def test_a_fork_is_drawn_replaced_and_removed(server: Any) -> None:
    seen = Seen(server)
    line = ForkLine(server)
    for points in (np.zeros((401, 3)), np.ones((2, 3)), np.zeros((1, 3)), None, None):
        line(points)
        assert (seen.node("/fork") is not None) == (points is not None and len(points) > 1)


def test_hands_on_the_page() -> None:
    gui = Gui()
    config = load(CONFIGS / "page.toml", ["source.controls.steering.least=-100.0"])
    watched = [True]
    hands = HandControls(gui, config, lambda: watched[0])

    def press(key: str) -> None:
        gui.by_label[f"key {key}"].by_hand()

    def values(steering: float, throttle: float, brake: float) -> Any:
        return {"steering": steering, "throttle": pytest.approx(throttle), "brake": brake}

    try:
        assert hands.values() is None  # nobody has touched it
        for key in "JJJIII":
            press(key)
        assert hands.values() == values(45.0, 0.15, 0.0)
        for _ in range(20):
            press("L")
        assert hands.values() == values(-100.0, 0.15, 0.0)
        press("space")
        assert hands.values() == values(-100.0, 0.0, 40.0)
        press("I")
        watched[0] = False
        assert hands.values() is None
        watched[0] = True
        assert hands.values() is None  # another page may be driving, until somebody touches this one
        press("U")
        assert hands.values() == values(0.0, 0.0, 10.0)  # nobody finds a pressed throttle
        assert gui.by_label["hand"].options == ("wheel straight", "release all", "stop")
        gui.by_label["hand"].by_hand("release all")
        assert hands.values() == values(0.0, 0.0, 0.0)
        assert "K: throttle to 0, brake +2" in gui.text and "throttle and brake spring back" in gui.text
    finally:
        hands.close()


def test_a_slider_may_be_the_other_way_round() -> None:
    gui: Any = Gui()
    control = hand_controls(load(CONFIGS / "page.toml", ["source.controls.steering.least=-100.0"]), "")["steering"]
    slider = HandSlider(gui, "steering", control, lambda _: None)
    drawn = gui.by_label["steering [deg]"]
    assert (drawn.min, drawn.max) == (-520.0, 100.0)
    slider.value = 30.0
    assert drawn.value == -30.0
    drawn.by_hand(100.0)
    assert slider.value == -100.0


def test_hands_on_a_machine_that_is_no_car() -> None:
    """Without any table its rows are on the page, with one button."""
    gui = Gui()
    config = load(CONFIGS / "mass_spring.toml", ["name=panel_spring", "source={kind='page'}"])
    hands = HandControls(gui, config, lambda: True)
    try:
        gui.by_label["handle [m]"].by_hand(0.03)
        assert hands.values() == {"handle": 0.03}
        gui.by_label["hand"].by_hand("at rest")
        assert hands.values() == {"handle": 0.0} and not any(label.startswith("key ") for label in gui.by_label)
    finally:
        hands.close()


def test_a_slider_has_the_unit_of_its_tile() -> None:
    config = load(CONFIGS / "piano_page.toml")
    model, _ = configured_machine(config, CONFIGS)
    (tile,) = model.shown.display.hands
    (control,) = hand_controls(config, "").values()
    gui = Gui()
    slider = HandSlider(gui, "key", control, lambda _: None, tile)
    slider.value = 0.0024
    assert slider.unit == tile.unit == "mm" and slider._slider.value == pytest.approx(2.4)
    assert slider.value == pytest.approx(0.0024)


def test_a_row_in_degrees_has_its_own_ends_on_the_slider() -> None:
    """The tile's factor is of the machine's rad: applied to the row's degrees it made a hand wheel of 29794 degrees."""
    config = load(CONFIGS / "page.toml")
    model, _ = configured_machine(config, CONFIGS)
    tile = next(t for t in model.shown.display.hands if t.channel == "steering_angle")
    control, gui = hand_controls(config, "")["steering"], Gui()
    assert control.row.unit == tile.unit == "deg"
    slider = HandSlider(gui, "steering", control, lambda _: None, tile)
    assert (slider._slider.min, slider._slider.max) == (-520.0, 520.0)
    turns = HandSlider(
        Gui(), "steering", control, lambda _: None, dataclasses.replace(tile, unit="rev", factor=0.5 / np.pi)
    )
    assert turns._slider.max == pytest.approx(520.0 / 360.0)


def test_a_curve_with_an_outage_is_dotted_on_an_axis_with_ends() -> None:
    history = History(5e-3)
    history.add(steps(0, 400))
    late = steps(400, 400)
    late["t_ns"] += 2_000_000_000
    history.add(late)
    _, (column,) = plots.curves(history, [plots.choices(MACHINE)["timing / step cost"]])
    assert np.isnan(column).sum() == 1
    shape = plots.layout([plots.choices(MACHINE)["timing / step cost"]], {}, {"m/s": (0.0, 1.0)}, dotted=True)
    assert shape["series"][1]["width"] == 0 and shape["series"][1]["points"]["show"]
    # such a curve leaves a chart without a scale unless its axis has ends, which stay while it goes on
    ends = plots.span([np.array([0.31, np.nan, 7.4])], "m/s", always=True)
    assert ends == (0.0, 8.0) == plots.span([np.array([0.33, np.nan, 7.6])], "m/s", always=True)


def test_a_run_says_in_words_what_it_does() -> None:
    assert manoeuvre_seconds({"manoeuvre.toml": b"title = 'x'\nseconds = 60.0\n"}) == 60.0
    assert manoeuvre_seconds({}) == manoeuvre_seconds({"manoeuvre.toml": b"\xff"}) == math.inf
    assert at_its_end(59.0, 60.0, "0.0") == "running"
    assert at_its_end(61.0, 60.0, "-0.0") == "parked at the end of its manoeuvre"
    assert at_its_end(61.0, 60.0, "22.7") == "at the end of its manoeuvre: its inputs are held"
    # a page that hears nothing more says so by itself; every beat puts that off
    one, next_one = banner(None, beat=1), banner(None, beat=2)
    assert "connection lost" in one and one != next_one and "{0%" in one
    assert "connection lost" not in banner(None, "ended")
