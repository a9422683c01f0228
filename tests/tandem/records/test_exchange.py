"""Export and import: what goes out comes back to the bit, what others measured becomes a run, what is wrong is said."""

import csv
import json
import math
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("asammdf", reason="the extra mf4 is not installed", exc_type=ImportError)

# isort: split
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sim_service.registry import load_machine
from sim_service.step_record import output_layout
from sync.config.config import load
from sync.config.extras import install_extra
from sync.errors import ConfigError
from sync.record import Run, RunWriter, open_run
from sync.ring.block import Channel, Layout
from tandem.commands.cli import app
from tandem.records.exchange import mapping, mf4
from tandem.records.exchange.atomic_files import written_atomically
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.exporter import TABLES, export
from tandem.records.exchange.importer import Options, import_file
from tandem.records.exchange.resample import Series, fits, onto_blocks
from tandem.records.exchange.units import unit
from tandem.records.provenance import attachments, start_facts
from tandem.records.replay import Options as Replay
from tandem.records.replay import replay_run
from tests.examples import few
from tests.sync.strategies import LIMITS, PROPERTY, values
from tests.tandem.runs import write_drive

DRIVE = Path(__file__).resolve().parents[3] / "configs" / "drive.toml"
CONFIG = load(DRIVE, ["sim.machine=vehicles/buggy_single_track.toml"])
CAR = CONFIG.daq.layout
MS = 1_000_000
UTC = "2026-03-04T05:06:07.800000+00:00"
Topics = dict[str, tuple[Layout, np.ndarray, np.ndarray]]


@pytest.fixture(scope="module")
def facts() -> tuple[dict[str, str], dict[str, bytes]]:
    return start_facts(CONFIG) | {"utc": UTC}, attachments(CONFIG, DRIVE)


MakeRun = Callable[[Path, Topics], Path]


@pytest.fixture(scope="module")
def make_run(facts: tuple[dict[str, str], dict[str, bytes]]) -> MakeRun:
    def make(folder: Path, topics: Topics) -> Path:
        folder.mkdir(parents=True)
        writer = RunWriter(folder)
        writer.begin(*facts, at_ns=7 * MS)
        for name, (layout, words, positions) in topics.items():
            writer.topic(name, layout)
            for k in range(len(words)):
                writer.add(name, words[k : k + 1], int(positions[k]))
        assert writer.finish({"reason": "made"}, {"some": "figures"}, 8 * MS)
        return folder

    return make


def blocks(layout: Layout, n: int, **columns: Any) -> tuple[Layout, np.ndarray, np.ndarray]:
    words = np.zeros((n, layout.words), np.int64)
    rows = layout.view(words)
    rows["seq"] = np.arange(n)
    rows["t_ns"] = 10**12 + MS * np.arange(n)
    rows["pushed_ns"] = rows["t_ns"] + 90_000
    for name, column in columns.items():
        rows[name] = column
    return layout, words, np.arange(n)


def swerve(n: int = 3000) -> dict[str, np.ndarray]:
    """Counts of a drive: throttle on, a lane change, brake."""
    t = np.arange(n) * 1e-3
    return {
        "steering": np.rint(250 * np.sin(4 * t)).astype(int),
        "throttle": np.where(t < 2, 200, 0),
        "brake": np.where(t > 2.2, 6000, -7),
    }


def same_run(one: Run, other: Run, *names: str) -> None:
    for name in names or one.topics:
        a, b = one.topics[name], other.topics[name]
        assert a.layout == b.layout
        np.testing.assert_array_equal(a.words, b.words)
        np.testing.assert_array_equal(a.positions, b.positions)


def taken(folder: Path, kind: str, run: Path) -> Path:
    return Path(export(run, kind, folder / ("out.mf4" if kind == "mf4" else kind))["out"])


def brought(file: Path, runs: Path, *maps: str, **more: Any) -> Path:
    asked = Options(file, more.pop("config", DRIVE), maps=list(maps), runs=runs, **more)
    return Path(import_file(asked)["run"])


def refused(file: Path, runs: Path, *maps: str, **more: Any) -> str:
    """The message; and that nothing was left behind."""
    before = sorted(runs.rglob("*")) if runs.exists() else None
    with pytest.raises(ExchangeError) as caught:
        brought(file, runs, *maps, **more)
    assert (sorted(runs.rglob("*")) if runs.exists() else None) == before
    return str(caught.value)


# ---- there and back --------------------------------------------------------------------------------------------------

FULL = Layout(
    tuple(Channel(f"n{kind}", kind, "m/s2", -1000 * k) for k, kind in enumerate((*LIMITS, "f4", "f8")))
)  # fmt: skip


