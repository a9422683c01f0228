"""Replay of records made by hand: a double lane change whose counts are known, without a live drive."""

import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.command_record import PARAMETER
from sim_service.registry import MACHINES
from sync.config.config import Config, load
from sync.errors import ConfigError
from sync.record import CompleteRun, CompleteTopic, Run, RunError, RunWriter, open_run, write_complete
from sync.ring.block import SEQ, Channel, Layout
from sync.ring.ring import RingReader
from tandem.commands.cli import app
from tandem.console.present import print_report
from tandem.machines.car.device.driver import evaluate, profile_tables, read_manoeuvre
from tandem.records.inspect.info import info, report
from tandem.records.provenance import attachments, start_facts
from tandem.records.replay import Options, all_identical, replay_run
from tandem.records.replay_save import save
from tests.sim_service.puppet import MACHINE as PUPPET

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
DRIVE = CONFIGS / "drive.toml"
P = 1_000_000
T0 = 5_000_000_000


def lane_change(config: Config, seconds: float = 20.0) -> np.ndarray:
    """Blocks of the open-loop double lane change, as a DAQ would have made them."""
    manoeuvre = read_manoeuvre(CONFIGS / "manoeuvres" / "double_lane_change.toml")
    n = round(seconds * 1000)
    words = np.zeros((n, config.daq.layout.words), np.int64)
    blocks = config.daq.layout.view(words)
    tables = [profile_tables(p) for p in (manoeuvre.steering_deg, manoeuvre.throttle)]
    t = np.arange(n) * 1e-3
    steering, throttle = (np.array([evaluate(*table, at) for at in t]) for table in tables)
    blocks["seq"], blocks["epoch"] = np.arange(n), 7
    blocks["t_ns"] = T0 + P * np.arange(n)
    blocks["pushed_ns"] = blocks["t_ns"] + 10_000
    blocks["steering"] = np.floor(steering / 0.18)
    blocks["throttle"] = np.floor(throttle * 420)
    return words


def write(folder: Path, config: Config, words: np.ndarray) -> Path:
    folder.mkdir()
    writer = RunWriter(folder)
    writer.begin(start_facts(config), attachments(config, DRIVE), T0)
    writer.topic("/daq", config.daq.layout)
    writer.add("/daq", words, 0)
    assert writer.finish({"reason": "made by hand"}, {}, T0)
    return folder


