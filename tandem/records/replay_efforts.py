"""The efforts of a record computed again from its steps, and compared bit by bit."""

from typing import Any

import numpy as np

from daq_service.effort_record import BEFORE_PORTS, LAYOUT
from daq_service.effort_settings import EffortSettings
from sync.config.config import Config
from sync.config.toml import check
from sync.record import Run, RunError
from sync.ring.streams import SIM, STREAMS


def efforts_again(run: Run, config: Config) -> dict[str, Any] | None:
    """The comparison, of all axes together; None if the record has no efforts, or the configuration does not say how
    they were made."""
    found = [each for stream in config.efforts if (each := _of_stream(run, config, stream)) is not None]
    if not found:
        return None
    differs = [(each["differing"], each["topic"], each["first_difference"]) for each in found if each["differing"]]
    return {
        **{name: sum(each[name] for each in found) for name in ("recorded", "compared", "differing")},
        "first_difference": differs[0][2] if differs else None,
        "topics": {each["topic"]: {name: each[name] for name in each if name != "topic"} for each in found},
    }


def _of_stream(run: Run, config: Config, stream: str) -> dict[str, Any] | None:
    topic, (key, written) = STREAMS[stream].topic, config.efforts[stream]
    efforts, steps = run.topics.get(topic), run.topics.get(SIM.topic)
    if efforts is None or not len(efforts) or steps is None:
        return None
    if efforts.layout not in (LAYOUT, BEFORE_PORTS):
        raise RunError(f"{run.path}: {topic} holds {efforts.layout.text}, this program knows {LAYOUT.text}")
    # the table also holds keys of the device's own
    own = {name: value for name, value in written.items() if name in EffortSettings.model_fields}
    settings = check(EffortSettings, own, str(run.path), key)
    if any((name, "f8") not in [(c.name, c.type) for c in steps.layout.channels] for name in settings.wants):
        return None
    from daq_service.effort_replay import recompute  # compiled, and only needed here

    recorded = _whole(efforts.blocks)
    again, compared = recompute(settings, steps.blocks, LAYOUT.view(recorded), config.step_ns)
    computed = np.ascontiguousarray(again).view(np.int64).reshape(-1, LAYOUT.words)[compared]
    recorded = recorded[compared]
    differing = np.flatnonzero((computed != recorded).any(axis=1))
    first = int(efforts.blocks["seq"][np.flatnonzero(compared)[differing[0]]]) if len(differing) else None
    return {
        "topic": topic,
        "recorded": len(efforts),
        "compared": int(compared.sum()),
        "differing": len(differing),
        "first_difference": first,
    }


def _whole(efforts: np.ndarray) -> np.ndarray:
    """The efforts as words; in those of earlier versions, fields that they lack are zero."""
    words = np.ascontiguousarray(efforts).view(np.int64).reshape(len(efforts), -1)
    there = np.zeros((len(words), LAYOUT.words), np.int64)
    there[:, : words.shape[1]] = words
    return there


def in_words(efforts: dict[str, Any]) -> str:
    counted = f"{efforts['compared']} of {efforts['recorded']} efforts made again from their steps"
    if not efforts["differing"]:
        return f"{counted}: identical, to the bit"
    differing = [
        f"{topic} {each['differing']}, from number {each['first_difference']} on"
        for topic, each in efforts["topics"].items()
        if each["differing"]
    ]
    return f"{counted}: {efforts['differing']} differ: {'; '.join(differing)}"
