"""Numbers by which kernels know kinds of surfaces, of joints what a joint does, and the places in their tables."""

SPHERE, SPHEROID, RING, ROLLER, ROLLER_EXPLICIT, ROLLER_IMPLICIT = range(6)
SLIDE, TURN = 0, 1
# of a joint, bits: about an axis of symmetry of the link; held where it is, by whatever torque that takes; a slide
# that moves the whole tree
SYMMETRIC, LOCKED, ROOT = 1, 2, 4

# tables of a tree: a row of integers and of numbers a link
LINK_INTS, LINK_REALS = 3, 17
PARENT, JOINT, FLAGS = range(3)
AXIS, AT, MASS, CENTRE, INERTIA, DAMPING = 0, 3, 6, 7, 10, 16
# … and a contact: its link, the link that carries that (rho and k1 are in its axes), the kind of its surface
CONTACT_INTS, CONTACT_REALS = 3, 19
LINK, CARRIER, KIND = range(3)
MIDDLE, OWN_AXIS, RHO, K1, SURFACE = 0, 3, 6, 9, 12
# … and what a step has of a link: rotation by rows, place, axis of the joint, S, velocity, force, inertia, composite
R, P, A, S, V, F, OWN, SUM, LINK_WORK = 0, 9, 12, 15, 21, 27, 33, 43, 53
