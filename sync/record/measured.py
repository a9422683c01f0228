"""What sensors measured at the machine itself, in the record of a run: yaw rate, side-slip, a GNSS speed.

They are no channels of the DAQ and no inputs of the machine; they stand beside its outputs. A quantity named as an
output of the machine is in that output's unit; any other is in the unit of its dimension, which is that of SI. Channels
that were sampled at the same instants share a topic: `/measured`, then `/measured_2`, `/measured_3`, ... A message is a
sample: `t_ns` its own instant, on the clock of the blocks; `epoch` changes at every gap; every channel is an `f8` with
its unit. Instants ascend, and every value is finite.
"""

import re
from dataclasses import dataclass

import numpy as np

from sync.record.run import Run, RunError

MEASURED = "/measured"
_TOPIC = re.compile(r"/measured(_[0-9]+)?")


@dataclass(frozen=True)
class Measured:
    """One quantity, as it was sampled."""

    name: str
    unit: str
    t_ns: np.ndarray  # int64, ascending
    values: np.ndarray  # float64
    epoch: np.ndarray  # of each sample: nothing is interpolated across a change

    def at(self, t_ns: np.ndarray) -> np.ndarray:
        """Linearly between the samples before and after these instants; NaN before the first, after the last, and
        where there is a gap between the two."""
        values = np.interp(t_ns, self.t_ns, self.values, np.nan, np.nan)
        behind = np.clip(np.searchsorted(self.t_ns, t_ns, "left"), 0, len(self.t_ns) - 1)
        before = np.clip(np.searchsorted(self.t_ns, t_ns, "right") - 1, 0, len(self.t_ns) - 1)
        return np.where(self.epoch[before] == self.epoch[behind], values, np.nan)


def is_measured(topic: str) -> bool:
    return _TOPIC.fullmatch(topic) is not None


def topic_of(number: int) -> str:
    """Of the group of that number, from 0."""
    return MEASURED if number == 0 else f"{MEASURED}_{number + 1}"


def measured(run: Run) -> dict[str, Measured]:
    """By name; empty if the record has none. Raises RunError where a record breaks the promises above."""
    found: dict[str, Measured] = {}
    for name, topic in run.topics.items():
        if not is_measured(name) or not len(topic):
            continue
        t_ns = topic.blocks["t_ns"].astype(np.int64)
        if not (np.diff(t_ns) > 0).all():
            raise RunError(f"{run.path}: {name}: its instants do not ascend; import the measurement again")
        for channel in topic.layout.channels:
            values = topic.blocks[channel.name].astype(np.float64)
            if not np.isfinite(values).all():
                raise RunError(f"{run.path}: {name}: {channel.name} is not a number everywhere; import it again")
            if channel.name in found:
                raise RunError(f"{run.path}: {channel.name} is in two topics of measurements; import it again")
            found[channel.name] = Measured(channel.name, channel.unit, t_ns, values, topic.blocks["epoch"])
    return found
