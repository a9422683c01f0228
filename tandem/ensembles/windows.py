"""Windows of records: spans of time that a machine is run over from a measured start, to be fitted or to be judged.

A record is a table (`t` in s, columns) or a recorded run (its steps, and what else was measured). Its windows begin
where the study says; within a span a new one begins every `seconds`. A window that a gap of the data lies in is left
out, and counted.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from sim_service.contract.machine import Machine
from sync.config.toml import Section
from sync.errors import ConfigError
from sync.record import open_run
from sync.record.measured import is_measured
from tandem.ensembles.columns import read_columns
from tandem.ensembles.open_loop import unset_inputs
from tandem.ensembles.recorded_inputs import input_rows, run_of_steps, step_of

TIME = "t"
_GAP = 3.5  # times the usual spacing of samples
_ROUNDED = 1e-3  # of the spacing of samples: so far beyond them is not beyond
_MOST_WINDOWS = 100_000

Span = Annotated[list[float], Field(min_length=2, max_length=2)]


class Column(Section):
    """A channel of the data in another unit."""

    channel: str
    scale: float = 1.0
    offset: float = 0.0


Source = str | float | Column


class Measured(Section):
    """An output of the machine that was measured."""

    channel: str | None = None  # its name in the data; that of the output if not given
    topic: str | None = None  # of a recorded run; None: what was measured, or else /step
    scale: float = 1.0  # of the measurement, to the unit of the output
    offset: float = 0.0
    sigma: float | None = Field(None, gt=0)  # of its noise; None: found from what is left over
    # of `tandem validate`: how far the machine may be from it, in the unit of the output, and as a share of it
    tolerance: float = Field(0.0, ge=0)
    tolerance_share: float = Field(0.0, ge=0, le=1)


class Windows(Section):
    """In seconds on the clock of the records: a table's `t`, or since the first step of a run."""

    seconds: float | None = Field(None, gt=0)  # after which a window ends and the next begins; None: a span is one
    fitted: list[Span] = []  # spans that parameters are found from; none: everything that is not unused
    unused: list[Span] = []  # spans that judge them
    unused_records: list[str] = []  # the same of whole records

    @model_validator(mode="after")
    def _rising(self) -> Self:
        for name in ("fitted", "unused"):
            for k, (begin, end) in enumerate(getattr(self, name)):
                if not begin < end:
                    raise ValueError(f"{name}[{k}] = [{begin:g}, {end:g}]: must be [from, to] with from < to")
        for a, b in self.fitted:
            for c, d in self.unused:
                if max(a, c) < min(b, d):
                    raise ValueError(
                        f"fitted [{a:g}, {b:g}] and unused [{c:g}, {d:g}] overlap; what was fitted judges nothing"
                    )
        return self


@dataclass(frozen=True)
class Sources:
    """Where inputs, outputs and starts are found in the data."""

    inputs: dict[str, Source]  # of inputs: a channel, or a number
    measured: dict[str, Measured]
    start: dict[str, Source]

    def columns(self) -> dict[str, tuple[str, str | None]]:
        """By the keys of a study: channels, and their topic if it is given."""
        found = {f"measured.{n}": (each.channel or n, each.topic) for n, each in self.measured.items()}
        for key, sources in (("inputs", self.inputs), ("start", self.start)):
            found |= {f"{key}.{n}": (x.channel, None) for n, s in sources.items() if (x := as_column(s)) is not None}
        return found


def as_column(source: Source) -> Column | None:
    """None of a number."""
    return Column(channel=source) if isinstance(source, str) else source if isinstance(source, Column) else None


@dataclass(frozen=True)
class Window:
    record: str
    begin: float  # s
    end: float
    fitted: bool
    rows: np.ndarray  # inputs, a row a step
    measured: dict[str, np.ndarray]  # a value a step, at its end
    start: dict[str, float]

    def __str__(self) -> str:
        return f"{self.record}, {self.begin:g} to {self.end:g} s"


