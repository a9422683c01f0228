"""A recorded run as the page and Foxglove show it.

A record holds blocks and outputs. The states from which a scene is rendered are computed again by an exact replay, so
that the page shows what the loop computed live, not what a viewer makes of it. If that is impossible (a record that
begins in the middle, or other channels), only the outputs are shown, and that is reported.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from sim_service.contract.machine import Machine
    from sim_service.simulation import Simulation
    from tandem.records.replay import Options
    from tandem.view.data_source import RecordData

_STATES_S = 0.03  # between two states that are stored
_MOST_BYTES = 256 << 20  # of these states

Say = Callable[[str], None]


class _States:
    """Stores the model's state every so many steps of a replay: in single precision, within bounds."""

    def __init__(self, step_ns: int, say: Say):
        self._step_ns, self._say = step_ns, say
        self.steps: list[int] = []
        self.states: list[np.ndarray] = []

    def every(self, steps: int, model: "Machine") -> int:
        wished = max(1, round(_STATES_S * 1e9 / self._step_ns))
        fit = max(1, _MOST_BYTES // (4 * max(len(model.states), 1)))
        every = max(wished, -(-steps // fit))
        if every > wished:
            self._say(
                f"a long run: a state every {every * self._step_ns * 1e-9:.2f} s is kept, and drawn evenly in between"
            )
        return every

    def store(self, done: int, simulation: "Simulation") -> None:
        import numpy as np

        self.steps.append(done - 1)
        self.states.append(simulation.state.astype(np.float32))


def record_feed(
    path: Path, options: "Options", say: Say, update: Callable[[str, float], None], report_losses: bool = True
) -> "RecordData":
    """A recorded run as a feed: as it was, or run again with `options`. `report_losses`: also report what it lacks."""
    import numpy as np

    from sim_service.step_record import RESTARTED
    from sync.config.config import Config
    from sync.config.toml import check
    from sync.record import RunError, measured, open_run
    from sync.ring.streams import LOOK_AHEAD
    from tandem.records.provenance import not_of_the_machine
    from tandem.records.replay import Watch, configuration, replay_run
    from tandem.records.replay_save import replayed_steps
    from tandem.view.data_source import RecordData

    run = open_run(path, progress=lambda share: update("reading", share))
    for loss in (*([f"{run.path}: {run.cut}"] if run.cut else []), *run.losses) if report_losses else ():
        say(loss)
    title = run.path.parent.name or run.name
    step_ns = check(Config, settings, str(run.path)).step_ns if (settings := run.json("config.json")) else 5_000_000
    recorded = run.topics.get("/step")
    if options.mode == "exact" and not options.changed and (recorded is None or not len(recorded)):
        say(f"{run.path}: holds no steps; they are made from its blocks, as --mode ideal does")
        options.mode = "ideal"
    states = _States(step_ns, say)
    try:
        done = replay_run(path, options, update, Watch(states.every, states.store))
    except RunError as error:
        if options.mode != "exact" or recorded is None or not len(recorded) or "taken_ns" not in recorded.layout.names:
            raise
        say(f"{error}")
        say("the page shows the recorded outputs alone: a box for the machine, and the plots")
        config, model, params = configuration(run, options)
        return RecordData(title, config, model, params, recorded.blocks, files=run.attachments, measured=measured(run))
    if done.figures["stopped"]:
        say(f"{run.path}: {done.figures['stopped']}; the page ends before it")
    if options.mode == "exact" and not (options.changed or done.figures["identical"] or done.figures["stopped"]):
        say(f"{run.path}: its replay is not identical (tandem replay says where); the page shows the replay")
    steps = replayed_steps(done)
    breaks = np.flatnonzero((steps["step"] == 0) | (steps["status"] & RESTARTED != 0))
    if options.mode == "ideal":
        title += f", {options.delay_ms:g} ms of delay" if options.delay_ms else ", ideal"
    predictions = run.topics.get(LOOK_AHEAD.topic) if options.mode == "exact" else None
    return RecordData(
        title, done.config, done.model, done.params, steps, np.array(states.steps, np.int64), np.array(states.states),
        breaks, {**not_of_the_machine(run.attachments), **done.files},
        predictions.blocks if predictions is not None else None, measured(run),
    )  # fmt: skip
