"""Views of flat arrays, and the index that a number from outside becomes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sync.compile.dependencies import folder_name
from sync.compile.jit import kernel
from tandem.multibody.natural.views import index_within

_BEYOND = """
import sys
import numpy as np
from tandem.multibody.natural.views import part, view
from sync.compile.jit import kernel

@kernel(cache=False)
def first_of_view(array, start, stop):
    return view(array, start, stop)[0]

@kernel(cache=False)
def first_of_part(ints, array, which):
    return part(ints, array, which)[0]

numbers = np.arange(4.0)
assert first_of_view(numbers, 1, 4) == 1.0 and first_of_part(np.array([2, 4], np.int32), numbers, 0) == 2.0
refused = 0
for start, stop in ((-1, 2), (3, 2), (0, 5), (4, 4)):  # the last is a view of nothing, whose first number is read
    try:
        first_of_view(numbers, start, stop)
    except IndexError:
        refused += 1
for ends in ((-1, 2), (3, 2), (0, 5)):
    try:
        first_of_part(np.array(ends, np.int32), numbers, 0)
    except IndexError:
        refused += 1
sys.exit(refused != 7)
"""


@kernel(cache=False)
def index_of(value, low, high):
    return index_within(value, low, high)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, 0), (0.999, 0), (1.0, 1), (3.7, 3), (4.0, 4), (4.5, 4), (-1.0, 0), (-1e300, 0), (1e12, 4), (1e300, 4),
     (np.inf, 4), (-np.inf, 0), (np.nan, 0), (5e-324, 0), (2.0**63, 4)],
)  # fmt: skip
def test_a_number_becomes_an_index_within_its_limits(value: float, expected: int) -> None:
    assert index_of(value, 0, 4) == expected


def test_where_bounds_are_checked_a_view_beyond_its_array_is_an_error(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "TANDEM_CACHE": str(tmp_path)}
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "-P", "-c", _BEYOND], env={**environment, "PYTHONPATH": str(root)}, check=False
    )
    assert done.returncode == 0
    assert (tmp_path / folder_name(checked=True)).is_dir() and not (tmp_path / folder_name()).exists()
