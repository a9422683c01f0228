"""Write the hashes of every pinned package into requirements.txt and requirements-dev.txt.

    python -m verify pins --write    after a version in one of the files was changed
    python -m verify pins            whether the files are what would be written

`make drive` and `make test` install with --require-hashes: a file that is not named here is refused, whichever index it
comes from. Hashes are those that the configured package index states; named are the wheels for Linux on x86_64 and
aarch64 and the versions of Python below, and the source archive where one of those has no wheel, which is printed: that
one needs a compiler where it is installed. The versions stay as they are in the files: this script chooses none.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pip._internal.commands import create_command
from pip._internal.index.collector import LinkCollector, parse_links
from pip._internal.models.link import Link
from pip._vendor.packaging.tags import Tag, compatible_tags, cpython_tags
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from pip._vendor.packaging.version import Version

from verify import ROOT
from verify.measure import Row, holds, note

FILES = ("requirements.txt", "requirements-dev.txt")
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
MACHINES = ("x86_64", "aarch64")
_PINNED = re.compile(r"^([A-Za-z0-9._-]+(?:\[[a-z0-9,_-]+\])?)==([^\s\\;]+)( *;[^\\]*?)?\s*\\?$")
_NEWEST_GLIBC = 39  # of Ubuntu 24.04


Served = dict[tuple[str, str], set[Tag]]


def served_tags() -> Served:
    """For every Python on every machine: the tags of wheels it takes."""
    served: Served = {}
    for version, machine in itertools.product(PYTHONS, MACHINES):
        platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(_NEWEST_GLIBC, 16, -1)]
        platforms += [f"manylinux2014_{machine}", f"linux_{machine}"]
        platforms += [f"manylinux{year}_{machine}" for year in ("2010", "1")]
        platforms += [f"manylinux_2_{minor}_{machine}" for minor in range(16, 4, -1)]
        interpreter = f"cp{version[0]}{version[1]}"
        tags = {*cpython_tags(version, platforms=platforms), *compatible_tags(version, interpreter, platforms)}
        served[f"{version[0]}.{version[1]}", machine] = tags
    return served


def hashes(collector: LinkCollector, index: str, name: str, version: str, served: Served) -> list[str]:
    page = collector.fetch_response(Link(f"{index.rstrip('/')}/{canonicalize_name(name.partition('[')[0])}/"))
    if page is None:
        raise SystemExit(f"{name}: the package index has no page of it")
    wheels: dict[str, frozenset[Tag]] = {}
    archives = []
    for link in parse_links(page):
        found = _sha256(link)
        if link.filename.endswith(".whl") and _version_of(link.filename, parse_wheel_filename) == Version(version):
            wheels[found] = parse_wheel_filename(link.filename)[3]
        elif _version_of(link.filename, parse_sdist_filename) == Version(version):
            archives.append(found)
    wanted = {found for found, tags in wheels.items() if any(tags & each for each in served.values())}
    missing = [where for where, tags in served.items() if not any(wheels[found] & tags for found in wanted)]
    if missing:
        places = ", ".join(f"Python {python} on {machine}" for python, machine in missing)
        note(f"{name}=={version}: no wheel for {places}; its source archive is built there")
    chosen = sorted({*wanted, *(archives if missing else ())})
    if not chosen:
        raise SystemExit(f"{name}=={version}: the package index has no file of this version that could be installed")
    return chosen


def _sha256(link: Any) -> str:
    if link.hash_name != "sha256":
        raise SystemExit(f"{link.filename}: the package index states no SHA-256 of it")
    return str(link.hash)


def _version_of(filename: str, parse: Any) -> Version | None:
    try:
        found: Version = parse(filename)[1]
    except ValueError:  # a file of another kind, or from before names had a rule
        return None
    return found


def pinned(text: str) -> Iterator[str | tuple[str, str, str]]:
    """Lines to keep, and (name, version, what follows: where it is needed at all)."""
    for line in text.splitlines():
        found = _PINNED.match(line)
        if found:
            yield found[1], found[2], found[3] or ""
        elif not line.lstrip().startswith("--hash"):
            yield line


def pins(*, write: Annotated[bool, "write what differs"] = False) -> Iterator[Row]:
    command: Any = create_command("download")
    options, _ = command.parse_args(["nothing"])  # pip's own settings: index, certificates, proxy
    served = served_tags()
    with command.main_context():
        collector = LinkCollector.create(command.get_default_session(options), options=options)
        for file in (ROOT / name for name in FILES):
            lines = []
            for entry in pinned(file.read_text()):
                if isinstance(entry, str):
                    lines.append(entry)
                    continue
                name, version, where = entry
                found = hashes(collector, options.index_url, name, version, served)
                stated = [f"{name}=={version}{where}", *(f"    --hash=sha256:{each}" for each in found)]
                lines.append(" \\\n".join(stated))
            text = "\n".join(lines) + "\n"
            changed = text != file.read_text()
            if changed and write:
                file.write_text(text)
            yield holds(f"{file.name}: {text.count('--hash')} hashes are those of the index", not changed or write)
