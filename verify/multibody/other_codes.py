"""The same mechanism in other codes: Exudyn and MuJoCo, where they are installed (the extra `compare`).

A mechanism is given to them as bars in a row, hinge after hinge, hanging on the ground and closed at its end or not:
enough for pendulum, chain, four-bar, slider-crank and Bricard's linkage, and nothing of our coordinates is in it. Each
code gets the settings that suited it best when they were tried on Bricard's linkage (aarch64, Exudyn 1.13, MuJoCo 4.0):

    exudyn bodies   a rigid body a bar (Euler parameters), joints as constraints, generalized-α with modified Newton,
                    sparse: 145 µs a step; dense and index-2 trapezoidal were within 20 %, rotation vectors slower
    exudyn tree     the bars as one kinematic tree, only the last joint a constraint: 113 µs a step, six times the
                    accuracy at the same step. Serial chains with one loop suit it; it is the harder one to beat
    mujoco          a tree as well, RK4; loops are closed by its (soft) equality constraints, as stiff as stays stable

Nothing is written to disk while they run, redundant constraints are left out for Exudyn (singular otherwise), and the
clock (processor time, so that a busy machine does not count) covers only the solver, not the building of the model.
"""

import importlib.metadata
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bars:
    """Uniform square bars from points[k] to points[k+1], hinged at points[k] about axes[k] (global axes, at the start).

    `closure`: "open"; "hinge", the last point is a hinge of the ground about axes[-1]; "slider", it moves along x.
    `planar`: all axes are z, so that out-of-plane constraints of a closure are redundant.
    """

    points: np.ndarray
    axes: np.ndarray
    masses: tuple[float, ...]
    width: float
    gravity: np.ndarray
    duration: float
    closure: str = "open"
    planar: bool = True
    end_mass: float = 0.0
    rates: tuple[float, ...] = ()  # of the hinges, relative; at rest if empty

    def inertia(self, k: int) -> np.ndarray:
        """About the bar's centre, in global axes (the bars lie along x, y or z or in the plane at the start)."""
        along = self.points[k + 1] - self.points[k]
        length = float(np.linalg.norm(along))
        unit = along / length
        section, slender = self.width**2 / 6, (length**2 + self.width**2) / 12
        inertia: np.ndarray = self.masses[k] * (slender * np.eye(3) + (section - slender) * np.outer(unit, unit))
        return inertia


@dataclass(frozen=True)
class Outcome:
    """The result of another code: instants and positions of the observed point, seconds of processor time."""

    times: np.ndarray
    positions: np.ndarray
    seconds: float
    steps: int


def installed() -> dict[str, str]:
    """Name and version of the codes that are here."""
    found = {}
    for name in ("exudyn", "mujoco"):
        if importlib.util.find_spec(name) is not None:
            found[name] = importlib.metadata.version(name)
    return found


def runners() -> dict[str, Callable[[Bars, float, int], Outcome]]:
    """What can be run here: (bars, step, observed bar's end) → outcome."""
    here = installed()
    found: dict[str, Callable[[Bars, float, int], Outcome]] = {}
    if "exudyn" in here:
        found |= {"exudyn bodies": exudyn_bodies, "exudyn tree": exudyn_tree}
    if "mujoco" in here:
        found |= {"mujoco": mujoco}
    return found


def processor_seconds(work: Callable[[], Any]) -> float:
    start = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - start) / 1e9


# ---- Exudyn ----------------------------------------------------------------------------------------------------------


def import_exudyn() -> Any:
    sys.exudynFast = True  # type: ignore[attr-defined]  # the build without range checks, where there is one
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        import exudyn
    exudyn.config.printToConsole = False
    return exudyn


def _closing(bars: Bars) -> list[int]:
    """Constrained axes of the last joint (x, y, z, turns about them) with axis z, without what is redundant."""
    if bars.closure == "slider":
        return [0, 1, 0, 0, 0, 0]
    return [1, 1, 0, 0, 0, 0] if bars.planar else [1, 1, 1, 1, 0, 0]


def _frame(axis: np.ndarray) -> np.ndarray:
    """Columns x, y, z of a frame whose z is the axis; for z itself the global frame."""
    if abs(axis[2]) > 0.9:
        return np.eye(3)
    across = np.roll(axis, 1)
    return np.stack([across, np.cross(axis, across), axis], axis=1)


def _solve(exu: Any, mbs: Any, sensor: int, bars: Bars, step: float, solver: str) -> Outcome:
    settings = exu.SimulationSettings()
    steps = round(bars.duration / step)
    settings.timeIntegration.endTime = bars.duration
    settings.timeIntegration.numberOfSteps = steps
    settings.timeIntegration.adaptiveStep = False
    settings.solution.file.write = False
    settings.solution.sensors.writePeriod = bars.duration / 50
    settings.linearSolver.solverType = getattr(exu.LinearSolverType, solver)
    seconds = processor_seconds(lambda: mbs.SolveDynamic(settings, solverType=exu.DynamicSolverType.GeneralizedAlpha))
    data = np.asarray(mbs.GetSensorStoredData(sensor))
    return Outcome(data[:, 0], data[:, 1:4], seconds, steps)


