"""What machines bring beside themselves comes from another package as it comes from ours: by a name, once installed."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import Machine, Rates
from sim_service.registry import FILE, MachineFiles, load_machine, make_machine
from sync.errors import ConfigError
from tandem.console.compiled import machine_modules, machine_names
from tandem.console.shipped_configs import CONFIGS
from tandem.ensembles.sweep import sweep
from tandem.fmu.build import as_model
from tandem.live.reported import own_report
from tandem.machines.car.studies.vehicle.drive_report import SECTIONS
from tandem.machines.mass_spring import MACHINE
from tandem.offline.model import Model

PACKAGE = {
    "leaning": "from tandem.machines.tilting import MACHINE\n",
    "leaning_observed": "from tandem.machines.tilting.observed import OBSERVED\n"
    "def observed(machine, params):\n    return OBSERVED\n",
    "leaning_report": "from tandem.live.reported import Own\n"
    "REPORT = Own(('roll',), lambda: (lambda runs, bare: None,))\n",
    "stiffer": """
from tandem.ensembles.manoeuvres import Gathered, Log

class Stiffer:
    def run(self, machine, params, changed, case):
        return Log({}, 1e-3, 1, {"twice": 2.0 * changed["stiffness"]}, {"twice": "N/m"})

def gather(settings, machine, folder, step_s, where):
    return Gathered(settings, channels=False)

def prepare(context):
    return Stiffer()
""",
    "empty": "",
}
DECLARED = """
[tandem.machines]
leaning = leaning
[tandem.observed]
leaning = leaning_observed
[tandem.reports]
leaning = leaning_report
worse = empty
[tandem.manoeuvres]
stiffer = stiffer
worse = empty
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in PACKAGE.items():
        (tmp_path / f"{name}.py").write_text(text)
    facts = tmp_path / "elsewhere-1.2.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text(DECLARED)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()


def around(observed: str) -> Machine:
    text = (CONFIGS / "observers" / "tilting_live.toml").read_text().replace('"tilting"', f'"{observed}"')
    return make_machine(MachineFiles({FILE: text.encode()}, {FILE: "here.toml"}))[0]


def test_an_observer_is_for_a_machine_of_another_package_as_for_ours() -> None:
    theirs, ours = around("leaning"), around("tilting")
    assert theirs.outputs == ours.outputs and theirs.tables.ints.tobytes() == ours.tables.ints.tobytes()
    with pytest.raises(
        ConfigError,
        match=r"here\.toml: observed = .kart.: must be one of .*, tilting, mechanism, tilting_vehicle, leaning$",
    ):
        around("kart")


def test_of_a_machine_around_another_both_are_compiled_and_no_third(tmp_path: Path) -> None:
    names = machine_names("buggy_live.toml", CONFIGS / "observers")
    modules = machine_modules(*names)
    assert names == ["observer", "buggy"]
    assert modules == ["tandem.machines.observer.machine", "tandem.machines.car.buggy.observed"]
    (tmp_path / "x.toml").write_text('machine = "sensed"\nobserved = "tilting"\n')
    assert machine_modules(*machine_names("x.toml", tmp_path)) == [
        "tandem.machines.sensed", "tandem.machines.tilting.observed",
    ]  # fmt: skip


def test_a_study_drives_the_manoeuvre_of_another_package(tmp_path: Path) -> None:
    study = {
        "name": "stiffer", "machine": "mass_spring", "step_ms": 1.0, "manoeuvre": {"kind": "stiffer"},
        "parameters": {"stiffness": {"values": [100.0, 150.0]}},
    }  # fmt: skip
    assert sweep(study, tmp_path / "out", engine="threads").table["twice"].tolist() == [200.0, 300.0]
    for kind, said in (
        ("stifer", "must be one of inputs, record, .*stiffer"),
        ("worse", "elsewhere 1.2 .* has no gather"),
    ):
        with pytest.raises(ConfigError, match=rf"manoeuvre\.kind = '{kind}': {said}"):
            sweep({**study, "manoeuvre": {"kind": kind}}, tmp_path / "none")


def test_a_report_has_the_sections_of_the_machine_that_ran() -> None:
    assert own_report("leaning").channels == ("roll",) and len(own_report("leaning").sections()) == 1
    assert own_report("single_track").sections() == SECTIONS
    assert own_report("kart").channels == () and own_report("kart").sections() == ()
    with pytest.raises(ConfigError, match=r"report = 'worse': elsewhere 1\.2 .* has no REPORT"):
        own_report("worse")


def test_a_machine_says_itself_how_fast_its_states_change() -> None:
    own = MACHINE.of(Rates)
    assert own is not None
    params = load_machine("mass_spring")[1]
    for machine, rates, tangent in (
        (MACHINE, True, True),
        (MACHINE.having(Rates(own.of_states)), True, False),
        (MACHINE.without(Rates), False, False),
    ):
        model, kernels = as_model(Model(machine, np.array(params)), "m", 1e-3)
        assert (model.has_rates, model.has_tangent, len(kernels)) == (rates, tangent, 1 + rates + tangent)
