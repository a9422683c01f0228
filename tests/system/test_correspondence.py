"""The block each step used is the newest one that had arrived: seen from outside, on every transport."""

from pathlib import Path

import pytest

from tests.examples import cases
from tests.ports import free_port
from verify.path.correspondence import observe

pytestmark = pytest.mark.alone  # a spinning witness sees little where others work
ENOUGH = 50  # steps of which it can say for certain what had arrived, or the check would say little
TRIES = 20  # a busy machine wakes the witness seldom


@pytest.mark.parametrize("transport", cases("shm", "ipc", "tcp"))
def test_every_step_uses_the_newest_block_that_had_arrived(
    transport: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where its run is recorded
    certain = 0
    for _ in range(TRIES):
        ports = [f"transport.{key}={free_port()}" for key in ("daq_port", "sim_port")]
        answer = observe(transport, 3.0, name, [*ports, "view.enabled=false"])
        assert answer["holds"], answer
        assert answer["largest_difference_in_blocks"] == answer["largest_difference_in_counts"] == 0
        certain += answer["certain"]
        if certain > ENOUGH:
            break
    assert certain > ENOUGH
