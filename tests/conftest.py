"""How the tests are shared out, and how many examples a property is tried on.

Processes (`pytest -n 4 --dist loadscope --no-loadscope-reorder`) take files as they are, but tests/system test by test:
those mostly wait, so they are spread between the others. What needs the machine for itself is marked `alone` and left
to a run without others. `drill` marks what takes long and fails only where something else fails too: it is left to
`make drill`, whose `--hypothesis-profile full` tries every property on all the examples it asks for, drawn anew
each time; otherwise it is some of them (tests/examples.py), the same every time: a test that passed passes again.
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

SYSTEM = "tests/system/"
TOGETHER = (f"{SYSTEM}test_view.py", f"{SYSTEM}test_page_attacks.py")  # each with one browser

os.environ.update(python_environment())  # every program that a test starts, from whichever folder

settings.register_profile(FULL, deadline=None, print_blob=True)
settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=few(100))
settings.load_profile("quick")


def _unit(nodeid: str) -> str:
    """What one process takes at a time: a file, or one test that starts processes."""
    file = nodeid.partition("::")[0]
    return nodeid if file.startswith(SYSTEM) and file not in TOGETHER else file


@pytest.fixture(scope="session", autouse=True)
def _consent_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests let run they write into a file of their own, not into the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(consent.ENVIRONMENT, str(tmp_path_factory.mktemp("consent") / "fmu_consent"))
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _unit(nodeid)

    return Scheduler(config, log)


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
        if _unit(item.nodeid) == item.nodeid:
            single.append(item)
        else:
            files.setdefault(item.path, []).append(item)
    # Tests of a file stay together, those of the whole tree first; those that are taken one by one come evenly between
    # all but the last quarter of the files: a long one at the very end would be awaited by all other processes.
    together = sorted(files.values(), key=lambda tests: tests[0].path.parent != Path(__file__).parent)
    share = -(-4 * len(single) // max(3 * len(files), 1))
    between = [single[k : k + share] for k in range(0, len(single), share or 1)]
    items[:] = [item for pair in zip_longest(together, between, fillvalue=[]) for part in pair for item in part]
