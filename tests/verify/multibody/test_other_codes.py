"""Other codes are told the mechanism we mean: they come near its reference. Absent ones are said, not an error."""

import math

import numpy as np
import pytest

from verify.multibody.other_codes import Bars, installed, mujoco_model, runners
from verify.multibody.references import chains, linkages, one_freedom

Z = np.array([0.0, 0.0, 1.0])
DOWN = np.array([0.0, -9.81, 0.0])
CODES = {"exudyn bodies": "exudyn", "exudyn tree": "exudyn", "mujoco": "mujoco"}


def double_pendulum() -> tuple[Bars, np.ndarray]:
    bars = Bars(np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0.0]]), np.array([Z, Z]), (1.0, 1.0), 1e-5, DOWN, 1.0)
    phi, _ = chains.motion(np.zeros(2), np.zeros(2), np.array([0.0, 1.0]), 1.0, 1.0)
    return bars, np.array([*chains.joints(phi[-1], 1.0)[1], 0.0])


def slider_crank() -> tuple[Bars, np.ndarray]:
    a, rate, known = 0.2, 12.0, linkages.slider_crank(0.3, 0.9, (1.0, 2.0, 3.0))
    pin, slider = known.joint(np.array(a), 0), known.joint(np.array(a), 1)
    swing = -0.3 * math.cos(a) * rate / (slider[0] - pin[0])
    bars = Bars(
        np.array([np.zeros(3), pin, slider]), np.array([Z, Z, Z]), (1.0, 2.0), 1e-5, DOWN, 1.0, "slider", True, 3.0,
        (rate, swing - rate),
    )  # fmt: skip
    s, _ = one_freedom.motion(known.linkage, a, rate, np.array([0.0, 1.0]))
    return bars, known.joint(s, 1)[-1]


@pytest.mark.parametrize("make", [double_pendulum, slider_crank])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.filterwarnings("ignore")
def test_another_code_comes_near_the_reference(code, make):
    pytest.importorskip(CODES[code])
    bars, end = make()
    outcome = runners()[code](bars, 1e-3, 1)
    assert outcome.times[-1] == pytest.approx(1.0)
    assert np.abs(outcome.positions[-1] - end).max() < 1e-3


def test_absent_codes_are_no_error(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert installed() == {} and runners() == {}


def test_a_bar_has_the_inertia_of_a_bar():
    bars, _ = double_pendulum()
    np.testing.assert_allclose(np.diag(bars.inertia(0)), [1e-10 / 6, 1 / 12, 1 / 12], rtol=1e-6)
    assert "<equality></equality>" in mujoco_model(bars, 1e-3, 1)
