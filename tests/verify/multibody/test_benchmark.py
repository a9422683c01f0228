"""The benchmark of formulations: the same rows printed, for programs and on the page; other codes beside, or absent."""

import json
import math

import numpy as np
import pytest

from sync.config.extras import install_extra
from tandem.reports.html.chart import Series, curves, paths
from verify.multibody import benchmark, other_codes, problems, relative, trees, work_precision
from verify.multibody.relative import RELATIVE
from verify.multibody.trial import FORMULATIONS, UNROLLED, instants


def perfect(bars: other_codes.Bars, step: float, observed: int) -> other_codes.Outcome:
    """A code that is right to a millimetre and takes a second for it."""
    times = np.linspace(0.0, bars.duration, 11)
    places = np.zeros((11, 3))
    places[:, :2] = problems.pendulum().reference(times) + np.array([1e-3, 0.0])
    return other_codes.Outcome(times, places, 1.0, round(bars.duration / step))


def broken(bars: other_codes.Bars, step: float, observed: int) -> other_codes.Outcome:
    raise ValueError("Newton did not converge\nand more")


@pytest.fixture
def small(monkeypatch):
    """Two problems, two other codes, no child processes."""
    monkeypatch.setattr(problems, "everything", lambda: [problems.pendulum(), problems.rotor()])
    monkeypatch.setattr(other_codes, "runners", lambda: {"perfect": perfect, "broken": broken})
    monkeypatch.setattr(other_codes, "installed", lambda: {"exudyn": "1"})
    times = {"cold_s": 20.0, "cold_processor_s": 19.0, "warm_s": 0.5, "warm_processor_s": 0.5}
    monkeypatch.setattr(benchmark, "compile_times", lambda: {"i3al": times, "all": times})
    monkeypatch.setattr(benchmark, "CHAINS", (5, 10, 20))
    monkeypatch.setattr(benchmark, "QUICK_CURVES", ("pendulum",))
    monkeypatch.setattr(work_precision, "QUICK_FACTORS", (0.1, 0.4))
    monkeypatch.setattr(trees, "pinocchio_version", lambda: None)


@pytest.mark.drill
def test_rows_are_the_same_as_objects_on_the_page_and_printed(small, tmp_path):
    printed, *judged = benchmark.multibody_benchmark(small=True, report_in=tmp_path)
    assert [row for row in judged if row.held is False] == []
    result = json.loads((tmp_path / "report.json").read_text())
    rows = {(row["problem"], row["formulation"]): row for row in result["rows"]}
    assert len(rows) == 2 * (len(FORMULATIONS) + len(UNROLLED) + len(RELATIVE)) + 2
    ours = rows["pendulum", "I3AL trapezoidal"]
    assert ours["phi"] < 1e-9 and ours["us_per_step"] > 0 and ours["coordinates"] == 2
    assert ours["real_time_factor"] == pytest.approx(ours["h"] * 1e6 / ours["us_per_step"])
    assert rows["rotor", "I3AL trapezoidal"]["error"] < 1e-9
    assert rows["pendulum", "relative RODAS4"]["error"] < 1e-9 < ours["error"]
    assert {p["group"] for p in result["work_precision"]} == {"natural", "relative", "other"}
    assert [row["problem"] for row in result["forward_dynamics"]] == ["pendulum"]
    assert rows["pendulum", "broken"]["failed"] == "ValueError: Newton did not converge"
    assert rows["pendulum", "broken"]["error"] is None
    page = (tmp_path / "report.html").read_text()
    assert (
        page.count("<svg") == 4
        and "error, m, over µs" in page
        and "Baumgarte" in page
        and "linear-implicit Euler" in page
    )
    said = printed.text
    assert said.startswith("I3AL on 2 mechanisms: constraints kept to ")  # what matters comes first
    assert f"not installed, so not compared: mujoco, pin ({install_extra('compare')})" in said
    assert "grows like n^" in said and "empty cache" not in said  # compiling anew is not quick
    assert "I3AL trapezoidal" in said and "failed" in said


NOTHING = {"cheapest": [], "chains": [], "recursion": [], "rows": [], "refused": {}, "compilation": {}}


def test_what_compiling_costs_is_said_apart_for_the_core_and_for_everything():
    times = {"cold_s": 20.0, "cold_processor_s": 19.0, "warm_s": 0.5, "warm_processor_s": 0.4}
    said = benchmark.closing(NOTHING | {"compilation": {"i3al": times, "all": {**times, "cold_s": 35.0}}})
    assert "I3AL: from an empty cache 20.0 s" in said[0] and "from a full one 0.50 s" in said[0]
    assert "all formulations: from an empty cache 35.0 s" in said[1]


def test_equal_accuracy_takes_the_coarsest_step_that_is_as_good():
    problem = problems.pendulum()
    reference = problem.reference(instants(problem))
    theirs = {"formulation": "x", "h": problem.h, "error": 1e-3, "real_time_factor": 10.0}
    row = benchmark._at_equal_accuracy(problem, reference, theirs, benchmark.COMPARED[0])
    assert row["our_error"] <= 1e-3 and row["our_h"] == pytest.approx(problem.h / 2)
    assert row["times_quicker"] == pytest.approx(0.1 / row["our_cost"])
    never = benchmark._at_equal_accuracy(problem, reference, {**theirs, "error": 1e-14}, benchmark.COMPARED[0])
    assert never["our_h"] is None and benchmark.equal_cells(never)[-1] == "not reached"


