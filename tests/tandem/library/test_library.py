"""`import tandem`: what is public, a record that is read, what the page shows."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import tandem
from sync.config.config import load
from sync.errors import ConfigError, TandemError
from sync.ring import memory
from tandem.console.shipped_configs import find_config
from tandem.library import live

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
PUBLIC = {
    "Batch", "batch", "vector_env", "Diverged", "GpuBatch", "Linear", "Live", "Model", "Parameter", "Quantity",
    "Recorded", "Table", "TandemError", "identify", "load_machine", "open_run", "run", "sweep", "Plot", "UnknownName",
    "validate", "__version__",
}  # fmt: skip


@pytest.fixture
def mass() -> tandem.Model:
    return tandem.load_machine("mass_spring")


def test_what_is_public_is_listed_and_there() -> None:
    assert set(tandem.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(tandem, name).__doc__
    with pytest.raises(AttributeError, match="load_machine"):
        _ = tandem.load_maschine  # type: ignore[attr-defined]


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, tandem; print([m for m in ('numpy', 'numba', 'zmq', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_recorded_inputs_give_recorded_outputs_to_the_bit() -> None:
    run = tandem.open_run(GOLDEN / "single_track.mcap")
    recorded = run.table("/step")
    car = tandem.load_machine("single_track", {
        name: p["value"] for name, p in json.loads(run.attachments["parameters.json"])["parameters"].items()
    })  # fmt: skip
    made = car.run({q.name: recorded[q.name][:400] for q in car.inputs if not q.optional}, step_s=0.005)
    assert made.rows == 400 and np.ptp(made["vx"]) > 1.0
    assert {q.name for q in car.outputs} <= set(recorded)
    for q in (q for q in car.outputs if q.name in recorded):
        assert np.array_equal(made[q.name], recorded[q.name][:400]), q.name
        assert made.units[q.name] == recorded.units[q.name]


def test_a_record_is_read_with_its_units_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tandem.open_run(GOLDEN / "stale.mcap")
    step = run.table()
    frame = run.frame("/step")
    assert frame.attrs["units"]["vx"] == step.units["vx"] == "m/s" and len(frame) == step.rows
    assert "1 stale input" in frame.attrs["descriptions"]["status"]
    assert (frame["vx"].to_numpy() == step["vx"]).all()
    indexed = step.frame("t_ns")
    assert indexed.index.name == "t_ns" and "t_ns" not in indexed.columns
    again, figures = run.replay()
    assert figures["identical"] is True and np.array_equal(again["vx"], step["vx"][: again.rows])
    assert run.attachments["config.json"] and run.info["name"] and "stale.mcap" in repr(run)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TandemError, match=f"{sys.executable} -m pip install pandas"):
        run.frame()


def test_what_the_page_shows_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/library.md", "exec"), {})
    assert capsys.readouterr().out.endswith("True\n")  # the replay is identical


def test_a_start_is_awaited_as_long_as_its_process_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    now, process = [0.0], SimpleNamespace(poll=lambda: None)
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    run = live.Live(load(find_config(Path("drive"))), cast(Any, process), None, Path())
    for seconds in (1.0, 1e5):  # it compiles
        now[0] = seconds
        assert not run._timed_out(0.0)
    run._stepped = True
    assert run._timed_out(0.0) and not run._timed_out(now[0])
    process.poll = lambda: 1
    assert run._timed_out(now[0])


def test_more_copies_or_steps_than_memory_holds_are_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    with pytest.raises(ConfigError, match=r"^n = 10000000000: \d+ MB of memory, \d+ bytes each, and \d+ MB are"):
        tandem.batch("mass_spring", 10**10)
    with pytest.raises(ConfigError, match=r"^steps = 100000000000: \d+ MB"):
        tandem.load_machine("mass_spring").run({}, steps=10**11)
