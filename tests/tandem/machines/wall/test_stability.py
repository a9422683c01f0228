"""What a law buys: onsets by eigenvalues beside those of another program and beside the loop; limits before a run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sync.config.config import load
from sync.errors import ConfigError
from tandem.doctor import passivity as theory
from tandem.doctor.haptics import Loop as Measured
from tandem.doctor.passivity import FINGER, Port, together
from tandem.live.closed_loop import run_closed_loop
from tandem.machines.wall.laws import HALF_SAMPLE, PREDICTING, STANDARD
from tandem.machines.wall.studies import held, laws, stability
from tandem.machines.wall.studies.stability import Loop
from tests.examples import cases

WALL = Path(__file__).resolve().parents[4] / "configs" / "wall.toml"
DEVICE = Port(0.3, 2.0)
PORT = together(DEVICE, FINGER)


@pytest.mark.parametrize(("period", "delay"), [(1e-3, 0.0), (1e-3, 3e-4), (2e-4, 5e-4)])
def test_the_standard_laws_onset_is_that_of_the_loop_without_a_memory(period: float, delay: float) -> None:
    assert stability.onset(Loop(PORT, period, delay)) == pytest.approx(theory.onset(PORT, 0.0, period, delay), rel=1e-6)


def test_the_half_sample_law_is_worth_a_factor_and_the_predicting_one_more() -> None:
    standard, half, predicting = (
        stability.onset(Loop(PORT, 1e-3, 3e-4, law, measured_speed=True)) for law in (STANDARD, HALF_SAMPLE, PREDICTING)
    )
    assert standard == pytest.approx(7194.0, rel=5e-3) and half == pytest.approx(19024.0, rel=5e-3)
    assert predicting > 1e5
    assert stability.onset(Loop(PORT, 1e-3, 0.0, HALF_SAMPLE, measured_speed=True)) > 0.99 * stability.MOST


def test_a_law_that_takes_hand_or_delay_for_another_has_a_lower_limit() -> None:
    exact = Loop(PORT, 2e-4, 1.1e-3, PREDICTING)
    off = replace(exact, expected=together(DEVICE, Port(0.026, 3.75, 257.0)))
    assert stability.onset(off) < 0.6 * stability.onset(exact)
    assert stability.onset(replace(exact, delay=1.65e-3, predicted=1.1e-3)) < 0.05 * stability.onset(exact)


@pytest.mark.parametrize("law", cases(PREDICTING, STANDARD, HALF_SAMPLE))
def test_the_loop_itself_rests_below_the_onset_and_grows_above(law: int) -> None:
    """Device, encoder, inputs, machine and effort path on the virtual clock."""
    loop = Loop(PORT, 2e-4, 1.1e-3, law, expected=together(DEVICE, Port(0.026, 3.75, 257.0)))
    onset = stability.onset(loop)
    case = laws.Case(loop, FINGER)
    assert not laws.grows(WALL, [], case, 0.9 * onset) and laws.grows(WALL, [], case, 1.1 * onset)


def test_limits_of_another_law_are_computed_before_a_run_and_fall_with_delay_and_uncertainty() -> None:
    found = []
    for delay, share in ((2e-4, 0.3), (4e-4, 0.3), (2e-4, 0.6)):
        config = load(WALL, ["sim.parameters.law=4.0", f"sim.parameters.hand_uncertainty={share}"])
        settings, said = held.computed(config, WALL, Measured(5000.0, delay, 0.5 * delay, 0.0, delay))
        named = dict(each.rsplit("=", 1) for each in settings)
        found.append(float(named["sim.parameters.stiffness_limit"]))
        assert named["sim.parameters.law_only"] == "5.0" and float(named["source.effort.delay_ms"]) == 1e3 * delay
        assert "for hands from" in said and "passive is only claimed of the standard law" in said
    assert found[0] > found[1] > 0.0 and found[0] > found[2] > 0.0


def test_a_display_that_no_limit_is_known_of_is_refused() -> None:
    with pytest.raises(ConfigError, match="stiffness_limit yourself"):
        held.held_down(load(WALL, ["sim.parameters.law=4.0", "sim.parameters.display=1.0"]), WALL, [])


@pytest.mark.drill
def test_a_finger_that_may_leave_the_device_does_and_loses_energy_where_it_comes_back() -> None:
    way = "{points=[[0.0, -0.002], [0.3, -0.002], [0.302, 0.02], [0.5, 0.02], [0.55, -0.002]]}"
    settings = [f"source.hand={{pushes=-1, motion={way}}}", "source.stiffness=50.0", "source.damping=0.5"]
    trace = run_closed_loop(load(WALL, settings), WALL, 1.4, 100_000)
    fixed = run_closed_loop(load(WALL, [settings[0].replace("pushes=-1, ", ""), *settings[1:]]), WALL, 1.4, 100_000)
    here, there = (each.position[np.searchsorted(each.seconds, 0.45)] for each in (trace, fixed))
    assert there > 0.01 and here < 0.5 * there  # nobody pulls it along
    assert trace.position[-1] == pytest.approx(fixed.position[-1], abs=2e-4)
