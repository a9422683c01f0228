"""A machine as an FMU (FMI 3.0, Co-Simulation): its compiled step and an interface in C, without Python on the target.

object_code.py   the machine code of a step as numba made it, freed of what only Python would need
description.py   modelDescription.xml from the machine's description
interface.c      the functions of FMI, over that step
build.py         compiled, linked, zipped
"""
