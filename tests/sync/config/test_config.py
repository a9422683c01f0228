"""A configuration that is wrong is refused before anything starts, naming file, key, value and what would be right."""

import copy
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sync.config.config import Config, forced_transport, load, runtime_directory, shipped_instead
from sync.config.toml import Section, check, read
from sync.errors import ConfigError, TandemError
from sync.ring.block import RESERVED_NAMES, Channel, Layout
from sync.ring.streams import STREAMS
from tests.examples import few
from tests.sync.actors import ROOT
from tests.sync.strategies import PROPERTY

DRIVE = ROOT / "configs" / "drive.toml"
FILE = "run.toml"


def drive() -> dict[str, Any]:
    return tomllib.loads(DRIVE.read_text())


def at(data: Any, path: str) -> tuple[Any, Any]:
    """The table of a key and its last part: `daq.channels.0.name` counts."""
    *tables, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in tables:
        data = data[part]
    return data, last


def refusal(*changes: tuple[str, Any]) -> str:
    """What is said of configs/drive.toml with these values in it."""
    data = drive()
    for path, value in changes:
        table, key = at(data, path)
        table[key] = value
    with pytest.raises(ConfigError) as caught:
        check(Config, data, FILE)
    return str(caught.value)


def test_the_main_use_is_as_configured() -> None:
    config = load(DRIVE)
    assert (config.step_ns, config.period_ns) == (5_000_000, 1_000_000)
    assert config.daq.layout == Layout(
        (
            Channel("brake", "i2", "count", -200_000),
            Channel("throttle", "i2", "count", 0),
            Channel("steering", "i4", "count", 0),
        )
    )


_LIMITS = ("tolerance_below", "tolerance_above", "extrapolate_ms")  # 0 where they are not given


def test_the_main_use_writes_out_every_default() -> None:
    """Its first line says so."""

    def least(section: dict[str, Any], model: type[Section]) -> set[str]:
        missing = {key for key in model.model_fields if key not in section}
        for key, field in model.model_fields.items():
            if key in section and isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                missing |= least(section[key], field.annotation)
        return missing

    assert least(drive(), Config) == set()
    for row in load(DRIVE).inputs.values():
        assert least(drive()["inputs"][row.channels[0]], type(row)) <= {"row", "least", "most", *_LIMITS}
    said = {"daq": {"channels": drive()["daq"]["channels"]}, "source": drive()["source"], "inputs": drive()["inputs"]}
    defaults = check(Config, {**said, "sim": {"machine": drive()["sim"]["machine"]}}, FILE)
    assert defaults == load(DRIVE)


