"""The record of a run: one MCAP file, `runs/<utc>-<name>/run.mcap`; with further parts `run.2.mcap`, `run.3.mcap` …,
each a file of the same form: one every `record.part_minutes`, and one wherever a recorder crashed and another went on.

    header       profile "ros2"
    metadata     tandem.part: the run (a random name of it, the same in all parts) and the number of the part; how far
                 the parts before it go, which of them were deleted, what may be missing in them (sync/record/heads.py)
    metadata     tandem.start: format, name, wall clock and monotonic instant of the start, versions, machine
    attachments  config.json (as it was in force), config.toml and what it names (as they were written: machine.toml
                 and what that machine reads besides, manoeuvre.toml, include_1.toml and so on), parameters.json (of
                 the machine)
    /daq         every block of the DAQ's ring, in order
    /received    every block the simulator took off the wire (absent with shared memory: there it reads /daq itself)
    /command     commands to the simulator, in order (absent where there were none)
    /step        every step's output: which block it used, when, its inputs, its outputs
    /effort      every effort handed over to the device, and the step it comes from (absent where there is none)
    /effort_1    the same of further axes of the device, by name in order
    /effort_2    the second of them
    /effort_3    the third
    /look_ahead  predictions, each with the step it begins with (absent where none were made)
    /measured    what sensors measured at the machine itself, in an imported measurement (sync/record/measured.py);
    /measured_2  the same of sensors with other instants, and so on
    metadata     tandem.ring: which ring the blocks of a topic come from, from which position on; where it was read to
                 its end; where another recorder took it up (sync/record/rings.py)
    metadata     tandem.said: notices during the run with their instants, such as a lost device; one each
    attachment   summary.json: the figures of the run
    metadata     tandem.end: the reason why it ended, and what was lost. A file without it was cut short,
    metadata     tandem.next: or goes on in the file of this name

A message is a block as CDR, its bytes as they are (sync/record/ros2msg.py). Its schema is a ROS 2 message definition
with a unit and a description for every channel, and constants for status bits and commands, so that Foxglove,
PlotJuggler and the readers of ROS 2 decode it. Log time is the instant at which a block came into its ring, publish
time its sample instant, both in UTC (sync/record/utc.py); the instants in a message are monotonic. The sequence number
is the block's position in the ring, so that a gap has a number.

A chunk is finished and written several times a second: what is written stays readable, however the recorder ends.
"""

from sync.record.batch import CompleteRun, CompleteTopic, new_folder, write_complete
from sync.record.heads import Left, read_head
from sync.record.measured import MEASURED, Measured, is_measured, measured
from sync.record.reader import open_run
from sync.record.resume import LeftOff, left_off
from sync.record.rings import Ring
from sync.record.run import Part, Run, RunError, Topic
from sync.record.sink import Sink, SyncFailure
from sync.record.writer import FILE, RunWriter, part_file, parts

__all__ = [
    "FILE",
    "MEASURED",
    "CompleteRun",
    "CompleteTopic",
    "Left",
    "LeftOff",
    "Measured",
    "Part",
    "Ring",
    "Run",
    "RunError",
    "RunWriter",
    "Sink",
    "SyncFailure",
    "Topic",
    "is_measured",
    "left_off",
    "measured",
    "new_folder",
    "open_run",
    "part_file",
    "parts",
    "read_head",
    "write_complete",
]  # fmt: skip