@pytest.fixture(scope="module")
def config() -> Config:
    return load(DRIVE, ["sim.machine=vehicles/buggy_single_track.toml"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, config: Config) -> Path:
    return write(tmp_path_factory.mktemp("runs") / "a", config, lane_change(config))


def ideal(run: Path, **options: object) -> dict:
    return replay_run(run, Options(mode="ideal", **options)).figures


def test_a_record_needs_none_of_its_fragments_and_takes_new_ones(
    run: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gone = load(DRIVE, ["sim.machine=vehicles/buggy_single_track.toml", "inputs.steering.per_count=0.09"])
    gone = gone.model_copy(update={"include": ["gone.toml"]})
    half = replay_run(write(tmp_path / "half", gone, lane_change(config, 2.0)), Options(mode="ideal"))
    assert half.config.include == ["gone.toml"] and half.config.inputs["steering"].per_count == 0.09
    Path("better.toml").write_text("[inputs.steering]\nper_count = 0.09\n[inputs.throttle]\nzero_counts = 10.0\n")
    setting = ['include=["better.toml"]']
    better = replay_run(run, Options(mode="ideal", overrides=setting)).config
    assert (better.inputs["steering"].per_count, better.inputs["throttle"].zero_counts) == (0.09, 10.0)
    assert DRIVE.parent / better.sim.machine == DRIVE.parent / config.sim.machine  # the same file
    with pytest.raises(ConfigError, match=r"worse\.toml: no such file"):
        replay_run(run, Options(mode="ideal", overrides=['include=["worse.toml"]']))


def test_a_record_replays_whatever_its_device_was_called(run: Path, config: Config, tmp_path: Path) -> None:
    """[source] is the device's own and is not opened: keys that its device no longer has are no obstacle."""
    source = {"kind": "nidaqmx", "brake": "ai0", "brake_min_v": -5.0, "steering": "ctr0", "decoding": "x4"}
    old = config.model_copy(update={"source": source})
    done = replay_run(write(tmp_path / "old", old, lane_change(config, 2.0)), Options(mode="ideal"))
    save(done, tmp_path / "again", {})
    again = replay_run(tmp_path / "again", Options())
    assert again.figures["identical"] is True and again.config.source == source
    now = replay_run(write(tmp_path / "now", config, lane_change(config, 2.0)), Options(mode="ideal"))
    assert np.array_equal(now.results, done.results, equal_nan=True)


def test_milliseconds_become_metres(run: Path) -> None:
    off = [ideal(run, delay_ms=ms)["against"]["ideal"]["lateral_m"]["max"] for ms in (10.0, 25.0, 50.0, 90.0)]
    print(off)
    assert off == sorted(off) and off[-1] > 0.05
    assert off[2] / off[1] == pytest.approx(2.0, rel=0.2)  # small delays cost in proportion
    assert off[0] > 0
    # at the same instant; along its own path the late car is hardly off, for all its inputs are late alike
    done = replay_run(run, Options(mode="ideal", delay_ms=50.0))
    late = done.figures["against"]["ideal"]
    assert late["apart_m"]["max"] == pytest.approx(0.05 * done.columns()["vx"].max(), rel=0.1)
    assert late["off_path_m"]["max"] < 0.2 * late["lateral_m"]["max"]


def test_no_delay_changes_nothing_and_jitter_is_repeatable(run: Path) -> None:
    first = replay_run(run, Options(mode="ideal"))
    assert np.array_equal(first.results, replay_run(run, Options(mode="ideal")).results, equal_nan=True)
    a, b, c = (replay_run(run, Options(mode="ideal", jitter_ms=20.0, seed=seed)).results for seed in (3, 3, 4))
    assert np.array_equal(a, b, equal_nan=True) and not np.array_equal(a, c, equal_nan=True)


def test_a_saved_replay_is_a_run_that_replays_to_the_bit(run: Path, tmp_path: Path) -> None:
    done = replay_run(run, Options(mode="ideal", delay_ms=30.0))
    save(done, tmp_path / "b", {})
    again = replay_run(tmp_path / "b", Options())
    assert again.figures["identical"] is True and again.figures["steps"] == len(done.results) == 4000
    assert np.array_equal(again.results, done.results, equal_nan=True)
    assert open_run(tmp_path / "b").start["replay_of"].endswith("run.mcap")
    with pytest.raises(RunError, match="nothing is overwritten"):
        save(done, tmp_path / "b", {})


def test_one_bit_in_one_step_is_found(run: Path, tmp_path: Path, config: Config) -> None:
    done = replay_run(run, Options(mode="ideal"))
    done.results[1234, 9] = np.nextafter(done.results[1234, 9], np.inf)
    save(done, tmp_path / "b", {})
    found = replay_run(tmp_path / "b", Options()).figures
    assert found["identical"] is False
    assert found["first_difference"]["step"] == 1234
    assert len(found["differing_channels"]) == 1
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "b"), "--json"])
    assert result.exit_code == 1  # it claims to be exact and is not
    assert json.loads(result.stdout)["first_difference"]["step"] == 1234


def test_calibration_and_parameters_can_be_changed_afterwards(run: Path, config: Config) -> None:
    base = replay_run(run, Options(mode="ideal")).columns()
    finer = replay_run(run, Options(mode="ideal", overrides=["inputs.steering.per_count=0.09"])).columns()
    np.testing.assert_allclose(
        finer["steering_angle"], base["steering_angle"] / 2, atol=2e-3
    )  # the estimator knows the count
    heavy = replay_run(run, Options(mode="ideal", overrides=["sim.parameters.mass=900.0"])).columns()
    assert heavy["vx"][2000] < base["vx"][2000]
    other = replay_run(
        run,
        Options(
            mode="ideal", config=DRIVE, overrides=["sim.step_ms=2.5", "sim.machine=vehicles/buggy_single_track.toml"]
        ),
    )
    assert len(other.results) == 8000


def test_a_delay_beyond_the_limit_is_stale_as_it_would_be_on_board(run: Path) -> None:
    late = replay_run(run, Options(mode="ideal", delay_ms=150.0)).columns()
    assert (late["steering_speed"] == 0).all()  # a held angle does not move
    fresh = replay_run(run, Options(mode="ideal", delay_ms=50.0)).columns()
    assert (fresh["steering_speed"] != 0).any()


