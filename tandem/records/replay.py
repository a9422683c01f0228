"""`tandem replay`: a recorded run again, as it was, or as it would have been.

exact     every step gets the block it used live, and must give the same bits.
ideal     every step gets the newest block by sample instant, as if there were no transport: what latency cost.
--delay-ms, --jitter-ms   ideal, but a block comes only so long after its sampling: what milliseconds cost in metres.

Times of steps are those of the record; a record without steps (an imported one) gets a step every `sim.step_ms`. An
ideal replay may be of a part of the record, and may begin in the motion that was measured there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim_service import replay as replay_flags
from sim_service import step_record
from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.command_record import RESET
from sim_service.commands import checked_commands
from sim_service.contract.machine import STEP, Machine, Quantity
from sim_service.contract.recorded_parameters import recorded_machine, words_of
from sim_service.contract.start import startable
from sim_service.contract.step_channels import STEP_CHANNELS
from sim_service.many_steps import for_many_steps
from sim_service.registry import (
    FILE,
    MachineFiles,
    check_step,
    configured,
    named_for,
    recorded,
    sim_files,
    started,
)
from sim_service.replay import Plan, as_available, as_recorded, obeyed_as_recorded, obeyed_by_time, replay
from sim_service.simulation import Simulation
from sim_service.step_kernel import DIVERGED
from sim_service.step_record import output_layout
from sync.clock import now_ns, sleep_until
from sync.compile.jit import kernel
from sync.config.config import Config, assembled, load
from sync.config.toml import check
from sync.errors import ConfigError, Diverged
from sync.record import Run, RunError, Topic, measured, open_run
from sync.record.settings import recorded_parameters
from sync.ring.memory import refuse_too_large
from sync.ring.ring import RingWriter, push
from sync.ring.streams import LOOK_AHEAD
from tandem.console.compiled import compile_machine, recorded_names
from tandem.records import replay_predictions
from tandem.records.provenance import other_facts
from tandem.records.replay_efforts import efforts_again, in_words
from tandem.records.replay_predictions import PredictionsAgain
from tandem.reports.beside_measured import HEADINGS, beside_measured, rows_of
from tandem.reports.deviation import deviation, sentence
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.words import Raw
from tandem.reports.outcome import DAMAGED
from tandem.reports.report import Line, Report, Section, Table, bad, warn

MODES = ("exact", "ideal")
_MOST_DELAY_MS = 3.6e6  # an hour
_PARAMETERS = {"recorded": "of the record", "made here": "made here, not those of the record"}
_MOST_STEPS = 20_000_000  # a day at 5 ms
_NEEDED = ("step", "status", "taken_ns", "input_seq", "input_epoch", "input_received_ns", "input_age_ns")  # of a step


@dataclass
class Options:
    """What the command line asks for."""

    mode: str = "exact"
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    seed: int = 1
    speed: float | None = None  # None: as fast as it goes
    config: Path | None = None
    overrides: list[str] = field(default_factory=list)
    halved: bool = False  # each step also in two halves, extrapolated
    predictions: int = 100  # of the record, at most so many computed again, evenly spread: each takes some ms
    remake: bool = False  # make the vector of parameters here even if the record has it
    from_s: float | None = None  # since the first step or, in a record without steps, the first block
    to_s: float | None = None
    moving: bool = False  # it begins as its measured channels say at that instant

    @property
    def changed(self) -> bool:
        return self.config is not None or bool(self.overrides)


@dataclass
class Replayed:
    run: Run
    config: Config
    model: Machine
    params: np.ndarray
    plan: Plan
    results: np.ndarray
    reported: np.ndarray  # what each step reported, as in sim_service/replay.py
    instants: np.ndarray  # of the steps
    figures: dict[str, Any]
    files: dict[str, bytes]  # what the model is made from, by the names in a record
    parts: Any = None  # what `stepped` returns about its steps

    def columns(self) -> dict[str, np.ndarray]:
        return named(self.model, self.results)


Progress = Callable[[str, float], None]


def named(model: Machine, results: np.ndarray) -> dict[str, np.ndarray]:
    return {q.name: results[:, i] for i, q in enumerate((*model.inputs, *model.outputs))}


def configuration(run: Run, options: Options) -> tuple[Config, Machine, np.ndarray]:
    """The configuration of the record, or of another file, with what the command line sets; and its model."""
    config, _, model, params = _build(run, options)
    check_step(config, model, str(options.config or run.path))
    return config, *(_recorded(run, options, model, params) or (model, params))


def _recorded(run: Run, options: Options, model: Machine, params: np.ndarray) -> tuple[Machine, np.ndarray] | None:
    """The model with the recorded words, if nothing was changed and it has the same layout here."""
    if options.changed or options.remake:
        return None
    return recorded_machine(model, params, run.json("parameters.json").get("made"))


def _build(run: Run, options: Options) -> tuple[Config, MachineFiles, Machine, np.ndarray]:
    config, sources = _sources(run, options)
    compile_machine(*recorded_names(sources))
    return (config, sources, *started(sources, config))


def _sources(run: Run, options: Options) -> tuple[Config, MachineFiles]:
    """What the model is made from: the record's own files, or those that are asked for in their place."""
    if options.config is not None:
        config = load(options.config, options.overrides)
        return config, configured(config, options.config.parent)
    where = f"{run.path} (config.json)"
    if not (settings := run.json("config.json")):
        raise RunError(f"{run.path}: holds no configuration; give one after it")
    was = check(Config, settings, where)
    # it contains its fragments already, whatever has become of their files; new ones override it
    config = assembled(settings, [], options.overrides, Path(), where, carries=True)
    own, there, then = recorded(run.attachments, str(run.path)), sim_files(config), sim_files(was)
    others = [key for key in {**then, **there} if then.get(key) != there.get(key)]
    same = [key for key in there if key not in others]
    for key in same:
        if not named_for(key, own.files):
            raise RunError(
                f"{run.path}: the files of its {key} {there[key]} are missing; give a configuration after it"
            )
    if config.sim.machine == was.sim.machine:
        try:
            recorded_names(own)
        except ConfigError:
            raise RunError(f"{run.path}: its {FILE} is missing or damaged; give a configuration after it") from None
        if not any(key in there for key in others):
            return config, own.with_files(others, MachineFiles({}, {}))
    # read files that are asked for, and those that they name, as for a configuration; the rest is from the record
    today = configured(assembled(run.json("config.json"), [], options.overrides, Path(), where), Path())
    return config, own.with_files(others, today) if config.sim.machine == was.sim.machine else today.with_files(
        same, own
    )


