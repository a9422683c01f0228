"""Observers: a machine's state corrected by what sensors measure, each at its own instant.

Nothing is imported here: a file of this package is compiled without waiting for all the others.
"""
