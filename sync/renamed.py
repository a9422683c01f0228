"""Keys of a configuration that have another name now. A file that has an old one is refused with the new one; a record
is translated (sync/record/format_1.py)."""

RENAMED = {"sim.vehicle": "sim.machine", "sim.road": "sim.files.road"}