def _same_layout(run: Run, topic: Topic, config: Config) -> None:
    if topic.layout != config.daq.layout:
        raise RunError(
            f"{run.path}: {topic.name} holds {topic.layout.text}, the configuration expects {config.daq.layout.text};"
            " replay it with the channels it was recorded with"
        )


@dataclass
class Watch:
    """Callbacks that see the model itself during a replay: called every so many steps, with how many are done."""

    every: Callable[[int, Machine], int]  # how often, for so many steps of this model
    observe: Callable[[int, Simulation], None]


@kernel(STEP)
def _no_step(state, inputs, params, tables, work, h):
    """Does nothing, so that inputs stay as they are."""


def _silent(model: Machine) -> Machine:
    """A machine with the same inputs and parameters that does nothing."""
    nothing = (Quantity("nothing", "1", ""),)
    return Machine("nothing", model.inputs, nothing, nothing, model.parameters, _no_step)


@dataclass(frozen=True)
class Inputs:
    """The inputs of all steps of a replay, before any step is made."""

    run: Run
    config: Config
    model: Machine
    params: np.ndarray
    instants: np.ndarray
    epochs: np.ndarray  # of each step's block
    values: np.ndarray  # a row a step; NaN: no row of [inputs] gives it


def _inputs(
    run: Run, topic: Topic, config: Config, model: Machine, params: np.ndarray, plan: Plan, instants: np.ndarray
) -> Inputs:
    values = replay(Simulation(config, _silent(model), params.copy()), plan)[:, : len(model.inputs)]
    epochs = topic.blocks["epoch"][plan.which].astype(np.int64)
    return Inputs(run, config, model, params, instants, epochs, values)


