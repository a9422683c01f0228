"""A sweep: a study in, one table out. What is done is kept by content; the same study again makes what is missing.

Where runs are made and in which order changes no bit of the table: its rows have the order of the samples.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.registry import MachineFiles
from sync.compile import dependencies
from sync.config.toml import check, read_toml
from sync.errors import ConfigError, near_names
from sync.files.private import by_default
from sync.record import open_run
from tandem.ensembles import figures, gpu_runs
from tandem.ensembles.cluster import Warn, who_can_use
from tandem.ensembles.figures import Reference
from tandem.ensembles.gpu import device
from tandem.ensembles.manoeuvres import Gathered, gather, module_of, study_machine
from tandem.ensembles.pool import ENGINES, Interrupted, WorkerEnded, pool, run_all
from tandem.ensembles.recorded_inputs import run_of_steps, step_of
from tandem.ensembles.rows import Results, row_file
from tandem.ensembles.sampling import samples
from tandem.ensembles.study import Study
from tandem.ensembles.table import arrow, write_columns
from tandem.ensembles.work import Item, Job, Row, logged, lost_row, run_chunk
from tandem.offline.table import Table

Progress = Callable[[str, float], None]
TABLE = "table.parquet"


@dataclass(frozen=True)
class Swept:
    study: Study
    machine: Machine
    names: tuple[str, ...]  # of the parameters that vary
    results: Results
    table: Table
    folder: Path
    made_now: int  # the others were done before

    def summary(self) -> dict[str, object]:
        """What `tandem sweep --json` prints."""
        return {
            "study": self.study.name,
            "machine": self.machine.name,
            "runs": len(self.results.keys),
            "made_now": self.made_now,
            "status": self.results.counts(),
            "table": str(self.folder / TABLE),
            "parameters": list(self.names),
            "figures": list(self.results.figures),
        }


@dataclass(frozen=True)
class Prepared:
    study: Study
    machine: Machine
    job: Job
    values: np.ndarray
    base: str  # of all that every run depends on
    in_threads: bool

    @property
    def cases(self) -> tuple[str, ...]:
        return self.job.gathered.cases

    def item(self, place: int) -> Item:
        row, case = divmod(place, len(self.cases))
        values = tuple(self.values[row].tolist())
        digest = hashlib.sha256(self.base.encode())
        digest.update(json.dumps([self.job.names, self.cases[case]]).encode() + self.values[row].tobytes())
        return digest.hexdigest()[:24], case, values


def load_study(study: str | Path | Mapping[str, object]) -> tuple[Study, Path, str]:
    """From its file, or as it stands; the folder that its paths are relative to, and its name in messages."""
    if isinstance(study, Mapping):
        return check(Study, dict(study), "study"), Path(), "study"
    path = Path(study)
    return check(Study, read_toml(path), str(path)), path.parent, str(path)


def prepare(study: str | Path | Mapping[str, object], channel_folder: str = "") -> Prepared:
    """Everything that can be wrong is said here, before anything runs."""
    checked, folder, where = load_study(study)
    of_all = checked.set
    setup = study_machine(checked.machine, checked.set, folder, where)
    sources, machine = setup.sources, setup.machine
    checked = checked.model_copy(update={"set": setup.changed})
    step_s = 1e-3 * checked.step_ms
    gathered = gather(checked.manoeuvre, machine, folder, step_s, where)
    names, values = samples(checked, folder)
    if both := [name for name in names if name in of_all]:
        raise ConfigError(f"{where}: set.{both[0]}: is varied too; give it once")
    _check_values(machine, names, values, where)
    _check_channels(checked, machine, gathered, where)
    references = {name: _reference(folder / f.record, f.recorded or f.channel)
                  for name, f in checked.figures.items() if f.record is not None}  # fmt: skip
    _check_spans(checked, gathered, references, step_s, where)
    live = {p.name: p.live for p in machine.parameters}
    in_threads = all(live[name] for name in names) and not gathered.makes_machines
    job = Job(checked.model_dump(), where, sources, gathered, names, references, channel_folder, len(values))
    return Prepared(checked, machine, job, values, _base(checked, sources, gathered, references), in_threads)


def _check_values(machine: Machine, names: tuple[str, ...], values: np.ndarray, where: str) -> None:
    known = {p.name: p for p in machine.parameters}
    for k, name in enumerate(names):
        if name not in known:
            near = near_names(name, known, 3) or list(known)[:8]
            raise ConfigError(f"{where}: parameters.{name}: unknown to {machine.name}; it has {', '.join(near)} …")
        p = known[name]
        for bad in values[(values[:, k] < p.low) | (values[:, k] > p.high), k][:1]:
            raise ConfigError(
                f"{where}: parameters.{name}: a sample is {bad:g}; {machine.name} takes"
                f" {p.low:g} to {p.high:g} {p.unit}"
            )


def _check_channels(study: Study, machine: Machine, gathered: Gathered, where: str) -> None:
    there = [q.name for q in (*machine.outputs, *machine.inputs)]
    for name in logged(study):
        if not gathered.channels:
            raise ConfigError(
                f"{where}: figures, channels: manoeuvre.kind = {study.manoeuvre['kind']!r} has figures of its own"
            )
        if name not in there:
            near = near_names(name, there, 3) or there[:12]
            raise ConfigError(f"{where}: {name}: no channel of {machine.name}; it has {', '.join(near)} …")
    if gathered.channels and not study.figures and not study.channels:
        raise ConfigError(f"{where}: figures: is missing; give [figures.NAME] with kind and channel")


def _check_spans(study: Study, gathered: Gathered, references: dict[str, Reference], step_s: float, where: str) -> None:
    """A figure of a time that no run has would be NaN in every row. Known where a run is a table of inputs."""
    if not (rows := gathered.data.get("rows")):
        return
    steps = max(len(inputs) for inputs in rows)
    t = step_s * np.arange(1, steps + 1)
    for name, figure in study.figures.items():
        inside = t[figures.inside(figure, t)]
        if not len(inside):
            until = "the end" if figure.to_s is None else f"{figure.to_s:g} s"
            raise ConfigError(
                f"{where}: figures.{name}: from_s = {figure.from_s:g}: no step of a run ends from there to {until};"
                f" the longest run ends at {t[-1]:g} s, its steps take {step_s:g} s"
            )
        if name in references and not figures.common(inside, references[name]).any():
            first, last = references[name].t[[0, -1]]
            raise ConfigError(
                f"{where}: figures.{name}: record = {figure.record!r} has {first:g} to {last:g} s, the figure is of"
                f" {inside[0]:g} to {inside[-1]:g} s: they have no time in common"
            )


def _reference(path: Path, channel: str) -> Reference:
    run = open_run(path)
    blocks = run_of_steps(run)
    if channel not in (blocks.dtype.names or ()):
        raise ConfigError(f"{run.path}: /step has no channel {channel}")
    step_s = step_of(run)
    return Reference(step_s * np.arange(1, len(blocks) + 1), np.array(blocks[channel], np.float64))


def _base(study: Study, sources: MachineFiles, gathered: Gathered, references: dict[str, Reference]) -> str:
    """A digest of what every run depends on, the program included; a run adds its own values."""
    digest = hashlib.sha256()
    own = study.model_dump(include={"step_ms", "set", "figures", "channels", "channel_every"})
    digest.update(json.dumps([own, gathered.settings], sort_keys=True).encode())
    for name, content in sorted(sources.files.items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    for array in gathered.data.get("rows", []):
        digest.update(hashlib.sha256(array.tobytes()).digest())
    for name, reference in sorted(references.items()):
        digest.update(name.encode() + reference.t.tobytes() + reference.values.tobytes())
    for file in (
        dependencies.file_of("tandem.ensembles.work"),
        Path(module_of(gathered.settings["kind"], "").__file__),
    ):
        digest.update(dependencies.stamp(file).encode())
    digest.update(" ".join([dependencies.fingerprint(), version("numpy"), version("numba")]).encode())
    return digest.hexdigest()


def sweep(
    study: str | Path | Mapping[str, object],
    out: str | Path | None = None,
    workers: int = 0,
    engine: Literal["auto", "threads", "processes"] = "auto",
    cluster: str = "",
    progress: Progress = lambda *_: None,
    gpu: bool = False,
    certificate: str | Path = "",
    warn: Warn = warnings.warn,
) -> Swept:
    """All runs of a study: its file, or what would stand in it. `out` is the folder of the table, and of what is done;
    by default `runs/sweep_NAME`. `workers` 0: one a core. `engine` auto, threads or processes; `cluster` the address
    of a Dask scheduler instead, with `certificate` as cluster.py has it; `gpu` a GPU (gpu_runs.py), whose rows are
    kept apart from those of a CPU. `warn` is called where other users could use the cluster.

    Raises ConfigError where the study is wrong, Interrupted on Ctrl-C: the same call then goes on.

    >>> study = {
    ...     "name": "pull", "machine": "mass_spring", "step_ms": 5.0,
    ...     "manoeuvre": {"kind": "inputs", "seconds": 1.0, "inputs": {"handle": {"value": 0.05}}},
    ...     "parameters": {"stiffness": {"values": [100.0, 200.0]}},
    ...     "figures": {"last": {"kind": "last", "channel": "position"}},
    ... }
    >>> tandem.sweep(study, "runs/pull").table
    <tandem.Table: 2 rows, 6 columns>
    run (1)  stiffness (N/m)  status  error  steps (1)   last (m)
          0              100      ok               200  0.0480772
          1              200      ok               200  0.0459368
    """
    _check_options(engine, cluster, gpu, str(certificate))
    arrow("the table of a sweep")
    name = load_study(study)[0].name
    folder = Path(out) if out is not None else by_default(Path("runs") / f"sweep_{name}")
    prepared = prepare(study, str((folder / "channels").resolve()))
    if gpu:
        prepared = replace(prepared, base=hashlib.sha256(f"{prepared.base} gpu".encode()).hexdigest())
    job, items = prepared.job, [prepared.item(place) for place in range(len(prepared.values) * len(prepared.cases))]
    units = {n: figures.unit(f, _units(prepared.machine)) for n, f in prepared.study.figures.items()}
    results = Results([key for key, _, _ in items], units)
    with row_file(folder, prepared.base) as done:
        done.read(results)
        before = results.done
        progress("runs", before / len(items))

        def sink(rows: list[Row]) -> None:
            done.append(rows)
            for row in rows:
                results.take(row)
            progress(f"{results.done} of {len(items)} runs", results.done / len(items))

        todo = [items[place] for place in results.missing()]
        if todo and gpu:
            gpu_runs.run_all(job, todo, sink)
        elif todo:
            kind = engine if engine != "auto" else "threads" if prepared.in_threads else "processes"
            preload = ("tandem.ensembles.work", module_of(prepared.study.manoeuvre["kind"], "").__name__)
            with pool(kind, min(workers, len(todo)), cluster, preload, str(certificate), warn) as where:
                whole = run_all(where, lambda chunk: (run_chunk, (job, chunk)), todo, sink, _lost)
            if not whole:
                raise Interrupted(
                    f"{results.done} of {len(items)} runs are done, in {folder}; the same command goes on"
                )
    table = _write_table(folder / TABLE, prepared, results)
    return Swept(prepared.study, prepared.machine, job.names, results, table, folder, results.done - before)


def _check_options(engine: str, cluster: str, gpu: bool, certificate: str) -> None:
    """Refuses them before anything is made."""
    if engine not in ENGINES:
        raise ConfigError(f"engine = {engine!r}: must be one of {', '.join(ENGINES)}")
    if gpu and cluster:
        raise ConfigError("--gpu and --cluster: one of them")
    if cluster:
        who_can_use(cluster, certificate)
    elif certificate:
        raise ConfigError(f"--certificate {certificate}: is of a cluster, and --cluster names none")
    if gpu and (why := device.available()):
        raise ConfigError(f"--gpu: {why}")


def _write_table(path: Path, prepared: Prepared, results: Results) -> Table:
    columns, units, notes = _columns(prepared, results, len(results.keys))
    write_columns(path, columns, units, notes, {"study": prepared.job.study, "base": prepared.base})
    return Table({n: np.array(v) if isinstance(v, list) else v for n, v in columns.items()}, units, notes)


def _lost(item: Item, ended: WorkerEnded) -> Row:
    return lost_row(item[0], ended)


def _units(machine: Machine) -> dict[str, str]:
    return {q.name: q.unit for q in (*machine.outputs, *machine.inputs)}


def _columns(prepared: Prepared, results: Results, total: int) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    described = {p.name: p for p in prepared.machine.parameters}
    cases = len(prepared.cases)
    columns: dict[str, Any] = {"run": np.arange(total)}
    if prepared.cases != ("",):
        columns["case"] = [prepared.cases[place % cases] for place in range(total)]
    names = prepared.job.names
    columns |= {name: np.repeat(prepared.values[:, k], cases) for k, name in enumerate(names)}
    columns["status"] = results.status
    columns["error"] = [results.errors.get(place, "") for place in range(total)]
    columns["steps"] = results.steps
    taken = {name for name in results.figures if name in columns}
    for name, values in results.figures.items():
        columns[f"{name}_figure" if name in taken else name] = values
    if prepared.study.channels:
        ok = [status == "ok" for status in results.status]
        columns["channels"] = [f"channels/{key}.parquet" if o else "" for key, o in zip(results.keys, ok, strict=True)]
    units = {name: described[name].unit for name in names} | results.units | {"run": "1", "steps": "1"}
    return columns, units, {name: described[name].text for name in names}
