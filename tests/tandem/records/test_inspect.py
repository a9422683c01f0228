"""Looking at records: figures against others' arithmetic, differences to the bit, pages that stand by themselves."""

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from sim_service.step_record import STATUS
from sync.errors import ConfigError
from sync.record import Run, RunError, open_run
from sync.record.settings import recorded_tiles
from sync.ring.block import Channel, Layout
from tandem.console.present import print_report
from tandem.records.inspect.compare import compare
from tandem.records.inspect.compare import report as compared
from tandem.records.inspect.info import info, info_of, report
from tandem.records.inspect.plot import panels
from tandem.reports.deviation import deviation, off_path, sentence
from tandem.reports.panels import Panel, write_page, write_png
from tandem.reports.report import Report
from tests.examples import few
from tests.tandem.reports.test_html import Page
from tests.tandem.runs import BEGIN_NS, DAQ, MS, SHOWN, STEP, daq_words, step_words, write_drive, write_run


def said(found: Report) -> str:
    """What people read; and that programs can read it too."""
    json.dumps(found.data)
    out = io.StringIO()
    print_report(Console(file=out, width=500), found)
    return out.getvalue()


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_drive(tmp_path_factory.mktemp("run")))


# ---- info ------------------------------------------------------------------------------------------------------------


def test_info_of_a_plain_run(drive: Run) -> None:
    found = info(drive)
    assert (found["name"], found["ended"], found["cut"]) == ("a drive", "stopped", None)
    assert found["bytes"] == drive.path.stat().st_size and found["file"] == str(drive.path)
    assert found["seconds"] == pytest.approx(1.999)
    daq, step = found["topics"]["/daq"], found["topics"]["/step"]
    assert (daq["messages"], daq["rate_hz"], daq["gaps"], daq["epochs"], daq["missing"]) == (2000, 1000.0, 0, 1, 0)
    assert (step["messages"], step["rate_hz"], step["seconds"]) == (400, 200.0, pytest.approx(1.995))
    assert (daq["lost"], daq["dropped"], step["lost"]) == (3, 2, 0)
    assert daq["first_ns"] == BEGIN_NS and daq["last_ns"] == BEGIN_NS + 1999 * MS
    assert daq["channels"] == {"brake": "count", "throttle": "count", "steering": "count"}
    assert found["model"] == "single_track" and found["parameters"] == {"mass": {"value": 1.0, "unit": "kg"}}
    # it has its end, but five blocks that passed the ring are not in it
    assert found["whole"] is False and found["lacking"] == 5
    text = said(report(found))
    assert "not whole: lacks 5 blocks" in text and "single_track" in text


def test_a_run_with_its_end_that_lacks_nothing_is_whole(tmp_path: Path) -> None:
    found = info(open_run(write_run(tmp_path / "run", {"/daq": (DAQ, daq_words(50))}, lost="0")))
    assert found["whole"] is True and found["lacking"] == 0
    assert "not whole" not in said(report(found))


def test_figures_of_a_record_that_is_not_kept_are_the_same(tmp_path: Path) -> None:
    words = np.delete(daq_words(9000), [17, 18, 4000], axis=0)
    path = write_run(tmp_path, {"/daq": (DAQ, words), "/step": (STEP, step_words(1800))})
    assert info_of(path) == info(open_run(path))


def test_info_counts_ages_and_status_words(drive: Run) -> None:
    steps = drive.topics["/step"].blocks
    ages = sorted(steps["input_age_ns"] / 1e3)
    found = info(drive)["steps"]
    assert found["age_us"]["p50"] == pytest.approx((ages[199] + ages[200]) / 2)
    assert found["age_us"]["max"] == ages[-1] and ages[390] <= found["age_us"]["p99"] <= ages[-1]
    assert found["status"] == {STATUS[4]: 1, STATUS[1]: 2}


def test_stages_that_are_no_words_are_not_counted(tmp_path: Path) -> None:
    odd = Layout((Channel("input_age_ns", "i8"), Channel("status", "i8"), Channel("input_stages", "f8")))
    folder = write_run(tmp_path / "run", {"/step": (odd, np.zeros((3, odd.words), np.int64))})
    assert info(open_run(folder))["steps"]["status"] == {}


