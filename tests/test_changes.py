"""Every change that docs/changes.md lists, made in a copy of the sources as the page says it, and tried there."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.import_rules import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "changes.md").read_text().partition("## What has another name")[0]


@dataclass(frozen=True)
class Change:
    """A new file, lines behind others (file, line, new line), and what is true then."""

    check: str
    file: tuple[str, str] | None = None
    lines: tuple[tuple[str, str, str], ...] = ()

    def make(self, tree: Path) -> None:
        if self.file is not None:
            assert not (tree / self.file[0]).exists()
            (tree / self.file[0]).parent.mkdir(exist_ok=True)
            (tree / self.file[0]).write_text(self.file[1])
        for name, after, new in self.lines:
            text = (tree / name).read_text()
            assert text.count(after) >= 1, f"{name}: {after!r} is not there"
            (tree / name).write_text(text.replace(after, after + new, 1))


_SPRING = "tandem/machines/mass_spring/__init__.py"
_FLYWHEEL = """
from sim_service.contract.machine import STEP, Machine, Quantity
from sync.compile.jit import kernel

@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    state[0] += h * inputs[0]
    work[0] = state[0]

rate = Quantity("rate", "rad/s", "how fast it turns")
MACHINE = Machine("flywheel", (Quantity("torque", "N m", "on a wheel of 1 kg m2"),), (rate,), (rate,), (), step)
"""
_STILL = """
from daq_service.devices.contract import Device, DeviceSettings

class Settings(DeviceSettings):
    kind: str

class Still(Device):
    def read(self, scans, t_ns, wait_ns):
        return 0, 0

def open_device(config, settings, file, host):
    return Still()
"""
_SQUARED = """
class Squared(_OneDevice):
    kind: Literal["squared"]

    def numbers(self, step_s: float, period_s: float) -> list[float]:
        return [self.in_si(1.0)]

    @staticmethod
    def convert(numbers, row, own, x, xd, xdd, y):
        return numbers[row, own] * x * x, 2.0 * x * xd, 2.0 * (xd * xd + x * xdd)


