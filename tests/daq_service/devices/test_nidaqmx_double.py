"""The double is worth something only if it refuses what hardware would let pass and spoil: NI's client, misused."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from nidaqmx import GrpcSessionOptions, Task
from nidaqmx.constants import AcquisitionType, AngleUnits, ReadRelativeTo
from nidaqmx.errors import DaqError, DaqReadError
from nidaqmx.stream_readers import AnalogMultiChannelReader, AnalogSingleChannelReader, CounterReader

from tests.daq_service.nidaqmx_double_opener import double
from tests.daqmx_double.device import REFUSED, analog_index
from tests.daqmx_double.handle import Double

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

    def converter(self, *inputs: str, buffer: int = 1000) -> Task:
        task = self.task()
        for name in inputs or ("ai0",):
            task.ai_channels.add_ai_voltage_chan(f"Dev1/{name}", min_val=-5, max_val=5)
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

    def let_go(self) -> None:
        while self._tasks:  # the converter before its counters, as they are made
            self._tasks.pop(0).close()

    def close(self) -> None:
        self.let_go()
        self._channel.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(double())
    yield made
    made.close()


def _converter_first(bench: Bench) -> None:
    bench.counter()
    bench.converter().start()


def _counter_after(bench: Bench) -> None:
    converter = bench.converter()
    bench.counter().start()
    converter.start()
    bench.counter("ctr1").start()


def _counter_stopped_first(bench: Bench) -> None:
    converter, counter = bench.converter(), bench.counter()
    counter.start()
    converter.start()
    counter.stop()


def _read_before_start(bench: Bench) -> None:
    AnalogSingleChannelReader(bench.converter().in_stream).read_many_sample(np.zeros(5), 5)


def _newest_only(bench: Bench) -> None:
    bench.converter().in_stream.relative_to = ReadRelativeTo.MOST_RECENT_SAMPLE


@pytest.mark.parametrize(
    "misuse, words",
    [
        (_converter_first, "before its counters"),
        (_counter_after, "after the converter"),
        (_counter_stopped_first, "while the converter runs"),
        (_read_before_start, "before it was started"),
        (_newest_only, "an instant of its own"),
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


def test_used_properly_it_samples_all_tasks_on_one_edge(bench: Bench) -> None:
    converter, counter = bench.converter(), bench.counter()
    counter.start()
    converter.start()
    volts = np.zeros(20)
    assert AnalogSingleChannelReader(converter.in_stream).read_many_sample(volts, 20, timeout=5.0) == 20
    assert np.allclose(volts * 32767 / 5, np.arange(20))
    counts = np.zeros(20, np.uint32)
    assert CounterReader(counter.in_stream).read_many_sample_uint32(counts, 20, timeout=5.0) == 20
    assert (counts == 3 * np.arange(20)).all()
    converter.stop()
    counter.stop()
    assert bench.double.tell("state")["refused"] == []


def test_several_inputs_of_one_task_come_channel_after_channel_and_packed_where_there_are_few(bench: Bench) -> None:
    """As NI's driver has them: a read that ends early leaves no room for what did not come."""
    converter = bench.converter("ai2", "ai0", "ai1")
    converter.start()
    reader, k = AnalogMultiChannelReader(converter.in_stream), np.arange(20)
    volts = np.zeros((3, 20))
    assert reader.read_many_sample(volts, 20, timeout=5.0) == 20
    assert np.allclose(volts * 32767 / 5, [analog_index(place, k) for place in (2, 0, 1)])
    volts = np.full((3, 20), np.nan)
    with pytest.raises(DaqReadError) as early:
        reader.read_many_sample(volts, 20, timeout=0.0105)
    few = early.value.samps_per_chan_read
    assert 0 < few < 20
    packed = volts.reshape(-1)[: 3 * few].reshape(3, few)
    assert np.allclose(packed * 32767 / 5, [analog_index(place, 20 + k[:few]) for place in (2, 0, 1)])
    assert bench.double.tell("state")["refused"] == []


@pytest.mark.parametrize("inputs, code", [(("ai0", "ai0"), -200489), (("ai0", "ai9"), -200170)])
def test_an_input_twice_or_one_that_is_not_there_is_refused(bench: Bench, inputs: tuple[str, ...], code: int) -> None:
    with pytest.raises(DaqError) as refusal:
        bench.converter(*inputs)
    assert refusal.value.error_code == code


def test_inputs_that_share_a_converter_share_its_rate(bench: Bench) -> None:
    bench.double.tell("configure", ai_max_together=2500.0)
    bench.converter("ai0", "ai1").start()
    bench.let_go()
    with pytest.raises(DaqError, match="sample rate"):
        bench.converter("ai0", "ai1", "ai2").start()
    bench.let_go()
    bench.double.tell("configure", simultaneous=True)
    bench.converter("ai0", "ai1", "ai2").start()


def test_a_double_that_ends_at_once_says_so_and_leaves_nothing_open() -> None:
    """Warnings are errors here: of its process and its pipes nothing may be left to the collector."""
    with pytest.raises(RuntimeError, match="the double has ended, exit code 2"):
        Double(port="none")  # type: ignore[arg-type]
    gc.collect()
