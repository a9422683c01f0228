"""The Magic Formula of MF 6.1 and 6.2 once more, written from the publications, equation by equation, in numpy.

Pacejka, Tire and Vehicle Dynamics (3rd edition), 4.3.2, 4.3.3 and appendix 3; rolling resistance as equation (A48) of
Besselink and others (2010), the height of MF 6.2 as its equation manual. Shares nothing with the kernels: arrays of
states, no clipping, no rounding off near standstill. What the book bounds (E <= 1, B_t >= 0) is bounded.

`signed` is the direction of rolling; ISO axes; a tyre of the left side.
"""

import numpy as np
from numpy import arctan, cos, exp, pi, sin, sqrt, tan


def sine(D, C, B, E, x):
    return D * sin(C * arctan(B * x - E * (B * x - arctan(B * x))))


def cosine(C, B, E, x):
    return cos(C * arctan(B * x - E * (B * x - arctan(B * x))))


def published_6(c, Fz, kappa, alpha_star, gamma, signed, speed, p, phi_t=None):
    """Rows Fx, Fy, Mx, My, Mz."""
    one = np.ones_like(Fz)
    R0, Fz0 = c["UNLOADED_RADIUS"], c["FNOMIN"] * c["LFZO"]
    dfz = (Fz - Fz0) / Fz0  # (4.E2a)
    dpi = (p - c["NOMPRES"]) / c["NOMPRES"]  # (4.E2b)
    gs = sin(gamma)  # (4.E4)
    cos_alpha = 1.0 / sqrt(1.0 + alpha_star**2)
    lmux1, lmuy1 = (10.0 * c[n] / (1.0 + 9.0 * c[n]) for n in ("LMUX", "LMUY"))  # (4.E8)
    z0, z1, z2, z3, z4, z5, z6, z7, z8 = one, one, one, one, one, one, one, one, one

    def stiffness(gs):  # (4.E25) without zeta3
        bend = c["PKY4"] * arctan(Fz / Fz0 / ((c["PKY2"] + c["PKY5"] * gs**2) * (1 + c["PPY2"] * dpi)))
        return c["PKY1"] * Fz0 * (1 + c["PPY1"] * dpi) * (1 - c["PKY3"] * abs(gs)) * sin(bend) * c["LKY"]

    mux = (c["PDX1"] + c["PDX2"] * dfz) * (1 + c["PPX3"] * dpi + c["PPX4"] * dpi**2)
    mux = mux * (1 - c["PDX3"] * gamma**2) * c["LMUX"]  # (4.E13)
    muy = (c["PDY1"] + c["PDY2"] * dfz) * (1 + c["PPY3"] * dpi + c["PPY4"] * dpi**2) * c["LMUY"]
    muy_upright, muy = muy, muy * (1 - c["PDY3"] * gs**2)  # (4.E23)
    Kya0 = stiffness(0.0 * gs)
    Kyg0 = Fz * (c["PKY6"] + c["PKY7"] * dfz) * (1 + c["PPY5"] * dpi) * c["LKYC"]  # (4.E30)

    spin = 0.0 * one
    if phi_t is not None:  # 4.3.3
        eps = c["PECP1"] * (1 + c["PECP2"] * dfz)  # (4.90)
        lean = (1 - eps) * (1 + kappa) * gs
        spin = R0 * phi_t + signed * lean
        Bxp = c["PDXP1"] * (1 + c["PDXP2"] * dfz) * cos(arctan(c["PDXP3"] * kappa))
        Byp = c["PDYP1"] * (1 + c["PDYP2"] * dfz) * cos(arctan(c["PDYP3"] * alpha_star))
        z0 = 0.0 * one
        z1 = cos(arctan(Bxp * abs(spin)))
        z2 = cos(arctan(Byp * (abs(spin) + c["PDYP4"] * sqrt(abs(spin)))))
        z3 = cos(arctan(c["PKYP1"] * spin**2))
        z5 = cos(arctan(c["QDTP1"] * spin))
        z6 = cos(arctan(c["QBRP1"] * spin))
    Kya = stiffness(gs) * z3
    SVyg = Fz * (c["PVY3"] + c["PVY4"] * dfz) * gs * c["LKYC"] * lmuy1 * z2  # (4.E28)
    if phi_t is not None:
        CHyp, DHyp = c["PHYP1"], c["PHYP2"] + c["PHYP3"] * dfz
        SHyp = sine(DHyp, CHyp, Kyg0 / (1 - eps) / (CHyp * DHyp * Kya0), c["PHYP4"], signed * R0 * phi_t + lean)
        z4 = 1 + SHyp - SVyg / Kya  # (4.84)

    # longitudinal
    Kxk = Fz * (c["PKX1"] + c["PKX2"] * dfz) * exp(c["PKX3"] * dfz)
    Kxk = Kxk * (1 + c["PPX1"] * dpi + c["PPX2"] * dpi**2) * c["LKX"]  # (4.E15)
    kx = kappa + (c["PHX1"] + c["PHX2"] * dfz) * c["LHX"]  # (4.E10), (4.E17)
    SVx = Fz * (c["PVX1"] + c["PVX2"] * dfz) * c["LVX"] * lmux1 * z1  # (4.E18)
    Cx, Dx = c["PCX1"] * c["LCX"], mux * Fz * z1
    Ex = (c["PEX1"] + c["PEX2"] * dfz + c["PEX3"] * dfz**2) * (1 - c["PEX4"] * np.sign(kx)) * c["LEX"]
    Fx0 = sine(Dx, Cx, Kxk / (Cx * Dx), np.minimum(Ex, 1), kx) + SVx

    # lateral
    SHy0 = (c["PHY1"] + c["PHY2"] * dfz) * c["LHY"]
    SHy = SHy0 + (Kyg0 * gs - SVyg) / Kya * z0 + z4 - 1  # (4.E27)
    SVy0 = Fz * (c["PVY1"] + c["PVY2"] * dfz) * c["LVY"] * lmuy1
    SVy = SVy0 * z2 + SVyg  # (4.E29)
    Cy, Dy = c["PCY1"] * c["LCY"], muy * Fz * z2
    Ey = c["PEY1"] + c["PEY2"] * dfz
    Ey_leaning = Ey * (1 + c["PEY5"] * gs**2 - (c["PEY3"] + c["PEY4"] * gs) * np.sign(alpha_star + SHy)) * c["LEY"]
    By = Kya / (Cy * Dy)
    Fy0 = sine(Dy, Cy, By, np.minimum(Ey_leaning, 1), alpha_star + SHy) + SVy
    Dy0 = muy_upright * Fz
    Ey_upright = Ey * (1 - c["PEY3"] * np.sign(alpha_star + SHy0)) * c["LEY"]
    Fy_upright = sine(Dy0, Cy, Kya0 / (Cy * Dy0), np.minimum(Ey_upright, 1), alpha_star + SHy0) + SVy0

    # combined
    Bxa = (c["RBX1"] + c["RBX3"] * gs**2) * cos(arctan(c["RBX2"] * kappa)) * c["LXAL"]  # (4.E54)
    Exa = np.minimum(c["REX1"] + c["REX2"] * dfz, 1)
    Gxa = cosine(c["RCX1"], Bxa, Exa, alpha_star + c["RHX1"]) / cosine(c["RCX1"], Bxa, Exa, c["RHX1"])
    Eyk, SHyk = np.minimum(c["REY1"] + c["REY2"] * dfz, 1), c["RHY1"] + c["RHY2"] * dfz

    def weighting(gs):  # (4.E59) to (4.E62)
        B = (c["RBY1"] + c["RBY4"] * gs**2) * cos(arctan(c["RBY2"] * (alpha_star - c["RBY3"]))) * c["LYKA"]
        return cosine(c["RCY1"], B, Eyk, kappa + SHyk) / cosine(c["RCY1"], B, Eyk, SHyk)

    Gyk = weighting(gs)
    DVyk = muy * Fz * (c["RVY1"] + c["RVY2"] * dfz + c["RVY3"] * gs) * cos(arctan(c["RVY4"] * alpha_star)) * z2
    Fx = Gxa * Fx0
    Fy = Gyk * Fy0 + DVyk * sin(c["RVY5"] * arctan(c["RVY6"] * kappa)) * c["LVYKA"]

    # aligning
    at = alpha_star + c["QHZ1"] + c["QHZ2"] * dfz + (c["QHZ3"] + c["QHZ4"] * dfz) * gs
    ar = alpha_star + SHy + SVy / Kya
    Bt = (c["QBZ1"] + c["QBZ2"] * dfz + c["QBZ3"] * dfz**2) * (1 + c["QBZ4"] * gs + c["QBZ5"] * abs(gs))
    Bt = np.maximum(Bt * c["LKY"] / c["LMUY"], 0)
    Dt = Fz * R0 / Fz0 * (c["QDZ1"] + c["QDZ2"] * dfz) * (1 - c["PPZ1"] * dpi) * c["LTR"] * signed
    Dt = Dt * (1 + c["QDZ3"] * abs(gs) + c["QDZ4"] * gs**2) * z5
    Et = c["QEZ1"] + c["QEZ2"] * dfz + c["QEZ3"] * dfz**2
    Et = np.minimum(Et * (1 + (c["QEZ4"] + c["QEZ5"] * gs) * 2 / pi * arctan(Bt * c["QCZ1"] * at)), 1)
    more = (Kxk / Kya) ** 2 * kappa**2
    t = Dt * cosine(c["QCZ1"], Bt, Et, sqrt(at**2 + more) * np.where(np.signbit(at), -1.0, 1.0)) * cos_alpha
    Br = (c["QBZ9"] * c["LKY"] / c["LMUY"] + c["QBZ10"] * By * Cy) * z6
    of_camber = (c["QDZ8"] + c["QDZ9"] * dfz) * (1 + c["PPZ2"] * dpi) + (c["QDZ10"] + c["QDZ11"] * dfz) * abs(gs)
    Dr = (c["QDZ6"] + c["QDZ7"] * dfz) * c["LRES"] * z2 + of_camber * gs * c["LKZC"] * z0
    Dr = Fz * R0 * Dr * c["LMUY"] * signed
    if phi_t is not None:
        most = c["QCRP1"] * muy * R0 * Fz * sqrt(Fz / Fz0) * c["LMP"]
        D = most / sin(pi / 2 * c["QDRP1"])
        K = Fz * R0 * (c["QDZ8"] + c["QDZ9"] * dfz) * (1 + c["PPZ2"] * dpi) * c["LKZC"] * c["LMUY"] / (1 - eps)
        Drp = sine(D, c["QDRP1"], K / (c["QDRP1"] * D), 0.0, spin)
        z7 = 2 / pi * np.arccos(np.clip(most * 2 / pi * arctan(c["QCRP2"] * abs(spin)) * Gyk / abs(Drp), 0, 1))
        z8 = 1 + Drp
    Mzr = (Dr + z8 - 1) * cos(z7 * arctan(Br * sqrt(ar**2 + more))) * cos_alpha
    s = R0 * (c["SSZ1"] + c["SSZ2"] * Fy / Fz0 + (c["SSZ3"] + c["SSZ4"] * dfz) * gs) * c["LS"]
    Mz = -t * weighting(0.0 * gs) * Fy_upright + Mzr + s * Fx  # (4.E71) to (4.E76)

    # overturning (4.E69) with what MF 6.2 adds; rolling (A48)
    Mx = c["QSX1"] * c["LVMX"] - c["QSX2"] * gamma * (1 + c["PPMX1"] * dpi) + c["QSX3"] * Fy / Fz0
    Mx = Mx + c["QSX4"] * cos(c["QSX5"] * arctan((c["QSX6"] * Fz / Fz0) ** 2)) * sin(
        c["QSX7"] * gamma + c["QSX8"] * arctan(c["QSX9"] * Fy / Fz0)
    )
    Mx = Mx + c["QSX10"] * arctan(c["QSX11"] * Fz / Fz0) * gamma - c["QSX12"] * gamma * abs(gamma)
    Mx = R0 * (Fz * Mx + Fy * (c["QSX13"] + c["QSX14"] * abs(gamma))) * c["LMX"]
    v = speed / c["LONGVL"]
    My = signed * (c["QSY1"] + c["QSY3"] * v + c["QSY4"] * v**4 + (c["QSY5"] + c["QSY6"] * Fz / Fz0) * gamma**2)
    My = -R0 * Fz0 * (My + c["QSY2"] * Fx / Fz0) * (Fz / Fz0) ** c["QSY7"] * (p / c["NOMPRES"]) ** c["QSY8"] * c["LMY"]
    return np.stack([Fx, Fy, Mx, My, Mz])


