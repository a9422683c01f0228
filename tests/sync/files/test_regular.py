"""What is no ordinary file is refused in words by every reader of files that somebody names: none waits or reads on."""

import os
import socket
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from sync.config.toml import read_toml, with_overrides
from sync.errors import ConfigError, TandemError
from sync.files.regular import open_regular
from sync.files.token import page_token
from sync.record import open_run


def pipe(path: Path) -> Path:
    os.mkfifo(path, 0o600)
    return path


def bound(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as made, chdir(path.parent):  # its whole path may be too long for a socket
        made.bind(path.name)
    return path


READERS: list[Callable[[Path], Any]] = [read_toml, open_run, page_token]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@pytest.mark.parametrize(
    ("make", "kind"), [(pipe, "a pipe"), (bound, "a socket"), (lambda _: Path("/dev/zero"), "a device")]
)
def test_what_is_no_file_is_named(
    read: Callable[[Path], Any], make: Callable[[Path], Path], kind: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "given")
    with pytest.raises(TandemError, match=rf"{path}: .*is {kind}, a file is expected"):
        read(path)


def test_a_file_is_read_and_what_leads_nowhere_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"text"
    (tmp_path / "circle").symlink_to("circle")
    for name, error in (("circle", OSError), ("nowhere", FileNotFoundError), (".", IsADirectoryError)):
        with pytest.raises(error):
            open_regular(tmp_path / name)


def test_a_message_stays_on_its_line_and_has_an_end(tmp_path: Path) -> None:
    """Whatever the files beside it are called, and however long a key is."""
    (tmp_path / "a\nb.toml").touch()
    for k in range(60):
        (tmp_path / f"f{k}.toml").touch()
    with pytest.raises(ConfigError) as refused:
        read_toml(tmp_path / "nowhere.toml")
    assert "\n" not in str(refused.value) and str(refused.value).endswith(" and 21 more")
    with pytest.raises(ConfigError) as refused:
        with_overrides({}, ["x" * 5000])
    assert len(str(refused.value)) < 400
