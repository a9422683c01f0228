"""A standing tyre, for the model of it and for predictions."""

DAMPING_TIME = 0.025  # s; damping per stiffness of the standing tyre: a car rocks to rest in about a second
