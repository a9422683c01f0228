"""From a mechanism's file to a machine: at its start, with what is shown of it, and perhaps with motors."""

import functools
import json
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import Machine, Shown
from sim_service.contract.parameters import checked
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.machines.mechanism.control import PARAMETERS, motors, under_control
from tandem.machines.mechanism.described import OfMechanism
from tandem.machines.mechanism.named import Named, parameters_of, with_values
from tandem.machines.mechanism.shape_derivatives import Shared, shape_derivatives
from tandem.multibody.description.mechanism_file import Described, describe
from tandem.multibody.natural.api import (
    AssemblyError,
    MechanismError,
    State,
    accelerations,
    assemble,
    equilibrium,
    velocities,
)
from tandem.multibody.natural.laws import follow_law
from tandem.multibody.natural.scene import scene_of
from tandem.multibody.natural.tables import EXTERNAL, VALUE
from tandem.multibody.relative.build import build_like, structure_of
from tandem.multibody.relative.kinematics import tree_pose, value
from tandem.multibody.relative.machine import Equation
from tandem.multibody.relative.run import METHODS, Runner
from tandem.multibody.relative.system import P


class MechanismMachine(Section):
    machine: str
    mechanism: str
    control: Literal["computed_torque"] | None = None
    parameters: dict[str, float] = {}
    named: dict[str, Named] = {}


def build(
    data: dict[str, Any], where: str, path: str, content: dict[str, Any], changed: dict[str, float]
) -> tuple[Machine, np.ndarray]:
    """From the contents of the machine's file and of the mechanism's."""
    settings = check(MechanismMachine, data, where)
    own = () if settings.control is None else PARAMETERS
    named = parameters_of(settings.named, content, where, path, [p.name for p in own])
    all_values = {p.name: p.value for p in named} | settings.parameters
    params = checked("mechanism", (*own, *named), all_values, changed, where)
    begun_with, content = content, with_values(content, settings.named, params[len(own) :], path)
    if settings.control is None and not named:
        return shown(*equation(content, path)), params
    if settings.control is None:
        shared = _shared(json.dumps(begun_with, default=str), path)  # a date is refused as it is read
        one, natural, machine = equation(content, path, shared)

        def other(values: np.ndarray) -> Equation:
            return equation(with_values(content, settings.named, values, path), path, shared)[0]

        machine = replace(shown(one, natural, machine), parameters=named)
        return shape_derivatives(machine, one, other, shared), params
    plant, driven, drives = motors(content, path)
    one, _, inverse = equation(driven, path)
    if free := [one.tree.velocities[k] for k in one.system.generated.independent]:
        raise ConfigError(
            f'{where}: control = "{settings.control}": needs a drive for every freedom, and in {path} nothing drives'
            f" {', '.join(free[:8])}; give it drives, or leave control out"
        )
    known = {q.name for q in inverse.outputs}
    if tied := [name for name in drives if f"{name}_effort" not in known]:
        raise ConfigError(
            f"{path}: joints.{tied[0]}: drives no joint of the tree that the bodies make, so that what it takes is not"
            f" known here; let the bodies of {drives[tied[0]][0]} share a point, an axis or three vectors"
        )
    controlled = under_control(shown(*equation(plant, path)), inverse, drives)
    return replace(controlled, parameters=(*controlled.parameters, *named)), params


@functools.lru_cache(maxsize=4)
def _shared(content: str, path: str) -> Shared:
    """Of a file as it is: its code is taken for others that differ in numbers alone, of which nothing is stored."""
    first = equation(json.loads(content), path)[0]
    return Shared(first, structure_of(first.mechanism))


def equation(content: dict[str, Any], path: str, like: Shared | None = None) -> tuple[Equation, State, Machine]:
    """Of a mechanism's file, at its start; with the code of another, if that serves."""
    described = describe(content, path)
    chosen = described.file.run
    scheme = chosen.scheme if chosen.formulation == "relative" else "rodas4"
    try:
        state = begun(described)
        built = None
        if like is not None:
            first = like.first.system
            generated = build_like(described.mechanism, like.structure, first.generated)
            built = None if generated is None else (generated, first.code)
        runner = Runner(state, scheme, built)
    except (MechanismError, AssemblyError) as error:
        raise ConfigError(f"{path}: in relative coordinates: {error}") from None
    one = Equation(runner.system, described.mechanism, runner.state.copy())
    of = OfMechanism(path, described.mechanism, len(one.system.generated.independent))
    return one, state, one.machine("mechanism", METHODS[scheme]).having(of)


def begun(described: Described) -> State:
    """Its start, closed. Raises AssemblyError where it cannot be."""
    state = described.mechanism.compile(h=1e-3 * described.file.run.step_ms).state()
    if described.file.start.equilibrium:
        assemble(state)
        equilibrium(state)
    assemble(state, **described.positions)
    return accelerations(velocities(state, **described.velocities))


def shown(one: Equation, natural: State, machine: Machine) -> Machine:
    """With what the page of a mechanism draws of it."""
    system = one.system
    scene, poses = scene_of(natural.system)
    tree, generated = one.tree, one.system.generated
    y, count = one.continuous, tree.n
    usual, now = one.start[system.span(P.INPUT)][VALUE::3], np.zeros(3)
    laws = [i for i in one.mechanism.inputs.values() if i.kind != EXTERNAL]

    def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        x = state[y + 1 : y + 1 + count]
        rest = state[y + 1 + count :]
        u = usual.copy()
        for i in laws:
            follow_law.py_func(i.kind, *i.law, *(0.0,) * (4 - len(i.law)), state[y], now)
            u[i.index] = now[VALUE]
        for k, form in tree.driven.items():  # what moves a coordinate from outside is where that is
            for j, factor in form.inputs.items() if len(form.inputs) == 1 else ():
                u[j] = (x[k] - form.const) / factor
        at = tree_pose(tree, x, u, {k: rest[4 * i : 4 * i + 4] for i, k in enumerate(generated.balls)})
        natural.q[:] = [value(form, at) for form in tree.columns]
        natural.inputs[:, VALUE] = u
        poses(natural.vector, params, out)

    figures = tuple(Tile(q.name, q.name, q.unit, digits=3) for q in machine.outputs if not q.name.endswith("_rate"))
    return machine.having(Shown(Display(figures=figures[:8]), scene, frames))