def test_a_gap_restarts_the_derivatives(tmp_path: Path, config: Config) -> None:
    words = lane_change(config, 14.0)
    kept = np.concatenate([words[:12_500], words[12_700:]])
    blocks = config.daq.layout.view(kept)
    blocks["epoch"][12_500:] = 8
    kept[:, SEQ] = np.arange(len(kept))
    run = write(tmp_path / "gap", config, kept)
    speeds = replay_run(run, Options(mode="ideal")).columns()["steering_speed"]
    # the angle jumps by some 50 deg across the gap: differentiated it would be a speed of hundreds of rad/s
    assert np.abs(speeds).max() < 10


def test_a_paced_replay_can_be_watched(run: Path, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of our own: what is in the ring when the replay rests, and until when it rests."""
    name = f"watched_replay_{os.getpid()}"
    now, rests, heads, readers = [7_000_000_000], [], [], []

    def rest(until_ns: int) -> None:
        if not readers:
            readers.append(RingReader(f"tandem.{name}.sim.{os.getuid()}"))
        heads.append(readers[0].head)
        rests.append(until_ns)
        now[0] = max(now[0], until_ns)

    monkeypatch.setattr("tandem.records.replay.now_ns", lambda: now[0])
    monkeypatch.setattr("tandem.records.replay.sleep_until", rest)
    done = replay_run(run, Options(mode="ideal", speed=10.0, overrides=[f"name={name}"]))
    steps = len(done.results)
    assert heads == [*range(steps)] and steps > 3900  # one result more after each rest
    assert set(np.diff(rests)) == {config.step_ns // 10}
    assert done.figures["real_time_factor"] == 10
    assert readers[0].closed and readers[0].head == steps
    readers[0].close()
    monkeypatch.undo()
    assert np.array_equal(done.results, replay_run(run, Options(mode="ideal")).results, equal_nan=True)


@pytest.mark.parametrize(
    "options,expected",
    [
        (["--mode", "best"], "is not one of"),
        (["--mode", "exact", "--delay-ms", "5"], "use --mode ideal"),
        (["--delay-ms", "-5"], "must be from 0 to 3600000"),
        (["--mode", "exact", "--halved"], "--halved: an exact replay repeats the steps of the record"),
        (["--halved"], "sim.parameters.step_halving = 1: unknown to single_track"),
        (["--pace", "fast"], "--pace fast: must be max or a number above 0"),
        (["--set", "sim.step_ms=0"], "sim.step_ms = 0: must be greater than or equal to 0.1"),
        (["--set", "sim.parameters.mas=900"], "sim.parameters.mas = 900: unknown to single_track; did you mean mass?"),
        (["--set", "sim.parameters.mass=-1"], "sim.parameters.mass = -1: must be from"),
        (["--set", "daq.channels=[]"], "daq.channels"),
        (
            [
                "--mode", "ideal", "--set",
                'daq.channels=[{name="brake",type="i4"},{name="throttle",type="i4"},{name="steering",type="i4"}]',
            ],
            "replay it with the channels it was recorded with",
        ),
        (["nowhere.toml"], "nowhere.toml: no such file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_would_be_right(run: Path, options: list[str], expected: str) -> None:
    result = CliRunner().invoke(app, ["replay", str(run), *options])
    assert result.exit_code == 2
    assert expected in result.stderr


@pytest.mark.drill
def test_an_ideal_replay_may_halve_its_steps(tmp_path: Path) -> None:
    """Of the multibody car: what it estimates as the error of a step is printed; where the car goes hardly changes."""
    config = load(DRIVE, [])
    run = write(tmp_path / "a", config, lane_change(config, 3.0))
    plain = replay_run(run, Options(mode="ideal")).columns()
    command = CliRunner().invoke(app, ["replay", str(run), "--halved", "--json", "--out", str(tmp_path / "b")])
    assert command.exit_code == 0, command.stderr
    figures = json.loads(command.stdout)
    assert figures["mode"] == "ideal" and 0.0 < figures["step_error"] < 1e-3
    halved = replay_run(tmp_path / "b", Options()).columns()  # saved with its parameter: replays to the bit
    assert halved["step_error"].max() == figures["step_error"]
    assert 0.0 < np.abs(halved["x"] - plain["x"]).max() < 1e-2


def test_the_command_prints_one_object_or_a_few_sentences(run: Path, tmp_path: Path) -> None:
    first = CliRunner().invoke(app, ["replay", str(run), "--delay-ms", "50", "--json", "--out", str(tmp_path / "b")])
    found = json.loads(first.stdout)
    assert first.exit_code == 0 and {"mode", "steps", "identical", "first_difference", "real_time_factor"} <= set(found)
    assert found["mode"] == "ideal" and found["identical"] is None  # there was no run on board to compare with
    text = " ".join(CliRunner().invoke(app, ["replay", str(run), "--delay-ms", "50"]).stdout.split())
    assert "50 ms delay against none: at the same instant at most 0.561 m apart" in text
    assert "in lateral position 0.141 m" in text
    exact = CliRunner().invoke(app, ["replay", str(tmp_path / "b")])
    assert exact.exit_code == 0 and "identical" in exact.stdout


def test_a_replay_in_which_the_model_diverges_says_so(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the exit code of a run that ends so."""
    monkeypatch.setitem(MACHINES, "puppet", "tests.sim_service.puppet")
    values = {**{p.name: p.value for p in PUPPET.parameters}, "nan_at": 50}
    given = "\n".join(f"{name} = {value}" for name, value in values.items())
    (tmp_path / "puppet.toml").write_text(f'machine = "puppet"\n[parameters]\n{given}\n')
    other = f"sim.machine={tmp_path / 'puppet.toml'}"
    found = CliRunner().invoke(app, ["replay", str(run), str(DRIVE), "--mode", "ideal", "--set", other])
    assert found.exit_code == 3, found.output
    assert "the model diverged at step 50: the replay ends there" in " ".join(found.stdout.split())


def test_jittered_blocks_are_saved_as_they_were_used(run: Path, tmp_path: Path) -> None:
    save(replay_run(run, Options(mode="ideal", jitter_ms=20.0)), tmp_path / "b", {})
    assert replay_run(tmp_path / "b", Options()).figures["identical"] is True


def test_another_step_has_its_own_instants(run: Path, tmp_path: Path) -> None:
    save(replay_run(run, Options(mode="ideal")), tmp_path / "b", {})
    finer = replay_run(
        tmp_path / "b",
        Options(mode="ideal", overrides=["sim.step_ms=2.5", "sim.machine=vehicles/buggy_single_track.toml"]),
    )
    assert len(finer.results) == 2 * 4000 - 1 and finer.figures["identical"] is None
    assert finer.figures["against"]["on_board"]["apart_m"]["max"] < 0.1  # the same drive, integrated finer
    with pytest.raises(ConfigError, match="an exact replay has the record's steps of 5 ms"):
        replay_run(
            tmp_path / "b", Options(overrides=["sim.step_ms=2.5", "sim.machine=vehicles/buggy_single_track.toml"])
        )


def test_what_was_not_done_again_is_not_identical(run: Path, tmp_path: Path, config: Config) -> None:
    save(replay_run(run, Options(mode="ideal")), tmp_path / "b", {})
    whole = open_run(tmp_path / "b")
    used = int(whole.topics["/step"].blocks["input_seq"][1800])
    kept = whole.topics["/daq"].words[whole.topics["/daq"].blocks["seq"] != used]
    (tmp_path / "c").mkdir()
    writer = RunWriter(tmp_path / "c")
    writer.begin(start_facts(config), attachments(config, DRIVE), T0)
    for name, words, layout in (
        ("/daq", kept, config.daq.layout),
        ("/step", whole.topics["/step"].words, whole.topics["/step"].layout),
    ):
        writer.topic(name, layout)
        writer.add(name, words, 0)
    assert writer.finish({"reason": "made by hand"}, {}, T0)
    found = replay_run(tmp_path / "c", Options()).figures
    assert found["identical"] is False and found["steps"] == 1800
    assert "step 1800 cannot be done again: the record lacks the block it used" in found["stopped"]
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "c")])
    assert result.exit_code == 1 and "2200 recorded steps were not done again" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "figures, same",
    [
        ({"identical": True, "efforts": None, "look_ahead": None}, True),
        ({"identical": True, "efforts": {"differing": 0}, "look_ahead": {"differing": 0}}, True),
        ({"identical": False, "efforts": None, "look_ahead": None}, False),
        ({"identical": None, "efforts": None, "look_ahead": None}, False),
        ({"identical": True, "efforts": {"differing": 1}, "look_ahead": None}, False),
        ({"identical": True, "efforts": None, "look_ahead": {"differing": 1}}, False),
    ],
)
def test_identical_are_steps_efforts_and_predictions(figures: dict[str, Any], same: bool) -> None:
    assert all_identical(figures) is same


