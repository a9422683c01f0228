"""Unrolled code in the place of index tables: the same bits, whatever of it is there and whenever it comes."""

import contextlib
import os
import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim_service.contract.machine import Machine, Reshape, Unrolled, Unrolling
from sim_service.look_ahead import record
from sim_service.look_ahead.predict import Predictor
from sim_service.many_steps import MANY, WORTH_WAITING, for_many_steps
from sim_service.registry import load_machine
from sim_service.reshape import Shaping, change_shape, changeable, no_fit
from sync.config.config import load
from sync.errors import ConfigError
from tandem.multibody.natural import unrolling
from tandem.multibody.natural.augmented import step
from tandem.multibody.natural.tables import P
from tandem.multibody.natural.unrolled import NAMES
from tests.sim_service.conftest import CONFIGS
from verify.multibody.problems import chain

H = 2e-3


@pytest.fixture(scope="module")
def system() -> Any:
    return chain(4, 0.5, 0.5, 1.0, H).build().compile(h=H)


@pytest.fixture(scope="module")
def car() -> tuple[Machine, np.ndarray]:
    return load_machine(CONFIGS / "vehicles" / "buggy.toml")


def stepped(system: Any, ints: np.ndarray, reals: np.ndarray, steps: int = 200) -> bytes:
    state, work = system.state(), system.work()
    state.qd[:] = np.linspace(-1.0, 1.0, len(state.qd))
    for _ in range(steps):
        step(ints, reals, state.vector, work, system.hook, H)
    return bytes(state.vector.tobytes())


def words(system: Any) -> np.ndarray:
    found = unrolling.Words(system.ints, system.reals)
    found.compile()
    assert found.complete
    return found.values


@pytest.mark.parametrize("names", [NAMES, ("factorise", "rates"), ("solve", "positions", "assemble"), ()])
def test_a_step_has_the_same_bits_by_tables_and_by_whatever_unrolled_code_there_is(system, names) -> None:
    there = np.where([name in names for name in NAMES], words(system).view(np.int64), 0).view(float)
    ints, reals = unrolling.with_code(unrolling.Tables(system.ints, system.reals), 0, there)
    assert stepped(system, ints, reals) == stepped(system, system.ints, system.reals)


def test_one_code_serves_other_masses_and_lengths_and_a_constraint_that_is_switched_off() -> None:
    one, other = (chain(4, *numbers, H).build().compile(h=H) for numbers in ((0.7, 0.3, 2.5), (0.6, 0.35, 2.2)))
    assert unrolling.structure(other.ints, other.reals) == unrolling.structure(one.ints, one.reals)
    other.part(P.WEIGHT)[1] = 0.0
    ints, reals = unrolling.with_code(unrolling.Tables(other.ints, other.reals), 0, words(one))
    assert stepped(other, ints, reals) == stepped(other, other.ints, other.reals)


def test_another_structure_is_another_code(system) -> None:
    longer = chain(5, 0.5, 0.5, 1.0, H).build().compile(h=H)
    assert unrolling.structure(longer.ints, longer.reals) != unrolling.structure(system.ints, system.reals)
    reals = system.reals.copy()
    at = system.span(P.TERM_COEF)
    reals[at] = np.where(reals[at] == 1.0, 0.5, reals[at])
    assert unrolling.structure(system.ints, reals) != unrolling.structure(system.ints, system.reals)


def test_what_is_kept_is_used_and_a_damaged_file_is_made_again(system, monkeypatch) -> None:
    first = words(system)
    compiled = []
    whole = unrolling.object_code
    monkeypatch.setattr(unrolling, "object_code", lambda text: compiled.append(1) or whole(text))
    assert words(system).tobytes() == first.tobytes() and not compiled
    key = unrolling._keys(np.array(system.ints), np.array(system.reals))["solve"]
    file = unrolling.store.folder() / f"{key}.o"
    file.write_bytes(file.read_bytes()[:-7])
    words(system)
    assert len(compiled) == 1


def forgotten(system: Any) -> None:
    for key in unrolling._keys(system.ints, system.reals).values():
        (unrolling.store.folder() / f"{key}.o").unlink(missing_ok=True)


