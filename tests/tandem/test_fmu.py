"""FMUs of our machines as FMPy has them: valid, without Python, and to the bit what a run computes."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fmpy
import fmpy.fmi3
import numpy as np
import pytest
from fmpy.validation import validate_fmu
from typer.testing import CliRunner

from sync.errors import ConfigError
from tandem.cli import app
from tandem.fmu.build import PLATFORM, write_fmu
from tandem.fmu.object_code import ALLOWED, object_file
from tandem.library.model import load_machine
from tandem.replay import Asked, replay_run

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "town.mcap"
STEP_S = 0.005
OWN = {"calloc", "malloc", "free", "strcmp", "memcmp", "memcpy", "memset"}  # of the C library, for the interface
HEADER = Path(fmpy.__file__).parent / "c-code" / "fmi3Functions.h"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


class Fmu:
    """One, opened by FMPy."""

    def __init__(self, file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(fmpy.fmi3, "platform_tuple", PLATFORM)  # FMPy's own table has no aarch64 under Linux
        self.about = fmpy.read_model_description(str(file))
        self.place = Path(fmpy.extract(str(file), str(folder / file.stem)))
        self.library = self.place / "binaries" / PLATFORM / f"{self.about.coSimulation.modelIdentifier}.so"
        self.at = {v.name: v.valueReference for v in self.about.modelVariables}
        self.said: list[str] = []
        self.it = self.started()

    def started(self, token: str = "") -> Any:
        it = fmpy.fmi3.FMU3Slave(
            instanceName="it", guid=token or self.about.guid, unzipDirectory=str(self.place),
            modelIdentifier=self.about.coSimulation.modelIdentifier,
        )  # fmt: skip
        it.instantiate(logMessage=lambda _, __, ___, text: self.said.append(text.decode()))
        it.enterInitializationMode()
        it.exitInitializationMode()
        return it

    def set(self, values: dict[str, float]) -> None:
        self.it.setFloat64([self.at[name] for name in values], list(values.values()))

    def get(self, names: list[str]) -> np.ndarray:
        return np.array(self.it.getFloat64([self.at[name] for name in names]))

    @property
    def outputs(self) -> list[str]:
        return [v.name for v in self.about.modelVariables if v.causality == "output"]

    @property
    def states(self) -> list[str]:
        return [name for name in self.at if name.startswith("states.")]


Make = Callable[..., Fmu]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def made(machine: str | Path, name: str = "model") -> Fmu:
        file = tmp_path / f"{name}.fmu"
        write_fmu(load_machine(machine), name, STEP_S, file, "tandem")
        return Fmu(file, tmp_path, monkeypatch)

    return made


@pytest.mark.parametrize("machine", ["mass_spring", "wall", "vehicles/buggy_single_track", "vehicles/buggy"])
def test_an_fmu_is_valid_small_without_python_and_steps_to_the_bit(make: Make, tmp_path: Path, machine: str) -> None:
    fmu = make(machine)
    assert validate_fmu(str(tmp_path / "model.fmu")) == []
    assert fmu.library.stat().st_size <= 1_000_000
    shown = subprocess.run(["nm", "-D", fmu.library], capture_output=True, text=True, check=True).stdout
    needed = {name.partition("@")[0] for name in re.findall(r" U (\S+)", shown)}
    assert needed <= ALLOWED | OWN
    offered = set(re.findall(r" T (\S+)", shown))
    assert offered == set(re.findall(r"\bfmi3\w+TYPE\s+(fmi3\w+);", HEADER.read_text()))
    model = load_machine(machine)
    wanted = [q.name for q in model.inputs if not q.optional]
    for k in range(60):
        values = {name: 0.05 * np.sin(0.1 * k * (j + 1)) for j, name in enumerate(wanted)}
        fmu.set(values)
        assert fmu.it.doStep(k * STEP_S, STEP_S)[3] == pytest.approx((k + 1) * STEP_S)
        ours = np.array(list(model.step(values, STEP_S).values()))
        assert fmu.get(fmu.outputs).tobytes() == ours.tobytes(), k
    assert fmu.get(fmu.states).tobytes() == model.state.tobytes()


def test_it_makes_the_very_steps_that_a_run_recorded(make: Make) -> None:
    done = replay_run(GOLDEN, Asked("exact"))
    assert done.figures["identical"]
    fmu, columns = make(GOLDEN), done.columns()
    given = [target for row in done.config.inputs.values() for target in row.to]
    inputs = [name for name in given if name in fmu.at]
    names = [q.name for q in done.model.outputs]
    recorded = np.column_stack([columns[name] for name in names])
    for k in range(len(recorded)):
        fmu.set({name: float(columns[name][k]) for name in inputs})
        fmu.it.doStep(k * STEP_S, STEP_S)
        assert fmu.get(fmu.outputs).tobytes() == np.ascontiguousarray(recorded[k]).tobytes(), k


def test_states_are_saved_restored_and_serialised_exactly(make: Make) -> None:
    fmu = make("vehicles/buggy_single_track")

    def go_on() -> bytes:
        for k in range(20):
            fmu.set({"steering_angle": 0.02 * np.sin(k), "throttle": 0.5})
            fmu.it.doStep(k * STEP_S, STEP_S)
        return bytes(fmu.get(fmu.states).tobytes() + fmu.get(fmu.outputs).tobytes())

    go_on()
    saved = fmu.it.getFMUState()
    written = fmu.it.serializeFMUState(saved)
    first = go_on()
    fmu.it.setFMUState(saved)
    assert go_on() == first
    again = fmu.it.deserializeFMUState(written)
    fmu.it.setFMUState(again)
    assert go_on() == first
    fmu.it.freeFMUState(saved)
    fmu.it.freeFMUState(again)
    fmu.it.reset()
    assert fmu.get(["time"])[0] == 0.0


def test_instances_share_nothing(make: Make) -> None:
    fmu = make("vehicles/buggy_single_track")
    alone, beside = fmu.started(), fmu.started()
    inputs = [fmu.at["steering_angle"], fmu.at["throttle"]]
    for k in range(20):
        for it, angle in ((fmu.it, 0.01), (beside, -0.02), (alone, 0.01)):
            it.setFloat64(inputs, [angle, 0.5])
            it.doStep(k * STEP_S, STEP_S)
    states = [fmu.at[name] for name in fmu.states]
    first, second, other = (np.array(it.getFloat64(states)) for it in (fmu.it, alone, beside))
    assert first.tobytes() == second.tobytes() != other.tobytes()
    for it in (alone, beside, fmu.it):
        it.terminate()
        it.freeInstance()


def test_what_is_wrong_is_refused_and_said(make: Make) -> None:
    fmu = make("mass_spring")
    parameter = next(v for v in fmu.about.modelVariables if v.causality == "parameter")
    wrong = (
        (lambda: fmu.it.doStep(0.0, 0.4 * STEP_S), "multiple of fixedInternalStepSize"),
        (lambda: fmu.set({parameter.name: float(parameter.max) * 2.0}), "outside its min and max"),
        (lambda: fmu.set({fmu.outputs[0]: 1.0}), "only inputs and parameters"),
        (lambda: fmu.it.getFloat64([10_000]), "no variable has this value reference"),
        (lambda: fmu.started("{another}"), "instantiationToken"),
    )
    for call, why in wrong:
        with pytest.raises(Exception):  # noqa: B017
            call()
        assert why in fmu.said[-1]
    fmu.set({parameter.name: float(parameter.max)})
    assert fmu.get([parameter.name])[0] == float(parameter.max)


def test_a_model_that_diverges_ends_with_an_error(make: Make) -> None:
    fmu = make("mass_spring")
    with pytest.raises(Exception):  # noqa: B017, PT012
        fmu.set({fmu.about.modelVariables[1].name: 1e300})
        for k in range(3):
            fmu.it.doStep(k * STEP_S, STEP_S)
    assert "diverged" in fmu.said[-1]


def test_code_of_this_process_alone_is_refused_by_name() -> None:
    from dataclasses import replace

    machine, _ = load_machine("mass_spring").description()
    with pytest.raises(ConfigError, match="mass_spring: its step calls code that was generated in this process"):
        object_file(replace(machine, addresses=(0,)))


def test_the_command_writes_one_and_overwrites_nothing(tmp_path: Path) -> None:
    words = ["fmu", "mass_spring", "--out", str(tmp_path / "a.fmu"), "--step-ms", "1", "--json"]
    made = json.loads(CliRunner().invoke(app, words).stdout)
    assert made["step_s"] == 0.001 and made["platform"] == PLATFORM and made["inputs"] == 1
    about = fmpy.read_model_description(made["fmu"])
    assert float(about.coSimulation.fixedInternalStepSize) == 0.001
    units = {v.name: v.unit for v in about.modelVariables}
    assert units["parameters.stiffness"] == "N/m" and about.generationTool.startswith("tandem")
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2 and "is there already" in again.stderr
    unknown = CliRunner().invoke(app, ["fmu", "no_such_machine"])
    assert unknown.exit_code == 2 and "no_such_machine" in unknown.stderr