def point(method: str, group: str, error: float, cost: float) -> dict:
    return {"problem": "p", "group": group, "method": method, "h": 1e-3, "error": error, "us_per_second": cost}


def test_the_cheapest_point_that_is_accurate_enough_counts():
    points = [
        point("I3AL", "natural", 1e-3, 10.0), point("I3AL", "natural", 9e-5, 100.0),
        point("RODAS4", "relative", 1e-7, 20.0), point("RK4", "relative", 1e-4, 5.0),
        point("code", "other", 1e-4, 50.0), point("lame", "other", 1e-2, 1.0),
    ]  # fmt: skip
    rows = {row["rival"]: row for row in work_precision.at_equal_accuracy(points, (1e-4,))}
    assert {k: (row["method"], row["ratio"]) for k, row in rows.items()} == {
        "natural": ("I3AL", 20.0), "relative": ("RK4", 1.0), "code": ("code", 10.0), "lame": (None, None),
    }  # fmt: skip
    assert rows["lame"]["least_error"] == 1e-2
    assert work_precision.cells(rows["lame"])[-1] == "not reached"
    (said,) = work_precision.verdicts(list(rows.values()))
    assert said.endswith("code 10.0 at 1e-04; lame not reached by it at 1e-04")
    beyond_us = {**rows["code"], "ratio": None}
    assert work_precision.cells(beyond_us)[-1] == "not reached by ours"
    assert work_precision.verdicts([beyond_us])[0].endswith("code not reached by us at 1e-04 (NOT quicker)")
    (said,) = work_precision.verdicts([rows["code"] | {"ratio": 0.9}])
    assert said.endswith("code 0.9 at 1e-04 (NOT quicker)")


def test_every_step_of_a_curve_meets_the_instants_that_are_compared():
    for problem in problems.everything():
        for h in work_precision.step_sizes(problem, work_precision.FACTORS):
            count = round(problem.seconds / h)
            assert (count % 50 == 0 or 50 % count == 0) and problem.seconds / round(problem.seconds / h) == h


@pytest.mark.parametrize("method", RELATIVE, ids=lambda m: m.name)
def test_methods_of_relative_coordinates_have_their_order(method):
    problem = problems.pendulum()
    order = relative.observed_order(problem, method, problem.reference(instants(problem)))
    assert method.order - 0.15 < order < method.order + 1.2  # at times better than promised


def test_what_relative_coordinates_cannot_have_is_refused_by_name():
    assert "singular" in relative.refused(problems.n_four_bar(40, 10.0, 2e-3))
    assert relative.refused(problems.pendulum()) == ""


@pytest.mark.parametrize("make", [problems.free_body, problems.top, lambda: problems.chain(3, 0.2, 0.2, 1.0, 2e-3)])
def test_pinocchio_finds_the_same_accelerations_of_a_tree(make):
    pytest.importorskip("pinocchio")
    row = trees.beside_pinocchio(make(), rounds=2)
    assert row is not None and row["difference"] < 1e-12


def test_loops_are_no_tree():
    assert trees.beside_pinocchio(problems.four_bar(), rounds=1) is None


def test_the_recursion_is_timed_for_every_length():
    planar, spatial = trees.growth((5, 10), rounds=2)
    assert planar["links"] == [5, 10] and len(spatial["us"]) == 2 and math.isfinite(spatial["exponent"])


def test_both_axes_may_be_logarithmic():
    drawn = curves("w", [Series("a", np.array([1e2, 1e4]), np.array([1e-3, 1e-9]))], "µs", True, logarithmic_x=True)
    assert "1e2 µs" in drawn and "1e4 µs" in drawn and "1e-9" in drawn
    many = [Series(f"s{k}", np.array([1.0, 2.0]), np.array([1.0, 2.0])) for k in range(9)]
    assert curves("m", many).count("stroke-dasharray") == 1 and "s8 (dashed)" in curves("m", many)


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_chart_takes_any_numbers(logarithmic):
    x = np.linspace(0, 1, 5000)
    odd = [
        Series("all the same", x, np.full(5000, 3.0)),
        Series("zeros & <tags>", x, np.zeros(5000)),
        Series("nothing finite", x, np.full(5000, math.nan)),
        Series("huge", x, 1e300 * x),
        Series("empty", x[:0], x[:0]),
    ]
    for series in (odd, odd[:1], odd[2:3], []):
        drawn = curves("a & b", series, logarithmic=logarithmic)
        assert "nan" not in drawn.replace("nothing finite", "") and "inf" not in drawn.replace("finite", "")
        assert "<tags>" not in drawn and len(drawn) < 200_000


def test_paths_are_drawn_at_true_scale():
    circle = np.linspace(0, 2 * math.pi, 400)
    drawn = paths("p", [Series("c", np.cos(circle), np.sin(circle))], [[(np.array([0, 1.0]), np.array([0, 0.0]))]])
    line = next(part for part in drawn.split("<path ") if 'class="curve"' in part)
    numbers = line.split('d="M')[1].split('"')[0].replace("L", " ").split()
    places = np.array(numbers, float).reshape(-1, 2)
    assert np.ptp(places[:, 0]) == pytest.approx(np.ptp(places[:, 1]), rel=0.01)
    assert "p" in paths("p", [])
