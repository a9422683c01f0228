"""The image is really built, a drive runs in it, and the unit runs under a real systemd: no Docker engine, no registry.

As root, with buildah, mmdebstrap and systemd-container installed. A base is made from the packages of this host's own
distribution and mirrors; wheels are fetched by this host's pip, from wherever it is configured to take them, and handed
to the build as a folder. docker/Dockerfile is built on that base, and

    drive       `tandem drive` in a container, as its user and without a capability: the record is whole, every second
                has its steps
    compose     docker/compose.yaml read by docker-compose, against its schema (left out, and noted, where it is absent)
    unit        deploy/tandem.service verified by systemd-analyze, then booted in the image by systemd-nspawn: it gets
                ready, its supervisor is killed and comes back, it stops in order; both records open

The unit is changed in one word, for there is no device in a container: drive.toml instead of onboard.toml.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from sync.record import open_run
from verify import ROOT
from verify.measure import Row, holds
from verify.tree.debian_root import (
    PYTHON_VERSION,
    Broken,
    fetch_wheels,
    make_root,
    own_release,
    own_sources,
    ran,
)

# what the image needs, and a systemd to boot
INCLUDED = "python3,python3-venv,systemd,systemd-sysv,dbus"
BASE, IMAGE = "localhost/tandem-base", "localhost/tandem"
PROBE = """#!/bin/sh
# made by verify/tree/image.py: what is asked of the unit, inside
exec > /probe.log 2>&1
systemctl start tandem && echo ready
sleep SECONDS
systemctl kill --kill-whom=main --signal=KILL tandem
until [ "$(systemctl show tandem -P NRestarts)" = 1 ] && systemctl is-active --quiet tandem; do sleep 0.1; done
echo restarted
sleep SECONDS
systemctl stop tandem
systemctl show tandem -p Result -p ExecMainStatus
journalctl --unit tandem --no-pager --output cat > /journal.log
systemctl poweroff
"""
PROBE_UNIT = """[Unit]
After=basic.target dbus.socket
[Service]
Type=oneshot
TimeoutStartSec=500
ExecStart=/probe.sh
[Install]
WantedBy=multi-user.target
"""


class Images:
    """buildah with storage of its own, which needs neither an overlay nor a daemon."""

    def __init__(self, folder: Path):
        self._own = (
            "buildah", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs"
        )  # fmt: skip

    def __call__(self, *words: str | Path, show: bool = False) -> str:
        return ran(*self._own, *words, show=show).strip()

    def container(self, image: str) -> str:
        return self("from", "--pull=false", image)


def make_base(images: Images, folder: Path) -> None:
    tar = folder / "base.tar"
    make_root(tar, own_release(), INCLUDED, own_sources())
    container = images("from", "scratch")
    images("add", container, tar, "/")
    images("commit", container, BASE)
    images("rm", container)
    tar.unlink()


def wheels_of_base(images: Images, folder: Path) -> Path:
    container = images.container(BASE)
    version = images("run", "--isolation", "chroot", container, "--", "python3", "-c", PYTHON_VERSION)
    images("rm", container)
    return fetch_wheels(version, ROOT / "requirements.txt", folder / "wheels")


def build(images: Images, wheels: Path) -> str:
    output = images(
        "build", "--isolation", "chroot", "--layers=false", "--pull=false", "--file", ROOT / "docker" / "Dockerfile",
        "--ignorefile", ROOT / ".dockerignore", "--build-arg", f"BASE={BASE}", "--build-arg", "PIP_NO_INDEX=1",
        "--build-arg", "PIP_FIND_LINKS=/wheels", "--volume", f"{wheels}:/wheels:ro", "--tag", IMAGE, ROOT, show=True,
    )  # fmt: skip
    if "not consumed" in output:
        raise Broken("docker/Dockerfile does not take an argument that it was given")
    return "built; the machine of configs/drive.toml is compiled in it"


def check_record(folder: Path, seconds: float, whole: bool = True) -> str:
    """Raises Broken unless it opens, is as whole as it should be, and has half the steps of that time, 5 ms each, or
    more: other things may run on this machine."""
    run = open_run(folder)
    steps = len(run.topics["/step"]) if "/step" in run.topics else 0
    if steps < 0.5 * seconds / 0.005:
        raise Broken(f"{folder}: {steps} steps in {seconds:g} s")
    if run.losses or (whole and run.cut):
        raise Broken(f"{folder}: {run.cut or ''} {'; '.join(run.losses)}")
    return f"{steps} steps"


def drive(images: Images, seconds: float) -> str:
    container = images.container(IMAGE)
    words = ("run", "--isolation", "chroot", "--cap-drop", "all", container, "--")
    user = images(*words, "id", "-u")
    if user != "1000":
        raise Broken(f"the container runs as user {user}")
    begin = time.monotonic()
    output = images(*words, "tandem", "drive", "--seconds", f"{seconds:g}", "--runs", "/runs", show=True)
    took = time.monotonic() - begin
    if "compiling" in output:
        raise Broken("a drive in the image compiles: docker/Dockerfile did not compile what it needs")
    place = Path(images("mount", container))
    (run,) = (place / "runs").iterdir()
    found = check_record(run, seconds)
    images("umount", container)
    images("rm", container)
    return f"{found} in {seconds:g} s as user 1000 without capabilities, {took:.0f} s with start and report"


def compose() -> str:
    if shutil.which("docker-compose") is None:
        return "NOT CHECKED against its schema: docker-compose is not installed (tests/test_deploy.py parses it)"
    ran("docker-compose", "--file", ROOT / "docker" / "compose.yaml", "config", "--quiet")
    return "valid against its schema"


def unit(images: Images, seconds: float) -> str:
    container = images.container(IMAGE)
    place = Path(images("mount", container))
    shutil.copytree(ROOT / "configs", place / "etc" / "tandem")
    (place / "opt" / "tandem" / "docs").mkdir(exist_ok=True)
    units = place / "etc" / "systemd" / "system"
    text = (ROOT / "deploy" / "tandem.service").read_text()
    (units / "tandem.service").write_text(text.replace("/etc/tandem/onboard.toml", "/etc/tandem/drive.toml"))
    output = ran("chroot", place, "systemd-analyze", "verify", "/etc/systemd/system/tandem.service", show=True)
    if "tandem.service" in output:
        raise Broken(f"systemd-analyze verify: {output.strip()}")
    # what the image has compiled, where the unit looks for it
    cache = place / "var" / "cache" / "tandem"
    ran("chroot", place, "install", "-d", "-o", "tandem", "/var/cache/tandem")
    ran("cp", "--archive", place / "opt" / "tandem" / ".cache", cache / "tandem")
    (place / "probe.sh").write_text(PROBE.replace("SECONDS", f"{seconds:g}"))
    (place / "probe.sh").chmod(0o755)
    (units / "probe.service").write_text(PROBE_UNIT)
    ran("chroot", place, "systemctl", "enable", "probe")
    ran(
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--link-journal=no",
        "--capability=CAP_SYS_NICE,CAP_IPC_LOCK", "--rlimit=RLIMIT_RTPRIO=98", "--console=pipe",
        "--boot", f"--directory={place}", limit_s=600.0,
    )  # fmt: skip
    log, journal = (place / "probe.log").read_text(), (place / "journal.log").read_text()
    for promised in ("ready", "restarted", "Result=success"):
        if promised not in log:
            raise Broken(f"the unit: no {promised!r} in what systemctl says:\n{log}\n{journal[-3000:]}")
    runs = sorted((place / "var" / "lib" / "tandem" / "runs").iterdir())
    if len(runs) != 2:
        raise Broken(f"the unit: two runs are expected, a killed and a stopped one: {[run.name for run in runs]}")
    killed, stopped = check_record(runs[0], seconds, whole=False), check_record(runs[1], seconds)
    images("umount", container)
    images("rm", container)
    return f"verified; ready, killed after {killed}, restarted, stopped in order after {stopped}"


def image(
    *,
    seconds: Annotated[float, "of each drive"] = 5.0,
    folder: Annotated[Path | None, "for storage, 4 GB; else a temporary one"] = None,
    keep: Annotated[bool, "leave the folder, and take base and image from it next time"] = False,
) -> Iterator[Row]:
    place = folder or Path(tempfile.mkdtemp(prefix="tandem-image-"))
    place.mkdir(parents=True, exist_ok=True)
    images = Images(place)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("drive", lambda: drive(images, seconds)),
        ("compose", compose),
        ("unit", lambda: unit(images, seconds)),
    ]
    try:
        if not (images("images", "--quiet") if keep else ""):
            make_base(images, place)
            steps.insert(0, ("image", lambda: build(images, wheels_of_base(images, place))))
        for name, step in steps:
            try:
                yield holds(name, True, step())
            except Broken as error:
                yield holds(name, False, error)
                return
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)
