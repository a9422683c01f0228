"""Windows of records: spans of time that a machine is run over from a measured start, to be fitted or to be judged.

A record is a table (`t` in s, columns) or a recorded run (its steps, and what else was measured). Its windows begin
where the study says; within a span a new one begins every `seconds`. None spans a gap of the data, in what was
measured or in the inputs: it is left out, and counted; a span that is one window ends before its first gap.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag, model_validator

from sim_service.contract.machine import Floats, Machine, Quantity
from sim_service.step_record import STALE
from sync.config.toml import CHOICE, Section
from sync.errors import ConfigError
from sync.record import open_run
from sync.record.measured import is_measured
from tandem.ensembles.columns import factor, open_columns
from tandem.ensembles.open_loop import unset_inputs
from tandem.ensembles.recorded_inputs import rows_of, step_of, steps_of

TIME = "t"
_GAP = 3.5  # times the usual spacing of samples
_ROUNDED = 1e-3  # of the spacing of samples: so far beyond them is not beyond
_LATE = 1.5  # steps: a window that finds none so near to its begin has none
_MOST_WINDOWS = 100_000

Bools = NDArray[np.bool_]
Span = Annotated[list[float], Field(min_length=2, max_length=2)]


class Column(Section):
    """A channel of the data in another unit."""

    channel: str
    scale: float = 1.0
    offset: float = 0.0


def _kind_of_source(source: object) -> str:
    return CHOICE + ("name" if isinstance(source, str) else "number" if isinstance(source, float | int) else "column")


Source = Annotated[
    Annotated[str, Tag(CHOICE + "name")]
    | Annotated[float, Tag(CHOICE + "number")]
    | Annotated[Column, Tag(CHOICE + "column")],
    Discriminator(_kind_of_source),
]


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


class Spans(Section):
    """In seconds on the clock of the records: a table's `t`, or since the first step of a run."""

    fitted: list[Span] = []  # spans that parameters are found from; none: everything that is not unused
    unused: list[Span] = []  # spans that judge them

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


class Windows(Spans):
    """Spans of every record, but for those that have their own."""

    seconds: float | None = Field(None, gt=0)  # after which a window ends and the next begins; None: a span is one
    unused_records: list[str] = []  # whole records that judge
    of: dict[str, Spans] = {}  # by the name of a record


@dataclass(frozen=True)
class Sources:
    """Where inputs, outputs and starts are found in the data."""

    inputs: dict[str, Source]  # of inputs: a channel, or a number
    measured: dict[str, Measured]
    start: dict[str, Source]

    def columns(self) -> dict[str, tuple[str, str | None]]:
        """Channels by the keys of a study, each with its topic if the study names one."""
        found = {f"measured.{n}": (each.channel or n, each.topic) for n, each in self.measured.items()}
        for key, sources in (("inputs", self.inputs), ("start", self.start)):
            found |= {f"{key}.{n}": (x.channel, None) for n, s in sources.items() if (x := as_column(s)) is not None}
        return found

    def factors(self, machine: Machine, there: dict[str, str], where: str) -> dict[str, float]:
        """By the same keys, the factor for values whose unit in the data is the one in `there`."""
        known = {f"start.{q.name}": q.unit for q in (*machine.states, *machine.outputs)}
        known |= {f"measured.{q.name}": q.unit for q in machine.outputs}
        known |= {f"inputs.{q.name}": q.unit for q in machine.inputs}
        found = {}
        for key, symbol in there.items():
            kind, _, name = key.partition(".")
            source = getattr(self, kind).get(name)
            scale = source.scale if isinstance(source, Column | Measured) else 1.0
            found[key] = factor(symbol, known.get(key, ""), scale, f"{where}, {key}")
        return found


def as_column(source: Source) -> Column | None:
    """The column of a source; None if the source is a number."""
    return Column(channel=source) if isinstance(source, str) else source if isinstance(source, Column) else None


@dataclass(frozen=True)
class Window:
    record: str
    begin: float  # s
    end: float
    fitted: bool
    rows: Floats  # inputs, a row a step
    measured: dict[str, Floats]  # a value a step, at its end
    start: dict[str, float]

    def __str__(self) -> str:
        return f"{self.record}, {self.begin:g} to {self.end:g} s"


class Recording(Protocol):
    """A record as windows are cut from it. Values of channels are NaN outside of it, and in a gap."""

    path: Path
    machine: Machine
    first: float
    last: float
    step_s: float
    factors: dict[str, float]  # by the keys of the study

    def begins(self, begin: float, count: int) -> Floats: ...
    def rows(self, begins: Floats) -> Floats: ...
    def at(self, channel: str, topic: str | None, instants: Floats, begins: bool = False) -> Floats: ...


