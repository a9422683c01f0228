"""Small files that would take gigabytes or minutes: each is refused, within two seconds and 200 MB, in some lines.

Each file is read in a process of its own, which has imported the reader and read a sound file before; time and memory
(the largest resident set) count from there. Exit code 1 if a file is not refused, or takes more.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from sync.errors import TandemError
from verify import ROOT
from verify.measure import NotHere, Row, at_most, holds
from verify.robustness.bomb_files import BOMBS, COLUMNS, write_all

MOST_S, MOST_MB = 2.0, 200.0
MOST_LINES = 60  # of what it says
HANGS_S = 60.0
CONFIG = ROOT / "configs" / "drive.toml"


class NotRefused(Exception):
    """A reader took it for a sound file."""


# ---- the readers, as the commands call them --------------------------------------------------------------------------


def read_mcap(path: Path) -> None:
    from sync.record import open_run

    run = open_run(path)
    if run.cut is None and not run.damage:
        raise NotRefused


def read_measurement(path: Path) -> None:
    from tandem.records.exchange.importer import Options, import_file

    options = Options(path, CONFIG, True, runs=path.parent / "runs")
    if path.suffix == ".parquet":
        t, *channels = COLUMNS
        options.maps, options.time = [f"{name}={name}:count" for name in channels], f"{t}:s"
    else:
        options.maps = [f"{name}=v:count" for name in COLUMNS[1:]]
    import_file(options)
    raise NotRefused


def read_toml(path: Path) -> None:
    from sync.config.config import load

    load(path)
    raise NotRefused


def read_car(path: Path) -> None:
    from sim_service.registry import MachineFiles, make_machine

    name = str(path)
    make_machine(MachineFiles({"machine.toml": path.read_bytes()}, {"machine.toml": name}))
    raise NotRefused


def read_dbc(path: Path) -> None:
    from daq_service.devices.dbc import load_dbc

    load_dbc(path, "source.dbc")
    raise NotRefused


def read_tir(path: Path) -> None:
    from tandem.machines.car.tyres.tir import read_tir

    read_tir(path)
    raise NotRefused


def read_rows(path: Path) -> None:
    from tandem.machines.car.studies.tyre.rows import read_rows

    read_rows(path)
    raise NotRefused


def read_crg(path: Path) -> None:
    from tandem.multibody.ground.make import make_road

    road = path.with_suffix(".toml")
    road.write_text(f'[surface]\nkind = "crg"\nfile = "{path.name}"\n')
    make_road(road)
    raise NotRefused


def read_fmu(path: Path) -> None:
    """As `tandem fmu` shows one, before anybody has consented to anything."""
    from tandem.machines.fmu.archive import inspect
    from tandem.machines.fmu.variables import read_description

    read_description(inspect(path).xml, str(path))
    raise NotRefused


READERS: dict[str, Callable[[Path], None]] = {
    "mcap": read_mcap, "parquet": read_measurement, "mf4": read_measurement, "toml": read_toml, "dbc": read_dbc,
    "car": read_car,
    "tir": read_tir, "csv": read_rows, "crg": read_crg, "fmu": read_fmu,
}  # fmt: skip


# ---- measuring -------------------------------------------------------------------------------------------------------


def resident_mb(what: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"/proc/self/status has no {what}")


def attempt(kind: str, path: Path) -> dict[str, Any]:
    """Read it here; how long it took, how much more memory than before, and the message."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the largest resident set
    before, began = resident_mb("VmRSS"), time.monotonic()
    try:
        READERS[kind](path)
        message, refused = "cut short or damaged", True
    except TandemError as error:
        message, refused = str(error), True
    except NotRefused:
        message, refused = "was taken for a sound file", False
    except Exception as error:  # what a user would see as a traceback
        message, refused = f"{type(error).__name__}: {error}", False
    return {
        "seconds": time.monotonic() - began, "mb": max(resident_mb("VmHWM") - before, 0.0),
        "message": message.partition("\n")[0], "lines": message.count("\n") + 1, "refused": refused,
    }  # fmt: skip


def warm(kind: str, folder: Path) -> None:
    """What the reader imports and compiles, before anything is measured."""
    sound = {
        "mcap": ROOT / "tests" / "golden" / "single_track.mcap", "toml": CONFIG,
        "car": CONFIG.parent / "vehicles" / "buggy.toml",
    }.get(kind)  # fmt: skip
    if sound is None:
        sound = folder / f"short.{kind}"
        sound.write_bytes(b"short")
    with contextlib.suppress(TandemError, NotRefused):
        READERS[kind](sound)
    if kind in ("parquet", "mf4"):
        csv = folder / "sound.csv"
        csv.write_text("t,steering,throttle,brake\n0,1,1,1\n0.001,1,1,1\n")
        with contextlib.suppress(TandemError, NotRefused):
            read_sound_csv(csv)


def read_sound_csv(path: Path) -> None:
    from tandem.records.exchange.importer import Options, import_file

    maps = [f"{name}={name}:count" for name in COLUMNS[1:]]
    import_file(Options(path, CONFIG, True, maps, time="t:s", runs=path.parent / "runs"))


CHILD = "import sys, pathlib as p; from verify.robustness.bombs import child; child(sys.argv[1], p.Path(sys.argv[2]))"


def child(kind: str, path: Path) -> None:
    warm(kind, path.parent)
    print(json.dumps(attempt(kind, path)))


def children(kind: str, folder: Path) -> None:
    """All of one format, one after the other, in this process."""
    warm(kind, folder)
    print(json.dumps({name: attempt(kind, folder / kind / name / f"bomb.{kind}") for name in BOMBS[kind]}))


def run(kind: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, kind, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, cwd=ROOT, check=False)
    except subprocess.TimeoutExpired:
        return {"seconds": HANGS_S, "mb": float("nan"), "message": "never came back", "lines": 0, "refused": False}
    if done.returncode:
        last = (done.stderr.strip() or "killed").splitlines()[-1]
        return {
            "seconds": float("nan"),
            "mb": float("nan"),
            "message": f"{done.returncode}: {last}",
            "lines": 0,
            "refused": False,
        }
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def bombs(*, kind: Annotated[str | None, "one format"] = None) -> Iterator[Row]:
    if kind is not None and kind not in BOMBS:
        raise NotHere(f"--kind {kind}: one of {', '.join(sorted(BOMBS))}")
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        write_all(Path(folder))
        for each in [kind] if kind else list(BOMBS):
            seconds, most = 0.0, 0.0
            for name in BOMBS[each]:
                path = Path(folder) / each / name / f"bomb.{each}"
                found = run(each, path)
                sound = found["refused"] and found["seconds"] <= MOST_S and found["mb"] <= MOST_MB
                sound = sound and found["lines"] <= MOST_LINES
                seconds, most = max(seconds, found["seconds"]), max(most, found["mb"])
                size = path.stat().st_size / 1000
                text = f"{size:.0f} kB, {found['seconds']:.2f} s, {found['mb']:.0f} MB: {found['message'][:160]}"
                yield holds(f"{each}, {name}: refused in time and memory", sound, text)
            yield at_most(f"{each}: longest", seconds, MOST_S, "s")
            yield at_most(f"{each}: most memory above the idle process", most, MOST_MB, "MB")