WRONG: dict[str, tuple[str, Any, list[str]]] = {
    # what is wrong: key, value, what the refusal must say besides the file
    "rate nought": ("daq.rate_hz", 0, ["daq.rate_hz = 0", "greater than or equal to 0.1"]),
    "rate negative": ("daq.rate_hz", -1.0, ["daq.rate_hz = -1.0", "greater than or equal to 0.1"]),
    "rate too high": ("daq.rate_hz", 20_000, ["daq.rate_hz = 20000", "10000"]),
    "rate a text": ("daq.rate_hz", "fast", ["daq.rate_hz = 'fast'", "valid number"]),
    "rate a truth": ("daq.rate_hz", True, ["daq.rate_hz = True", "valid number"]),
    "rate not a number": ("daq.rate_hz", float("nan"), ["daq.rate_hz = nan", "finite"]),
    "rate infinite": ("daq.rate_hz", float("inf"), ["daq.rate_hz = inf", "finite"]),
    "seconds infinite": ("seconds", float("inf"), ["seconds = inf", "finite"]),
    "step too short": ("sim.step_ms", 0.05, ["sim.step_ms = 0.05", "0.1"]),
    "step too long": ("sim.step_ms", 21, ["sim.step_ms = 21", "20"]),
    "window too long": ("inputs.steering.differentiator", 11, ["inputs.steering.differentiator = 11", "10"]),
    "window too short": ("inputs.steering.differentiator", 1, ["inputs.steering.differentiator = 1", "2"]),
    "window no integer": ("inputs.steering.differentiator", 4.5, ["inputs.steering.differentiator = 4.5", "integer"]),
    "sign nought": ("inputs.steering.sign", 0, ["inputs.steering.sign = 0", "1 or -1"]),
    "daq ring odd": ("daq.ring_blocks", 1000, ["daq.ring_blocks = 1000", "power of two, such as 1024"]),
    "sim ring odd": ("sim.ring_blocks", 4095, ["sim.ring_blocks = 4095", "power of two, such as 4096"]),
    "ring too small": ("sim.ring_blocks", 8, ["sim.ring_blocks = 8", "16"]),
    "type unknown": ("daq.channels.0.type", "f4", ["daq.channels[0].type = 'f4'", "'i2', 'u2', 'i4' or 'u4'"]),
    "skew ahead": ("daq.channels.1.skew_us", 5.0, ["daq.channels[1].skew_us = 5.0", "less than or equal to 0"]),
    "name in capitals": ("daq.channels.0.name", "Brake", ["daq.channels[0].name = 'Brake'", "a small letter"]),
    "bits too many": ("daq.channels.1.counter_bits", 64, ["daq.channels[1].counter_bits = 64", "32"]),
    "limit without counter": ("daq.channels.0.max_counts_per_s", 5.0, ["daq.channels[0]", "give counter_bits too"]),
    "no channels": ("daq.channels", [], ["daq.channels = []", "at least 1"]),
    "channels a number": ("daq.channels", 3, ["daq.channels = 3", "list"]),
    "channel a number": ("daq.channels.2", 3, ["daq.channels[2] = 3", "dictionary"]),
    "daq a number": ("daq", 3, ["daq = 3", "dictionary"]),
    "transport unknown": ("transport.kind", "udp", ["transport.kind = 'udp'", "'shm', 'ipc' or 'tcp'"]),
    "DAQ on the network": ("transport.daq_host", "10.1.2.3", ["'10.1.2.3'", "give both hosts keys (`tandem keys`"]),
    "simulator on the network": ("transport.sim_host", "fe80::1", ["sim_host = 'fe80::1'", "give both hosts keys"]),
    "DAQ anywhere": ("transport.daq_host", "0.0.0.0", ["daq_host = '0.0.0.0'", "give both hosts keys"]),
    "DAQ by name": ("transport.daq_host", "localhost", ["daq_host = 'localhost'", "IP address, such as 127.0.0.1"]),
    "simulator nowhere": ("transport.sim_host", "", ["sim_host = ''", "IP address, such as 127.0.0.1"]),
    "port nought": ("transport.daq_port", 0, ["transport.daq_port = 0", "1"]),
    "port too high": ("transport.sim_port", 65536, ["transport.sim_port = 65536", "65535"]),
    "ports equal": ("transport.daq_port", 5602, ["transport", "5602", "must differ"]),
    "ports equal for every block": ("transport", {"kind": "tcp", "every_port": 5603}, ["5603", "must differ"]),
    "port for every block without tcp": ("transport.every_port", 5604, ["every_port = 5604", "kind must be 'tcp'"]),
    "keys without tcp": ("transport.keys", "keys", ["keys = 'keys'", "kind must be 'tcp'"]),
    "key with a slash": ("transport.daq_key", "../daq", ["transport.daq_key = '../daq'", "a small letter"]),
    "priority too high": ("realtime.sim_priority", 99, ["realtime.sim_priority = 99", "98"]),
    "core a word": ("realtime.sim_core", "last", ["realtime.sim_core = 'last'", "number", "'auto' or 'any'"]),
    "core negative": ("realtime.daq_core", -1, ["realtime.daq_core = -1", "number", "'auto' or 'any'"]),
    "core a truth": ("realtime.daq_core", True, ["realtime.daq_core = True", "number", "'auto' or 'any'"]),
    "run name with a slash": ("name", "../x", ["name = '../x'", "a small letter"]),
    "key unknown": ("daq.rat_hz", 1, ["daq.rat_hz = 1", "unknown key", "did you mean rate_hz?"]),
    "key unknown at the top": ("second", 1, ["second = 1", "unknown key", "did you mean seconds?"]),
    "key unknown in a channel": ("daq.channels.0.units", "V", ["daq.channels[0].units = 'V'", "did you mean unit?"]),
    "key unknown deep down": ("inputs.steering.per_cont", 1, ["steering.per_cont = 1", "did you mean per_count?"]),
    "key unknown in a policy": ("inputs.brake.stale.hold", 1, ["inputs.brake.stale.hold = 1", "did you mean hold_ms?"]),
    "source too deep": ("source.again", [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]], ["source: ", "not be deeper than 16"]),
    "table unknown": ("simulator", {}, ["simulator: unknown key"]),
    "number of thousands of digits": ("seconds", 10**5000, ["seconds", "number"]),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_named_with_its_file_and_what_would_be_right(what: str) -> None:
    key, value, expected = WRONG[what]
    said = refusal((key, value))
    assert said.startswith(f"{FILE}: ")
    assert "\n" not in said
    for part in expected:
        assert part in said, said


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_a_channel_may_not_be_called_like_something_in_the_header(name: str) -> None:
    said = refusal(("daq.channels.0.name", name))
    assert f"daq.channels[0].name = '{name}'" in said and "is taken" in said


