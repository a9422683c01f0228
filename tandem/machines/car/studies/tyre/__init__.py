"""Tyres from the rows of a test rig, and what a property file says of its tyre.

| file | holds |
|---|---|
| `rows.py` | rows from a file, in the axes and units of the formula |
| `fit.py` | coefficients from rows |
| `written.py` | a property file from coefficients |
| `figures.py` | what a tyre does, and how far it is from rows |
| `shown.py` | tables and page |
"""
