"""FMUs of mechanisms: what FMPy integrates comes to where our own steps come to, and both are one mechanism."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fmpy
import fmpy.fmi3
import numpy as np
import pytest
from fmpy.simulation import simulate_fmu
from fmpy.validation import validate_fmu

from sim_service.contract import machine as contract
from sync.errors import ConfigError
from tandem.console.shipped_configs import CONFIGS
from tandem.fmu.build import as_model, no_rates_because, write_fmu
from tandem.fmu.object_code import ALLOWED
from tandem.fmu.platforms import HOST
from tandem.fmu.sources import load_source
from tandem.multibody.code.code_parts import CodeParts
from tandem.multibody.relative.machine_step import rates_of_change, tangent_of_rates
from tandem.offline.model import Model, load_machine

# of the FMU itself: its code is emitted in 5 s; what it computes is looked at without it first
COMPILED = [
    pytest.mark.drill,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]


def of_the_fmu(test: Any) -> Any:
    for mark in COMPILED:
        test = mark(test)
    return test


# a loop, a force that an input scales, and one that follows a law of time
CRANK = """
name = "crank"
[run]
seconds = 0.3
step_ms = 1.0
[points]
O = { at = [0.0, 0.0], fixed = true }
pin = { at = [0.3, 0.1] }
slider = { at = [1.2, 0.0] }
[bodies]
arm = { nodes = ["O", "pin"], mass = 1.0 }
rod = { nodes = ["pin", "slider"], mass = 2.0 }
[places]
middle = { on = "rod", at = [0.7, 0.05] }
[particles]
piston = { point = "slider", mass = 3.0 }
[inputs]
push = { value = 2.0 }
wave = { amplitude = 3.0, rate = 20.0, phase = 0.3, mean = 0.0 }
[joints]
cylinder = { kind = "slider", point = "slider", through = [0.0, 0.0], along = [1.0, 0.0] }
[forces]
hand = { kind = "force", point = "slider", vector = [1.5, 0.0], scale = "push" }
wind = { kind = "force", point = "pin", vector = [1.0, 2.0], scale = "wave" }
spring = { kind = "spring", points = ["O", "middle"], stiffness = 60.0, damping = 2.0, length = 0.5 }
[start.velocity]
pin = [-0.3, 0.9]
"""
# a body in free flight that tumbles: three slides and a ball
TOP = """
name = "top"
dimension = 3
[run]
seconds = 0.3
step_ms = 1.0
[points]
C = { at = [0.0, 0.0, 0.0] }
[vectors]
u = { along = [1.0, 0.0, 0.0] }
v = { along = [0.0, 1.0, 0.0] }
w = { along = [0.0, 0.0, 1.0] }
[bodies]
top = { nodes = ["C", "u", "v", "w"], mass = 1.0, centre = [0.0, 0.0, 0.0], inertia = [0.01, 0.02, 0.03] }
[start.velocity]
C = [1.0, 0.0, 2.0]
u = [0.0, 0.2, -12.0]
v = [-0.2, 0.0, 0.3]
"""


class Exchanged:
    """A mechanism as text, as our model, and as an FMU that FMPy has in Model Exchange."""

    def __init__(self, text: str, folder: Path):
        source, self.file = folder / "m.toml", folder / "model.fmu"
        source.write_text(text)
        self.model, self.exchange, step_s = load_source(str(source), {})
        self.made = write_fmu(self.model, "model", step_s, self.file, "tandem", exchange=self.exchange)
        self.about = fmpy.read_model_description(str(self.file))
        self.place = Path(fmpy.extract(str(self.file), str(folder / "x")))
        self.library = self.place / "binaries" / HOST / "model.so"
        self.at = {v.name: v.valueReference for v in self.about.modelVariables}
        self.outputs = [v.name for v in self.about.modelVariables if v.causality == "output"]

    def instance(self, kind: Any) -> Any:
        it = kind(instanceName="it", guid=self.about.guid, unzipDirectory=str(self.place), modelIdentifier="model")
        it.instantiate()
        return it

    def started(self) -> Any:
        it = self.instance(fmpy.fmi3.FMU3Model)
        it.enterInitializationMode()
        it.exitInitializationMode()
        it.enterContinuousTimeMode()
        return it


@pytest.fixture(scope="module")
def fmpy_here() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fmpy.fmi3, "platform_tuple", HOST)  # FMPy's own table has no aarch64 under Linux
        yield


@pytest.fixture(scope="module")
def crank(tmp_path_factory: pytest.TempPathFactory, fmpy_here: Any) -> Exchanged:
    return Exchanged(CRANK, tmp_path_factory.mktemp("crank"))


def ours(model: Model, inputs: dict[str, float], steps: int, step_s: float = 1e-3) -> dict[str, float]:
    one, out = model.copy(), {}
    for _ in range(steps):
        out = one.step(inputs, step_s)
    return out


@of_the_fmu
def test_it_is_valid_small_and_without_python(crank: Exchanged) -> None:
    assert validate_fmu(str(crank.file)) == [] and crank.made["model_exchange"]
    assert crank.library.stat().st_size <= 1_000_000
    shown = subprocess.run(["nm", "-D", crank.library], capture_output=True, text=True, check=True).stdout
    needed = {name.partition("@")[0] for name in re.findall(r" U (\S+)", shown)}
    assert needed <= ALLOWED | {"calloc", "malloc", "free", "strcmp", "memcmp"}
    assert crank.about.numberOfContinuousStates == 2 and crank.about.modelExchange.needsCompletedIntegratorStep
    units = {v.name: v.unit for v in crank.about.modelVariables}
    assert units["states.rod_turn_rate"] == "rad/s"


@of_the_fmu
def test_its_own_steps_are_ours_to_the_bit(crank: Exchanged) -> None:
    it, model = crank.instance(fmpy.fmi3.FMU3Slave), crank.model.copy()
    it.enterInitializationMode()
    it.exitInitializationMode()
    references = [crank.at[name] for name in crank.outputs]
    for k in range(40):
        it.setFloat64([crank.at["push"]], [float(k)])
        it.doStep(k * 1e-3, 1e-3)
        wanted = np.array(list(model.step({"push": float(k)}, 1e-3).values()))
        assert np.array(it.getFloat64(references)).tobytes() == wanted.tobytes(), k


@of_the_fmu
def test_what_fmpy_integrates_comes_to_where_our_steps_come_to(crank: Exchanged) -> None:
    """Its method of first order with three steps, extrapolated to none: within 2e-5 m and m/s of RODAS4."""
    found = []
    for h in (1e-3, 5e-4, 2.5e-4):
        result = simulate_fmu(
            str(crank.file), fmu_instance=crank.instance(fmpy.fmi3.FMU3Model), model_description=crank.about,
            solver="Euler", step_size=h, stop_time=0.1, output_interval=h, start_values={"push": 4.0},
            output=crank.outputs,
        )  # fmt: skip
        assert result["time"][-1] == pytest.approx(0.1)
        found.append(np.array([result[name][-1] for name in crank.outputs]))
    first, second = 2.0 * found[1] - found[0], 2.0 * found[2] - found[1]
    wanted = ours(crank.model, {"push": 4.0}, 100)
    assert np.allclose((4.0 * second - first) / 3.0, list(wanted.values()), rtol=0.0, atol=2e-5)
    assert np.abs(found[0] - list(wanted.values())).max() > 1e-4  # what was extrapolated away


@of_the_fmu
def test_the_fmu_has_these_derivatives(crank: Exchanged) -> None:
    it = crank.started()
    it.setTime(0.03)
    states = [name for name in crank.at if re.match(r"states\.(?!kept)", name)]
    known = [crank.at[name] for name in ("push", *states)]
    unknown = [crank.at[name] for name in (*crank.outputs, *(f"der({name})" for name in states))]
    it.setFloat64([crank.at["push"]], [1.0])
    for reference in known:
        (here,), ends = it.getFloat64([reference]), []
        for sign in (1.0, -1.0):
            it.setFloat64([reference], [here + sign * 1e-5])
            ends.append(np.array(it.getFloat64(unknown)))
        it.setFloat64([reference], [here])
        exact = np.array(it.getDirectionalDerivative(unknown, [reference], [1.0]))
        assert np.allclose(exact, (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-6) and np.ptp(exact) > 0.0


@of_the_fmu
def test_its_state_is_saved_with_the_branch_it_is_on(crank: Exchanged) -> None:
    it, y = crank.started(), np.zeros(2)
    pointer = y.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    references = [crank.at[name] for name in crank.outputs]
    saved, before = it.getFMUState(), it.getFloat64(references)
    for k in range(1, 30):  # half a turn: kept coordinates follow
        it.getContinuousStates(pointer, 2)
        y[0] += 0.1
        it.setContinuousStates(pointer, 2)
        it.setTime(0.001 * k)
        it.completedIntegratorStep()
    assert it.getFloat64(references) != before
    it.setFMUState(it.deserializeFMUState(it.serializeFMUState(saved)))
    assert it.getFloat64(references) == before
    y[:] = np.nan, 0.0
    it.setContinuousStates(pointer, 2)
    with pytest.raises(Exception, match="discard"):
        it.getFloat64(references)


# ---- without an FMU --------------------------------------------------------------------------------------------------


class Rates:
    """The kernels that an FMU has, called here."""

    def __init__(self, text: str, folder: Path):
        (folder / "m.toml").write_text(text)
        self.model, self.exchange, _ = load_source(str(folder / "m.toml"), {})
        self.machine = self.model.machine
        self.work = np.zeros(self.machine.work_size)
        self.inputs = np.full(len(self.machine.inputs), np.nan)
        self.outputs, self.y = len(self.machine.outputs), self.exchange.continuous

    def at(self, state: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outputs, rates, what is kept."""
        rates_of_change(state, self.inputs.copy(), self.model.params, self.machine.tables, self.work, t)
        n = self.outputs + self.y
        return tuple(
            self.work[a:b].copy() for a, b in ((0, self.outputs), (self.outputs, n), (n, n + len(state) - self.y))
        )  # type: ignore[return-value]

    def integrated(self, h: float, steps: int) -> np.ndarray:
        """Outputs after so many steps of the classic method; what is kept follows at the end of each."""
        state = self.model.state

        def moved(by: np.ndarray, size: float) -> np.ndarray:
            out = state.copy()
            out[: self.y] += size * by
            return out

        for k in range(steps):
            t = k * h
            k1 = self.at(state, t)[1]
            k2 = self.at(moved(k1, 0.5 * h), t + 0.5 * h)[1]
            k3 = self.at(moved(k2, 0.5 * h), t + 0.5 * h)[1]
            k4 = self.at(moved(k3, h), t + h)[1]
            state[: self.y] += h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
            state[self.y :] = self.at(state, t + h)[2]
        return self.at(state, h * steps)[0]


