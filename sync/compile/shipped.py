"""Compiled code that a platform wheel brings (`make wheel`), and how it gets into the user's cache.

    python -m sync.compile.shipped FOLDER      compile for the baseline processor, into FOLDER

A pure wheel compiles at the first command. A platform wheel has the same code compiled for a processor that all of its
kind can stand in for (x86-64-v3; armv8.2-a), in `sync/compiled/`, with a list of its files. At the first command what
is there is copied into the user's cache, where everything else looks for it, if

- it was made of these sources, by this numba, for this version of Python, and this processor has what it uses;
- nobody may write the folder, the list or a file but this user, root, and whoever may write this Python file;
- each file has the digest that the list names. One that has not is left out with its module, and is compiled.

Otherwise everything is compiled as without it, to the same bits: no product is fused with a sum for any processor.
What is taken from the package is trusted as its Python code is.

Standard library only: it runs before anything is imported.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sync.child_python import python_command, python_environment
from sync.compile import dependencies as code
from sync.compile.processor import flags
from sync.errors import ConfigError
from sync.files.private import OTHERS_WRITE, others_change

FOLDER = code.ROOT / "sync" / "compiled"
_LIST = "files.json"
_ENDINGS = (".nbi", ".nbc", ".compiled")
# settings for LLVM, and the flags that /proc/cpuinfo must list
_BASELINES = {
    "x86_64": (
        {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""},
        "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    ),
    "aarch64": (
        {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+v8.2a"},
        "fp asimd crc32 atomics asimdrdm dcpop",
    ),
}


def _versions() -> dict[str, Any]:
    """What the machine code depends on, beside the processor."""
    import importlib.metadata  # slow, and seldom needed

    return {
        "sources": code.fingerprint(),
        "python": sys.implementation.cache_tag,
        "system": " ".join(os.uname()[::4]),
        **{name: importlib.metadata.version(name) for name in ("numba", "llvmlite")},
    }


def take(folder: Path) -> int:
    """Copy what a wheel brings into the cache; the number of files. None where it does not fit or is not trusted."""
    try:
        listed = _listed(folder)
        return 0 if listed is None else _copy(folder, listed)
    except OSError:  # no space, or no right to read: compiled instead, and that reports what is wrong with the cache
        return 0


def _listed(folder: Path) -> dict[str, str] | None:
    if not folder.is_dir() or any(_others_change(each.stat()) for each in (folder.parent, folder)):
        return None
    content = _read(folder / _LIST)
    try:
        found = json.loads(content or b"{}")
        files, needed = found["files"], frozenset(found["flags"])
        fits = found["made_with"] == _versions() and needed <= flags()
        plain = all(_is_plain(name) and isinstance(digest, str) for name, digest in files.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(files) if fits and plain else None


def _is_plain(name: str) -> bool:
    """Of a file that may be written below the cache: FILE, or FOLDER/FILE."""
    parts = name.split("/")
    return len(parts) <= 2 and all(part and not part.startswith(".") for part in parts) and name.endswith(_ENDINGS)


def _read(file: Path) -> bytes | None:
    """The content of a file that is as safe as our code; no link is followed."""
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
        return None if _others_change(os.fstat(opened.fileno())) else opened.read()


def _others_change(found: os.stat_result) -> bool:
    """Whether somebody could change it who could not change this file as well: where a user has a group of his own,
    that group may write what he installs; and a program may be installed for all by one who is not root."""
    code_here = os.stat(__file__)
    alike = (found.st_uid, found.st_gid) == (code_here.st_uid, code_here.st_gid)
    return bool(others_change(found)) and not (alike and not found.st_mode & OTHERS_WRITE & ~code_here.st_mode)


def _copy(folder: Path, listed: dict[str, str]) -> int:
    """Notes that say all of a module is compiled come last, and not for a module of which something is missing."""
    cache, copied, missing = code.cache_directory(), 0, set[str]()
    for name in sorted(listed, key=lambda each: (each.endswith(".compiled"), each.endswith(".nbi"))):
        target = cache / name
        if target.exists():
            continue
        if name.endswith(".compiled") and any(each.startswith(f"{name.rpartition('-')[0]}.") for each in missing):
            continue
        try:
            content = _read(folder / name)
        except FileNotFoundError:
            content = None
        if content is None or hashlib.sha256(content).hexdigest() != listed[name]:
            missing.add(name.partition("/")[0])
            continue
        target.parent.mkdir(mode=0o700, exist_ok=True)
        part = target.with_name(f"{target.name}.tmp.{os.getpid()}")
        try:
            part.write_bytes(content)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
        copied += 1
    return copied


@functools.cache
def _baseline() -> tuple[dict[str, str], str]:
    if (kind := os.uname().machine) not in _BASELINES:
        raise ConfigError(f"no baseline processor for {kind}: only for {', '.join(_BASELINES)}")
    return _BASELINES[kind]


def settings() -> dict[str, str]:
    """In the environment of what compiles for the baseline processor."""
    return _baseline()[0]


def make(folder: Path) -> int:
    """Compile everything for the baseline processor, and put it into a folder with its list."""
    if lacking := set(_baseline()[1].split()) - flags():
        raise ConfigError(f"this processor has no {', '.join(sorted(lacking))}: make the wheel on one that does")
    own = folder.with_name(f"{folder.name}.cache")
    shutil.rmtree(own, ignore_errors=True)  # all of it is shipped: nothing of what was compiled from other sources
    environment = python_environment(**settings(), TANDEM_CACHE=str(own))
    subprocess.run(python_command("-m", "sync.compile.build", "--all"), env=environment, check=True)
    shown = "from sync.compile.dependencies import cache_directory; print(cache_directory())"
    cache = subprocess.check_output(python_command("-c", shown), env=environment, text=True).strip()
    return gather(Path(cache), folder)


def gather(cache: Path, folder: Path) -> int:
    """What was compiled for the baseline processor, and the list that `take` looks for; the number of files."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = {}
    for file in sorted(cache.rglob("*")):
        name = file.relative_to(cache).as_posix()
        if file.is_file() and _is_plain(name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / name)
            listed[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    found = {"made_with": _versions(), "flags": sorted(_baseline()[1].split()), "files": listed}
    (folder / _LIST).write_text(json.dumps(found, indent=0))
    return len(listed)


if __name__ == "__main__":
    try:
        print(f"{make(Path(sys.argv[1]).resolve())} files of compiled code in {sys.argv[1]}")
    except ConfigError as error:
        sys.exit(f"tandem: {error}")
