"""Somebody's FMU as a machine: machine.py; a command shows what it may do and asks for consent."""
