"""Another user of this machine: a function that is run as nobody, in a process of its own."""

import json
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest

_NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def as_stranger(what: Callable[[], Any]) -> Any:
    """What `what` returns there, through JSON; an exception there is one here."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the fork uses none
        pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
            answer = [True, what()]
        except BaseException as error:
            answer = [False, f"{type(error).__name__}: {error}"]
        with open(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        fine, found = json.load(pipe)
    os.waitpid(pid, 0)
    assert fine, found
    return found


def command_lines() -> str:
    """Of all processes that this user can see."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found.append(file.read().decode(errors="replace"))
            except OSError:
                continue
    return "\n".join(found)


def environment_of(pid: int) -> str:
    """What this user can read of the environment of a process; empty if nothing."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
