"""A virtual wall in somebody's hand: machine.py; its studies and commands."""
