"""Runs to and from the files of others: CSV, Parquet and MF4; from logs of a bus, MATLAB files and bags of ROS.

`tandem export` writes every block and every step of a run, raw counts and stamps as they were recorded, each column
with its unit; instants stand there twice, as `t_ns` (integer, exact) and as `t_s` (seconds from the run's first
block). What the run was made with (configuration, machine, start and end) travels along, so that `tandem import` of an
exported file is the same run again: the same words, to the bit.

`tandem import` makes a run that can be replayed from someone else's measurement: named columns, each with a unit,
become the raw counts that the configuration's calibration would have read. Nothing is invented: samples are held, not
interpolated, and a gap stays a gap.

Whatever is written appears under its name when it is whole, or not at all.

    tables.py   a run as tables; a measurement as columns
    csv.py, parquet.py, mf4.py   one kind of file each: `write` and `read`
    can_frames.py, matlab.py, ros.py   what is only read: frames of a bus by a DBC, MATLAB 5, bags
    measured.py   what sensors measured at the machine itself
    units.py, counts.py   units; physical values back into raw counts
    mapping.py, resample.py   which column is which channel; onto the DAQ's rhythm
    exporter.py, importer.py   what the two commands do
"""
