"""The tests on another release of Debian and its Python: `make test` in a root of it that has this tree in it.

    python -m verify suite                           everything on Debian 13 (Python 3.13); half an hour on two cores
    python -m verify suite --tests tests/sync        these tests
    python -m verify suite --folder F --keep         the root stays in F, with what is installed and compiled in it and
                                                     is taken from there next time; the tree is brought up to date

As root, with mmdebstrap and git installed. The root is made from the main archive of the release; wheels are fetched by
this host's pip beforehand, with the hashes of requirements-dev.txt, so that what runs inside needs no network and has
none but a loopback of its own. Processes, shared memory and /tmp are its own as well.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from verify import ROOT
from verify.measure import NotHere, Row, equal
from verify.tree.debian_root import PYTHON_VERSION, Broken, fetch_wheels, main_archive, make_root, ran

# what tests use where it is there: a compiler for FMUs and rings in C, network namespaces, systemd-analyze, libraries
# of the game controllers, a browser
INCLUDED = "python3,python3-venv,make,gcc,g++,libc6-dev,git,iproute2,procps,systemd,libgl1,libegl1,chromium"
# a view of the machine of its own, whose root is a mount as roots are; the mounts end with it
ENTER = """
mount --bind "$0" "$0" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/dev/shm" &&
mount -t tmpfs tmpfs "$0/tmp" && mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" &&
chroot "$0" ip link set lo up && exec chroot "$0" "$@"
"""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
    "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels",
}  # fmt: skip


def inside(root: Path, *command: str) -> int:
    own = ("unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child")
    words = [*own, "sh", "-c", ENTER, str(root), *command]
    return subprocess.run(words, env=ENVIRONMENT, check=False).returncode


def copy_tree(target: Path) -> None:
    """Files that git knows, as they are now; those that are no longer there go."""
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, check=True, capture_output=True).stdout
    names = [name for name in os.fsdecode(listed).split("\0") if name and (ROOT / name).is_file()]
    before = target / ".tree"
    for name in set(before.read_text().split("\0")) - {*names, ""} if before.exists() else ():
        (target / name).unlink(missing_ok=True)
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    before.write_text("\0".join(names))


def suite(
    *,
    release: Annotated[str, "of Debian"] = "trixie",
    mirror: Annotated[str, "as apt has it, such as 'deb URL trixie main'; else this host's own"] = "",
    folder: Annotated[Path | None, "for the root, 4 GB; else a temporary one"] = None,
    keep: Annotated[bool, "leave the folder, and take the root from it next time"] = False,
    tests: Annotated[tuple[str, ...], "for pytest; everything without them"] = (),
) -> Iterator[Row]:
    place = folder or Path(tempfile.mkdtemp(prefix="tandem-suite-"))
    root = place / release
    try:
        if not (root / "tandem" / ".tree").exists():
            make_root(root, release, INCLUDED, [mirror or main_archive(release)])
            (root / "tandem").mkdir()
        version = ran("chroot", root, "python3", "-c", PYTHON_VERSION).strip()
        fetch_wheels(version, ROOT / "requirements-dev.txt", root / "wheels")
        copy_tree(root / "tandem")
        code = inside(root, "make", "--directory", "/tandem", "test", f"ARGS={' '.join(tests)}")
        yield equal(f"Debian {release}, Python {version}: exit code of `make test`", code, 0)
    except Broken as error:
        raise NotHere(str(error)) from None
    finally:
        if not keep:
            shutil.rmtree(root if folder else place, ignore_errors=True)
