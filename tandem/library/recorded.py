"""A record, read: its topics as columns with units, notices, what it was made with."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from sync import record
from sync.record.run import RunError
from tandem.offline.table import Table
from tandem.records.descriptions import describe


class Recorded:
    """A run that was recorded; opened with `open_run`."""

    def __init__(self, run: record.Run):
        self._run = run

    @property
    def path(self) -> Path:
        return self._run.path

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._run.topics)

    @property
    def whole(self) -> bool:
        """Nothing of it is missing or damaged; otherwise `info` says what."""
        return self._run.whole

    @cached_property
    def info(self) -> dict[str, Any]:
        """What `tandem info --json` prints."""
        from tandem.records.inspect.info import info

        return info(self._run)

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
            raise RunError(f"{self.path}: no topic {topic}; it has {', '.join(self.topics) or 'none'}")
        found = self._run.topics[topic]
        units = {c.name: c.unit for c in found.layout.channels}
        names = found.blocks.dtype.names or ()
        columns = {name: found.blocks[name].copy() for name in names}
        described = describe(self._run.attachments.get("parameters.json"))(topic, found.layout)
        notes = {c.name: note for c in found.layout.channels if (note := described.note(c))}
        return Table(columns, {name: units.get(name, "") for name in names}, notes)

    def frame(self, topic: str = "/step") -> Any:
        """The same as a pandas.DataFrame, see Table.frame."""
        return self.table(topic).frame()

    def replay(
        self, settings: Iterable[str] = (), mode: str = "exact", delay_ms: float = 0.0
    ) -> tuple[Table, dict[str, Any]]:
        """The same steps again, or with `settings` as `--set` takes them ("sim.parameters.rack_mass=6"): inputs and
        outputs of every step, and the figures that `tandem replay --json` prints, `identical` among them."""
        from tandem.records.replay import Asked, replay_run

        asked = Asked(mode=mode, delay_ms=delay_ms, overrides=list(settings))
        done = replay_run(self.path, asked)
        quantities = (*done.model.inputs, *done.model.outputs)
        columns = {"t_ns": done.instants, **done.columns()}
        units = {"t_ns": "ns", **{q.name: q.unit for q in quantities}}
        return Table(columns, units, {q.name: q.text for q in quantities}), done.figures

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(topic)} {name}" for name, topic in self._run.topics.items())
        return f"<tandem.Recorded {self.path}: {sizes}>"


def open_run(path: str | Path) -> Recorded:
    """A run by its folder or one of its files; of a folder of runs the latest. Raises TandemError where it cannot be
    read; one that was cut short, or is damaged in places, is read as far as it goes."""
    return Recorded(record.open_run(Path(path)))
