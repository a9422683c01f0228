"""One run of a study, from a row of values to a row of figures; and the job that a worker is given.

A job holds everything that a run depends on, files as bytes, and can be sent to another process or host. A run that
fails is a row that says so: nothing that a value or a machine does ends a worker.
"""

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Floats, Machine, ShapeDerivatives, Tangent
from sim_service.many_steps import for_many_steps
from sim_service.registry import MachineFiles, make_machine
from sync.errors import TandemError
from sync.files.consent import ConsentMissing
from tandem.ensembles import figures
from tandem.ensembles.figures import Reference
from tandem.ensembles.manoeuvres import Context, Gathered, Log, Manoeuvre, RunFailed, module_of
from tandem.ensembles.pool import WorkerEnded
from tandem.ensembles.study import Study
from tandem.ensembles.table import NotWritten, write_columns

Item = tuple[str, int, tuple[float, ...]]  # key of a run, its case, its values
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    study: dict[str, Any]
    where: str
    sources: MachineFiles
    gathered: Gathered
    names: tuple[str, ...]  # of the parameters that vary
    references: dict[str, Reference]  # of figures that are distances
    channel_folder: str = ""  # where channels go, if any are asked for
    runs: int = 1  # how many there are, about
    name: str = field(default_factory=secrets.token_hex)  # also of its copies in other processes


class Worker:
    """A job, with its machine made: rows of values to rows of figures."""

    def __init__(self, job: Job):
        self.job = job
        self.study = Study.model_validate(job.study)
        self.common = dict(self.study.set)
        self.machine, self._params = make_machine(job.sources, self.common)
        places = {p.name: (i, p.live) for i, p in enumerate(self.machine.parameters)}
        self._places = [places[name] for name in job.names]
        self.live = all(live for _, live in self._places)
        self.units = {q.name: q.unit for q in (*self.machine.outputs, *self.machine.inputs)}
        kind = job.gathered.settings["kind"]
        context = Context(
            job.gathered.settings, job.gathered.data, job.sources, self.machine, self._params, self.common,
            1e-3 * self.study.step_ms, logged(self.study),
        )  # fmt: skip
        self.manoeuvre: Manoeuvre = module_of(kind, job.where).prepare(context)
        self._steps = 0

    def log(self, case: int, values: Sequence[float]) -> Log:
        """Raises TandemError where the run fails."""
        changed = self.common | dict(zip(self.job.names, values, strict=True))
        machine, params = self._machine_for(changed, values)
        # as many steps as the last run had, in each
        log = self.manoeuvre.run(for_many_steps(machine, self._steps * self.job.runs), params, changed, case)
        self._steps = log.steps
        return log

    @property
    def exact(self) -> list[int]:
        """Which of the values have derivatives of a run that come from the steps themselves: the live ones, of a
        machine that has them."""
        if self.machine.stepping.one_at_a_time or not hasattr(self.manoeuvre, "derivatives"):
            return []
        if (shape := self.machine.of(ShapeDerivatives)) is not None:
            by_shape = shape.names()
            return [k for k, name in enumerate(self.job.names) if name in by_shape]
        if self.machine.of(Tangent) is None:
            return []
        return [k for k, (_, live) in enumerate(self._places) if live]

    def derivatives(self, case: int, values: Sequence[float], which: Sequence[int]) -> dict[str, Floats]:
        """Derivatives of every logged channel by at most eight values: a row for each step, a column for each value.

        Raises TandemError where the run fails.
        """
        manoeuvre: Any = self.manoeuvre
        machine, params = self._machine_for(self.common | dict(zip(self.job.names, values, strict=True)), values)
        places = [self._places[k][0] for k in which]
        machine = for_many_steps(machine, self._steps * self.job.runs)
        found: dict[str, Floats] = manoeuvre.derivatives(machine, params, places, case)
        return found

    def _machine_for(self, changed: dict[str, float], values: Sequence[float]) -> tuple[Machine, Floats]:
        if self.live:
            return self.machine, self.params_of(values)
        return make_machine(self.job.sources, changed)

    def params_of(self, values: Sequence[float]) -> Floats:
        """Parameters of a run, where all that vary are live."""
        params = self._params.copy()
        for (place, _), value in zip(self._places, values, strict=True):
            params[place] = value
        return params

    def row(self, item: Item) -> Row:
        key, case, values = item
        try:
            return self.finished(key, self.log(case, values))
        except (NotWritten, ConsentMissing):  # no fault of the run, kept as failed: the study ends, and goes on later
            raise
        except RunFailed as error:
            return {"key": key, "status": error.status, "steps": error.steps, "error": str(error)}
        except TandemError as error:
            status = "diverged" if error.code == 3 else "failed"
            return {"key": key, "status": status, "steps": 0, "error": str(error)}
        except Exception as error:  # whatever a machine of somebody else does: the study goes on without this run
            return {"key": key, "status": "failed", "steps": 0, "error": f"{type(error).__name__}: {error}"}

    def finished(self, key: str, log: Log) -> Row:
        """The row of a run that left this."""
        found: Row = {"key": key, "status": "ok", "steps": log.steps, "figures": self._figures(log)}
        if log.units:
            found["units"] = log.units
        if self.study.channels:
            self._write_channels(key, log)
        return found

    def _figures(self, log: Log) -> dict[str, float]:
        found = dict(log.figures)
        for name, figure in self.study.figures.items():
            found[name] = figures.value(figure, log.columns, log.step_s, self.job.references.get(name))
        return found

    def _write_channels(self, key: str, log: Log) -> None:
        every = self.study.channel_every
        t = log.step_s * np.arange(1, log.steps + 1)
        columns = {"t": t[::every], **{name: log.columns[name][::every] for name in self.study.channels}}
        write_columns(Path(self.job.channel_folder) / f"{key}.parquet", columns, {"t": "s", **self.units})


def logged(study: Study) -> tuple[str, ...]:
    """Channels that a study needs of every run."""
    of_figures = [name for f in study.figures.values() for name in (f.channel, f.times) if name is not None]
    return tuple(dict.fromkeys([*study.channels, *of_figures]))


_workers: dict[str, Worker] = {}
_making = threading.Lock()


def worker_of(job: Job) -> Worker:
    """Made once a process, however many threads ask."""
    with _making:
        if job.name not in _workers:
            _workers.clear()  # one study at a time
            _workers[job.name] = Worker(job)
        return _workers[job.name]


def lost_row(key: str, ended: WorkerEnded) -> Row:
    """The row of a run that ended its process. A kill from outside is not the fault of the run: `again` says that the
    row is not kept, and the same command makes it again."""
    row = {"key": key, "status": "failed", "steps": 0, "error": str(ended)}
    return row | {"again": True} if ended.killed else row


def run_chunk(job: Job, items: list[Item]) -> tuple[list[Row], float]:
    """Rows of these runs, and how long they took, s."""
    worker = worker_of(job)
    begun = time.perf_counter()
    rows = [worker.row(item) for item in items]
    return rows, time.perf_counter() - begun
