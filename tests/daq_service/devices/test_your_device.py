"""docs/your_device.md: its code and its configuration, as they stand there."""

import importlib
import re
import socket
import struct
from pathlib import Path

import numpy as np
import pytest

from daq_service.devices import open_device
from sync.config.config import load
from sync.errors import ConfigError, DeviceError
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


def test_a_wrong_key_of_it_is_named(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"source\.prot = 3: unknown key; did you mean port\?"):
        open_device(load(config, ["source.prot=3"]), config)


def test_what_pretends_to_be_the_device_sends_what_it_reads() -> None:
    compile(PRETEND, "pretend.py", "exec")
    assert 'struct.pack("<II", number, counts)' in PRETEND and "7001" in PRETEND and "port = 7001" in CONFIG
