"""The keys of a tyre property file: which section holds them, which are needed, and what the others are if absent.

The names are those of PAC2002 and MF-Tyre 5.2, which share them (`SECTIONS`), and those of MF-Tyre 6.1 and 6.2
(`SECTIONS_6`, which share them). `NEEDED` keys have no sensible default. A scale
factor that is absent is 1, a coefficient that is absent is 0: the effect it describes is then left out. `TEXT` keys
are words. What nothing here reads may stand in a file and must be numbers: `UNUSED` keys change no force, `IGNORED`
ones would, where they are not 0, and are listed as not used.

`T` is the place of every number in the vector that kernels read: the keys in order, then what is derived from them.
"""

from typing import Final

from sim_service.contract.machine import places

NEEDED: Final = "needed"
TEXT: Final = "text"
UNUSED: Final = "unused"
IGNORED: Final = "ignored"
NO_NUMBERS: Final = (TEXT, UNUSED, IGNORED)


def _all(names: str, default: float | str = 0.0) -> dict[str, float | str]:
    return dict.fromkeys(names.split(), default)


SECTIONS: dict[str, dict[str, float | str]] = {
    "MDI_HEADER": _all("FILE_TYPE FILE_VERSION FILE_FORMAT", TEXT),
    "UNITS": _all("LENGTH FORCE ANGLE MASS TIME PRESSURE", TEXT),
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
        **_all("LGYR LCZ", UNUSED),  # LCZ multiplies VERTICAL_STIFFNESS when a file is read
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
        **_all("QTZ1 MBELT", IGNORED),
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

# of MF 5.2, which MF 6 has other terms for
_GONE = ("LGAX", "LGAY", "LGAZ", "LCZ", "LGYR", "PHY3", "QTZ1", "MBELT")


def _six() -> dict[str, dict[str, float | str]]:
    six = {
        section: {key: default for key, default in keys.items() if key not in _GONE}
        for section, keys in SECTIONS.items()
    }
    six["MODEL"] |= _all("ROAD_INCREMENT ROAD_DIRECTION USER_SUB_ID N_TIRE_STATES HMAX_LOCAL TIME_SWITCH_INTEG", UNUSED)
    six["OPERATING_CONDITIONS"] = {"INFLPRES": 0.0, "NOMPRES": 0.0}  # Pa; 0: as the other, and without both no effect
    six["INFLATION_PRESSURE_RANGE"] = {"PRESMIN": 0.0, "PRESMAX": 0.0}  # 0: any
    six["INERTIA"] = _all("MASS IXX IYY BELT_MASS BELT_IXX BELT_IYY GRAVITY", IGNORED)
    six["DIMENSION"] |= _all("WIDTH ASPECT_RATIO")
    six["VERTICAL"] |= {
        **_all("Q_V1 Q_V2 Q_FZ2 Q_FZ3 Q_FCX Q_FCY PFZ1 Q_FCY2 Q_CAM1 Q_CAM2 Q_CAM3 Q_FYS1 Q_FYS2 Q_FYS3"),
        **_all("Q_CAM MC_CONTOUR_A MC_CONTOUR_B BOTTOM_OFFST BOTTOM_STIFF", IGNORED),
        "Q_RE0": 1.0,
    }
    six["STRUCTURAL"] = {
        **_all("LONGITUDINAL_STIFFNESS LATERAL_STIFFNESS PCFX1 PCFX2 PCFX3 PCFY1 PCFY2 PCFY3"),
        **_all("YAW_STIFFNESS FREQ_LONG FREQ_LAT FREQ_YAW FREQ_WINDUP DAMP_LONG DAMP_LAT DAMP_YAW", IGNORED),
        **_all("DAMP_WINDUP DAMP_RESIDUAL DAMP_VLOW Q_BVX Q_BVT PCMZ1", IGNORED),
    }
    six["CONTACT_PATCH"] = {
        **_all("Q_RA1 Q_RA2 Q_RB1 Q_RB2 ELLIPS_SHIFT ELLIPS_LENGTH ELLIPS_HEIGHT ELLIPS_ORDER ENV_C1 ENV_C2", IGNORED),
        **_all("ELLIPS_MAX_STEP ELLIPS_NWIDTH ELLIPS_NLENGTH", UNUSED),
    }
    six["SCALING_COEFFICIENTS"] |= _all("LKYC LKZC", 1.0)
    six["LONGITUDINAL_COEFFICIENTS"] |= _all("PPX1 PPX2 PPX3 PPX4 RBX3")
    six["OVERTURNING_COEFFICIENTS"] |= _all("QSX4 QSX5 QSX6 QSX7 QSX8 QSX9 QSX10 QSX11 QSX12 QSX13 QSX14 PPMX1")
    six["LATERAL_COEFFICIENTS"] |= {
        **_all("PEY5 PKY5 PKY6 PKY7 PPY1 PPY2 PPY3 PPY4 PPY5 RBY4"),
        "PKY4": 2.0,
    }
    six["ROLLING_COEFFICIENTS"] |= _all("QSY5 QSY6 QSY7 QSY8")
    six["ALIGNING_COEFFICIENTS"] |= _all("QDZ10 QDZ11 PPZ1 PPZ2")
    return six


SECTIONS_6 = _six()


def _numbers(sections: dict[str, dict[str, float | str]]) -> dict[str, float | str]:
    return {key: default for keys in sections.values() for key, default in keys.items() if default not in NO_NUMBERS}


NUMBERS, NUMBERS_6 = _numbers(SECTIONS), _numbers(SECTIONS_6)

DERIVED = (
    "LOW_LOAD",  # N; coefficients are those of a load from here ...
    "HIGH_LOAD",  # N; ... to here
    "NOMINAL_LOAD",  # N; FNOMIN LFZO
    "PEAK_SLIP",  # slip of the peak at the nominal load, as a multiple of peak force / slip stiffness
    "MIRROR",  # +1 measured as a tyre of the left side, -1 of the right
    "TURN_SLIP",  # 1: the file asks for it
)
DERIVED_6 = (
    "Q_FZ1",  # stiffness of the tyre where it just touches, by R0 / FNOMIN
    "LOW_PRESSURE",  # Pa; coefficients are those of a pressure from here ...
    "HIGH_PRESSURE",  # Pa; ... to here
    "VERSION",  # 0: MF 5.2 or PAC2002; 61, 62
)

# those of MF 5.2 come first: what MF 6 adds moves none of them
T = places("T", (*NUMBERS, *DERIVED, *(key for key in NUMBERS_6 if key not in NUMBERS), *DERIVED_6))
