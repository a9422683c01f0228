"""The mass on a spring, against the solution of its equation."""

import numpy as np
import pytest

from tandem.machines.mass_spring import MACHINE, OUTPUTS, PARAMETERS

VALUES = {p.name: p.value for p in PARAMETERS}


def respond(h: float, seconds: float, **changed: float) -> np.ndarray:
    """Outputs after every step, the handle at 20 mm from the first on."""
    params = np.array([*(VALUES | changed).values()])
    state, work, inputs = np.zeros(2), np.zeros(MACHINE.work_size), np.array([0.02])
    rows = []
    for _ in range(round(seconds / h)):
        MACHINE.step(state, inputs, params, MACHINE.tables, work, h)
        rows.append(work[: len(OUTPUTS)].copy())
    return np.array(rows)


def exact(t: np.ndarray, m: float, k: float, c: float) -> np.ndarray:
    """Position of the mass after a step of 20 mm."""
    decay, omega = 0.5 * c / m, np.sqrt(k / m - (0.5 * c / m) ** 2)
    return 0.02 * (1.0 - np.exp(-decay * t) * (np.cos(omega * t) + decay / omega * np.sin(omega * t)))


def test_it_moves_as_the_equation_says_and_twice_as_fine_is_four_times_as_exact() -> None:
    errors = []
    for h in (2e-3, 1e-3, 5e-4):
        position = respond(h, 2.0)[:, 0]
        t = h * np.arange(1, len(position) + 1)
        errors.append(np.abs(position - exact(t, VALUES["mass"], VALUES["stiffness"], VALUES["damping"])).max())
    assert errors[0] < 2e-4
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.05)


def test_without_damping_no_energy_is_made_or_lost() -> None:
    rows = respond(5e-3, 50.0, damping=0.0)
    energy = 0.5 * VALUES["stiffness"] * rows[:, 2] ** 2 + 0.5 * VALUES["mass"] * rows[:, 1] ** 2
    assert np.ptp(energy) < 1e-12 * energy[0] * len(rows)


def test_it_is_stable_with_the_stiffest_spring_and_the_lightest_mass() -> None:
    rows = respond(5e-3, 5.0, stiffness=1e5, mass=0.01, damping=0.0)
    assert np.abs(rows[:, 0]).max() < 0.05
