"""The step of the buggy with derivatives: values to the bit those of the step, derivatives those of differences."""

from dataclasses import replace

import numpy as np
import pytest

from sim_service.contract.machine import Machine, tables
from sim_service.many_steps import run_steps
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.console.shipped_configs import CONFIGS
from tandem.ensembles.identify import identify, remarks, summary
from tandem.ensembles.many_tangents import tangents
from tandem.machines.car.buggy import slots
from tandem.multibody.natural.tables import RETRIES
from tandem.multibody.natural.tables import P as Part
from tests.tandem.machines.car.buggy.conftest import assembled
from tests.tandem.machines.car.buggy.test_mf6 import cars_file

CAR = CONFIGS / "vehicles" / "buggy.toml"
H, STEPS = 0.005, 240
CHANNELS = ("x", "vx", "yaw_rate", "ax", "roll", "wheel_speed_rl", "force_x_fl", "spring_length_fl", "engine_speed")


def rows_of(machine: Machine, throttle: float, brake_bar: float, angle: float) -> np.ndarray:
    t = H * np.arange(STEPS)
    by_name = {
        "throttle": np.where(t < 0.8, throttle, 0.0), "brake_pressure_bar": np.where(t < 0.9, 0.0, brake_bar),
        "steering_angle": angle * np.sin(6.0 * t), "steering_speed": 6.0 * angle * np.cos(6.0 * t),
        "steering_acceleration": -36.0 * angle * np.sin(6.0 * t),
    }  # fmt: skip
    absent = [np.nan if q.optional else 0.0 for q in machine.inputs]
    return np.column_stack(
        [np.broadcast_to(by_name.get(q.name, rest), STEPS) for q, rest in zip(machine.inputs, absent, strict=True)]
    )


def log_of(machine: Machine, params: np.ndarray, rows: np.ndarray) -> np.ndarray:
    state, work, logged = np.zeros(len(machine.states)), np.zeros(machine.work_size), np.arange(len(machine.outputs))
    machine.initial(state, params, machine.tables, work)
    log = np.zeros((len(rows), len(logged)))
    done = run_steps(
        machine.step, state, np.zeros(len(machine.inputs)), params, machine.tables, work, H, rows, logged, log,
        len(machine.outputs), machine.stepping.bound,
    )  # fmt: skip
    assert done == len(rows)
    return log


