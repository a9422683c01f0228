"""The car at its port: motion of the hand wheel in, torque of the hand out, at any step, and between two steps.

At haptic rate the car is stepped every millisecond or faster, and its torque is what the last step says. At 5 ms that
would be too late for a hand, so each step also gives what the torque does until the next one: the car's own step is
made once more from where it is, with the hand wheel going on as it did, once half as long, and three times with angle,
speed or acceleration a little beside that. What comes out is the torque ahead, that half way, and its derivatives,

    T(tau) = parabola through T_k, T_middle, T_ahead + k d_angle + b d_speed + m d_acceleration

where tau is the time since the step and d_... how far the hand wheel, as the device reads it now, is from going on as
it did (acceleration constant). Nothing of the car is left out: tyres, linkage and gyroscopic torque are in the slopes
as the step has them. k and b are those of a deviation that lasts a step; they grow with tau from nothing, as tyres
do.
"""

from dataclasses import dataclass

import numpy as np

from sim_service.contract.machine import index
from tandem.machines.car.studies.iso.runner import Drive
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.swerve.description import BESIDE

Motion = tuple[float, float, float]  # angle, speed, acceleration of the hand wheel


def ahead(motion: Motion, tau: float) -> Motion:
    """The hand wheel after tau, with its acceleration as it is."""
    angle, speed, acceleration = motion
    return angle + tau * (speed + 0.5 * tau * acceleration), speed + tau * acceleration, acceleration


@dataclass(frozen=True)
class PortModel:
    """What a step hands over with its torque."""

    motion: Motion  # of the step
    torque: float
    torque_ahead: float  # a step later, if the motion goes on so
    torque_middle: float  # half a step later
    derivatives: Motion  # N m/rad, N m s/rad, N m s2/rad
    h: float

    def at(self, tau: float, motion: Motion) -> float:
        """The torque tau after the step, with the hand wheel where it is by now."""
        share = tau / self.h
        found = self.torque + (self.torque_ahead - self.torque) * share
        found += 2.0 * (self.torque - 2.0 * self.torque_middle + self.torque_ahead) * (share - 1.0) * min(share, 1.0)
        expected = ahead(self.motion, tau)
        k, b, m = self.derivatives
        return (
            found
            + share * (k * (motion[0] - expected[0]) + b * (motion[1] - expected[1]))
            + m * (motion[2] - expected[2])
        )


class PortCar:
    """A car that rolls straight at a speed, its hand wheel moved from outside, its wheels driven as they were."""

    def __init__(self, vehicle: Vehicle, speed: float, h: float, **live: float) -> None:
        drive = Drive(vehicle)
        drive.reach(speed)
        for name, value in live.items():
            drive.set(name, value)
        self.model, self.h = vehicle.model, h
        self.state, self.work, self.params, self.inputs = drive.state, drive.work, drive.params, drive.inputs
        self._torque, self._capped = (index(self.model.outputs, name) for name in ("steering_torque", "capped"))
        self.tally = [0.0, 0.0]  # s simulated, steps capped; of all copies together
        self._scratch = np.zeros_like(self.state), np.zeros_like(self.work), np.zeros_like(self.inputs)

    def copy(self, h: float) -> "PortCar":
        """The same car at the same instant, with another step."""
        other = object.__new__(PortCar)
        other.model, other.h, other._torque, other._capped = self.model, h, self._torque, self._capped
        other.tally = self.tally
        other.state, other.work, other.params = self.state.copy(), self.work.copy(), self.params.copy()
        other.inputs, other._scratch = self.inputs.copy(), tuple(np.zeros_like(each) for each in self._scratch)  # type: ignore[assignment]
        return other

    def step(self, motion: Motion) -> float:
        """The torque after a step that ends with this motion."""
        self.inputs[:3] = motion
        self.model.step(self.state, self.inputs, self.params, self.model.tables, self.work, self.h)
        self.tally[0] += self.h
        self.tally[1] += float(self.work[self._capped])
        return float(self.work[self._torque])

    def _tried(self, motion: Motion, h: float) -> float:
        """The same, without going there."""
        state, work, inputs = self._scratch
        state[:], work[:], inputs[:] = self.state, 0.0, self.inputs
        inputs[:3] = motion
        self.model.step(state, inputs, self.params, self.model.tables, work, h)
        return float(work[self._torque])

    def step_with_port(self, motion: Motion) -> PortModel:
        torque = self.step(motion)
        then = ahead(motion, self.h)
        base, middle = self._tried(then, self.h), self._tried(ahead(motion, 0.5 * self.h), 0.5 * self.h)
        derivatives = [
            (self._tried((*then[:i], then[i] + beside, *then[i + 1 :]), self.h) - base) / beside  # type: ignore[arg-type]
            for i, beside in enumerate(BESIDE)
        ]
        return PortModel(motion, torque, base, middle, (derivatives[0], derivatives[1], derivatives[2]), self.h)