class Recording(Protocol):
    """A record as windows are cut from it. Values of channels are NaN outside of it, and in a gap."""

    path: Path
    machine: Machine
    first: float
    last: float

    def begins(self, begin: float, count: int) -> np.ndarray: ...
    def rows(self, begins: np.ndarray) -> np.ndarray: ...
    def at(self, channel: str, topic: str | None, instants: np.ndarray, begins: bool = False) -> np.ndarray: ...


class Table:
    """Columns of a file; steps begin where a window does."""

    def __init__(self, path: Path, machine: Machine, sources: Sources, step_s: float):
        self.path, self.machine, self.sources, self.step_s = path, machine, sources, step_s
        self.columns = read_columns(path)
        there = ", ".join(self.columns)
        wanted = [channel for channel, _ in sources.columns().values()]
        for column in (TIME, *wanted):
            if column not in self.columns:
                raise ConfigError(f"{path}: no column {column}; there are {there}")
        t = self.columns[TIME]
        if len(t) < 2 or not (np.diff(t) > 0).all():
            raise ConfigError(f"{path}: column {TIME} must rise, in seconds")
        given = {*self.columns, *sources.inputs}
        missing = [q.name for q in machine.inputs if q.name not in given and not q.optional]
        if missing:
            raise ConfigError(
                f"{path}: no column {', '.join(missing)}, which {machine.name} needs; a column of 0 is one, and so is"
                f" [inputs] {missing[0]} = 0.0 in the study"
            )
        named = (q.name for q in machine.inputs if q.name in self.columns and q.name not in sources.inputs)
        for column in dict.fromkeys((TIME, *wanted, *named)):
            if not np.isfinite(self.columns[column]).all():
                bad = int(np.flatnonzero(~np.isfinite(self.columns[column]))[0])
                raise ConfigError(
                    f"{path}: column {column}, row {bad + 1}: {self.columns[column][bad]}, not a finite number"
                )
        self.t, self.first, self.last = t, float(t[0]), float(t[-1])
        spacing = np.diff(t)
        self._behind_gap = np.concatenate([[False], spacing > _GAP * np.median(spacing)])

    def begins(self, begin: float, count: int) -> np.ndarray:
        return begin + self.step_s * np.arange(count)

    def rows(self, begins: np.ndarray) -> np.ndarray:
        rows = unset_inputs(self.machine, len(begins))
        for k, quantity in enumerate(self.machine.inputs):
            source = self.sources.inputs.get(quantity.name, quantity.name)
            if isinstance(source, float):
                rows[:, k] = source
            elif source != quantity.name or source in self.columns:
                rows[:, k] = _read(self, source, begins)
        return rows

    def at(self, channel: str, topic: str | None, instants: np.ndarray, begins: bool = False) -> np.ndarray:
        return _between(self.t, self.columns[channel], self._behind_gap, instants)


