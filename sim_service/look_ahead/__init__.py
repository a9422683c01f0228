"""The look ahead: a process beside DAQ and simulator that steps a copy of the machine ahead of it, and warns.

It reads the newest state and its step from the simulator's rings as any reader does: no lock, no message, low priority,
another core than the loop's. From there it integrates `look_ahead.horizon_s` with the machine's own step: the held
future (inputs stay as they are) `look_ahead.rate_hz` times a second, the moving one (a hand that moves goes on) as
often as its core allows between. Every prediction is one block of the ring `look_ahead`: path, use of the grip, margin,
time to loss of control, whether that is a warning. It is recorded and shown like any other stream.

A prediction depends on the state it begins with, that step's inputs, the parameters and the configuration alone: from a
record, which has all of them, it is computed again, bit-identical (`tandem replay`).

    record.py     the block of a prediction
    predict.py    from a state to a prediction
    hindsight.py  what was predicted against what happened
    service.py    the process
"""
