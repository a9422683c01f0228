"""Satellites: orbits beside Kepler's third law and a known sky, boxes beside angles, dilution beside many draws."""

import numpy as np
import pytest

from sync.errors import ConfigError
from tandem.estimation.satellites import (
    EARTH_RATE,
    Sky,
    along,
    dilution,
    directions,
    nominal_almanac,
    places,
    read_yuma,
    seen_from,
)

SIDEREAL_HALF_DAY = np.pi / EARTH_RATE
YUMA = """******** Week 300 almanac for PRN-{n:02d} ********
ID:                         {n:02d}
Health:                     {health}
Eccentricity:               {e}
Time of Applicability(s):  405504.0000
Orbital Inclination(rad):   0.9598
Rate of Right Ascen(r/s):  -0.8E-008
SQRT(A)  (m 1/2):           5153.636
Right Ascen at Week(rad):   {node}
Argument of Perigee(rad):   0.5
Mean Anom(rad):             {m}
Af0(s):                     0.0
week:                        300

"""


def sky(boxes=(), hour=12.0, latitude=43.0):
    return Sky(
        nominal_almanac(), hour * 3600.0, np.radians(latitude), 0.0, np.radians(10.0), np.array(boxes).reshape(-1, 5)
    )


def test_satellites_are_back_after_a_sidereal_day_and_two_turns():
    """The period of the nominal orbit is half a sidereal day, within five seconds."""
    orbits = nominal_almanac()
    now, later = places(orbits, 0.0), places(orbits, 2.0 * SIDEREAL_HALF_DAY)
    assert np.allclose(np.linalg.norm(now, axis=1), 5153.636**2, rtol=1e-12)
    assert np.linalg.norm(now - later, axis=1).max() < 50e3
    half = places(orbits, SIDEREAL_HALF_DAY)
    assert np.linalg.norm(now[:, :2] + half[:, :2], axis=1).max() < 50e3  # the earth has turned by half


def test_the_sky_has_the_hole_that_every_receiver_knows():
    """No satellite stands about the pole: none is higher there than its orbits' inclination allows."""
    for hour in range(24):
        high = directions(sky(hour=hour, latitude=90.0), 0.0)[:, 2]
        assert np.degrees(np.arcsin(high)).max() < 48.0
        count, spread = along(sky(hour=hour), np.array([0.0]), np.zeros((1, 3)))
        assert 4 <= count[0] <= 11 and 0.5 < spread[0, 0] < 4.0 and spread[0, 2] > spread[0, 0] * 0.9


def test_a_wall_hides_what_is_lower_than_its_edge():
    wall = [[-500.0, 10.0, 500.0, 12.0, 11.5]]  # 10 m to the north, 10 m higher than the antenna: 45 degrees
    height = np.radians(np.array([40.0, 44.0, 46.0, 80.0]))
    north = np.stack([0 * height, np.cos(height), np.sin(height)], axis=1)
    antenna = np.array([0.0, 0.0, 1.5])
    assert seen_from(sky(wall), north, antenna).tolist() == [False, False, True, True]
    south = north * [1.0, -1.0, 1.0]
    assert seen_from(sky(wall), south, antenna).all()
    inside = [[-5.0, -5.0, 5.0, 5.0, 9.0]]
    assert not seen_from(sky(inside), north, antenna).any()


def test_dilution_is_what_least_squares_make_of_range_errors():
    rng = np.random.default_rng(2)
    toward = directions(sky(), 0.0)
    toward = toward[toward[:, 2] > 0.17]
    G = np.hstack([toward, np.ones((len(toward), 1))])
    found = np.linalg.lstsq(G, rng.normal(size=(len(toward), 20_000)), rcond=None)[0]
    assert np.allclose(found[:3].std(axis=1), dilution(toward), rtol=0.03)
    assert np.isinf(dilution(toward[:3])).all()


def test_an_almanac_is_read_and_sick_satellites_are_left_out(tmp_path):
    file = tmp_path / "almanac.txt"
    one = [YUMA.format(n=n, health="000", e="0.01", node=0.3 * n, m=0.7 * n) for n in range(1, 7)]
    file.write_text("".join([*one, YUMA.format(n=9, health="063", e="0.5", node=0.0, m=0.0)]))
    orbits = read_yuma(file)
    assert orbits.shape == (6, 8) and np.allclose(orbits[:, 7], 0.7 * np.arange(1, 7)) and (orbits[:, 0] == 0.01).all()
    r = np.linalg.norm(places(orbits, 405504.0), axis=1)
    assert (np.abs(r / 5153.636**2 - 1.0) <= 0.01 + 1e-9).all()


SOUND = "".join(YUMA.format(n=n, health="000", e="0.01", node=0.3 * n, m=0.7 * n) for n in range(1, 6))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "0 healthy satellites"),
        (YUMA.format(n=1, health="x", e=0, node=0, m=0), ":3:"),
        ("Health: 063\n", "0 healthy satellites"),  # of none
        (SOUND[: len(SOUND) * 4 // 5] + "Health: 063\nHealth: 063\n", "3 healthy"),  # of one, however often it is there
        (SOUND.replace("5153.636", "0.0", 1), ":8: SQRT.*0.0.*2600"),
        (SOUND.replace("0.01\n", "1.5\n", 1), ":4: Eccentricity"),
        (SOUND.replace("405504.0000", "inf", 1), ":5: Time"),
        (SOUND.replace("0.9598", "nan", 1), ":6: Orbital"),
        (300 * YUMA.format(n=1, health="000", e=0, node=0, m=0), "300 healthy satellites; .* 256"),
    ],
)
def test_what_is_no_almanac_is_refused(tmp_path, text, message):
    file = tmp_path / "almanac.txt"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_yuma(file)
