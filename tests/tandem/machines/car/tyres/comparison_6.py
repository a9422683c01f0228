"""Kernels and publication of MF 6.1 and 6.2 side by side, over random states: for the tests and for `python -m verify
tyres`.

Loads from an eighth of the nominal one, so that neither the smallest sine nor the smallest relaxation length is met.
"""

from pathlib import Path

import numpy as np

from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.steady import heights, load_at, steady_6
from tandem.machines.car.tyres.tir import parse_tir, read_tir, tyre_vector
from tests.tandem.machines.car.tyres import published_6

FILES = Path(__file__).resolve().parents[4] / "data" / "real" / "tyres"
SCALE = {  # of the file's coefficients: none is left at 0 or 1, and none where the formula would be bounded
    "Q_FZ3": 0.4, "QSX12": 0.3, "QSX13": 0.02, "QSX14": 0.1, "QSY2": 0.01, "QSY5": 0.9, "QSY6": 0.5, "SSZ1": 0.02,
    "SSZ2": 0.01, "SSZ3": 0.3, "SSZ4": -0.2, "LFZO": 0.95, "LMUX": 0.9, "LMUY": 1.05, "LKYC": 0.93, "LKZC": 1.1,
    "LKX": 0.97, "LKY": 1.04, "LEX": 1.02, "LEY": 0.96, "LCX": 0.98, "LCY": 1.01, "LHX": 1.1, "LHY": 0.9, "LVX": 0.92,
    "LVY": 1.07, "LTR": 1.06, "LRES": 0.9, "LXAL": 1.08, "LYKA": 0.9, "LVYKA": 1.1, "LS": 0.9, "LMX": 1.03,
    "LVMX": 0.94, "LMY": 1.02, "LMP": 0.97, "PDXP2": 0.02, "PDXP3": 0.3, "PDYP2": -0.03, "PDYP3": 0.2, "PDYP4": 0.04,
    "PHYP3": 0.01, "PECP2": 0.03, "QDRP1": 1.03, "QDZ9": 0.1,
}  # fmt: skip


def tyre(version: int, every: bool = False):  # type: ignore[no-untyped-def]
    """A published file; `every`: with every coefficient at work."""
    path = FILES / f"MagicFormula{version}_Parameters.tir"
    if not every:
        return read_tir(path)
    lines, left = [], dict(SCALE)
    for line in path.read_text().splitlines():
        key = line.split("=")[0].strip()
        lines.append(f"{key} = {left.pop(key)}" if key in left else line)
    text = "\n".join(lines)
    text = text.replace("[VERTICAL]\n", f"[VERTICAL]\nQ_FZ3 = {left.pop('Q_FZ3')}\n")
    assert not left, left
    return parse_tir(text, f"every coefficient of {version}")


def states(tir, count: int, seed: int, heaviest: float = 1.9):  # type: ignore[no-untyped-def]
    p, rng = tyre_vector(tir), np.random.default_rng(seed)
    nominal = tir["FNOMIN"] * tir["LFZO"]
    return {
        "Fz": rng.uniform(0.125, heaviest, count) * nominal,
        "kappa": rng.uniform(-0.5, 0.5, count),
        "alpha_star": np.tan(rng.uniform(-0.35, 0.35, count)),
        "gamma": rng.uniform(p[T.CAMMIN], p[T.CAMMAX], count) * tir.side,
        "signed": np.where(rng.random(count) < 0.2, -1.0, 1.0),
        "speed": rng.uniform(1.0, 40.0, count),
        "p": rng.uniform(p[T.LOW_PRESSURE], p[T.HIGH_PRESSURE], count),
    }


def worst(tir, count: int, turning: bool, seed: int = 1) -> float:  # type: ignore[no-untyped-def]
    """The largest difference of forces and moments, as a share of the load (moments: at a third of a metre)."""
    # QDZ8 + QDZ9 dfz is below 0, or spin would not be resisted
    heaviest = min(1.9, 0.98 - tir["QDZ8"] / tir["QDZ9"]) if turning else 1.9
    p, given, side = tyre_vector(tir), states(tir, count, seed, heaviest), tir.side
    phi = np.random.default_rng(seed + 1).normal(0.0, 1.0, count)
    seen = {**given, "alpha_star": side * given["alpha_star"], "gamma": side * given["gamma"]}
    expected = published_6.published_6(tir, *seen.values(), phi_t=side * phi if turning else None)
    expected[[1, 2, 4]] *= side
    columns = np.stack([given["Fz"], given["kappa"], given["alpha_star"], given["gamma"]], axis=1).tolist()
    speeds, pressures = (given["signed"] * given["speed"]).tolist(), given["p"].tolist()
    found = np.array(
        [
            steady_6(p, *state, 1.0, 1.0, u, turning, spin, at)
            for state, u, spin, at in zip(columns, speeds, phi.tolist(), pressures, strict=True)
        ]
    ).T
    scales = np.array([[1.0], [1.0], [0.3], [0.3], [0.3]]) * given["Fz"]
    return float(np.abs((found - expected) / scales).max())


def worst_height(tir, count: int, seed: int = 3) -> tuple[float, float, float]:  # type: ignore[no-untyped-def]
    """The same of the load at a radius (of the nominal one), of the radius at a load (of the free one), and of the
    rolling radius."""
    p, given, rng = tyre_vector(tir), states(tir, count, seed), np.random.default_rng(seed)
    R0, nominal = tir["UNLOADED_RADIUS"], tir["FNOMIN"]
    version = 61 if tir.version == "MF 6.1" else 62
    radius, omega = rng.uniform(0.92, 0.99, count) * R0, rng.uniform(-100.0, 100.0, count)
    Fx, Fy = rng.uniform(-0.4, 0.4, (2, count)) * nominal
    gamma, at = given["gamma"], given["p"]
    load, rolling, effects = published_6.height(tir, version, radius, omega, gamma, Fx, Fy, at)
    good = (effects > 0.1) & (load > 0.0)  # the rest is bounded
    assert good.mean() > 0.99
    rows = np.stack([radius, omega, gamma, Fx, Fy, at], axis=1)[good].tolist()
    loads = np.array([load_at(p, *row) for row in rows])
    back = np.array([heights(p, wanted, *row[1:]) for wanted, row in zip(load[good].tolist(), rows, strict=True)])
    return (
        float(np.abs(loads - load[good]).max()) / nominal,
        float(np.abs(back[:, 1] - radius[good]).max()) / R0,
        float(np.abs(back[:, 2] - rolling[good]).max()) / R0,
    )
