"""The hops of an effort, from the sample to the hand, as a ledger names them and in words."""

ROUND_TRIP = {
    "round_trip": "round trip: sampled, effort at the device",
    "beyond_step": "the same without the step's own time",
    "sensor": "sensor: sampled, in the DAQ's ring",
    "there": "there: in the DAQ's ring, taken by a step",
    "step": "step: taken, result in the ring",
    "back": "back: result in the ring, taken by the effort loop",
    "hand": "hand: taken, effort at the device",
}
