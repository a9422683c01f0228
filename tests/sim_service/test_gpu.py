"""Copies on a GPU: compiled without one, and what is said where there is none. Speed: benchmarks/gpu_ensembles.py."""

import re
from pathlib import Path

import numpy as np
import pytest

from sim_service import gpu
from sim_service.machines import load_machine
from sync.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")


def test_a_car_compiles_for_a_gpu_that_is_not_there() -> None:
    machine, _ = load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")
    text = gpu.ptx(machine)
    assert ".target sm_90" in text and "fma.rn.f64" in text
    assert len(re.findall(r"\.entry ", text)) == 1
    # no runtime of the CPU has got in: nothing is called that is not there
    assert not re.search(r"\.extern \.func", text)


def test_where_there_is_no_gpu_it_is_said_and_nothing_else() -> None:
    if gpu.available() is None:
        pytest.skip("there is one")
    machine, params = load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")
    with pytest.raises(ConfigError, match="CUDA"):
        gpu.Copies(machine, params, np.zeros(len(machine.states)), 4)


@pytest.mark.drill
def test_a_mechanism_compiles_for_a_gpu_that_is_not_there() -> None:
    from sim_service.multibody.natural.augmented import step
    from sim_service.multibody.natural.system import no_force

    text = gpu.mechanism_ptx(step, no_force)
    assert ".target sm_90" in text and len(re.findall(r"\.entry ", text)) == 1


def test_tiles_hold_every_copy_and_neighbours_lie_side_by_side() -> None:
    rows = np.arange(70.0 * 5).reshape(70, 5)
    tiles = gpu.tiled(rows)
    assert tiles.shape == (3, 5, gpu.TILE) and tiles[1, 2, 7] == rows[39, 2] and (tiles[2, :, 6:] == 0.0).all()
    assert (gpu.untiled(tiles, 70) == rows).all()
