"""FMUs of our machines as FMPy has them: valid, without Python, and to the bit what a run computes."""

import ctypes
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fmpy
import fmpy.fmi3
import numpy as np
import pytest
from fmpy.validation import validate_fmu
from typer.testing import CliRunner

from sim_service.contract.machine import Placed
from sync.errors import ConfigError
from tandem.commands.cli import app
from tandem.fmu.address_code import objects, parts_of
from tandem.fmu.build import write_fmu
from tandem.fmu.object_code import ALLOWED, object_file
from tandem.fmu.platforms import HOST, PLATFORMS, Platform, compiler
from tandem.fmu.sources import load_source
from tandem.offline.model import load_machine
from tandem.records.replay import Options, replay_run

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "town.mcap"
STEP_S = 0.005
OWN = {"calloc", "malloc", "free", "strcmp", "memcmp", "memcpy", "memset"}  # of the C library, for the interface
HEADER = Path(fmpy.__file__).parent / "c-code" / "fmi3Functions.h"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


class Fmu:
    """One, opened by FMPy."""

    def __init__(self, file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(fmpy.fmi3, "platform_tuple", HOST)  # FMPy's own table has no aarch64 under Linux
        self.about = fmpy.read_model_description(str(file))
        self.place = Path(fmpy.extract(str(file), str(folder / file.stem)))
        self.library = self.place / "binaries" / HOST / f"{self.about.coSimulation.modelIdentifier}.so"
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


@pytest.mark.drill
def test_it_makes_the_very_steps_that_a_run_recorded(make: Make) -> None:
    done = replay_run(GOLDEN, Options("exact"))
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


@pytest.mark.drill
def test_a_machine_in_relative_coordinates_takes_its_generated_code_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = Path(__file__).resolve().parents[3] / "configs"
    shutil.copytree(configs, tmp_path / "configs")
    file = tmp_path / "configs" / "vehicles" / "relative.toml"
    file.write_text('formulation = "relative"\n' + (configs / "vehicles" / "buggy.toml").read_text())
    model = load_machine(file)
    made = write_fmu(model, "model", STEP_S, tmp_path / "model.fmu", "tandem")
    assert validate_fmu(made["fmu"]) == [] and made["library_bytes"] <= 2_000_000  # on x86; half of it on aarch64
    fmu = Fmu(tmp_path / "model.fmu", tmp_path, monkeypatch)
    shown = subprocess.run(["nm", "-D", fmu.library], capture_output=True, text=True, check=True).stdout
    assert all(name.startswith("fmi3") for name in re.findall(r" [A-TV-Z] (\S+)", shown))
    for k in range(400):
        values = {
            "throttle": 0.6 if k < 250 else 0.0, "brake_pressure_bar": 0.0 if k < 250 else 20.0,
            "steering_angle": 0.3 * np.sin(0.02 * k),
        }  # fmt: skip
        fmu.set(values)
        fmu.it.doStep(k * STEP_S, STEP_S)
        ours = np.array(list(model.step(values, STEP_S).values()))
        assert fmu.get(fmu.outputs).tobytes() == ours.tobytes(), k
        if k == 200:
            saved = fmu.it.getFMUState()
        elif k == 300:  # not a step more than the state that was saved
            fmu.it.setFMUState(saved)
            assert fmu.get(["time"])[0] == pytest.approx(201 * STEP_S)
            break
    (other,) = {"x86_64-linux", "aarch64-linux"} - {HOST}
    with pytest.raises(ConfigError, match=f"generated code for {HOST} alone"):
        objects(model.machine, parts_of(model.machine), PLATFORMS[other])


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


@pytest.mark.parametrize("machine", ["mass_spring", "tilting"])
def test_model_exchange_has_the_rates_that_the_steps_converge_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    """FMPy sets states and integrates: with the classic Runge-Kutta method and small steps it comes to where the
    machine's own small steps come to, which know nothing of these rates (mass_spring), or to the bit of rounding."""
    file = tmp_path / "model.fmu"
    write_fmu(load_machine(machine), "model", 1e-4, file, "tandem")
    assert validate_fmu(str(file)) == []
    monkeypatch.setattr(fmpy.fmi3, "platform_tuple", HOST)
    about = fmpy.read_model_description(str(file))
    assert about.modelExchange is not None and about.numberOfContinuousStates == len(load_machine(machine).states)
    it = fmpy.fmi3.FMU3Model(
        instanceName="it", guid=about.guid, unzipDirectory=fmpy.extract(str(file), str(tmp_path / "x")),
        modelIdentifier=about.modelExchange.modelIdentifier,
    )  # fmt: skip
    it.instantiate()
    it.enterInitializationMode()
    it.exitInitializationMode()
    assert it.updateDiscreteStates()[:5] == (False,) * 5
    it.enterContinuousTimeMode()
    n, model = about.numberOfContinuousStates, load_machine(machine)
    x, rates = np.zeros(n), np.zeros(n)
    pointers = [a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in (x, rates)]
    it.getContinuousStates(pointers[0], n)
    assert x.tobytes() == model.state.tobytes()
    name = model.inputs[0].name
    handle = next(v for v in about.modelVariables if v.name == name)
    it.setFloat64([handle.valueReference], [0.1])

    def rates_at(state: np.ndarray) -> np.ndarray:
        x[:] = state
        it.setContinuousStates(pointers[0], n)
        it.getContinuousStateDerivatives(pointers[1], n)
        return rates.copy()

    h, state = 1e-3, model.state
    for k in range(200):
        k1 = rates_at(state)
        k2 = rates_at(state + 0.5 * h * k1)
        k3 = rates_at(state + 0.5 * h * k2)
        state = state + h / 6.0 * (k1 + 2.0 * (k2 + k3) + rates_at(state + h * k3))
        rates_at(state)
        it.setTime((k + 1) * h)
        assert it.completedIntegratorStep() == (False, False)
    for _ in range(2000):
        outputs = model.step({name: 0.1}, 1e-4)
    assert np.allclose(state, model.state, rtol=2e-6, atol=1e-8) and np.ptp(state) > 0.0
    at = [v for v in about.modelVariables if v.causality == "output"]
    found = dict(zip((v.name for v in at), it.getFloat64([v.valueReference for v in at]), strict=True))
    assert found == {q.name: pytest.approx(outputs[q.name], rel=2e-5, abs=1e-7) for q in model.outputs}
    named = [v for v in about.modelVariables if v.name.startswith("der(")]
    assert np.array(it.getFloat64([v.valueReference for v in named])).tobytes() == rates_at(state).tobytes()
    # derivatives: those of central differences, which the FMU knows nothing of
    described = zipfile.ZipFile(file).read("modelDescription.xml")  # FMPy does not read this attribute
    assert described.count(b'providesDirectionalDerivatives="true"') == 1
    unknown, known = (
        [v for v in about.modelVariables if v.causality == "output" or v.name.startswith("der(")],
        [v for v in about.modelVariables if v.causality == "input" or v.name.startswith("states.")],
    )
    references = [v.valueReference for v in unknown]
    it.setFloat64([v.valueReference for v in known if v.causality == "input"], [0.1] * len(model.inputs))
    for v in known:
        (about_here,), small = it.getFloat64([v.valueReference]), 1e-6
        ends = []
        for sign in (1.0, -1.0):
            it.setFloat64([v.valueReference], [about_here + sign * small])
            ends.append(np.array(it.getFloat64(references)))
        it.setFloat64([v.valueReference], [about_here])
        exact = np.array(it.getDirectionalDerivative(references, [v.valueReference], [1.0]))
        assert np.allclose(exact, (ends[0] - ends[1]) / (2.0 * small), rtol=1e-6, atol=1e-6), v.name
    both = it.getDirectionalDerivative(references, [v.valueReference for v in known[:2]], [2.0, -3.0])
    one, two = (np.array(it.getDirectionalDerivative(references, [v.valueReference], [1.0])) for v in known[:2])
    assert np.allclose(both, 2.0 * one - 3.0 * two, rtol=1e-14)
    saved = it.getFMUState()
    rates_at(state + 1.0)
    it.setFMUState(saved)
    it.getContinuousStates(pointers[0], n)
    assert x.tobytes() == state.tobytes()


MAGIC = {
    "x86_64-linux": b"\x7fELF\x02\x01", "aarch64-linux": b"\x7fELF\x02\x01", "x86_64-windows": b"MZ",
    "x86_64-darwin": b"\xcf\xfa\xed\xfe\x07\x00\x00\x01", "aarch64-darwin": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
}  # fmt: skip


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=PLATFORMS)
def test_the_step_is_compiled_for_every_platform(platform: Platform) -> None:
    """As far as a file can tell: its kind, and what it needs from outside."""
    machine, params = load_machine("vehicles/buggy_single_track").description()
    code = object_file(machine, len(params), platform.triple)
    kind = {"x86_64-windows": b"\x64\x86"}.get(platform.name, MAGIC[platform.name])
    assert code.startswith(kind)
    if platform.name.endswith("linux"):
        assert int.from_bytes(code[18:20], "little") == {"x86_64-linux": 62, "aarch64-linux": 183}[platform.name]
    assert b"tandem_machine_step" in code and not re.search(rb"Py[A-Z]\w+|NRT_", code)


