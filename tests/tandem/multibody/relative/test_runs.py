"""Runs in relative coordinates against natural ones: same motion, changes of independent coordinates, refusals."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sync.errors import ConfigError
from tandem.mechanism import run as mechanism_run
from tandem.multibody.description.mechanism_file import describe
from tandem.multibody.natural.api import Mechanism, State, energy, harmonic, polynomial, run, start
from tandem.multibody.natural.errors import DivergedError, MechanismError
from tandem.multibody.natural.problems import effort
from tandem.multibody.relative.run import METHODS, Runner
from tests.tandem.multibody.relative.test_tree import CONFIGS


def four_bar(speed: float = 8.0) -> State:
    m = Mechanism(dimension=2)
    A, D = m.point("A", (0, 0), fixed=True), m.point("D", (1.0, 0), fixed=True)
    B, C = m.point("B", (0.0, 0.3)), m.point("C", (0.6, 0.8))
    m.bar("crank", A, B, 1.0)
    m.bar("coupler", B, C, 2.0)
    m.bar("rocker", D, C, 2.0)
    m.spring("spring", A, C, stiffness=40.0, damping=1.0)
    return start(m.compile(h=1e-4).state(), rates={"B": (-0.3 * speed, 0.0)})


def end_of(state: State, method: str, h: float, seconds: float = 0.5) -> np.ndarray:
    Runner(state, method).run(seconds, h)
    return np.concatenate([state.q, state.qd])


@pytest.mark.parametrize(
    "method, order", [("rodas4", 4), ("rodas3", 3), ("ros2", 2), ("trapezoidal", 2), ("rk4", 4), ("linear_euler", 1)]
)
def test_every_method_comes_to_the_motion_of_natural_coordinates_with_its_order(method: str, order: int) -> None:
    h = {4: 5e-3, 3: 2e-3, 2: 1e-3, 1: 5e-4}[order]
    errors = [float(np.abs(end_of(four_bar(), method, step) - exact()).max()) for step in (h, h / 2)]
    assert errors[1] < {4: 2e-6, 3: 2e-4, 2: 1e-3, 1: 0.5}[order]
    assert np.log2(errors[0] / errors[1]) > order - 0.5


@functools.cache
def exact() -> np.ndarray:
    """The end of the motion by small steps, which natural coordinates come to as well."""
    state = four_bar()
    run(state, 0.5, 5e-5, diagnostics=False)
    found = end_of(four_bar(), "rodas4", 2e-4)
    assert np.abs(found - np.concatenate([state.q, state.qd])).max() < 2e-5
    return found


def test_a_free_body_that_tumbles_keeps_its_energy_in_every_attitude() -> None:
    m = Mechanism(gravity=(0.0, 0.0, 0.0))
    nodes = [m.point("P", (0, 0, 0)), *(m.vector(f"e{k}", np.eye(3)[k]) for k in range(3))]
    m.body("box", nodes, 2.0, (0.0, 0.0, 0.0), (0.1, 0.2, 0.25))
    # about the middle axis, which is unstable: it turns over and over
    state = start(m.compile(h=1e-3).state(), rates={"e0": (0.0, 0.02, -6.0), "e1": (-0.02, 0.0, 0.01)})
    before = energy(state).total
    record = Runner(state, "rodas4").run(4.0, 2e-3, every=20)
    assert record["e1"][:, 1].min() < -0.9 < 0.9 < record["e1"][:, 1].max()
    assert energy(state).total == pytest.approx(before, rel=1e-6)
    assert record["phi_error"].max() < 1e-10


def test_other_coordinates_become_independent_where_the_first_no_longer_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bricard() -> State:
        return mechanism_run.load(CONFIGS / "mechanisms" / "bricard.toml")[1]

    state, reference = bricard(), bricard()
    runner = Runner(state, "rodas4")
    first = runner.system.generated.independent
    runner.run(4.0, 5e-3)
    run(reference, 4.0, 2e-4, diagnostics=False, strict=False)
    assert runner.partitions > 0
    assert first != runner.system.generated.independent or runner.partitions > 1
    assert np.abs(state.q - reference.q).max() < 1e-5

    # again: all choices are known, and no step, no change leaves compiled code; kept states are of several systems
    def changed() -> bool:
        raise AssertionError("a change of known coordinates left compiled code")

    monkeypatch.setattr(runner, "_changed", changed)
    changes, again = runner.partitions, bricard()
    runner.restart(again)
    record = runner.run(4.0, 5e-3, every=50)
    assert runner.partitions == changes
    assert again.vector.tobytes() == state.vector.tobytes()
    assert max(record["phi_error"].max(), record["phid_error"].max()) < 1e-9


def point_on_a_rod() -> State:
    m = Mechanism(dimension=2)
    A, B = m.point("A", (0, 0), fixed=True), m.point("B", (1, 0))
    m.particle("bob", B, 1.0)
    m.rod("rod", A, B)
    return start(m.compile(h=5e-3).state())


@pytest.mark.parametrize("method, share", [("rodas4", 1e-6), ("rk4", 1e-6), ("rodas3", 1e-5)])
def test_other_coordinates_take_over_before_the_first_ones_make_energy(method: str, share: float) -> None:
    """The point goes through the positions in which x, or y, says nothing of the other, twice in every swing."""
    state = point_on_a_rod()
    runner = Runner(state, method)
    record = runner.run(10.0, 5e-3, every=20)
    energies = np.array([energy(record.state(k)).total for k in range(len(record.states))])
    assert np.abs(energies - energies[0]).max() < share * 9.81
    assert runner.partitions >= 16
    # how a run is cut into pieces changes nothing, also where coordinates change
    other = point_on_a_rod()
    pieces = Runner(other, method)
    for _ in range(100):
        pieces.run(0.1, 5e-3)
    assert (other.q.tobytes(), other.qd.tobytes()) == (state.q.tobytes(), state.qd.tobytes())


def test_shorter_steps_make_the_error_of_changing_coordinates_smaller() -> None:
    """Coordinates change where they are, and not only so many steps away from where they are singular."""

    def off(h: float) -> float:
        record = Runner(point_on_a_rod(), "rk4").run(10.0, h, every=round(0.1 / h))
        energies = [energy(record.state(k)).total for k in range(len(record.states))]
        return float(np.abs(np.array(energies) - energies[0]).max())

    assert off(1.25e-3) < off(5e-3) / 20.0


@pytest.mark.parametrize("h", [5e-3, 3.3e-3])
def test_a_position_in_which_no_choice_of_coordinates_serves_is_refused_by_name(h: float) -> None:
    m = Mechanism(dimension=2)
    tops = [m.point(f"B{k}", (k, 1)) for k in range(3)]
    for k, top in enumerate(tops):
        m.bar(f"crank{k}", m.point(f"A{k}", (k, 0), fixed=True), top, 1.0)
        if k:
            m.bar(f"coupler{k}", tops[k - 1], top, 1.0)
    runner = Runner(start(m.compile(h=h).state(), rates={"B0": (1.0, 0.0)}))
    words = 'crank1 - coupler1: B1, crank2 - coupler2: B2: at 0.7.* s .* singular .* formulation = "natural" passes'
    with pytest.raises(MechanismError, match=words):
        runner.run(10.0, h)


def test_a_driven_joint_has_the_effort_of_the_natural_multiplier() -> None:
    def driven() -> State:
        m = Mechanism(dimension=2)
        A, B, C = m.point("A", (0, 0), fixed=True), m.point("B", (0.3, 0)), m.point("C", (1.2, 0))
        crank = m.bar("crank", A, B, 1.0)
        m.bar("rod", B, C, 2.0)
        m.particle("piston", C, 3.0)
        m.slider("cylinder", C, (0, 0), (1, 0))
        m.drive("motor", m.angle("angle", None, crank), harmonic(0.4, 5.0, 0.0, 0.2))
        return start(m.compile(h=1e-3).state())

    state = driven()
    runner = Runner(state, "rodas3")
    for _ in range(5):
        runner.run(0.05, 1e-3)
        made = float(runner.system.part(_effort(), runner.state)[0])
        assert made == pytest.approx(effort(state, "motor"), rel=1e-9)


def test_a_mechanism_of_which_everything_is_driven_follows() -> None:
    def driven() -> State:
        state = four_bar(0.0)
        m = state.system.mechanism
        assert isinstance(m, Mechanism)
        m.drive("motor", m.angle("turn", None, m.bodies["crank"]), polynomial(0.0, 6.0))
        return start(m.compile(h=1e-3).state())

    state, natural = driven(), driven()
    runner = Runner(state)
    assert runner.system.generated.independent == ()
    runner.run(0.5, 1e-3)
    run(natural, 0.5, 1e-3)
    assert np.abs(state.q - natural.q).max() < 1e-9
    assert float(runner.system.part(_effort(), runner.state)[0]) == pytest.approx(effort(state, "motor"), rel=1e-9)


def _effort() -> Any:
    from tandem.multibody.relative.system import P

    return P.EFFORT


def test_a_run_twice_is_the_same_bits_and_pieces_fit_together() -> None:
    one, other, pieces = four_bar(), four_bar(), four_bar()
    Runner(one).run(0.3, 1e-3)
    Runner(other).run(0.3, 1e-3)
    runner = Runner(pieces)
    for _ in range(3):
        runner.run(0.1, 1e-3)
    assert one.vector.tobytes() == other.vector.tobytes()
    assert np.abs(one.q - pieces.q).max() < 1e-13


def test_records_keep_what_was_asked_for() -> None:
    record = Runner(four_bar()).run(0.0505, 1e-3, every=10)
    assert record.steps == 51
    assert record.t == pytest.approx(np.arange(6) * 0.01)
    assert set(record["iterations"]) == {6.0}
    assert record["phid_error"].max() < 1e-10


def test_a_run_that_diverges_says_so() -> None:
    m = Mechanism(dimension=2)
    B = m.point("B", (1, 0))
    m.particle("bob", B, 1.0)
    m.spring("spring", B, (0, 0), stiffness=1e9)
    with pytest.raises(DivergedError, match="diverged after"):
        Runner(start(m.compile(h=1e-2).state(), rates={"B": (1.0, 0.0)}), "rk4").run(5.0, 1e-2)


def test_a_step_too_long_for_its_loops_ends_the_run_in_words() -> None:
    with pytest.raises(MechanismError, match=r"coupler - rocker: C: at .* a shorter step is enough"):
        Runner(four_bar(60.0)).run(5.0, 0.1, strict=False)


def test_files_choose_formulation_and_scheme() -> None:
    text = {"name": "m", "points": {"A": {"at": [0, 0], "fixed": True}, "B": {"at": [1, 0]}}}
    data: dict[str, Any] = {**text, "bodies": {"rod": {"nodes": ["A", "B"], "mass": 1.0}}}

    def prepared(**chosen: Any) -> Any:
        return mechanism_run.prepare(describe(data, "m.toml"), seconds=0.1, **chosen)

    described, state = prepared(formulation="relative")
    assert described.file.run.scheme == "rodas4"
    figures = mechanism_run.simulate(described, state, lambda share, text: None).figures
    assert (figures["formulation"], figures["ended"], figures["steps"]) == ("relative", "finished", 100)
    natural = prepared()
    other = mechanism_run.simulate(*natural, lambda share, text: None)
    assert np.abs(other.record.q[-1] - state.q).max() < 1e-6
    with pytest.raises(ConfigError, match='scheme = "i3al" is not of formulation = "relative"; that has rodas4'):
        prepared(formulation="relative", scheme="i3al")
    with pytest.raises(ConfigError, match="formulation = 'absolute'"):
        prepared(formulation="absolute")


@pytest.mark.parametrize("file", sorted((CONFIGS / "mechanisms").glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_file_runs_in_both(file: Path) -> None:
    if file.stem == "chain":
        pytest.skip("twenty unrolled links take LLVM half a minute; verify/multibody/chain.py is for chains")
    ends = []
    for formulation in ("natural", "relative"):
        described, state = mechanism_run.load(file, seconds=0.2, step_ms=0.5, formulation=formulation)
        simulated = mechanism_run.simulate(described, state, lambda share, text: None)
        assert simulated.record.finite
        ends.append(state.q)
    assert np.abs(ends[0] - ends[1]).max() < 2e-4
    assert set(METHODS) >= {"rodas4", "rk4"}
