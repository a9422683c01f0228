"""Every mechanism that ships runs as it stands, is made again to the bit, and is what its reference says."""

import tomllib

import numpy as np
import pytest

from verify.multibody import shipped
from verify.multibody.references.serial import Link, torques


@pytest.mark.parametrize("name", [file.stem for file in shipped.FOLDER.glob("*.toml")])
def test_a_shipped_mechanism_is_what_its_reference_says(name: str) -> None:
    rows = list(shipped.mechanisms(only=name, seconds=0.3))
    assert len(rows) >= 2 + (name in shipped.KNOWN)
    assert [row.quantity for row in rows if not row.held] == []


@pytest.mark.parametrize(
    "name, table, entry, key, factor",
    [
        ("robot_6r", "bodies", "tool", "mass", 1.001),
        ("scara", "bodies", "outer", "mass", 1.001),
        ("stewart", "particles", "load", "mass", 1.001),
        ("wishbones", "forces", "strut", "stiffness", 1.001),
        ("macpherson", "forces", "tyre", "stiffness", 1.001),
        ("crane", "particles", "load", "mass", 1.001),
    ],
)
def test_a_mechanism_that_is_off_by_a_thousandth_is_noticed(name, table, entry, key, factor) -> None:
    file = shipped.FOLDER / f"{name}.toml"
    data = tomllib.loads(file.read_text())
    data[table][entry][key] *= factor
    rows = shipped.KNOWN[name](data, shipped.ran(file, seconds=0.3))
    assert not all(row.held for row in rows)


def test_torques_of_a_pendulum_are_those_of_the_textbook() -> None:
    link = Link(np.zeros(3), np.array([0.0, 1.0, 0.0]), 2.0, np.array([0.5, 0.0, 0.0]), 0.1 * np.eye(3))
    q, a = 0.3, 1.7
    (found,) = torques([link], np.array([q]), np.array([2.0]), np.array([a]), shipped.DOWN)
    assert found == pytest.approx((0.1 + 2.0 * 0.25) * a - 2.0 * 9.81 * 0.5 * np.cos(q), rel=1e-12)
