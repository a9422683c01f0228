"""`import tandem`: what is public, a machine that is stepped by hand, a record that is read."""

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
from tandem.console.shipped_configs import find_config, shipped_file
from tandem.library import live

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
PUBLIC = {
    "Batch", "batch", "vector_env", "Diverged", "GpuBatch", "Linear", "Live", "Model", "Parameter", "Quantity",
    "Recorded", "Table", "TandemError", "identify", "load_machine", "open_run", "run", "sweep",
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
    assert {q.name for q in car.outputs} - set(recorded) == {"drive_force"}  # came after the record
    for q in (q for q in car.outputs if q.name in recorded):
        assert np.array_equal(made[q.name], recorded[q.name][:400]), q.name
        assert made.units[q.name] == recorded.units[q.name]


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
    (lambda m: m.step({"handel": 1.0}), "handel: no input of this machine; there are handle"),
    (lambda m: m.parameters.__setitem__("mas", 1.0), "mas: no parameter of this machine; there are mass"),
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
    (lambda m: tandem.load_machine("mas_spring"), "mas_spring: no such file, here or in"),
    (lambda m: tandem.load_machine("mass_spring", {"mass": -1.0}), "parameters.mass = -1: must be from"),
    (lambda m: m.copy().run({"handle": 0.0}, steps=1)["positions"], "positions: no such column; there are position"),
    (lambda m: tandem.open_run(GOLDEN / "nothing.mcap"), "nothing.mcap: no such run"),
    (lambda m: tandem.open_run(GOLDEN / "town.mcap").table("/steps"), "no topic /steps; it has"),
    (lambda m: tandem.run("configs/nothing.toml"), "no such file"),
    (lambda m: tandem.run("drive", settings=["sim.step_ms=-1"]), "sim.step_ms"),
])  # fmt: skip
def test_what_is_wrong_is_named_and_nothing_has_moved(mass: tandem.Model, wrong, says: str) -> None:
    mass.run({"handle": 0.2}, steps=5)
    before = mass.state
    with pytest.raises((TandemError, KeyError)) as caught:
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
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/library.md", "exec"), {})
    assert capsys.readouterr().out.endswith("True\n")  # the replay is identical


def test_a_start_is_awaited_as_long_as_its_process_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    now, process = [0.0], SimpleNamespace(poll=lambda: None)
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    run = live.Live(load(find_config(Path("drive"))), cast(Any, process), None, Path())
    for seconds in (1.0, 1e5):  # it compiles
        now[0] = seconds
        assert not run._given_up(0.0)
    run._stepped = True
    assert run._given_up(0.0) and not run._given_up(now[0])
    process.poll = lambda: 1
    assert run._given_up(now[0])


def test_more_copies_or_steps_than_memory_holds_are_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    with pytest.raises(ConfigError, match=r"^n = 10000000000: \d+ MB of memory, \d+ bytes each, and \d+ MB are"):
        tandem.batch("mass_spring", 10**10)
    with pytest.raises(ConfigError, match=r"^steps = 100000000000: \d+ MB"):
        tandem.load_machine("mass_spring").run({}, steps=10**11)