@st.composite
def runs_of_blocks(draw: st.DrawFn) -> Topics:
    """The car's blocks, and steps of every type of channel: extremes, gaps, new epochs and rings."""
    topics: Topics = {}
    for name, layout in (("/daq", CAR), ("/step", FULL)):
        n = draw(st.integers(1, 12))
        steps = draw(st.lists(st.sampled_from((1, MS, MS + 3, 5 * MS, 3 * 10**9)), min_size=n, max_size=n))
        stamps = st.integers(-(2**63), 2**63 - 1)
        _, words, _ = blocks(layout, n)
        rows = layout.view(words)
        rows["t_ns"] = draw(st.integers(0, 2**61)) + np.cumsum(steps)
        rows["seq"] = draw(st.lists(values("u8"), min_size=n, max_size=n))
        rows["epoch"] = np.cumsum(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
        for stamp in ("pushed_ns", "sent_ns", "received_ns"):
            rows[stamp] = draw(st.lists(stamps, min_size=n, max_size=n))
        for c in layout.channels:
            rows[c.name] = draw(st.lists(values(c.type), min_size=n, max_size=n))
        gaps = draw(st.lists(st.sampled_from((1, 1, 1, 2, 1000, -3)), min_size=n, max_size=n))
        topics[name] = (layout, words, (draw(st.sampled_from((0, 5, 2**32 - 2))) + np.cumsum(gaps)) % 2**32)
    return topics


@pytest.mark.parametrize("kind", TABLES)
def test_every_word_survives_export_and_import(
    kind: str, tmp_path_factory: pytest.TempPathFactory, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.records.exchange.csv._ROWS", 3)  # also across portions

    @settings(PROPERTY, max_examples=few(20))
    @given(runs_of_blocks())
    def check(topics: Topics) -> None:
        folder = tmp_path_factory.mktemp("there")
        there = open_run(make_run(folder / "run", topics))
        back = open_run(brought(taken(folder, kind, there.path), folder / "runs"))
        assert list(back.topics) == list(there.topics)
        if kind == "csv":
            same_run_but_for_payloads_of_nan(there, back)
        else:
            same_run(there, back)
        kept = {k: v for k, v in there.attachments.items() if k != "summary.json"}
        assert {k: v for k, v in back.attachments.items() if k != "summary.json"} == kept
        assert there.start.items() <= back.start.items()

    check()


def same_run_but_for_payloads_of_nan(one: Run, other: Run) -> None:
    """Text knows one not-a-number only."""
    for name in one.topics:
        a, b = one.topics[name], other.topics[name]
        assert a.layout == b.layout
        np.testing.assert_array_equal(a.positions, b.positions)
        for column in a.blocks.dtype.names or ():
            x, y = a.blocks[column], b.blocks[column]
            np.testing.assert_array_equal(x, y)  # not-a-numbers count as equal
            if x.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))


@pytest.mark.parametrize("kind", TABLES)
def test_a_replay_of_the_imported_run_has_the_same_inputs(kind: str, tmp_path: Path, make_run: MakeRun) -> None:
    model, _ = load_machine(DRIVE.parent / CONFIG.sim.machine, {})
    steps = blocks(output_layout(model), 600, taken_ns=10**12 + 3333 + 5 * MS * np.arange(600))
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 3000, **swerve()), "/step": steps})
    back = brought(taken(tmp_path, kind, run), tmp_path / "runs")
    one, other = (replay_run(path, Replay(mode="ideal")) for path in (run, back))
    same_run(one.run, other.run)
    assert one.results.shape == other.results.shape and len(one.results) == 600
    np.testing.assert_array_equal(one.results, other.results)
    assert np.ptp(one.columns()["steering_angle"]) > 0.5


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_file_of_an_export_is_a_run_of_its_own(kind: str, tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 50, **swerve(50)), "/step": blocks(FULL, 5)})
    folder = taken(tmp_path, kind, run)
    back = open_run(brought(folder / f"daq.{kind}", tmp_path / "runs"))
    assert list(back.topics) == ["/daq"]
    same_run(open_run(run), back, "/daq")
    assert "no blocks of inputs" in refused(folder / f"step.{kind}", tmp_path / "runs")


def test_an_exported_csv_file_is_known_by_its_names_and_units_alone(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 50, **swerve(50), epoch=np.arange(50) // 20)})
    lonely = tmp_path / "elsewhere.csv"
    lonely.write_bytes((taken(tmp_path, "csv", run) / "daq.csv").read_bytes())
    same_run(open_run(run), open_run(brought(lonely, tmp_path / "runs")))


def test_an_exported_run_can_be_imported_for_another_configuration(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 50, **swerve(50))})
    file = taken(tmp_path, "mf4", run)
    back = open_run(
        brought(file, tmp_path / "runs", explicit_config=True, overrides=["inputs.throttle.full_counts=210.0"])
    )
    same_run(open_run(run), back)
    assert back.json("config.json")["inputs"]["throttle"]["full_counts"] == 210.0
    assert "own configuration" in refused(file, tmp_path / "runs", overrides=["daq.rate_hz=500"])


# ---- names that become places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["/../../escaped", "../escaped", "..", ".", "", "a/b", "/tmp/escaped", "a\0b", "a\nb", "x" * 65, "-rf", "ü"]
)
def test_the_name_of_an_imported_run_leads_nowhere_else(name: str, tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 5)})
    folder = taken(tmp_path, "csv", run)
    passport = json.loads((folder / "run.json").read_text())
    passport["start"]["name"] = name
    (folder / "run.json").write_text(json.dumps(passport))
    before = sorted(tmp_path.rglob("*"))
    said = refused(folder, tmp_path / "deep" / "runs")
    assert said.startswith(f"{folder}: start.name = {name!r}: becomes the name of a folder, must be letters")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("topic", ["/../../daq", "daq", "/", "/a//b", "/a b", "/daq\0", "/daq\n", "/" + "x" * 300])
