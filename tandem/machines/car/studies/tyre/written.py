"""A property file from coefficients, of keys that the formats have: other programs read them, and compute the same."""

from collections.abc import Mapping, Sequence

from tandem.machines.car.tyres.keys import NEEDED, NO_NUMBERS, SECTIONS, SECTIONS_6

# what programs for MF 5.2 ask for by name; those for MF 6 go by FITTYP
_MODEL = {"5.2": ("MF-TYRE", "6"), "6.1": ("USER", "61")}
_HEAD = ["[MDI_HEADER]", "FILE_TYPE = 'tir'", "FILE_VERSION = 3.0", "FILE_FORMAT = 'ASCII'"]


def property_file(version: str, values: Mapping[str, float], comments: Sequence[str]) -> str:
    """Strictly readable; what is at its default is written too, for a reader to see."""
    lines = [f"$ {line}" for line in comments] + _HEAD
    form, fit = _MODEL[version]
    for section, keys in (SECTIONS_6 if version == "6.1" else SECTIONS).items():
        rows = [
            f"{key:<24} = {values.get(key, default):.10g}"
            for key, default in keys.items()
            if default not in NO_NUMBERS and (key in values or default is not NEEDED)
        ]
        if section == "UNITS":
            rows = ["LENGTH = 'meter'", "FORCE = 'newton'", "ANGLE = 'radians'", "MASS = 'kg'", "TIME = 'second'"]
        if section == "MODEL":
            rows = [
                f"PROPERTY_FILE_FORMAT = '{form}'", f"FITTYP = {fit}", "TYRESIDE = 'LEFT'", "USE_MODE = 14", *rows,
            ]  # fmt: skip
        if rows and section != "TANDEM":  # ours alone
            lines += [f"[{section}]", *rows]
    return "\n".join(lines) + "\n"