def apart(
    machine: Machine, params: np.ndarray, rows: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """How far derivatives are from differences, as a share of their root mean square: a row a parameter, a column a
    channel; and the run. Its values are those of a plain one."""
    places = {p.name: k for k, p in enumerate(machine.parameters)}
    which = [next(k for k, q in enumerate(machine.outputs) if q.name == name) for name in CHANNELS]
    logged, plain = np.arange(len(machine.outputs)), log_of(machine, params, rows)
    log, slopes, made = tangents(machine, params, [places[name] for name in names], rows, logged, H)
    assert made == len(rows) and np.array_equal(log, plain)
    found = np.full((len(names), len(CHANNELS)), np.inf)
    for lane, name in enumerate(names):
        for share in (3e-3, 3e-4, 3e-5):  # those of one size have an error of their own
            ends = []
            for sign in (1.0, -1.0):
                other = params.copy()
                other[places[name]] *= 1.0 + share * sign
                ends.append(log_of(machine, other, rows)[:, which])
            expected = (ends[0] - ends[1]) / (2.0 * share * params[places[name]])
            error = np.sqrt(np.mean((slopes[:, which, lane] - expected) ** 2, axis=0) / np.mean(expected**2, axis=0))
            found[lane] = np.minimum(found[lane], error)
    return found, plain


@pytest.mark.parametrize(
    ("driven", "changed", "names"),
    [
        ((0.9, 12.0, 1.0), {}, ("rack_travel_per_turn", "brake_front", "grip", "engine_inertia", "front_spring_rate")),
        # on its stops, and with wheels that its brakes lock and hold
        ((1.0, 90.0, 0.3), {"push_z": -3500.0}, ("stop_rate", "front_damper_bump", "brake_rear")),
    ],
    ids=["driving", "stops and locked wheels"],
)
def test_derivatives_of_a_run_are_those_of_differences_and_its_values_the_same_bits(driven, changed, names) -> None:
    machine, params = load_machine(CAR)
    for k, parameter in enumerate(machine.parameters):
        params[k] = changed.get(parameter.name, params[k])
    found, _ = apart(machine, params, rows_of(machine, *driven), names)
    assert found.max() < 5e-3 and np.median(found) < 2e-4


def test_on_tyres_of_mf_6_they_are_those_of_differences_too(tmp_path) -> None:
    machine, params = load_machine(cars_file(tmp_path, 61))
    found, _ = apart(machine, params, rows_of(machine, 0.9, 12.0, 1.0), ("brake_front", "grip"))
    assert found.max() < 5e-3


def test_steps_that_are_made_in_parts_have_derivatives() -> None:
    """Dropped on its wheels, with a core that tries once alone."""
    machine, params = load_machine(CAR)
    built = assembled()
    ints = np.array(machine.tables.ints)
    ints[slots.HEAD + built.system.span(Part.OPTION).start + RETRIES] = 0
    heights = [n.columns[2] for n in built.system.mechanism.nodes.values() if n.kind == "point" and n.columns]

    def lifted(state, params, constants, work) -> None:
        machine.initial(state, params, constants, work)
        state[built.system.span(Part.Q).start + np.array(heights)] += 0.3

    alone = replace(machine, tables=tables(ints, machine.tables.floats), initial=lifted)
    found, log = apart(alone, params, rows_of(machine, 0.0, 0.0, 0.0)[:130], ("front_spring_rate", "front_damper_bump"))
    assert (log[:, [q.name for q in machine.outputs].index("parts")] == 4.0).sum() > 3
    moved = [CHANNELS.index("wheel_speed_rl"), CHANNELS.index("spring_length_fl")]  # it falls straight
    assert found[:, moved].max() < 5e-3


def test_who_steers_by_torque_has_none_and_differences_are_taken() -> None:
    machine, params = load_machine(CAR, {"steering_mode": 1.0})
    rows, logged = rows_of(machine, 0.5, 0.0, 0.0)[:2], np.arange(len(machine.outputs))
    assert np.isnan(tangents(machine, params, [0], rows, logged, H)[1]).all()


@pytest.mark.drill
def test_live_parameters_are_found_by_tangents_and_those_that_shape_it_by_differences(tmp_path) -> None:
    machine, params = load_machine(CAR)
    rows = rows_of(machine, 0.9, 12.0, 1.0)[:60]
    measured = [q.name for q in machine.outputs].index("yaw_rate")
    names = [q.name for q in machine.inputs if not q.optional]
    given = [rows[:, [q.name for q in machine.inputs].index(name)] for name in names]
    table = np.column_stack([H * np.arange(60), *given, np.append(0.0, log_of(machine, params, rows)[:-1, measured])])
    np.savetxt(tmp_path / "m.csv", table, delimiter=",", header=",".join(["t", *names, "yaw_rate"]), comments="")
    study = {
        "name": "mixed", "machine": str(CAR), "records": [str(tmp_path / "m.csv")],
        "measured": {"yaw_rate": {"sigma": 0.01}},
        "parameters": {"grip": {"low": 0.5, "high": 1.5}, "sprung_mass": {"low": 500.0, "high": 900.0}},
    }  # fmt: skip
    found = identify(study, only_sensitivity=True)
    alone = identify({**study, "solver": {"sensitivities": "differences"}}, only_sensitivity=True)
    assert (found.sensitivities, found.by_differences) == ("exact and differences", ("sprung_mass",))
    assert "of sprung_mass by differences" in "\n".join(remarks(found))
    assert summary(alone)["by_differences"] == ["grip", "sprung_mass"]
    for name, by in found.influence.items():
        assert by["yaw_rate"] == pytest.approx(alone.influence[name]["yaw_rate"], rel=1e-3), name
    with pytest.raises(ConfigError, match="has none by sprung_mass"):
        identify({**study, "solver": {"sensitivities": "exact"}})
