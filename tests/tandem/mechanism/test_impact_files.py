"""Impacts in mechanism files: run, reported, replayed, in the hand; what is wrong with them is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sync.errors import ConfigError
from tandem.commands.cli import app
from tandem.mechanism import equations
from tandem.mechanism import run as mechanism_run
from tandem.mechanism.again import replay_mechanism
from tandem.mechanism.columns import energies
from tandem.multibody.description.mechanism_file import describe
from tandem.view.rig import Rig, with_hands

EXAMPLES = Path(__file__).resolve().parents[3] / "configs" / "mechanisms" / "impacts"
BALL: dict[str, Any] = {
    "name": "ball", "run": {"seconds": 1.5, "step_ms": 5.0}, "points": {"P": {"at": [0.0, 1.0]}},
    "vectors": {"u": {"along": [1.0, 0.0]}},
    "bodies": {"disc": {"nodes": ["P", "u"], "mass": 2.0, "centre": [0.0, 1.0], "inertia": 0.01}},
    "surfaces": {
        "skin": {"kind": "sphere", "on": "disc", "at": [0.0, 1.0], "radius": 0.1},
        "floor": {"kind": "plane", "through": [0.0, 0.0], "normal": [0.0, 1.0]},
    },
    "impacts": {"hit": {"between": ["skin", "floor"], "restitution": 0.8, "friction": 0.2}},
}  # fmt: skip


def changed(table: str, name: str, **keys: Any) -> dict[str, Any]:
    return BALL | {table: {**BALL[table], name: {**BALL[table].get(name, {}), **keys}}}


def test_a_file_with_impacts_runs_is_reported_and_replayed(tmp_path: Path) -> None:
    described, state = mechanism_run.prepare(describe(BALL, "m.toml"))
    simulated = mechanism_run.simulate(described, state, lambda *_: None)
    found = simulated.figures
    assert found["impacts"] == 2 == len(found["impact_rows"]) and found["energy_worked_on_by"] == ["hit"]
    assert found["impact_rows"][0]["time"] == pytest.approx(np.sqrt(1.8 / 9.81), abs=1e-9)
    assert found["lost_to_impacts"] == pytest.approx(2 * 9.81 * 0.9 * (1 - 0.8**4), abs=1e-8)
    report = mechanism_run.report(simulated)
    assert "Impacts" in [section.title for section in report.sections] and report.exit_code == 0


def test_a_run_with_impacts_from_the_command_line_replays_to_the_bit(tmp_path: Path) -> None:
    file = tmp_path / "ball.toml"
    file.write_text(
        'name = "ball"\n[run]\nseconds = 0.6\n[points]\nP = { at = [0.0, 0.5] }\n'
        "[particles]\nball = { point = \"P\", mass = 1.0 }\n"
        "[surfaces]\nskin = { kind = \"sphere\", on = \"P\", radius = 0.0 }\n"
        "floor = { kind = \"plane\", through = [0.0, 0.0], normal = [0.0, 1.0] }\n"
        "[impacts]\nhit = { between = [\"skin\", \"floor\"], restitution = 0.5 }\n"
    )  # fmt: skip
    done = CliRunner().invoke(app, ["mechanism", str(file), "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 0 and "approach" in done.output, done.output
    (folder,) = (tmp_path / "runs").iterdir()
    assert replay_mechanism(folder).data["identical"]
    again = CliRunner().invoke(app, ["replay", str(folder)])
    assert again.exit_code == 0 and "identical to the record" in again.output, again.output
    refused = CliRunner().invoke(app, ["replay", str(folder), "--delay-ms", "5"])
    assert refused.exit_code == 2


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_files_with_impacts_that_ship_close_their_book_of_energy(file: Path) -> None:
    simulated = mechanism_run.simulate(*mechanism_run.load(file), lambda *_: None)
    found, energy = simulated.figures, energies(simulated.record)
    assert found["impacts"] > 0 == found["impacts_not_located"] and mechanism_run.report(simulated).exit_code == 0
    left = energy[0] - energy[-1] - found["lost_to_impacts"] - found["lost_at_rest"]
    assert abs(left) < 1e-4 * np.abs(energy).max()


def test_a_mechanism_in_the_hand_meets_its_surfaces() -> None:
    described = describe(BALL, "m.toml")
    with_hands(described.mechanism)
    b = Rig(mechanism_run.prepare(described)[1])
    for _ in range(400):
        b.step()
    assert b.state["P"][1] > 0.1 - 1e-6
    vector, log, steps = b.state.vector.copy(), list(b.log), b.steps
    b.repeat(log, steps)
    np.testing.assert_array_equal(b.state.vector, vector)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            changed("impacts", "hit", between=["skin", "flor"]),
            "impacts.hit: there is no surface 'flor'; did you mean floor",
        ),
        (changed("impacts", "hit", between=["skin"]), "impacts.hit.between"),
        (changed("impacts", "hit", restitution=1.2), "impacts.hit.restitution = 1.2"),
        (changed("impacts", "hit", restitution=float("nan")), "impacts.hit.restitution"),
        (changed("impacts", "hit", friction=-1.0), "impacts.hit.friction = -1"),
        (changed("impacts", "hit", slow=0.0), "impacts.hit.slow"),
        (
            changed("impacts", "hit", between=["floor", "floor"]),
            "impacts.hit: impact hit: a plane and a plane are no pair",
        ),
        (changed("surfaces", "skin", kind="blob"), "surfaces.skin: kind = 'blob': is not known; must be one of box"),
        (changed("surfaces", "skin", radius=-1.0), "surfaces.skin.radius = -1"),
        (changed("surfaces", "skin", on="dsc"), "surfaces.skin: there is no body 'dsc'; did you mean disc"),
        (changed("surfaces", "skin", at=[0.0, 1.0, 0.0]), "surfaces.skin: at = [0.0, 1.0, 0.0]: must be 2 numbers"),
        (changed("surfaces", "skin", on="P"), "surfaces.skin: at = [0.0, 1.0]: a sphere on a point is where that is"),
        (changed("impacts", "hit", between=["skin", "skin"]), "skin and skin are both on body disc, and never strike"),
        (
            changed("surfaces", "floor", through=[0.0, 0.95]),
            "impacts.hit: at the start skin and floor lie 0.05 m in each other; draw them apart",
        ),
        (changed("surfaces", "floor", normal=[0.0, 0.0]), "surfaces.floor: normal = [0.0, 0.0]: has no direction"),
        (changed("surfaces", "floor", normal=[0.0, "up"]), "surfaces.floor.normal"),
        (changed("surfaces", "rod", kind="capsule", on="disc", ends=[[0, 1], [0, 1]], radius=0.1), "are one point"),
        (changed("surfaces", "rod", kind="box", on="disc", at=[0, 1], size=[1.0, 1.0, 1.0]), "surfaces.rod"),
        (BALL | {"impacts": {"hit": 3}}, "impacts.hit"),
    ],
)
def test_what_is_wrong_with_impacts_is_named(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        mechanism_run.prepare(describe(data, "m.toml"))
    assert words in str(error.value) and str(error.value).startswith("m.toml: ")


def test_impacts_are_refused_in_relative_coordinates_and_in_equations_to_take_away() -> None:
    relative = mechanism_run.prepare(describe(BALL | {"run": {"formulation": "relative"}}, "m.toml"))
    with pytest.raises(ConfigError, match="impact hit: is located in natural coordinates alone"):
        mechanism_run.simulate(*relative, lambda *_: None)
    with pytest.raises(ConfigError, match=r"m.toml: --equations c: impacts.hit: has no equation"):
        equations.take_away(describe(BALL, "m.toml"), "c")
