"""The car's answer to the steering at constant speed, as a linear system: yaw and sideslip alone, or with roll.

Two freedoms: the single-track car, m (v̇ + V r) = Σ F, Iz ṙ = Σ x F − Σ M. With roll three more (body, and each axle on
its tyres; `steady` has the geometry), in velocities (v, r, φ̇, ψ̇f, ψ̇r):

    M u̇ + V (Σ m B) r + C u + K q = tyres,     M = Σ m Bᵀ B + inertias

B is the row that gives a mass's sideways velocity: 1, its distance ahead of the centre of gravity, and minus its height
over what it rolls about. Tyres see the slip s = δ + roll steer − (v + x r)/V, the lean of the wheels, and, when the
tyre has a relaxation length σ, follow with σ/V Ḟ + F = C s − Cγ lean. Left out: speed changes, large angles, gyroscopic
moments of the wheels.

Steady states are those of `steady.understeer` at small lateral acceleration, which the tests hold it to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tandem.machines.car.buggy.analysis.car import GRAVITY, Car
from tandem.machines.car.buggy.analysis.steady import tyre_roll_stiffness, wheel_lean

OUTPUTS = ("yaw_rate", "lateral_acceleration", "sideslip", "roll")


@dataclass(frozen=True, eq=False)
class System:
    """ẋ = A x + B δ, y = C x + D δ, with δ the road wheel angle, rad; outputs in the order of OUTPUTS."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray
    states: tuple[str, ...]

    def steady(self) -> dict[str, float]:
        """Outputs per road wheel angle when all is settled."""
        gain = self.D - self.C @ np.linalg.solve(self.A, self.B)
        return {name: float(value) for name, value in zip(OUTPUTS, gain, strict=True)}

    def modes(self) -> tuple["Mode", ...]:
        return modes(np.linalg.eigvals(self.A))


@dataclass(frozen=True)
class Mode:
    """A conjugate pair (or one real eigenvalue, `damping` ±1): |λ|/2π and −Re λ/|λ|."""

    frequency_hz: float
    damping: float
    real: float
    imaginary: float


@dataclass(frozen=True)
class StepAnswer:
    """To a step of the road wheels, per rad. Times from the step, s (after ISO 7401, for a step without ramp)."""

    steady: float
    rise_time: float  # first time at 90 % of the steady value
    peak_time: float  # of the first maximum; inf when there is none
    overshoot: float  # (peak − steady)/steady, 0 when there is none


def single_track(car: Car, speed: float, cornering: tuple[float, float] | None = None) -> System:
    """Yaw and sideslip. `cornering` replaces the axle stiffnesses at static load, N/rad."""
    tyres = _tyres(car, cornering)
    mass = np.diag([car.mass, car.yaw_inertia])
    return _system(car, speed, mass, np.array([car.mass, 0.0]), np.zeros((2, 2)), np.zeros((2, 0)), tyres)


def rolling_track(car: Car, speed: float, cornering: tuple[float, float] | None = None) -> System:
    """Yaw, sideslip, roll of the body and of the axles on their tyres."""
    M, gyro, C, K = roll_terms(car)
    # rigid tyres take their axle's roll out of the system
    retained = [0, 1, 2] + [3 + i for i, axle in enumerate(car.axles) if math.isfinite(axle.tyre.stiffness)]
    turns = [k - 2 for k in retained[2:]]
    retained_matrix = np.ix_(retained, retained)
    return _system(
        car,
        speed,
        M[retained_matrix],
        gyro[retained],
        C[retained_matrix],
        K[np.ix_(retained, turns)],
        _tyres(car, cornering),
        turns,
    )


def modes(eigenvalues: np.ndarray) -> tuple[Mode, ...]:
    """Slowest first, one for each conjugate pair and each real eigenvalue."""
    out = []
    for value in sorted(eigenvalues, key=lambda e: (abs(e), e.imag)):
        if value.imag < -1e-12 * abs(value):
            continue
        size = float(abs(value))
        damping = -value.real / size if size else 0.0
        out.append(Mode(size / (2.0 * math.pi), float(damping), float(value.real), float(max(0.0, value.imag))))
    return tuple(out)


