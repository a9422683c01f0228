"""Small files that would take gigabytes or minutes (verify/robustness/bomb_files.py) are refused, at the reader the
commands use.

Memory is the largest resident set while one is read; `python -m verify bombs` measures time besides, in
processes of their own.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from verify.robustness.bomb_files import BOMBS
from verify.robustness.bombs import MOST_LINES, MOST_MB, ROOT

CHILDREN = (
    "import sys, pathlib as p; from verify.robustness.bombs import children; children(sys.argv[1], p.Path(sys.argv[2]))"
)
AFTER_MUCH = """
import json, sys
from pathlib import Path
import pyarrow as pa
import tandem.records.exchange.parquet  # it chooses the pool
from verify.robustness.bombs import attempt
before = pa.allocate_buffer(600_000_000)
assert before.size == 600_000_000
del before
print(json.dumps(attempt("parquet", Path(sys.argv[1]))))
"""
CASES = [(kind, name) for kind, named in BOMBS.items() for name in named]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them, made by another process: what that takes is none of ours."""
    made = tmp_path_factory.mktemp("bombs")
    program = (
        "import sys, pathlib; from verify.robustness.bomb_files import write_all as w; w(pathlib.Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", program, str(made)], cwd=ROOT, check=True)
    return made


@pytest.fixture(scope="module")
def attempts(folder: Path) -> Callable[[str, str], dict[str, Any]]:
    """What became of each. In a process of its own for every format: how much memory a reader takes depends on what a
    process has done before, and pytest's has done much."""

    @cache
    def of_kind(kind: str) -> dict[str, Any]:
        command = [sys.executable, "-c", CHILDREN, kind, str(folder)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return lambda kind, name: of_kind(kind)[name]  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind, name", CASES, ids=[f"{kind}-{name}".replace(" ", "_") for kind, name in CASES])
def test_a_bomb_is_refused(kind: str, name: str, folder: Path, attempts: Callable[[str, str], dict[str, Any]]) -> None:
    path = folder / kind / name / f"bomb.{kind}"
    assert path.stat().st_size < 2_000_000
    found = attempts(kind, name)
    assert found["refused"], found["message"]
    assert found["mb"] < MOST_MB, found
    assert found["lines"] <= MOST_LINES, found
    assert not (path.parent / "runs").exists()


@pytest.mark.parametrize(
    "kind, name",
    [("mf4", "zipped data of a gigabyte"), ("mcap", "one chunk of zeros"), ("dbc", "a megabyte of signals"),
     ("parquet", "millions of rows of one value")],
    ids=["mf4", "mcap", "dbc", "parquet"],
)  # fmt: skip
def test_the_refusal_names_the_option_that_reads_it_nevertheless(
    kind: str, name: str, attempts: Callable[[str, str], dict[str, Any]]
) -> None:
    said = attempts(kind, name)["message"]
    assert f"bomb.{kind}: " in said and "tandem --decode-limit-mb MEGABYTES" in said


def test_memory_that_was_used_before_is_no_room_for_a_bomb(folder: Path) -> None:
    """A pool that keeps what it had would give it to the next file, past every limit of the process."""
    bomb = folder / "parquet" / "pages that hold more than their rows" / "bomb.parquet"
    done = subprocess.run([sys.executable, "-c", AFTER_MUCH, str(bomb)], cwd=ROOT, capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert found["refused"] and found["mb"] < MOST_MB, found