def test_a_topic_whose_file_would_lie_elsewhere_is_refused(topic: str, tmp_path: Path, make_run: MakeRun) -> None:
    """From a record into an export, and from an export's passport into the name of a file that is read."""
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 5)})
    folder = taken(tmp_path, "csv", run)
    passport = json.loads((folder / "run.json").read_text())
    passport["topics"][topic] = passport["topics"]["/daq"]
    (folder / "run.json").write_text(json.dumps(passport))
    assert "becomes the name of a file" in refused(folder, tmp_path / "runs")
    evil = make_run(tmp_path / "evil", {topic: blocks(CAR, 5)})
    with pytest.raises(ExchangeError, match="becomes the name of a file"):
        export(evil, "csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---- what others see -------------------------------------------------------------------------------------------------


def test_an_mf4_file_has_a_group_a_rate_with_units_notes_and_the_start(tmp_path: Path, make_run: MakeRun) -> None:
    from asammdf import MDF

    run = make_run(tmp_path / "run", {"/step": blocks(FULL, 7), "/daq": blocks(CAR, 40, **swerve(40))})
    with MDF(taken(tmp_path, "mf4", run)) as mdf:
        names = [group.channel_group.acq_name for group in mdf.groups]
        assert names == ["/step", "/daq"]
        steering = mdf.get("steering", group=1)
        np.testing.assert_array_equal(steering.samples, swerve(40)["steering"])
        np.testing.assert_allclose(steering.timestamps, np.arange(40) * 1e-3, atol=1e-12)
        assert steering.unit == "count" and steering.master_metadata[0] == "t_s"
        assert "200000 ns before" in mdf.get("brake", group=1).comment
        t_ns = mdf.get("t_ns", group=1)
        assert t_ns.samples.dtype == np.int64 and t_ns.unit == "ns" and t_ns.samples[3] == 10**12 + 3 * MS
        # the first block came 10**12 ns - 7 ms after the record was begun
        assert mdf.start_time.isoformat() == "2026-03-04T05:22:47.793000+00:00"


def test_a_csv_file_needs_no_explanation_to_pandas(tmp_path: Path, make_run: MakeRun) -> None:
    import pandas

    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 40, **swerve(40))})
    table = pandas.read_csv(taken(tmp_path, "csv", run) / "daq.csv")
    assert list(table.columns[:3]) == ["t_s [s]", "seq [1]", "epoch [1]"]
    assert table["t_ns [ns]"].dtype == np.int64 and table["t_ns [ns]"][1] == 10**12 + MS
    np.testing.assert_array_equal(table["brake [count]"], swerve(40)["brake"])


def test_a_parquet_file_says_unit_and_skew_of_every_field(tmp_path: Path, make_run: MakeRun) -> None:
    import pyarrow.parquet as pq

    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 40, **swerve(40))})
    schema = pq.read_schema(taken(tmp_path, "parquet", run) / "daq.parquet")
    brake = schema.field("brake")
    assert str(brake.type) == "int16"
    assert brake.metadata[b"unit"] == b"count" and brake.metadata[b"skew_ns"] == b"-200000"


# ---- measurements of others ------------------------------------------------------------------------------------------


def table(path: Path, head: str, *columns: Any, sign: str = ",", decimal: str = ".", more: str = "") -> Path:
    rows = (sign.join(repr(float(v)).replace(".", decimal) for v in row) for row in zip(*columns, strict=True))
    path.write_text(head + "\n" + "\n".join(rows) + "\n" + more, encoding="utf-8")
    return path


MAPS = ("steering=Angle:deg", "throttle=Accel:%", "brake=Brk:bar")


def test_physical_columns_become_the_counts_that_read_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    cells = st.tuples(st.floats(-900, 900), st.floats(0, 100), st.floats(-39, 39.9))

    @settings(PROPERTY, max_examples=few(12))
    @given(st.lists(cells, min_size=1, max_size=30), st.sampled_from([1, -1]))
    def check(rows: list[tuple[float, float, float]], sign: int) -> None:
        folder = tmp_path_factory.mktemp("physical")
        columns = np.array(rows).T
        file = table(folder / "m.csv", "time [s],Angle,Accel,Brk", np.arange(len(rows)) * 1e-3, *columns)
        run = open_run(brought(file, folder / "runs", *MAPS, overrides=[f"inputs.steering.sign={sign}"]))
        found = run.topics["/daq"].blocks
        np.testing.assert_array_equal(found["t_ns"], MS * np.arange(len(rows)))
        # as the rows would convert them, to half a count
        assert np.abs(found["steering"] * 0.18 * sign - columns[0]).max() <= 0.09 * (1 + 1e-9)
        assert np.abs(found["throttle"] / 420 * 100 - columns[1]).max() <= 50 / 420 * (1 + 1e-9)
        assert np.abs(found["brake"] * (40 / 32767) - columns[2]).max() <= 20 / 32767 * (1 + 1e-9)

    check()


def test_counts_begin_at_the_zeros_of_a_calibration(tmp_path: Path) -> None:
    columns = np.array([[0, 90, -90], [0, 50, 100], [0, 20, 30]], float)
    file = table(tmp_path / "m.csv", "time [s],Angle,Accel,Brk", np.arange(3) * 1e-3, *columns)
    zeros = {"steering.zero_counts": 12.0, "throttle.zero_counts": 500.0, "brake.zero_counts": -50.0}
    found = {**zeros, "throttle.full_counts": -300.0, "brake.full_counts": 20_000.0}
    overrides = [f"inputs.{key}={value}" for key, value in found.items()]
    run = open_run(brought(file, tmp_path / "runs", *MAPS, overrides=overrides))
    blocks = run.topics["/daq"].blocks
    assert blocks["steering"].tolist() == [12, 512, -488]
    assert blocks["throttle"].tolist() == [500, 350, 200]
    assert blocks["brake"].tolist() == [-50, 9950, 14950]


def test_an_imported_measurement_replays(tmp_path: Path) -> None:
    t = np.arange(2000) * 1e-3
    file = table(tmp_path / "m.csv", "time [s],Angle,Accel,Brk", t, 45 * np.sin(3 * t), 40 + 0 * t, 0 * t)
    done = replay_run(brought(file, tmp_path / "runs", *MAPS), Replay(mode="ideal"))
    angle = done.columns()["steering_angle"]
    at = (done.instants - done.instants[0]) * 1e-9
    # the estimator smooths: about half a degree
    np.testing.assert_allclose(np.degrees(angle), 45 * np.sin(3 * at), atol=1.0)
    np.testing.assert_allclose(done.columns()["throttle"], 0.4)


