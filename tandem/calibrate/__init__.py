"""`tandem calibrate`: a person moves what is measured, the DAQ reads it, a fragment of a configuration is written.

The DAQ of the configuration runs as it would in any run, without a simulator. What is captured are its raw counts, so
whatever a run will read was calibrated, not the sensor alone. It goes through the rows of `[inputs]` that have a
scale and a zero (affine ones and encoders), whatever machine they are for. A capture is the mean of what was read while
nothing moved; what cannot be right is reported and asked again. Nothing is written before everything was asked, and
whatever ends it early leaves neither a process nor a file behind.
"""
