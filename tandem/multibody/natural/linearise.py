"""Linearisation about a state, in the freedoms that its constraints leave, and its modes.

The motion near a state is z -> q(z): the free directions N of the state (orthonormal), closed onto the constraints. The
accelerations zdd = N^T qdd as a function of z and zd are differentiated centrally, with position, velocity and
acceleration problem solved at every point, so that everything is in it: curvature, gyroscopic terms, unsymmetric
forces. Inputs are constant in their values, rates and accelerations; element states are held.
"""

from dataclasses import dataclass

import numpy as np

from tandem.multibody.natural.problems import accelerations, assemble, freedoms
from tandem.multibody.natural.system import State


@dataclass(frozen=True)
class Linearised:
    """zdd = -stiffness z - damping zd near the state; q moves by basis @ z."""

    basis: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        """d/dt (z, zd) = matrix (z, zd)"""
        k = len(self.stiffness)
        return np.block([[np.zeros((k, k)), np.eye(k)], [-self.stiffness, -self.damping]])

    def modes(self) -> list["Mode"]:
        """Modes by rising frequency; one of each conjugate pair."""
        values, vectors = np.linalg.eig(self.matrix)
        k = len(self.stiffness)
        found = [
            Mode(complex(v), self.basis @ x[:k])
            for v, x in zip(values, vectors.T, strict=True)
            if v.imag >= -1e-9 * abs(v)
        ]
        return sorted(found, key=lambda mode: abs(mode.eigenvalue))


@dataclass(frozen=True)
class Mode:
    eigenvalue: complex
    shape: np.ndarray  # of the coordinates, complex

    @property
    def frequency_hz(self) -> float:
        return abs(self.eigenvalue.imag) / (2.0 * np.pi)

    @property
    def damping_ratio(self) -> float:
        size = abs(self.eigenvalue)
        return -self.eigenvalue.real / size if size else 0.0


def linearise(state: State, step: float = 1e-5) -> Linearised:
    """The linearised system about a state, which is left as it is."""
    N = freedoms(state)
    k = N.shape[1]
    columns = [
        (_second(state, N, step * e, 0 * e) - _second(state, N, -step * e, 0 * e)) / (2.0 * step) for e in np.eye(k)
    ]
    rates = [
        (_second(state, N, 0 * e, step * e) - _second(state, N, 0 * e, -step * e)) / (2.0 * step) for e in np.eye(k)
    ]
    empty = np.zeros((k, 0))
    return Linearised(N, -np.array(columns).T if k else empty, -np.array(rates).T if k else empty)


def _second(state: State, N: np.ndarray, z: np.ndarray, zd: np.ndarray) -> np.ndarray:
    """N^T qdd at a neighbouring point: N^T q and N^T qd as given, the rest by the constraints."""
    near = state.copy()
    near.q += N @ z
    for _ in range(3):  # close it, and go back to z where closing moved along N
        assemble(near)
        near.q += N @ (N.T @ (state.q - near.q) + z)
    assemble(near)
    J = near.jacobian()
    target = N.T @ state.qd + zd
    rows = np.vstack([J, N.T])
    near.qd[:] = 0.0
    drive = -near.phid()  # Phi_t is what is left without velocity
    near.qd[:] = np.linalg.lstsq(rows, np.concatenate([drive, target]), rcond=1e-11)[0]
    return np.asarray(N.T @ accelerations(near).qdd)
