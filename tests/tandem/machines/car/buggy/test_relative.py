"""The buggy in relative coordinates: drives as in natural ones, falls back where it must, goes on to the bit.

One drive serves all: it sets off, swerves, and brakes to a stop.
"""

import functools
from types import SimpleNamespace

import numpy as np
import pytest

from sim_service.contract.machine import Machine, Reshape, index
from sim_service.contract.recorded_parameters import packed_words, recorded_machine, words_of
from sim_service.registry import FILE, MachineFiles, gather, make_machine
from sim_service.reshape import Shaping, change_shape, changeable
from sync.errors import ConfigError
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.description import INPUTS, P
from tandem.multibody.natural.tables import P as Part
from tests.examples import thorough
from tests.tandem.machines.car.buggy.conftest import CONFIGS, VEHICLE, assembled

H = 5e-3
STEPS = 1500
BRAKES = 800  # the first step with brakes on
KEPT = ("x", "y", "yaw", "vx", "roll", "yaw_rate", "wheel_speed_fl", "rack_force", "ay", "engine_speed", "load_rr")
NEAR = (2e-2, 2e-2, 2e-3, 1e-2, 1e-3, 5e-3, 0.1, 20.0, 0.1, 1.0, 40.0)  # of each, both being approximations


def files(text: str = 'formulation = "relative"\n', road: str = "") -> MachineFiles:
    found = gather(VEHICLE, {"road": CONFIGS / "roads" / road} if road else {})
    return MachineFiles({**found.files, FILE: text.encode() + found.files[FILE]}, found.names)


@functools.cache
def car(formulation: str) -> tuple[Machine, np.ndarray]:
    return make_machine(files(f'formulation = "{formulation}"\n'))


def inputs(k: int) -> np.ndarray:
    out = np.zeros(len(INPUTS))
    t = k * H
    out[index(INPUTS, "throttle")] = 0.7 if k < BRAKES else 0.0
    out[index(INPUTS, "brake_pressure_bar")] = 0.0 if k < BRAKES else min(40.0, 100.0 * H * (k - BRAKES))
    out[[k for k, quantity in enumerate(INPUTS) if quantity.optional]] = np.nan
    if t > 2.0:
        for i, name in enumerate(("steering_angle", "steering_speed", "steering_acceleration")):
            out[index(INPUTS, name)] = 0.5 * (3.0**i) * np.sin(3.0 * (t - 2.0) + 0.5 * np.pi * i)
    return out


@functools.cache
def drive(formulation: str) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of all steps, and the state in the middle."""
    machine, params = car(formulation)
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    out, middle = np.zeros((STEPS, len(machine.outputs))), state
    for k in range(STEPS):
        if k == STEPS // 2:
            middle = state.copy()
        machine.step(state, inputs(k), params, machine.tables, work, H)
        out[k] = work[: len(machine.outputs)]
    return out, middle


def test_both_formulations_drive_alike():
    machine, _ = car("relative")
    natural, relative = drive("natural")[0], drive("relative")[0]
    for name, near in zip(KEPT, NEAR, strict=True):
        k = index(machine.outputs, name)
        off = np.abs(natural[:BRAKES, k] - relative[:BRAKES, k]).max()
        assert off < near, (name, off)
    assert np.abs(natural[-1, :3] - relative[-1, :3]).max() < 0.2


def test_what_contact_stores_is_known_after_a_step_in_relative_coordinates() -> None:
    """So that the step that makes a contact of the body, which is I3AL's, finds whether its work is right."""
    energy = assembled().system.span(Part.ELEMENT).start + slots.ENERGY
    natural, relative = (drive(formulation)[1][energy] for formulation in ("natural", "relative"))
    assert relative == pytest.approx(natural, rel=0.02) and relative > 10.0


def test_steps_it_is_not_fit_for_are_those_of_i3al():
    machine, _ = car("relative")
    out = drive("relative")[0]
    parts, speed = out[:, index(machine.outputs, "parts")], out[:, index(machine.outputs, "vx")]
    assert np.all(parts[:50] >= 1)  # stands
    assert np.mean(parts[np.arange(STEPS) < BRAKES][speed[:BRAKES] > 2.5] == 0) > 0.9
    assert abs(speed[-1]) < 0.5 and np.all(parts[-20:] >= 1)  # brakes hold it


