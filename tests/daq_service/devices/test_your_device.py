"""docs/your_device.md: its code and its configuration, as they stand there."""

import importlib
import re
import socket
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from daq_service.devices import moves_hand, open_device, settings_class
from sync.config.config import load
from sync.errors import ConfigError, DeviceError
from tandem.live.supervisor.launch import SERVICES
from tandem.live.supervisor.template import Builder
from tests.ports import free_port

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "your_device.md").read_text()
MODULE, PRETEND = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PROJECT, CONFIG = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the page, installed."""
    (tmp_path / "udp_encoder.py").write_text(MODULE)
    (tmp_path / "hand.toml").write_text(CONFIG)
    facts = tmp_path / "udp_encoder-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: udp-encoder\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[tandem.devices]\nudp_encoder = udp_encoder\n")
    assert '[project.entry-points."tandem.devices"]\nudp_encoder = "udp_encoder"\n' in PROJECT
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return tmp_path / "hand.toml"


def test_the_device_of_the_page_gives_whole_scans_and_numbers_what_is_lost(config: Path) -> None:
    port = free_port()
    device = open_device(load(config, [f"source.port={port}"]), config)
    device.find()
    device.start()
    scans, t_ns = np.zeros((8, 1), np.int64), np.zeros(8, np.int64)
    assert device.read(scans, t_ns, 1000) == (0, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for number in (5, 6, 7, 10, 11, 0):
            out.sendto(struct.pack("<II", number, 100 + number), ("127.0.0.1", port))
        out.sendto(b"noise", ("127.0.0.1", port))
    assert device.read(scans, t_ns, 10**9) == (3, 0)
    assert scans[:3, 0].tolist() == [105, 106, 107] and (np.diff(t_ns[:3]) > 0).all()
    assert device.read(scans, t_ns, 10**9) == (2, 2)
    assert device.read(scans, t_ns, 10**9) == (1, 1)  # it was restarted
    assert scans[0, 0] == 100
    taken = open_device(load(config, [f"source.port={port}"]), config)
    with pytest.raises(DeviceError, match=rf"hand\.toml: source\.host, source\.port = .*{port}"):
        taken.find()
    device.stop()
    device.stop()


@pytest.mark.parametrize("declared", [True, False])
def test_a_device_of_another_package_says_what_its_kind_is(config: Path, declared: bool) -> None:
    """Whether its driver survives a fork, whether a hand feels its efforts, and whether it takes any."""
    importlib.import_module("udp_encoder")  # before another stands in its place
    given = "    survives_fork = False\n    moves_hand = False\n    takes_any_effort = True\n" * declared
    (config.parent / "udp_encoder.py").write_text(MODULE.replace("    kind: str\n", f"{given}    kind: str\n"))
    sys.modules.pop("udp_encoder")
    importlib.invalidate_caches()
    effort = 'source={kind="udp_encoder", effort={channel="velocity", gain=1.0, limit=1.0, slew=1.0}}'
    asked = load(config, [effort])
    assert moves_hand(asked) is not declared
    (daq,) = [process for process in SERVICES if process.name == "daq"]
    assert Builder(config, [effort]).own_process(daq) is declared
    assert settings_class(asked).takes_any_effort is declared


def test_settings_that_are_none_are_refused_by_name(config: Path) -> None:
    (config.parent / "udp_encoder.py").write_text(MODULE.replace("class Settings(DeviceSettings)", "class Settings"))
    sys.modules.pop("udp_encoder", None)
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match=r"source\.kind = 'udp_encoder': its Settings is no DeviceSettings"):
        open_device(load(config), config)
    sys.modules.pop("udp_encoder", None)


def test_a_wrong_key_of_it_is_named(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"source\.prot = 3: unknown key; did you mean port\?"):
        open_device(load(config, ["source.prot=3"]), config)


def test_what_pretends_to_be_the_device_sends_what_it_reads() -> None:
    compile(PRETEND, "pretend.py", "exec")
    assert 'struct.pack("<II", number, counts)' in PRETEND and "7001" in PRETEND and "port = 7001" in CONFIG
