"""A machine as an FMU (FMI 3.0): its compiled step and an interface in C, without Python on the target.

object_code.py   the machine code of a step as numba made it, freed of what only Python would need
description.py   modelDescription.xml from the machine's description
interface.c      the functions of FMI, over that step
address_code.py  the code that a step calls by addresses in its tables
platforms.py     for which platforms, and who compiles for them
build.py         compiled, linked, zipped
"""