@pytest.mark.parametrize("text", [CRANK, TOP], ids=["loop and inputs", "ball"])
def test_rates_integrated_by_others_come_to_where_our_steps_come_to(tmp_path: Path, text: str) -> None:
    """1e-6 m, rad, m/s, rad/s between the classic method and RODAS4, both with steps of 1 ms."""
    one = Rates(text, tmp_path)
    start = one.at(one.model.state, 0.0)[0]
    found = one.integrated(1e-3, 200)
    assert np.allclose(found, list(ours(one.model, {}, 200).values()), rtol=0.0, atol=1e-6)
    assert np.abs(found - start).max() > 0.1 and bool(one.machine.of(contract.Rates).tangent) == (text == CRANK)


def test_derivatives_are_those_of_differences(tmp_path: Path) -> None:
    one = Rates(CRANK, tmp_path)
    state, t, columns = one.model.state, 0.03, one.y + 1
    tangent_of_rates(state, one.inputs.copy(), one.model.params, one.machine.tables, one.work, t)
    exact = one.work[: (one.outputs + one.y) * columns].reshape(-1, columns).copy()
    one.inputs[0] = 2.0
    for j in range(columns):
        ends = []
        for sign in (1e-5, -1e-5):
            there = state.copy()
            if j < one.y:
                there[j] += sign
            else:
                one.inputs[0] = 2.0 + sign
            ends.append(np.concatenate(one.at(there, t)[:2]))
        assert np.allclose(exact[:, j], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-6) and np.ptp(exact[:, j]) > 0.0


