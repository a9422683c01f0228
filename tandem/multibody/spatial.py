"""Vectors of three as tuples, attitudes as quaternions (scalar first): for kernels that only other kernels call."""

from sync.compile.jit import inner


@inner
def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inner
def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def three(of, at):
    return of[at], of[at + 1], of[at + 2]


@inner
def into_body(q, v):
    """A vector of the world in the axes of a body whose attitude is q."""
    w, u = q[0], (-q[1], -q[2], -q[3])
    t = cross(u, v)
    t = (2.0 * t[0], 2.0 * t[1], 2.0 * t[2])
    s = cross(u, t)
    return v[0] + w * t[0] + s[0], v[1] + w * t[1] + s[1], v[2] + w * t[2] + s[2]


@inner
def into_world(q, v):
    return into_body((q[0], -q[1], -q[2], -q[3]), v)


@inner
def increment(p, q):
    """The xi that turns the attitude p into q: q = p (1, xi / 2), normalised."""
    scale = 2.0 / (p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + p[3] * q[3])
    c = cross((p[1], p[2], p[3]), (q[1], q[2], q[3]))
    return (
        scale * (p[0] * q[1] - q[0] * p[1] - c[0]), scale * (p[0] * q[2] - q[0] * p[2] - c[1]),
        scale * (p[0] * q[3] - q[0] * p[3] - c[2]),
    )  # fmt: skip


@inner
def inverse_of(a, b, c):
    """Rows of the inverse of the matrix with these rows."""
    p, q, r = cross(b, c), cross(c, a), cross(a, b)
    share = 1.0 / dot(a, p)
    return (
        (share * p[0], share * q[0], share * r[0]),
        (share * p[1], share * q[1], share * r[1]),
        (share * p[2], share * q[2], share * r[2]),
    )


@inner
def times(B, v):
    return dot(B[0], v), dot(B[1], v), dot(B[2], v)
