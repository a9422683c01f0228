"""Sweeps: samples in, one table out; resumed by content, the same whoever makes the runs, failures as rows."""

import copy
import errno
import json
import multiprocessing
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.linalg import expm

import tandem
from sync.config.toml import check, read_toml
from sync.errors import ConfigError, TandemError
from tandem.ensembles import figures, pool, sampling
from tandem.ensembles.identification import Identification
from tandem.ensembles.pool import Interrupted
from tandem.ensembles.report import rank_correlation, report
from tandem.ensembles.study import Figure, Study
from tandem.ensembles.sweep import prepare, sweep
from tandem.reports.html.report_page import report_page
from tests.tandem.ending_work import rows_of

ROOT = Path(__file__).resolve().parents[3]
TOWN = ROOT / "tests" / "golden" / "town.mcap"
STUDY: dict[str, Any] = {
    "name": "pull",
    "machine": "mass_spring",
    "step_ms": 1.0,
    "manoeuvre": {"kind": "inputs", "seconds": 0.5, "inputs": {"handle": {"value": 0.05}}},
    "parameters": {
        "stiffness": {"low": 100.0, "high": 400.0, "points": 7},
        "damping": {"values": [1.0, 2.0, 4.0]},
    },
    "figures": {
        "peak": {"kind": "peak", "channel": "position"},
        "last": {"kind": "last", "channel": "position"},
    },
}


def study(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(STUDY), **changes}


def test_a_grid_is_every_combination_and_the_figures_are_those_of_the_formula(tmp_path: Path) -> None:
    table = sweep(STUDY, tmp_path).table
    assert table.rows == 21 and table.units["stiffness"] == "N/m" and table.units["peak"] == "m"
    for k in range(table.rows):
        stiffness, damping = table["stiffness"][k], table["damping"][k]
        # m x'' + c x' + k x = k h, exactly
        a = np.array([[0.0, 1.0, 0.0], [-stiffness / 0.5, -damping / 0.5, stiffness / 0.5], [0.0, 0.0, 0.0]])
        exact = (expm(0.5 * a) @ [0.0, 0.0, 0.05])[0]
        late = (stiffness / 0.5) ** 1.5 * 1e-6 * 0.5 / 12  # rad by which the trapezoidal rule lags, at 1 ms
        assert table["last"][k] == pytest.approx(exact, abs=1.5 * 0.05 * late)


def test_a_run_is_the_one_that_the_library_makes_to_the_bit(tmp_path: Path) -> None:
    table = sweep(STUDY, tmp_path).table
    model = tandem.load_machine("mass_spring", {"stiffness": table["stiffness"][9], "damping": table["damping"][9]})
    made = model.run({"handle": 0.05}, steps=500, step_s=0.001)
    assert made["position"][-1] == table["last"][9] and np.abs(made["position"]).max() == table["peak"][9]


def test_threads_and_processes_give_the_same_file(tmp_path: Path) -> None:
    for name, engine, workers in (("one", "threads", 1), ("two", "threads", 2), ("apart", "processes", 2)):
        sweep(STUDY, tmp_path / name, workers, engine)
    files = {(tmp_path / name / "table.parquet").read_bytes() for name in ("one", "two", "apart")}
    assert len(files) == 1


def test_what_is_done_is_kept_by_content_and_an_interrupted_sweep_goes_on(tmp_path: Path) -> None:
    whole = sweep(STUDY, tmp_path / "whole")

    asked: list[float] = []

    def interrupt(_what: str, share: float) -> None:
        if share > 0 and not asked:  # after the first run: few are on their way
            asked.append(share)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="the same command goes on"):
        sweep(STUDY, tmp_path / "cut", 1, progress=interrupt)
    (rows,) = (tmp_path / "cut").glob("rows-*.jsonl")
    done = len(rows.read_text().splitlines())
    assert 0 < done < 21 and not (tmp_path / "cut" / "table.parquet").exists()
    with rows.open("a") as file:
        file.write('{"key": "cut off in the mid')  # as a crash leaves it
    again = sweep(STUDY, tmp_path / "cut")
    assert again.made_now == 21 - done
    assert again.folder.joinpath("table.parquet").read_bytes() == whole.folder.joinpath("table.parquet").read_bytes()
    assert sweep(STUDY, tmp_path / "cut").made_now == 0


