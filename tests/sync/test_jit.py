"""Compiled code is cached where none can go stale, and processes that start together do not get in each other's way."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.sync.actors import ROOT, environment

# imports all kernels of the ring; says where the cache is, what came from it and what had to be compiled
PROGRAM = """
import json, os, sys
from sync import jit
with jit.compiling("test"):
    from sync import ring
import numpy as np
from sync.block import Channel, Layout
layout = Layout((Channel("x", "i2"),))
made = ring.RingWriter(sys.argv[1], layout, 2)
ring.push(made.words, np.zeros(layout.words, np.int64))
made.close()
kernels = [ring.push, ring.newest, ring.since, ring.beat, ring.peek, ring.poke]
print(json.dumps({
    "cache": str(jit.CACHE), "head": made.head,
    "hits": [sum(k.stats.cache_hits.values()) for k in kernels],
    "misses": [sum(k.stats.cache_misses.values()) for k in kernels],
}))
"""


def start(root: Path, cache: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, name],
        env={**environment(TANDEM_CACHE=str(cache)), "PYTHONPATH": str(root)},
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, complaint = process.communicate(timeout=180)
    assert process.returncode == 0, complaint
    return json.loads(said)


def test_processes_that_start_together_without_a_cache_all_succeed_and_the_next_compiles_nothing(
    copied: Path, tmp_path: Path, ring_name: str
) -> None:
    together = [finish(each) for each in [start(copied, tmp_path, f"{ring_name}.{i}") for i in range(3)]]
    for each in together:
        assert each["head"] == 1
    # one at a time: the first compiled, the others found it done
    assert sorted(sum(each["misses"]) > 0 for each in together) == [False, False, True]
    after = finish(start(copied, tmp_path, ring_name))
    assert sum(after["misses"]) == 0
    assert all(hits > 0 for hits in after["hits"])
    assert after["cache"] == together[0]["cache"]
    assert after["cache"].startswith(str(tmp_path))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The packages as they are now: nobody edits these."""
    for package in ("sync", "daq_service", "sim_service"):
        shutil.copytree(ROOT / package, tmp_path / "here" / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "here"


def cache_of(root: Path, cache: str = "/somewhere", **more: str) -> str:
    program = "from sync import jit; print(jit.CACHE)"
    env = {**environment(TANDEM_CACHE=cache, **more), "PYTHONPATH": str(root)}
    if not cache:
        del env["TANDEM_CACHE"]
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, env=env, cwd=root, capture_output=True, text=True).stdout.strip()


def test_the_cache_is_another_one_after_any_change_of_a_source(copied: Path) -> None:
    found = [cache_of(copied)]
    moved = copied.rename(copied.with_name("moved"))
    assert cache_of(moved) == found[0]  # the contents count, not the place
    copied = moved.rename(copied)
    atomics = copied / "sync" / "atomics.py"
    os.utime(atomics, (0, 0))
    assert cache_of(copied) == found[0]  # nor the date
    atomics.write_text(atomics.read_text().replace('_loader("acquire")', '_loader("monotonic")'))
    found.append(cache_of(copied))
    (copied / "sim_service" / "models" / "new.py").write_text("")
    found.append(cache_of(copied))
    (copied / "sim_service" / "models" / "new.py").rename(copied / "daq_service" / "new.py")
    found.append(cache_of(copied))
    assert len(set(found)) == 4


def test_the_cache_is_where_the_environment_says(copied: Path) -> None:
    own = cache_of(copied, "/somewhere")
    assert Path(own).parent == Path("/somewhere/numba")
    assert cache_of(copied, "", XDG_CACHE_HOME="/elsewhere") == f"/elsewhere/tandem/numba/{Path(own).name}"
    assert cache_of(copied, "", XDG_CACHE_HOME="", HOME="/home/me") == f"/home/me/.cache/tandem/numba/{Path(own).name}"


def test_caches_nobody_has_used_for_a_week_are_swept_away_and_no_others(tmp_path: Path) -> None:
    base = tmp_path / "numba"
    day = 24 * 3600
    for name, age in (("of_yesterday", day), ("of_last_week", 6 * day), ("of_last_month", 30 * day)):
        (base / name).mkdir(parents=True)
        (base / name / "kernel.nbc").touch()
        used = time.time() - age  # noqa: TID251  (it is about files)
        os.utime(base / name, (used, used))
    program = "from sync import jit\nwith jit.compiling('test'): pass\nprint(jit.CACHE.name)"
    own = subprocess.run(
        [sys.executable, "-c", program], check=True, env=environment(TANDEM_CACHE=str(tmp_path)),
        capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    assert {path.name for path in base.iterdir() if path.is_dir()} == {"of_yesterday", "of_last_week", own}
