"""The channels of a step's output before the machine's own, in the order of the words in sim_service/step_record.py: a
display may name them, and no machine has a channel of these names."""

from sync.ring.block import Channel

STEP_CHANNELS = (
    Channel("step", "i8"),
    Channel("status", "i8"),
    Channel("input_seq", "i8"),
    Channel("input_epoch", "i8"),
    Channel("input_t_ns", "i8", "ns"),  # the block's stamps: sampled, pushed, sent, received (0: not over a wire)
    Channel("input_pushed_ns", "i8", "ns"),
    Channel("input_sent_ns", "i8", "ns"),
    Channel("input_received_ns", "i8", "ns"),
    Channel("started_ns", "i8", "ns"),  # the step's: started, took the block; done is the output's own pushed_ns
    Channel("taken_ns", "i8", "ns"),
    Channel("input_age_ns", "i8", "ns"),  # age at use, stages of the rows at that age (sim_service/inputs/stale.py),
    Channel("input_stages", "i8"),
    Channel("age_bound_ns", "i8", "ns"),  # and the error bound that the DAQ's clock leaves
    Channel("phase_error_ns", "i8", "ns"),
    Channel("commands", "i8"),  # obeyed before this step: all before this position of the ring of commands
    Channel("command_epoch", "i8"),
    Channel("time", "f8", "s"),
)
