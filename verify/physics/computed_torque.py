"""The serial robot under computed torque: `python -m verify computed-torque`.

The mechanism in the simulator, its torques by inverse dynamics from the same file. First its own manoeuvre, step by
step in this process, with inverse dynamics and with feedback alone; what feedback alone leaves at rest is what gravity
takes by Newton-Euler over its stiffness, which shares nothing with it. Then live, its shoulder moved by the device:
every step is replayed to the bit.

    --seconds N   of the live run
"""

import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sim_service.registry import load_machine
from sync.record import open_run
from verify import ROOT
from verify.measure import Row, at_least, at_most, equal, figure
from verify.multibody.references.serial import torques
from verify.multibody.shipped import DOWN, FOLDER, robot_links
from verify.real_runs import replayed, tandem

H = 1e-3  # s
MANOEUVRE_S, REST_S = 2.5, 1.5
MOST = 5e-4  # rad: torques are held for a step
BETTER = 100.0
SETTLED_S = 0.5  # the device is somewhere when the loop begins


def manoeuvre(feedforward: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors in all steps of the robot's manoeuvre; where its hinges end, and what its motors take there."""
    machine, params = load_machine(ROOT / "configs" / "robot" / "arm.toml", {"feedforward": feedforward})
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    names, errors = [q.name for q in machine.outputs], []
    columns = [names.index(f"motor{k}_error") for k in range(1, 7)]
    for _ in range(round((MANOEUVRE_S + REST_S) / H)):
        machine.step(state, np.full(len(machine.inputs), np.nan), params, machine.tables, work, H)
        errors.append(work[columns])
    ended = work[[names.index(f"q{k}") for k in range(1, 7)]]
    efforts = work[[names.index(f"motor{k}_effort") for k in range(1, 7)]]
    return np.array(errors), ended, efforts


def computed_torque(*, seconds: float = 10.0) -> Iterator[Row]:
    held, _, _ = manoeuvre(1.0)
    loose, ended, efforts = manoeuvre(0.0)
    with_it, without = np.abs(held).max(), np.abs(loose).max()
    yield at_most("tracking error with inverse dynamics", with_it, MOST, "rad")
    yield at_least(f"times less than with feedback alone, {without:.2g} rad", without / with_it, BETTER)
    yield at_most("at rest, with inverse dynamics", np.abs(held[-1]).max(), 1e-9, "rad")
    links = robot_links(tomllib.loads((FOLDER / "robot_6r.toml").read_text()))
    gravity = torques(links, ended, np.zeros(6), np.zeros(6), DOWN)
    yield at_most(f"torques at rest with feedback alone beside what gravity takes, {np.abs(gravity).max():.3g} N m",
                  np.abs(efforts - gravity).max() / np.abs(gravity).max(), 1e-6, "of it")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        found = tandem("run", "configs/arm.toml", "--seconds", f"{seconds:g}", "--runs", folder)
        yield equal(f"live: blocks lost, of {found['steps']} steps", found["balance"]["lost"], 0)
        run = next(Path(folder).iterdir())
        steps = open_run(run).need("/step").blocks
        errors = np.stack([steps[f"motor{k}_error"] for k in range(1, 7)])[:, round(SETTLED_S / H) :]
        moved, others = errors[1], np.delete(errors, 1, axis=0)
        # a late block makes what is wanted of the shoulder jump, and that is an error of no controller
        yield figure("live: error of the shoulder, which the device moves, rms", np.sqrt(np.mean(moved**2)), "rad")
        yield at_most("live: error of the other hinges meanwhile", np.abs(others).max(), MOST, "rad")
        yield replayed(run)
