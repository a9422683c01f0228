"""A machine in one's own hands: stepped, linearised, drawn, and refused by name."""

from pathlib import Path

import numpy as np
import pytest

import tandem
from sync.errors import ConfigError, TandemError
from tandem.console.shipped_configs import find_config, shipped_file

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "golden"


@pytest.fixture
def mass() -> tandem.Model:
    return tandem.load_machine("mass_spring")


def test_steps_by_hand_are_those_of_a_run(mass: tandem.Model) -> None:
    other = mass.copy()
    made = mass.run({"handle": np.linspace(0.0, 0.1, 20)}, step_s=0.01)
    for k, handle in enumerate(np.linspace(0.0, 0.1, 20)):
        out = other.step({"handle": handle}, 0.01)
        assert out["position"] == made["position"][k] and out["hand_force"] == made["hand_force"][k]
    assert np.array_equal(mass.state, other.state)
    assert made["t"][-1] == pytest.approx(0.2) and made.units["hand_force"] == "N" and made.texts["handle"]
    other.reset()
    assert not other.state.any()
    other.state = mass.state
    assert other.step({"handle": 0.1}) == mass.step({"handle": 0.1})


def test_linearised_it_is_the_trapezoidal_rule(mass: tandem.Model) -> None:
    mass.run({"handle": 0.3}, steps=7)
    before = mass.state
    h, m, k, c = 0.005, 0.5, 200.0, 2.0
    linear = mass.linearise({"handle": 0.1}, h)
    assert np.array_equal(mass.state, before)
    half = 0.5 * h * (c + 0.5 * h * k) / m
    of_v = np.array([-h * k / m, 1.0 - half]) / (1.0 + half)
    a = np.array([np.array([1.0, 0.5 * h]) + 0.5 * h * of_v, of_v])
    assert np.allclose(linear.a, a, rtol=0.0, atol=1e-9)
    assert np.allclose(linear.b[:, 0], [0.5 * h * h * k / m / (1.0 + half), h * k / m / (1.0 + half)], atol=1e-9)
    assert linear.c.shape == (4, 2) and linear.d.shape == (4, 1) and linear.states == ("x", "v")


def test_frames_say_where_its_solids_are(mass: tandem.Model) -> None:
    mass.state = np.array([0.25, 0.0])
    assert mass.frames()["mass"][0].tolist() == [0.55, 0.0, 0.0]


@pytest.mark.parametrize("wrong, says", [
    (lambda m: m.step({"handel": 1.0}), "handel: no input of mass_spring; did you mean handle?"),
    (lambda m: m.parameters.__setitem__("mas", 1.0), "mas: no parameter of mass_spring; did you mean mass?"),
    (lambda m: m.parameters.__setitem__("mass", 0.0), "mass = 0.0: must be from 0.01 to 100 kg"),
    (lambda m: m.parameters.__setitem__("mass", float("nan")), "mass = nan: must be from 0.01 to 100 kg"),
    (lambda m: setattr(m, "state", [1.0]), "state: 2 finite numbers are expected"),
    (lambda m: setattr(m, "state", [np.inf, 0.0]), "state: 2 finite numbers are expected"),
    (lambda m: m.step({}, 0.0), "step_s = 0.0: must be positive"),
    (lambda m: m.step({}, float("nan")), "step_s = nan: must be positive"),
    (lambda m: m.run({}), "say how many"),
    (lambda m: m.run({"handle": np.zeros(3)}, steps=4), "arrays as long as `steps`"),
    (lambda m: m.run({"handle": np.zeros((3, 2))}), "arrays as long as `steps`"),
    (lambda m: m.run({}, steps=-1), "steps = -1"),
    (lambda m: m.step({"handle": float("nan")}), "x became nan; it stands where it stood"),
    (lambda m: m.step({"handle": 1e300}), "it stands where it stood"),
    (lambda m: tandem.load_machine("mas_spring"), "and no machine; did you mean mass_spring?"),
    (lambda m: tandem.load_machine("mass_spring", {"mass": -1.0}), "parameters.mass = -1: must be from"),
    (lambda m: m.copy().run({"handle": 0.0}, steps=1)["positions"], "positions: no column; did you mean position?"),
    (lambda m: tandem.open_run(GOLDEN / "nothing.mcap"), "nothing.mcap: no such run"),
    (lambda m: tandem.open_run(GOLDEN / "town.mcap").table("/steps"), "/steps: no topic of"),
    (lambda m: tandem.run("configs/nothing.toml"), "configs/nothing.toml: no file, here or in"),
    (lambda m: tandem.run("drive", settings=["sim.step_ms=-1"]), "sim.step_ms"),
])  # fmt: skip
def test_what_is_wrong_is_named_and_nothing_has_moved(mass: tandem.Model, wrong, says: str) -> None:
    mass.run({"handle": 0.2}, steps=5)
    before = mass.state
    with pytest.raises(TandemError) as caught:
        wrong(mass)
    assert says in str(caught.value)
    assert np.array_equal(mass.state, before)


def test_a_name_stands_for_the_shipped_car() -> None:
    assert dict(tandem.load_machine("single_track").parameters) == dict(
        tandem.load_machine("vehicles/buggy_single_track").parameters
    )
    assert shipped_file("buggy") == find_config(Path("vehicles/buggy"))
    assert shipped_file("mass_spring") is None
    with pytest.raises(ConfigError, match=r"omni: is made from a file; tandem ships configs/omni/bench\.toml, "):
        tandem.load_machine("omni")


def test_what_shapes_a_machine_is_given_when_it_is_loaded() -> None:
    car = tandem.load_machine("drive")
    fixed = next(name for name in car.parameters if not car.parameters.describe(name).live)
    with pytest.raises(ConfigError, match=f"{fixed}: shapes the model; load it again"):
        car.parameters[fixed] = car.parameters[fixed]
    assert car.name == "buggy" and len(car.frames()["chassis"]) == 4 and "buggy" in repr(car)