def exudyn_bodies(bars: Bars, step: float, observed: int) -> Outcome:
    exu = import_exudyn()
    from exudyn.itemInterface import SensorBody
    from exudyn.rigidBodyUtilities import RigidBodyInertia

    mbs = exu.SystemContainer().AddSystem()
    ground = mbs.CreateGround(referencePosition=[0, 0, 0])
    bodies, spin, velocity = [], np.zeros(3), np.zeros(3)
    count = len(bars.masses)
    for k in range(count):
        start, end = bars.points[k], bars.points[k + 1]
        middle = 0.5 * (start + end)
        mass, inertia, centre = bars.masses[k], bars.inertia(k), np.zeros(3)
        if k == count - 1 and bars.end_mass:
            # the slider is a particle at the end of the last bar
            lever, extra = end - middle, bars.end_mass
            inertia = inertia + extra * (lever @ lever * np.eye(3) - np.outer(lever, lever))
            mass, centre = mass + extra, lever * extra / (mass + extra)
        if bars.rates:
            spin = spin + bars.rates[k] * bars.axes[k]
        bodies.append(
            mbs.CreateRigidBody(
                referencePosition=list(middle),
                inertia=RigidBodyInertia(mass=mass, inertiaTensor=inertia, com=centre),
                initialVelocity=list(velocity + np.cross(spin, middle - start)),
                initialAngularVelocity=list(spin),
                gravity=list(bars.gravity),
            )
        )
        velocity = velocity + np.cross(spin, end - start)
    chain = [ground, *bodies, ground]
    for k in range(count + (bars.closure != "open")):
        last = k == count
        axis = bars.axes[k]
        mbs.CreateGenericJoint(
            itemNumbers=[ground, chain[k]] if last else [chain[k], chain[k + 1]],  # axes are those of the first
            position=list(bars.points[k]),
            rotationMatrixAxes=_frame(axis),
            constrainedAxes=_closing(bars) if last else [1, 1, 1, 1, 1, 0],
            useGlobalFrame=True,
        )
    sensor = mbs.AddSensor(
        SensorBody(
            bodyNumber=bodies[observed],
            localPosition=list(0.5 * (bars.points[observed + 1] - bars.points[observed])),
            storeInternal=True,
            outputVariableType=exu.OutputVariableType.Position,
        )
    )
    mbs.Assemble()
    return _solve(exu, mbs, sensor, bars, step, "EigenSparse")


def exudyn_tree(bars: Bars, step: float, observed: int) -> Outcome:
    exu = import_exudyn()
    from exudyn.itemInterface import (
        GenericJoint,
        MarkerBodyRigid,
        MarkerKinematicTreeRigid,
        NodeGenericODE2,
        ObjectKinematicTree,
        SensorKinematicTree,
    )

    mbs = exu.SystemContainer().AddSystem()
    ground = mbs.CreateGround(referencePosition=[0, 0, 0])
    count = len(bars.masses)
    kinds = [exu.JointType.RevoluteX, exu.JointType.RevoluteY, exu.JointType.RevoluteZ]
    frames, offsets, inertias, centres = exu.Matrix3DList(), exu.Vector3DList(), exu.Matrix3DList(), exu.Vector3DList()
    masses, before = [], np.zeros(3)
    for k in range(count):
        along = bars.points[k + 1] - bars.points[k]
        mass, inertia, centre = bars.masses[k], bars.inertia(k), 0.5 * along
        if k == count - 1 and bars.end_mass:
            total = mass + bars.end_mass
            lever, reduced = along - centre, mass * bars.end_mass / total
            inertia = inertia + reduced * (lever @ lever * np.eye(3) - np.outer(lever, lever))
            mass, centre = total, centre + lever * bars.end_mass / total
        frames.Append(np.eye(3))
        offsets.Append(bars.points[k] - before)
        inertias.Append(inertia)
        centres.Append(centre)
        masses.append(mass)
        before = bars.points[k]
    node = mbs.AddNode(
        NodeGenericODE2(
            referenceCoordinates=[0.0] * count,
            initialCoordinates=[0.0] * count,
            initialCoordinates_t=list(bars.rates) or [0.0] * count,
            numberOfODE2Coordinates=count,
        )
    )
    tree = mbs.AddObject(
        ObjectKinematicTree(
            nodeNumber=node,
            jointTypes=[kinds[int(np.argmax(np.abs(bars.axes[k])))] for k in range(count)],
            linkParents=list(range(-1, count - 1)),
            jointTransformations=frames,
            jointOffsets=offsets,
            linkInertiasCOM=inertias,
            linkCOMs=centres,
            linkMasses=masses,
            gravity=list(bars.gravity),
            baseOffset=[0.0, 0.0, 0.0],
        )
    )
    if bars.closure != "open":
        end = list(bars.points[count] - bars.points[count - 1])
        ours = mbs.AddMarker(MarkerKinematicTreeRigid(objectNumber=tree, linkNumber=count - 1, localPosition=end))
        theirs = mbs.AddMarker(MarkerBodyRigid(bodyNumber=ground, localPosition=list(bars.points[count])))
        rotation = _frame(bars.axes[count])
        mbs.AddObject(
            GenericJoint(
                markerNumbers=[theirs, ours],
                constrainedAxes=_closing(bars),
                rotationMarker0=rotation,
                rotationMarker1=rotation,
            )
        )
    sensor = mbs.AddSensor(
        SensorKinematicTree(
            objectNumber=tree,
            linkNumber=observed,
            localPosition=list(bars.points[observed + 1] - bars.points[observed]),
            storeInternal=True,
            outputVariableType=exu.OutputVariableType.Position,
        )
    )
    mbs.Assemble()
    return _solve(exu, mbs, sensor, bars, step, "EXUdense")