@pytest.mark.drill
@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=PLATFORMS)
def test_libraries_are_linked_for_other_platforms_where_a_linker_is_there(tmp_path: Path, platform: Platform) -> None:
    try:
        compiler(platform)
    except ConfigError:
        pytest.skip(f"nothing here compiles for {platform.name}")
    made = write_fmu(load_machine("mass_spring"), "model", STEP_S, tmp_path / "a.fmu", "tandem", [platform.name])
    with zipfile.ZipFile(made["fmu"]) as archive:
        library = archive.read(f"binaries/{platform.name}/model.{platform.ending}")
    assert library.startswith(MAGIC[platform.name]) and len(library) < 200_000
    assert b"fmi3DoStep" in library and b"fmi3GetContinuousStateDerivatives" in library


def test_a_platform_without_a_linker_is_said_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "x86_64-linux" if HOST == "aarch64-linux" else "aarch64-linux"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tandem.fmu.platforms.find_spec", lambda name: None)
    for name, why in ((other, f"needs {other}-gnu-gcc, or .*ziglang"), ("x86_64-darwin", "a cross compiler .*ziglang")):
        done = CliRunner().invoke(app, ["fmu", "mass_spring", "--out", str(tmp_path / "a.fmu"), "--platform", name])
        assert done.exit_code == 2 and re.search(why, " ".join(done.stderr.split())), done.stderr
    done = CliRunner().invoke(app, ["fmu", "mass_spring", "--platform", "vax-vms"])
    assert done.exit_code == 2 and "must be one of x86_64-linux, aarch64-linux" in " ".join(done.stderr.split())