ROWS: tuple[type[_Row], ...] = (Squared, """
_CONVERTED = """
import numpy as np
from sim_service.contract.machine import Quantity
from sim_service.inputs import make_inputs
from sim_service.inputs.table import rows
from sync.config.config import Daq
from sync.config.input_rows import KINDS
layout = Daq(channels=[{"name": "a", "type": "i4"}]).layout
row = KINDS["squared"](kind="squared", channel="a", to=["x"])
made, inputs = rows({"a": row}, layout, [Quantity("x", "1", "")], 0.005, 0.001, 100.0), np.zeros(1)
block = np.zeros(1, layout.dtype)
block["a"] = 7
make_inputs(block.view(np.int64), 0, 0.005, made, inputs)
assert inputs[0] == 49.0, inputs
"""
_ESTIMATED = """
import numpy as np
from sync.config.input_rows import KINDS
from sync.signals.estimators import MEMORY, estimate, observe
row = KINDS["encoder"](kind="encoder", channel="a", per_count=0.5, estimator="still", differentiator=7)
memory, par = np.zeros(MEMORY), np.array(row.numbers(0.005, 0.001)[1:])
observe(memory, par, 0, 4.0)
assert estimate(memory, par, 0, 4.0, 0.005) == (2.0, 0.0, 7.0)
"""
_SENSOR = """
class Clinometer(_Sensor):
    kind: Literal["clinometer"]


KINDS: dict[str, type[_Sensor]] = {"clinometer": Clinometer, """
CHANGES = {
    "a machine": Change(
        "from sim_service.registry import load_machine\nassert load_machine('flywheel')[0].name == 'flywheel'",
        ("tandem/machines/flywheel.py", _FLYWHEEL),
        (("sim_service/registry.py", "MACHINES = {\n", '    "flywheel": "tandem.machines.flywheel",\n'),),
    ),
    "a parameter of a machine": Change(
        "from tandem.machines.mass_spring import P\nassert P.drag == 0",
        lines=((_SPRING, "PARAMETERS = (\n", '    Parameter("drag", "N", 0.0, 0.0, 9.0, "on its way"),\n'),),
    ),
    "an output of a machine": Change(
        "import numpy as np\nfrom tandem.machines.mass_spring import W, MACHINE\nwork = np.zeros(MACHINE.work_size)\n"
        "MACHINE.step(np.zeros(2), np.ones(1), np.ones(len(MACHINE.parameters)), MACHINE.tables, work, 0.1)\n"
        "assert work[W.twice] == 2.0",
        lines=(
            (_SPRING, "OUTPUTS = (\n", '    Quantity("twice", "m", "the handle, twice"),\n'),
            (_SPRING, "inputs[I.handle]\n", "    work[W.twice] = 2.0 * handle\n"),
        ),
    ),
    "what the page shows of a machine": Change(
        "from tandem.machines.mass_spring import MACHINE\n"
        "assert MACHINE.shown.display.figures[0].channel == 'velocity'",
        lines=((_SPRING, "figures=(", 'Tile("speed", "velocity", "m/s", 1.0, 2), '),),
    ),
    "a device": Change(
        "from pathlib import Path\nfrom daq_service.devices import open_device\nfrom sync.config.config import load\n"
        "file = Path('configs/mass_spring.toml')\n"
        "assert type(open_device(load(file, ['source={kind=\"still\"}']), file)).__name__ == 'Still'",
        ("daq_service/devices/still.py", _STILL),
        (("daq_service/devices/__init__.py", "DEVICES = {\n", '    "still": "daq_service.devices.still",\n'),),
    ),
    "an input conversion": Change(
        _CONVERTED, lines=(("sync/config/input_rows.py", "ROWS: tuple[type[_Row], ...] = (", "#"),)
    ),
    "an estimator of an encoder's rate": Change(
        _ESTIMATED,
        lines=(
            (
                "sync/signals/estimators.py",
                "KINDS = {\n",
                '    "still": Estimator(lambda n, *of_times: [n], _nothing, inner(_still_now)),\n',
            ),
            (
                "sync/signals/estimators.py",
                "# ---- all of them",
                "\n\ndef _still_now(memory, par, counts, h):\n    return counts * par[_SCALE], 0.0, par[_N]\n\n#",
            ),
            ("sync/config/input_rows.py", "ESTIMATORS = Literal[", '"still", '),
        ),
    ),
    "a key of the configuration": Change(
        "from pathlib import Path\nfrom sync.config.config import load\n"
        "assert load(Path('configs/mass_spring.toml'), ['daq.spare=3']).daq.spare == 3",
        lines=(("sync/config/config.py", "class Daq(Section):\n", "    spare: int = 0\n"),),
    ),
    "a promise that is measured": Change(
        "from verify.promises import PROMISES\nassert [row.held for row in PROMISES['sums'].function()] == [True]",
        ("verify/path/sums.py", "from verify.measure import equal\n\ndef sums():\n    yield equal('sum', 1 + 1, 2)\n"),
        (("verify/promises.py", "_PATH = (\n", '    Promise("sums", "Sums are right.", "path.sums:sums", 1),\n'),),
    ),
    "a stream between processes": Change(
        "from sync.ring.streams import STREAMS, ring_name\nassert 'spare' in ring_name('run', 'spare')",
        lines=(("sync/ring/streams.py", "_ALL = (", 'Stream("spare", "sim", "words", "as they come", "words", 64), '),),
    ),
    "a command": Change(
        "from tandem.commands import cli\nassert 'hello' in cli._names(cli.app)",
        ("tandem/commands/hello.py", 'def hello() -> None:\n    """Say it."""\n'),
        (
            ("tandem/commands/cli.py", "from tandem import brought\n", "from tandem.commands.hello import hello\n"),
            ("tandem/commands/cli.py", "app.command(rich_help_panel=HERE)(keys)\n", "app.command()(hello)\n"),
        ),
    ),
    "a command of a machine": Change(
        "from tandem.commands import cli\nassert 'polish' in cli._names(cli.study)",
        lines=(("tandem/machines/car/commands/__init__.py", "COMMANDS = (\n", '    Brought("study polish", iso),\n'),),
    ),
    "a machine's first commands": Change(
        "from tandem.commands import cli\nassert 'spin' in cli._names(cli.app)",
        (
            "tandem/machines/spinning.py",
            "from tandem.console.help_text import Brought\n\ndef spin() -> None:\n    'Spin it.'\n\n"
            "COMMANDS = (Brought('spin', spin),)\n",
        ),
        (("tandem/brought.py", "COMMANDS = {\n", '    "spinning": "tandem.machines.spinning",\n} | {\n'),),
    ),
    "a check of the doctor": Change(
        "from tandem import doctor\nassert doctor.CHECKS[0].name == 'weather'",
        lines=(
            (
                "tandem/doctor/__init__.py",
                "CHECKS = (\n",
                '    Check("weather", lambda case: Finding("", "pass", "dry")),\n',
            ),
        ),
    ),
    "a machine's rows of the doctor": Change(
        "from tandem import doctor\nassert 'balance' in [c.name for rows in doctor.all_rows() for c in rows.checks]",
        (
            "tandem/machines/flywheel_doctor.py",
            "from tandem.doctor.findings import Check, Rows, passed\n\n"
            "ROWS = Rows((Check('balance', lambda case: passed('it runs true')),))\n",
        ),
        (("tandem/brought.py", "DOCTOR = {", '"flywheel": "tandem.machines.flywheel_doctor", '),),
    ),
    "a machine's sections in a run's report": Change(
        "from tandem.live.reported import own_report\nassert own_report('flywheel').channels == ('rate',)",
        (
            "tandem/machines/flywheel_report.py",
            "from tandem.live.reported import Own\n\nREPORT = Own(('rate',), tuple)\n",
        ),
        (("tandem/brought.py", "REPORTS = ", '{"flywheel": "tandem.machines.flywheel_report"} | '),),
    ),
    "a machine's kind of runs in a study": Change(
        "from pathlib import Path\nfrom tandem.ensembles.manoeuvres import gather\n"
        "assert gather({'kind': 'spun'}, None, Path(), 0.1, '').channels is False",
        (
            "tandem/machines/flywheel_runs.py",
            "from tandem.ensembles.manoeuvres import Gathered\n\n"
            "def gather(settings, machine, folder, step_s, where):\n    return Gathered(settings, channels=False)\n\n"
            "def prepare(context):\n    pass\n",
        ),
        (("tandem/brought.py", "MANOEUVRES = {\n", '    "spun": "tandem.machines.flywheel_runs",\n'),),
    ),
    "a table of times in a run's report": Change(
        "from tandem.live.figures import HISTOGRAMS\nassert HISTOGRAMS['spare_us'] == 'spare'",
        lines=(("tandem/live/figures.py", "HISTOGRAMS = {\n", '    "spare_us": "spare",\n'),),
    ),
    "a sensor of observers": Change(
        "from tandem.estimation.description import KINDS\nassert 'clinometer' in KINDS",
        lines=(("tandem/estimation/description.py", "KINDS: dict[str, type[_Sensor]] = {", "#"),),
    ),
    "a manoeuvre of `tandem iso`": Change(
        "from tandem.machines.car.studies.iso.manoeuvres import chosen\nassert chosen('again', 50.0) == ['again']",
        lines=(
            (
                "tandem/machines/car/studies/iso/manoeuvres.py",
                "MANOEUVRES = {\n",
                '    "again": Manoeuvre(step),\n',
            ),
        ),
    ),
    "a vehicle": Change(
        "from pathlib import Path\nfrom sim_service.registry import load_machine\n"
        "assert load_machine(Path('configs/vehicles/mine.toml'))[0].name == 'single_track'",
        ("configs/vehicles/mine.toml", (ROOT / "configs" / "vehicles" / "buggy_single_track.toml").read_text()),
    ),
    "who may import whom": Change(
        "from tests.import_rules import ARROWS\nassert 'numpy' in ARROWS['sync']",
        lines=(("tests/import_rules.py", '"sync": (', '"numpy",'),),
    ),
    "what is compiled only when asked for": Change(
        "from sync.compile import build\nfrom pathlib import Path\n"
        "assert build.on_request(Path('tandem/machines/kart/__init__.py'))",
        lines=(
            (
                "tandem/machines/kart/__init__.py",
                "from tandem.multibody.natural.views import view\n",
                "\nCOMPILED_ON_REQUEST = True\n",
            ),
        ),
    ),
}
# a class that stands in front of the line with its name
_IN_FRONT = {"an input conversion": _SQUARED, "a sensor of observers": _SENSOR}
_PROGRAM = """
import json, sys, traceback
found = {}
for name, check in json.load(sys.stdin).items():
    try:
        exec(check, {})
        found[name] = ""
    except BaseException:
        found[name] = traceback.format_exc()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each: nothing, or a traceback."""
    tree = tmp_path_factory.mktemp("changes")
    for folder in (*PACKAGES, "configs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "tests").mkdir()
    for name in ("__init__.py", "import_rules.py"):
        shutil.copy(ROOT / "tests" / name, tree / "tests")
    for name, change in CHANGES.items():
        if name in _IN_FRONT:
            ((file, line, _),) = change.lines
            text = (tree / file).read_text()
            assert text.count(line) == 1
            (tree / file).write_text(text.replace(line, _IN_FRONT[name].lstrip("\n")))
        else:
            change.make(tree)
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=tree, text=True, capture_output=True, check=False,
        input=json.dumps({name: change.check for name, change in CHANGES.items()}),
        env={**{k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}, "PYTHONPATH": str(tree)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_made_where_the_page_says(tried: dict[str, str], name: str) -> None:
    assert tried[name] == ""


def test_the_page_lists_these_and_names_places_that_exist() -> None:
    rows: list[tuple[str, ...]] = re.findall(r"^\| (.+?) \|(.*?)\|(.*?)\|$", PAGE, re.MULTILINE)
    listed = [row[0] for row in rows if row[0] != "to change"]
    assert listed == list(CHANGES) and len(listed) >= 20
    named = re.findall(r"`((?:tandem|sync|daq_service|sim_service|tests|configs)/[\w./]+)`", PAGE)
    assert len(named) > 15 and [path for path in named if not (ROOT / path).exists()] == []
