"""Optional packages: the exact command that installs what is missing, for the interpreter that lacks it.

The distribution has another name: the public package called `tandem` is somebody else's. The command names the packages
of the extra themselves, from pyproject.toml in a checkout or from our own metadata, so that it does the same in a
checkout, in an environment with an installed package, and with an index that does not have our distribution.
"""

import re
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

DISTRIBUTION = "tandem-realtime"
# what each extra is for; chosen when the package is installed: tandem-realtime[page,can]
USES = {
    "page": "the page of a run, of a record, of a mechanism: `tandem drive`, `run`, `demo`, `view`",
    "ni": 'NI-DAQmx: `source.kind = "nidaqmx"`',
    "can": 'a CAN bus by its DBC: `source.kind = "can"`, `tandem import` of its logs',
    "gamepad": 'game wheels and pads: `source.kind = "gamepad"`',
    "midi": "notes of a piano key: `tandem midi`",
    "fit": "parameters from measurements: `tandem identify`, `validate`, `tyre fit`",
    "sweep": "tables of many runs: `tandem sweep`, `fleet`",
    "cluster": "many runs on other hosts: `tandem sweep --cluster`",
    "gpu": "many runs on a GPU of NVIDIA: `tandem sweep --gpu`, `tandem.batch(..., gpu=True)`",
    "learning": "a batch as a vector environment: `tandem.vector_env`",
    "plot": '`tandem plot --to png`, `Plot.save("….png")`',
    "parquet": "`tandem export --to parquet`, `tandem import` of such files",
    "mf4": "`tandem export --to mf4`, `tandem import` of such files",
    "matlab": "`tandem import` of MATLAB files",
    "ros": "`tandem import` of ROS bags",
    "ros2": "`tandem ros2`, and topics of ROS 2 as a source",
    "foxglove": "a run that is going on, in Foxglove: `tandem foxglove`",
    "fmu": "FMUs for other platforms than this one: `tandem fmu --platform`",
}
_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def _checkout() -> dict[str, Any]:
    """The table `project` of the pyproject.toml beside the packages, if they are in a checkout of ours: it is newer
    than what was installed from it."""
    if not _PROJECT.is_file():
        return {}
    project: dict[str, Any] = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
    return project if project.get("name") == DISTRIBUTION else {}


def installed_version() -> str:
    """The version of tandem, such as `0.1.0`."""
    try:
        return str(_checkout().get("version") or version(DISTRIBUTION))
    except PackageNotFoundError:
        return "unknown"


def packages(extra: str) -> list[str]:
    """The packages of an extra, such as `python-can>=4.4`; the extra itself if these cannot be read."""
    if project := _checkout():
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
    """The command that installs the packages of an extra."""
    return install(*packages(extra))
