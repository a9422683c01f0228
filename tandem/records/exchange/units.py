"""Units of measured columns: what they measure, and how many of the dimension's own unit they are.

Two units can be converted if they measure the same. `count` is a dimension of its own: what a count means is set by
the configuration's calibration, not by a factor.
"""

import math
from dataclasses import dataclass

from sync.errors import near_names


@dataclass(frozen=True)
class Unit:
    symbol: str
    dimension: str
    factor: float  # in the dimension's SI unit


_TABLE = {
    "count": {"count": 1.0},
    "angle": {"rad": 1.0, "mrad": 1e-3, "deg": math.pi / 180, "rev": 2 * math.pi},
    "angular speed": {"rad/s": 1.0, "deg/s": math.pi / 180, "rpm": math.pi / 30},
    "angular acceleration": {"rad/s2": 1.0, "deg/s2": math.pi / 180},
    "ratio": {"1": 1.0, "%": 0.01},
    "pressure": {"Pa": 1.0, "hPa": 1e2, "kPa": 1e3, "MPa": 1e6, "mbar": 1e2, "bar": 1e5, "psi": 6894.757293168361},
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
    "length": {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "km": 1e3},
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704},
    "acceleration": {"m/s2": 1.0, "g": 9.80665},
    "force": {"N": 1.0, "kN": 1e3},
    "torque": {"N m": 1.0},
    "voltage": {"V": 1.0, "mV": 1e-3},
    "current": {"A": 1.0, "mA": 1e-3},
    "energy": {"J": 1.0, "kJ": 1e3},
    "power": {"W": 1.0, "kW": 1e3},
    "frequency": {"Hz": 1.0, "kHz": 1e3},
    "mass": {"kg": 1.0},
    "temperature": {"degC": 1.0},
}
_KNOWN = {symbol: Unit(symbol, what, factor) for what, row in _TABLE.items() for symbol, factor in row.items()}
_ALIASES = {
    "counts": "count", "°": "deg", "degree": "deg", "degrees": "deg", "°/s": "deg/s", "1/min": "rpm", "pct": "%",
    "percent": "%", "-": "1", "sec": "s", "µs": "us", "μs": "us", "kph": "km/h", "kmh": "km/h", "m/s^2": "m/s2",
    "m/s²": "m/s2", "Nm": "N m", "N*m": "N m", "U/min": "rpm", "N-m": "N m", "deg C": "degC",
    "°C": "degC", "none": "1", "m/s/s": "m/s2", "m/s**2": "m/s2", "rad/s^2": "rad/s2", "rad/s²": "rad/s2",
}  # fmt: skip


def unit(text: str) -> Unit | None:
    """The unit of that symbol, as people write it; None if it is not known."""
    text = text.strip()
    return _KNOWN.get(_ALIASES.get(text, text))


def si(dimension: str) -> str:
    """The unit of a dimension that its others are counted in."""
    return next(symbol for symbol, factor in _TABLE[dimension].items() if factor == 1.0)


def known(dimension: str) -> str:
    return ", ".join(_TABLE[dimension])


def suggestion(text: str) -> str:
    """What could be right instead of a unit that is not known."""
    near = near_names(text, [*_KNOWN, *_ALIASES], 1, 0.5) or [s for s in _KNOWN if s.lower() == text.lower()]
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(_KNOWN)}"
