"""Machines and devices of other packages: found by name once installed, and named when they are broken."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from daq_service.devices import open_device
from sim_service.registry import load_machine
from sim_service.simulation import Simulation
from sync.config import plugins
from sync.config.config import load
from sync.errors import ConfigError
from tests.sim_service.conftest import CONFIGS

DRIVE = CONFIGS / "drive.toml"
MACHINE = """
from sim_service.contract.machine import STEP, Machine, Parameter, Quantity
from sync.compile.jit import kernel


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    state[1] -= h * params[0] * (state[0] - inputs[0])
    state[0] += h * state[1]
    work[0] = params[0] * (state[0] - inputs[0])


MACHINE = Machine(
    name="elsewhere_mass",
    inputs=(Quantity("hand", "m", "where the other end of the spring is"),),
    states=(Quantity("x", "m", "of the mass"), Quantity("v", "m/s", "of the mass")),
    outputs=(Quantity("force", "N", "of the spring on the hand"),),
    parameters=(Parameter("stiffness", "N/m", 3.0, 0.1, 100.0, "of the spring, for a mass of 1 kg"),),
    step=step,
)
"""
DEVICE = """
from daq_service.devices.contract import Device, DeviceSettings


class Settings(DeviceSettings):
    kind: str
    amplitude: int = 1


class Still(Device):
    def __init__(self, amplitude):
        self.amplitude = amplitude

    def read(self, scans, t_ns, wait_ns):
        return 0, 0