def test_two_channels_may_not_have_one_name() -> None:
    said = refusal(("daq.channels.0.name", "throttle"))
    assert "daq.channels" in said and "must differ" in said and "twice: throttle" in said


@pytest.mark.parametrize("name", ["brake", "throttle", "steering"])
def test_the_channels_that_rows_read_must_be_there(name: str) -> None:
    position = ["brake", "throttle", "steering"].index(name)
    assert f"inputs.{name} reads the channel {name}; daq.channels has" in refusal(
        (f"daq.channels.{position}.name", "other")
    )


@pytest.mark.parametrize("key", ["daq", "sim", "source", "daq.channels", "sim.machine", "daq.channels.0.type"])
def test_what_has_no_default_must_be_there(key: str) -> None:
    data = drive()
    table, last = at(data, key)
    del table[last]
    with pytest.raises(ConfigError) as caught:
        check(Config, data, FILE)
    assert str(caught.value) == f"{FILE}: {key.replace('.0', '[0]')}: is missing"


def test_everything_wrong_is_said_at_once() -> None:
    said = refusal(("daq.rate_hz", 0), ("sim.step_ms", 21), ("nam", "x"), ("transport.kind", "udp")).splitlines()
    assert len(said) == 4
    assert all(line.startswith(f"{FILE}: ") for line in said)
    for key in ("daq.rate_hz", "sim.step_ms", "nam", "transport.kind"):
        assert any(f": {key} = " in line for line in said)


def test_a_table_says_where_it_came_from() -> None:
    class Source(Section):
        device: str

    with pytest.raises(ConfigError, match=r"^run.toml: source.devise = 'Dev1': unknown key; did you mean device\?$"):
        check(Source, {"device": "Dev1", "devise": "Dev1"}, FILE, prefix="source")


def test_the_network_is_open_to_those_who_have_keys() -> None:
    data = drive()
    hosts = {"daq_host": "192.168.1.5", "sim_host": "fd00::5"}
    data["transport"].update(kind="tcp", daq_port=5601, sim_port=5601, keys="keys", **hosts)
    config = check(Config, data, FILE)
    assert config.endpoint("daq") == "tcp://192.168.1.5:5601"
    assert config.endpoint("sim") == "tcp://[fd00::5]:5601"  # one port on two hosts is two endpoints


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1"])
def test_the_loopback_needs_no_trust(host: str) -> None:
    data = drive()
    data["transport"].update(daq_host=host, sim_host=host)
    assert check(Config, data, FILE).transport.daq_host == host


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / FILE
        path.write_bytes(content)
        return path

    return write


