"""The code in docs/multibody.md runs as pasted, in order, and says what its comments say."""

import re
from pathlib import Path

import pytest

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
