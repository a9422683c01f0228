"""A tree of links in the plane of x and z, all of whose joints turn about -y: places, mass matrix and bias at once.

What joint_tree.py has for any axes in space, for those of a plane: a tenth of the operations. Place and attitude stand
in `work` as joint_tree has them. With r_k the centre of link k, p_i the pivot of joint i and i, j on the way from k to
the root,

    M_ij = sum_k m_k (r_k - p_i).(r_k - p_j) + I_k        c_i = sum_k m_k (a_k - g).((r_k - p_i) turned by 90 degrees)

where a_k is the acceleration of the centre at constant rates.
"""

from math import cos, sin

from sync.compile.jit import merged
from tandem.multibody.contact.kinds import AT, CENTRE, INERTIA, LINK_INTS, LINK_REALS, LINK_WORK, MASS, OWN, PARENT, P
from tandem.multibody.natural.views import view

_RATE, _ALONG, _UP = OWN, OWN + 1, OWN + 2  # of a link: its rate, and the acceleration of its pivot


@merged
def plane_motion(ints, reals, q, v, gravity, work, M, c):
    """M (the lower part) and c of a tree at q and v; places and attitudes of all links into `work`."""
    n = len(ints) // LINK_INTS
    for i in range(n):
        own, row = view(work, LINK_WORK * i, LINK_WORK * (i + 1)), view(reals, LINK_REALS * i, LINK_REALS * (i + 1))
        parent = ints[LINK_INTS * i + PARENT]
        a, b = cos(q[i]), sin(q[i])
        x, z = row[AT], row[AT + 2]
        own[_RATE], own[_ALONG], own[_UP] = v[i], 0.0, 0.0
        if parent >= 0:
            up = view(work, LINK_WORK * parent, LINK_WORK * (parent + 1))
            dx, dz = up[0] * x + up[2] * z, up[6] * x + up[8] * z
            a, b = up[0] * a - up[6] * b, up[6] * a + up[0] * b
            w = up[_RATE]
            own[_RATE] += w
            own[_ALONG], own[_UP] = up[_ALONG] - w * w * dx, up[_UP] - w * w * dz
            x, z = up[P] + dx, up[P + 2] + dz
        own[0], own[2], own[6], own[8] = a, -b, b, a
        own[P], own[P + 2] = x, z
        c[i] = 0.0
        for j in range(i + 1):
            M[n * i + j] = 0.0
    for k in range(n):
        own, row = view(work, LINK_WORK * k, LINK_WORK * (k + 1)), view(reals, LINK_REALS * k, LINK_REALS * (k + 1))
        mass, inertia = row[MASS], row[INERTIA + 1]
        rx = own[0] * row[CENTRE] + own[2] * row[CENTRE + 2]
        rz = own[6] * row[CENTRE] + own[8] * row[CENTRE + 2]
        w = own[_RATE]
        ax, az = own[_ALONG] - w * w * rx - gravity[0], own[_UP] - w * w * rz - gravity[2]
        rx, rz = rx + own[P], rz + own[P + 2]
        i = k
        while i >= 0:
            xi, zi = rx - work[LINK_WORK * i + P], rz - work[LINK_WORK * i + P + 2]
            c[i] += mass * (az * xi - ax * zi)
            j = i
            while j >= 0:
                xj, zj = rx - work[LINK_WORK * j + P], rz - work[LINK_WORK * j + P + 2]
                M[n * i + j] += mass * (xi * xj + zi * zj) + inertia
                j = ints[LINK_INTS * j + PARENT]
            i = ints[LINK_INTS * i + PARENT]