def test_code_of_this_process_alone_is_refused_by_name() -> None:

    machine, _ = load_machine("mass_spring").description()
    with pytest.raises(ConfigError, match="mass_spring: its step calls code that was generated in this process"):
        parts_of(machine.having(Placed(addresses=(0,))))


def test_the_name_of_a_machine_stands_for_the_car_that_is_shipped() -> None:
    """`tandem fmu buggy`, as the first lines of docs/fmu.md have it."""
    (named, *_), (shipped, *_) = load_source("buggy", {}), load_source("vehicles/buggy.toml", {})
    assert named.name == shipped.name == "buggy" and dict(named.parameters) == dict(shipped.parameters)
    assert (named.params == shipped.params).all()


def test_the_command_writes_one_and_overwrites_nothing(tmp_path: Path) -> None:
    words = ["fmu", "mass_spring", "--out", str(tmp_path / "a.fmu"), "--step-ms", "1", "--json"]
    made = json.loads(CliRunner().invoke(app, words).stdout)
    assert made["step_s"] == 0.001 and list(made["platforms"]) == [HOST] and made["inputs"] == 1
    about = fmpy.read_model_description(made["fmu"])
    assert float(about.coSimulation.fixedInternalStepSize) == 0.001
    units = {v.name: v.unit for v in about.modelVariables}
    assert units["parameters.stiffness"] == "N/m" and about.generationTool.startswith("tandem")
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2 and "is there already" in again.stderr
    unknown = CliRunner().invoke(app, ["fmu", "no_such_machine"])
    assert unknown.exit_code == 2 and "no_such_machine" in unknown.stderr
