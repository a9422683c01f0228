"""A property file from coefficients."""

from collections.abc import Mapping, Sequence

from tandem.machines.car.tyres.keys import NEEDED, SECTIONS, SECTIONS_6, TEXT, UNUSED

FITTYP = {"5.2": "52", "6.1": "61"}


def property_file(version: str, values: Mapping[str, float], comments: Sequence[str]) -> str:
    """Strictly readable; what is at its default is written too, for a reader to see."""
    lines = [f"$ {line}" for line in comments]
    for section, keys in (SECTIONS_6 if version == "6.1" else SECTIONS).items():
        rows = [
            f"{key:<24} = {values.get(key, default):.10g}"
            for key, default in keys.items()
            if default not in (TEXT, UNUSED) and (key in values or default is not NEEDED)
        ]
        if section == "UNITS":
            rows = ["LENGTH = 'meter'", "FORCE = 'newton'", "ANGLE = 'radians'", "MASS = 'kg'", "TIME = 'second'"]
        if section == "MODEL":
            rows = [f"FITTYP = {FITTYP[version]}", "TYRESIDE = 'LEFT'", "USE_MODE = 14", *rows]
        if rows:
            lines += [f"[{section}]", *rows]
    return "\n".join(lines) + "\n"