# ---- MuJoCo ----------------------------------------------------------------------------------------------------------


def _numbers(values: Any) -> str:
    return " ".join(f"{float(v):.17g}" for v in np.ravel(values))


def mujoco_model(bars: Bars, step: float, observed: int) -> str:
    """The mechanism as MJCF."""
    # a spring that brings an error back in two steps is as stiff as MuJoCo keeps stable
    stiff = f'solref="{2 * step:.17g} 1" solimp="0.9999 0.9999 0.001"'
    count = len(bars.masses)
    inside, tail = "", ""
    for k in range(count):
        offset = bars.points[k] - (bars.points[k - 1] if k else np.zeros(3))
        along = bars.points[k + 1] - bars.points[k]
        inertia = bars.inertia(k)
        full = [inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]]
        inside += (
            f'<body name="b{k}" pos="{_numbers(offset)}"><joint type="hinge" axis="{_numbers(bars.axes[k])}"/>'
            f'<inertial pos="{_numbers(0.5 * along)}" mass="{bars.masses[k]:.17g}" fullinertia="{_numbers(full)}"/>'
        )
        if k == observed:
            inside += f'<site name="seen" pos="{_numbers(along)}"/>'
        tail += "</body>"
    loop, extra = "", ""
    last = bars.points[count] - bars.points[count - 1]
    if bars.closure == "hinge":
        loop += f'<connect body1="b{count - 1}" anchor="{_numbers(last)}" {stiff}/>'
        if not bars.planar:
            loop += f'<connect body1="b{count - 1}" anchor="{_numbers(last + bars.axes[count])}" {stiff}/>'
    elif bars.closure == "slider":
        extra = (
            f'<body name="slider" pos="{_numbers(bars.points[count])}"><joint type="slide" axis="1 0 0"/>'
            f'<inertial pos="0 0 0" mass="{bars.end_mass:.17g}" diaginertia="1e-6 1e-6 1e-6"/></body>'
        )
        loop += f'<connect body1="b{count - 1}" body2="slider" anchor="{_numbers(last)}" {stiff}/>'
    return (
        f'<mujoco><compiler angle="radian" inertiagrouprange="0 0"/>'
        f'<option timestep="{step:.17g}" gravity="{_numbers(bars.gravity)}" integrator="RK4" tolerance="1e-12"'
        f' iterations="50"><flag contact="disable"/></option><worldbody>{inside}{tail}{extra}</worldbody>'
        f"<equality>{loop}</equality></mujoco>"
    )


def mujoco(bars: Bars, step: float, observed: int) -> Outcome:
    import mujoco as mj
    from mujoco import rollout

    mj.set_mju_user_warning(lambda message: None)  # a run that diverges is a result; else it is written into a file
    model = mj.MjModel.from_xml_string(mujoco_model(bars, step, observed))
    data = mj.MjData(model)
    if bars.rates:
        data.qvel[: len(bars.rates)] = bars.rates
        if bars.closure == "slider":
            # the slider starts with the velocity of the last bar's end
            mj.mj_forward(model, data)
            spin, velocity = np.zeros(3), np.zeros(3)
            for k in range(len(bars.masses)):
                spin = spin + bars.rates[k] * bars.axes[k]
                velocity = velocity + np.cross(spin, bars.points[k + 1] - bars.points[k])
            data.qvel[-1] = velocity[0]
    steps = round(bars.duration / step)
    size = mj.mj_stateSize(model, mj.mjtState.mjSTATE_FULLPHYSICS)
    start_state = np.empty(size)
    mj.mj_getState(model, data, start_state, mj.mjtState.mjSTATE_FULLPHYSICS)
    start = time.thread_time_ns()
    states, _ = rollout.rollout(model, data, start_state[None], nstep=steps)  # the loop is MuJoCo's, not Python's
    seconds = (time.thread_time_ns() - start) / 1e9
    every = max(1, steps // 50)
    times, positions = [0.0], [np.array(bars.points[observed + 1])]
    for state in states[0][every - 1 :: every]:
        mj.mj_setState(model, data, np.ascontiguousarray(state), mj.mjtState.mjSTATE_FULLPHYSICS)
        mj.mj_kinematics(model, data)
        times.append(float(data.time))
        positions.append(data.site("seen").xpos.copy())
    return Outcome(np.array(times), np.array(positions), seconds, steps)
