"""Predictions of a record computed again from the states of its replay, and compared bit by bit."""

from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.look_ahead import record
from sim_service.replay import Plan
from sim_service.simulation import Simulation
from sync.config.config import Config
from sync.record import Run, RunError
from sync.ring.streams import LOOK_AHEAD, SIM


class PredictionsAgain:
    """Called with the model after steps of a replay; computes at most `most` predictions again, evenly spread."""

    def __init__(self, run: Run, config: Config, model: Machine, params: np.ndarray, plan: Plan, most: int):
        from sim_service.look_ahead.predict import Predictor  # compiled, and only needed here

        topic = run.topics[LOOK_AHEAD.topic]
        if topic.layout != record.LAYOUT:
            raise RunError(
                f"{run.path}: {topic.name} holds {topic.layout.text}, this program knows {record.LAYOUT.text}"
            )
        self.recorded, self._words = len(topic), topic.words
        steps = run.need(SIM.topic).blocks[plan.first : plan.first + len(plan)]
        found = {
            (int(epoch), int(step)): n
            for n, (epoch, step) in enumerate(zip(steps["epoch"], steps["step"], strict=True))
        }
        self._of_step: dict[int, list[int]] = {}
        chosen = np.unique(np.linspace(0, len(topic) - 1, min(most, len(topic))).round().astype(np.int64))
        for row in chosen.tolist():
            begins = int(self._words[row, record.AT_STEP_EPOCH]), int(self._words[row, record.AT_STEP])
            if begins in found:
                self._of_step.setdefault(found[begins], []).append(row)
        self._predictor = Predictor(config, model, params, str(run.path))
        if config.sim.code != "tables":
            self._predictor.unroll()
        self.compared = self.differing = 0
        self.first_difference: int | None = None

    def every(self, steps: int, model: Machine) -> int:
        return 1

    def compare(self, done: int, simulation: Simulation) -> None:
        for row in self._of_step.get(done - 1, ()):
            was = self._words[row]
            again = was.copy()
            again[record.AT_STATUS] = again[record.AT_STEPS] = 0
            again[record.COMPUTED :] = 0
            outputs = simulation.work[: len(simulation.model.outputs)]
            self._predictor.predict(
                int(was[record.AT_KIND]), simulation.state, simulation.inputs, outputs, simulation.params, again
            )
            self.compared += 1
            if (again != was).any():
                self.differing += 1
                if self.first_difference is None:
                    self.first_difference = int(was[0])

    def figures(self) -> dict[str, Any]:
        return {
            "recorded": self.recorded,
            "compared": self.compared,
            "differing": self.differing,
            "first_difference": self.first_difference,
        }


def in_words(figures: dict[str, Any]) -> str:
    counted = f"{figures['compared']} of {figures['recorded']} predictions made again from the states of this replay"
    if not figures["differing"]:
        return f"{counted}: identical, to the bit"
    return f"{counted}: {figures['differing']} differ, from number {figures['first_difference']} on"
