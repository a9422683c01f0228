"""Multibody dynamics in natural coordinates; api.py says how it is used, and has all names a user needs.

Nothing is imported here: a file of this package is compiled without waiting for all the others.
"""
