"""The keys of a tyre property file: which section holds them, which are needed, and what the others are if absent.

The names are those of PAC2002 and MF-Tyre 5.2, which share them. `NEEDED` keys have no sensible default. A scale
factor that is absent is 1, a coefficient that is absent is 0: the effect it describes is then left out. `TEXT` keys
are words, `UNUSED` ones numbers that nothing here reads: they may stand in a file, and must be numbers.

`T` is the place of every number in the vector that kernels read: the keys in order, then what is derived from them.
"""

from typing import Final

from sim_service.contract.machine import places

NEEDED: Final = "needed"
TEXT: Final = "text"
UNUSED: Final = "unused"


def _all(names: str, default: float | str = 0.0) -> dict[str, float | str]:
    return dict.fromkeys(names.split(), default)


SECTIONS: dict[str, dict[str, float | str]] = {
    "MDI_HEADER": _all("FILE_TYPE FILE_VERSION FILE_FORMAT", TEXT),
    "UNITS": _all("LENGTH FORCE ANGLE MASS TIME", TEXT),
    "MODEL": {
        **_all("PROPERTY_FILE_FORMAT TYPE FUNCTION_NAME TYRESIDE MESSAGES", TEXT),
        **_all("FITTYP USE_MODE VXLOW MFSAFE1 MFSAFE2 MFSAFE3", UNUSED),  # the first two are read with the head
        "LONGVL": 16.6,  # m/s; the speed that rolling resistance is related to
    },
    "DIMENSION": {"UNLOADED_RADIUS": NEEDED, **_all("WIDTH ASPECT_RATIO RIM_RADIUS RIM_WIDTH", UNUSED)},
    "SHAPE": {},
    "VERTICAL": {
        **_all("FNOMIN VERTICAL_STIFFNESS", NEEDED),
        **_all("VERTICAL_DAMPING BREFF DREFF FREFF"),
    },
    "LONG_SLIP_RANGE": _all("KPUMIN KPUMAX", UNUSED),
    "SLIP_ANGLE_RANGE": _all("ALPMIN ALPMAX", UNUSED),
    "INCLINATION_ANGLE_RANGE": {"CAMMIN": -0.2618, "CAMMAX": 0.2618},  # rad; 15 degrees
    "VERTICAL_FORCE_RANGE": {"FZMIN": 0.0, "FZMAX": 0.0},  # 0: twice the nominal load
    "SCALING_COEFFICIENTS": {
        **_all("LFZO LCX LMUX LEX LKX LHX LVX LGAX LCY LMUY LEY LKY LHY LVY LGAY LTR LRES LGAZ", 1.0),
        **_all("LXAL LYKA LVYKA LS LSGKP LSGAL LMX LVMX LMY LMP", 1.0),
        "LGYR": UNUSED,
    },
    "LONGITUDINAL_COEFFICIENTS": {
        **_all("PCX1 PDX1 PKX1", NEEDED),
        **_all("PDX2 PDX3 PEX1 PEX2 PEX3 PEX4 PKX2 PKX3 PHX1 PHX2 PVX1 PVX2"),
        **_all("RBX1 RBX2 REX1 REX2 RHX1 PTX1 PTX2 PTX3"),
        "RCX1": 1.0,
    },
    "OVERTURNING_COEFFICIENTS": _all("QSX1 QSX2 QSX3"),
    "LATERAL_COEFFICIENTS": {
        **_all("PCY1 PDY1 PKY1 PKY2", NEEDED),
        **_all("PDY2 PDY3 PEY1 PEY2 PEY3 PEY4 PKY3 PHY1 PHY2 PHY3 PVY1 PVY2 PVY3 PVY4"),
        **_all("RBY1 RBY2 RBY3 REY1 REY2 RHY1 RHY2 RVY1 RVY2 RVY3 RVY4 RVY5 RVY6 PTY1"),
        **_all("RCY1 PTY2", 1.0),
    },
    "ROLLING_COEFFICIENTS": _all("QSY1 QSY2 QSY3 QSY4"),
    "ALIGNING_COEFFICIENTS": {
        **_all("QBZ1 QBZ2 QBZ3 QBZ4 QBZ5 QBZ9 QBZ10 QDZ1 QDZ2 QDZ3 QDZ4 QDZ6 QDZ7 QDZ8 QDZ9"),
        **_all("QEZ1 QEZ2 QEZ3 QEZ4 QEZ5 QHZ1 QHZ2 QHZ3 QHZ4 SSZ1 SSZ2 SSZ3 SSZ4"),
        "QCZ1": 1.0,
        **_all("QTZ1 MBELT", UNUSED),
    },
    "TURNSLIP_COEFFICIENTS": {  # Pacejka's example; QDRP1 = 1 makes the standing tyre a torsion spring up to QCRP1
        **_all("PDXP1 PDYP1", 0.4),
        **_all("PDXP2 PDXP3 PDYP2 PDYP3 PDYP4 PHYP3 PECP2"),
        **_all("PKYP1 PHYP1 QDRP1", 1.0),
        **{"PHYP2": 0.15, "PHYP4": -4.0, "PECP1": 0.5, "QDTP1": 10.0, "QCRP1": 0.2, "QCRP2": 0.1, "QBRP1": 0.1},
    },
    "TANDEM": {
        "FRICTION_ELLIPSE": 0.0
    },  # 1: the force stops at the ellipse of the peak forces; not in the publications
}

NUMBERS: dict[str, float | str] = {
    key: default for keys in SECTIONS.values() for key, default in keys.items() if default not in (TEXT, UNUSED)
}

DERIVED = (
    "LOW_LOAD",  # N; coefficients are those of a load from here ...
    "HIGH_LOAD",  # N; ... to here
    "NOMINAL_LOAD",  # N; FNOMIN LFZO
    "PEAK_SLIP",  # slip of the peak at the nominal load, as a multiple of peak force / slip stiffness
    "MIRROR",  # +1 measured as a tyre of the left side, -1 of the right
    "TURN_SLIP",  # 1: the file asks for it
)


T = places("T", (*NUMBERS, *DERIVED))
