"""The hand on a wall's device: found on the virtual clock, and as its grip changes."""

from pathlib import Path

import numpy as np
import pytest

from daq_service.devices.haptic_settings import Hand
from sync.config.config import load
from sync.errors import ConfigError, TandemError
from tandem.live.closed_loop import run_closed_loop
from tandem.machines.wall.hand import FOUND, HZ, SIZE
from tandem.machines.wall.studies.hand import examine, over
from tests.examples import cases
from tests.sim_service.conftest import CONFIGS

WALL = CONFIGS / "wall.toml"
NAMES = ("hand_mass", "hand_damping", "hand_stiffness")
DELAY = 3e-4


def held(hand: str, seconds: float = 8.0, probe: float = 0.02) -> dict[str, np.ndarray]:
    config = load(WALL, [
        f"source.hand={{{hand}, motion={{points=[[0.0,0.012]], amplitude=0.001, hz=0.37}}}}",
        "daq.rate_hz=1000", "sim.step_ms=1.0", "source.effort.rate_hz=1000", "source.effort.rise_ms=0.0",
        f"sim.parameters.probe={probe}", f"sim.parameters.delay={DELAY}",
    ])  # fmt: skip
    return run_closed_loop(config, WALL, seconds, round(1e9 * DELAY)).outputs


@pytest.mark.parametrize("hand", cases((0.02, 3.75, 257.0), (0.05, 2.0, 600.0)))
def test_a_hand_is_found_within_its_intervals(hand: tuple[float, float, float]) -> None:
    found = held("mass={}, damping={}, stiffness={}".format(*hand))
    for name, value in zip(NAMES, hand, strict=True):
        sigma = found[f"{name}_sigma"][-1]
        assert found[name][-1] == pytest.approx(value, abs=3.0 * sigma) and sigma > 0.0
    assert found["hand_stiffness_sigma"][-1] < 0.1 * hand[2]
    assert np.abs(found["probe_force"]).max() <= 0.02 * len(HZ)
    assert (found["hand_stiffness"][: 2 * 1000] == 0.0).all()  # not before it is known


@pytest.mark.drill
def test_a_grip_that_changes_is_followed() -> None:
    found = held("mass=0.02, damping=3.75, stiffness=257.0, grips=[[8.0, 2.0]]", 18.0)["hand_stiffness"]
    assert found[7900] == pytest.approx(257.0, rel=0.1) and found[-1] == pytest.approx(514.0, rel=0.1)


def test_without_a_probe_nothing_is_given_out_or_found() -> None:
    found = held("mass=0.02, damping=3.75, stiffness=257.0", 1.0, probe=0.0)
    assert not any(found[name].any() for name in (*NAMES, "probe_force", "force"))


def test_a_port_by_formula_is_found() -> None:
    """Six sines for so long that nothing of the start is left, in the port's own steady answer."""
    h, mass, damping, stiffness, late = 1e-3, 0.32, 5.75, 257.0, 4e-4
    t = h * np.arange(60_000)
    force, position = np.zeros(len(t)), np.zeros(len(t))
    for hz in HZ:
        w = 2.0 * np.pi * hz
        force += np.sin(w * t)
        answer = -np.exp(-1j * w * late) / (stiffness - mass * w * w + 1j * w * damping)
        position += np.imag(answer * np.exp(1j * w * t))
    out = np.zeros((len(t), FOUND))
    over(force, position, h, late, np.zeros(SIZE), out)
    assert out[-1, :3] == pytest.approx([mass, damping, stiffness], rel=4e-3)


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"grips": [[2.0, 1.0], [1.0, 2.0]]}, "times must rise"),
        ({"grips": [[1.0, -1.0]]}, "a thousandfold"),
        ({"grips": [[1.0, 2.0]], "rigid": True}, "a rigid hand has none"),
        ({"grips": [[1.0, 0.0]], "pushes": 1}, "has mass at any time"),
    ],
)
def test_grips_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Hand.model_validate(settings)


def test_a_record_without_a_probe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TandemError, match="holds no run"):
        examine(tmp_path)


@pytest.mark.drill
def test_what_finds_the_hand_is_none_of_what_the_wall_gives_out() -> None:
    """Pressed into the wall, at rest but for the probe: the books of the wall are those without it, nearly."""
    books = []
    for probe in (0.0, 0.02):
        config = load(WALL, [
            "source.hand={bias=-3.0, motion={points=[[0.0,0.0]]}}", "daq.rate_hz=1000", "sim.step_ms=1.0",
            "source.effort.rate_hz=1000", f"sim.parameters.probe={probe}", "sim.parameters.stiffness=500.0",
        ])  # fmt: skip
        books.append(run_closed_loop(config, WALL, 4.0).outputs["hold_energy"])
    assert books[1][-1] == pytest.approx(books[0][-1], abs=2e-5)


def test_a_grip_that_cannot_be_sampled_is_refused() -> None:
    config = load(
        WALL, ["source.mass=1e-3", "source.hand={mass=0.0, damping=1e4, stiffness=1e6, grips=[[1.0, 1000.0]]}"]
    )
    with pytest.raises(ConfigError, match="times as fast as can be sampled"):
        run_closed_loop(config, WALL, 0.1)
