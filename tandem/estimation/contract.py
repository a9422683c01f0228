"""What a machine gives to be observed: errors of its state as few coordinates, their transition, what sensors see.

The filter estimates an error e of the state, of `coordinates`, and further states behind it: quantities of `estimable`
that the machine's motion depends on, and biases of sensors, which it does not. Three nopython functions:

    status = linearise(state, inputs, params, tables, work, h, which, extra, F, at)

advances `state` by h and leaves outputs in `work` as the machine's step does. F has the derivatives of the error after
the step by the error before it and by the estimated quantities, column by column (n rows; n columns, then one for each
of `which`, indices into `estimable`), and in one more column what forces among these did in the step. `extra` are their
values; those that are parameters stand in `params` too. In `at` it leaves what `measure` needs of the instant at the
beginning of the step. TANGENT: F is the derivative of the step; ROUGH: of a law that the step only approaches (a
contact that slides); CONSTANT: the step had none (an impact, a fallback), and F is not written; FAILED: the step found
no state to go on from.

    value = measure(signal, row, tau, at, tables, work, which, H)

is what a perfect sensor reads at that instant plus tau seconds: `signal` of `signals`, at the place and in the
direction that stand in `row` (rows.py). H becomes its derivatives by the error and by the estimated quantities.

    correct(state, params, tables, work, dx)

moves the state by an error; constraints hold afterwards. In Python, `difference(state, other, of)` is the error that
moves `other` to `state`, which is a state of the machine `of`, perhaps one with other parameters: for experiments in
which the truth is known.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import float64, int64, void
from numpy.typing import NDArray

from sim_service.contract.machine import TABLES, Floats, Machine, Quantity, Tables
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR

TANGENT, ROUGH, CONSTANT, FAILED = range(4)
LINEARISE = int64(VECTOR, VECTOR, CONSTANTS, TABLES, VECTOR, float64, INDICES, VECTOR, VECTOR, VECTOR)
MEASURE = float64(int64, CONSTANTS, float64, VECTOR, TABLES, VECTOR, INDICES, VECTOR)
CORRECT = void(VECTOR, CONSTANTS, TABLES, VECTOR, VECTOR)
# the same as Python has them
Linearise = Callable[[Floats, Floats, Floats, Tables, Floats, float, NDArray[np.int32], Floats, Floats, Floats], int]
Measure = Callable[[int, Floats, float, Floats, Tables, Floats, NDArray[np.int32], Floats], float]
Correct = Callable[[Floats, Floats, Tables, Floats, Floats], None]


@dataclass(frozen=True)
class Estimable:
    """A quantity that may be a state of the filter: a random walk."""

    name: str
    unit: str
    text: str
    parameter: int = -1  # of the machine, which then follows the estimate; -1: a force


@dataclass(frozen=True)
class Observed:
    machine: Machine
    coordinates: tuple[Quantity, ...]  # of the error
    rates: tuple[int, ...]  # for each of them its rate's place, or -1: the transition h of the constant form
    estimable: tuple[Estimable, ...]
    signals: tuple[Quantity, ...]
    linearise: Linearise  # nopython, signature LINEARISE
    measure: Measure  # MEASURE
    correct: Correct  # CORRECT
    at_size: int
    difference: Callable[[Floats, Floats, Machine], Floats]
    # of `coordinates`: those without a rate of their own that relax within some steps; the constant form forgets them
    relaxing: tuple[int, ...] = ()
    # in `at`, how much the step excites what is estimated, 0 to 1: below what a file asks for, nothing is learnt of it
    excited_at: int = -1
