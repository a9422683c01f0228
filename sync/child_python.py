"""Python programs that we start: none of them runs code that lies in the working folder.

`python -m` and `python -c` put the working folder first into the path of imports, and so does an empty entry in
PYTHONPATH. A run is often started in a folder of records, which may be somebody else's: a `socket.py` beside them would
be run. Every child therefore has the safe path and finds this package by its absolute place, whether it is installed or
lies in a clone. tandem/__main__.py does the same for the first process, where the interpreter does not.
"""

import os
import site
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def python_command(*words: str) -> list[str]:
    """This interpreter with these arguments; to be started with `python_environment()`."""
    return [sys.executable, "-P", *words]


def python_environment(**more: str) -> dict[str, str]:
    """Ours, with a path that has absolute entries only: what the user has put there, and the place of this package."""
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(place)]
    if ROOT not in map(os.path.realpath, (*places, *site.getsitepackages(), site.getusersitepackages())):
        places.insert(0, ROOT)
    environment = {**os.environ, "PYTHONSAFEPATH": "1", **more}
    environment.pop("PYTHONPATH", None)
    return environment | ({"PYTHONPATH": os.pathsep.join(places)} if places else {})