def test_info_finds_gaps_epochs_and_what_is_missing(tmp_path: Path) -> None:
    words = daq_words(1000)
    blocks = DAQ.view(words)
    blocks["t_ns"][400:] += 7 * MS
    blocks["t_ns"][700:] += 250 * MS
    blocks["epoch"][700:] += 1
    folder = write_run(tmp_path / "run", {"/daq": (DAQ, np.delete(words, slice(100, 120), axis=0))})
    found = info(open_run(folder))["topics"]["/daq"]
    assert (found["gaps"], found["longest_gap_ms"], found["epochs"]) == (3, 251.0, 2)
    # positions are given by the writer here; holes of the ring are those of the positions
    assert found["messages"] == 980 and found["rate_hz"] == 1000.0


@pytest.mark.parametrize("n", [0, 1])
def test_info_of_next_to_nothing(tmp_path: Path, n: int) -> None:
    found = info(open_run(write_drive(tmp_path / "run", steps=step_words(n), daq=daq_words(n))))
    assert found["seconds"] == 0.0
    assert "a drive" in said(report(found))


def test_a_run_without_its_end_is_not_whole(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"/daq": (DAQ, daq_words(50))}, finish=False)
    found = info(open_run(folder))
    assert found["whole"] is False and found["ended"].startswith("without an end: the recorder was killed")
    assert found["topics"]["/daq"]["messages"] == 50
    assert "not whole" in said(report(found))


def test_odd_words_in_a_record_are_said_as_they_are(drive: Run) -> None:
    """A name like markup ends no program; counts that are none are refused where they are read (test_heads.py)."""
    odd = "[/] [bold] [red"
    run = Run(Path(odd) / "run.mcap", {"name": odd, "utc": odd, "software": odd}, {"reason": odd})
    run.topics = drive.topics
    found = info(run)
    assert found["topics"]["/daq"]["lost"] == found["topics"]["/daq"]["dropped"] == 0
    assert said(report(found)).count(odd) == 5


# ---- compare ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [["m"], {"a": 1}, 7, True, 10**400])
def test_a_machine_described_by_anything_is_shown_without_it(drive: Run, tmp_path: Path, odd: Any) -> None:
    shown = [{"channel": "speed", "title": "v", "unit": "m/s", "factor": odd}]
    changed = {"parameters.json": json.dumps({"model": odd, "parameters": odd, "shown": shown}).encode()}
    topics = {name: (topic.layout, topic.words) for name, topic in drive.topics.items()}
    run = open_run(write_run(tmp_path / "run", topics, attachments=changed))
    found = info(run)
    assert found["model"] is None and found["parameters"] == (odd if isinstance(odd, dict) else {})
    assert "model" not in said(report(found))
    assert [tile[3] for tile in recorded_tiles(run)] == ([7.0] if odd == 7 else [])


def test_a_run_compared_with_itself_is_identical(drive: Run) -> None:
    found = compare(drive, drive)
    assert found["identical"] is True and found["configuration"] == found["parameters"] == {}
    assert all(not topic["differ"] for topic in found["topics"].values())
    assert found["motion"]["apart_m"] == {"max": 0.0, "rms": 0.0, "end": 0.0}
    assert said(compared(found)).startswith("identical")


def test_instants_of_two_runs_are_not_compared(drive: Run, tmp_path: Path) -> None:
    steps, daq = step_words(400), daq_words(2000)
    for view in (STEP.view(steps), DAQ.view(daq)):
        view["t_ns"] += 1234
        view["epoch"] += 3
    STEP.view(steps)["taken_ns"] += 99
    STEP.view(steps)["input_age_ns"] += 99
    assert compare(drive, open_run(write_drive(tmp_path / "run", steps=steps, daq=daq)))["identical"] is True


