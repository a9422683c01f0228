"""Benchmarks a user can run: what is measured, against what, in one run on one machine."""
