"""What stands at the addresses in a machine's tables: for those who take its code elsewhere, where addresses differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.multibody.code.llvm import Compiled, Function


@dataclass(frozen=True)
class CodeParts:
    """A capability of a machine (sim_service/contract/machine.py)."""

    generated: Compiled
    write: Callable[[], Sequence[Function]]  # what it was compiled from
    names: tuple[str, ...]  # of its functions, the first addresses
    kernels: tuple[tuple[Any, Any], ...]  # with their signatures, the addresses behind these
    no_rates: str = ""  # why nobody but its own step can integrate it, if so