def step_answer(system: System, output: str = "yaw_rate", horizon: float = 5.0, step: float = 2e-3) -> StepAnswer:
    """Rise and peak of one output: found on a grid, then refined on the exact solution."""
    place = OUTPUTS.index(output)
    steady = system.steady()[output]
    count = round(horizon / step)
    advance = exponential(_augmented(system) * step)
    x = np.zeros(len(system.A) + 1)
    x[-1] = 1.0
    values = np.empty(count + 1)
    for k in range(count + 1):
        values[k] = (system.C[place] @ x[:-1] + system.D[place]) / steady
        x = advance @ x

    def value(t: float) -> float:
        return float(step_response(system, t)[place]) / steady

    above = np.flatnonzero(values >= 0.9)
    if len(above) == 0:
        raise ValueError(f"{output}: not at 90 % within {horizon:g} s; a longer horizon is needed")
    first = int(above[0])
    rise = 0.0 if first == 0 else _cross(value, (first - 1) * step, first * step)
    tops = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:]) & (values[1:-1] > 1.0 + 1e-9))
    if len(tops) == 0:
        return StepAnswer(steady, rise, math.inf, 0.0)
    top = int(tops[0]) + 1
    peak = _highest(value, (top - 1) * step, (top + 1) * step)
    return StepAnswer(steady, rise, peak, value(peak) - 1.0)


def exponential(matrix: np.ndarray) -> np.ndarray:
    """exp of a square matrix: Taylor's series of 2⁻ᵏ of it, squared k times."""
    halvings = max(0, math.ceil(math.log2(max(1e-300, float(np.abs(matrix).sum(axis=1).max())))) + 2)
    small = matrix / 2.0**halvings
    total, term = np.eye(len(matrix)), np.eye(len(matrix))
    for k in range(1, 17):
        term = term @ small / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


def _tyres(car: Car, cornering: tuple[float, float] | None) -> list[tuple[float, float, float]]:
    """Cornering, camber and aligning stiffness of the axles at static load."""
    out = []
    for i, axle in enumerate(car.axles):
        load = 0.5 * car.loads[i]
        C = 2.0 * axle.tyre.cornering(load) if cornering is None else cornering[i]
        out.append((C, 2.0 * axle.tyre.camber(load), 2.0 * axle.tyre.aligning(load)))
    return out


