"""All executions of the ring's own source on a machine as weak as C11 allows: see verify/path/ring_check.py.

The promises hold in all of them; with any ordering taken out of the source they do not, or it is known why they do.
"""

import pytest

from verify.path.ring_check import (
    ONLY_FOR_A_SLOT_ALONE,
    SLOT_OF_TWO_LIVES,
    SMALL,
    WEAKENED,
    Scenario,
    alone,
    check,
    first_broken,
    functions,
)

BY_HEAD = tuple(scenario for scenario in SMALL if not alone(scenario))
ALONE = tuple(scenario for scenario in SMALL if alone(scenario))


@pytest.mark.parametrize("scenario", SMALL, ids=str)
def test_every_promise_holds_in_every_execution(scenario: Scenario) -> None:
    verdict = check(scenario)
    assert not verdict.broken, "\n".join((verdict.broken, *verdict.trace))
    assert verdict.states > 300  # it went somewhere


@pytest.mark.parametrize("name", WEAKENED)
def test_an_ordering_taken_out_breaks_a_promise(name: str) -> None:
    found = first_broken(BY_HEAD, WEAKENED[name])
    if name in ONLY_FOR_A_SLOT_ALONE:
        assert found is None
        found = first_broken(ALONE, WEAKENED[name])
    assert found is not None
    assert found[1].trace


def test_no_ordering_of_the_source_is_left_untried() -> None:
    _, places = functions({})
    ordered = {p for p in places if p[1] not in ("load_relaxed", "store_relaxed") and p[0] not in ("peek", "poke")}
    assert ordered <= {place for mutation in WEAKENED.values() for place in mutation}


def test_a_slot_that_two_lives_have_written_must_be_come_to_by_the_head() -> None:
    assert "torn" in check(SLOT_OF_TWO_LIVES).broken


@pytest.mark.parametrize("scenario", BY_HEAD[1:4], ids=str)
def test_a_writer_that_is_done_first_shows_a_reader_all_there_is(scenario: Scenario) -> None:
    assert check(scenario).results == check(scenario, interleaved=False).results
