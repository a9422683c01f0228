"""Numbers of a tyre property file that no tyre has.

Tolerantly, a range of loads in which a tyre would lose its grip is made as narrow as its coefficients bear, with a
remark; all else is refused, as it is strictly.
"""

from collections.abc import Callable, Mapping

from tandem.machines.car.tyres.keys import NUMBERS

TINY = 1e-12  # a number that small, and not 0, is a slip of the pen or an attempt at overflow
LEAST_LOAD = 0.02  # of the nominal one; coefficients are not asked for less, forces fall to zero with the load
_PEAKS = ("PDX1", "PDX2", "friction"), ("PDY1", "PDY2", "friction"), ("PKX1", "PKX2", "grip")
_LEAST_SHARE = 0.02  # of the nominal friction or stiffness, at any load


def loads(v: Mapping[str, float]) -> tuple[float, float]:
    """Coefficients are those of a load from here to there."""
    nominal = v["FNOMIN"] * v["LFZO"]
    return max(v["FZMIN"], LEAST_LOAD * nominal), v["FZMAX"] or 2.0 * nominal


def sense(
    v: dict[str, float], lines: Mapping[str, int], name: str, turn_slip: bool, remarks: list[str] | None
) -> list[str]:
    """Findings; tolerantly, some are mended, with a remark. Coefficients of a turn slip that nothing asks for are put
    right without a word."""
    findings: list[str] = []
    if remarks is not None and v.get("Q_RE0") == 0.0:
        v["Q_RE0"] = 1.0
        remarks.append(f"{name}: Q_RE0 = 0: taken as 1; a tyre has a radius")

    def must(right: bool, key: str, what: str) -> None:
        where = f"{name}:{lines[key]}" if key in lines else name
        if not right:
            findings.append(f"{where}: {key} = {v[key]:g}: {what}")

    def of_spin(right: bool, key: str, what: str) -> None:
        """Judged where the file asks for turn slip; else the default, for a car may ask for it, too."""
        if turn_slip:
            must(right, key, what)
        elif not right:
            v[key] = float(NUMBERS[key])

    for key in ("FNOMIN", "LFZO", "UNLOADED_RADIUS", "VERTICAL_STIFFNESS", "LONGVL", "PKY2", "PTY2"):
        must(v[key] > 0.0, key, "must be above 0")
    for key in ("PCX1", "PCY1", "PDX1", "PDY1", "LMUX", "LMUY", "PKX1", "LKX", "LKY", "LCX", "LCY"):
        must(v[key] > 0.0, key, "must be above 0, or the tyre pushes instead of resisting")
    for key in ("VERTICAL_DAMPING", "FZMIN", "LSGKP", "LSGAL", "PTX1", "PTY1", "RCX1", "RCY1", "LXAL", "LYKA"):
        must(v[key] >= 0.0, key, "must not be below 0")
    for key in ("PDXP1", "PDYP1", "PKYP1", "PDYP4", "QDTP1", "QBRP1", "QCRP2"):
        of_spin(v[key] >= 0.0, key, "must not be below 0: spin weakens a tyre")
    for key in ("PHYP1", "PHYP2", "QCRP1", "LMP"):
        of_spin(v[key] > 0.0, key, "must be above 0")
    of_spin(0.0 < v["QDRP1"] < 2.0, "QDRP1", "must be between 0 and 2")
    of_spin(v["PECP1"] < 1.0, "PECP1", "must be below 1")
    of_spin(v["PHYP4"] <= 1.0, "PHYP4", "must be at most 1")
    must(v["FRICTION_ELLIPSE"] in (0.0, 1.0), "FRICTION_ELLIPSE", "must be 0 or 1")
    must(v["PKY1"] < 0.0, "PKY1", "must be below 0: slip to the left is resisted to the right in ISO axes")
    must(v["PCX1"] * v["LCX"] < 2.0, "PCX1", "times LCX must be below 2, or sliding pushes")
    must(v["PCY1"] * v["LCY"] < 2.0, "PCY1", "times LCY must be below 2, or sliding pushes")
    must(-1.0 <= v["CAMMIN"] <= 0.0, "CAMMIN", "must be between -1 and 0 rad")
    must(0.0 <= v["CAMMAX"] <= 1.0, "CAMMAX", "must be between 0 and 1 rad")
    for key, value in v.items():
        must(value == 0.0 or abs(value) > TINY, key, f"must be 0 or above {TINY:g}")
    if findings:
        return findings
    if remarks is not None:
        _narrow(v, name, remarks)
    low, high = loads(v)
    nominal = v["FNOMIN"] * v["LFZO"]
    must(high > low, "FZMAX", f"must be above {low:g} N")
    for load in (low, high):
        df = load / nominal - 1.0
        text = f"with turn slip QDZ8 + QDZ9 dfz must be below 0 at {load:g} N, or the moment of spin pushes"
        must(not turn_slip or v["QDZ8"] + v["QDZ9"] * df < 0.0, "QDZ8", text)
        shift = v["PHYP2"] + v["PHYP3"] * df
        of_spin(shift > 0.0, "PHYP3", f"makes PHYP2 + PHYP3 dfz {shift:.3g} at {load:g} N; it must stay above 0")
        for base, slope, what in _PEAKS:
            least = v[base] + v[slope] * df
            text = f"makes {what} {least:.3g} at {load:g} N; it must stay above 0 from FZMIN to FZMAX"
            must(least > _LEAST_SHARE * v[base], slope, text)
        for key in ("PKX3", "PTX3"):
            must(abs(v[key] * df) < 20.0, key, f"is out of bounds at {load:g} N")
    if "NOMPRES" in v:
        _sense_of_six(v, must)
    return findings


def _sense_of_six(v: Mapping[str, float], must: Callable[[bool, str, str], None]) -> None:
    for key in ("INFLPRES", "NOMPRES", "PRESMIN", "PRESMAX", "WIDTH", "LONGITUDINAL_STIFFNESS", "LATERAL_STIFFNESS"):
        must(v[key] >= 0.0, key, "must not be below 0")
    for key in ("PKY4", "Q_RE0"):
        must(v[key] > 0.0, key, "must be above 0")
    must(not v["PRESMAX"] or v["PRESMAX"] > v["PRESMIN"], "PRESMAX", "must be above PRESMIN")


def _narrow(v: dict[str, float], name: str, remarks: list[str]) -> None:
    """FZMIN and FZMAX to where peaks and stiffness stay above their least share."""
    low, high = loads(v)
    nominal = v["FNOMIN"] * v["LFZO"]
    for base, slope, what in _PEAKS:
        if v[slope] != 0.0:
            edge = nominal * (1.0 - (1.0 - 1.5 * _LEAST_SHARE) * v[base] / v[slope])  # beyond it there is too little
            if v[slope] < 0.0 and low < edge < high:
                remarks.append(f"{name}: FZMAX = {high:g} N: taken as {edge:.6g} N; {slope} leaves no {what} above it")
                v["FZMAX"] = high = edge
            elif v[slope] > 0.0 and low < edge < high:
                remarks.append(f"{name}: FZMIN = {low:g} N: taken as {edge:.6g} N; {slope} leaves no {what} below it")
                v["FZMIN"] = low = edge
