"""The double is worth something only if it refuses what hardware would let pass and spoil: NI's client, misused."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from nidaqmx import GrpcSessionOptions, Task
from nidaqmx.constants import AcquisitionType, AngleUnits, ReadRelativeTo
from nidaqmx.errors import DaqError
from nidaqmx.stream_readers import AnalogSingleChannelReader, CounterReader

from tests.daqmx_double.device import REFUSED
from tests.daqmx_double.handle import Double

from .nidaqmx_double_opener import double

CLOCK = "/Dev1/ai/SampleClock"


class Bench:
    def __init__(self, process: Double):
        self.double = process
        self._channel = grpc.insecure_channel(process.server)
        self._options = GrpcSessionOptions(self._channel, "")
        self._tasks: list[Task] = []

    def task(self) -> Task:
        self._tasks.append(Task(grpc_options=self._options))
        return self._tasks[-1]

    def brake(self, buffer: int = 1000) -> Task:
        task = self.task()
        task.ai_channels.add_ai_voltage_chan("Dev1/ai0", min_val=-5, max_val=5)
        return self._clocked(task, "", buffer)

    def counter(self, name: str = "ctr0", source: str = CLOCK, buffer: int = 1000, **changed: Any) -> Task:
        task = self.task()
        settings = {"units": AngleUnits.TICKS, "pulses_per_rev": 500, **changed}
        task.ci_channels.add_ci_ang_encoder_chan(f"Dev1/{name}", **{k: v for k, v in settings.items() if v is not None})
        return self._clocked(task, source, buffer)

    def _clocked(self, task: Task, source: str, buffer: int) -> Task:
        task.timing.cfg_samp_clk_timing(1000.0, source=source, sample_mode=AcquisitionType.CONTINUOUS)
        if buffer:
            task.in_stream.input_buf_size = buffer
        return task

    def close(self) -> None:
        for task in self._tasks:
            task.close()
        self._channel.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(double())
    yield made
    made.close()


def _converter_first(bench: Bench) -> None:
    bench.counter()
    bench.brake().start()


def _converter_alone(bench: Bench) -> None:
    bench.brake().start()


def _counter_after(bench: Bench) -> None:
    brake = bench.brake()
    bench.counter().start()
    brake.start()
    bench.counter("ctr1").start()


def _counter_stopped_first(bench: Bench) -> None:
    brake, counter = bench.brake(), bench.counter()
    counter.start()
    brake.start()
    counter.stop()


def _read_before_start(bench: Bench) -> None:
    AnalogSingleChannelReader(bench.brake().in_stream).read_many_sample(np.zeros(5), 5)


def _newest_only(bench: Bench) -> None:
    bench.brake().in_stream.relative_to = ReadRelativeTo.MOST_RECENT_SAMPLE


@pytest.mark.parametrize(
    "misuse, words",
    [
        (_converter_first, "before its counters"),
        (_converter_alone, "before its counters"),
        (_counter_after, "after the converter"),
        (_counter_stopped_first, "while the converter runs"),
        (_read_before_start, "before it was started"),
        (_newest_only, "three instants"),
        (lambda b: b.counter(source="").start(), "not from /Dev1/ai/SampleClock"),
        (lambda b: b.counter(source="/Dev1/PFI0").start(), "not from /Dev1/ai/SampleClock"),
        (lambda b: b.counter(units=None).start(), "not ticks"),
        (lambda b: b.counter(pulses_per_rev=None).start(), "24 pulses a turn"),
        (lambda b: b.counter(buffer=0).start(), "buffer size left to the driver"),
    ],
)
def test_what_hardware_would_let_pass_is_refused(bench: Bench, misuse: Callable[[Bench], Any], words: str) -> None:
    with pytest.raises(DaqError, match=words) as refusal:
        misuse(bench)
    assert refusal.value.error_code == REFUSED
    assert any(words in text for text in bench.double.tell("state")["refused"])


def test_used_properly_it_samples_all_three_on_one_edge(bench: Bench) -> None:
    brake, counter = bench.brake(), bench.counter()
    counter.start()
    brake.start()
    volts = np.zeros(20)
    assert AnalogSingleChannelReader(brake.in_stream).read_many_sample(volts, 20, timeout=5.0) == 20
    assert np.allclose(volts * 32767 / 5, np.arange(20))
    counts = np.zeros(20, np.uint32)
    assert CounterReader(counter.in_stream).read_many_sample_uint32(counts, 20, timeout=5.0) == 20
    assert (counts == 3 * np.arange(20)).all()
    brake.stop()
    counter.stop()
    assert bench.double.tell("state")["refused"] == []


def test_a_double_that_ends_at_once_says_so_and_leaves_nothing_open() -> None:
    """Warnings are errors here: of its process and its pipes nothing may be left to the collector."""
    with pytest.raises(RuntimeError, match="the double has ended, exit code 2"):
        Double(port="none")  # type: ignore[arg-type]
    gc.collect()
