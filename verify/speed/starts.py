"""How long a drive takes to its first step: cold, warm, and after one file was edited.

The sources are copied to a folder of their own, with an empty cache of compiled code: what is there stays as it is. The
first start compiles everything a drive needs and must say how far it is; the next ones find it; then one file at a time
is edited, every function in it (of a file of names alone: a text), and the next start compiles what is another kernel
for that. The page is served, as usual. Seconds are from the start of the process to the first step, as the run itself
reports them. `--edit` adds files, without a limit.

`wheel`: a wheel for this platform, as `make wheel` makes it, installed in an empty environment with an empty cache,
beside what it needs. Then every demo runs, and what it adds to the cache was not in the wheel.
"""

import ast
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from tandem.brought import DEMOS
from verify import ROOT
from verify.measure import NotHere, Row, at_least, at_most, equal, figure, holds, note

COLD_S, WARM_S, EDITED_S, WHEEL_S = 45.0, 2.0, 5.0, 5.0
LEAST_STAGES = 3
PACKAGES = ("sync", "daq_service", "sim_service", "tandem", "configs")
EDITED = (
    "daq_service/acquire.py",
    "tandem/machines/car/device/virtual.py",
    "tandem/machines/car/buggy/build.py",
    "sync/ring/watch.py",
    "tandem/live/recorder/tap.py",
    "sim_service/simulation.py",
    "sim_service/loop.py",
    "tandem/machines/car/vehicle.py",
)


_SHORT = ("--seconds", "1", "--json", "--set", "name=starts", "--set", "view.port=0")


def first_step_s(tree: Path, *python: str | Path) -> tuple[float, str]:
    """Of a drive of a second, of the packages in a folder or of another Python's; and what it printed."""
    done = _obeyed(tree, *(python or (sys.executable,)), "-m", "tandem", "drive", *_SHORT, "--runs", tree / "runs")
    return float(json.loads(done.stdout)["first_step_s"]), done.stderr


def _environment(tree: Path) -> dict[str, str]:
    environment = {**os.environ, "TANDEM_CACHE": str(tree / "cache"), "PYTHONPATH": str(tree)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a warm start finds its modules compiled, as a user's does
    return environment


def _obeyed(tree: Path, *command: str | Path) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        command, cwd=tree, env=_environment(tree), capture_output=True, text=True, check=False, timeout=600.0
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{command[-1]}: it ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def change(file: Path) -> None:
    """Change every function of a file, kernels and others; where there are none, a text."""
    lines = file.read_text().splitlines(keepends=True)
    tree = ast.parse("".join(lines))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in reversed(functions):
        first = function.body[0]
        at = first.end_lineno if ast.get_docstring(function) is not None else first.lineno - 1
        lines.insert(at or 0, f"{' ' * first.col_offset}_edited = 0\n")
    if not functions:
        text = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)][-1]
        assert text.end_lineno is not None and text.end_col_offset is not None
        line = lines[text.end_lineno - 1]
        lines[text.end_lineno - 1] = f"{line[: text.end_col_offset - 1]} edited{line[text.end_col_offset - 1 :]}"
    file.write_text("".join(lines))


def starts(
    *,
    times: Annotated[int, "warm starts"] = 5,
    edit: Annotated[tuple[str, ...], "files to edit as well, without a limit"] = (),
) -> Iterator[Row]:
    for file in edit:
        if not (ROOT / file).is_file() or Path(file).parts[0] not in PACKAGES:
            raise NotHere(f"--edit {file}: no file of {', '.join(PACKAGES)}")
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        tree = Path(folder)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        cold, output = first_step_s(tree)
        yield at_most("cold, with an empty cache", cold, COLD_S, "s")
        stages = [int(k) for k in re.findall(r"compiling.* (\d+) of \d+", output)]
        yield at_least("reported its progress meanwhile, times", len(set(stages)), LEAST_STAGES)
        yield holds("in order", stages == sorted(stages))
        warm = [first_step_s(tree)[0] for _ in range(times)]
        yield figure(f"warm, median of {times}", statistics.median(warm), "s")
        yield at_most(f"warm, slowest of {times}", max(warm), WARM_S, "s")
        for file in (*EDITED, *edit):
            change(tree / file)
            found = f"after an edit of {file}", first_step_s(tree)[0]
            yield at_most(*found, EDITED_S, "s") if file in EDITED else figure(*found, "s")


