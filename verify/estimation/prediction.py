"""What the look ahead promises, measured: its warnings, its cost, what the loop notices of it, its replay.

`warnings` asks the look ahead every 50 ms, as the process does; a prediction counts as there 25 ms after the step it
begins with (a step of the loop, and 20 ms for the future).
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sim_service.look_ahead import record
from sim_service.look_ahead.hindsight import Warnings
from sim_service.look_ahead.predict import Predictor
from sync.config.config import load
from verify import ROOT
from verify.estimation.prediction_drives import MANOEUVRES, Drive, H, buggy, limit_drive, normal_drive
from verify.measure import NotHere, Row, at_least, at_most, equal, figure, holds, note
from verify.real_runs import options, tandem

DRIVE = ROOT / "configs" / "drive.toml"
EVERY = 10  # steps from one prediction to the next
LATE_NS = 25_000_000
LEAD_S, SHARE, COST_MS = 0.5, 0.9, 20.0  # what is promised


Set = Annotated[tuple[str, ...], "KEY=VALUE: override a setting"]


def _predictor(settings: Sequence[str]) -> tuple[Predictor, Any, np.ndarray]:
    machine, params = buggy()
    return Predictor(load(DRIVE, ["look_ahead.enabled=true", *settings]), machine, params), machine, params


def _predictions(predictor: Predictor, drive: Drive, kind: int = record.HELD) -> Iterator[tuple[int, np.ndarray]]:
    block = np.zeros(record.LAYOUT.words, np.int64)
    for k in range(EVERY - 1, len(drive.outputs), EVERY):
        predictor.predict(kind, drive.states[k], drive.inputs[k], drive.outputs[k], drive.params, block)
        yield k, block


def _warned(predictor: Predictor, drive: Drive) -> Warnings:
    """Everything that happened in it, in order."""
    found = Warnings(round(1e9 * predictor.h * predictor.steps))
    for k, block in _predictions(predictor, drive):
        at_ns = round(1e9 * H * k) + LATE_NS
        found.until(at_ns)
        if block[record.AT_STATUS] & record.WARNING and (drive.lost < 0 or at_ns < 1e9 * H * drive.lost):
            found.warned(at_ns)
    end_ns = round(1e9 * H * (len(drive.outputs) - 1))
    if drive.lost >= 0:
        found.lost(end_ns)
    found.until(end_ns, ended=True)
    return found


def warnings(
    *,
    drives: int = 100,
    seed: Annotated[int, "of the first drive"] = 1,
    minutes: Annotated[float, "of normal and of brisk driving, each"] = 10.0,
    set: Set = (),
) -> Iterator[Row]:
    predictor, machine, params = _predictor(set)
    leads: dict[str, list[float]] = {name: [] for name in MANOEUVRES}
    near = near_warned = 0
    next_seed, begun = seed, time.monotonic()
    while sum(map(len, leads.values())) < drives:
        drive = limit_drive(machine, params, next_seed)
        next_seed += 1
        found = _warned(predictor, drive)
        if drive.lost < 0:  # not beyond the limit after all
            near, near_warned = near + 1, near_warned + bool(found.warnings)
            continue
        leads[drive.name.split()[0]].append(found.leads_s[0] if found.leads_s else 0.0)
        done = sum(map(len, leads.values()))
        if done % 10 == 0:
            note(f"{done} of {drives} drives, {time.monotonic() - begun:.0f} s")
    every = np.array([lead for each in leads.values() for lead in each])
    what = f"{len(every)} drives to the loss of control"
    yield at_least(f"{what}: warned {LEAD_S} s before or earlier", float(np.mean(every >= LEAD_S)), SHARE)
    yield figure(f"{what}: not warned at all", int(np.sum(every <= 0.0)))
    yield figure("lead, median", np.median(every), "s")
    yield figure("lead, tenth percentile", np.percentile(every, 10), "s")
    for name, each in leads.items():
        if each:
            yield figure(f"{name}: {len(each)}, of these in time", np.mean(np.array(each) >= LEAD_S))
    yield figure(f"with a warning, of {near} that came near it", near_warned)
    for name, bend in (("normal", 0.5), ("brisk", 0.75)):
        driven, alarms, lost = 0.0, 0, 0
        for n in range(max(round(minutes), 1)):
            drive = normal_drive(machine, params, seed + n, 60.0, bend)
            driven += len(drive.outputs) * H / 60.0
            alarms += _warned(predictor, drive).false_alarms
            lost += drive.lost >= 0
        yield figure(f"false alarms, {name} driving (up to {100 * bend:.0f} % of the grip)", alarms / driven, "1/min")
        yield figure(f"{name} drives that lost control", lost)


def cost(*, drives: int = 10, seed: Annotated[int, "of the first drive"] = 1, set: Set = ()) -> Iterator[Row]:
    predictor, machine, params = _predictor(set)
    took: dict[str, list[tuple[float, float]]] = {"normal": [], "to the limit": []}  # of its core, by the clock; ms
    for n in range(drives):
        for name, drive in (
            ("normal", normal_drive(machine, params, seed + n, 10.0)),
            ("to the limit", limit_drive(machine, params, seed + n)),
        ):
            begun = time.thread_time(), time.perf_counter()
            for _ in _predictions(predictor, drive):
                now = time.thread_time(), time.perf_counter()
                took[name].append((1e3 * (now[0] - begun[0]), 1e3 * (now[1] - begun[1])))
                begun = now
    for name, each in took.items():
        for which, values in zip(("of its core", "by the clock"), np.array(each).T, strict=True):
            what, within = f"a future, {name}, {which}", float(np.mean(values <= COST_MS))
            for shown, q in (("median", 50), ("p99", 99), ("longest", 100)):
                yield figure(f"{what}: {shown}", np.percentile(values, q), "ms")
            judged = at_least if which == "of its core" else lambda text, value, _: figure(text, value)
            yield judged(f"{what}: share within {COST_MS:g} ms", within, SHARE)


def loop(*, repetitions: int = 6, seconds: float = 20.0, set: Set = ()) -> Iterator[Row]:
    found: dict[bool, list[float]] = {False: [], True: []}
    for repetition in range(repetitions):
        for ahead in (False, True) if repetition % 2 == 0 else (True, False):
            name = f'name="ahead_check_{os.getpid()}"'
            settings = [f"look_ahead.enabled={str(ahead).lower()}", "view.enabled=false", name, *set]
            figures = tandem("drive", str(DRIVE), "--seconds", str(seconds), "--no-record", *options(settings))
            late = figures["lateness_us"]
            found[ahead].append(late["p999"])
            note(
                f"{repetition + 1}/{repetitions} {'with' if ahead else 'without'}: lateness p50 {late['p50']:.1f}, p99"
                f" {late['p99']:.1f}, p99.9 {late['p999']:.1f} us, {figures['deadline_misses']} misses"
            )
    medians = {ahead: float(np.median(each)) for ahead, each in found.items()}
    spread = max(found[False]) - min(found[False])
    yield figure(f"lateness p99.9 without, median of {repetitions}", medians[False], "us")
    yield figure("lateness p99.9 with", medians[True], "us")
    yield at_most("more with it, beside the spread without it", medians[True] - medians[False], spread, "us")


def replay(*, run: Annotated[Path, "a recorded run with predictions"]) -> Iterator[Row]:
    from tandem.records.replay import Options, replay_run

    figures = replay_run(run, Options(predictions=sys.maxsize)).figures
    if not figures["look_ahead"]:
        raise NotHere(f"{run}: has no predictions")
    yield holds("steps identical", figures["identical"])
    yield equal(
        f"predictions that differ, of {figures['look_ahead']['compared']}", figures["look_ahead"]["differing"], 0
    )
