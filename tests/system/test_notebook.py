"""The notebooks of docs/, cell by cell, from top to bottom: a drive and its ages, a measurement and its verdict, many
cars."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import PATIENCE_S, ROOT, leftovers

FOLDER = ROOT / "docs" / "notebooks"
PRINTED = {
    "first_drive": ("front_anti_roll: 15000.0", "identical: True"),
    "your_measurement": ("<tandem.Validated VALID", "<tandem.Validated NOT VALID"),
    "thousand_cars": ("1000000 steps in", "0 diverged"),
}


def test_every_notebook_is_tried() -> None:
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_the_notebook_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5 and all(not cell.get("outputs") for cell in cells)
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(code))
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [words for words in PRINTED[name] if words not in done.stdout] == []
    if "name=notebook" in script.read_text():  # another of them may be driving under it meanwhile
        assert leftovers("notebook") == []
