"""Some hundred changed inputs at all that reads what others wrote (verify/robustness/fuzz.py), and that it would
notice."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*command: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:  # a short path: local sockets are in it
        environment = os.environ | {"TMPDIR": folder}
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    return done.returncode, done.stdout + done.stderr


def test_no_input_crashes_hangs_or_eats_memory() -> None:
    found = fuzzed()
    assert len(found) >= 22
    assert {name: counts for name, counts in found.items() if 0 in counts} == {}


def fuzzed() -> dict[str, tuple[int, int]]:
    """Inputs that were accepted and refused, by target."""
    code, said = run("-m", "verify", "fuzz", "--seed", "11", "--inputs", "640")
    assert code == 0, said
    rows = re.findall(r"(?m)^verify: fuzz: (\w+): accepted; refused; CPU ms each: (\d+); (\d+); ", said)
    return {name: (int(accepted), int(refused)) for name, accepted, refused in rows}


WRONG = """
import os, signal, sys
import numpy as np
from verify.robustness.fuzz import WorkerPool
from verify.robustness.fuzz_targets import Target

def do(what):
    def maker(folder):
        def run(data):
            return what() if data == b"7" else True
        return Target(what.__name__, [b"%d" % k for k in (5, 6, 7)], run, lambda r, data, others: data, 1.0)
    maker.__name__ = what.__name__
    return maker

def raises(): raise KeyError("surprise")
def dies(): os.kill(os.getpid(), signal.SIGSEGV)
def hangs():
    while True: pass
def eats(): return bool(np.ones(80_000_000)[-1])
def sound(): return False

pool = WorkerPool([do(f) for f in (raises, dies, hangs, eats, sound)], seed=1, inputs=50, hang_s=2.0)
sound = pool.run()
for row in pool.rows():
    print(row.quantity, row.value)
pool.close()
sys.exit(0 if sound else 1)
"""


@pytest.mark.drill
def test_a_target_that_raises_dies_hangs_or_eats_is_found() -> None:
    code, said = run("-c", WRONG)
    assert code == 1
    for finding in ("raises: KeyError", "dies: the process crashed: exit code -11", "hangs: took longer than 2 s"):
        assert re.search(rf"\d+ x {finding.split(':')[0]} .*{finding.split(': ', 1)[1]}", said), said
    assert re.search(r"x eats took \d+ MB of memory", said)
    assert "x sound" not in said
    assert re.search(r"(?m)^sound: accepted; refused; CPU ms each 0; 10;", said), said  # goes on after every death
