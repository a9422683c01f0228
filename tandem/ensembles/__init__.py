"""Many runs of one machine: sweeps, fleets of records, identification, copies that are stepped together.

    study        what a sweep is, as its file has it
    sampling     from parameters to one row of values a run
    signals      inputs over time: numbers, points, sines, columns of a file
    manoeuvres   kinds of runs by name; open_loop (inputs, records) are here, those of a machine beside that machine
    figures      from the log of a run to its figures of merit
    work         one run, from a row of values to a row of figures; what a worker is given
    pool         threads, processes or a cluster, the same rows
    cluster      a Dask cluster, with certificates
    rows         what is done, on disk, by content; the table
    sweep        all of it
    report       pictures and page
    fleet        every record below a folder, replayed
    identify     parameters from measurements: identification (the study), estimate (the answer and its intervals)

A run is a function of its row of values and of the study: where it is made, and when, changes no bit of it.
"""