@pytest.mark.parametrize(
    "head, sign, decimal",
    [
        ("time [s];Angle [rad];Accel [1];Brk [kPa]", ";", ","),
        ("time_s\tAngle (rad)\tAccel (-)\tBrk (kPa)", "\t", "."),
        ("Zeit,Angle,Accel,Brk\ns,rad,1,kPa", ",", "."),
        ("sep=;\nt_s;Angle [rad];Accel [1];Brk [kPa]", ";", "."),
    ],
)
def test_units_separators_and_decimal_signs_of_others_are_understood(
    head: str, sign: str, decimal: str, tmp_path: Path
) -> None:
    columns = (np.arange(20) * 1e-3, np.linspace(-1, 1, 20), np.linspace(0, 1, 20), np.linspace(0, 4000, 20))
    file = table(tmp_path / "m.csv", head, *columns, sign=sign, decimal=decimal, more="\n\n")
    run = open_run(brought(file, tmp_path / "runs", "steering=Angle", "throttle=Accel", "brake=Brk"))
    found = run.topics["/daq"].blocks
    np.testing.assert_array_equal(found["steering"], np.rint(np.degrees(columns[1]) / 0.18))
    np.testing.assert_array_equal(found["throttle"], np.rint(columns[2] * 420))
    np.testing.assert_array_equal(found["brake"], np.rint(columns[3] / 4000 * 32767))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_at_the_begin_says_the_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(HEAD.replace("Angle", "Winkel\N{DEGREE SIGN}") + ROWS, encoding=encoding)
    assert brought(tmp_path / "m.csv", tmp_path / "runs", "steering=Winkel\N{DEGREE SIGN}", *MAPS[1:]).exists()
    (tmp_path / "m.csv").write_text(HEAD + ROWS, encoding="utf-16-le")
    assert "UTF-16 needs its mark" in refused(tmp_path / "m.csv", tmp_path / "runs", *MAPS)


def test_a_column_that_ends_early_ends_the_record_and_is_named(tmp_path: Path) -> None:
    rows = [f"{k * 1e-3:.3f},{k},{k if k >= 30 else ''},{0.1 * k if k < 60 else ''}" for k in range(100)]
    (tmp_path / "m.csv").write_text("time [s],Angle [deg],Accel [%],Brk [bar]\n" + "\n".join(rows))
    run = open_run(brought(tmp_path / "m.csv", tmp_path / "runs", *MAPS))
    summary = run.json("summary.json")
    assert len(run.topics["/daq"].blocks) == 30 and summary["superseded"] == 0
    assert "Accel begins 0.03 s after the first column; what is before it is in no block" in summary["remarks"]
    assert "Brk ends 0.04 s before the last column; what is behind it is in no block" in summary["remarks"]


