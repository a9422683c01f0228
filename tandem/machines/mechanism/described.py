"""What a machine remembers of the mechanism that it was made of, for those who look at its bodies."""

from dataclasses import dataclass

from tandem.multibody.natural.equations import Equations


@dataclass(frozen=True)
class OfMechanism:
    """A capability of a machine (sim_service/contract/machine.py)."""

    path: str
    mechanism: Equations
    freedoms: int