def refuse_contradictions(options: Options) -> None:
    """Raises ConfigError for options that contradict each other."""
    if options.mode not in MODES:
        raise ConfigError(f"--mode {options.mode}: must be one of {', '.join(MODES)}")
    for key, value in (("--delay-ms", options.delay_ms), ("--jitter-ms", options.jitter_ms)):
        if not 0 <= value <= _MOST_DELAY_MS:
            raise ConfigError(f"{key} {value:g}: must be from 0 to {_MOST_DELAY_MS:.0f}")
        if value and options.mode == "exact":
            raise ConfigError(
                f"{key} {value:g}: the blocks of an exact replay are those of the record; use --mode ideal"
            )
    for key, chosen in (("--halved", options.halved), ("--moving", options.moving)):
        if options.mode == "exact" and chosen:
            raise ConfigError(f"{key}: an exact replay repeats the steps of the record; use --mode ideal")
    if options.mode == "exact" and (options.from_s, options.to_s) != (None, None):
        raise ConfigError("--from, --to: an exact replay needs every step from the first on; use --mode ideal")


def replay_run(
    path: Path, options: Options, progress: Progress = lambda *_: None, watch: Watch | None = None,
    stepped: Callable[[Inputs], tuple[slice, np.ndarray, Any]] | None = None,
) -> Replayed:  # fmt: skip
    """Replay a record. `stepped`, if given, makes the steps from all inputs at once; it returns which steps, their
    inputs and outputs, and something about them for `Replayed.parts`."""
    refuse_contradictions(options)
    begun = now_ns()
    run = open_run(path, progress=lambda share: progress("reading", share))
    read_ns = now_ns() - begun
    _known_steps(run)
    config, sources, here, here_params = _build(run, options)
    if options.moving:
        topic = run.need(run.source_topic)
        begun_ns = int(_instants(run, topic, config, options)[0][0])
        options = replace(options, overrides=[*options.overrides, _start(run, here, begun_ns)])
        config, sources, here, here_params = _build(run, options)
    as_then = _recorded(run, options, here, here_params)
    model, params = as_then or (here, here_params)
    if options.mode == "exact":
        topic = run.need(run.input_topic)
        plan = _exact_plan(run, topic, config)
        instants = run.need("/step").blocks["taken_ns"][plan.first : plan.first + len(plan)]
    else:
        topic = run.need(run.source_topic)
        _same_layout(run, topic, config)
        instants, first = _instants(run, topic, config, options)
        plan = _available(run, topic, instants, config, options.delay_ms, options.jitter_ms, options.seed, first)
    left_out = _command(plan, run, config, model, instants, options.changed)
    predictions = None
    as_it_was = options.mode == "exact" and not options.changed and options.speed is None
    if LOOK_AHEAD.topic in run.topics and as_it_was and watch is None:
        predictions = PredictionsAgain(run, config, model, params, plan, options.predictions)
        watch = Watch(predictions.every, predictions.compare)
    begun_steps, parts = now_ns(), None
    reported = np.zeros((len(plan), len(replay_flags.REPORTED)), np.int64)
    if stepped is None:
        quick = for_many_steps(model, len(plan), config.sim.code)
        results = _run_plan(Simulation(config, quick, params.copy()), plan, config, options, progress, watch, reported)
    else:
        inputs = _inputs(run, topic, config, model, params, plan, instants)
        begun_steps = now_ns()
        some, results, parts = stepped(inputs)
        instants = instants[some]
    times = {"wall_s": (now_ns() - begun) * 1e-9, "read_s": read_ns * 1e-9, "step_s": (now_ns() - begun_steps) * 1e-9}
    n = len(results)
    done = Replayed(run, config, model, params, plan, results, reported[:n], instants[:n], {}, sources.files, parts)
    done.figures = {
        **_figures(done, topic, options, times, len(results) < len(instants)),
        "commands_left_out": left_out,
        "parameters": "made here" if as_then is None else "recorded",
        "parameters_differ": int(
            np.count_nonzero(words_of(model, params).view(np.int64) != words_of(here, here_params).view(np.int64))
        ),
        "look_ahead": predictions.figures() if predictions is not None else None,
    }
    if options.mode == "ideal":
        done.figures["against"] = _against(done, topic, options)
    return done


