"""A drop from 0.3 m at standstill: what the step leaves of a wheel that hardly touches the ground."""

import pytest

from verify.physics.drop import drop


def test_at_5_ms_a_dropped_car_feels_what_it_feels_at_1_ms_and_every_step_converges() -> None:
    coarse, fine = drop(5.0), drop(1.0)
    for name in ("force_x", "load_front", "load_rear"):
        assert coarse[name] == pytest.approx(fine[name], rel=0.1), name
    assert coarse["capped"] == fine["capped"] == 0
    assert coarse["again"] > 10  # the case that one attempt does not solve
    assert coarse["iterations_max"] <= 36


def test_without_retries_of_the_core_those_steps_are_made_in_parts() -> None:
    alone, fine = drop(5.0, retries=0), drop(1.0)
    assert alone["in_parts"] > 10 and alone["capped"] == 0
    assert alone["force_x"] == pytest.approx(fine["force_x"], rel=0.1)
