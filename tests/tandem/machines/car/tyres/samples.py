"""Tyres for the tests: the one that ships, and one with every coefficient at work."""

from pathlib import Path

from tandem.machines.car.tyres.keys import NEEDED, SECTIONS

SHIPPED = Path(__file__).resolve().parents[5] / "configs" / "tyres" / "155_80_r13.tir"

# nothing is zero and nothing is one, so that a term that is lost or doubled shows
FULL = {
    **{"UNLOADED_RADIUS": 0.31, "FNOMIN": 3800.0, "VERTICAL_STIFFNESS": 190e3, "VERTICAL_DAMPING": 120.0},
    **{"BREFF": 8.4, "DREFF": 0.27, "FREFF": 0.07, "LONGVL": 16.6, "CAMMIN": -0.25, "CAMMAX": 0.25},
    **{"FZMIN": 300.0, "FZMAX": 9000.0, "LFZO": 0.93},
    **{"LCX": 1.02, "LMUX": 0.96, "LEX": 1.05, "LKX": 0.97, "LHX": 1.1, "LVX": 0.9, "LGAX": 1.15},
    **{"LCY": 0.98, "LMUY": 1.03, "LEY": 0.95, "LKY": 1.04, "LHY": 0.92, "LVY": 1.08, "LGAY": 0.94},
    **{"LTR": 1.06, "LRES": 0.91, "LGAZ": 1.07, "LXAL": 1.09, "LYKA": 0.89, "LVYKA": 1.12, "LS": 0.88},
    **{"LSGKP": 1.03, "LSGAL": 0.97, "LMX": 1.04, "LVMX": 0.93, "LMY": 1.01},
    **{"PCX1": 1.61, "PDX1": 1.12, "PDX2": -0.11, "PDX3": 0.9, "PEX1": 0.42, "PEX2": 0.21, "PEX3": 0.06},
    **{"PEX4": 0.05, "PKX1": 21.9, "PKX2": 0.4, "PKX3": 0.19, "PHX1": 0.0012, "PHX2": 0.0004},
    **{"PVX1": 0.0009, "PVX2": 0.0011, "RBX1": 12.3, "RBX2": -9.9, "RCX1": 1.07, "REX1": -0.4, "REX2": 0.12},
    **{"RHX1": 0.006, "PTX1": 0.9, "PTX2": 0.07, "PTX3": 0.11},
    **{"QSX1": 0.002, "QSX2": 0.35, "QSX3": 0.06},
    **{"PCY1": 1.33, "PDY1": 1.01, "PDY2": -0.14, "PDY3": 2.3, "PEY1": -0.7, "PEY2": -0.3, "PEY3": 0.1},
    **{"PEY4": -1.9, "PKY1": -18.4, "PKY2": 1.75, "PKY3": 0.4, "PHY1": 0.0021, "PHY2": 0.0006, "PHY3": 0.03},
    **{"PVY1": 0.018, "PVY2": -0.009, "PVY3": -0.31, "PVY4": -0.2, "RBY1": 7.1, "RBY2": 8.8, "RBY3": -0.02},
    **{"RCY1": 1.05, "REY1": 0.2, "REY2": -0.1, "RHY1": 0.01, "RHY2": 0.004, "RVY1": 0.05, "RVY2": -0.03},
    **{"RVY3": -0.3, "RVY4": 10.2, "RVY5": 1.8, "RVY6": -11.0, "PTY1": 2.0, "PTY2": 2.1},
    **{"QSY1": 0.011, "QSY2": 0.007, "QSY3": 0.0012, "QSY4": 0.0003},
    **{"QBZ1": 10.1, "QBZ2": -1.7, "QBZ3": -0.5, "QBZ4": 0.21, "QBZ5": -0.35, "QBZ9": 7.5, "QBZ10": 0.2},
    **{"QCZ1": 1.19, "QDZ1": 0.094, "QDZ2": -0.009, "QDZ3": -0.06, "QDZ4": 0.7, "QDZ6": -0.005, "QDZ7": 0.004},
    **{"QDZ8": -0.17, "QDZ9": 0.03, "QEZ1": -1.5, "QEZ2": 0.31, "QEZ3": 0.12, "QEZ4": 0.24, "QEZ5": -2.2},
    **{"QHZ1": 0.0044, "QHZ2": 0.0022, "QHZ3": 0.11, "QHZ4": 0.05, "SSZ1": 0.02, "SSZ2": 0.008},
    **{"SSZ3": 0.3, "SSZ4": -0.2, "FRICTION_ELLIPSE": 0.0},
    **{"PDXP1": 0.41, "PDXP2": 0.02, "PDXP3": 0.3, "PDYP1": 0.38, "PDYP2": -0.03, "PDYP3": 0.2, "PDYP4": 0.04},
    **{"PKYP1": 0.97, "PHYP1": 1.02, "PHYP2": 0.16, "PHYP3": 0.01, "PHYP4": -3.7, "PECP1": 0.52, "PECP2": 0.03},
    **{"QDTP1": 9.7, "QCRP1": 0.19, "QCRP2": 0.11, "QBRP1": 0.12, "QDRP1": 1.03, "LMP": 0.98},
}

# weighting functions so wide that combined forces go beyond both peaks, and of a shape above 1 that turns them round
WIDE = FULL | {"RBX1": 4.1, "RBX2": 3.3, "RCX1": 1.25, "RBY1": 3.9, "RBY2": 3.1, "RCY1": 1.2, "PEX4": -0.2}


def written(values: dict[str, float], side: str = "LEFT", mode: str = "") -> str:
    """A property file with these values; what is not named is left out."""
    lines = []
    for section, keys in SECTIONS.items():
        lines.append(f"[{section}]")
        if section == "MODEL":
            lines += ["PROPERTY_FILE_FORMAT = 'PAC2002'", f"TYRESIDE = '{side}'", *[f"USE_MODE = {mode}"] * bool(mode)]
        lines += [f"{key} = {values[key]!r}  $ a comment" for key in keys if key in values]
    return "\n".join(lines)


LEAST = {key: FULL[key] for keys in SECTIONS.values() for key, default in keys.items() if default is NEEDED}