def test_an_exact_replay_needs_steps(run: Path) -> None:
    with pytest.raises(RunError, match="holds no /step messages; it has /daq"):
        replay_run(run, Options())


def again(folder: Path, run: Run, **changed: Any) -> Path:
    """The run written once more, with other topics or attachments."""
    folder.mkdir()
    topics = {name: CompleteTopic(t.layout, t.words, t.positions) for name, t in run.topics.items()}
    kept = {**run.attachments, **changed.get("attachments", {})}
    start = {key: value for key, value in run.start.items() if key not in ("format", "monotonic_ns")}
    write_complete(folder, CompleteRun(start, kept, topics | changed.get("topics", {}), T0, T0, "made by hand", {}))
    return folder


def test_a_sound_file_with_strange_content_is_refused_by_name(config: Config, tmp_path: Path) -> None:
    short = write(tmp_path / "short", config, lane_change(config, 0.2))
    run = open_run(save(replay_run(short, Options(mode="ideal")), tmp_path / "saved", {}))
    steps, daq = run.topics["/step"], run.topics["/daq"]
    assert replay_run(tmp_path / "saved", Options()).figures["identical"]

    def with_channels(change: Callable[[Channel], Channel]) -> CompleteTopic:
        layout = Layout(tuple(map(change, steps.layout.channels)))
        words = np.zeros((len(steps), layout.words), np.int64)
        for name in set(layout.names) & set(steps.layout.names):
            layout.view(words)[name] = steps.blocks[name]
        return CompleteTopic(layout, words, steps.positions)

    unnamed = with_channels(lambda c: replace(c, name="state_word") if c.name == "status" else c)
    place = again(tmp_path / "unnamed", run, topics={"/step": unnamed})
    with pytest.raises(RunError, match=r"/step does not have status as this program does; use the version"):
        replay_run(place, Options())
    assert info(open_run(place))["steps"] == {}

    rough = with_channels(lambda c: replace(c, type="f4") if c.name == "vx" else c)
    done = replay_run(again(tmp_path / "rough", run, topics={"/step": rough}), Options())
    assert done.figures["identical"]  # in all that can be compared
    with pytest.raises(RunError, match="cannot be saved, --mode ideal can"):
        save(done, tmp_path / "never", {})

    far = daq.words.copy()
    daq.layout.view(far)["t_ns"][-1] = 2**62
    alone = again(tmp_path / "far", open_run(short), topics={"/daq": CompleteTopic(daq.layout, far, daq.positions)})
    with pytest.raises(RunError, match=r"its instants span 4\.61e\+09 s, too long for a replay"):
        replay_run(alone, Options(mode="ideal"))
    daq.layout.view(far)["t_ns"][-1] = daq.layout.view(far)["t_ns"][0] - 2_000_000_000
    back = again(tmp_path / "back", open_run(short), topics={"/daq": CompleteTopic(daq.layout, far, daq.positions)})
    with pytest.raises(RunError, match="its last instant is 2 s before its first; is one of them wrong"):
        replay_run(back, Options(mode="ideal"))

    words = np.zeros((1, COMMANDS.words), np.int64)
    COMMANDS.view(words)["kind"] = PARAMETER
    odd = again(
        tmp_path / "odd", run,
        topics={"/command": CompleteTopic(COMMANDS, words, np.arange(1))},
        attachments={"parameters.json": b'{"model": "x", "parameters": 1.5}'},
    )  # fmt: skip
    with pytest.raises(RunError, match="/command 0: number 0: no parameter of single_track"):
        replay_run(odd, Options())
    print_report(Console(file=io.StringIO()), report(info(open_run(odd))))


def test_twenty_times_real_time_and_more(run: Path, tmp_path: Path) -> None:
    save(replay_run(run, Options(mode="ideal")), tmp_path / "b", {})
    figures = replay_run(tmp_path / "b", Options()).figures
    print(figures["real_time_factor"], "times real time")
    assert figures["real_time_factor"] > 10  # normally above 100
