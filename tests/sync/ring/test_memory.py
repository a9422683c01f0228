"""A ring that would take more memory than is sensible is refused before it is made, with what would do."""

from pathlib import Path

import pytest

from sync.errors import ConfigError
from sync.ring import memory
from sync.ring.block import Channel, Layout
from sync.ring.ring import SHM, RingWriter

LAYOUT = Layout(tuple(Channel(f"c{k}", "f8") for k in range(100)))


def test_gigabytes_are_refused_with_key_value_cost_and_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    with pytest.raises(
        ConfigError, match=r"x\.toml: sim\.ring_blocks = 4194304: that is \d+ MB .* at most (\d+) "
    ) as no:
        memory.refuse_too_large("x.toml", "sim.ring_blocks", "none", LAYOUT, 1 << 22)
    allowed = int(str(no.value).split("at most ")[1].split()[0])
    memory.refuse_too_large("x.toml", "sim.ring_blocks", "none", LAYOUT, allowed)
    with pytest.raises(ConfigError):
        memory.refuse_too_large("x.toml", "sim.ring_blocks", "none", LAYOUT, 2 * allowed)


def test_a_small_machine_has_small_rings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:      4096 kB\n")
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "meminfo")
    assert memory.available_bytes() == 4 << 20
    with pytest.raises(ConfigError, match="at most 1024 "):
        memory.refuse_too_large("x.toml", "sim.ring_blocks", "none", LAYOUT, 4096)


def test_a_ring_that_is_there_has_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 0)
    ring = RingWriter("tandem.test_memory", LAYOUT, 64)
    try:
        memory.refuse_too_large("x.toml", "sim.ring_blocks", ring.name, LAYOUT, 64)
        size = (SHM / ring.name).stat().st_size
    finally:
        ring.close()
    assert 0 < size - 64 * 64 * -(-(1 + LAYOUT.words) // 8) <= 2 * 4096  # the sum, but for its header