def said_of(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    return said


def test_a_missing_file_is_told_with_its_neighbours(tmp_path: Path) -> None:
    assert "no such file" in said_of(tmp_path / "drvie.toml")
    (tmp_path / "drive.toml").touch()
    (tmp_path / "notes.txt").touch()
    assert said_of(tmp_path / "drvie.toml").endswith("no such file; beside it: drive.toml")
    assert said_of(tmp_path / "nowhere" / "drive.toml").endswith("no such file")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "is a folder" in said_of(tmp_path)


def test_a_file_is_no_folder(file: Callable[[bytes], Path]) -> None:
    assert "cannot be read: Not a directory" in said_of(file(b"") / "x.toml")


def test_broken_toml_is_told_with_its_line(file: Callable[[bytes], Path]) -> None:
    assert "line 3" in said_of(file(b'name = "a"\n[daq]\nrate_hz = = 3\n'))
    assert "line 2" in said_of(file(b"[daq]\n[daq]\n"))


@pytest.mark.parametrize(
    "content",
    [
        b"name = '\xff'",
        b"\x00\x01\x02",
        b"a = " + b"[" * 50_000,
        b"a = " + b"9" * 5000,
        b"a = 2026-99-99",
        b"\xef\xbb\xbf",
    ],
    ids=["no UTF-8", "binary", "brackets without end", "digits without end", "no date", "byte order mark"],
)
def test_what_is_no_toml_is_told_so(file: Callable[[bytes], Path], content: bytes) -> None:
    assert "not valid TOML" in said_of(file(content))


def test_an_integer_longer_than_python_prints_is_refused_like_any_other(file: Callable[[bytes], Path]) -> None:
    text = DRIVE.read_text().replace("ring_blocks = 4096", "ring_blocks = 0x" + "f" * 5000)
    assert "sim.ring_blocks" in said_of(file(text.encode()))


def test_an_empty_file_lacks_everything_that_has_no_default(file: Callable[[bytes], Path]) -> None:
    path = file(b"")
    assert said_of(path).splitlines() == [f"{path}: {key}: is missing" for key in ("daq", "source", "sim")]


def test_every_file_we_ship_can_be_read() -> None:
    from tandem.machines.car.device.driver import read_manoeuvre

    names = [load(path).name for path in (ROOT / "configs").glob("*.toml")]
    assert {"tandem", "two_hosts", "onboard", "can", "remote", "page"} <= set(names)
    manoeuvres = [read_manoeuvre(path) for path in (ROOT / "configs" / "manoeuvres").glob("*.toml")]
    assert len(manoeuvres) >= 9 and all(manoeuvre.title for manoeuvre in manoeuvres)


def test_any_table_can_be_read_from_a_file_of_its_own(file: Callable[[bytes], Path]) -> None:
    class Point(Section):
        x: float

    assert read(file(b"x = 1"), Point) == Point(x=1.0)
    with pytest.raises(ConfigError, match="x = '1': must be a valid number"):
        read(file(b"x = '1'"), Point)


# ---- --set -----------------------------------------------------------------------------------------------------------


def test_settings_are_overridden_in_their_order() -> None:
    config = load(
        DRIVE, ["daq.rate_hz=2000", "name=other", "transport.kind='shm'", "daq.rate_hz=500", "realtime.sim_core=any"]
    )
    assert (config.daq.rate_hz, config.name, config.transport.kind) == (500, "other", "shm")
    assert config.realtime.sim_core == "any"
    assert load(DRIVE).name == "tandem"


@pytest.mark.parametrize(
    "override,expected",
    [
        ("daq.rate_hz", "--set daq.rate_hz: expected KEY=VALUE"),
        ("=3", "--set =3: expected KEY=VALUE"),
        ("", "--set : expected KEY=VALUE"),
        ("daq.rate_hz=fast", "daq.rate_hz = 'fast': must be a valid number"),
        ("daq.rate_hz=", "daq.rate_hz = '': must be a valid number"),
        ("daq.rat_hz=3", "daq.rat_hz = 3: unknown key; did you mean rate_hz?"),
        ("name.x=3", "--set name.x=3: name is not a table"),
        ("daq.channels.0.unit=V", "--set daq.channels.0.unit=V: channels is not a table"),
        ("sim.step_ms=nan", "sim.step_ms = nan: must be a finite number"),
        ("seconds=" + "[" * 5000, "seconds = '[[["),
        ("seconds=" + "9" * 5000, "seconds = '999"),
        ("seconds=0x" + "f" * 5000, "seconds: must be a valid number"),
    ],
)
def test_an_override_that_is_wrong_is_named(override: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(DRIVE, [override])
    assert expected in str(caught.value)


# ---- fragments -------------------------------------------------------------------------------------------------------


@pytest.fixture
def beside(tmp_path: Path) -> Callable[..., Path]:
    """A configuration like the main one with these fragments beside it, and all of them included."""

    def write(*fragments: str, included: bool = True) -> Path:
        names = [f"part_{number}.toml" for number in range(len(fragments))]
        for name, text in zip(names, fragments, strict=True):
            (tmp_path / name).write_text(text)
        path = tmp_path / FILE
        path.write_text(DRIVE.read_text().replace("include = []", f"include = {names if included else []}"))
        return path

    return write


def brake(full: float) -> str:
    return f"[inputs.brake]\nfull = {full}\n"


OTHER = "vehicles/buggy_single_track.toml"
TURNED = "[inputs.steering]\nsign = -1\n"


def test_fragments_go_over_the_file_later_ones_over_earlier_ones_and_set_over_all(beside: Callable[..., Path]) -> None:
    path = beside(
        "[inputs.throttle]\nfull_counts = -300.0\n" + brake(60.0) + TURNED,
        brake(70.0) + "[inputs.steering]\nzero_counts = 5\n",
    )
    config = load(path, ["inputs.steering.zero_counts=9.0"])
    found: Any = config.inputs
    assert (found["throttle"].full_counts, found["brake"].full, found["steering"].sign) == (-300.0, 70.0, -1)
    assert found["steering"].zero_counts == 9.0
    assert config.include == ["part_0.toml", "part_1.toml"]
    # whatever they do not name is as the file has it
    there = str(DRIVE.parent / load(DRIVE).sim.machine)  # of a copy: the shipped one
    assert config.sim == load(DRIVE).sim.model_copy(update={"machine": there}) and list(config.inputs) == list(
        load(DRIVE).inputs
    )
    assert found["brake"].full_counts == 32767.0


def test_what_was_taken_from_the_shipped_files_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a copied configuration whose folder of machines has another name than it says, or that --set misspells."""
    own = tmp_path / "own.toml"
    own.write_text(DRIVE.read_text())
    (sentence,) = [each for each in shipped_instead(load(own), own) if each.startswith("sim.machine: ")]
    name = load(DRIVE).sim.machine
    assert f"there is no {name} in {tmp_path}; taken is {DRIVE.parent / name}, which tandem ships" in sentence
    monkeypatch.chdir(tmp_path)
    assert "buggy_single_track.toml" in str(shipped_instead(load(own, [f"sim.machine={OTHER}"]), own))
    (tmp_path / OTHER).parent.mkdir()
    (tmp_path / OTHER).write_text((DRIVE.parent / OTHER).read_text())
    assert "sim.machine" not in str(shipped_instead(load(own, [f"sim.machine={OTHER}"]), own))
    assert shipped_instead(load(DRIVE), DRIVE) == []


@pytest.mark.parametrize(
    "setting", ['include=["part_0.toml"]', 'include = ["part_0.toml"]', " include=['part_0.toml']"]
)
def test_the_command_line_has_the_last_word_about_fragments(beside: Callable[..., Path], setting: str) -> None:
    fragment = brake(60.0)
    path = beside(fragment, included=False)
    assert load(path).inputs["brake"].full == 40.0
    assert load(path, [setting]).inputs["brake"].full == 60.0
    # from any folder: paths count from the file
    elsewhere = path.parent / "elsewhere.toml"
    elsewhere.write_text(fragment.replace("60", "80"))
    assert load(DRIVE, [f'include=["{elsewhere}"]']).inputs["brake"].full == 80.0
    path = beside(fragment)
    assert load(path).inputs["brake"].full == 60.0
    assert load(path, ["include=[]"]).inputs["brake"].full == 40.0


def test_a_list_of_a_fragment_replaces_the_whole_list(beside: Callable[..., Path]) -> None:
    names = ("steering", "brake", "throttle")
    path = beside("".join(f'[[daq.channels]]\nname = "{name}"\ntype = "i4"\n' for name in names))
    assert load(path).daq.layout.names == names


def said_in(file: str, path: Path, *overrides: str) -> str:
    """What is said of that file, which stands beside the configuration."""
    with pytest.raises(ConfigError) as caught:
        load(path, overrides)
    said = str(caught.value)
    assert said.startswith(f"{path.parent / file}: "), said
    assert "\n" not in said
    return said


def test_what_is_wrong_in_a_fragment_is_said_of_the_fragment(beside: Callable[..., Path]) -> None:
    right = TURNED
    said = said_in("part_1.toml", beside(right, "[inputs.steering]\nsing = 1\n"))
    assert "inputs.steering.sing = 1: unknown key; did you mean sign?" in said
    assert "inputs.brake.full = -1" in said_in("part_0.toml", beside(brake(-1.0), right))
    assert "simulator: unknown key" in said_in("part_0.toml", beside("[simulator]"))
    assert "daq = 3" in said_in("part_0.toml", beside("daq = 3"))
    assert "name: is a table" in said_in("part_0.toml", beside("[name]"))
    assert "not valid TOML" in said_in("part_1.toml", beside(right, "[["))
    assert "type: is missing" in said_in("part_0.toml", beside('[[daq.channels]]\nname = "brake"'))
    # a later one that puts it right, or the command line, leaves nothing to say
    assert load(beside(brake(-1.0), brake(1.0))).include
    assert load(beside(brake(-1.0)), ["inputs.brake.full=1.0"]).include


def test_what_is_wrong_elsewhere_is_not_said_of_a_fragment(beside: Callable[..., Path]) -> None:
    path = beside(brake(60.0))
    assert "inputs.brake.full = 0" in said_in(FILE, path, "inputs.brake.full=0")
    path.write_text(path.read_text().replace("rate_hz = 1000.0", "rate_hz = 0"))
    assert "daq.rate_hz = 0" in said_in(FILE, path)


def test_a_conflict_between_files_names_both(beside: Callable[..., Path]) -> None:
    path = beside("[transport]\ndaq_port = 5602")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} with {path.parent / 'part_0.toml'}: transport: ")


def test_a_fragment_that_is_not_there_is_told_with_who_wants_it(beside: Callable[..., Path]) -> None:
    path = beside(TURNED)
    said = said_in("part_9.toml", path, 'include=["part_9.toml"]')
    assert "no such file; beside it: part_0.toml" in said and f"included by {path}" in said


def test_a_fragment_cannot_include_others(beside: Callable[..., Path]) -> None:
    path = beside('include = ["part_1.toml"]', "")
    assert "a fragment cannot include others" in said_in("part_0.toml", path, 'include=["part_0.toml"]')
    assert "a fragment cannot include others" in said_in(FILE, path, f"include=['{FILE}']")


@pytest.mark.parametrize("setting", ["include=calibration.toml", "include=3", "include=[3]", "include={}"])
def test_what_is_included_is_a_list_of_files(beside: Callable[..., Path], setting: str) -> None:
    assert 'must be a list of files, such as ["calibration.toml"]' in said_in(FILE, beside(), setting)


# ---- names of things -------------------------------------------------------------------------------------------------


def test_two_runs_with_two_names_share_nothing() -> None:
    one, other = load(DRIVE), load(DRIVE, ["name=other"])
    names = [name for config in (one, other) for name in map(config.ring, STREAMS)]
    endpoints = [config.endpoint(role) for config in (one, other) for role in ("daq", "sim")]
    assert len(set(names)) == len(names) and len(set(endpoints)) == len(endpoints)


def test_two_users_with_one_configuration_share_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(DRIVE)
    mine = set(map(config.ring, STREAMS))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert mine.isdisjoint(map(config.ring, STREAMS))


@pytest.fixture
def runtime(socket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(socket_folder))
    return socket_folder


def test_sockets_live_where_only_the_user_can_go(runtime: Path) -> None:
    assert load(DRIVE).endpoint("daq") == f"ipc://{runtime}/tandem/tandem.daq.ipc"
    assert (runtime / "tandem").stat().st_mode & 0o777 == 0o700
    (runtime / "tandem").chmod(0o777)
    assert runtime_directory().stat().st_mode & 0o777 == 0o700


def test_the_longest_name_still_fits_into_a_sockets_path(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever folder is not refused."""
    longest = load(DRIVE, ["name=" + "x" * 32])
    lengths = []
    for more in range(1, 108 - len(str(runtime))):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / ("y" * more)))
        try:
            lengths.append(len(os.fsencode(longest.socket("daq"))))
        except ConfigError:
            break
    assert lengths and max(lengths) <= 107