class Steps:
    """A recorded run: its steps, the inputs they used, and what else was measured."""

    def __init__(self, path: Path, machine: Machine, sources: Sources, step_s: float, where: str):
        run = open_run(path)
        recorded_s = step_of(run)
        if recorded_s and abs(recorded_s / step_s - 1.0) > 1e-9:
            raise ConfigError(f"{where}: step_ms = {1e3 * step_s:g}: {path} has steps of {1e3 * recorded_s:g} ms")
        if "/step" not in run.topics:
            raise ConfigError(
                f"{where}: records: {path} has no steps, whose inputs are needed; make them: tandem replay {path}"
                " --mode ideal --out FOLDER"
            )
        self.path, self.machine, self.sources, self.step_s, self._run = path, machine, sources, step_s, run
        self._rows, self._steps = input_rows(run, machine), run_of_steps(run)
        self._zero_ns = int(self._steps["t_ns"][0])
        self._t = (self._steps["t_ns"] - self._zero_ns) * 1e-9
        self.first, self.last = 0.0, float(self._t[-1]) + step_s
        for key, (channel, topic) in sources.columns().items():
            if (place := self._topic(channel, topic, f"{where}: {key}")) != "/step":
                t = (run.topics[place].blocks["t_ns"] - self._zero_ns) * 1e-9
                self.first, self.last = max(self.first, float(t[0])), min(self.last, float(t[-1]) + step_s)

    def _first_step(self, begin: float) -> int:
        return int(np.clip(np.searchsorted(self._t, begin - 0.5 * self.step_s), 0, len(self._t) - 1))

    def begins(self, begin: float, count: int) -> np.ndarray:
        first = self._first_step(begin)
        found: np.ndarray = self._t[first : first + count]
        return found

    def rows(self, begins: np.ndarray) -> np.ndarray:
        first = self._first_step(float(begins[0]))
        rows: np.ndarray = self._rows[first : first + len(begins)].copy()
        for k, quantity in enumerate(self.machine.inputs):
            if quantity.name in self.sources.inputs:
                rows[:, k] = _read(self, self.sources.inputs[quantity.name], begins)
        return rows

    def at(self, channel: str, topic: str | None, instants: np.ndarray, begins: bool = False) -> np.ndarray:
        place = self._topic(channel, topic, "")
        if place == "/step":  # the inputs of a step are those at its begin, the outputs those at its end
            first = self._first_step(float(instants[0]) - (0.0 if begins else self.step_s))
            of_steps: np.ndarray = np.asarray(self._steps[channel][first : first + len(instants)], np.float64)
            return of_steps
        blocks = self._run.need(place).blocks
        t = (blocks["t_ns"] - self._zero_ns) * 1e-9
        behind_gap = np.concatenate([[False], np.diff(blocks["epoch"].astype(np.int64)) != 0])
        late = np.clip(instants, t[0], None)
        late = np.where((late > t[-1]) & (late <= t[-1] + self.step_s), t[-1], late)
        return _between(t, np.asarray(blocks[channel], np.float64), behind_gap, late)

    def _topic(self, channel: str, topic: str | None, where: str) -> str:
        sensed = [name for name in self._run.topics if is_measured(name)]
        asked = [topic] if topic is not None else [*sensed, "/step"]
        for name in asked:
            if name in self._run.topics and channel in self._run.topics[name].layout.names:
                return name
        there = sorted({c for name in asked if name in self._run.topics for c in self._run.topics[name].layout.names})
        raise ConfigError(
            f"{where}: {self.path} has no {channel} in {' or '.join(asked)}; there are {', '.join(there)}"
        )


def _read(recording: Recording, source: Source, begins: np.ndarray) -> np.ndarray:
    """At the begin of steps."""
    column = as_column(source)
    if column is None:
        return np.full(len(begins), source, np.float64)
    return column.scale * recording.at(column.channel, None, begins, True) + column.offset


def _between(t: np.ndarray, values: np.ndarray, behind_gap: np.ndarray, instants: np.ndarray) -> np.ndarray:
    """Straight lines between samples; NaN outside of them, and where there is a gap between the two."""
    slack = _ROUNDED * (t[-1] - t[0]) / len(t)  # instants are sums of steps
    near = (instants > t[0] - slack) & (instants < t[-1] + slack)
    instants = np.where(near, np.clip(instants, t[0], t[-1]), instants)
    found = np.interp(instants, t, values, np.nan, np.nan)
    right = np.clip(np.searchsorted(t, instants, "left"), 0, len(t) - 1)
    return np.where(behind_gap[right] & (t[right] > instants), np.nan, found)


def open_recording(path: Path, machine: Machine, sources: Sources, step_s: float, where: str) -> Recording:
    if path.suffix == ".mcap" or (path.is_dir() and not any(path.glob("*.parquet"))):
        return Steps(path, machine, sources, step_s, where)
    return Table(path, machine, sources, step_s)


@dataclass
class Cut:
    """The windows of all records, the fitted ones first, and how many were left out."""

    windows: list[Window]
    gaps: int = 0  # windows that lie in a gap of the data

    @property
    def fitted(self) -> int:
        return sum(window.fitted for window in self.windows)


