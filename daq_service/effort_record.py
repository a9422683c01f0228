"""What an effort records: the channels of its block, its status word, the rows of the ledger, the counters.

Integers and names only: readers of a block, a report or a record import this module and compile nothing. The effort
loop (daq_service/effort.py) fills what is named here.
"""

from sync.ring.block import PAYLOAD, Channel, Layout

# the status word of an effort
LIMITED = 1  # the step asked for more than the limit
SLEWED = 2  # on its way to the effort that was asked for, as fast as allowed
WATCHDOG = 4  # for too long no step, or none of new motion: on its way to zero, or at zero
DAMPED = 8  # the passivity controller changed what was asked for
ACTIVE = 16  # more energy was given out at the port than had been put in
ENDED = 32  # zero at the end of the run
RISING = 64  # the limit has not risen to its full value yet
LOWERED = 128  # made from motion older than the delay that limits hold for, and therefore lowered
STATUS = {
    LIMITED: "limited",
    SLEWED: "slewed",
    WATCHDOG: "watchdog",
    DAMPED: "damped",
    ACTIVE: "port active",
    ENDED: "ended",
    RISING: "rising",
    LOWERED: "lowered",
}

# its block; t_ns is the instant of the hand-over
(
    AT_STEP, AT_STEP_SEQ, AT_STEP_EPOCH, AT_SAMPLED, AT_STEP_PUSHED, AT_STEP_RECEIVED, AT_STEP_NS, AT_TAKEN,
    AT_WANTED, AT_GIVEN, AT_DISPLACEMENT, AT_ENERGY, AT_STATUS, AT_MOTION, AT_ANGLE, AT_SPEED, AT_ACCELERATION,
) = range(PAYLOAD, PAYLOAD + 17)  # fmt: skip
LAYOUT = Layout(
    (
        Channel("step", "i8"),  # the step it comes from, and that step's place in the simulator's ring
        Channel("step_seq", "i8"),
        Channel("step_epoch", "i8"),
        Channel("sampled_ns", "i8", "ns"),  # the step's sample instant by the DAQ's clock; 0: not known any more
        Channel("step_pushed_ns", "i8", "ns"),  # by the simulator's clock
        Channel("step_received_ns", "i8", "ns"),  # 0: not over a wire
        Channel("step_ns", "i8", "ns"),  # from the block it took to its result; 0: not known
        Channel("taken_ns", "i8", "ns"),  # by the effort loop
        Channel("wanted", "f8"),  # gain times the step's output, in the device's unit
        Channel("given", "f8"),  # to the device
        Channel("displacement", "f8"),  # of the port, as in the step
        Channel("energy", "f8", "J"),  # put in at the port minus given out; below zero the port was active
        Channel("status", "i8"),
        # of a port model (daq_service/effort_port.py): the sample it was evaluated at, and the motion there; else 0
        Channel("motion_ns", "i8", "ns"),
        Channel("angle", "f8"),
        Channel("speed", "f8"),
        Channel("acceleration", "f8"),
    )
)
BEFORE_PORTS = Layout(LAYOUT.channels[:-4])  # of records of earlier versions

# integers read from a step besides the outputs that the settings name; -1 for one that it does not have
STAMPS = ("step", "input_seq", "input_epoch", "taken_ns")

# rows of the ledger: the round trip from a sample to the device, without the step's own time, and its five hops in
# order, which add up to it. With two clocks `there` and `back` cannot be told apart, and are empty
ROUND_TRIP, BEYOND, SENSOR, THERE, STEP, BACK, HAND = range(7)
LEDGER = ("round_trip", "beyond_step", "sensor", "there", "step", "back", "hand")

# counters
(
    HANDED, USED, SUPERSEDED, INVALID, EPOCHS, ZEROED, LIMITS, SLEWS, ACTIVES, DAMPINGS, UNDATED, SKIPPED,
    OLD, LOWERINGS,
) = range(14)  # fmt: skip
COUNTERS = (
    "handed_over", "steps_used", "steps_superseded", "steps_invalid", "epochs", "zeroed",
    "limited", "slewed", "active_steps", "damped_steps", "undated_steps",
    "steps_skipped",  # because the loop changed to another ring
    "steps_too_old",  # too old when they came, or made from motion that was
    "lowered_steps",  # of motion older than the delay that limits hold for
)  # fmt: skip

# words that the loop and its process share
STOP, LEAVE = range(2)
CONTROL_WORDS = 2
# how the loop ended
STOPPED, LEFT, RING_CLOSED = range(3)
