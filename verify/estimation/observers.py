"""The filter of the car against what is promised of it.

Three experiments of configs/observers/buggy.toml, each over the same random drives:

    wrong    the truth is 10 % heavier, with 20 % less friction and biased sensors: exact form, and on some drives the
             constant one, whose lost steps cost most of the time
    true     the truth is what the filter believes, moved at random as it believes: exact form
    beside   the first seconds of some drives, the outage in them, wrong parameters: exact, constant and unscented form

Every drive of every experiment is a task of its own, the longest first, on as many processes as asked for. It is
written to the results' folder when it is done; asked again, it goes on with those that are missing, or that other code
or another study made. `--minutes` begins no task after so long. What is left is reported as it goes on, with the time
that it will take by what tasks of its kind took.
"""

import hashlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal

import numba
import numpy as np

from verify import CONFIGS, ROOT
from verify.measure import NotHere, Row, note

STUDY = CONFIGS / "observers" / "buggy.toml"
DRIVEN = 4.0  # m/s2: friction is to be known after so much driving
DRIVEN_S = 20.0
FRICTION = 0.1  # of the true one
POSITION, AT_END, SIDESLIP, LOADS = 0.5, 3.0, 0.2, 0.05  # m, m, degrees, share
INSIDE = 0.9  # of the time, of normalised errors with the true model
SLIDES = 0.01  # of the time: a drive in which tyres slide
LOAD_NAMES = ("load_fl", "load_fr", "load_rl", "load_rr")
FORMS = {"wrong": ("exact", "constant"), "true": ("exact",), "beside": ("exact", "constant", "unscented")}
# what a drive's figures follow from
SOURCES = (
    "sync/**/*.py",
    "sim_service/**/*.py",
    "tandem/machines/observer/studies/*.py",
    "verify/estimation/observers.py",
    "configs/**/*.*",
)
# s of one core for a minute of driving (measured on aarch64, quiet): which task is long
GUESSED = {"exact": 7.0, "constant": 250.0, "unscented": 700.0}


def fingerprint() -> str:
    """A fingerprint of the code and configurations that the results depend on."""
    found = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for file in sorted(file for pattern in SOURCES for file in ROOT.glob(pattern)):
        found.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return found.hexdigest()


@lru_cache(maxsize=3)
def _setup(experiment: str, seconds: float) -> Any:
    from tandem.machines.observer.studies import twin
    from tandem.machines.observer.studies.settings import TruthOf, read_study

    study = read_study(STUDY)
    changed: dict[str, Any] = {"seconds": seconds} if experiment == "beside" else {}
    if experiment == "beside":
        changed["settle_s"] = 4.0
    if experiment == "true":
        changed["truth"] = TruthOf(noise=True)
    return twin.prepare(study.model_copy(update=changed), STUDY)


