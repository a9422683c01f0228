"""Roots of a Debian release, and wheels for the Python in them: what verify/tree/image.py and verify/tree/suite.py are
run in.

Packages come from the mirrors that this host's apt is configured for, wheels from where its pip takes them.
"""

import re
import subprocess
import sys
from pathlib import Path

PYTHON_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


class Broken(Exception):
    """A promise was not kept."""


def ran(*command: str | Path, show: bool = False, limit_s: float = 1800.0) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Broken(f"{command[0]} was not finished after {limit_s / 60:g} minutes") from None
    if done.returncode:
        raise Broken(f"{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr).strip()[-3000:]}")
    return done.stdout + (done.stderr if show else "")


def own_release() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["VERSION_CODENAME"].strip('"')


def own_sources() -> list[str]:
    """Files of apt's sources that have something in them."""
    files = (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*"))
    return [str(file) for file in files if file.is_file() and file.read_text().strip()]


def main_archive(release: str) -> str:
    """The source of that release's main archive, at the mirror of this host's own."""
    here = re.escape(own_release())
    for text in (Path(file).read_text() for file in own_sources()):
        for stanza in re.split(r"\n\s*\n", text):
            lines = dict(line.split(": ", 1) for line in stanza.splitlines() if re.match(r"\w[\w-]*: ", line))
            if own_release() in lines.get("Suites", "").split():
                return f"deb {lines['URIs'].split()[0]} {release} main"
        if found := re.search(rf"(?m)^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+{here}\s+main\b", text):
            return f"deb {found[1]} {release} main"
    raise Broken(
        f"apt has no source of {own_release()}, at whose mirror {release} would be looked for; --mirror names one"
    )


def make_root(target: Path, release: str, included: str, sources: list[str]) -> None:
    """A folder, or a tar file if it is called so."""
    target.parent.mkdir(parents=True, exist_ok=True)
    ran("mmdebstrap", "--variant=minbase", f"--include={included}", release, target, *sources)


def fetch_wheels(version: str, requirements: Path, wheels: Path) -> Path:
    """For that Python on this kind of machine, by the pip of this host and its configuration."""
    ran(
        sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--only-binary=:all:",
        "--python-version", version, "--requirement", requirements, "--dest", wheels,
    )  # fmt: skip
    return wheels
