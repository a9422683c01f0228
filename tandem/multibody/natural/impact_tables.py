"""The tables and the log of impacts: places of what impact_kernel.py reads and writes."""

BALL_PLANE, BALL_BALL, BALL_CAPSULE, BALL_BOX, CAPSULE_CAPSULE, BALL_HOLE = range(6)
# of a contact, integers: kind, first and second surface; numbers: place of the ball in the first surface's frame (or
# half the length of the first capsule), radius of the first, half sizes and radius of the second, e, friction, slow
CONTACT_INTS, CONTACT_REALS = 3, 11
OFFSET, RADIUS, SIZE, OTHER_RADIUS, RESTITUTION, FRICTION, SLOW = 0, 3, 4, 7, 8, 9, 10
FORMS = 12  # of a surface: origin, three axes
# a row of the log
(
    E_TIME, E_CONTACT, E_TOGETHER, E_BEFORE, E_AFTER, E_NORMAL, E_ACROSS_1, E_ACROSS_2, E_LOST, E_GAP, E_PHI, E_X, E_Y,
    E_Z,
) = range(14)  # fmt: skip
EVENT = 14
# counts: rows of the log, impacts, those that were not located; J lost in impacts, and where surfaces rest; deepest, m
C_LOGGED, C_IMPACTS, C_MISSED, C_LOST, C_RESTED, C_DEEPEST, COUNTS = range(7)
MOST_TOGETHER = 12  # contacts that touch at once
MOST_IN_A_STEP = 12  # impacts; then what touches is taken to rest


def scratch_size(n: int, m: int, state: int, contacts: int) -> int:
    """Of the scratch of a run."""
    k = 3 * MOST_TOGETHER
    return state + 2 * n + 3 * contacts + MOST_TOGETHER + 40 + m + 2 * k * n + 2 * k * k + 4 * k + 3 * MOST_TOGETHER