def hurry() -> None:
    """Our compilers beside have no idle priority: other tests leave little to them."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                os.sched_setscheduler(int(child), os.SCHED_OTHER, os.sched_param(0))


def test_code_is_compiled_by_another_process_and_taken_as_it_comes() -> None:
    small = chain(2, 0.5, 0.25, 1.0, H).build().compile(h=H)
    forgotten(small)
    found = unrolling.Words(small.ints, small.reals)
    assert not found.values.any()
    found.compile_beside()
    ints, reals = unrolling.with_code(unrolling.Tables(small.ints, small.reals), 0, found.values)
    reals = reals.copy()
    found.follow(reals[-len(NAMES) :])
    until = time.monotonic() + 120.0
    while not found.complete and time.monotonic() < until:
        hurry()
        time.sleep(0.05)
    assert np.count_nonzero(reals[-len(NAMES) :].view(np.int64)) == len(NAMES)
    assert stepped(small, ints, reals) == stepped(small, small.ints, small.reals)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file becomes larger than a block, here and in processes that are started."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_code_that_cannot_be_kept_is_used_where_it_was_compiled(full_disk, monkeypatch, capfd) -> None:
    small = chain(6, 0.4, 0.35, 1.0, H).build().compile(h=H)
    monkeypatch.setattr(unrolling.store.dependencies, "unstored", [])
    forgotten(small)
    ints, reals = unrolling.with_code(unrolling.Tables(small.ints, small.reals), 0, words(small))
    assert stepped(small, ints, reals) == stepped(small, small.ints, small.reals)
    assert capfd.readouterr().err.count("cannot be kept there: File too large; set TANDEM_CACHE") == 1


def test_a_compiler_beside_that_fails_is_tried_again_and_said_once(full_disk, capfd) -> None:
    small = chain(6, 0.4, 0.35, 1.0, H).build().compile(h=H)
    forgotten(small)
    found, said = unrolling.Words(small.ints, small.reals), ""
    for _ in range(2):
        found.compile_beside()
        until = time.monotonic() + 120.0
        while any(thread.name == "compiles beside" for thread in threading.enumerate()) and time.monotonic() < until:
            hurry()
            time.sleep(0.05)
        said += capfd.readouterr().err
    assert not found.complete
    assert said.count("steps go by index tables") == said.count("cannot be kept there: File too large") == 1


def of_two_shapes() -> tuple[Machine, Any, np.ndarray]:
    """A chain whose shape may change to one with other plain coefficients; its system, the numbers of that shape."""
    hanging = chain(3, 0.4, 0.3, 1.0, H).build().compile(h=H)
    numbers, at = hanging.reals.copy(), hanging.span(P.FORM_COEF)
    numbers[at] *= 1.01

    def make(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (numbers if params[0] else hanging.reals).copy(), np.zeros((0, 3))

    plain, _ = load_machine("mass_spring")
    tables = unrolling.Tables(hanging.ints, unrolling.read_only(hanging.reals.copy()))
    machine = replace(plain, tables=tables, parameters=plain.parameters[:1], capabilities=())
    return machine.having(Reshape(make, no_fit, np.zeros((0, 3)), ())), hanging, numbers


def shaped(floats: np.ndarray, row: np.ndarray, tables: Any) -> None:
    """What the loop does before a step."""
    one = np.zeros(1)
    loop = SimpleNamespace(floats=floats, tables=tables, params=one, state=one, first_state=one, work=one)
    change_shape.py_func(row, lambda *_: None, loop)


def test_code_that_comes_after_a_change_of_shape_is_not_used_for_a_shape_it_does_not_serve() -> None:
    machine, hanging, numbers = of_two_shapes()
    forgotten(hanging)
    words = unrolling.Words(hanging.ints, hanging.reals)
    coded = unrolling.with_words(machine, 0, words)
    tables, floats, _ = changeable(coded)
    shaping = Shaping(coded, coded.of(Reshape))
    there, back = shaping.row(np.ones(1)), shaping.row(np.zeros(1))
    shaped(floats, there, tables)
    words.compile()
    assert stepped(hanging, *tables) == stepped(hanging, hanging.ints, numbers)
    shaped(floats, back, tables)
    assert words.complete and (floats[-len(NAMES) :].view(np.int64) == words.values.view(np.int64)).all()
    assert stepped(hanging, *tables) == stepped(hanging, hanging.ints, hanging.reals)


def test_few_steps_go_by_tables_and_many_by_unrolled_code() -> None:
    asked = []

    def make(machine: Machine, wait: bool) -> Machine:
        asked.append(wait)
        return machine

    plain, _ = load_machine("mass_spring")
    machine = plain.having(Unrolling(make))
    for steps, code in ((MANY - 1, "auto"), (10 * MANY, "tables")):
        assert for_many_steps(machine, steps, code) is machine
    assert not asked
    for steps, code in ((MANY, "auto"), (WORTH_WAITING, "auto"), (1, "unrolled")):
        for_many_steps(machine, steps, code)
    assert asked == [False, True, True]
    assert for_many_steps(plain, WORTH_WAITING) is plain
    with pytest.raises(ConfigError, match=r"sim\.code = 'unrolled': mass_spring"):
        for_many_steps(plain, 1, "unrolled")


@pytest.fixture(scope="module")
def unrolled_car(car) -> Machine:
    return for_many_steps(car[0], WORTH_WAITING)


def driven(machine: Machine, params: np.ndarray, tables: Any, steps: int = 60) -> bytes:
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    rows = []
    for k in range(steps):
        inputs = np.array([np.nan if q.optional else 0.0 for q in machine.inputs])
        inputs[0], inputs[1] = 0.2 * np.sin(0.1 * k), 0.5
        machine.step(state, inputs, params, tables, work, 5e-3)
        rows.append(work[: len(machine.outputs)].copy())
    return bytes(np.array(rows).tobytes() + state.tobytes())


def test_the_car_has_the_same_bits_by_tables_and_by_unrolled_code(car, unrolled_car) -> None:
    machine, params = car
    assert driven(unrolled_car, params, unrolled_car.tables) == driven(machine, params, machine.tables)


def test_a_changed_shape_has_unrolled_code_where_that_serves_it_and_the_same_bits(car, unrolled_car) -> None:
    machine, params = car
    heavier = params.copy()
    heavier[[p.name for p in machine.parameters].index("sprung_mass")] *= 1.1
    plain, coded = machine.of(Reshape), unrolled_car.of(Reshape)
    assert plain is not None and coded is not None
    floats, _ = coded.make(heavier)
    numbers, _ = plain.make(heavier)
    assert np.count_nonzero(floats[-len(NAMES) :].view(np.int64)) == len(NAMES)
    assert floats[: len(numbers)].tobytes() == numbers.tobytes()
    tables = replace_floats(unrolled_car.tables, floats)
    assert driven(machine, heavier, tables) == driven(machine, heavier, replace_floats(machine.tables, numbers))


def test_a_car_in_a_composite_has_unrolled_code_and_the_same_bits() -> None:
    machine, params = load_machine(CONFIGS / "vehicles" / "swerve.toml")
    coded = for_many_steps(machine, WORTH_WAITING)
    code, plain, shape = coded.of(Unrolled), machine.of(Reshape), coded.of(Reshape)
    assert code is not None and plain is not None and shape is not None
    assert np.count_nonzero(coded.tables.floats[-code.count :].view(np.int64)) == code.count
    assert set(range(len(coded.tables.floats) - code.count, len(coded.tables.floats))) <= set(coded.placed.addresses)
    assert driven(coded, params, coded.tables) == driven(machine, params, machine.tables)
    heavier = params.copy()
    heavier[[p.name for p in machine.parameters].index("sprung_mass")] *= 1.1
    tables, by_tables = (replace_floats(m.tables, r.make(heavier)[0]) for m, r in ((coded, shape), (machine, plain)))
    assert driven(coded, heavier, tables) == driven(machine, heavier, by_tables)


def replace_floats(tables: Any, floats: np.ndarray) -> Any:
    return tables._replace(floats=unrolling.read_only(floats.copy()))


def test_tables_that_may_change_follow_the_code(unrolled_car) -> None:
    code = unrolled_car.of(Unrolled)
    assert code is not None and code.count == len(NAMES)
    _, floats, _ = changeable(unrolled_car)
    assert floats[-code.count :].tobytes() == unrolled_car.tables.floats[-code.count :].tobytes()
    assert set(range(len(floats) - code.count, len(floats))) <= set(unrolled_car.placed.addresses)


def test_a_look_ahead_predicts_the_same_by_tables_and_by_unrolled_code(car, unrolled_car) -> None:
    machine, params = car
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    inputs = np.array([0.1, 0.6, *np.zeros(len(machine.inputs) - 2)])
    settings = load(CONFIGS / "drive.toml", ["look_ahead.enabled=true", "look_ahead.horizon_s=0.4"])
    found = []
    for unrolled in (False, True):
        predictor = Predictor(settings, machine, params)
        if unrolled:
            predictor.unroll()
        block = np.zeros(record.LAYOUT.words, np.int64)
        predictor.predict(record.HELD, state, inputs, work[: len(machine.outputs)], params, block)
        found.append(block.tobytes() + predictor.path.tobytes())
    assert found[0] == found[1]
