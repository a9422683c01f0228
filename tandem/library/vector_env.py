"""A batch as a vector environment of gymnasium: 1024 copies are one environment with 1024 rows. The extra `learning`.

What is rewarded and when an episode ends is the user's: functions of the batch, which give an array each. A copy that
diverges ends its episode. Ended copies are reset with the next step, as gymnasium's mode NEXT_STEP has it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sync.errors import ConfigError
from tandem.ensembles.extras import needs
from tandem.library.batch import Batch

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

OfBatch = Callable[[Batch], NDArray[np.generic]]


def vector_env(
    batch: Batch,
    actions: dict[str, tuple[float, float]],
    reward: OfBatch,
    observations: Sequence[str] | None = None,
    ended: OfBatch | None = None,
    most_steps: int | None = None,
    steps_each: int = 1,
) -> "VectorEnv":
    """A gymnasium.vector.VectorEnv over a batch.

    `actions`: inputs by name with their least and largest value. `observations`: outputs by name, or all of them: then
    an observation is the batch's own array, without a copy. An episode has at most `most_steps` actions of
    `steps_each` steps of the machine.

    >>> copies = tandem.batch("mass_spring", 8)
    >>> position = copies.output_index["position"]
    >>> env = tandem.vector_env(copies, {"handle": (-0.1, 0.1)}, lambda batch: -abs(batch.outputs[:, position]))
    >>> observations, _ = env.reset(seed=1)
    >>> observations.shape
    (8, 4)
    """
    gym = needs("gymnasium", "learning", "vector_env")
    if not isinstance(batch, Batch):
        raise ConfigError("batch: must be one of the CPU; one of a GPU is stepped itself, its arrays are tensors")
    chosen = list(observations) if observations is not None else list(batch.output_index)
    places = [batch.output_index[name] for name in chosen]
    columns = [batch.input_index[name] for name in actions]
    low, high = np.array(list(actions.values()), np.float64).T
    whole = observations is None

    class MachineVectorEnv(gym.vector.VectorEnv):  # type: ignore[misc, name-defined]
        metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

        def __init__(self) -> None:
            self.num_envs = len(batch)
            bound = np.full(len(chosen), np.inf)
            self.single_observation_space = gym.spaces.Box(-bound, bound, dtype=np.float64)
            self.single_action_space = gym.spaces.Box(low, high, dtype=np.float64)
            self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, len(batch))
            self.action_space = gym.vector.utils.batch_space(self.single_action_space, len(batch))
            self.batch = batch
            self._done = np.zeros(len(batch), bool)
            self._steps = np.zeros(len(batch), np.int64)

        def _observed(self) -> np.ndarray:
            return batch.outputs if whole else batch.outputs[:, places]

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            batch.reset()
            self._done[:], self._steps[:] = False, 0
            return self._observed(), {}

        def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
            array = actions if isinstance(actions, np.ndarray) else np.from_dlpack(actions)
            batch.inputs[:, columns] = np.clip(array, low, high)
            begin = self._done
            batch.step(steps=steps_each)
            batch.reset(begin)  # those that had ended begin now, and their action does nothing
            self._steps = np.where(begin, 0, self._steps + 1)
            terminated = (batch.diverged == 1) & ~begin
            if ended is not None:
                terminated |= np.asarray(ended(batch), bool) & ~begin
            late = self._steps >= most_steps if most_steps is not None else np.zeros(len(batch), bool)
            rewards = np.where(begin, 0.0, np.asarray(reward(batch), np.float64))
            self._done = terminated | late
            return self._observed(), rewards, terminated, late, {}

        def close_extras(self, **_: Any) -> None:
            batch.close()

    return MachineVectorEnv()
