"""The virtual haptic device as a process of its own: what passes through its rings, and its own watchdog."""

import numpy as np

from daq_service import effort_record as rec
from daq_service.devices import Host, open_device
from daq_service.devices.haptic import HapticDevice, LinkedDevice, open_here
from daq_service.devices.haptic_plant import GIVEN
from daq_service.devices.haptic_settings import Settings
from daq_service.haptic_process import DeviceLoop, layout
from sync.block import EPOCH, PUSHED, SEQ, T
from sync.clock import now_ns
from sync.config import Config
from sync.ring import HEARTBEAT_WORD, RingWriter, poke, push
from sync.toml import check

from .conftest import DRIVE, drive_config

SECOND = 1_000_000_000
SOURCE = "source={kind='haptic', position='steering', own_process=true, hand={motion={amplitude=0.01, hz=5.0}}}"


def hand_effort_over(ring: RingWriter, value: float) -> None:
    block = np.zeros(rec.LAYOUT.words, np.int64)
    block.view(np.float64)[rec.AT_GIVEN] = value
    block[SEQ], block[EPOCH], block[T], block[PUSHED] = ring.head, ring.epoch, now_ns(), now_ns()
    push(ring.words, block)


def opened(config: Config) -> HapticDevice:
    return open_here(config, check(Settings, config.source, str(DRIVE), "source"), DRIVE, Host())


def test_efforts_act_until_the_effort_loop_is_silent_and_scans_arrive() -> None:
    config = drive_config(SOURCE)
    device = opened(config)
    link = open_device(config, DRIVE)
    assert isinstance(link, LinkedDevice)
    efforts = RingWriter(config.ring("effort"), rec.LAYOUT, 64)
    ring = RingWriter(config.ring("device"), layout(config), 1 << 17)
    try:
        loop = DeviceLoop(config, device, ring, watchdog_ms=10_000.0)
        link.start()
        device.start()
        link.read(np.zeros((1, 3), np.int64), np.zeros(1, np.int64), 0)  # it looks for the ring
        poke(efforts.words, HEARTBEAT_WORD, now_ns())
        loop.efforts.poll()  # finds the ring; what was handed over before is not for it
        hand_effort_over(efforts, 1.5)
        end = now_ns() + 60 * SECOND
        while device.x[GIVEN] != 1.5:
            assert now_ns() < end
            poke(efforts.words, HEARTBEAT_WORD, now_ns())
            loop.turn()
        # the effort loop's last beat was long ago: zero, and what it handed over meanwhile is not taken
        poke(efforts.words, HEARTBEAT_WORD, now_ns() - 11 * SECOND)
        hand_effort_over(efforts, 9.0)
        while device.x[GIVEN] != 0.0:
            assert now_ns() < end
            loop.turn()
        assert loop.efforts.zeroed == 1
        # it is back, and hands over something new
        poke(efforts.words, HEARTBEAT_WORD, now_ns())
        hand_effort_over(efforts, -2.0)
        while device.x[GIVEN] != -2.0:
            assert now_ns() < end
            poke(efforts.words, HEARTBEAT_WORD, now_ns())
            loop.turn()
        scans, t_ns = np.zeros((1 << 17, 3), np.int64), np.zeros(1 << 17, np.int64)
        count, lost = link.read(scans, t_ns, 0)
        assert lost == 0 and count > 0 and count <= loop.scans
        assert (np.diff(t_ns[:count]) == config.period_ns).all()
        loop.efforts.close()
    finally:
        link.stop()
        ring.close()
        efforts.close()
