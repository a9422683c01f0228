"""A command as it is pushed and recorded, and how the loop goes as commanded. Compiles nothing."""

import numpy as np

from sync.ring.block import PAYLOAD, Channel, Layout

# kinds: parameter `index` is to be `value`; the model as it started; no more steps, after so many; go on; how slowly;
# the tables of shape number `index`, see sim_service/shapes.py; parameter `index` is to be `value` with
# the next of these
PARAMETER, RESET, PAUSE, RESUME, SLOW, SHAPE, SHAPED = range(1, 8)
LEFT_OUT = 0  # of a replay by another machine, which does not know it
# how the loop goes, as commanded
PAUSED, STEPS_LEFT, SLOWNESS, RESTART = range(4)
MODE_WORDS = 4
MOST_SLOW = 1000.0
MOST_STEPS = 100_000  # at once, of a loop that is paused
LAYOUT = Layout((Channel("kind", "i8"), Channel("index", "i8"), Channel("value", "f8")))
AT_KIND, AT_INDEX, AT_VALUE = range(PAYLOAD, PAYLOAD + 3)


def mode() -> np.ndarray:
    """In real time."""
    made = np.zeros(MODE_WORDS)
    made[SLOWNESS] = 1.0
    return made