def _figures(done: Replayed, topic: Topic, options: Options, times: dict[str, float], diverged: bool) -> dict[str, Any]:
    run, config, n = done.run, done.config, len(done.results)
    simulated_s = n * config.step_ns * 1e-9
    columns = done.columns()
    found = {
        "mode": options.mode,
        "run": str(run.path),
        "steps": n,
        "recorded_steps": len(run.topics["/step"]) if "/step" in run.topics else 0,
        # recorded steps of a simulator that had begun before the record
        "steps_before": done.plan.first if options.mode == "exact" else 0,
        "stopped": done.plan.stopped,
        "diverged": diverged,
        "diverged_steps": int(np.count_nonzero(done.reported[:, replay_flags.REPORTED.index(DIVERGED)])),
        "simulated_s": round(simulated_s, 6),
        **{name: round(seconds, 4) for name, seconds in times.items()},
        "real_time_factor": round(simulated_s / times["wall_s"], 1),
        "missing_blocks": topic.missing,
        "record_ended": run.ended,
        "record_damage": run.losses,
        "deleted": run.deleted.sentence(run.begun) if run.deleted else None,
        "delay_ms": options.delay_ms,
        "jitter_ms": options.jitter_ms,
        "other_facts": other_facts(run),
        **_compare(done),
        "efforts": efforts_again(run, config),
        "measured": beside_measured(measured(run), done.instants + config.step_ns, columns),
    }
    if "step_error" in columns and n:
        found["step_error"] = float(columns["step_error"].max()) or None  # zero throughout: it was not estimated
    return found


def _exact_plan(run: Run, topic: Topic, config: Config) -> Plan:
    """The steps and blocks of the record. Raises RunError if there is no step that can be replayed."""
    steps = run.need("/step").blocks
    _same_layout(run, topic, config)
    if config.step_ns != _recorded_step_ns(run):
        raise ConfigError(
            f"sim.step_ms = {config.sim.step_ms:g}: an exact replay has the record's steps of"
            f" {_recorded_step_ns(run) / 1e6:g} ms; use --mode ideal"
        )
    plan = as_recorded(steps, topic.blocks, topic.words, topic.begins)
    if len(plan) == 0:
        middle = run.deleted.sentence(run.begun) if run.deleted else "it begins in the middle of a run"
        raise RunError(
            f"{run.path}: {plan.stopped or f'{middle}, after the first step'}; an exact"
            " replay needs every step and block from the first on. --mode ideal does not"
        )
    return plan


def _known_steps(run: Run) -> None:
    """Steps must have the channels that a replay needs, with the types of this program."""
    topic = run.topics.get("/step")
    if topic is None or not len(topic):
        return
    types = {c.name: c.type for c in topic.layout.channels}
    wrong = [
        c.name for c in STEP_CHANNELS if types.get(c.name, "" if c.name in _NEEDED else c.type) != c.type
    ]  # fmt: skip
    if wrong or ("commands" in types) != ("command_epoch" in types):
        raise RunError(
            f"{run.path}: /step does not have {', '.join(wrong) or 'commands'} as this program does; use the version"
            f" that recorded it ({run.start.get('software', 'unknown')})"
        )


def _recorded_step_ns(run: Run) -> int:
    """The step of the simulator that made the record; 0 if it has no steps."""
    if "/step" not in run.topics or not len(run.topics["/step"]):
        return 0
    return check(Config, run.json("config.json"), f"{run.path} (config.json)").step_ns


