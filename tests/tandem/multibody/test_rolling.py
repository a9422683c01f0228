"""Joints that hold velocities and no place: in both formulations, in files, refused where they have no meaning."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sync.errors import ConfigError
from tandem.mechanism import equations
from tandem.mechanism import run as mechanism_run
from tandem.mechanism.columns import columns
from tandem.multibody.description.mechanism_file import describe
from tandem.multibody.natural.api import Mechanism, Scheme, Settings, run, start
from tandem.multibody.relative.run import Runner
from verify.multibody.references.rolling import sleigh
from verify.multibody.rolling import COIN, LEAN, TURN, coin, of_coin, sledge, turning

UNIT = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
BALL: dict[str, Any] = {
    "name": "ball", "dimension": 3, "run": {"seconds": 0.2}, "points": {"P": {"at": [0.0, 0.0, 0.1]}},
    "vectors": {name: {"along": along} for name, along in zip("uvw", UNIT, strict=True)},
    "bodies": {"ball": {"nodes": ["P", "u", "v", "w"], "shape": "sphere", "radius": 0.1, "mass": 1.0,
                        "centre": [0.0, 0.0, 0.1]}},
    "joints": {"floor": {"kind": "rolling", "body": "ball", "at": [0.0, 0.0, 0.1], "radius": 0.1,
                         "through": [0.0, 0.0, 0.0], "normal": [0.0, 0.0, 1.0]}},
}  # fmt: skip


def changed(kind: str = "rolling", **keys: Any) -> dict[str, Any]:
    joint = {k: v for k, v in {**BALL["joints"]["floor"], **keys, "kind": kind}.items() if v is not None}
    return BALL | {"joints": {"floor": joint}}


@pytest.mark.parametrize("scheme", list(Scheme), ids=lambda s: s.name)
def test_a_sleigh_moves_as_chaplygin_says_under_every_scheme(scheme: Scheme) -> None:
    state = start(
        sledge().compile(h=1e-3, settings=Settings(scheme=scheme)).state(), rates={"P": (0.1, 0), "u": (0, 2)}
    )
    record = run(state, 1.0, strict=False)
    place = sleigh(0.25, np.sqrt(0.075 + 0.0625), 0.1, 2.0, record.t)[3]
    assert_allclose(record["P"], place, atol=3e-3 if scheme == Scheme.LINEAR_IMPLICIT else 1e-6)
    assert np.abs(record.state(-1).phid()).max() < (1e-5 if scheme in (Scheme.NONE, Scheme.BAUMGARTE) else 1e-8)


def test_a_coin_keeps_its_lean_in_both_formulations() -> None:
    rates = turning(coin(LEAN), of_coin(LEAN, 0.0, TURN, COIN.spin_of_circle(LEAN, TURN)))
    state = start(coin(LEAN).compile(h=2e-3).state(), rates=rates)
    there = Runner(state.copy(), "rodas4").run(0.3, 2e-3)
    here = run(state, 0.3)
    for record, limit in ((here, 1e-4), (there, 1e-8)):
        assert_allclose(record["w"][:, 2], np.cos(LEAN), atol=limit)
    assert_allclose(here["P"], there["P"], atol=1e-4)


def test_a_rolling_file_runs_and_has_the_force_of_the_plane() -> None:
    for formulation in ("natural", "relative"):
        data = BALL | {
            "run": {"seconds": 0.2, "formulation": formulation},
            "start": {"velocity": {"P": [0.3, 0.0, 0.0]}},
        }
        simulated = mechanism_run.simulate(*mechanism_run.prepare(describe(data, "m.toml")), lambda *_: None)
        record = simulated.record
        assert_allclose(record["P"][-1], [0.06, 0.0, 0.1], atol=1e-6)
        assert simulated.figures["freedoms"] == 3
    natural = {name: values for name, _, values in columns(record)}
    assert natural["floor_force_z"][0] == pytest.approx(9.81)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (changed(radius=-1.0), "joints.floor.radius = -1"),
        (changed(radius=float("inf")), "joints.floor.radius"),
        (changed(radius=None), "joints.floor"),
        (changed(normal=[0.0, 0.0, 0.0]), "joints.floor: normal = [0.0, 0.0, 0.0]: has no direction"),
        (changed(normal=[0.0, 1.0]), "joints.floor: normal = [0.0, 1.0]: must be 3 numbers"),
        (changed(body="bal"), "joints.floor: there is no body 'bal'; did you mean ball"),
        (changed(axis=[0.0, 0.0, 1.0]), "the disc lies flat as drawn"),
        (changed("knife_edge"), "joints.floor"),
        (changed("knife_edge", across=[0, 0, 0], radius=None, through=None, normal=None), "across = [0.0, 0.0, 0.0]"),
    ],
)
def test_what_is_wrong_with_what_rolls_is_named(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        mechanism_run.prepare(describe(data, "m.toml"))
    assert words in str(error.value) and str(error.value).startswith("m.toml: ")


def test_what_has_no_meaning_for_it_is_refused_by_name() -> None:
    described = describe(BALL, "m.toml")
    with pytest.raises(ConfigError, match=r"run.modes = 2: joints.floor holds a velocity and no place"):
        mechanism_run.prepare(described, modes=2)
    with pytest.raises(ConfigError, match=r"--equations c: joints.floor: holds a velocity"):
        equations.take_away(described, "c")
    twice = BALL | {"joints": {**BALL["joints"], "edge": {"kind": "knife_edge", "body": "ball", "at": [0.0, 0.0, 0.0],
                                                          "across": [1.0, 0.0, 0.0]}}}  # fmt: skip
    relative = mechanism_run.prepare(describe(twice, "m.toml"), formulation="relative")
    with pytest.raises(ConfigError, match="some follow from others"):
        mechanism_run.simulate(*relative, lambda *_: None)


def test_the_way_of_a_coin_does_not_depend_on_where_it_is() -> None:
    """Its conditions are of velocities alone: moved and turned about the normal, it rolls the same way."""
    there = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    ends = []
    for R, shift in ((np.eye(3), np.zeros(3)), (there, np.array([2.0, -1.0, 0.0]))):
        m = Mechanism(3)
        w = R @ [0.0, 0.8, 0.6]
        at = np.array([*shift[:2], 0.08])
        nodes = [m.point("P", at), m.vector("u", R @ [1, 0, 0]), m.vector("v", R @ [0, 0.6, -0.8]), m.vector("w", w)]
        body = m.body("coin", nodes, 1.0, at, 0.0025 * np.eye(3) + 0.0025 * np.outer(w, w))
        m.rolling("floor", body, at, 0.1, (0, 0, 0), (0, 0, 1), w)
        rates = turning(m, R @ [1.0, -6.0, 3.0])
        ends.append(R.T @ (run(start(m.compile(h=1e-3).state(), rates=rates), 0.2)["P"][-1] - shift))
    assert_allclose(ends[0], ends[1], atol=1e-9)
