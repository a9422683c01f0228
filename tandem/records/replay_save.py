"""A replay as a run of its own: what the loop would have recorded, had it made these steps live."""

from pathlib import Path

import numpy as np

from sim_service import replay as replay_flags
from sim_service import step_record
from sim_service.command_record import AT_KIND, LEFT_OUT
from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.replay import Plan
from sim_service.step_record import output_layout
from sync.clock import now_ns
from sync.files.private import make_folder
from sync.record import CompleteRun, CompleteTopic, RunError, is_measured, parts, write_complete
from sync.record.utc import derived
from sync.ring.block import EPOCH, PUSHED, RECEIVED, SENT, SEQ, T
from tandem.records.descriptions import describe
from tandem.records.provenance import not_of_the_machine, parameters_json
from tandem.records.replay import Replayed, resets, status_bits


def save(done: Replayed, folder: Path, facts: dict[str, str]) -> Path:
    """The replay as a run of its own: the same blocks, the new steps."""
    if folder.is_dir() and parts(folder):
        raise RunError(f"{folder}: holds a record already; nothing is overwritten")
    attached, topics = saved_run(done)
    start = {key: value for key, value in done.run.start.items() if key not in ("format", "monotonic_ns")}
    origin = {"replay_of": str(done.run.path), "mode": done.figures["mode"], "recorded_utc": start.get("utc", "")}
    origin |= derived(done.run.start)  # the blocks keep their instants
    begun, reason = now_ns(), f"replayed, {done.figures['mode']}"
    text = describe(attached["parameters.json"])
    run = CompleteRun({**start, **facts, **origin}, attached, topics, begun, begun, reason, done.figures, text)
    try:
        make_folder(folder)
        return write_complete(folder, run)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror}") from None


def saved_run(done: Replayed) -> tuple[dict[str, bytes], dict[str, CompleteTopic]]:
    """Attachments and topics of a replay, as a run of its own."""
    attached = {**not_of_the_machine(done.run.attachments), **done.files}
    attached.pop("summary.json", None)
    attached["config.json"] = done.config.model_dump_json(indent=1).encode()
    attached["parameters.json"] = parameters_json(done.model, done.params)
    return attached, _saved_topics(done)


def replayed_steps(done: Replayed) -> np.ndarray:
    """Every step of the replay, as the loop would have written it."""
    topic = _saved_topics(done)["/step"]
    return topic.layout.view(topic.words)


def _saved_topics(done: Replayed) -> dict[str, CompleteTopic]:
    """An exact replay keeps the blocks and the steps' own words; another one gets what the loop would have written."""
    layout = output_layout(done.model)
    if done.figures["mode"] == "exact":
        recorded = done.run.topics
        steps = recorded["/step"]
        if lacking := {(c.name, c.type) for c in steps.layout.channels} - {(c.name, c.type) for c in layout.channels}:
            text = ", ".join(f"{name} ({kind})" for name, kind in sorted(lacking))
            raise RunError(
                f"{done.run.path}: its steps have {text}, which {done.model.name} has not here; an exact replay of it"
                " cannot be saved, --mode ideal can"
            )
        part = slice(done.plan.first, done.plan.first + len(done.results))
        recorded_steps = steps.layout.view(steps.words[part])
        words = np.zeros((len(recorded_steps), layout.words), np.int64)  # the machine may have more channels by now
        for name in recorded_steps.dtype.names or ():
            layout.view(words)[name] = recorded_steps[name]
        _fill(layout.view(words), done)
        found = {name: CompleteTopic(t.layout, t.words, t.positions) for name, t in recorded.items()}
        if "/command" in found:  # as words of this machine
            obeyed = done.plan.commands[:, AT_KIND] != LEFT_OUT
            found["/command"] = CompleteTopic(COMMANDS, done.plan.commands[obeyed], found["/command"].positions[obeyed])
        return found | {"/step": CompleteTopic(layout, words, steps.positions[part])}
    source = done.run.topics[done.run.source_topic]
    blocks, words = done.plan.blocks, _step_words(done)
    found = {
        "/daq": CompleteTopic(source.layout, blocks, np.arange(len(blocks))),
        "/step": CompleteTopic(layout, words, np.arange(len(words))),
    }
    # their instants are on the clock of the blocks, as those of the steps are
    found |= {n: CompleteTopic(t.layout, t.words, t.positions) for n, t in done.run.topics.items() if is_measured(n)}
    if len(commands := _command_words(done)):
        found["/command"] = CompleteTopic(COMMANDS, commands, np.arange(len(commands)))
    return found


def _lives(plan: Plan) -> np.ndarray:
    """For each step the number of the simulator that made it."""
    lives: np.ndarray = np.cumsum(plan.flags & replay_flags.INITIAL != 0)
    return lives


def _command_words(done: Replayed) -> np.ndarray:
    """The commands, numbered as in the steps of `_step_words`, without those that this machine does not know; each
    start of a simulator is an epoch."""
    words = done.plan.commands.copy()
    fields = COMMANDS.view(words)
    fields["seq"], fields["epoch"] = np.arange(len(fields)), 0
    if done.plan.obeyed is not None:
        for (first, behind), life in zip(done.plan.obeyed, _lives(done.plan), strict=True):
            fields["epoch"][first:behind] = life
    return np.ascontiguousarray(words[words[:, AT_KIND] != LEFT_OUT])


def _fill(steps: np.ndarray, done: Replayed) -> None:
    steps["input_stages"] = done.reported[:, 0]
    reported_bits = step_record.STALE | step_record.CLIPPED | step_record.DIVERGED
    steps["status"] = steps["status"] & ~reported_bits | status_bits(done.reported)
    for name, values in done.columns().items():
        steps[name] = values


def _step_words(done: Replayed) -> np.ndarray:
    """The words that the loop would have pushed into its ring."""
    layout, n = output_layout(done.model), len(done.results)
    words = np.zeros((n, layout.words), np.int64)
    steps = layout.view(words)
    used = done.plan.blocks[done.plan.which[:n]]
    flags = done.plan.flags[:n]
    begins = np.flatnonzero(flags & replay_flags.INITIAL)
    steps["seq"] = np.arange(n)
    steps["step"] = np.arange(n) - np.repeat(begins, np.diff(np.append(begins, n)))
    for name in ("t_ns", "pushed_ns", "started_ns", "taken_ns"):
        steps[name] = done.instants
    for name, word in (("seq", SEQ), ("epoch", EPOCH), ("t_ns", T), ("pushed_ns", PUSHED), ("sent_ns", SENT)):
        steps[f"input_{name}"] = used[:, word]
    steps["input_received_ns"] = used[:, RECEIVED]
    steps["input_age_ns"] = done.plan.ages[:n]
    repeated = np.concatenate([[False], np.diff(done.plan.which[:n]) == 0])[:n]
    new_epoch = np.concatenate([[True], np.diff(used[:, EPOCH]) != 0])[:n]
    steps["status"] = (
        np.where(repeated, step_record.REPEATED, 0)
        | np.where(new_epoch, step_record.NEW_EPOCH, 0)
        | np.where(flags & replay_flags.LAPPED, step_record.LAPPED, 0)
    )
    if done.plan.obeyed is not None:
        steps["commands"], steps["command_epoch"] = done.plan.obeyed[:n, 1], _lives(done.plan)[:n]
        reset = resets(done.plan)
        steps["status"][reset[reset < n]] |= step_record.RESTARTED
    steps["time"] = (steps["step"] + 1) * (done.config.step_ns * 1e-9)
    _fill(steps, done)
    return words
