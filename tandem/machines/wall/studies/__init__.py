"""`tandem study wall`: how stiff a virtual wall may be, predicted and measured. See docs/haptics.md.

theory     bounds and eigenvalues: passivity, onset of chatter with hold and delay, energy leaks, return maps
limits     the table and the picture: limits over stiffness, damping, sample time, delay and finger
"""
