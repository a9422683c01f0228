"""A data acquisition device that speaks NI's gRPC protocol, without anything of NI's behind it.

A process of its own (`python -m tests.daqmx_double`), so that the unmodified `nidaqmx` client drives it over a real
socket as it would drive NI's device server. It samples on its own clock, in real time or in a time that a test shares
with it, keeps finite buffers that overflow, loses its device and finds it again, fails as told, and refuses what would
silently be wrong on hardware: counters without the converter's clock, a wrong start order, encoder settings left at
their defaults, reads of tasks that were not started. What it refused is remembered and can be asked for.

The stubs it is built on are private to `nidaqmx`, so it is tried with the version that requirements-dev.txt pins.
"""
