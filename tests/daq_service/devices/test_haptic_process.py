"""The virtual haptic device as a process of its own: what passes through its rings, and its own watchdog."""

import numpy as np

from daq_service import effort_record as rec
from daq_service.devices import open_device
from daq_service.devices.contract import Host
from daq_service.devices.haptic import HapticDevice, LinkedDevice, open_here
from daq_service.devices.haptic_plant import COMMANDED, LAST
from daq_service.devices.haptic_settings import Settings
from daq_service.haptic_process import DeviceLoop, layout
from sync.clock import now_ns
from sync.config.config import Config
from sync.config.toml import check
from sync.ring.block import EPOCH, PUSHED, SEQ, T
from sync.ring.ring import HEARTBEAT_WORD, RingWriter, poke, push
from tests.daq_service.conftest import DRIVE, drive_config

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
        while device.x[COMMANDED] != 1.5:
            assert now_ns() < end
            poke(efforts.words, HEARTBEAT_WORD, now_ns())
            loop.turn()
        # the effort loop's last beat was long ago: zero, and what it handed over meanwhile is not taken
        poke(efforts.words, HEARTBEAT_WORD, now_ns() - 11 * SECOND)
        hand_effort_over(efforts, 9.0)
        while device.x[COMMANDED] != 0.0:
            assert now_ns() < end
            loop.turn()
        assert loop.efforts.zeroed == 1
        # it is back, and hands over something new
        poke(efforts.words, HEARTBEAT_WORD, now_ns())
        hand_effort_over(efforts, -2.0)
        while device.x[COMMANDED] != -2.0:
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


def test_a_loop_that_adopts_the_ring_begins_from_zero_and_a_gap_of_the_device_is_one() -> None:
    """Another DAQ is there before the watchdog's time is over, and has nothing to hand over yet."""
    config = drive_config(SOURCE)
    device = opened(config)
    efforts = RingWriter(config.ring("effort"), rec.LAYOUT, 64)
    ring = RingWriter(config.ring("device"), layout(config), 1 << 12)
    link = open_device(config, DRIVE)
    try:
        loop = DeviceLoop(config, device, ring, watchdog_ms=10_000.0)
        poke(efforts.words, HEARTBEAT_WORD, now_ns())
        loop.efforts.poll()
        hand_effort_over(efforts, 1.5)
        loop.efforts.poll()
        assert device.queue[LAST] == 1.5 and loop.efforts.taken == 1
        hand_effort_over(efforts, 2.5)  # the last one of the loop that was killed
        efforts.bump_epoch()  # as the one that adopts it does
        poke(efforts.words, HEARTBEAT_WORD, now_ns())
        loop.efforts.poll()
        assert device.queue[LAST] == 0.0 and (loop.efforts.taken, loop.efforts.refused, loop.efforts.zeroed) == (
            1,
            1,
            1,
        )
        hand_effort_over(efforts, 0.5)
        loop.efforts.poll()
        assert device.queue[LAST] == 0.5

        link.start()
        scans, t_ns = np.zeros((8, 3), np.int64), np.zeros(8, np.int64)
        assert link.read(scans, t_ns, 0) == (0, 0)  # it looks for the ring
        block = np.zeros(ring.layout.words, np.int64)
        for k in (0, 1, 2, 7, 8):
            if k == 7:
                ring.bump_epoch()
            block[SEQ], block[EPOCH], block[T] = ring.head, ring.epoch, SECOND + k * config.period_ns
            push(ring.words, block)
        assert link.read(scans, t_ns, 0) == (3, 0)
        assert link.read(scans, t_ns, 0) == (2, 4) and t_ns[0] == SECOND + 7 * config.period_ns
        loop.efforts.close()
    finally:
        link.stop()
        ring.close()
        efforts.close()


def test_every_axis_has_its_own_efforts_and_its_own_zero() -> None:
    effort = "{channel='vx', gain=1.0, limit=9.0, slew=9.0}"
    config = drive_config(SOURCE[:-1] + f", effort={effort}, axes={{brake={{effort={effort}}}, throttle={{}}}}}}")
    device = opened(config)
    rings = [RingWriter(config.ring(name), rec.LAYOUT, 64) for name in ("effort", "effort_1")]
    ring = RingWriter(config.ring("device"), layout(config), 1 << 12)
    assert ring.layout.names[-4:] == (
        "actuator_given_brake", "actuator_position_brake", "actuator_given_throttle", "actuator_position_throttle",
    )  # fmt: skip
    try:
        loop = DeviceLoop(config, device, ring, watchdog_ms=10_000.0)
        first, brake = every = (loop.efforts, *loop.axes)
        for each in rings:
            poke(each.words, HEARTBEAT_WORD, now_ns())
        for efforts in every:
            efforts.poll()
        for each, value in zip(rings, (1.5, -2.5), strict=True):
            hand_effort_over(each, value)
        for efforts in every:
            efforts.poll()
        assert (device.queue[LAST], device.axes[0].queue[LAST], device.axes[1].queue[LAST]) == (1.5, -2.5, 0.0)
        poke(rings[1].words, HEARTBEAT_WORD, now_ns() - 11 * SECOND)  # the loop of this axis hangs
        for efforts in every:
            efforts.poll()
        assert (device.queue[LAST], device.axes[0].queue[LAST]) == (1.5, 0.0)
        assert (first.zeroed, brake.zeroed) == (0, 1)
        for efforts in every:
            efforts.close()
    finally:
        for each in (ring, *rings):
            each.close()
