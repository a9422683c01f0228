"""Multibody dynamics in relative coordinates.

Nothing is imported here: a file of this package is compiled without waiting for all the others.
"""
