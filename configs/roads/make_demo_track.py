"""Makes demo_track.csv: heights under the circuit of configs/manoeuvres/follow_circuit.toml, in tenths of a millimetre.

    python configs/roads/make_demo_track.py

A sum of four things, so that it looks like a survey: hills of about two metres; banking of up to 2.5 % that follows the
circuit, high on the outside of the bends (both together stay below 6 %); unevenness of about ISO 8608 class B in two
dimensions, waves from 1.2 m to 40 m; patches of asphalt that lie some millimetres off. Around the origin, where the car
starts, everything is level at height 0. The file is the data; this script only says where it came from.
"""

import tomllib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ORIGIN, SPACING, ROWS, COLUMNS = (-34.0, -10.0), 0.4, 271, 141
SCALE = 1e-4  # m
CLASS_B = 64e-6  # m3 at 0.1 cycles/m
SEED = 20


def smoothstep(t: np.ndarray) -> np.ndarray:
    t = np.clip(t, 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def hills(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Level at the origin; up along x, and up again to the far straight."""
    return 0.5 * (1.0 - np.cos(2.0 * np.pi * x / 120.0)) + 0.75 * smoothstep(y / 36.0)


def banking(x: np.ndarray, y: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Up to 2.5 % towards the outside of the circuit, in its two ends only."""
    middle = 0.5 * (path.min(axis=0) + path.max(axis=0))
    half = 0.5 * (path.max(axis=0) - path.min(axis=0))
    # distance outwards from the bend, about the centres of the two ends
    centre = middle[0] + np.sign(x - middle[0]) * (half[0] - half[1])
    outward = np.hypot(x - centre, y - middle[1]) - half[1]
    in_end = smoothstep((np.abs(x - middle[0]) - (half[0] - half[1])) / 12.0)
    return 0.025 * 6.0 * np.tanh(outward / 6.0) * in_end


def unevenness(rng: np.random.Generator) -> np.ndarray:
    """Waves of all directions; along any line their spectral density is about CLASS_B (n / 0.1)^-2."""
    nx, ny = 512, 256
    kx = np.fft.fftfreq(nx, SPACING)[:, None]
    ky = np.fft.fftfreq(ny, SPACING)[None, :]
    n = np.hypot(kx, ky)
    n[0, 0] = 1.0
    # an isotropic n^-3 in the plane is n^-2 along a line, of which the integral across is 2 / n^2 (two-sided: half)
    density = 0.25 * CLASS_B * 0.1**2 * n**-3.0
    density[(n < 1.0 / 40.0) | (n > 1.0 / 1.2)] = 0.0
    noise = rng.standard_normal((nx, ny))
    field = np.fft.ifft2(np.fft.fft2(noise) * np.sqrt(density)).real / SPACING
    return field[:ROWS, :COLUMNS]


def asphalt_patches(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height = np.zeros(x.shape)
    for _ in range(40):
        cx, cy = rng.uniform(-30.0, 70.0), rng.uniform(-8.0, 44.0)
        lx, ly = rng.uniform(1.5, 5.0), rng.uniform(1.0, 2.5)
        inside = smoothstep((lx - np.abs(x - cx)) / 0.8) * smoothstep((ly - np.abs(y - cy)) / 0.8)
        height += rng.uniform(-0.006, 0.008) * inside
    return height


def main() -> None:
    rng = np.random.default_rng(SEED)
    path = np.array(tomllib.loads((HERE / "../manoeuvres/follow_circuit.toml").read_text())["follow"]["path"], float)
    x, y = np.meshgrid(ORIGIN[0] + SPACING * np.arange(ROWS), ORIGIN[1] + SPACING * np.arange(COLUMNS), indexing="ij")
    away = smoothstep((np.hypot(x, y) - 3.0) / 6.0)  # nothing at all within 3 m of the start
    height = away * (hills(x, y) + banking(x, y, path) + unevenness(rng) + asphalt_patches(x, y, rng))
    steepest = np.hypot(*np.gradient(away * (hills(x, y) + banking(x, y, path)), SPACING)).max()
    rows = np.rint(height / SCALE).astype(int)
    text = "# heights in 0.1 mm; a row for each x from -34 m, values for each y from -10 m, every 0.4 m\n"
    text += "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    (HERE / "demo_track.csv").write_text(text)
    print(
        f"{len(text)} bytes, {height.min():.2f} to {height.max():.2f} m, hills and banks up to {100 * steepest:.1f} %"
    )


if __name__ == "__main__":
    main()