@given(st.integers(0, 399), st.integers(0, 63), st.sampled_from(["x", "yaw", "vx", "ay"]))
@settings(deadline=None, database=None, max_examples=few(20))
def test_one_changed_bit_is_found(drive: Run, number: int, bit: int, channel: str) -> None:
    words = drive.topics["/step"].words.copy()
    word = 6 + STEP.offsets[STEP.names.index(channel)] // 8
    words[number, word] ^= np.int64(1) << np.int64(bit)
    changed = STEP.view(words)[channel][number]
    if not np.isfinite(changed) or abs(changed) > 1e100:
        return
    other = Run(drive.path, topics={**drive.topics, "/step": type(drive.topics["/step"])(
        "/step", STEP, words, drive.topics["/step"].positions, drive.topics["/step"].logged_ns
    )})  # fmt: skip
    found = compare(drive, other)
    assert found["identical"] is False
    (row,) = found["topics"]["/step"]["differ"]
    before = drive.topics["/step"].blocks[channel][number]
    unit = next(c.unit for c in STEP.channels if c.name == channel)
    assert (row["channel"], row["unit"], row["first"], row["count"]) == (channel, unit, number, 1)
    assert (row["first_a"], row["first_b"]) == (before, changed)
    assert row["max"] == abs(before - changed)
    assert row["rms"] == pytest.approx(abs(before - changed) / math.sqrt(400))
    assert not found["topics"]["/daq"]["differ"]
    assert re.search(rf"{channel} .* {number} ", said(compared(found)))


def test_zeros_of_two_signs_differ_and_equal_nans_do_not(tmp_path: Path) -> None:
    a, b = step_words(20), step_words(20)
    STEP.view(a)["ay"][3], STEP.view(b)["ay"][3] = 0.0, -0.0
    STEP.view(a)["vx"][5] = STEP.view(b)["vx"][5] = math.nan
    runs = [open_run(write_drive(tmp_path / name, steps=words)) for name, words in (("a", a), ("b", b))]
    (row,) = compare(*runs)["topics"]["/step"]["differ"]
    assert (row["channel"], row["first"], row["max"]) == ("ay", 3, 0.0)


def test_numbers_against_none_are_a_difference_too(tmp_path: Path) -> None:
    """A model that left the numbers, in all that the two runs have in common."""
    a, b = step_words(1), step_words(1)
    STEP.view(a)["vx"], STEP.view(a)["ay"], STEP.view(b)["ay"] = math.nan, math.inf, -math.inf
    runs = [open_run(write_drive(tmp_path / name, steps=words)) for name, words in (("a", a), ("b", b))]
    found = compare(*runs)
    assert [row["channel"] for row in found["topics"]["/step"]["differ"]] == ["vx", "ay"]
    assert not found["identical"] and "vx" in said(compared(found))


def test_runs_of_two_lengths_and_layouts_are_compared_where_they_can_be(tmp_path: Path) -> None:
    short = open_run(write_drive(tmp_path / "a", steps=step_words(30)))
    long = open_run(write_drive(tmp_path / "b", steps=step_words(40)))
    found = compare(short, long)
    topic = found["topics"]["/step"]
    assert (topic["a"], topic["b"], topic["compared"]) == (30, 40, 30) and not topic["differ"]
    assert found["identical"] is False
    other = Layout((Channel("brake", "i4", "bar"), Channel("clutch", "i2", "count")))
    words = np.zeros((30, other.words), np.int64)
    other.view(words)["brake"] = np.arange(30)
    third = open_run(write_run(tmp_path / "c", {"/daq": (other, words)}))
    topic = compare(short, third)["topics"]["/daq"]
    assert topic["only"] == ["clutch", "steering", "throttle"] and topic["units"] == {"brake": ["count", "bar"]}
    assert topic["same"] == ["brake"]  # as numbers, though not of one width


