"""A composite that adds nothing is the machine inside: all that is declared, and every step, to the bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim_service import composite
from sim_service.composite import OF_ITS_STEP, Head, Own, around, inside, pass_outputs
from sim_service.contract import machine as contract
from sim_service.contract.declared import check_declared
from sim_service.contract.machine import (
    STEP,
    Efforts,
    Machine,
    Moving,
    Placed,
    Prediction,
    Quantity,
    Reshape,
    Shown,
    Stepping,
    Unrolled,
    Unrolling,
)
from sim_service.contract.recorded_parameters import with_words, words_of
from sim_service.contract.scene import box, poses
from sim_service.registry import load_machine
from sync.compile.jit import kernel
from tandem.multibody.code.calls import address_of, as_word, function_at
from tests.sim_service.conftest import CONFIGS

STEPS, H = 200, 1e-3
SHIPPED: dict[str, str | Path] = {
    "mass_spring": "mass_spring", "tilting": "tilting", "wall": "wall", "piano_phases": "piano_phases",
    "piano_octave": "piano_octave", "piano_octave_multibody": "piano_octave_multibody",
    "piano_multibody": "piano_multibody",
    **{
        str(file.relative_to(CONFIGS)): file
        for file in (
            CONFIGS / "vehicles" / "buggy.toml", CONFIGS / "vehicles" / "buggy_single_track.toml",
            CONFIGS / "vehicles" / "kart.toml", CONFIGS / "vehicles" / "swerve.toml",
            CONFIGS / "vehicles" / "tilting.toml", CONFIGS / "vehicles" / "kart_on_track.toml",
        )
    },
}  # fmt: skip
step_at = function_at(STEP)
FRONT = (3.0, 0.0)  # of the composite's own numbers: one, then the address of the step inside


@kernel(STEP)
def step_inside(state, inputs, params, tables, work, h):
    own_state, own_params, own_tables, own_work = inside(state, params, tables, work)
    step_at(tables.floats[1])(own_state, inputs, own_params, own_tables, own_work, h)
    pass_outputs(tables, own_work, work)


def wrapped(machine: Machine) -> Machine:
    word = as_word(address_of(machine.step, STEP))
    return around(machine, Own(machine.name, step_inside, ints=[7], floats=[3.0, word], addresses=(1,), scratch=5))


def driven(machine: Machine, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and used inputs of every step, and the frames at the end."""
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    rows = [work[: len(machine.outputs)].copy()]
    for k in range(STEPS):
        inputs = np.array([np.nan if q.optional else 0.01 * np.sin(0.1 * k) for q in machine.inputs])
        machine.step(state, inputs, params, machine.tables, work, H)
        rows.append(np.concatenate([work[: len(machine.outputs)], inputs, state]))
    out = poses(machine.shown.scene.frames if machine.shown.scene is not None else 1)
    machine.shown.frames(state, params, out)
    return np.concatenate(rows), out


@pytest.mark.parametrize("name", SHIPPED)
def test_a_composite_that_adds_nothing_is_the_machine_inside(name: str) -> None:
    machine, params = load_machine(SHIPPED[name])
    whole = wrapped(machine)
    check_declared(whole, "")
    for part in ("name", "inputs", "states", "outputs", "parameters", "efforts", "stepping"):
        assert getattr(whole, part) == getattr(machine, part), part
    assert whole.shown.display == machine.shown.display and whole.shown.scene is machine.shown.scene
    for plain, found in zip(driven(machine, params), driven(whole, params), strict=True):
        assert plain.tobytes() == found.tobytes()
    # what a record has of it: the same words behind the one number in front, addresses and what is remade in no record
    words = words_of(whole, params)
    front = words[len(params) : len(params) + len(FRONT)].tolist()
    assert front == list(FRONT) and words[: len(params)].tobytes() == params.tobytes()
    assert words[len(params) + len(FRONT) :].tobytes() == words_of(machine, params)[len(params) :].tobytes()
    again = with_words(whole, params, words)
    assert again is not None and again[0].tables.floats.tobytes() == whole.tables.floats.tobytes()
    assert {type(each) for each in machine.capabilities} - {type(each) for each in whole.capabilities} <= {
        *OF_ITS_STEP, *(type(each) for each in machine.capabilities if type(each).__module__ != contract.__name__),
    }  # fmt: skip