class _Series:
    """The readings of a column, at their own instants: a cell without one has none."""

    def __init__(self, path: Path, name: str, t: Floats, values: Floats, step_s: float):
        if np.isinf(values).any():
            bad = int(np.flatnonzero(np.isinf(values))[0])
            raise ConfigError(f"{path}: column {name}, row {bad + 1}: {values[bad]}, not a finite number")
        there = np.isfinite(values)
        if there.sum() < 2:
            raise ConfigError(f"{path}: column {name}: {there.sum()} of {len(there)} rows have a number; it takes two")
        self.t: Floats = t if there.all() else t[there]
        self.values: Floats = values if there.all() else values[there]
        self._behind_gap = _wide(self.t, step_s)

    def at(self, instants: Floats) -> Floats:
        return _between(self.t, self.values, self._behind_gap, instants)


def _refuse_time(path: Path, t: Floats) -> None:
    """What does not rise, by its first row."""
    if len(t) < 2:
        raise ConfigError(f"{path}: column {TIME} has {len(t)} rows; it takes two")
    wrong = ~np.isfinite(t)
    wrong[1:] |= ~(np.diff(t) > 0.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        behind = f" behind {t[row - 1]:.9g} s" * (row > 0)
        raise ConfigError(f"{path}: column {TIME}, row {row + 1}: {t[row]:.9g} s{behind}; instants must ascend")


def _wide(t: Floats, step_s: float) -> Bools:
    """Which samples come after a gap: for longer than usual, and longer than a step, there were none."""
    spacing = np.diff(t)
    return np.concatenate([np.zeros(1, np.bool_), spacing > max(_GAP * np.median(spacing), step_s)])


class Table:
    """Columns of a file; steps begin where a window does."""

    def __init__(self, path: Path, machine: Machine, sources: Sources, step_s: float, where: str):
        self.path, self.machine, self.sources, self.step_s = path, machine, sources, step_s
        sheet = open_columns(path)
        there, keys = sheet.columns, {key: channel for key, (channel, _) in sources.columns().items()}
        for column in (TIME, *keys.values()):
            if column not in there:
                raise ConfigError(f"{path}: no column {column}; there are {', '.join(there)}")
        known = {*there, *sources.inputs}
        missing = [q.name for q in machine.inputs if q.name not in known and not q.optional]
        if missing:
            raise ConfigError(
                f"{path}: no column {', '.join(missing)}, which {machine.name} needs; a column of 0 is one, and so is"
                f" [inputs] {missing[0]} = 0.0 in the study"
            )
        self._named = {q.name for q in machine.inputs if q.name in there and q.name not in sources.inputs}
        keys |= {f"inputs.{name}": name for name in self._named}
        self.factors = sources.factors(machine, {key: there[name] for key, name in keys.items()}, f"{where}: {path}")
        found = sheet.load(list(dict.fromkeys((TIME, *keys.values()))))
        seconds = factor(there[TIME], "s", 1.0, f"{where}: {path}: column {TIME}")
        t = seconds * np.asarray(found.pop(TIME), np.float64)
        _refuse_time(path, t)
        self._series = {name: _Series(path, name, t, np.asarray(v, np.float64), step_s) for name, v in found.items()}
        self.first = max((float(s.t[0]) for s in self._series.values()), default=float(t[0]))
        self.last = min((float(s.t[-1]) for s in self._series.values()), default=float(t[-1]))

    def begins(self, begin: float, count: int) -> Floats:
        return np.asarray(begin + self.step_s * np.arange(count), np.float64)

    def rows(self, begins: Floats) -> Floats:
        rows = unset_inputs(self.machine, len(begins))
        for k, quantity in enumerate(self.machine.inputs):
            if quantity.name in self._named or quantity.name in self.sources.inputs:
                rows[:, k] = _input(self, self.sources, quantity, begins)
        return rows

    def at(self, channel: str, topic: str | None, instants: Floats, begins: bool = False) -> Floats:
        return self._series[channel].at(instants)


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
        self._steps = steps_of(run)
        self._rows = rows_of(path, self._steps, machine)
        self._rows[_held(self._steps)] = np.nan  # the inputs of these steps are unknown
        self._breaks = np.concatenate([[False], np.diff(self._steps["step"]) != 1])
        self._zero_ns = int(self._steps["t_ns"][0])
        self._t = (self._steps["t_ns"] - self._zero_ns) * 1e-9
        self.first, self.last = 0.0, float(self._t[-1]) + step_s
        symbols = {}
        for key, (channel, topic) in sources.columns().items():
            place = self._topic(channel, topic, f"{where}: {key}")
            symbols[key] = next(c.unit for c in run.topics[place].layout.channels if c.name == channel)
            if place != "/step":
                t = (run.topics[place].blocks["t_ns"] - self._zero_ns) * 1e-9
                self.first, self.last = max(self.first, float(t[0])), min(self.last, float(t[-1]) + step_s)
        self.factors = sources.factors(machine, symbols, f"{where}: {path}")

    def _first_step(self, begin: float) -> int:
        return int(np.clip(np.searchsorted(self._t, begin - 0.5 * self.step_s), 0, len(self._t) - 1))

    def begins(self, begin: float, count: int) -> Floats:
        """None where there are no steps at that time."""
        first = self._first_step(begin)
        late = abs(self._t[first] - begin) > _LATE * self.step_s
        found: Floats = self._t[first : first if late else first + count]
        return found

    def rows(self, begins: Floats) -> Floats:
        first = self._first_step(float(begins[0]))
        part = slice(first, first + len(begins))
        rows: Floats = self._rows[part].copy()
        for k, quantity in enumerate(self.machine.inputs):
            if quantity.name in self.sources.inputs:
                rows[:, k] = _input(self, self.sources, quantity, begins)
        rows[1:][self._breaks[part][1:]] = np.nan  # another simulator's, or steps are missing before it
        return rows

    def at(self, channel: str, topic: str | None, instants: Floats, begins: bool = False) -> Floats:
        place = self._topic(channel, topic, "")
        if place == "/step":  # the inputs of a step are those at its begin, the outputs those at its end
            first = self._first_step(float(instants[0]) - (0.0 if begins else self.step_s))
            of_steps: Floats = np.asarray(self._steps[channel][first : first + len(instants)], np.float64)
            return of_steps
        blocks = self._run.need(place).blocks
        t = (blocks["t_ns"] - self._zero_ns) * 1e-9
        behind_gap = np.concatenate([[False], np.diff(blocks["epoch"].astype(np.int64)) != 0])
        late = np.clip(instants, t[0], None)
        late = np.where((late > t[-1]) & (late <= t[-1] + self.step_s), t[-1], late)
        return _between(t, np.asarray(blocks[channel], np.float64), behind_gap, late)

    def _topic(self, channel: str, topic: str | None, where: str) -> str:
        sensed = [name for name in self._run.topics if is_measured(name)]
        topics = [topic] if topic is not None else [*sensed, "/step"]
        for name in topics:
            if name in self._run.topics and channel in self._run.topics[name].layout.names:
                return name
        there = sorted({c for name in topics if name in self._run.topics for c in self._run.topics[name].layout.names})
        raise ConfigError(
            f"{where}: {self.path} has no {channel} in {' or '.join(topics)}; there are {', '.join(there)}"
        )


def _held(steps: np.ndarray) -> Bools:
    """Steps whose inputs were held, or safe values: nothing was read for longer than a gap is."""
    age, fresh = steps["input_age_ns"], np.diff(steps["input_t_ns"])
    usual = np.median(fresh[fresh > 0]) if (fresh > 0).any() else np.inf
    held: Bools = (steps["status"] & STALE != 0) | (age > np.median(age) + _GAP * usual)
    return held


def _input(recording: "Table | Steps", sources: Sources, quantity: Quantity, begins: Floats) -> Floats:
    """An input at the beginning of these steps, or at their end, whichever the machine takes."""
    source = sources.inputs.get(quantity.name, quantity.name)
    instants = begins + recording.step_s if quantity.at_end else begins
    return _read(recording, f"inputs.{quantity.name}", source, instants, not quantity.at_end)


def _read(recording: Recording, key: str, source: Source, instants: Floats, begins: bool = True) -> Floats:
    """`begins`: those of steps, not their ends."""
    column = as_column(source)
    if column is None:
        return np.full(len(instants), source, np.float64)
    values = recording.at(column.channel, None, instants, begins)
    return column.scale * recording.factors[key] * values + column.offset


def _between(t: Floats, values: Floats, behind_gap: Bools, instants: Floats) -> Floats:
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
    return Table(path, machine, sources, step_s, where)


@dataclass
class Cut:
    """The windows of all records, the fitted ones first, and how many were left out."""

    windows: list[Window]
    gaps: int = 0  # windows that are left out, or end early: a gap of the data lies in them
    lost_s: float = 0.0  # of data that these windows lost

    @property
    def fitted(self) -> int:
        return sum(window.fitted for window in self.windows)


def cut(
    recordings: dict[str, Recording], settings: Windows, sources: Sources, step_s: float, where: str,
    begin: float | None = None, end: float | None = None, most_steps: int | None = None,
) -> Cut:  # fmt: skip
    """`begin` and `end` narrow all spans. Raises ConfigError where a span lies outside of a record."""
    for key, names in (("unused_records", settings.unused_records), ("of", settings.of)):
        for name in names:
            if name not in recordings:
                raise ConfigError(f"{where}: windows.{key}: {name}: must be one of records")
            if name in settings.of and name in settings.unused_records:
                raise ConfigError(f"{where}: windows.of.{name}: is in unused_records, too; one of both")
    found: list[Window] = []
    gaps, lost, longest = 0, 0, 0.0
    if settings.seconds is not None and settings.seconds < 0.5 * step_s:
        raise ConfigError(f"{where}: windows.seconds = {settings.seconds:g}: shorter than a step of {step_s:g} s")
    for name, recording in recordings.items():
        for (first, last), fitted in _spans(name, recording, settings, where):
            low = max(first, -np.inf if begin is None else begin)
            high = min(last, np.inf if end is None else end)
            count = int((high - low) / step_s + 1e-6)
            if count < 1:
                continue
            each = count if settings.seconds is None else max(round(settings.seconds / step_s), 1)
            if count // each > _MOST_WINDOWS:
                raise ConfigError(
                    f"{where}: windows.seconds = {settings.seconds:g}: gives over {_MOST_WINDOWS} windows"
                )
            longest = max(longest, count * step_s)
            # what is left at the end of a span and shorter than half a window belongs to none
            begins = [k for k in range(0, count, each) if min(each, count - k) >= 0.5 * each]
            for k in begins:
                steps = min(each, count - k, most_steps or each)
                window = _window(recording, name, fitted, low + k * step_s, steps, sources, settings.seconds is None)
                left = steps - (0 if window is None else len(window.rows))
                gaps, lost = gaps + (left > 0), lost + left
                found += [window] if window is not None else []
    found.sort(key=lambda window: not window.fitted)
    if not found:
        span = "".join(f" {o} {s:g}" for o, s in (("--from", begin), ("--to", end)) if s is not None)
        least = step_s if settings.seconds is None else 0.5 * settings.seconds
        raise ConfigError(
            f"{where}: windows: none is left{span and ' of'}{span}; {gaps} lie in gaps of the data; the longest span"
            f" has {longest:g} s, and a window at least {least:g} s"
        )
    _refuse_constant(found, sources, where)
    return Cut(found, gaps, lost * step_s)


def _spans(name: str, recording: Recording, settings: Windows, where: str) -> list[tuple[tuple[float, float], bool]]:
    first, last = recording.first, recording.last
    own = settings.of.get(name, settings)
    under = f"windows.of.{name}" if name in settings.of else "windows"
    for key in ("fitted", "unused"):
        for k, (a, b) in enumerate(getattr(own, key)):
            if a < first - 1e-6 or b > last + 1e-6:
                raise ConfigError(
                    f"{where}: {under}.{key}[{k}] = [{a:g}, {b:g}]; {name} has {first:g} to {last:g} s; give spans"
                    f" within, or this record its own: [windows.of.{json.dumps(name)}]"
                )
    if name in settings.unused_records:
        return [((first, last), False)]
    unused = [((a, b), False) for a, b in own.unused]
    if own.fitted:
        return [*(((a, b), True) for a, b in own.fitted), *unused]
    at, left = first, []
    for a, b in sorted(own.unused):  # what is not unused
        left += [((at, a), True)] if a > at else []
        at = max(at, b)
    return [*left, *([((at, last), True)] if last > at else []), *unused]


def _window(
    recording: Recording, name: str, fitted: bool, begin: float, count: int, sources: Sources, shorten: bool
) -> Window | None:
    """`shorten`: up to the first gap in it."""
    begins = recording.begins(begin, count)
    if not len(begins):
        return None
    rows = recording.rows(begins)
    ends = begins + recording.step_s
    measured = {
        key: each.scale * recording.factors[f"measured.{key}"] * recording.at(each.channel or key, each.topic, ends)
        + each.offset
        for key, each in sources.measured.items()
    }
    start = {key: float(_read(recording, f"start.{key}", s, begins[:1])[0]) for key, s in sources.start.items()}
    needed = [k for k, q in enumerate(recording.machine.inputs) if not q.optional or q.name in sources.inputs]
    known: Bools = np.asarray(np.isfinite(np.column_stack([rows[:, needed], *measured.values()])).all(axis=1))
    whole = len(known) if known.all() else int(np.argmin(known))
    if not whole or not np.isfinite([*start.values()]).all() or (whole < count and not shorten):
        return None
    ends = ends[:whole]
    within = {key: values[:whole] for key, values in measured.items()}
    return Window(name, float(begins[0]), float(ends[-1]), fitted, rows[:whole], within, start)


def _refuse_constant(windows: list[Window], sources: Sources, where: str) -> None:
    for name, each in sources.measured.items():
        values = [window.measured[name] for window in windows]
        low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
        if not high > low and sum(map(len, values)) > 1:
            raise ConfigError(
                f"{where}: measured.{name}: {each.channel or name} is {low:g} in every window; a channel that does not"
                " change says nothing of a machine: leave it out, or give the one that was measured"
            )