def test_changed_settings_are_named(drive: Run, tmp_path: Path) -> None:
    config = json.loads(drive.attachments["config.json"])
    config["sim"]["step_ms"] = 2.5
    changed = {
        "config.json": json.dumps(config).encode(),
        "parameters.json": json.dumps({"parameters": {"mass": {"value": 2.0, "unit": "kg"}}, "shown": SHOWN}).encode(),
    }
    topics = {name: (topic.layout, topic.words) for name, topic in drive.topics.items()}
    found = compare(drive, open_run(write_run(tmp_path / "run", topics, attachments=changed)))
    assert found["configuration"] == {"sim.step_ms": [5.0, 2.5]}
    assert found["parameters"] == {"model": ["single_track", None], "parameters.mass.value": [1.0, 2.0]}
    assert found["identical"] is True  # what was recorded is
    assert "sim.step_ms: 5.0 → 2.5" in said(compared(found))


def test_runs_with_nothing_in_common_are_an_error(drive: Run) -> None:
    with pytest.raises(RunError, match="have no topic in common"):
        compare(drive, Run(Path("other")))


# ---- deviation -------------------------------------------------------------------------------------------------------


def columns(words: np.ndarray) -> dict[str, np.ndarray]:
    return {name: STEP.view(words)[name] for name in STEP.names}


def test_a_car_beside_another_is_apart_and_off_its_path() -> None:
    """On concentric circles at the same angle."""
    inner, outer = columns(step_words(500, 50.0, 10.0)), columns(step_words(500, 50.0, 10.0))
    outer["x"], outer["y"] = 52.0 / 50.0 * inner["x"], 50 - 52.0 / 50.0 * (50 - inner["y"])
    found = deviation(inner, outer)
    for key in ("apart_m", "off_path_m"):
        assert found[key]["max"] == pytest.approx(2.0, rel=1e-3)
        assert found[key]["rms"] == pytest.approx(2.0, rel=1e-3)
    # lateral is across the direction of the beginning: all of it there, less and less in the turn
    assert found["lateral_m"]["max"] == pytest.approx(2.0)
    assert found["lateral_m"]["end"] == pytest.approx(-2.0 * math.cos(inner["yaw"][-1]))
    assert found["yaw_deg"]["max"] == found["yaw_rate_deg_per_s"]["max"] == 0.0


def test_a_car_behind_another_is_apart_but_on_its_path() -> None:
    late = 20
    words = step_words(500, 1e9, 10.0)
    ahead, behind = columns(words[late:]), columns(words[:-late])
    found = deviation(ahead, behind)
    assert [found["apart_m"][key] for key in ("max", "rms", "end")] == pytest.approx([late * 0.05] * 3)
    assert found["lateral_m"]["max"] == pytest.approx(0.0, abs=1e-5)
    # but for the stretch before the first point of the reference
    assert found["off_path_m"]["end"] == pytest.approx(0.0, abs=1e-6)
    assert found["off_path_m"]["max"] == pytest.approx(late * 0.05)


def test_without_a_pose_there_is_no_deviation() -> None:
    assert deviation({}, {}) == deviation({"x": np.zeros(3)}, {"x": np.zeros(3)}) == {}
    nothing = {name: np.zeros(0) for name in ("x", "y", "yaw")}
    assert deviation(nothing, nothing) == {} and sentence({}) == "no pose to compare"


metres = st.floats(-30.0, 30.0)


@given(st.floats(-math.pi, math.pi), st.lists(st.tuples(st.floats(0.0, 99.0), metres), min_size=1, max_size=40))
@settings(deadline=None, database=None, max_examples=few(100))
def test_off_a_straight_line_is_the_distance_to_it(heading: float, points: list[tuple[float, float]]) -> None:
    s = np.linspace(0.0, 100.0, 250)
    cos, sin = math.cos(heading), math.sin(heading)
    along, across = (np.array(values) for values in zip(*points, strict=True))
    found = off_path(cos * s, sin * s, cos * along - sin * across, sin * along + cos * across)
    assert found == pytest.approx(np.abs(across), abs=1e-9)


