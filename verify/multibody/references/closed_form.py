"""Motions with a formula: the pendulum (swinging and turning over), the damped oscillator, a rotor under torque."""

import math

import numpy as np

from verify.multibody.references.elliptic import amplitude, complete, jacobi


def pendulum(times: np.ndarray, angle: float, rate: float, omega: float) -> tuple[np.ndarray, np.ndarray]:
    """Angle from hanging down and its rate, for θ̈ = −ω² sin θ.

    `omega`² is g/L of a point, m g s/I of a body. The energy θ̇²/2 − ω² cos θ decides between swinging and turning
    over; on the border between them there is no period, and no answer.
    """
    t = np.asarray(times, float)
    m = (0.5 * rate / omega) ** 2 + math.sin(0.5 * angle) ** 2  # energy over that of standing upright
    if abs(m - 1.0) < 1e-12:
        raise ValueError("the pendulum has just the energy to stand upright: it never comes back")
    if m < 1.0:
        if m == 0.0:
            return np.zeros_like(t), np.zeros_like(t)
        u0 = _inverse_sn(math.sin(0.5 * angle) / math.sqrt(m), rate >= 0, m)
        sn, cn, _ = jacobi(omega * t + u0, m)
        return 2.0 * np.arcsin(np.clip(math.sqrt(m) * sn, -1, 1)), 2.0 * omega * math.sqrt(m) * cn
    fast, way = omega * math.sqrt(m), math.copysign(1.0, rate)
    u0 = _inverse_am(0.5 * angle, 1.0 / m)
    u = way * fast * t + u0
    _, _, dn = jacobi(u, 1.0 / m)
    return 2.0 * amplitude(u, 1.0 / m), way * 2.0 * fast * dn


def _inverse_am(phi: float, m: float) -> float:
    """u with am(u) = φ: a bracket by periodicity, then Newton, for am' = dn > 0."""
    u = phi * 2.0 * complete(m) / math.pi
    for _ in range(60):
        error = float(amplitude(np.array(u), m)) - phi
        dn = math.sqrt(1.0 - m * math.sin(float(amplitude(np.array(u), m))) ** 2)
        step = error / max(dn, 0.05)
        u -= step
        if abs(step) < 1e-15 * max(1.0, abs(u)):
            break
    return u


def _inverse_sn(sine: float, rising: bool, m: float) -> float:
    phi = math.asin(max(-1.0, min(1.0, sine)))
    return _inverse_am(phi if rising else math.pi - phi, m)


def oscillator(
    times: np.ndarray, x0: float, v0: float, mass: float, stiffness: float, damping: float, force: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """m ẍ + c ẋ + k x = F, less than critically damped."""
    t = np.asarray(times, float)
    rest, decay = force / stiffness, 0.5 * damping / mass
    wd = math.sqrt(stiffness / mass - decay**2)
    a, b = x0 - rest, (v0 + decay * (x0 - rest)) / wd
    e, cos, sin = np.exp(-decay * t), np.cos(wd * t), np.sin(wd * t)
    x = rest + e * (a * cos + b * sin)
    v = e * ((b * wd - decay * a) * cos - (a * wd + decay * b) * sin)
    return x, v


def rotor(times: np.ndarray, rate: float, inertia: float, torque: float) -> tuple[np.ndarray, np.ndarray]:
    """Angle and rate of a rotor that starts with `rate` under constant torque."""
    t = np.asarray(times, float)
    return rate * t + 0.5 * torque / inertia * t**2, rate + torque / inertia * t