def _instants(run: Run, topic: Topic, config: Config, options: Options) -> tuple[np.ndarray, int]:
    """The instants of the steps that are asked for, and how many steps of the record come before them."""
    every = _all_instants(run, topic, config)
    since = every - every[0]
    begin, end = (None if s is None else round(s * 1e9) for s in (options.from_s, options.to_s))
    first = 0 if begin is None else int(np.searchsorted(since, begin))
    last = len(every) if end is None else int(np.searchsorted(since, end))
    if last <= first:
        until = "its end" if end is None else f"{options.to_s:g} s"
        raise RunError(
            f"{run.path}: no step is from {options.from_s or 0:g} s to {until} (--from, --to); it has 0 to"
            f" {since[-1] * 1e-9:g} s"
        )
    return every[first:last], first


def _start(run: Run, model: Machine, t_ns: int) -> str:
    """The quantities by which the machine can begin in motion, as measured at that instant, in the form of --set."""
    known = startable(model)
    sensed = {name: each for name, each in measured(run).items() if name in known}
    values = {name: float(each.at(np.array([t_ns]))[0]) for name, each in sensed.items()}
    found = {name: value for name, value in values.items() if np.isfinite(value)}
    if not found:
        first = min((int(each.t_ns[0]) for each in sensed.values()), default=None)
        when = "" if first is None else f"; the first reading is {(first - t_ns) * 1e-9:g} s later (--from)"
        raise RunError(
            f"{run.path}: --moving: none of {', '.join(known)} is measured at the first step{when}; bring them along:"
            " tandem import --measured"
        )
    return f"sim.start={{{', '.join(f'{name} = {value!r}' for name, value in found.items())}}}"


def _all_instants(run: Run, topic: Topic, config: Config) -> np.ndarray:
    """The instants of all steps: those recorded; with another step, or without recorded steps, evenly spaced ones."""
    step_ns = _recorded_step_ns(run)
    t = topic.blocks["t_ns"]
    if step_ns:
        t = np.maximum.accumulate(run.topics["/step"].blocks["taken_ns"])
        if step_ns == config.step_ns:
            return t
    seconds = (int(t[-1]) - int(t[0])) * 1e-9
    if seconds * 1e9 > _MOST_STEPS * config.step_ns:
        raise RunError(
            f"{run.path}: its instants span {seconds:.3g} s, too long for a replay: at most {_MOST_STEPS} steps of"
            f" {config.sim.step_ms:g} ms; is one of them wrong?"
        )
    if seconds < 0.0:
        raise RunError(f"{run.path}: its last instant is {-seconds:.3g} s before its first; is one of them wrong?")
    return np.arange(int(t[0]), int(t[-1]) + 1, config.step_ns, dtype=np.int64)


def _available(
    run: Run, topic: Topic, instants: np.ndarray, config: Config, delay_ms: float, jitter_ms: float, seed: int,
    first: int,
) -> Plan:  # fmt: skip
    """A plan by availability. `first`: the place of the first instant among the steps of the record."""
    t = topic.blocks["t_ns"]
    jitter = np.random.default_rng(seed).uniform(0.0, jitter_ms * 1e6, len(t)) if jitter_ms else 0.0
    available = (t + delay_ms * 1e6 + jitter).astype(np.int64)
    if _recorded_step_ns(run) != config.step_ns:
        return as_available(instants, topic.words, topic.blocks, available)
    begins = run.topics["/step"].blocks["step"][first : first + len(instants)] == 0
    return replace(as_available(instants, topic.words, topic.blocks, available, begins), first=first)


