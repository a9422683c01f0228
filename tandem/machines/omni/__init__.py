"""Omni wheels: machine.py; their studies and commands."""
