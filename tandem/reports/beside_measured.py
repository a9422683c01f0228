"""How far a machine's outputs are from what sensors measured: quantity by quantity, at the sensors' own instants.

The outputs of a step are those at its end; between two steps they are taken to change evenly. What is *explained* is
one minus the square of what is left over, through that of the measured signal about its mean: 1 is all of it, 0 is no
better than its mean, below 0 worse than that.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sync.record import Measured


def beside_measured(
    quantities: Mapping[str, Measured], ends_ns: np.ndarray, outputs: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """A row a quantity that is an output, too; `ends_ns`: when each step ended. None that overlaps in time: none."""
    rows = []
    for name, found in quantities.items():
        if name not in outputs or len(ends_ns) < 2:
            continue
        within = (found.t_ns >= ends_ns[0]) & (found.t_ns <= ends_ns[-1])
        values, t_ns = found.values[within], found.t_ns[within]
        left = np.interp(t_ns, ends_ns, np.asarray(outputs[name], np.float64)) - values
        if not len(left) or not np.isfinite(left).all():
            continue
        spread = float(np.mean((values - values.mean()) ** 2))
        square = float(np.mean(left**2))
        rows.append(
            {
                "channel": name, "unit": found.unit, "readings": len(left), "rms": square**0.5,
                "bias": float(left.mean()), "max": float(np.abs(left).max()), "measured_rms": spread**0.5,
                "explained": 1.0 - square / spread if spread > 0.0 else None,
            }
        )  # fmt: skip
    return rows


HEADINGS = ("channel", "unit", "readings", "signal, rms", "error, rms", "bias", "largest", "explained")


def rows_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of a table with these headings."""
    out = []
    for r in rows:
        numbers = [f"{r[key]:.4g}" for key in ("measured_rms", "rms", "bias", "max")]
        share = "constant" if r["explained"] is None else f"{r['explained']:.1%}"
        out.append([r["channel"], r["unit"], str(r["readings"]), *numbers, share])
    return out


def in_words(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence each."""
    return [
        f"{r['channel']}: {r['rms']:.4g} {r['unit']} rms from {r['readings']} readings (at most {r['max']:.4g},"
        f" on average {r['bias']:+.4g}); "
        + (f"{100 * r['explained']:.1f} % of them explained" if r["explained"] is not None else "they are constant")
        for r in rows
    ]
