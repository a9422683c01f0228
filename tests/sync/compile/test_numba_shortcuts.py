"""Where numba is taken a shorter way the result is numba's."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.compiler import Flags

from sync.compile import dependencies, numba_shortcuts
from tests.examples import cases
from tests.sync.actors import ROOT, environment

needs_shortcuts = pytest.mark.skipif(not numba_shortcuts.supported(), reason="not taken in this version of numba")
SET = st.dictionaries(st.sampled_from(["nrt", "noalias", "forceinline", "no_compile", "debuginfo"]), st.booleans())

# compiles a kernel that inlines another, in files of its own; then loads it, and inlines what was loaded
PROGRAM = """
import sys
from numba import float64
from inner import add
from outer import twice
print(twice(2.0), add(1.0, 2.0), sum(add.stats.cache_hits.values()), sum(twice.stats.cache_hits.values()))
print("numba.np.linalg" in sys.modules)  # what numba imports to compile
"""
# a kernel called with numbers, and with a type of a module of its own
CALLS = """
from generic import same
try:
    from pair import Pair
    same(Pair(1.0))
except ModuleNotFoundError:
    pass
print(same(3.0), sum(same.stats.cache_hits.values()))
"""
GENERIC = """
from sync.compile.jit import kernel
@kernel()
def same(x):
    return x
"""
PAIR = """
from typing import NamedTuple
class Pair(NamedTuple):
    x: float
"""
INNER = """
from sync.compile.jit import kernel
@kernel()
def add(x, y):
    return x + y
"""
OUTER = """
from numba import float64
from inner import add
from sync.compile.jit import kernel
@kernel(float64(float64))
def twice(x):
    return add(x, x){more}
"""

pytestmark = pytest.mark.slow


def _flags(values: dict[str, bool]) -> Flags:
    made = Flags()
    for name, value in values.items():
        setattr(made, name, value)
    return made


@given(SET, SET)
def test_options_are_equal_where_all_their_values_are(one: dict[str, bool], two: dict[str, bool]) -> None:
    first, second = _flags(one), _flags(two)
    assert (first == second) is (first.values() == second.values())
    assert hash(first) == hash(second) == hash(tuple(sorted(first.values())))
    assert first != 1


def test_the_shortcuts_were_tried_with_the_numba_that_is_pinned() -> None:
    """With another a start takes longer: try them, then name that version."""
    (pinned,) = re.findall(r"^numba==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned == numba_shortcuts._TRIED


# another numba: of another version, without the option that leaves memory management out, and with a configuration that
# takes no locators (numba itself looks at its own, where none is named then)
OTHER_NUMBA = """
import numba
from numba.core import config, options
class Config:
    def __setattr__(self, name, value):
        setattr(config, name, value)
numba.__version__, numba.config = "0.0.0", Config()
del options.DefaultOptions._nrt
"""
KERNELS = """
import os
from numba import float64
from sync.compile import jit
from sync.compile import numba_shortcuts
from inner import add
from outer import twice

@jit.inner
def doubled(x):
    return 2.0 * x

@jit.kernel(float64(float64), cache=False)
def quadrupled(x):
    return doubled(doubled(x))

