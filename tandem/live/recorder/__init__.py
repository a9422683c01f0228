"""The recorder: a process of its own that reads the rings in order and writes every block and every step to a file.

It is a reader like any other: killed, slow or without a disk it costs the loop nothing. It reads steps before blocks,
so that the file never holds a step without the block it used. When a ring is replaced (a restarted DAQ) it follows.
What it could not record is counted: `lost` blocks were overwritten before it read them, `dropped` blocks found no room
because the disk took nothing.

If a recorder crashes, another one writes the next part of the record and continues with every ring exactly where the
files of its predecessors end: the rings hold their blocks for longer than a recorder takes to start. Its numbers are
those of the whole run.

A record continues in a new part every `record.part_minutes`, and after a sync that failed: the recorder's memory, and
what a reader has to hold at once, are bounded by one part. With `record.keep_gb` or `record.keep_free_gb` the oldest
parts are deleted (sync/record/retention.py); before that the next part states it.

    recorder.py   the record: its parts, what goes into them, how it ends
    tap.py        one ring, read into one topic
    presence.py   whether the file can still be found under its name
    process.py    the process: commanded by the supervisor, or run by hand
"""