def test_a_folder_for_sockets_that_cannot_be_had_is_refused(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/dev/null")
    with pytest.raises(ConfigError, match=r"^/dev/null/tandem: cannot be made: .*XDG_RUNTIME_DIR"):
        runtime_directory()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / ("x" * 90)))
    with pytest.raises(ConfigError, match="too long"):
        runtime_directory()


def test_a_folder_for_sockets_that_belongs_to_somebody_else_is_refused(runtime: Path) -> None:
    (runtime / "tandem").mkdir()
    try:
        os.chown(runtime / "tandem", 65534, 65534)
    except PermissionError:
        pytest.skip("only root can give a folder away")
    with pytest.raises(ConfigError, match="belongs to another user"):
        runtime_directory()


@pytest.mark.parametrize("planted", ["a folder of another", "a link", "a file"])
def test_a_name_that_another_user_has_taken_does_not_keep_a_run_from_its_sockets(
    planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without XDG_RUNTIME_DIR; and the place stays once it was chosen, whatever becomes of the name."""
    home, public = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    public.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("sync.config.config.tempfile.gettempdir", lambda: str(public))
    monkeypatch.setattr("sync.config.config.pwd.getpwuid", lambda _: SimpleNamespace(pw_dir=str(home)))
    monkeypatch.setattr("sync.config.config._SOCKET_PATH_MAX", 1000)
    usual = public / f"tandem-{os.getuid()}"
    assert runtime_directory() == usual
    usual.rmdir()
    if planted == "a link":
        usual.symlink_to(tmp_path)
    elif planted == "a file":
        usual.touch()
    else:
        usual.mkdir()
        try:
            os.chown(usual, 65534, 65534)
        except PermissionError:
            pytest.skip("only root can give a folder away")
    chosen = runtime_directory()
    assert chosen == home / ".cache" / "tandem" / "run" and chosen.stat().st_mode & 0o777 == 0o700
    usual.rmdir() if planted == "a folder of another" else usual.unlink()
    assert runtime_directory() == chosen


def test_a_wrong_configuration_ends_a_program_with_its_own_code() -> None:
    assert issubclass(ConfigError, TandemError) and ConfigError.code == 2 != TandemError.code


# ---- anything --------------------------------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.binary(max_size=4), st.dates(),
    st.sampled_from((0, -1, 1, 16, 1e308, 5e-324, "auto", "shm", "127.0.0.1", 10**400)),
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every table or list in a configuration, with every key it has."""
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [place for key in keys for place in places(data[key])]


@given(data=st.data())
@settings(PROPERTY, max_examples=few(300), suppress_health_check=[HealthCheck.too_slow])
def test_no_change_whatsoever_makes_it_raise_anything_but_its_error(data: st.DataObject) -> None:
    config = copy.deepcopy(drive())
    for _ in range(data.draw(st.integers(1, 4))):
        table, key = data.draw(st.sampled_from(places(config)))
        change = data.draw(st.sampled_from(("set", "set", "add", "remove", "double")))
        if change == "set":
            table[key] = data.draw(anything)
        elif change == "remove":
            del table[key]
        elif isinstance(table, list):
            table.append(copy.deepcopy(table[key]))
        else:
            table[data.draw(st.text(max_size=8)) if change == "add" else f"{key}s"] = table[key]
        if not places(config):
            return
    try:
        made = check(Config, config, FILE)
    except ConfigError:
        return
    # what was accepted can be used
    assert made.daq.layout.words >= 7
    assert made.period_ns > 0 and made.step_ns > 0


@pytest.mark.parametrize("kind", ["shm", "ipc", "tcp"])
def test_a_transport_can_be_forced_on_a_configuration_of_two_hosts(kind: str) -> None:
    two_hosts = ['transport.kind="tcp"', 'transport.keys="keys"', "transport.every_port=5610", "transport.daq_host=::2"]
    to = load(DRIVE, [*two_hosts, *forced_transport(kind)]).transport
    assert to.kind == kind
    assert (to.keys, to.every_port) == (("keys", 5610) if kind == "tcp" else ("", 0))


def test_a_name_that_is_none_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match=r"name = 'My run': must be a small letter, then small letters, digits and _"):
        load(DRIVE, ["name=My run"])