@given(st.floats(5.0, 200.0), st.floats(-0.9, 2.0), st.floats(0.5, 1.5))
@settings(deadline=None, database=None, max_examples=few(25))
def test_off_a_circle_is_the_difference_of_the_radii(radius: float, further: float, pace: float) -> None:
    """Two laps at another pace, further out or in; the path crosses its own beginning."""
    n = 1000
    angle = np.linspace(0.0, 4 * math.pi, n)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    other = np.linspace(0.0, 4 * math.pi * min(pace, 1.0), n)
    r = radius * (1 + further)
    found = off_path(x, y, r * np.cos(other), r * np.sin(other))
    sagitta = radius * (1 - math.cos(2 * math.pi / (n - 1)))
    assert found == pytest.approx(np.full(n, abs(r - radius)), abs=1.01 * sagitta + 1e-9)


def test_off_a_path_of_one_point_or_at_rest_is_the_distance_to_it() -> None:
    found = off_path(np.full(50, 1.0), np.full(50, 2.0), np.array([1.0, 4.0]), np.array([2.0, 6.0]))
    assert found.tolist() == [0.0, 5.0]


def test_off_path_is_the_distance_to_the_nearest_of_all_segments() -> None:
    """A winding path, against the search through everything."""
    s = np.linspace(0.0, 60.0, 400)
    x, y = s, 3 * np.sin(s / 4)
    random = np.random.default_rng(3)
    ox, oy = x + random.normal(0, 0.4, 400), y + random.normal(0, 0.4, 400)
    expected = []
    for px, py in zip(ox, oy, strict=True):
        best = math.inf
        for ax, ay, bx, by in zip(x[:-1], y[:-1], x[1:], y[1:], strict=True):
            ux, uy = bx - ax, by - ay
            t = min(max(((px - ax) * ux + (py - ay) * uy) / (ux * ux + uy * uy), 0.0), 1.0)
            best = min(best, math.hypot(px - ax - t * ux, py - ay - t * uy))
        expected.append(best)
    assert off_path(x, y, ox, oy) == pytest.approx(np.array(expected), abs=1e-12)


# ---- plot ------------------------------------------------------------------------------------------------------------


def page(file: Path, title: str, found: list[Panel]) -> tuple[Page, str]:
    write_page(file, title, found)
    text = file.read_text(encoding="utf-8")
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|None)\b", body)
    assert not re.search(r'(src|href)="http', body)  # needs nothing from elsewhere
    return Page(text), body


def test_the_page_has_a_picture_for_every_usual_channel_and_the_path(drive: Run, tmp_path: Path) -> None:
    found = panels([("one", drive)], None)
    titles = [panel.title for panel in found]
    assert titles == [*(tile["title"] for tile in SHOWN), "path", "age at use"]
    made, body = page(tmp_path / "plot.html", "a drive", found)
    assert made.count("svg") == len(found)
    for panel in found:
        assert f"{panel.title}, {panel.unit}" in made.text
    assert body.count('class="curve"') == len(found)


def test_curves_are_the_channels_in_the_units_they_say(drive: Run) -> None:
    found = {panel.title: panel.curves[0] for panel in panels([("one", drive)], None)}
    steps = drive.topics["/step"].blocks
    _, t, speed = found["speed"]
    assert t == pytest.approx(0.005 * np.arange(400)) and speed == pytest.approx(np.full(400, 36.0))
    assert found["yaw rate"][2] == pytest.approx(np.full(400, math.degrees(0.2)))
    assert found["steering"][2] == pytest.approx(np.degrees(steps["steering_angle"]))
    assert (found["path"][1] == steps["x"]).all() and (found["path"][2] == steps["y"]).all()


def test_an_extreme_of_a_long_curve_is_never_thinned_away(tmp_path: Path) -> None:
    y = np.zeros(50_000)
    y[31_415], y[27_182] = 5.0, -3.0
    _, body = page(tmp_path / "plot.html", "long", [Panel("a", "m", [("one", np.arange(50_000) * 1e-3, y)])])
    band = re.search(r'd="M([^"]*)Z" class="band"', body)
    assert band
    heights = [float(pair.split()[1]) for pair in band[1].split("L")]
    # from -3 to 5, with some room: the picture is 170 high, its axis from 28 to 130
    room = 0.06 / 1.12 * (130 - 28)
    assert (min(heights), max(heights)) == pytest.approx((28 + room, 130 - room), abs=0.06)
    assert len(heights) < 3000


