"""The tests on another release of Debian and its Python: `make test` in a root of it that has this tree in it.

    python -m verify.tree.suite                      everything on Debian 13 (Python 3.13); half an hour on two cores
    python -m verify.tree.suite -- tests/sync        these tests
    python -m verify.tree.suite --folder F --keep    the root stays in F, with what is installed and compiled in it
                                                and is taken from there next time; the tree is brought up to date

As root, with mmdebstrap and git installed. The root is made from the main archive of the release; wheels are fetched by
this host's pip beforehand, with the hashes of requirements-dev.txt, so that what runs inside needs no network and has
none but a loopback of its own. Processes, shared memory and /tmp are its own as well. Exit code: that of `make test`; 2
without a tool, without root, or where no such root can be made.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from verify import ROOT
from verify.tree.debian_root import PYTHON_VERSION, Broken, fetch_wheels, main_archive, make_root, ran

TOOLS = ("mmdebstrap", "git", "unshare")
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="trixie", help="of Debian (default: trixie, which is 13)")
    parser.add_argument(
        "--mirror", help="as apt has it, such as 'deb URL trixie main' (default: this host's own mirror)"
    )
    parser.add_argument("--folder", type=Path, help="for the root, 4 GB (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="leave the folder, and take the root from it next time")
    parser.add_argument("tests", nargs="*", help="for pytest, behind --; everything without them")
    asked = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid():
        print(f"not run: needs {', '.join(missing) or 'root'}", file=sys.stderr)
        return 2
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="tandem-suite-"))
    root = folder / asked.release
    try:
        if not (root / "tandem" / ".tree").exists():
            make_root(root, asked.release, INCLUDED, [asked.mirror or main_archive(asked.release)])
            (root / "tandem").mkdir()
        version = ran("chroot", root, "python3", "-c", PYTHON_VERSION).strip()
        fetch_wheels(version, ROOT / "requirements-dev.txt", root / "wheels")
        copy_tree(root / "tandem")
        print(f"Debian {asked.release}, Python {version}", flush=True)
        return inside(root, "make", "--directory", "/tandem", "test", f"ARGS={' '.join(asked.tests)}")
    except Broken as error:
        print(f"BROKEN   {error}", file=sys.stderr)
        return 2
    finally:
        if not asked.keep:
            shutil.rmtree(root if asked.folder else folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
