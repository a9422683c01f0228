"""Columns with units: what a model made or a record holds, as numpy arrays, as a frame of pandas, or as a picture."""

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sync.config.extras import install
from sync.errors import ConfigError, TandemError, UnknownName
from tandem.offline.shown import columns_text, html_columns, names
from tandem.reports.panels import Panel, Plot

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]

Column = NDArray[np.floating | np.integer]
_TIMES = ("t", "t_ns")  # columns over which others are drawn, in s and in ns


@dataclass(frozen=True, repr=False)
class Table(Mapping[str, Column]):
    """A mapping from names to columns of equal length, with units, and what each means where that is known.

    >>> table = tandem.load_machine("mass_spring").run({"handle": 0.05}, steps=100)
    >>> table.rows, table.units["position"], round(float(table["position"][-1]), 3)
    (100, 'm', 0.067)
    """

    columns: dict[str, Column]
    units: dict[str, str]
    texts: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise UnknownName.among(self.columns, name, "column")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """How many columns; `rows` says how long they are."""
        return len(self.columns)

    @property
    def rows(self) -> int:
        """How long the columns are."""
        return len(next(iter(self.columns.values()), ()))

    def frame(self, index: str | None = None) -> "pd.DataFrame":
        """A pandas.DataFrame, units and descriptions in its `attrs`; `index` names the column that becomes its index.

        Raises TandemError where pandas is not installed; the arrays are there all the same.

        >>> table = tandem.load_machine("mass_spring").run({"handle": 0.05}, steps=100)
        >>> table.frame("t").attrs["units"]["position"]
        'm'
        """
        if importlib.util.find_spec("pandas") is None:
            raise TandemError(f"pandas is not installed: {install('pandas')}")
        import pandas as pd

        frame = pd.DataFrame(self.columns)
        if index is not None:
            frame.index = pd.Index(self[index], name=index)
            frame = frame.drop(columns=index)
        frame.attrs["units"], frame.attrs["descriptions"] = dict(self.units), dict(self.texts)
        return frame

    def plot(self, *columns: str) -> Plot:
        """These columns over time, a picture each; all but time without names. A notebook shows it, `save` writes it.

        >>> table = tandem.load_machine("mass_spring").run({"handle": 0.05}, steps=100)
        >>> table.plot("position", "hand_force")
        <tandem.Plot of position, hand_force: 100 points>
        """
        time = next((name for name in _TIMES if name in self.columns), None)
        if time is None:
            raise ConfigError(f"a table without a column {' or '.join(_TIMES)} has no time to draw over")
        seconds = np.asarray(self.columns[time], np.float64)
        if time == "t_ns" and self.rows:
            seconds = (np.asarray(self.columns[time]) - self.columns[time][0]) * 1e-9
        panels = []
        for name in columns or (name for name in self.columns if name not in _TIMES):
            values = np.asarray(self[name], np.float64)
            panels.append(Panel(name, self.units.get(name, ""), [(name, seconds, values)]))
        return Plot("", panels)

    def __repr__(self) -> str:
        lines, shown = columns_text(self.columns, self.units)
        left = [names("besides", list(self.columns)[shown:])] if shown < len(self) else []
        return "\n".join([f"<tandem.Table: {self.rows} rows, {len(self)} columns>", *lines, *left])

    def _repr_html_(self) -> str:
        return html_columns(self.columns, self.units, f"{self.rows} rows, {len(self)} columns")
