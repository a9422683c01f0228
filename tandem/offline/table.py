"""Columns with units: what a model made or a record holds, as numpy arrays, or as a frame of pandas."""

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sync.config.extras import install
from sync.errors import TandemError


@dataclass(frozen=True)
class Table(Mapping[str, np.ndarray]):
    """A mapping from names to columns of equal length."""

    columns: dict[str, np.ndarray]
    units: dict[str, str]
    texts: dict[str, str] = field(default_factory=dict)  # what each column means, where that is known

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self.columns[name]
        except KeyError:
            import difflib

            near = difflib.get_close_matches(name, self.columns, 3) or list(self.columns)[:12]
            raise KeyError(f"{name}: no such column; there are {', '.join(near)} …") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """How many columns; `rows` says how long they are."""
        return len(self.columns)

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def frame(self, index: str | None = None) -> Any:
        """A pandas.DataFrame, units and descriptions in its `attrs`; `index` names the column that becomes its index.

        Raises TandemError where pandas is not installed; the arrays are there all the same.
        """
        if importlib.util.find_spec("pandas") is None:
            raise TandemError(f"pandas is not installed: {install('pandas')}")
        import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]

        made = pd.DataFrame(self.columns)
        if index is not None:
            made.index = pd.Index(self[index], name=index)
            made = made.drop(columns=index)
        made.attrs["units"], made.attrs["descriptions"] = dict(self.units), dict(self.texts)
        return made
