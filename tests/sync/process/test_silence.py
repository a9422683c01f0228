"""What is awaited is given up after silence, however long it took before that."""

from pathlib import Path

import pytest

from sync.compile.dependencies import folder_name
from sync.process.silence import Silence, compiled_so_far


def test_a_start_that_makes_progress_is_never_given_up_and_a_silent_one_is() -> None:
    now, signs = [0], [0]
    silence = Silence(600.0, lambda: signs[0], lambda: now[0])
    for minute in range(120):  # a sign every nine minutes, for two hours
        now[0] = int(60e9 * minute)
        signs[0] = minute // 9
        assert not silence.too_long
    for minute in range(120, 128):
        now[0] = int(60e9 * minute)
        assert not silence.too_long
    now[0] = int(60e9 * 129)
    assert silence.too_long
    signs[0] = -1
    now[0] += int(60e9)
    assert not silence.too_long


def test_what_is_compiled_is_a_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path))
    none = compiled_so_far()
    kernel = tmp_path / folder_name() / "of_a_file" / "step.nbc"
    kernel.parent.mkdir(parents=True)
    first = compiled_so_far()
    kernel.write_bytes(b"")
    assert none == (0, 0) != first and compiled_so_far() != first
