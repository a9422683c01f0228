"""A record, read: its topics as columns with units, notices, what it was made with."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from sync import record
from sync.errors import UnknownName
from tandem.library.answers import RecordInfo, ReplayFigures
from tandem.offline.shown import html_table
from tandem.offline.table import Table
from tandem.records.descriptions import describe
from tandem.reports.panels import Plot

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]


class Recorded:
    """A run that was recorded; opened with `open_run`.

    >>> run = tandem.open_run("golden/stale.mcap")
    >>> run
    <tandem.Recorded golden/stale.mcap>
      name: golden_stale, 2.7 s, whole
      topics: /received (889), /step (503)
    >>> step = run.table("/step")
    >>> step.units["vx"], step.rows
    ('m/s', 503)
    """

    def __init__(self, run: record.Run):
        self._run = run

    @property
    def path(self) -> Path:
        """Its file, or the first of them."""
        return self._run.path

    @property
    def topics(self) -> tuple[str, ...]:
        """What was recorded, by name."""
        return tuple(self._run.topics)

    @property
    def whole(self) -> bool:
        """Nothing of it is missing or damaged; otherwise `info` says what."""
        return self._run.whole

    @cached_property
    def info(self) -> RecordInfo:
        """What `tandem info --json` prints.

        >>> tandem.open_run("golden/stale.mcap").info["whole"]
        True
        """
        from tandem.records.inspect.info import info

        return cast(RecordInfo, info(self._run))

    @property
    def events(self) -> list[tuple[int, str]]:
        """Notices during the run: (monotonic ns, text)."""
        return list(self._run.notices)

    @property
    def attachments(self) -> dict[str, bytes]:
        """The configuration and the files it names, as they were, by name."""
        return dict(self._run.attachments)

    def table(self, topic: str = "/step") -> Table:
        """All blocks of a topic in the order of the record. Times are monotonic nanoseconds."""
        if topic not in self._run.topics:
            raise UnknownName.among(self.topics, topic, f"topic of {self.path}")
        found = self._run.topics[topic]
        units = {c.name: c.unit for c in found.layout.channels}
        names = found.blocks.dtype.names or ()
        columns = {name: found.blocks[name].copy() for name in names}
        described = describe(self._run.attachments.get("parameters.json"))(topic, found.layout)
        notes = {c.name: note for c in found.layout.channels if (note := described.note(c))}
        return Table(columns, {name: units.get(name, "") for name in names}, notes)

    def plot(self, *channels: str) -> Plot:
        """These channels over time, a picture each, or the usual ones; what a sensor measured of them beside. A
        notebook shows it, `save` writes a page or a PNG.

        >>> tandem.open_run("golden/stale.mcap").plot("yaw_rate", "throttle")
        <tandem.Plot of yaw_rate, throttle: 503 points>
        """
        from tandem.records.inspect.plot import panels

        name = self.path.parent.name
        return Plot(name, panels([(name, self._run)], list(channels) or None))

    def frame(self, topic: str = "/step") -> "pd.DataFrame":
        """The same as a pandas.DataFrame, see Table.frame."""
        return self.table(topic).frame()

    def replay(
        self, settings: Iterable[str] = (), mode: Literal["exact", "ideal"] = "exact", delay_ms: float = 0.0
    ) -> tuple[Table, ReplayFigures]:
        """The same steps again, or with `settings` as `--set` takes them ("sim.parameters.rack_mass=6"): inputs and
        outputs of every step, and the figures that `tandem replay --json` prints, `identical` among them.

        >>> again, figures = tandem.open_run("golden/stale.mcap").replay()
        >>> figures["identical"]
        True
        """
        from tandem.records.replay import Options, replay_run

        options = Options(mode=mode, delay_ms=delay_ms, overrides=list(settings))
        done = replay_run(self.path, options)
        quantities = (*done.model.inputs, *done.model.outputs)
        columns = {"t_ns": done.instants, **done.columns()}
        units = {"t_ns": "ns", **{q.name: q.unit for q in quantities}}
        return Table(columns, units, {q.name: q.text for q in quantities}), cast(ReplayFigures, done.figures)

    def _facts(self) -> list[tuple[str, str]]:
        spans = [topic.blocks["t_ns"] for topic in self._run.topics.values() if len(topic)]
        seconds = (max(int(t[-1]) for t in spans) - min(int(t[0]) for t in spans)) * 1e-9 if spans else 0.0
        sizes = ", ".join(f"{name} ({len(topic)})" for name, topic in self._run.topics.items())
        state = "whole" if self.whole else "not whole: see info"
        return [("name", f"{self._run.name}, {seconds:.1f} s, {state}"), ("topics", sizes or "none")]

    def __repr__(self) -> str:
        return "\n".join([f"<tandem.Recorded {self.path}>", *(f"  {what}: {text}" for what, text in self._facts())])

    def _repr_html_(self) -> str:
        return html_table(("", ""), self._facts(), str(self.path))


def open_run(path: str | Path) -> Recorded:
    """A run by its folder or one of its files; of a folder of runs the latest. Raises TandemError where it cannot be
    read; one that was cut short, or is damaged in places, is read as far as it goes.

    >>> tandem.open_run("golden/stale.mcap").topics
    ('/received', '/step')
    """
    return Recorded(record.open_run(Path(path)))