def _command(plan: Plan, run: Run, config: Config, model: Machine, instants: np.ndarray, other: bool) -> int:
    """Add the recorded commands to the plan, before the same steps; returns how many are left out because this machine,
    which may be another one, does not know them."""
    topic = run.topics.get("/command")
    if topic is None or not len(topic):
        return 0
    if topic.layout != COMMANDS:
        raise RunError(f"{run.path}: /command holds {topic.layout.text}, this program knows {COMMANDS.text}")
    # by name, because another machine may have the parameter at another place, or not at all
    named = list(recorded_parameters(run))
    try:
        plan.commands, left_out = checked_commands(topic.words, named, model, other)
    except ConfigError as error:
        raise RunError(f"{run.path}: {error}") from None
    if _recorded_step_ns(run) == config.step_ns:
        steps = run.topics["/step"].blocks[plan.first : plan.first + len(plan)]
        plan.obeyed = obeyed_as_recorded(steps, topic.blocks)
    else:
        plan.obeyed = obeyed_by_time(instants, topic.blocks)
    plan.flags[resets(plan)] |= replay_flags.RESTART  # as in the live run
    return left_out


def status_bits(reported: np.ndarray) -> np.ndarray:
    """The bits of the status word that follow from what the steps reported."""
    stages, beyond, diverged = reported.T
    found: np.ndarray = (
        np.where(stages, step_record.STALE, 0)
        | np.where(beyond, step_record.CLIPPED, 0)
        | np.where(diverged, step_record.DIVERGED, 0)
    )
    return found


def resets(plan: Plan) -> np.ndarray:
    """The steps before which the model was reset."""
    if plan.obeyed is None:
        return np.zeros(0, np.int64)
    kinds = COMMANDS.view(plan.commands)["kind"]
    before = np.concatenate([[0], np.cumsum(kinds == RESET)])
    found: np.ndarray = np.flatnonzero(before[plan.obeyed[:, 1]] > before[plan.obeyed[:, 0]])
    return found


def _run_plan(
    simulation: Simulation,
    plan: Plan,
    config: Config,
    options: Options,
    progress: Progress,
    watch: Watch | None,
    reported: np.ndarray,
) -> np.ndarray:
    if watch is not None:
        shown = 0.0

        def observe(done: int, _: np.ndarray) -> None:
            nonlocal shown
            watch.observe(done, simulation)
            if done / len(plan) >= shown:
                shown += 0.01
                progress("stepping", done / len(plan))

        return replay(simulation, plan, watch.every(len(plan), simulation.model), observe, reported)
    if options.speed is None:
        return replay(simulation, plan, each=lambda done, _: progress("stepping", done / len(plan)), reported=reported)
    return _paced(simulation, plan, config, options.speed, progress, reported)


def _paced(
    simulation: Simulation, plan: Plan, config: Config, speed: float, progress: Progress, reported: np.ndarray
) -> np.ndarray:
    """Replay at so many times real time, and push each result into the simulator's ring, where the view finds it."""
    layout = output_layout(simulation.model)
    refuse_too_large("the run", "sim.ring_blocks", config.ring("sim"), layout, config.sim.ring_blocks)
    ring = RingWriter(config.ring("sim"), layout, config.sim.ring_blocks)
    begun = now_ns()
    record = np.zeros(1, layout.dtype)
    first_input = len(layout.names) - len(simulation.model.inputs) - len(simulation.model.outputs)

    def show(done: int, results: np.ndarray) -> None:
        due = begun + round(done * config.step_ns / speed)
        sleep_until(due)
        record["seq"], record["epoch"], record["t_ns"], record["pushed_ns"] = ring.head, ring.epoch, due, now_ns()
        record["step"], record["time"] = done - 1, done * config.step_ns * 1e-9
        record["status"], record["input_stages"] = status_bits(reported[done - 1 : done])[0], reported[done - 1, 0]
        for name, value in zip(layout.names[first_input:], results[done - 1], strict=True):
            record[name] = value
        push(ring.words, record.view(np.int64))
        if done % 20 == 0:
            progress("stepping", done / len(plan))

    try:
        return replay(simulation, plan, batch=1, each=show, reported=reported)
    finally:
        ring.close()


