"""What a machine declares is compared with its own channels when it is loaded: a sentence for whatever is not there."""

from dataclasses import replace
from typing import Any

import pytest

from sim_service import registry
from sim_service.contract.declared import check_declared
from sim_service.contract.display import Curve, Display, Sound, Tile
from sim_service.contract.machine import Machine, Parameter, Quantity, Shown
from sim_service.contract.scene import Arrow, Bar, Lever, Point, PushPoints, Scene, Wheel, box
from sync.errors import ConfigError
from tandem.machines.mass_spring import MACHINE

BOX = box("mass", 0, (-1, -1, -1), (1, 1, 1))


def shown(**parts: Any) -> Machine:
    return MACHINE.having(replace(MACHINE.shown, display=Display(**parts)))


def drawn(**parts: Any) -> Machine:
    return MACHINE.having(Shown(scene=Scene(**parts)))


WRONG = {
    "a misspelt tile": (shown(figures=(Tile("angle", "positon"),)), "'positon'\\): is no channel .* 'position'"),
    "an output under the hands": (shown(hands=(Tile("x", "position"),)), "is no input of this machine; .*handle"),
    "a plot of one": (shown(plots=(("handle",),)), r"plots\[0\] = \('handle',\): must have 2 entries, has 1; .*\"\""),
    "a misspelt plot": (shown(plots=(("handle", "positon"),)), "plots: .*'positon': is no channel"),
    "a curve": (shown(curves=(Curve("c", "stretch", "force"),)), "'force': is no channel"),
    "a sound": (shown(sounds=(Sound("step", "velocity", "tone"),)), "pitch = 'tone': is no parameter"),
    "a group": (shown(tuned="stifness"), "tuned = 'stifness': is no group of parameters .* 'stiffness'"),
    "a rate": (shown(still=("handel",)), "still: 'handel': is no input"),
    "a text for a number": (shown(figures=(Tile("x", "position", digits="1"),)), "digits = '1': must be an integer"),  # type: ignore[arg-type]
    "a forgotten comma": (shown(figures=Tile("x", "position")), "figures = Tile.*: must be a tuple; write"),
    "a factor": (shown(figures=(Tile("x", "position", factor=float("nan")),)), "factor and full must be finite"),
    "a frame": (drawn(solids=(BOX,), bars=(Bar("b", Point(0), Point(2)),)), "'b': frame 2: there are 1"),
    "an arrow": (drawn(solids=(BOX,), arrows=(Arrow(0, "position", "position", "position"),)), "wheel 0: .* has 0"),
    "a lever": (
        drawn(solids=(BOX,), levers=(Lever("l", "wheel", BOX.low, BOX.low, 1.0, "handl", 1.0),)),
        "'handl': is no channel",
    ),
    "a wheel": (drawn(wheels=(Wheel("w", Point(0), 1.0, 1.0, rate="omega"),)), "'omega': is no channel"),
    "a push": (drawn(push=PushPoints((("p", Point(0)),), "at", 3 * ("mass",))), "'at': is no parameter"),
    "two of one name": (replace(MACHINE, outputs=(*MACHINE.outputs, MACHINE.inputs[0])), "'handle': is there twice"),
    "a channel of every step": (
        replace(MACHINE, outputs=(*MACHINE.outputs, Quantity("time", "s", ""))),
        "'time': every step has a channel of that name",
    ),
    "a value beyond its limits": (
        replace(MACHINE, parameters=(Parameter("mass", "kg", 0.0, 0.1, 1.0, ""),)),
        "mass = 0: must be from 0.1 to 1 kg, which are its own limits",
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine,said", WRONG.values(), ids=WRONG)
def test_what_it_names_and_does_not_have_is_one_sentence(machine: Machine, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        check_declared(machine, "mine.toml")
    assert str(refused.value).startswith("mine.toml: machine 'mass_spring': ")
    assert len(str(refused.value).splitlines()) == 1


def test_it_is_refused_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.machines.mass_spring.MACHINE", WRONG["a misspelt tile"][0])
    with pytest.raises(ConfigError, match="'positon'"):
        registry.load_machine("mass_spring")