def test_it_goes_on_to_the_bit_from_its_state_alone():
    machine, params = car("relative")
    out, middle = drive("relative")
    state, work = middle.copy(), np.zeros(machine.work_size)
    for k in range(STEPS // 2, STEPS // 2 + 100):
        machine.step(state, inputs(k), params, machine.tables, work, H)
        assert work[: len(machine.outputs)].tobytes() == out[k].tobytes()


def test_a_step_of_no_numbers_leaves_nothing_behind():
    """What a state becomes depends on it alone, and not on what the working memory was used for before."""
    machine, params = car("relative")
    _, middle = drive("relative")

    def stepped(state: np.ndarray, work: np.ndarray) -> bytes:
        machine.step(state, inputs(STEPS // 2), params, machine.tables, work, H)
        return state.tobytes()

    wanted = stepped(middle.copy(), np.zeros(machine.work_size))
    for place in range(0, len(middle), 1 if thorough() else 4):
        state, work = middle.copy(), np.zeros(machine.work_size)
        state[place] = np.nan
        stepped(state, work)
        assert stepped(middle.copy(), work) == wanted, place


def test_a_parameter_that_changes_while_it_drives_does_the_same_to_both():
    places = [index(car("relative")[0].outputs, name) for name in ("z", "pitch", "load_fl")]
    after = {}
    for formulation in ("natural", "relative"):
        machine, params = car(formulation)
        state, work = drive("relative")[1][: len(machine.states)].copy(), np.zeros(machine.work_size)
        params = params.copy()
        params[index(machine.parameters, "front_spring_rate")] *= 0.8
        for k in range(STEPS // 2, BRAKES):
            machine.step(state, inputs(k), params, machine.tables, work, H)
        after[formulation] = work[places]
    change = np.abs(after["relative"] - drive("relative")[0][BRAKES - 1, places])
    # the trapezoidal rule has half of a jump at the beginning of a step still before it: half a step's difference
    assert np.all(np.abs(after["natural"] - after["relative"]) < 0.05 * change)


def test_what_is_set_beside_hardpoints_acts_here_too():
    """By steps of I3AL, whose forces have it."""
    machine, params = car("relative")
    middle, found = drive("relative")[1], []
    for trail in (0.0, 0.03):
        state, work, values = middle.copy(), np.zeros(machine.work_size), params.copy()
        values[index(machine.parameters, "caster_trail")] = trail
        for k in range(STEPS // 2, STEPS // 2 + 20):
            machine.step(state, inputs(k), values, machine.tables, work, H)
        out = {q.name: float(work[i]) for i, q in enumerate(machine.outputs)}
        found.append(abs(out["steering_torque"]))
        assert (out["parts"] >= 1) == (trail != 0.0)
    assert found[1] > 1.2 * found[0]


def test_frames_show_the_same_car():
    natural, params = car("natural")
    relative, _ = car("relative")
    state = drive("relative")[1]
    poses = [np.zeros((m.shown.scene.frames, 4, 3)) for m in (natural, relative)]
    natural.shown.frames(state[: len(natural.states)], params, poses[0])
    relative.shown.frames(state, params, poses[1])
    assert np.array_equal(*poses)
    assert np.ptp(poses[1][:, 0], axis=0).max() > 1.0


def test_a_record_has_no_addresses():
    machine, params = car("relative")
    addresses = machine.tables.floats[list(machine.placed.addresses)]
    assert not np.isin(addresses, words_of(machine, params)).any()
    again, _ = recorded_machine(machine, params, packed_words(machine, params)) or (None, None)
    assert again is not None and again.tables.floats.tobytes() == machine.tables.floats.tobytes()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"steering_mode": 1.0}, "parameters.steering_mode = 1: is not served in relative coordinates"),
        ({"column_stiffness": 100.0}, "parameters.column_stiffness = 100: is not served"),
        ({"turn_slip": 1.0, "step_halving": 1.0}, "step_halving = 1: is not served"),
    ],
)
def test_what_is_not_served_is_refused_by_name(changed, message):
    with pytest.raises(ConfigError, match=message):
        make_machine(files(), changed)


def test_other_names_of_formulations_are_refused():
    with pytest.raises(ConfigError, match="formulation = 'absolute'"):
        make_machine(files('formulation = "absolute"\n'))


def test_another_shape_is_taken_while_it_drives_and_the_tree_follows() -> None:
    machine, params = car("relative")
    constants, floats, _ = changeable(machine)
    state, work, values = drive("relative")[1].copy(), np.zeros(machine.work_size), params.copy()
    values[P.sprung_mass], values[P.front_UBJ_x] = 760.0, -0.002
    of = SimpleNamespace(
        state=state, first_state=state.copy(), floats=floats, params=values, tables=constants, work=work
    )
    reshape = machine.of(Reshape)
    assert reshape is not None
    change_shape.py_func(Shaping(machine, reshape).row(values), reshape.fit, of)
    machine.step(state, inputs(STEPS // 2), values, constants, work, H)
    now = dict(zip((q.name for q in machine.outputs), work, strict=False))
    assert now["parts"] == 0.0 and now["phi_error"] < 1e-10
    then = drive("relative")[0][STEPS // 2]
    for name, near in zip(KEPT, NEAR, strict=True):
        if name not in ("rack_force", "x", "y"):  # hardpoints and the centre of gravity are elsewhere
            assert abs(now[name] - then[index(machine.outputs, name)]) < 3.0 * near, name
    # a figure that was exactly 0 is in no equation: refused, and nothing is compiled
    values[P.front_camber] = -0.03
    named = r"front_camber was exactly 0 at the start; start with sim\.parameters\.front_camber = 1e-9, or"
    with pytest.raises(ConfigError, match=named):
        Shaping(machine, reshape).row(values)
