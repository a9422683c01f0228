"""What a tyre does, by its file: key figures at three loads; and how far it is from rows, by load, pressure, camber."""

import itertools
from typing import Any

import numpy as np

from tandem.machines.car.studies.tyre.fit import forces, left, opened
from tandem.machines.car.studies.tyre.rows import Rows
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.many import FX, FY, MX, MZ
from tandem.machines.car.tyres.steady import capacity, effective_radius, relaxation
from tandem.machines.car.tyres.tir import Tir, tyre_vector

_COLUMNS = {"fy": FY, "fx": FX, "mz": MZ, "mx": MX}
_STRAIGHT = 0.02  # of slip: what is more is combined slip
BINS = 4


def key_figures(tir: Tir) -> dict[str, Any]:
    """Without those of the wheel's height where the file has no stiffness."""
    p = tyre_vector(tir, lacking=True)
    rows = []
    for share in (0.5, 1.0, 1.5):
        load = float(np.clip(share * p[T.NOMINAL_LOAD], p[T.LOW_LOAD], p[T.HIGH_LOAD]))
        Dx, Dy, Kx, Ky = capacity(p, load, 0.0, 1.0)
        row: dict[str, float | None] = {
            "load": load, "friction_x": Dx / load, "friction_y": Dy / load, "stiffness_x": Kx / load,
            "stiffness_y": -Ky / load, "radius": None, "relaxation_x": None, "relaxation_y": None,
        }  # fmt: skip
        row["relaxation_x"], row["relaxation_y"] = relaxation(p, load, 0.0)
        if not tir.lacks:
            row["radius"] = effective_radius(p, load)
        rows.append(row)
    return {
        "name": tir.name, "version": tir.version, "side": "left" if tir.side > 0.0 else "right",
        "pressure": tir.values.get("INFLPRES") or None, "remarks": list(tir.remarks), "lacks": list(tir.lacks),
        "at": rows,
    }  # fmt: skip


def against(tir: Tir, rows: Rows) -> dict[str, Any]:
    """Share of the rms that is left, of every force and moment the rows have, whole and by bins."""
    p = opened(tyre_vector(tir, lacking=True), rows)
    found = forces(p, rows)
    result: dict[str, Any] = {}
    for name, place in _COLUMNS.items():
        if name not in rows.columns:
            continue
        measured, by = rows.columns[name], found[:, place]
        if name == "fx" and float(np.abs(rows.get("kappa", 0.0)).max()) < _STRAIGHT:
            continue  # rolling resistance alone
        result[name] = {"left": left(by, measured), "bins": {}}
        for of in ("fz", "pressure", "camber"):
            if of in rows.columns and np.ptp(rows.columns[of]) > 0.0:
                result[name]["bins"][of] = _by(rows.columns[of], by, measured)
    return result


def _by(values: np.ndarray, found: np.ndarray, measured: np.ndarray) -> list[dict[str, float]]:
    edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)))
    bins = []
    for low, high in itertools.pairwise(edges):
        which = (values >= low) & ((values < high) | (high == edges[-1]))
        if which.any():
            rms = float(np.sqrt(np.mean((found - measured)[which] ** 2)))
            share = left(found[which], measured[which])
            bins.append({"from": float(low), "to": float(high), "rms": rms, "left": share, "rows": int(which.sum())})
    return bins
