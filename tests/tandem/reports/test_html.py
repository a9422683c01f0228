"""The report: one file that stands by itself, says what was measured, and stays so with odd data and odd names."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.step_record import HOLDOVER, LOCKED, MISSED, NEW_EPOCH, REPEATED, SKIPPED, STALE, STATUS
from sync.ring.ledger import histogram
from sync.ring.ledger import summary_us as ledger_summary
from tandem.doctor.baseline import _record
from tandem.machines.car.studies.vehicle.drive_report import SECTIONS as CAR
from tandem.reports.beside_source import SOURCE
from tandem.reports.html import RunData, headline, hops, hops_us, worst
from tandem.reports.html.figures import age, summary_us
from tandem.reports.html.report_page import write_report_page
from tandem.reports.html.style import HOPS
from tandem.reports.html.svg import envelope
from tandem.reports.run_report import run_report

INTEGERS = (
    "step", "t_ns", "started_ns", "taken_ns", "pushed_ns", "input_seq", "input_epoch", "input_t_ns", "input_age_ns",
    "status", "input_pushed_ns", "input_sent_ns", "input_received_ns",
)  # fmt: skip
FLOATS = ("vx", "steering_angle", "yaw_rate")
STEP = np.dtype([(name, "<i8") for name in INTEGERS] + [(name, "<f8") for name in FLOATS])
SECTIONS = ("where", "age", "hops", "lateness", "cost", "worst", "balance", "motion", "source", "words")
BARE = {
    "lateness_us": {"n": 1000, "mean": 14, "p50": 14.7, "p90": 18, "p99": 24.3, "p999": 33.3, "max": 36.4},
    "ipc_us": {"n": 5000, "mean": 55, "p50": 53.8, "p90": 58, "p99": 91.1, "p999": 141.3, "max": 308.1},
}


def made(n: int, wired: bool = True, seed: int = 1) -> np.ndarray:
    """Steps every 5 ms on blocks every 1 ms, with stamps as a machine would set them."""
    random = np.random.default_rng(seed)
    steps = np.zeros(n, STEP)
    number = np.arange(n)
    steps["step"] = number
    steps["t_ns"] = 3_000_000_000_000 + 5_000_000 * number
    steps["started_ns"] = steps["t_ns"] + random.lognormal(9.7, 0.3, n).astype(np.int64)
    steps["taken_ns"] = steps["started_ns"] + 200
    steps["pushed_ns"] = steps["taken_ns"] + random.lognormal(8.9, 0.2, n).astype(np.int64)
    steps["input_seq"] = 5 * number + 100
    steps["input_epoch"] = 7
    steps["input_t_ns"] = steps["t_ns"] - 850_000
    steps["input_pushed_ns"] = steps["input_t_ns"] + random.lognormal(9.5, 0.4, n).astype(np.int64)
    if wired:
        steps["input_sent_ns"] = steps["input_pushed_ns"] + random.lognormal(7.8, 0.2, n).astype(np.int64)
        steps["input_received_ns"] = steps["input_sent_ns"] + random.lognormal(10.8, 0.2, n).astype(np.int64)
    steps["input_age_ns"] = steps["taken_ns"] - steps["input_t_ns"]
    steps["vx"] = 10 + 3 * np.sin(number / 200)
    steps["steering_angle"] = np.sin(number / 90)
    steps["yaw_rate"] = 0.1 * np.sin(number / 90)
    steps["status"][:1] = NEW_EPOCH
    return steps


def figures(n: int, lost: int = 0) -> dict[str, Any]:
    count = {"produced": 5 * n, "used": n, "superseded": 4 * n - lost, "lost": lost, "closes": True}
    some = {"n": n, "mean": 5.0, "p50": 5.0, "p90": 6.0, "p99": 7.0, "p999": 8.0, "max": 9.0}
    return {
        "transport": "ipc", "seconds": n * 0.005, "steps": n, "loops": 5 * n, "bytes": 40 * n, "blocks": 5 * n,
        "ms_per_loop": 1.0, "deadline_misses": 0, "skipped": 0, "stale_steps": 0, "balance": count,
        "transfer_us": {**some, "p50": 47.0, "p99": 80.0, "p999": 100.0, "max": 300.0}, "step_us": some,
        "ended": "stopped",
    }  # fmt: skip


def run_of(n: int, label: str = "ipc", **options: Any) -> RunData:
    return RunData(label, figures(n), made(n, **options))


class Page(HTMLParser):
    """Checks that tags are balanced, and collects what a reader or a browser would meet."""

    VOID = ("meta", "link", "img", "br", "hr", "input")

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id" and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def written(
    folder: Path, title: str, runs: list[RunData], bare: dict[str, Any] | None = None, own: Any = ()
) -> tuple[Path, Path]:
    return write_report_page(folder, run_report(title, runs, bare, own)), folder / "report.json"


def report(folder: Path, *runs: RunData, bare: dict[str, Any] | None = None) -> tuple[Page, dict[str, Any], str]:
    html, told = written(folder, "a report", list(runs), bare, CAR)
    assert (html, told) == (folder / "report.html", folder / "report.json")
    text = html.read_text(encoding="utf-8")
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))
    return Page(text), json.loads(told.read_text(encoding="utf-8")), text


# ---- the figures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wired", [True, False])
def test_hops_sum_to_the_age_to_the_nanosecond(wired: bool) -> None:
    steps = made(5000, wired)
    each = hops(steps)
    assert list(each) == list(HOPS)
    total = each["sensor"] + each["ring"] + each["wire"] + each["wait"]
    assert (total == steps["input_age_ns"]).all()
    assert (each["step"] == steps["pushed_ns"] - steps["taken_ns"]).all()


def test_hops_are_those_of_the_stamps() -> None:
    steps = np.zeros(3, STEP)
    steps["input_t_ns"], steps["input_pushed_ns"], steps["taken_ns"], steps["pushed_ns"] = 1000, 1010, 2000, 2007
    steps["input_sent_ns"] = [1030, 0, 0]  # over a wire; over shared memory; from a sender that does not stamp
    steps["input_received_ns"] = [1100, 0, 1100]
    each = {name: values.tolist() for name, values in hops(steps).items()}
    assert each == {
        "sensor": [10, 10, 10], "ring": [20, 0, 0], "wire": [70, 0, 90], "wait": [900, 990, 900], "step": [7, 7, 7],
    }  # fmt: skip


def test_own_summary_agrees_with_the_ledgers() -> None:
    values = np.random.default_rng(3).lognormal(10, 1, 20_000).astype(np.int64)
    hist = histogram()
    for value in values.tolist():
        _record(hist, value)
    ours, theirs = summary_us(values), ledger_summary(hist)
    assert list(ours) == list(theirs)
    assert (ours["n"], ours["max"]) == (theirs["n"], theirs["max"])
    assert all(math.isclose(ours[key], theirs[key], rel_tol=0.017) for key in ours)


def test_the_worst_are_the_ten_largest_ages() -> None:
    steps = made(3000)
    chosen = np.random.default_rng(5).choice(np.arange(1, 2999), 10, replace=False)
    for rank, i in enumerate(chosen.tolist()):
        steps["input_age_ns"][i] += 5_000_000 + 1_000_000 * rank
    rows = worst(RunData("x", {}, steps))
    assert [row["step"] for row in rows] == chosen[::-1].tolist()
    assert [row["age_us"] * 1e3 for row in rows] == pytest.approx(np.sort(steps["input_age_ns"])[-10:][::-1].tolist())


def test_the_worst_say_what_happened() -> None:
    steps = made(1000)
    # 300: the same block again, late and stale
    for name in INTEGERS[5:8] + INTEGERS[10:]:
        steps[name][300] = steps[name][299]
    steps["started_ns"][300] += 3_000_000
    steps["taken_ns"][300] += 3_000_000
    steps["pushed_ns"][300] += 3_000_000
    steps["status"][300] = REPEATED | STALE
    # 700: the wire was slow, so only three new blocks had come
    steps["input_seq"][700] -= 2
    steps["input_t_ns"][700] -= 2_000_000
    steps["input_pushed_ns"][700] -= 2_000_000
    steps["input_sent_ns"][700] -= 2_000_000
    steps["input_age_ns"] = steps["taken_ns"] - steps["input_t_ns"]
    first, second = worst(RunData("x", {}, steps), 2)
    assert (first["step"], first["blocks_on"], first["largest_hop"]) == (300, 0, "wait")
    happened = "; ".join(first["happened"])
    assert STATUS[REPEATED] in happened and STATUS[STALE] in happened and "late" in happened
    assert (second["step"], second["blocks_on"], second["blocks_on_usual"]) == (700, 3, 5)
    assert second["largest_hop"] == "wire"
    assert "wire took 2" in "; ".join(second["happened"])


def test_a_run_that_saw_every_step_knows_its_hops_better_than_the_steps_recorded() -> None:
    own = {"wait": {**summary_us(np.array([1])), "p50": 77.0}}
    assert hops_us(RunData("x", {"hops_us": own}, made(10))) == own
    assert set(hops_us(run_of(10))) == set(HOPS)


def test_headline_is_a_plain_sentence() -> None:
    known = {**figures(10_028), "age_us": {"n": 10_028, "p50": 650.0, "max": 3600.0}}
    said = headline(RunData("x", known, made(0))).replace("\u00a0", " ").replace("\u202f", "")
    assert said == (
        "A step used data 0.65 ms old (median), at worst 3.6 ms; nothing was lost. All 10028 steps were in time."
    )
    known["age_us"] = {"n": 1, "p50": 99_700.0, "max": 1_996_000.0}
    assert "100\u00a0ms old (median), at worst 2\u00a0s" in headline(RunData("x", known, made(0)))
    assert headline(RunData("x", {**known, "bound_us": 12.5}, made(0))).endswith("Ages are known to ±12.5\u00a0µs.")
    known |= {"deadline_misses": 2, "stale_steps": 5, "balance": {"produced": 100, "lost": 3, "closes": True}}
    said = headline(RunData("x", known, made(0))).replace("\u00a0", " ").replace("\u202f", "")
    assert "3 of 100 blocks were lost. Of 10028 steps: 2 missed the deadline, 5 with stale input." in said
    known["balance"]["closes"] = False
    assert "does not close" in headline(RunData("x", known, made(0)))
    assert "No step was made" in headline(RunData("x", {"ended": "the DAQ died"}, made(0)))


def test_envelope_keeps_extremes_and_is_short() -> None:
    values = np.random.default_rng(2).normal(size=50_000)
    values[31_234], values[7], values[9] = 99.0, -99.0, math.nan
    t, low, middle, high, many = envelope(np.arange(50_000.0), values)
    assert len(t) == len(low) == len(middle) == len(high) <= 1500
    assert (low <= middle).all() and (middle <= high).all()
    assert (low.min(), high.max(), many.sum()) == (-99.0, 99.0, 49_999)


def test_an_envelope_has_the_median_and_the_middle_of_every_stretch() -> None:
    for count in (1, 2, 599, 601, 2_500):
        values = np.random.default_rng(count).normal(size=count)
        t, _, middle, _, many = envelope(np.arange(float(count)), values)
        ends = np.cumsum(many)
        assert ends[-1] == count
        np.testing.assert_array_equal(middle, [np.median(values[b - n : b]) for n, b in zip(many, ends, strict=True)])
        np.testing.assert_allclose(t, [b - 0.5 * (n + 1) for n, b in zip(many, ends, strict=True)], rtol=1e-12)


# ---- the page --------------------------------------------------------------------------------------------------------


def test_page_stands_by_itself_and_shows_everything(tmp_path: Path) -> None:
    page, told, text = report(tmp_path, run_of(4000), bare=BARE)
    assert page.ids == list(SECTIONS)
    # nothing comes from elsewhere
    assert not re.search(r"(https?:)?//[a-z]", text)
    assert "@import" not in text and "url(" not in text
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "img", "iframe", "object", "base")
        assert not {"src", "href", "xlink:href", "srcset", "data"} & set(attributes)
        assert not [key for key in attributes if key.startswith("on")]
    # hops stacked; age over time; histograms; lateness over time, as histogram, beside the bare loop; cost; speed,
    # steering and yaw rate; a bar each for the worst; the balance; the transfer
    labels = [attributes.get("aria-label") or "" for tag, attributes in page.tags if tag == "svg"]
    assert len(labels) == 1 + 1 + 6 + 3 + 1 + 3 + 10 + 1 + 1
    wanted = ("where the age", "age at use", "lateness", "how late", "bare loop", "costs", "speed", "hand wheel", "yaw")
    for part in (*wanted, "where the blocks", "transfer", *(f"{name}:" for name in HOPS)):
        assert any(part in label for label in labels), part
    assert "left out" not in page.text
    # axes have units, figures have tooltips
    for words in ("1 µs", "1 ms", "5 s", "km/h", "step period 5 ms", "bare p99.9 33.3 µs", "nothing was lost"):
        assert words in page.text.replace("\u00a0", " "), words
    assert page.count("title") > 300
    assert "prefers-color-scheme:dark" in text and "@media print" in text
    for row in SOURCE:
        assert f"{row[1]:,}".replace(",", "\u202f") in text
    assert told["bare"] == BARE
    assert len(told["runs"][0]["worst"]) == 10
    assert len((tmp_path / "report.json").read_bytes()) < 20_000


def test_the_page_of_any_machine_has_nothing_of_a_car(tmp_path: Path) -> None:
    html, _ = written(tmp_path, "a machine", [run_of(500)], BARE)
    page = Page(html.read_text())
    assert page.ids == [each for each in SECTIONS if each not in ("motion", "source")]
    assert not re.search("km/h|wheel|yaw|manoeuvre|drive", page.text)


def test_two_runs_stand_beside_each_other(tmp_path: Path) -> None:
    runs = (run_of(1000, "shm", wired=False), run_of(1500, "ipc"))
    page, told, _ = report(tmp_path, *runs)
    assert [run["label"] for run in told["runs"]] == ["shm", "ipc"]
    assert [run["recorded_steps"] for run in told["runs"]] == [1000, 1500]
    assert page.text.count("A step used data") == 2
    assert "shm: always 0, not on its path" in page.text
    for label in ("shm: age at use", "ipc: age at use", "shm: lateness", "ipc: lateness", "ipc: speed"):
        assert label in page.text
    assert "bare loop was not measured" in page.text


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_few_steps_make_a_page_too(n: int, tmp_path: Path) -> None:
    page, told, _ = report(tmp_path, run_of(n), bare=BARE)
    assert page.ids == list(SECTIONS)
    assert len(told["runs"][0]["worst"]) == n
    if n == 0:
        assert "left out" in page.text and "No step was made (stopped)" in page.text


def test_no_run_at_all_makes_a_page_too(tmp_path: Path) -> None:
    page, told, _ = report(tmp_path / "made" / "on" / "the way")
    assert page.ids == list(SECTIONS)
    assert told["runs"] == []


@pytest.mark.parametrize("missing", [*STEP.names, "figures", "all"])
def test_missing_fields_are_said_and_the_rest_is_shown(missing: str, tmp_path: Path) -> None:
    steps = made(500)
    if missing == "all":
        steps = np.zeros(500, [("other", "<f8")])
    elif missing != "figures":
        kept = [name for name in STEP.names or () if name != missing]
        steps = np.zeros(500, [(name, STEP[name]) for name in kept])
        for name in kept:
            steps[name] = made(500)[name]
    page, _, _ = report(tmp_path, RunData("old", {} if missing == "figures" else figures(500), steps), bare=BARE)
    assert page.ids == list(SECTIONS)
    if missing in ("input_pushed_ns", "input_sent_ns", "input_received_ns", "started_ns", "vx", "yaw_rate"):
        assert f"left out, the data lack {missing}" in page.text
    if missing == "input_age_ns":  # can be had from the stamps
        assert "age at use over time left out" not in page.text


def test_steps_with_events_are_marked(tmp_path: Path) -> None:
    steps = made(2000)
    steps["status"][500:520] |= STALE
    steps["status"][900] |= MISSED | SKIPPED
    steps["status"][1200] |= NEW_EPOCH
    page, _, _ = report(tmp_path, RunData("x", figures(2000), steps))
    for words in ("stale input (20)", "deadline missed (1)", "steps skipped (1)", "new epoch (2)"):
        assert words in page.text
    assert "stale input: 20 steps at 2.500 s to 2.595 s" in page.text


def test_to_be_locked_is_no_mishap_but_to_lose_it_is(tmp_path: Path) -> None:
    steps = made(1000)
    steps["status"][50:] |= LOCKED
    steps["status"][700:720] ^= LOCKED | HOLDOVER
    steps["status"][800:805] ^= LOCKED
    page, told, _ = report(tmp_path, RunData("locked", figures(1000), steps))
    assert "not locked (55)" in page.text and "holdover (20)" in page.text
    assert "locked: 50 steps at 0.000 s to 0.245 s" in page.text
    assert not any("locked" in row["happened"] for row in told["runs"][0]["worst"])
    page, _, _ = report(tmp_path, run_of(1000))  # free: nothing to lose
    assert "not locked" not in page.text


def test_a_status_of_the_future_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATUS, 1 << 40, "transcended")
    steps = made(100)
    steps["status"][40] |= 1 << 40
    page, _, _ = report(tmp_path, RunData("x", figures(100), steps))
    assert "transcended (1)" in page.text


def test_numbers_that_are_none_do_no_harm(tmp_path: Path) -> None:
    steps = made(300)
    steps["vx"][100:] = math.nan
    steps["yaw_rate"] = math.inf
    steps["status"][299] |= 32
    steps["input_received_ns"] += 10_000_000_000  # another host's clock
    known = {**figures(300), "seconds": math.nan}
    html, told = written(tmp_path, "odd", [RunData("x", known, steps)], own=CAR)
    Page(html.read_text(encoding="utf-8"))
    assert json.loads(told.read_text())["runs"][0]["figures"]["seconds"] is None
    assert "below 0" in html.read_text(encoding="utf-8")


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    evil = "</title></svg><script>alert('1')</script>\"' onload=x <b>&amp;"
    known = {**figures(50), "ended": evil, "transport": evil, "steps": evil, "loops": evil, "deadline_misses": evil}
    run = RunData(evil, known, made(50))
    html, told = written(tmp_path, evil, [run, RunData(evil, {"ended": evil}, made(0))], BARE, CAR)
    page = Page(html.read_text(encoding="utf-8"))
    assert not {"script", "b"} & ({tag for tag, _ in page.tags} - {"b"})
    assert page.count("b") == 2  # our own: the labels before the two headlines
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert evil in " ".join(page.words)
    assert json.loads(told.read_text())["title"] == evil


def test_ten_minutes_stay_small(tmp_path: Path) -> None:
    steps = made(120_000)
    steps["status"] |= 1 << np.random.default_rng(4).integers(0, 5, len(steps))  # every mark there is, everywhere
    html, told = written(tmp_path, "ten minutes", [RunData("ipc", figures(120_000), steps)], BARE, CAR)
    assert html.stat().st_size < 1_500_000
    assert told.stat().st_size < 20_000


def test_age_is_known_from_either_field() -> None:
    steps = made(20)
    without = np.zeros(20, [("taken_ns", "<i8"), ("input_t_ns", "<i8")])
    without["taken_ns"], without["input_t_ns"] = steps["taken_ns"], steps["input_t_ns"]
    ours, theirs = age(steps), age(without)
    assert ours is not None and theirs is not None
    assert (ours == theirs).all()
    assert age(np.zeros(3, [("other", "<i8")])) is None
