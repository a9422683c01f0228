"""A machine whose shape is changed while it runs: between two steps, in the record, again to the bit."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sim_service import step_record
from sim_service.command_record import AT_KIND, LAYOUT, PARAMETER, RESET, SHAPE, SHAPED
from sim_service.contract.machine import FIT, Machine, Placed, Reshape, tables
from sim_service.registry import load_machine
from sim_service.replay import as_recorded, obeyed_as_recorded, replay
from sim_service.simulation import Simulation
from sync.compile.jit import kernel
from sync.errors import ConfigError
from sync.ring.ring import RingReader
from tests.sim_service.conftest import DRIVE
from tests.sim_service.test_commands import Commanded, push_until
from tests.sim_service.test_replay import assert_same, record

_HEAVIEST = 1500.0  # that can be made


@kernel(FIT)
def fit(state, moved, params, tables, work):
    """The first three coordinates go where they were drawn, the fourth counts what the tables say."""
    at = int(moved[0])
    for i in range(3):
        state[at + i] += moved[1 + i]
    state[3] += 0.01 * tables.floats[0]


def with_shapes(machine: Machine) -> Machine:
    """Its mass shapes it: in its tables, around a number that stays."""
    place = [p.name for p in machine.parameters].index("mass")

    def make(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mass = float(params[place])
        if mass > _HEAVIEST:
            raise ConfigError(f"mass = {mass:g}: must be at most {_HEAVIEST:g} here")
        return np.array([mass, -1.0, 2.0 * mass]), np.array([[0.001 * mass, 0.0, 0.0]])

    first = make(np.array([p.value for p in machine.parameters]))
    parameters = tuple(replace(p, live=False, shapes=True) if p.name == "mass" else p for p in machine.parameters)
    floats = tables((), [first[0][0], 7.0, first[0][2]])
    made = replace(machine, parameters=parameters, tables=floats)
    return made.having(Placed(remade=(1, 2)), Reshape(make, fit, first[1], (0,)))


@pytest.fixture
def commanded() -> Iterator[Commanded]:
    made = Commanded(changed=with_shapes)
    yield made
    made.close()


def test_a_shape_is_obeyed_between_two_steps_and_replayed_to_the_bit(commanded: Commanded) -> None:
    world, client = commanded.world, commanded.client
    machine = world.simulation.machine
    world.start()
    for upto, asked in (
        (10, {"values": {"mass": 900.0, "friction": 0.9}}), (20, {"values": {"mass": 1600.0, "friction": 0.5}}),
        (20, {"reset": True}), (30, {"values": {"mass": 700.0}}),
    ):  # fmt: skip
        push_until(world, upto)
        answer = client.ask(**asked)  # type: ignore[arg-type]
        assert answer["parameters"]["mass"]["live"]
        assert answer["ok"] or answer["error"] == "mass = 1600: must be at most 1500 here"
        assert answer["parameters"]["friction"]["value"] == 0.9
    push_until(world, 40)
    world.ask(step_record.NOW)
    steps = world.join()
    assert machine.tables.floats.tolist() == [700.0, 7.0, 1400.0]
    ring = RingReader(world.config.ring("command"), LAYOUT)
    commands, _, _ = ring.since(0, 100)
    ring.close()
    # what is asked for with a shape acts with it, before one step
    assert commands["kind"].tolist() == [SHAPED, SHAPED, SHAPE, RESET, SHAPED, SHAPE]
    friction = [p.name for p in world.simulation.model.parameters].index("friction")
    assert machine.params[friction] == 0.9
    found = record(world, steps)
    plan = as_recorded(steps, found.blocks, found.words, np.zeros(len(found.blocks), np.int64))
    plan.commands = np.ascontiguousarray(commands).view(np.int64).reshape(len(commands), LAYOUT.words)
    plan.obeyed = obeyed_as_recorded(steps, commands)
    model, params = load_machine(DRIVE.parent / world.config.sim.machine)
    assert_same(found, replay(Simulation(world.config, with_shapes(model), params.copy()), plan))
    # as records had it before such parameters had a kind of their own
    plan.commands = plan.commands.copy()
    kinds = plan.commands[:, AT_KIND]
    kinds[kinds == SHAPED] = PARAMETER
    assert_same(found, replay(Simulation(world.config, with_shapes(model), params.copy()), plan))
    # what a machine with one shape cannot do is left out
    alone = replay(Simulation(world.config, model, params.copy()), plan)
    assert (alone.view(np.int64)[10:] != found.columns()[10:]).any()
    given = [k for k in range(alone.shape[1]) if k >= len(model.inputs) or not model.inputs[k].optional]
    assert np.isfinite(alone[:, given]).all()


def test_a_loop_that_does_not_obey_keeps_the_shapes_it_was_given(commanded: Commanded) -> None:
    answers = [commanded.client.ask({"mass": 700.0 + n}) for n in range(10)]
    assert [answer["ok"] for answer in answers] == 8 * [True] + 2 * [False]
    assert "not been obeyed" in answers[-1]["error"]
    rows = commanded.world.simulation.shape_rows
    assert rows[:, 4].tolist() == [700.0 + n for n in range(8)]