def recorded_columns(run: Run, model: Machine) -> dict[str, np.ndarray]:
    if "/step" not in run.topics:
        return {}
    steps = run.topics["/step"]
    known = {c.name for c in steps.layout.channels if c.type == "f8"}
    return {q.name: steps.blocks[q.name] for q in (*model.inputs, *model.outputs) if q.name in known}


def _compare(done: Replayed) -> dict[str, Any]:
    """Compare bit by bit with what the run recorded. Only a replay of the whole record can be identical."""
    recorded = recorded_columns(done.run, done.model)
    if not recorded or _recorded_step_ns(done.run) != done.config.step_ns:
        return {"identical": None, "first_difference": None, "differing_channels": []}
    first_step = done.plan.first
    numbers = done.run.topics["/step"].blocks["step"][first_step:]
    n = min(len(done.results), len(numbers))
    first: tuple[int, str] | None = None
    differing = []
    new = done.columns()
    for name, values in recorded.items():
        old, again = values[first_step : first_step + n], np.ascontiguousarray(new[name][:n])
        unequal = np.flatnonzero(old.view(np.int64) != again.view(np.int64))
        if len(unequal):
            with np.errstate(invalid="ignore"):
                differing.append({"channel": name, "max": float(np.abs(old - again).max())})
            if first is None or unequal[0] < first[0]:
                first = (int(unequal[0]), name)
    difference = None
    if first is not None:
        k, name = first
        old_value = float(recorded[name][first_step + k])
        difference = {"step": int(numbers[k]), "channel": name, "recorded": old_value, "replayed": float(new[name][k])}
    whole = len(done.results) == len(numbers)
    return {"identical": whole and first is None, "first_difference": difference, "differing_channels": differing}


def all_identical(figures: dict[str, Any]) -> bool:
    """Whether steps, and efforts and predictions if there are any, are identical."""
    others = [figures.get("efforts"), figures.get("look_ahead")]
    return bool(figures["identical"]) and not any(other and other["differing"] for other in others)


def _against(done: Replayed, topic: Topic, options: Options) -> dict[str, Any]:
    """What the change did: compared with the live run and, for a delay, also with no delay at all."""
    found: dict[str, Any] = {}
    on_board = recorded_columns(done.run, done.model)
    if on_board:
        part = slice(done.plan.first, done.plan.first + len(done.instants))
        if _recorded_step_ns(done.run) == done.config.step_ns:
            on_board = {name: values[part] for name, values in on_board.items()}
        else:
            taken = done.run.topics["/step"].blocks["taken_ns"]
            on_board = {name: np.interp(done.instants, taken, values) for name, values in on_board.items()}
        found["on_board"] = deviation(on_board, done.columns())
    if options.delay_ms or options.jitter_ms:
        instants, first = _instants(done.run, topic, done.config, options)
        plan = _available(done.run, topic, instants, done.config, 0.0, 0.0, options.seed, first)
        _command(plan, done.run, done.config, done.model, instants, options.changed)
        ideal = replay(Simulation(done.config, done.model, done.params.copy()), plan)
        found["ideal"] = deviation(named(done.model, ideal), done.columns())
    return found


# ---- the report ------------------------------------------------------------------------------------------


def pictures(done: Replayed) -> list[Raw]:
    """A picture for every output that was also measured: both over the time since the first step."""
    sensed, outputs, out = measured(done.run), done.columns(), []
    begun, ends = int(done.instants[0]), done.instants + done.config.step_ns
    for row in done.figures["measured"]:
        each = sensed[row["channel"]]
        within = (each.t_ns >= ends[0]) & (each.t_ns <= ends[-1])
        both = (
            Series("measured", (each.t_ns[within] - begun) * 1e-9, each.values[within]),
            Series("model", (ends - begun) * 1e-9, outputs[row["channel"]]),
        )
        out.append(curves(f"{row['channel']}, {row['unit']}", both))
    return out


