"""Places in the tables of felt.py: contacts, joints, what is reported and booked."""

GROUND = -1
CAPSULE, STOP = 0, 1
# a contact: link of the point (of a stop: the joint), link of the capsule, twice the exponent, kind
FELT_INTS, POINT_LINK, CAPSULE_LINK, TWICE, KIND = 4, 0, 1, 2, 3
# … point (x, z), both ends of the segment, radius, stiffness, damping, friction, slip speed
# a stop has its angle, +1 where it holds from below and -1 from above, and the arm of its felt in the first places
FELT_REALS, POINT, START, END, RADIUS, STIFFNESS, DAMPING, FRICTION, SLIP = 11, 0, 2, 4, 6, 7, 8, 9, 10
ANGLE, SIDE, ARM = 0, 1, 2
# a joint: stiffness, rest, preload, damping, friction and the speed below which it is rounded
JOINT_REALS, SPRING, REST, PRELOAD, VISCOUS, LEVEL, SPEED = 6, 0, 1, 2, 3, 4, 5
# what is reported of a contact: depth (negative: how far apart), force along the normal, friction, closing speed
REPORT, DEPTH, NORMAL, TANGENT, CLOSING = 4, 0, 1, 2, 3
# books: work of the first link on the others, losses in felt, by friction and in pivots, stored in felt and springs
BOOKS, WORK, FELT_LOSS, FRICTION_LOSS, PIVOT_LOSS, STORED, KINETIC, POTENTIAL = 7, 0, 1, 2, 3, 4, 5, 6
# of a contact in a step: depth, force at the start, slopes by speed, by slip, 1 while it takes part, then both rows
HEAD = 5
