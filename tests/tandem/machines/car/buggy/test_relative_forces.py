"""The forces of the car in relative coordinates are the hook's, and their derivatives exact."""

import functools

import numpy as np
import pytest

from sim_service.contract.machine import Machine, index
from sim_service.registry import make_machine
from tandem.machines.car.buggy import forces, slots
from tandem.machines.car.buggy import relative_dynamics as relative
from tandem.machines.car.buggy.description import P
from tandem.machines.car.buggy.relative_dynamics import C
from tandem.machines.car.buggy.relative_forces import serves
from tandem.multibody.relative.system import P as Own
from tests.tandem.machines.car.buggy.test_relative import H, car, drive, files, inputs

HARD = {"front_anti_roll": 4e3, "push_pitch": 80.0, "push_y": 300.0, "lift_area": -0.4, "differential_preload": 30.0}


ROADS = ("", "demo_track.toml")  # flat, and one that bends


class Instant:
    """Where a step has ended that began in the middle of the drive."""

    def __init__(self, road: str) -> None:
        machine, params = car("relative") if not road else make_machine(files(road=road))
        self.machine, params = machine, params.copy()
        middle = drive("relative")[1] if not road else driven(machine, params)
        for name, value in HARD.items():
            params[P[name]] = value
        state, self.work = middle.copy(), np.zeros(machine.work_size)
        machine.step(state, inputs(750), params, machine.tables, self.work, H)
        assert self.work[index(machine.outputs, "parts")] == 0.0
        head = machine.tables.ints
        self.ints, self.reals = head[relative.FRONT :], machine.tables.floats
        self.room = self.work[head[relative.WORK_AT] : head[relative.SCRATCH_AT]]
        tree = state[head[relative.STATE_AT] :]
        self.t = float(self.part(Own.TIME, tree)[0])
        x, self.y = self.part(Own.X, tree), self.part(Own.Y).copy()
        self.n = len(self.part(Own.INDEPENDENT, self.ints))
        self.y[: self.n] = x[self.part(Own.INDEPENDENT, self.ints)]
        self.part(Own.AT_REF)[:], self.part(Own.START_X)[:] = self.part(Own.REF, tree), x

    def part(self, which: int, array: np.ndarray | None = None) -> np.ndarray:
        array = self.room if array is None else array
        return array[self.ints[2 * which] : self.ints[2 * which + 1]]

    def rates(self, y: np.ndarray, t: float) -> np.ndarray:
        out = np.zeros(len(y))
        relative.car_rates(self.ints, self.reals, self.room, t, y, out)
        return out


def driven(machine: Machine, params: np.ndarray) -> np.ndarray:
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    for k in range(750):
        machine.step(state, inputs(k), params, machine.tables, work, H)
    return state


@functools.cache
def instant(road: str) -> Instant:
    return Instant(road)


@pytest.mark.parametrize("road", ROADS)
def test_forces_are_those_of_the_hook(road):
    one = instant(road)
    one.rates(one.y, one.t)
    found = one.part(C.FORCE).copy()
    element = one.part(C.ELEMENT)
    for w in range(4):
        at = slots.BRAKES // 4 * w
        element[at : at + 2] = one.y[2 * one.n + 2 * w : 2 * one.n + 2 * w + 2]
    element[slots.ENGINE] = one.y[-1]
    f, K, D = np.zeros(len(found)), np.zeros_like(one.part(C.STIFF)), np.zeros_like(one.part(C.DAMP))
    forces.hook(
        one.t, 0.0, one.part(C.PORTS), one.part(C.RATES), one.part(Own.AT_INPUT), one.part(C.LIVE),
        one.part(C.NUMBERS, one.reals), element, np.zeros(slots.STATES), f, K, D,
    )  # fmt: skip
    assert np.abs(found - f).max() < 1e-12 * np.abs(f).max()


@pytest.mark.parametrize("road", ROADS)
def test_the_jacobian_is_that_of_the_rates(road):
    one = instant(road)
    N, n = len(one.y), one.n
    J, rates, by_time = np.zeros(N * N), np.zeros(N), np.zeros(N)
    for _ in range(2):  # a second time: nothing of the first is left
        relative.car_rates_and_jacobian(one.ints, one.reals, one.room, one.t, one.y, rates, J, by_time)
    assert np.abs(rates - one.rates(one.y, one.t)).max() < 1e-12 * np.abs(rates).max()
    steps = np.repeat([1e-6, 1e-5, 1e-7, 1e-3], [n, n, 8, 1])
    expected = np.zeros((N, N))
    for k, h in enumerate(steps):
        moved = h * np.eye(N)[k]
        expected[:, k] = (one.rates(one.y + moved, one.t) - one.rates(one.y - moved, one.t)) / (2.0 * h)
    scale = np.abs(expected).max(axis=1, keepdims=True) + 1e-9
    assert (np.abs(J.reshape(N, N) - expected) / scale).max() < 1e-6  # as good as differences are
    h = 1e-5
    in_time = (one.rates(one.y, one.t + h) - one.rates(one.y, one.t - h)) / (2.0 * h)
    assert np.abs(by_time - in_time).max() < 1e-6 * np.abs(in_time).max()


@pytest.mark.parametrize("block", [0, 1, 8, 13, 14])
def test_other_geometries_are_noticed(block):
    blocks = _blocks()
    assert serves(*blocks)
    blocks[2][block] = tuple(reversed(blocks[2][block]))
    assert not serves(*blocks)


def _blocks():
    """As port_jacobian.py has them for the car."""
    base = tuple(range(6))
    own, spin = (6, 7, 8, 9), (10, 11, 12, 13)
    rows = []
    for w in range(4):
        rows += [(13 * w, 4, (*base, own[w], spin[w]), 8), (13 * w + 4, 9, (3, 4, 5, own[w]), 4)]
    rows += [(52 + 3 * w, 3, (3, 4, 5, own[w]), 4) for w in range(4)]
    rows += [(64, 2, (12, 13, 12, 12), 2), (66, 12, (*base, 0, 0), 6)]
    rows += [(78, 6, (*base, 6, 7), 8), (84, 6, (*base, 8, 9), 8)]
    return [list(column) for column in zip(*rows, strict=True)]
