"""What commands of tandem print that measure something themselves, as they print it."""

import re
import subprocess
from collections.abc import Iterator

from sync.child_python import python_command, python_environment
from verify import ROOT
from verify.measure import Printed, Result, equal

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _ran(*words: str) -> Iterator[Result]:
    done = subprocess.run(
        python_command("-m", "tandem", *words), cwd=ROOT, env=python_environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    complaint = f"\n{done.stderr.strip()[-2000:]}" if done.returncode else ""
    yield Printed(f"$ tandem {' '.join(words)}\n" + _STYLE.sub("", done.stdout + complaint).strip())
    yield equal("exit code", done.returncode, 0)


def latency(*, phase: bool, seconds: float = 60.0) -> Iterator[Result]:
    yield from _ran("latency", "--seconds", f"{seconds:g}", *(["--phase"] if phase else []))


def iso() -> Iterator[Result]:
    yield from _ran("iso", "all")


def piano_measured() -> Iterator[Result]:
    yield from _ran("study", "piano", "measured")
