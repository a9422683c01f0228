"""Optional packages: the very command that installs what is missing, for the interpreter that misses it.

The distribution has a name of its own: a public package called `tandem` is somebody else's. The command names the
packages of the extra themselves, as pyproject.toml of a checkout or our own metadata has them, so that it does the same
in a checkout, in an environment with an installed package, and without an index that has us.
"""

import re
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

DISTRIBUTION = "tandem-realtime"
_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def packages(extra: str) -> list[str]:
    """What an extra consists of, such as `python-can>=4.4`; the extra itself where that cannot be read."""
    if _PROJECT.is_file():
        project = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == DISTRIBUTION:  # newer than what was installed from it
            return list(project.get("optional-dependencies", {}).get(extra, [])) or [f"{DISTRIBUTION}[{extra}]"]
    try:
        stated = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return [f"{DISTRIBUTION}[{extra}]"]
    found = [each.partition(";") for each in stated]
    needed = [need.strip() for need, _, marker in found if extra in _EXTRA.findall(marker)]
    return needed or [f"{DISTRIBUTION}[{extra}]"]


def install(*wanted: str) -> str:
    """The command that installs these packages here."""
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def install_extra(extra: str) -> str:
    """The command that installs what an extra consists of."""
    return install(*packages(extra))
