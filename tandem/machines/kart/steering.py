"""The steering of a kart: from its hand wheel to its front wheels."""

from sync.compile.jit import inner


@inner
def front_angles(angle, ratio, ackermann, track, wheelbase):
    """Of the left and the right front wheel, without toe: the outer one turns less by `ackermann`."""
    mean = angle / ratio
    spread = 0.5 * ackermann * track / wheelbase * mean * mean
    return mean + spread, mean - spread


@inner
def front_derivatives(angle, ratio, ackermann, track, wheelbase):
    """How much they turn by the hand wheel's angle."""
    spread = ackermann * track / wheelbase * angle / ratio
    return (1.0 + spread) / ratio, (1.0 - spread) / ratio
