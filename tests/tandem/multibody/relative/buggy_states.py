"""The buggy in both formulations, with all its forces: random states around those of a car that stands and drives.

The hook of its forces is called at the ports of each formulation. Its states (tyres, brakes, engine) and what it is
given for a step (gear, pressures) are those of a car that was driven; throttle and pressures are random besides.
"""

import functools

import numpy as np

from sim_service.contract.machine import index
from tandem.machines.car.buggy import forces, slots
from tandem.machines.car.buggy.description import OUTPUTS
from tandem.machines.car.vehicle import VEHICLE_INPUTS
from tandem.multibody.natural.problems import assemble
from tandem.multibody.natural.system import State
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.relative.conversion import from_natural
from tandem.multibody.relative.kinematics import gibbs_product
from tests.tandem.multibody.relative.both import CLOSED, At, Both
from tests.tandem.multibody.relative.test_tree import CONFIGS
from verify.physics.kerbs import Coasting

ROAD = CONFIGS / "roads" / "flat.toml"
DRIVEN = 300  # steps of 5 ms
EVERY = 60


class Buggy(Both):
    def __init__(self, compile: bool = False) -> None:
        car = Coasting(ROAD, 12.0)
        super().__init__(car.system.mechanism, car.system, compile)
        self.live = self.system.elements[self._first()].live  # what `System.work` has for the hook; ours to change
        self.seen: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []  # q, elements, given, inputs
        rng = np.random.default_rng(2)
        for k in range(DRIVEN):
            if k % EVERY == 0:
                for name, size in (("throttle", 1.0), ("brake_pressure_bar", 30.0 * (k > DRIVEN // 2))):
                    car.inputs[index(VEHICLE_INPUTS, name)] = size * rng.uniform(0.0, 1.0)
                self._remember(car)
            car.inputs[index(VEHICLE_INPUTS, "steering_angle")] = 2.0 * np.sin(0.05 * k)
            car.step(5e-3)
        self._remember(car)
        self.at = -1

    def _first(self) -> int:
        return next(k for k, e in enumerate(self.system.elements) if len(e.live))

    def _remember(self, car: Coasting) -> None:
        s = self.system
        own = car.work[len(OUTPUTS) :]
        self.seen.append(
            (car.state[s.span(Part.Q)].copy(), car.state[s.span(Part.ELEMENT)].copy(), s.part(Part.LIVE, own).copy(),
             car.state[s.span(Part.INPUT)].copy().reshape(-1, 3))
        )  # fmt: skip

    @functools.cached_property
    def poses(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Coordinates of the tree where the driven car was, with the reference of every ball."""
        out = []
        for q, _, _, inputs in self.seen:
            state = self.system.state()
            state.q[:], state.inputs[:] = q, inputs
            x, references = from_natural(self.tree, assemble(state).q, inputs[:, 0])
            out.append((x, np.concatenate([references[k] for k in self.balls])))
        return out

    def state(self, rng: np.random.Generator, reach: float = 1.0, speed: float = 3.0) -> At:
        """Near one of the driven car's: wheels, springs, body up and down, turned and leaning any way."""
        kinds = self.tree.kinds
        self.at = int(rng.integers(len(self.seen)))
        x0, ref0 = self.poses[self.at]
        _, _, given, inputs = self.seen[self.at]
        self.live[:] = given
        self.live[slots.THROTTLE] = rng.uniform(0.0, 1.0)
        self.live[slots.PRESSURE : slots.PRESSURE + 4] = rng.uniform(0.0, 60.0, 4)
        for trial in range(60):
            near = reach * rng.uniform(0.05, 1.0) * 0.85**trial
            u = inputs.copy()
            u[:, 0] += rng.uniform(-0.03, 0.03, len(u)) * near
            u[:, 1:] = rng.uniform(-1.0, 1.0, (len(u), 2))
            x, ref = x0.copy(), ref0.copy()
            for k in self.independent:
                x[k] += rng.uniform(-1.0, 1.0) * near * {"turn": 0.15, "ball": 0.1, "scalar": 3.0}.get(kinds[k], 0.1)
            turned = np.array([0.0, 0.0, rng.uniform(-3.0, 3.0)])
            ref[:4] = gibbs_product(ref[:4], turned)
            x, off = self.close(x, ref, u)
            if off > CLOSED:
                continue
            w = np.zeros(self.tree.n)
            for k in self.independent:
                w[k] = rng.uniform(-speed, speed) * {"turn": 0.5, "scalar": 20.0}.get(kinds[k], 1.0)
            w[: self.tree.first[1]] += self._base_speed(rng)
            return At(x, ref, w, u.ravel(), 0.0)
        raise AssertionError("the car's loops do not close near where it drove")

    def _base_speed(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([15.0 * rng.uniform(-1, 1) if kind == "slide" else 0.0
                         for kind in self.tree.kinds[: self.tree.first[1]]])  # fmt: skip

    def forces(self, at: At) -> np.ndarray:
        zero = np.zeros(len(self.made.ports))
        motion = self.motion(at, zero)
        f, after = zero.copy(), np.zeros(slots.STATES)
        size = sum(len(e.ports) ** 2 for e in self.system.elements[self._first() :])
        params = self.system.elements[self._first()].data
        forces.hook(
            0.0, 0.0, motion["ports"], motion["rates"], at.u.copy(), self.live.copy(), params,
            self.seen[self.at][1][-slots.STATES :].copy(), after, f, np.zeros(size), np.zeros(size),
        )  # fmt: skip
        return f

    def natural(self, at: At, q: np.ndarray, qd: np.ndarray) -> State:
        state = self.system.state()
        state.q[:], state.qd[:] = q, qd
        state.inputs[:] = at.u.reshape(-1, 3)
        state.elements[:] = self.seen[self.at][1]
        state._work = None  # with what the hook is given now
        state.evaluate()
        return state


@functools.cache
def buggy(compile: bool = False) -> Buggy:
    return Buggy(compile)