def roll_terms(car: Car) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mass matrix, column of the centripetal term, damping (5 × 5) and stiffness (5 × 3) for (y, yaw, φ, ψf, ψr)."""
    M, C, K, gyro = np.zeros((5, 5)), np.zeros((5, 5)), np.zeros((5, 5)), np.zeros(5)
    L, d = car.wheelbase, car.roll_arm
    heights = [axle.roll_centre for axle in car.axles]
    over = [share * height for share, height in zip(car.sprung_shares, heights, strict=True)]
    sprung = np.array([1.0, car.sprung_x - car.cg_x, -d, -over[0], -over[1]])
    M += car.sprung_mass * np.outer(sprung, sprung)
    gyro += car.sprung_mass * sprung
    # the body also yaws when its roll centres move sideways by different amounts
    turning = np.array([[0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, -heights[0] / L, heights[1] / L]])
    M += turning.T @ np.array([[car.Ixx, car.Ixz], [car.Ixz, car.Izz]]) @ turning
    K[2, 2] -= car.sprung_mass * GRAVITY * d
    for i, axle in enumerate(car.axles):
        at = 3 + i
        body, tilt = np.eye(5)[2], np.eye(5)[at]
        lean = wheel_lean(axle, body, tilt)
        moving = np.array([1.0, axle.x - car.cg_x, 0.0, 0.0, 0.0]) - axle.radius * lean
        M += axle.mass * np.outer(moving, moving)
        gyro += axle.mass * moving
        M[1, 1] += 0.25 * axle.mass * axle.track**2 + 2.0 * axle.wheel_transverse
        M += 2.0 * axle.wheel_transverse * np.outer(lean, lean)
        K -= GRAVITY * axle.mass * axle.radius * np.outer(lean, lean)
        for mass, share in axle.unsprung:
            rise = 0.5 * axle.track * ((1.0 - share) * body + share * tilt)
            M += 2.0 * mass * np.outer(rise, rise)
        K += axle.roll_stiffness * np.outer(body - tilt, body - tilt)
        C += axle.roll_damping * np.outer(body - tilt, body - tilt)
        if math.isfinite(axle.tyre.stiffness):
            K[at, at] += tyre_roll_stiffness(axle)
            C[at, at] += 0.5 * axle.tyre.damping * axle.track**2
            K[at, at] -= GRAVITY * car.sprung_mass * over[i]
    return M, gyro, C, K[:, 2:]


def _system(
    car: Car,
    speed: float,
    M: np.ndarray,
    gyro: np.ndarray,
    C: np.ndarray,
    K: np.ndarray,
    tyres: list[tuple[float, float, float]],
    turns: list[int] | None = None,
) -> System:
    """States: velocities u, turns q, then the side forces of tyres that follow with a delay."""
    turns = turns or []
    nu, nq = len(M), len(turns)
    late = [i for i, axle in enumerate(car.axles) if axle.tyre.relaxation > 0.0]
    n = nu + nq + len(late)
    right = np.zeros((nu, n + 1))  # forces on u from (x, δ)
    right[:, :nu] -= C
    right[:, 1] -= speed * gyro
    right[:, nu : nu + nq] -= K
    A = np.zeros((n, n))
    B = np.zeros(n)
    for i, (axle, (cornering, camber, aligning)) in enumerate(zip(car.axles, tyres, strict=True)):
        x = axle.x - car.cg_x
        slip, tilt = np.zeros(n + 1), np.zeros(n + 1)
        slip[0], slip[1] = -1.0 / speed, -x / speed
        slip[n] = 1.0 if i == 0 else 0.0
        for k, what in enumerate(turns):  # 0 body, 1 front axle, 2 rear axle
            sign = 1.0 if what == 0 else (-1.0 if what == i + 1 else 0.0)
            slip[nu + k] += sign * axle.roll_steer
            tilt[nu + k] += sign * axle.roll_camber + (1.0 if what == 0 else 0.0)
        force = cornering * slip - camber * tilt
        if i in late:
            row = nu + nq + late.index(i)
            rate = speed / axle.tyre.relaxation
            A[row] += rate * force[:n]
            A[row, row] -= rate
            B[row] += rate * force[n]
            force = np.zeros(n + 1)
            force[row] = 1.0
        right[0] += force
        right[1] += x * force - aligning * slip
    solved = np.linalg.solve(M, right)
    A[:nu], B[:nu] = solved[:, :n], solved[:, n]
    A[nu : nu + nq, 2:nu] = np.eye(nq)
    C_out, D_out = np.zeros((4, n)), np.zeros(4)
    C_out[0, 1] = 1.0
    C_out[1], D_out[1] = A[0], B[0]
    C_out[1, 1] += speed
    C_out[2, 0] = 1.0 / speed
    if nq:
        C_out[3, nu] = 1.0
    names = ["roll", "axle_roll_front", "axle_roll_rear"]
    named = [names[k] for k in turns]
    forces = [("side_force_front", "side_force_rear")[i] for i in late]
    states = ["lateral_velocity", "yaw_rate", *(f"{name}_rate" for name in named), *named, *forces]
    return System(A, B, C_out, D_out, tuple(states))


def _augmented(system: System) -> np.ndarray:
    """The system with the constant steer angle as one more state."""
    n = len(system.A)
    whole = np.zeros((n + 1, n + 1))
    whole[:n, :n], whole[:n, n] = system.A, system.B
    return whole


def step_response(system: System, t: float) -> np.ndarray:
    """Outputs per rad at time t after a step of the road wheels at time 0."""
    state = exponential(_augmented(system) * t)[:-1, -1]
    found: np.ndarray = system.C @ state + system.D
    return found


def _cross(value: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(50):
        middle = 0.5 * (low + high)
        if value(middle) < 0.9:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _highest(value: Callable[[float], float], low: float, high: float) -> float:
    """Golden section; a maximum is flat, so its place is known to half the digits only."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    for _ in range(40):
        width = ratio * (high - low)
        left, right = high - width, low + width
        if value(left) < value(right):
            low = left
        else:
            high = right
    return 0.5 * (low + high)
