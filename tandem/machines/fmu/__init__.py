"""Somebody's FMU as a machine: machine.py; what it may do is said by a command."""
