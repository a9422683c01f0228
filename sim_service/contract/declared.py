"""What a machine declares, checked against its own channels when it is loaded.

A display names channels, a scene frames and channels, a push parameters: a wrong name is found here, before the process
that shows it needs it. All errors are reported at once, a sentence each.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import FunctionType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from sim_service.contract.display import Display
from sim_service.contract.machine import Machine, Parameter, Quantity, Shown
from sim_service.contract.scene import Point, Scene
from sim_service.contract.step_channels import STEP_CHANNELS
from sync.errors import ConfigError, near_names
from sync.ring.block import RESERVED_NAMES
from sync.visible import on_one_line

_LONGEST = 200  # letters of a name
_MOST_FINDINGS = 20


def check_declared(machine: Machine, where: str) -> None:
    """Raises ConfigError; `where` names what the machine was made from."""
    of = f"{where}: machine {machine.name!r}" if where else f"machine {machine.name!r}"
    found = [*_quantities(machine), *_step(machine)]
    if not found:  # what is shown of it is compared with them
        typed = [
            *_typed("display", machine.shown.display, Display),
            *_typed("scene", machine.shown.scene, Scene | None),
        ]
        found = typed or [*_display(machine), *_scene(machine), *_frames(machine, machine.shown)]
    if found:
        more = [f"{of}: … and {len(found) - _MOST_FINDINGS} more"] * (len(found) > _MOST_FINDINGS)
        raise ConfigError("\n".join([*(f"{of}: {on_one_line(each)}" for each in found[:_MOST_FINDINGS]), *more]))


def _quantities(machine: Machine) -> list[str]:
    """Names of channels, of states and of parameters; limits of parameters."""
    found = []
    for part, kind in (("inputs", Quantity), ("states", Quantity), ("outputs", Quantity), ("parameters", Parameter)):
        value = getattr(machine, part)
        found += _typed(part, value, tuple[kind, ...])  # type: ignore[valid-type]
    if found:
        return found
    taken = dict.fromkeys((*RESERVED_NAMES, *(c.name for c in STEP_CHANNELS)), "every step has a channel of that name")
    groups: tuple[tuple[str, Iterable[Quantity | Parameter], dict[str, str]], ...] = (
        ("inputs", machine.inputs, taken), ("outputs", machine.outputs, taken),
        ("states", machine.states, {}), ("parameters", machine.parameters, {}),
    )  # fmt: skip
    for part, all_of_them, others in groups:
        for each in all_of_them:
            if not (each.name and each.name.isprintable() and len(each.name) <= _LONGEST):
                found.append(f"{part}: {each.name[:40]!r}: a name is text on one line, at most {_LONGEST} letters")
            elif each.name in others:
                found.append(f"{part}: {each.name!r}: {others[each.name]}; choose another name")
            others[each.name] = f"is there twice, in {part}"
    for p in machine.parameters:
        if not p.low <= p.value <= p.high:
            found.append(f"parameters: {p.name} = {p.value:g}: must be {p.range_text}, which are its own limits")
    return found


def _step(machine: Machine) -> list[str]:
    if not callable(machine.step):
        return [f"step = {machine.step!r:.80}: must be a compiled function, @kernel(STEP) def step(…)"]
    if isinstance(machine.step, FunctionType):
        code = machine.step.__code__
        at = f"{code.co_filename}:{code.co_firstlineno}"
        return [f"step: {machine.step.__name__} at {at} is not compiled; write @kernel(STEP) above it"]
    return []


def _display(machine: Machine) -> list[str]:
    display = machine.shown.display
    inputs = [q.name for q in machine.inputs]
    channels = [*inputs, *(q.name for q in machine.outputs), *(c.name for c in STEP_CHANNELS)]
    parameters = [p.name for p in machine.parameters]
    found = []
    for tile in display.hands:
        found += _one_of(f"display.hands: Tile({tile.label!r}, {tile.channel!r})", tile.channel, inputs, "input")
    for tile in display.figures:
        found += _one_of(f"display.figures: Tile({tile.label!r}, {tile.channel!r})", tile.channel, channels, "channel")
    for tile in (*display.hands, *display.figures):
        if not (math.isfinite(tile.factor) and math.isfinite(tile.full) and 0 <= tile.digits <= 9):
            found.append(f"display: Tile({tile.label!r}): factor and full must be finite, digits from 0 to 9")
    for pair in display.plots:
        for name in (name for name in pair if name):
            found += _one_of(f"display.plots: {pair!r}: {name!r}", name, channels, "channel")
    for curve in display.curves:
        for name in (curve.x, curve.y):
            found += _one_of(f"display.curves: Curve({curve.title!r}): {name!r}", name, channels, "channel")
    for sound in display.sounds:
        for name in (sound.count, sound.speed):
            found += _one_of(f"display.sounds: {name!r}", name, channels, "channel")
        found += _one_of(f"display.sounds: pitch = {sound.pitch!r}", sound.pitch, parameters, "parameter")
    for name in display.still:
        found += _one_of(f"display.still: {name!r}", name, inputs, "input")
    groups = list(dict.fromkeys([*(p.group_name for p in machine.parameters), "other"]))
    if display.tuned:
        found += _one_of(f"display.tuned = {display.tuned!r}", display.tuned, groups, "group of parameters")
    return found


def _scene(machine: Machine) -> list[str]:
    scene = machine.shown.scene
    if scene is None:
        return []
    channels = [q.name for q in (*machine.inputs, *machine.outputs)] + [c.name for c in STEP_CHANNELS]
    parameters = [p.name for p in machine.parameters]
    found = []
    if scene.frames < 1:
        found.append(f"scene.frames = {scene.frames}: must be at least 1")
    points: list[tuple[str, Point]] = []
    for bar in scene.bars:
        points += [(f"scene.bars: {bar.name!r}", bar.start), (f"scene.bars: {bar.name!r}", bar.end)]
    points += [(f"scene.wheels: {wheel.name!r}", wheel.centre) for wheel in scene.wheels]
    points += [(f"scene.push: {name!r}", point) for name, point in (scene.push.points if scene.push else ())]
    numbers = [(what, point.frame) for what, point in points]
    numbers += [(f"scene.solids: {solid.name!r}", solid.frame) for solid in scene.solids]
    found += [
        f"{what}: frame {number}: there are {scene.frames}, counted from 0"
        for what, number in numbers if not 0 <= number < scene.frames
    ]  # fmt: skip
    named = [(f"scene.levers: {lever.name!r}", lever.channel) for lever in scene.levers]
    for wheel in scene.wheels:
        named += [(f"scene.wheels: {wheel.name!r}", name) for name in (wheel.steer, wheel.rate) if name]
    for arrow in scene.arrows:
        named += [("scene.arrows", name) for name in (arrow.along, arrow.across, arrow.load)]
        if not 0 <= arrow.wheel < len(scene.wheels):
            found.append(f"scene.arrows: wheel {arrow.wheel}: the scene has {len(scene.wheels)}, counted from 0")
    for what, name in named:
        found += _one_of(f"{what}: {name!r}", name, channels, "channel")
    if scene.push is not None:
        for name in (scene.push.which, *scene.push.force, *(scene.push.torque or ())):
            found += _one_of(f"scene.push: {name!r}", name, parameters, "parameter")
    return found


def _frames(machine: Machine, shown: Shown) -> list[str]:
    return [] if callable(shown.frames) else [f"frames = {shown.frames!r}: must be a function (state, params, out)"]


def _one_of(what: str, name: str, there: list[str], kind: str) -> list[str]:
    if name in there:
        return []
    near = near_names(name, there, 1)
    meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(there[:12])}{', …' * (len(there) > 12)}"
    return [f"{what}: is no {kind} of this machine; {meant}"]


# ---- types: what Python itself does not check ------------------------------------------------------------------------


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


_WORDS = {str: "a text", int: "an integer", float: "a number", bool: "True or False", np.ndarray: "an array"}


def _typed(what: str, value: Any, hint: Any) -> list[str]:
    """A sentence for each value that is not of its declared type, down to the last field."""
    kind = get_origin(hint)
    if kind in (Union, UnionType):
        if value is None:
            return []
        (inner,) = [each for each in get_args(hint) if each is not type(None)]
        return _typed(what, value, inner)
    if kind is tuple:
        return _tuple(what, value, get_args(hint))
    if is_dataclass(hint):
        if not isinstance(value, hint):  # type: ignore[arg-type]
            return [f"{what} = {value!r:.80}: must be a {hint.__name__}"]  # type: ignore[union-attr]
        hints = _hints(hint)  # type: ignore[arg-type]
        return [
            each for f in fields(hint) for each in _typed(f"{what}.{f.name}", getattr(value, f.name), hints[f.name])
        ]
    if hint not in _WORDS:
        return []
    plain = isinstance(value, bool | np.bool_)
    right = {
        str: isinstance(value, str), bool: plain, int: isinstance(value, int | np.integer) and not plain,
        float: isinstance(value, int | float | np.number) and not plain, np.ndarray: isinstance(value, np.ndarray),
    }[hint]  # fmt: skip
    return [] if right else [f"{what} = {value!r:.80}: must be {_WORDS[hint]}"]


def _tuple(what: str, value: Any, inner: tuple[Any, ...]) -> list[str]:
    if not isinstance(value, tuple):
        comma = f"; write ({value!r:.40},)" if isinstance(value, str) or is_dataclass(value) else ""
        return [f"{what} = {value!r:.80}: must be a tuple{comma}"]
    if len(inner) == 2 and inner[1] is Ellipsis:
        return [each for n, one in enumerate(value) for each in _typed(f"{what}[{n}]", one, inner[0])]
    if len(value) != len(inner):
        empty = '; the second may be ""' if inner == (str, str) else ""
        return [f"{what} = {value!r:.80}: must have {len(inner)} entries, has {len(value)}{empty}"]
    return [
        each
        for n, (one, hint) in enumerate(zip(value, inner, strict=True))
        for each in _typed(f"{what}[{n}]", one, hint)
    ]
