"""The notebook of docs/library.md, cell by cell: it drives, tunes while it drives, plots, replays."""

import json
import subprocess
import sys
from pathlib import Path

from tests.system.conftest import PATIENCE_S, ROOT, leftovers

NOTEBOOK = ROOT / "docs" / "notebooks" / "first_drive.ipynb"


def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5 and all(not cell.get("outputs") for cell in cells)
    script = tmp_path / "notebook.py"
    script.write_text("import matplotlib\nmatplotlib.use('agg')\n" + "\n".join(code))
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "front_anti_roll: 15000.0" in done.stdout and "identical: True" in done.stdout
    assert leftovers("notebook") == []