def test_several_runs_are_drawn_over_each_other_and_named(drive: Run, tmp_path: Path) -> None:
    found = panels([('a <b> & "c"', drive), ("two", drive)], ["vx", "brake"])
    assert [(panel.title, panel.unit, len(panel.curves)) for panel in found] == [
        ("vx", "m/s", 2),
        ("brake", "count", 2),
    ]
    made, body = page(tmp_path / "plot.html", "<script>", found)
    assert 'a <b> & "c"' in made.text and made.count("b") == made.count("script") == 0
    assert body.count('class="curve"') == 4


def test_a_record_without_steps_shows_its_raw_channels(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", {"/daq": (DAQ, daq_words(100))}))
    assert [panel.title for panel in panels([("one", run)], None)] == ["brake", "throttle", "steering"]


def test_an_unknown_channel_is_an_error_that_names_the_known(drive: Run) -> None:
    with pytest.raises(ConfigError, match=r"speed: no channel of the record; there are brake, throttle, steering"):
        panels([("one", drive)], ["vx", "speed", "foo"])


def test_a_run_that_left_the_numbers_can_be_drawn(tmp_path: Path) -> None:
    steps = step_words(50)
    for name in ("x", "y", "vx", "ay"):
        STEP.view(steps)[name][-1] = math.nan
    STEP.view(steps)["yaw_rate"] = math.inf
    run = open_run(write_drive(tmp_path / "run", steps=steps))
    made, _ = page(tmp_path / "plot.html", "diverged", panels([("one", run)], None))
    assert made.count("svg") == len(SHOWN) + 2


def test_a_run_of_one_step_can_be_drawn(tmp_path: Path) -> None:
    run = open_run(write_drive(tmp_path / "run", steps=step_words(1)))
    made, _ = page(tmp_path / "plot.html", "short", panels([("one", run)], None))
    assert made.count("svg") == len(SHOWN) + 2


@pytest.mark.drill
def test_the_png_is_one(drive: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_png(tmp_path / "plot.png", "a drive", panels([("one", drive), ("two", drive)], None))
    data = (tmp_path / "plot.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.rstrip().endswith(b"IEND\xaeB`\x82") and len(data) > 5000


# ---- what is written beside a record of somebody else ----------------------------------------------------------------


def test_a_figure_takes_no_settings_from_elsewhere(drive: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a `matplotlibrc` in the working folder would have them: with this one, matplotlib starts LaTeX."""
    matplotlib = pytest.importorskip("matplotlib")
    found = panels([("one", drive)], None)
    write_png(tmp_path / "one.png", "a drive", found)
    for key, value in (("text.usetex", True), ("text.latex.preamble", r"\input{/etc/hostname}"), ("font.size", 30.0)):
        monkeypatch.setitem(matplotlib.rcParams, key, value)
    write_png(tmp_path / "two.png", "a drive", found)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert matplotlib.rcParams["text.usetex"] is True  # a program that uses tandem as a library keeps its own


@pytest.mark.parametrize("write, name", [(write_page, "plot.html"), (write_png, "plot.png")])
def test_a_plot_replaces_a_link_and_leaves_what_it_leads_to(drive: Run, write: Any, name: str, tmp_path: Path) -> None:
    """A run's folder may come from anybody, with a link where the plot goes."""
    if write is write_png:
        pytest.importorskip("matplotlib")
    precious, link = tmp_path / "authorized_keys", tmp_path / "run" / name
    precious.write_text("mine")
    link.parent.mkdir()
    link.symlink_to(precious)
    write(link, "a plot", panels([("run", drive)], None))
    assert precious.read_text() == "mine"
    assert not link.is_symlink() and link.stat().st_size > 100 and link.stat().st_mode & 0o077 == 0
    assert [path.name for path in link.parent.iterdir()] == [name]
