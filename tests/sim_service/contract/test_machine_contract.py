"""What every machine promises (sim_service/contract/machine.py), held against each there is."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from sim_service.contract.machine import STEP, Machine
from sim_service.contract.overruns import check_overruns
from sim_service.registry import MACHINES, gather, load_machine, make_machine
from sync.compile.jit import kernel
from sync.errors import ConfigError
from tests.foreign_fmu import foreign_fmu
from tests.sim_service.conftest import CONFIGS
from verify.path import trivial

FILES: dict[str, str | Path] = {
    "buggy": CONFIGS / "vehicles" / "buggy.toml",
    "single_track": CONFIGS / "vehicles" / "buggy_single_track.toml",
    "mass_spring": "mass_spring",  # needs none
    "kart": CONFIGS / "vehicles" / "kart.toml",
    "kart_vehicle": CONFIGS / "vehicles" / "kart_on_track.toml",
    "swerve": CONFIGS / "vehicles" / "swerve.toml",
    "wall": "wall",  # likewise
    "omni": CONFIGS / "omni" / "bench_inclined.toml",
    "piano_multibody": "piano_multibody",  # likewise
    "piano_phases": "piano_phases",
    "piano_octave": "piano_octave",
    "piano_octave_multibody": "piano_octave_multibody",
    "tilting": "tilting",
    "tilting_vehicle": CONFIGS / "vehicles" / "tilting.toml",
    "driver": "driver",
    "observer": CONFIGS / "observers" / "tilting_live.toml",
    "sensed": CONFIGS / "observers" / "buggy_truth.toml",
    "fmu": "",  # made by a fixture
    "mechanism": CONFIGS / "robot" / "arm.toml",
}
STEPS = 10_000
FEWER = {
    "piano_octave": 100,
    "piano_octave_multibody": 100,
    "piano_phases": 200,
    "piano_multibody": 500,
    "omni": 1000,
    "mechanism": 500,
    "sensed": 1000,
}  # many pieces a step


def test_every_machine_is_held_against_it() -> None:
    assert set(MACHINES) == set(FILES)


@pytest.fixture(scope="module", autouse=True)
def _foreign(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shutil.which("cc") is not None:
        folder = tmp_path_factory.mktemp("foreign")
        foreign_fmu(folder)
        FILES["fmu"] = folder / "lag.toml"


def machine(name: str) -> tuple[Machine, np.ndarray]:
    if not FILES.get(name, "trivial"):
        pytest.skip("no C compiler")
    if name == "trivial":
        return trivial.MACHINE, np.array([p.value for p in trivial.MACHINE.parameters])
    return load_machine(FILES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FILES, "trivial"])
def test_parameters_and_tables_are_constant(name: str) -> None:
    """Thousands of steps with inputs that change, gaps among them, leave every byte as it was."""
    made, params = machine(name)
    before = params.tobytes(), made.tables.ints.tobytes(), made.tables.floats.tobytes()
    assert not made.tables.ints.flags.writeable and not made.tables.floats.flags.writeable
    state, work = np.zeros(len(made.states)), np.zeros(made.work_size)
    made.initial(state, params, made.tables, work)
    r = np.random.default_rng(1)
    inputs = np.zeros(len(made.inputs))
    for k in range(FEWER.get(name, STEPS)):
        if k % 50 == 0:
            held = [np.nan if q.optional else r.uniform(0.0, 0.3) for q in made.inputs]
        inputs[:] = held
        made.step(state, inputs, params, made.tables, work, 0.005)
    assert np.isfinite(state).all() and np.isfinite(work[: len(made.outputs)]).all()
    assert before == (params.tobytes(), made.tables.ints.tobytes(), made.tables.floats.tobytes())


def test_a_step_that_writes_into_its_parameters_or_tables_does_not_compile() -> None:
    def parameters(state, inputs, params, tables, work, h):  # type: ignore[no-untyped-def]
        params[0] = 1.0

    def ints(state, inputs, params, tables, work, h):  # type: ignore[no-untyped-def]
        tables.ints[0] = 1

    def floats(state, inputs, params, tables, work, h):  # type: ignore[no-untyped-def]
        tables.floats[0] = 1.0

    for writes in (parameters, ints, floats):
        with pytest.raises(TypingError, match="readonly"):
            kernel(STEP, cache=False)(writes)


def test_a_machine_without_a_file_has_the_parameters_it_declares() -> None:
    made, params = load_machine("single_track", {"mass": 700.0})
    declared = {p.name: p.value for p in made.parameters} | {"mass": 700.0}
    assert dict(zip(declared, params.tolist(), strict=True)) == declared
    again, same = make_machine(gather("single_track"))  # as a record would
    assert again.name == made.name and len(same) == len(params)


def test_what_a_machine_does_not_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sim\.files\.road = .*: single_track reads no further files"):
        gather(FILES["single_track"], {"road": Path("x.toml")})
    with pytest.raises(ConfigError, match=r"sim\.files\.map = .*: a car reads no such file; it has a road"):
        gather(FILES["buggy"], {"map": Path("x.toml")})
    with pytest.raises(ConfigError, match=r"sim\.machine = 'bugy': must be one of buggy, single_track"):
        gather("bugy")


@pytest.mark.parametrize("name", [*FILES, "trivial"])
def test_it_stays_within_its_arrays(name: str) -> None:
    made, params = machine(name)
    check_overruns(made, params, name)