def test_every_kind_of_capability_is_passed_on_or_belongs_to_the_step() -> None:
    """One that is added to the contract needs a decision here."""
    classes = {
        each for each in vars(contract).values()
        if isinstance(each, type) and each.__module__ == contract.__name__ and hasattr(each, "__dataclass_fields__")
    }  # fmt: skip
    capabilities = classes - {contract.Machine, contract.Quantity, contract.Parameter}
    declared = {Shown, Efforts, Placed, Stepping}
    assert capabilities == declared | set(composite.PASSED_ON) | set(OF_ITS_STEP)
    assert set(composite.PASSED_ON) == {Reshape, Moving, Prediction, Unrolled, Unrolling}


def test_what_the_contract_lets_a_machine_say_is_said_of_the_whole() -> None:
    """Of a machine that says all of it, which none of ours does."""
    plain, _ = load_machine("mass_spring")
    machine = replace(plain, tables=contract.tables([1, 2], [10.0, 11.0, 12.0, 13.0])).having(
        Placed("theirs", (1, 3), (3,)), Stepping(bound=1e12, step_ms=2.0, one_at_a_time=True)
    )
    own = Own(
        "more", step_inside, inputs=(Quantity("extra", "", ""),), states=(Quantity("behind", "", ""),),
        floats=[5.0, 6.0], addresses=(1,), layout="ours", efforts=("position",),
        solids=(box("block", 0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),),
        frames=lambda state, params, out: out[0, 0].fill(state[-1]),
    )  # fmt: skip
    whole = around(machine, own)
    assert whole.placed == Placed("ours around theirs", (3, 5), (1, 5))
    assert whole.stepping == machine.stepping
    assert whole.efforts == ("hand_force", "position")
    ints = whole.tables.ints
    assert ints[ints[Head.INTS_AT] :].tolist() == [1, 2]
    assert whole.tables.floats[ints[Head.FLOATS_AT] :].tolist() == machine.tables.floats.tolist()
    assert whole.shown.scene is not None and machine.shown.scene is not None
    assert whole.shown.scene.frames == machine.shown.scene.frames + 1
    out = poses(whole.shown.scene.frames)
    whole.shown.frames(np.array([0.1, 0.0, 4.0]), np.zeros(3), out)
    assert out[1, 0, 0] == pytest.approx(0.4) and out[2, 0].tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(ValueError, match="more: steps of 5 ms around mass_spring, of 2 ms"):
        around(machine, replace(own, step_ms=5.0))


def test_a_car_in_a_composite_begins_in_motion_and_is_looked_ahead_of() -> None:
    from sim_service.contract.start import moving

    machine, params = load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")
    begun = []
    for plain in (machine, wrapped(machine)):
        each = moving(plain, {"vx": 15.0, "yaw_rate": 0.1})
        state, work = np.zeros(len(each.states)), np.zeros(each.work_size)
        each.initial(state, params, each.tables, work)
        begun.append((state.tobytes(), work[: len(each.outputs)].tobytes()))
    assert begun[0] == begun[1]


def test_a_car_in_a_composite_changes_its_shape_to_the_same_bits() -> None:
    from sim_service.reshape import Shaping

    machine, params = load_machine(CONFIGS / "vehicles" / "buggy.toml")
    heavier = params.copy()
    heavier[[p.name for p in machine.parameters].index("sprung_mass")] *= 1.02
    found = []
    for each in (machine, wrapped(machine)):
        reshape = each.of(Reshape)
        assert reshape is not None
        state, work = np.zeros(len(each.states)), np.zeros(each.work_size)
        each.initial(state, params, each.tables, work)
        numbers, drawn = reshape.make(heavier)
        moved = np.column_stack([reshape.columns, drawn - reshape.drawn]).ravel()
        other = contract.tables(each.tables.ints, numbers)
        reshape.fit(state, moved, heavier, other, work)
        found.append(state.tobytes())
        assert Shaping(each, reshape).row(heavier).size
    assert found[0] == found[1]
