"""How the tests are shared out, and how many examples a property is tried on.

Processes (`pytest --processes 6`, tests/processes.py) take files as they are, but tests/system test by test: those
mostly wait, so they are spread between the others. What needs the machine for itself is marked `alone` and comes last.
`drill` marks what takes long and fails only where something else fails too: it is left to `make drill`, whose
`--hypothesis-profile full` tries every property on all the examples it asks for, drawn at random each time; otherwise
it is some of them (tests/examples.py), the same every time: a test that passed passes again.
"""

import sync  # noqa: F401  isort: skip  (one thread for BLAS, before a plugin imports numpy)

import gc
import os
from collections.abc import Generator, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from sync.child_python import python_environment
from sync.files import consent
from tests.examples import FULL, few, thorough
from tests.processes import unit_of

os.environ.update(python_environment())  # every program that a test starts, from whichever folder

settings.register_profile(FULL, deadline=None, print_blob=True)
settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=few(100))
settings.load_profile("quick")


@pytest.fixture(scope="session", autouse=True)
def _consent_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests let run they write into a file of their own, not into the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(consent.ENVIRONMENT, str(tmp_path_factory.mktemp("consent") / "fmu_consent"))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    gc.disable()  # what is made meanwhile stays
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    gc.freeze()  # millions of objects that stay: no collection has to look at them again


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not thorough():
        left = [item for item in items if item.get_closest_marker("drill")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    files: dict[Path, list[pytest.Item]] = {}
    single = []
    for item in items:
        if unit_of(item.nodeid) == item.nodeid:
            single.append(item)
        else:
            files.setdefault(item.path, []).append(item)
    # Tests of a file stay together, those of the whole tree first; those that are taken one by one come evenly between
    # all but the last quarter of the files: a long one at the very end would be awaited by all other processes.
    together = sorted(files.values(), key=lambda tests: tests[0].path.parent != Path(__file__).parent)
    share = -(-4 * len(single) // max(3 * len(files), 1))
    between = [single[k : k + share] for k in range(0, len(single), share or 1)]
    items[:] = [item for pair in zip_longest(together, between, fillvalue=[]) for part in pair for item in part]
