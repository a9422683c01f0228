"""The Magic Formula once more, written from the publications, equation by equation, in plain Python.

Pacejka, Tire and Vehicle Dynamics (3rd edition), 4.3.2 and 4.3.3, with the coefficients of MF 5.2 / PAC2002; the
numbers in brackets are the book's. Shares nothing with the kernels: no clipping of loads or slips, no limit of the
force, no rounding off near standstill. What the book bounds (E <= 1, B_t > 0) is bounded.

In: c the coefficients by name; Fz; kappa; alpha_star = tan(alpha) sgn(V_x); gamma; sgn(V_x); speed |V_x|; friction of
the road mu, by which lambda_mu is multiplied and slips of the weighting functions are divided; phi_t = psi' / |V|, or
None without turn slip. ISO axes; a tyre of the right side is mirrored by `mirrored`.
"""

import math
from math import acos, atan, cos, exp, pi, sin, sqrt


def sgn(x):
    return 1.0 if x > 0 else -1.0 if x < 0 else 0.0


def magic(B, C, D, E, x):
    return D * sin(C * atan(B * x - E * (B * x - atan(B * x))))


def cosine_magic(B, C, E, x):
    return cos(C * atan(B * x - E * (B * x - atan(B * x))))


def published(c, Fz, kappa, alpha_star, gamma, direction=1.0, speed=20.0, mu=1.0, phi_t=None):
    """Fx, Fy, Mx, My, Mz, and whether the force is inside the ellipse of the peaks."""
    R0, Fz0 = c["UNLOADED_RADIUS"], c["FNOMIN"] * c["LFZO"]
    dfz = (Fz - Fz0) / Fz0
    lmux, lmuy = c["LMUX"] * mu, c["LMUY"] * mu
    gx, gy, gz = (gamma * c[key] for key in ("LGAX", "LGAY", "LGAZ"))
    k_w, a_w = kappa / mu, alpha_star / mu
    cos_alpha = cos(atan(alpha_star))
    zeta = [1.0] * 9
    spin = 0.0

    # friction and stiffnesses without spin
    mux = (c["PDX1"] + c["PDX2"] * dfz) * (1 - c["PDX3"] * gx**2) * lmux  # (4.E13)
    muy = (c["PDY1"] + c["PDY2"] * dfz) * (1 - c["PDY3"] * gy**2) * lmuy  # (4.E23)
    Kx = Fz * (c["PKX1"] + c["PKX2"] * dfz) * exp(c["PKX3"] * dfz) * c["LKX"]  # (4.E15)
    Ky0 = c["PKY1"] * Fz0 * sin(2 * atan(Fz / (c["PKY2"] * Fz0))) * c["LKY"]
    Ky = Ky0 * (1 - c["PKY3"] * abs(gy))  # (4.E25)
    SVyg = Fz * (c["PVY3"] + c["PVY4"] * dfz) * gy * lmuy  # (4.E28)

    if phi_t is not None:  # 4.3.3
        eps = c["PECP1"] * (1 + c["PECP2"] * dfz)  # (4.90)
        leaning = (1 - eps) * sin(gamma) * (1 + kappa)
        spin = R0 * phi_t + direction * leaning  # about the normal of the road
        signed = direction * R0 * phi_t + leaning  # over V_x with its sign
        Bxp = c["PDXP1"] * (1 + c["PDXP2"] * dfz) * cos(atan(c["PDXP3"] * kappa))
        Byp = c["PDYP1"] * (1 + c["PDYP2"] * dfz) * cos(atan(c["PDYP3"] * alpha_star))
        zeta[0] = 0.0  # (4.83)
        zeta[1] = cos(atan(Bxp * abs(spin)))  # (4.105)
        zeta[2] = cos(atan(Byp * (abs(spin) + c["PDYP4"] * sqrt(abs(spin)))))  # (4.77)
        zeta[3] = cos(atan(c["PKYP1"] * spin**2))  # (4.79)
        zeta[5] = cos(atan(c["QDTP1"] * spin))  # (4.91)
        zeta[6] = cos(atan(c["QBRP1"] * spin))  # (4.102)
        Kyg0 = c["PHY3"] * c["LGAY"] * Ky0 + Fz * (c["PVY3"] + c["PVY4"] * dfz) * c["LGAY"] * lmuy
        CHy, DHy = c["PHYP1"], c["PHYP2"] + c["PHYP3"] * dfz  # (4.85), (4.86)
        SHyp = magic(Kyg0 / (1 - eps) / (CHy * DHy * Ky0), CHy, DHy, c["PHYP4"], signed)  # (4.80), (4.88), (4.89)
        Ky *= zeta[3]
        SVyg *= zeta[2]
        zeta[4] = 1 + SHyp - SVyg / Ky  # (4.84)

    # longitudinal, pure
    SHx = (c["PHX1"] + c["PHX2"] * dfz) * c["LHX"]  # (4.E17)
    SVx = Fz * (c["PVX1"] + c["PVX2"] * dfz) * c["LVX"] * lmux  # (4.E18)
    kx = kappa + SHx
    Cx, Dx = c["PCX1"] * c["LCX"], mux * Fz * zeta[1]  # (4.E11), (4.E12)
    Ex = (c["PEX1"] + c["PEX2"] * dfz + c["PEX3"] * dfz**2) * (1 - c["PEX4"] * sgn(kx)) * c["LEX"]  # (4.E14)
    Fx0 = magic(Kx / (Cx * Dx), Cx, Dx, min(Ex, 1.0), kx) + SVx  # (4.E9)

    # lateral, pure
    SHy = (c["PHY1"] + c["PHY2"] * dfz) * c["LHY"] + c["PHY3"] * gy * zeta[0] + zeta[4] - 1  # (4.E27)
    SVy = Fz * (c["PVY1"] + c["PVY2"] * dfz) * c["LVY"] * lmuy * zeta[2] + SVyg  # (4.E29)
    ay = alpha_star + SHy
    Cy, Dy = c["PCY1"] * c["LCY"], muy * Fz * zeta[2]  # (4.E21), (4.E22)
    Ey = (c["PEY1"] + c["PEY2"] * dfz) * (1 - (c["PEY3"] + c["PEY4"] * gy) * sgn(ay)) * c["LEY"]  # (4.E24)
    By = Ky / (Cy * Dy)  # (4.E26)
    Fy0 = magic(By, Cy, Dy, min(Ey, 1.0), ay) + SVy  # (4.E19)

    # combined
    Bxa = c["RBX1"] * cos(atan(c["RBX2"] * k_w)) * c["LXAL"]  # (4.E54)
    Exa = min(c["REX1"] + c["REX2"] * dfz, 1.0)  # (4.E56)
    Gxa = cosine_magic(Bxa, c["RCX1"], Exa, a_w + c["RHX1"]) / cosine_magic(Bxa, c["RCX1"], Exa, c["RHX1"])  # (4.E51)
    Byk = c["RBY1"] * cos(atan(c["RBY2"] * (a_w - c["RBY3"]))) * c["LYKA"]  # (4.E62)
    Eyk, SHyk = min(c["REY1"] + c["REY2"] * dfz, 1.0), c["RHY1"] + c["RHY2"] * dfz  # (4.E64), (4.E65)
    Gyk = cosine_magic(Byk, c["RCY1"], Eyk, k_w + SHyk) / cosine_magic(Byk, c["RCY1"], Eyk, SHyk)  # (4.E59)
    DVyk = Dy * (c["RVY1"] + c["RVY2"] * dfz + c["RVY3"] * gamma) * cos(atan(c["RVY4"] * a_w))  # (4.E67)
    SVyk = DVyk * sin(c["RVY5"] * atan(c["RVY6"] * k_w)) * c["LVYKA"]  # (4.E66)
    Fx, Fy = Fx0 * Gxa, Fy0 * Gyk + SVyk  # (4.E50), (4.E58)

    # aligning
    at = alpha_star + c["QHZ1"] + c["QHZ2"] * dfz + (c["QHZ3"] + c["QHZ4"] * dfz) * gz  # (4.E34), (4.E35)
    ar = alpha_star + SHy + SVy / Ky  # (4.E37), (4.E38)
    Bt = (c["QBZ1"] + c["QBZ2"] * dfz + c["QBZ3"] * dfz**2) * (1 + c["QBZ4"] * gz + c["QBZ5"] * abs(gz))  # (4.E40)
    Bt = max(Bt * c["LKY"] / lmuy, 0.0)
    Dt = Fz * (c["QDZ1"] + c["QDZ2"] * dfz) * (1 + c["QDZ3"] * gz + c["QDZ4"] * gz**2) * R0 / Fz0 * c["LTR"] * zeta[5]
    Et = (c["QEZ1"] + c["QEZ2"] * dfz + c["QEZ3"] * dfz**2) * (
        1 + (c["QEZ4"] + c["QEZ5"] * gz) * 2 / pi * atan(Bt * c["QCZ1"] * at)
    )  # (4.E44)
    more = (Kx / Ky * kappa) ** 2
    at_eq, ar_eq = math.copysign(sqrt(at**2 + more), at), math.copysign(sqrt(ar**2 + more), ar)  # (4.E77), (4.E78)
    t = Dt * cosine_magic(Bt, c["QCZ1"], min(Et, 1.0), at_eq) * cos_alpha  # (4.E33)
    Br = (c["QBZ9"] * c["LKY"] / lmuy + c["QBZ10"] * By * Cy) * zeta[6]  # (4.E45)
    Dr = Fz * R0 * lmuy * direction  # (4.E47)
    Dr *= (c["QDZ6"] + c["QDZ7"] * dfz) * c["LRES"] * zeta[2] + (c["QDZ8"] + c["QDZ9"] * dfz) * gz * zeta[0]
    if phi_t is not None and spin != 0.0:
        infinite = c["QCRP1"] * muy * R0 * Fz * sqrt(Fz / Fz0) * c["LMP"]  # (4.95)
        CD = c["QDRP1"]
        DD = infinite / sin(pi / 2 * CD)  # (4.94)
        KzR = Fz * R0 * (c["QDZ8"] + c["QDZ9"] * dfz) * c["LGAZ"] * lmuy / (1 - eps)  # (4.99)
        Drp = magic(KzR / (CD * DD), CD, DD, 0.0, spin)
        across = infinite * 2 / pi * atan(c["QCRP2"] * abs(spin)) * Gyk  # (4.103)
        zeta[7] = 2 / pi * acos(min(max(across / abs(Drp), 0.0), 1.0))
        zeta[8] = 1 + Drp
    Dr += zeta[8] - 1
    Mzr = Dr * cos(zeta[7] * atan(Br * ar_eq)) * cos_alpha  # (4.E36)
    s = (c["SSZ1"] + c["SSZ2"] * Fy / Fz0 + (c["SSZ3"] + c["SSZ4"] * dfz) * gamma) * R0 * c["LS"]  # (4.E76)
    Mz = -direction * t * (Fy - SVyk) + Mzr + s * Fx  # (4.E71)

    # overturning, rolling
    Mx = R0 * Fz * (c["QSX1"] * c["LVMX"] - c["QSX2"] * gamma + c["QSX3"] * Fy / Fz0) * c["LMX"]  # (4.E69)
    v = speed / c["LONGVL"]
    My = -R0 * Fz * (direction * (c["QSY1"] + c["QSY3"] * v + c["QSY4"] * v**4) + c["QSY2"] * Fx / Fz0) * c["LMY"]
    inside = (Fx / (Dx + abs(SVx))) ** 2 + (Fy / (Dy + abs(SVy))) ** 2 <= 1.0
    return Fx, Fy, Mx, My, Mz, inside


def mirrored(c, Fz, kappa, alpha_star, gamma, **more):
    """A tyre of the other side: the picture in a mirror that stands along x and z."""
    if more.get("phi_t") is not None:
        more["phi_t"] = -more["phi_t"]
    Fx, Fy, Mx, My, Mz, inside = published(c, Fz, kappa, -alpha_star, -gamma, **more)
    return Fx, -Fy, -Mx, My, -Mz, inside
