"""A running simulation as an XCP slave (ASAM MCD-1 XCP), over TCP and UDP, for tools that measure and calibrate."""
