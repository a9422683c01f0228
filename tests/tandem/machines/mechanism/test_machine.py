"""Mechanism files as machines: the same motion as `tandem mechanism`, and motors under computed torque."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.scene import poses
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.mechanism import run as mechanism_run
from verify.multibody.references.serial import torques
from verify.multibody.shipped import DOWN, FOLDER, robot_links

ARM = FOLDER.parent / "robot" / "arm.toml"
H = 1e-3


class Stepped:
    def __init__(self, file: Path, **changed: float) -> None:
        self.machine, self.params = load_machine(file, changed)
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.machine.initial(self.state, self.params, self.machine.tables, self.work)

    def steps(self, count: int, **inputs: float) -> dict[str, float]:
        m = self.machine
        for _ in range(count):
            given = np.array([inputs.get(q.name, np.nan) for q in m.inputs])
            m.step(self.state, given, self.params, m.tables, self.work, H)
        return dict(zip((q.name for q in m.outputs), self.work.tolist(), strict=False))


def machine_file(folder: Path, mechanism: Path | str, *lines: str) -> Path:
    file = folder / "machine.toml"
    file.write_text("\n".join(['machine = "mechanism"', f'mechanism = "{mechanism}"', *lines]))
    return file


def motored(folder: Path, mechanism: Path | str) -> Path:
    numbers = ["[parameters]", "control_rate = 40.0", "control_damping = 1.0", "feedforward = 1.0"]
    return machine_file(folder, mechanism, 'control = "computed_torque"', *numbers)


@pytest.mark.parametrize("name", ["four_bar", "stewart"])
def test_a_mechanism_moves_in_the_loop_as_by_itself(name: str, tmp_path: Path) -> None:
    done = mechanism_run.simulate(
        *mechanism_run.load(FOLDER / f"{name}.toml", formulation="relative", seconds=0.2), lambda *_: None
    )
    found = Stepped(machine_file(tmp_path, FOLDER / f"{name}.toml")).steps(200)
    nodes = {n: done.record[n][-1] for n in ("C", "P3") if n in done.described.mechanism.nodes}
    for node, place in nodes.items():
        assert [found[f"{node}_{axis}"] for axis in "xyz"[: len(place)]] == pytest.approx(place.tolist(), abs=1e-12)
    assert nodes


def test_a_robot_under_computed_torque_keeps_its_path_and_feedback_alone_does_not() -> None:
    errors = [f"motor{k}_error" for k in range(1, 7)]
    held, loose = Stepped(ARM), Stepped(ARM, feedforward=0.0)
    most = np.zeros((2, 6))
    for _ in range(50):
        for k, one in enumerate((held, loose)):
            found = one.steps(50)
            most[k] = np.maximum(most[k], np.abs([found[e] for e in errors]))
    assert most[0].max() < 5e-4 and most[1].max() > 100.0 * most[0].max()
    found = loose.steps(1500)
    links = robot_links(tomllib.loads((FOLDER / "robot_6r.toml").read_text()))
    q = np.array([found[f"q{k}"] for k in range(1, 7)])
    gravity = torques(links, q, np.zeros(6), np.zeros(6), DOWN)
    assert [found[f"motor{k}_effort"] for k in range(1, 7)] == pytest.approx(gravity.tolist(), abs=1e-4)
    found = held.steps(1500)
    assert [found[e] for e in errors] == pytest.approx([0.0] * 6, abs=1e-9)


def test_what_is_wanted_and_a_load_come_from_outside() -> None:
    """An error decays as the parameters say; a load on the first motor leaves what its inertia makes of it."""
    one = Stepped(ARM)
    found = one.steps(60, motor1=0.05)
    t = 60 * H
    # of a step of the wanted angle, critically damped; the error is that at the beginning of the last step
    assert found["motor1_error"] == pytest.approx(0.05 * (1.0 + 40.0 * (t - H)) * np.exp(-40.0 * (t - H)), rel=0.05)
    loaded = Stepped(ARM)
    found = loaded.steps(600, motor1=0.0, motor2=0.0, motor3=0.0, motor4=0.0, motor5=0.0, motor6=0.0, motor1_load=50.0)
    left = [found[f"motor{k}_error"] for k in range(1, 7)]
    # M w^2 e = - load, M by Newton-Euler
    links = robot_links(tomllib.loads((FOLDER / "robot_6r.toml").read_text()))
    q, rest = np.array([found[f"q{k}"] for k in range(1, 7)]), np.zeros(6)
    still = torques(links, q, rest, rest, DOWN)
    M = np.array([torques(links, q, rest, e, DOWN) - still for e in np.eye(6)]).T
    assert M @ left * 1600.0 == pytest.approx([-50.0, 0.0, 0.0, 0.0, 0.0, 0.0], abs=1e-3)


def test_the_scene_is_where_the_mechanism_is() -> None:
    one = Stepped(ARM)
    found = one.steps(900)
    shown = one.machine.shown
    assert shown.scene is not None
    out = poses(shown.scene.frames)
    shown.frames(one.state, one.params, out)
    (wrist,) = (out[s.frame] for s in shown.scene.solids if s.name == "wrist")
    # its centre lies on axis 4, 0.06 m before W
    roll = np.array([found[f"roll_{a}"] for a in "xyz"])
    assert wrist[0] == pytest.approx(np.array([found[f"W_{a}"] for a in "xyz"]) - 0.06 * roll, abs=1e-12)


def refused(file: Path) -> str:
    with pytest.raises(ConfigError) as error:
        load_machine(file)
    (line,) = str(error.value).split("\n")
    return line


def test_bad_files_are_refused_with_file_key_and_what_would_be_right(tmp_path: Path) -> None:
    assert "mechanism = 3: must be the path" in refused(_written(tmp_path, 'machine = "mechanism"\nmechanism = 3'))
    assert "none.toml" in refused(machine_file(tmp_path, tmp_path / "none.toml"))
    text = refused(machine_file(tmp_path, FOLDER / "four_bar.toml", 'control = "magic"'))
    assert "control = 'magic'" in text and "computed_torque" in text
    text = refused(machine_file(tmp_path, FOLDER / "four_bar.toml", "[parameters]", "feedforward = 1.0"))
    assert "parameters.feedforward" in text
    assert "needs drives, and there are none" in refused(motored(tmp_path, FOLDER / "four_bar.toml"))
    text = refused(motored(tmp_path, FOLDER / "crane.toml"))
    assert "needs a drive for every freedom" in text and "rope1 turn" in text
    broken = tmp_path / "broken.toml"
    broken.write_text((FOLDER / "pendulum.toml").read_text().replace("mass", "mas"))
    assert str(broken) in refused(machine_file(tmp_path, broken))
    stuck = tmp_path / "stuck.toml"
    stuck.write_text((FOLDER / "four_bar.toml").read_text() + "C = [5.0, 0.0]\n")
    assert str(stuck) in refused(machine_file(tmp_path, stuck))
    tied = tmp_path / "tied.toml"
    tied.write_text((FOLDER / "robot_6r.toml").read_text() + "\n[inputs]\nmotor1_load = { value = 1.0 }\n")
    assert "motor1_load" in refused(motored(tmp_path, tied))


def _written(folder: Path, text: str) -> Path:
    file = folder / "machine.toml"
    file.write_text(text)
    return file