def report(
    figures: dict[str, Any], damage: Sequence[str] = (), must_be_identical: bool = False, charts: Sequence[Raw] = ()
) -> Report:
    """Exit code 10 where a part of the record is damaged (what is missing cannot be identical), 3 where the model
    diverged and that ended it, 1 where an exact replay with nothing changed is not identical."""
    differs = int(must_be_identical and not all_identical(figures))
    code = DAMAGED if damage else Diverged.code if figures["diverged"] else differs
    rows = [(row["channel"], f"{row['max']:.6g}") for row in figures["differing_channels"]]
    sections = [Section("Channels that differ from the record", [Table(("channel", "at most"), rows)] if rows else [])]
    if beside := figures.get("measured"):
        lead = "Readings of sensors at their own instants, and the model's outputs at the same."
        sections.append(Section("Beside what was measured", [Table(HEADINGS, rows_of(beside)), *charts], lead))
    notes = [*_results(figures), *_left_out(figures), *_beside(figures)]
    return Report("tandem replay", _headline(figures), figures, sections, notes, damage, code)


def _headline(figures: dict[str, Any]) -> str:
    if figures["identical"]:
        return "identical to the record: every input and every output of every step, to the bit"
    if first := figures["first_difference"]:
        return (
            f"differs from the record from step {first['step']} on: {first['channel']} was {first['recorded']!r}, is"
            f" {first['replayed']!r}"
        )
    on_board = figures.get("against", {}).get("on_board")
    return f"this replay against the run on board: {sentence(on_board)}" if on_board else "replayed"


def _results(figures: dict[str, Any]) -> Iterator[Line]:
    yield (
        f"{figures['steps']} steps, {figures['simulated_s']:.2f} s, in {figures['wall_s']:.2f} s:"
        f" {figures['real_time_factor']:g} times real time (reading {figures['read_s']:.2f} s, stepping"
        f" {figures['step_s']:.2f} s)"
    )
    if figures.get("efforts"):
        yield in_words(figures["efforts"])
    if figures.get("look_ahead"):
        yield replay_predictions.in_words(figures["look_ahead"])
    if figures["identical"] is False and figures["mode"] == "exact":
        yield f"the parameters are those {_PARAMETERS[figures['parameters']]}"
        for key, (was, here) in figures["other_facts"].items():
            yield warn(f"recorded with another {key}: {was}, here {here}")
        if not figures["other_facts"]:
            yield "recorded with the same sources, software, processor and libraries as here"
    elif figures["parameters_differ"]:
        yield warn(
            f"made here, {figures['parameters_differ']} words of the parameters would differ from those of the record,"
            " which were used"
        )


def _left_out(figures: dict[str, Any]) -> Iterator[Line]:
    if figures["steps_before"]:
        yield f"{figures['steps_before']} steps are of a simulator that began before the record: left out"
    if figures["deleted"]:
        yield warn(f"of the record {figures['deleted']}")
    if figures["stopped"]:
        left = figures["recorded_steps"] - figures["steps_before"] - figures["steps"]
        yield bad(f"{left} recorded steps were not done again: {figures['stopped']}")
    if figures["diverged"]:
        yield bad(f"the model diverged at step {figures['steps'] - 1}: the replay ends there")
    if figures["commands_left_out"]:
        yield warn(f"{figures['commands_left_out']} recorded commands are left out: they are none here")
    if figures["missing_blocks"]:
        yield warn(f"{figures['missing_blocks']} blocks are missing from the record")


def _beside(figures: dict[str, Any]) -> Iterator[Line]:
    jitter = f" + up to {figures['jitter_ms']:g} ms jitter" if figures["jitter_ms"] else ""
    delay = f"{figures['delay_ms']:g} ms delay{jitter}"
    for what, found in figures.get("against", {}).items():
        title = {"on_board": "this replay against the run on board", "ideal": f"{delay} against none"}[what]
        if title not in _headline(figures):
            yield f"{title}: {sentence(found)}"
    if "step_error" in figures:
        found = figures["step_error"]
        yield "error of a step: " + ("not estimated" if found is None else f"estimated as {found:.1e} m at most")
    yield f"the record ended: {figures['record_ended']}"