def test_where_loops_do_not_close_there_are_no_rates(tmp_path: Path) -> None:
    one = Rates((CONFIGS / "mechanisms" / "four_bar.toml").read_text(), tmp_path)
    assert np.isnan(one.at(np.full(len(one.machine.states), np.nan), 0.0)[1]).all()
    far = one.model.state
    far[0] += 1.5  # of the coupler, which rocker and crank do not let turn so far
    assert np.isnan(np.concatenate(one.at(far, 0.0)[:2])).all()


def test_what_is_no_equation_of_its_own_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bricard.toml: no FMU: other coordinates become independent \d+ times"):
        load_source("mechanisms/bricard", {})
    with pytest.raises(ConfigError, match=r"--set stiffness=2: .*pendulum.toml is a mechanism and has no parameters"):
        load_source("mechanisms/pendulum", {"stiffness": 2.0})
    # a machine whose step calls generated code says itself why; of any other nothing does
    wall = load_machine("wall").machine
    assert "how fast its states change" in no_rates_because(wall, None)
    own = wall.having(CodeParts(None, tuple, (), (), "brakes hold"))  # type: ignore[arg-type]
    assert no_rates_because(own, None) == "brakes hold"


def test_one_whose_coordinates_are_all_driven_is_for_co_simulation_alone(tmp_path: Path) -> None:
    driven = CRANK.replace(
        "[joints]", '[joints]\nmotor = { kind = "drive", scalar = "angle", polynomial = [0.0, 9.0] }'
    )
    driven = driven.replace("[joints]", '[joints]\nangle = { kind = "angle", bodies = ["ground", "arm"] }', 1)
    (tmp_path / "m.toml").write_text(driven.replace("[start.velocity]\npin = [-0.3, 0.9]", ""))
    model, exchange, _ = load_source(str(tmp_path / "m.toml"), {})
    assert "all of its coordinates are driven" in no_rates_because(model.machine, exchange)
    assert not as_model(model, "m", 1e-3, exchange)[0].has_rates
