"""A user's program, as mypy sees it (test_types.py): nothing of ours is Any in it, and what it may do type-checks."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import tandem
from daq_service.devices.contract import Device
from sim_service.contract.machine import STEP, Efforts, Machine, Step, Tables, places
from sync.compile.jit import kernel
from tandem.library.answers import Balance, RecordInfo, ReplayFigures, RunResult, Tuned

Floats = NDArray[np.float64]
Column = NDArray[np.floating | np.integer]


def machine() -> None:
    car = tandem.load_machine("single_track", {"friction": 0.8}, files={"road": "flat.toml"})
    assert_type(car, tandem.Model)
    assert_type(car.machine, Machine)
    assert_type(car.state, Floats)
    assert_type(car.parameters["friction"], float)
    assert_type(car.parameters.describe("friction"), tandem.Parameter)
    assert_type(car.inputs, tuple[tandem.Quantity, ...])
    assert_type(car.step({"throttle": 0.3}), dict[str, float])
    made = car.run({"throttle": 0.3, "steering_angle": np.linspace(0.0, 0.5, 400)})
    assert_type(made, tandem.Table)
    assert_type(made["yaw_rate"], Column)
    assert_type(made.units["yaw_rate"], str)
    assert_type(made.plot("yaw_rate"), tandem.Plot)
    assert_type(car.linearise().a, Floats)
    assert_type(car.frames(), dict[str, Floats])
    car.state = car.copy().state
    car.parameters["friction"] = 0.7


def many() -> None:
    with tandem.batch("mass_spring", 8, {"stiffness": np.linspace(100.0, 200.0, 8)}) as copies:
        assert_type(copies, tandem.Batch)
        assert_type(copies.step({"handle": 0.05}, steps=10), Floats)
        assert_type(copies.outputs[:, copies.output_index["position"]], Floats)
        copies.reset([0, 3])
        copies.set_parameters(damping=4.0)
    on_gpu = tandem.batch("mass_spring", 8, gpu=True)
    assert_type(on_gpu, tandem.GpuBatch)
    assert_type(on_gpu.outputs.numpy(), Floats)


def record() -> None:
    run = tandem.open_run("runs")
    assert_type(run.table(), tandem.Table)
    assert_type(run.info, RecordInfo)
    assert_type(run.info["seconds"], float)
    assert_type(run.events, list[tuple[int, str]])
    assert_type(run.attachments, dict[str, bytes])
    again, figures = run.replay(["sim.parameters.rack_mass=6"])
    assert_type(again, tandem.Table)
    assert_type(figures, ReplayFigures)
    assert_type(figures["identical"], bool | None)


def live() -> None:
    with tandem.run("configs/wall.toml", seconds=3) as going:
        assert_type(going, tandem.Live)
        assert_type(going.latest()["force"], float)
        assert_type(going.tune({"stiffness": 300.0}, pause=False), dict[str, Tuned])
        result = going.wait()
        assert_type(result, RunResult)
        assert_type(result["age_us"]["p50"], float)
        assert_type(result["balance"], Balance)
        assert_type(going.recorded, tandem.Recorded)


def ensembles() -> None:
    assert_type(tandem.sweep("studies/mass_spring.toml").table, tandem.Table)
    found = tandem.identify("car.toml")
    assert_type(found.values, Floats)
    assert_type(found.parameters, dict[str, float])
    assert_type(found.after[0]["yaw_rate"], Floats)
    judged = tandem.validate("car.toml", settings=found.parameters)
    assert_type(judged.code, int)
    assert_type(judged.unused["yaw_rate"].explained, float)
    assert_type(judged.simulated[0]["yaw_rate"], Floats)


def wrong() -> None:
    try:
        tandem.load_machine("nothing").step({"nothing": 1.0})
    except tandem.UnknownName as error:
        assert_type(error.code, int)
    assert_type(tandem.__version__, str)


INPUTS = (tandem.Quantity("force", "N", "on the mass"),)
STATES = (tandem.Quantity("speed", "m/s", "of the mass"),)
PARAMETERS = (tandem.Parameter("mass", "kg", 2.0, 0.1, 10.0, "of the mass"),)
P = places("P", PARAMETERS)


@kernel(STEP)
def step(state: Floats, inputs: Floats, params: Floats, tables: Tables, work: Floats, h: float) -> None:
    state[0] += h * inputs[0] / params[P.mass]
    work[0] = state[0]


def own_machine() -> Machine:
    made = Machine("pushed", INPUTS, STATES, STATES, PARAMETERS, step, capabilities=(Efforts(("speed",)),))
    assert_type(made.step, Step)
    assert_type(made.of(Efforts), Efforts | None)
    assert_type(step(np.zeros(1), np.zeros(1), np.ones(1), made.tables, np.zeros(1), 0.01), None)
    return made


class Sensor(Device):
    def read(self, scans: NDArray[np.int64], t_ns: NDArray[np.int64], wait_ns: int) -> tuple[int, int]:
        scans[0, 0], t_ns[0] = 1, 2
        return 1, 0
