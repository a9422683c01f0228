"""An observer over a record: the readings that a live run took, given again to its own filter and to others.

Every step gets the block it used on board, so the filter of the record must come to the same bits again. Another
tuning is another machine file of the same observer (`[sensors]`, `[filter]`): it gets the same readings, at the same
ages. What it estimates is compared with what was estimated on board, and with the truth if its record is given. Each is
smoothed as well (smoothing.py), in processes of their own if there are several.
"""

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.registry import MachineFiles, gather, recorded
from sync.errors import ConfigError
from sync.record import Run, measured, open_run
from tandem.ensembles.pool import cores, processes
from tandem.machines.observer.studies.imported import READ, Imported, Part
from tandem.machines.observer.studies.smoothing import SmoothedRecord, compared, smooth_record
from tandem.records.against_truth import truth_section
from tandem.records.replay import Inputs, Options, Replayed, recorded_columns, replay_run
from tandem.reports.html.chart import Series, curves
from tandem.reports.report import Report, Section, Table

AS_RECORDED = "as recorded"
COUNTED = ("readings_used", "readings_gated", "readings_late")
SIGMA, ESTIMATED, SUPPORTED = "sigma_", "estimated_", "supported_"
WINDOW_S = 10.0


def is_run(path: Path) -> bool:
    """A folder of a run or its file, rather than a study."""
    return path.is_dir() or path.suffix == ".mcap"


def observe_record(
    run: Path, tunings: list[Path], update: Callable[[str, float], None], begin_s: float = 0.0, end_s: float = np.inf
) -> dict[str, Replayed]:
    """The record's own filter, then each tuning by its file's name. `begin_s`, `end_s`: of an imported record."""
    found: dict[str, Replayed] = {}
    imported = None if len(open_run(run, ("/step",)).topics.get("/step", ())) else Imported(begin_s, end_s)
    if imported is None and (begin_s > 0.0 or end_s < np.inf):
        raise ConfigError(f"--from {begin_s:g} --to {end_s:g}: {run} has steps, which are all repeated")
    for k, file in enumerate([None, *tunings]):
        name = AS_RECORDED if file is None else file.name
        if name in found:
            raise ConfigError(f"--tuning {file}: {name!r} is there twice; files need names of their own")
        if file is not None and not file.is_file():
            raise ConfigError(f"--tuning {file}: there is no such file")
        overrides = [] if file is None else [f"sim.machine={file.resolve()}"]
        request = Options("exact" if imported is None else "ideal", overrides=overrides)

        def progress(what: str, share: float, k: int = k) -> None:
            update(what, (k + share) / (1 + len(tunings)))

        def stepped(recorded: Inputs, file: Path | None = file) -> tuple[slice, np.ndarray, list[Part]]:
            assert imported is not None
            return imported.steps(recorded, _sources(recorded.run, file))

        found[name] = replay_run(run, request, progress, stepped=None if imported is None else stepped)
        machine = found[name].model.name
        if machine != "observer":
            raise ConfigError(f"{run if file is None else file}: machine = {machine!r}: must be 'observer'")
    return found


def is_imported(found: dict[str, Replayed]) -> bool:
    return found[AS_RECORDED].parts is not None


def _sources(run: Run, file: Path | None) -> MachineFiles:
    """Of the observer: those of the record, or of a tuning."""
    return recorded(run.attachments, str(run.path)) if file is None else gather(file.resolve())


def figures(found: dict[str, Replayed]) -> dict[str, Any]:
    """Of every tuning: whether it is the record's to the bit, counters, uncertainty, distance from the record."""
    board = recorded_columns(found[AS_RECORDED].run, found[AS_RECORDED].model)
    out: dict[str, Any] = {}
    for name, done in found.items():
        columns = done.columns()
        n = len(done.results)
        outputs = [q.name for q in done.model.outputs]
        quantities = [q for q in outputs if q not in COUNTED and not q.startswith((SIGMA, SUPPORTED))]
        first = done.plan.first
        out[name] = {
            "steps": n, "identical": done.figures["identical"],
            "readings": {key: float(columns[key][-1]) if n else 0.0 for key in COUNTED},
            "rms_from_board": {
                q: float(np.sqrt(np.mean((columns[q] - board[q][first : first + n]) ** 2)))
                for q in quantities if q in board and n
            },
            "mean_sigma": {
                q.removeprefix(SIGMA): float(np.mean(columns[q])) for q in outputs if q.startswith(SIGMA) and n
            },
            "supported": {
                q.removeprefix(SUPPORTED): float(np.mean(columns[q])) for q in outputs if q.startswith(SUPPORTED) and n
            },
            "real_time_factor": done.figures["simulated_s"] / max(done.figures["step_s"], 1e-9),
        }  # fmt: skip
    return out


