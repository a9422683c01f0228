"""The resistance of a fluid in mechanism files; closed forms are in `verify drag`."""

from typing import Any

import numpy as np
import pytest

from sync.errors import ConfigError
from tandem.mechanism import run as mechanism_run
from tandem.mechanism.columns import columns
from tandem.multibody.description.mechanism_file import describe

AIR = {"coefficient": 0.47, "area": 0.0043, "density": 1.2}


def falling(**keys: Any) -> dict[str, Any]:
    return {
        "name": "ball", "run": {"seconds": 3.0, "step_ms": 10.0}, "points": {"P": {"at": [0.0, 0.0]}},
        "vectors": {"u": {"along": [1.0, 0.0]}},
        "bodies": {"ball": {"nodes": ["P", "u"], "mass": 0.15, "centre": [0.0, 0.0], "inertia": 0.001}},
        "forces": {"air": {"kind": "drag", "on": "ball", **keys}},
    }  # fmt: skip


@pytest.mark.parametrize("formulation", ["natural", "relative"])
@pytest.mark.parametrize("on", ["ball", "P"])
def test_a_ball_falls_to_its_terminal_speed(formulation: str, on: str) -> None:
    described, state = mechanism_run.prepare(describe(falling(**AIR | {"on": on}), "m.toml"), formulation=formulation)
    simulated = mechanism_run.simulate(described, state, lambda *_: None)
    record, k = simulated.record, 0.5 * 0.47 * 0.0043 * 1.2
    V = np.sqrt(0.15 * 9.81 / k)
    np.testing.assert_allclose(record.qd[:, 1], -V * np.tanh(9.81 * record.t / V), atol=1e-3)
    assert simulated.figures["energy_worked_on_by"] == ["air"]
    found = {name: values for name, _, values in columns(record)}
    np.testing.assert_allclose(found["air_force_y"], k * record.qd[:, 1] ** 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "coefficient, area, density = 0: resists nothing"),
        ({"coefficient": 0.5, "area": 1.0}, "forces.air: drag air: density = 0: resists nothing"),
        ({"linear": -1.0}, "forces.air.linear = -1"),
        ({"linear": float("nan")}, "forces.air.linear"),
        ({"linear": "thick"}, "forces.air.linear"),
        ({"linear": 1.0, "on": "bal"}, "there is no point, place or body 'bal'; did you mean ball"),
        ({"linear": 1.0, "viscosity": 1.0}, "forces.air.viscosity = 1.0: unknown key"),
    ],
)
def test_what_is_wrong_with_it_is_named(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        describe(falling(**keys), "m.toml")
    assert words in str(error.value) and str(error.value).startswith("m.toml: ")