def height(c, version, radius, omega, gamma, Fx, Fy, p):
    """Fz of a wheel at this loaded radius (A3.3), and with that load its effective rolling radius (4.E66 to 68)."""
    R0, Fz0, V0 = c["UNLOADED_RADIUS"], c["FNOMIN"], c["LONGVL"]
    dpi = p / c["NOMPRES"] - 1
    R_omega = R0 * (c["Q_RE0"] + c["Q_V1"] * (omega * R0 / V0) ** 2)
    rho = np.maximum(R_omega - radius, 0)
    q1 = sqrt((c["VERTICAL_STIFFNESS"] * R0 / Fz0) ** 2 - 4 * c["Q_FZ2"])
    if version == 61:
        q1 = q1 + c["Q_FZ3"] * gamma**2
        by_side = (c["Q_FCY"] * Fy / Fz0) ** 2
    else:
        width = (1.075 - 0.5 * c["ASPECT_RATIO"]) * c["WIDTH"]
        inside = (c["Q_CAM1"] * radius + c["Q_CAM2"] * radius**2) ** 2
        outside = (c["Q_CAM1"] * R_omega + c["Q_CAM2"] * R_omega**2) ** 2
        rho = rho + inside / outside * width / 8 * abs(tan(gamma)) - c["Q_CAM3"] * rho * abs(gamma)
        rho = np.maximum(rho, 1e-12)
        skew = (c["Q_FYS1"] + c["Q_FYS2"] * radius / R_omega + c["Q_FYS3"] * (radius / R_omega) ** 2) * gamma
        by_side = ((rho / R0) ** c["Q_FCY2"] * c["Q_FCY"] * (Fy - skew) / Fz0) ** 2
    effects = 1 + c["Q_V2"] * R0 / V0 * abs(omega) - (c["Q_FCX"] * Fx / Fz0) ** 2 - by_side
    Fz = effects * (1 + c["PFZ1"] * dpi) * (q1 * rho / R0 + c["Q_FZ2"] * (rho / R0) ** 2) * Fz0
    Cz = c["VERTICAL_STIFFNESS"] * (1 + c["PFZ1"] * dpi)
    Re = R_omega - Fz0 / Cz * (c["DREFF"] * arctan(c["BREFF"] * Fz / Fz0) + c["FREFF"] * Fz / Fz0)
    return Fz, Re, effects


def relaxation(c, Fz, gamma, p):
    """Slip stiffness over that of the carcass (Besselink)."""
    dfz, dpi = Fz / (c["FNOMIN"] * c["LFZO"]) - 1, p / c["NOMPRES"] - 1
    zero, one = 0.0 * Fz, np.ones_like(Fz)
    step = 1e-6
    forces = [
        published_6(c, Fz, k * one, a * one, gamma, one, 20.0 * one, p)
        for k, a in ((step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step))
    ]
    Cx = c["LONGITUDINAL_STIFFNESS"] * (1 + c["PCFX1"] * dfz + c["PCFX2"] * dfz**2) * (1 + c["PCFX3"] * dpi)
    Cy = c["LATERAL_STIFFNESS"] * (1 + c["PCFY1"] * dfz + c["PCFY2"] * dfz**2) * (1 + c["PCFY3"] * dpi)
    return zero + (forces[0] - forces[1])[0] / (2 * step) / Cx, zero - (forces[2] - forces[3])[1] / (2 * step) / Cy
