"""The code in docs/multibody.md runs as pasted, in order, and says what its comments say."""

import inspect
import re
from pathlib import Path

import pytest

from tandem.multibody.natural import forces, joints
from tandem.multibody.natural.api import Mechanism

TEXT = (Path(__file__).resolve().parents[4] / "docs" / "multibody.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code_of_the_documentation_runs(number: int, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "block.py"
    path.write_text(BLOCKS[number])
    scope: dict = {"__name__": "block", "__file__": str(path)}
    exec(compile(BLOCKS[number], str(path), "exec"), scope)
    printed = capsys.readouterr().out
    if "drag" in scope:
        assert float(printed) == pytest.approx(-((2 * 9.81 / 0.5) ** 0.5), rel=1e-2)


def test_the_four_bar_is_thirty_lines() -> None:
    assert len(BLOCKS[1].splitlines()) <= 33


def test_the_signatures_of_joints_and_forces_are_those_of_the_code() -> None:
    stated = dict(re.findall(r"`(\w+)\((name, [^`]*)\)`", TEXT))
    built = {
        name: function
        for name, function in vars(Mechanism).items()
        if inspect.isfunction(function) and function.__module__ in (joints.__name__, forces.__name__)
    }
    assert len(built) >= 20
    for name, function in built.items():
        given = []
        for p in list(inspect.signature(function).parameters.values())[1:]:
            given.append(p.name if p.default is p.empty else f"{p.name}={p.default!r}")
        assert stated.get(name) == ", ".join(given), name
