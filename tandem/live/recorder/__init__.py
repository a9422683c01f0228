"""The recorder: a process of its own that reads the rings in order and writes every block and every step to a file.

It is a reader like any other: killed, slow or without a disk it costs the loop nothing. Steps are taken before the
blocks, so that in the file, too, no step stands without the block it used. When a ring is replaced (a restarted DAQ)
it follows. What it could not record has a number: `lost` was overwritten before it came, `dropped` found no room
because the disk took nothing.

A recorder that crashed may be followed by another, which writes the next part of the record and takes every ring up
exactly where the files of its predecessors end: the rings remember longer than it takes to start one. Its numbers are
those of the whole run.

A record goes on in a new part every `record.part_minutes`, and after a sync that failed: the recorder's memory and what
a reader has to hold at once are those of one part. With `record.keep_gb` or `record.keep_free_gb` the oldest parts are
deleted (sync/record/retention.py), which the next part states first.

    recorder.py   the record: its parts, what goes into them, how it ends
    tap.py        one ring, read into one topic
    presence.py   whether the file can still be found under its name
    process.py    the process: commanded by the supervisor, or run by hand
"""