def test_a_file_is_looked_for_where_the_user_stands_then_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["sim.machine=mycar.toml"]
    assert load(DRIVE, settings).sim.machine == "mycar.toml"  # refused where it is read
    (tmp_path / "mycar.toml").write_text('machine = "buggy"')
    assert load(DRIVE, settings).sim.machine == str(tmp_path / "mycar.toml")
    # a file names what is beside it, wherever somebody stands
    (tmp_path / "vehicles").mkdir()
    (tmp_path / "vehicles" / "buggy.toml").write_text('machine = "buggy"')
    assert load(DRIVE).sim.machine == "vehicles/buggy.toml"


def test_a_copied_configuration_finds_what_it_names(tmp_path: Path) -> None:
    copy = tmp_path / "drive.toml"
    copy.write_text(DRIVE.read_text())
    copied = load(copy)
    assert copied.sim.machine == str(DRIVE.parent / "vehicles" / "buggy.toml")
    assert copied.source["manoeuvre"] == str(DRIVE.parent / "manoeuvres" / "town.toml")
    (tmp_path / "manoeuvres").mkdir()
    (tmp_path / "manoeuvres" / "town.toml").write_text("")
    assert load(copy).source["manoeuvre"] == "manoeuvres/town.toml"  # one of its own goes first