def supported(share: float) -> str:
    return f"supported {100 * share:.0f} % of the time" if share > 0.0 else "not supported: nothing excited it enough"


def measured_truth(found: dict[str, Replayed], only: str = "") -> dict[str, np.ndarray]:
    """Outputs at the ends of steps that an imported record has measured, and that are no readings of the filter's."""
    done = found[AS_RECORDED]
    outputs = [q.name for q in done.model.outputs]
    read = {q.name.removeprefix(READ) for q in done.model.inputs if q.name.startswith(READ)}
    known = {name: q for name, q in measured(done.run).items() if name in outputs and name not in read}
    if only and only not in known:
        raise ConfigError(
            f"--truth {only}: must be a record, or what was measured of the outputs beside the readings:"
            f" {', '.join(known) or 'nothing'}"
        )
    ends = done.instants + done.config.step_ns
    return {name: q.at(ends) for name, q in known.items() if only in ("", name)}


def true_columns(truth: Path, found: dict[str, Replayed]) -> dict[str, np.ndarray]:
    """Outputs of another run's steps at the instants of this one's, between its own instants along straight lines."""
    run, instants = open_run(truth), found[AS_RECORDED].instants
    steps = run.need("/step")
    t = steps.blocks["taken_ns"]
    if not len(t) or t[-1] < instants[0] or t[0] > instants[-1]:
        raise ConfigError(f"--truth {truth}: has no step between the first and the last of the observed run")
    outside = (instants < t[0]) | (instants > t[-1])
    out = {}
    for channel in steps.layout.channels:
        if channel.type == "f8":
            out[channel.name] = np.interp(instants, t, steps.blocks[channel.name])
            out[channel.name][outside] = np.nan
    return out


def watched_names(found: dict[str, Replayed], truth: Mapping[str, np.ndarray]) -> list[str]:
    """Of what the truth has, outputs that the filter gives a standard deviation of; all that is known if there are
    none."""
    outputs = [q.name for q in found[AS_RECORDED].model.outputs]
    known = [name for name in outputs if name in truth]
    return [name for name in known if SIGMA + name in outputs] or known


def smooth_all(
    found: dict[str, Replayed], tunings: list[Path], update: Callable[[str, float], None], watch: list[str]
) -> dict[str, SmoothedRecord]:
    """Of every tuning; several at once. `watch`: outputs whose normalised errors are wanted."""
    files = dict(zip(found, [None, *tunings], strict=True))
    jobs = {}
    for name, done in found.items():
        file, columns = files[name], done.columns()
        inputs = {q.name: np.ascontiguousarray(columns[q.name]) for q in done.model.inputs}
        if len(done.results):
            jobs[name] = (_sources(done.run, file), dict(done.config.sim.parameters), inputs, watch, done.parts)
    update("smoothing", 0.0)
    if len(jobs) < 2:
        return {name: smooth_record(*job) for name, job in jobs.items()}
    out = {}
    with processes(min(len(jobs), cores())) as pool:
        waiting = {pool.submit(smooth_record, *job): name for name, job in jobs.items()}
        for k, job in enumerate(as_completed(waiting), 1):
            out[waiting[job]] = job.result()
            update("smoothing", k / len(jobs))
    return {name: out[name] for name in jobs}


def add_smoothed(
    shown: dict[str, Any],
    found: dict[str, Replayed],
    passes: dict[str, SmoothedRecord],
    truth: Mapping[str, np.ndarray],
) -> None:
    """Errors of the filters where the truth is known, and figures of what was smoothed."""
    for name, done in found.items():
        columns = done.columns()
        known = {q for q, values in truth.items() if not np.isnan(values).all()}  # a run may end before it settles
        shown[name]["errors"] = {
            q.name: float(np.sqrt(np.nanmean((columns[q.name] - truth[q.name]) ** 2)))
            for q in done.model.outputs if q.name in known and len(columns[q.name]) == len(truth[q.name])
        }  # fmt: skip
        shown[name]["windows"] = windows(columns, {q: truth[q] for q in shown[name]["errors"]}, done.config.step_ns)
        if name in passes:
            shown[name]["smoothed"] = compared(passes[name], columns, truth)


def windows(
    columns: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray], step_ns: int
) -> dict[str, dict[str, float]]:
    """Of errors by windows of 10 s: the median and the worst of their root mean squares, and where that begins, s."""
    length = max(round(WINDOW_S * 1e9 / step_ns), 1)
    out = {}
    for name, true in truth.items():
        square = (columns[name] - true) ** 2
        each = [square[k : k + length] for k in range(0, len(square) - length + 1, length)]
        rms = np.array([np.sqrt(np.nanmean(w)) if not np.isnan(w).all() else np.nan for w in each])
        if len(rms) and not np.isnan(rms).all():
            worst = int(np.nanargmax(rms))
            out[name] = {
                "count": len(rms), "median": float(np.nanmedian(rms)), "worst": float(rms[worst]),
                "worst_at_s": worst * length * step_ns * 1e-9,
            }  # fmt: skip
    return out


