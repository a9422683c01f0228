"""Parameters that shape a machine (masses, hardpoints), changed while it runs.

A thread beside the loop makes the machine's tables for the new parameters (`Reshape.make`); that takes a part of a
second and may be refused. Before a step the loop then takes over their numbers and the parameters, and the machine fits
its state to them (FIT), and the state that a reset goes back to. A command SHAPE says when: one command, so that no
step is made with part of a shape. The SHAPED commands before it name the parameters that were asked for with it, and do
nothing by themselves. A record has these commands and no tables: a replay makes the same tables from the same
parameters, and obeys before the same step. (Earlier records have PARAMETER where SHAPED is now.)

A shape travels to the loop as a row:

    first, behind, last, n | numbers of the tables but for first to behind and the last ones, which stay
    | n parameters | column, and by how much x, y, z of its reference coordinates moved

The last numbers are the addresses of code (`Unrolled`): code is written there when it is ready, at any time.
"""

from typing import Any

import numpy as np

from sim_service.command_record import AT_INDEX, AT_KIND, AT_VALUE, PARAMETER, SHAPE, SHAPED
from sim_service.contract.machine import FIT, Machine, Reshape, Tables, Unrolled
from sync.compile.array_types import read_only
from sync.compile.jit import kernel
from sync.errors import ConfigError
from sync.ring.block import EPOCH, SEQ
from sync.ring.memory import refuse_too_many

SLOTS = 8  # rows that may wait for the loop
_HEAD = 4


@kernel(FIT)
def no_fit(state, moved, params, tables, work):
    """For a machine with one shape: there is nothing to fit."""


@kernel()
def change_shape(row, fit, machine):
    first, behind, parameters, n = int(row[0]), int(row[1]), int(row[3]), len(machine.floats) - int(row[2])
    for i in range(first):
        machine.floats[i] = row[_HEAD + i]
    for i in range(behind, n):
        machine.floats[i] = row[_HEAD + i - (behind - first)]
    at = _HEAD + n - (behind - first)
    for i in range(parameters):
        machine.params[i] = row[at + i]
    moved = row[at + parameters :]
    fit(machine.state, moved, machine.params, machine.tables, machine.work)
    fit(machine.first_state, moved, machine.params, machine.tables, machine.work)  # which a reset goes back to


def _row_size(model: Machine, reshape: Reshape) -> int:
    first, behind = model.placed.remade
    numbers = len(model.tables.floats) - (behind - first) - _addresses(model)
    return _HEAD + numbers + len(model.parameters) + 4 * len(reshape.columns)


def _addresses(model: Machine) -> int:
    code = model.of(Unrolled)
    return 0 if code is None else code.count


def without_addresses(model: Machine, floats: np.ndarray) -> np.ndarray:
    """The numbers of its tables that depend on the shape: without the addresses, which may be written at any time."""
    return floats[: len(floats) - _addresses(model)]


def changeable(model: Machine) -> tuple[Tables, np.ndarray, np.ndarray]:
    """(tables whose numbers may be changed, these numbers, rows to fill); a machine with one shape keeps its tables."""
    if (reshape := model.of(Reshape)) is None:
        return model.tables, np.zeros(0), np.zeros((1, _HEAD))
    floats = model.tables.floats.copy()
    if (code := model.of(Unrolled)) is not None:
        code.follow(floats[len(floats) - code.count :])
    return Tables(model.tables.ints, read_only(floats)), floats, np.zeros((SLOTS, _row_size(model, reshape)))


class Shaping:
    """A machine's shape as commanded."""

    def __init__(self, model: Machine, reshape: Reshape):
        self._model, self._reshape = model, reshape
        self._reference = reshape.drawn

    def row(self, values: np.ndarray) -> np.ndarray:
        """The row from the last shape to that of these parameters. If it raises ConfigError, the last shape stays."""
        floats, reference = self._reshape.make(values)
        first, behind = self._model.placed.remade
        moved = np.column_stack([self._reshape.columns, reference - self._reference])
        self._reference = reference
        parameters = values[: len(self._model.parameters)]
        numbers = without_addresses(self._model, floats)
        head = [first, behind, len(floats) - len(numbers), len(parameters)]
        return np.concatenate([head, numbers[:first], numbers[behind:], parameters, moved.ravel()])


def reshape_rows(
    model: Machine, params: np.ndarray, commands: np.ndarray, reset: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """(recorded commands, rows of words, with new numbers of shapes; the rows of these shapes). `reset`: the machine is
    reset with each simulator of the record."""
    found = np.flatnonzero(commands[:, AT_KIND] == SHAPE)
    if not len(found):
        return commands, np.zeros((1, _HEAD))
    commands = commands.copy()
    if (reshape := model.of(Reshape)) is None:
        commands[found, AT_KIND] = 0
        commands[commands[:, AT_KIND] == SHAPED, AT_KIND] = PARAMETER
        return commands, np.zeros((1, _HEAD))
    refuse_too_many("changes of shape", len(found), 8 * _row_size(model, reshape))
    rows: list[Any] = []
    shaping, values, epoch = Shaping(model, reshape), params.copy(), -1
    for command in commands:
        if command[EPOCH] != epoch and (reset or epoch == -1):
            epoch = command[EPOCH]
            shaping, values = Shaping(model, reshape), params.copy()
        if command[AT_KIND] in (PARAMETER, SHAPED):
            values[command[AT_INDEX]] = command.view(np.float64)[AT_VALUE]
        elif command[AT_KIND] == SHAPE:
            command[AT_INDEX] = len(rows)
            try:
                rows.append(shaping.row(values))
            except ConfigError as error:
                raise ConfigError(
                    f"/command {command[SEQ]}, a change of shape, cannot be made again: {error}"
                ) from None
    return commands, np.array(rows)