hits = sum(twice.stats.cache_hits.values())
print(twice(2.0), quadrupled(2.0), hits, numba_shortcuts.supported(), os.environ["NUMBA_CACHE_DIR"])
"""


@pytest.mark.drill
def test_another_numba_is_used_the_public_way_and_what_an_edit_reaches_is_still_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text(INNER)
    (tmp_path / "outer.py").write_text(OUTER.format(more=""))
    (tmp_path / "other_numba.py").write_text(OTHER_NUMBA)
    env = environment(TANDEM_CACHE=str(tmp_path / "cache")) | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    env.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)  # of this process
    said = []
    for _ in range(2):
        command = [sys.executable, "-c", "import other_numba\n" + KERNELS]
        result = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        said.append(result.stdout.split())
    assert [each[:4] for each in said] == [["4.0", "8.0", "0", "False"], ["4.0", "8.0", "1", "False"]]
    # one folder for all sources: an edit of any of them is another folder
    assert said[0][4] == str(tmp_path / "cache" / dependencies.folder_name() / f"all-{dependencies.fingerprint()}")
    assert list(Path(said[0][4]).rglob("*.nbc"))


@needs_shortcuts
def test_what_was_loaded_runs_and_can_be_inlined(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "inner.py").write_text(INNER)
    env = environment(TANDEM_CACHE=str(tmp_path / "cache")) | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    said = []
    for more in ("", "", " + 1.0"):
        (tmp_path / "outer.py").write_text(OUTER.format(more=more))
        result = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        said.append(result.stdout.split())
    assert said == [
        ["4.0", "3.0", "0", "0", "True"],
        ["4.0", "3.0", "1", "1", "False"],
        ["5.0", "3.0", "1", "0", "True"],
    ]


REMOVED = "import shutil; from sync.compile.jit import CACHE; shutil.rmtree(CACHE)"
# compiles for a second when it is told to
SLOW = """
import math
from sync.compile.jit import kernel
@kernel()
def slow(x):
    return {text}
print("ready", flush=True)
input()
print(slow(1.0), sum(slow.stats.cache_misses.values()))
"""


@needs_shortcuts
def test_of_processes_that_need_the_same_kernel_one_compiles_it(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.format(text=" + ".join(f"math.sin(x + {k})" for k in range(300))))
    env = environment(TANDEM_CACHE=str(tmp_path / "cache")) | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    command = [sys.executable, "-c", "import slow"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    together = [subprocess.Popen(command, env=env, text=True, **pipes) for _ in range(3)]
    for each in together:
        assert each.stdout and each.stdout.readline() == "ready\n"
    for each in together:
        assert each.stdin
        each.stdin.write("\n")
        each.stdin.flush()
    results = [each.communicate()[0].split() for each in together]
    assert sorted(misses for _, misses in results) == ["0", "0", "1"]
    assert len({value for value, _ in results}) == 1


@needs_shortcuts
def test_a_folder_that_is_deleted_before_it_is_compiled_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.format(text="math.sin(x)").replace("input()", REMOVED))
    env = environment(TANDEM_CACHE=str(tmp_path / "cache")) | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    command = [sys.executable, "-c", "import slow"]
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["ready", str(math.sin(1.0)), "1"], done.stderr


@pytest.mark.drill
@needs_shortcuts
def test_a_cache_with_types_of_a_module_that_is_gone_is_made_anew(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Seen: a branch called a kernel with a type of its own; back on main every call of that kernel failed."""
    (tmp_path / "generic.py").write_text(GENERIC)
    (tmp_path / "pair.py").write_text(PAIR)
    env = environment(TANDEM_CACHE=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1")
    env |= {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    said = []
    for gone in (False, True, True):
        if gone:
            (tmp_path / "pair.py").unlink(missing_ok=True)
        result = subprocess.run([sys.executable, "-c", CALLS], env=env, capture_output=True, text=True, check=True)
        said.append(result.stdout.split())
    assert said == [["3.0", "0"], ["3.0", "0"], ["3.0", "1"]]


@pytest.mark.drill
@needs_shortcuts
@pytest.mark.parametrize(("suffix", "left"), cases((".nbc", 40), (".nbi", 0)))
def test_a_cache_cut_short_is_made_anew(tmp_path, suffix: str, left: int) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "generic.py").write_text(GENERIC)
    env = environment(TANDEM_CACHE=str(tmp_path / "cache")) | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    said = []
    for cut in (False, True):
        for file in (tmp_path / "cache").rglob(f"*{suffix}") if cut else ():
            file.write_bytes(file.read_bytes()[:left])
        result = subprocess.run([sys.executable, "-c", CALLS], env=env, capture_output=True, text=True, check=True)
        said.append(result.stdout.split())
    assert said == [["3.0", "0"], ["3.0", "0"]]