def test_a_longer_study_takes_what_is_there_and_another_one_does_not(tmp_path: Path) -> None:
    sweep(STUDY, tmp_path)
    longer = study()
    longer["parameters"]["damping"]["values"].append(8.0)
    assert sweep(longer, tmp_path).made_now == 7
    other = study(step_ms=0.5)
    assert sweep(other, tmp_path).made_now == 21


def test_runs_that_fail_are_rows(tmp_path: Path) -> None:
    fast = study(parameters={"mass": {"values": [0.5, 1.0]}}, set={"stiffness": 200.0})
    fast["manoeuvre"] = {
        "kind": "inputs", "seconds": 0.01, "inputs": {"handle": {"points": [[0.0, 0.0], [0.01, 1e12]]}}
    }  # fmt: skip
    made = sweep(fast, tmp_path)
    assert made.results.status == ["diverged", "diverged"] and np.isnan(made.table["peak"]).all()
    assert "diverged 0.002 s after the start" in made.table["error"][0]
    assert "Runs that failed" in report_page(report(made))


def test_two_processes_do_not_work_on_one_study(tmp_path: Path) -> None:
    refused = []

    def again(*_: Any) -> None:
        if not refused:
            with pytest.raises(TandemError, match="another process works on this study") as caught:
                sweep(STUDY, tmp_path)
            refused.append(caught.value)

    sweep(STUDY, tmp_path, progress=again)
    assert refused


def test_inputs_of_a_record_give_its_outputs_to_the_bit(tmp_path: Path) -> None:
    recorded = tandem.open_run(TOWN)
    step = recorded.table("/step")
    settings = json.loads(recorded.attachments["config.json"])
    made = sweep(
        {
            "name": "town", "machine": str(TOWN), "step_ms": settings["sim"]["step_ms"],
            "manoeuvre": {"kind": "record", "records": [str(TOWN)], "most_steps": 200},
            "channels": ["vx", "yaw_rate"],
            "figures": {"far": {"kind": "distance", "channel": "vx", "record": str(TOWN)}},
        },
        tmp_path / "out",
    )  # fmt: skip
    kept = pq.read_table(tmp_path / "out" / made.table["channels"][0])
    assert kept.schema.field("vx").metadata[b"unit"] == b"m/s"
    for name in ("vx", "yaw_rate"):
        assert (kept[name].to_numpy() == step[name][:200]).all()
    assert made.table["far"][0] == 0.0 and made.table["case"][0] == str(TOWN)


def test_samples_of_sobol_fill_the_range_and_begin_alike() -> None:
    settings = {"low": 1.0, "high": 3.0}
    base = study(parameters={"mass": settings, "damping": {**settings, "distribution": "log-uniform"}})
    made = {}
    for count in (10, 50):
        checked = Study.model_validate({**base, "sampling": {"method": "sobol", "count": count, "seed": 3}})
        made[count] = sampling.samples(checked, Path())[1]
    assert (made[50][:10] == made[10]).all() and made[50].min() > 1.0 and made[50].max() < 3.0
    assert np.median(made[50][:, 1]) == pytest.approx(np.sqrt(3.0), rel=0.05)  # the middle of a logarithmic range


def test_a_latin_hypercube_has_one_sample_in_every_stripe() -> None:
    shares = sampling.unit_samples("latin-hypercube", 3, 40, 1)
    assert (np.sort((shares * 40).astype(int), axis=0) == np.arange(40)[:, None]).all()


def test_a_normal_distribution_has_its_mean_and_deviation() -> None:
    checked = Study.model_validate(
        study(
            parameters={"mass": {"distribution": "normal", "mean": 2.0, "sigma": 0.1}},
            sampling={"method": "sobol", "count": 1024},
        )
    )
    values = sampling.samples(checked, Path())[1]
    assert values.mean() == pytest.approx(2.0, abs=1e-3) and values.std() == pytest.approx(0.1, rel=0.01)