def _rows(shown: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A column for each replay that is shown, a row for everything that one of them has."""

    def number(value: float) -> str:
        return f"{value:.4g}"

    def at(*keys: str) -> list[dict[str, Any]]:
        return [functools.reduce(lambda of, key: of.get(key, {}), keys, one) for one in shown.values()]

    kinds: list[tuple[str, list[dict[str, Any]], Callable[[Any], str]]] = [
        ("standard deviation of {}", at("mean_sigma"), number),
        ("from the record, rms, of {}", at("rms_from_board"), number),
        ("error, rms, of {}", at("errors"), number),
        (f"error of {{}} in windows of {WINDOW_S:g} s, rms: median; worst", at("windows"), _windows),
        ("{}", at("supported"), supported),
        ("smoothed: standard deviation of {}", at("smoothed", "sigma"), lambda one: number(one["smoothed"])),
        ("smoothed: error, rms, of {}", at("smoothed", "errors"), lambda one: number(one["smoothed"])),
        ("NEES of {}", at("smoothed", "nees", "forward"), _nees),
        ("smoothed: NEES of {}", at("smoothed", "nees", "smoothed"), _nees),
        ("mean NIS of {}", at("smoothed", "nis"), _nis),
    ]
    rows = [(k.removeprefix("readings_"), *(f"{one[k]:.0f}" for one in at("readings"))) for k in COUNTED]
    for label, columns, cell in kinds:
        for name in dict.fromkeys(name for column in columns for name in column):
            rows.append((label.format(name), *(cell(one[name]) if name in one else "" for one in columns)))
    return ("", *shown), rows


def _windows(one: dict[str, float]) -> str:
    return f"{one['median']:.4g}; {one['worst']:.4g} at {one['worst_at_s']:g} s"


def _nis(one: dict[str, float]) -> str:
    return f"{one['mean']:.3f} ({one['low']:.3f} to {one['high']:.3f})"


def _nees(one: dict[str, float]) -> str:
    shares = f"{100 * one['inside']:.0f} % in, {100 * one['above']:.0f} above"
    return f"{one['mean']:.3g} ({one['low']:.3g} to {one['high']:.3g}: {shares})"


def report(
    found: dict[str, Replayed],
    shown: dict[str, Any],
    passes: dict[str, SmoothedRecord],
    truth: Mapping[str, np.ndarray],
) -> Report:
    """Exit code 1 where a replay is not what was recorded."""
    run, same = found[AS_RECORDED].run, shown[AS_RECORDED]["identical"]
    if imported := is_imported(found):
        figures = found[AS_RECORDED].figures
        speed = shown[AS_RECORDED]["real_time_factor"]
        what = [f"{figures['simulated_s']:.4g} s of an imported record, {speed:.0f} times real time"]
        what += [f"{q} is {supported(share)}" for q, share in shown[AS_RECORDED]["supported"].items()]
        if figures["diverged"]:
            what.append("DIVERGED")
        headline = "; ".join(what) + "."
    else:
        headline = f"{AS_RECORDED}: {'identical to the record, to the bit' if same else 'NOT what was recorded'}."
    code = int(found[AS_RECORDED].figures["diverged"]) if imported else int(not same)
    sections = [Section("Figures", [Table(*_rows(shown))])]
    if beside := shown[AS_RECORDED].get("truth"):
        sections.append(truth_section(beside))
    sections += _pictures(found, passes, truth)
    return Report(f"tandem observe {run.path.parent.name}", headline, shown, sections, code=code)


def _pictures(
    found: dict[str, Replayed], passes: dict[str, SmoothedRecord], truth: Mapping[str, np.ndarray]
) -> list[Section]:
    out = []
    first = found[AS_RECORDED]
    seconds = (first.instants - first.instants[0]) * 1e-9 if len(first.results) else np.zeros(0)
    for q in first.model.outputs:
        if q.name.startswith(SIGMA):
            name = q.name.removeprefix(SIGMA)
            what = name if name in first.columns() else ESTIMATED + name
            series = [
                Series(label, (done.instants - done.instants[0]) * 1e-9, done.columns()[what])
                for label, done in found.items() if len(done.results) and what in done.columns()
            ]  # fmt: skip
            series += [
                Series(f"{label}, smoothed", seconds[one.steps], one.smoothed[what])
                for label, one in passes.items() if what in one.smoothed
            ]  # fmt: skip
            if what in truth:
                series.append(Series("truth", seconds, truth[what]))
            if series:
                out.append(Section(name, [curves(f"{name} over time, s", series)], key=name))
    return out