def drive(experiment: str, seed: int, seconds: float, forms: tuple[str, ...]) -> dict[str, Any]:
    """One drive with these forms of the filter: squares of errors, normalised errors, what was estimated."""
    from sim_service.contract.machine import index
    from tandem.machines.observer.studies import twin

    setup = _setup(experiment, seconds)
    truth, state = twin.run_truth(setup, seed)
    outputs = setup.truth.observed.machine.outputs
    ax, ay = (truth.seen.outputs[:, index(outputs, name)] for name in ("ax", "ay"))
    driven = np.cumsum(np.hypot(ax, ay) >= DRIVEN) * setup.h
    found: dict[str, Any] = {
        "driven_s": float(driven[-1]), "most": float(np.hypot(ax, ay).max()),
        "rough": float(np.mean(truth.seen.outputs[:, index(outputs, "parts")] != 0.0)), "forms": {},
    }  # fmt: skip
    parts = twin.parts_of_time(setup)
    outside, inside = parts["without outage"], parts["outage"]
    for form in forms:
        outcome = twin.Outcome()
        done = twin.observe(setup, form, seed, truth, state, outcome)
        e = done["errors"]
        away = np.hypot(e["x"], e["y"])
        one: dict[str, Any] = {
            "sideslip": _rms(e["sideslip"][outside]), "position": _rms(away[outside]),
            "loads": [_rms(e[name][outside]) for name in LOAD_NAMES],
            "at_outage_end": float(away[np.flatnonzero(inside)[-1]]) if inside.any() else None,
            "nees": np.asarray(outcome.nees)[0].tolist(), "nis": np.asarray(outcome.nis)[0].tolist(),
            "counters": np.asarray(outcome.counters).tolist(), "step_us": outcome.step_us[0],
            "quantities": np.asarray(outcome.quantities)[0].tolist(),
        }  # fmt: skip
        late = np.flatnonzero(driven >= DRIVEN_S)
        if len(late):
            first = -(-int(late[0]) // truth.every)
            grip = setup.study.filter.estimated.index("grip")
            share = np.abs(done["quantities"][first:, grip] - setup.quantities[grip]) / setup.quantities[grip]
            one["friction"] = {"from_s": float(late[0] * setup.h), "worst": float(share.max()), "rms": _rms(share)}
        found["forms"][form] = one
    return found


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def forms_of(experiment: str, seed: int, constant: int) -> tuple[str, ...]:
    return FORMS[experiment] if experiment != "wrong" or seed < constant else ("exact",)


def _task(experiment: str, seed: int, seconds: float, forms: tuple[str, ...], stamp: str, file: str) -> float:
    began = time.thread_time()
    found = drive(experiment, seed, seconds, forms) | {"made_by": stamp}
    if fingerprint() != stamp:
        raise SystemExit("code or configurations were edited meanwhile: nothing of this can be kept")
    Path(file + ".part").write_text(json.dumps(found))
    Path(file + ".part").replace(file)
    return time.thread_time() - began


def _is_done(file: Path, stamp: str, forms: tuple[str, ...]) -> bool:
    try:
        found = json.loads(file.read_text())
        return bool(found["made_by"] == stamp and set(forms) <= set(found["forms"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False


class Progress:
    """What was done, and how long the rest will take: by what tasks of the same kind took, else as guessed."""

    def __init__(self, tasks: dict[tuple[str, int], tuple[str, ...]], seconds: float, processes: int):
        self._left, self._seconds, self._processes = dict(tasks), seconds, processes
        self._took: dict[tuple[str, tuple[str, ...]], list[float]] = {}
        self._began, self._count = time.monotonic(), len(tasks)

    def cost(self, task: tuple[str, int]) -> float:
        took = self._took.get((task[0], self._left[task]))
        driven = self._seconds if task[0] == "beside" else 60.0
        return float(np.mean(took)) if took else sum(GUESSED[form] for form in self._left[task]) * driven / 60.0

    def longest_first(self) -> list[tuple[str, int]]:
        return sorted(self._left, key=lambda task: (-self.cost(task), task))

    def done(self, task: tuple[str, int], took: float) -> str:
        self._took.setdefault((task[0], self._left[task]), []).append(took)
        del self._left[task]
        left = sum(self.cost(one) for one in self._left) / self._processes
        return (
            f"{self._count - len(self._left)} of {self._count}: {task[0]} {task[1]} took {took:.0f} s of a core; "
            f"{(time.monotonic() - self._began) / 60:.1f} minutes so far, about {left / 60:.1f} to go"
        )


class Table:
    """The rows, and what is before each."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def line(self, what: str, value: str, bound: str = "", holds: bool | None = None) -> None:
        self.rows.append(Row(what.strip(), value, "", bound, holds))


def _pooled(rows: list[Any], key: str) -> tuple[float, float]:
    values = np.array([row[key] for row in rows], float)
    return _rms(values), float(values.max())


def show_wrong(table: Table, drives: list[dict[str, Any]]) -> None:
    table.line("wrong parameters (rms over all drives; worst drive)", f"{len(drives)} drives")
    exact = [d["forms"]["exact"] for d in drives]
    driven = [d["driven_s"] for d in drives]
    table.line(f"time at {DRIVEN:g} m/s2 and above, s", f"{min(driven):.1f} to {max(driven):.1f}")
    table.line("rough steps (tyres slide), worst drive", f"{100 * max(d['rough'] for d in drives):.1f} %")
    for key, label, unit, bound in (
        ("sideslip", "side-slip outside the outage", "deg", SIDESLIP),
        ("position", "position outside the outage", "m", POSITION),
        ("at_outage_end", "position at the end of the outage", "m", AT_END),
    ):
        mean, worst = _pooled(exact, key)
        table.line(label, f"{mean:.3f}; {worst:.3f} {unit}", f"<= {bound:g} {unit}", worst <= bound)
    loads = np.array([one["loads"] for one in exact])
    worst = float(loads.max())
    table.line("wheel loads", f"{100 * _rms(loads):.2f}; {100 * worst:.2f} %", f"<= {100 * LOADS:g} %", worst <= LOADS)
    friction = [one.get("friction") for one in exact]
    if all(friction):
        shares = [f["worst"] for f in friction]
        table.line(
            f"friction, at any time after {DRIVEN_S:g} s at {DRIVEN:g} m/s2",
            f"{100 * _rms(np.array(shares)):.2f}; {100 * max(shares):.2f} %", f"<= {100 * FRICTION:g} %",
            max(shares) <= FRICTION,
        )  # fmt: skip
    else:
        table.line("friction", f"{sum(f is None for f in friction)} drives without {DRIVEN_S:g} s", "", False)
    show_nees(table, drives, "exact", below_alone=True)
    show_nis(table, drives, "exact")
    for label, some in (
        ("without sliding", [d for d in drives if d["rough"] < SLIDES]),
        ("that slide", [d for d in drives if d["rough"] >= SLIDES]),
    ):
        ones = [d["forms"]["exact"] for d in some]
        if ones:
            slip = _pooled(ones, "sideslip")
            shares = [one["friction"]["worst"] for one in ones if "friction" in one]
            nees = np.mean([one["nees"] for one in ones], axis=0)[80:]
            table.line(
                f"  {len(ones)} drives {label}: side-slip; friction, worst; NEES, most",
                f"{slip[0]:.3f}; {slip[1]:.3f} deg; {100 * max(shares, default=np.nan):.2f} %; {nees.max():.1f}",
            )
    both = [d["forms"] for d in drives if "constant" in d["forms"]]
    if not both:
        return
    exact, constant = ([forms[form] for forms in both] for form in ("exact", "constant"))
    table.line("of these with the constant transition too", f"{len(both)} drives")
    for key in ("sideslip", "position"):
        ours, theirs = _pooled(exact, key)[0], _pooled(constant, key)[0]
        table.line(f"{key}: exact; constant transition", f"{ours:.3f}; {theirs:.3f}", "exact better", ours < theirs)
    ours, theirs = (_rms(np.array([one["loads"] for one in some])) for some in (exact, constant))
    table.line("loads: exact; constant", f"{100 * ours:.2f}; {100 * theirs:.2f} %", "exact better", ours < theirs)


def show_nees(table: Table, drives: list[dict[str, Any]], form: str, below_alone: bool) -> None:
    from tandem.estimation.consistency import mean_band

    setup = _setup("wrong", 0.0)
    order = len(setup.tuning.start)
    low, high = mean_band(order, len(drives))
    mean = np.mean([d["forms"][form]["nees"] for d in drives], axis=0)
    late = mean[round(setup.study.settle_s / setup.h / 20) :]
    inside, below, above = np.mean((late > low) & (late < high)), np.mean(late <= low), np.mean(late >= high)
    shares = f"{100 * inside:.1f} % in, {100 * below:.1f} below, {100 * above:.1f} above"
    if below_alone:
        table.line(f"NEES of {order} states, mean of the drives, then of time", f"{late.mean():.1f}; at most "
                   f"{late.max():.1f}", f"< {high:.1f}", bool(late.max() < high))  # fmt: skip
        table.line(f"  of its band {low:.1f} to {high:.1f}", shares)
    else:
        table.line(f"NEES of {order} states, mean of the drives, then of time", f"{late.mean():.1f}",
                   f"{low:.1f} to {high:.1f}")  # fmt: skip
        table.line("  inside that band (two-sided, 95 %)", shares, f">= {100 * INSIDE:g} %", bool(inside >= INSIDE))


def show_nis(table: Table, drives: list[dict[str, Any]], form: str) -> None:
    names = _setup("wrong", 0.0).sensors.names
    nis = np.nanmean(np.array([d["forms"][form]["nis"] for d in drives], float), axis=0)
    counted = np.sum([d["forms"][form]["counters"] for d in drives], axis=0)
    for name, value, count in zip(names, nis, counted, strict=True):
        table.line(f"NIS of {name}: mean; used, gated", f"{value:.2f}; {count[0]:.0f}, {count[1]:.0f}")


def show_beside(table: Table, drives: list[dict[str, Any]], seconds: float) -> None:
    table.line(f"forms beside each other, {seconds:g} s, after 4 s", f"{len(drives)} drives")
    figures = {}
    for form in FORMS["beside"]:
        some = [d["forms"][form] for d in drives]
        loads = _rms(np.array([one["loads"] for one in some]))
        figures[form] = _pooled(some, "sideslip")[0], loads, _pooled(some, "position")[0]
        nees = np.mean([np.mean(one["nees"][40:]) for one in some])
        table.line(
            form,
            f"{figures[form][0]:.3f} deg; {100 * loads:.2f} %; {figures[form][2]:.3f} m; NEES {nees:.0f}",
        )
    better = all(a < b for a, b in zip(figures["exact"], figures["constant"], strict=True))
    table.line("exact better than constant in all three", "", "", better)


def observers(
    *,
    drives: int = 20,
    constant: Annotated[int, "drives with the constant form beside the exact one"] = 4,
    beside: Annotated[int, "drives with the unscented form beside the others"] = 2,
    seconds: Annotated[float, "of those, s; minutes each. The outage is in it"] = 32.0,
    results: Annotated[Path, "folder of what is done"] = ROOT / "runs" / "observers",
    processes: int = 2,
    only: Annotated[Literal["wrong", "true", "beside"] | None, "one experiment"] = None,
    minutes: Annotated[float, "begin no task after so long"] = float("inf"),
) -> Iterator[Row]:
    results.mkdir(parents=True, exist_ok=True)
    count = {"wrong": drives, "true": drives, "beside": beside}
    wanted = [only] if only else list(FORMS)
    files = {
        (e, seed): results / (f"{e}_{seed}.json" if e != "beside" else f"{e}_{seconds:g}s_{seed}.json")
        for e in wanted for seed in range(count[e])
    }  # fmt: skip
    stamp, forms = fingerprint(), {task: forms_of(*task, constant) for task in files}
    progress = Progress(
        {task: forms[task] for task, file in files.items() if not _is_done(file, stamp, forms[task])},
        seconds, processes,
    )  # fmt: skip
    left, end = progress.longest_first(), time.monotonic() + 60.0 * minutes
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        jobs: dict[Any, tuple[str, int]] = {}
        while jobs or (left and time.monotonic() < end):
            while left and len(jobs) < processes and time.monotonic() < end:
                task = left.pop(0)
                jobs[pool.submit(_task, *task, seconds, forms[task], stamp, str(files[task]))] = task
            for job in wait(jobs, return_when=FIRST_COMPLETED).done:
                note(progress.done(jobs.pop(job), job.result()))
    if left:
        raise NotHere(f"{len(left)} drives are left; the same command goes on with them")
    found = {e: [json.loads(files[e, seed].read_text()) for seed in range(count[e])] for e in wanted}
    table = Table()
    if found.get("wrong"):
        show_wrong(table, found["wrong"])
    if found.get("true"):
        table.line("true model", f"{len(found['true'])} drives")
        show_nees(table, found["true"], "exact", below_alone=False)
        show_nis(table, found["true"], "exact")
    if found.get("beside"):
        show_beside(table, found["beside"], seconds)
    yield from table.rows
