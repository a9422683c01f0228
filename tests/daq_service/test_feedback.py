"""Steps that cannot be used for want of a channel are counted and said, not silent."""

import time

import numpy as np

from daq_service.service import unfit
from sync.ring.block import Channel, Layout
from sync.transport.wire import Publisher, Receiver, context
from tests.daq_service.conftest import Rings, drive_config

PATIENCE_S = 120.0


def test_a_simulator_whose_steps_lack_what_is_wanted_is_told_of(rings: Rings) -> None:
    sent = Layout((Channel("speed", "f8"),))
    writer, _ = rings.pair(Layout((Channel("steering_torque", "f8"),)))
    config = drive_config("transport.kind='ipc'")
    zmq_context = context()
    publisher = Publisher(zmq_context, config.endpoint("sim"), sent)
    steps = Receiver(zmq_context, config.endpoint("sim"), writer, any_layout=True)
    try:
        steps.connect()
        assert unfit(steps) is None
        block = np.zeros(sent.words, np.int64)
        end = time.monotonic() + PATIENCE_S
        while (text := unfit(steps)) is None:
            assert time.monotonic() < end
            publisher.publish(block)
            steps.receive()
        assert "the simulator's steps lack steering_torque" in text
    finally:
        steps.close()
        publisher.close()
        zmq_context.destroy(0)
        config.socket("sim").unlink(missing_ok=True)
