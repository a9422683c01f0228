"""A drive has the rings of the table, written by whom it says, in the size and with the layout that it says."""

import signal
from collections.abc import Callable

import pytest

from sync.config.config import load
from sync.ring.ring import SHM, RingReader
from sync.ring.streams import AXIS_EFFORTS, DAQ_IN, DEVICE, EFFORT, LOOK_AHEAD, SOCKETS, STREAMS
from tests.system.conftest import DRIVE, Program, processes_of, ring_of, wait_for_steps


@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_a_drive_has_the_rings_and_sockets_of_the_table(
    drive: Callable[..., Program], name: str, transport: str
) -> None:
    config = load(DRIVE, [f"name={name}", f'transport.kind="{transport}"'])
    program = drive("--seconds", "0", "--json", "--set", f'transport.kind="{transport}"')
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 20)
    # the virtual source wants nothing of the simulator, has no effort, is no process of its own; nothing looks ahead
    absent = (DAQ_IN, DEVICE, EFFORT, *AXIS_EFFORTS, LOOK_AHEAD)
    there = [stream for stream in STREAMS.values() if stream not in absent]
    expected = {stream.name for stream in there if stream.exists(transport)}
    assert {path.name for path in SHM.glob(f"tandem.{name}.*")} == {config.ring(stream) for stream in expected}
    writers = {writer: processes_of(program, writer) for writer in ("daq", "sim")}
    for stream in (STREAMS[each] for each in expected):
        ring = RingReader(config.ring(stream.name))
        assert ring.capacity == stream.capacity(config)
        assert ring.writer_pid in writers[stream.writer]
        if stream.layout == "daq.channels":
            assert ring.layout == config.daq.layout
        elif stream.layout == "the model's outputs":
            assert {"step", "input_seq"} <= set(ring.layout.names)
        elif stream.layout != "the model's states":
            assert list(ring.layout.names) == stream.layout.split(", ")
        ring.close()
    steps.close()
    published = {stream.socket for stream in STREAMS.values() if stream.socket}
    sockets = {each for each in SOCKETS if config.socket(each).exists()}
    assert sockets & published == (published if transport == "ipc" else set())
    assert "command" in sockets
    program.signal(signal.SIGINT)
    assert program.end() == 0, program.said