def open_device(config, settings, file, host):
    return Still(settings.amplitude)
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of others, as an installer leaves it."""
    package = tmp_path / "elsewhere"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mass.py").write_text(MACHINE)
    (package / "still.py").write_text(DEVICE)
    (package / "broken.py").write_text("import numpy\nraise RuntimeError('needs a licence')\n")
    (package / "empty.py").write_text("")
    facts = tmp_path / "elsewhere-1.2.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text(
        "[tandem.machines]\nmass = elsewhere.mass\nbroken = elsewhere.broken\nempty = elsewhere.empty\n"
        "gone = elsewhere.none\nbuggy = elsewhere.broken\n"
        "[tandem.devices]\nstill = elsewhere.still\nbroken = elsewhere.broken\nempty = elsewhere.empty\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return tmp_path


@pytest.mark.usefixtures("elsewhere")
def test_a_machine_of_another_package_is_found_by_name_and_steps() -> None:
    made, params = load_machine("mass", {"stiffness": 4.0})
    assert params.tolist() == [4.0]
    row = "inputs={hand={channel='steering', kind='encoder', unit='m', per_count=0.001, to=['hand']}}"
    simulation = Simulation(load(DRIVE, ["sim.machine=mass", row]), made, params)
    simulation.inputs[:] = 0.1
    for _ in range(100):
        made.step(simulation.state, simulation.inputs, params, made.tables, simulation.work, 0.005)
    assert simulation.state[0] == pytest.approx(0.1 * (1.0 - np.cos(2.0 * 0.5)), rel=0.02)
    assert simulation.layout.names[-1] == "force"


def test_a_file_may_name_it_with_its_parameters(elsewhere: Path) -> None:
    file = elsewhere / "mine.toml"
    file.write_text('machine = "mass"\n[parameters]\nstiffness = 7.0\n')
    assert load_machine(file)[1].tolist() == [7.0]


@pytest.mark.usefixtures("elsewhere")
def test_a_device_of_another_package_is_found_by_name_and_checks_its_settings() -> None:
    source = open_device(load(DRIVE, ["source={kind='still', amplitude=3}"]), DRIVE)
    assert source.amplitude == 3  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"source\.amplitud = 3: unknown key; did you mean amplitude\?"):
        open_device(load(DRIVE, ["source={kind='still', amplitud=3}"]), DRIVE)


@pytest.mark.usefixtures("elsewhere")
def test_an_unknown_name_is_refused_with_all_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"= 'mas': must be one of buggy, single_track, .*mass_spring, .*broken, empty, gone, mass$"
    ):
        load_machine("mas")
    with pytest.raises(ConfigError, match=r"source\.kind = 'stil': must be one of virtual, .*, broken, empty, still$"):
        open_device(load(DRIVE, ["source={kind='stil'}"]), DRIVE)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken", "RuntimeError: needs a licence"),
        ("gone", "ModuleNotFoundError: No module named 'elsewhere.none'"),
    ],
)
def test_a_broken_plugin_is_named_with_its_package(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"sim\.machine = '{name}': elsewhere 1\.2 declares it as .*: {reason}"):
        load_machine(name)


FORCE = "    work[0] = params[0] * (state[0] - inputs[0])"
MISTAKES = {  # text of the machine, what somebody writes instead, what is said
    "a forgotten @kernel": ("@kernel(STEP)", "", r"step: step at .*FILE:7 is not compiled; write @kernel\(STEP\)"),
    "a new array": (FORCE, "    work[0] = np.zeros(1)[0]", "FILE:10: does not compile: it allocates"),
    "a sum of vectors": (FORCE, "    work[0] = (state + state)[0]", "FILE:10: does not compile: it allocates"),
    "a slice": (FORCE, "    state[:] = inputs", "FILE:10: does not compile: it allocates, .*array_copy"),
    "a misspelt name": (FORCE, "    work[0] = stat[0]", "FILE:10: does not compile: name 'stat' is not defined"),
    "a parameter that is set": (FORCE, "    params[0] = 1.0", "FILE:10: does not compile: it writes into params or"),
    "an output too many": (
        FORCE, "    work[3] = state[0]", r"step at .*FILE:6 writes work\[3\], beyond its end; work has 1 .*work_size=4",
    ),
    "a state that is not declared": (FORCE, "    work[0] = state[5]", "step at .*FILE:6 reads beyond state; state has"),
    "an argument too few": ("tables, work, h", "work, h", "FILE:.* 6 argument types given, but function takes 5 arg"),
    "a module that is not there": ("from sync", "import nmpy\nfrom sync", "FILE:3: ModuleNotFoundError: .*'nmpy'"),
    "a misspelt field": ("    outputs=", "    outpts=", "FILE:.* TypeError: .*'outpts'"),
    "a missing comma": ("parameters=(Param", "parameters=[Param", "FILE:.* SyntaxError"),
    "a misspelt effort": (
        "step=step,", "step=step, capabilities=(Efforts(('frce',)),),", "FILE:.*efforts: frce: .* mean force"
    ),
    "a misspelt tile": (
        "step=step,", "step=step, capabilities=(Shown(Display(figures=(Tile('f', 'frce'),))),),",
        "display.figures: Tile.'f', 'frce'.: is no channel of this machine; did you mean 'force'",
    ),
}  # fmt: skip
IMPORTS = (
    "import numpy as np; from sim_service.contract.display import Display, Tile;"
    " from sim_service.contract.machine import Efforts, Shown"
)


@pytest.mark.parametrize("was,wrong,said", MISTAKES.values(), ids=MISTAKES)
def test_a_typical_mistake_in_a_machine_is_one_sentence_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str, wrong: str, said: str
) -> None:
    module = f"mine_{list(MISTAKES.values()).index((was, wrong, said))}"
    assert MACHINE.count(was) == 1
    (tmp_path / f"{module}.py").write_text(IMPORTS + MACHINE.replace(was, wrong))
    facts = tmp_path / f"{module}-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (facts / "entry_points.txt").write_text(f"[tandem.machines]\n{module} = {module}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match=said.replace("FILE", rf"{module}\.py")) as refused:
        load_machine(module)
    assert len(str(refused.value).splitlines()) == 1, refused.value


@pytest.mark.usefixtures("elsewhere")
def test_a_plugin_that_is_no_machine_or_device_is_said_to_be_none() -> None:
    with pytest.raises(ConfigError, match=r"machine = 'empty': .* has no MACHINE and no make"):
        load_machine("empty")
    with pytest.raises(ConfigError, match=r"source\.kind = 'empty': .* has no Settings"):
        open_device(load(DRIVE, ["source={kind='empty'}"]), DRIVE)


def test_no_package_takes_a_name_of_ours_and_two_of_others_are_told_apart(elsewhere: Path) -> None:
    assert plugins.known(plugins.MACHINES, {"buggy": ""}).count("buggy") == 1
    assert load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")[0].name == "single_track"
    other = elsewhere / "another-3.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 3\n")
    (other / "entry_points.txt").write_text("[tandem.machines]\nmass = another.mass\n")
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match=r"'mass': declared by (elsewhere 1\.2|another 3) and by .*; remove one"):
        load_machine("mass")
