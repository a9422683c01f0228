"""The simple vehicle moves alike in both formulations, and in Exudyn where that is installed."""

import numpy as np
import pytest

from tandem.reports.html.report_page import report_page
from verify.multibody import other_codes, wheel_torque


def test_both_formulations_agree_and_an_absent_code_is_reported(monkeypatch):
    monkeypatch.setattr(other_codes, "installed", dict)
    monkeypatch.setattr(wheel_torque, "WAYS", (wheel_torque.WAYS[0], wheel_torque.WAYS[-1]))
    result = wheel_torque.measure(1.6)
    gaps = result["rows"][1]["differences"]
    assert gaps["travel"] < 1e-6 and gaps["speed"] < 1e-5 and gaps["pitch"] < 1e-7
    assert result["largest"]["speed"] > 0.2  # it was driven
    assert "Exudyn is not installed" in wheel_torque.lead(result)
    page = report_page(wheel_torque.report(result))
    assert page.count("<svg") == 1 + 2 * len(wheel_torque.QUANTITIES)


@pytest.mark.filterwarnings("ignore")
def test_exudyn_comes_to_the_same_motion_with_shorter_steps():
    pytest.importorskip("exudyn")
    ours = wheel_torque.ours(*wheel_torque.WAYS[0][:3], 1.6, 1.0)
    gaps = []
    for finer in (0.5, 1.0):
        theirs = wheel_torque.exudyn_drive(1.6, finer)
        gaps.append(np.abs(np.interp(ours.t, theirs.t, theirs.found["pitch"]) - ours.found["pitch"]).max())
    assert gaps[1] < 1e-6 and gaps[0] / gaps[1] == pytest.approx(4.0, abs=1.0)


def test_the_further_torque_joins_at_ten_seconds():
    file = wheel_torque.mechanism_run.load(wheel_torque.FILE)[0].file
    assert [wheel_torque.torque(file, t) for t in (0.0, 5.0, 10.0, 11.0)] == [0.0, 120.0, 120.0, 200.0]