_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_WHEEL = (*PACKAGES, "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
_GOLDEN = "town.mcap"


def _wheel(place: Path) -> Path:
    """Of a copy of the sources: a build leaves files behind."""
    note("compiling for the baseline processor: some minutes")
    tree = place / "tree"
    tree.mkdir()
    for name in _WHEEL:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    for command, more in (
        ((sys.executable, "-m", "sync.compile.shipped", place / "compiled"), {}),
        (
            (*_PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", place, tree),
            {"TANDEM_COMPILED": str(place / "compiled")},
        ),
    ):
        subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": "", **more}, check=True)
    (found,) = place.glob("*.whl")
    return found


def lay_beside(site: Path) -> None:
    """Links to all packages of this environment, in the folder that a wheel is installed in: as in a real install what
    it needs lies beside it. No .pth file is read there, so the checkout is not found."""
    for folder in {sysconfig.get_path(key) for key in ("purelib", "platlib")}:
        for each in Path(folder).iterdir():
            if each.suffix != ".pth" and not (site / each.name).exists():
                (site / each.name).symlink_to(each)


def _demonstrated(user: Path, python: Path, name: str) -> None:
    """A demo for a second; one that has no end, until its page is there and a second has passed."""
    command = [str(python), "-m", "tandem", "demo", name, "--runs", str(user / "runs")]
    if DEMOS[name].words[0] != "view":
        _obeyed(user, *command, *_SHORT)
        return
    with subprocess.Popen(
        [*command, "--port", "0"], cwd=user, env=_environment(user), stderr=subprocess.PIPE, text=True
    ) as shown:
        assert shown.stderr is not None
        printed = list(itertools.takewhile(lambda line: "the page: " not in line, shown.stderr))
        time.sleep(1.0)
        shown.send_signal(signal.SIGINT)
        printed += shown.stderr
    if shown.returncode != 0:
        raise SystemExit(f"tandem demo {name}: it ended with {shown.returncode}:\n{''.join(printed)}")


def _kernels(user: Path) -> int:
    return len({file.parent for file in (user / "cache").rglob("*.nbc")})


def wheel(
    *, wheel: Annotated[Path | None, "a wheel that `make wheel` has made; otherwise one is made"] = None
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        place, user = Path(folder), Path(folder) / "user"
        found = wheel or _wheel(place)
        yield figure("the wheel", found.stat().st_size * 1e-6, "MB")
        venv.create(place / "venv", with_pip=False)
        python = place / "venv" / "bin" / "python"
        subprocess.run(
            [*_PIP, "--python", python, "install", "--no-compile", "--no-deps", "--no-index", found], check=True,
            env={**os.environ, "PYTHONPATH": ""},  # pip would find it installed in the checkout
        )  # fmt: skip
        user.mkdir()
        script = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = Path(_obeyed(user, python, "-c", script).stdout.strip())
        lay_beside(site)
        first, printed = first_step_s(user, python)
        yield at_most("from the first command to the first step", first, WHEEL_S, "s")
        yield holds("nothing was compiled for it", "compiling" not in printed)
        for name in DEMOS:
            before = _kernels(user)
            _demonstrated(user, python, name)
            yield equal(f"kernels that `tandem demo {name}` still compiles", _kernels(user) - before, 0)
        shutil.copy(ROOT / "tests" / "golden" / _GOLDEN, user)
        figures = json.loads(_obeyed(user, python, "-m", "tandem", "replay", "--json", user / _GOLDEN).stdout)
        yield holds(f"{_GOLDEN} has the same bits", figures["identical"])
