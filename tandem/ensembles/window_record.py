"""A window of a study as a run of its own: to be watched, replayed bit by bit, and passed on as evidence.

Its blocks are the inputs of the window as counts, its configuration has the measured start and the parameters, its
steps are what the machine makes of them, and what was measured stands beside them.
"""

import json
from pathlib import Path

import numpy as np

from sim_service.registry import FILE, make_machine
from sync.config.config import Config
from sync.config.toml import check, parse_toml
from sync.files.private import make_folder
from sync.record import CompleteRun, CompleteTopic, write_complete
from sync.record.measured import MEASURED
from sync.record.utc import wall_clock
from sync.ring.block import Channel, Layout
from tandem.ensembles.identification import Problem
from tandem.records.provenance import as_text, parameters_json, start_facts
from tandem.records.replay import Options, replay_run
from tandem.records.replay_save import saved_run

_COUNTS = float(1 << 30)  # of full scale
_ZERO_NS = 1_000_000_000
_ROW = """
[[daq.channels]]
name = "{name}"
type = "i4"
[inputs.{name}]
kind = "affine"
channel = "{name}"
unit = "{unit}"
full_counts = {counts!r}
full = {full!r}
to = ["{name}"]
stale = {{ hold_ms = 100.0, ramp_ms = 0.0, safe = 0.0 }}
"""


def write_window(problem: Problem, case: int, folder: Path) -> Path:
    """The run in `folder`/blocks, and with its steps in `folder`; returns that. Raises TandemError."""
    window, step_ns = problem.windows[case], round(1e6 * problem.study.step_ms)
    used = [(k, q) for k, q in enumerate(problem.machine.inputs) if np.isfinite(window.rows[:, k]).all()]
    full = {q.name: max(float(np.abs(window.rows[:, k]).max()), 1e-6) for k, q in used}
    text = _config(problem, case, full)
    config = check(Config, parse_toml(text.encode(), "window.toml"), "window.toml")
    instants = _ZERO_NS + step_ns * np.arange(len(window.rows), dtype=np.int64)
    layout = config.daq.layout
    words = np.zeros((len(instants), layout.words), np.int64)
    blocks = layout.view(words)
    blocks["seq"], blocks["t_ns"], blocks["pushed_ns"] = np.arange(len(words)), instants, instants
    for k, quantity in used:
        blocks[quantity.name] = np.rint(window.rows[:, k] / full[quantity.name] * _COUNTS)
    machine, params = make_machine(problem.job.sources, dict(problem.job.study["set"]))
    attached = {
        "config.json": as_text(config.model_dump(mode="json")), "config.toml": text.encode(),
        "parameters.json": parameters_json(machine, params), **problem.job.sources.files,
    }  # fmt: skip
    facts = {**start_facts(config), "utc": wall_clock(), "window": str(window)}
    topics = {
        "/daq": CompleteTopic(layout, words, np.arange(len(words))),
        MEASURED: _measured(problem, case, instants),
    }
    ended = int(instants[-1]) + step_ns
    make_folder(folder / "blocks")
    run = CompleteRun(facts, attached, topics, _ZERO_NS, ended, f"window of {window.record}", {})
    write_complete(folder / "blocks", run)
    done = replay_run(folder / "blocks", Options("ideal"))
    with_steps, saved = saved_run(done)
    saved = {**saved, MEASURED: topics[MEASURED]}
    write_complete(folder, CompleteRun(facts, with_steps, saved, _ZERO_NS, ended, run.reason, done.figures))
    return folder


def _config(problem: Problem, case: int, full: dict[str, float]) -> str:
    study, window = problem.study, problem.windows[case]
    units = {q.name: q.unit for q in problem.machine.inputs}
    rows = "".join(_ROW.format(name=n, unit=units[n], counts=_COUNTS, full=value) for n, value in full.items())
    plain = problem.job.sources.toml() == {"machine": study.machine}
    named = json.dumps(study.machine if plain else FILE)
    changed, start = (
        "".join(f"{key} = {float(value)!r}\n" for key, value in values.items())
        for values in (problem.job.study["set"], window.start)
    )
    return (
        f'name = "{study.name[:50]}"\n[daq]\nrate_hz = {1e3 / study.step_ms!r}\n[source]\nkind = "waves"\n{rows}'
        f"[sim]\nstep_ms = {study.step_ms!r}\nstale_after_ms = 10000.0\nmachine = {named}\n"
        f"[sim.parameters]\n{changed}[sim.start]\n{start}"
    )


def _measured(problem: Problem, case: int, instants: np.ndarray) -> CompleteTopic:
    """As sync/record has measured channels: what was said of the machine, at its own instants."""
    window, units = problem.windows[case], {q.name: q.unit for q in problem.machine.outputs}
    layout = Layout(tuple(Channel(name, "f8", units[name]) for name in window.measured))
    words = np.zeros((len(instants), layout.words), np.int64)
    blocks = layout.view(words)
    at = instants + round(1e6 * problem.study.step_ms)  # outputs are those at the end of a step
    blocks["seq"], blocks["t_ns"], blocks["pushed_ns"] = np.arange(len(words)), at, at
    for name, values in window.measured.items():
        blocks[name] = values
    return CompleteTopic(layout, words, np.arange(len(words)))
