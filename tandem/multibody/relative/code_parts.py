"""What stands at the addresses in a machine's tables: for those who take its code elsewhere, where addresses differ.

A machine is found by the function that makes its first state, which is its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from tandem.multibody.relative.llvm import Compiled


@dataclass(frozen=True)
class CodeParts:
    generated: Compiled
    names: tuple[str, ...]  # of its functions, the first addresses
    kernels: tuple[tuple[Any, Any], ...]  # with their signatures, the addresses behind these
    no_rates: str = ""  # why nobody but its own step can integrate it, if so


CODE_OF: WeakKeyDictionary[Callable[..., None], CodeParts] = WeakKeyDictionary()
