"""Save, reload, fork: a run can look ahead and return."""

from pathlib import Path

import numpy as np
import pytest
from numba import float64

from sync.compile.jit import kernel
from tandem.multibody.natural import tables
from tandem.multibody.natural.api import MechanismError, State, StateError, run, start, step
from tandem.multibody.natural.tables import HOOK, INTS, ITERATIONS, REALS, P
from tests.tandem.multibody.natural.mechanisms import bricard, everything, four_bar, pendulum


def test_a_fork_looks_ahead_and_the_run_goes_on_as_if_it_had_not() -> None:
    system = bricard()
    alone, looked = start(system.state()), start(system.state())
    run(alone, 0.4)
    run(looked, 0.2)
    ahead = looked.copy()
    run(ahead, 0.2)
    run(looked, 0.2)
    assert ahead.vector.tobytes() == looked.vector.tobytes() == alone.vector.tobytes()


def test_a_saved_state_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    system = four_bar()
    state = start(system.state(), rates={"theta": 1.0})
    run(state, 0.3)
    state.save(tmp_path / "state.npz")
    loaded = State.load(system, tmp_path / "state.npz")
    assert loaded.vector.tobytes() == state.vector.tobytes()
    run(state, 0.3)
    run(loaded, 0.3)
    assert loaded.vector.tobytes() == state.vector.tobytes()
    # also in a system compiled anew
    again = State.load(four_bar(), tmp_path / "state.npz")
    run(again, 0.3)
    assert again.vector.tobytes() == state.vector.tobytes()


def test_a_state_of_another_system_is_refused(tmp_path: Path) -> None:
    start(pendulum().state()).save(tmp_path / "state.npz")
    with pytest.raises(StateError, match="another system"):
        State.load(four_bar(), tmp_path / "state.npz")
    with pytest.raises(StateError, match="numbers"):
        State(four_bar(), np.zeros(3))


@pytest.mark.filterwarnings("ignore::tandem.multibody.natural.errors.IllConditioned")
def test_everything_a_step_depends_on_is_in_the_state() -> None:
    """Element states, inputs and multipliers too: a copy of the vector alone steps alike, with other scratch."""
    system = everything()
    state = system.state()
    state.qd[:] = 0.1
    state.elements[:] = 0.3
    copy = State(system, state.vector.copy())
    run(state, 0.01, strict=False)  # nothing that could be closed: it does not converge
    run(copy, 0.01, strict=False)
    assert state.vector.tobytes() == copy.vector.tobytes()
    assert not np.array_equal(state.elements, [0.3, 0.3])


@kernel(float64(INTS, REALS, REALS, REALS, HOOK, float64))
def ten_steps(ints, reals, state, work, hook, h):
    for _ in range(10):
        step(ints, reals, state, work, hook, h)
    return work[ITERATIONS]


def test_a_model_steps_from_compiled_code() -> None:
    system = bricard()
    inside, outside = start(system.state()), start(system.state())
    iterations = ten_steps(system.ints, system.reals, inside.vector, system.work(), system.hook, system.h)
    record = run(outside, 10 * system.h)
    assert inside.vector.tobytes() == outside.vector.tobytes()
    assert iterations == record["iterations"][-1]


def test_settings_change_one_by_one_and_unknown_ones_are_named() -> None:
    system = pendulum()
    system.set(cap=6)
    system.set(xi=0.1)
    state = start(system.state())
    run(state, 0.01)
    assert system.part(P.OPTION)[tables.CAP] == 6 and system.part(P.SETTING)[tables.XI] == 0.1
    with pytest.raises(MechanismError, match="cpa: no setting that can change"):
        system.set(cpa=3)


def test_a_node_takes_as_many_numbers_as_it_has() -> None:
    state = pendulum().state()
    for wrong in ((1.0, 2.0, 3.0), 1.0, (float("nan"), 0.0)):
        with pytest.raises(MechanismError, match="must be 2 finite numbers"):
            state.set_values({"B": wrong})
        with pytest.raises(MechanismError, match="must be 2 finite numbers"):
            start(state, rates={"B": wrong})


def test_a_file_that_is_no_state_is_a_named_error(tmp_path: Path) -> None:
    system = pendulum()
    (tmp_path / "x").write_bytes(b"PK not a state")
    for path in (tmp_path / "x", tmp_path / "none"):
        with pytest.raises(StateError, match="no saved state"):
            State.load(system, path)
