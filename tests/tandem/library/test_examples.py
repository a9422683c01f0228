"""Every example of a docstring of the library runs and prints what stands there; all that is public has one."""

import doctest
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import tandem

ROOT = Path(__file__).resolve().parents[3]
FOUND = {name: import_module(module) for name, module in tandem._PLACES.items()}
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# needs a GPU: tests/tandem/ensembles/test_gpu.py; what `run` returns is in its example
_ELSEWHERE = {"GpuBatch", "Live"}


@pytest.fixture
def examples_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "golden").symlink_to(ROOT / "tests" / "golden")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [*tandem._PLACES, "Parameters"])
def test_an_example_prints_what_stands_beneath_it(name: str, examples_folder: None) -> None:
    from tandem.offline import model

    module = FOUND.get(name, model)
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = finder.find(getattr(module, name), name, module, globs={"tandem": tandem, "np": np})
    examples = sum(len(test.examples) for test in tests)
    assert bool(examples) != (name in _ELSEWHERE)
    for test in tests:
        if test.examples:
            said: list[str] = []
            failed, _ = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False).run(test, out=said.append)
            assert failed == 0, "".join(said)