def cut(
    recordings: dict[str, Recording], settings: Windows, sources: Sources, step_s: float, where: str,
    begin: float | None = None, end: float | None = None, most_steps: int | None = None,
) -> Cut:  # fmt: skip
    """`begin` and `end` narrow all spans. Raises ConfigError where a span lies outside of a record."""
    for name in settings.unused_records:
        if name not in recordings:
            raise ConfigError(f"{where}: windows.unused_records: {name}: must be one of records")
    found: list[Window] = []
    gaps = 0
    for name, recording in recordings.items():
        for (first, last), fitted in _spans(name, recording, settings, where):
            low = max(first, -np.inf if begin is None else begin)
            high = min(last, np.inf if end is None else end)
            count = min(int((high - low) / step_s + 1e-6), most_steps or 1 << 62)
            if count < 1:
                continue
            each = count if settings.seconds is None else max(round(settings.seconds / step_s), 1)
            if count // each > _MOST_WINDOWS:
                raise ConfigError(
                    f"{where}: windows.seconds = {settings.seconds:g}: gives over {_MOST_WINDOWS} windows"
                )
            # what is left at the end of a span and shorter than half a window belongs to none
            begins = [k for k in range(0, count, each) if min(each, count - k) >= 0.5 * each]
            for k in begins:
                window = _window(recording, name, fitted, low + k * step_s, min(each, count - k), sources, step_s)
                gaps += window is None
                found += [window] if window is not None else []
    found.sort(key=lambda window: not window.fitted)
    if not found:
        narrowed = f", --from {begin} --to {end}" * (begin is not None or end is not None)
        raise ConfigError(
            f"{where}: windows: none is left{narrowed}; {gaps} lie in gaps of the data, and one has at least a step of"
            f" {step_s:g} s"
        )
    _refuse_constant(found, sources, where)
    return Cut(found, gaps)


def _spans(name: str, recording: Recording, settings: Windows, where: str) -> list[tuple[tuple[float, float], bool]]:
    first, last = recording.first, recording.last
    several = f"; {name} has" if len(settings.fitted) + len(settings.unused) else ""
    for key in ("fitted", "unused"):
        for k, (a, b) in enumerate(getattr(settings, key)):
            if a < first - 1e-6 or b > last + 1e-6:
                raise ConfigError(
                    f"{where}: windows.{key}[{k}] = [{a:g}, {b:g}]{several} {first:g} to {last:g} s; give spans within"
                )
    whole = name in settings.unused_records
    unused = [((a, b), False) for a, b in settings.unused]
    if whole:
        return [((first, last), False)]
    if settings.fitted:
        return [*(((a, b), True) for a, b in settings.fitted), *unused]
    at, left = first, []
    for a, b in sorted(settings.unused):  # what is not unused
        left += [((at, a), True)] if a > at else []
        at = max(at, b)
    return [*left, *([((at, last), True)] if last > at else []), *unused]


def _window(
    recording: Recording, name: str, fitted: bool, begin: float, count: int, sources: Sources, step_s: float
) -> Window | None:
    begins = recording.begins(begin, count)
    if len(begins) < count:
        return None
    rows = recording.rows(begins)
    ends = begins + step_s
    measured = {
        key: each.scale * recording.at(each.channel or key, each.topic, ends) + each.offset
        for key, each in sources.measured.items()
    }
    start = {key: float(_read(recording, source, begins[:1])[0]) for key, source in sources.start.items()}
    given = [k for k, q in enumerate(recording.machine.inputs) if not q.optional or q.name in sources.inputs]
    values_of = (rows[:, given], *measured.values(), np.array([*start.values()]))
    whole = all(np.isfinite(values).all() for values in values_of)
    return Window(name, float(begins[0]), float(ends[-1]), fitted, rows, measured, start) if whole else None


def _refuse_constant(windows: list[Window], sources: Sources, where: str) -> None:
    for name, each in sources.measured.items():
        values = [window.measured[name] for window in windows]
        low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
        if not high > low and sum(map(len, values)) > 1:
            raise ConfigError(
                f"{where}: measured.{name}: {each.channel or name} is {low:g} in every window; a channel that does not"
                " change says nothing of a machine: leave it out, or give the one that was measured"
            )