def test_names_with_colons_old_encodings_and_constants_are_possible(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_bytes("time [ms],XCP:1\\Winkel [°],Größe\n0,1.8,0\n1,3.6,1\n".encode("cp1252"))
    run = open_run(brought(file, tmp_path / "runs", "steering=XCP:1\\Winkel", "throttle=Größe:%", "brake=0:bar"))
    found = run.topics["/daq"].blocks
    assert found["steering"].tolist() == [10, 20] and found["throttle"].tolist() == [0, 4]
    assert found["brake"].tolist() == [0, 0]


def test_columns_of_an_mf4_file_may_have_different_rates(tmp_path: Path) -> None:
    from asammdf import MDF, Signal

    fast, slow = np.arange(0, 1, 0.01), np.arange(0.05, 1, 0.1)
    with MDF(version="4.10") as mdf:
        mdf.append([Signal(np.degrees(np.sin(fast)), fast, name="Angle", unit="deg")])
        mdf.append(
            [
                Signal(100 * slow, slow, name="Accel", unit="%"),
                Signal((slow * 10).astype(np.uint8), slow, name="Brk", unit="bar"),
            ]
        )
        file = mdf.save(tmp_path / "theirs.mf4")
    run = open_run(brought(Path(file), tmp_path / "runs", "steering=Angle", "throttle=Accel", "brake=Brk"))
    found = run.topics["/daq"].blocks
    # from the first sample of the slow columns to their last, at 1 kHz, held
    np.testing.assert_array_equal(found["t_ns"], 50 * MS + MS * np.arange(901))
    at = np.floor((found["t_ns"] / MS - 50) / 100 + 1e-9).astype(int)
    np.testing.assert_array_equal(found["throttle"], np.rint(slow[at] * 420))
    angle = np.degrees(np.sin(fast[np.floor(found["t_ns"] / MS / 10 + 1e-9).astype(int)]))
    np.testing.assert_array_equal(found["steering"], np.rint(angle / 0.18))
    assert not found["epoch"].any()
    # and out again: the same wall clock
    with MDF(taken(tmp_path, "mf4", run.path)) as again, MDF(file) as theirs:
        assert abs((again.start_time - theirs.start_time).total_seconds() - 0.05) < 1e-5


def test_a_parquet_file_of_others_with_timestamps(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    at = pa.array(10**18 + MS * np.arange(30)).cast(pa.timestamp("ns"))
    rows = pa.table({"time": at, "Angle": np.arange(30), "Accel": np.zeros(30), "Brk": np.zeros(30)})
    pq.write_table(rows, tmp_path / "theirs.parquet")
    run = open_run(brought(tmp_path / "theirs.parquet", tmp_path / "runs", "steering=Angle:count", *MAPS[1:]))
    found = run.topics["/daq"].blocks
    assert found["t_ns"][-1] == 10**18 + 29 * MS and found["steering"].tolist() == list(range(30))


def test_a_name_in_two_groups_must_be_said_with_its_group(tmp_path: Path, make_run: MakeRun) -> None:
    other = Layout((Channel("brake", "f8", "bar"),))
    topics = {"/daq": blocks(CAR, 20, **swerve(20)), "/step": blocks(other, 20, brake=np.arange(20.0))}
    file = taken(tmp_path, "mf4", make_run(tmp_path / "run", topics))
    maps = ("steering=steering", "throttle=throttle")
    message = refused(file, tmp_path / "runs", *maps, "brake=brake")
    assert "/daq:brake or /step:brake" in message
    run = open_run(brought(file, tmp_path / "runs", *maps, "brake=/step:brake"))
    np.testing.assert_array_equal(run.topics["/daq"].blocks["brake"], np.rint(np.arange(20) / 40 * 32767))


# ---- onto the DAQ's rhythm -------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 40 * MS), min_size=1, max_size=60),
    st.lists(st.integers(1, 40 * MS), min_size=1, max_size=60),
)
@settings(PROPERTY, max_examples=few(100))
def test_a_block_holds_the_newest_sample_at_or_before_it_and_none_from_before_a_gap(
    one: list[int], other: list[int]
) -> None:
    series = [Series(str(k), np.cumsum(steps), np.arange(len(steps))) for k, steps in enumerate((one, other))]
    if max(s.t_ns[0] for s in series) > min(s.t_ns[-1] for s in series):
        with pytest.raises(ExchangeError, match="overlap"):
            onto_blocks(series, MS)
        return
    done = onto_blocks(series, MS)
    assert (np.diff(done.t_ns) >= MS).all() or done.unchanged
    jumps = np.diff(done.epoch)
    assert done.epoch[0] == 0 and set(jumps.tolist()) <= {0, 1}
    for s, counts in zip(series, done.counts, strict=True):
        expected = [max(k for k in range(len(s.t_ns)) if s.t_ns[k] <= t) for t in done.t_ns]
        np.testing.assert_array_equal(counts, expected)
        usual = max(MS, np.median(np.diff(s.t_ns))) if len(s.t_ns) > 1 else MS
        assert (done.t_ns - s.t_ns[expected] <= 3.5 * usual).all()
    # time without blocks is a gap with a new epoch
    assert ((np.diff(done.t_ns) <= 3.5 * MS) | (jumps == 1)).all()


def test_a_rate_that_fits_keeps_its_instants_and_a_gap_its_place(tmp_path: Path) -> None:
    t_ms = np.concatenate([np.arange(50), np.arange(52, 100), np.arange(200, 250)]) * 1.00005
    file = table(tmp_path / "m.csv", "t_ms,Angle,Accel,Brk", t_ms, *np.zeros((3, len(t_ms))))
    run = open_run(brought(file, tmp_path / "runs", *MAPS))
    found = run.topics["/daq"].blocks
    np.testing.assert_array_equal(found["t_ns"], np.rint(t_ms * 1e6).astype(int))
    # two lost samples are no gap, a hundred are
    assert found["epoch"].tolist() == [0] * 98 + [1] * 50
    assert run.json("summary.json")["instants"] == "kept" and run.json("summary.json")["gaps"] == 1


def test_another_rate_is_put_on_the_daqs(tmp_path: Path) -> None:
    t = np.arange(0, 0.5, 0.004) - 0.1
    file = table(tmp_path / "m.csv", "time [s],Angle,Accel,Brk", t, np.arange(len(t)), *np.zeros((2, len(t))))
    maps = ("steering=Angle:count", *MAPS[1:])
    at_own = open_run(brought(file, tmp_path / "runs", *maps, rate_hz=250.0))
    assert at_own.topics["/daq"].blocks["steering"].tolist() == list(range(125))
    assert at_own.json("config.json")["daq"]["rate_hz"] == 250.0
    at_daq = open_run(brought(file, tmp_path / "runs", *maps)).topics["/daq"].blocks
    assert at_daq["t_ns"][0] == 0  # time below zero is shifted
    np.testing.assert_array_equal(at_daq["steering"], np.arange(len(at_daq)) // 4)


def test_an_empty_cell_is_no_reading(tmp_path: Path) -> None:
    """The usual export of several rates: a row wherever one of the columns has a value."""
    rows = [f"{k * 1e-3:.3f},{k if k % 2 == 0 else ''},{'' if k % 5 else k},{k / 5}" for k in range(100)]
    file = tmp_path / "m.csv"
    file.write_text("time [s],Angle [deg],Accel [%],Brk [bar]\n" + "\n".join(rows) + "\n")
    run = open_run(brought(file, tmp_path / "runs", *MAPS))
    found = run.topics["/daq"].blocks
    newest = np.rint((np.arange(len(found)) // 5 * 5) / 100.0 * 420.0)  # the last there was
    np.testing.assert_array_equal(found["throttle"], newest)
    assert "throttle: 80 of 100 readings are not a number: left out" in run.json("summary.json")["remarks"]


def test_a_rate_fits_within_what_crystals_do() -> None:
    t = np.arange(1000) * MS
    assert fits(t, MS) and fits(np.rint(t * (1 + 9e-5)).astype(np.int64), MS)
    assert not fits(np.rint(t * (1 + 2e-4)).astype(np.int64), MS)
    assert not fits(t, 2 * MS) and not fits(t * 5, MS)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maps", [(), ("steering=sta:deg",)])
def test_of_thousands_of_columns_only_some_are_compared(
    maps: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[list[str]] = []

    def close(word: str, names: list[str], *options: float) -> list[str]:
        compared.append(names)
        return []

    monkeypatch.setattr(mapping, "get_close_matches", close)
    file = tmp_path / "m.csv"
    columns = ["time [s]", "st" * 1000, *(f"st{k}" for k in range(2000))]
    file.write_text(",".join(columns) + "\n" + ",".join("0" for _ in columns) + "\n")
    refused(file, tmp_path / "runs", *maps)
    assert compared and max(map(len, compared)) == 300 and not any("st" * 1000 in names for names in compared)


ROWS = "0,1,2,3\n0.001,1,2,3\n"
HEAD = "time [s],Angle [deg],Accel [%],Brk [bar]\n"


@pytest.mark.parametrize(
    "content, maps, expected",
    [
        ("", MAPS, ["m.csv", "is empty"]),
        (HEAD, MAPS, ["m.csv", "names 4 columns but holds no rows"]),
        ("1,2,3\n4,5,6\n", MAPS, ["line 1 holds numbers"]),
        (HEAD + ROWS, (), ["steering", "Angle [deg]", "Accel [%]", "--map brake=Brk:bar", "--map throttle="]),
        (HEAD + ROWS, MAPS[:2], ["no column is mapped to brake"]),
        (HEAD + ROWS, ("steering=Angel:deg", *MAPS[1:]), ["no column Angel", "did you mean Angle?"]),
        (HEAD + ROWS, ("steering:Angle", *MAPS[1:]), ["--map steering:Angle", "CHANNEL=COLUMN:UNIT"]),
        (HEAD + ROWS, ("wheel=Angle:deg", *MAPS), ["wheel is no channel", "brake, throttle, steering"]),
        (HEAD + ROWS, (*MAPS, "brake=Brk:bar"), ["brake is mapped twice"]),
        (HEAD + ROWS, ("steering=Angle:bar", *MAPS[1:]), ["Angle is in deg (angle)", "bar (pressure)"]),
        (HEAD + ROWS, ("steering=Angle:rad", *MAPS[1:]), ["Angle is in deg", "rad", "Angle:rad!"]),
        (HEAD + ROWS, ("steering=Brk", *MAPS[1:]), ["bar is a unit of pressure", "count, rad, mrad, deg"]),
        (HEAD + ROWS, ("steering=Angle:dge", *MAPS[1:]), ["unit 'dge' is not known", "did you mean deg?"]),
        ("time [s],Angle,Accel,Brk\n" + ROWS, ("steering=Angle", *MAPS[1:]), ["in which unit Angle", "Angle:deg"]),
        ("Uhr,Angle,Accel,Brk\n" + ROWS, MAPS, ["which column is the time", "--time Uhr:s"]),
        ("time,Angle,Accel,Brk\n" + ROWS, MAPS, ["in which unit time", "--time time:s"]),
        ("time [m],Angle,Accel,Brk\n" + ROWS, MAPS, ["time in 'm'", "s, ms, us, ns"]),
        (HEAD + ROWS + "0.002,left,2,3\n", MAPS, ["line 4, column Angle", "'left' is not a number"]),
        (HEAD + "0,,2,3\n0.001,,2,3\n", MAPS, ["column Angle holds no number at all"]),
        (HEAD + ROWS + "0.002,inf,2,3\n", MAPS, ["line 4, column Angle", "inf is not a number"]),
        (HEAD + "0,,2,3\n0.001,inf,2,3\n", MAPS, ["line 3, column Angle", "inf is not a number"]),
        (HEAD + ROWS + ",1,2,3\n", MAPS, ["line 4, column time", "no instant"]),
        (HEAD + ROWS + "0.002,1_0,2,3\n", MAPS, ["line 4, column Angle", "'1_0' is not a number"]),
        (HEAD + ROWS + "0.002,1,2\n", MAPS, ["line 4", "has 3 cells, 4 columns are named"]),
        (HEAD + "0,0,1,0,2,3\n", MAPS, ["line 2: has 6 cells", "with decimal commas", "by semicolons or tabs"]),
        (HEAD.replace(",", "|") + ROWS, MAPS, ["line 1 names one column", "between commas, semicolons or tabs"]),
        ("Logger 4\n" + HEAD + ROWS, MAPS, ["line 1 names one column, 'Logger 4'"]),
        (HEAD + ROWS + "\n0.002,1,2,3\n", MAPS, ["line 4", "has 0 cells"]),
        (HEAD + ROWS + "0.0005,1,2,3\n", MAPS, ["line 4, column time", "comes after 0.001", "must ascend"]),
        (HEAD + ROWS + "0.001,1,2,3\n", MAPS, ["line 4, column time", "is there twice"]),
        (HEAD + ROWS + "inf,1,2,3\n", MAPS, ["line 4, column time", "no instant"]),
        (HEAD + ROWS + "1e12,1,2,3\n", MAPS, ["line 4, column time", "146 years"]),
        (HEAD + ROWS + "0.002,1,2,41\n", MAPS, ["line 4, column Brk", "41 bar", "type i2", "40 bar"]),
        (HEAD + "0,1,2,3\n900000,1,2,3\n", MAPS, ["2 samples", "unit of the time right"]),
        ("time [s],A,Accel,Brk\n0,1.5,2,3\n", ("steering=A:count", *MAPS[1:]), ["line 2, column A", "1.5", "whole"]),
        ("time [s],A,Accel,Brk\n0,3e9,2,3\n", ("steering=A:count", *MAPS[1:]), ["line 2", "type i4 holds"]),
        (HEAD + ROWS, ("steering=1:deg", "throttle=1:%", "brake=1:bar"), ["at least one must be a column"]),
        (HEAD + ROWS, (*MAPS[:2], "brake=99:bar"), ["--map brake=99", "type i2"]),
    ],
)
def test_a_bad_csv_file_or_map_is_refused_with_place_and_remedy(
    content: str, maps: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "m.csv"
    file.write_text(content)
    message = refused(file, tmp_path / "runs", *maps)
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("m.xlsx", b"PK", ["unknown type of file '.xlsx'", ".csv", ".mf4"]),
        ("run.mcap", b"", ["it is a run already"]),
        ("m.mf4", b"", ["is empty"]),
        ("m.mf4", b"no measurement at all" * 100, ["not an MDF file"]),
        ("m.mf4", b"MDF     4.10    " + bytes(200), ["a damaged MDF file"]),
        ("m.mf4", b"MDF     3.30    " + bytes(200), ["m.mf4"]),
        ("m.parquet", b"", ["is empty"]),
        ("m.parquet", b"PAR1 but no more", ["not a Parquet file"]),
        ("m.csv", b"\x00\x01\x02\x03", ["not a text file"]),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(
    name: str, content: bytes, expected: list[str], tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    message = refused(file, tmp_path / "runs", *MAPS)
    for part in (name, *expected):
        assert part in message


@pytest.mark.parametrize("kind", TABLES)
def test_a_damaged_export_is_refused_or_read_but_never_a_crash(
    kind: str, tmp_path_factory: pytest.TempPathFactory, make_run: MakeRun
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    whole = taken(folder, kind, make_run(folder / "run", {"/daq": blocks(CAR, 30, **swerve(30))}))
    data = (whole if kind == "mf4" else whole / f"daq.{kind}").read_bytes()

    # the same ones every time: what asammdf does with a new one may end the process
    @settings(PROPERTY, max_examples=few(40), derandomize=True)
    @given(st.integers(0, len(data) - 1), st.one_of(st.none(), st.binary(max_size=6)))
    def check(at: int, instead: bytes | None) -> None:
        file = tmp_path_factory.mktemp("file") / f"daq.{kind}"
        file.write_bytes(data[:at] + (b"" if instead is None else instead + data[at + len(instead) :]))
        with suppress(ExchangeError):
            brought(file, file.parent / "runs")
        left = [path.name for path in (file.parent / "runs").glob("*")]
        assert all("importing" not in name for name in left)

    check()


@settings(PROPERTY, max_examples=few(150))
@given(st.text(st.sampled_from("time,Angle;\t\n\r \"'[]s0123456789.-+eE_naif°"), max_size=80))
def test_no_text_is_a_crash(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("text") / "m.csv"
    file.write_text("time [s],Angle,Accel,Brk\n" + text, newline="")
    with suppress(ExchangeError):
        brought(file, file.parent / "runs", *MAPS)
    file.write_text(text, newline="")
    with suppress(ExchangeError):
        brought(file, file.parent / "runs", *MAPS)
    assert all("importing" not in path.name for path in (file.parent / "runs").glob("*"))  # nothing half made is left


def test_a_missing_file_and_a_wrong_configuration_are_named(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text(HEAD + ROWS)
    assert "beside it: there.csv" in refused(tmp_path / "m.csv", tmp_path / "runs")
    assert "none of an export" in refused(tmp_path, tmp_path / "runs")
    with pytest.raises(ConfigError, match="rate_hz = -1"):
        brought(tmp_path / "there.csv", tmp_path / "runs", *MAPS, rate_hz=-1.0)
    assert "leave --time out" in _mf4_with_time(tmp_path)


def _mf4_with_time(folder: Path) -> str:
    from asammdf import MDF, Signal

    t = np.arange(3) * 1e-3
    with MDF(version="4.10") as mdf:
        mdf.append([Signal(t, t, name=name, unit=u) for name, u in (("Angle", "deg"), ("Accel", "%"), ("Brk", "bar"))])
        file = mdf.save(folder / "t.mf4")
    return refused(Path(file), folder / "runs", *MAPS, time="t:s")


def _mf4_changed(folder: Path, at: int, value: bytes, block: bytes = b"##CN") -> Path:
    """A file in which these bytes of every such block are others; asammdf's compiled code trusts them."""
    from asammdf import MDF, Signal

    t = np.arange(50) * 1e-2
    with MDF(version="4.10") as mdf:
        mdf.append([Signal(t, t, name=name) for name in ("Angle", "Accel", "Brk")], common_timebase=True)
        file = Path(mdf.save(folder / "m.mf4", overwrite=True))
    data = bytearray(file.read_bytes())
    for found in re.finditer(block, bytes(data)):
        data[found.start() + at : found.start() + at + len(value)] = value
    file.write_bytes(data)
    return file


def test_an_mf4_file_whose_numbers_lead_outside_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # flags of a channel: a bit says what is invalid, and a record has none; without the check a division by zero
    assert "lies outside its record" in refused(_mf4_changed(tmp_path, 100, b"\2"), tmp_path / "runs", *MAPS)
    # a link of the header that no index can hold
    far = _mf4_changed(tmp_path, 24, b"\xff" * 8, b"##HD")
    assert "a damaged MDF file" in refused(far, tmp_path / "runs", *MAPS)
    # channels without a name: asammdf prints all that it knows of them, names and comments of the file too
    found = mf4.read(_mf4_changed(tmp_path, 40, bytes(8)))
    with pytest.raises(ExchangeError, match="cannot be read"):
        found.sheets[0].load(list(found.sheets[0].columns))
    found.close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "edit, expected",
    [
        (lambda text: text.replace("brake [count]", "break [count]"), ["daq.csv", "column brake is missing"]),
        (lambda text: text.replace("brake [count]", "brake [bar]"), ["column brake is in bar", "exported in count"]),
        (lambda text: text.replace(",-7,", ",-70000,", 1), ["line 2, column brake", "-70000", "type i2"]),
        (lambda text: text.replace(",-7,", ",-7.5,", 1), ["line 2, column brake", "whole"]),
    ],
)
def test_an_export_that_was_changed_is_refused_where_it_does_not_fit(
    edit: Callable[[str], str], expected: list[str], tmp_path: Path, make_run: MakeRun
) -> None:
    folder = taken(tmp_path, "csv", make_run(tmp_path / "run", {"/daq": blocks(CAR, 50, **swerve(50))}))
    file = folder / "daq.csv"
    file.write_text(edit(file.read_text()))
    message = refused(folder, tmp_path / "runs")
    for part in expected:
        assert part in message


@pytest.mark.parametrize("package, kind", [("asammdf", "mf4"), ("pyarrow", "parquet")])
def test_a_missing_extra_is_named(
    package: str, kind: str, tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"tandem.records.exchange.{kind}", raising=False)
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 5)})
    with pytest.raises(ExchangeError, match=re.escape(install_extra(kind))):
        export(run, kind, None)
    (tmp_path / f"m.{kind}").write_bytes(b"anything")
    assert install_extra(kind) in refused(tmp_path / f"m.{kind}", tmp_path / "runs", *MAPS)
    assert sorted(p.name for p in run.iterdir()) == ["run.mcap"]


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """The kernel lets no file of this process grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


@pytest.mark.parametrize("kind", TABLES)
def test_a_full_disk_leaves_nothing_half_written(kind: str, tmp_path: Path, make_run: MakeRun) -> None:
    noise = np.random.default_rng(1).integers(-(2**31), 2**31, 20_000)
    run = tmp_path / "run"
    make_run(run, {"/daq": blocks(CAR, 20_000, steering=noise)})
    export(run, "csv", tmp_path / "whole")
    with full_disk(30_000):
        with pytest.raises(ExchangeError, match=r"cannot be written: .*File too large"):
            export(run, kind, None)
        message = refused(tmp_path / "whole", tmp_path / "runs")
        assert "cannot be written: File too large" in message
    assert sorted(p.name for p in run.iterdir()) == ["run.mcap"]
    assert not (tmp_path / "runs").exists()


def test_nothing_is_overwritten(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 5)})
    for kind in TABLES:
        export(run, kind, None)
        with pytest.raises(ExchangeError, match="nothing is overwritten"):
            export(run, kind, None)
    assert sorted(p.name for p in (run / "export").iterdir()) == ["csv", "parquet", "run.mf4"]
    with pytest.raises(ExchangeError, match=r"must be one of csv, parquet, mf4"):
        export(run, "xlsx", None)
    with pytest.raises(ExchangeError, match=r"must end in .mf4"):
        export(run, "mf4", tmp_path / "x.dat")


def test_a_record_cut_short_is_exported_as_far_as_it_goes(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 5000, **swerve(5000))})
    data = (run / "run.mcap").read_bytes()
    (run / "run.mcap").write_bytes(data[: data.index(b"tandem.end") - 4])
    figures = export(run, "csv", None)
    assert figures["topics"][0]["rows"] == 5000 and figures["cut"]


# ---- the commands ----------------------------------------------------------------------------------------------------


def test_both_commands_print_what_they_did(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run", {"/daq": blocks(CAR, 50, **swerve(50))})
    call = CliRunner().invoke
    out = call(app, ["export", str(run), "--to", "csv", "--json"])
    assert out.exit_code == 0, out.output
    figures = json.loads(out.stdout)
    assert figures["topics"][0]["rows"] == 50 and Path(figures["topics"][0]["file"]).name == "daq.csv"
    back = call(app, ["import", figures["out"], "--runs", str(tmp_path / "runs"), "--json"])
    assert back.exit_code == 0, back.output
    assert json.loads(back.stdout)["rows"] == {"/daq": 50}
    shown = call(app, ["import", figures["out"], "--runs", str(tmp_path / "runs")])
    assert "tandem replay" in shown.stdout and "50 rows of /daq" in shown.stdout
    assert "daq.csv" in call(app, ["export", str(run), "--to", "csv", "--out", str(tmp_path / "again")]).stdout
    wrong = call(app, ["import", str(tmp_path / "none.csv")])
    assert wrong.exit_code == 2 and "no such file" in wrong.stderr


@pytest.mark.parametrize("text", ["deg", "rad", "%", "1", "bar", "kPa", "MPa", "ms", "km/h", "count", "°", "percent"])
def test_a_unit_is_known_however_it_is_padded(text: str) -> None:
    found = unit(f" {text} ")
    assert found is not None and found.factor > 0


def test_units_are_what_they_are() -> None:
    for text, dimension, factor in (
        ("deg", "angle", math.pi / 180),
        ("bar", "pressure", 1e5),
        ("km/h", "speed", 1 / 3.6),
    ):
        found = unit(text)
        assert found is not None and (found.dimension, found.factor) == (dimension, factor)
    assert unit("furlong") is None


def test_an_export_beside_a_record_does_not_follow_a_link(tmp_path: Path) -> None:
    write_drive(tmp_path / "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "run" / "export").symlink_to(elsewhere)
    with pytest.raises(ExchangeError, match="is a link"):
        export(tmp_path / "run", "csv", None)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@SUM(A1)", "'=x", "''-x", "plain", "'plain"])
def test_no_name_becomes_a_formula_in_a_spreadsheet(tmp_path: Path, make_run: MakeRun, name: str) -> None:
    layout = Layout((Channel(name, "i4", "count"),))
    there = make_run(tmp_path / "run", {"/daq": (layout, np.zeros((1, layout.words), np.int64), np.zeros(1, np.int64))})
    exported = taken(tmp_path, "csv", there)
    (head,) = [line for line in (exported / "daq.csv").read_text().splitlines() if "count" in line]
    cells = next(csv.reader([head]))
    assert not any(cell[:1] in "=+-@" for cell in cells)
    assert open_run(brought(exported, tmp_path / "runs")).topics["/daq"].layout.names == (name,)


def test_a_folder_that_cannot_be_written_is_named_by_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only = OSError(30, "Read-only file system")

    def refuse(*_: object, **__: object) -> None:
        raise read_only

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ExchangeError, match=r"e\.csv: cannot be written"), written_atomically(tmp_path / "e.csv"):
        refuse()
