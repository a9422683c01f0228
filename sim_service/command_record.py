"""A command as it is pushed and recorded, and the mode that commands give the loop. Compiles nothing."""

import numpy as np

from sync.ring.block import PAYLOAD, Channel, Layout

# kinds: set parameter `index` to `value`; put the model back to its start; pause after `value` more steps; go on; run
# `value` times slower; take the tables of shape number `index` (sim_service/reshape.py); parameter `index` is `value`
# in the next SHAPE
PARAMETER, RESET, PAUSE, RESUME, SLOW, SHAPE, SHAPED = range(1, 8)
LEFT_OUT = 0  # in a replay with another machine, which cannot obey the command
# words of the loop's mode
PAUSED, STEPS_LEFT, SLOWNESS, RESTART = range(4)
MODE_WORDS = 4
MOST_SLOW = 1000.0
MOST_STEPS = 100_000  # in one command to a paused loop
LAYOUT = Layout((Channel("kind", "i8"), Channel("index", "i8"), Channel("value", "f8")))
AT_KIND, AT_INDEX, AT_VALUE = range(PAYLOAD, PAYLOAD + 3)


def mode() -> np.ndarray:
    """The mode of a loop that runs in real time."""
    words = np.zeros(MODE_WORDS)
    words[SLOWNESS] = 1.0
    return words
