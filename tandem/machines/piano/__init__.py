"""The piano key: the action in four phases (`phases`), small objects in its place (`small`), an octave (`octave`).

Source: R. B. Gillespie, Haptic display of systems with changing kinematic constraints, 1996, chapters 2 and 3. What of
the geometry is not in it is a reconstruction: docs/piano.md.
"""
