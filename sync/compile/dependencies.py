"""Which source files a module's compiled code may depend on, and where compiled code is kept.

A kernel inlines kernels and constants of the modules its own module imports, directly or through others. The *stamp* of
a file is a digest of its contents and of those of everything of ours it imports, imports inside functions included, and
of a package's own file where a name is taken from that: while it is the same, no kernel of the file has changed. Which
kernels an edit has changed is found kernel by kernel (sync/compile/stamps.py). Only contents count, not paths or dates.
What importing a file *runs* is a different set: it has the files of the packages it lies in as well, but nothing that
is imported inside functions.

Imports are found in the text, not by importing: this module needs nothing but the standard library and takes some ten
milliseconds for the whole tree, so that a command may ask it first thing.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sync.compile import processor
from sync.errors import ConfigError
from sync.files.private import others_change, rewrite

ROOT = Path(__file__).resolve().parents[2]
# folders whose files may have kernels
_KERNELS = (
    "daq_service", "sim_service", "sync",
    "tandem/doctor", "tandem/ensembles", "tandem/estimation", "tandem/live", "tandem/machines", "tandem/multibody",
    "tandem/records",
)  # fmt: skip
_OURS = {folder.partition("/")[0] for folder in _KERNELS}
FOR_OTHERS = "--worker"  # the argument of a process that compiles ahead
_DECORATES = "sync.compile.jit"  # every kernel's module imports it; its options matter, what it imports itself does not

_COMMENT = re.compile(r"#[^\n]*")
_FROM = re.compile(r"^([ \t]*)from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n;]*)", re.MULTILINE)
_IMPORT = re.compile(r"^([ \t]*)import[ \t]+([^\n;]*)", re.MULTILINE)
# compiled when their module is imported: by the decorator, or for the host's clock (sync/clock.py)
_KERNEL = re.compile(r"^[ \t]*@kernel\b|^[ \t]*\w+ = for_any_clock\(", re.MULTILINE)
_INNER = re.compile(r"^[ \t]*@(inner|merged)\b", re.MULTILINE)


def cache_directory() -> Path:
    base = os.environ.get("TANDEM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tandem"
    )
    # numba names compiled code by its source alone: code with bounds checks (views.py) and code for another processor
    # need other folders
    return Path(base) / folder_name(os.environ.get("NUMBA_BOUNDSCHECK") == "1")


def folder_name(checked: bool = False) -> str:
    return f"numba_checked-{processor.name()}" if checked else f"numba-{processor.name()}"


def own_cache() -> None:
    own_folder(cache_directory())


@functools.cache
def own_folder(folder: Path) -> None:
    """Make a folder of the cache, or check its owner; once, before any code is loaded from it."""
    for each in (folder.parent, folder):
        try:
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = each.stat()
        except OSError as error:
            raise ConfigError(_cannot_store(each, error)) from None
        # a sticky folder above is enough; in ours, others could add files
        if wrong := others_change(found, sticky_is_enough=each != folder):
            right = "empty it and chmod 700 it, or " if found.st_uid in (os.geteuid(), 0) else ""
            raise ConfigError(
                f"{each}: {wrong}, and compiled code is run from there; {right}set TANDEM_CACHE to a folder of your own"
            )


def _cannot_store(folder: Path, error: OSError) -> str:
    return (
        f"{folder}: compiled code cannot be kept there: {error.strerror}; set TANDEM_CACHE to a folder with room that"
        " you can write to"
    )


unstored: list[str] = []  # messages about code that this process compiled and could not store


def report_unstored(folder: Path, error: OSError) -> None:
    """Report once that compiled code is used but not stored; where it is for others, these refuse (build.py)."""
    text = _cannot_store(folder, error)
    if text not in unstored:
        unstored.append(text)
        if sys.argv[1:] != [FOR_OTHERS]:
            print(f"tandem: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One process at a time. Without space for the lock file none waits: files are written whole or not at all."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            fcntl.flock(stack.enter_context(open(lock, "w")), fcntl.LOCK_EX)
        yield


@functools.cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


@functools.cache
def digest(file: Path) -> bytes:
    return hashlib.sha256(_text(file).encode()).digest()


def _is_root(folder: Path) -> bool:
    return not (folder / "__init__.py").exists()


@functools.cache
def root_of(file: Path) -> Path:
    """The folder that a file's top-level package, or the file itself, lies in."""
    folder = file.parent
    while not _is_root(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def module_name(file: Path) -> str:
    parts = file.relative_to(root_of(file)).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@functools.cache
def _is_installed(root: Path) -> bool:
    return any(root.glob("*.dist-info"))


@functools.cache
def _files_of(root: Path, name: str, own: str = "") -> tuple[Path, ...]:
    """The files of a module's packages, then its own, as far as they exist below this root, or ours. In a folder of
    installed packages only our packages count, and the package that imports (`own`)."""
    top = name.partition(".")[0]
    for base in dict.fromkeys((root, ROOT)):
        if _is_installed(base) and top not in _OURS and (top != own or base != root):
            continue
        found, place = [], base
        for part in name.split("."):
            place = place / part
            if (place / "__init__.py").is_file():
                found.append(place / "__init__.py")
            elif place.with_suffix(".py").is_file():
                found.append(place.with_suffix(".py"))
                break
            else:
                break
        if found:
            return tuple(found)
    return ()


def _imports(text: str, package: str) -> Iterator[tuple[str, str, bool]]:
    """(module, name taken from it or "", whether importing the source runs it) of every import in a source."""
    text = _COMMENT.sub("", text.replace("\\\n", " "))
    for indent, module, listed in _FROM.findall(text):
        base = module.lstrip(".")
        if level := len(module) - len(base):
            above = package.split(".")
            base = ".".join([*above[: len(above) - level + 1], *([base] if base else [])])
        for one in listed.strip("() \t\n").split(","):
            if one.split():
                yield base, one.split()[0], not indent
    for indent, listed in _IMPORT.findall(text):
        for one in listed.split(","):
            if one.split():
                yield one.split()[0], "", not indent


def imported_names(text: str, package: str) -> set[str]:
    """Dotted names that a source imports; `from a import b` may mean the module a.b, so both are named."""
    found = list(_imports(text, package))
    return {module for module, _, _ in found} | {f"{module}.{name}" for module, name, _ in found if name}


@functools.cache
def _imported(file: Path) -> tuple[tuple[tuple[Path, ...], bool], ...]:
    """The files of every module that a file imports, its packages first, and whether importing the file runs them."""
    name = module_name(file)
    if name == _DECORATES:
        return ()
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    where = root_of(file), name.partition(".")[0]
    found = set()
    for module, taken, runs in _imports(_text(file), package):
        files = _files_of(where[0], module, where[1])
        within = _files_of(where[0], f"{module}.{taken}", where[1]) if taken else files
        found.add((within if len(within) > len(files) else files, runs))
    return tuple(found)


@functools.cache
def _read(file: Path) -> frozenset[Path]:
    return frozenset(files[-1] for files, _ in _imported(file) if files)


@functools.cache
def _run(file: Path) -> frozenset[Path]:
    package = module_name(file).rpartition(".")[0]
    found = set(_files_of(root_of(file), package, package.partition(".")[0])) if package else set()
    return frozenset(found.union(*(files for files, runs in _imported(file) if runs)))


def _closure(file: Path, step: Callable[[Path], frozenset[Path]]) -> frozenset[Path]:
    found, waiting = {file}, [file]
    while waiting:
        for each in step(waiting.pop()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return frozenset(found)


@functools.cache
def dependencies(file: Path) -> frozenset[Path]:
    """The file and every file of ours whose contents can be part of its compiled code."""
    return _closure(file, _read)


def dependencies_outside(file: Path, left_out: Callable[[Path], bool]) -> frozenset[Path]:
    """The same, without files that are `left_out` and what only these import."""
    return _closure(file, lambda each: frozenset(other for other in _read(each) if not left_out(other)))


@functools.cache
def runs(file: Path) -> frozenset[Path]:
    """The file and every file of ours that importing it runs."""
    return _closure(file, _run)


@functools.cache
def stamp(file: Path) -> str:
    known = _remembered()
    name = module_name(file)
    if root_of(file) != ROOT or name not in known:
        return _stamp(file)
    return known[name]


def _stamp(file: Path) -> str:
    whole = hashlib.sha256()
    for name, content in sorted((module_name(each), digest(each)) for each in dependencies(file)):
        whole.update(name.encode() + b"\0" + content)
    return whole.hexdigest()


@functools.cache
def _remembered() -> dict[str, str]:
    """The stamps of all modules with kernels, worked out once for these sources (0.1 s)."""
    place = cache_directory() / f"stamps-{fingerprint()}.json"
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(place.read_text())
        return found if isinstance(found, dict) else {}
    stamps = {module_name(file): _stamp(file) for file in all_sources() if kernels_in(file)}
    with contextlib.suppress(OSError):  # a cache that cannot be written is reported elsewhere
        rewrite(place, json.dumps(stamps).encode())
    return stamps


def compiled_note(file: Path) -> Path:
    """A file that is there once every kernel of this source is compiled, and says which they are (stamps.py)."""
    return cache_directory() / f"{module_name(file)}-{stamp(file)[:16]}.compiled"


def kernels_in(file: Path) -> int:
    return len(_KERNEL.findall(_text(file)))


def has_inner(file: Path) -> bool:
    """Whether it has functions that are compiled within their callers (sync/compile/jit.py)."""
    return _INNER.search(_text(file)) is not None


def file_of(module: str) -> Path:
    files = _files_of(ROOT, module)
    if not files or module_name(files[-1]) != module:
        raise ModuleNotFoundError(f"no module {module!r} below {ROOT}")
    return files[-1]


def all_sources() -> list[Path]:
    """Every file that may have kernels."""
    return [file for folder in _KERNELS for file in sorted((ROOT / folder).rglob("*.py"))]


def marker(name: str) -> Path:
    return cache_directory() / f"{name}-{fingerprint()}.cached"


@functools.cache
def fingerprint() -> str:
    """A name for all sources together: the same sources on the same type of machine give the same bits."""
    whole = hashlib.sha256()
    for file in all_sources():
        whole.update(file.relative_to(ROOT).as_posix().encode())
        whole.update(digest(file))
    return whole.hexdigest()[:16]
