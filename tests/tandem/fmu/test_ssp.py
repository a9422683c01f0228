"""Several machines as one system: an SSP that FMPy reads, and whose FMUs, connected as it says, drive a car."""

import json
import math
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fmpy
import fmpy.fmi3
import numpy as np
import pytest
from fmpy.ssp.ssd import read_ssd
from lxml import etree
from typer.testing import CliRunner

from sim_service.contract.machine import Machine, Quantity
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.commands.cli import app
from tandem.fmu.layered import TERMINALS, base_unit, terminals, unit_element, variable_names
from tandem.fmu.platforms import HOST
from tandem.fmu.ssp import Component, connections
from verify.others.ssp import CAR, STEP_S, driven

SCHEMAS = Path(fmpy.__file__).parent / "schema" / "fmi3"
SSP_SCHEMAS = Path(fmpy.__file__).parent / "ssp" / "schema"

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.mark.parametrize(
    ("unit", "exponents", "factor"),
    [
        ("m/s2", (0, 1, -2, 0, 0, 0), 1.0),
        ("N m s/rad", (1, 2, -1, 0, 0, -1), 1.0),
        ("N/(m s)", (1, 0, -3, 0, 0, 0), 1.0),
        ("bar/s", (1, -1, -3, 0, 0, 0), 1e5),
        ("kg m2", (1, 2, 0, 0, 0, 0), 1.0),
        ("rpm", (0, 0, -1, 0, 0, 1), math.pi / 30),
        ("1", (0, 0, 0, 0, 0, 0), 1.0),
        ("1/rad", (0, 0, 0, 0, 0, -1), 1.0),
    ],
)
def test_units_are_in_base_units_of_the_si(unit: str, exponents: tuple[int, ...], factor: float) -> None:
    assert base_unit(unit) == (exponents, factor)


def test_a_unit_that_is_not_known_keeps_its_name_alone() -> None:
    assert base_unit("furlong") is None and unit_element("furlong") == '<Unit name="furlong"/>'


def machine(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], unit: str = "m") -> Machine:
    found, _ = load_machine("mass_spring")

    def each(names: tuple[str, ...]) -> tuple[Quantity, ...]:
        return tuple(Quantity(n, unit, "") for n in names)

    return replace(found, name=name, inputs=each(inputs), outputs=each(outputs), capabilities=())


def test_outputs_go_to_inputs_of_their_name_and_what_is_not_clear_is_refused() -> None:
    one = Component("one", machine("a", ("x",), ("y",)))
    other = Component("other", machine("b", ("y", "u"), ("x", "y")))
    found = [(c.giver, c.variable, c.taker, c.input) for c in connections([one, other])]
    # the other's own y is not its input's, and is called y_out in its FMU
    assert found == [("other", "x", "one", "x"), ("one", "y", "other", "y")]
    with pytest.raises(ConfigError, match=r"third\.y: one and other have an output of that name"):
        connections([one, other, Component("third", machine("c", ("y",), ()))])
    with pytest.raises(ConfigError, match=r"two\.y: is in s, that of one in m"):
        connections([one, Component("two", machine("c", ("y",), (), "s"))])


def test_terminals_are_valid_and_name_every_input_and_output() -> None:
    car, _ = load_machine(CAR)
    text = terminals(car)
    etree.XMLSchema(etree.parse(str(SCHEMAS / "fmi3TerminalsAndIcons.xsd"))).assertValid(
        etree.fromstring(text.encode())
    )
    found = etree.fromstring(text.encode())
    inputs, outputs = found[0]
    assert [m.get("memberName") for m in inputs] == [q.name for q in car.inputs]
    assert [m.get("variableName") for m in outputs] == variable_names(car)[1]
    assert {inputs.get("matchingRule"), outputs.get("matchingRule")} == {"bus"}


@needs_compiler
def test_a_car_and_its_driver_are_a_system_that_fmpy_reads_and_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fmpy.fmi3, "platform_tuple", HOST)
    file = tmp_path / "drive.ssp"
    done = CliRunner().invoke(app, ["ssp", f"car={CAR}", "driver=driver", "--out", str(file), "--json"])
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout.splitlines()[-1])
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path)
    schema = etree.XMLSchema(etree.parse(str(SSP_SCHEMAS / "SystemStructureDescription.xsd")))
    schema.assertValid(etree.parse(str(tmp_path / "SystemStructure.ssd")))
    joined = [
        (c.startElement, c.startConnector, c.endElement, c.endConnector)
        for c in read_ssd(str(file)).system.connections  # get_connections takes every input to be connected
    ]
    assert len(joined) == len(made["connections"]) == 8
    slaves = {name: Slave(tmp_path / "resources" / f"{name}.fmu", tmp_path) for name in ("car", "driver")}
    seen = []
    for turn in range(4000):
        for giver, variable, taker, variable_in in joined:
            slaves[taker].set(variable_in, slaves[giver].get(variable))
        for slave in slaves.values():
            slave.it.doStep(turn * STEP_S, STEP_S)
        seen.append([slaves["car"].get(name) for name in ("x", "y", "vx")] + [slaves["driver"].get("beside")])
    x, y, vx, beside = np.array(seen).T
    # on the circle, and as fast as a pedal that is pressed by how much is lacking makes it
    assert abs(vx[-400:] - 8.0).max() < 1.0 and abs(beside[-400:]).max() < 1.0
    assert y.max() > 55.0 and abs(x).max() > 25.0  # all around it
    ours = driven(4000)
    np.testing.assert_array_equal(np.column_stack([x, y, vx]), ours)  # what our own models do, connected alike


class Slave:
    def __init__(self, file: Path, folder: Path):
        about = fmpy.read_model_description(str(file), validate=True)
        place = fmpy.extract(str(file), str(folder / file.stem))
        assert (Path(place) / TERMINALS).is_file()
        self.at = {v.name: v.valueReference for v in about.modelVariables}
        self.it: Any = fmpy.fmi3.FMU3Slave(
            instanceName=file.stem, guid=about.guid, unzipDirectory=str(place),
            modelIdentifier=about.coSimulation.modelIdentifier,
        )  # fmt: skip
        self.it.instantiate()
        self.it.enterInitializationMode()
        self.it.exitInitializationMode()

    def get(self, name: str) -> float:
        return float(self.it.getFloat64([self.at[name]])[0])

    def set(self, name: str, value: float) -> None:
        self.it.setFloat64([self.at[name]], [value])
