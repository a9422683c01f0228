"""Copies of a machine stepped together: the bits of one alone, arrays that are shared, gymnasium's contract."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

import tandem
from sync.errors import ConfigError

TRACK = Path(__file__).resolve().parents[3] / "configs" / "vehicles" / "buggy_single_track.toml"


def test_every_copy_makes_the_steps_of_a_model_alone_to_the_bit() -> None:
    random = np.random.default_rng(1)
    copies, steps = 40, 50
    grip = random.uniform(0.7, 1.0, copies)
    with tandem.batch(TRACK, copies, {"friction": grip}, workers=2) as many:
        angle, throttle = random.uniform(-0.5, 0.5, (2, steps, copies))
        for k in range(steps):
            many.step({"steering_angle": angle[k], "throttle": np.abs(throttle[k])})
        for n in (0, 17, 39):
            one = tandem.load_machine(TRACK, {"friction": grip[n]})
            made = one.run({"steering_angle": angle[:, n], "throttle": np.abs(throttle[:, n])})
            alone = np.array([made[q.name][-1] for q in one.outputs])
            assert (many.outputs[n] == alone).all() and (many.states[n] == one.state).all()


def test_several_steps_in_one_call_are_the_same_as_one_by_one() -> None:
    one, all_at_once = tandem.batch("mass_spring", 3, step_s=1e-3), tandem.batch("mass_spring", 3, step_s=1e-3)
    for _ in range(7):
        one.step({"handle": np.array([0.01, 0.02, 0.03])})
    all_at_once.step({"handle": np.array([0.01, 0.02, 0.03])}, steps=7)
    assert (one.outputs == all_at_once.outputs).all() and one.outputs[2, 0] > one.outputs[0, 0] > 0.0


def test_arrays_are_shared_and_not_copied() -> None:
    many = tandem.batch("mass_spring", 8)
    seen = np.from_dlpack(many.outputs)
    before = seen.copy()
    given = np.full((8, 1), 0.05)
    assert many.step(given) is many.outputs and np.shares_memory(seen, many.outputs)
    assert (seen != before).any()


def test_a_copy_that_diverges_stays_where_it_was_and_the_others_go_on() -> None:
    many = tandem.batch("mass_spring", 4)
    many.step({"handle": 0.05})
    state = many.states[1].copy()
    many.step({"handle": np.array([0.05, 1e15, 0.05, 0.05])})
    assert many.diverged.tolist() == [0, 1, 0, 0] and (many.states[1] == state).all()
    many.reset(many.diverged == 1)
    assert many.diverged[1] == 0 and (many.states[1] == 0.0).all() and (many.states[0] != 0.0).any()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"mass": np.ones(3)}, "shape"), ({"mass": np.full(4, 1e9)}, "0.01 to 100 kg"), ({"mass": 1e9}, "100")],
)
def test_wrong_parameters_are_refused_by_name(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tandem.batch("mass_spring", 4, parameters)  # type: ignore[arg-type]


def test_a_vector_environment_keeps_gymnasiums_contract() -> None:
    many = tandem.batch("mass_spring", 1024, step_s=1e-3)
    env = tandem.vector_env(
        many, {"handle": (-0.1, 0.1)}, lambda b: -np.abs(b.outputs[:, 0]), most_steps=5,
        ended=lambda b: b.outputs[:, 0] > 1e-4,
    )  # fmt: skip
    assert isinstance(env, gymnasium.vector.VectorEnv) and env.num_envs == 1024
    observed, _ = env.reset(seed=1)
    assert observed is many.outputs and env.observation_space.contains(observed)
    actions = np.zeros((1024, 1))
    actions[0] = 0.1
    ends = []
    for _ in range(6):
        observed, reward, terminated, truncated, _ = env.step(actions)
        assert env.action_space.contains(actions) and reward.shape == terminated.shape == (1024,)
        ends.append((bool(terminated[0]), bool(truncated[1])))
    # the first passes 0.1 mm after some 2 ms; the others end after five steps, and begin anew with the sixth
    assert ends[4][1] and not ends[5][1] and any(end for end, _ in ends[:4])
    assert (observed[1] == 0.0).all() and reward[1] == 0.0


def test_observations_and_actions_must_be_there() -> None:
    many = tandem.batch("mass_spring", 2)
    with pytest.raises(ConfigError, match=r"hand: no input of mass_spring; did you mean handle\?"):
        tandem.vector_env(many, {"hand": (0.0, 1.0)}, lambda b: b.outputs[:, 0])
    with pytest.raises(ConfigError, match=r"place: no output of mass_spring; there are position"):
        tandem.vector_env(many, {"handle": (0.0, 1.0)}, lambda b: b.outputs[:, 0], observations=["place"])


@pytest.mark.parametrize(("value", "shown"), [(1e12, "1000000000000.0"), (float("nan"), "nan"), (-1.0, "-1.0")])
def test_a_parameter_of_copies_stays_within_its_limits(value: float, shown: str) -> None:
    cars = tandem.batch("mass_spring", 3)
    with pytest.raises(ConfigError, match=f"mass = {shown}: must be from"):
        cars.set_parameters(mass=np.array([1.0, value, 2.0]))
