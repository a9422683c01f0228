"""Logs of a bus, MATLAB files and bags become runs; what frames mean is held to the bus of a real car."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import can
import numpy as np
import pytest
from asammdf import MDF, Signal
from hypothesis import given, settings
from scipy.io import savemat

from daq_service.devices.dbc import bits
from sync.config.config import load
from sync.record import Run, measured, open_run
from tandem.records.exchange import matlab, mf4
from tandem.records.exchange.can_frames import Frames, integers
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.importer import Options, import_file, open_measurement
from tandem.records.exchange.mapping import Likely, candidates, likely_columns
from tandem.records.exchange.tables import BusNames
from tests.daq_service.can_bus import BRAKE, CAN, STEERING, THROTTLE, encode
from tests.daq_service.devices.test_can_device import signals_in_frames
from tests.examples import few

ROOT = Path(__file__).resolve().parents[3]
RAV4 = ROOT / "tests" / "data" / "real" / "rav4_can"
LOG, DBC, CONFIG = RAV4 / "rav4_20s.log", RAV4 / "toyota_2017_opendbc.dbc", RAV4 / "rav4.toml"
DRIVE = ROOT / "configs" / "drive.toml"
CAR = ["sim.machine=vehicles/buggy_single_track.toml"]


def brought(file: Path, runs: Path, config: Path = DRIVE, **more: Any) -> Run:
    return open_run(Path(import_file(Options(file, config, True, runs=runs, **more))["run"]))


# ---- a real car ------------------------------------------------------------------------------------------------------


def owners(name: str) -> np.ndarray:
    return np.loadtxt(RAV4 / f"decoded_{name}.csv", delimiter=",", skiprows=1)


def test_a_real_cars_bus_is_decoded_as_its_owner_decoded_it() -> None:
    sheets = {s.name: s for s in open_measurement(LOG, lambda: BusNames(DBC)).sheets}
    steering, wheels = sheets["STEER_ANGLE_SENSOR"], sheets["WHEEL_SPEEDS"]
    both, theirs = steering.load(["STEER_ANGLE", "STEER_FRACTION"]), owners("steering")
    np.testing.assert_array_equal(both["STEER_ANGLE"] + both["STEER_FRACTION"], theirs[:, 1])
    assert steering.seconds is not None and wheels.seconds is not None
    np.testing.assert_allclose(steering.seconds("STEER_ANGLE"), theirs[:, 0], atol=1e-6)
    four = wheels.load([f"WHEEL_SPEED_{w}" for w in ("FR", "FL", "RR", "RL")])  # whose mean is the owner's speed
    np.testing.assert_allclose(np.mean(list(four.values()), axis=0) / 3.6, owners("speed")[:, 1], atol=1e-12)
    np.testing.assert_allclose(wheels.seconds("WHEEL_SPEED_FR"), owners("speed")[:, 0], atol=1e-6)


def test_a_log_needs_no_map_where_the_configuration_says_which_signals_its_channels_are(tmp_path: Path) -> None:
    quantities = ["yaw_rate=KINEMATICS.YAW_RATE", "vx=SPEED.SPEED:km/h", "front_right=WHEEL_SPEED_FR"]
    figures = import_file(Options(LOG, CONFIG, True, measured=quantities, runs=tmp_path / "runs"))
    run = open_run(Path(figures["run"]))
    blocks, theirs = run.topics["/daq"].blocks, owners("steering")
    # what the row of the configuration adds up, in tenths of a degree, at the instant that its age gives
    tenths = 15 * blocks["steer_angle"].astype(int) + blocks["steer_fraction"]
    sampled = blocks["t_ns"] - 1000 * blocks["steer_angle_age_us"].astype(np.int64)
    which = np.searchsorted(np.rint(theirs[:, 0] * 1e9) - 2000, sampled, "right") - 1
    np.testing.assert_array_equal(tenths, np.rint(10 * theirs[which, 1]))
    np.testing.assert_allclose(sampled * 1e-9, theirs[which, 0], atol=2e-6)
    # a frame less than a millisecond before the next is in no block, and counted, once for each of its two signals
    assert len(np.unique(which)) == len(theirs) - figures["superseded"] // 2 and figures["superseded"] < 20
    found = measured(run)
    assert found["yaw_rate"].unit == "rad/s" and len(found["yaw_rate"].t_ns) == 1660
    assert len(found["vx"].t_ns) == 830  # at half the rate: a topic of its own
    ahead = found["front_right"].at(found["vx"].t_ns)
    assert np.nanmax(np.abs(ahead - found["vx"].values)) < 1.0
    assert {name for name in run.topics if name.startswith("/measured")} == {"/measured", "/measured_2", "/measured_3"}


# ---- every kind of log -----------------------------------------------------------------------------------------------


def drive_log(file: Path, frames: int = 300) -> Path:
    with can.Logger(str(file)) as log:
        for n in range(frames):
            k = n % 300
            for message in (
                encode(STEERING, SteeringWheelAngle=k),
                encode(THROTTLE, ThrottlePosition=2 * k),
                encode(BRAKE, MasterPressure=3 * k),
            ):
                message.timestamp = 1_700_000_000.0 + 0.01 * n
                log.on_message_received(message)
    return file


@pytest.mark.parametrize("suffix", ["log", "asc", "blf"])
def test_every_kind_of_log_becomes_the_same_run(suffix: str, tmp_path: Path) -> None:
    run = brought(drive_log(tmp_path / f"drive.{suffix}"), tmp_path / "runs", CAN)
    blocks = run.topics["/daq"].blocks
    assert np.unique(blocks["steering"]).tolist() in (list(range(299)), list(range(300)))  # the last is at the very end
    np.testing.assert_array_equal(blocks["throttle"], 2 * blocks["steering"])
    np.testing.assert_array_equal(blocks["brake"], 3 * blocks["steering"])
    assert blocks["steering_age_us"].max() <= 10_001  # the tenth of a second that the bus takes, and rounding


def test_frames_in_an_mf4_file_are_decoded_and_never_offered_as_quantities(tmp_path: Path) -> None:
    from asammdf import MDF, Signal, Source

    t = 0.01 * np.arange(200)
    each = [encode(STEERING, SteeringWheelAngle=k) for k in range(200)]
    data = np.array([list(m.data) for m in each], np.uint8)
    numbers = [("BusChannel", "u1"), ("ID", "u4"), ("IDE", "u1"), ("DataLength", "u1"), ("BRS", "u1")]
    kind = np.dtype([*numbers, ("DataBytes", "u1", (8,))])
    frames = np.zeros(200, kind)
    frames["ID"], frames["DataLength"], frames["BusChannel"] = each[0].arbitration_id, data.shape[1], 1
    frames["DataBytes"][:, : data.shape[1]] = data
    frames = frames.astype([(f"CAN_DataFrame.{n}", kind[n].base, kind[n].shape) for n in kind.names])
    with MDF(version="4.11") as mdf:
        source = Source(
            name="CAN1", path="CAN1", comment="", source_type=Source.SOURCE_BUS, bus_type=Source.BUS_TYPE_CAN
        )
        mdf.append(Signal(frames, t, name="CAN_DataFrame", source=source))
        mdf.groups[0].channel_group.flags = 6  # frames of a bus
        mdf.save(tmp_path / "raw.mf4")
    dbc = CAN.parent / "can" / "example.dbc"
    maps = [f"steering={STEERING}.SteeringWheelAngle", "throttle=0:%", "brake=0:bar"]
    run = brought(tmp_path / "raw.mf4", tmp_path / "runs", maps=maps, dbc=dbc, overrides=CAR)
    assert len(np.unique(run.topics["/daq"].blocks["steering"])) >= 100
    with pytest.raises(
        ExchangeError, match=r"200 raw CAN frames of 1 ids on bus1; what is in them says a DBC: give --dbc"
    ):
        brought(tmp_path / "raw.mf4", tmp_path / "runs", overrides=CAR)


@settings(max_examples=few(200), deadline=None, derandomize=True)
@given(signals_in_frames())
def test_many_frames_at_once_are_read_as_one_by_one(message_and_data: tuple[Any, bytes]) -> None:
    message, data = message_and_data
    rows = np.frombuffer(data + bytes(255 - b for b in data), np.uint8).reshape(2, -1)
    found, there = integers(rows, bits(message, "s"))
    assert there.all()
    assert found.tolist() == [message.decode(bytes(r), scaling=False, decode_choices=False)["s"] for r in rows]


# ---- what is wrong ---------------------------------------------------------------------------------------------------


def test_of_a_truncated_log_what_stands_before_the_cut_is_imported_and_said(tmp_path: Path) -> None:
    file = drive_log(tmp_path / "drive.blf", 20_000)  # several containers
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    figures = import_file(Options(file, CAN, True, runs=tmp_path / "runs"))
    assert len(figures["remarks"]) == 1 and "imported is what stands before it" in figures["remarks"][0]
    assert 1000 < figures["rows"]["/daq"] < 199_990
    file.write_bytes(whole[:100])
    with pytest.raises(ExchangeError) as caught:
        import_file(Options(file, CAN, True, runs=tmp_path / "none"))
    assert str(file) in str(caught.value) and not (tmp_path / "none").exists()


def test_a_dbc_of_another_bus_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ExchangeError, match=r"does not fit it: it has none of the ids of the log \(24, 25, AA, B4"):
        brought(LOG, tmp_path / "runs", maps=["steering=A:deg"], dbc=CAN.parent / "can" / "example.dbc", overrides=CAR)
    short = tmp_path / "short.dbc"
    short.write_text(
        DBC.read_text(encoding="cp1252").replace("BO_ 36 KINEMATICS: 8", "BO_ 36 KINEMATICS: 64"), encoding="cp1252"
    )
    only = tmp_path / "only.log"
    only.write_text("".join(line for line in LOG.read_text().splitlines(True) if " 024#" in line))
    with pytest.raises(ExchangeError, match=r"KINEMATICS has 64 bytes, its frames have 8; is it of another bus\?"):
        brought(only, tmp_path / "runs", maps=["steering=A:deg"], dbc=short, overrides=CAR)


def test_time_that_runs_backwards_is_refused_with_its_place(tmp_path: Path) -> None:
    lines = LOG.read_text().splitlines(True)
    (tmp_path / "back.log").write_text("".join([*lines[2000:], *lines[:2000]]))
    with pytest.raises(ExchangeError, match=r"back.log: frame \d+ of STEER_ANGLE_SENSOR.*instants must ascend"):
        brought(tmp_path / "back.log", tmp_path / "runs", CONFIG)
    assert not (tmp_path / "runs").exists()


def test_a_column_of_text_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("t [s],angle,gear\n0,1,first\n0.01,2,second\n")
    maps = ["steering=angle:deg", "throttle=gear:%", "brake=0:bar"]
    with pytest.raises(ExchangeError, match="line 2, column gear: 'first' is not a number"):
        brought(file, tmp_path / "runs", maps=maps, overrides=CAR)


def test_what_may_be_mapped_is_listed_with_its_range_and_never_a_switch_or_a_counter(tmp_path: Path) -> None:
    with pytest.raises(ExchangeError) as caught:
        brought(LOG, tmp_path / "runs", dbc=DBC, overrides=CAR)
    said = str(caught.value)
    assert "steering: STEER_ANGLE_SENSOR:STEER_ANGLE -4.5 … 3 deg" in said
    assert "CHECKSUM" not in said.split("What may be")[1]
    file = tmp_path / "m.csv"
    rows = np.arange(50)
    table = "".join(f"{k},{k % 2},{k},{1.5 * k}\n" for k in rows)
    file.write_text("t [s],brake_switch [bar],brake_counter [bar],brk [bar]\n" + table)
    config = load(DRIVE, CAR)
    brake = next(c for c in config.daq.layout.channels if c.name == "brake")
    found = candidates(likely_columns(open_measurement(file), brake, config.inputs))
    assert [(c.column, c.low, c.high, c.unit) for c in found] == [("brk", 0.0, 73.5, "bar")]


# ---- MATLAB and bags -------------------------------------------------------------------------------------------------


def test_a_matlab_file_has_its_vectors_structures_and_units(tmp_path: Path) -> None:
    t = 0.01 * np.arange(100)
    listed = {"name": np.array(["speed", "t"], object), "units": np.array(["kph", "sec"], object)}
    savemat(tmp_path / "m.mat", {"t": t, "run": {"angle": 10 * t}, "speed": 36 * t, "channel": listed})
    sheets = open_measurement(tmp_path / "m.mat").sheets
    assert [s.columns for s in sheets] == [{"t": "sec", "run.angle": "", "speed": "kph"}]
    maps = ["steering=run.angle:deg", "throttle=0:%", "brake=0:bar"]
    made = brought(tmp_path / "m.mat", tmp_path / "runs", maps=maps, measured=["vx=speed"], overrides=CAR)
    np.testing.assert_allclose(measured(made)["vx"].values, 10 * t, atol=1e-12)
    (tmp_path / "bad.mat").write_bytes((tmp_path / "m.mat").read_bytes()[:-300])
    with pytest.raises(ExchangeError, match=r"bad.mat: a damaged MATLAB file"):
        open_measurement(tmp_path / "bad.mat")
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(128) + bytes(512))
    with pytest.raises(ExchangeError, match=r"version 7.3; write it again with save"):
        open_measurement(tmp_path / "new.mat")


@pytest.mark.parametrize("kind", ["mat", "mf4"])
def test_a_file_that_crashes_its_reader_is_a_damaged_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"m.{kind}"
    if kind == "mat":
        savemat(file, {"t": np.arange(5.0)})
    else:
        with MDF(version="4.10") as mdf:
            mdf.append([Signal(np.arange(5.0), 0.1 * np.arange(5), name="x")])
            mdf.save(file)
    crashing = [sys.executable, "-c", "import os; os.abort()"]
    monkeypatch.setattr({"mat": matlab, "mf4": mf4}[kind], "python_command", lambda *_: crashing)
    with pytest.raises(ExchangeError, match=rf"m.{kind}: a damaged M.* file: its reader crashed \(SIGABRT\)"):
        open_measurement(file)


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_numbers_of_a_bag_have_the_instants_of_their_headers(storage: str, tmp_path: Path) -> None:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds = store.types
    Stamp, Header = kinds["builtin_interfaces/msg/Time"], kinds["std_msgs/msg/Header"]
    Twist, Vector, Plain = (kinds[f"geometry_msgs/msg/{name}"] for name in ("TwistStamped", "Vector3", "Twist"))
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin[storage]) as bag:
        topic = bag.add_connection("/twist", Twist.__msgtype__, typestore=store)
        for k in range(100):
            t_ns = 1_700_000_000_000_000_000 + 10_000_000 * k
            stamp = Stamp(sec=t_ns // 10**9, nanosec=t_ns % 10**9)
            speed, turn = Vector(x=0.1 * k, y=0.0, z=0.0), Vector(x=0.0, y=0.0, z=0.01 * k)
            message = Twist(header=Header(stamp=stamp, frame_id="base"), twist=Plain(linear=speed, angular=turn))
            bag.write(topic, t_ns + 3_000_000, store.serialize_cdr(message, Twist.__msgtype__))  # logged later
    maps = ["steering=twist.angular.z:rad", "throttle=0:%", "brake=0:bar"]
    asked = {"maps": maps, "measured": ["vx=twist.linear.x:m/s"], "overrides": CAR}
    vx = measured(brought(tmp_path / "bag", tmp_path / "runs", **asked))["vx"]
    np.testing.assert_allclose(vx.values, 0.1 * np.arange(100), atol=1e-12)
    np.testing.assert_array_equal(np.diff(vx.t_ns), 10_000_000)
    ours = brought(LOG, tmp_path / "runs", CONFIG)
    with pytest.raises(ExchangeError, match="is a run already: tandem replay"):
        open_measurement(ours.path)


def test_frames_of_many_lengths_are_the_same_one_by_one_and_together() -> None:
    random = np.random.default_rng(1)
    lengths = random.integers(0, 9, 70_000)
    data = random.integers(0, 256, (len(lengths), 8), np.uint8)
    at = np.arange(len(lengths)) * 1e-3
    one, many = Frames(), Frames()
    for k, length in enumerate(lengths):
        one.add(at[k], data[k, :length].tobytes())
    many.add_many(at, lengths, data)
    for frames in (one, many):
        seconds, rows = frames.of_length(5)
        np.testing.assert_array_equal(seconds, at[lengths >= 5])
        np.testing.assert_array_equal(rows, data[lengths >= 5, :5])


def test_to_list_what_may_be_mapped_a_file_is_read_once_for_eight_columns(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    names = [f"brake{k} [bar]" for k in range(8)]
    rows = [",".join(["text" if k == 3 else str(row + k) for k in range(8)]) for row in range(10)]
    file.write_text("\n".join([",".join(names), *rows]) + "\n")
    sheet = open_measurement(file).sheets[0]
    asked: list[list[str]] = []
    counted = replace(sheet, load=lambda wanted: asked.append(wanted) or sheet.load(wanted))  # type: ignore[func-returns-value]
    likely = [Likely(counted, name, name, "bar", True) for name in sheet.columns if name != "brake3"]
    assert [c.low for c in candidates(likely)] == [0.0, 1.0, 2.0, 4.0, 5.0, 6.0] and len(asked) == 1
    asked.clear()
    mixed = [Likely(counted, name, name, "bar", True) for name in sheet.columns]
    assert len(candidates(mixed)) == 6 and len(asked) == 9  # a column of text: each by itself
