"""Random unevenness against ISO 8608, by an estimate of the spectral density that shares nothing with the synthesis."""

from hashlib import sha256
from math import cos, exp, pi, sin

import numpy as np
import pytest

from tandem.multibody.ground import make_road, surface
from tandem.multibody.ground.roughness import CLASSES, rough_field
from tandem.multibody.portable import cos_sin_turns, falling, fourier, normal

SPACING = 0.05


def profile(road: np.ndarray, y: float, count: int, spacing: float) -> np.ndarray:
    return np.array([surface(road, k * spacing, y)[0] for k in range(count)])


def welch(a: np.ndarray, b: np.ndarray, spacing: float, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies and one-sided cross density of two profiles: mean over half-overlapping pieces, Hann window."""
    taper = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(window) / window)
    pieces = []
    for begin in range(0, len(a) - window + 1, window // 2):
        f, g = (np.fft.rfft(taper * (p[begin : begin + window] - p[begin : begin + window].mean())) for p in (a, b))
        pieces.append(f * np.conj(g))
    density = 2.0 * spacing * np.mean(pieces, axis=0) / np.sum(taper**2)
    return np.fft.rfftfreq(window, spacing), density


@pytest.mark.parametrize("iso_class", ["A", "C", "E"])
def test_the_spectrum_is_within_the_limits_of_its_class(iso_class: str) -> None:
    road = make_road(
        {"roughness": {"iso_class": iso_class, "length": 1600.0, "spacing": SPACING, "width": 0.5, "longest": 90.0}}
    )
    z = profile(road, 0.0, 32768, SPACING)
    n, density = welch(z, z, SPACING, 4096)
    # octave by octave, from 20 m to 0.4 m of wavelength: ISO's limits are half and twice the mean of the class
    for low in (0.05, 0.1, 0.2, 0.4, 0.8, 1.25):
        band = (n >= low) & (n < 2 * low)
        ratio = np.mean(density.real[band] / (CLASSES[iso_class] * (n[band] / 0.1) ** -2.0))
        assert 0.6 < ratio < 1.6, f"at {low} cycles/m"
    above = (n > 3.5) & (n < 8)
    assert np.max(density.real[above]) < 1e-2 * CLASSES[iso_class] * (2.8 / 0.1) ** -2.0


def test_variance_is_the_integral_of_the_density() -> None:
    """Over many seeds, with the sum over the waves of a period in place of the integral."""
    fields = [rough_field(1e-4, seed, 3.0, 512, 0.1, 2, 0.5, 1.0, 25.0) for seed in range(400)]
    expected = 1e-4 * 0.1**2 * sum(51.2 / k**2 for k in range(3, 52))
    assert np.mean([np.mean(field**2) for field in fields]) == pytest.approx(expected, rel=0.06)


def test_coherence_falls_with_distance_and_frequency() -> None:
    road = make_road(
        {"roughness": {"iso_class": "C", "length": 1600.0, "spacing": SPACING, "width": 2.0, "lateral_spacing": 0.5}}
    )
    tracks = {y: profile(road, y, 32768, SPACING) for y in (-0.75, 0.25, 0.75)}
    n, own = welch(tracks[-0.75], tracks[-0.75], SPACING, 1024)
    for y, distance in ((0.25, 1.0), (0.75, 1.5)):
        _, other = welch(tracks[y], tracks[y], SPACING, 1024)
        _, cross = welch(tracks[-0.75], tracks[y], SPACING, 1024)
        for low in (0.1, 0.2, 0.4):
            band = (n >= low) & (n < 2 * low)
            coherence = np.abs(cross[band].mean()) / np.sqrt(own[band].real.mean() * other[band].real.mean())
            # the density falls within the band, so its lower end counts most
            assert exp(-3.0 * 2 * low * distance) - 0.1 < coherence < exp(-3.0 * low * distance) + 0.15
    same = make_road({"roughness": {"iso_class": "C", "decay": 0.0}})
    assert surface(same, 33.3, 3.0)[0] == pytest.approx(surface(same, 33.3, -3.0)[0], abs=1e-15)


def test_a_seed_means_the_same_bits() -> None:
    first, again, other = (make_road({"roughness": {"iso_class": "B", "seed": seed}}) for seed in (5, 5, 6))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    # of this seed on any machine: made of additions, products, divisions and square roots only
    field = rough_field(64e-6, 5, 3.0, 256, 0.1, 5, 0.5, 0.5, 20.0)
    assert sha256(field.tobytes()).hexdigest()[:16] == "d8b117734872a5e2"


def test_the_road_repeats_without_a_seam() -> None:
    road = make_road({"roughness": {"iso_class": "C", "length": 100.0}})
    period = 2048 * 0.08
    assert surface(road, 12.3, 0.4)[:3] == pytest.approx(surface(road, 12.3 + period, 0.4)[:3], abs=1e-12)
    assert surface(road, -12.3, 0.4)[:3] == pytest.approx(surface(road, period - 12.3, 0.4)[:3], abs=1e-12)
    seam = [surface(road, period + d, 0.4) for d in (-1e-7, 1e-7)]
    assert seam[0][1] == pytest.approx(seam[1][1], abs=1e-5)


def test_it_fades_in() -> None:
    road = make_road({"roughness": {"iso_class": "C", "begin": 2.0, "transition": 8.0}})
    full = make_road({"roughness": {"iso_class": "C"}})
    assert surface(road, 1.9, 0.0)[:3] == (0.0, 0.0, 0.0)
    assert surface(road, 20.0, 0.7)[:3] == surface(full, 20.0, 0.7)[:3]


def test_portable_functions_are_those_of_mathematics() -> None:
    for t in np.concatenate((np.linspace(-3, 3, 1001), np.arange(16) / 8.0)):
        assert cos_sin_turns(t) == pytest.approx((cos(2 * pi * t), sin(2 * pi * t)), abs=5e-15)  # of 2 pi t too
    assert [falling(z) for z in (0.0, 0.01, 1.0, 30.0)] == pytest.approx(
        [exp(-z) for z in (0.0, 0.01, 1.0, 30.0)], rel=1e-13
    )
    rng = np.random.default_rng(1)
    re, im = rng.normal(size=64), rng.normal(size=64)
    expected = np.fft.ifft(re + 1j * im) * 64
    fourier(re, im)
    assert re + 1j * im == pytest.approx(expected, abs=1e-12)
    noise = normal(np.random.PCG64(1).random_raw(100_000))
    assert abs(noise.mean()) < 0.01 and noise.var() == pytest.approx(1.0, abs=0.02)
