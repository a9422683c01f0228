"""A mechanism that runs in the page's own process: a person holds, pushes, turns, moves and changes it.

A held point is drawn towards where the hand is, by a spring as stiff as suits the mass of the whole, and the
constraints resolve what that means for the rest. Whatever is changed takes effect before the next step. Parameters and
switches only write numbers; another type of joint, a limit, friction or a prescribed motion add equations, for which
the tables are made again (natural/changes.py). Every act goes through `do` and is logged with the step before which it
was done: `repeat` does the same again, to the bit. Of the motion, rows of numbers are kept for a record (`rows`): every
step's at first, then of every second, fourth … as they become many.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.multibody.natural import changes
from tandem.multibody.natural.changes import SLIDE, TURN
from tandem.multibody.natural.equations import Joint
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.forces import RANGES, REACTION, reaction
from tandem.multibody.natural.impacts import Meeting
from tandem.multibody.natural.limits import FORCE, NUMBER, STIFFNESS, number, numbers
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.natural.problems import BodyMotion, body_motion, effort
from tandem.multibody.natural.run import stepper
from tandem.multibody.natural.system import State
from tandem.multibody.natural.tables import DIAGNOSTICS, EXTERNAL
from tandem.multibody.rotations import skew

_HAND = "hand on "
_TORQUE = "torque on "
_MOTION = "motion of "
_HAND_HZ = 1.5  # of the whole mass on the spring of the hand
_STOP_HZ = 10.0  # of the whole mass on a limit
_STOP_DAMPING = 0.2  # s/m, s/rad
_OUT_OF_REACH = 1e-4  # of the size; constraints that are open by more than that are not met at all
_MOST_STEPS = 200  # of one look: what cannot be made up is given up
_MOST_NUMBERS = 4_000_000  # of the rows that are kept
Event = tuple[int, str, tuple[Any, ...]]  # steps made before it, act, arguments
ACTS = (
    "hold", "let_go", "push", "turn", "set", "give", "switch", "change", "limit", "friction", "prescribe", "release",
    "reset",
)  # fmt: skip


def with_hands(mechanism: Mechanism) -> Mechanism:
    """A force on every free point and a torque on every body, zero until a user acts. Before it is compiled."""
    for name, node in list(mechanism.nodes.items()):
        if node.kind == "point" and node.columns:
            mechanism.force(_HAND + name, node, np.zeros(node.dim))
    for name, body in mechanism.bodies.items():
        if mechanism.dimension == 2 or len(body.basis) == 3:
            mechanism.torque(_TORQUE + name, body, world=0.0 if mechanism.dimension == 2 else np.zeros(3))
        else:
            for k, e in enumerate(body.turning):  # forces on its directions that are a torque together
                mechanism.force(f"{_TORQUE}{name} {k}", e, np.zeros(3))
    return mechanism


@dataclass(frozen=True)
class Law:
    """A prescribed motion from `begin` on: from + speed t + amplitude sin(2 pi frequency t)."""

    begin: float
    origin: float
    speed: float = 0.0
    amplitude: float = 0.0
    frequency: float = 0.0

    def at(self, time: float) -> tuple[float, float, float]:
        t, w = time - self.begin, 2.0 * math.pi * self.frequency
        s, c = math.sin(w * t), math.cos(w * t)
        a = self.amplitude
        return self.origin + self.speed * t + a * s, self.speed + a * w * c, -a * w * w * s


class Rig:
    """A compiled mechanism with hands; for one thread."""

    def __init__(self, state: State):
        mechanism = state.system.mechanism
        assert isinstance(mechanism, Mechanism)
        self.mechanism = mechanism
        self.state = state
        self._first = state.copy()
        self._first_reals = state.system.reals.copy()
        self._reference = changes.snapshot(mechanism)
        self.points = tuple(n for n, node in mechanism.nodes.items() if node.kind == "point" and node.columns)
        self.bodies = tuple(mechanism.bodies)
        mass = sum(m for _, m in mechanism.masses) or 1.0
        self.mass, self.size = mass, _size(mechanism)
        self.stiffness = mass * (2.0 * math.pi * _HAND_HZ) ** 2
        self.damping = 2.0 * 0.7 * math.sqrt(self.stiffness * mass)
        self.held: tuple[str, np.ndarray] | None = None  # the point and where the hand is, in the mechanism's axes
        self.pushed: dict[str, np.ndarray] = {}
        self.torques: dict[str, np.ndarray] = {}  # world axes; in the plane one number
        self.motions: dict[str, tuple[str, Law]] = {}  # target -> the scalar that holds the rest of a turning, law
        self.paused, self.slow = False, 1.0
        self.log: list[Event] = []
        self.notice = ""  # what ended by itself
        self.resets, self.endings = 0, 0  # how often all was reset, and motions ended by themselves
        self._twisted: tuple[str, ...] = ()  # bodies with a torque in the tables
        self.steps = 0  # from the very start on, over every reset
        self._owed = 0.0  # s
        self.rows: list[np.ndarray] = []  # time, q, qd, qdd of the drawn coordinates, and how well the step was solved
        self.stride = 1  # steps from row to row
        self._use(state)
        self._keep()

    def _use(self, state: State) -> None:
        """This state, and the places in its tables."""
        self.state, self.system = state, state.system
        self._work = self.system.work()
        self._advance = stepper(self.system.scheme)
        self._meeting = Meeting(self.system) if self.mechanism.impacts else None
        self.hinges = changes.joints_of(self.mechanism)  # with a type to change or a coordinate
        nodes = self.mechanism.nodes
        self._places = {
            name: [self.system.parameter(_HAND + name, axis) for axis in "xyz"[: nodes[name].dim]]
            for name in self.points
        }
        self._torque_places = {}
        for name in self.bodies:
            body = self.mechanism.bodies[name]
            if self.mechanism.dimension == 2:
                found = [self.system.parameter(_TORQUE + name, "over_square")]
            elif len(body.basis) == 3:
                found = [self.system.parameter(_TORQUE + name, f"world_{axis}") for axis in "xyz"]
            else:
                parts = [f"{_TORQUE}{name} {k}" for k in range(len(body.basis))]
                found = [self.system.parameter(part, axis) for part in parts for axis in "xyz"]
            self._torque_places[name] = found

    # ---- what there is -----------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, dict[str, float]]:
        """Of springs, forces and what else there is, but for the hands: element, name, value.

        What follows from the drawing (a normal, a metric, a rotor) is not among them, nor a reaction on a carrier.
        """
        system = self.system  # a page may look from another thread
        torques = {f"{name}{REACTION}" for name, *_ in self.mechanism.spin_torques}
        found = {
            e.name: {
                key: float(system.reals[system.parameter(e.name, key)])
                for key in e.params
                if key in RANGES.get(e.kind, {})
            }
            for e in system.elements
            if not e.name.startswith((_HAND, _TORQUE)) and e.name not in torques
        }
        return {name: values for name, values in found.items() if values}

    @property
    def inputs(self) -> dict[str, float]:
        """Those that are set from outside, and what they are."""
        return {
            name: float(self.state.inputs[i.index, 0])
            for name, i in self.mechanism.inputs.items()
            if i.kind == EXTERNAL and not name.startswith(_MOTION) and i.index < len(self.state.inputs)
        }

    @property
    def joints(self) -> tuple[str, ...]:
        """What can be taken away and put back: constraints by the name of their joint."""
        names = dict.fromkeys(name.rsplit(".", 1)[0] for name in self.mechanism.constraints)
        rigid = {f"{n}.unit".rsplit(".", 1)[0] for n, node in self.mechanism.nodes.items() if node.kind == "vector"}
        return tuple(name for name in names if name not in rigid and name not in self.mechanism.bodies)

    def targets(self, body: str) -> tuple[str, ...]:
        """Which motions of a body can be prescribed."""
        axes = "xy" if self.mechanism.dimension == 2 else "xyz"
        found = [f"{body} along {axis}" for axis in axes]
        if self.mechanism.dimension == 2:
            found.append(f"{body} turn")
        elif len(self.mechanism.bodies[body].basis) == 3:
            found += [f"{body} turn about {axis}" for axis in axes]
        for name, joint in self.hinges.items():
            if body in (joint.b.name, joint.a.name if joint.a is not None else ""):
                found += [f"{name} {which}" for which in changes.coordinates(self.mechanism, joint)]
        return tuple(found)

    def where(self, point: str) -> np.ndarray:
        return self.state[point]

    def centre(self, body: str) -> np.ndarray:
        return self.state.value(self.mechanism.bodies[body].centre)

    def motion(self, body: str) -> BodyMotion:
        return body_motion(self.state, body)

    def effort(self, target: str) -> float:
        """The force or torque with which a prescribed motion is made."""
        return effort(self.state, _MOTION + target)

    def present(self, joint: str, which: str) -> float:
        return changes.present(self.state, self.hinges[joint], which)[0]

    # ---- acts --------------------------------------------------------------------------------------------------------

    def do(self, act: str, *arguments: Any) -> None:
        """An act by name, logged: one of `ACTS`."""
        if act not in ACTS:
            raise MechanismError(f"{act}: no such act; there are {', '.join(ACTS)}")
        self.notice = ""
        getattr(self, act)(*arguments)
        self.log.append((self.steps, act, arguments))

    def repeat(self, log: list[Event], steps: int) -> None:
        """The same acts before the same steps, from the start on."""
        log = list(log)  # its own is cleared
        self.reset()
        self.log.clear()
        self.rows.clear()
        self.steps, self.stride = 0, 1
        self._keep()
        for before, act, arguments in log:
            while self.steps < before:
                self.step()
            self.do(act, *arguments)
        while self.steps < steps:
            self.step()

    def hold(self, point: str, place: Any) -> None:
        self.held = (point, numbers(f"hand on {point}", place, self._dim(point)))

    def let_go(self) -> None:
        self.held = None

    def push(self, point: str, force: Any) -> None:
        values = numbers(f"push on {point}, N", force, self._dim(point), FORCE)
        self.pushed = {point: values} if np.any(values) else {}

    def turn(self, body: str, torque: Any) -> None:
        if body not in self.bodies:
            raise MechanismError(f"{body}: no such body; there are {', '.join(self.bodies)}")
        values = numbers(f"torque on {body}, N m", torque, 1 if self.mechanism.dimension == 2 else 3, FORCE)
        self.torques = {body: values} if np.any(values) else {}

    def set(self, element: str, name: str, value: float) -> None:
        """A parameter of a force, within what the builder takes; of a torque on a spin, its reaction goes along."""
        there = self.parameters
        if name not in there.get(element, {}):
            raise MechanismError(f"{element}: {name}: no such parameter; there are {', '.join(there) or 'none'}")
        value = number(f"{element}: {name}", value, RANGES[self.mechanism.elements[element].kind][name])
        after = there[element] | {name: value}
        if not after.get("low", -math.inf) < after.get("high", math.inf):
            raise MechanismError(f"{element}: low = {after['low']:g} must be below high = {after['high']:g}")
        self._write(element, name, value)
        for key, other in reaction(self.mechanism, element, value).items():
            self._write(f"{element}{REACTION}", key, other)

    def _write(self, element: str, name: str, value: float) -> None:
        self.system.reals[self.system.parameter(element, name)] = value

    def _dim(self, point: str) -> int:
        if point not in self.points:
            raise MechanismError(f"{point}: no such point; there are {', '.join(self.points)}")
        return self.mechanism.nodes[point].dim

    def give(self, name: str, value: float) -> None:
        """An input that is set from outside."""
        if name not in self.inputs or not math.isfinite(value):
            raise MechanismError(
                f"{name} = {value:g}: no such input, or not finite; there are {', '.join(self.inputs)}"
            )
        self.state.vector[self.system.input(name)] = value, 0.0, 0.0

    def switch(self, joint: str, on: bool) -> None:
        self.system.switch(joint, on)
        if not on:
            for row in self.system.rows(joint):
                self.state.lam[row] = 0.0

    def change(self, joint: str, kind: str) -> None:
        """Another type for a joint, locked where it is."""
        self._change(lambda: changes.change_joint(self.mechanism, self.state, self._hinge(joint), kind))

    def limit(self, joint: str, which: str, low: float, high: float, on: bool = True) -> None:
        """Stops of a joint; made when they are first asked for."""
        name = f"{joint} {which} limit"
        low, high = number(f"{name}: low", low), number(f"{name}: high", high)
        if not low < high:
            raise MechanismError(f"{name}: low = {low:g} must be below high = {high:g}")
        # switched off by stops that are nowhere
        ends = (low, high) if on else (-1e6, 1e6)
        if name not in self.mechanism.elements:
            stiffness = self._inertia(which) * (2.0 * math.pi * _STOP_HZ) ** 2
            self._add(joint, which, lambda x: self.mechanism.limit(name, x, *ends, stiffness, _STOP_DAMPING))
        for key, value in zip(("low", "high"), ends, strict=True):
            self._write(name, key, float(value))

    def friction(self, joint: str, which: str, level: float) -> None:
        """Coulomb friction of a joint, N m or N."""
        name = f"{joint} {which} friction"
        level = number(name, level, STIFFNESS)
        if name not in self.mechanism.elements:
            speed = 1e-3 * (1.0 if which == TURN else self.size)
            self._add(joint, which, lambda x: self.mechanism.friction(name, x, level, speed))
        self._write(name, "level", level)

    def prescribe(
        self,
        target: str,
        speed: float = 0.0,
        amplitude: float = 0.0,
        frequency: float = 0.0,
        instead: Sequence[str] = (),
    ) -> None:
        """A motion of `targets`, from where it is now: at a speed, to and fro, or held.

        Those that it is made `instead` of end with it; where it cannot be, they go on.
        """
        terms = {"speed": speed, "amplitude": amplitude, "frequency": frequency}
        law = {key: number(f"{target}: {key}", value, NUMBER) for key, value in terms.items()}

        def act() -> dict[str, tuple[float, float]]:
            for other in instead:
                if other != target:
                    self._end(other)
            now = self.state.time
            if target in self.motions:  # another law, from where it is
                held, before = self.motions[target]
                self.motions[target] = held, Law(now, before.at(now)[0], **law)
                return {}
            form, values, held = self._target(target)
            name = getattr(form, "name", "")
            origin = values[name][0] if name in values else float(self.state.value(form)[0])
            changes.prescribe(self.mechanism, self.state, _MOTION + target, form)
            self.motions[target] = held, Law(now, origin, **law)
            return values

        self._change(act)

    def release(self, target: str) -> None:
        """Ends a prescribed motion."""
        if target in self.motions:
            self._change(lambda: self._end(target))

    def _end(self, target: str) -> None:
        if target in self.motions:
            held, _ = self.motions.pop(target)
            changes.release(self.mechanism, _MOTION + target, held)

    def reset(self) -> None:
        """Go back to the reference configuration, and undo every change."""
        changes.restore(self.mechanism, self._reference)
        self._first.system.reals[:] = self._first_reals
        self._use(self._first.copy())
        self.held = None
        self.pushed.clear()
        self.torques.clear()
        self._twisted = ()
        self.motions.clear()
        self.notice = ""
        self._owed = 0.0
        self.resets += 1

    # ---- changes of the equations ------------------------------------------------------------------------------------

    def _change(self, act: Callable[[], dict[str, tuple[float, float]] | None]) -> None:
        """Change the mechanism and make its tables again; what contradicts the rest leaves all as it was."""
        motions = dict(self.motions)
        try:
            with changes.changed(self.mechanism):
                values = act() or {}
                inputs = {_MOTION + target: law.at(self.state.time) for target, (_, law) in self.motions.items()}
                state = changes.recompile(self.state, values, inputs)
        except BaseException:
            self.motions = motions
            raise
        self._use(state)

    def _hinge(self, joint: str) -> Joint:
        found = self.hinges
        if joint not in found:
            raise MechanismError(f"{joint}: no joint with a type or coordinate; there are {', '.join(found) or 'none'}")
        return found[joint]

    def _add(self, joint: str, which: str, make: Callable[[Any], None]) -> None:
        def act() -> dict[str, tuple[float, float]]:
            scalar, values = changes.coordinate(self.mechanism, self.state, self._hinge(joint), which)
            make(scalar)
            return values

        self._change(act)

    def _inertia(self, which: str) -> float:
        return self.mass * (self.size**2 if which == TURN else 1.0)

    def _target(self, target: str) -> tuple[Any, dict[str, tuple[float, float]], str]:
        """The form of a motion, what new scalars are now, and the scalar that holds the rest of a turning."""
        for name, body in self.mechanism.bodies.items():
            for k, axis in enumerate("xyz"[: self.mechanism.dimension]):
                if target == f"{name} along {axis}":
                    return body.centre[k], {}, ""
                if target in (f"{name} turn about {axis}", f"{name} turn"):
                    form, values = changes.turn_of(self.mechanism, self.state, body, k)
                    return form, values, form.name
        for name, joint in self.hinges.items():
            for which in (TURN, SLIDE):
                if target == f"{name} {which}":
                    form, values = changes.coordinate(self.mechanism, self.state, joint, which)
                    return form, values, ""
        raise MechanismError(f"{target}: no motion that can be prescribed")

    # ---- time --------------------------------------------------------------------------------------------------------

    def _hands(self) -> None:
        nodes = self.mechanism.nodes
        for name, places in self._places.items():
            force = self.pushed.get(name, np.zeros(len(places)))
            if self.held is not None and self.held[0] == name:
                away = self.held[1] - self.state[name]
                force = force + self.stiffness * away - self.damping * self.state.rate(nodes[name])
            self.system.reals[places] = force
        for name in {*self._twisted, *self.torques}:
            self._twist(name, self.torques.get(name))
        self._twisted = tuple(self.torques)

    def _twist(self, name: str, torque: np.ndarray | None) -> None:
        body, places = self.mechanism.bodies[name], self._torque_places[name]
        if torque is None:
            self.system.reals[places] = 0.0
        elif self.mechanism.dimension == 2:
            e = body.reference_basis[:, 0]
            self.system.reals[places] = torque / float(e @ e)
        elif len(body.basis) == 3:
            self.system.reals[places] = torque
        else:  # the least forces f with sum e x f = T, as far as a bar can feel it
            crosses = np.hstack([skew(self.state.value(v)) for v in body.basis])
            self.system.reals[places] = np.linalg.lstsq(crosses, torque, rcond=1e-9)[0]

    def _move(self, state: State, time: float) -> None:
        for target, (_, law) in self.motions.items():
            state.vector[state.system.input(_MOTION + target)] = law.at(time)

    def step(self) -> None:
        """One step. A motion that cannot go on (out of reach) ends; what is not finite then is a reset."""
        s, before = self.system, self.state.vector.copy()
        self._hands()
        self._move(self.state, self.state.time + s.h)
        if self._meeting is None:
            self._advance(s.ints, s.reals, self.state.vector, self._work, s.hook, s.h)
        else:
            self._meeting.step(self._advance, s, self.state.vector, self._work)
        self.steps += 1
        finite = bool(np.isfinite(self.state.vector).all())
        if self.motions and not (finite and self.diagnosis()["phi_error"] <= _OUT_OF_REACH * self.size):
            self.notice = f"{', '.join(self.motions)}: cannot go on, and has ended"
            self.state.vector[:] = before
            for target in list(self.motions):
                self.release(target)
            self.endings += 1
        elif not finite:
            self.reset()
            self.notice, self.paused = "the motion left the finite numbers: reset", True
        if self.steps % self.stride == 0:
            self._keep()

    def row(self) -> np.ndarray:
        """This instant, in the coordinates that were drawn: changes add theirs behind them."""
        n, state, solved = len(self._first.q), self.state, self.diagnosis()
        ends = [
            np.array([state.time]),
            state.q[:n],
            state.qd[:n],
            state.qdd[:n],
            np.array([solved["phi_error"], solved["phid_error"]]),
        ]
        return np.concatenate(ends)

    def _keep(self) -> None:
        self.rows.append(self.row())
        if len(self.rows) > max(100, _MOST_NUMBERS // len(self.rows[0])):
            del self.rows[1::2]
            self.stride *= 2

    @property
    def begin(self) -> tuple[State, np.ndarray]:
        """The start, and the numbers of its tables then."""
        return self._first, self._first_reals

    def advance(self, seconds: float) -> int:
        """As many steps as real time asks for; what a slow machine cannot make is left out. Returns how many."""
        if self.paused:
            return 0
        self._owed += seconds / self.slow
        count = min(int(self._owed / self.system.h), _MOST_STEPS)
        self._owed = min(self._owed - count * self.system.h, self.system.h)
        for _ in range(count):
            self.step()
        return count

    def diagnosis(self) -> dict[str, float]:
        return {name: float(value) for name, value in zip(DIAGNOSTICS, self._work, strict=False)}


def _size(mechanism: Mechanism) -> float:
    points = [mechanism.where(n) for n in mechanism.nodes.values() if n.kind == "point"]
    return (float(np.ptp(np.array(points), axis=0).max()) if len(points) > 1 else 0.0) or 1.0