def test_samples_come_from_a_file_of_somebody(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("mass [kg],damping [N s/m]\n0.5,1\n0.7,2\n")
    made = sweep(study(parameters={}, sampling={"method": "file", "file": str(tmp_path / "mine.csv")}), tmp_path / "o")
    assert made.table["mass"].tolist() == [0.5, 0.7] and made.table["damping"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"stifness": {"values": [1.0]}}}, ["parameters.stifness", "stiffness"]),
        ({"parameters": {"mass": {"values": [1e9]}}}, ["parameters.mass", "1e+09", "100"]),
        ({"parameters": {"mass": {"low": 1.0, "high": 2.0}}}, ["parameters.mass", "points"]),
        ({"figures": {"a": {"kind": "peak", "channel": "positon"}}}, ["positon", "position"]),
        ({"figures": {}}, ["figures", "is missing"]),
        ({"manoeuvre": {"kind": "input"}}, ["manoeuvre.kind", "input", "inputs, record"]),
        ({"manoeuvre": {"kind": "inputs", "seconds": 1.0, "inputs": {"hand": {}}}}, ["inputs.hand", "handle"]),
        ({"sampling": {"method": "sobol"}}, ["count"]),
        ({"sampling": {"count": 7}}, ["sampling.count = 7", "grid"]),
        ({"sampling": {"method": "list"}, "parameters": {}}, ["list", "samples"]),
        ({"parameters": {"mass": {"values": [1.0], "low": 1.0}}}, ["values", "low", "one or the other"]),
        ({"parameters": {"mass": {"low": 1.0, "high": 2.0, "points": 10**9}}}, ["parameters.mass.points", "1000000"]),
        ({"parameters": {"mass": {"low": 1.0, "high": 2.0, "sigma": 1.0, "points": 2}}}, ["sigma", "normal"]),
        ({"set": {"mas": 1.0}}, ["study: set.mas", "mass"]),
        ({"set": {"damping": 1.0}, "parameters": {"damping": {"values": [1.0]}}}, ["set.damping", "varied"]),
        ({"machine": "mass_sprung"}, ["study: machine: mass_sprung"]),
        ({"manoeuvre": {"kind": "record", "records": ["nowhere"]}}, ["study: manoeuvre.records: nowhere"]),
        ({"manoeuvre": {"kind": "lane-change"}}, ["lane-change", "mass_spring"]),
        (
            {"figures": {"a": {"kind": "peak", "channel": "position", "from_s": 99.0}}},
            ["figures.a", "from_s = 99", "end"],
        ),
        ({"figures": {"a": {"kind": "last", "channel": "position", "to_s": 1e-4}}}, ["figures.a", "0.0001 s"]),
    ],
)
def test_a_wrong_study_is_refused_by_name(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(study(**changes))
    assert all(word in str(caught.value) for word in words)


def test_a_full_disk_is_one_error_and_the_same_study_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(TandemError, match=r"rows-.*No space left.*goes on"):
            sweep(study(), tmp_path)
    assert sweep(study(), tmp_path).results.counts().keys() == {"ok"}
    (tmp_path / "a_file").write_text("")
    with pytest.raises(TandemError, match=r"a_file.*--out"):
        sweep(study(), tmp_path / "a_file")


def test_figures_of_a_known_curve() -> None:
    t = 1e-3 * np.arange(1, 5001)
    columns = {"y": 1.0 - np.exp(-t), "f": np.full(5000, 2.0)}

    def of(kind: str, **others: Any) -> float:
        return figures.value(Figure.model_validate({"kind": kind, "channel": "y", **others}), columns, 1e-3)

    assert of("last") == of("peak") == of("maximum") == pytest.approx(1.0 - np.exp(-5.0))
    # within 5 % of its last value, of the way it went
    edge = -np.log(1.0 - (1.0 - np.exp(-5.0)) + 0.05 * (np.exp(-1e-3) - np.exp(-5.0)))
    assert of("settling_time") == pytest.approx(edge, abs=2e-3)
    assert of("overshoot") == 0.0
    assert of("integral") == pytest.approx(5.0 - 1.0 + np.exp(-5.0), abs=1e-3)
    assert of("energy", times="f") == pytest.approx(2.0 * of("integral"))
    assert of("mean", from_s=4.0) == pytest.approx(columns["y"][3999:].mean())
    assert np.isnan(of("last", from_s=9.0))


def test_an_item_that_ends_its_worker_is_a_row_and_the_others_are_made(tmp_path: Path) -> None:
    ends = {7: signal.SIGKILL, 30: signal.SIGSEGV, 31: signal.SIGABRT}
    log, rows = tmp_path / "log", dict[int, str]()
    with pool.pool("processes", 2) as where:
        whole = pool.run_all(
            where,
            lambda chunk: (rows_of, (chunk, ends, str(log))),
            range(40),
            rows.update,
            lambda item, ended: (item, f"{ended}, tried again: {ended.killed}"),
        )
    assert whole and sorted(rows) == list(range(40))
    assert {item: row for item, row in rows.items() if row != "ok"} == {
        7: "worker ended by signal 9 (SIGKILL): killed, or out of memory, tried again: True",
        30: "worker ended by signal 11 (SIGSEGV), tried again: False",
        31: "worker ended by signal 6 (SIGABRT), tried again: False",
    }
    tries = log.read_text().split()
    assert max(tries.count(item) for item in set(tries)) <= 2


def test_what_a_worker_raises_is_raised_here_and_no_process_is_left(tmp_path: Path) -> None:
    with pool.pool("processes", 1) as where:
        started = where.executor.submit(os.getpid).result()
        with pytest.raises(FileNotFoundError, match="nowhere"):
            pool.run_all(where, lambda _: (os.listdir, (tmp_path / "nowhere",)), [1], print, lambda *_: None)
    assert not Path(f"/proc/{started}").exists()

    def interrupted() -> None:
        nonlocal started
        with pool.pool("processes", 1) as where:
            started = where.executor.submit(os.getpid).result()
            where.executor.submit(signal.pause)
            raise KeyboardInterrupt  # as a second Ctrl-C does: nothing is waited for

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not Path(f"/proc/{started}").exists()


def test_a_killed_worker_of_a_sweep_costs_no_row(tmp_path: Path) -> None:
    killed = []

    def kill(_what: str, share: float) -> None:
        if 0.0 < share < 0.9 and not killed:
            children = [child for child in multiprocessing.active_children() if child.pid]
            os.kill(children[0].pid or 0, signal.SIGKILL)
            killed.append(children[0].pid)

    first = sweep(study(), tmp_path / "killed", 2, engine="processes", progress=kill)
    assert killed and set(first.results.status) <= {"ok", "failed"}
    assert all("signal 9" in text for text in first.results.errors.values())
    again = sweep(study(), tmp_path / "killed", 2, engine="processes")  # what the kill has cost is made again
    assert set(again.results.status) == {"ok"} and again.made_now == len(first.results.errors)
    whole = sweep(study(), tmp_path / "whole")
    assert again.folder.joinpath("table.parquet").read_bytes() == whole.folder.joinpath("table.parquet").read_bytes()


def test_rank_correlation_is_one_for_any_rising_curve() -> None:
    x = np.linspace(-1.0, 2.0, 50)
    assert rank_correlation(x, np.exp(x)) == pytest.approx(1.0)
    assert rank_correlation(x, -(x**3)) == pytest.approx(-1.0)
    assert rank_correlation(x, np.ones(50)) == 0.0


def test_what_the_page_shows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "ensembles.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/ensembles.md", "exec"), {})


@pytest.mark.parametrize("file", sorted((ROOT / "configs" / "studies").glob("*.toml")), ids=lambda file: file.stem)
def test_shipped_studies_are_right(file: Path) -> None:
    if "manoeuvre" in (content := read_toml(file)):
        assert len(prepare(file).values) > 1
    else:  # its records are the user's
        check(Identification, content, str(file))
